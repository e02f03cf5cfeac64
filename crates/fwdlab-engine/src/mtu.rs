//! Which frames a port accepts: one rule for all engines, checked before any of them sends.
//!
//! The kernel's treatment of longer frames differs: packet sockets refuse them (EMSGSIZE), XDP
//! drops them silently, AF_XDP sends them. The MTU of the other end is not checked. Start with
//! [`check`].

use fwdlab_packet::header::{ethernet, vlan};

use crate::error::EngineError;
use crate::port::{Interfaces, PortSpec, within};
use crate::traffic::Frames;

/// Returns the MTU that a frame needs: the bytes behind its Ethernet header and behind one 802.1Q
/// tag, which ports accept in addition to the MTU.
pub fn needed(frame: &[u8]) -> usize {
    let tag = match frame.get(12..14) {
        Some(ethertype) if ethertype == vlan::ETHERTYPE.to_be_bytes() => vlan::HEADER_LEN,
        _ => 0,
    };
    frame.len().saturating_sub(ethernet::HEADER_LEN + tag)
}

/// Returns the largest MTU that any of these frames needs, and the length of that frame without
/// FCS.
pub fn most<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> (usize, usize) {
    let all = frames.into_iter().map(|frame| (needed(frame), frame.len()));
    all.max().unwrap_or_default()
}

impl Frames {
    /// Returns the MTU that the longest of these frames needs, and its length without FCS.
    pub fn most(&self) -> (usize, usize) {
        match self {
            // never tagged
            Frames::Test(frames) => {
                let bytes = frames.template.buffer_len();
                (bytes.saturating_sub(ethernet::HEADER_LEN), bytes)
            }
            Frames::Traffic(frames) => {
                let kinds = frames.traffic.streams.iter().flat_map(|s| &s.kinds);
                most(kinds.map(|kind| &kind.template[..]))
            }
        }
    }
}

/// Checks that this port accepts frames that need `most`: an MTU, and the length of the longest
/// frame without FCS. The senders of memif and DPDK ports know the length of their buffers.
///
/// # Errors
/// [`EngineError::TooLong`]; or its MTU cannot be read.
pub fn check(port: &PortSpec, most: (usize, usize)) -> Result<(), EngineError> {
    if port.is_memif() || port.is_dpdk() {
        return Ok(());
    }
    judge(&port.interface, port_mtu(port)?, most)
}

/// Returns the MTU of a port.
pub(crate) fn port_mtu(port: &PortSpec) -> Result<u32, EngineError> {
    let name = &port.interface;
    within(&port.netns, || {
        let interfaces = Interfaces::open().map_err(|e| EngineError::system("open a socket", e))?;
        let mtu = interfaces.mtu(name);
        mtu.map_err(|e| EngineError::system(format!("read the MTU of {name}"), e))
    })
}

/// Like `check`, for a port whose MTU is known.
pub(crate) fn judge(
    port: &str,
    mtu: u32,
    (needed, bytes): (usize, usize),
) -> Result<(), EngineError> {
    match needed <= mtu as usize {
        true => Ok(()),
        false => Err(EngineError::TooLong {
            port: port.to_owned(),
            mtu,
            bytes,
            needed,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_802_1q_tag_does_not_count_for_the_mtu() {
        let frame = |ethertype: u16, bytes: usize| {
            let mut frame = vec![0; bytes];
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
            frame
        };
        for (ethertype, bytes, mtu) in [
            (0x0800, 1514, 1500),
            (0x8100, 1518, 1500),
            // the kernel counts the outer tag of two
            (0x88a8, 1522, 1508),
            (0x86dd, 14, 0),
        ] {
            assert_eq!(needed(&frame(ethertype, bytes)), mtu, "{ethertype:#x}");
        }
        assert_eq!(needed(&[]), 0);
        let (plain, tagged) = (frame(0x0800, 1515), frame(0x8100, 1518));
        assert_eq!(most([&tagged[..], &plain[..]]), (1501, 1515));
        assert_eq!(most([]), (0, 0));
    }
}
