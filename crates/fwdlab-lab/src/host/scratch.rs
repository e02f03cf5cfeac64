//! A network namespace for a single test.
//!
//! Its contents are up to the test. Start with [`Namespace::new`].

use super::{Host, Local};

/// A namespace that is removed when this is dropped.
pub(crate) struct Namespace(pub(crate) String);

impl Namespace {
    /// Creates an empty namespace; its name consists of `of` and the process id.
    pub(crate) fn new(of: &str) -> Namespace {
        let namespace = Namespace(format!("{of}-{}", std::process::id()));
        let name = &namespace.0;
        Local.query("ip", &["netns", "add", name]).unwrap();
        namespace
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Local.query("ip", &["netns", "delete", &self.0]);
    }
}
