//! fwdlab measures how fast a router or firewall forwards packets, and shows why.
//!
//! This program has the arguments, screens and exit codes; the libraries do the work. Each command
//! is a file in [`cli`]; start there. Results go to standard output, everything else to standard
//! error.
#![forbid(unsafe_code)]

mod catalogue;
mod cli;
mod exit_code;
mod output;
mod profiles;
mod tui;

fn main() -> std::process::ExitCode {
    output::read_width();
    let code = answer();
    match output::lost() {
        true => exit_code::Code::Internal.into(),
        false => code.into(),
    }
}

fn answer() -> exit_code::Code {
    let arguments = match cli::arguments(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let as_json = arguments.wants_json();
    let (code, reason) = match cli::run(arguments) {
        Ok(code) => (code, code.kind().to_owned()),
        Err(error) => {
            output::error(&error);
            (exit_code::for_error(&error), output::chain(&error))
        }
    };
    if as_json && code != exit_code::Code::Done {
        output::json_error(code, &reason);
    }
    code
}
