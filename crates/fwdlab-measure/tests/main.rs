//! Procedures compared with the reference implementation, and with unreliable testers.
//!
//! They are one program, so that it is linked only once.

mod mlrsearch;
mod tester;
