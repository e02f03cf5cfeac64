//! Shards: parts of a campaign that separate processes measure, on any machines. Joined, they are
//! the whole campaign.
//!
//! They are joined if the results do not depend on the machine. Start with [`Shard::part`].

use std::fmt;
use std::str::FromStr;

use crate::campaign::Turn;

/// One of several parts of a campaign: `3/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    number: u32,
    of: u32,
}

impl Shard {
    /// Returns its number, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Returns the number of shards.
    pub fn count(self) -> u32 {
        self.of
    }

    /// Returns the positions of the turns that this shard measures, in ascending order. Every turn
    /// is in one shard, and their numbers of turns differ by at most one.
    ///
    /// Turns with the same key stay together as far as possible, so that each machine needs few of
    /// the images of a campaign.
    pub fn part<K: Ord>(self, turns: &[Turn], key: impl Fn(Turn) -> K) -> Vec<usize> {
        let mut positions: Vec<usize> = (0..turns.len()).collect();
        positions.sort_by_key(|&at| key(turns[at]));
        let end =
            |shard: u32| (turns.len() as u64 * u64::from(shard) / u64::from(self.of)) as usize;
        let mut own = positions[end(self.number - 1)..end(self.number)].to_vec();
        own.sort_unstable();
        own
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            let [number, of] = [number, of].map(|text| text.parse::<u32>().ok());
            Some((number?, of?))
        });
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err(format!(
                "`{text}` is not a shard: give its number and the number of shards, such as 3/16"
            )),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::campaign::Order;
    use proptest::prelude::*;

    use super::*;
    use crate::campaign::sequence;

    #[test]
    fn shards_are_parsed() {
        let shard: Shard = "3/16".parse().unwrap();
        assert_eq!((shard.number(), shard.count()), (3, 16));
        assert_eq!(shard.to_string(), "3/16");
        for wrong in ["0/4", "5/4", "1/0", "3", "/", "a/b", "-1/4", "1/2/3", ""] {
            let error = wrong.parse::<Shard>().unwrap_err();
            assert!(error.contains("such as 3/16"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn every_turn_is_in_one_shard(
            cases in 1usize..40, iterations in 1u32..6, of in 1u32..20, images in 1usize..10, seed: u64,
        ) {
            let turns = sequence(cases, iterations, Order::Interleaved, seed);
            let image = |turn: Turn| turn.case % images;
            let mut all = Vec::new();
            let mut booted = 0;
            for number in 1..=of {
                let own = Shard { number, of }.part(&turns, image);
                prop_assert!(own.is_sorted());
                prop_assert!(own.len().abs_diff(turns.len() / of as usize) <= 1);
                let mut images: Vec<usize> = own.iter().map(|&at| image(turns[at])).collect();
                images.sort_unstable();
                images.dedup();
                booted += images.len();
                all.extend(own);
            }
            all.sort_unstable();
            prop_assert_eq!(all, (0..turns.len()).collect::<Vec<_>>());
            // each boundary between shards divides at most one image
            let used = images.min(cases);
            prop_assert!(booted < used + of as usize, "{} of {}", booted, used);
        }
    }
}
