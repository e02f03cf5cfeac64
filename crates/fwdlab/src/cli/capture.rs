//! `fwdlab capture`: writes the frames of a port to a pcapng file, with timestamps in nanoseconds.
//! Start with [`Capture::run`].

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use fwdlab_engine::PortSpec;
use fwdlab_engine::capture::{Captured, Options};
use fwdlab_engine::stamps::Kind;
use fwdlab_lab::LabError;
use fwdlab_lab::ports;
use fwdlab_lab::session::FOR_EVER;
use fwdlab_lab::session::capture::{CaptureTotals, Capturing, Keeper, Stamps};
use fwdlab_model::units::parse_duration;
use fwdlab_packet::{decode, pcap};
use fwdlab_report::number;
use serde_json::{Value, json};

use super::Global;
use super::session::Signals;
use super::session::options::Timestamps;
use crate::exit_code::{Code, Usage};
use crate::output;

/// Capture frames of a port to a pcapng file with nanosecond timestamps, and report how many were
/// missed
///
/// Nothing is attached to the port or changed on it (except the card's timestamping, with
/// --timestamps hardware), so any port can be used. Frames consumed by an XDP program, such as
/// those that `receive` or a measurement counts, are not captured.
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
    /// Duration [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// File to write; - is standard output. Without it, a line of text for each frame
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the file
    #[arg(long, value_enum, default_value_t = Format::Pcapng)]
    format: Format,
    /// Frames to capture: all, or only those with our signature
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

/// The destination of the frames.
enum Sink {
    File {
        name: String,
        file: Box<dyn Write>,
        writer: pcap::Writer,
        buffer: Vec<u8>,
    },
    /// One line per frame; JSON with `--json-stream`.
    Text { as_stream: bool },
    /// All frames, collected for the document of `--json`.
    Document(Vec<Value>),
}

impl Capture {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let spec = PortSpec {
            netns: self.netns.as_deref().map(ports::netns),
            interface: self.port.clone(),
        };
        let signals = Signals::catch()?;
        let options = Options {
            snap: match self.filter {
                // a signature may be anywhere in a frame
                Filter::Own => Options::default().snap,
                _ => self.snap,
            },
            ring_bytes: (self.buffer as usize) << 20,
            promiscuous: !self.no_promiscuous,
            outgoing: !self.incoming,
            ..Options::default()
        };
        // `user` means the packet socket here
        let mut capturing = Capturing::open(&spec, &options, self.timestamps.kind())?;
        capturing.own = (self.filter == Filter::Own).then_some(self.session);
        capturing.snap = self.snap;
        capturing.keep_at_most = self.count;
        capturing.at_most = self.duration.unwrap_or(FOR_EVER);
        let mut sink = self.sink(global)?;
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
        let totals = capturing.run(signals.control(), &mut sink)?;
        if self.output.as_deref() == Some(Path::new("-")) || (!global.json && !global.json_stream) {
            if !quiet {
                output::note(&self.text(&totals, capturing.stamps));
            }
        } else if global.json {
            let mut document = self.json(&totals, capturing.stamps);
            if let Sink::Document(frames) = sink {
                document["frames"] = frames.into();
            }
            output::json(&document)?;
        } else {
            output::result(&self.json(&totals, capturing.stamps).to_string());
        }
        let dropped = totals.statistics.dropped;
        if dropped > 0 {
            output::note(&format!(
                "dropped   {} that the capture could not keep up with: the capture is incomplete. A larger \
                 --buffer, a smaller --snap, or a faster disk may help",
                number::counted(dropped, "frame")
            ));
        }
        if let Some(error) = totals.failed {
            return Err(error.into());
        }
        Ok(
            match signals.code(self.count.is_none() && self.duration.is_none()) {
                Code::Done if dropped > 0 => Code::NotValid,
                code => code,
            },
        )
    }

    fn json(&self, totals: &CaptureTotals, stamps: Stamps) -> Value {
        json!({
            "event": "finished",
            "port": self.port,
            "duration_s": totals.duration_s,
            "frames_captured": totals.kept,
            "bytes_captured": totals.bytes,
            "frames_cut": totals.cut,
            "frames_seen": totals.statistics.frames,
            "frames_dropped_by_capture": totals.statistics.dropped,
            "timestamps": format!("{}, {}, ns", source(stamps.kind), stamps.clock),
            "timestamps_kind": stamps.kind.name(),
            "timestamps_clock": stamps.clock.to_string(),
            "frames_stamped_by_socket": totals.stamped_otherwise,
        })
    }

    fn text(&self, totals: &CaptureTotals, stamps: Stamps) -> String {
        format!(
            "captured  {}, {} in {}{}{}; timestamps: {}, {}{}",
            number::counted(totals.kept, "frame"),
            number::bytes(totals.bytes),
            number::seconds(totals.duration_s),
            match totals.cut {
                0 => String::new(),
                cut => format!(
                    "; {} longer than {} bytes and cut",
                    number::count(cut),
                    self.snap
                ),
            },
            match totals.is_refused {
                true => "; the reader closed the pipe",
                false => "",
            },
            source(stamps.kind),
            stamps.clock,
            match totals.stamped_otherwise {
                0 => String::new(),
                frames => format!("; {} stamped by the packet socket", number::count(frames)),
            },
        )
    }

    fn sink(&self, global: &Global) -> anyhow::Result<Sink> {
        let Some(path) = &self.output else {
            return Ok(match global.json {
                true => Sink::Document(Vec::new()),
                false => Sink::Text {
                    as_stream: global.json_stream,
                },
            });
        };
        let (name, file): (String, Box<dyn Write>) = if path == Path::new("-") {
            if std::io::stdout().is_terminal() {
                return Err(Usage(
                    "-o -: standard output is a terminal; pipe it into a program such as `tshark -r -`".into(),
                )
                .into());
            }
            ("standard output".into(), Box::new(output::Stdout))
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
        Ok(Sink::File {
            name,
            file,
            writer,
            buffer,
        })
    }
}

/// Returns a description of the timestamp source.
fn source(kind: Kind) -> &'static str {
    match kind {
        Kind::User => "software at the packet socket",
        Kind::Software => "software",
        Kind::Hardware => "hardware",
    }
}

impl Keeper for Sink {
    /// Writes a frame. Returns `false` if the reader closed the pipe.
    fn keep(&mut self, frame: &Captured<'_>) -> Result<bool, LabError> {
        match self {
            Sink::Text { as_stream: true } => {
                output::result(&described(frame).to_string());
                Ok(true)
            }
            Sink::Text { as_stream: false } => {
                output::result(&format!(
                    "{}.{:09}  {}  {}",
                    frame.timestamp_ns / 1_000_000_000,
                    frame.timestamp_ns % 1_000_000_000,
                    if frame.outgoing { "out" } else { "in " },
                    decode::decode(frame.bytes)
                ));
                Ok(true)
            }
            Sink::Document(frames) => {
                frames.push(described(frame));
                Ok(true)
            }
            Sink::File {
                name,
                file,
                writer,
                buffer,
            } => {
                let frame = pcap::Frame {
                    original_len: frame.original_len,
                    ..pcap::Frame::new(frame.timestamp_ns, frame.bytes)
                };
                writer.frame(&frame, buffer);
                if buffer.len() < 1 << 16 {
                    return Ok(true);
                }
                written(name, write(file, buffer))
            }
        }
    }

    fn flush(&mut self) -> Result<bool, LabError> {
        match self {
            Sink::Text { .. } | Sink::Document(_) => Ok(true),
            Sink::File {
                name, file, buffer, ..
            } => written(name, write(file, buffer).and_then(|()| file.flush())),
        }
    }
}

/// Returns a frame as JSON.
fn described(frame: &Captured<'_>) -> Value {
    json!({
        "event": "frame",
        "timestamp_ns": frame.timestamp_ns,
        "outgoing": frame.outgoing,
        "frame": decode::decode(frame.bytes).to_string(),
    })
}

fn write(file: &mut dyn Write, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    let written = file.write_all(buffer);
    buffer.clear();
    written
}

/// Returns `false` if the reader closed the pipe.
fn written(name: &str, result: std::io::Result<()>) -> Result<bool, LabError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(source) => Err(LabError::System {
            what: format!("write the capture to {name}; what was written so far is kept"),
            source,
        }),
    }
}
