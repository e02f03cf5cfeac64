//! fwdlab as a TRex stateless server: unmodified TRex clients control fwdlab's ports through its
//! RPC.
//!
//! This crate only translates: messages, sessions and ownership become readings and settings of
//! ports; `lab` and `engine` send and count. Prints nothing. Start with [`Server`]; a call passes
//! through [`zmtp`] (bytes on a connection), [`framing`] (zlib), [`rpc`] (JSON-RPC) and [`methods`]
//! (one file for each kind of call) to [`model`] (the state). A [`stream`] of a call becomes
//! [`traffic`], which a [`run`] sends.

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
