//! The program with the engine for ports of DPDK. fwdlab starts it with its own version and asks it
//! over a socket, its standard input; it ends with that. Without arguments it prints its version
//! and that of DPDK.

use std::collections::BTreeMap;
use std::io::{Write, stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use fwdlab_dpdk::OpenPort;
use fwdlab_engine::part::{OpenPart, Parts, PortFacts};
use fwdlab_engine::sys::become_preferred;
use fwdlab_engine::{Counting, EngineError, Mode, PortSpec, Receiver, Sender};

/// The ports of this process.
#[derive(Default)]
struct Ports {
    /// Open until they are closed, with or without a sender and a receiver.
    open: BTreeMap<String, OpenPort>,
}

impl OpenPart for Ports {
    fn sender(
        &mut self,
        _: Mode,
        ports: &[PortSpec],
        cpus: &[usize],
        senders: u32,
    ) -> Result<Box<dyn Sender>, EngineError> {
        fwdlab_dpdk::sender(ports, cpus, senders)
    }

    fn receiver(
        &mut self,
        _: Counting,
        port: &PortSpec,
        cpus: &[usize],
    ) -> Result<Box<dyn Receiver>, EngineError> {
        fwdlab_dpdk::receiver(port, cpus)
    }

    fn facts(&mut self, port: &PortSpec) -> Result<PortFacts, EngineError> {
        let name = &port.interface;
        if !self.open.contains_key(name) {
            self.open.insert(name.clone(), OpenPort::open(port)?);
        }
        self.open[name].facts()
    }

    fn close(&mut self, port: &PortSpec) {
        self.open.remove(&port.interface);
    }
}

fn main() -> ExitCode {
    let version = env!("CARGO_PKG_VERSION");
    let printed = match std::env::args().nth(1) {
        None => writeln!(
            stdout(),
            "fwdlab-dpdk {version}, {}",
            fwdlab_dpdk::version()
        ),
        Some(asked) if asked != version => {
            // if standard error is closed, the exit code still tells
            let _ = writeln!(
                stderr(),
                "fwdlab-dpdk has version {version}, and fwdlab {asked}: install both of one version"
            );
            return ExitCode::from(2);
        }
        Some(_) => serve(),
    };
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(stderr(), "fwdlab-dpdk: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Answers questions until the stream ends.
fn serve() -> std::io::Result<()> {
    // its own senders and receivers must not keep this thread from its CPU
    become_preferred();
    let mut stream = UnixStream::from(stdin().as_fd().try_clone_to_owned()?);
    Parts::new(Ports::default()).serve(&mut stream)
}
