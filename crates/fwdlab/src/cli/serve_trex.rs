//! `fwdlab serve --trex`: serves ports of this machine to clients of TRex.
//!
//! `fwdlab-trex` implements the protocol; this module has the arguments, and builds a test bed if
//! no ports are given. Start with [`Trex::run`].

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use clap::Args;
use fwdlab_lab::bed::Bed;
use fwdlab_lab::dut::Route;
use fwdlab_lab::networks::End;
use fwdlab_lab::placement::Placement;
use fwdlab_lab::ports::{Port, Role};
use fwdlab_lab::site::Site;
use fwdlab_model::link::LinkSpeed;
use fwdlab_model::profile::Mac;
use fwdlab_model::test_bed::{BedFile, Place, TesterPort};
use fwdlab_trex::{Config, Server, Source};

use super::Global;
use super::session::Signals;
use super::session::options::Ports;
use super::test_bed;
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
    /// Interfaces, numbered from 0 in this order [default: the two ports of a temporary test bed]
    #[arg(long, value_name = "IFACE", value_delimiter = ',', requires = "trex", help_heading = HEADING)]
    ports: Vec<String>,
    /// Address of the publisher socket, to which clients subscribe [default: port 4500 of the
    /// address of --listen]
    #[arg(long, value_name = "ADDR", requires = "trex", help_heading = HEADING)]
    publisher: Option<SocketAddr>,
    /// Accept connections only from these addresses or networks, such as 10.0.0.0/8 [default:
    /// anyone who can reach --listen, which is this machine unless changed]
    #[arg(long, value_name = "ADDR", value_delimiter = ',', requires = "trex", help_heading = HEADING)]
    allow: Vec<Source>,
    /// Use the ports of this test bed (name or file), built at the start and removed at the end;
    /// its tester must be this machine
    #[arg(long, value_name = "BED", requires = "trex", conflicts_with = "ports", help_heading = HEADING)]
    bed: Option<String>,
    /// Destination MAC address of each port's frames, in the order of the ports, unless a client
    /// sets one [default: ports 0 and 1, 2 and 3 ... send to each other]
    #[arg(long, value_name = "MAC", value_delimiter = ',', requires = "ports", help_heading = HEADING)]
    dst_mac: Vec<Mac>,
    /// Speed that the ports report, such as 1G [default: their own, or 10G if they have none]
    #[arg(long, value_name = "SPEED", requires = "trex", help_heading = HEADING)]
    link: Option<LinkSpeed>,
    /// Raise the MTU of the ports to at least this while they are served, for frames above 1518
    /// bytes: 9000, or 9224 for TRex's largest; also on the DUT of a temporary test bed [default:
    /// unchanged]
    #[arg(long, value_name = "BYTES", requires = "trex", value_parser = clap::value_parser!(u32).range(1280..=65_535), help_heading = HEADING)]
    mtu: Option<u32>,
    #[command(flatten)]
    where_: Ports,
}

impl Trex {
    /// Runs the command until a signal arrives.
    pub fn run(mut self, listen: Option<SocketAddr>, global: &Global) -> anyhow::Result<Code> {
        self.where_.by_own_names(&mut self.ports);
        for (at, port) in self.ports.iter().enumerate() {
            if self.ports[..at].contains(port) {
                return Err(Usage(format!("--ports has {port} twice")).into());
            }
        }
        let rpc = listen.unwrap_or((Ipv4Addr::LOCALHOST, RPC).into());
        let beside = SocketAddr::new(rpc.ip(), PUBLISHER);
        let signals = Signals::catch()?;
        // Clients start ports one by one. Without a higher priority, a sender that fills a CPU
        // would block the next call until it ends, and two ports would send in turn instead of
        // together.
        fwdlab_engine::sys::become_preferred();
        // dropped after the server, which removes the test bed
        let (bed, cpus) = match self.ports.is_empty() {
            true => {
                let (site, placement) = self.site()?;
                let bed = site.both_ways(&placement)?;
                // also route the addresses of TRex's own profiles, if fwdlab can log in
                if let Err(error) = bed.dut(0).route(&trex_profile_routes()) {
                    output::note(&format!(
                        "the DUT has no routes for TRex's stock profiles: {error}"
                    ));
                }
                (Some(bed), placement.generator_cpus)
            }
            false => (None, Vec::new()),
        };
        if let (Some(bed), Some(bytes)) = (&bed, self.mtu) {
            bed.raise_mtu(bytes)?;
        }
        let ports = match &bed {
            Some(bed) => {
                let specs = bed.paths().first().map(|path| [&path.tx, &path.rx]);
                let ports = specs.into_iter().flatten().map(Port::own_port);
                ports.collect::<Result<Vec<_>, _>>()?
            }
            None => {
                let take = |name: &String| {
                    self.where_
                        .take_interface(name, &[Role::Send, Role::Receive])
                };
                self.ports.iter().map(take).collect::<Result<_, _>>()?
            }
        };
        let peers = self.peers(bed.as_ref(), &ports)?;
        let names: Vec<String> = ports.iter().map(|p| p.spec.interface.clone()).collect();
        let server = Server::bind(Config {
            rpc,
            publisher: self.publisher.unwrap_or(beside),
            allow: self.allow.clone(),
            ports,
            mtu: self.mtu,
            link_bps: self.link.map(|link| link.bps()),
            peers: peers.clone(),
            cpus,
        })
        .map_err(|error| Usage(error.to_string()))?;
        for note in &server.notes {
            output::note(note);
        }
        let (rpc, publisher) = server.addresses()?;
        match global.json || global.json_stream {
            true => output::json(&serde_json::json!({
                "rpc": rpc.to_string(), "publisher": publisher.to_string(), "ports": names,
            }))?,
            false => {
                let ways = names.iter().zip(&peers).enumerate();
                let ways = ways.map(|(at, (name, peer))| match peer {
                    Some(peer) => format!("port {at}     {name}, frames to {}\n", text(*peer)),
                    None => format!("port {at}     {name}\n"),
                });
                let ways: String = ways.collect();
                let ways = ways.trim_end();
                output::result(&format!("RPC        {rpc}\npublisher  {publisher}\n{ways}"));
            }
        }
        if self.allow.is_empty() && !(rpc.ip().is_loopback() && publisher.ip().is_loopback()) {
            output::note(
                "anyone who can connect can use the ports: the TRex protocol has no authentication, and --allow is not set",
            );
        }
        server.run(&|| signals.is_stopped());
        Ok(signals.code(true))
    }

    /// Returns where to build the test bed.
    fn site(&self) -> anyhow::Result<(Site, Placement)> {
        let Some(name) = &self.bed else {
            return Ok((Site::default(), Placement::choose(&[], 1)?));
        };
        let BedFile::Hosts(bed) = test_bed::find(Path::new(""), name)? else {
            return Err(Usage(format!(
                "the test bed {name} is a virtual machine; TRex clients are served only on existing hosts and on the embedded bed"
            ))
            .into());
        };
        let far = |port: &TesterPort<'_>| matches!(port.host, Place::Ssh(_));
        if let Some(port) = bed.tester_ports().iter().find(|port| far(port)) {
            return Err(Usage(format!(
                "the port {} of the test bed {name} is on {}; run fwdlab serve --trex there, and let its clients connect with --listen and \
                 --allow, or through ssh",
                port.port, port.host
            ))
            .into());
        }
        test_bed::host(&bed)
    }

    /// Returns the destination MAC address of each port's frames.
    fn peers(&self, bed: Option<&Bed>, ports: &[Port]) -> Result<Vec<Option<[u8; 6]>>, Usage> {
        if let Some(bed) = bed {
            let networks = bed.networks();
            let sides = [networks.forward(), networks.reverse()];
            return Ok(sides.map(|side| Some(side.destination_mac)).into());
        }
        if !self.dst_mac.is_empty() && self.dst_mac.len() != ports.len() {
            return Err(Usage(format!(
                "--dst-mac has {} addresses, and there are {} ports",
                self.dst_mac.len(),
                ports.len()
            )));
        }
        let beside = |at: usize| ports.get(at ^ 1).and_then(|port| port.facts.mac);
        let output = |at: usize| self.dst_mac.get(at).map(|mac| mac.0);
        Ok((0..ports.len())
            .map(|at| output(at).or_else(|| beside(at)))
            .collect())
    }
}

/// Returns routes to the networks of TRex's stock profiles: clients behind port 0, servers behind
/// port 1.
fn trex_profile_routes() -> [Route; 2] {
    let route = |first: u8, out| Route {
        network: (Ipv4Addr::new(first, 0, 0, 0).into(), 8),
        out,
    };
    [route(16, End::Input), route(48, End::Output)]
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
