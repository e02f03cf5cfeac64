//! Checks by their counters whether frames passed through all tunnels over which a configuration
//! spreads them.
//!
//! Only compares counts; the DUT reads them. If a tunnel carried nothing, something else was
//! measured than the configuration says. Start with [`Spread::unused`].

use std::collections::BTreeMap;

/// With this number of frames per tunnel, each tunnel gets some if there are enough connections;
/// with fewer frames nothing is reported.
const ENOUGH: u64 = 32;

/// The counters of a DUT's tunnels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// Frames received at its input.
    pub arrived: u64,
    /// Frames that each tunnel has carried, by its port.
    pub carried: BTreeMap<String, u64>,
}

impl Spread {
    /// Describes the tunnels of DUTs that carried nothing between two readings; `None` if there are
    /// none.
    pub fn unused(before: &[Option<Spread>], after: &[Option<Spread>]) -> Option<String> {
        let each = before.iter().zip(after);
        let output = each.filter_map(|pair| match pair {
            (Some(before), Some(after)) => after.unused_since(before),
            _ => None,
        });
        let output: Vec<String> = output.collect();
        (!output.is_empty()).then(|| output.join("; "))
    }

    fn unused_since(&self, before: &Spread) -> Option<String> {
        let returned = self.arrived.saturating_sub(before.arrived);
        let is_used = |(name, now): &(&String, &u64)| before.carried.get(*name) < Some(now);
        let (used, unused): (Vec<_>, Vec<_>) = self.carried.iter().partition(is_used);
        if unused.is_empty() || returned < ENOUGH * self.carried.len() as u64 {
            return None;
        }
        let names: Vec<&str> = unused.iter().map(|(name, _)| name.as_str()).collect();
        Some(format!(
            "of {returned} frames that came in, {} of {} tunnels carried none ({}): {}",
            unused.len(),
            self.carried.len(),
            names.join(", "),
            match used.is_empty() {
                true => "they took another path. Tunnels are for IPv4 frames",
                false => "connections are too few. Send more flows",
            }
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(returned: u64, carried: &[u64]) -> Vec<Option<Spread>> {
        let names = (0..).map(|n| format!("tun{n}"));
        let carried = names.zip(carried.iter().copied()).collect();
        vec![
            None,
            Some(Spread {
                arrived: returned,
                carried,
            }),
        ]
    }

    #[test]
    fn a_tunnel_without_traffic_is_reported() {
        let before = spread(100, &[50, 7, 0]);
        let of = |returned, carried: &[u64]| Spread::unused(&before, &spread(returned, carried));
        assert_eq!(of(1100, &[51, 8, 1]), None);
        assert_eq!(
            of(1100, &[550, 7, 500]).unwrap(),
            "of 1000 frames that came in, 1 of 3 tunnels carried none (tun1): connections are too few. Send more flows"
        );
        let none = of(1100, &[50, 7, 0]).unwrap();
        assert!(
            none.contains("3 of 3 tunnels") && none.contains("took another path"),
            "{none}"
        );
        // chance, and a DUT that was not measured in this turn
        assert_eq!(of(195, &[145, 7, 0]), None);
        assert!(of(196, &[146, 7, 0]).is_some());
        assert_eq!(of(100, &[50, 7, 0]), None);
        // before tunnels existed
        assert_eq!(Spread::unused(&[None, None], &before), None);
    }
}
