//! The packet receiver: counts our frames with a classic BPF filter, needing no more than a network namespace of one's own.
//!
//! The socket's buffer is as small as the kernel allows and nobody reads it, so that nearly every frame is counted and
//! dropped before anything is copied; `PACKET_STATISTICS` counts these too. A frame still goes on up the stack of the
//! receiving namespace, which costs the CPU it runs on: prefer [`crate::xdp_count`]. Start with [`PacketCount`].

use std::os::fd::OwnedFd;

use packet::header::{ipv4, ipv6, udp};
use packet::{IpVersion, signature};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{RecvFlags, recv};

use super::sys::{self, Instruction};
use crate::analysis::Analysis;
use crate::error::EngineError;
use crate::generator::{Expected, ReceiveCounts, Receiver};
use crate::port::{PortSpec, interface_index, within};

/// All protocols: one socket for IPv4 and IPv6.
const ETH_P_ALL: u16 = libc::ETH_P_ALL as u16;

/// The receiver. One socket for this trial's frames, one for late ones, and one for what a router says by itself.
///
/// Counts what the kernel hands to packet sockets: frames as they arrive, before any firewall, and not those that an XDP
/// program has taken. `foreign` counts IPv6 only (neighbour discovery, multicast reports: what a DUT with static neighbours
/// sends by itself), on a socket that IPv4 traffic never touches. `wrong_length` stays 0, for it would cost another filter
/// per frame.
/// `dropped_by_receiver` stays 0 too: here nearly every frame is dropped by the socket, on purpose and counted.
/// More than 2^32 frames between two readings are miscounted.
pub struct PacketCount {
    interface: String,
    current: Counter,
    late: Counter,
    foreign: Counter,
}

impl PacketCount {
    /// Opens the sockets on a port. Nothing is counted before [`Receiver::expect`].
    ///
    /// # Errors
    /// An interface that does not exist, or no CAP_NET_RAW in its namespace.
    pub fn open(port: &PortSpec) -> Result<Self, EngineError> {
        within(&port.netns, || {
            let index = interface_index(&port.interface)?;
            let counter = |protocol| {
                Counter::open(index, protocol).map_err(|e| {
                    EngineError::system(format!("count packets on {}", port.interface), e)
                })
            };
            Ok(PacketCount {
                interface: port.interface.clone(),
                current: counter(ETH_P_ALL)?,
                late: counter(ETH_P_ALL)?,
                foreign: counter(ipv6::ETHERTYPE)?,
            })
        })
    }
}

impl Receiver for PacketCount {
    fn name(&self) -> &'static str {
        "af-packet"
    }

    fn expect(&mut self, expected: &Expected) -> Result<(), EngineError> {
        let nonce = expected.udp_payload(self.name())?;
        self.current
            .restart(&filter(Age::Current, nonce))
            .and_then(|()| self.late.restart(&filter(Age::Late, nonce)))
            .and_then(|()| self.foreign.restart(&not_ours(nonce)))
            .map_err(|e| EngineError::system(format!("expect a trial on {}", self.interface), e))
    }

    fn counts(&mut self) -> Result<ReceiveCounts, EngineError> {
        let read = |counter: &mut Counter| {
            counter
                .read()
                .map_err(|e| EngineError::system("read the packet counters", e))
        };
        Ok(ReceiveCounts {
            received: read(&mut self.current)?,
            late: read(&mut self.late)?,
            foreign: read(&mut self.foreign)?,
            ..ReceiveCounts::default()
        })
    }

    fn analysis(&mut self) -> Result<Option<Analysis>, EngineError> {
        Ok(None)
    }
}

/// A socket that counts what passes its filter.
struct Counter {
    socket: OwnedFd,
    frames: u64,
}

impl Counter {
    fn open(interface: u32, protocol: u16) -> std::io::Result<Counter> {
        let socket = sys::open()?;
        sys::ignore_outgoing(&socket)?;
        sys::attach_filter(&socket, &assemble(&[])[1..])?;
        set_socket_recv_buffer_size(&socket, 0)?;
        sys::bind(&socket, interface, protocol)?;
        Ok(Counter { socket, frames: 0 })
    }

    fn restart(&mut self, program: &[Instruction]) -> std::io::Result<()> {
        sys::attach_filter(&self.socket, program)?;
        self.read()?;
        self.frames = 0;
        Ok(())
    }

    fn read(&mut self) -> std::io::Result<u64> {
        self.frames += u64::from(sys::take_statistics(&self.socket)?);
        // The few frames that found room: their memory may belong to the sender, which wants it back at its end.
        while recv(&self.socket, &mut [0_u8; 1][..], RecvFlags::DONTWAIT).is_ok() {}
        Ok(self.frames)
    }
}

/// Which of our frames.
#[derive(Clone, Copy, PartialEq)]
enum Age {
    /// Of the trial with this nonce.
    Current,
    /// Of one of the trials before.
    Late,
}

/// One step of a filter in classic BPF (`linux/bpf_common.h`): an operation and its constant.
enum Step {
    Do(u32, u32),
    /// Goes on if the comparison holds, else the frame is rejected.
    Require(u32, u32),
}

/// The test of `bpf/count.bpf.c` in classic BPF: ours are IPv4 without options or IPv6, then UDP, then the signature.
fn filter(age: Age, nonce: u16) -> Vec<Instruction> {
    let [mut v4, v6] = [IpVersion::V4, IpVersion::V6].map(|version| branch(version, age, nonce));
    // what is not IPv4 is not rejected but tried as IPv6
    v4[0].jf = v4.len() as u8 - 1;
    let mut program = vec![instruction(LOAD_HALF, 12)];
    program.extend(v4);
    program.extend(v6);
    program
}

/// IPv6 frames that are not of this trial: the test for those that are, with its two verdicts exchanged.
fn not_ours(nonce: u16) -> Vec<Instruction> {
    let mut program = vec![instruction(LOAD_HALF, 12)];
    program.extend(branch(IpVersion::V6, Age::Current, nonce));
    let verdicts = program.len() - 2;
    program[verdicts..].reverse();
    program
}

/// The part for one IP version: it begins with the ethertype loaded and compares that first; it ends with a verdict.
fn branch(version: IpVersion, age: Age, nonce: u16) -> Vec<Instruction> {
    let (ethertype, protocol_at, signature_at) = match version {
        IpVersion::V4 => (ipv4::ETHERTYPE, 23, signature::OFFSET_IPV4_UDP),
        IpVersion::V6 => (ipv6::ETHERTYPE, 20, signature::OFFSET_IPV6_UDP),
    };
    let mut steps = vec![
        Step::Require(EQUAL, u32::from(ethertype)),
        Step::Do(LOAD_LENGTH, 0),
        Step::Require(AT_LEAST, (signature_at + signature::LEN) as u32),
    ];
    if version == IpVersion::V4 {
        // version 4, header of 20 bytes
        steps.extend([Step::Do(LOAD_BYTE, 14), Step::Require(EQUAL, 0x45)]);
    }
    steps.extend([
        Step::Do(LOAD_BYTE, protocol_at),
        Step::Require(EQUAL, u32::from(udp::PROTOCOL)),
        // nonce - (first half word ^ MAGIC) modulo 2^16: how many trials ago
        Step::Do(LOAD_HALF, signature_at as u32),
        Step::Do(XOR, u32::from(signature::MAGIC)),
        Step::Do(TO_X, 0),
        Step::Do(LOAD_CONSTANT, u32::from(nonce)),
        Step::Do(SUBTRACT_X, 0),
        Step::Do(AND, 0xffff),
    ]);
    match age {
        Age::Current => steps.push(Step::Require(EQUAL, 0)),
        // 1 to LATE_TRIALS, compared as 0 to LATE_TRIALS - 1
        Age::Late => steps.extend([
            Step::Do(SUBTRACT, 1),
            Step::Do(TO_X, 0),
            Step::Do(LOAD_CONSTANT, u32::from(signature::LATE_TRIALS) - 1),
            Step::Require(AT_LEAST_X, 0),
        ]),
    }
    assemble(&steps)
}

fn assemble(steps: &[Step]) -> Vec<Instruction> {
    let verdicts = [
        // one byte of the frame is enough to count it
        instruction(RETURN, 1),
        instruction(RETURN, 0),
    ];
    steps
        .iter()
        .enumerate()
        .map(|(at, step)| match *step {
            Step::Do(code, k) => instruction(code, k),
            Step::Require(code, k) => Instruction {
                jf: (steps.len() - at) as u8,
                ..instruction(code, k)
            },
        })
        .chain(verdicts)
        .collect()
}

fn instruction(code: u32, k: u32) -> Instruction {
    Instruction {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_LENGTH: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_LEN;
const LOAD_CONSTANT: u32 = libc::BPF_LD | libc::BPF_IMM;
const TO_X: u32 = libc::BPF_MISC | libc::BPF_TAX;
const SUBTRACT: u32 = libc::BPF_ALU | libc::BPF_SUB | libc::BPF_K;
const SUBTRACT_X: u32 = libc::BPF_ALU | libc::BPF_SUB | libc::BPF_X;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const XOR: u32 = libc::BPF_ALU | libc::BPF_XOR | libc::BPF_K;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const AT_LEAST_X: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_X;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{FlowSet, FrameSpec, FrameTemplate, MacAddr, Signature};
    use std::os::unix::net::UnixDatagram;

    const NONCE: u16 = 3;

    /// A filter run by the kernel, on a socket that needs no privileges.
    fn passes(age: Age, frame: &[u8]) -> bool {
        passes_program(&filter(age, NONCE), frame)
    }

    fn passes_program(program: &[Instruction], frame: &[u8]) -> bool {
        let (sender, receiver) = UnixDatagram::pair().unwrap();
        receiver.set_nonblocking(true).unwrap();
        let receiver = OwnedFd::from(receiver);
        sys::attach_filter(&receiver, program).unwrap();
        // a datagram that the filter rejects is reported as sent, or refused with EPERM
        let _ = sender.send(frame);
        UnixDatagram::from(receiver).recv(&mut [0; 1]).is_ok()
    }

    fn frame(version: IpVersion, nonce: u16) -> Vec<u8> {
        let (frame_size, flows) = match version {
            IpVersion::V4 => (64, FlowSet::default_v4(10)),
            IpVersion::V6 => (84, FlowSet::default_v6(10)),
        };
        let template = FrameTemplate::new(&FrameSpec {
            source: MacAddr([2, 0, 0, 0, 1, 1]),
            destination: MacAddr([2, 0, 0, 0, 0, 1]),
            version,
            frame_size,
        })
        .unwrap();
        let mut frame = vec![0; template.buffer_len()];
        let signature = Signature {
            nonce,
            ..Signature::default()
        };
        template.write(&mut frame, &flows.unwrap().flow(7), &signature);
        frame
    }

    #[test]
    fn this_trial_late_and_foreign_frames_are_told_apart() {
        for version in [IpVersion::V4, IpVersion::V6] {
            let current = frame(version, NONCE);
            assert!(passes(Age::Current, &current) && !passes(Age::Late, &current));
            for late in [2, 0, 0xffff, NONCE.wrapping_sub(255)] {
                let late = frame(version, late);
                assert!(!passes(Age::Current, &late) && passes(Age::Late, &late));
            }
            for foreign in [4, 0x8000, NONCE.wrapping_sub(256)] {
                let foreign = frame(version, foreign);
                assert!(!passes(Age::Current, &foreign) && !passes(Age::Late, &foreign));
            }
        }
    }

    #[test]
    fn what_a_router_says_by_itself_is_foreign() {
        let program = not_ours(NONCE);
        let mut discovery = frame(IpVersion::V6, NONCE);
        discovery[20] = 58;
        assert!(passes_program(&program, &discovery));
        assert!(!passes_program(&program, &frame(IpVersion::V6, NONCE)));
    }

    #[test]
    fn other_headers_are_foreign() {
        for (version, at) in [
            (IpVersion::V4, 12),
            (IpVersion::V4, 14),
            (IpVersion::V4, 23),
            (IpVersion::V6, 13),
            (IpVersion::V6, 20),
        ] {
            let mut other = frame(version, NONCE);
            other[at] ^= 1;
            assert!(!passes(Age::Current, &other), "{version} byte {at}");
        }
    }

    #[test]
    fn frames_without_room_for_a_signature_are_foreign() {
        for version in [IpVersion::V4, IpVersion::V6] {
            let whole = frame(version, NONCE);
            for length in 1..whole.len() {
                assert!(
                    !passes(Age::Current, &whole[..length]),
                    "{version} {length}"
                );
            }
        }
    }
}
