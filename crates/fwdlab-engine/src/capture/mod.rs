//! Capture: whole frames of a port as they pass, with nanoseconds.
//!
//! The kernel fills a ring of blocks (AF_PACKET, TPACKET_V3) that we read without a system call per
//! frame. Nothing is attached or changed; frames that do not fit are counted as dropped. Frames
//! that an XDP program takes are not captured. The caller decides what to do with frames. Start
//! with [`Capture::open`].

pub mod file;
mod sys;

use std::time::Duration;

use fwdlab_packet::header::vlan;
use fwdlab_packet::{Signature, signature};

use self::sys::Ring;
use crate::error::EngineError;
use crate::port::{PortSpec, interface_index, within};
use crate::stamps::Kind;

/// The kernel delivers a block when it is full, or this long after its first frame.
const RETIRE_MS: u32 = 20;
/// Whole pages, with room for many frames of the largest kind.
const BLOCK_BYTES: usize = 1 << 18;

/// The kernel starts to stamp frames some time after the request (`net_enable_timestamp` delegates
/// it to a worker), and does not report when.
const STAMPS_BEGIN: Duration = Duration::from_millis(50);

/// Options of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bytes kept of each frame.
    pub snap: u32,
    /// Memory for frames that have not been read yet, in bytes.
    pub ring_bytes: usize,
    /// Also capture frames to other MAC addresses. Ends with the capture.
    pub promiscuous: bool,
    /// Also capture frames that leave through the port.
    pub outgoing: bool,
    /// Source of the times: the socket, the kernel where frames enter, or the card, which must have
    /// been configured for it.
    pub stamps: Kind,
    /// Frames are delivered when a block of them is full, or this many milliseconds after the first
    /// of them.
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
    /// Source of that time: the card, the kernel where the frame entered, or [`Kind::User`]: the
    /// packet socket.
    pub stamped: Kind,
    /// Its length without FCS.
    pub original_len: u32,
    /// The captured bytes, with VLAN tags in their place.
    pub bytes: &'a [u8],
    /// True if it left through the port.
    pub outgoing: bool,
}

/// Frames that passed so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames that the kernel saw for us, including dropped ones.
    pub frames: u64,
    /// Frames dropped because the ring was full.
    pub dropped: u64,
}

/// A running capture.
#[derive(Debug)]
pub struct Capture {
    interface: String,
    ring: Ring,
    /// The block that the kernel delivers next.
    next: usize,
    statistics: Statistics,
    /// Buffer for a frame whose VLAN tag had to be restored.
    tagged: Vec<u8>,
}

impl Capture {
    /// Starts a capture on a port.
    ///
    /// # Errors
    /// If the interface does not exist, or without CAP_NET_RAW in its namespace.
    pub fn open(port: &PortSpec, options: &Options) -> Result<Capture, EngineError> {
        let action = || format!("capture on {}", port.interface);
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
                // drop the counts of other interfaces from before the bind
                ring.statistics()?;
                Ok(ring)
            };
            open().map_err(|e: std::io::Error| EngineError::system(action(), e))
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

    /// Waits for frames up to `patience`, and passes those of one block to `each`, which returns
    /// whether it wants more; frames that it does not want are lost. Returns the number of frames.
    ///
    /// # Errors
    /// If the interface went down or disappeared.
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

    /// Returns the counts so far.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn statistics(&mut self) -> Result<Statistics, EngineError> {
        let new = self
            .ring
            .statistics()
            .map_err(|e| EngineError::system("read the counters of a capture", e))?;
        self.statistics.frames += u64::from(new.frames);
        self.statistics.dropped += u64::from(new.dropped);
        Ok(self.statistics)
    }

    /// Sends one frame out of the port; for requests whose answer is to be captured.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn send(&self, frame: &[u8]) -> Result<(), EngineError> {
        self.ring
            .send(frame)
            .map_err(|e| EngineError::system(format!("send into {}", self.interface), e))
    }
}

/// Returns what a frame's signature would be, at each place where our frames carry one: at the
/// start of a UDP payload, or at the end of the frame. Any bytes decode to one; the nonce shows
/// whether it is ours.
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

/// `struct tpacket3_hdr` and the bytes behind it.
struct Header<'a> {
    bytes: &'a [u8],
}

/// Iterates over all frames of a block; ends at a header that points out of its block.
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
        // struct sockaddr_ll follows the 48 bytes of the header; its tenth byte is the packet type
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
        // the kernel removes the outer tag from the frame and reports it separately
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
    fn blocks_with_wrong_lengths_end_without_panic() {
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
