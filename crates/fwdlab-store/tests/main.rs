//! The store from outside.
//!
//! One program for all of them: it is linked once.

mod hdr;
mod store;
