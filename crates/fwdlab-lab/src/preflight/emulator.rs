//! Checks that instructions can be counted here (`quick --vm`, `--exact`, `bisect`): QEMU, and the
//! plugin that attributes them to functions.
//!
//! Everything else works without, so that nothing here is a failure. No guest is booted. Start with
//! [`checks`].

use super::Check;
use crate::vm::machine::takes_plugin;
use crate::vm::plugin::{self, PluginError};
use crate::vm::qemu::{self, PACKAGE, QEMU};
use crate::vm::scratch::Scratch;

const NAME: &str = "emulator";
const PROFILES: &str = "exact profiles";

pub(super) fn checks() -> Vec<Check> {
    let version = crate::programs::find(QEMU).map(|_| qemu::version());
    let is_there = matches!(version, Some(Ok(_)));
    let profiles = match is_there {
        true => profiles(),
        false => Check::skip(PROFILES, "no emulator"),
    };
    vec![emulator(version), profiles]
}

/// Judges the version of QEMU; `None`: there is no such program.
fn emulator(output: Option<Result<String, String>>) -> Check {
    let fix = format!("apt-get install {PACKAGE}");
    match output {
        None => Check::warn(
            NAME,
            format!("{QEMU} not found: no instructions are counted (quick --vm, --exact, bisect)"),
            fix,
        ),
        Some(Err(reason)) => Check::warn(NAME, format!("{QEMU} does not run: {reason}"), fix),
        Some(Ok(version)) => Check::ok(NAME, version),
    }
}

/// Compiles the plugin in a folder of its own, and loads it into QEMU.
fn profiles() -> Check {
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(error) => return Check::skip(PROFILES, error.to_string()),
    };
    judge(plugin::build(scratch.path()).map(|plugin| takes_plugin(&plugin)))
}

/// Judges whether the plugin was compiled, and whether it was loaded.
fn judge(made: Result<Result<(), String>, PluginError>) -> Check {
    match made {
        Ok(Ok(())) => Check::ok(
            PROFILES,
            "the plugin that counts by function is compiled, and QEMU loads it",
        ),
        Ok(Err(reason)) => Check::warn(
            PROFILES,
            format!("no functions are named: {reason}"),
            "install QEMU 7 or 8; without, instructions are counted all the same",
        ),
        Err(error @ PluginError::Cache { .. } | error @ PluginError::Profile { .. }) => {
            Check::skip(PROFILES, error.to_string())
        }
        Err(error) => Check::warn(PROFILES, error.to_string(), "apt-get install gcc libc6-dev"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn missing_programs_are_a_warning_with_their_package() {
        let none = emulator(None);
        assert_eq!(none.status, Status::Warn);
        assert!(none.fix.unwrap().contains("qemu-system-x86"));
        let version = "QEMU emulator version 7.2.22 (Debian)";
        let there = emulator(Some(Ok(version.into())));
        assert_eq!(there.finding, version);

        let new = judge(Ok(Err("it does not load the plugin".into())));
        assert_eq!(new.status, Status::Warn);
        assert!(new.fix.unwrap().contains("QEMU 7 or 8"));
        let compiler = judge(Err(PluginError::NoCompiler {
            compiler: "cc".into(),
            source: std::io::ErrorKind::NotFound.into(),
        }));
        assert_eq!(compiler.status, Status::Warn);
        assert!(compiler.fix.unwrap().contains("gcc"));
        assert_eq!(judge(Ok(Ok(()))).status, Status::Ok);
    }
}
