//! A network namespace of a test's own.
//!
//! It knows nothing of what tests put into it. Start with [`Namespace::new`].

use super::{Host, Local};

/// It goes with the value.
pub(crate) struct Namespace(pub(crate) String);

impl Namespace {
    /// An empty one; `of` stands in its name, beside this process.
    pub(crate) fn new(of: &str) -> Namespace {
        let namespace = Namespace(format!("{of}-{}", std::process::id()));
        let name = &namespace.0;
        Local.ask("ip", &["netns", "add", name]).unwrap();
        namespace
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Local.ask("ip", &["netns", "delete", &self.0]);
    }
}
