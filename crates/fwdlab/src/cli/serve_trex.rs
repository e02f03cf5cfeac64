//! `fwdlab serve --trex`: ports of this machine, for clients of TRex.
//!
//! What clients say is understood in `fwdlab-trex`; here are arguments, and the test bed where no ports are named. Start with
//! [`Trex::run`].

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;
use fwdlab_lab::bed::Bed;
use fwdlab_lab::placement::Placement;
use fwdlab_lab::ports::{Port, Role};
use fwdlab_model::link::LinkSpeed;
use fwdlab_trex::{Config, Server};

use super::Global;
use super::session::Signals;
use super::session::options::Ports;
use crate::exit_code::{Code, Usage};
use crate::output;

const RPC: u16 = 4501;
const PUBLISHER: u16 = 4500;
const HEADING: &str = "For clients of TRex";

/// Options of `serve` that need `--trex`.
#[derive(Debug, Args)]
pub struct Trex {
    /// Serve ports to clients of TRex instead of runs to browsers
    #[arg(long, help_heading = HEADING)]
    pub trex: bool,
    /// Interfaces, numbered from 0 in this order [default: the two ports of a test bed that is made for it]
    #[arg(long, value_name = "IFACE", value_delimiter = ',', requires = "trex", help_heading = HEADING)]
    ports: Vec<String>,
    /// Where clients subscribe to wake-ups [default: port 4500 beside --listen]
    #[arg(long, value_name = "ADDR", requires = "trex", help_heading = HEADING)]
    publisher: Option<SocketAddr>,
    /// Speed that the ports are said to have, such as 1G [default: their own, 10G without one]
    #[arg(long, value_name = "SPEED", requires = "trex", help_heading = HEADING)]
    link: Option<LinkSpeed>,
    #[command(flatten)]
    where_: Ports,
}

impl Trex {
    /// Runs it, until a signal comes.
    pub fn run(self, listen: Option<SocketAddr>, global: &Global) -> anyhow::Result<Code> {
        for (at, port) in self.ports.iter().enumerate() {
            if self.ports[..at].contains(port) {
                return Err(Usage(format!("--ports has {port} twice")).into());
            }
        }
        let rpc = listen.unwrap_or((Ipv4Addr::LOCALHOST, RPC).into());
        let beside = SocketAddr::new(rpc.ip(), PUBLISHER);
        let signals = Signals::catch()?;
        // the bed is taken down when it is dropped, after the server
        let bed = match self.ports.is_empty() {
            true => Some(Bed::up_both_ways(&Placement::choose(&[])?)?),
            false => None,
        };
        let ports = match &bed {
            Some(bed) => {
                let specs = bed.paths().first().map(|path| [&path.tx, &path.rx]);
                let ports = specs.into_iter().flatten().map(Port::of_ours);
                ports.collect::<Result<Vec<_>, _>>()?
            }
            None => {
                let take = |name: &String| self.where_.take(name, &[Role::Send, Role::Receive]);
                self.ports.iter().map(take).collect::<Result<_, _>>()?
            }
        };
        let names: Vec<String> = ports.iter().map(|p| p.spec.interface.clone()).collect();
        let server = Server::bind(Config {
            rpc,
            publisher: self.publisher.unwrap_or(beside),
            ports,
            link_bps: self.link.map(|link| link.bps()),
        })
        .map_err(|error| Usage(error.to_string()))?;
        let (rpc, publisher) = server.addresses()?;
        match global.json || global.json_stream {
            true => output::json(&serde_json::json!({
                "rpc": rpc.to_string(), "publisher": publisher.to_string(), "ports": names,
            }))?,
            false => output::result(&format!(
                "RPC        {rpc}\npublisher  {publisher}\nports      {}",
                names.join(", ")
            )),
        }
        if !rpc.ip().is_loopback() || !publisher.ip().is_loopback() {
            output::note(
                "whoever reaches these addresses may use the ports: TRex's protocol knows no passwords",
            );
        }
        server.run(&|| signals.is_stopped());
        Ok(signals.code(true))
    }
}
