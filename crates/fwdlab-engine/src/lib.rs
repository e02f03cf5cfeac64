//! Engines: they send frames into ports and count the frames that come back.
//!
//! The frame path knows nothing of test beds, searches or printing. A [`Sender`] and one
//! [`Receiver`] per path are behind small traits; [`Tester`] opens them, proves every path with a
//! few frames, and falls back from the fastest engine to the next. Start with [`generator`] (the
//! traits), then [`tester`]. A simulated DUT needs no ports:
//!
//! ```
//! use fwdlab_engine::sim::{Dut, Simulation, Trial};
//! use fwdlab_model::units::FrameSize;
//!
//! let mut simulation = Simulation::new(Dut::parse("capacity=1e6,buffer=512")?);
//! let counts = simulation.trial(&Trial {
//!     load_pps: 1.5e6,
//!     duration_ns: 1_000_000_000,
//!     frame_size: FrameSize::MIN,
//!     flows: 1,
//! });
//! // a second of its capacity, and what waits in its buffer
//! assert_eq!(counts.received, 1_000_512);
//! assert_eq!(counts.sent - counts.received, counts.lost());
//! # Ok::<(), fwdlab_engine::sim::DutError>(())
//! ```

pub mod af_packet;
pub mod af_xdp;
pub mod analysis;
mod btf;
pub mod capture;
pub mod dpdk;
pub mod drops;
pub mod error;
pub mod exact;
pub mod forward;
pub mod generator;
pub mod groups;
pub mod histogram;
pub mod joined;
pub mod load;
pub mod memif;
pub mod memory;
pub mod mtu;
pub mod netdev;
pub mod pacer;
pub mod part;
pub mod polling;
pub mod port;
pub mod replay;
pub mod resolve;
pub mod rx_metadata;
pub mod sender;
pub mod signature;
pub mod sim;
pub mod single_port;
pub mod sink;
pub mod stamps;
pub mod sys;
pub mod tester;
#[cfg(test)]
mod testing;
pub mod traffic;
pub mod xdp_count;
pub mod xdp_live;

pub use analysis::{Expected, ReceiveCounts};
pub use drops::DropMonitor;
pub use error::EngineError;
pub use exact::{Burst, Exact};
pub use generator::{
    Capabilities, Copies, Counting, Mode, Receiver, Schedule, SendCounts, Sender, SendingTimes,
    Timestamps,
};
pub use histogram::Histogram;
pub use joined::{JoinedSender, Part};
pub use load::LoadPlan;
pub use pacer::StallPolicy;
pub use port::{PathSpec, PortSpec};
pub use signature::SignaturePlace;
pub use single_port::{PortReceiver, PortSender};
pub use tester::{Choice, Opener, Proof, Reading, Rejected, Tester, open_receiver, open_sender};
pub use traffic::{Addresses, Frames, TestFrames, Traffic, TrafficFrames};
