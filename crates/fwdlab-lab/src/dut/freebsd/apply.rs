//! Applies configurations and images to a FreeBSD DUT: uploads files, restarts it if needed, and
//! checks what is in force.
//!
//! `loader.conf` and `rc.conf` take effect at a restart: `service netif restart` would cut our own
//! connection. Sets of netbenches are applied unchanged. Start with [`FreeBsd::install`].

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use super::{FreeBsd, FreebsdKind, jail, read};
use crate::dut::Dut;
use crate::dut::refuse;
use crate::dut::set::folder::{Folder, Kind, Upload};
use crate::dut::set::settings::{self, Setting};
use crate::dut::set::{Configuration, Step};
use crate::dut::unix::{Shell, Unix};
use crate::dut::upload::{Uploads, WriteCommands};
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::{Command, Limit, quoted};

/// The disk of a nanobsd image is read-only except during these commands.
const WRITABLE: WriteCommands = WriteCommands {
    before: "mount -uw /\ntrap 'mount -ur /' EXIT\n",
    after: "",
};

impl Unix for FreeBsd {
    const HAS_WRITE_ONLY_SETTINGS: bool = false;

    fn commands(&self) -> Shell<'_> {
        Shell {
            place: &self.host,
            ports: &self.sides.ports,
            cpus: &[],
            daemons: &self.daemons,
            undo: &self.undo,
            patience: self.patience,
        }
    }

    fn carry_out(&self, step: &Step, name: &str, limit: Limit<'_>) -> Result<String, LabError> {
        match step {
            Step::Shell(text) => self.shell(text, limit),
            Step::Execute(path) => self.execute(path, limit),
            Step::Nft(_) => refuse(self, "load rules of nftables", "write them for ipfw or pf"),
            Step::Object(_) => refuse(self, "load eBPF programs", "measure them on Linux"),
            Step::Vpp(_) => refuse(self, "apply lines of VPP's", "measure them on a VPP"),
            Step::Sysctl(path) => self
                .settings_of(&settings::read(path)?)
                .map(|()| String::new()),
            Step::Folder(folder) => self.apply_folder(folder, name, limit),
            Step::Generated(one) => self.generate(one).map(|()| String::new()),
        }
    }

    fn install(
        &self,
        folder: &Folder,
        requested: &[Setting],
        limit: Limit<'_>,
    ) -> Result<String, LabError> {
        let says = &folder.says;
        let mut output = String::new();
        let reboots = folder.reboots();
        let around = match self.making {
            FreebsdKind::Bsdrp => WRITABLE,
            FreebsdKind::Plain => WriteCommands::default(),
        };
        let save = (self.making == FreebsdKind::Bsdrp).then_some("config save");
        let mut reload: Vec<String> = says.reload.iter().map(|one| one.command.clone()).collect();
        reload.extend(self.firewalls_back(folder)?);
        reload.extend(save.filter(|_| reboots).map(str::to_owned));
        if !folder.files.is_empty() {
            let uploads = Uploads::look(&self.host, folder, around)?;
            let action = format!("files of {}", folder.path.display());
            let undo_commands = uploads.restore_command(&reload);
            self.changing(&action, undo_commands, || uploads.carry_out(&self.host))?;
        }
        if reboots {
            if let Some(save) = save {
                self.host.run(&Command::shell(save), limit)?;
            }
            self.restart(folder, limit)?;
            // a restart loses these settings
            self.prepare()?;
            output += "files are put back at the end; what the loader and rc have read of them is as before only after the next restart\n";
            self.has_settings(requested)?;
        } else {
            self.settings_of(requested)?;
            if folder.uploads(Kind::Pf).next().is_some() {
                output += &self.shell("kldstat -q -m pf || kldload pf\npfctl -f /etc/pf.conf\npfctl -e 2>/dev/null || :", limit)?;
            }
            if folder.uploads(Kind::Ipfw).next().is_some() {
                output += &self.shell("service ipfw onerestart", limit)?;
            }
            for one in &says.reload {
                output += &self.shell(&one.command, limit)?;
            }
        }
        self.is_loaded(folder)?;
        Ok(output)
    }

    fn has_packages(&self, packages: &[String]) -> Result<(), LabError> {
        for package in packages {
            let look = format!("pkg info -e {} && echo yes || echo no", quoted(package));
            let look = Command::shell(&look).called(format!("pkg info -e {package}"));
            let output = self.host.run(&look, Limit::OURS)?;
            match String::from_utf8_lossy(&output.stdout).trim() {
                "yes" => {}
                "no" => {
                    return Err(LabError::Preflight(format!(
                        "{} does not have the package {package}, which the set needs. Install it there: pkg install {package}",
                        self.host.name()
                    )));
                }
                other => return Err(not_understood(self.host.as_ref(), &look.to_string(), other)),
            }
        }
        Ok(())
    }

    fn setting(&self, name: &str) -> Result<Option<String>, LabError> {
        // for an unknown name, sysctl prints an error on standard error, and nothing on standard
        // output
        let ask = Command::shell(&format!(
            "sysctl -n {} 2>/dev/null || [ $? -eq 1 ]",
            quoted(name)
        ));
        let ask = ask.called(format!("sysctl -n {name}"));
        let output = self.host.run(&ask, Limit::OURS)?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let is_plain = |c: char| c == ' ' || c == '\t' || c.is_ascii_graphic();
        match text.chars().all(is_plain) {
            false => Err(not_understood(self.host.as_ref(), &ask.to_string(), &text)),
            true => Ok((!text.is_empty()).then_some(text)),
        }
    }
}

impl FreeBsd {
    fn settings_of(&self, all: &[Setting]) -> Result<(), LabError> {
        let requested = settings::in_force(all);
        let pairs: Vec<(String, String)> = requested
            .iter()
            .map(|one| (one.name.clone(), one.value.clone()))
            .collect();
        if pairs.is_empty() {
            return Ok(());
        }
        let optional = |name: &str| all.iter().any(|one| one.name == name && one.optional);
        self.set_settings("settings of a set", &pairs, &optional)
            .map(drop)
    }

    /// Returns the commands that restore the firewalls to their current state after their files are
    /// restored.
    fn firewalls_back(&self, folder: &Folder) -> Result<Vec<String>, LabError> {
        let mut undo = Vec::new();
        if folder.uploads(Kind::Pf).next().is_some() {
            undo.push(match self.is_pf_enabled()? {
                true => "pfctl -f /etc/pf.conf".to_owned(),
                false => {
                    "kldstat -q -m pf || exit 0; pfctl -d 2>/dev/null; pfctl -F all".to_owned()
                }
            });
        }
        if folder.uploads(Kind::Ipfw).next().is_some() {
            undo.push(match self.setting("net.inet.ip.fw.enable")?.as_deref() {
                Some("1") => "service ipfw onerestart".to_owned(),
                _ => "service ipfw onestop".to_owned(),
            });
        }
        Ok(undo)
    }

    fn is_pf_enabled(&self) -> Result<bool, LabError> {
        let look = Command::shell("pfctl -s info 2>&1 || :").called("pfctl -s info");
        let output = self.host.run(&look, Limit::OURS)?.text();
        match output {
            output if output.contains("Status: Enabled") => Ok(true),
            output if output.contains("Status: Disabled") || output.contains("/dev/pf") => {
                Ok(false)
            }
            output => Err(not_understood(self.host.as_ref(), "pfctl -s info", &output)),
        }
    }

    /// Checks that the system has read its files as they were written.
    fn is_loaded(&self, folder: &Folder) -> Result<(), LabError> {
        let rc = assignments_of(folder, Kind::Rc)?;
        let loader = assignments_of(folder, Kind::Loader)?;
        self.check_values(&rc, "sysrc -n")?;
        if folder.reboots() {
            self.check_values(&loader, "kenv -q")?;
        }
        let yes = |name: &str| rc.get(name).is_some_and(|(value, _)| read::is_yes(value));
        for (variable, setting) in [
            ("gateway_enable", "net.inet.ip.forwarding"),
            ("ipv6_gateway_enable", "net.inet6.ip6.forwarding"),
            ("firewall_enable", "net.inet.ip.fw.enable"),
        ] {
            if yes(variable) && self.setting(setting)?.as_deref() != Some("1") {
                return Err(self.not_kept(format!("{variable} is YES, and {setting} is not 1")));
            }
        }
        let has_rules = folder.uploads(Kind::Pf).next().is_some();
        if (yes("pf_enable") || has_rules) && !self.is_pf_enabled()? {
            return Err(self
                .not_kept("pf should be enabled, and `pfctl -s info` says that it is not".into()));
        }
        Ok(())
    }

    /// Checks that a program of the system prints these values.
    fn check_values(
        &self,
        requested: &BTreeMap<String, (String, String)>,
        program: &str,
    ) -> Result<(), LabError> {
        if requested.is_empty() {
            return Ok(());
        }
        let mut script = String::new();
        for name in requested.keys() {
            let _ = writeln!(script, "echo \"{name}=$({program} {name} 2>/dev/null)\"");
        }
        let action = format!("{program} of {} names", requested.len());
        let output = self.host.run(&self.script(&action, &script), Limit::OURS)?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut found = BTreeMap::new();
        for line in output.lines() {
            let Some((name, value)) = line.split_once('=') else {
                return Err(not_understood(self.host.as_ref(), &action, &output));
            };
            found.insert(name, value.trim());
        }
        for (name, (value, file)) in requested {
            match found.get(name.as_str()) {
                None => return Err(not_understood(self.host.as_ref(), &action, &output)),
                Some(is) if is == value => {}
                Some(is) => {
                    return Err(self.not_kept(format!(
                        "{file}: {name} should be \"{value}\", and `{program} {name}` says \"{is}\""
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns what of a configuration is in force, as the DUT reports it.
    pub(super) fn snapshot(
        &self,
        configuration: &Configuration,
    ) -> Result<BTreeMap<String, String>, LabError> {
        let (mut files, mut named) = (Vec::new(), Vec::new());
        let mut shows: Vec<(&str, &str)> = Vec::new();
        for step in configuration.steps() {
            match step {
                Step::Folder(folder) => {
                    named.extend(folder.settings()?);
                    files.extend(&folder.files);
                    if folder.uploads(Kind::Pf).next().is_some() {
                        shows.push(("pf-rules", "pfctl -sr"));
                    }
                    if folder.uploads(Kind::Ipfw).next().is_some() {
                        shows.push(("ipfw-rules", "ipfw list"));
                    }
                    if folder.uploads(Kind::Loader).next().is_some() {
                        shows.push(("kenv", "kenv"));
                    }
                }
                Step::Sysctl(path) => named.extend(settings::read(path)?),
                Step::Generated(one) if one.family.name == jail::FAMILY => shows.push(jail::SHOW),
                Step::Generated(one) if one.family.name.starts_with("pf") => {
                    shows.push(("pf-rules", "pfctl -sr"))
                }
                Step::Generated(_) => shows.push(("ipfw-rules", "ipfw list")),
                Step::Shell(_)
                | Step::Execute(_)
                | Step::Nft(_)
                | Step::Vpp(_)
                | Step::Object(_) => {}
            }
        }
        let mut kept = self.state(&files, &named, shows)?;
        kept.insert("note.txt".into(), format!("{}\n", super::NOT_YET_RUN));
        Ok(kept)
    }
}

/// Returns what files of a kind assign: the last value of every name, and its file.
fn assignments_of(
    folder: &Folder,
    kind: Kind,
) -> Result<BTreeMap<String, (String, String)>, LabError> {
    let mut all = BTreeMap::new();
    let mut files: Vec<&Upload> = folder.uploads(kind).collect();
    // device.hints first, NAME.local last
    files.sort_by_key(|file| (file.theirs.len(), file.theirs.clone()));
    for file in files {
        let action = || format!("read {}", file.ours.display());
        let text = fs::read_to_string(&file.ours).map_err(|e| LabError::system(action(), e))?;
        for (name, value) in read::assignments(&text) {
            all.insert(name, (value, file.theirs.clone()));
        }
    }
    Ok(all)
}
