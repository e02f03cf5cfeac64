//! Engines: they put frames on ports and count what comes back.
//!
//! The frame path knows nothing of test beds, searches or printing. A [`Sender`] and one [`Receiver`] per path are
//! behind small traits; [`Tester`] opens them, proves every path with a few frames, and falls back from the fastest
//! engine to the next. Start with [`generator`] (the traits), then [`tester`].

pub mod af_packet;
pub mod af_xdp;
pub mod alone;
pub mod analysis;
mod btf;
pub mod capture;
pub mod drops;
pub mod error;
pub mod exact;
pub mod forward;
pub mod generator;
pub mod groups;
pub mod histogram;
pub mod joined;
pub mod load;
pub mod memory;
pub mod mtu;
pub mod netdev;
pub mod pacer;
pub mod port;
pub mod replay;
pub mod resolve;
pub mod rx_metadata;
mod sender;
pub mod sim;
pub mod sink;
pub mod stamps;
pub mod sys;
pub mod tester;
#[cfg(test)]
mod testing;
pub mod traffic;
pub mod xdp_count;
pub mod xdp_live;

pub use alone::{Counting, LoneReceiver, LoneSender};
pub use drops::DropMonitor;
pub use error::EngineError;
pub use exact::{Burst, Exact};
pub use generator::{
    Capabilities, Copies, Course, Expected, Frames, Mode, ReceiveCounts, Receiver, Schedule,
    SendCounts, Sender, SignaturePlace, TestFrames, Timestamps,
};
pub use histogram::Histogram;
pub use joined::{JoinedSender, Part};
pub use load::LoadPlan;
pub use pacer::HoldUps;
pub use port::{PathSpec, PortSpec};
pub use tester::{
    Addresses, Choice, Opener, Proof, Reading, Rejected, Tester, open_receiver, open_sender,
};
pub use traffic::{Traffic, TrafficFrames};
