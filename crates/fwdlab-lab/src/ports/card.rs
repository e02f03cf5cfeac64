//! Enables hardware time stamps of cards, and restores their settings.
//!
//! Settings are defined in `fwdlab_engine::stamps::card`, and restored by
//! [`held_settings`](super::held_settings). Start with [`Stamping::take`].

use fwdlab_engine::PortSpec;
use fwdlab_engine::stamps::card::{self, Setting};

use super::held_settings::{HeldSetting, Settings};
use crate::error::LabError;

/// Time stamp settings of cards.
#[derive(Debug)]
pub(super) struct Cards;

impl Settings for Cards {
    type Setting = Setting;
    const EXTENSION: &'static str = "card";

    fn read(&self, port: &PortSpec) -> Result<Setting, LabError> {
        Ok(card::read(port)?)
    }

    fn set(&self, port: &PortSpec, setting: Setting) -> Result<Setting, LabError> {
        Ok(card::set(port, setting)?)
    }

    fn does(is: &Setting, requested: &Setting) -> bool {
        is.tx_type == requested.tx_type && is.rx_filter == requested.rx_filter
    }
}

/// A card that stamps all frames until this value is dropped.
#[derive(Debug)]
pub struct Stamping {
    _held: HeldSetting<Cards>,
}

impl Stamping {
    /// Makes a port's card stamp all frames, in both directions.
    ///
    /// # Errors
    /// Fails, with the card unchanged, if the card cannot stamp all frames or the record cannot be
    /// written.
    pub fn take(port: &PortSpec) -> Result<Stamping, LabError> {
        let held = HeldSetting::take(Cards, port, Setting::ALL)?;
        if Cards::does(&held.got, &Setting::ALL) {
            return Ok(Stamping { _held: held });
        }
        Err(LabError::Preflight(format!(
            "the card of {} does not timestamp all frames: it chose transmit type {} and receive filter {}; its previous configuration has \
             been restored. Use --timestamps software",
            port.interface, held.got.tx_type, held.got.rx_filter
        )))
    }
}
