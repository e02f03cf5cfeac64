//! The full screen: a run, live or replayed, and the ports of the console.
//!
//! - [`app`]: the state, a function of events and keys;
//! - [`panes`]: the drawing, a file for each pane;
//! - [`theme`], [`keys`], [`settings`]: characters and colours, keys, and the user's settings;
//! - [`terminal`]: takes over the terminal and restores it;
//! - [`view`]: follows a run with all of these.
//!
//! A screen never stalls a run: it reads the journal of a run in another process. Start with
//! [`view`].

pub mod app;
pub mod keys;
pub mod panes;
pub mod settings;
pub mod terminal;
pub mod theme;
pub mod view;
