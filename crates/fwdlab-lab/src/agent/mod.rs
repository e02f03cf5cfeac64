//! Agents: fwdlab on another machine, which does there what this program requests.
//!
//! [`serve`] answers; [`init`] or [`stdio`] starts it; [`crate::host::wire`] defines the questions
//! and answers. Start with [`serve::serve`].

pub mod init;
mod part;
mod rig;
pub mod serve;
pub mod stdio;
