//! Applies configurations and images to a FreeBSD DUT: uploads files, restarts it if needed, and
//! checks what is in force.
//!
//! `loader.conf` and `rc.conf` take effect at a restart: `service netif restart` would cut our own
//! connection. Sets of netbenches are applied unchanged. Start with [`FreeBsd::apply_all`].

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use fwdlab_model::set::Verify;
use fwdlab_model::system::System;

use super::{FreeBsd, FreebsdKind, jail, read};
use crate::control::Control;
use crate::dut::refuse;
use crate::dut::set::folder::{Folder, Kind, Upload};
use crate::dut::set::settings;
use crate::dut::set::{Configuration, Step};
use crate::dut::upload::{Uploads, WriteCommands};
use crate::dut::{Dut, verify};
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::reboot::reboot_and_wait;
use crate::host::{Command, Files, Limit, quoted};

/// Default time limit of users' commands on a DUT.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// The disk of a nanobsd image is read-only except during these commands.
const WRITABLE: WriteCommands = WriteCommands {
    before: "mount -uw /\ntrap 'mount -ur /' EXIT\n",
    after: "",
};

impl FreeBsd {
    /// Runs all steps; returns their output.
    pub(super) fn apply_all(
        &self,
        configuration: &Configuration,
        control: &Control,
    ) -> Result<String, LabError> {
        configuration.check_for(System::FreeBsd)?;
        jail::check_alone(configuration)?;
        if self.host.files() != Files::Machine {
            configuration.check_without_restart()?;
        }
        let limit = Limit {
            time: self.patience,
            is_stopped: &|| control.is_stopped(),
        };
        let apply = || configuration.each(|step| self.carry_out(step, &configuration.name, limit));
        (self.daemons).of_configuration(configuration, &self.host, &self.undo, apply)
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

    fn execute(&self, path: &Path, limit: Limit<'_>) -> Result<String, LabError> {
        let there = self.host.put(path)?;
        self.shell(&format!("exec {}", quoted(&there)), limit)
    }

    fn settings_of(&self, all: &[settings::Setting]) -> Result<(), LabError> {
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

    fn apply_folder(
        &self,
        folder: &Folder,
        name: &str,
        limit: Limit<'_>,
    ) -> Result<String, LabError> {
        let says = &folder.says;
        self.has_packages(&says.packages)?;
        if !says.undo.is_empty() {
            let undo_commands = self.users_command(&says.undo.join("\n"));
            self.undo.before(
                &self.host,
                &format!("what the set {name} did"),
                undo_commands,
            )?;
        }
        let mut output = String::new();
        for text in &says.before {
            output += &self.shell(text, limit)?;
        }
        let reboots = folder.reboots();
        let around = match self.making {
            FreebsdKind::Bsdrp => WRITABLE,
            FreebsdKind::Plain => WriteCommands::default(),
        };
        let save = (self.making == FreebsdKind::Bsdrp).then_some("config save");
        let mut reload: Vec<String> = says.reload.iter().map(|one| one.command.clone()).collect();
        reload.extend(self.firewalls_back(folder)?);
        reload.extend(save.filter(|_| reboots).map(str::to_owned));
        let all = folder.settings()?;
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
            let limit = Limit {
                time: says.patience(),
                ..limit
            };
            reboot_and_wait(self.host.as_ref(), limit)?;
            // a restart loses these settings
            self.prepare()?;
            output += "files are put back at the end; what the loader and rc have read of them is as before only after the next restart\n";
            self.has_settings(&all)?;
        } else {
            self.settings_of(&all)?;
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
        for text in &says.after {
            output += &self.shell(text, limit)?;
        }
        if let Some(apply) = &folder.apply {
            output += &self.execute(apply, limit)?;
        }
        for verify in &says.verify {
            self.is_verified(verify, limit)?;
        }
        Ok(output)
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

    /// Checks that the system itself has applied these settings.
    fn has_settings(&self, all: &[settings::Setting]) -> Result<(), LabError> {
        for one in settings::in_force(all) {
            let found = self.setting(&one.name)?.unwrap_or_default();
            if !settings::matches_value(&found, &one.value) && !one.optional {
                return Err(self.otherwise(format!(
                    "{}, line {}: {} should be {}, and is {found}",
                    one.file.display(),
                    one.line,
                    one.name,
                    one.value
                )));
            }
        }
        Ok(())
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
                return Err(self.otherwise(format!("{variable} is YES, and {setting} is not 1")));
            }
        }
        let has_rules = folder.uploads(Kind::Pf).next().is_some();
        if (yes("pf_enable") || has_rules) && !self.is_pf_enabled()? {
            return Err(self.otherwise(
                "pf should be enabled, and `pfctl -s info` says that it is not".into(),
            ));
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
                    return Err(self.otherwise(format!(
                        "{file}: {name} should be \"{value}\", and `{program} {name}` says \"{is}\""
                    )));
                }
            }
        }
        Ok(())
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

    fn is_verified(&self, verify: &Verify, limit: Limit<'_>) -> Result<(), LabError> {
        let command = self.users_command(&verify::command(verify));
        let output = self
            .host
            .run(&command.called(verify.command.trim()), limit)?;
        verify::look(verify, &output, self.host.as_ref())?.map_err(|reason| self.otherwise(reason))
    }

    /// Returns what of a configuration is in force, as the DUT reports it.
    pub(super) fn snapshot(
        &self,
        configuration: &Configuration,
    ) -> Result<BTreeMap<String, String>, LabError> {
        let mut kept =
            BTreeMap::from([("note.txt".to_owned(), format!("{}\n", super::NOT_YET_RUN))]);
        let mut named = Vec::new();
        let mut shows: Vec<(&str, &str)> = Vec::new();
        for step in configuration.steps() {
            match step {
                Step::Folder(folder) => {
                    named.extend(folder.settings()?);
                    for file in &folder.files {
                        let text = self.host.read(&file.theirs)?;
                        kept.insert(
                            format!("files{}", file.theirs),
                            String::from_utf8_lossy(&text).into_owned(),
                        );
                    }
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
        let mut text = String::new();
        for one in settings::in_force(&named) {
            if let Some(value) = self.setting(&one.name)? {
                let _ = writeln!(text, "{} = {value}", one.name);
            }
        }
        if !text.is_empty() {
            kept.insert("sysctl.txt".into(), text);
        }
        for (name, command) in shows {
            let output = self.host.run(&Command::shell(command), Limit::OURS)?;
            kept.insert(
                format!("{name}.txt"),
                String::from_utf8_lossy(&output.stdout).into_owned(),
            );
        }
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
