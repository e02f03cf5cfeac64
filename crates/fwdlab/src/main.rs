//! fwdlab: how fast a router or firewall really forwards packets, and why.
//!
//! The program is arguments, screens and exit codes; what it does is in the libraries. One file per command in [`cli`].
//! Results go to standard output, everything else to standard error.
#![forbid(unsafe_code)]

mod catalogue;
mod cli;
mod exit_code;
mod output;
mod profiles;
mod tui;

fn main() -> std::process::ExitCode {
    output::look();
    let arguments = match cli::arguments(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(code) => return code.into(),
    };
    let as_json = arguments.wants_json();
    match cli::run(arguments) {
        Ok(code) => code.into(),
        Err(error) => {
            let code = exit_code::of(&error);
            output::error(&error);
            if as_json {
                output::json_error(code, &output::chain(&error));
            }
            code.into()
        }
    }
}
