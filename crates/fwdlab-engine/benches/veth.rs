//! Our engines compared with other generators and with the kernel's limit, in alternating turns
//! within one run, as ratios.
//!
//! `cargo bench -p fwdlab-engine`, as root (`make bench` downloads the other programs). Every
//! sender runs on one CPU, and the same XDP program counts and drops its frames there; frames are
//! 60 bytes without FCS. Turns last a fraction of a second, so that a change of the host's speed
//! affects all contenders, and a ratio is the median over the rounds of the ratio within a round.
//! Missing programs are listed and left out. `--quick` makes fewer rounds; words in the arguments
//! select the parts to run (`memory`, `transmit`, `receive`).
//!
//! Not a test: it never fails, even if a target is missed. Start with `main`; the files of the
//! three parts list the contenders.

#![expect(clippy::print_stdout, reason = "a benchmark tells its results")]

#[path = "veth/bed.rs"]
mod bed;
#[path = "veth/contender.rs"]
mod contender;
#[path = "veth/memory.rs"]
mod memory;
#[path = "veth/receive.rs"]
mod receive;
#[path = "veth/rival.rs"]
mod rival;
#[path = "veth/table.rs"]
mod table;
#[path = "veth/transmit.rs"]
mod transmit;

use std::time::Duration;

use contender::Turns;

/// The sender, and the counting of its frames.
const GENERATOR_CPU: usize = 0;
/// Everything else.
const OTHER_CPU: usize = 1;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` runs benchmarks too, and these take minutes
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let turns = Turns {
        rounds: if is_quick { 3 } else { 9 },
        windows: 5,
        window: Duration::from_millis(40),
    };
    if !rustix::process::geteuid().is_root() {
        println!("skipped: these benchmarks need root, for interfaces of their own");
        return;
    }
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        println!("skipped: these benchmarks need two CPUs, one to send and one to watch");
        return;
    }
    if let Err(error) = fwdlab_engine::port::pin(&[OTHER_CPU]) {
        println!("skipped: {error}");
        return;
    }
    table::machine();
    type Part = fn(Turns) -> Result<(), String>;
    let parts: [(&str, Part); 3] = [
        ("memory", memory::run),
        ("transmit", transmit::run),
        ("receive", receive::run),
    ];
    let requested = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = !parts.iter().any(|(name, _)| requested(name));
    for (name, part) in parts {
        if (all || requested(name))
            && let Err(error) = part(turns)
        {
            println!("\n{name}: skipped: {error}");
        }
    }
}
