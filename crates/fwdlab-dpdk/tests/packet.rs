//! A veth pair through DPDK's driver for packet sockets: its other end is the kernel's, which
//! counts the frames and hands over their bytes.
//!
//! Needs root, for a network namespace. Start with [`the_kernel_counts_what_was_sent`].

use std::path::PathBuf;
use std::process::Command;

use fwdlab_dpdk::{receiver, sender};
use fwdlab_engine::af_packet::SinglePort;
use fwdlab_engine::{Mode, PathSpec, open_sender};
use fwdlab_packet::signature::OFFSET_IPV4_UDP;

use super::*;

/// A namespace with a veth pair: `d0` for DPDK and `k0` for the kernel; removed when dropped.
struct Pair(String);

impl Pair {
    fn new() -> Result<Pair, String> {
        let pair = Pair(format!("fwdlab-dpdk-{}", std::process::id()));
        let name = &pair.0;
        for line in [
            format!("ip netns add {name}"),
            // neighbour discovery would add frames
            format!(
                "ip netns exec {name} sh -c 'echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6'"
            ),
            format!("ip -n {name} link add d0 type veth peer name k0"),
            format!("ip -n {name} link set d0 up"),
            format!("ip -n {name} link set k0 up"),
        ] {
            let output = Command::new("sh").args(["-c", &line]).output();
            let output = output.map_err(|error| format!("{line}: {error}"))?;
            if !output.status.success() {
                return Err(format!(
                    "{line}: {}",
                    String::from_utf8_lossy(&output.stderr)
                ));
            }
        }
        Ok(pair)
    }

    fn port(&self, interface: String) -> PortSpec {
        PortSpec {
            netns: Some(PathBuf::from("/run/netns").join(&self.0)),
            interface,
        }
    }

    /// Frames that `k0` has received, by the kernel.
    fn received(&self) -> u64 {
        let output = Command::new("ip")
            .args(["-n", &self.0, "-s", "-j", "link", "show", "k0"])
            .output()
            .unwrap();
        let links: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        links[0]["stats64"]["rx"]["packets"].as_u64().unwrap()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

#[test]
fn the_kernel_counts_what_was_sent() {
    let pair = match Pair::new() {
        Ok(pair) => pair,
        Err(reason) => {
            println!("SKIPPED: the_kernel_counts_what_was_sent: {reason}");
            return;
        }
    };
    let name = port(
        "net_af_packet",
        ",iface=d0,blocksz=65536,framesz=2048,framecnt=512",
    );
    let dpdk = pair.port(name.interface);
    let there = SinglePort::open(&pair.port("k0".into())).unwrap();
    let mut its_sender = sender(std::slice::from_ref(&dpdk), &[], 1).unwrap();
    let (before, frames) = (pair.received(), test_frames(594));
    let counts = send(&mut *its_sender, &frames, flat_out(2000));
    assert_eq!((counts.total(), counts.not_sent), (2000, 0));
    until("frames are missing", || pair.received() - before == 2000);
    // every byte, except the time that it chose itself
    let Frames::Test(expected) = &frames else {
        unreachable!()
    };
    let (mut found, mut wanted) = (vec![0; 2048], vec![0; 590]);
    for number in 0..2000 {
        let length = there.receive(&mut found, DEADLINE).unwrap();
        let signature = Signature::read(&found[OFFSET_IPV4_UDP..]).unwrap();
        let signature = Signature {
            nonce: expected.nonce,
            stream: 0,
            sequence: number,
            ..signature
        };
        let flow = expected.flows.flow(number % u64::from(FLOWS));
        (expected.template).write(&mut wanted, &flow, &signature);
        assert_eq!(
            (length, &found[..590]),
            (Some(590), &wanted[..]),
            "{number}"
        );
    }
    // frames that repeat, which the sender keeps: whole, in the order of their streams
    let frames = mix(false);
    let counts = send(&mut *its_sender, &frames, flat_out(900));
    assert_eq!((counts.total(), counts.streams), (900, vec![600, 300]));
    let Frames::Traffic(expected) = &frames else {
        unreachable!()
    };
    let mut numbers = [0; 2];
    for number in 0..900 {
        let length = there.receive(&mut found, DEADLINE).unwrap().unwrap();
        let stream = usize::from(found[length - 1]) - 1;
        let own = &expected.traffic.streams[stream];
        let kind = own.pattern[numbers[stream] % own.pattern.len()];
        let wanted = &own.kinds[usize::from(kind)].template;
        assert_eq!(&found[..length], &wanted[..], "frame {number}");
        numbers[stream] += 1;
    }
    assert_eq!(numbers, [600, 300]);
    // and the way back, at a rate that its ring of packet sockets can take
    let mut its_receiver = receiver(&dpdk, &[]).unwrap();
    let b = pair.port("k0".into());
    let path = PathSpec {
        tx: b.clone(),
        rx: b,
    };
    let mut kernel = open_sender(Mode::AfPacket, &[path], &[], 1).unwrap();
    let frames = test_frames(64);
    expect(&mut *its_receiver, &frames, 1);
    let schedule = Schedule {
        load: LoadPlan::Constant(2000.0),
        ..flat_out(400)
    };
    let counts = send(&mut *kernel, &frames, schedule);
    assert_eq!(
        arrived(&mut *its_receiver, counts.total()).received,
        counts.total()
    );
}
