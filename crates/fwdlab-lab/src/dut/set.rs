//! Configurations of a DUT: a command, a file, or a directory of files, as people type them.
//!
//! Here they are read; how a DUT applies them is in its own file, for Linux `linux/apply.rs`. Start with [`Configuration::parse`].

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::LabError;

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
pub(super) enum Step {
    /// A text for `sh`.
    Shell(String),
    /// A program or script to run.
    Execute(PathBuf),
    /// Rules for `nft -f`.
    Nft(PathBuf),
    /// `name = value` lines, as in sysctl.d.
    Sysctl(PathBuf),
    /// Lines for the command line of VPP.
    Vpp(PathBuf),
}

impl Configuration {
    /// Reads what was typed: the path of a file or directory if there is one of that name, else a shell command.
    ///
    /// - a file `*.nft` or `nftables.conf` is loaded by `nft -f`, `*.conf` with `name = value` lines is sysctls, `*.vpp` is lines of
    ///   VPP's command line, anything else that can be executed is run, and the rest is given to `sh`;
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
                        "this directory contains none of etc/sysctl.d/*.conf, etc/sysctl.conf, etc/nftables.conf or an \
                         executable `apply`".into(),
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

    /// Files and directories it came from, to be kept with the run.
    pub fn inputs(&self) -> &[PathBuf] {
        &self.inputs
    }

    /// The words of its scripts and commands, which name programs and modules among other things. Comments do not count.
    pub(crate) fn words(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for step in &self.steps {
            let text = match step {
                Step::Shell(text) => text.clone(),
                // what is no text names nothing that could be found in it
                Step::Execute(path) => fs::read_to_string(path).unwrap_or_default(),
                Step::Nft(_) => "nft".into(),
                Step::Sysctl(_) | Step::Vpp(_) => continue,
            };
            let lines = text.lines().filter(|line| !line.trim().starts_with('#'));
            let words = lines.flat_map(|line| {
                line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.')))
            });
            found.extend(words.map(str::to_owned));
        }
        found
    }

    /// What is done one after the other.
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }
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
    } else if name.ends_with(".vpp") {
        Step::Vpp(path.to_owned())
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
        fs::write(at("c.vpp"), "show version\n").unwrap();
        fs::write(at("plain"), "true\n").unwrap();
        fs::write(at("script"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(at("script"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(steps(&at("a.nft")), [Step::Nft(at("a.nft"))]);
        assert_eq!(steps(&at("b.conf")), [Step::Sysctl(at("b.conf"))]);
        assert_eq!(steps(&at("c.vpp")), [Step::Vpp(at("c.vpp"))]);
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
        fs::write(at("plain"), "# not ipset\nx=$(wg genkey); nft-x\n").unwrap();
        let names = |program: &str| parse(&at("plain")).unwrap().words().contains(program);
        assert!(names("wg") && !names("ipset") && !names("nft") && !names("gen"));
        assert!(parse(&at("a.nft")).unwrap().words().contains("nft"));

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
}
