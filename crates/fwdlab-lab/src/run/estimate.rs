//! What is known about loads, trials and times before anything is measured.
//!
//! Estimates for plans; the only place with typical figures. Start with [`estimated`].

use std::time::Duration;

use fwdlab_engine::sim::Dut;
use fwdlab_measure::machine::{Asked, Limit, make};
use fwdlab_measure::remaining::{Capacities, Capacity, Tally, ahead};
use fwdlab_model::link::MeanSize;
use fwdlab_model::units::FrameSize;

use super::device::OVERHEAD;
use super::largest_load::Bounds;
use crate::error::LabError;
use crate::site::Site;

/// The largest load of an estimate, if the tester's own limit is unknown.
const TYPICAL_MAX_PPS: f64 = 5e6;

/// Share of the largest load that an unknown DUT forwards in overload, for estimates.
const TYPICAL_SHARE: f64 = 0.15;

/// Share of that rate at which it loses no frame: 0.5 to 0.9 for routers with CPUs of their own,
/// 0.07 to 0.35 for the test bed of a virtual machine.
const LOSSLESS_SHARE: f64 = 0.25;

/// Time for a bed, and an engine that proves itself.
const BED: Duration = Duration::from_millis(500);

/// Duration of the search for the tester's largest load, for every frame size.
const SOUGHT: Duration = Duration::from_millis(4500);

/// Time that a bed of hosts over SSH takes in addition, to be built and restored: some 40 commands,
/// and two readings of all settings.
const FAR_BED: Duration = Duration::from_secs(8);

/// Returns the additional time of a bed of this site.
pub(super) fn far_bed(site: &Site) -> Duration {
    match site.is_local() {
        true => Duration::ZERO,
        false => FAR_BED,
    }
}

/// Returns the time before the first trial on a bed, for this number of frame sizes.
pub(super) fn before(sizes: usize, is_max_known: bool) -> Duration {
    match is_max_known {
        true => BED,
        false => BED + SOUGHT * sizes as u32,
    }
}

/// Returns the known or likely limits for frames of these sizes and mean sizes.
pub(super) fn likely_limits(
    sizes: impl Iterator<Item = (FrameSize, MeanSize)>,
    dut: Option<&Dut>,
    bounds: Bounds,
) -> Result<Vec<Limit>, LabError> {
    let largest = sizes.map(|(size, mean)| match dut {
        Some(dut) => bounds.on(dut, size, mean),
        None => bounds.likely(size, mean, TYPICAL_MAX_PPS),
    });
    largest.collect()
}

/// Returns what is known about the capacity before any trial: exact for a simulated DUT.
pub(super) fn capacities(dut: Option<&Dut>, limits: &[Limit]) -> Capacities {
    let largest = limits.iter().map(|limit| limit.max_load_pps);
    let guess = || {
        let overload_pps = TYPICAL_SHARE * largest.fold(0.0, f64::max);
        Capacity {
            lossless_pps: LOSSLESS_SHARE * overload_pps,
            overload_pps,
        }
    };
    Capacities::guess(dut.map_or_else(guess, |dut| dut.capacity_pps.into()))
}

/// Returns the share of this machine's CPUs that programs requested in the last minute.
fn others() -> f64 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load
        .split(' ')
        .next()
        .and_then(|load| load.parse().ok())
        .unwrap_or(0.0);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (load / cpus as f64).clamp(0.0, 1.0)
}

/// Returns trials and time: exact for a simulated DUT without noise, a guess for any other.
pub(super) fn estimated(
    requested: &Asked,
    limits: &[Limit],
    dut: Option<&Dut>,
) -> Result<(u32, Duration), LabError> {
    let (overhead, attempts) = match dut {
        Some(_) => (Duration::ZERO, 1.0),
        None => (OVERHEAD, Tally::default().per_trial_with_load(others())),
    };
    let mut procedure = make(requested, limits).map_err(LabError::Preflight)?;
    let lookahead = ahead(procedure.as_mut(), &capacities(dut, limits));
    let time = Duration::from_nanos(lookahead.ns) + overhead * lookahead.trials;
    Ok((lookahead.trials, time.mul_f64(attempts)))
}
