//! Configurations of a DUT, as users type them: a command, a file, a directory of files, or the
//! name of a family.
//!
//! This file parses them; each kind of DUT applies them in its own file, for Linux
//! `linux/apply.rs`. Directories are in [`folder`], files of settings in [`settings`]. Start with
//! [`Configuration::parse`].

pub(crate) mod folder;
pub(crate) mod settings;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fwdlab_model::family::{Generated, PREFIX};
use fwdlab_model::system::System;

pub(crate) use folder::Folder;

use crate::error::LabError;

/// Something to apply to a DUT.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// As typed.
    pub name: String,
    steps: Vec<Step>,
    inputs: Vec<PathBuf>,
}

/// One step, in the order of application.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// A text for `sh`.
    Shell(String),
    /// A program or script to run.
    Execute(PathBuf),
    /// Rules for `nft -f`.
    Nft(PathBuf),
    /// `name = value` lines, as in sysctl.d.
    Sysctl(PathBuf),
    /// A directory of files, with its `set.toml`.
    Folder(Box<Folder>),
    /// A generated configuration of a family.
    Generated(Generated),
    /// Lines for the command line of VPP.
    Vpp(PathBuf),
    /// A program of an eBPF object.
    Object(Object),
}

/// A program of an eBPF object, attached to both ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    /// The object file.
    pub path: PathBuf,
    /// The section of the program.
    pub section: String,
    /// Where it runs.
    pub hook: Hook,
}

/// Where an eBPF program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    /// In the driver (XDP).
    Driver,
    /// Before the network stack (tc).
    Ingress,
    /// After it.
    Egress,
}

impl Object {
    /// Ends the path of an object, before its section.
    const END: &str = ".o:";

    /// Returns the path and the section of `prog.o:xdp`; `None` for a command, which has spaces.
    fn split(typed: &str) -> Option<(&Path, &str)> {
        let (path, section) = typed.split_at(typed.find(Object::END)? + Object::END.len() - 1);
        let path = Path::new(path);
        let is_one = path.is_file() || !typed.contains(char::is_whitespace);
        is_one.then_some((path, &section[1..]))
    }

    /// Parses the section, whose name is the hook as libbpf knows it.
    fn new(path: &Path, section: &str) -> Result<Object, String> {
        let is = |names: &[&str]| {
            let own = section.split(['/', '.']).next().unwrap_or_default();
            names.contains(&own)
        };
        let hook = match () {
            () if is(&["xdp"]) => Hook::Driver,
            () if is(&["tc", "tcx", "classifier"]) && section.contains("egress") => Hook::Egress,
            () if is(&["tc", "tcx", "classifier"]) => Hook::Ingress,
            () => {
                return Err(format!(
                    "name the section of its program after the object, as in {}:xdp or {0}:tc; `{section}` is neither, and llvm-objdump -h \
                     lists the sections",
                    path.display()
                ));
            }
        };
        Ok(Object {
            path: path.to_owned(),
            section: section.to_owned(),
            hook,
        })
    }
}

impl Configuration {
    /// Parses what was typed: the path of a file or directory if one of that name exists, else a
    /// shell command.
    ///
    /// - `generate:FAMILY,KEY=VALUE` is a configuration of a family;
    /// - a file `*.nft` or `nftables.conf` is loaded by `nft -f`, `*.conf` with `name = value`
    ///   lines has sysctls, `*.vpp` has lines of VPP's command line, any other executable is run,
    ///   and everything else is passed to `sh`;
    /// - `prog.o:SECTION` is a program of an eBPF object, for XDP or tc;
    /// - a directory is a configuration set, see [`Folder`].
    ///
    /// # Errors
    /// An empty text, a path that does not exist, a directory that is not a configuration set, or a
    /// family with lists of values.
    pub fn parse(typed: &str) -> Result<Configuration, LabError> {
        let mut all = Configuration::parse_list(typed)?;
        match (all.pop(), all.len()) {
            (Some(one), 0) => Ok(one),
            (_, others) => Err(LabError::Configuration {
                name: typed.to_owned(),
                reason: format!(
                    "these are {} configurations, and one is needed here; give one value for each key",
                    others + 1
                ),
            }),
        }
    }

    /// Like [`Configuration::parse`], but lists of values are allowed, and return one configuration
    /// each.
    ///
    /// # Errors
    /// As for [`Configuration::parse`].
    pub fn parse_list(typed: &str) -> Result<Vec<Configuration>, LabError> {
        let bad = |reason: String| LabError::Configuration {
            name: typed.to_owned(),
            reason,
        };
        if typed.trim().is_empty() {
            return Err(bad(
                "it is empty; give a command in quotes, a file, or a directory".into(),
            ));
        }
        if let Some(family) = typed.trim().strip_prefix(PREFIX) {
            let all = Generated::parse(family).map_err(|wrong| bad(wrong.to_string()))?;
            let of = |one: Generated| Configuration {
                name: one.name(),
                steps: vec![Step::Generated(one)],
                inputs: Vec::new(),
            };
            return Ok(all.into_iter().map(of).collect());
        }
        if let Some((path, section)) = Object::split(typed) {
            fs::metadata(path).map_err(|e| bad(format!("{}: {e}", path.display())))?;
            return Ok(vec![Configuration {
                name: typed.to_owned(),
                steps: vec![Step::Object(Object::new(path, section).map_err(bad)?)],
                inputs: vec![path.to_owned()],
            }]);
        }
        let path = Path::new(typed);
        let looks_like_path = !typed.contains(char::is_whitespace) && typed.contains('/');
        let (steps, inputs) = match fs::metadata(path) {
            Ok(kind) if kind.is_dir() => {
                let folder = Folder::read(path)?;
                (vec![Step::Folder(Box::new(folder))], vec![path.to_owned()])
            }
            Ok(_) => (
                vec![step_of_file(path).map_err(bad)?],
                vec![path.to_owned()],
            ),
            Err(e) if looks_like_path => return Err(bad(format!("{e}"))),
            Err(_) => (vec![Step::Shell(typed.to_owned())], Vec::new()),
        };
        Ok(vec![Configuration {
            name: typed.to_owned(),
            steps,
            inputs,
        }])
    }

    /// Parses several parts into one named configuration, in order. Files and directories that
    /// exist in `folder` are taken from there.
    ///
    /// # Errors
    /// As for [`Configuration::parse`], for the first wrong part; two parts of one family, which
    /// would replace each other.
    pub fn named(name: &str, parts: &[String], folder: &Path) -> Result<Configuration, LabError> {
        let mut whole = Configuration {
            name: name.to_owned(),
            steps: Vec::new(),
            inputs: Vec::new(),
        };
        for part in parts {
            let beside = folder.join(part);
            let is_family = part.trim().starts_with(PREFIX);
            let looks_like_path = !part.contains(char::is_whitespace) && part.contains('/');
            let typed = match beside.to_str() {
                Some(path)
                    if !is_family
                        && (looks_like_path
                            || beside.exists()
                            || Object::split(path).is_some()) =>
                {
                    path
                }
                _ => part,
            };
            let one = Configuration::parse(typed)?;
            whole.steps.extend(one.steps);
            whole.inputs.extend(one.inputs);
        }
        let generated: Vec<&Generated> = whole.generated().collect();
        for (n, one) in generated.iter().enumerate() {
            // several settings and offloads are allowed; everything else only once
            let same = |other: &&&Generated| {
                let keys = ["name", "feature"];
                other.family == one.family
                    && keys.iter().all(|key| other.value(key) == one.value(key))
            };
            if generated[..n].iter().any(|other| same(&other)) {
                return Err(LabError::Configuration {
                    name: name.to_owned(),
                    reason: format!(
                        "it has {} twice, and the second would replace the first; omit one",
                        one.family.name
                    ),
                });
            }
        }
        Ok(whole)
    }

    /// Returns it with these steps only.
    pub(crate) fn with_steps(&self, steps: Vec<Step>) -> Configuration {
        Configuration {
            steps,
            ..self.clone()
        }
    }

    /// Returns the files and directories it came from, to be kept with the run.
    pub fn inputs(&self) -> &[PathBuf] {
        &self.inputs
    }

    /// Refuses a configuration with parts for another system than the DUT's.
    ///
    /// # Errors
    /// Lists the parts for the other system.
    pub fn check_for(&self, system: System) -> Result<(), LabError> {
        let other = match system {
            System::Linux => System::FreeBsd,
            System::FreeBsd => System::Linux,
        };
        let of = |step: &Step| match step {
            Step::Folder(folder) => folder.is_of(other),
            Step::Generated(one) if one.family.system == other => vec![one.family.name.to_owned()],
            Step::Nft(path) | Step::Object(Object { path, .. }) if other == System::Linux => {
                vec![path.display().to_string()]
            }
            _ => Vec::new(),
        };
        let foreign: Vec<String> = self.steps.iter().flat_map(of).collect();
        let shown = match &foreign[..] {
            [] => return Ok(()),
            [one] => format!("{one} is"),
            [first, second] => format!("{first} and {second} are"),
            [first, second, rest @ ..] => format!("{first}, {second} and {} more are", rest.len()),
        };
        Err(LabError::Configuration {
            name: self.name.clone(),
            reason: format!(
                "{shown} for {other}, but this DUT runs {system}; measure it on a DUT that runs {other}, or omit that"
            ),
        })
    }

    /// Refuses a configuration that needs a restart, for a DUT that is not a separate machine.
    ///
    /// # Errors
    /// It needs a restart.
    pub fn check_without_restart(&self) -> Result<(), LabError> {
        let needs = |step: &&Step| matches!(step, Step::Folder(folder) if folder.reboots());
        match self.steps.iter().find(needs) {
            None => Ok(()),
            Some(_) => Err(LabError::Configuration {
                name: self.name.clone(),
                reason: "it needs a restart of the DUT, which is a part of this machine here; omit reboot from its set.toml, \
                         or measure it on a machine that can be restarted"
                    .into(),
            }),
        }
    }

    /// Returns what would be done to the DUT, in lines; nothing for steps that the name describes
    /// already.
    pub fn needs(&self) -> Vec<String> {
        let of = |step: &Step| match step {
            Step::Folder(folder) => folder.needs(),
            _ => Vec::new(),
        };
        self.steps.iter().flat_map(of).collect()
    }

    /// Returns the words of its scripts and commands, among them names of programs and modules.
    /// Ignores comments.
    pub(crate) fn words(&self) -> BTreeSet<String> {
        // a file that is not text has no words
        let script = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let mut found = BTreeSet::new();
        for step in &self.steps {
            let text = match step {
                Step::Shell(text) => text.clone(),
                Step::Execute(path) => script(path),
                Step::Nft(_) => "nft".into(),
                // modules for a program of tc
                Step::Object(_) => "sch_ingress cls_bpf".into(),
                Step::Sysctl(_) | Step::Vpp(_) => continue,
                Step::Folder(folder) => {
                    let says = &folder.says;
                    let reloads = says.reload.iter().map(|reload| reload.command.clone());
                    let verify = says.verify.iter().map(|verify| verify.command.clone());
                    let commands = says.before.iter().chain(&says.after).cloned();
                    let apply = folder.apply.iter().map(|path| script(path));
                    let nft = folder.uploads(folder::Kind::Nft).map(|_| "nft".to_owned());
                    let all = commands
                        .chain(reloads)
                        .chain(verify)
                        .chain(apply)
                        .chain(nft);
                    all.collect::<Vec<_>>().join("\n")
                }
                Step::Generated(one) => match one.family.name {
                    "iptables-rules" | "iptables-stateful" => "iptables-nft iptables-legacy".into(),
                    "ipset" => "ipset iptables-nft iptables-legacy".into(),
                    "queues" | "offload" => "ethtool".into(),
                    "napi-affinity" => "taskset".into(),
                    // these have daemons, which are watched
                    "bgp" => crate::dut::daemons::VARIABLE.into(),
                    "openvpn" if one.count("tunnels") > 0 => crate::dut::daemons::VARIABLE.into(),
                    "wireguard" if one.count("tunnels") > 0 => "wg".into(),
                    name if name.starts_with("nft") => "nft".into(),
                    _ => continue,
                },
            };
            let lines = text.lines().filter(|line| !line.trim().starts_with('#'));
            let words = lines.flat_map(|line| {
                line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.')))
            });
            found.extend(words.map(str::to_owned));
        }
        found
    }

    /// Returns true if it loads rules that filter frames, judged by its content, not by its name.
    pub fn is_firewall(&self) -> bool {
        const PROGRAMS: [&str; 13] = [
            "nft",
            "iptables",
            "ip6tables",
            "iptables-nft",
            "iptables-legacy",
            "iptables-restore",
            "ip6tables-restore",
            "ebtables",
            "ipfw",
            "pfctl",
            "pf.conf",
            "firewall-cmd",
            "ufw",
        ];
        let is_family = |one: &Generated| {
            let name = one.family.name;
            ["ipfw", "pf-"].iter().any(|of| name.starts_with(of))
        };
        let is_acl = |step: &Step| match step {
            Step::Vpp(path) => fs::read_to_string(path).is_ok_and(|text| text.contains("acl")),
            _ => false,
        };
        let words = self.words();
        PROGRAMS.iter().any(|program| words.contains(*program))
            || self.generated().any(is_family)
            || self.steps.iter().any(is_acl)
    }

    /// Returns the steps in order.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Runs all steps in order; returns their output.
    ///
    /// # Errors
    /// [`LabError::NotApplied`] with the cause of the first failure; or [`LabError::Interrupted`].
    pub(super) fn each(
        &self,
        mut carry_out: impl FnMut(&Step) -> Result<String, LabError>,
    ) -> Result<String, LabError> {
        let mut output = String::new();
        for step in &self.steps {
            output += &carry_out(step).map_err(|error| match error {
                LabError::Interrupted => LabError::Interrupted,
                source => LabError::NotApplied {
                    name: self.name.clone(),
                    source: Box::new(source),
                },
            })?;
        }
        Ok(output)
    }

    fn generated(&self) -> impl Iterator<Item = &Generated> {
        self.steps.iter().filter_map(|step| match step {
            Step::Generated(one) => Some(one),
            _ => None,
        })
    }
}

fn step_of_file(path: &Path) -> Result<Step, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(if name.ends_with(".nft") || name == "nftables.conf" {
        Step::Nft(path.to_owned())
    } else if name.ends_with(".conf") {
        Step::Sysctl(path.to_owned())
    } else if name.ends_with(".vpp") {
        Step::Vpp(path.to_owned())
    } else if name.ends_with(".o") {
        Step::Object(Object::new(path, "")?)
    } else if is_executable(path) {
        Step::Execute(path.to_owned())
    } else {
        Step::Shell(fs::read_to_string(path).map_err(|e| e.to_string())?)
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
    fn kinds_of_configurations_are_distinguished() {
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
        fs::write(at("prog.o"), "").unwrap();
        for (section, hook) in [
            ("xdp", Hook::Driver),
            ("xdp.frags/drop", Hook::Driver),
            ("tc", Hook::Ingress),
            ("classifier/in", Hook::Ingress),
            ("tcx/egress", Hook::Egress),
        ] {
            let path = at("prog.o");
            let section = section.to_owned();
            let part = format!("prog.o:{section}");
            let parsed = parse(&at(&part)).unwrap();
            assert_eq!(parsed.inputs, [at("prog.o")]);
            assert_eq!(
                parsed.steps,
                [Step::Object(Object {
                    path,
                    section,
                    hook
                })]
            );
            // in a campaign, next to its file
            let named = Configuration::named("x", &[part], directory.path()).unwrap();
            assert_eq!(named.steps, parsed.steps);
        }
        for bad in ["prog.o", "prog.o:", "prog.o:socket"] {
            let error = parse(&at(bad)).unwrap_err().to_string();
            assert!(error.contains("prog.o:xdp or"), "{error}");
        }
        assert_eq!(
            Configuration::parse("nft add table ip t").unwrap().steps,
            [Step::Shell("nft add table ip t".into())]
        );

        for bad in [
            "",
            "  ",
            "/no/such/file",
            "none.o:xdp",
            directory.path().to_str().unwrap(),
        ] {
            let error = Configuration::parse(bad).unwrap_err().to_string();
            assert!(error.starts_with("configuration `"), "{error}");
        }
        fs::write(at("plain"), "# not ipset\nx=$(wg genkey); nft-x\n").unwrap();
        let names = |program: &str| parse(&at("plain")).unwrap().words().contains(program);
        assert!(names("wg") && !names("ipset") && !names("nft") && !names("gen"));
        assert!(parse(&at("a.nft")).unwrap().words().contains("nft"));
        // it is a firewall because of what it loads, not because of its name
        assert!(parse(&at("a.nft")).unwrap().is_firewall());
        for (typed, is_firewall) in [
            ("nft add table ip t", true),
            ("generate:nft-set,n=100", true),
            ("generate:pf-rules,n=1", true),
            ("# no nft\nsysctl net.ipv4.ip_forward=1", false),
            ("generate:queues,n=2", false),
        ] {
            let one = Configuration::parse(typed).unwrap();
            assert_eq!(one.is_firewall(), is_firewall, "{typed}");
        }

        fs::create_dir_all(at("etc/sysctl.d")).unwrap();
        for file in ["20.conf", "10.conf", "x.bak"] {
            fs::write(at("etc/sysctl.d").join(file), "").unwrap();
        }
        fs::write(at("etc/nftables.conf"), "").unwrap();
        let set = steps(directory.path());
        let [Step::Folder(folder)] = &set[..] else {
            panic!("{set:?}");
        };
        let loaded = |kind| {
            folder
                .uploads(kind)
                .map(|file| file.ours.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            loaded(folder::Kind::Sysctl),
            [at("etc/sysctl.d/10.conf"), at("etc/sysctl.d/20.conf")]
        );
        assert_eq!(loaded(folder::Kind::Nft), [at("etc/nftables.conf")]);
        assert!(parse(directory.path()).unwrap().words().contains("nft"));
    }

    #[test]
    fn families_are_configurations_and_lists_of_values_several() {
        let all = Configuration::parse_list("generate:nft-rules,n=10+100").unwrap();
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["nft-rules-10", "nft-rules-100"]);
        let error = Configuration::parse("generate:nft-rules,n=10+100").unwrap_err();
        assert!(
            error.to_string().contains("these are 2 configurations"),
            "{error}"
        );
        let error = Configuration::parse("generate:nft-rule,n=10").unwrap_err();
        assert!(
            error.to_string().contains("did you mean `nft-rules`?"),
            "{error}"
        );
        assert!(all[0].words().contains("nft"));

        let of = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|part| format!("{PREFIX}{part}")).collect();
            Configuration::named("x", &parts, Path::new("."))
        };
        let twice = of(&["nft-rules,n=1", "nft-rules,n=2"])
            .unwrap_err()
            .to_string();
        assert!(twice.contains("it has nft-rules twice"), "{twice}");
        let both = of(&[
            "offload,feature=gro,state=on",
            "offload,feature=lro,state=on",
        ])
        .unwrap();
        assert_eq!(both.steps.len(), 2);

        // the system it is for
        let error = Configuration::parse("generate:pf-rules,n=1").unwrap();
        let error = error.check_for(System::Linux).unwrap_err().to_string();
        assert!(
            error.contains("pf-rules is for FreeBSD, but this DUT runs Linux"),
            "{error}"
        );
        assert!(both.check_for(System::Linux).is_ok() && both.check_for(System::FreeBsd).is_err());
    }
}
