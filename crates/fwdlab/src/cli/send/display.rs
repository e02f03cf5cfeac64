//! Output of `fwdlab send`: what it will send, and at the end the fate of every frame.
//!
//! Start with [`Send::print_plan`] and [`Send::print_summary`].

use fwdlab_engine::Frames;
use fwdlab_engine::traffic::expect::Expectation;
use fwdlab_engine::traffic::share;
use fwdlab_lab::session::{Period, Received, SendDuration, Sending, Sent, Session, Source};
use fwdlab_packet::IpVersion;
use fwdlab_report::number;
use serde_json::{Value, json};

use super::frames::FLOWS;
use super::loads::Resolved;
use super::{End, Send};
use crate::cli::Global;
use crate::cli::session::options::Amount;
use crate::cli::session::streams::StreamEnd;
use crate::cli::session::{stamping, words};
use crate::output;

impl Send {
    pub(super) fn print_plan(
        &self,
        global: &Global,
        session: &mut Session,
        loads: &[Vec<Resolved>],
    ) {
        let amount = match self.amount {
            Some(Amount::Time(time)) => format!("for {}", number::seconds(time.as_secs_f64())),
            Some(Amount::Frames(frames)) => number::counted(frames, "frame"),
            None if self.pcap.is_some() && self.rounds > 0 => "all of it".into(),
            None => "until Ctrl-C".into(),
        };
        let resolved = |loads: &[Resolved]| -> Vec<String> {
            loads.iter().map(|load| load.words.clone()).collect()
        };
        if global.json_stream {
            let ports: Vec<_> = (session.sending.iter_mut().zip(loads))
                .map(|(sending, loads)| {
                    let engine = sending.source.engine();
                    json!({
                        "port": sending.port.spec().interface,
                        "engine": engine.name,
                        "engine_mode": engine.mode,
                        "engines_not_taken": engine.not_taken,
                        "loads": resolved(loads),
                        "mean_size_bytes": sending.mean.bytes(),
                    })
                })
                .collect();
            let event =
                json!({"event": "started", "format": 1, "session": self.session, "send": ports});
            output::result(&event.to_string());
            return;
        }
        if global.verbosity() == output::Verbosity::Quiet || global.json {
            return;
        }
        for (sending, loads) in session.sending.iter_mut().zip(loads) {
            let engine = sending.source.engine();
            output::note(&format!(
                "send      {}  {}  {amount}",
                sending.port.spec().interface,
                self.frames_in_words(sending)
            ));
            output::note(&format!("load      {}", resolved(loads).join(", then ")));
            output::note(&format!("engine    {}", engine.mode));
            for reason in engine.not_taken {
                output::note(&format!("          not {reason}"));
            }
            for note in self.notes_on_senders(sending) {
                output::note(&format!("senders   {note}"));
            }
        }
    }

    /// Returns what several senders change.
    fn notes_on_senders(&self, sending: &Sending) -> Vec<String> {
        let (Source::Engine(_, frames), 2..) = (&sending.source, self.senders) else {
            return Vec::new();
        };
        let mut notes = Vec::new();
        if let Frames::Traffic(frames) = frames.as_ref() {
            let unsplit = share::unsplit(&frames.traffic, self.senders);
            notes.extend(unsplit.iter().map(|stream| {
                format!(
                    "stream {} cannot be split: the first sender sends it alone",
                    stream.name
                )
            }));
        }
        let expectation = Expectation::from_frames(frames).from_senders(frames, self.senders);
        let mixed = expectation.streams.iter().filter(|s| s.senders > 1);
        let mixed = mixed.filter(|stream| stream.keeps_flows() != Some(true));
        notes.extend(mixed.map(|stream| {
            format!(
                "frames of one flow of {} can overtake each other: {} senders share it; a number of flows that is a multiple of \
                 the senders avoids this",
                stream.name, self.senders
            )
        }));
        notes
    }

    fn frames_in_words(&self, sending: &Sending) -> String {
        let mean = sending.mean;
        if let Some(path) = &self.pcap {
            let of = match &sending.source {
                Source::Replay(replay) => replay.frames_checked(),
                Source::Engine(..) => None,
            };
            let of = of.map_or(String::new(), |frames| {
                format!(" of the first {} frames", number::count(frames))
            });
            return format!("{} (mean{of} {:.1} B)", path.display(), mean.bytes());
        }
        if let Some(name) = &self.profile {
            return format!("profile {name} (mean {:.1} B)", mean.bytes());
        }
        let version = match self.version() {
            IpVersion::V4 => "IPv4",
            IpVersion::V6 => "IPv6",
        };
        let flows = match (&self.from, &self.to) {
            (None, None) => format!("{} flows", number::count(self.flows.unwrap_or(FLOWS))),
            _ => "flows as typed".into(),
        };
        format!("{:.0} B, {version}, {flows}", mean.bytes())
    }

    pub(super) fn print_summary(
        &self,
        global: &Global,
        session: &mut Session,
        loads: &[Vec<Resolved>],
        whole: &Period,
        ends: &[End],
    ) -> anyhow::Result<()> {
        let senders = &self.ports;
        let receivers: Vec<String> = (ends.iter())
            .map(|end| end.counted.interface.clone())
            .collect();
        let mut document = words::period_json("finished", senders, &receivers, whole);
        document["session"] = self.session.into();
        for ((sending, loads), value) in (session.sending.iter_mut().zip(loads))
            .zip(document["send"].as_array_mut().into_iter().flatten())
        {
            let engine = sending.source.engine();
            value["engine"] = engine.name.into();
            value["engine_mode"] = engine.mode.into();
            value["engines_not_taken"] = engine.not_taken.into();
            let words: Vec<&str> = loads.iter().map(|load| load.words.as_str()).collect();
            value["loads"] = words.into();
            if let Some((name, about)) = words::port_json(&sending.port) {
                value[name] = about;
            }
        }
        let balances: Vec<Balance> = (ends.iter().zip(&whole.received))
            .map(|(end, received)| self.balance(end, received, &whole.sent))
            .collect();
        let values = document["receive"].as_array_mut().into_iter().flatten();
        for (((end, balance), value), receiving) in
            (ends.iter().zip(&balances).zip(values)).zip(&session.receiving)
        {
            balance.add_to(value);
            if let Some((name, about)) = words::port_json(&receiving.port) {
                value[name] = about;
            }
            if self.analyse {
                value["streams"] = end.streams.iter().map(StreamEnd::json).collect();
                value["streams_not_checked"] = end.unsigned.clone().into();
                if let Some(stamping) = &end.stamping {
                    value["timestamps"] = stamping::json(&end.taken, stamping);
                }
            }
        }
        if global.json {
            return output::json(&document);
        }
        if global.json_stream {
            output::result(&document.to_string());
            return Ok(());
        }
        for ((port, sent), sending) in (senders.iter().zip(&whole.sent)).zip(&session.sending) {
            let mut text = format!(
                "sent      {port}  {} in {}: {}, {} L1, {} L2",
                number::counted(sent.left(), "frame"),
                number::seconds(whole.duration_s),
                number::rate(sent.rate_pps),
                number::bits_per_second(sent.l1_bps),
                number::bits_per_second(sent.l2_bps),
            );
            if sent.dropped() > 0 {
                text += &format!(
                    "\ndropped   {port}  {} of {} that it accepted but never sent{}",
                    number::count(sent.dropped()),
                    number::counted(sent.given, "frame"),
                    match (
                        sending.port.virtual_kind(),
                        sent.port.map(|port| port.tx_dropped)
                    ) {
                        (_, Some(0)) =>
                            ": the port's counters show them neither as sent nor as dropped",
                        (Some("veth"), _) =>
                            ": its other end had no room for them, or its MTU is smaller",
                        _ => "",
                    }
                );
            }
            if sent.not_sent > 0 {
                text += &format!(
                    "\nnot sent  {port}  {} due: the sender stalled, or the port had no room",
                    number::counted(sent.not_sent, "frame"),
                );
            }
            if sent.is_limited() {
                text += match (sent.left(), sent.dropped() > sent.not_sent) {
                    (0, true) => "\n          no frame left the port",
                    (_, true) => {
                        "\n          fewer frames left than were due: the port is the limit"
                    }
                    (_, false) => {
                        "\n          the load was not reached: the generator is the limit"
                    }
                };
            }
            if let Some(elapsed) = sent.took.filter(SendDuration::is_too_long)
                && let Some(planned_s) = elapsed.planned_s
            {
                text += &format!(
                    "\ntoo slow  {port}  all took {} instead of {}",
                    number::seconds(elapsed.seconds),
                    number::seconds(planned_s),
                );
            }
            if sent.made_up > 0 {
                text += &format!(
                    "\nmade up   {port}  {} that the sender missed while it stalled and sent later",
                    number::counted(sent.made_up, "frame"),
                );
            }
            text += &format!("\nport      {port}  ");
            if let Some(counters) = sent.port {
                text += &format!(
                    "tx_packets {}  tx_dropped {}  ",
                    number::count(counters.tx_packets),
                    number::count(counters.tx_dropped),
                );
            }
            text += &format!(
                "ring full {}  system calls {}",
                number::count(sent.ring_full),
                number::count(sent.wakeups),
            );
            if let Some(peer) = sending.port.memif() {
                text += &format!("\n{}", words::peer(port, &peer));
            }
            if sent.foreign > 0 {
                text += &format!(
                    "\n          {} of tx_packets not ours: sent by the kernel or other programs",
                    number::count(sent.foreign),
                );
            }
            for (number, own) in (1..).zip(&sent.senders) {
                let line = words::sender_line(port, number, sent.senders.len(), own);
                text += &format!("\n{line}");
            }
            for line in self.streams_sent(sending, sent) {
                text += &format!("\n{line}");
            }
            if let Some(lateness) = &sent.lateness {
                text += &format!("\nlateness  {port}  {}", words::distribution(lateness));
            }
            output::lines(&text);
        }
        for ((end, received), balance) in ends.iter().zip(&whole.received).zip(&balances) {
            let counts = &received.counts;
            let mut text = format!(
                "received  {}  {} frames of ours, {} foreign\nbalance   {}",
                end.counted.interface,
                number::count(counts.received),
                number::count(counts.foreign),
                balance.text(&self.counted_ports(end)),
            );
            for stream in &end.streams {
                text += &format!("\n{}", stream.text());
            }
            for name in &end.unsigned {
                text += &format!("\nstream    {name}  not checked: its frames carry no signature");
            }
            if let Some(clocks) = end.streams.iter().find_map(StreamEnd::timestamps) {
                text += &format!("\nclocks    {clocks}");
            }
            if let Some(stamping) = &end.stamping {
                text += &format!("\n{}", stamping::text(&end.taken, stamping));
            }
            output::result(text.trim_end());
        }
        Ok(())
    }

    /// Returns the sent frames of each stream, if there are several and no receiver reports them.
    fn streams_sent(&self, sending: &Sending, sent: &Sent) -> Vec<String> {
        let Source::Engine(_, frames) = &sending.source else {
            return Vec::new();
        };
        let Frames::Traffic(frames) = frames.as_ref() else {
            return Vec::new();
        };
        if self.analyse || sent.streams.len() < 2 {
            return Vec::new();
        }
        (frames.traffic.streams.iter().zip(&sent.streams))
            .map(|(stream, frames)| {
                let word = match sent.dropped() {
                    0 => "sent",
                    _ => "given to the port",
                };
                let frames = number::count(*frames);
                format!("stream    {} {}  {word} {frames}", stream.id, stream.name)
            })
            .collect()
    }

    /// Returns which ports' frames were counted.
    fn counted_ports(&self, end: &End) -> String {
        match end.counted.sender {
            Some(sender) => self.ports[sender].clone(),
            None => self.ports.join(" and "),
        }
    }
}

/// The fate of the frames given to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Balance {
    given: u64,
    /// Checked frames, counted once each.
    received: u64,
    /// Received but not checked: the receiver had no room for them.
    unchecked: u64,
    /// Dropped by the sending port.
    tx_dropped: u64,
    /// Drops in the port's counter that are not ours: the counter exceeds the number of missing
    /// frames.
    foreign_dropped: u64,
}

impl Send {
    fn balance(&self, end: &End, received: &Received, sent: &[Sent]) -> Balance {
        let sent = match end.counted.sender {
            Some(sender) => &sent[sender..=sender],
            None => sent,
        };
        let counts = &received.counts;
        let all = sent.iter().map(|sent| sent.given).sum();
        let (given, received, unchecked) = match &end.streams[..] {
            [] => (all, counts.received, 0),
            streams => (
                streams.iter().filter_map(StreamEnd::sent).sum(),
                streams.iter().map(StreamEnd::delivered).sum(),
                counts.dropped_by_receiver,
            ),
        };
        let dropped = |sent: &Sent| match self.pcap {
            // dropped frames of a capture are sent again
            Some(_) => sent.dropped(),
            None => sent
                .dropped()
                .max(sent.port.map_or(0, |port| port.tx_dropped)),
        };
        let tx_dropped = sent.iter().map(dropped).sum();
        Balance::new(given, received, unchecked, tx_dropped)
    }
}

impl Balance {
    fn new(given: u64, received: u64, unchecked: u64, counted_dropped: u64) -> Balance {
        // frames that arrived were not dropped: drops beyond the missing frames were not ours
        let missing = given.saturating_sub(received + unchecked);
        let tx_dropped = counted_dropped.min(missing);
        Balance {
            given,
            received,
            unchecked,
            tx_dropped,
            foreign_dropped: counted_dropped - tx_dropped,
        }
    }

    fn arrived(self) -> u64 {
        self.received + self.unchecked
    }

    fn lost(self) -> u64 {
        self.given.saturating_sub(self.arrived())
    }

    /// Returns the duplicates, or frames of another sender with our session.
    fn surplus(self) -> u64 {
        self.arrived().saturating_sub(self.given)
    }

    /// Returns the frames that the sending port did not drop and that did not arrive: lost in the
    /// DUT or at the receiving port.
    fn lost_after_port(self) -> u64 {
        self.lost() - self.tx_dropped
    }

    fn ratio(self) -> f64 {
        self.lost() as f64 / self.given.max(1) as f64
    }

    fn text(self, from: &str) -> String {
        let unchecked = match self.unchecked {
            0 => String::new(),
            frames => format!(" + not checked {}", number::count(frames)),
        };
        let lost = match self.surplus() {
            0 => format!(
                "lost {} ({})",
                number::count(self.lost()),
                number::percent(100.0 * self.ratio())
            ),
            more => format!("{} more arrived than were given", number::count(more)),
        };
        let foreign = match self.foreign_dropped {
            0 => String::new(),
            1 => format!("\n          at least 1 frame that {from} dropped was not ours"),
            frames => format!(
                "\n          at least {} frames that {from} dropped were not ours",
                number::count(frames)
            ),
        };
        format!(
            "given {} = received {}{unchecked} + dropped by {from} {} + lost elsewhere {}; {lost}{foreign}",
            number::count(self.given),
            number::count(self.received),
            number::count(self.tx_dropped),
            number::count(self.lost_after_port()),
        )
    }

    fn add_to(self, value: &mut Value) {
        value["frames_given"] = self.given.into();
        value["frames_delivered"] = self.received.into();
        value["frames_not_checked"] = self.unchecked.into();
        value["frames_tx_dropped"] = self.tx_dropped.into();
        value["frames_tx_dropped_not_ours"] = self.foreign_dropped.into();
        value["frames_lost_elsewhere"] = self.lost_after_port().into();
        value["frames_lost"] = self.lost().into();
        value["frames_more_than_given"] = self.surplus().into();
        value["frame_loss_ratio"] = self.ratio().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balance_adds_up_and_no_loss_is_below_zero() {
        for (given, received, unchecked, dropped) in [
            (100, 100, 0, 0),
            (100, 90, 2, 3),
            (100, 0, 0, 100),
            // another sender's frame in the port's counter
            (100, 100, 0, 1),
            (100, 97, 0, 5),
        ] {
            let balance = Balance::new(given, received, unchecked, dropped);
            assert_eq!(
                balance.given,
                balance.received
                    + balance.unchecked
                    + balance.tx_dropped
                    + balance.lost_after_port()
            );
            assert_eq!(balance.tx_dropped + balance.foreign_dropped, dropped);
        }
        assert_eq!(
            Balance::new(100, 100, 0, 1).text("pa"),
            "given 100 = received 100 + dropped by pa 0 + lost elsewhere 0; lost 0 (0 %)\n          \
             at least 1 frame that pa dropped was not ours"
        );
        assert_eq!(
            Balance::new(100, 97, 0, 5).text("pa"),
            "given 100 = received 97 + dropped by pa 3 + lost elsewhere 0; lost 3 (3.0 %)\n          \
             at least 2 frames that pa dropped were not ours"
        );
        // duplicates, or a second sender with our session
        let more = Balance::new(100, 103, 0, 0);
        assert!(
            more.text("pa")
                .ends_with("lost elsewhere 0; 3 more arrived than were given")
        );
        assert_eq!((more.lost(), more.ratio()), (0, 0.0));
    }
}
