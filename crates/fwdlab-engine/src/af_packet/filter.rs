//! Filters in classic BPF: the tests of `bpf/find.h` and `bpf/count.bpf.c` for packet sockets.
//!
//! A packet socket gets a frame after the kernel has removed its outer VLAN tag; further tags are
//! still present. A load beyond the end of the frame rejects it. Start with [`filter`].

use fwdlab_packet::header::{arp, icmpv6, ipv4, ipv6, ndp, udp, vlan};
use fwdlab_packet::signature;

use super::foreign::OURS;
use super::sys::Instruction;
use crate::signature::{FLOW_LABEL_MAGIC, SignaturePlace};

/// Which of our frames pass.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Age {
    /// Frames of the trial with this nonce.
    Current,
    /// Frames of an earlier trial.
    Late,
}

/// Target of a comparison, always further down.
#[derive(Clone, Copy, PartialEq)]
enum To {
    Next,
    Tag,
    InnerTag,
    Network,
    V4,
    V6,
    Signature,
    Pass,
    Reject,
}

/// One step of a filter in classic BPF (`linux/bpf_common.h`).
enum Step {
    /// An operation and its operand.
    Do(u32, u32),
    /// A comparison with a constant: the targets if it holds and if not.
    If(u32, u32, To, To),
    /// A label for comparisons.
    Here(To),
}

/// Returns a filter for frames of a trial, or of those before it, by their signature.
pub(super) fn filter(age: Age, nonce: u16, place: SignaturePlace) -> Vec<Instruction> {
    assemble(&steps(age, nonce, place), [PASS, REJECT])
}

/// Returns a filter for frames that are not of this trial: the opposite of `filter`, with its two
/// verdicts exchanged.
pub(super) fn not_ours(nonce: u16, place: SignaturePlace) -> Vec<Instruction> {
    assemble(&steps(Age::Current, nonce, place), [REJECT, PASS])
}

/// Returns a filter for outgoing frames without our mark.
pub(super) fn foreign() -> Vec<Instruction> {
    vec![
        instruction(LOAD_WORD, PACKET_TYPE),
        branch(libc::PACKET_OUTGOING.into(), 0, 3),
        instruction(LOAD_WORD, MARK),
        branch(OURS, 1, 0),
        instruction(RETURN, u32::MAX),
        instruction(RETURN, REJECT),
    ]
}

/// Returns a filter for ARP, and neighbour solicitations in IPv6 without extension headers.
pub(super) fn questions() -> Vec<Instruction> {
    const NEXT_HEADER: u32 = 14 + 6;
    const MESSAGE: u32 = 14 + ipv6::HEADER_LEN as u32;
    vec![
        instruction(LOAD_HALF, 12),
        branch(arp::ETHERTYPE.into(), 5, 0),
        branch(ipv6::ETHERTYPE.into(), 0, 5),
        instruction(LOAD_BYTE, NEXT_HEADER),
        branch(icmpv6::PROTOCOL.into(), 0, 3),
        instruction(LOAD_BYTE, MESSAGE),
        branch(ndp::SOLICITATION.into(), 0, 1),
        instruction(RETURN, u32::MAX),
        instruction(RETURN, REJECT),
    ]
}

/// Skips `jt` instructions if the loaded value equals `k`, otherwise `jf`.
fn branch(k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction {
        jt,
        jf,
        ..instruction(EQUAL, k)
    }
}

/// Returns a filter that nothing passes: for a socket that has no frames to count yet.
pub(super) fn reject_all() -> Vec<Instruction> {
    assemble(&[], [REJECT, REJECT])
}

fn steps(age: Age, nonce: u16, place: SignaturePlace) -> Vec<Step> {
    use Step::{Do, Here, If};
    let mut steps = match place {
        SignaturePlace::UdpPayload => {
            let mut steps = behind_tags();
            let payload = (14 + udp::HEADER_LEN) as u32;
            steps.extend([
                Do(LOAD_HALF_X, 12),
                If(EQUAL, ipv4::ETHERTYPE.into(), To::V4, To::Next),
                If(EQUAL, ipv6::ETHERTYPE.into(), To::V6, To::Reject),
                Here(To::V4),
                Do(LOAD_BYTE_X, 14),
                Do(AND, 0xf0),
                If(EQUAL, 0x40, To::Next, To::Reject),
                Do(LOAD_BYTE_X, 23),
                If(EQUAL, udp::PROTOCOL.into(), To::Next, To::Reject),
                Do(LOAD_BYTE_X, 14),
                Do(AND, 0x0f),
                If(AT_LEAST, 5, To::Next, To::Reject),
                Do(SHIFT_LEFT, 2),
                // bytes of tags and header
                Do(ADD_X, 0),
                Do(TO_X, 0),
                If(ALWAYS, 0, To::Signature, To::Signature),
                Here(To::V6),
                Do(LOAD_BYTE_X, 20),
                If(EQUAL, udp::PROTOCOL.into(), To::Next, To::Reject),
                Do(FROM_X, 0),
                Do(ADD, ipv6::HEADER_LEN as u32),
                Do(TO_X, 0),
                Here(To::Signature),
                // the whole signature must be in the frame
                Do(LOAD_BYTE_X, payload + signature::LEN as u32 - 1),
                Do(LOAD_HALF_X, payload),
                Do(XOR, signature::MAGIC.into()),
            ]);
            steps
        }
        SignaturePlace::Tail => vec![
            Do(LOAD_LENGTH, 0),
            If(AT_LEAST, 14 + signature::LEN as u32, To::Next, To::Reject),
            Do(SUBTRACT, signature::LEN as u32),
            Do(TO_X, 0),
            Do(LOAD_HALF_X, 0),
            Do(XOR, signature::MAGIC.into()),
        ],
        SignaturePlace::FlowLabel => {
            let mut steps = behind_tags();
            steps.extend([
                Do(LOAD_HALF_X, 12),
                If(EQUAL, ipv6::ETHERTYPE.into(), To::Next, To::Reject),
                Do(LOAD_BYTE_X, 14 + ipv6::HEADER_LEN as u32 - 1),
                Do(LOAD_BYTE_X, 15),
                Do(AND, 0x0f),
                If(EQUAL, FLOW_LABEL_MAGIC.into(), To::Next, To::Reject),
                Do(LOAD_HALF_X, 16),
            ]);
            steps
        }
    };
    // the age in trials: our nonce minus that of the frame, modulo 2^16
    steps.extend([
        Do(TO_X, 0),
        Do(LOAD_CONSTANT, nonce.into()),
        Do(SUBTRACT_X, 0),
        Do(AND, 0xffff),
    ]);
    match age {
        Age::Current => steps.push(If(EQUAL, 0, To::Pass, To::Reject)),
        Age::Late => steps.extend([
            If(EQUAL, 0, To::Reject, To::Next),
            If(ABOVE, signature::LATE_TRIALS.into(), To::Reject, To::Pass),
        ]),
    }
    steps
}

/// Loads the bytes of tags into X.
fn behind_tags() -> Vec<Step> {
    use Step::{Do, Here, If};
    let is_tag = |then, otherwise| {
        [
            If(EQUAL, vlan::ETHERTYPE.into(), then, To::Next),
            If(EQUAL, vlan::ETHERTYPE_SERVICE.into(), then, To::Next),
            If(EQUAL, vlan::ETHERTYPE_OLD.into(), then, otherwise),
        ]
    };
    let mut steps = vec![Do(SET_X, 0), Do(LOAD_HALF, 12)];
    steps.extend(is_tag(To::Tag, To::Network));
    steps.extend([Here(To::Tag), Do(SET_X, 4), Do(LOAD_HALF, 16)]);
    steps.extend(is_tag(To::InnerTag, To::Network));
    steps.extend([Here(To::InnerTag), Do(SET_X, 8), Here(To::Network)]);
    steps
}

/// Appends the two verdicts, for frames that pass and for those that do not.
fn assemble(steps: &[Step], verdicts: [u32; 2]) -> Vec<Instruction> {
    let length = |steps: &[Step]| {
        let instructions = steps.iter().filter(|step| !matches!(step, Step::Here(_)));
        instructions.count()
    };
    let end = length(steps);
    let target = |from: usize, to: To| {
        let at = match to {
            To::Next => from + 1,
            To::Pass => end,
            To::Reject => end + 1,
            place => {
                let here = steps
                    .iter()
                    .position(|step| matches!(step, Step::Here(here) if *here == place))
                    .expect("every place that is gone to is in the program");
                length(&steps[..here])
            }
        };
        at - from - 1
    };
    let mut program = Vec::with_capacity(end + 2);
    for step in steps {
        let from = program.len();
        match *step {
            Step::Here(_) => {}
            Step::Do(code, k) => program.push(instruction(code, k)),
            Step::If(ALWAYS, _, to, _) => {
                program.push(instruction(ALWAYS, target(from, to) as u32))
            }
            Step::If(code, k, then, otherwise) => program.push(Instruction {
                jt: target(from, then) as u8,
                jf: target(from, otherwise) as u8,
                ..instruction(code, k)
            }),
        }
    }
    program.extend(verdicts.map(|verdict| instruction(RETURN, verdict)));
    program
}

fn instruction(code: u32, k: u32) -> Instruction {
    Instruction {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Keeping one byte of a frame is enough to count it.
const PASS: u32 = 1;
const REJECT: u32 = 0;

/// The kernel's metadata of a frame: its direction, and its mark.
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
const MARK: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_MARK) as u32;

const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_HALF_X: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
const LOAD_BYTE_X: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_IND;
const LOAD_LENGTH: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_LEN;
const LOAD_CONSTANT: u32 = libc::BPF_LD | libc::BPF_IMM;
const SET_X: u32 = libc::BPF_LDX | libc::BPF_IMM;
const TO_X: u32 = libc::BPF_MISC | libc::BPF_TAX;
const FROM_X: u32 = libc::BPF_MISC | libc::BPF_TXA;
const ADD: u32 = libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K;
const ADD_X: u32 = libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X;
const SUBTRACT: u32 = libc::BPF_ALU | libc::BPF_SUB | libc::BPF_K;
const SUBTRACT_X: u32 = libc::BPF_ALU | libc::BPF_SUB | libc::BPF_X;
const SHIFT_LEFT: u32 = libc::BPF_ALU | libc::BPF_LSH | libc::BPF_K;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const XOR: u32 = libc::BPF_ALU | libc::BPF_XOR | libc::BPF_K;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const ABOVE: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const ALWAYS: u32 = libc::BPF_JMP | libc::BPF_JA;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

#[cfg(test)]
mod tests {
    use super::super::sys;
    use super::*;
    use crate::signature::{self, flow_label, flow_label_at};
    use crate::testing::signed_frame;
    use fwdlab_packet::{IpVersion, Signature};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    const NONCE: u16 = 3;

    /// Runs a filter in the kernel, on a socket that needs no privileges.
    fn passes(age: Age, frame: &[u8]) -> bool {
        passes_program(&filter(age, NONCE, SignaturePlace::UdpPayload), frame)
    }

    fn passes_program(program: &[Instruction], frame: &[u8]) -> bool {
        let (sender, receiver) = UnixDatagram::pair().unwrap();
        receiver.set_nonblocking(true).unwrap();
        let receiver = OwnedFd::from(receiver);
        sys::attach_filter(&receiver, program).unwrap();
        // a datagram that the filter rejects is either reported as sent or refused with EPERM
        let _ = sender.send(frame);
        UnixDatagram::from(receiver).recv(&mut [0; 1]).is_ok()
    }

    fn frame(version: IpVersion, nonce: u16) -> Vec<u8> {
        let signature = Signature {
            nonce,
            ..Signature::default()
        };
        signed_frame(version, &signature)
    }

    #[test]
    fn frames_of_this_trial_late_frames_and_foreign_frames_are_distinguished() {
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
    fn frames_that_a_router_originates_are_foreign() {
        let program = not_ours(NONCE, SignaturePlace::UdpPayload);
        let mut discovery = frame(IpVersion::V6, NONCE);
        discovery[20] = 58;
        assert!(passes_program(&program, &discovery));
        assert!(!passes_program(&program, &frame(IpVersion::V6, NONCE)));
    }

    #[test]
    fn only_arp_and_neighbour_solicitations_pass() {
        let mut requested = vec![0; 86];
        assert!(!passes_program(&questions(), &requested));
        requested[12..14].copy_from_slice(&arp::ETHERTYPE.to_be_bytes());
        assert!(passes_program(&questions(), &requested));
        requested[12..14].copy_from_slice(&ipv6::ETHERTYPE.to_be_bytes());
        (requested[20], requested[54]) = (icmpv6::PROTOCOL, ndp::SOLICITATION);
        assert!(passes_program(&questions(), &requested));
        for at in [20, 54] {
            requested[at] ^= 1;
            assert!(!passes_program(&questions(), &requested), "byte {at}");
            requested[at] ^= 1;
        }
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

    /// Equals the user-space search, with which the XDP program is compared, too.
    #[test]
    fn signatures_are_found_where_they_are() {
        let ours = frame(IpVersion::V4, NONCE);
        let mut options = ours.clone();
        options.splice(34..34, [1, 1, 1, 0]);
        options[14] = 0x46;
        let mut tail = ours.clone();
        let (from, to) = (42..60, 61);
        tail.resize(to + 18, 0);
        tail.copy_within(from, to);
        tail[42] = 0;
        let mut label = frame(IpVersion::V6, NONCE.wrapping_sub(1));
        let at = flow_label_at(&label).unwrap();
        let [_, bytes @ ..] = flow_label(NONCE).to_be_bytes();
        label[at..at + 3].copy_from_slice(&bytes);
        for plain in [ours, options, tail, label, vec![0x9; 60]] {
            for tags in [
                &[][..],
                &[0x81, 0, 0, 1],
                &[0x88, 0xa8, 0, 1, 0x91, 0, 0, 2],
                &[0x81, 0, 0, 1, 0x81, 0, 0, 1, 0x81, 0, 0, 1],
            ] {
                let mut frame = plain.clone();
                frame.splice(12..12, tags.iter().copied());
                for place in [
                    SignaturePlace::UdpPayload,
                    SignaturePlace::Tail,
                    SignaturePlace::FlowLabel,
                ] {
                    let network = signature::network(&frame).unwrap();
                    let nonce = match place {
                        SignaturePlace::FlowLabel => signature::nonce_in_label(&frame, network),
                        place => signature::find(&frame, network, place)
                            .and_then(Signature::read)
                            .map(|signature| signature.nonce),
                    };
                    for expected in [NONCE, NONCE + 1, NONCE + 255, NONCE + 256] {
                        let program = filter(Age::Current, expected, place);
                        assert_eq!(
                            passes_program(&program, &frame),
                            nonce == Some(expected),
                            "{place:?} {frame:02x?}"
                        );
                        let late = nonce
                            .is_some_and(|nonce| (1..256).contains(&expected.wrapping_sub(nonce)));
                        let program = filter(Age::Late, expected, place);
                        assert_eq!(
                            passes_program(&program, &frame),
                            late,
                            "{place:?} {frame:02x?}"
                        );
                    }
                }
            }
        }
    }
}
