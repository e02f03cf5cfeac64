//! `fwdlab flow`: predicts the receive queue of each flow, before anything is sent. Start with
//! [`Flow::run`].

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use fwdlab_engine::TrafficFrames;
use fwdlab_engine::traffic::compile::{self, Direction, Setting};
use fwdlab_engine::traffic::player::Player;
use fwdlab_lab::dut::Hashing;
use fwdlab_model::profile;
use fwdlab_packet::decode::decode;
use fwdlab_packet::rss::{Fields, MICROSOFT_KEY, Transport, input, toeplitz};
use fwdlab_report::number::count;
use serde_json::json;

use super::profile::EXAMPLE;
use super::queues::Interface;
use super::send::{FLOWS, LOOKED_AT};
use super::{Global, Verbosity};
use crate::exit_code::{Code, Usage};
use crate::output;
use crate::profiles::{self, Loaded};

/// Entries of the indirection table of a card that is only imagined.
const ENTRIES: u32 = 128;

/// Show which receive queue each flow goes to, before anything is sent
///
/// A card hashes addresses and ports with Toeplitz's function (RSS). Key, table and fields are read
/// from a card, or given. Each queue is shown with its share of the frames: the fullest one limits
/// a router that forwards on a CPU per queue. Sends nothing and changes nothing.
#[derive(Debug, Args)]
pub struct Flow {
    #[command(flatten)]
    interface: Interface,
    /// Number of queues, which the table names in turn [default: the card's table]
    #[arg(long, value_name = "QUEUES", value_parser = clap::value_parser!(u32).range(1..=1024))]
    queues: Option<u32>,
    /// Key of the hash, in hex [default: the card's, or the one of Microsoft's examples, which
    /// FreeBSD uses]
    #[arg(long, value_name = "HEX", value_parser = key)]
    key: Option<Key>,
    /// Hashed fields, in ethtool's letters: s and d are the addresses, f and n the ports [default:
    /// the card's, or sdfn]
    #[arg(long, value_name = "LETTERS")]
    fields: Option<Fields>,
    /// Number of flows, of UDP in IPv4
    #[arg(long, value_name = "FLOWS", default_value_t = FLOWS, conflicts_with = "profile", value_parser = clap::value_parser!(u32).range(1..))]
    flows: u32,
    /// Flows of IPv6 instead
    #[arg(long, conflicts_with = "profile")]
    ipv6: bool,
    /// Frames of a traffic profile (name or file) instead
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,
}

/// The bytes of a key.
#[derive(Debug, Clone)]
struct Key(Vec<u8>);

fn key(text: &str) -> Result<Key, String> {
    let digits: String = text.chars().filter(|c| !matches!(c, ':' | ' ')).collect();
    let bytes = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    let bytes = bytes.filter(|bytes| bytes.len() >= 16);
    bytes.map(Key).ok_or_else(|| {
        "a key is at least 16 bytes in hex, such as the RSS hash key that ethtool -x prints".into()
    })
}

/// How a card chooses queues: its key, its indirection table, and the fields of each kind of
/// packet, which are all fields if they are not here.
struct Card {
    key: Vec<u8>,
    table: Vec<u32>,
    fields: Vec<(&'static str, Fields)>,
}

/// What arrives on a queue.
#[derive(Debug, Default)]
struct Share {
    flows: HashSet<Vec<u8>>,
    frames: u64,
}

/// What arrives on each queue.
struct Shares {
    queues: BTreeMap<u32, Share>,
    frames: u64,
    unhashed: u64,
}

impl Flow {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let card = self.card()?;
        let is_listed = global.verbosity() == Verbosity::Verbose && !global.json;
        let Shares {
            queues,
            frames: all,
            unhashed,
        } = self.shares(&card, |queue, hash, frame| {
            if is_listed {
                let frame = decode(frame);
                output::result(&format!("queue {queue}  {hash:#010x}  {frame}"));
            }
        })?;
        if global.json {
            let queues = queues.iter().map(|(queue, share)| {
                json!({"queue": queue, "flows": share.flows.len(), "frames": share.frames})
            });
            let key: Vec<String> = card.key.iter().map(|byte| format!("{byte:02x}")).collect();
            output::json(&json!({
                "queues": queues.collect::<Vec<_>>(), "frames": all, "frames_not_hashed": unhashed,
                "table": card.table, "key": key.join(":"),
            }))?;
            return Ok(Code::Done);
        }
        let percent = |frames: u64| 100.0 * frames as f64 / all.max(1) as f64;
        let fullest = queues.values().map(|share| share.frames).max().unwrap_or(0);
        let fair = 100.0 / queues.len() as f64;
        output::result(&format!(
            "The fullest of {} queues gets {:.1} % of the frames, {:.2} times its fair share\n",
            queues.len(),
            percent(fullest),
            percent(fullest) / fair
        ));
        output::result(" queue    flows        frames   share");
        for (queue, share) in &queues {
            let [flows, frames] = [share.flows.len() as u64, share.frames].map(count);
            let percent = percent(share.frames);
            output::result(&format!(
                "{queue:>6} {flows:>8} {frames:>13}  {percent:>4.1} %"
            ));
        }
        if unhashed > 0 {
            output::result(&format!(
                "not hashed: {unhashed} frames without an IP packet; a card puts them on one queue, usually 0"
            ));
        }
        Ok(Code::Done)
    }

    /// Returns what each queue receives. Calls `first` with queue, hash and the first frame of each
    /// flow.
    fn shares(
        &self,
        card: &Card,
        mut first: impl FnMut(u32, u32, &[u8]),
    ) -> anyhow::Result<Shares> {
        let (frames, at_most) = self.frames()?;
        let mut player = Player::new(&frames, None)?;
        let mut buffer = vec![0; player.buffer_len()];
        let of = |transport: Transport| {
            let known = (card.fields.iter()).find(|(kind, _)| *kind == transport.name());
            known.map_or(Fields::ALL, |(_, fields)| *fields)
        };
        let numbers = card.table.iter().map(|queue| (*queue, Share::default()));
        let mut shares = Shares {
            queues: numbers.collect(),
            frames: 0,
            unhashed: 0,
        };
        for _ in 0..at_most {
            let len = player.take(&mut buffer, None, 0);
            if len == 0 {
                break;
            }
            let frame = &buffer[..len];
            shares.frames += 1;
            let Some(hashed) = input(frame, of) else {
                shares.unhashed += 1;
                continue;
            };
            let hash = toeplitz(&card.key, &hashed);
            let queue = card.table[hash as usize % card.table.len()];
            let share = shares.queues.entry(queue).or_default();
            share.frames += 1;
            if share.flows.insert(hashed) {
                first(queue, hash, frame);
            }
        }
        Ok(shares)
    }

    /// Returns key, table and fields: those given, otherwise the card's.
    fn card(&self) -> anyhow::Result<Card> {
        let mut card = Card {
            key: MICROSOFT_KEY.into(),
            table: Vec::new(),
            fields: Vec::new(),
        };
        if self.interface.is_given() {
            let (host, _, port) = self.interface.find()?;
            let read = Hashing::of(host.as_ref(), &port)?;
            let fields = read.fields.into_iter();
            let fields = fields.map(|(kind, letters)| Ok((kind, letters.parse().map_err(Usage)?)));
            card = Card {
                key: read.key,
                table: read.table,
                fields: fields.collect::<Result<_, Usage>>()?,
            };
        } else if self.queues.is_none() {
            let reason = "which queues? Name an interface whose card is read, or give --queues";
            return Err(Usage(reason.into()).into());
        }
        if let Some(queues) = self.queues {
            let entries = ENTRIES.max(queues.next_power_of_two());
            card.table = (0..entries).map(|entry| entry % queues).collect();
        }
        if let Some(Key(key)) = &self.key {
            card.key.clone_from(key);
        }
        if let Some(fields) = self.fields {
            let all = [
                Transport::Udp4,
                Transport::Tcp4,
                Transport::Udp6,
                Transport::Tcp6,
            ];
            card.fields = all.map(|transport| (transport.name(), fields)).into();
        }
        Ok(card)
    }

    /// Returns the frames, and how many of them to look at.
    fn frames(&self) -> anyhow::Result<(TrafficFrames, u64)> {
        let (loaded, at_most) = match &self.profile {
            Some(name) => (profiles::load(name)?, LOOKED_AT),
            None => {
                let ip = if self.ipv6 { "ipv6" } else { "ipv4" };
                let text = format!(
                    "[[stream]]\nlayers = [\"{ip}\", \"udp\"]\nflows = {}\n",
                    self.flows
                );
                let profile = profile::Profile::parse("what was typed", &text)?;
                let loaded = Loaded {
                    profile,
                    path: None,
                };
                (loaded, self.flows.into())
            }
        };
        let compiled = compile::compile(
            &loaded.profile,
            &Setting {
                direction: Direction::Forward,
                addresses: EXAMPLE,
                vlan: None,
                link: None,
                read: &|name| loaded.open_capture(name),
            },
        )
        .context("the frames cannot be made")?;
        let frames = TrafficFrames {
            traffic: Arc::new(compiled.traffic),
            nonce: 0,
        };
        Ok((frames, at_most))
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    #[test]
    fn keys_are_read_as_ethtool_prints_them() {
        let text = "6d:5a:56:da:25:5b:0e:c2:41:67:25:3d:43:a3:8f:b0";
        assert_eq!(key(text).unwrap().0, MICROSOFT_KEY[..16]);
        assert_eq!(key(&text.replace(':', "")).unwrap().0, MICROSOFT_KEY[..16]);
        for wrong in ["", "6d:5a", &text[1..], &text.replace('a', "g")] {
            assert!(key(wrong).is_err(), "{wrong}");
        }
    }

    /// What the four queues of a virtio-net card received, when `fwdlab send` sent these flows
    /// once: a guest with Linux 6.1 under QEMU 7.2, whose driver had drawn the key.
    #[test]
    fn queues_of_a_guest_received_what_is_predicted() {
        let key = "0b:65:76:00:f0:1e:d1:67:e0:1d:9d:51:a6:8f:33:85:b5:0e:45:00:e1:97:0f:09:42:9d:20:0f:47:2c:17:ca:d0:7e:84:7d:fa:d3:72:91";
        for (flows, received) in [
            ("--flows=61", [16, 16, 16, 13]),
            ("--flows=333 --ipv6", [81, 81, 81, 90]),
        ] {
            let line = format!("flow --queues=4 --key={key} {flows}");
            let flow = Flow::parse(&line);
            let predicted = flow.shares(&flow.card().unwrap(), |_, _, _| {}).unwrap();
            let frames: Vec<u64> = predicted
                .queues
                .values()
                .map(|share| share.frames)
                .collect();
            assert_eq!(frames, received, "{flows}");
        }
    }

    impl Flow {
        fn parse(line: &str) -> Flow {
            let command = Flow::augment_args(clap::Command::new("flow"));
            Flow::from_arg_matches(&command.get_matches_from(line.split(' '))).unwrap()
        }
    }
}
