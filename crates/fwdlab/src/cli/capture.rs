//! `fwdlab capture`: frames of a port into a pcapng file, with nanoseconds.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use fwdlab_engine::capture::{self, Captured};
use fwdlab_engine::stamps::{Clock, Kind, Offers};
use fwdlab_lab::LabError;
use fwdlab_lab::ports::{self, look, state};
use fwdlab_lab::session::FOR_EVER;
use fwdlab_model::units::parse_duration;
use fwdlab_packet::{decode, pcap};
use fwdlab_report::number;
use serde_json::json;

use super::Global;
use super::session::Signals;
use super::session::options::Timestamps;
use crate::exit_code::{Code, Usage};
use crate::output;

/// How often a quiet capture looks whether it is over and whether its port is still there.
const PATIENCE: Duration = Duration::from_millis(100);

/// Capture frames of a port to a pcapng file with nanosecond timestamps, and report how many were missed
///
/// Nothing is attached to the port or changed on it (except the card's timestamping, with --timestamps hardware), so any port
/// can be used. Frames consumed by an XDP program, such as those that `receive` or a measurement counts, are not captured.
#[derive(Debug, Args)]
pub struct Capture {
    /// Interface to listen on
    #[arg(long, value_name = "IFACE")]
    port: String,
    /// Network namespace of the port: a name, a path, or a process ID
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Maximum number of frames
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// How long [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// File to write; - is standard output. Without it, a line of text for each frame
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the file
    #[arg(long, value_enum, default_value_t = Format::Pcapng)]
    format: Format,
    /// Which frames: all, or only those with our signature
    #[arg(long, value_enum, default_value_t = Filter::All)]
    filter: Filter,
    /// Session number in the signatures of our frames
    #[arg(long, value_name = "N", default_value_t = 1)]
    session: u16,
    /// Bytes kept of each frame
    #[arg(long, value_name = "BYTES", default_value_t = pcap::MAX_FRAME_BYTES as u32, value_parser = clap::value_parser!(u32).range(14..=pcap::MAX_FRAME_BYTES as i64))]
    snap: u32,
    /// Only frames that arrive, not those that leave
    #[arg(long)]
    incoming: bool,
    /// Only frames addressed to this host, not all frames on the wire
    #[arg(long)]
    no_promiscuous: bool,
    /// Source of times; here user means the packet socket, and auto means software
    #[arg(long, value_enum, default_value_t = Timestamps::Auto)]
    timestamps: Timestamps,
    /// Memory for frames waiting to be written, in MB
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    buffer: u32,
}

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// pcapng, nanoseconds
    Pcapng,
    /// pcap, nanoseconds
    Pcap,
    /// pcap, microseconds, for old programs
    PcapUs,
}

/// Which frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Filter {
    /// All frames
    All,
    /// Frames with our signature
    Own,
}

/// Who takes the times.
struct Stamps {
    kind: Kind,
    name: &'static str,
    clock: Clock,
    _card: Option<ports::Stamping>,
}

/// Where frames go.
enum Sink {
    File {
        name: String,
        file: Box<dyn Write>,
        writer: pcap::Writer,
        buffer: Vec<u8>,
        /// Flushed after every block: somebody reads while it happens.
        live: bool,
    },
    Text,
}

impl Capture {
    /// Runs it.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let spec = fwdlab_engine::PortSpec {
            netns: self.netns.as_deref().map(ports::netns),
            interface: self.port.clone(),
        };
        // says which ports there are when there is no such port
        look::look(&spec)?;
        state::check(&spec)?;
        let signals = Signals::catch()?;
        let stamps = self.stamps(&spec)?;
        let mut sink = self.sink()?;
        let mut capture = capture::Capture::open(
            &spec,
            &capture::Options {
                snap: self.snap,
                ring_bytes: (self.buffer as usize) << 20,
                promiscuous: !self.no_promiscuous,
                outgoing: !self.incoming,
                stamps: stamps.kind,
            },
        )?;
        let quiet = global.verbosity() == output::Verbosity::Quiet || global.json;
        if !quiet {
            output::note(&format!(
                "capture   {}  {}  {}",
                self.port,
                match &self.output {
                    Some(path) => format!("to {}", path.display()),
                    None => "as text".into(),
                },
                match (self.count, self.duration) {
                    (Some(count), _) => number::counted(count, "frame"),
                    (None, Some(time)) => format!("for {}", number::seconds(time.as_secs_f64())),
                    (None, None) => "until Ctrl-C".into(),
                }
            ));
        }
        let began = Instant::now();
        let limit = self.duration.unwrap_or(FOR_EVER);
        let most = self.count.unwrap_or(u64::MAX);
        let (mut kept, mut bytes, mut cut, mut otherwise) = (0_u64, 0_u64, 0_u64, 0_u64);
        let mut failed = None;
        let mut is_closed = false;
        let ended: Result<(), LabError> = loop {
            if signals.is_stopped() || kept >= most || began.elapsed() >= limit || is_closed {
                break Ok(());
            }
            let patience = PATIENCE.min(limit.saturating_sub(began.elapsed()));
            let taken = capture.frames(patience, &mut |frame| {
                if !self.wants(&frame) {
                    return true;
                }
                match sink.take(&frame) {
                    Ok(true) => {}
                    Ok(false) => is_closed = true,
                    Err(error) => failed = Some(error),
                }
                if failed.is_none() && !is_closed {
                    kept += 1;
                    bytes += frame.bytes.len() as u64;
                    otherwise += u64::from(frame.stamped < stamps.kind);
                    cut += u64::from(frame.original_len as usize > frame.bytes.len());
                }
                failed.is_none() && !is_closed && kept < most
            });
            match taken {
                Ok(0) => {
                    if let Err(error) = sink.flush() {
                        failed = failed.or(error);
                    }
                    if let Err(error) = state::check(&spec) {
                        break Err(error);
                    }
                }
                Ok(_) => {}
                Err(error) => break Err(state::check(&spec).err().unwrap_or(error.into())),
            }
            if let Some(error) = failed.take() {
                return Err(error);
            }
        };
        let statistics = capture.statistics()?;
        match sink.finish() {
            Ok(()) => {}
            Err(None) => is_closed = true,
            Err(Some(error)) => return Err(error),
        }
        let seconds = began.elapsed().as_secs_f64();
        let document = json!({
            "event": "finished",
            "port": self.port,
            "duration_s": seconds,
            "frames_captured": kept,
            "bytes_captured": bytes,
            "frames_cut": cut,
            "frames_seen": statistics.frames,
            "frames_dropped_by_capture": statistics.dropped,
            "timestamps": format!("{}, {}, ns", stamps.name, stamps.clock),
            "timestamps_kind": stamps.kind.name(),
            "timestamps_clock": stamps.clock.to_string(),
            "frames_stamped_by_socket": otherwise,
        });
        if self.output.as_deref() == Some(Path::new("-")) || (!global.json && !global.json_stream) {
            if !quiet {
                output::note(&format!(
                    "captured  {}, {} in {}{}{}; timestamps: {}, {}{}",
                    number::counted(kept, "frame"),
                    number::bytes(bytes),
                    number::seconds(seconds),
                    match cut {
                        0 => String::new(),
                        cut => format!(
                            "; {} longer than {} bytes and cut",
                            number::count(cut),
                            self.snap
                        ),
                    },
                    if is_closed {
                        "; the reader closed the pipe"
                    } else {
                        ""
                    },
                    stamps.name,
                    stamps.clock,
                    match otherwise {
                        0 => String::new(),
                        frames =>
                            format!("; {} stamped by the packet socket", number::count(frames)),
                    },
                ));
            }
        } else if global.json {
            output::json(&document)?;
        } else {
            output::result(&document.to_string());
        }
        if statistics.dropped > 0 {
            output::note(&format!(
                "dropped   {} that the capture could not keep up with: the capture is incomplete. A larger \
                 --buffer, a smaller --snap, or a faster disk may help",
                number::counted(statistics.dropped, "frame")
            ));
        }
        ended.map_err(|error: LabError| anyhow::Error::from(error))?;
        Ok(
            match signals.code(self.count.is_none() && self.duration.is_none()) {
                Code::Done if statistics.dropped > 0 => Code::NotValid,
                code => code,
            },
        )
    }

    /// Who takes the times. A card that is set for it is put back when the value is dropped.
    fn stamps(&self, spec: &fwdlab_engine::PortSpec) -> anyhow::Result<Stamps> {
        let offers = Offers::of(spec)?;
        let kind = match self.timestamps {
            Timestamps::User => Kind::User,
            Timestamps::Software => Kind::Software,
            Timestamps::Hardware => Kind::Hardware,
            // a file of captured frames is of the system's time, unless somebody wants the card's
            Timestamps::Auto => match offers.receives(Kind::Software) {
                Ok(()) => Kind::Software,
                Err(_) => Kind::User,
            },
        };
        offers.receives(kind)?;
        Ok(Stamps {
            kind,
            name: match kind {
                Kind::User => "software at the packet socket",
                Kind::Software => "software",
                Kind::Hardware => "hardware",
            },
            clock: match (kind, offers.clock) {
                (Kind::Hardware, Some(number)) => Clock::Card(number),
                _ => Clock::Realtime,
            },
            _card: match kind {
                Kind::Hardware => Some(ports::Stamping::take(spec)?),
                Kind::User | Kind::Software => None,
            },
        })
    }

    fn wants(&self, frame: &Captured<'_>) -> bool {
        match self.filter {
            Filter::All => true,
            Filter::Own => {
                capture::signatures(frame.bytes).any(|found| found.nonce == self.session)
            }
        }
    }

    fn sink(&self) -> anyhow::Result<Sink> {
        let Some(path) = &self.output else {
            return Ok(Sink::Text);
        };
        let (name, file): (String, Box<dyn Write>) = if path == Path::new("-") {
            if std::io::stdout().is_terminal() {
                return Err(Usage(
                    "-o -: standard output is a terminal; pipe it into a program such as `tshark -r -`".into(),
                )
                .into());
            }
            ("standard output".into(), Box::new(std::io::stdout()))
        } else {
            let file = File::create(path).map_err(|e| {
                LabError::Preflight(format!("cannot write {}: {e}", path.display()))
            })?;
            (
                path.display().to_string(),
                Box::new(BufWriter::with_capacity(1 << 20, file)),
            )
        };
        let format = match self.format {
            Format::Pcapng => pcap::Format::Ng,
            Format::Pcap => pcap::Format::Nano,
            Format::PcapUs => pcap::Format::Micro,
        };
        let mut buffer = Vec::new();
        let writer = pcap::Writer::start(format, pcap::ETHERNET, &mut buffer);
        let mut sink = Sink::File {
            live: name == "standard output",
            name,
            file,
            writer,
            buffer,
        };
        match sink.flush() {
            Err(Some(error)) => Err(error),
            _ => Ok(sink),
        }
    }
}

impl Sink {
    /// Writes a frame; `false` when nobody reads any more.
    fn take(&mut self, frame: &Captured<'_>) -> anyhow::Result<bool> {
        match self {
            Sink::Text => {
                output::result(&format!(
                    "{}.{:09}  {}  {}",
                    frame.timestamp_ns / 1_000_000_000,
                    frame.timestamp_ns % 1_000_000_000,
                    if frame.outgoing { "out" } else { "in " },
                    decode::decode(frame.bytes)
                ));
                Ok(true)
            }
            Sink::File { writer, buffer, .. } => {
                writer.frame(
                    &pcap::Frame {
                        original_len: frame.original_len,
                        ..pcap::Frame::new(frame.timestamp_ns, frame.bytes)
                    },
                    buffer,
                );
                if buffer.len() < 1 << 16 {
                    return Ok(true);
                }
                match self.write() {
                    Ok(()) => Ok(true),
                    Err(None) => Ok(false),
                    Err(Some(error)) => Err(error),
                }
            }
        }
    }

    /// Writes what is buffered. `Err(None)`: nobody reads any more.
    fn write(&mut self) -> Result<(), Option<anyhow::Error>> {
        let Sink::File {
            name, file, buffer, ..
        } = self
        else {
            return Ok(());
        };
        let written = file.write_all(buffer);
        buffer.clear();
        written.map_err(|e| told(name, e))
    }

    /// Lets a reader have what there is.
    fn flush(&mut self) -> Result<(), Option<anyhow::Error>> {
        self.write()?;
        match self {
            Sink::File {
                name,
                file,
                live: true,
                ..
            } => file.flush().map_err(|e| told(name, e)),
            _ => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), Option<anyhow::Error>> {
        self.write()?;
        match self {
            Sink::File { name, file, .. } => file.flush().map_err(|e| told(name, e)),
            Sink::Text => Ok(()),
        }
    }
}

fn told(name: &str, error: std::io::Error) -> Option<anyhow::Error> {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        return None;
    }
    let what = format!("write the capture to {name}; what was written so far is kept");
    Some(
        LabError::System {
            what,
            source: error,
        }
        .into(),
    )
}
