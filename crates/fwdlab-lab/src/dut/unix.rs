//! What DUTs with a shell have in common: users' commands, and how the steps of a configuration are
//! carried out and verified.
//!
//! A system adds how it installs the files of a folder, and how it reads settings. Start with
//! [`Unix`].

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::daemons::Daemons;
use super::set::folder::{Folder, Upload};
use super::set::settings::{self, Setting};
use super::set::{Configuration, Step};
use super::sweep::set_by_command;
use super::{Change, Dut, verify};
use crate::control::Control;
use crate::error::LabError;
use crate::host::reboot::reboot_and_wait;
use crate::host::undo::Undo;
use crate::host::{Command, Files, Host, Limit, quoted};

/// Default time limit of users' commands on a DUT.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// What users' commands of a DUT run with.
pub(super) struct Shell<'a> {
    /// The host on which they run.
    pub place: &'a Arc<dyn Host>,
    /// The ports of the DUT: input and output.
    pub ports: &'a [String; 2],
    /// The CPUs on which it forwards, if they are known.
    pub cpus: &'a [usize],
    /// The daemons of its configuration.
    pub daemons: &'a Daemons,
    /// What is to be undone.
    pub undo: &'a Undo,
    /// Time limit of a command.
    pub patience: Duration,
}

/// A DUT with a shell.
pub(super) trait Unix: Dut {
    /// True if it has settings that can be set and not be read (`net.ipv4.route.flush`).
    const HAS_WRITE_ONLY_SETTINGS: bool;

    /// Returns what users' commands run with.
    fn commands(&self) -> Shell<'_>;

    /// Carries out a step of the configuration with this name; returns its output.
    fn carry_out(&self, step: &Step, name: &str, limit: Limit<'_>) -> Result<String, LabError>;

    /// Puts the files and settings of a folder into force, with a restart if it requests one, and
    /// checks them; returns the output.
    fn install(
        &self,
        folder: &Folder,
        requested: &[Setting],
        limit: Limit<'_>,
    ) -> Result<String, LabError>;

    /// Checks that packages are installed, because fwdlab installs nothing on a DUT.
    fn has_packages(&self, packages: &[String]) -> Result<(), LabError>;

    /// Returns a setting of the kernel; `None` if it does not exist or cannot be read.
    fn setting(&self, name: &str) -> Result<Option<String>, LabError>;

    /// Returns the error for a setting that the DUT did not keep.
    fn not_kept(&self, reason: String) -> LabError {
        LabError::Preflight(format!(
            "{} did not keep the setting: {reason}. Check whether something else changes it",
            self.name()
        ))
    }

    /// Returns the command for a text of the user's, with the variables that every shell gets.
    fn users_command(&self, text: &str) -> Command {
        let shell = self.commands();
        let [input, output] = shell.ports;
        let daemons = shell.daemons.variable();
        let cpus: Vec<String> = shell.cpus.iter().map(ToString::to_string).collect();
        let cpus = cpus.join(",");
        let variables =
            format!("export FWDLAB_IN={input} FWDLAB_OUT={output} FWDLAB_CPUS={cpus} {daemons}\n");
        Command::shell(&format!("{variables}{text}")).called(text.trim())
    }

    /// Runs a text of the user's with `sh`; returns its output.
    fn shell(&self, text: &str, limit: Limit<'_>) -> Result<String, LabError> {
        let command = self.users_command(text);
        Ok(self.commands().place.run(&command, limit)?.text())
    }

    /// Runs a program of the user's; returns its output.
    fn execute(&self, path: &Path, limit: Limit<'_>) -> Result<String, LabError> {
        let there = self.commands().place.put(path)?;
        self.shell(&format!("exec {}", quoted(&there)), limit)
    }

    /// Carries out all steps of a configuration for this system; returns their output.
    fn apply_steps(
        &self,
        configuration: &Configuration,
        control: &Control,
    ) -> Result<String, LabError> {
        let shell = self.commands();
        if shell.place.files() != Files::Machine {
            configuration.check_without_restart()?;
        }
        let limit = Limit {
            time: shell.patience,
            is_stopped: &|| control.is_stopped(),
        };
        let apply = || configuration.each(|step| self.carry_out(step, &configuration.name, limit));
        (shell.daemons).of_configuration(configuration, shell.place, shell.undo, apply)
    }

    /// Applies a folder of the configuration with this name; returns the output.
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
            let Shell { undo, place, .. } = self.commands();
            undo.before(place, &format!("what the set {name} did"), undo_commands)?;
        }
        let mut output = String::new();
        for text in &says.before {
            output += &self.shell(text, limit)?;
        }
        output += &self.install(folder, &folder.settings()?, limit)?;
        for text in &says.after {
            output += &self.shell(text, limit)?;
        }
        if let Some(apply) = &folder.apply {
            output += &self.execute(apply, limit)?;
        }
        for verify in &says.verify {
            let command = self.users_command(&verify::command(verify));
            let command = command.called(verify.command.trim());
            let place = self.commands().place;
            let verified = verify::look(verify, &place.run(&command, limit)?, place.as_ref())?;
            verified.map_err(|reason| self.not_kept(reason))?;
        }
        Ok(output)
    }

    /// Restarts the DUT within the time limit of this folder.
    fn restart(&self, folder: &Folder, limit: Limit<'_>) -> Result<(), LabError> {
        let limit = Limit {
            time: folder.says.patience(),
            ..limit
        };
        reboot_and_wait(self.commands().place.as_ref(), limit)?;
        Ok(())
    }

    /// Checks that these settings have the values that were set.
    fn has_settings(&self, requested: &[Setting]) -> Result<(), LabError> {
        for one in settings::in_force(requested) {
            let found = match self.setting(&one.name)? {
                None if Self::HAS_WRITE_ONLY_SETTINGS => continue,
                found => found.unwrap_or_default(),
            };
            if !settings::matches_value(&found, &one.value) && !one.optional {
                return Err(self.not_kept(format!(
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

    /// Returns what is in force of these files and settings, and what these commands print, as the
    /// DUT reports it: names and texts.
    fn state<'a>(
        &self,
        files: &[&Upload],
        requested: &[Setting],
        shows: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<BTreeMap<String, String>, LabError> {
        let place = self.commands().place;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut kept = BTreeMap::new();
        for file in files {
            let there = place.read(&file.theirs)?;
            kept.insert(format!("files{}", file.theirs), text(&there));
        }
        let mut values = String::new();
        for one in settings::in_force(requested) {
            if let Some(value) = self.setting(&one.name)? {
                let _ = writeln!(values, "{} = {value}", one.name);
            }
        }
        if !values.is_empty() {
            kept.insert("sysctl.txt".into(), values);
        }
        for (name, line) in shows {
            let output = place.run(&self.users_command(line), Limit::OURS)?;
            kept.insert(format!("{name}.txt"), text(&output.stdout));
        }
        Ok(kept)
    }

    /// Sets a value of a sweep with a user's command, as [`set_by_command`].
    fn set_with_command(
        &self,
        commands: (&str, Option<&str>),
        value: u64,
        control: &Control,
    ) -> Result<Option<Change>, LabError> {
        let shell = self.commands();
        let limit = Limit {
            time: shell.patience,
            is_stopped: &|| control.is_stopped(),
        };
        set_by_command(
            commands,
            value,
            (shell.undo, shell.place),
            |text| self.users_command(text),
            |text| self.shell(text, limit),
        )
    }
}
