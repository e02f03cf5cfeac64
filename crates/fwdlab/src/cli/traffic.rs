//! Traffic options of the procedures: profiles, destinations, directions and modifiers, and the
//! series they form.
//!
//! `fwdlab_lab::run::traffic` builds the frames. Start with [`TrafficOptions::add_to`].

use clap::Args;
use fwdlab_model::campaign::{Directions, Draft, Several};
use fwdlab_model::variant::{Destinations, Modifiers};

use super::trex_profile::TrexProfile;
use crate::exit_code::Usage;

/// What is offered beside streams of one size.
#[derive(Debug, Args)]
pub struct TrafficOptions {
    /// Offer the frames of a traffic profile (name or file) instead of one size; the load is the
    /// sum of all its streams
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["flows", "ipv6"])]
    profile: Option<String>,
    #[command(flatten)]
    trex: TrexProfile,
    /// Destinations: one address pair, random over 256 networks, or a series with each (RFC 2544
    /// §12) [default: --flows]
    #[arg(long, value_name = "WHICH", value_parser = ["single", "random", "both"], conflicts_with_all = ["flows", "profile", "trex_profile"])]
    destinations: Option<String>,
    /// Offer the load in both directions at once, and judge each direction separately (RFC 2544
    /// §14); loads are per direction
    #[arg(long)]
    both_directions: bool,
    /// Measure a second series with these modifiers on, after the one without (RFC 2544 §11):
    /// broadcast, management (an SNMP query every second), filters=1 or 25, updates (every 30 s) or
    /// updates=TIME, all; may be repeated
    #[arg(long, value_name = "NAME,...")]
    modifier: Vec<String>,
}

impl TrafficOptions {
    /// Returns true if a profile is given.
    pub fn has_profile(&self) -> bool {
        self.profile.is_some() || self.trex.is_some()
    }

    /// Adds the series to a campaign.
    pub fn add_to(&self, draft: &mut Draft) -> Result<(), Usage> {
        let matrix = &mut draft.matrix;
        matrix.profile = self.profile.clone().map(|name| Several(vec![name]));
        matrix.destinations = self.destinations.as_deref().map(|typed| {
            Several(match typed {
                "single" => vec![Destinations::Single],
                "random" => vec![Destinations::Random],
                _ => vec![Destinations::Single, Destinations::Random],
            })
        });
        let both = || Several(vec![Directions::Both]);
        matrix.directions = self.both_directions.then(both);
        if !self.modifier.is_empty() {
            let typed = self.modifier.iter().map(|list| list.parse());
            let none = std::iter::once(Ok(Modifiers::default()));
            let all = none.chain(typed).collect::<Result<_, String>>();
            let all = all.map_err(|reason| Usage(format!("--modifier: {reason}")))?;
            matrix.modifier = Some(Several(all));
        }
        self.trex.add_to(draft);
        Ok(())
    }
}
