//! Wrong use of `xtask` is told with what there is.
//!
//! What its commands do is tested beside them. `make test` builds this test together with the
//! program, so that cargo takes the features that tests need, and compiles no dependency twice.

use std::process::Command;

#[test]
fn usage_errors_list_the_commands() {
    for arguments in [&[][..], &["frobnicate"], &["check", "everything"]] {
        let ended = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(arguments)
            .output()
            .expect("cargo has built it");
        let printed = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {printed}");
        for command in ["check", "schemas", "test"] {
            assert!(printed.contains(&format!("\n  {command} ")), "{printed}");
        }
    }
}
