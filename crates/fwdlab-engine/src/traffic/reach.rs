//! Where the frames of a template may go at most: every destination in them, packed into tunnels or not, with all that a
//! program may write into it.
//!
//! For those who refuse destinations and those who set up routes. Start with [`Kind::reach`]; [`of_frame`] says it of one frame.

use std::net::IpAddr;
use std::ops::Range;

use fwdlab_packet::decode::{Destination, address, destinations};

use super::Kind;

/// Where frames may go by one of their destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Which destination.
    pub destination: Destination,
    /// Its first and last address. Never less than what the frames have, sometimes more.
    pub to: (IpAddr, IpAddr),
    /// First and last source that belongs to it; a hop on the way has none.
    pub from: Option<(IpAddr, IpAddr)>,
}

impl Kind {
    /// Of every destination in these frames, outermost first. Headers are those of the template; what a program writes into
    /// fields that say which header follows is not looked at.
    pub fn reach(&self) -> Vec<Reach> {
        of(&self.template, |field| {
            let (low, high) = self.program.bounds(&self.template, field);
            Some((address(&low)?, address(&high)?))
        })
    }
}

/// Of every destination in this frame, outermost first. `frame`: from the destination MAC on, any bytes.
pub fn of_frame(frame: &[u8]) -> Vec<Reach> {
    of(frame, |field| {
        let address = address(&frame[field])?;
        Some((address, address))
    })
}

fn of(frame: &[u8], ends: impl Fn(Range<usize>) -> Option<(IpAddr, IpAddr)>) -> Vec<Reach> {
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
