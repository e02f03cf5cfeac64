//! fwdlab as a TRex stateless server: clients of TRex drive fwdlab's ports with its RPC, unmodified.
//!
//! This is translation only: messages, sessions and ownership become readings and settings of ports, and what is sent and counted is the
//! affair of `lab` and `engine`. Nothing is printed here. Start with [`Server`]; a call goes through [`zmtp`] (bytes on a
//! connection), [`framing`] (zlib), [`rpc`] (JSON-RPC) and [`methods`] (one file for each kind of call) to [`model`] (what is known).
//! A [`stream`] that is said there becomes [`traffic`], which a [`run`] sends.

mod allow;
mod capture;
mod cpu;
mod error;
mod events;
mod expression;
mod framing;
mod groups;
mod limits;
mod load;
mod methods;
mod model;
mod pcap;
pub mod profile;
mod publisher;
mod rates;
mod rpc;
mod run;
mod server;
mod stream;
#[cfg(test)]
mod tests;
mod traffic;
mod wire;
mod zmtp;

pub use allow::Source;
pub use error::TrexError;
pub use server::{Config, Server};
