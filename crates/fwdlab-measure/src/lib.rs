//! Procedures: they choose the next trial, and derive results from the trials.
//!
//! Everything here is a function of values: no traffic, no clock, no thread, and randomness only
//! from a recorded seed. The same code judges a simulated DUT, namespaces and real hardware. Start
//! with [`maxfwd`] (the maximum forwarding rate) or [`paired`] (comparing configurations); both are
//! based on [`gate`] and [`conservation`]. The others implement the trait of [`procedure`]:
//! [`forwarding_rate`], [`ramp`], [`rfc2544`], [`mrr`], [`soak`], [`plr`], [`equilibrium`],
//! [`churn`], [`energy`], [`management`], [`sweep`]; [`machine`] creates them from requests,
//! [`overload`] finds a load that overloads the DUT, [`sustained`] one that the tester sustains,
//! [`remaining`] estimates how long they take, [`bisect`] finds which of many images changed a
//! figure, [`campaign`] orders and summarises their iterations, [`shard`] divides them, and
//! [`efficiency`] their cost on the DUT. [`trust`] decides how far their results can be trusted.
//!
//! A procedure requests one trial after another. The caller runs the trial and passes the answer
//! back:
//!
//! ```
//! use fwdlab_measure::compliance::Conditions;
//! use fwdlab_measure::procedure::Procedure;
//! use fwdlab_measure::rfc2544::Setup;
//! use fwdlab_measure::rfc2544::suite::Plan;
//! use fwdlab_measure::rfc2544::throughput::Throughput;
//! use fwdlab_model::procedure::{Answer, Question};
//! use fwdlab_model::units::FrameSize;
//!
//! /// A DUT that forwards a million frames per second.
//! fn trial(question: &Question) -> Answer {
//!     let frames = question.frames();
//!     let forwarded = question.duration_ns() / 1000;
//!     Answer {
//!         frames_intended: frames,
//!         frames_sent: frames,
//!         frames_received: frames.min(forwarded),
//!         duration_ns: question.duration_ns(),
//!         ..Answer::default()
//!     }
//! }
//!
//! let setup = Setup {
//!     frame_size: FrameSize::MIN,
//!     line_rate_pps: Some(14_880_952.0),
//!     max_load_pps: 14_880_952.0,
//!     conditions: Conditions::met(),
//! };
//! let mut search = Throughput::new(setup, &Plan::standard())?;
//! while let Some(question) = search.next_trial() {
//!     println!("{}", search.record(&question, &trial(&question)));
//! }
//! let found = search.outcomes().remove(0).found;
//! assert!(found.rate_pps().is_some_and(|pps| (995_000.0..=1_000_000.0).contains(&pps)));
//! # Ok::<(), String>(())
//! ```

#![forbid(unsafe_code)]

pub mod bisect;
pub mod campaign;
pub mod churn;
pub mod compliance;
pub mod conservation;
pub mod cost;
pub mod efficiency;
pub mod energy;
pub mod equilibrium;
pub mod exact;
pub mod expect;
pub mod findings;
pub mod forwarding_rate;
pub mod gate;
pub mod imported;
pub mod loaded_latency;
pub mod machine;
pub mod management;
pub mod maxfwd;
pub mod meters;
pub mod mlr;
pub mod mrr;
pub mod order;
pub mod overload;
pub mod paired;
pub mod plr;
pub mod precision;
pub mod procedure;
pub mod ramp;
pub mod remaining;
pub mod rfc2544;
pub mod shard;
pub mod soak;
pub mod sustained;
pub mod sweep;
pub mod telemetry;
pub mod trust;
pub mod validity;
