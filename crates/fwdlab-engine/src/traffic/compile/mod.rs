//! Compiles a profile to traffic: frames become bytes, programs and times for one port.
//!
//! Finds all errors in a profile that were not found earlier, with their position in the file. Does
//! not read the profile's file; the [player](super::player) plays the compiled traffic. Start with
//! [`compile`].
//!
//! - [`shape`]: frames as they are built, or found in a capture;
//! - [`place`]: the positions of fields in them;
//! - [`program`]: what differs from frame to frame;
//! - [`signature`]: the positions of signatures.

mod place;
mod program;
mod shape;
mod signature;

use std::io;

use fwdlab_model::link::{LinkLoad, LinkSpeed, MeanSize};
use fwdlab_model::profile::size::Pattern;
use fwdlab_model::profile::{self, Plan, Profile, ProfileError, Rate, Size, Step, Stream as Text};
use fwdlab_model::units::Load;
use fwdlab_packet::pcap::Frame;
use fwdlab_packet::permutation::mix;

use self::program::Draft;
use self::shape::{Blueprint, FCS, Macs};
use super::{Emission, Kind, Stream, Timing, Traffic};
use crate::capture::file;
use crate::signature::SignaturePlace;
use crate::traffic::Addresses;

/// Maximum bytes of all templates of a port together.
const MOST_BYTES: usize = 64 << 20;

/// The total load, in frames per second, of streams with shares instead of rates if no link is
/// known.
const WITHOUT_LINK_PPS: f64 = 1e6;

/// Direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// As in the profile.
    Forward,
    /// Sources and destinations swapped.
    Reverse,
}

/// What a profile does not contain.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The profile's direction that leaves through this port.
    pub direction: Direction,
    /// Addresses of this port and of the next hop, and of test frames on the way there. Addresses
    /// in the profile take precedence.
    pub addresses: Addresses,
    /// A VLAN tag of all frames of this port, outside of those in the profile.
    pub vlan: Option<u16>,
    /// Speed of the link, for rates that are shares of it.
    pub link: Option<LinkSpeed>,
    /// Opens a capture file that the profile refers to.
    pub read: &'a dyn Fn(&str) -> io::Result<Box<dyn io::Read>>,
}

/// A compiled profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// The traffic to send.
    pub traffic: Traffic,
    /// Notes for readers of the results.
    pub notes: Vec<String>,
}

/// An error in a stream, and the key that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StreamError {
    key_path: Vec<Step<'static>>,
    reason: String,
}

impl StreamError {
    fn at(key: &'static str, cause: impl Into<String>) -> StreamError {
        StreamError {
            key_path: vec![Step::Key(key)],
            reason: cause.into(),
        }
    }
}

/// Compiles the streams of a profile for this direction.
///
/// # Errors
/// If the profile is impossible, with the position in its file; or no stream goes in this
/// direction.
pub fn compile(profile: &Profile, setting: &Setting<'_>) -> Result<Compiled, ProfileError> {
    profile.check()?;
    let here: Vec<usize> = (0..profile.streams.len())
        .filter(|stream| has_direction(&profile.streams[*stream], setting.direction))
        .collect();
    let way = match setting.direction {
        Direction::Forward => "forward",
        Direction::Reverse => "in reverse",
    };
    if here.is_empty() {
        return Err(profile.error(&[], format!("no stream goes {way}")));
    }
    let mut notes = Vec::new();
    let mut drafts: Vec<Vec<Draft>> = Vec::new();
    let mut patterns: Vec<Vec<u16>> = Vec::new();
    let mut bytes = 0;
    for stream in &here {
        let text = &profile.streams[*stream];
        let (kinds, pattern) = drafts_of(text, setting, &mut bytes, &mut notes)
            .map_err(|wrong| profile.stream_error(*stream, &wrong.key_path, wrong.reason))?;
        drafts.push(kinds);
        patterns.push(pattern);
    }

    let rooms: Vec<Option<signature::Room>> = here
        .iter()
        .zip(&drafts)
        .flat_map(|(stream, kinds)| {
            let text = &profile.streams[*stream];
            let requested = text.signature.unwrap_or(text.pcap.is_none());
            let label = !sets_flow_label(text);
            kinds
                .iter()
                .map(move |draft| requested.then(|| signature::room(draft, label)))
        })
        .collect();
    let mut places = signature::choose(&rooms).into_iter();

    let means: Vec<MeanSize> = drafts
        .iter()
        .zip(&patterns)
        .map(|(kinds, pattern)| mean(kinds, pattern))
        .collect();
    let rates = rates(profile, &here, &means, setting.link)?;
    let mut streams = Vec::new();
    for (number, ((stream, kinds), pattern)) in here.iter().zip(drafts).zip(patterns).enumerate() {
        let text = &profile.streams[*stream];
        let name = profile.stream_name(*stream);
        let mut finished = Vec::new();
        for draft in kinds {
            let place = places.next().flatten();
            let kind = draft
                .finish(place, &text.checksums)
                .map_err(|wrong| profile.stream_error(*stream, &wrong.key_path, wrong.reason))?;
            finished.push(kind);
        }
        note_signatures(&name, text, &finished, &mut notes);
        let reverse = u16::from(setting.direction == Direction::Reverse);
        streams.push(Stream {
            id: (stream * 2) as u16 + reverse,
            name,
            kinds: finished,
            pattern,
            timing: timing(profile, *stream, &here, rates[number])?,
            path: 0,
        });
    }
    if streams.iter().all(|stream| stream.timing.waits) {
        return Err(profile.error(
            &[],
            format!("all streams that go {way} wait for another one to end"),
        ));
    }
    Ok(Compiled {
        traffic: Traffic {
            name: profile.name.clone(),
            streams,
        },
        notes,
    })
}

/// Returns true if this stream goes in this direction.
fn has_direction(stream: &Text, direction: Direction) -> bool {
    match stream.direction {
        profile::Direction::Both => true,
        profile::Direction::Forward => direction == Direction::Forward,
        profile::Direction::Reverse => direction == Direction::Reverse,
    }
}

/// Returns true if the profile sets the outermost flow label.
fn sets_flow_label(stream: &Text) -> bool {
    stream
        .layers
        .iter()
        .flatten()
        .any(|layer| matches!(layer, profile::Layer::Ipv6(ip) if ip.flow_label.is_some()))
}

/// Returns the frames of a stream, and the order in which its kinds are sent. `bytes`: of all
/// templates so far.
fn drafts_of(
    stream: &Text,
    setting: &Setting<'_>,
    bytes: &mut usize,
    notes: &mut Vec<String>,
) -> Result<(Vec<Draft>, Vec<u16>), StreamError> {
    let reverse = setting.direction == Direction::Reverse;
    let mut macs = Macs {
        source: setting.addresses.source_mac,
        destination: setting.addresses.destination_mac,
    };
    if stream.plan == Plan::Rfc4814 {
        macs.source = random_mac(stream.seed, setting.direction);
    }
    if let Some(file) = &stream.pcap {
        let macs = (!stream.keep_macs).then_some(macs);
        return captured(stream, file, macs, setting, bytes);
    }
    let mut claim = |sizes: &mut dyn Iterator<Item = usize>, key| {
        *bytes = sizes.fold(*bytes, usize::saturating_add);
        match *bytes {
            ..=MOST_BYTES => Ok(()),
            more => Err(StreamError::at(
                key,
                format!("templates of {more} bytes; those of a port have at most {MOST_BYTES}"),
            )),
        }
    };
    let blueprint = Blueprint::new(stream, macs, setting)?;
    let draft = |size: usize, sizes| {
        let mut shape = blueprint.build(size)?;
        if reverse {
            shape.reverse();
        }
        Draft::new(stream, shape, reverse, sizes)
    };
    match &stream.size {
        None => {
            let requested = if stream.signature == Some(false) {
                0
            } else {
                fwdlab_packet::signature::LEN
            };
            let size = blueprint.smallest(requested);
            Ok((vec![draft(size, None)?], vec![0]))
        }
        Some(Size::Range(range)) => {
            let least = blueprint.smallest(0);
            if (range.from as usize) < least {
                let reason = format!(
                    "size from {} is too small: these layers need at least {least} (with FCS)",
                    range.from
                );
                return Err(StreamError::at("size", reason));
            }
            claim(&mut [range.to as usize].into_iter(), "size")?;
            Ok((vec![draft(range.to as usize, Some(range))?], vec![0]))
        }
        Some(Size::Pattern(Pattern {
            name,
            sizes,
            padded,
        })) => {
            if !padded.is_empty() {
                let request: Vec<String> = padded.iter().map(u32::to_string).collect();
                notes.push(format!(
                    "size {name}: frames of {} bytes do not exist and are padded to 64",
                    request.join(" and ")
                ));
            }
            let mut kinds: Vec<u32> = Vec::new();
            let mut seen = std::collections::HashMap::new();
            let mut pattern = Vec::with_capacity(sizes.len());
            for size in sizes {
                let kind = *seen.entry(*size).or_insert_with(|| {
                    kinds.push(*size);
                    kinds.len() - 1
                });
                pattern.push(kind as u16);
            }
            claim(&mut kinds.iter().map(|size| *size as usize), "size")?;
            let drafts = kinds
                .into_iter()
                .map(|size| draft(size as usize, None))
                .collect::<Result<_, _>>()?;
            Ok((drafts, pattern))
        }
    }
}

/// Returns the frames of a capture file.
fn captured(
    stream: &Text,
    file: &str,
    macs: Option<Macs>,
    setting: &Setting<'_>,
    bytes: &mut usize,
) -> Result<(Vec<Draft>, Vec<u16>), StreamError> {
    let wrong = |cause: String| StreamError::at("pcap", format!("{file}: {cause}"));
    let reverse = setting.direction == Direction::Reverse;
    let opened = (setting.read)(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let mut draft = |number: u64, frame: Frame<'_>, before: usize| {
        let of_frame = |cause: String| wrong(format!("frame {number}: {cause}"));
        let frame = frame
            .to_send()
            .map_err(|error| of_frame(error.to_string()))?;
        let whole = frame.len();
        let longest = profile::size::LARGEST as usize - FCS;
        if whole > longest {
            return Err(of_frame(format!(
                "{whole} bytes; a frame has at most {longest} without FCS"
            )));
        }
        *bytes += whole;
        if *bytes > MOST_BYTES || before > u16::MAX.into() {
            return Err(wrong(format!(
                "more than {} frames or {MOST_BYTES} bytes; use a part of it",
                u16::MAX
            )));
        }
        let mut shape =
            shape::from_capture(frame, macs, reverse, setting.vlan).map_err(of_frame)?;
        if reverse {
            shape.reverse();
        }
        Draft::new(stream, shape, reverse, None).map_err(|mut error| {
            error.reason = format!("{file}: frame {number}: {}", error.reason);
            error
        })
    };
    let mut frames = file::Frames::new(opened);
    let mut drafts: Vec<Draft> = Vec::new();
    for number in 1.. {
        let is_wanted = stream
            .frame
            .is_none_or(|requested| u64::from(requested) == number);
        let next = frames.next(|frame| is_wanted.then(|| draft(number, frame, drafts.len())));
        match next.map_err(|error| wrong(format!("frame {number}: {error}")))? {
            None => break,
            Some(None) => continue,
            Some(Some(draft)) => drafts.push(draft?),
        }
        // the frames behind it are not needed
        if stream.frame.is_some() {
            break;
        }
    }
    match (drafts.is_empty(), stream.frame) {
        (true, Some(frame)) => Err(wrong(format!("there is no frame {frame}"))),
        (true, None) => Err(wrong("there are no frames".to_owned())),
        _ => {
            let pattern = (0..drafts.len()).map(|kind| kind as u16).collect();
            Ok((drafts, pattern))
        }
    }
}

/// Returns the mean size of a stream's frames.
fn mean(kinds: &[Draft], pattern: &[u16]) -> MeanSize {
    let size = |kind: &u16| {
        let draft = &kinds[usize::from(*kind)];
        let longest = draft.shape.bytes.len();
        // twice the mean
        (longest + draft.trimmed_to.unwrap_or(longest) + 2 * FCS) as u64
    };
    let bytes = pattern.iter().map(size).sum();
    MeanSize::new(bytes, 2 * pattern.len() as u64)
        .expect("a stream has frames, larger than their headers")
}

/// Returns the rate of each stream at the profile's own load, in frames per second.
fn rates(
    profile: &Profile,
    here: &[usize],
    means: &[MeanSize],
    link: Option<LinkSpeed>,
) -> Result<Vec<f64>, ProfileError> {
    let text = |stream: usize| &profile.streams[stream];
    let share = |stream: usize| text(stream).share.unwrap_or(1.0);
    let sharing = || {
        here.iter()
            .zip(means)
            .filter(|(stream, _)| text(**stream).rate.is_none())
    };
    let shares: f64 = sharing().map(|(stream, _)| share(*stream)).sum();
    let bytes: f64 = sharing()
        .map(|(stream, mean)| share(*stream) * mean.bytes())
        .sum();
    let common = match sharing().collect::<Vec<_>>().as_slice() {
        [(_, mean)] => Some(**mean),
        [] => None,
        _ => MeanSize::new((bytes / shares * 1e6).round() as u64, 1_000_000),
    };
    let total = match (profile.rate, common, link) {
        (_, None, _) => 0.0,
        (Some(rate), Some(common), _) => {
            pps(rate, common, link).map_err(|reason| profile.error(&["rate".into()], reason))?
        }
        (None, Some(common), Some(link)) => link.line_rate_pps(common),
        (None, Some(_), None) => WITHOUT_LINK_PPS,
    };
    here.iter()
        .zip(means)
        .map(|(stream, mean)| match text(*stream).rate {
            Some(rate) => pps(rate, *mean, link)
                .map_err(|reason| profile.stream_error(*stream, &["rate".into()], reason)),
            None => Ok(total * share(*stream) / shares),
        })
        .collect()
}

/// Converts a rate to frames per second.
fn pps(Rate(rate): Rate, mean: MeanSize, link: Option<LinkSpeed>) -> Result<f64, String> {
    match (rate, link) {
        (LinkLoad::Share(_) | LinkLoad::Load(Load::Max), None) => Err(format!(
            "{rate} refers to the line rate, but the speed of the link is not known; give it (--link 10G), or a rate such as \
             1kpps"
        )),
        (LinkLoad::Load(load), None) => Ok(load.pps(mean).unwrap_or(0.0)),
        (rate, Some(link)) => Ok(rate.pps(mean, link)),
    }
}

fn timing(
    profile: &Profile,
    stream: usize,
    here: &[usize],
    rate_pps: f64,
) -> Result<Timing, ProfileError> {
    let text = &profile.streams[stream];
    let mode = match (text.burst, text.bursts) {
        (Some(frames), _) => Emission::Burst { frames },
        (_, Some(bursts)) => Emission::Bursts {
            frames: bursts.frames,
            pause_ns: bursts.pause.ns,
            bursts: bursts.count,
        },
        _ => Emission::Continuous,
    };
    let next = match &text.next {
        None => None,
        Some(name) => {
            let target = profile.stream_named(name);
            let place = here.iter().position(|stream| Some(*stream) == target);
            let gone = || {
                profile.stream_error(
                    stream,
                    &["next".into()],
                    format!("stream {name} does not go in this direction"),
                )
            };
            Some(place.ok_or_else(gone)?)
        }
    };
    Ok(Timing {
        rate_pps,
        mode,
        delay_ns: text.delay.map_or(0, |delay| delay.ns),
        waits: profile.waits(stream),
        next,
        runs: text.runs,
        held: false,
    })
}

/// Adds a note about frames that cannot be counted one by one.
fn note_signatures(stream: &str, text: &Text, kinds: &[Kind], notes: &mut Vec<String>) {
    if text.signature == Some(false) {
        return;
    }
    if text.pcap.is_some() && text.signature.is_none() {
        notes.push(format!(
            "stream {stream}: captured frames are sent unchanged, without signature: they are neither counted nor timed; add \
             signature = true if they may be changed"
        ));
        return;
    }
    for (place, action) in [
        (
            Some(SignaturePlace::FlowLabel),
            "are recognised by their flow label: they are counted, but neither distinguished nor timed",
        ),
        (
            None,
            "have no room for a signature: they are neither counted individually nor timed",
        ),
    ] {
        let mut sizes: Vec<usize> = kinds
            .iter()
            .filter(|kind| kind.place == place)
            .map(|kind| kind.template.len() + FCS)
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let listed: Vec<String> = sizes.iter().take(8).map(usize::to_string).collect();
        if !sizes.is_empty() {
            let more = if sizes.len() > 8 { " and other" } else { "" };
            notes.push(format!(
                "stream {stream}: frames of {}{more} bytes {action}",
                listed.join(", ")
            ));
        }
    }
}

/// Returns a pseudo-random MAC address according to RFC 4814 §4.2: `(RR & 0xFC):PP:PP:RR:RR:RR`,
/// with the number of the port.
fn random_mac(seed: u64, direction: Direction) -> [u8; 6] {
    let port = match direction {
        Direction::Forward => 1_u8,
        Direction::Reverse => 2,
    };
    let [a, b, c, d, ..] = mix(seed, 0x4814_0000 + u64::from(port)).to_be_bytes();
    [a & 0xfc, 0, port, b, c, d]
}

/// Lists the valid names, for an error.
fn known(names: &[&str]) -> String {
    match names {
        [] => "; no entry has a name".to_owned(),
        names => format!("; there are {}", names.join(", ")),
    }
}

impl Traffic {
    /// Returns the position of the signature in its frames; `None` if none has one.
    pub fn place(&self) -> Option<SignaturePlace> {
        let kinds = self.streams.iter().flat_map(|stream| &stream.kinds);
        kinds.filter_map(|kind| kind.place).next()
    }
}
