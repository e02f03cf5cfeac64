//! The timestamps that a port supports according to its driver (`ethtool -T`), and the kind that
//! two ports have in common.
//!
//! Changes nothing. Start with [`Offers::query`] and [`choose`].

use super::{Kind, card, sys};
use crate::error::EngineError;
use crate::port::{PortSpec, within};

/// The timestamps that a port supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offers {
    /// Its interface, for messages.
    pub interface: String,
    /// Its driver, if known.
    pub driver: String,
    /// The kernel reports when the driver took a frame.
    pub tx_software: bool,
    /// The kernel reports when a frame entered.
    pub rx_software: bool,
    /// The card reports when a frame left.
    pub tx_hardware: bool,
    /// The card reports when a frame arrived.
    pub rx_hardware: bool,
    /// The card stamps all frames that arrive, not only PTP.
    pub rx_all_frames: bool,
    /// The card's clock: `/dev/ptpN`.
    pub clock: Option<u32>,
    /// The system's error when the card's setting is read; `None` if it can be read.
    pub card_refuses: Option<String>,
}

impl Offers {
    /// Queries a port.
    ///
    /// # Errors
    /// If there is no such port, or its namespace may not be entered.
    pub fn query(port: &PortSpec) -> Result<Offers, EngineError> {
        let of_other_port = match port {
            _ if port.is_memif() => Some("memif"),
            _ if port.is_dpdk() => Some("dpdk"),
            _ => None,
        };
        if let Some(driver) = of_other_port {
            return Ok(Offers {
                interface: port.interface.clone(),
                driver: driver.into(),
                tx_software: false,
                rx_software: false,
                tx_hardware: false,
                rx_hardware: false,
                rx_all_frames: false,
                clock: None,
                card_refuses: None,
            });
        }
        let action = || format!("read the timestamping capabilities of {}", port.interface);
        let (info, driver) = within(&port.netns, || {
            let info =
                sys::ts_info(&port.interface).map_err(|e| EngineError::system(action(), e))?;
            Ok((info, sys::driver(&port.interface).unwrap_or_default()))
        })?;
        let has = |flag: u32| info.so_timestamping & flag != 0;
        let card_refuses = card::read(port).err().map(|error| match error {
            EngineError::System { source, .. } => source.to_string(),
            other => other.to_string(),
        });
        Ok(Offers {
            interface: port.interface.clone(),
            driver,
            tx_software: has(libc::SOF_TIMESTAMPING_TX_SOFTWARE),
            rx_software: has(libc::SOF_TIMESTAMPING_RX_SOFTWARE),
            tx_hardware: has(libc::SOF_TIMESTAMPING_TX_HARDWARE)
                && info.tx_types & 1 << libc::HWTSTAMP_TX_ON != 0,
            rx_hardware: has(libc::SOF_TIMESTAMPING_RX_HARDWARE) && info.rx_filters > 1,
            rx_all_frames: info.rx_filters & 1 << libc::HWTSTAMP_FILTER_ALL != 0,
            clock: u32::try_from(info.phc_index).ok(),
            card_refuses,
        })
    }

    /// Checks that it can stamp arrivals like this.
    ///
    /// # Errors
    /// Why not, and what to do. Nothing has been changed.
    pub fn receives(&self, kind: Kind) -> Result<(), EngineError> {
        match self.against_arrivals(kind) {
            None => Ok(()),
            Some(reason) => Err(EngineError::NoStamps {
                kind: kind.name(),
                reason,
                instead: match kind {
                    Kind::Hardware => {
                        "--timestamps software, or a port of a card with a clock (ethtool -T)"
                    }
                    _ => "--timestamps user",
                },
            }),
        }
    }

    /// Returns why this port cannot supply such departures.
    pub(crate) fn against_departures(&self, kind: Kind) -> Option<String> {
        let receives = Offers {
            rx_software: true,
            rx_hardware: true,
            rx_all_frames: true,
            ..self.clone()
        };
        against(kind, &receives, &receives)
    }

    /// Returns why this port cannot supply such arrivals.
    pub(crate) fn against_arrivals(&self, kind: Kind) -> Option<String> {
        let sends = Offers {
            tx_software: true,
            tx_hardware: true,
            ..self.clone()
        };
        against(kind, &sends, &sends)
    }

    fn named(&self) -> String {
        match self.driver.as_str() {
            "" => self.interface.clone(),
            driver => format!("{} ({driver})", self.interface),
        }
    }

    fn without(&self, action: &str) -> String {
        let answer = match &self.card_refuses {
            Some(error) => format!(", and SIOCGHWTSTAMP says: {error}"),
            None => String::new(),
        };
        format!("{} {action}{answer}", self.named())
    }
}

/// Returns why this kind cannot be used on these ports.
fn against(kind: Kind, tx: &Offers, rx: &Offers) -> Option<String> {
    match kind {
        Kind::User => None,
        Kind::Software if !tx.tx_software => Some(format!(
            "{} does not report when it takes a frame to send (ethtool -T: no software-transmit)",
            tx.named()
        )),
        Kind::Software if !rx.rx_software => Some(format!(
            "{} does not timestamp frames that arrive (ethtool -T: no software-receive)",
            rx.named()
        )),
        Kind::Software => None,
        Kind::Hardware => {
            let (Some(ours), Some(theirs)) = (tx.clock, rx.clock) else {
                let port = if tx.clock.is_none() { tx } else { rx };
                return Some(
                    port.without("has no clock of its own (ethtool -T: PTP Hardware Clock: none)"),
                );
            };
            if !tx.tx_hardware {
                return Some(tx.without("does not timestamp frames that leave"));
            }
            if !rx.rx_hardware {
                return Some(rx.without("does not timestamp frames that arrive"));
            }
            if !rx.rx_all_frames {
                return Some(
                    rx.without("timestamps only arriving PTP frames, and ours are not PTP"),
                );
            }
            (ours != theirs).then(|| {
                format!(
                    "{} uses /dev/ptp{ours} and {} uses /dev/ptp{theirs}: times from two clocks cannot be subtracted",
                    tx.named(),
                    rx.named()
                )
            })
        }
    }
}

/// Chooses the kind of stamps for frames from one port to another: the requested one, or the best
/// that both support on one clock. Also returns why better ones are not used.
///
/// # Errors
/// Why the requested kind is unavailable, and what to do. Nothing has been changed.
pub fn choose(
    requested: Option<Kind>,
    tx: &Offers,
    rx: &Offers,
) -> Result<(Kind, Vec<String>), EngineError> {
    if let Some(kind) = requested {
        return match against(kind, tx, rx) {
            None => Ok((kind, Vec::new())),
            Some(reason) => Err(EngineError::NoStamps {
                kind: kind.name(),
                reason,
                instead: match kind {
                    Kind::Hardware if against(Kind::Software, tx, rx).is_none() => {
                        "--timestamps software, or two ports of one card with a clock (ethtool -T)"
                    }
                    Kind::Hardware => {
                        "--timestamps user, or two ports of one card with a clock (ethtool -T)"
                    }
                    _ => "--timestamps user",
                },
            }),
        };
    }
    let mut not_taken = Vec::new();
    for kind in [Kind::Hardware, Kind::Software] {
        match against(kind, tx, rx) {
            None => return Ok((kind, not_taken)),
            Some(reason) => not_taken.push(format!("{}: {reason}", kind.name())),
        }
    }
    Ok((Kind::User, not_taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(interface: &str, clock: Option<u32>) -> Offers {
        Offers {
            interface: interface.into(),
            driver: "ice".into(),
            tx_software: true,
            rx_software: true,
            tx_hardware: clock.is_some(),
            rx_hardware: clock.is_some(),
            rx_all_frames: clock.is_some(),
            clock,
            card_refuses: None,
        }
    }

    #[test]
    fn hardware_stamps_are_of_one_clock_or_none() {
        let one = port("p0", Some(3));
        let (kind, not_taken) = choose(None, &one, &port("p1", Some(3))).unwrap();
        assert_eq!((kind, not_taken.len()), (Kind::Hardware, 0));
        let two = port("p1", Some(4));
        let (kind, not_taken) = choose(None, &one, &two).unwrap();
        assert_eq!(kind, Kind::Software);
        assert!(
            not_taken[0].contains("/dev/ptp3 and p1 (ice) uses /dev/ptp4"),
            "{not_taken:?}"
        );
        let refused = choose(Some(Kind::Hardware), &one, &two)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("two clocks") && refused.contains("--timestamps software"),
            "{refused}"
        );
    }

    #[test]
    fn missing_timestamp_features_are_named() {
        let whole = port("p0", Some(0));
        for (tx, rx, words) in [
            (port("p1", None), whole.clone(), "p1 (ice) has no clock"),
            (whole.clone(), port("p1", None), "p1 (ice) has no clock"),
            (
                Offers {
                    tx_hardware: false,
                    ..whole.clone()
                },
                whole.clone(),
                "frames that leave",
            ),
            (
                whole.clone(),
                Offers {
                    rx_hardware: false,
                    ..whole.clone()
                },
                "frames that arrive",
            ),
            (
                whole.clone(),
                Offers {
                    rx_all_frames: false,
                    ..whole.clone()
                },
                "only arriving PTP",
            ),
        ] {
            let refused = choose(Some(Kind::Hardware), &tx, &rx)
                .unwrap_err()
                .to_string();
            assert!(refused.contains(words), "{refused}");
            assert_eq!(choose(None, &tx, &rx).unwrap().0, Kind::Software);
        }
        let mute = Offers {
            tx_software: false,
            ..port("p1", None)
        };
        assert_eq!(choose(None, &mute, &whole).unwrap().0, Kind::User);
        assert!(choose(Some(Kind::Software), &mute, &whole).is_err());
        assert!(choose(Some(Kind::User), &mute, &mute).is_ok());
    }
}
