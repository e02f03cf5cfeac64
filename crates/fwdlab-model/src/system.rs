//! The operating systems whose tools we support: for hosts whose counters we read, and for DUTs
//! that we configure.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An operating system.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// Linux.
    #[default]
    Linux,
    /// FreeBSD and systems based on it, such as BSDRP.
    FreeBsd,
}

impl System {
    pub(crate) fn is_linux(&self) -> bool {
        *self == System::Linux
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            System::Linux => "Linux",
            System::FreeBsd => "FreeBSD",
        })
    }
}
