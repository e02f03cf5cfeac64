//! The full screen: of a run while it goes on or when it is replayed, and of the console's ports.
//!
//! - [`app`]: what is known and shown, a function of events and keys;
//! - [`panes`]: how it is drawn, a file for each;
//! - [`theme`], [`keys`], [`settings`]: characters and colours, what is typed, what people choose of it;
//! - [`terminal`]: the terminal itself, taken and given back;
//! - [`view`]: follows a run with all of these.
//!
//! A screen never holds up what it shows: it reads the journal of a run that another process carries out. Start with [`view`].

pub mod app;
pub mod keys;
pub mod panes;
pub mod settings;
pub mod terminal;
pub mod theme;
pub mod view;
