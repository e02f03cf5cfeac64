//! Frames as bytes: what a test frame looks like on the wire, not how it gets there.
//!
//! No I/O, no clock, no `unsafe`, and no allocation in the functions called once per frame, so the
//! crate can be used, fuzzed and trusted on its own. Start with [`template`], which combines the
//! rest:
//!
//! - [`header`]: one file per protocol, all of the same shape, to read and to write headers;
//! - [`checksum`]: the one's-complement sum they share;
//! - [`stack`], [`decode`]: build any frame from a list of layers, decode it again, and describe it
//!   in one line;
//! - [`signature`]: the 18 payload bytes by which we recognise, count and time our own frames;
//! - [`flow`]: sets of flows: the addresses and ports that test frames carry;
//! - [`walk`]: the order in which the flows of a set are sent;
//! - [`modifier`], [`permutation`]: programs that vary the frames of a template, and the order they
//!   use;
//! - [`rss`]: the hash by which a card chooses a receive queue;
//! - [`pcap`]: capture files as bytes;
//! - [`template`]: a complete UDP test frame of a given size, written or patched in place.
//!
//! ```
//! use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr, Order, Signature};
//!
//! let template = FrameTemplate::new(&FrameSpec {
//!     source: MacAddr([0x02, 0, 1, 0, 0, 1]),
//!     destination: MacAddr([0x02, 0, 2, 0, 0, 1]),
//!     version: IpVersion::V4,
//!     frame_size: 64, // with FCS
//! })?;
//! let flows = FlowSet::default_v4(2000)?;
//! let mut buffer = vec![0; template.buffer_len()]; // 60 bytes: without FCS
//!
//! for (sequence, flow) in (0..).zip(flows.walk(Order::Shuffled { seed: 7 })).take(4000) {
//!     let signature = Signature { nonce: 1, stream: 0, sequence, timestamp_ns: 0 };
//!     template.write(&mut buffer, &flow, &signature);
//!     // hand the buffer to an engine
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bpf;
pub mod checksum;
pub mod decode;
pub mod flow;
pub mod header;
pub mod modifier;
pub mod pcap;
pub mod permutation;
pub mod rss;
pub mod signature;
pub mod stack;
pub mod template;
pub mod walk;

pub use flow::{Addresses, Flow, FlowError, FlowSet, IpVersion, Span};
pub use header::ethernet::MacAddr;
pub use signature::Signature;
pub use template::{FrameSizeError, FrameSpec, FrameTemplate, PartialSums};
pub use walk::{Order, Walk};
