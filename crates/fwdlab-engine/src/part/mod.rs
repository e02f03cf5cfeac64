//! Parts of a tester in another process: senders and receivers behind a stream of questions and
//! answers.
//!
//! The other process may be an agent on another machine, or one of this machine with a driver of
//! its own. [`RemoteSender`] and [`RemoteReceiver`] ask, over any [`Link`]; [`Parts`] answers with
//! senders and receivers of its process. The parts do not know each other: questions carry the
//! trial and the expected frames. Start with [`Question`].

mod answering;
mod asking;
pub mod message;

use serde::{Deserialize, Serialize};

pub use self::answering::{OpenPart, Parts};
pub use self::asking::{Link, RemoteReceiver, RemoteSender};
use crate::analysis::{Analysis, Expected, ReceiveCounts};
use crate::error::EngineError;
use crate::generator::{Capabilities, Mode, Schedule, SendCounts, SendingTimes};
use crate::histogram::Histogram;
use crate::traffic::Frames;

/// Maximum size of a trial's frames in serialised form: lists of a million values are far smaller.
pub const MOST_BYTES: usize = 1 << 28;

/// A question to a process that has parts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Open a sender of this engine on these ports, one for each path, with this number of threads.
    OpenSender {
        /// Names of the ports.
        ports: Vec<String>,
        /// The engine.
        mode: Mode,
        /// CPUs of its threads; empty: any.
        cpus: Vec<usize>,
        /// Number of threads.
        senders: u32,
    },
    /// Open a receiver of this kind.
    OpenReceiver {
        /// Name of the port.
        port: String,
        /// Its kind, by name.
        counting: String,
        /// CPUs of its thread; empty: any.
        cpus: Vec<usize>,
    },
    /// A question to the sender with this number. Frames follow [`OfSender::Arm`].
    Sender(u32, OfSender),
    /// A question to the receiver with this number.
    Receiver(u32, OfReceiver),
    /// What is known of this port, and what it has counted?
    Facts {
        /// Its name.
        port: String,
    },
    /// Give a port back, once nothing uses it. Asking for its facts opens it again.
    ClosePort {
        /// Its name.
        port: String,
    },
    /// Check that the process answers.
    Here,
}

/// A question to a sender.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfSender {
    /// Prepare the frames that follow.
    Arm,
    /// As [`Sender::start`](crate::Sender::start).
    Start(Schedule),
    /// As [`Sender::select`](crate::Sender::select).
    Select(usize),
    /// As [`Sender::renew`](crate::Sender::renew).
    Renew,
    /// As [`Sender::set_load`](crate::Sender::set_load).
    SetLoad(f64),
    /// As [`Sender::set_rates`](crate::Sender::set_rates).
    SetRates(Vec<f64>),
    /// As [`Sender::is_done`](crate::Sender::is_done).
    IsDone,
    /// As [`Sender::counts_at`](crate::Sender::counts_at).
    Sent,
    /// As [`Sender::stop_at`](crate::Sender::stop_at).
    Stop,
    /// As [`Sender::lateness`](crate::Sender::lateness).
    Lateness,
    /// As [`Sender::sending_times`](crate::Sender::sending_times).
    Times,
    /// Close it.
    Close,
}

/// A question to a receiver.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfReceiver {
    /// As [`Receiver::expect`](crate::Receiver::expect).
    Expect(Expected),
    /// As [`Receiver::counts_at`](crate::Receiver::counts_at).
    Received,
    /// As [`Receiver::analysis`](crate::Receiver::analysis).
    Analysis,
    /// Close it.
    Close,
}

/// An answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Done.
    Done,
    /// A sender with this number and these properties is open.
    Sender(u32, Capabilities),
    /// A receiver with this number is open.
    Receiver(u32),
    /// Whether a sender is done.
    IsDone(bool),
    /// The length of a pause.
    Paused(std::time::Duration),
    /// With the time of that machine's clock.
    Sent(SendCounts, u64),
    /// With the time of that machine's clock.
    Received(ReceiveCounts, u64),
    /// What a receiver found out.
    Analysis(Option<Analysis>),
    /// How late frames left.
    Lateness(Option<Histogram>),
    /// When they were sent.
    Times(Option<SendingTimes>),
    /// What is known of a port.
    Facts(PortFacts),
    /// It could not be done. Only a process that has nothing but parts answers so.
    Failed(String),
}

/// What another process knows of a port that it has a driver for, and what the port has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortFacts {
    /// Its driver.
    pub driver: String,
    /// The software that contains the driver, with its version.
    pub version: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// The longest packet, in bytes.
    pub mtu: u32,
    /// True if its link is up.
    pub has_link: bool,
    /// Speed of its link, if it has one and the driver knows it.
    pub link_mbps: Option<u32>,
    /// The memory that is near to it.
    pub numa_node: Option<u32>,
    /// Queues in each direction: to receive, and to send.
    pub queues: (u16, u16),
    /// Frames that its driver has sent.
    pub sent: u64,
    /// Frames that arrived and were given to the receiver.
    pub received: u64,
    /// Frames that arrived since its receiver expects frames and were lost, because the receiver
    /// was too slow or they were damaged: lost by the tester, not by the DUT.
    pub missed: u64,
    /// All counters of the driver, by its names.
    pub counters: Vec<(String, u64)>,
}

/// Serialises frames.
///
/// # Errors
/// A message if they are implausibly large.
pub fn packed(frames: &Frames) -> Result<Vec<u8>, String> {
    within_limit(serde_json::to_vec(frames).map_err(|e| e.to_string())?)
}

/// Returns these bytes if they are within the limit.
///
/// # Errors
/// A message that says what to do instead.
pub fn within_limit(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    match bytes.len() {
        ..=MOST_BYTES => Ok(bytes),
        length => Err(format!(
            "its frames take {} MiB on their way to the process that sends, and {} are allowed: let values follow from a range or a \
             seed instead of lists",
            length >> 20,
            MOST_BYTES >> 20
        )),
    }
}

/// Parses serialised frames.
///
/// # Errors
/// If they are none.
pub fn unpacked(bytes: &[u8]) -> Result<Frames, EngineError> {
    let frames = serde_json::from_slice(bytes);
    frames.map_err(|e| EngineError::Frames(format!("they are none: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::compile::{Direction, Setting, compile};
    use crate::{Addresses, TrafficFrames};
    use fwdlab_model::profile::Profile;

    const SEVERAL: &str = "[[stream]]\nname = 'one'\nlayers = ['ipv4', 'udp']\nflows = 100\n\
        [[stream]]\nlayers = ['ipv6', 'udp']\nsize = 200\nvary = [{ field = 'ipv6.source', values = ['2001:2::7', '2001:2::9'] }]\n\
        [[stream]]\nlayers = ['vlan', 'ipv4', 'tcp']\norder = 'drawn'\ncache = 64\n\
        vary = [{ field = 'ipv4.destination', values = ['198.19.0.1', '198.19.0.9'] }]\n";

    /// The frames that are armed there equal the ones compiled here, to the byte.
    #[test]
    fn traffic_arrives_as_it_left() {
        let profile = Profile::parse("p", SEVERAL).unwrap();
        let setting = Setting {
            direction: Direction::Forward,
            addresses: Addresses::between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]),
            vlan: None,
            link: None,
            read: &|_| Err(std::io::ErrorKind::NotFound.into()),
        };
        let traffic = compile(&profile, &setting).unwrap().traffic;
        let frames = Frames::Traffic(TrafficFrames {
            traffic: traffic.clone().into(),
            nonce: 7,
        });
        let Frames::Traffic(arrived) = unpacked(&packed(&frames).unwrap()).unwrap() else {
            panic!("traffic is expected");
        };
        assert_eq!((arrived.traffic.as_ref(), arrived.nonce), (&traffic, 7));
    }

    #[test]
    fn oversized_and_empty_messages_are_refused() {
        assert!(within_limit(vec![0; 10]).is_ok());
        let reason = within_limit(vec![0; MOST_BYTES + 1]).unwrap_err();
        assert!(reason.contains("256 are allowed"), "{reason}");
        assert!(unpacked(b"{}").is_err());
    }
}
