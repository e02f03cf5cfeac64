//! Profiles by call path: how many instructions, or samples, each call path took itself.
//!
//! They are read and written as folded stacks, the text format of all flame graph tools:
//! `root;caller;callee 213`, one path per line. [`perf`] parses the output of `perf script` from a
//! sampled machine. The lab collects profiles, and the report draws them. Start with [`Stacks`]
//! (integers, as counted); [`Profile`] is the share per frame.

pub mod perf;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Separator between the functions of a path.
const SEPARATOR: char = ';';

/// Counts by path.
///
/// ```
/// use fwdlab_model::stacks::Stacks;
///
/// let stacks: Stacks = "ip_rcv;ip_forward 300\nip_rcv 100\n".parse()?;
/// assert_eq!(stacks.total(), 400);
/// assert_eq!(stacks.to_string(), "ip_rcv 100\nip_rcv;ip_forward 300\n");
/// let profile = stacks.per(100);
/// let ip_rcv = profile.by_function()["ip_rcv"];
/// assert_eq!((ip_rcv.own, ip_rcv.inclusive), (1.0, 4.0));
/// # Ok::<(), fwdlab_model::stacks::StacksError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stacks {
    paths: BTreeMap<String, u64>,
    total: u64,
}

/// Why a text is not folded stacks, and the line of the error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}; a line is `caller;callee 213`")]
pub struct StacksError {
    /// Number of the wrong line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl Stacks {
    /// Returns the total of all paths.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Iterates over the paths, their functions separated by `;`, with each path's own count, in
    /// byte order.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.paths.iter().map(|(path, count)| (&**path, *count))
    }

    /// Returns the counts per frame. Empty for no frames.
    pub fn per(&self, frames: u64) -> Profile {
        let share = |count: u64| match frames {
            0 => 0.0,
            _ => count as f64 / frames as f64,
        };
        Profile {
            paths: (self.paths())
                .map(|(path, count)| (path.to_owned(), share(count)))
                .collect(),
        }
    }

    /// Returns each path's share of the total, in percent.
    pub fn percent(&self) -> Profile {
        let mut shares = self.per(self.total);
        for share in shares.paths.values_mut() {
            *share *= 100.0;
        }
        shares
    }

    /// Returns the one of several trials whose total is the median, or the lower one of two: unlike
    /// medians of every path, its figures belong together.
    pub fn median(trials: &[Stacks]) -> Option<&Stacks> {
        let mut trials: Vec<&Stacks> = trials.iter().collect();
        trials.sort_by_key(|stacks| stacks.total);
        let middle = trials.len().checked_sub(1)? / 2;
        trials.get(middle).copied()
    }
}

impl FromStr for Stacks {
    type Err = StacksError;

    /// Parses folded stacks. Adds up repeated paths; ignores empty lines.
    fn from_str(text: &str) -> Result<Stacks, StacksError> {
        let mut stacks = Stacks::default();
        for (index, line) in text.lines().enumerate() {
            let wrong = |cause| StacksError {
                line: index + 1,
                reason: cause,
            };
            let line = line.trim_end();
            if line.is_empty() {
                continue;
            }
            let (path, count) = line
                .rsplit_once(' ')
                .ok_or(wrong("it does not end with a blank and a count"))?;
            let digits = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
            let count = (count.parse().ok().filter(|_| digits))
                .ok_or(wrong("its count is no whole number below 2^64"))?;
            if path.split(SEPARATOR).any(|name| name.trim().is_empty()) {
                return Err(wrong("a function without a name"));
            }
            stacks.total = (stacks.total.checked_add(count))
                .ok_or(wrong("all counts together are beyond 2^64"))?;
            *stacks.paths.entry(path.to_owned()).or_default() += count;
        }
        Ok(stacks)
    }
}

impl fmt::Display for Stacks {
    /// Folded stacks, sorted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.paths()
            .try_for_each(|(path, count)| writeln!(f, "{path} {count}"))
    }
}

/// The cost of a frame by path: in instructions, unless it was made from something else.
/// Differences may be below zero.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    paths: BTreeMap<String, f64>,
}

/// The cost of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Function {
    /// The function itself.
    pub own: f64,
    /// With everything that it called, directly or indirectly; counted once if it calls itself.
    pub inclusive: f64,
}

/// A function's own cost in two profiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Its name, with its module: `nft_do_chain [nf_tables]`.
    pub function: String,
    /// Per frame, in the first profile.
    pub before: f64,
    /// Per frame, in the second.
    pub after: f64,
}

impl Difference {
    /// Returns how much more it is in the second.
    pub fn difference(&self) -> f64 {
        self.after - self.before
    }
}

impl FromIterator<(String, f64)> for Profile {
    fn from_iter<I: IntoIterator<Item = (String, f64)>>(paths: I) -> Profile {
        let mut profile = Profile::default();
        for (path, per) in paths {
            *profile.paths.entry(path).or_default() += per;
        }
        profile
    }
}

impl Profile {
    /// Returns true if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns the total of all paths.
    pub fn total(&self) -> f64 {
        self.paths.values().sum()
    }

    /// Iterates over the paths, their functions separated by `;`, with each path's own cost, in
    /// byte order.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = (&str, f64)> {
        self.paths.iter().map(|(path, per)| (&**path, *per))
    }

    /// Returns the cost of each function.
    pub fn by_function(&self) -> BTreeMap<&str, Function> {
        let mut functions: BTreeMap<&str, Function> = BTreeMap::new();
        for (path, per) in self.paths() {
            let names: BTreeSet<&str> = path.split(SEPARATOR).collect();
            for name in names {
                functions.entry(name).or_default().inclusive += per;
            }
            let last = path.rsplit(SEPARATOR).next().unwrap_or(path);
            functions.entry(last).or_default().own += per;
        }
        functions
    }

    /// Subtracts another profile, path by path: for example the share of a generator, measured
    /// alone. Where that is larger, the result is below zero, so that totals still match.
    pub fn minus(&self, other: &Profile) -> Profile {
        let mut left = self.clone();
        for (path, per) in other.paths() {
            *left.paths.entry(path.to_owned()).or_default() -= per;
        }
        left
    }

    /// Returns what happens in a function: the paths through it, from its first occurrence.
    pub fn below(&self, function: &str) -> Profile {
        let mut below = Profile::default();
        for (path, per) in self.paths() {
            let names: Vec<&str> = path.split(SEPARATOR).collect();
            if let Some(at) = names.iter().position(|name| *name == function) {
                let rest = names[at..].join(";");
                *below.paths.entry(rest).or_default() += per;
            }
        }
        below
    }
}

/// Returns each function's own cost before and after, the largest difference first; the sum of all
/// differences is that of the totals.
pub fn difference(before: &Profile, after: &Profile) -> Vec<Difference> {
    let (before, after) = (before.by_function(), after.by_function());
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let own = |functions: &BTreeMap<&str, Function>, name: &str| {
        functions.get(name).map_or(0.0, |function| function.own)
    };
    let mut rows: Vec<Difference> = names
        .into_iter()
        .map(|name| Difference {
            function: name.to_owned(),
            before: own(&before, name),
            after: own(&after, name),
        })
        .filter(|row| row.before != 0.0 || row.after != 0.0)
        .collect();
    // sorted by name so far, and this sort is stable
    rows.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: &str = "\
asm_sysvec;timer 40
rx;ip_rcv 300
rx;ip_rcv;ip_forward 1440
rx;ip_rcv;ip_forward;ip_rcv 60
";
    const RULE: &str = "\
asm_sysvec;timer 50
rx;ip_rcv 300
rx;ip_rcv;ip_forward 1730
rx;ip_rcv;ip_forward;ip_rcv 60
rx;ip_rcv;ip_forward;nf_hook_slow;nft_do_chain [nf_tables] 2130
";

    fn profile(text: &str) -> Profile {
        text.parse::<Stacks>().unwrap().per(10)
    }

    #[test]
    fn a_function_has_its_own_and_what_it_calls_once() {
        let stacks: Stacks = PLAIN.parse().unwrap();
        assert_eq!(stacks.total(), 1840);
        assert_eq!(stacks.to_string(), PLAIN);
        let profile = stacks.per(10);
        let functions = profile.by_function();
        let ip_rcv = functions["ip_rcv"];
        assert_eq!((ip_rcv.own, ip_rcv.inclusive), (36.0, 180.0));
        let forward = functions["ip_forward"];
        assert_eq!((forward.own, forward.inclusive), (144.0, 150.0));
        assert_eq!(functions["rx"].own, 0.0);
        assert_eq!(stacks.per(0).total(), 0.0);
    }

    #[test]
    fn the_cost_of_a_rule_is_reported() {
        let rows = difference(&profile(PLAIN), &profile(RULE));
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.function.as_str(), row.before, row.after))
            .collect();
        assert_eq!(
            found,
            [
                ("nft_do_chain [nf_tables]", 0.0, 213.0),
                ("ip_forward", 144.0, 173.0),
                ("timer", 4.0, 5.0),
                ("ip_rcv", 36.0, 36.0),
            ]
        );
        assert_eq!(rows[1].difference(), 29.0);
    }

    #[test]
    fn profiles_can_be_subtracted_and_narrowed() {
        let left = profile(RULE).minus(&profile(PLAIN));
        assert_eq!(left.total(), 243.0);
        assert_eq!(left.by_function()["timer"].own, 1.0);
        assert_eq!(profile(PLAIN).minus(&profile(RULE)).total(), -243.0);
        let below = profile(RULE).below("ip_forward");
        let first: Vec<_> = below.paths().collect();
        assert_eq!(first[0], ("ip_forward", 173.0));
        assert_eq!(below.total(), 173.0 + 6.0 + 213.0);
    }

    #[test]
    fn the_median_trial_is_one_of_them() {
        let trials = ["a 3", "a 1", "a 2", "a 9"].map(|text| text.parse::<Stacks>().unwrap());
        assert_eq!(Stacks::median(&trials), Some(&trials[2]));
        assert_eq!(Stacks::median(&trials[..1]), Some(&trials[0]));
        assert_eq!(Stacks::median(&[]), None);
    }

    #[test]
    fn errors_name_the_line() {
        let line = |text: &str| {
            let wrong = text.parse::<Stacks>().unwrap_err();
            (wrong.line, wrong.reason.split(' ').next().unwrap())
        };
        assert_eq!(line("a 1\n\nb"), (3, "it"));
        assert_eq!(line("a 1.5"), (1, "its"));
        assert_eq!(line("a +1"), (1, "its"));
        assert_eq!(line("a;;b 1"), (1, "a"));
        assert_eq!(line(" 1"), (1, "a"));
        assert_eq!(line("a 18446744073709551615\nb 1"), (2, "all"));
        let same: Stacks = "a [m] 1\na [m] 2\n".parse().unwrap();
        assert_eq!(same.to_string(), "a [m] 3\n");
    }

    fn folded() -> impl Strategy<Value = Stacks> {
        let path =
            prop::collection::vec("[a-d]( \\[m\\])?", 1..5).prop_map(|names| names.join(";"));
        prop::collection::vec((path, 0u64..1 << 40), 0..30).prop_map(|lines| {
            let text: String = lines
                .iter()
                .map(|(path, count)| format!("{path} {count}\n"))
                .collect();
            text.parse().unwrap()
        })
    }

    proptest! {
        #[test]
        fn reads_what_it_prints(stacks in folded()) {
            prop_assert_eq!(stacks.to_string().parse::<Stacks>().unwrap(), stacks);
        }

        #[test]
        fn reads_anything_without_panic(text in "\\PC*") {
            let _ = text.parse::<Stacks>();
        }

        #[test]
        fn sums_agree(before in folded(), after in folded()) {
            // the number of frames is a power of two: nothing is rounded
            let (one, other) = (before.per(1024), after.per(1024));
            let rows = difference(&one, &other);
            let sum: f64 = rows.iter().map(Difference::difference).sum();
            prop_assert_eq!(sum, other.total() - one.total());
            prop_assert_eq!(sum, other.minus(&one).total());
            prop_assert!(rows.is_sorted_by(|a, b| a.difference().abs() >= b.difference().abs()));
            let own: f64 = one.by_function().values().map(|function| function.own).sum();
            prop_assert_eq!(own, one.total());
            for function in one.by_function().values() {
                prop_assert!(function.own <= function.inclusive && function.inclusive <= one.total());
            }
        }
    }
}
