//! `fwdlab profile`: lists and shows traffic profiles, and prints their frames. Sends nothing.
//!
//! Start with [`Profile::run`].

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use fwdlab_engine::TrafficFrames;
use fwdlab_engine::traffic::Addresses;
use fwdlab_engine::traffic::compile::{self, Direction, Setting};
use fwdlab_engine::traffic::player::Player;
use fwdlab_model::link::{LinkLoad, LinkSpeed, MeanSize};
use fwdlab_packet::Signature;
use fwdlab_packet::pcap::{ETHERNET, Format, Frame, Writer};
use serde::Serialize;

use super::Global;
use super::send::LOOKED_AT;
use crate::exit_code::{Code, Usage};
use crate::output;
use crate::profiles::{self, Loaded};

/// Bytes of the FCS, which buffers do not contain.
const FCS: usize = 4;

/// Example MAC addresses of the tester and of the DUT.
pub(super) const EXAMPLE: Addresses = Addresses::between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

/// Which traffic profiles there are, and what they mean. A profile is named by a path that ends in
/// .toml, by its name in ./profiles, or by that of a shipped one.
#[derive(Debug, Subcommand)]
pub enum Profile {
    /// List profiles, those in ./profiles first
    Ls,
    /// Print the file of a profile
    Show {
        /// Profile: a name or a file
        profile: String,
    },
    /// Print the first frames, or write them to a capture file; sends nothing
    Frames(Frames),
}

/// Arguments of `profile frames`.
#[derive(Debug, Args)]
pub struct Frames {
    /// Profile: a name or a file
    profile: String,
    /// Number of frames
    #[arg(short = 'n', long, value_name = "FRAMES", default_value_t = 10)]
    count: u64,
    /// Direction of the frames
    #[arg(long, value_enum, default_value = "forward")]
    direction: Way,
    /// Speed of the link, for rates given in percent: 10G
    #[arg(long, value_name = "SPEED")]
    link: Option<LinkSpeed>,
    /// Load of all streams together, instead of the profile's own: 1Mpps, 9.4Gbps-l2; with --link
    /// also 50%, max
    #[arg(long, value_name = "LOAD")]
    load: Option<LinkLoad>,
    /// A VLAN tag in front of the profile's own layers
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(0..4096))]
    vlan: Option<u16>,
    /// Write a capture file with the departure times: pcapng, or nanosecond pcap if the name ends
    /// in .pcap; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hex", "json"])]
    pcap: Option<PathBuf>,
    /// Print the bytes
    #[arg(long, conflicts_with = "json")]
    hex: bool,
}

/// Returns the mean size of the first frames; `send` uses the same number of frames.
fn mean_size(frames: &TrafficFrames) -> anyhow::Result<MeanSize> {
    let mut player = Player::new(frames, None)?;
    let mut buffer = vec![0; player.buffer_len()];
    let (mut count, mut bytes) = (0, 0);
    while count < LOOKED_AT {
        match player.take(&mut buffer, None, 0) {
            0 => break,
            len => bytes += (len + FCS) as u64,
        }
        count += 1;
    }
    MeanSize::new(bytes, count).context("frames without contents")
}

/// Which of a profile's two directions.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Way {
    /// As written in the profile
    Forward,
    /// Sources and destinations swapped
    Reverse,
}

impl From<Way> for Direction {
    fn from(way: Way) -> Direction {
        match way {
            Way::Forward => Direction::Forward,
            Way::Reverse => Direction::Reverse,
        }
    }
}

/// A frame with its departure time.
#[derive(Debug, Serialize)]
struct Departure {
    /// Nanoseconds since the start.
    due_ns: f64,
    stream: String,
    frame_size_bytes: usize,
    layers: String,
    bytes: String,
}

impl Profile {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        match self {
            Profile::Ls => list(global),
            Profile::Show { profile } => show(&profile, global),
            Profile::Frames(frames) => frames.run(global),
        }
    }
}

fn list(global: &Global) -> anyhow::Result<Code> {
    #[derive(Serialize)]
    struct Entry<'a> {
        name: &'a str,
        about: String,
        source: Option<&'a str>,
        path: Option<String>,
    }
    let all = profiles::list();
    let entries: Vec<Entry<'_>> = all
        .iter()
        .map(|(name, loaded)| match loaded {
            Ok(Loaded { profile, path }) => Entry {
                name,
                about: profile.about.clone(),
                source: profile.source.as_deref(),
                path: path.as_ref().map(|path| path.display().to_string()),
            },
            Err(error) => Entry {
                name,
                about: format!("wrong: {error}"),
                source: None,
                path: None,
            },
        })
        .collect();
    if global.json {
        output::json(&entries)?;
        return Ok(Code::Done);
    }
    let width = entries
        .iter()
        .map(|entry| entry.name.len())
        .max()
        .unwrap_or(0);
    let lines: Vec<String> = entries
        .iter()
        .map(|entry| {
            let local = if entry.path.is_some() {
                "  (yours)"
            } else {
                ""
            };
            format!("{:width$}  {}{local}", entry.name, entry.about)
        })
        .collect();
    output::lines(&lines.join("\n"));
    Ok(Code::Done)
}

fn show(name: &str, global: &Global) -> anyhow::Result<Code> {
    let Loaded { profile, path } = profiles::load(name)?;
    if global.json {
        #[derive(Serialize)]
        struct Shown<'a> {
            name: &'a str,
            about: &'a str,
            source: Option<&'a str>,
            path: Option<String>,
            text: &'a str,
        }
        output::json(&Shown {
            name: &profile.name,
            about: &profile.about,
            source: profile.source.as_deref(),
            path: path.map(|path| path.display().to_string()),
            text: &profile.origin.text,
        })?;
    } else {
        output::result(&profile.origin.text);
    }
    Ok(Code::Done)
}

impl Frames {
    /// Returns the load in frames per second; `None` for the profile's own load.
    fn load_pps(&self, frames: &TrafficFrames) -> anyhow::Result<Option<f64>> {
        let Some(load) = self.load else {
            return Ok(None);
        };
        let mean = mean_size(frames)?;
        Ok(match (load, self.link) {
            (load, Some(link)) => Some(load.pps(mean, link)),
            (LinkLoad::Load(load), None) => load.pps(mean),
            (LinkLoad::Share(_), None) => {
                return Err(Usage(format!(
                    "--load {load}: a percentage needs a link speed. Add --link 10G, or give a load such as 1Mpps"
                ))
                .into());
            }
        })
    }

    fn run(self, global: &Global) -> anyhow::Result<Code> {
        let loaded = profiles::load(&self.profile)?;
        let compiled = compile::compile(
            &loaded.profile,
            &Setting {
                direction: self.direction.into(),
                addresses: EXAMPLE,
                vlan: self.vlan,
                link: self.link,
                read: &|name| loaded.open_capture(name),
            },
        )?;
        if !global.quiet {
            for note in &compiled.notes {
                output::note(&format!("note: {note}"));
            }
        }
        let names: Vec<String> = compiled
            .traffic
            .streams
            .iter()
            .map(|s| s.name.clone())
            .collect();
        let frames = TrafficFrames {
            traffic: Arc::new(compiled.traffic),
            nonce: 0,
        };
        let mut player = Player::new(&frames, self.load_pps(&frames)?)?;
        let mut buffer = vec![0; player.buffer_len()];
        let mut next = || {
            let upcoming = player.upcoming()?;
            // times are in 1/65536 ns
            let due_ns = upcoming.due as f64 / 65_536.0;
            let whole_ns = upcoming.due >> 16;
            let len = player.take(&mut buffer, None, whole_ns);
            Some((
                due_ns,
                whole_ns,
                &names[upcoming.stream as usize],
                buffer[..len].to_vec(),
            ))
        };
        if let Some(path) = &self.pcap {
            let count = self.count;
            let frames = std::iter::from_fn(|| next().map(|(_, due, _, bytes)| (due, bytes)));
            write_capture(
                path,
                frames.take(usize::try_from(count).unwrap_or(usize::MAX)),
            )?;
            return Ok(Code::Done);
        }
        let mut departures = Vec::new();
        for _ in 0..self.count {
            let Some((due_ns, _, stream, bytes)) = next() else {
                break;
            };
            let departure = Departure {
                due_ns,
                stream: stream.clone(),
                frame_size_bytes: bytes.len() + FCS,
                layers: layers_text(&bytes),
                bytes: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            };
            if global.json {
                departures.push(departure);
                continue;
            }
            output::result(&line(&departure, names.len() > 1));
            if self.hex {
                output::result(&dump(&bytes));
            }
        }
        if global.json {
            output::json(&departures)?;
        }
        Ok(Code::Done)
    }
}

/// Returns the layers of a frame, and its signature, if any.
fn layers_text(bytes: &[u8]) -> String {
    let decoded = fwdlab_packet::decode::decode(bytes);
    let mut reported = decoded.to_string();
    let payload = decoded.layers.last().zip(decoded.offsets.last());
    if let Some((fwdlab_packet::stack::Layer::Payload(payload), at)) = payload {
        let tail = payload.len().checked_sub(fwdlab_packet::signature::LEN);
        let places = [Some(*at), tail.map(|tail| at + tail)];
        let signature = places.into_iter().flatten().find_map(|at| {
            let payload = &bytes[at..];
            Signature::matches(payload, 0)
                .then(|| Signature::read(payload))
                .flatten()
        });
        if let Some(Signature {
            stream, sequence, ..
        }) = signature
        {
            reported += &format!(", signature {stream}:{sequence}");
        }
    }
    reported
}

/// Returns the line of a frame.
fn line(departure: &Departure, several: bool) -> String {
    let Departure {
        due_ns,
        stream,
        frame_size_bytes,
        layers,
        ..
    } = departure;
    let stream = if several {
        format!("  {stream}")
    } else {
        String::new()
    };
    format!(
        "{:12.3} us{stream}  {frame_size_bytes:5} B  {layers}",
        due_ns / 1000.0
    )
}

/// Returns a hex dump, sixteen bytes per line.
fn dump(bytes: &[u8]) -> String {
    let lines: Vec<String> = bytes
        .chunks(16)
        .enumerate()
        .map(|(line, bytes)| {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("    {:04x}  {}", line * 16, hex.join(" "))
        })
        .collect();
    lines.join("\n")
}

/// Writes frames with their departure times to a capture file.
fn write_capture(
    path: &std::path::Path,
    frames: impl Iterator<Item = (u64, Vec<u8>)>,
) -> anyhow::Result<()> {
    let classic = path.extension().is_some_and(|ending| ending == "pcap");
    let format = if classic { Format::Nano } else { Format::Ng };
    let what = || format!("cannot write {}", path.display());
    let to_stdout = path.as_os_str() == "-";
    let mut file = match to_stdout {
        true => None,
        false => {
            let file = std::fs::File::create(path);
            let file = file.map_err(|error| Usage(format!("{}: {error}", what())))?;
            Some(std::io::BufWriter::new(file))
        }
    };
    let mut put = |bytes: &[u8]| match &mut file {
        Some(file) => file.write_all(bytes).with_context(what),
        None => {
            output::bytes(bytes, &[]);
            Ok(())
        }
    };
    let mut piece = Vec::new();
    let writer = Writer::start(format, ETHERNET, &mut piece);
    for (due_ns, bytes) in frames {
        writer.frame(&Frame::new(due_ns, &bytes), &mut piece);
        if piece.len() > 1 << 16 {
            put(&piece)?;
            piece.clear();
        }
    }
    put(&piece)?;
    match file {
        Some(mut file) => file.flush().with_context(what),
        None => Ok(()),
    }
}
