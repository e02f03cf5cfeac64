//! Procedures: which trial comes next, and what the trials say in the end.
//!
//! Everything here is a function of values: no traffic, no clock, no thread, and randomness only from a seed that is
//! recorded. The same code judges a simulated DUT, namespaces and real hardware. Start with [`maxfwd`] (the maximum
//! forwarding rate) or [`paired`] (comparing configurations); both rest on [`gate`] and [`conservation`]. The others share
//! the machine of [`procedure`]: [`forwarding_rate`], [`ramp`], [`rfc2544`], [`mrr`], [`soak`], [`plr`], [`equilibrium`], [`churn`], [`energy`], [`management`], [`sweep`];
//! [`machine`] makes them from what people ask for, [`ahead`] says how long they take, [`bisect`] finds which of many images changed a figure, [`campaign`] orders and sums up their iterations, and [`efficiency`] what they took of the DUT. How far any of them can be
//! trusted is decided in [`trust`].

#![forbid(unsafe_code)]

pub mod ahead;
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
pub mod machine;
pub mod management;
pub mod maxfwd;
pub mod meters;
pub mod mlr;
pub mod mrr;
pub mod order;
pub mod paired;
pub mod plr;
pub mod precision;
pub mod procedure;
pub mod ramp;
pub mod rfc2544;
pub mod soak;
pub mod sweep;
pub mod telemetry;
pub mod trust;
pub mod validity;
