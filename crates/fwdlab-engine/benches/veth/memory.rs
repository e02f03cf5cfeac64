//! Writing frames that are not sent: our memory engine and testpmd on DPDK's null device, by the
//! CPU time of each.
//!
//! Start with [`run`].

use std::sync::Arc;

use fwdlab_engine::traffic::{Emission, Kind, Stream, Timing};
use fwdlab_engine::{Frames, SignaturePlace, Traffic, TrafficFrames, memory};
use fwdlab_packet::modifier::{
    Dimension, Endian, Instruction, Program, Source, Transport, Values, Variable, Width,
};
use fwdlab_packet::permutation::Visits;

use crate::GENERATOR_CPU;
use crate::contender::{Contender, Turns, compare, prepare_own_sender};
use crate::rival;
use crate::table::Table;
use crate::transmit::test_frames;

const TXONLY: &str = "testpmd txonly";
const MULTI_FLOW: &str = "testpmd multi-flow";

pub fn run(turns: Turns) -> Result<(), String> {
    let mut absent = vec![];
    let mut contenders: Vec<Box<dyn Contender>> = vec![];
    let mut take = |name: &str, frames: Frames| -> Result<(), String> {
        let sender = Box::new(memory::sender(1, &[GENERATOR_CPU]));
        contenders.push(prepare_own_sender(name, sender, &frames, None)?);
        Ok(())
    };
    let sequential = Visits::Sequential;
    let shuffled = Visits::Shuffled { seed: 1 };
    let flows = |root, visits| profile(&[64], Some((root, visits)), true);
    take("cached, 1 flow", profile(&[64], None, false))?;
    take(
        "cached, 2500 flows",
        profile(&[64], Some((50, sequential)), false),
    )?;
    take("1 flow", profile(&[64], None, true))?;
    take("1 flow by a set", flows(1, sequential))?;
    take("2500 flows", flows(50, sequential))?;
    take("1M flows", flows(1000, sequential))?;
    take("1M flows shuffled", flows(1000, shuffled))?;
    take(
        "1M flows unsigned",
        profile(&[64], Some((1000, sequential)), false),
    )?;
    take(
        "1M flows shuffled, IMIX",
        profile(&[64, 594, 1518], Some((1000, shuffled)), true),
    )?;
    take("test frames, 256 flows", test_frames(256)?)?;
    for (name, options) in [(TXONLY, &[][..]), (MULTI_FLOW, &["--txonly-multi-flow"])] {
        match rival::testpmd(name, "net_null0", options, None, None) {
            Ok(rival) => contenders.push(rival),
            Err(reason) => absent.push(reason),
        }
    }

    let table = Table::new(
        "Writing 60-byte frames into memory, per second of CPU time; IPv4 and UDP checksums right, signatures where not said otherwise",
        compare(contenders, turns),
    );
    if !rival::huge_pages_are_free() {
        println!("(testpmd without huge pages, of which fewer than 64 of 2 MiB are free)");
    }
    table.row("cached, 1 flow", Some((TXONLY, Some(1.5))));
    table.row("cached, 2500 flows", Some((TXONLY, Some(1.5))));
    // 12 ns where theirs takes 20
    table.row("1 flow", Some((MULTI_FLOW, Some(1.67))));
    table.row("1M flows", Some((MULTI_FLOW, Some(1.0))));
    table.row("1M flows", Some(("1 flow", Some(0.8))));
    table.row("1M flows shuffled", Some((MULTI_FLOW, Some(1.0))));
    table.row("1M flows shuffled", Some(("1 flow", Some(0.8))));
    table.row("1M flows shuffled", Some(("1 flow by a set", None)));
    table.row("1M flows unsigned", Some((MULTI_FLOW, Some(1.0))));
    table.row("test frames, 256 flows", Some((MULTI_FLOW, None)));
    table.rest(&[
        "cached, 1 flow",
        "cached, 2500 flows",
        "1 flow",
        "1M flows",
        "1M flows shuffled",
        "1M flows unsigned",
        "test frames, 256 flows",
    ]);
    for reason in absent {
        println!("left out: {reason}");
    }
    Ok(())
}

/// UDP over IPv4 in frames of these sizes in order; addresses from a set of `root` x `root`, or
/// constant.
fn profile(sizes: &[usize], flows: Option<(u64, Visits)>, is_signed: bool) -> Frames {
    let stream = Stream {
        id: 1,
        name: "frames".into(),
        kinds: sizes
            .iter()
            .map(|size| kind(size - 4, flows, is_signed))
            .collect(),
        pattern: (0..sizes.len() as u16).collect(),
        timing: Timing::new(1e6, Emission::Continuous),
        path: 0,
    };
    Frames::Traffic(TrafficFrames {
        traffic: Arc::new(Traffic {
            name: "benchmark".into(),
            streams: vec![stream],
        }),
        nonce: 1,
    })
}

fn kind(bytes: usize, flows: Option<(u64, Visits)>, is_signed: bool) -> Kind {
    let dimension = |name: &str, first, count| Dimension {
        name: name.to_owned(),
        width: Width::Four,
        values: Values::Range {
            first,
            step: 1,
            count,
        },
    };
    let variables = flows.map(|(root, visits)| Variable {
        name: "flow".into(),
        width: Width::Four,
        source: Source::Grid {
            dimensions: vec![
                dimension("to", 0xc613_0001, root),
                dimension("from", 0xc612_0001, root),
            ],
            visits,
        },
        split: true,
        next: None,
    });
    let write = |variable: &str, offset| Instruction::Write {
        variable: variable.to_owned(),
        offset,
        add: 0,
        endian: Endian::Big,
    };
    let mut instructions = vec![];
    if flows.is_some() {
        instructions.extend([write("flow.to", 30), write("flow.from", 26)]);
    }
    if is_signed {
        instructions.push(Instruction::Signature { offset: 42 });
    }
    instructions.push(Instruction::FixTransport {
        l2_len: 14,
        l3_len: 20,
        transport: Transport::Udp,
    });
    Kind {
        template: template(bytes),
        program: Program {
            variables: variables.into_iter().collect(),
            instructions,
            cache: None,
        },
        place: is_signed.then_some(SignaturePlace::UdpPayload),
    }
}

fn template(bytes: usize) -> Vec<u8> {
    use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Signature};
    let template = FrameTemplate::new(&FrameSpec {
        source: MacAddr(crate::bed::SOURCE_MAC),
        destination: MacAddr(crate::bed::DESTINATION_MAC),
        version: IpVersion::V4,
        frame_size: bytes as u16 + 4,
    })
    .expect("a size with room for the signature");
    let flow = FlowSet::default_v4(1).expect("a default set").flow(0);
    let mut frame = vec![0; bytes];
    template.write(&mut frame, &flow, &Signature::default());
    frame
}
