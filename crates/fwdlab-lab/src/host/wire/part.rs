//! Questions to an agent that has one part of a tester: the sender or the receivers, while the
//! other part is on another machine.
//!
//! The parts do not know each other: questions carry the trial and the expected frames. Start with
//! [`Question`].

use fwdlab_engine::analysis::Analysis;
use fwdlab_engine::{Expected, Frames, Histogram, Mode, ReceiveCounts, Schedule, SendCounts};
use serde::{Deserialize, Serialize};

use super::{Failure, Place};

/// Maximum size of a trial's frames in serialised form: lists of a million values are far smaller.
pub(crate) const MOST_BYTES: usize = 1 << 28;

/// A question to a part.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// Open a sender of this engine on a port, with this number of threads, and close any previous
    /// one.
    OpenSender {
        port: (Place, String),
        mode: Mode,
        cpus: Vec<usize>,
        senders: u32,
    },
    /// Open receivers of this kind on ports, and close any previous ones.
    OpenReceivers {
        ports: Vec<(Place, String)>,
        counting: String,
    },
    /// Prepare the frames that follow.
    Arm,
    Start(Schedule),
    Renew,
    IsDone,
    Sent,
    Stop,
    Lateness,
    /// Make this receiver expect such frames.
    Expect {
        receiver: usize,
        expected: Expected,
    },
    Received {
        receiver: usize,
    },
    Analysis {
        receiver: usize,
    },
    /// Check that the agent answers.
    Here,
    CloseSender,
    CloseReceivers,
}

/// The answer of a part.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Done,
    /// It is open, with its description.
    Opened(String),
    /// A sender is open, with its description and number of threads.
    OpenedSender(String, u16),
    IsDone(bool),
    Paused(std::time::Duration),
    /// With the time of this machine's clock.
    Sent(SendCounts, u64),
    Received(ReceiveCounts, u64),
    Analysis(Option<Analysis>),
    Lateness(Option<Histogram>),
}

/// Serialises frames.
///
/// # Errors
/// A message if they are implausibly large.
pub(crate) fn packed(frames: &Frames) -> Result<Vec<u8>, String> {
    within_limit(serde_json::to_vec(frames).map_err(|e| e.to_string())?)
}

/// Returns these bytes if they are within the limit.
pub(crate) fn within_limit(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    match bytes.len() {
        ..=MOST_BYTES => Ok(bytes),
        length => Err(format!(
            "its frames take {} MiB on their way to the host that sends, and {} are allowed: let values follow from a range or a seed \
             instead of lists",
            length >> 20,
            MOST_BYTES >> 20
        )),
    }
}

/// Parses serialised frames.
pub(crate) fn unpacked(bytes: &[u8]) -> Result<Frames, Failure> {
    let frames = serde_json::from_slice(bytes);
    frames.map_err(|e| Failure::Refused(format!("frames that are none: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fwdlab_engine::traffic::compile::{Direction, Setting, compile};
    use fwdlab_engine::{Addresses, TrafficFrames};
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
