//! Agents: fwdlab on another machine, doing there what a program here asks for.
//!
//! [`serve`] answers, started by [`init`] or [`stdio`]; what is asked and answered is in [`crate::host::wire`]. Start with [`serve::serve`].

pub mod init;
mod part;
mod rig;
pub mod serve;
pub mod stdio;
