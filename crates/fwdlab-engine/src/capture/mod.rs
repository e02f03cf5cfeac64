//! Capture: whole frames of a port as they pass, with nanoseconds.
//!
//! The kernel fills a ring of blocks (AF_PACKET, TPACKET_V3) that we read without a system call per frame. Nothing is
//! attached or changed; what cannot be kept up with is counted as dropped. Frames that an XDP program takes are not seen. What
//! becomes of the frames is the caller's business. Start with [`Capture::open`].

pub mod file;
mod sys;

use std::time::Duration;

use fwdlab_packet::header::vlan;
use fwdlab_packet::{Signature, signature};

use self::sys::Ring;
use crate::error::EngineError;
use crate::port::{PortSpec, interface_index, within};
use crate::stamps::Kind;

/// A block is handed over when it is full, or this long after its first frame.
const RETIRE_MS: u32 = 20;
/// Whole pages, and room for many frames of the largest kind.
const BLOCK_BYTES: usize = 1 << 18;

/// The kernel begins to stamp frames some time after it was asked to (`net_enable_timestamp` leaves it to a worker), and does
/// not say when.
const STAMPS_BEGIN: Duration = Duration::from_millis(50);

/// How to capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bytes kept of each frame.
    pub snap: u32,
    /// Memory for frames that have not been taken yet, in bytes.
    pub ring_bytes: usize,
    /// Frames to other MAC addresses too. Ends with the capture.
    pub promiscuous: bool,
    /// Frames that leave through the port too.
    pub outgoing: bool,
    /// Who takes the times: the socket, the kernel where frames enter, or the card, which must have been set to do so.
    pub stamps: Kind,
    /// Frames are handed over when a block of them is full, or so many milliseconds after the first of them.
    pub retire_ms: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            snap: fwdlab_packet::pcap::MAX_FRAME_BYTES as u32,
            ring_bytes: 32 << 20,
            promiscuous: true,
            outgoing: true,
            stamps: Kind::User,
            retire_ms: RETIRE_MS,
        }
    }
}

/// A frame of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captured<'a> {
    /// When it passed, in nanoseconds since 1970 (CLOCK_REALTIME), or of the card's clock.
    pub timestamp_ns: u64,
    /// Who took that time: the card, the kernel where the frame entered, or [`Kind::User`]: the packet socket.
    pub stamped: Kind,
    /// Its length without FCS.
    pub original_len: u32,
    /// What was kept of it, VLAN tags in their place.
    pub bytes: &'a [u8],
    /// It left through the port.
    pub outgoing: bool,
}

/// Frames that passed so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames that the kernel saw for us, dropped ones included.
    pub frames: u64,
    /// Frames that found the ring full.
    pub dropped: u64,
}

/// A capture that runs.
#[derive(Debug)]
pub struct Capture {
    interface: String,
    ring: Ring,
    /// The block that the kernel hands over next.
    next: usize,
    statistics: Statistics,
    /// A frame whose VLAN tag had to be put back.
    tagged: Vec<u8>,
}

impl Capture {
    /// Begins to capture on a port.
    ///
    /// # Errors
    /// An interface that does not exist, or no CAP_NET_RAW in its namespace.
    pub fn open(port: &PortSpec, options: &Options) -> Result<Capture, EngineError> {
        let what = || format!("capture on {}", port.interface);
        let ring = within(&port.netns, || {
            let index = interface_index(&port.interface)?;
            let blocks = (options.ring_bytes / BLOCK_BYTES).max(4);
            let open = || {
                let ring = Ring::open(BLOCK_BYTES, blocks, options.retire_ms)?;
                ring.keep(options.snap)?;
                if options.promiscuous {
                    ring.be_promiscuous(index)?;
                }
                if !options.outgoing {
                    ring.ignore_outgoing()?;
                }
                if options.stamps != Kind::User {
                    ring.stamp(options.stamps)?;
                }
                ring.bind(index)?;
                // what was heard of other interfaces before is no part of this
                ring.statistics()?;
                Ok(ring)
            };
            open().map_err(|e: std::io::Error| EngineError::system(what(), e))
        })?;
        if options.stamps != Kind::User {
            std::thread::sleep(STAMPS_BEGIN);
        }
        Ok(Capture {
            interface: port.interface.clone(),
            ring,
            next: 0,
            statistics: Statistics::default(),
            tagged: Vec::new(),
        })
    }

    /// Waits for frames, so long at most, and hands over those of one block. `each` says whether it wants more; those it does
    /// not want are lost. Returns how many there were.
    ///
    /// # Errors
    /// The interface went down or away.
    pub fn frames(
        &mut self,
        patience: Duration,
        each: &mut dyn FnMut(Captured<'_>) -> bool,
    ) -> Result<usize, EngineError> {
        if self.ring.block(self.next).is_none() {
            let patience = patience.as_millis().min(60_000) as i32;
            self.ring
                .wait(patience)
                .map_err(|e| EngineError::system(format!("capture on {}", self.interface), e))?;
        }
        let Some(block) = self.ring.block(self.next) else {
            return Ok(0);
        };
        let mut taken = 0;
        for frame in headers(block) {
            taken += 1;
            let Some(frame) = frame.captured(&mut self.tagged) else {
                continue;
            };
            if !each(frame) {
                break;
            }
        }
        self.ring.release(self.next);
        self.next = (self.next + 1) % self.ring.blocks();
        Ok(taken)
    }

    /// What passed so far.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn statistics(&mut self) -> Result<Statistics, EngineError> {
        let new = self
            .ring
            .statistics()
            .map_err(|e| EngineError::system("read the counters of a capture", e))?;
        self.statistics.frames += u64::from(new.frames);
        self.statistics.dropped += u64::from(new.dropped);
        Ok(self.statistics)
    }

    /// Sends one frame out of the port; for questions whose answer is to be captured.
    ///
    /// # Errors
    /// The system refuses.
    pub fn send(&self, frame: &[u8]) -> Result<(), EngineError> {
        self.ring
            .send(frame)
            .map_err(|e| EngineError::system(format!("send into {}", self.interface), e))
    }
}

/// What a frame's signature would be, at each place where frames of ours carry one: at the begin of a UDP payload, or at the end
/// of the frame. Any bytes are one; whose it is the nonce tells.
pub fn signatures(frame: &[u8]) -> impl Iterator<Item = Signature> {
    let tail = frame.len().checked_sub(signature::LEN);
    [
        Some(signature::OFFSET_IPV4_UDP),
        Some(signature::OFFSET_IPV6_UDP),
        tail,
    ]
    .into_iter()
    .flatten()
    .filter_map(|at| Signature::read(frame.get(at..)?))
}

/// `struct tpacket3_hdr` and what follows it.
struct Header<'a> {
    bytes: &'a [u8],
}

/// All frames of a block; a header that points out of its block ends it.
fn headers(block: &[u8]) -> impl Iterator<Item = Header<'_>> {
    let frames = word(block, 12).unwrap_or(0);
    let mut at = word(block, 16).unwrap_or(0) as usize;
    (0..frames).map_while(move |_| {
        let bytes = block.get(at..)?;
        at += word(bytes, 0)? as usize;
        Some(Header { bytes })
    })
}

impl<'a> Header<'a> {
    fn captured(&self, tagged: &'a mut Vec<u8>) -> Option<Captured<'a>> {
        const PACKET_OUTGOING: u8 = 4;
        // linux/if_packet.h
        const TP_STATUS_TS_SOFTWARE: u32 = 1 << 29;
        const TP_STATUS_TS_RAW_HARDWARE: u32 = 1 << 31;
        let (seconds, nanoseconds) = (word(self.bytes, 4)?, word(self.bytes, 8)?);
        let (kept, original_len) = (word(self.bytes, 12)? as usize, word(self.bytes, 16)?);
        let status = word(self.bytes, 20)?;
        let begin = usize::from(half(self.bytes, 24)?);
        let bytes = self.bytes.get(begin..begin + kept)?;
        // struct sockaddr_ll follows the 48 bytes of the header; its tenth byte is the kind
        let outgoing = *self.bytes.get(48 + 10)? == PACKET_OUTGOING;
        let mut frame = Captured {
            timestamp_ns: u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds),
            stamped: match status {
                _ if status & TP_STATUS_TS_RAW_HARDWARE != 0 => Kind::Hardware,
                _ if status & TP_STATUS_TS_SOFTWARE != 0 => Kind::Software,
                _ => Kind::User,
            },
            original_len,
            bytes,
            outgoing,
        };
        // the kernel takes the outer tag out of the frame and tells it beside
        if status & libc::TP_STATUS_VLAN_VALID != 0 && kept >= 12 {
            let tci = word(self.bytes, 32)? as u16;
            let tpid = match status & libc::TP_STATUS_VLAN_TPID_VALID {
                0 => vlan::ETHERTYPE,
                _ => half(self.bytes, 36)?,
            };
            tagged.clear();
            tagged.extend_from_slice(&bytes[..12]);
            tagged.extend_from_slice(&tpid.to_be_bytes());
            tagged.extend_from_slice(&tci.to_be_bytes());
            tagged.extend_from_slice(&bytes[12..]);
            frame.bytes = tagged;
            frame.original_len += 4;
        }
        Some(frame)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_lie_end_and_do_not_panic() {
        let mut block = vec![0; 256];
        block[12..16].copy_from_slice(&3_u32.to_ne_bytes());
        block[16..20].copy_from_slice(&48_u32.to_ne_bytes());
        for byte in 0..=255_u8 {
            for at in 48..110 {
                let mut block = block.clone();
                block[at] = byte;
                for header in headers(&block) {
                    let _ = header.captured(&mut Vec::new());
                }
            }
        }
        assert_eq!(headers(&[]).count(), 0);
    }
}
