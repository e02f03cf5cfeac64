//! Commands that verify that a configuration set is in force: runs them and checks their output.
//!
//! The scripts run in any `sh`. Start with [`command`].

use fwdlab_model::set::Verify;

use crate::error::LabError;
use crate::host::not_understood;
use crate::host::{Host, Output};

/// Returns the text for `sh`: it prints the exit status after the output, so that any other end is
/// a failure.
pub(super) fn command(verify: &Verify) -> String {
    format!("({}\n); echo \"fwdlab: $?\"", verify.command)
}

/// Checks the output; the inner error says why it is wrong.
///
/// # Errors
/// The output has no exit status.
pub(super) fn look(
    verify: &Verify,
    output: &Output,
    host: &dyn Host,
) -> Result<Result<(), String>, LabError> {
    let Verify {
        command,
        expect,
        exit,
    } = verify;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let at = stdout.rfind("fwdlab: ").unwrap_or(stdout.len());
    let (printed, ended) = stdout.split_at(at);
    let Some(ended) = ended.strip_prefix("fwdlab: ") else {
        return Err(not_understood(host, command, &output.text()));
    };
    let printed = format!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    let shown: String = printed.trim().chars().take(200).collect();
    if ended.trim() != exit.to_string() {
        let ended = ended.trim();
        return Ok(Err(format!(
            "`{command}` should end with exit code {exit}, but ends with {ended}: {shown}"
        )));
    }
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(match expect {
        Some(text) if !words(&printed).contains(&words(text)) => Err(format!(
            "`{command}` should print `{text}`, but prints: {shown}"
        )),
        _ => Ok(()),
    })
}
