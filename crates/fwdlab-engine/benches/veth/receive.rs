//! The cost of counting and of analysing: the same sender with different receivers, all on one CPU.
//!
//! A receiver's cost per frame is the additional time compared with a sink, which counts and drops.
//! Start with [`run`].

use std::rc::Rc;

use fwdlab_engine::analysis::{AnalysisPlan, StreamPlan};
use fwdlab_engine::sink::Sink;
use fwdlab_engine::{Expected, Frames, PathSpec, PortSpec, Receiver, Sender, SignaturePlace};
use fwdlab_engine::{af_packet, af_xdp, xdp_count};

use crate::GENERATOR_CPU;
use crate::bed::Bed;
use crate::contender::{Contender, Rates, Turns, compare, median, prepare_own_sender};
use crate::transmit::test_frames;

const FLOWS: u32 = 256;

pub fn run(turns: Turns) -> Result<(), String> {
    let bed = Bed::new()?;
    let frames = test_frames(FLOWS)?;
    let mut contenders = vec![];
    let mut receivers: Vec<Box<dyn Receiver>> = vec![];
    let kinds = [
        "sink",
        "xdp",
        "xdp, analysis",
        "af-packet",
        "af-packet, analysis",
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        let (tx, rx) = bed.pair(number)?;
        let failed = |e: fwdlab_engine::EngineError| format!("{kind}: {e}");
        let mut sink = None;
        match kind {
            "sink" => sink = Some(Rc::new(Sink::open(&rx).map_err(failed)?)),
            _ => {
                let mut receiver = receiver(kind, &rx).map_err(failed)?;
                receiver.expect(&expected(kind)).map_err(failed)?;
                receivers.push(receiver);
            }
        }
        contenders.push(sender(kind, &tx, &frames, sink)?);
    }
    let all = compare(contenders, turns);
    println!("\nReceiving 60-byte frames from af-xdp, on one CPU");
    println!("{:34} {:>8} {:>22}", "", "Mpps", "ns more than a sink");
    let Some(Ok(sink)) = all.first() else {
        return Err("the sink failed".into());
    };
    for row in &all {
        match row {
            Ok(rates) => print_row(rates, sink),
            Err((name, reason)) => println!("{name:34} left out: {reason}"),
        }
    }
    for mut receiver in receivers {
        // a receiver without frames counted something else than what was sent
        let counts = receiver.counts().map_err(|e| e.to_string())?;
        if counts.received == 0 {
            println!("{}: has received nothing", receiver.name());
        }
    }
    Ok(())
}

fn print_row(rates: &Rates, sink: &Rates) {
    let more = rates.pps.iter().zip(&sink.pps);
    let mut more: Vec<f64> = more.map(|(its, sink)| 1e9 / its - 1e9 / sink).collect();
    let middle = median(&mut more);
    let half = (more[more.len() * 3 / 4] - more[more.len() / 4]) / 2.0;
    let rate = median(&mut rates.pps.clone());
    println!(
        "{:34} {:8.3} {middle:14.1} ± {half:5.1}",
        rates.name,
        rate / 1e6
    );
}

fn receiver(kind: &str, port: &PortSpec) -> Result<Box<dyn Receiver>, fwdlab_engine::EngineError> {
    Ok(match kind {
        kind if kind.starts_with("xdp") => Box::new(xdp_count::XdpCount::open(port)?),
        _ => Box::new(af_packet::PacketCount::open(port)?),
    })
}

fn expected(kind: &str) -> Expected {
    let plan = AnalysisPlan {
        streams: vec![StreamPlan {
            id: 0,
            flows: 0,
            lengths: None,
        }],
    };
    Expected {
        nonce: 1,
        buffer_bytes: Some(60),
        place: SignaturePlace::UdpPayload,
        analysis: kind.ends_with("analysis").then_some(plan),
    }
}

fn sender(
    name: &str,
    port: &PortSpec,
    frames: &Frames,
    sink: Option<Rc<Sink>>,
) -> Result<Box<dyn Contender>, String> {
    let path = PathSpec {
        tx: port.clone(),
        rx: port.clone(),
    };
    let sender: Box<dyn Sender> =
        Box::new(af_xdp::sender(&[path], &[GENERATOR_CPU]).map_err(|e| e.to_string())?);
    prepare_own_sender(name, sender, frames, sink)
}
