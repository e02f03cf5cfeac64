//! `fwdlab receive`: receives and counts frames by hand, with a line each second. Start with
//! [`Receive::run`].

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;
use fwdlab_engine::memif::Status;
use fwdlab_engine::stamps::{Kind, Offers};
use fwdlab_engine::traffic::compile::{Setting, compile};
use fwdlab_engine::traffic::expect::{Expectation, Flows, StreamExpected, Uncounted};
use fwdlab_engine::{Counting, Expected, Frames, SignaturePlace, TrafficFrames};
use fwdlab_lab::ports::Role;
use fwdlab_lab::session::capture::ForeignFrames;
use fwdlab_lab::session::{FOR_EVER, Period, Receiving, Session};
use fwdlab_packet::decode;
use fwdlab_report::number;
use serde_json::{Value, json};

use super::Global;
use super::profile::{EXAMPLE, Way};
use super::session::options::{Amount, Answers, Ports, Timestamps};
use super::session::streams::{self, StreamEnd};
use super::session::{SECOND, Signals, stamping, words};
use crate::exit_code::{Code, Usage};
use crate::{output, profiles};

/// Count frames that arrive on a port, ours and all others, with a line of output each second
///
/// Frames of `fwdlab traffic send` are recognised by their signature: those of a session are
/// counted, and with --profile, --streams or --flows each is checked for loss, duplication,
/// reordering, corruption and latency. All others count as foreign and pass unchanged.
#[derive(Debug, Args)]
pub struct Receive {
    /// Interface to count on, a memif port such as memif:SOCKET,role=server, or a DPDK port such as
    /// dpdk:0000:03:00.0
    #[arg(long, value_name = "PORT")]
    port: String,
    /// Duration, or number of our frames: 10s, 2m, 1e6frames [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME|FRAMES")]
    amount: Option<Amount>,
    /// Engine that counts: xdp at the driver, which consumes our frames; af-packet later, so that
    /// other receivers get them, too
    #[arg(long, default_value = "auto", value_parser = ["auto", "xdp", "af-packet"])]
    engine: String,
    /// Session number in the signatures of our frames: `--session` of send
    #[arg(long, value_name = "N", default_value_t = 1)]
    session: u16,
    /// Check frame by frame what `send --profile` sends: a name (`fwdlab traffic profile ls`) or a
    /// file
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["streams", "flows", "tail"])]
    profile: Option<String>,
    /// Direction of the profile's frames: the second port of send sends in reverse
    #[arg(long, value_enum, default_value = "forward", requires = "profile")]
    direction: Way,
    /// Streams to check frame by frame; send without a profile has stream 0
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    streams: Vec<u16>,
    /// Count each flow of each stream, this many per stream: `--flows` of send
    #[arg(long, value_name = "N", default_value_t = 0)]
    flows: u32,
    /// Signatures are in the last bytes of frames, not at the start of UDP payloads
    #[arg(long)]
    tail: bool,
    /// Number of sending threads of the port at the other end: `--senders` of send
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = super::senders(), conflicts_with = "streams")]
    senders: u32,
    /// Source of arrival times; auto: the program at the driver, or the packet socket
    #[arg(long, value_enum, default_value_t = Timestamps::Auto)]
    timestamps: Timestamps,
    /// Do not list the kinds of foreign frames
    #[arg(long)]
    no_kinds: bool,
    #[command(flatten)]
    answers: Answers,
    #[command(flatten)]
    where_: Ports,
}

impl Receive {
    /// Runs the command.
    pub fn run(mut self, global: &Global) -> anyhow::Result<Code> {
        self.where_.by_own_names([&mut self.port]);
        let frames = self.frames()?;
        let checked = match &frames {
            Some(frames) => Some(streams::expectation(frames)?.from_senders(frames, self.senders)),
            None => self.typed(),
        };
        let place = match &frames {
            Some(Frames::Traffic(frames)) => frames.traffic.place(),
            _ if self.tail => Some(SignaturePlace::Tail),
            _ => None,
        }
        .unwrap_or(SignaturePlace::UdpPayload);
        let signals = Signals::catch()?;
        let port = self.where_.take(&self.port, &[Role::Receive])?;
        let counting = Counting::ALL
            .into_iter()
            .find(|counting| counting.name() == self.engine);
        self.check_stamps(port.spec())?;
        let expected = Expected {
            nonce: self.session,
            buffer_bytes: None,
            place,
            analysis: checked.as_ref().map(Expectation::plan),
        };
        let mut receiving = Receiving::open(port, counting, expected)?;
        // the XDP program takes its own timestamps
        let is_socket = receiving.engine()?.0 == Counting::AfPacket.name();
        if is_socket && self.timestamps == Timestamps::Software {
            receiving.receiver.stamp(Kind::Software)?;
        }
        let mut kinds = match receiving.port.interface().filter(|_| !self.no_kinds) {
            None => None,
            Some(interface) => Some(Kinds {
                onlooker: ForeignFrames::open(&interface.spec, self.session)?,
                frames: BTreeMap::new(),
            }),
        };
        let _answering = self.answers.start(receiving.port.interface())?;
        let mut session = Session::new(Vec::new(), vec![receiving]);
        session.at_most = match self.amount {
            Some(Amount::Time(time)) => time,
            _ => FOR_EVER,
        };
        session.receive_at_most = match self.amount {
            Some(Amount::Frames(frames)) => Some(frames),
            _ => None,
        };
        session.start(signals.control())?;
        let (name, rejected) = session.receiving[0].engine()?;
        let quiet = global.verbosity() == output::Verbosity::Quiet || global.json;
        if global.json_stream {
            let event = json!({
                "event": "started", "format": 1, "session": self.session,
                "receive": [{"port": self.port, "receiver": name, "receivers_not_taken": rejected}],
            });
            output::result(&event.to_string());
        } else if !quiet {
            output::note(&format!(
                "receive   {}  session {}",
                self.port, self.session
            ));
            output::note(&format!("receiver  {name}"));
            for reason in &rejected {
                output::note(&format!("          not {reason}"));
            }
        }
        let ports = [self.port.clone()];
        let whole = session.run(signals.control(), SECOND, &mut |second| {
            if global.json_stream {
                output::result(&words::period_json("second", &[], &ports, second).to_string());
            } else if !quiet && let Some(received) = second.received.first() {
                output::note(&words::received_line(&self.port, second.at_s, received));
            }
            if let Some(kinds) = &mut kinds {
                kinds.look();
            }
        })?;
        if let Some(kinds) = &mut kinds {
            kinds.look();
        }
        let (ends, taken) = match &checked {
            Some(checked) => {
                let receiver = &mut session.receiving[0].receiver;
                streams::ends(receiver, checked, None, frames.as_ref(), None, None)?
            }
            None => Default::default(),
        };
        let port = &session.receiving[0].port;
        let (peer, about) = (port.memif(), words::port_json(port));
        drop(session);
        self.print_results(
            global,
            (name, &rejected),
            (peer, about),
            &whole,
            &ends,
            kinds.as_ref(),
        )?;
        if let Some(cause) = stamping::invalid(&taken) {
            output::note(&format!("invalid   {cause}"));
        }
        Ok(match signals.code(self.amount.is_none()) {
            Code::Done if !taken.is_valid() => Code::NotValid,
            code => code,
        })
    }

    /// Checks the timestamps: departure times in frames use the clock of the sender, so arrival
    /// times on a NIC's clock cannot be compared with them.
    fn check_stamps(&self, port: &fwdlab_engine::PortSpec) -> anyhow::Result<()> {
        match self.timestamps {
            Timestamps::Auto | Timestamps::User => Ok(()),
            Timestamps::Software => Ok(Offers::query(port)?.receives(Kind::Software)?),
            Timestamps::Hardware => {
                Offers::query(port)?.receives(Kind::Hardware)?;
                Err(Usage(format!(
                    "--timestamps hardware: the card of {} uses its own clock, and the departures in frames are on \
                     CLOCK_MONOTONIC; times from two clocks cannot be subtracted. Use ping or send --analyse, which know \
                     both ends, or --timestamps software",
                    self.port
                ))
                .into())
            }
        }
    }

    /// Returns the frames of the profile: their content, not their number.
    fn frames(&self) -> anyhow::Result<Option<Frames>> {
        let Some(name) = &self.profile else {
            return Ok(None);
        };
        let loaded = profiles::load(name)?;
        let compiled = compile(
            &loaded.profile,
            &Setting {
                direction: self.direction.into(),
                addresses: EXAMPLE,
                vlan: None,
                // any speed will do: departure times do not matter here
                link: "10G".parse().ok(),
                read: &|name| loaded.open_capture(name),
            },
        )?;
        Ok(Some(Frames::Traffic(TrafficFrames {
            traffic: Arc::new(compiled.traffic),
            nonce: self.session,
        })))
    }

    /// Returns the streams that were typed.
    fn typed(&self) -> Option<Expectation> {
        let ids = match (&self.streams[..], self.flows) {
            ([], 0) => return None,
            ([], _) => &[0][..],
            (output, _) => output,
        };
        let stream = |(index, &id): (usize, &u16)| StreamExpected {
            id,
            name: "as typed".into(),
            index,
            lengths: None,
            senders: self.senders,
            flows: match self.flows {
                0 => Err(Uncounted::Unasked),
                flows => Ok(Flows::numbered(flows)),
            },
        };
        Some(Expectation {
            streams: ids.iter().enumerate().map(stream).collect(),
            unsigned: Vec::new(),
        })
    }

    fn print_results(
        &self,
        global: &Global,
        (receiver, rejected): (&str, &[String]),
        (peer, about): (Option<Status>, Option<(&'static str, Value)>),
        whole: &Period,
        ends: &[StreamEnd],
        kinds: Option<&Kinds>,
    ) -> anyhow::Result<()> {
        let mut document =
            words::period_json("finished", &[], std::slice::from_ref(&self.port), whole);
        document["session"] = self.session.into();
        if let Some(value) = document["receive"].get_mut(0) {
            value["receiver"] = receiver.into();
            value["receivers_not_taken"] = rejected.into();
            if !ends.is_empty() {
                value["streams"] = ends.iter().map(StreamEnd::json).collect();
            }
            if let Some(kinds) = kinds {
                value["foreign_kinds"] = kinds.json();
            }
            if let Some((name, about)) = about {
                value[name] = about;
            }
        }
        if global.json {
            return output::json(&document);
        }
        if global.json_stream {
            output::result(&document.to_string());
            return Ok(());
        }
        let Some(received) = whole.received.first() else {
            return Ok(());
        };
        let counts = &received.counts;
        let mut text = format!(
            "received  {}  {} in {}: {}{}\n",
            self.port,
            number::counted(received.all_frames, "frame"),
            number::seconds(whole.duration_s),
            number::rate(received.all_pps),
            words::bits(received, 0),
        );
        text += &format!(
            "ours      {}  {} of session {}, {} of sessions before it, {} foreign",
            self.port,
            number::counted(counts.received, "frame"),
            self.session,
            number::count(counts.late),
            number::count(counts.foreign),
        );
        for stream in ends {
            text += &format!("\n{}", stream.text());
        }
        if let Some(clocks) = ends.iter().find_map(StreamEnd::timestamps) {
            text += &format!("\nclocks    {clocks}");
        }
        if let Some(kinds) = kinds {
            text += &kinds.text();
        }
        if let Some(peer) = &peer {
            text += &format!("\n{}", words::peer(&self.port, peer));
        }
        output::lines(&text);
        Ok(())
    }
}

/// Counts of foreign frames by kind.
struct Kinds {
    onlooker: ForeignFrames,
    frames: BTreeMap<String, u64>,
}

impl Kinds {
    /// Reads the frames of the last second.
    fn look(&mut self) {
        let frames = &mut self.frames;
        // a failed capture must not stop the counting
        let _ = (self.onlooker).look(&mut |frame| *frames.entry(kind(frame)).or_default() += 1);
    }

    fn json(&self) -> Value {
        json!({
            "frames": self.frames,
            "given_up": self.onlooker.is_flooded(),
            "frames_not_looked_at": self.onlooker.unseen(),
        })
    }

    fn text(&self) -> String {
        let mut kinds: Vec<(&String, &u64)> = self.frames.iter().collect();
        kinds.sort_by(|a, b| b.1.cmp(a.1));
        let mut text = String::new();
        for (kind, frames) in kinds.iter().take(10) {
            text += &format!("\nforeign   {kind}: {}", number::count(**frames));
        }
        if self.onlooker.is_flooded() || self.onlooker.unseen() > 0 {
            text += "\nforeign   there were too many to identify each one";
        }
        text
    }
}

/// Returns the innermost known layer: `ARP`, `IPv6 / ICMPv6`.
fn kind(frame: &[u8]) -> String {
    let decoded = decode::decode(frame);
    let names: Vec<&str> = (decoded.layers.iter())
        .map(fwdlab_packet::stack::Layer::name)
        .filter(|name| !["Ethernet", "payload", "Payload"].contains(name))
        .collect();
    if !names.is_empty() {
        return names.join(" / ");
    }
    match frame.get(12..14) {
        Some(&[a, b]) if u16::from_be_bytes([a, b]) >= 0x600 => {
            format!("EtherType 0x{a:02x}{b:02x}")
        }
        _ => "IEEE 802.3 (LLC)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_frames() {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[0x88, 0xcc]);
        assert_eq!(kind(&frame), "EtherType 0x88cc");
        frame[12..14].copy_from_slice(&[0, 38]);
        assert_eq!(kind(&frame), "IEEE 802.3 (LLC)");
        frame[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        assert_eq!(kind(&frame), "ARP");
        assert!(!kind(&[]).is_empty());
    }
}
