//! Sending on veth: our engines, trafgen, testpmd, and the kernel's limit.
//!
//! Start with [`run`].

use std::rc::Rc;

use fwdlab_engine::sink::Sink;
use fwdlab_engine::{Frames, Mode, PathSpec, PortSpec, TestFrames, af_packet, af_xdp, xdp_live};
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr};

use crate::GENERATOR_CPU;
use crate::bed::{Bed, DESTINATION_MAC, SOURCE_MAC};
use crate::contender::{Contender, Turns, compare, prepare_own_sender};
use crate::rival;
use crate::table::Table;

/// Live frames with this number of flows.
const LIVE: [(&str, u32); 3] = [
    ("xdp-live, 1 flow", 1),
    ("xdp-live, 2000 flows", 2000),
    ("xdp-live, 1M flows", 1_000_000),
];

/// Upper limits of live frames: without writing them, and with heads written from constants.
const UNTOUCHED: &str = "limit: live frames, untouched";
const WRITTEN: &str = "limit: live frames, written";

pub fn run(turns: Turns) -> Result<(), String> {
    let bed = Bed::new()?;
    let mut contenders: Vec<Box<dyn Contender>> = vec![];
    let mut absent = vec![];
    let mut take = |made: Result<Box<dyn Contender>, String>| match made {
        Ok(contender) => contenders.push(contender),
        Err(reason) => absent.push(reason),
    };
    let mut pairs = 0..;
    let mut pair = || -> Result<(PortSpec, Rc<Sink>), String> {
        let (tx, rx) = bed.pair(pairs.next().expect("endless"))?;
        let sink = Sink::open(&rx).map_err(|e| e.to_string())?;
        Ok((tx, Rc::new(sink)))
    };
    // the memory location of a pair accounts for 15 % of a live frame's time, so contenders that
    // are compared share one
    let live = pair()?;
    let netns = bed.sending();

    for mode in [Mode::AfPacket, Mode::AfXdp] {
        let (port, sink) = pair()?;
        take(engine(mode.name(), mode, 256, &port, sink));
    }
    for (name, flows) in LIVE {
        let (port, sink) = live.clone();
        take(engine(name, Mode::XdpLive, flows, &port, sink));
    }
    for (name, options) in [
        ("trafgen", &[][..]),
        ("trafgen, ring of 1 MiB", &["--ring-size", "1MiB"]),
        ("trafgen, ring of 64 MiB", &["--ring-size", "64MiB"]),
        ("trafgen, with qdisc", &["--qdisc-path"]),
    ] {
        let (port, sink) = pair()?;
        take(rival::trafgen(name, options, &netns, &port.interface, sink));
    }
    for driver in ["net_af_packet", "net_af_xdp"] {
        let (port, sink) = pair()?;
        let device = format!("{driver}0,iface={}", port.interface);
        let name = format!("testpmd {driver}");
        take(rival::testpmd(
            &name,
            &device,
            &[],
            Some(&netns),
            Some(sink),
        ));
    }
    for (name, way) in [
        ("limit: sendmmsg", "packet"),
        ("limit: AF_XDP", "xdp"),
        (UNTOUCHED, "live"),
        (WRITTEN, "live-written"),
    ] {
        let (port, sink) = match way.starts_with("live") {
            true => live.clone(),
            false => pair()?,
        };
        take(rival::limit(name, way, &netns, &port.interface, sink));
    }

    let table = Table::new(
        "Sending 60-byte frames into veth, counted and dropped by XDP at the peer, all on one CPU",
        compare(contenders, turns),
    );
    let trafgen = table.best("trafgen").unwrap_or("trafgen").to_owned();
    table.row("af-packet", Some((&trafgen, None)));
    table.row("af-packet", Some(("limit: sendmmsg", None)));
    table.row("af-xdp", Some((&trafgen, Some(1.3))));
    table.row("af-xdp", Some(("limit: AF_XDP", Some(1.0))));
    table.row("af-xdp", Some(("testpmd net_af_xdp", Some(1.0))));
    for (name, _) in LIVE {
        table.row(name, Some((WRITTEN, Some(0.95))));
        table.row(name, Some((UNTOUCHED, None)));
    }
    table.row(LIVE[1].0, Some(("af-packet", Some(7.0))));
    let shown = LIVE.map(|(name, _)| name);
    table.rest(&[&["af-packet", "af-xdp"], &shown[..]].concat());
    for reason in absent {
        println!("left out: {reason}");
    }
    Ok(())
}

/// One of our engines with this number of flows, all checksums and signatures.
fn engine(
    name: &str,
    mode: Mode,
    flows: u32,
    port: &PortSpec,
    sink: Rc<Sink>,
) -> Result<Box<dyn Contender>, String> {
    let path = [PathSpec {
        tx: port.clone(),
        rx: port.clone(),
    }];
    let cpus = [GENERATOR_CPU];
    let failed = |e: fwdlab_engine::EngineError| format!("{name}: {e}");
    let sender: Box<dyn fwdlab_engine::Sender> = match mode {
        Mode::XdpLive => Box::new(xdp_live::XdpLive::open(&path, &cpus).map_err(failed)?),
        Mode::AfXdp => Box::new(af_xdp::sender(&path, &cpus).map_err(failed)?),
        Mode::AfPacket => Box::new(af_packet::sender(&path, &cpus).map_err(failed)?),
        Mode::Memif | Mode::Dpdk | Mode::Memory => return Err("it reaches no interface".into()),
    };
    prepare_own_sender(name, sender, &test_frames(flows)?, Some(sink))
}

/// The smallest frames, in this number of flows.
pub fn test_frames(flows: u32) -> Result<Frames, String> {
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr(SOURCE_MAC),
        destination: MacAddr(DESTINATION_MAC),
        version: IpVersion::V4,
        frame_size: 64,
    });
    Ok(Frames::Test(TestFrames {
        template: template.map_err(|e| e.to_string())?,
        flows: FlowSet::default_v4(flows).map_err(|e| e.to_string())?,
        nonce: 1,
    }))
}
