//! Wrong use of `xtask` is told with what there is.
//!
//! What its commands do is tested beside them. `make test` builds this test together with the program, so that cargo takes the features
//! that tests need, and compiles no dependency twice.

use std::process::Command;

#[test]
fn wrong_use_is_told_with_the_commands_there_are() {
    for arguments in [&[][..], &["frobnicate"], &["check", "everything"]] {
        let ended = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(arguments)
            .output()
            .expect("cargo has built it");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {said}");
        for command in ["check", "schemas", "test"] {
            assert!(said.contains(&format!("\n  {command} ")), "{said}");
        }
    }
}
