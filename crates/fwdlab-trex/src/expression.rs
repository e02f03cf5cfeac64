//! Filter expressions in the words of `tcpdump`, by `tcpdump` itself: it compiles them, and [`bpf::Program`] runs what comes out.
//!
//! So the language is libpcap's exactly, and our programs stay without C libraries. No interface is opened. The expression is one
//! argument, never a shell's; it is bounded in length, and what compiles it in time. Start with [`compile`].

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_packet::bpf;

/// Longest expression, in bytes.
pub const LONGEST: usize = 4096;

/// `tcpdump` may take so long; names of hosts in an expression are looked up by it.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often we look whether it has ended.
const LOOK: Duration = Duration::from_millis(1);

/// A line of an instruction is no longer than this.
const LINE: usize = 32;

/// One at a time, however many ask.
static TURN: Mutex<()> = Mutex::new(());

/// Why an expression filters nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// There is no `tcpdump`.
    #[error(
        "filters need tcpdump, which compiles them, and it is not there. Install it: apt-get install tcpdump"
    )]
    Missing,
    /// It is longer than allowed.
    #[error("the filter has {0} bytes; it may have {LONGEST}")]
    TooLong(usize),
    /// It is wrong, in the words of `tcpdump`.
    #[error("{0}")]
    Wrong(String),
    /// It takes too long.
    #[error("tcpdump did not compile the filter within {} s", PATIENCE.as_secs())]
    TooSlow,
    /// It is right, and nothing we can run.
    #[error("the filter cannot be run: {0}")]
    Program(#[from] bpf::BpfError),
    /// The system refuses.
    #[error("cannot run tcpdump: {0}")]
    System(String),
}

/// The program of an expression, for Ethernet. No words at all want every frame.
///
/// # Errors
/// See [`ExpressionError`].
pub fn compile(expression: &str) -> Result<bpf::Program, ExpressionError> {
    if expression.len() > LONGEST {
        return Err(ExpressionError::TooLong(expression.len()));
    }
    if expression.trim().is_empty() {
        return Ok(bpf::Program::everything());
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
    // who writes more than we read waits for us, and then is too slow
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = (reader(out), reader(err));
    let began = Instant::now();
    let ended = loop {
        match child.try_wait().map_err(system)? {
            Some(status) => break status,
            None if began.elapsed() < PATIENCE => thread::sleep(LOOK),
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
        false => Err(ExpressionError::Wrong(said(&err))),
    }
}

/// What comes, up to a program of the largest size.
fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // what cannot be read is no program
            let _ = pipe.take((bpf::MOST * LINE) as u64).read_to_end(&mut bytes);
        }
        bytes
    })
}

/// What `tcpdump` said of the expression, in one line.
fn said(err: &str) -> String {
    let lines = err
        .lines()
        .filter_map(|line| line.strip_prefix("tcpdump: "));
    let lines = lines.filter(|line| !line.starts_with("data link type"));
    let text: String = lines.last().unwrap_or("tcpdump refuses the filter").into();
    text.chars().take(200).collect()
}
