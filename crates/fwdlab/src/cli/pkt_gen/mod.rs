//! `fwdlab pkt-gen`: netmap's pkt-gen, with its command line and its output, on our engines.
//!
//! Lab scripts that start pkt-gen and parse its logs need no change: a link to fwdlab named
//! `pkt-gen` is enough. [`arguments`] parses options, [`lines`] formats the output, [`log`] chooses
//! its stream, and [`frames`] builds the frames. Start with [`PktGen::run`].

mod answer;
mod arguments;
mod frames;
mod lines;
mod log;
mod range;
mod receive;
mod send;

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use fwdlab_engine::Mode;
use fwdlab_lab::LabError;
use fwdlab_lab::ports::Facts;

use self::arguments::{Arguments, Function, OPTIONS, Refusal, usage};
use self::lines::place;
use self::log::Log;
use super::Global;
use super::foreign::Original;
use super::session::Signals;
use super::session::options::Ports;
use crate::exit_code::{Code, Usage};
use crate::output;

pub use self::arguments::awaits_value;

/// Send, receive or bounce frames with the command line and the output of netmap's pkt-gen
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    override_usage = "fwdlab traffic pkt-gen [--netns NAME] [--engine ENGINE] [--allow-...] -i INTERFACE [-f FUNCTION] [OPTIONS OF \
        PKT-GEN]",
    after_help = format!("Options of pkt-gen:\n{}", OPTIONS.trim_end())
)]
pub struct PktGen {
    #[command(flatten)]
    ports: Ports,
    /// Allow non-test destinations. Use only in an isolated network
    #[arg(long, help_heading = "Ports that may be in use")]
    to_any_address: bool,
    /// Sending engine: auto takes the fastest that works on the port
    #[arg(long, default_value = "auto", value_parser = super::engines())]
    engine: String,
    #[command(flatten)]
    original: Original,
}

/// The input of all functions of pkt-gen.
struct Job<'a> {
    arguments: &'a Arguments,
    /// The kernel's name of the interface.
    interface: String,
    /// The name that pkt-gen shows.
    shown: String,
    ports: &'a Ports,
    to_any_address: bool,
    engine: Option<Mode>,
    seed: u64,
    signals: &'a Signals,
    log: &'a Log,
}

impl PktGen {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        if global.json || global.json_stream {
            return Err(Usage(
                "pkt-gen prints only the original's output; for JSON use `fwdlab traffic send` and `fwdlab traffic receive`"
                    .into(),
            )
            .into());
        }
        let words = self.original.arguments.iter();
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let host_cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let arguments = match Arguments::parse(&words, host_cpus) {
            Ok(arguments) => arguments,
            Err(Refusal::Help) => {
                output::bytes(&[], usage().as_bytes());
                return Ok(Code::Done);
            }
            Err(Refusal::Wrong(what)) => {
                let now = std::time::SystemTime::now();
                let message = lines::message(now, place::BAD, &what);
                output::bytes(&[], format!("{message}{}", usage()).as_bytes());
                return Ok(Code::PktGen);
            }
        };
        let ended = self.carry_out(&arguments, host_cpus);
        // a usage error, even if only the port reveals it
        match ended {
            Err(error) if error.is::<Usage>() => {
                output::error(&error);
                Ok(Code::PktGen)
            }
            ended => ended,
        }
    }

    fn carry_out(&self, arguments: &Arguments, host_cpus: usize) -> anyhow::Result<Code> {
        let signals = Signals::catch()?;
        let log = Log::new(arguments);
        let job = Job {
            interface: arguments
                .interface
                .choose(|name| {
                    fwdlab_lab::ports::interface_facts::read_facts(&self.ports.spec(name)).is_ok()
                })
                .to_owned(),
            shown: arguments.interface.shown(),
            arguments,
            ports: &self.ports,
            to_any_address: self.to_any_address,
            engine: Mode::named(&self.engine),
            seed: super::run::random_seed(),
            signals: &signals,
            log: &log,
        };
        job.head(host_cpus);
        match arguments.function {
            Function::Tx | Function::TxSeq => send::run(&job),
            Function::Rx => receive::run(&job),
            Function::Ping | Function::Pong | Function::RxSeq => answer::run(&job),
        }
    }
}

impl Job<'_> {
    /// Prints the first lines, and remarks about options without effect.
    fn head(&self, host_cpus: usize) {
        let Job { arguments, log, .. } = self;
        let typed = &arguments.interface.typed;
        log.message(place::INTERFACE, &format!("interface is {typed}"));
        for remark in &arguments.remarks {
            log.remark(&format!("ignored: {remark}"));
        }
        if arguments.burst.is_none() {
            let burst = arguments.burst();
            let words = format!("using default burst size: {burst}");
            log.message(place::BURST, &words);
        }
        let words = format!("running on {} cpus (have {host_cpus})", arguments.cpus);
        log.message(place::CPUS, &words);
        log.message(place::RANGE, &arguments.source.to_string());
        log.message(place::RANGE, &arguments.destination.to_string());
    }

    /// Waits for the link, as long as `-w` says. Returns `false` after a signal.
    fn wait(&self) -> bool {
        let wait = self.arguments.wait;
        let words = format!("Wait {} secs for phy reset", wait.as_secs());
        self.log.message(place::WAIT, &words);
        let started = Instant::now();
        while started.elapsed() < wait && !self.signals.is_stopped() {
            let left = wait.saturating_sub(started.elapsed());
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
        if self.signals.is_stopped() {
            return false;
        }
        self.log.message(place::READY, "Ready...");
        true
    }

    /// Wraps an error in the original's message for a thread that stops by itself.
    fn failed(&self, error: LabError) -> anyhow::Error {
        self.log
            .message(place::OUCH, "ouch, thread 0 exited with error");
        error.into()
    }

    /// Returns the CPUs of the sending thread.
    fn cpus(&self) -> Vec<usize> {
        self.arguments.cpu.into_iter().collect()
    }

    fn source_mac(&self, facts: &Facts) -> anyhow::Result<[u8; 6]> {
        self.arguments.source_mac.or(facts.mac).ok_or_else(|| {
            wrong(format!(
                "{} has no Ethernet address; give one with -S",
                self.interface
            ))
        })
    }

    /// Checks the size: an IP packet may be as long as the MTU of the port.
    fn check_size(&self, size: u16, mtu: u32) -> anyhow::Result<()> {
        let most = mtu + fwdlab_packet::header::ethernet::HEADER_LEN as u32;
        if u32::from(size) > most {
            return Err(wrong(format!(
                "pkt_size ({size}) must be <= {most}: the mtu of {} ({mtu}) and an Ethernet header. `ip link set {0} mtu N` \
                 raises it",
                self.interface
            )));
        }
        Ok(())
    }

    /// Returns the frame to send from a capture file.
    fn captured(&self, file: &str, mtu: u32) -> anyhow::Result<Vec<u8>> {
        /// enough of any capture file to hold its first frame
        const PART: u64 = 1 << 20;
        let mut bytes = Vec::new();
        let opened = std::fs::File::open(file);
        opened
            .and_then(|file| {
                std::io::Read::read_to_end(&mut std::io::Read::take(file, PART), &mut bytes)
            })
            .with_context(|| format!("failed to open pcap file {file}"))?;
        let frame = frames::first_of(&bytes)
            .map_err(|what| wrong(format!("failed to read packet from {file}: {what}")))?;
        self.check_size(u16::try_from(frame.len()).unwrap_or(u16::MAX), mtu)?;
        Ok(frame)
    }
}

fn wrong(what: impl Into<String>) -> anyhow::Error {
    Usage(what.into()).into()
}
