//! `fwdlab doctor`: is this host fit, and what would make it fit.

use std::time::Duration;

use lab::placement::Placement;
use lab::preflight::{self, Check, Status};
use lab::probe;
use lab::registry::Registry;

use super::Global;
use crate::exit_code::Code;
use crate::output;

/// Noise is measured for so long.
const NOISE: Duration = Duration::from_secs(2);

/// Runs it.
pub fn run(global: &Global) -> anyhow::Result<Code> {
    let runs = global.runs_root()?;
    let mut checks = preflight::host(&runs);
    checks.push(preflight::labs(standing_labs));
    checks.push(noise()?);
    let failures = count(&checks, Status::Fail);
    if global.json {
        output::json(&checks)?;
    } else {
        let shown = checks.iter().filter(|check| {
            global.verbosity() != output::Verbosity::Quiet || check.status != Status::Ok
        });
        for check in shown {
            output::result(&line(check));
        }
        output::result(&format!(
            "{} ok, {} warnings, {failures} failures, {} skipped",
            count(&checks, Status::Ok),
            count(&checks, Status::Warn),
            count(&checks, Status::Skip)
        ));
    }
    Ok(if failures > 0 {
        Code::Preflight
    } else {
        Code::Done
    })
}

fn count(checks: &[Check], status: Status) -> usize {
    checks.iter().filter(|check| check.status == status).count()
}

fn line(check: &Check) -> String {
    let word = match check.status {
        Status::Ok => "ok",
        Status::Warn => "warn",
        Status::Fail => "FAIL",
        Status::Skip => "skip",
    };
    let mut text = format!("{word:<5} {:<22} {}", check.name, check.finding);
    if let Some(fix) = &check.fix {
        text += &format!("\n{:28} fix: {fix}", "");
    }
    text
}

/// Labs that stand now, in words.
fn standing_labs() -> Result<Vec<String>, String> {
    let labs = Registry::open()
        .and_then(|registry| registry.list())
        .map_err(|e| e.to_string())?;
    Ok(labs
        .iter()
        .map(|lab| {
            let state = if lab.in_use { "in use" } else { "left behind" };
            format!("{} ({state})", lab.record.id)
        })
        .collect())
}

/// The probe on the CPU that a DUT would get.
fn noise() -> anyhow::Result<Check> {
    let placement = Placement::choose(&[])?;
    let cpus = placement.dut_cpus;
    let check = std::thread::spawn(move || {
        let _ = engine::port::pin(&cpus);
        preflight::noise(NOISE, || {
            std::thread::sleep(Duration::from_millis(4));
            probe::reading()
        })
    })
    .join();
    check.map_err(|_| anyhow::anyhow!("the probe's thread panicked"))
}
