//! Names of runs: `2026-11-21-quick-7f3k`: the date (UTC), the kind of run, four random characters.
//!
//! All information in the name is also in `run.json`; it makes a listing of the directory readable
//! and lets people refer to a run by four characters. The caller supplies the randomness. Start
//! with [`RunId::free`].

use std::fmt;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::files::is_taken;

/// Crockford's base 32: no `i`, `l`, `o`, `u`, so that an id can be read out and typed.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const SUFFIX_LEN: usize = 4;
const DATE_LEN: usize = "2026-11-21".len();

/// The id of a run, which is the name of its directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// Returns an id for a run of this kind that begins now; other `entropy` gives other last
    /// characters.
    ///
    /// Letters of the kind become lower case, everything but letters, digits and `-` becomes `-`.
    pub fn new(now: Timestamp, kind: &str, entropy: u64) -> RunId {
        let date = now.to_zoned(TimeZone::UTC).date();
        let kind: String = kind
            .chars()
            .map(|c| match c.to_ascii_lowercase() {
                c @ ('a'..='z' | '0'..='9') => c,
                _ => '-',
            })
            .take(100)
            .collect();
        let kind = match kind.trim_matches('-') {
            "" => "run",
            kind => kind,
        };
        let mut bits = mix(entropy);
        let suffix: String = (0..SUFFIX_LEN)
            .map(|_| {
                let digit = DIGITS[(bits & 31) as usize];
                bits >>= 5;
                char::from(digit)
            })
            .collect();
        RunId(format!("{date}-{kind}-{suffix}"))
    }

    /// Returns the first id, counting `entropy` up, that no run in `root` has.
    ///
    /// Another process may take it before the run is created: [`crate::RunWriter::create`] then
    /// returns [`crate::StoreError::IdTaken`].
    pub fn free(root: &Path, now: Timestamp, kind: &str, entropy: u64) -> RunId {
        (0..1000)
            .map(|n| RunId::new(now, kind, entropy.wrapping_add(n)))
            .find(|id| !is_taken(root, id.as_str()))
            .unwrap_or_else(|| RunId::new(now, kind, entropy))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the random characters of a name with the form of an id.
    pub(crate) fn suffix_of(name: &str) -> Option<&str> {
        let (date, rest) = name.split_at_checked(DATE_LEN)?;
        date.parse::<jiff::civil::Date>().ok()?;
        let (kind, suffix) = rest.strip_prefix('-')?.rsplit_once('-')?;
        let of_digits = suffix.bytes().all(|byte| DIGITS.contains(&byte));
        (!kind.is_empty() && suffix.len() == SUFFIX_LEN && of_digits).then_some(suffix)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> String {
        id.0
    }
}

/// Returns the first number of this seed: consecutive seeds (a clock, a process id) get unrelated
/// low bits.
fn mix(entropy: u64) -> u64 {
    SplitMix64::seed_from_u64(entropy).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(now: &str, kind: &str, entropy: u64) -> String {
        RunId::new(now.parse().unwrap(), kind, entropy).into()
    }

    #[test]
    fn date_kind_and_four_characters() {
        let name = id("2026-11-21T23:59:59.9Z", "quick", 0);
        assert!(name.starts_with("2026-11-21-quick-"), "{name}");
        // First output of SplitMix64 with seed 0 is e220a8397b1dcdaf (the generator's reference
        // code): the low five bits are 0x0f, the next 0x0d, then 0x13 and 0x1b.
        assert_eq!(RunId::suffix_of(&name), Some("fdkv"));
        assert_eq!(name.len(), "2026-11-21-quick-7f3k".len());
    }

    #[test]
    fn any_kind_gives_a_file_name() {
        let now = "2026-11-21T00:00:00Z";
        for (kind, expect) in [
            ("IP4 firewalls/β", "2026-11-21-ip4-firewalls-"),
            ("../..", "2026-11-21-run-"),
            ("", "2026-11-21-run-"),
        ] {
            let name = id(now, kind, 1);
            assert!(name.starts_with(expect), "{name}");
            assert!(RunId::suffix_of(&name).is_some(), "{name}");
        }
        assert!(id(now, &"x".repeat(10_000), 1).len() < 255);
    }

    #[test]
    fn only_ids_have_a_suffix() {
        for name in [
            "2026-11-21-quick-7f3",
            "2026-11-21-7f3k",
            "2026-13-21-quick-7f3k",
            "2026-11-21-quick-7f3u",
            "2026-11-21",
            "notes",
            "",
            "2026-11-2é-quick-7f3k",
        ] {
            assert_eq!(RunId::suffix_of(name), None, "{name}");
        }
        assert_eq!(RunId::suffix_of("2026-11-21-ip4-fw-7f3k"), Some("7f3k"));
    }

    #[test]
    fn neighbouring_entropy_gives_other_characters() {
        let names: std::collections::BTreeSet<_> = (0..1000)
            .map(|n| id("2026-11-21T00:00:00Z", "quick", n))
            .collect();
        // Of a million suffixes, a thousand random ones collide about once in two tries.
        assert!(names.len() >= 995, "{}", names.len());
    }

    #[test]
    fn a_free_id_is_free() {
        let root = tempfile::tempdir().unwrap();
        let now = "2026-11-21T00:00:00Z".parse().unwrap();
        let first = RunId::free(root.path(), now, "quick", 7);
        assert_eq!(first, RunId::new(now, "quick", 7));
        std::fs::create_dir(root.path().join(first.as_str())).unwrap();
        assert_eq!(
            RunId::free(root.path(), now, "quick", 7),
            RunId::new(now, "quick", 8)
        );
    }
}
