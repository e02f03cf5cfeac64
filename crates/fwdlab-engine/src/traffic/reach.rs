//! Every place where the frames of a template may go: all destinations in them, inside tunnels or
//! not, with everything that a program may write into them.
//!
//! For code that refuses destinations or sets up routes. Start with [`Kind::reach`];
//! [`frame_reach`] does it for one frame.

use std::net::IpAddr;
use std::ops::Range;

use fwdlab_packet::decode::{Destination, address, destinations};

use super::Kind;

/// The range of one destination of the frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The destination.
    pub destination: Destination,
    /// Its first and last address. Never narrower than what the frames contain, sometimes wider.
    pub to: (IpAddr, IpAddr),
    /// First and last matching source; a hop has none.
    pub from: Option<(IpAddr, IpAddr)>,
}

impl Kind {
    /// Returns the range of every destination in these frames, outermost first. Headers are those
    /// of the template; what a program writes into fields that name the next header is ignored.
    pub fn reach(&self) -> Vec<Reach> {
        header_reach(&self.template, |field| {
            let (low, high) = self.program.bounds(&self.template, field);
            Some((address(&low)?, address(&high)?))
        })
    }
}

/// Returns every destination in this frame, outermost first. `frame`: from the destination MAC on,
/// any bytes.
pub fn frame_reach(frame: &[u8]) -> Vec<Reach> {
    header_reach(frame, |field| {
        let address = address(&frame[field])?;
        Some((address, address))
    })
}

fn header_reach(
    frame: &[u8],
    ends: impl Fn(Range<usize>) -> Option<(IpAddr, IpAddr)>,
) -> Vec<Reach> {
    destinations(frame)
        .into_iter()
        .filter_map(|destination| {
            Some(Reach {
                to: ends(destination.field.clone())?,
                from: destination.source().and_then(&ends),
                destination,
            })
        })
        .collect()
}
