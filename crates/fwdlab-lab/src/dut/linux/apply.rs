//! Applying configurations to a Linux DUT: every step of one becomes a text for `sh`.
//!
//! A configuration runs as root with the DUT's ports in `$FWDLAB_IN` and `$FWDLAB_OUT`. What it does is its own: fwdlab takes nothing of it
//! back, but for what goes with the host. Start with [`Linux::apply_all`].

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::Linux;
use crate::dut::set::{Configuration, Step};
use crate::error::LabError;
use crate::host::{Command, Limit, quoted};
use crate::run::Control;

/// What users want to run on a DUT must end within this time, where nothing else is said.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

impl Linux {
    /// Carries out all steps; returns what they printed.
    pub(super) fn apply_all(
        &self,
        configuration: &Configuration,
        control: &Control,
    ) -> Result<String, LabError> {
        let limit = Limit {
            time: self.patience,
            is_stopped: &|| control.is_stopped(),
        };
        let mut said = String::new();
        for step in configuration.steps() {
            let output = self.script(step).and_then(|text| self.shell(&text, limit));
            said += &output.map_err(|error| match error {
                LabError::Interrupted => LabError::Interrupted,
                source => LabError::NotApplied {
                    name: configuration.name.clone(),
                    source: Box::new(source),
                },
            })?;
        }
        Ok(said)
    }

    fn script(&self, step: &Step) -> Result<String, LabError> {
        let put = |path: &Path| Ok::<_, LabError>(quoted(&self.place.put(path)?).into_owned());
        Ok(match step {
            Step::Shell(text) => text.clone(),
            Step::Execute(path) => format!("exec {}", put(path)?),
            Step::Nft(path) => format!("exec nft -f {}", put(path)?),
            Step::Sysctl(path) => sysctl_script(path)?,
            Step::Vpp(path) => {
                return Err(LabError::Configuration {
                    name: path.display().to_string(),
                    reason: "these are lines of VPP's command line, and this DUT is Linux".into(),
                });
            }
        })
    }

    /// Has `sh` carry out a text of the user's; returns what it printed.
    pub(super) fn shell(&self, script: &str, limit: Limit<'_>) -> Result<String, LabError> {
        Ok(self.place.run(&self.users_command(script), limit)?.text())
    }

    /// A text of the user's, with what every shell knows.
    pub(super) fn users_command(&self, script: &str) -> Command {
        let [input, output] = &self.ports;
        let ports = format!("export FWDLAB_IN={input} FWDLAB_OUT={output}\n");
        Command::shell(&format!("{ports}{script}")).called(script.trim())
    }
}

/// `net.ipv4.ip_forward = 1` becomes a write below `/proc/sys`; a leading `-` means that failing is fine (sysctl.d(5)).
fn sysctl_script(path: &Path) -> Result<String, LabError> {
    let what = || format!("read {}", path.display());
    let text = fs::read_to_string(path).map_err(|e| LabError::system(what(), e))?;
    let mut script = String::from("set -e\n");
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return Err(LabError::Configuration {
                name: path.display().to_string(),
                reason: format!("line {} is not `name = value`: {line}", number + 1),
            });
        };
        let (optional, name) = match name.trim().strip_prefix('-') {
            Some(rest) => (" || :", rest.trim()),
            None => ("", name.trim()),
        };
        let file = name.replace('.', "/").replace('\'', "");
        let value = value.trim().replace('\'', r"'\''");
        script += &format!("echo '{value}' > '/proc/sys/{file}'{optional}\n");
    }
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctl_files_become_writes() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.conf");
        fs::write(
            &file,
            "# comment\n net.ipv4.tcp_mem = 1 2 3\n-net.x.y=it's\n\n",
        )
        .unwrap();
        let script = sysctl_script(&file).unwrap();
        assert!(
            script.contains("echo '1 2 3' > '/proc/sys/net/ipv4/tcp_mem'\n"),
            "{script}"
        );
        assert!(
            script.contains(r"echo 'it'\''s' > '/proc/sys/net/x/y' || :"),
            "{script}"
        );
        fs::write(&file, "no equals sign\n").unwrap();
        assert!(
            sysctl_script(&file)
                .unwrap_err()
                .to_string()
                .contains("line 1")
        );
    }
}
