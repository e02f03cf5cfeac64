//! Bisection: finds the first of many consecutive candidates whose figure differs from that of the
//! first one.
//!
//! Takes verdicts and returns what to test next, like git bisect; a candidate that cannot be tested
//! is skipped. The uncertainty of the two ends decides first whether they differ at all. Start with
//! [`next`] and [`Ends::new`].

use fwdlab_model::bisect::{Figure, Verdict};

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Test these, in any order or together.
    Test(Vec<usize>),
    /// The change is found, as precisely as possible.
    Found(ChangePosition),
    /// An end cannot be tested, so the others cannot be compared with it.
    NoEnd(usize),
}

/// The position of the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePosition {
    /// The last candidate known to equal the first one.
    pub last_good: usize,
    /// The first candidate known to differ.
    pub first_bad: usize,
    /// Candidates between them that could not be tested: each may be the first that differs.
    pub skipped_between: Vec<usize>,
}

/// Returns what to test next with these verdicts, if the first candidate is good and the last is
/// bad; at most `together` of them.
///
/// The ends always come first. Of the testable candidates still in question the middle one is
/// chosen: each test leaves at most half of them, or removes one that must be skipped. Several at a
/// time divide them evenly.
pub fn next(verdicts: &[Option<Verdict>], together: usize) -> Next {
    let last = verdicts.len().saturating_sub(1);
    let ends = [0, last];
    if let Some(end) = ends
        .into_iter()
        .find(|&end| verdicts.get(end) == Some(&Some(Verdict::Skipped)))
    {
        return Next::NoEnd(end);
    }
    let untested: Vec<usize> = (ends.into_iter())
        .filter(|&end| verdicts.get(end) == Some(&None))
        .collect();
    if !untested.is_empty() {
        return Next::Test(untested);
    }
    let is = |verdict| move |at: &usize| verdicts[*at] == Some(verdict);
    let first_bad = (1..=last).find(is(Verdict::Bad)).unwrap_or(last);
    let last_good = (0..first_bad).rev().find(is(Verdict::Good)).unwrap_or(0);
    let between = last_good + 1..first_bad;
    let open: Vec<usize> = between
        .clone()
        .filter(|&at| verdicts[at].is_none())
        .collect();
    if open.is_empty() {
        return Next::Found(ChangePosition {
            last_good,
            first_bad,
            skipped_between: between.collect(),
        });
    }
    let parts = together.clamp(1, open.len());
    let test = (1..=parts).map(|part| open[(part * (open.len() + 1) / (parts + 1)).max(1) - 1]);
    Next::Test(test.collect())
}

/// Returns the maximum number of further rounds for this many candidates between the ends, if none
/// is skipped.
pub fn rounds(between: usize, together: usize) -> u32 {
    let mut left = between;
    let mut rounds = 0;
    while left > 0 {
        left = (left + 1).div_ceil(together.clamp(1, left) + 1) - 1;
        rounds += 1;
    }
    rounds
}

/// The figures of the two ends, which differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ends {
    good: Figure,
    bad: Figure,
}

impl Ends {
    /// Returns comparable ends that differ by more than the sum of their half intervals, by more
    /// than the same image booted twice, and by at least `threshold_percent` of the good one.
    ///
    /// # Errors
    /// A message if they do not.
    pub fn new(
        good: Figure,
        bad: Figure,
        again: Option<f64>,
        threshold_percent: f64,
    ) -> Result<Ends, String> {
        if let Some(reason) = bad.not_comparable_with(&good) {
            return Err(format!("bad cannot be compared with good: {reason}"));
        }
        let more = bad.instructions_per_frame - good.instructions_per_frame;
        let noise = (good.half() + bad.half()).max(again.map_or(0.0, f64::abs));
        let percent = 100.0 * more / good.instructions_per_frame;
        let reported = format!("{more:+.1} ± {noise:.1} instructions per frame ({percent:+.2} %)");
        // NaN is not a difference either
        if !matches!(
            more.abs().partial_cmp(&noise),
            Some(std::cmp::Ordering::Greater)
        ) {
            return Err(format!("they do not differ by more than noise: {reported}"));
        }
        if percent.abs() < threshold_percent {
            return Err(format!(
                "they differ by less than the threshold of {threshold_percent} %: {reported}"
            ));
        }
        Ok(Ends { good, bad })
    }

    /// Returns how many instructions more the bad end takes.
    pub fn difference(&self) -> f64 {
        self.bad.instructions_per_frame - self.good.instructions_per_frame
    }

    /// Returns the verdict on a candidate, which is that of the end with the closer figure, and
    /// what makes it doubtful. One that cannot be compared with the ends is skipped, with the
    /// reason.
    pub fn judge(&self, figure: Figure) -> (Verdict, Option<String>) {
        if let Some(reason) = figure.not_comparable_with(&self.good) {
            return (Verdict::Skipped, Some(reason));
        }
        let [good, bad] = [self.good, self.bad].map(|end| end.instructions_per_frame);
        let [from_good, from_bad] =
            [good, bad].map(|end| (figure.instructions_per_frame - end).abs());
        let verdict = match from_bad < from_good {
            true => Verdict::Bad,
            false => Verdict::Good,
        };
        let nearest = from_bad.min(from_good);
        let whole = self.difference().abs();
        let own = figure.half();
        let doubt = match () {
            () if (from_bad - from_good).abs() / 2.0 <= own => {
                Some("in the middle between good and bad: there may be more than one change")
            }
            () if nearest > own + self.good.half().max(self.bad.half())
                && nearest > whole / 10.0 =>
            {
                Some("neither as good nor as bad: there is more than one change")
            }
            () => None,
        };
        (verdict, doubt.map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::campaign::Generator;
    use proptest::prelude::*;

    use super::*;

    fn figure(value: f64) -> Figure {
        Figure {
            instructions_per_frame: value,
            interval: [value - 2.0, value + 2.0],
            generator: Some(Generator::LiveFrames),
            frame_loss_ratio: 0.0,
        }
    }

    /// Searches with a known truth; returns the result, the tests between the ends, the skipped
    /// ones among them, and the rounds.
    fn search(
        n: usize,
        first_bad: usize,
        skip: &[bool],
        together: usize,
    ) -> (ChangePosition, usize, usize, u32) {
        let mut verdicts = vec![None; n];
        let (mut tests, mut skips, mut rounds) = (0, 0, 0);
        loop {
            match next(&verdicts, together) {
                Next::Test(which) => {
                    assert!(!which.is_empty());
                    assert!(rounds == 0 || which.len() <= together);
                    for at in which {
                        assert_eq!(verdicts[at], None, "{at} is tested twice");
                        let is_end = at == 0 || at == n - 1;
                        verdicts[at] = Some(match () {
                            () if skip[at] && !is_end => Verdict::Skipped,
                            () if at >= first_bad => Verdict::Bad,
                            () => Verdict::Good,
                        });
                        skips += usize::from(verdicts[at] == Some(Verdict::Skipped));
                        tests += usize::from(!is_end);
                    }
                    rounds += 1;
                }
                Next::Found(found) => return (found, tests, skips, rounds - 1),
                Next::NoEnd(end) => panic!("{end}"),
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_bad_is_found(
            n in 2..200usize,
            at in any::<prop::sample::Index>(),
            skip in prop::collection::vec(prop::bool::weighted(0.3), 200),
            together in 1..5usize,
        ) {
            let first_bad = 1 + at.index(n - 1);
            let (found, tests, skips, rounds) = search(n, first_bad, &skip, together);
            // no verdict is wrong, and all candidates in between had to be skipped
            prop_assert!(found.last_good < first_bad && first_bad <= found.first_bad);
            let between: Vec<usize> = (found.last_good + 1..found.first_bad).collect();
            prop_assert_eq!(&found.skipped_between, &between);
            prop_assert!(between.iter().all(|&at| skip[at]));
            if !skip[first_bad] && !skip[first_bad - 1] {
                prop_assert_eq!((found.last_good, found.first_bad), (first_bad - 1, first_bad));
            }
            if together == 1 {
                let most = (n as f64).log2().floor() as usize + 1 + skips;
                prop_assert!(tests <= most, "{} tests of {}", tests, n);
            }
            if skips == 0 {
                prop_assert!(rounds <= super::rounds(n - 2, together), "{} rounds", rounds);
            }
        }

        #[test]
        fn a_search_resumes_from_its_log(
            n in 2..60usize,
            at in any::<prop::sample::Index>(),
            known in prop::collection::vec(any::<bool>(), 60),
        ) {
            let first_bad = 1 + at.index(n - 1);
            let actual = |at| match at >= first_bad {
                true => Verdict::Bad,
                false => Verdict::Good,
            };
            let mut verdicts: Vec<_> = (0..n).map(|at| known[at].then(|| actual(at))).collect();
            while let Next::Test(which) = next(&verdicts, 1) {
                for at in which {
                    prop_assert_eq!(verdicts[at], None);
                    verdicts[at] = Some(actual(at));
                }
            }
            let found = ChangePosition { last_good: first_bad - 1, first_bad, skipped_between: Vec::new() };
            prop_assert_eq!(next(&verdicts, 1), Next::Found(found));
        }

        /// For more or fewer instructions, the verdict is that of the closer end.
        #[test]
        fn the_nearer_end_decides(good in 100.0..1e5, more in 5.0f64..1e4, fewer in any::<bool>(), share in 0.0..1.0) {
            let more = if fewer { -more } else { more };
            let ends = Ends::new(figure(good), figure(good + more), None, 0.0).unwrap();
            let (verdict, _) = ends.judge(figure(good + share * more));
            if share < 0.49 {
                prop_assert_eq!(verdict, Verdict::Good);
            } else if share > 0.51 {
                prop_assert_eq!(verdict, Verdict::Bad);
            }
        }
    }

    #[test]
    fn the_ends_come_first_and_must_be_testable() {
        assert_eq!(next(&[None, None, None], 1), Next::Test(vec![0, 2]));
        let good = Some(Verdict::Good);
        assert_eq!(next(&[good, None, None], 4), Next::Test(vec![2]));
        assert_eq!(
            next(&[good, None, Some(Verdict::Skipped)], 1),
            Next::NoEnd(2)
        );
        let bad = Some(Verdict::Bad);
        let of_ten: Vec<_> = (0..10)
            .map(|at| match at {
                0 => good,
                9 => bad,
                _ => None,
            })
            .collect();
        assert_eq!(next(&of_ten, 1), Next::Test(vec![4]));
        assert_eq!(next(&of_ten, 2), Next::Test(vec![3, 6]));
        // next to one that was skipped
        let mut skipped = of_ten.clone();
        skipped[4] = Some(Verdict::Skipped);
        assert_eq!(next(&skipped, 1), Next::Test(vec![5]));
        assert_eq!(rounds(8, 1), 4);
        assert_eq!(rounds(8, 2), 2);
        assert_eq!(rounds(0, 2), 0);
    }

    /// Measured: Linux 6.1 and 6.12, and the same kernel twice.
    #[test]
    fn ends_that_do_not_differ() {
        let ends = Ends::new(figure(4040.0), figure(4315.1), Some(-0.7), 1.0).unwrap();
        assert!((ends.difference() - 275.1).abs() < 1e-9);
        let reason = Ends::new(figure(4040.0), figure(4043.0), None, 0.0).unwrap_err();
        assert_eq!(
            reason,
            "they do not differ by more than noise: +3.0 ± 4.0 instructions per frame (+0.07 %)"
        );
        let reason = Ends::new(figure(4040.0), figure(4045.0), Some(6.0), 0.0).unwrap_err();
        assert!(reason.contains("+5.0 ± 6.0"), "{reason}");
        let reason = Ends::new(figure(4040.0), figure(4050.0), None, 1.0).unwrap_err();
        assert!(reason.contains("threshold of 1 %"), "{reason}");
        assert!(Ends::new(figure(f64::NAN), figure(1.0), None, 0.0).is_err());
    }

    /// Linux 5.18 brought another generator, whose frames take 12 % more: it changed nothing.
    #[test]
    fn counts_that_are_not_comparable_have_no_verdict() {
        let pktgen = |value| Figure {
            generator: Some(Generator::Pktgen),
            ..figure(value)
        };
        let reason = Ends::new(pktgen(3854.6), figure(4321.4), None, 0.0).unwrap_err();
        assert!(reason.contains("generator = \"pktgen\""), "{reason}");
        let ends = Ends::new(figure(4000.0), figure(4321.4), None, 0.0).unwrap();
        let lossy = Figure {
            frame_loss_ratio: 0.25,
            ..figure(4000.0)
        };
        for (candidate, words) in [(pktgen(4000.0), "pktgen"), (lossy, "were lost")] {
            let (verdict, reason) = ends.judge(candidate);
            assert_eq!(verdict, Verdict::Skipped);
            assert!(reason.unwrap().contains(words));
        }
    }

    #[test]
    fn figures_between_the_two_ends_are_reported() {
        let ends = Ends::new(figure(1000.0), figure(1100.0), None, 0.0).unwrap();
        assert_eq!(ends.judge(figure(1003.0)), (Verdict::Good, None));
        let (verdict, reason) = ends.judge(figure(1030.0));
        assert_eq!(verdict, Verdict::Good);
        assert!(reason.unwrap().contains("more than one change"));
        let (_, reason) = ends.judge(figure(1051.0));
        assert!(reason.unwrap().contains("in the middle"));
        // beyond the end
        let (verdict, reason) = ends.judge(figure(1200.0));
        assert!(verdict == Verdict::Bad && reason.is_some());
    }
}
