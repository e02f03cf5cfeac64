//! Alternating turns: each contender runs for a moment, then the next, round after round.
//!
//! Independent of what the contenders are. Start with [`compare`].

use std::rc::Rc;
use std::time::Duration;
use std::{fs, thread};

use fwdlab_engine::sink::Sink;
use fwdlab_engine::sys::monotonic_ns;
use fwdlab_engine::{Frames, Schedule, Sender, StallPolicy};

/// Something that sends.
pub trait Contender {
    /// Returns its name in the table.
    fn name(&self) -> String;

    /// Continues sending.
    fn continue_sending(&mut self) -> Result<(), String>;

    /// Pauses sending.
    fn pause(&mut self) -> Result<(), String>;

    /// Returns the frames so far, counted independently if possible.
    fn frames(&mut self) -> Result<u64, String>;

    /// Returns the time that its rate is measured by, in nanoseconds.
    fn now_ns(&self) -> Result<u64, String> {
        Ok(monotonic_ns())
    }
}

/// Number and duration of the turns.
#[derive(Debug, Clone, Copy)]
pub struct Turns {
    /// Number of turns of each contender.
    pub rounds: usize,
    /// Windows per turn; their median counts.
    pub windows: usize,
    /// Length of a window.
    pub window: Duration,
}

/// From the start of a turn to its first window: threads start, caches fill.
const SETTLE: Duration = Duration::from_millis(80);

/// Longer than any turn.
const AT_MOST: Duration = Duration::from_secs(60);

/// Frames per second of a contender, one value for each round.
pub struct Rates {
    pub name: String,
    pub pps: Vec<f64>,
}

/// Lets all contenders take turns. One that fails is left out, with its reason instead of its
/// rates.
pub fn compare(
    mut contenders: Vec<Box<dyn Contender>>,
    turns: Turns,
) -> Vec<Result<Rates, (String, String)>> {
    let mut all: Vec<Result<Rates, (String, String)>> = contenders
        .iter()
        .map(|contender| {
            Ok(Rates {
                name: contender.name(),
                pps: vec![],
            })
        })
        .collect();
    for round in 0..turns.rounds {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        // alternate the order, so that no contender always runs after the same one
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let Ok(rates) = &mut all[index] else { continue };
            match turn(contenders[index].as_mut(), turns) {
                Ok(pps) => rates.pps.push(pps),
                Err(error) => all[index] = Err((contenders[index].name(), error)),
            }
        }
    }
    all
}

fn turn(contender: &mut dyn Contender, turns: Turns) -> Result<f64, String> {
    contender.continue_sending()?;
    thread::sleep(SETTLE);
    let mut windows = vec![];
    let mut before = (contender.now_ns()?, contender.frames()?);
    for _ in 0..turns.windows {
        thread::sleep(turns.window);
        let now = (contender.now_ns()?, contender.frames()?);
        windows.push((now.1 - before.1) as f64 * 1e9 / (now.0 - before.0) as f64);
        before = now;
    }
    contender.pause()?;
    Ok(median(&mut windows))
}

/// Returns the CPU time of all threads of a process, in nanoseconds. For a process that never waits
/// it is as good as elapsed time, and excludes the time when others used the CPU.
pub fn cpu_time_ns(process: &str) -> Result<u64, String> {
    let threads = format!("/proc/{process}/task");
    let failed = |e: std::io::Error| format!("{threads}: {e}");
    let mut total = 0;
    for thread in fs::read_dir(&threads).map_err(failed)? {
        let path = thread.map_err(failed)?.path().join("schedstat");
        // a thread may have ended meanwhile
        let text = fs::read_to_string(path).unwrap_or_default();
        let running = text.split(' ').next().unwrap_or_default();
        total += running.parse::<u64>().unwrap_or(0);
    }
    Ok(total)
}

/// Returns the median; sorts the values.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// One of our senders.
struct OwnSender {
    name: String,
    sender: Box<dyn Sender>,
    /// Counts arriving frames; absent if frames go nowhere: then the sender's own count is used.
    sink: Option<Rc<Sink>>,
}

/// Prepares one of our senders for these frames.
pub fn prepare_own_sender(
    name: &str,
    mut sender: Box<dyn Sender>,
    frames: &Frames,
    sink: Option<Rc<Sink>>,
) -> Result<Box<dyn Contender>, String> {
    sender.arm(frames).map_err(|e| format!("{name}: {e}"))?;
    Ok(Box::new(OwnSender {
        name: name.to_owned(),
        sender,
        sink,
    }))
}

impl Contender for OwnSender {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn continue_sending(&mut self) -> Result<(), String> {
        let flat_out = Schedule {
            load: None.into(),
            frames: None,
            at_most: AT_MOST,
            stall_policy: StallPolicy::Skip,
            path: 0,
        };
        self.sender.start(flat_out).map_err(|e| e.to_string())
    }

    fn pause(&mut self) -> Result<(), String> {
        self.sender.stop().map(drop).map_err(|e| e.to_string())
    }

    fn frames(&mut self) -> Result<u64, String> {
        match &self.sink {
            Some(sink) => sink.counts().map(|sunk| sunk.frames),
            None => self.sender.counts().map(|counts| counts.total()),
        }
        .map_err(|e| e.to_string())
    }

    fn now_ns(&self) -> Result<u64, String> {
        match self.sink {
            Some(_) => Ok(monotonic_ns()),
            None => cpu_time_ns("self"),
        }
    }
}
