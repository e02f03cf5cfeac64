//! fwdlab: how fast a router or firewall really forwards packets, and why.
//!
//! The program is arguments, screens and exit codes; what it does is in the libraries. One file per command in [`cli`].
//! Results go to standard output, everything else to standard error.
#![forbid(unsafe_code)]

mod cli;
mod exit_code;
mod output;
mod profiles;

fn main() -> std::process::ExitCode {
    let arguments = cli::arguments(std::env::args_os());
    match cli::run(arguments) {
        Ok(code) => code.into(),
        Err(error) => {
            output::error(&error);
            exit_code::of(&error).into()
        }
    }
}
