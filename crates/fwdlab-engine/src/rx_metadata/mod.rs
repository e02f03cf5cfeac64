//! Checks whether a driver reports arrival times to XDP programs, for the frames that arrive on
//! this port.
//!
//! A driver may implement `bpf_xdp_metadata_rx_timestamp` and have no times: veth does, because it
//! passes on the stamp of the sender's card, and there is none. So a small program requests the
//! time of every frame and counts the answers; frames continue unaffected. It must be loaded for
//! one device and call a kernel function by its BTF number, which our loader (aya 0.14) does not
//! support; this file needs no loader. Start with [`RxMetadata::query`].

mod program;
mod sys;

use std::io;
use std::os::fd::OwnedFd;

use aya::maps::{Array, Map, MapData};

use crate::btf;
use crate::error::EngineError;
use crate::port::{PortSpec, interface_index, within};
use crate::stamps::Origin;

const FUNCTION: &str = "bpf_xdp_metadata_rx_timestamp";

/// An attached program. Detached when dropped, and when the process ends.
pub struct RxMetadata {
    interface: String,
    counts: Array<MapData, u64>,
    _link: OwnedFd,
}

/// The driver's answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers {
    /// Frames with a time.
    pub stamped: u64,
    /// Frames with a time of zero.
    pub empty: u64,
    /// Error numbers, and the frames for which they were returned.
    pub errors: Vec<(i32, u64)>,
}

impl RxMetadata {
    /// Requests the time of every frame that arrives on a port from now on.
    ///
    /// # Errors
    /// A kernel without BTF or older than 6.3, a driver without device-bound programs, a port with
    /// an XDP program, or no CAP_BPF and CAP_NET_ADMIN.
    pub fn query(port: &PortSpec) -> Result<RxMetadata, EngineError> {
        let action = |step: &str| format!("{step} for {} (XDP metadata)", port.interface);
        let failed = |step: &str, e: io::Error| EngineError::system(action(step), e);
        let kernel = btf::read().map_err(|e| failed(&format!("read {}", btf::FILE), e))?;
        let function = btf::function(&kernel, FUNCTION).ok_or_else(|| {
            let unknown = io::Error::new(io::ErrorKind::NotFound, "this kernel does not have it");
            failed(&format!("find {FUNCTION} in {}", btf::FILE), unknown)
        })?;
        let map = sys::counters(program::COUNTERS).map_err(|e| failed("make counters", e))?;
        let link = within(&port.netns, || {
            let interface = interface_index(&port.interface)?;
            let program = program::assemble(function, &map);
            let loaded = sys::load(&program, interface)
                .map_err(|e| failed("load a program that asks for arrival times", e))?;
            sys::attach(&loaded, interface)
                .map_err(|e| failed("attach a program that asks for arrival times", e))
        })?;
        let counts = MapData::from_fd(map)
            .and_then(|map| Array::try_from(Map::Array(map)))
            .map_err(|e| EngineError::bpf(action("read counters"), &e))?;
        Ok(RxMetadata {
            interface: port.interface.clone(),
            counts,
            _link: link,
        })
    }

    /// Returns the answers so far.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn answers(&self) -> Result<Answers, EngineError> {
        let count = |slot| {
            self.counts.get(&slot, 0).map_err(|e| {
                EngineError::bpf(format!("read the answers for {}", self.interface), &e)
            })
        };
        let mut answers = Answers {
            stamped: count(program::STAMPED)?,
            empty: count(0)?,
            errors: Vec::new(),
        };
        for errno in 1..program::STAMPED {
            let frames = count(errno)?;
            if frames > 0 {
                answers.errors.push((errno as i32, frames));
            }
        }
        Ok(answers)
    }
}

impl Answers {
    /// Returns the number of frames with any answer.
    pub fn frames(&self) -> u64 {
        self.stamped + self.empty + self.errors.iter().map(|(_, frames)| frames).sum::<u64>()
    }

    /// Returns the origin of arrival times for such frames on a port whose card has this clock: the
    /// card, if it stamped every frame; otherwise the program itself, with the reason.
    pub fn best(&self, clock: Option<u32>) -> (Origin, Option<String>) {
        let frames = self.frames();
        if let (Some(clock), true) = (clock, frames > 0 && self.stamped == frames) {
            return (Origin::card(clock), None);
        }
        let mut reasons = Vec::new();
        if frames == 0 {
            reasons.push("no frame arrived for which the driver could be asked".to_owned());
        }
        if self.stamped > 0 && clock.is_none() {
            reasons.push("the driver has times, but on an unknown clock".to_owned());
        }
        if self.empty > 0 {
            reasons.push(format!("a time of zero for {} of {frames}", self.empty));
        }
        for &(errno, count) in &self.errors {
            let error = io::Error::from_raw_os_error(errno);
            reasons.push(format!("{error} for {count} of {frames}"));
        }
        let reason = format!("no arrival times from the driver: {}", reasons.join(", "));
        (Origin::XDP, Some(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamps::Kind;

    #[test]
    fn the_card_s_times_are_taken_only_when_every_frame_has_one() {
        let all = Answers {
            stamped: 5,
            ..Answers::default()
        };
        assert_eq!(all.best(Some(1)), (Origin::card(1), None));
        let some = Answers {
            stamped: 5,
            empty: 2,
            errors: vec![(61, 3)],
        };
        let (origin, reason) = some.best(Some(1));
        let reason = reason.unwrap();
        assert_eq!((origin.kind, some.frames()), (Kind::Software, 10));
        assert!(reason.contains("a time of zero for 2 of 10"), "{reason}");
        assert!(
            reason.contains("No data available (os error 61) for 3 of 10"),
            "{reason}"
        );
        assert!(all.best(None).1.unwrap().contains("unknown clock"));
        assert!(
            Answers::default()
                .best(Some(1))
                .1
                .unwrap()
                .contains("no frame arrived")
        );
    }
}
