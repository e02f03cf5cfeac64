//! Instructions per frame: decides how many bursts are enough and which of them count, and combines
//! boots.
//!
//! Bursts are repeated until the median is known precisely enough; the deviations of the first
//! ones, while caches of the kernel warm up, are excluded. The only randomness is that of timers in
//! the guest's kernel, so medians are used, never means. Start with [`next`] and [`judge`].

use fwdlab_model::bisect::Figure;
use fwdlab_model::campaign;
use fwdlab_model::instructions::{
    BootRecord, BurstRecord, Difference, Exact, FunctionShare, Way, changes,
};
use fwdlab_model::outcome::{Compliance, Found, Outcome};
use fwdlab_model::stacks::Stacks;
use fwdlab_model::test_case::{Iteration, TestCase};
use fwdlab_model::trial::Stream;
use fwdlab_model::variant::Variant;

use crate::campaign::failure_of;

/// Id of the procedure.
pub const ID: &str = "exact";

/// With fewer bursts their spread is unknown.
pub const FEWEST: usize = 5;

/// More bursts do not help: something else is wrong.
pub const MOST: usize = 25;

/// A burst farther than this from the median of those after it belongs to the warm-up. Bursts of a
/// warm kernel are 0.02 % apart; first ones were 0.5 to 4 % below.
const WARM: f64 = 0.002;

/// The inherent difference between the medians of two boots, as a share of the instructions of the
/// whole path: 16 boots of Linux 6.1 and 6.12 on a busy host were within ±0.008 %.
const BETWEEN_BOOTS: f64 = 0.000_15;

/// Bursts of half the frames through a data plane that polls.
const HALVES: usize = 3;

/// How much the instructions per frame of half a burst may differ: more means work that is not on
/// frames, such as polls without any. In bursts of 20,000 they were 0.09 % more: starting and
/// stopping the data plane, the preparation of a burst, timers.
const PROPORTIONAL: f64 = 0.0025;

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Run another burst.
    Burst(Way),
    /// There are enough bursts.
    Done,
}

/// Ticks per instruction of a processor that counts instructions: what is measured is a loop and a
/// few more instructions.
const TICKS: std::ops::RangeInclusive<f64> = 0.999..=1.01;

/// Returns the next step after these bursts, on a data plane that `polls` or not. If no frame comes
/// back, more bursts are useless.
pub fn next(bursts: &[BurstRecord], p: &campaign::Exact, polls: bool) -> Next {
    if lost_all_frames(bursts) {
        return Next::Done;
    }
    for way in [Way::Through, Way::Past] {
        let values = per_frame(bursts, way);
        if values.len() < MOST && !is_enough(&values, p) {
            return Next::Burst(way);
        }
    }
    match polls && per_frame(bursts, Way::Half).len() < HALVES {
        true => Next::Burst(Way::Half),
        false => Next::Done,
    }
}

/// Returns true if no frame comes back.
pub fn lost_all_frames(bursts: &[BurstRecord]) -> bool {
    !bursts.is_empty() && bursts.iter().all(|burst| burst.received == 0)
}

fn is_enough(values: &[f64], p: &campaign::Exact) -> bool {
    let warm = &values[warm_up(values).min(values.len())..];
    warm.len() >= FEWEST && {
        let Median { median, low, high } = median(warm);
        // half of the interval, on both sides of the median
        (high - low) / 2.0 <= p.precision.0 / 100.0 * median
    }
}

/// Returns the instructions per frame of the bursts of one way, in order.
fn per_frame(bursts: &[BurstRecord], way: Way) -> Vec<f64> {
    let own = bursts.iter().filter(|burst| burst.way == way);
    own.map(|burst| burst.instructions as f64 / burst.sent.max(1) as f64)
        .collect()
}

/// Returns the number of first values to exclude, at least one.
fn warm_up(values: &[f64]) -> usize {
    let is_warm = |at: &usize| {
        let median = median(&values[*at..]).median;
        (values[*at] - median).abs() <= WARM * median
    };
    let most = values.len().saturating_sub(FEWEST);
    (1..values.len())
        .find(is_warm)
        .unwrap_or(1)
        .min(most.max(1))
}

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Median {
    median: f64,
    low: f64,
    high: f64,
}

/// Returns the median, with order statistics around it that have a coverage of at least 93 % for
/// any distribution: all of five values, without the outermost ones from nine on.
fn median(values: &[f64]) -> Median {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 {
        return Median {
            median: f64::NAN,
            low: f64::NAN,
            high: f64::NAN,
        };
    }
    let rank = outermost(n);
    Median {
        median: (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
        low: sorted[rank],
        high: sorted[n - 1 - rank],
    }
}

/// Returns the largest rank from below, counted from 0, below which the true median lies with a
/// probability of at most 3.5 %: binomial tails.
fn outermost(n: usize) -> usize {
    const TAIL: f64 = 0.035;
    let mut chance = 0.5f64.powi(n as i32);
    let mut sum = chance;
    let mut rank = 0;
    while sum <= TAIL && rank < (n - 1) / 2 {
        chance *= (n - rank) as f64 / (rank + 1) as f64;
        sum += chance;
        if sum > TAIL {
            break;
        }
        rank += 1;
    }
    rank
}

/// Returns the median bursts through and past the DUT among those that count, as indices among all:
/// the parts of one burst's profile belong together, unlike medians of parts.
pub fn middle(bursts: &[BurstRecord]) -> Option<[usize; 2]> {
    let of = |way| {
        let own: Vec<usize> = (0..bursts.len())
            .filter(|&at| bursts[at].way == way)
            .collect();
        let values = per_frame(bursts, way);
        let first = warm_up(&values).min(values.len().saturating_sub(1));
        let mut sorted: Vec<usize> = (first..values.len()).collect();
        sorted.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
        own.get(*sorted.get(sorted.len().saturating_sub(1) / 2)?)
            .copied()
    };
    Some([of(Way::Through)?, of(Way::Past)?])
}

/// Returns why the counts of a boot are invalid. Bursts of half the frames are those of a data
/// plane that polls: its counts are about frames only if it loses none, and needs half as many
/// instructions for half as many frames.
pub fn objections(ticks_per_instruction: f64, bursts: &[BurstRecord]) -> Vec<String> {
    let mut reasons = Vec::new();
    if !TICKS.contains(&ticks_per_instruction) {
        reasons.push(format!(
            "the machine's counter advances by {ticks_per_instruction:.3} per instruction and not by 1: it does not count them"
        ));
    }
    let halves = per_frame(bursts, Way::Half);
    if !halves.is_empty() {
        let mut own = bursts.iter().filter(|burst| burst.way != Way::Past);
        if let Some(lossy) = own.find(|burst| burst.received < burst.sent) {
            reasons.push(format!(
                "{} of {} frames that waited for the data plane were lost: instructions per frame are unknown",
                lossy.sent - lossy.received,
                lossy.sent
            ));
        }
        let whole = per_frame(bursts, Way::Through);
        let [whole, half] =
            [&whole[warm_up(&whole).min(whole.len())..], &halves].map(|of| median(of).median);
        let more = half / whole - 1.0;
        // not a number if there is nothing to compare with
        if more.is_nan() || more.abs() > PROPORTIONAL {
            reasons.push(format!(
                "instructions are not proportional to frames: half a burst takes {:+.2} % per frame, so a part of them is not work on frames; in longer bursts (frames) a fixed part is smaller",
                100.0 * more
            ));
        }
    }
    let mut past = bursts.iter().filter(|burst| burst.way == Way::Past);
    if past.any(|burst| burst.received < burst.sent) {
        reasons.push("frames were lost between generator and receiver, past the DUT".into());
    }
    reasons
}

/// Returns the reason why the counts are no steady state, if they are none: how many frames a data
/// plane had forwarded by its slow path after the first burst, which is omitted, and after the
/// last.
pub fn mixture(slow_path: [u64; 2]) -> Option<String> {
    let [first, last] = slow_path;
    (last != first).then(|| {
        format!(
            "{} frames after the first burst took the data plane's slow path: instructions per frame are those of two paths",
            last.abs_diff(first)
        )
    })
}

/// Returns the instructions per frame of each DUT function: those on the whole path minus those
/// past the DUT.
pub fn shares(through: &Stacks, past: &Stacks, frames: u32) -> Vec<FunctionShare> {
    /// Functions with fewer instructions per frame than this are not listed separately.
    const LEAST: f64 = 0.05;
    let per = |stacks: &Stacks| stacks.per(frames.into());
    let mut shares = changes(&per(past), &per(through), LEAST);
    shares.sort_by(|a, b| b.per_frame.total_cmp(&a.per_frame));
    shares
}

/// Returns the iteration that a boot is.
pub fn iteration(boot: &BootRecord) -> Iteration {
    let outcomes = vec![outcome(&boot.stream, boot)];
    Iteration {
        iteration: boot.iteration,
        failure: failure_of(&outcomes),
        outcomes,
        trials: vec![boot.boot],
        ..Iteration::default()
    }
}

/// Returns the iterations of a test case, each of which is a guest.
pub fn iterations(boots: &[BootRecord], test_case: &str) -> Vec<Iteration> {
    let own = boots.iter().filter(|boot| boot.test_case == test_case);
    own.filter(|boot| !boot.control).map(iteration).collect()
}

/// Returns the iterations of the A/A control.
pub fn controls(boots: &[BootRecord]) -> Vec<Iteration> {
    let controls = boots.iter().filter(|boot| boot.control);
    controls.map(iteration).collect()
}

/// Returns the result of a boot.
///
/// # Errors
/// Why there is none.
pub fn judge(record: &BootRecord) -> Result<Exact, String> {
    if !record.validity.is_valid() {
        return Err(record.validity.reasons.join("; "));
    }
    let [through, past] = [Way::Through, Way::Past].map(|way| per_frame(&record.bursts, way));
    let sum = |way: Way, of: fn(&BurstRecord) -> u64| -> u64 {
        let own = record.bursts.iter().filter(|burst| burst.way == way);
        own.map(of).sum()
    };
    let (sent, received) = (
        sum(Way::Through, |burst| burst.sent),
        sum(Way::Through, |burst| burst.received),
    );
    if received == 0 {
        return Err(format!("did not forward: 0 of {sent} frames came back"));
    }
    let warm_up = warm_up(&through);
    if through.len() < warm_up + FEWEST || past.is_empty() {
        return Err(format!("only {} bursts were made", through.len()));
    }
    let whole = median(&through[warm_up..]);
    let own = median(&past[self::warm_up(&past).min(past.len() - 1)..]);
    let between = BETWEEN_BOOTS * whole.median;
    Ok(Exact {
        image: record.image.clone(),
        kernel: record.kernel.clone(),
        generator: record.generator,
        instructions_per_frame: whole.median - own.median,
        interval: [
            whole.low - own.high - between,
            whole.high - own.low + between,
        ],
        through_per_frame: whole.median,
        tester_per_frame: own.median,
        frames: record.frames,
        bursts: (through.len() - warm_up) as u32,
        warm_up: warm_up as u32,
        frame_loss_ratio: (sent - received.min(sent)) as f64 / sent.max(1) as f64,
        functions: record.functions.clone(),
        difference: None,
        not_compared: None,
    })
}

/// Returns the outcome of a boot.
fn outcome(stream: &Stream, record: &BootRecord) -> Outcome {
    let (found, verdict, answered) = match judge(record) {
        Ok(found) => {
            let verdict = format!("{:.1} instructions per frame", found.instructions_per_frame);
            (found, verdict, true)
        }
        Err(reason) => {
            let found = Exact {
                image: record.image.clone(),
                kernel: record.kernel.clone(),
                generator: record.generator,
                instructions_per_frame: 0.0,
                interval: [0.0; 2],
                through_per_frame: 0.0,
                tester_per_frame: 0.0,
                frames: record.frames,
                bursts: 0,
                warm_up: 0,
                frame_loss_ratio: 0.0,
                functions: Vec::new(),
                difference: None,
                not_compared: None,
            };
            (found, reason, false)
        }
    };
    let mut warnings = Vec::new();
    if found.frame_loss_ratio > 0.0 {
        warnings.push(format!(
            "{:.3} % of the frames were lost: instructions are per frame sent",
            100.0 * found.frame_loss_ratio
        ));
    }
    Outcome {
        frame_size_bytes: stream.frame_size_bytes,
        variant: Variant::default(),
        found: Found::Exact(Box::new(found)),
        verdict,
        answered,
        not_applicable: false,
        compliance: Compliance::default(),
        warnings,
        trials: record.bursts.len() as u32,
    }
}

/// Combines boots of one test case: the median of their results, with an interval no narrower than
/// their differences.
pub fn combine(found: &[&Exact]) -> Option<Exact> {
    let first = *found.first()?;
    let of = |value: fn(&Exact) -> f64| median(&found.iter().map(|f| value(f)).collect::<Vec<_>>());
    let values = of(|f| f.instructions_per_frame);
    let own = of(Exact::half_width).median;
    let apart = (found.iter()).fold(0.0f64, |most, f| {
        most.max((f.instructions_per_frame - values.median).abs())
    });
    let half = own.max(apart);
    Some(Exact {
        instructions_per_frame: values.median,
        interval: [values.median - half, values.median + half],
        through_per_frame: of(|f| f.through_per_frame).median,
        tester_per_frame: of(|f| f.tester_per_frame).median,
        // a boot that loses frames must not disappear among others
        frame_loss_ratio: (found.iter()).fold(0.0f64, |most, f| most.max(f.frame_loss_ratio)),
        bursts: found.iter().map(|f| f.bursts).sum(),
        warm_up: found.iter().map(|f| f.warm_up).max().unwrap_or(0),
        functions: found
            .iter()
            .find(|f| !f.functions.is_empty())
            .map_or_else(Vec::new, |f| f.functions.clone()),
        ..first.clone()
    })
}

/// Returns how much more this costs than the reference.
pub fn difference(name: &str, reference: &Exact, this: &Exact) -> Difference {
    let more = this.instructions_per_frame - reference.instructions_per_frame;
    let half = reference.half_width() + this.half_width();
    Difference {
        reference: name.to_owned(),
        instructions_per_frame: more,
        interval: [more - half, more + half],
        percent: 100.0 * more / reference.instructions_per_frame,
        proven: more.abs() > half,
        functions: functions(reference, this),
    }
}

/// Returns the functions that take more or less, the largest differences first.
fn functions(reference: &Exact, this: &Exact) -> Vec<FunctionShare> {
    /// A tenth of an instruction may be a timer's.
    const LEAST: f64 = 0.5;
    const MOST: usize = 12;
    if reference.functions.is_empty() || this.functions.is_empty() {
        return Vec::new();
    }
    let mut shares = changes(&reference.profile(), &this.profile(), LEAST);
    shares.truncate(MOST);
    shares
}

/// Compares test cases with the reference. That is a configuration, with the same traffic on the
/// same image, and on the first image for the configuration itself; or an image, with the same
/// traffic and configuration. The very first reference is compared with its control, whose
/// iterations these are.
pub fn compare(cases: &mut [TestCase], reference: &str, control: &[Iteration]) {
    let controls: Vec<&Exact> = control.iter().filter_map(found).collect();
    let control = combine(&controls);
    let is_reference = |case: &TestCase| case.case.is_reference(reference);
    let first_of_all = cases.iter().position(is_reference);
    for at in 0..cases.len() {
        let own = &cases[at].case;
        let mut alike = (0..cases.len()).filter(|&other| {
            let of = &cases[other].case;
            let is_alike = match of.configuration == reference {
                true => is_reference(&cases[at]) || of.image == own.image,
                false => of.configuration == own.configuration,
            };
            let is_alike = is_alike && of.dut == own.dut;
            is_reference(&cases[other]) && of.stream == own.stream && is_alike
        });
        let Some(first) = alike.next() else { continue };
        let name = cases[first].test_case.clone();
        let other = match () {
            () if Some(at) == first_of_all => control.clone(),
            () if at == first => None,
            () => exact_of(&cases[at]).cloned(),
        };
        let (Some(reference), Some(other)) = (exact_of(&cases[first]), other) else {
            continue;
        };
        let (difference, not_compared) =
            match Figure::from(&other).not_comparable_with(&Figure::from(reference)) {
                Some(reason) => (None, Some(reason)),
                None => (Some(difference(&name, reference, &other)), None),
            };
        for outcome in &mut cases[at].outcomes {
            if let Found::Exact(found) = &mut outcome.found {
                found.difference.clone_from(&difference);
                found.not_compared.clone_from(&not_compared);
            }
        }
    }
    // a reference that differs from itself cannot be compared with others
    let itself = first_of_all.and_then(|at| exact_of(&cases[at])?.difference.clone());
    if let Some(itself) = itself.filter(|itself| itself.proven) {
        for case in cases.iter_mut() {
            case.doubt = Some(format!(
                "the reference differs from itself by {:+.1} instructions per frame in another boot",
                itself.instructions_per_frame
            ));
        }
    }
    let outcomes = cases.iter_mut().flat_map(|case| &mut case.outcomes);
    for outcome in outcomes.filter(|outcome| outcome.answered) {
        if let Found::Exact(found) = &outcome.found {
            outcome.verdict = words(found);
        }
    }
}

/// Describes a result.
pub fn words(found: &Exact) -> String {
    let [low, high] = found.interval;
    let mut words = format!(
        "{:.1} ± {:.1} instructions per frame",
        found.instructions_per_frame,
        (high - low) / 2.0
    );
    if let Some(difference) = &found.difference {
        let [low, high] = difference.interval;
        words += &format!(
            ", {:+.1} ± {:.1} ({:+.2} %) {}",
            difference.instructions_per_frame,
            (high - low) / 2.0,
            difference.percent,
            match difference.proven {
                true => "proven",
                false => "not proven",
            }
        );
    }
    words
}

/// Returns the result if the outcome is of this procedure.
pub(crate) fn found_of(outcome: &Outcome) -> Option<&Exact> {
    match &outcome.found {
        Found::Exact(found) if outcome.answered => Some(found),
        _ => None,
    }
}

fn found(iteration: &Iteration) -> Option<&Exact> {
    iteration.outcomes.iter().find_map(found_of)
}

/// Returns the result of a test case.
pub fn exact_of(case: &TestCase) -> Option<&Exact> {
    case.outcomes.iter().find_map(found_of)
}

#[cfg(test)]
mod tests {
    use fwdlab_model::result::Validity;

    use super::*;

    fn bursts(way: Way, per_frame: &[f64]) -> Vec<BurstRecord> {
        let one = |value: &f64| BurstRecord {
            way,
            sent: 20_000,
            received: 20_000,
            instructions: (value * 20_000.0) as u64,
        };
        per_frame.iter().map(one).collect()
    }

    fn boot(through: &[f64], past: &[f64]) -> BootRecord {
        BootRecord {
            boot: 1,
            started_at: "2026-11-22T12:00:00Z".into(),
            test_case: "plain/64B-1000flows-ipv4".into(),
            iteration: 1,
            control: false,
            image: "debian:linux-image-6.1.0-56-cloud-amd64".into(),
            kernel: "6.1.0-56-cloud-amd64".into(),
            generator: Some(campaign::Generator::LiveFrames),
            ticks_per_instruction: 1.0,
            shared: false,
            boot_s: 3.0,
            stream: Stream::new(
                fwdlab_model::trial::IpVersion::Ipv4,
                fwdlab_model::units::FrameSize::MIN,
                1000,
            )
            .unwrap(),
            frames: 20_000,
            bursts: [bursts(Way::Through, through), bursts(Way::Past, past)].concat(),
            functions: Vec::new(),
            validity: Validity::default(),
        }
    }

    /// Measured: the first boot of 6.1 with one rule and without.
    const PLAIN: [f64; 6] = [6656.35, 6797.80, 6797.70, 6797.34, 6797.61, 6797.56];
    const PAST: [f64; 6] = [1997.61, 1997.62, 1998.52, 1997.53, 1998.52, 1997.78];
    const RULE: [f64; 6] = [6894.46, 7197.68, 7197.88, 7197.79, 7197.90, 7197.88];

    #[test]
    fn bursts_are_sent_until_the_median_is_known() {
        let p = campaign::Exact::default();
        let mut made: Vec<BurstRecord> = Vec::new();
        let mut actual = [PLAIN.iter().cycle(), PAST.iter().cycle()];
        while let Next::Burst(way) = next(&made, &p, false) {
            let value = *actual[way as usize].next().unwrap();
            made.extend(bursts(way, &[value]));
        }
        let of = |way| made.iter().filter(|burst| burst.way == way).count();
        assert_eq!((of(Way::Through), of(Way::Past)), (6, 6));

        // a timer's work in one of five: more bursts
        let mut disturbed = bursts(Way::Through, &PLAIN);
        disturbed[3].instructions += 8_000_000;
        assert_eq!(next(&disturbed, &p, false), Next::Burst(Way::Through));
        // and it ends for any values
        let noise: Vec<f64> = (0..100)
            .map(|n| 5000.0 + 500.0 * f64::from(n % 7))
            .collect();
        let wild = bursts(Way::Through, &noise[..MOST]);
        assert_eq!(next(&wild, &p, false), Next::Burst(Way::Past));
    }

    #[test]
    fn the_cost_of_a_rule_is_found() {
        let (plain, rule) = (boot(&PLAIN, &PAST), boot(&RULE, &PAST));
        let (plain, rule) = (judge(&plain).unwrap(), judge(&rule).unwrap());
        assert_eq!((plain.warm_up, plain.bursts), (1, 5));
        assert!(
            (plain.instructions_per_frame - 4799.9).abs() < 0.2,
            "{plain:?}"
        );
        let more = difference("plain", &plain, &rule);
        assert!(
            (more.instructions_per_frame - 400.3).abs() < 0.2,
            "{more:?}"
        );
        assert!(more.proven && more.interval[0] > 394.0 && more.interval[1] < 407.0);
        let none = difference("plain", &plain, &plain);
        assert!(!none.proven && none.interval[0] < 0.0);
    }

    /// Order statistics: with n values the median lies between the k-th smallest and the k-th
    /// largest with a probability of 1 - 2 P(Bin(n, 1/2) < k).
    /// The control has boots and a name of its own.
    #[test]
    fn boots_are_the_iterations_of_their_test_case() {
        let (first, mut broken, mut again) = (
            boot(&PLAIN, &PAST),
            boot(&PLAIN, &PAST),
            boot(&PLAIN, &PAST),
        );
        (broken.boot, broken.iteration, again.boot) = (2, 2, 3);
        broken.validity.reasons = objections(1.5, &broken.bursts);
        again.control = true;
        let boots = [first.clone(), broken, again];
        let made = iterations(&boots, &first.test_case);
        let shown: Vec<_> = (made.iter())
            .map(|one| (one.iteration, &one.trials[..], one.failure.is_some()))
            .collect();
        assert_eq!(shown, [(1, &[1][..], false), (2, &[2][..], true)]);
        assert_eq!(controls(&boots).len(), 1);
        assert_eq!(iterations(&boots, "other"), []);
    }

    #[test]
    fn a_boot_counts_if_instructions_are_counted_and_the_tester_loses_nothing() {
        let good = boot(&PLAIN, &PAST);
        assert_eq!(objections(1.0, &good.bursts), ["x"; 0]);
        for ticks in [0.99, 1.02] {
            assert!(objections(ticks, &good.bursts)[0].contains("does not count them"));
        }
        let lossy = |way: Way| {
            let mut bursts = good.bursts.clone();
            let mut own = bursts.iter_mut().filter(|burst| burst.way == way);
            own.next().unwrap().received -= 1;
            objections(1.0, &bursts).len()
        };
        // through the DUT, loss is a result
        assert_eq!((lossy(Way::Through), lossy(Way::Past)), (0, 1));
    }

    /// A burst of a data plane that polls costs the same for every frame, if none is lost and no
    /// instruction is executed without frames.
    #[test]
    fn counts_of_a_poller_are_proportional_to_frames() {
        let p = campaign::Exact::default();
        let mut made = boot(&PLAIN, &PAST).bursts;
        assert_eq!(next(&made, &p, false), Next::Done);
        // `gap`: instructions of polls without frames, in every burst
        let half = |made: &[BurstRecord], gap: u64| {
            let mut halves = bursts(Way::Half, &[6798.0; HALVES]);
            for burst in &mut halves {
                (burst.sent, burst.received) = (10_000, 10_000);
                burst.instructions = burst.instructions / 2 + gap;
            }
            let whole = made.iter().cloned().map(|mut burst| {
                burst.instructions += if burst.way == Way::Through { gap } else { 0 };
                burst
            });
            whole.chain(halves).collect::<Vec<_>>()
        };
        for wanted in 0..HALVES {
            assert_eq!(next(&made, &p, true), Next::Burst(Way::Half), "{wanted}");
            made.extend(bursts(Way::Half, &[6798.0]));
        }
        assert_eq!(next(&made, &p, true), Next::Done);

        let made = boot(&PLAIN, &PAST).bursts;
        assert_eq!(objections(1.0, &half(&made, 0)), ["x"; 0]);
        // 0.2 % of a burst: the data plane starts and stops
        assert_eq!(objections(1.0, &half(&made, 300_000)), ["x"; 0]);
        let reasons = objections(1.0, &half(&made, 1_000_000));
        assert!(
            reasons[0].contains("not proportional to frames"),
            "{reasons:?}"
        );
        assert!(reasons[0].contains("+0.74 %"), "{reasons:?}");
        let mut lossy = half(&made, 0);
        lossy[1].received -= 7;
        let reasons = objections(1.0, &lossy);
        assert!(reasons[0].contains("7 of 20000 frames"), "{reasons:?}");
    }

    #[test]
    fn frames_on_the_slow_path_spoil_a_steady_state() {
        assert_eq!(mixture([2000, 2000]), None);
        let reason = mixture([2000, 2003]).unwrap();
        assert!(reason.starts_with("3 frames after the first"), "{reason}");
        // a data plane that restarted counts from 0
        assert!(mixture([2000, 1]).is_some());
    }

    #[test]
    fn functions_of_the_dut_are_those_that_the_tester_does_not_execute() {
        let stacks = |text: &str| text.parse::<Stacks>().unwrap();
        let through = stacks("a;send 1000\na;route 3000\na;rare 4\n");
        let past = stacks("a;send 990\n");
        let shares: Vec<_> = (shares(&through, &past, 100).into_iter())
            .map(|share| (share.function, share.per_frame))
            .collect();
        let right = [("route".to_owned(), 30.0), ("send".to_owned(), 0.1)];
        assert_eq!(shares.len(), 2, "{shares:?}");
        for ((function, per_frame), (name, right)) in shares.iter().zip(right) {
            assert!(
                *function == name && (per_frame - right).abs() < 1e-9,
                "{function}"
            );
        }
    }

    #[test]
    fn the_interval_of_a_median() {
        for (n, rank) in [(5, 0), (8, 0), (9, 1), (11, 2), (15, 3), (25, 7)] {
            assert_eq!(outermost(n), rank, "{n}");
            let choose = |k: usize| (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64);
            let below: f64 = (0..=rank).map(choose).sum::<f64>() / 2f64.powi(n as i32);
            assert!(below <= 0.035, "{n}: {below}");
        }
        let m = median(&[5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!((m.low, m.median, m.high), (1.0, 3.0, 5.0));
    }

    #[test]
    fn unusable_bursts_have_a_reason() {
        let mut dead = boot(&PLAIN, &PAST);
        for burst in &mut dead.bursts {
            burst.received = 0;
        }
        assert!(lost_all_frames(&dead.bursts));
        // more bursts are useless, however few there are
        let p = campaign::Exact::default();
        assert_eq!(next(&dead.bursts[..1], &p, true), Next::Done);
        let reason = judge(&dead).unwrap_err();
        assert_eq!(reason, "did not forward: 0 of 120000 frames came back");
        let short = boot(&PLAIN[..3], &PAST);
        assert_eq!(judge(&short).unwrap_err(), "only 3 bursts were made");
        let mut invalid = boot(&PLAIN, &PAST);
        invalid.validity.reasons = vec!["it is 3 o'clock".into()];
        assert_eq!(judge(&invalid).unwrap_err(), "it is 3 o'clock");
    }

    /// A boot whose frames take this many instructions more.
    fn booted(more: f64) -> Iteration {
        iteration(&boot(&PLAIN.map(|value| value + more), &PAST))
    }

    fn case(configuration: &str, image: &str, more: f64) -> TestCase {
        let case = campaign::Case {
            configuration: configuration.into(),
            stream: boot(&PLAIN, &PAST).stream,
            variant: Variant::default(),
            image: Some(image.into()),
            dut: campaign::Kind::Linux,
        };
        crate::campaign::summarise(case.id(), &case, vec![booted(more)])
    }

    #[test]
    fn the_reference_is_a_configuration_or_an_image() {
        let differences = |reference: &str| {
            let mut cases = [
                case("plain", "a", 0.0),
                case("rule", "a", 400.0),
                case("plain", "b", 30.0),
                case("rule", "b", 500.0),
            ];
            compare(&mut cases, reference, &[booted(1.0)]);
            cases.map(|case| {
                let found = exact_of(&case)?.difference.clone()?;
                let more = found.instructions_per_frame.round();
                Some((found.reference.replace("64B-1000flows-ipv4@", ""), more))
            })
        };
        let more = |reference: &str, more: f64| Some((reference.to_owned(), more));
        // each with the reference on its image, which is compared with that on the first
        let by_configuration = [
            ("plain/a", 1.0),
            ("plain/a", 400.0),
            ("plain/a", 30.0),
            ("plain/b", 470.0),
        ];
        assert_eq!(
            differences("plain"),
            by_configuration.map(|(name, of)| more(name, of))
        );
        // each with its configuration on the reference
        let by_image = [
            more("plain/a", 1.0),
            None,
            more("plain/a", 30.0),
            more("rule/a", 100.0),
        ];
        assert_eq!(differences("a"), by_image);
    }

    /// `plain` of testpmd is another program than that of Linux.
    #[test]
    fn kinds_of_duts_are_not_compared() {
        let mut cases = [
            case("plain", "a", 0.0),
            case("plain", "a", 5000.0),
            case("mac", "a", 5100.0),
        ];
        for case in &mut cases[1..] {
            case.case.dut = campaign::Kind::Testpmd;
            case.test_case = case.case.id();
        }
        compare(&mut cases, "plain", &[]);
        let references = cases.each_ref().map(|case| {
            let difference = exact_of(case)?.difference.clone()?;
            Some(difference.reference)
        });
        let plain = cases[1].test_case.clone();
        assert_eq!(references, [None, None, Some(plain)]);
    }

    /// A reference that differs from itself in another boot cannot be compared with others.
    #[test]
    fn a_reference_that_differs_from_itself_casts_doubt_on_all() {
        let doubts = |control: f64| {
            let mut cases = [case("plain", "a", 0.0), case("rule", "a", 400.0)];
            compare(&mut cases, "plain", &[booted(control)]);
            cases.map(|case| case.doubt)
        };
        assert_eq!(doubts(1.0), [None, None]);
        for doubt in doubts(50.0) {
            let doubt = doubt.unwrap();
            assert!(doubt.contains("+50.0 instructions"), "{doubt}");
        }
    }

    /// The DUT executes different instructions for the frames of another generator, and those of an
    /// unknown one may be others.
    #[test]
    fn counts_of_two_generators_are_not_compared() {
        use campaign::Generator::{LiveFrames, Pktgen};
        let compared = |generators: [Option<campaign::Generator>; 2]| {
            let mut cases = [case("plain", "a", 0.0), case("plain", "b", 400.0)];
            for (case, generator) in cases.iter_mut().zip(generators) {
                if let Found::Exact(found) = &mut case.outcomes[0].found {
                    found.generator = generator;
                }
            }
            compare(&mut cases, "plain", &[]);
            let [_, other] = cases;
            let found = exact_of(&other).unwrap().clone();
            (found.difference.is_some(), found.not_compared, other)
        };
        for alike in [None, Some(LiveFrames), Some(Pktgen)] {
            let (is_compared, reason, _) = compared([alike, alike]);
            assert!(is_compared && reason.is_none(), "{reason:?}");
        }
        for unlike in [
            [Some(LiveFrames), Some(Pktgen)],
            [Some(Pktgen), Some(LiveFrames)],
            [None, Some(Pktgen)],
            [Some(LiveFrames), None],
        ] {
            let (is_compared, reason, other) = compared(unlike);
            assert!(!is_compared && reason.is_some(), "{unlike:?}");
            // the count itself is good
            assert_eq!(other.doubt, None);
            assert!(!other.outcomes[0].verdict.contains("proven"));
        }
        let (_, reason, _) = compared([Some(LiveFrames), Some(Pktgen)]);
        let words = "its frames came from pktgen, those of the reference from live frames";
        assert!(reason.unwrap().starts_with(words));
    }

    /// A head that drops frames takes fewer instructions for them: that is no improvement. What
    /// both drop alike, such as by a rule under test, is no reason.
    #[test]
    fn counts_with_other_losses_are_not_compared() {
        let lossy = |lost: u64| {
            let mut one = boot(&PLAIN, &PAST);
            let through = one
                .bursts
                .iter_mut()
                .filter(|burst| burst.way == Way::Through);
            through.for_each(|burst| burst.received -= lost);
            iteration(&one)
        };
        let compared = |base: &[u64], head: &[u64]| {
            let mut cases = [case("plain", "a", 0.0), case("plain", "b", 0.0)];
            for (own, lost) in cases.iter_mut().zip([base, head]) {
                let made = lost.iter().map(|lost| lossy(*lost)).collect();
                *own = crate::campaign::summarise(own.test_case.clone(), &own.case, made);
            }
            compare(&mut cases, "plain", &[]);
            let found = exact_of(&cases[1]).unwrap().clone();
            assert_eq!(found.difference.is_some(), found.not_compared.is_none());
            found.not_compared
        };
        // a single frame, and a single boot of three
        assert!(compared(&[0], &[1]).is_some());
        assert!(compared(&[0, 0, 0], &[0, 0, 700]).is_some());
        // frames that only the base loses cost the head more
        assert!(compared(&[700], &[0]).is_some());
        assert!(compared(&[700], &[900]).is_some());
        for alike in [0, 1, 700] {
            assert_eq!(compared(&[alike], &[alike]), None);
        }
        assert_eq!(compared(&[700], &[701]), None);
        let reason = compared(&[0], &[640]).unwrap();
        assert!(
            reason.contains("3.20 % were lost, of those of the reference none"),
            "{reason}"
        );
        let reason = compared(&[2000], &[2010]).unwrap();
        assert!(
            reason.contains("10.05 %") && reason.contains("10.00 %"),
            "{reason}"
        );
    }

    /// The interval is no narrower than the differences between boots.
    #[test]
    fn boots_together() {
        let boots = [0.0, 20.0, 4.0].map(|more| {
            let through = PLAIN.map(|value| value + more);
            judge(&boot(&through, &PAST)).unwrap()
        });
        let all = combine(&boots.iter().collect::<Vec<_>>()).unwrap();
        assert!((all.instructions_per_frame - 4803.9).abs() < 0.2, "{all:?}");
        let [low, high] = all.interval;
        assert!((high - low - 32.0).abs() < 0.5, "{low} to {high}");
        assert!(combine(&[]).is_none());
    }
}
