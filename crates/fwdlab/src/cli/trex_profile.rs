//! Options for profiles of TRex (`.py`, `.yaml`).
//!
//! Campaigns name such files in their matrix, and `[trex]` has the rest. Their frames are made in
//! `trex_frames`. Start with [`TrexProfile`].

use clap::Args;
use fwdlab_model::campaign::{Draft, Several, Trex};

/// Options for profiles of TRex's.
#[derive(Debug, Args)]
pub struct TrexProfile {
    /// Offer the frames of a TRex profile (.py or .yaml), as the installed TRex client library
    /// makes them; the load is the sum of all its streams
    #[arg(long, value_name = "FILE", conflicts_with_all = ["flows", "ipv6", "profile"])]
    trex_profile: Option<String>,
    /// A tunable of the TRex profile; may be repeated
    #[arg(
        short = 't',
        long,
        value_name = "NAME=VALUE",
        value_delimiter = ',',
        requires = "trex_profile"
    )]
    tunable: Vec<String>,
    /// The Python that has the TRex client library (lbr-trex-client needs 3.11 or older)
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "python3",
        requires = "trex_profile"
    )]
    trex_python: String,
}

impl TrexProfile {
    /// Returns true if a profile is given.
    pub fn is_some(&self) -> bool {
        self.trex_profile.is_some()
    }

    /// Adds the profile to a campaign.
    pub fn add_to(&self, draft: &mut Draft) {
        if let Some(file) = &self.trex_profile {
            draft.matrix.profile = Some(Several(vec![file.clone()]));
            draft.trex = Trex {
                python: self.trex_python.clone(),
                tunables: self.tunable.clone(),
            };
        }
    }
}

/// Returns true for the name of a TRex profile.
pub fn is_one(name: &str) -> bool {
    [".py", ".yaml", ".yml"]
        .iter()
        .any(|ending| name.ends_with(ending))
}
