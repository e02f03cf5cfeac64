//! Runs a fuzz target on the stable compiler: over its corpus, and over mutations of it that are
//! the same on every machine.
//!
//! Finds what a fuzzer would find in its first minute; the long search is cargo-fuzz's. A panic, an
//! input without an answer or a process that grows fails the test. Start at [`replay`].

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// Longest that one input may take, with a margin for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most that the process may grow, bytes.
const GROWTH_BYTES: u64 = 256 << 20;
/// Longest input, bytes.
const LONGEST: usize = 1 << 18;

/// Runs `target` over `fuzz/corpus/<name>` and over so many mutations of it.
pub fn replay(name: &str, mutations: usize, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name);
    let corpus = corpus(&folder);
    assert!(!corpus.is_empty(), "{} is empty", folder.display());
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let grown_from = peak_bytes();
    let inputs: Box<dyn Iterator<Item = Vec<u8>>> = Box::new(
        corpus
            .clone()
            .into_iter()
            .chain((0..mutations).map(move |_| dice.mutation(&corpus))),
    );
    let (to_worker, work) = mpsc::sync_channel::<Vec<u8>>(0);
    let (done, answers) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        for input in work {
            target(&input);
            if done.send(()).is_err() {
                return;
            }
        }
    });
    for input in inputs {
        let taken = to_worker.send(input.clone()).is_ok();
        match answers.recv_timeout(PATIENCE) {
            Ok(()) if taken => {}
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no answer to {}", shown(&input)),
            _ => panic!("{name} panics on {}", shown(&input)),
        }
    }
    drop(to_worker);
    worker.join().expect("a worker that answered all ends");
    let grown = peak_bytes().saturating_sub(grown_from);
    assert!(grown < GROWTH_BYTES, "{name} grew by {grown} bytes");
}

fn corpus(folder: &PathBuf) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("the corpus of a target is committed");
    let mut paths: Vec<PathBuf> = entries
        .map(|e| e.expect("a readable folder").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).expect("a readable file"))
        .collect()
}

/// Most memory that this process has had, where Linux tells.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn shown(input: &[u8]) -> String {
    let text = input.escape_ascii().to_string();
    match text.get(..4000) {
        Some(beginning) => format!("{} bytes, which begin \"{beginning}\"", input.len()),
        None => format!("\"{text}\""),
    }
}

/// xorshift64*: the same mutations everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    /// A file of the corpus with one to eight changes.
    fn mutation(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        const WORDS: [&[u8]; 14] = [
            b"0",
            b"-1",
            b"1e999",
            b"nan",
            b"99999999999999999999",
            b"4294967296",
            b"\n",
            b"\r\n",
            b"\t",
            b"\x0c",
            b"\0",
            b"\xff\xfe",
            b"#",
            b"-",
        ];
        let mut data = corpus[self.below(corpus.len())].clone();
        for _ in 0..1 + self.below(8) {
            let at = self.below(data.len() + 1);
            let end = data.len().min(at + self.below(40));
            match self.below(8) {
                0 if at < data.len() => data[at] ^= 1 << self.below(8),
                1 if at < data.len() => data[at] = self.below(256) as u8,
                2 => drop(data.drain(at..end)),
                3 => data.truncate(at),
                4 => {
                    let other = &corpus[self.below(corpus.len())];
                    let from = self.below(other.len() + 1);
                    data.splice(at..end, other[from..].iter().copied());
                }
                5 => {
                    let piece = data[at..end].to_vec();
                    let most = if self.below(20) == 0 { 4000 } else { 8 };
                    let times = 1 + self.below(most);
                    data.splice(at..at, piece.repeat(times));
                }
                _ => drop(data.splice(at..end, WORDS[self.below(WORDS.len())].iter().copied())),
            }
            data.truncate(LONGEST);
        }
        data
    }
}
