//! The program with the engine for ports of DPDK. Prints its version and that of DPDK; `lib.rs` has
//! the engine.

use std::io::{Write, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    let version = env!("CARGO_PKG_VERSION");
    let printed = writeln!(
        stdout(),
        "fwdlab-dpdk {version}, {}",
        fwdlab_dpdk::version()
    );
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
