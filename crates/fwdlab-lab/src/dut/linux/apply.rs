//! Applies configurations to a Linux DUT: uploads files, loads settings and rules, runs commands,
//! and checks that all of it is in force.
//!
//! A configuration runs as root with the DUT's ports in `$FWDLAB_IN` and `$FWDLAB_OUT`, and lists
//! its daemons in `$FWDLAB_DAEMONS`. fwdlab does not undo its commands unless it says how; what
//! fwdlab does itself (files, settings, rules) is undone if it would persist. Families are in
//! [`super::families`]. Start with [`Linux::install`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::{Linux, gateway};
use crate::dut::Dut;
use crate::dut::set::folder::{Folder, Kind, Upload};
use crate::dut::set::settings::{self, Setting};
use crate::dut::set::{Configuration, Step};
use crate::dut::unix::{Shell, Unix};
use crate::dut::upload::{Uploads, WriteCommands, upload};
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::{Command, Failure, Files, Limit, quoted};

/// Directories of which a DUT on this machine has a private copy.
const OWN: [&str; 3] = ["/etc/", "/run/", "/var/"];

impl Unix for Linux {
    const HAS_WRITE_ONLY_SETTINGS: bool = true;

    fn commands(&self) -> Shell<'_> {
        Shell {
            place: &self.place,
            ports: &self.sides.ports,
            cpus: &self.cpus,
            daemons: &self.daemons,
            undo: &self.undo,
            patience: self.patience,
        }
    }

    fn carry_out(&self, step: &Step, name: &str, limit: Limit<'_>) -> Result<String, LabError> {
        match step {
            Step::Shell(text) => self.shell(text, limit),
            Step::Execute(path) => self.execute(path, limit),
            Step::Nft(path) => {
                self.keep_rules()?;
                let output = self.load(path, limit)?;
                self.has_tables(&[path]).map(|()| output)
            }
            Step::Sysctl(path) => {
                let requested = settings::read(path)?;
                self.keep_settings(&requested)?;
                let output = self.shell(&sysctl_script(&requested), limit)?;
                self.has_settings(&requested).map(|()| output)
            }
            Step::Folder(folder) => self.apply_folder(folder, name, limit),
            Step::Object(object) => self.object(object).map(|()| String::new()),
            // this takes long, and may be stopped
            Step::Generated(one) if one.family.name == "bgp" => self.bgp(one, limit),
            Step::Generated(one) if gateway::is_gateway(one) => self.gateway(one, limit),
            Step::Generated(generated) => self.generate(generated).map(|()| String::new()),
            Step::Vpp(path) => Err(LabError::Configuration {
                name: path.display().to_string(),
                reason: "these are lines of VPP's command line, and this DUT is Linux".into(),
            }),
        }
    }

    fn install(
        &self,
        folder: &Folder,
        requested: &[Setting],
        limit: Limit<'_>,
    ) -> Result<String, LabError> {
        let mut output = String::new();
        let rules: Vec<&Upload> = folder.uploads(Kind::Nft).collect();
        // undone in reverse: rules, settings, then files and their reload commands
        self.place_files(folder)?;
        self.keep_settings(requested)?;
        if !rules.is_empty() {
            self.keep_rules()?;
        }
        if folder.reboots() {
            self.restart(folder, limit)?;
            // loaded by the system at its start, and checked before the DUT becomes a router again:
            // the router's settings for its ports must not hide those of the set
            self.has_settings(requested)?;
            self.prepare()?;
        }
        if !requested.is_empty() {
            output += &self.shell(&sysctl_script(requested), limit)?;
        }
        if !folder.reboots() {
            for file in &rules {
                output += &self.load(&file.ours, limit)?;
            }
            for reload in &folder.says.reload {
                output += &self.shell(&reload.command, limit)?;
            }
        }
        self.has_settings(requested)?;
        self.has_tables(
            &rules
                .iter()
                .map(|file| file.ours.as_path())
                .collect::<Vec<_>>(),
        )?;
        Ok(output)
    }

    fn has_packages(&self, packages: &[String]) -> Result<(), LabError> {
        if packages.is_empty() {
            return Ok(());
        }
        let mut script = String::from(HAS);
        for package in packages {
            let _ = writeln!(script, "has {0} || echo missing: {0}", quoted(package));
        }
        let command = Command::shell(&format!("{script}echo looked\n")).called("look for packages");
        let output = self.place.run(&command, Limit::OURS)?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines: Vec<&str> = output.lines().collect();
        let missing = |line: &&str| line.strip_prefix("missing: ").map(str::to_owned);
        if lines.pop() != Some("looked") || lines.iter().any(|line| missing(line).is_none()) {
            return Err(not_understood(
                self.place.as_ref(),
                "look for packages",
                &output,
            ));
        }
        let missing: Vec<String> = lines.iter().filter_map(missing).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(LabError::Preflight(format!(
                "{} does not have all packages that the set needs. Install there: {}",
                self.place.name(),
                missing.join(" ")
            ))),
        }
    }

    fn setting(&self, name: &str) -> Result<Option<String>, LabError> {
        self.text_of(&file_of(name))
    }
}

impl Linux {
    /// Puts the files of a set where they belong; see [`Files`] for where that is.
    fn place_files(&self, folder: &Folder) -> Result<(), LabError> {
        let is_loaded = |file: &&Upload| matches!(file.kind, Kind::Sysctl | Kind::Nft);
        match self.place.files() {
            Files::Machine => {
                let uploads = Uploads::look(&self.place, folder, WriteCommands::default())?;
                let reloads = folder
                    .says
                    .reload
                    .iter()
                    .map(|reload| reload.command.clone());
                let undo_commands = uploads.restore_command(&reloads.collect::<Vec<_>>());
                let action = format!("files of {}", folder.path.display());
                let work = || uploads.carry_out(&self.place);
                match folder.files.is_empty() {
                    true => Ok(()),
                    false => self
                        .undo
                        .changing(&self.place, &action, undo_commands, work)
                        .map(drop),
                }
            }
            Files::Guest => {
                let all: Vec<&Upload> = folder.files.iter().collect();
                upload(&self.place, folder, &all, WriteCommands::default())
            }
            Files::View => {
                let others = || folder.files.iter().filter(|file| !is_loaded(file));
                let is_own = |file: &&Upload| OWN.iter().any(|own| file.theirs.starts_with(own));
                if let Some(file) = others().find(|file| !is_own(file)) {
                    return Err(LabError::Preflight(format!(
                        "{} cannot be changed on {}, which is a part of this machine and has only its own /etc, /run and /var. Omit it from the set, or measure the set on a separate machine",
                        file.theirs,
                        self.place.name()
                    )));
                }
                upload(
                    &self.place,
                    folder,
                    &others().collect::<Vec<_>>(),
                    WriteCommands::default(),
                )
            }
            Files::Ours => match folder.files.iter().find(|file| !is_loaded(file)) {
                None => Ok(()),
                Some(file) => Err(LabError::Preflight(format!(
                    "{} would be a file of this machine, on which {} is without isolation. Omit --set-unconfined",
                    file.theirs,
                    self.place.name()
                ))),
            },
        }
    }

    fn load(&self, path: &Path, limit: Limit<'_>) -> Result<String, LabError> {
        let there = self.place.put(path)?;
        self.shell(&format!("exec nft -f {}", quoted(&there)), limit)
    }

    /// Records the values of these settings: they persist on every DUT except in namespaces that
    /// fwdlab creates, where restoring them is merely unnecessary.
    fn keep_settings(&self, requested: &[Setting]) -> Result<(), LabError> {
        let mut undo_commands = String::new();
        let names: BTreeSet<String> = requested
            .iter()
            .map(|setting| file_of(&setting.name))
            .collect();
        for file in names {
            match self.text_of(&file)? {
                // what cannot be read cannot be restored; if it cannot be set either, setting it
                // reports that
                None => {}
                Some(value) => {
                    let _ = writeln!(
                        undo_commands,
                        "printf '%s\\n' {} > {}",
                        quoted(&value),
                        quoted(&file)
                    );
                }
            }
        }
        if !undo_commands.is_empty() {
            let undo_commands = Command::shell(&undo_commands).called("restore settings of a set");
            self.undo
                .before(&self.place, "settings of a set", undo_commands)?;
        }
        Ok(())
    }

    /// Records the current rules, if they would persist.
    fn keep_rules(&self) -> Result<(), LabError> {
        if self.place.files() != Files::Machine {
            return Ok(());
        }
        let rules = self.place.query("nft", &["-s", "list", "ruleset"])?;
        let is_rules = |line: &str| line.starts_with("table ") || line.starts_with('#');
        if !rules.trim().is_empty() && !rules.lines().next().is_some_and(is_rules) {
            return Err(not_understood(
                self.place.as_ref(),
                "nft -s list ruleset",
                &rules,
            ));
        }
        let undo_commands =
            Command::new("nft", &["-f", "-"]).with_input(format!("flush ruleset\n{rules}"));
        self.undo
            .before(&self.place, "rules of a set", undo_commands)?;
        Ok(())
    }

    /// Returns the value of a setting; `None` if it does not exist or cannot be read.
    pub(super) fn text_of(&self, file: &str) -> Result<Option<String>, LabError> {
        match self.place.read(file) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).trim().to_owned();
                let is_plain = |c: char| c == ' ' || c == '\t' || c == '\n' || c.is_ascii_graphic();
                match text.chars().all(is_plain) {
                    true => Ok(Some(text)),
                    false => Err(not_understood(
                        self.place.as_ref(),
                        &format!("read {file}"),
                        &text,
                    )),
                }
            }
            Err(error) => match error.failure {
                Failure::File(_) => Ok(None),
                Failure::Exit {
                    said: ref output, ..
                } if is_no_value(output) => Ok(None),
                _ => Err(error.into()),
            },
        }
    }

    /// Checks that the tables that these files create exist.
    fn has_tables(&self, files: &[&Path]) -> Result<(), LabError> {
        let mut requested: BTreeMap<String, &Path> = BTreeMap::new();
        for file in files {
            let action = || format!("read {}", file.display());
            let text = fs::read_to_string(file).map_err(|e| LabError::system(action(), e))?;
            for (table, is_there) in tables(&text) {
                match is_there {
                    true => requested.insert(table, file),
                    false => requested.remove(&table),
                };
            }
        }
        if requested.is_empty() {
            return Ok(());
        }
        let there = self.place.query("nft", &["list", "tables"])?;
        let there: Vec<String> = there.lines().map(words).collect();
        match requested
            .iter()
            .find(|(table, _)| !there.contains(&format!("table {table}")))
        {
            None => Ok(()),
            Some((table, file)) => {
                let found = match there.is_empty() {
                    true => "none".to_owned(),
                    false => there.join(", "),
                };
                let file = file.display();
                Err(self.not_kept(format!(
                    "{file} makes table {table}, and the kernel lists {found}"
                )))
            }
        }
    }

    /// Returns what of a configuration is in force, as the DUT reports it: names and texts.
    pub(super) fn snapshot(
        &self,
        configuration: &Configuration,
    ) -> Result<BTreeMap<String, String>, LabError> {
        let (mut files, mut named): (Vec<&Upload>, Vec<Setting>) = Default::default();
        let mut shows: BTreeSet<(&str, &str)> = BTreeSet::new();
        for step in configuration.steps() {
            match step {
                Step::Shell(_) | Step::Execute(_) | Step::Vpp(_) => {}
                Step::Nft(_) => drop(shows.insert(NFT)),
                Step::Sysctl(path) => named.extend(settings::read(path)?),
                Step::Generated(one) => shows.extend(super::families::shows(one)),
                Step::Object(object) => drop(shows.insert(super::paths::shows_object(object))),
                Step::Folder(folder) => {
                    named.extend(folder.settings()?);
                    let mut rules = folder.uploads(Kind::Nft);
                    shows.extend(rules.next().map(|_| NFT));
                    let is_uploaded = |file: &&Upload| match self.place.files() {
                        Files::Machine | Files::Guest => true,
                        Files::View => !matches!(file.kind, Kind::Sysctl | Kind::Nft),
                        Files::Ours => false,
                    };
                    files.extend(folder.files.iter().filter(is_uploaded));
                }
            }
        }
        self.state(&files, &named, shows)
    }
}

/// Shows all rules of nftables, without counters.
pub(super) const NFT: (&str, &str) = ("nft-ruleset", "nft -s list ruleset");

/// A shell function that checks whether a package is installed, with the system's package manager.
const HAS: &str = "\
has() {
    if command -v dpkg-query >/dev/null; then dpkg-query -W -f='${Status}\\n' \"$1\" 2>/dev/null | grep -q '^install ok installed'
    elif command -v rpm >/dev/null; then rpm -q \"$1\" >/dev/null 2>&1
    elif command -v apk >/dev/null; then apk info -e \"$1\" >/dev/null 2>&1
    else command -v \"$1\" >/dev/null
    fi
}
";

/// Returns true if a system reports that a file is missing or has no value.
fn is_no_value(output: &str) -> bool {
    let reasons = [
        "No such file",
        "Permission denied",
        "Invalid argument",
        "Operation not permitted",
    ];
    reasons.iter().any(|reason| output.contains(reason))
}

/// Returns the file of a setting. In names with slashes, dots are literal (sysctl.d(5)).
pub(super) fn file_of(name: &str) -> String {
    let name = match name.find(['/', '.']) {
        Some(at) if name[at..].starts_with('/') => name.to_owned(),
        _ => name
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            })
            .collect(),
    };
    format!("/proc/sys/{name}")
}

/// Returns the script that sets settings; it ignores optional ones that the kernel lacks.
fn sysctl_script(settings: &[Setting]) -> String {
    let mut script = String::from("set -e\n");
    for setting in settings {
        let optional = if setting.optional { " || :" } else { "" };
        let value = setting.value.replace('\'', r"'\''");
        let file = file_of(&setting.name).replace('\'', "");
        let _ = writeln!(script, "echo '{value}' > '{file}'{optional}");
    }
    script
}

/// Returns the words of a text, separated by single spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the tables that a file for nft creates (true) and deletes (false), in its order:
/// `inet filter`. Ignores names with a variable in them, and included files.
fn tables(text: &str) -> Vec<(String, bool)> {
    let families = ["ip", "ip6", "inet", "arp", "bridge", "netdev"];
    let mut found: Vec<(String, bool)> = Vec::new();
    let mut depth = 0_usize;
    let statements = text.lines().flat_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        line.split(';')
    });
    for statement in statements {
        let spaced = statement.replace('{', " { ").replace('}', " } ");
        let all: Vec<&str> = spaced.split_whitespace().collect();
        if depth == 0 {
            let (is_there, rest) = match &all[..] {
                ["add" | "create", "table", rest @ ..] | ["table", rest @ ..] => (true, rest),
                ["delete" | "destroy", "table", rest @ ..] => (false, rest),
                ["flush", "ruleset", ..] => {
                    for (_, is_there) in &mut found {
                        *is_there = false;
                    }
                    (false, &[][..])
                }
                _ => (false, &[][..]),
            };
            let table = match rest {
                [family, name, ..] if families.contains(family) => Some(format!("{family} {name}")),
                [name, ..] => Some(format!("ip {name}")),
                [] => None,
            };
            if let Some(table) = table.filter(|table| !table.contains('$')) {
                found.push((table, is_there));
            }
        }
        for c in statement.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_writes() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.conf");
        fs::write(
            &file,
            "# comment\n net.ipv4.tcp_mem = 1 2 3\n-net.x.y=it's\n\nnet/ipv4/conf/eth0.7/rp_filter=1\n",
        )
        .unwrap();
        let script = sysctl_script(&settings::read(&file).unwrap());
        for line in [
            "echo '1 2 3' > '/proc/sys/net/ipv4/tcp_mem'\n",
            r"echo 'it'\''s' > '/proc/sys/net/x/y' || :",
            "echo '1' > '/proc/sys/net/ipv4/conf/eth0.7/rp_filter'\n",
        ] {
            assert!(script.contains(line), "{script}");
        }
        assert_eq!(
            file_of("net.ipv4.conf.eth0/7.rp_filter"),
            "/proc/sys/net/ipv4/conf/eth0.7/rp_filter"
        );
    }

    #[test]
    fn tables_of_a_file_are_found() {
        let text = "flush ruleset\ntable inet filter { # table ip not_this\n chain c { ip saddr 1.2.3.4 drop; }\n}\nadd table ip nat;add table plain\n\
                    delete table ip nat\ntable ip $name { }\n";
        let tables = tables(text);
        let expect = [
            ("inet filter", true),
            ("ip nat", true),
            ("ip plain", true),
            ("ip nat", false),
        ];
        assert_eq!(tables, expect.map(|(table, is)| (table.to_owned(), is)));
        assert_eq!(
            super::tables("table ip a\nflush ruleset"),
            [("ip a".to_owned(), false)]
        );
    }
}
