//! The program; [`fwdlab::run`] does everything.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    fwdlab::run()
}
