//! Traffic options of the procedures: profiles, destinations, directions and modifiers, and the
//! series they form.
//!
//! `fwdlab_lab::run::traffic` builds the frames. Start with [`TrafficOptions::traffic`].

use std::sync::Arc;

use clap::Args;
use fwdlab_lab::networks::Networks;
use fwdlab_lab::run::traffic::{ProfileFrames, Traffic};
use fwdlab_model::link::Line;
use fwdlab_model::variant::{Destinations, Modifier, Modifiers, Variant};

use super::trex_profile::TrexProfile;
use crate::exit_code::Usage;
use crate::profiles;

/// What is offered beside streams of one size.
#[derive(Debug, Args)]
pub struct TrafficOptions {
    /// Offer the frames of a traffic profile (name or file) instead of one size; the load is the sum of all its streams
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["flows", "ipv6"])]
    profile: Option<String>,
    #[command(flatten)]
    trex: TrexProfile,
    /// Destinations: one address pair, random over 256 networks, or a series with each (RFC 2544 §12) [default: --flows]
    #[arg(long, value_name = "WHICH", value_parser = ["single", "random", "both"], conflicts_with_all = ["flows", "profile", "trex_profile"])]
    destinations: Option<String>,
    /// Offer the load in both directions at once, and judge each direction separately (RFC 2544 §14); loads are per direction
    #[arg(long)]
    both_directions: bool,
    /// Measure a second series with these modifiers on, after the one without (RFC 2544 §11): broadcast, management (an SNMP
    /// query every second), filters=1 or 25, updates (every 30 s) or updates=TIME, all; may be repeated
    #[arg(long, value_name = "NAME,...")]
    modifier: Vec<String>,
}

impl TrafficOptions {
    /// Returns true if a profile is given.
    pub fn has_profile(&self) -> bool {
        self.profile.is_some() || self.trex.is_some()
    }

    /// Returns true if the same load is offered in both directions.
    pub fn both_directions(&self) -> bool {
        self.both_directions
    }

    /// Returns true for two series: one with a single address pair, one with random destinations.
    pub fn single_and_random(&self) -> bool {
        self.destinations.as_deref() == Some("both")
    }

    /// Returns the series with their compiled frames. Reports all errors in the frames.
    pub fn traffic(&self, simulated: bool, line: Option<Line>) -> anyhow::Result<Traffic> {
        let profile = match &self.profile {
            None => {
                let link = line.map(|line| line.speed);
                let frames = self
                    .trex
                    .frames(self.both_directions, link, &Networks::EMBEDDED)?;
                frames.map(Arc::new)
            }
            Some(name) => {
                let loaded = profiles::load(name)?;
                let read = |name: &str| loaded.open_capture(name);
                let frames = ProfileFrames::new(
                    &loaded.profile,
                    self.both_directions,
                    line.map(|line| line.speed),
                    &Networks::EMBEDDED,
                    &read,
                );
                Some(Arc::new(frames.map_err(Usage)?))
            }
        };
        let destinations: &[Destinations] = match self.destinations.as_deref() {
            Some("single") => &[Destinations::Single],
            Some("random") => &[Destinations::Random],
            Some(_) => &[Destinations::Single, Destinations::Random],
            None => &[Destinations::Flows],
        };
        let mut modifiers = vec![Vec::new()];
        for list in &self.modifier {
            modifiers.push(self.modifiers(list, simulated)?);
        }
        let mut variants = Vec::new();
        for &destinations in destinations {
            for modifiers in &modifiers {
                variants.push(Variant {
                    profile: profile.as_ref().map(|profile| profile.name.clone()),
                    destinations,
                    both_directions: self.both_directions,
                    modifiers: modifiers.clone(),
                });
            }
        }
        Ok(Traffic {
            profile,
            variants,
            ..Traffic::default()
        })
    }

    fn modifiers(&self, list: &str, simulated: bool) -> Result<Vec<Modifier>, Usage> {
        let wrong = |why: String| Usage(format!("--modifier: {why}"));
        let modifiers: Modifiers = list.parse().map_err(wrong)?;
        if simulated {
            modifiers.check_simulated().map_err(wrong)?;
        }
        Ok(modifiers.0)
    }
}
