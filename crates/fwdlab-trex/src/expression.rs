//! Filter expressions of `tcpdump`, compiled by `tcpdump` itself; [`bpf::Program`] runs the result.
//!
//! So the language is exactly libpcap's, and our programs do not need C libraries. No interface is
//! opened. The expression is one argument and never passes through a shell; its length is limited,
//! and so is the time to compile it. Start with [`compile`].

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_packet::bpf;

/// Maximum length of an expression, in bytes.
pub const LONGEST: usize = 4096;

/// Time limit of `tcpdump`, which also resolves host names in an expression.
const PATIENCE: Duration = Duration::from_secs(2);

/// Interval of checking whether it has ended.
const LOOK: Duration = Duration::from_millis(1);

/// Maximum length of a line with an instruction.
const LINE: usize = 32;

/// Only one at a time, to limit concurrent requests.
static TURN: Mutex<()> = Mutex::new(());

/// Why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// `tcpdump` is missing.
    #[error(
        "filters need tcpdump, which compiles them, and it is not there. Install it: apt-get install tcpdump"
    )]
    Missing,
    /// It is too long.
    #[error("the filter has {0} bytes; it may have {LONGEST}")]
    TooLong(usize),
    /// It is invalid; contains the message of `tcpdump`.
    #[error("{0}")]
    Wrong(String),
    /// Compiling it takes too long.
    #[error("tcpdump did not compile the filter within {} s", PATIENCE.as_secs())]
    TooSlow,
    /// It is valid, but we cannot run the program.
    #[error("the filter cannot be run: {0}")]
    Program(#[from] bpf::BpfError),
    /// The system refuses.
    #[error("cannot run tcpdump: {0}")]
    System(String),
}

/// Returns the program of an expression, for Ethernet. The empty expression matches every frame.
///
/// # Errors
/// See [`ExpressionError`].
pub fn compile(expression: &str) -> Result<bpf::Program, ExpressionError> {
    if expression.len() > LONGEST {
        return Err(ExpressionError::TooLong(expression.len()));
    }
    if expression.trim().is_empty() {
        return Ok(bpf::Program::accept_all());
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let text = run(Command::new("tcpdump").args(["-ddd", "-y", "EN10MB", "--", expression]))?;
    Ok(bpf::Program::parse(&text)?)
}

fn run(command: &mut Command) -> Result<String, ExpressionError> {
    let system = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => ExpressionError::Missing,
        _ => ExpressionError::System(error.to_string()),
    };
    let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = pipes.stderr(Stdio::piped()).spawn().map_err(system)?;
    // if it writes more than we read it blocks, and then times out
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = (reader(out), reader(err));
    let started = Instant::now();
    let ended = loop {
        match child.try_wait().map_err(system)? {
            Some(status) => break status,
            None if started.elapsed() < PATIENCE => thread::sleep(LOOK),
            None => {
                child.kill().map_err(system)?;
                child.wait().map_err(system)?;
                return Err(ExpressionError::TooSlow);
            }
        }
    };
    let text = |reader: thread::JoinHandle<Vec<u8>>| {
        let bytes = reader.join().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (out, err) = (text(out), text(err));
    match ended.success() {
        true => Ok(out),
        false => Err(ExpressionError::Wrong(tcpdump_error(&err))),
    }
}

/// Reads from a pipe in a thread, up to a program of the largest size.
fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // incomplete output is not a valid program
            let _ = pipe.take((bpf::MOST * LINE) as u64).read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Returns `tcpdump`'s error message about the expression, as one line.
fn tcpdump_error(err: &str) -> String {
    let lines = err
        .lines()
        .filter_map(|line| line.strip_prefix("tcpdump: "));
    let mut lines = lines.filter(|line| !line.starts_with("data link type"));
    let text: String = lines
        .next_back()
        .unwrap_or("tcpdump refuses the filter")
        .into();
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use fwdlab_packet::pcap::{self, Format, Frame, Writer};
    use std::fmt::Write as _;

    use super::*;

    /// Frames of many kinds, tagged or not, some damaged, the same in every run.
    fn frames() -> Vec<Vec<u8>> {
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut dice = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % below
        };
        (0..600)
            .map(|_| {
                let mut frame = vec![0x02, 0, 1, 0, 0, 1, 0x02, 0, 2, 0, 0, dice(3) as u8];
                for _ in 0..dice(3) {
                    let tag = [&[0x81, 0x00][..], &[0x88, 0xa8], &[0x91, 0x00]][dice(3)];
                    frame.extend(tag);
                    frame.extend([dice(2) as u8, [7, 100, 200][dice(3)]]);
                }
                let words = [8usize, 5][dice(2)];
                let (kind, protocol) = (dice(6), [1, 6, 17, 17, 47][dice(5)]);
                match kind {
                    0 => frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1 + dice(2) as u8]),
                    1 => {
                        frame.extend([
                            0x86,
                            0xdd,
                            0x60,
                            0,
                            0,
                            0,
                            0,
                            24,
                            [6, 17, 58, 0][dice(4)],
                            64,
                        ]);
                        frame.extend([0x20, 1, 0, 2].repeat(8));
                    }
                    2 => frame.extend([0x88, 0x47, 0, 0, 0x11, 0x40, 0x45]),
                    _ => {
                        frame.extend([8, 0, 0x40 + words as u8, [0, 1][dice(2)], 0, 60, 0, 0]);
                        frame.extend([
                            [0, 0x20, 0x40][dice(3)],
                            [0, 3][dice(2)],
                            64,
                            protocol,
                            0,
                            0,
                        ]);
                        frame.extend([[16, 48, 10][dice(3)], 0, 0, dice(4) as u8]);
                        frame.extend([48, 0, 0, dice(4) as u8]);
                        frame.resize(frame.len() + 4 * (words - 5), 1);
                        frame.extend([0, [53, 80, 179][dice(3)], 0, [53, 80, 179][dice(3)]]);
                        frame.extend([
                            0,
                            20,
                            0,
                            0,
                            0x78,
                            0xc9,
                            0x8f,
                            0x69 + dice(2) as u8,
                            dice(64) as u8,
                        ]);
                    }
                }
                frame.resize(frame.len() + dice(60), dice(256) as u8);
                if dice(6) == 0 {
                    frame.truncate(14 + dice(frame.len() - 13));
                }
                frame
            })
            .collect()
    }

    const EXPRESSIONS: [&str; 32] = [
        "arp",
        "arp or (vlan and arp) or (vlan and arp)",
        "icmp or (vlan and icmp) or (vlan and icmp)",
        "icmp6 or (vlan and icmp6)",
        "udp[8:4]= 0x78c98f69 or (vlan && udp[8:4]= 0x78c98f69) or (vlan && udp[8:4]= 0x78c98f69)",
        "udp[8] & 0xf0 != 0x70",
        "vlan 100",
        "vlan 100 and ip",
        "vlan and vlan 200 and udp",
        "not vlan",
        "tcp port 80 || tcp port 179",
        "udp dst port 53",
        "udp portrange 50-100",
        "host 16.0.0.1 and not tcp",
        "src net 16.0.0.0/8",
        "net 48.0.0.0 mask 255.255.255.254",
        "ip6",
        "ip6 proto 58",
        "ip6 net 2001:2::/32",
        "mpls",
        "mpls 276",
        "less 64",
        "greater 90",
        "len % 7 = 3",
        "len / 5 >= 14 and len * 3 < 300",
        "ether src 02:00:02:00:00:02",
        "ether[12:2] = 0x8100 && ether[14:2] & 0xfff = 7",
        "ip[0] & 0xf != 5",
        "ip[6:2] & 0x1fff = 0 and ip[8] - 1 = 63",
        "(ip[19] << 2 | ip[15]) ^ 5 >= 3 and ip proto 47",
        "ip[2:2] > ip[8] * 2 or ether multicast or ether broadcast",
        "-ip[9] + 20 > 3 and tcp[(tcp[12] >> 2):4] != 0",
    ];

    /// Filter by filter, the same frames as `tcpdump -r` selects from a file.
    #[test]
    fn filters_take_what_tcpdump_takes() {
        let name = "filters_take_what_tcpdump_takes";
        if compile("arp") == Err(ExpressionError::Missing) {
            println!("SKIPPED: {name}: no tcpdump");
            return;
        }
        let frames = frames();
        let mut file = Vec::new();
        let writer = Writer::start(Format::Nano, pcap::ETHERNET, &mut file);
        for (at, frame) in frames.iter().enumerate() {
            writer.frame(&Frame::new(at as u64, frame), &mut file);
        }
        let folder = std::env::temp_dir().join(format!("fwdlab-bpf-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("all.pcap");
        std::fs::write(&path, file).unwrap();
        let (mut wrong, mut sizes) = (String::new(), Vec::new());
        for words in EXPRESSIONS {
            let ours = match compile(words) {
                Ok(program) => program,
                Err(error) => panic!("{words}: {error}"),
            };
            let is: Vec<u64> = (0..frames.len() as u64)
                .filter(|at| {
                    let frame = &frames[*at as usize];
                    ours.accepts(frame, frame.len())
                })
                .collect();
            let mut tcpdump = Command::new("tcpdump");
            tcpdump
                .arg("-r")
                .arg(&path)
                .args(["--nano", "-w", "-", "--", words]);
            let taken = tcpdump.output().unwrap();
            assert!(taken.status.success(), "{words}: {taken:?}");
            let theirs = pcap::frames(&taken.stdout).map(|frame| frame.unwrap().timestamp_ns);
            let theirs: Vec<u64> = theirs.collect();
            if is != theirs {
                let (ours, theirs) = (is.len(), theirs.len());
                writeln!(wrong, "{words}: {ours} frames, tcpdump takes {theirs}").unwrap();
            }
            sizes.push(is.len());
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(wrong, "");
        // and they are real filters: hardly any matches everything or nothing
        let none = sizes
            .iter()
            .filter(|taken| [0, frames.len()].contains(taken));
        assert!(none.count() < 4, "{sizes:?}");
    }

    #[test]
    fn errors_in_expressions_are_explained_and_no_shell_is_used() {
        let Ok(arp) = compile("arp") else {
            println!("SKIPPED: what_is_wrong_is_said_in_words: no tcpdump");
            return;
        };
        assert!(arp.instructions().len() > 1);
        assert_eq!(compile(" "), Ok(bpf::Program::accept_all()));
        let long = "arp or ".repeat(600);
        assert!(matches!(
            compile(&long),
            Err(ExpressionError::TooLong(4200))
        ));
        for words in [
            "foo bar(",
            "-i lo",
            "-w /tmp/x",
            "arp; touch /x",
            "$(id)",
            "arp\0",
        ] {
            let error = compile(words).unwrap_err().to_string();
            assert!(!error.is_empty() && error.len() < 300, "{words}: {error}");
        }
        let error = compile("foo bar(").unwrap_err();
        assert!(matches!(error, ExpressionError::Wrong(_)), "{error:?}");
        let missing = run(&mut Command::new("fwdlab-has-no-such-program"));
        assert_eq!(missing, Err(ExpressionError::Missing));
        let slow = run(Command::new("sleep").arg("60"));
        assert_eq!(slow, Err(ExpressionError::TooSlow));
    }
}
