//! `set.toml`: what a configuration set defines in addition to its files: commands, what to reload,
//! how to check that it is in force, and how to undo it.
//!
//! The caller finds the files and executes all of it. Start with [`SetFile::parse`].

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::campaign::value::Period;
use crate::file::{FileError, Origin, Step};
use crate::glob::matches;
use crate::typed::several;

/// Its name in the directory of a set.
pub const NAME: &str = "set.toml";

/// Largest file, in bytes.
const LARGEST_FILE: usize = 1 << 20;

/// What a configuration set defines in addition to its files
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SetFile {
    /// Its purpose, in one line
    pub description: String,
    /// Packages that must be installed on the DUT; fwdlab checks them and installs nothing
    #[serde(deserialize_with = "several")]
    pub packages: Vec<String>,
    /// Commands to run before the files are installed
    #[serde(deserialize_with = "several")]
    pub before: Vec<String>,
    /// Commands to run after the files are installed and loaded
    #[serde(deserialize_with = "several")]
    pub after: Vec<String>,
    /// Restart the DUT after the files are installed
    pub reboot: bool,
    /// Time limit of a restart
    pub reboot_within: Option<Period>,
    /// How to load files that fwdlab cannot load itself
    pub reload: Vec<Reload>,
    /// How to check that the set is in force, in addition to fwdlab's own checks
    pub verify: Vec<Verify>,
    /// Commands that undo the set's commands
    #[serde(deserialize_with = "several")]
    pub undo: Vec<String>,
}

/// How to load files
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Reload {
    /// Paths of the files on the DUT; * matches any letters: /etc/frr/*
    #[serde(deserialize_with = "several")]
    #[schemars(with = "Vec<String>")]
    pub files: Vec<String>,
    /// The command that loads them
    pub command: String,
}

/// A command that checks whether a set is in force
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Verify {
    /// The command
    pub command: String,
    /// Text that must appear in its output
    #[serde(default)]
    pub expect: Option<String>,
    /// Its expected exit status
    #[serde(default)]
    pub exit: u8,
}

impl Reload {
    /// Returns true if it applies to this file.
    pub fn is_for(&self, file: &str) -> bool {
        self.files.iter().any(|pattern| matches(pattern, file))
    }
}

impl SetFile {
    /// Parses a `set.toml`. `file`: for errors.
    ///
    /// # Errors
    /// The position in the file and what is wrong there.
    pub fn parse(file: &str, text: &str) -> Result<(SetFile, Origin), FileError> {
        let origin = Origin {
            file: file.into(),
            text: text.into(),
        };
        if text.len() > LARGEST_FILE {
            let cause = format!("{} bytes; it has at most {LARGEST_FILE}", text.len());
            return Err(FileError {
                file: file.into(),
                place: None,
                reason: cause,
            });
        }
        let read: SetFile = origin.read()?;
        read.check(&origin)?;
        Ok((read, origin))
    }

    /// Returns the time limit of a restart.
    pub fn patience(&self) -> Duration {
        self.reboot_within
            .map_or(Duration::from_secs(300), |Period(time)| time)
    }

    fn check(&self, origin: &Origin) -> Result<(), FileError> {
        let wrong = |key_path: &[Step<'_>], reason: &str| Err(origin.error(key_path, reason));
        for (key, commands) in [
            ("packages", &self.packages),
            ("before", &self.before),
            ("after", &self.after),
            ("undo", &self.undo),
        ] {
            if let Some(n) = commands.iter().position(|text| text.trim().is_empty()) {
                return wrong(&[key.into(), n.into()], "it is empty; omit it");
            }
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "+-._:@/".contains(c);
        for (n, name) in self.packages.iter().enumerate() {
            if !name.chars().all(is_name) || name.starts_with('-') {
                let key_path = ["packages".into(), n.into()];
                return wrong(&key_path, "this is not the name of a package");
            }
        }
        for (n, reload) in self.reload.iter().enumerate() {
            let key_path = |key| ["reload".into(), n.into(), Step::Key(key)];
            if reload.command.trim().is_empty() {
                return wrong(
                    &key_path("command"),
                    "it is empty; give the command that loads them",
                );
            }
            if reload.files.is_empty() || reload.files.iter().any(|file| !file.starts_with('/')) {
                let reason = "give files as the DUT has them, from the root on: /etc/frr/frr.conf";
                return wrong(&key_path("files"), reason);
            }
        }
        for (n, verify) in self.verify.iter().enumerate() {
            let key_path = |key| ["verify".into(), n.into(), Step::Key(key)];
            if verify.command.trim().is_empty() {
                return wrong(
                    &key_path("command"),
                    "it is empty; give the command that shows it",
                );
            }
            if verify
                .expect
                .as_ref()
                .is_some_and(|text| text.trim().is_empty())
            {
                let reason = "the text is empty; omit it to check only the exit code";
                return wrong(&key_path("expect"), reason);
            }
        }
        if self.reboot_within.is_some() && !self.reboot {
            let reason = "this is for a set with reboot = true; add that, or omit this";
            return wrong(&["reboot-within".into()], reason);
        }
        if self.reboot && !self.reload.is_empty() {
            let reason =
                "a DUT that is restarted loads its files by itself: omit reload, or reboot";
            return wrong(&["reload".into()], reason);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"description = "a stateful firewall"
packages = "nftables"
before = "systemctl stop ufw"
after = ["ip link set eth0 mtu 1500", "true"]
undo = "systemctl start ufw"

[[reload]]
files = "/etc/frr/*.conf"
command = "systemctl reload frr"

[[verify]]
command = "nft list ruleset"
expect = "ct state established"

[[verify]]
command = "false"
exit = 1
"#;

    #[test]
    fn a_set_is_read() {
        let (set, _) = SetFile::parse("set.toml", WHOLE).unwrap();
        assert_eq!(set.after.len(), 2);
        assert_eq!(set.verify[1].exit, 1);
        assert_eq!(set.patience(), Duration::from_secs(300));
        assert!(set.reload[0].is_for("/etc/frr/bgpd.conf"));
        assert!(!set.reload[0].is_for("/etc/frr/daemons"));
        assert_eq!(SetFile::parse("x", "").unwrap().0, SetFile::default());
    }

    #[test]
    fn errors_have_a_position_and_a_suggestion() {
        for (was, is, expect) in [
            (
                "packages",
                "package",
                "set.toml:2:1: unknown key `package`; did you mean `packages`?",
            ),
            (
                "exit = 1",
                "exit = 300",
                "set.toml:17:8: found integer `300`, expected a number from 0 to 255",
            ),
            (
                "expect",
                "expects",
                "set.toml:13:1: unknown key `expects`; did you mean `expect`?",
            ),
            (
                "\"/etc/frr/*.conf\"",
                "\"etc/frr\"",
                "set.toml:8:9: give files as the DUT has them",
            ),
            ("\"true\"", "\" \"", "set.toml:4:39: it is empty; omit it"),
            (
                "\"ct state established\"",
                "\"\"",
                "set.toml:13:10: the text is empty",
            ),
            (
                "command = \"false\"",
                "",
                "set.toml:15:1: missing key `command`",
            ),
            (
                "undo =",
                "reboot = true\nundo =",
                "set.toml:8:3: a DUT that is restarted loads",
            ),
            (
                "undo =",
                "reboot-within = \"2min\"\nundo =",
                "set.toml:5:17: this is for a set with reboot",
            ),
            (
                "\"nftables\"",
                "\"a b\"",
                "set.toml:2:12: this is not the name of a package",
            ),
            ("[[verify]]", "[[verify]", "set.toml:11:"),
        ] {
            assert!(WHOLE.contains(was));
            let text = WHOLE.replacen(was, is, 1);
            let error = SetFile::parse("set.toml", &text).unwrap_err().to_string();
            assert!(error.starts_with(expect), "{was}: {error}");
        }
    }
}
