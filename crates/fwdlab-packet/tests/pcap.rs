//! Capture files: written files can be read, also by tshark and tcpdump if installed; damaged files
//! yield an error, never a panic, and the frames before the damage.

#![expect(clippy::disallowed_methods, reason = "asks independent programs")]

use fwdlab_packet::pcap::{
    Decoder, ETHERNET, Format, Frame, MAX_FRAME_BYTES, PcapError, Piece, Writer, frames,
};
use proptest::prelude::*;
use std::process::{Command, Stdio};

const FORMATS: [Format; 3] = [Format::Micro, Format::Nano, Format::Ng];

fn file(format: Format, frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    let writer = Writer::start(format, ETHERNET, &mut out);
    for (timestamp_ns, bytes) in frames {
        writer.frame(&Frame::new(*timestamp_ns, bytes), &mut out);
    }
    out
}

/// Returns everything up to the first error, and the error.
fn read(bytes: &[u8]) -> (Vec<Frame<'_>>, Option<PcapError>) {
    let mut error = None;
    let good = frames(bytes)
        .map_while(|frame| frame.map_err(|e| error = Some(e)).ok())
        .collect();
    (good, error)
}

/// A pcap file as in the draft, in either byte order: one frame of 3 bytes at 1.000000005 (or
/// 1.000005) s.
fn by_hand(nanoseconds: bool, big: bool) -> Vec<u8> {
    let magic: u32 = if nanoseconds {
        0xa1b2_3c4d
    } else {
        0xa1b2_c3d4
    };
    let word = |word: u32| {
        if big {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        }
    };
    let half = |half: u16| {
        if big {
            half.to_be_bytes()
        } else {
            half.to_le_bytes()
        }
    };
    let mut file = word(magic).to_vec();
    file.extend([half(2), half(4)].as_flattened());
    // FCS of 4 bytes: the flag, and 2 units of 2 bytes.
    file.extend([word(0), word(0), word(65_535), word(1 | 1 << 26 | 2 << 28)].as_flattened());
    file.extend([word(1), word(5), word(3), word(60)].as_flattened());
    file.extend([7, 8, 9]);
    file
}

#[test]
fn pcap_in_both_byte_orders_and_units() {
    for (nanoseconds, big) in [(false, false), (false, true), (true, false), (true, true)] {
        let file = by_hand(nanoseconds, big);
        let expected = Frame {
            timestamp_ns: if nanoseconds {
                1_000_000_005
            } else {
                1_000_005_000
            },
            link_type: ETHERNET,
            interface: 0,
            original_len: 60,
            fcs_len: 4,
            bytes: &[7, 8, 9],
        };
        assert_eq!(read(&file), (vec![expected], None));
    }
}

/// A pcapng block as in the draft.
fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let word = |word: u32| {
        if big {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        }
    };
    let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
    let len = word((12 + body.len() + padding.len()) as u32);
    [&word(kind)[..], &len, body, &padding, &len].concat()
}

#[test]
fn pcapng_of_others() {
    for big in [false, true] {
        let word = |word: u32| {
            if big {
                word.to_be_bytes()
            } else {
                word.to_le_bytes()
            }
        };
        let half = |half: u16| {
            if big {
                half.to_be_bytes()
            } else {
                half.to_le_bytes()
            }
        };
        let version = if big { [0, 1, 0, 0] } else { [1, 0, 0, 0] };
        let section = [&word(0x1a2b_3c4d)[..], &version, &[0xff; 8]].concat();
        let interface = |options: &[u8]| [&half(1)[..], &[0, 0], &word(100), options].concat();
        let option = |code: u16, value: &[u8]| {
            let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
            [&half(code)[..], &half(value.len() as u16), value, &padding].concat()
        };
        let seconds = if big {
            10_i64.to_be_bytes()
        } else {
            10_i64.to_le_bytes()
        };
        let packet = |interface: u32, timestamp: u64| {
            let words = [interface, (timestamp >> 32) as u32, timestamp as u32, 3, 64];
            [&words.map(word).concat()[..], &[1, 2, 3]].concat()
        };
        let file = [
            block(big, 0x0a0d_0d0a, &section),
            // Microseconds by default; a comment first.
            block(big, 1, &interface(&option(1, b"hello"))),
            // 2^-20 s, ten seconds later, with an FCS.
            block(
                big,
                1,
                &interface(&[option(9, &[0x94]), option(14, &seconds), option(13, &[4])].concat()),
            ),
            block(big, 6, &packet(0, 1_500_000)),
            block(big, 6, &packet(1, 3 << 19)),
            // A name resolution block, to be skipped.
            block(big, 4, &[0; 4]),
            // A simple packet of 150 bytes, of which the interface captured 100.
            block(big, 3, &[&word(150)[..], &[9; 100]].concat()),
        ]
        .concat();
        let (found, error) = read(&file);
        assert_eq!(error, None);
        let seen: Vec<_> = found
            .iter()
            .map(|f| (f.timestamp_ns, f.interface, f.fcs_len, f.bytes.len()))
            .collect();
        let expected = [
            (1_500_000_000, 0, 0, 3),
            (11_500_000_000, 1, 4, 3),
            (0, 0, 0, 100),
        ];
        assert_eq!(seen, expected);
        assert_eq!(found[2].original_len, 150);
    }
}

/// An FCS in a file is not payload: it is not sent, whichever field announces it, and may be the
/// part that is missing.
#[test]
fn a_captured_fcs_is_not_sent() {
    let mut classic = Vec::new();
    let frame = [0x5a; 64];
    Writer::start(Format::Nano, ETHERNET, &mut classic).frame(&Frame::new(1, &frame), &mut classic);
    classic[20..24].copy_from_slice(&(1_u32 | 1 << 26 | 2 << 28).to_le_bytes());
    let section = [
        &0x1a2b_3c4d_u32.to_le_bytes()[..],
        &[1, 0, 0, 0],
        &[0xff; 8],
    ]
    .concat();
    let ng = |of_interface: &[u8], of_frame: &[u8], captured: usize| {
        let interface = [&[1, 0, 0, 0], &[0; 4], of_interface].concat();
        let words = [0, 0, 7, captured as u32, 64].map(u32::to_le_bytes);
        let packet = [words.as_flattened(), &frame[..captured], of_frame].concat();
        [
            block(false, 0x0a0d_0d0a, &section),
            block(false, 1, &interface),
            block(false, 6, &packet),
        ]
        .concat()
    };
    let (fcs_len, flags) = ([13, 0, 1, 0, 4, 0, 0, 0], [2, 0, 4, 0, 0x80, 0, 0, 0]);
    for (name, file) in [
        ("pcap", classic),
        ("an interface of pcapng", ng(&fcs_len, &[], 64)),
        ("a frame of pcapng", ng(&[], &flags, 64)),
        ("cut off", ng(&fcs_len, &[], 60)),
    ] {
        let (found, error) = read(&file);
        assert_eq!((found.len(), error), (1, None), "{name}");
        assert_eq!(found[0].to_send().map(<[u8]>::len), Ok(60), "{name}");
    }
    let file = ng(&fcs_len, &[], 56);
    assert!(read(&file).0[0].to_send().is_err());
}

#[test]
fn nonsense_is_refused() {
    let unknown = |bytes: &[u8]| matches!(read(bytes).1, Some(PcapError::Unknown { .. }));
    assert!(unknown(b"\x1f\x8b\x08\x00 a gzip file") && unknown(&[0; 100]));
    assert!(matches!(read(b"").1, Some(PcapError::Truncated { .. })));

    // Lengths that could make a reader wait or allocate forever.
    let damaged = |format, at: usize, word: u32| {
        let mut file = file(format, &[(1, vec![1; 60]), (2, vec![2; 60])]);
        file[at..at + 4].copy_from_slice(&word.to_le_bytes());
        let (found, error) = read(&file);
        assert!(
            matches!(error, Some(PcapError::Malformed { .. })),
            "{error:?}"
        );
        found.len()
    };
    assert_eq!(damaged(Format::Nano, 24 + 8, u32::MAX), 0);
    assert_eq!(
        damaged(Format::Nano, 24 + 76 + 8, MAX_FRAME_BYTES as u32 + 1),
        1
    );
    let first = file(Format::Ng, &[]).len();
    assert_eq!(damaged(Format::Ng, first + 4, 0), 0);
    assert_eq!(damaged(Format::Ng, first + 4, u32::MAX - 3), 0);
    assert_eq!(damaged(Format::Ng, first + 8, 1), 0); // an interface that was not described
    assert_eq!(damaged(Format::Ng, first + 20, 61 + 3), 0); // a frame longer than its block
    assert_eq!(damaged(Format::Ng, first + 88, 4), 0); // the second length
}

fn any_frames() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..80);
    // Up to the year 2106, the limit of pcap.
    proptest::collection::vec((0..4_294_967_295_999_999_999_u64, bytes), 0..8)
}

proptest! {
    #[test]
    fn written_captures_can_be_read(all in any_frames()) {
        for format in FORMATS {
            let file = file(format, &all);
            let (found, error) = read(&file);
            prop_assert_eq!(error, None);
            let unit = if format == Format::Micro { 1000 } else { 1 };
            let expected: Vec<_> =
                all.iter().map(|(at, bytes)| Frame::new(at / unit * unit, bytes)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_file_cut_short_gives_the_frames_before(all in any_frames(), cut: prop::sample::Index) {
        for format in FORMATS {
            let whole = file(format, &all);
            let cut = cut.index(whole.len());
            let (found, error) = read(&whole[..cut]);
            prop_assert!(found.len() <= all.len());
            for (frame, (_, bytes)) in found.iter().zip(&all) {
                prop_assert_eq!(frame.bytes, &bytes[..]);
            }
            // There is no error only if the cut is at the end of a record; the frames then cover
            // the file.
            match error {
                None => {
                    let same = file(format, &all[..found.len()]);
                    prop_assert_eq!(same.get(..cut), Some(&whole[..cut]));
                }
                Some(PcapError::Truncated { begin, offset, missing }) => {
                    prop_assert!(offset == cut as u64 && begin <= offset && missing > 0);
                    prop_assert!(begin + missing <= whole.len() as u64 + 12);
                }
                Some(error) => prop_assert!(false, "{}", error),
            }
        }
    }

    #[test]
    fn pieces_give_the_same(all in any_frames(), size in 1..50_usize) {
        for format in FORMATS {
            let file = file(format, &all);
            let (mut decoder, mut have, mut seen) = (Decoder::new(), 0..0, 0);
            while let Ok(piece) = decoder.next(&file[have.clone()]) {
                match piece {
                    Piece::Frame(frame, used) => {
                        prop_assert_eq!(frame.bytes, &all[seen].1[..]);
                        seen += 1;
                        have.start += used;
                    }
                    Piece::Other(used) => have.start += used,
                    Piece::Needs(needed) => {
                        prop_assert!(needed > have.len());
                        if have.end == file.len() {
                            break;
                        }
                        have.end = file.len().min(have.end + size);
                    }
                }
            }
            prop_assert_eq!(seen, all.len());
            prop_assert_eq!(decoder.offset(), file.len() as u64);
        }
    }

    #[test]
    fn damage_is_no_panic(all in any_frames(), damage in proptest::collection::vec(any::<(prop::sample::Index, u8)>(), 0..20)) {
        for format in FORMATS {
            let mut file = file(format, &all);
            for (at, byte) in &damage {
                *at.get_mut(&mut file) = *byte;
            }
            let (found, _) = read(&file);
            prop_assert!(found.iter().map(|f| f.bytes.len()).sum::<usize>() <= file.len());
        }
    }
}

/// Returns a program's output for this standard input; `None` if it is not installed.
fn output_of(program: &str, arguments: &[&str], input: &[u8]) -> Option<String> {
    use std::io::Write;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input).expect("the program reads");
    drop(stdin);
    let output = child.wait_with_output().expect("a child that ends");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn tshark_reads_our_files() {
    let all: Vec<(u64, Vec<u8>)> = (0..20)
        .map(|n| {
            (
                1_700_000_000_123_456_789 + n * 1_000_000_007,
                vec![n as u8; 60 + n as usize],
            )
        })
        .collect();
    for format in FORMATS {
        let fields = [
            "-r",
            "-",
            "-T",
            "fields",
            "-e",
            "frame.time_epoch",
            "-e",
            "frame.len",
            "-e",
            "frame.cap_len",
        ];
        let Some(lines) = output_of("tshark", &fields, &file(format, &all)) else {
            println!("SKIPPED: tshark_reads_our_files: needs tshark");
            return;
        };
        let lines: Vec<_> = lines.lines().collect();
        assert_eq!(lines.len(), all.len(), "{format:?}");
        for (line, (at, bytes)) in lines.iter().zip(&all) {
            let unit = if format == Format::Micro { 1000 } else { 1 };
            let (at, len) = (at / unit * unit, bytes.len());
            let (seconds, fraction) = (at / 1_000_000_000, at % 1_000_000_000);
            assert_eq!(
                *line,
                format!("{seconds}.{fraction:09}\t{len}\t{len}"),
                "{format:?}"
            );
        }
    }
}

#[test]
fn tcpdump_reads_our_files() {
    let all: Vec<(u64, Vec<u8>)> = (0..5)
        .map(|n| (n * 1_000_000_007, vec![0xff; 60]))
        .collect();
    for format in FORMATS {
        let arguments = ["-r", "-", "-n", "-tt", "--nano"];
        let Some(lines) = output_of("tcpdump", &arguments, &file(format, &all)) else {
            println!("SKIPPED: tcpdump_reads_our_files: needs tcpdump");
            return;
        };
        let last = if format == Format::Micro {
            "4.000000000 "
        } else {
            "4.000000028 "
        };
        // Bytes that it does not understand follow as a dump.
        let lines: Vec<_> = lines
            .lines()
            .filter(|line| !line.starts_with('\t'))
            .collect();
        assert_eq!(lines.len(), 5, "{format:?}: {lines:?}");
        assert!(lines[4].starts_with(last), "{format:?}: {lines:?}");
    }
}
