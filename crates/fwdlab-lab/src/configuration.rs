//! Configurations of a DUT: a command, a file, or a directory of files, applied inside the DUT's namespace.
//!
//! A configuration runs as root of the namespace with the DUT's interfaces as `eth0` (input) and `eth1` (output), also in
//! `$FWDLAB_IN` and `$FWDLAB_OUT`. It runs apart from the host, see [`crate::host::netns`], and is undone by removing the namespace.
//! Start with [`Configuration::parse`].

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bed::Bed;
use crate::error::LabError;
use crate::host::{Command, Host, Limit, quoted};
use crate::run::Control;

/// A configuration must be applied within this time.
const LIMIT: Duration = Duration::from_secs(60);

/// What every shell knows.
const PORTS: &str = "export FWDLAB_IN=eth0 FWDLAB_OUT=eth1\n";

/// Something to apply to a DUT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// As typed.
    pub name: String,
    steps: Vec<Step>,
    inputs: Vec<PathBuf>,
}

/// One step, in the order of application.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// A text for `sh`.
    Shell(String),
    /// A program or script to run.
    Execute(PathBuf),
    /// Rules for `nft -f`.
    Nft(PathBuf),
    /// `name = value` lines, as in sysctl.d.
    Sysctl(PathBuf),
}

impl Configuration {
    /// Reads what was typed: the path of a file or directory if there is one of that name, else a shell command.
    ///
    /// - a file `*.nft` or `nftables.conf` is loaded by `nft -f`, `*.conf` with `name = value` lines is sysctls, anything
    ///   else that can be executed is run, and the rest is given to `sh`;
    /// - a directory is a configuration set: `etc/sysctl.d/*.conf`, `etc/sysctl.conf`, then `etc/nftables.conf`, then an
    ///   executable `apply`. A set with none of them is an error.
    ///
    /// # Errors
    /// An empty text, a path that does not exist, or a directory that is no configuration set.
    pub fn parse(typed: &str) -> Result<Configuration, LabError> {
        let bad = |reason: String| LabError::Configuration {
            name: typed.to_owned(),
            reason,
        };
        if typed.trim().is_empty() {
            return Err(bad(
                "it is empty; give a command in quotes, a file, or a directory".into(),
            ));
        }
        let path = Path::new(typed);
        let looks_like_path = !typed.contains(char::is_whitespace) && typed.contains('/');
        let (steps, inputs) = match fs::metadata(path) {
            Ok(kind) if kind.is_dir() => {
                let steps = steps_of_set(path).map_err(|e| bad(e.to_string()))?;
                if steps.is_empty() {
                    return Err(bad(
                        "this directory has none of etc/sysctl.d/*.conf, etc/sysctl.conf, etc/nftables.conf and an executable `apply`".into(),
                    ));
                }
                (steps, vec![path.to_owned()])
            }
            Ok(_) => (
                vec![step_of_file(path).map_err(|e| bad(e.to_string()))?],
                vec![path.to_owned()],
            ),
            Err(e) if looks_like_path => return Err(bad(format!("{e}"))),
            Err(_) => (vec![Step::Shell(typed.to_owned())], Vec::new()),
        };
        Ok(Configuration {
            name: typed.to_owned(),
            steps,
            inputs,
        })
    }

    /// Several things under one name, one after the other. Files and directories that are there in `folder` are taken from there.
    ///
    /// # Errors
    /// As [`Configuration::parse`], of the first that is wrong.
    pub fn named(name: &str, parts: &[String], folder: &Path) -> Result<Configuration, LabError> {
        let mut whole = Configuration {
            name: name.to_owned(),
            steps: Vec::new(),
            inputs: Vec::new(),
        };
        for part in parts {
            let beside = folder.join(part);
            let looks_like_path = !part.contains(char::is_whitespace) && part.contains('/');
            let typed = match beside.to_str() {
                Some(path) if looks_like_path || beside.exists() => path,
                _ => part,
            };
            let one = Configuration::parse(typed)?;
            whole.steps.extend(one.steps);
            whole.inputs.extend(one.inputs);
        }
        Ok(whole)
    }

    /// A command under a name.
    pub(crate) fn command(name: &str, text: &str) -> Configuration {
        Configuration {
            name: name.to_owned(),
            steps: vec![Step::Shell(text.to_owned())],
            inputs: Vec::new(),
        }
    }

    /// Files and directories it came from, to be kept with the run.
    pub fn inputs(&self) -> &[PathBuf] {
        &self.inputs
    }

    /// Applies it to a DUT; returns what the steps printed.
    ///
    /// # Errors
    /// A step failed, or took longer than a minute, or was stopped.
    pub fn apply(&self, bed: &Bed, dut: usize, control: &Control) -> Result<String, LabError> {
        let mut said = String::new();
        for step in &self.steps {
            let output =
                self.apply_step(step, bed.place(dut), control)
                    .map_err(|error| match error {
                        LabError::Interrupted => LabError::Interrupted,
                        source => LabError::NotApplied {
                            name: self.name.clone(),
                            source: Box::new(source),
                        },
                    })?;
            said.push_str(&output);
        }
        Ok(said)
    }

    fn apply_step(
        &self,
        step: &Step,
        place: &dyn Host,
        control: &Control,
    ) -> Result<String, LabError> {
        let put = |path: &Path| Ok::<_, LabError>(quoted(&place.put(path)?).into_owned());
        let script = match step {
            Step::Shell(text) => text.clone(),
            Step::Execute(path) => format!("exec {}", put(path)?),
            Step::Nft(path) => format!("exec nft -f {}", put(path)?),
            Step::Sysctl(path) => sysctl_script(path)?,
        };
        let limit = Limit {
            time: LIMIT,
            is_stopped: &|| control.is_stopped(),
        };
        shell(place, &script, limit)
    }
}

/// Has `sh` carry out a text on a DUT, as it does for every configuration; returns what it printed.
pub(crate) fn shell(place: &dyn Host, script: &str, limit: Limit<'_>) -> Result<String, LabError> {
    let command = Command::shell(&format!("{PORTS}{script}")).called(script.trim());
    Ok(place.run(&command, limit)?.text())
}

fn steps_of_set(directory: &Path) -> std::io::Result<Vec<Step>> {
    let mut steps = Vec::new();
    let dropins = directory.join("etc/sysctl.d");
    if dropins.is_dir() {
        let mut files: Vec<PathBuf> = fs::read_dir(&dropins)?
            .map(|entry| entry.map(|e| e.path()))
            .collect::<Result<_, _>>()?;
        files.retain(|f| f.extension().is_some_and(|e| e == "conf"));
        files.sort();
        steps.extend(files.into_iter().map(Step::Sysctl));
    }
    let sysctl = directory.join("etc/sysctl.conf");
    if sysctl.is_file() {
        steps.push(Step::Sysctl(sysctl));
    }
    let rules = directory.join("etc/nftables.conf");
    if rules.is_file() {
        steps.push(Step::Nft(rules));
    }
    let apply = directory.join("apply");
    if is_executable(&apply) {
        steps.push(Step::Execute(apply));
    }
    Ok(steps)
}

fn step_of_file(path: &Path) -> std::io::Result<Step> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(if name.ends_with(".nft") || name == "nftables.conf" {
        Step::Nft(path.to_owned())
    } else if name.ends_with(".conf") {
        Step::Sysctl(path.to_owned())
    } else if is_executable(path) {
        Step::Execute(path.to_owned())
    } else {
        Step::Shell(fs::read_to_string(path)?)
    })
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
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
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_people_type_is_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let parse = |p: &Path| Configuration::parse(p.to_str().unwrap());
        let steps = |p: &Path| parse(p).unwrap().steps;
        fs::write(at("a.nft"), "").unwrap();
        fs::write(at("b.conf"), "net.ipv4.ip_forward=1\n").unwrap();
        fs::write(at("plain"), "true\n").unwrap();
        fs::write(at("script"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(at("script"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(steps(&at("a.nft")), [Step::Nft(at("a.nft"))]);
        assert_eq!(steps(&at("b.conf")), [Step::Sysctl(at("b.conf"))]);
        assert_eq!(steps(&at("plain")), [Step::Shell("true\n".into())]);
        assert_eq!(steps(&at("script")), [Step::Execute(at("script"))]);
        assert_eq!(
            Configuration::parse("nft add table ip t").unwrap().steps,
            [Step::Shell("nft add table ip t".into())]
        );

        for bad in [
            "",
            "  ",
            "/no/such/file",
            directory.path().to_str().unwrap(),
        ] {
            let error = Configuration::parse(bad).unwrap_err().to_string();
            assert!(error.starts_with("configuration `"), "{error}");
        }
        fs::create_dir_all(at("etc/sysctl.d")).unwrap();
        for file in ["20.conf", "10.conf", "x.bak"] {
            fs::write(at("etc/sysctl.d").join(file), "").unwrap();
        }
        fs::write(at("etc/nftables.conf"), "").unwrap();
        assert_eq!(
            steps(directory.path()),
            [
                Step::Sysctl(at("etc/sysctl.d/10.conf")),
                Step::Sysctl(at("etc/sysctl.d/20.conf")),
                Step::Nft(at("etc/nftables.conf")),
            ]
        );
    }

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
