//! Tests of the store from outside.
//!
//! They are one program, so that it is linked only once.

mod hdr;
mod store;
