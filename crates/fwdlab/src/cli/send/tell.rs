//! What `fwdlab send` says: what it is about to do, and at the end what became of every frame.
//!
//! Start with [`Send::tell_begin`] and [`Send::tell_end`].

use model::link::MeanSize;
use packet::IpVersion;
use report::number;
use serde_json::json;

use super::frames::FLOWS;
use super::loads::Resolved;
use super::{Send, names};
use crate::cli::Global;
use crate::cli::session::options::Amount;
use crate::cli::session::{Period, Session, words};
use crate::output;

impl Send {
    pub(super) fn tell_begin(
        &self,
        global: &Global,
        session: &mut Session,
        loads: &[Vec<Resolved>],
    ) {
        let amount = match self.amount {
            Some(Amount::Time(time)) => format!("for {}", number::seconds(time.as_secs_f64())),
            Some(Amount::Frames(frames)) => format!("{} frames", number::count(frames)),
            None if self.pcap.is_some() && self.rounds > 0 => "all of it".into(),
            None => "until Ctrl-C".into(),
        };
        let resolved = |loads: &[Resolved]| -> Vec<String> {
            loads.iter().map(|load| load.words.clone()).collect()
        };
        if global.json_stream {
            let ports: Vec<_> = (session.sending.iter_mut().zip(loads))
                .map(|(sending, loads)| {
                    let (engine, rejected) = sending.source.engine();
                    json!({
                        "port": sending.port.spec.interface,
                        "engine": engine,
                        "engines_not_taken": rejected,
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
            let (engine, rejected) = sending.source.engine();
            output::note(&format!(
                "send      {}  {}  {amount}",
                sending.port.spec.interface,
                self.frames_in_words(sending.mean)
            ));
            output::note(&format!("load      {}", resolved(loads).join(", then ")));
            output::note(&format!("engine    {engine}"));
            for reason in rejected {
                output::note(&format!("          not {reason}"));
            }
        }
    }

    fn frames_in_words(&self, mean: MeanSize) -> String {
        if let Some(path) = &self.pcap {
            return format!("{} (mean {:.1} B)", path.display(), mean.bytes());
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

    pub(super) fn tell_end(
        &self,
        global: &Global,
        session: &mut Session,
        loads: &[Vec<Resolved>],
        whole: &Period,
    ) -> anyhow::Result<()> {
        let (senders, receivers) = (names(&self.ports), names(self.rx_port.as_slice()));
        let mut document = words::period_json("finished", &senders, &receivers, whole);
        document["session"] = self.session.into();
        for ((sending, loads), value) in (session.sending.iter_mut().zip(loads))
            .zip(document["send"].as_array_mut().into_iter().flatten())
        {
            let (engine, rejected) = sending.source.engine();
            value["engine"] = engine.into();
            value["engines_not_taken"] = rejected.into();
            let words: Vec<&str> = loads.iter().map(|load| load.words.as_str()).collect();
            value["loads"] = words.into();
        }
        if global.json {
            return output::json(&document);
        }
        if global.json_stream {
            output::result(&document.to_string());
            return Ok(());
        }
        for (port, sent) in senders.iter().zip(&whole.sent) {
            let mut text = format!(
                "sent      {port}  {} frames in {}: {}, {} L1, {} L2",
                number::count(sent.frames),
                number::seconds(whole.duration_s),
                number::rate(sent.rate_pps),
                number::bits_per_second(sent.l1_bps),
                number::bits_per_second(sent.l2_bps),
            );
            if sent.not_sent > 0 {
                text += &format!(
                    "\nnot sent  {port}  {} frames that were due: this host held the sender up, or the port had no room{}",
                    number::count(sent.not_sent),
                    if sent.is_limited() {
                        "\n          the load was not reached: the generator is the limit"
                    } else {
                        ""
                    }
                );
            }
            text += &format!(
                "\nport      {port}  tx_packets {}  tx_dropped {}  ring full {}  system calls {}",
                number::count(sent.port.tx_packets),
                number::count(sent.port.tx_dropped),
                number::count(sent.ring_full),
                number::count(sent.wakeups),
            );
            if let Some(lateness) = &sent.lateness {
                text += &format!("\nlateness  {port}  {}", words::distribution(lateness));
            }
            output::result(&text);
        }
        let sent: u64 = whole.sent.iter().map(|sent| sent.frames).sum();
        for (port, received) in receivers.iter().zip(&whole.received) {
            let counts = &received.counts;
            let lost = sent as i64 - counts.received as i64;
            output::result(&format!(
                "received  {port}  {} frames of ours, {} foreign; lost {} ({})",
                number::count(counts.received),
                number::count(counts.foreign),
                number::count(lost),
                number::percent(100.0 * lost as f64 / sent.max(1) as f64),
            ));
        }
        Ok(())
    }
}
