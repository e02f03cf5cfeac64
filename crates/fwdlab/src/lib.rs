//! fwdlab measures how fast a router or firewall forwards packets, and shows why.
//!
//! This is the program: arguments, screens and exit codes; the other libraries do the work. Each
//! command is a file in [`cli`]; start there. Results go to standard output, everything else to
//! standard error.
//!
//! It is a library with one function, because cargo compiles a library at the same time as those it
//! uses, and a program only after them.
#![forbid(unsafe_code)]

mod catalogue;
mod cli;
mod exit_code;
mod output;
mod profiles;
mod tui;

/// Runs the command that the arguments of this process name.
pub fn run() -> std::process::ExitCode {
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
