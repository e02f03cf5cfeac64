//! `fwdlab doctor`: checks whether this host is fit to measure, and how to improve it. Start with
//! [`Doctor::run`].

use std::path::Path;
use std::time::Duration;

use clap::Args;
use fwdlab_lab::host::registry::Registry;
use fwdlab_lab::placement::Placement;
use fwdlab_lab::preflight::{self, Check, Status};
use fwdlab_lab::user_namespace;
use fwdlab_lab::witness::probe::Probes;
use fwdlab_model::test_bed::BedFile;
use fwdlab_report::number::counted;
use fwdlab_report::table::wrap;

use super::session::Signals;
use super::{Global, test_bed};
use crate::exit_code::Code;
use crate::output::{self, Level};

/// Duration of the noise measurement.
const NOISE: Duration = Duration::from_secs(2);

/// Columns of a terminal that has room for names and findings next to each other.
const WIDE: usize = 70;

/// Check whether this host or a test bed is fit for measurements
///
/// Each failure comes with its fix.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Check this test bed instead of this host: a file, or its name in a folder `beds`
    #[arg(value_name = "BED")]
    bed: Option<String>,
}

impl Doctor {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        match self.bed {
            Some(name) => check_bed(&name, global),
            None => check_this_host(global),
        }
    }
}

fn check_bed(name: &str, global: &Global) -> anyhow::Result<Code> {
    let bed = test_bed::find(Path::new(""), name)?;
    let signals = Signals::catch()?;
    let all = match &bed {
        BedFile::Hosts(bed) => {
            preflight::beds::bed(bed, &std::env::current_exe()?, signals.control())
        }
        BedFile::Image { image, .. } => {
            let mut all = preflight::beds::image();
            if test_bed::is_disk(image) {
                all[0].checks.push(Check {
                    name: "disk",
                    status: Status::Warn,
                    finding: format!(
                        "of vm:{image} only the kernel is used, to count instructions"
                    ),
                    fix: Some("to start it as a whole machine, add machine = {} to [dut]".into()),
                });
            }
            all
        }
        BedFile::Machine(machine) => {
            let disk = test_bed::disk(machine);
            let disk = disk.as_ref().map_err(|error| format!("{error:#}"));
            preflight::beds::machine(disk.map(|disk| &*disk.path))
        }
    };
    let checks: Vec<Check> = all.iter().flat_map(|of| of.checks.clone()).collect();
    if global.json {
        output::json(&all)?;
    } else {
        let named = all.iter().flat_map(|of| {
            let named = of.checks.iter();
            named.map(move |check| (format!("{}: {}", of.host, check.name), check.status))
        });
        output::answer(
            worst(&checks),
            verdict(name, &named.collect::<Vec<_>>(), true),
        );
        for of in &all {
            output::lines(of.host);
            of.checks.iter().for_each(print);
        }
        output::lines(&total(&checks, true));
    }
    Ok(match (signals.code(false), count(&checks, Status::Fail)) {
        (Code::Done, 0) => Code::Done,
        (Code::Done, _) => Code::Preflight,
        (stopped, _) => stopped,
    })
}

fn check_this_host(global: &Global) -> anyhow::Result<Code> {
    let runs = global.runs_root()?;
    let mut checks = preflight::host(&runs);
    checks.push(preflight::labs(existing_labs));
    checks.extend(noise()?);
    if global.json {
        output::json(&checks)?;
    } else {
        let named = checks
            .iter()
            .map(|check| (check.name.to_owned(), check.status));
        let named: Vec<_> = named.collect();
        output::answer(
            worst(&checks),
            verdict("This host", &named, user_namespace::is_root()),
        );
        let is_quiet = global.verbosity() == output::Verbosity::Quiet;
        let shown = checks.iter();
        shown
            .filter(|check| !is_quiet || check.status != Status::Ok)
            .for_each(print);
        output::lines(&total(&checks, user_namespace::is_root()));
    }
    Ok(match count(&checks, Status::Fail) {
        0 => Code::Done,
        _ => Code::Preflight,
    })
}

/// Returns the verdict in one sentence, with the names of the failed checks.
fn verdict(subject: &str, checks: &[(String, Status)], root: bool) -> String {
    let of = |status| {
        let of = checks.iter().filter(|(_, found)| *found == status);
        Vec::from_iter(of.map(|(name, _)| name.as_str()))
    };
    let (failures, warnings) = (of(Status::Fail), of(Status::Warn));
    let text = match (&failures[..], &warnings[..], root) {
        ([], _, false) => format!(
            "{subject} fails no check that is possible without root; sudo fwdlab doctor makes them all."
        ),
        ([], [], true) => format!("{subject} is fit for measurements."),
        ([], warnings, true) => format!(
            "{subject} is fit for measurements, with {}: {}.",
            counted(warnings.len() as u64, "warning"),
            warnings.join(", ")
        ),
        (failures, ..) => format!(
            "Not fit for measurements: {}: {}.",
            counted(failures.len() as u64, "failure"),
            failures.join(", ")
        ),
    };
    wrap(&text, fwdlab_report::text::width(), "")
}

/// Returns a one-line summary of all checks. Without root, only some checks are possible, so it
/// does not claim that nothing fails.
fn total(checks: &[Check], root: bool) -> String {
    let of = |status| count(checks, status);
    let failures = match (of(Status::Fail), root) {
        (0, false) => {
            "no failure among the checks that are possible without root; for all checks: sudo fwdlab doctor"
                .into()
        }
        (failures, _) => counted(failures as u64, "failure"),
    };
    format!(
        "{} ok, {}, {} skipped, {failures}",
        of(Status::Ok),
        counted(of(Status::Warn) as u64, "warning"),
        of(Status::Skip)
    )
}

fn count(checks: &[Check], status: Status) -> usize {
    checks.iter().filter(|check| check.status == status).count()
}

fn level_of(status: Status) -> (&'static str, Level) {
    match status {
        Status::Ok => ("ok", Level::Ok),
        Status::Warn => ("warn", Level::Warn),
        Status::Fail => ("FAIL", Level::Fail),
        Status::Skip => ("skip", Level::Plain),
    }
}

/// Returns the level of all checks together.
fn worst(checks: &[Check]) -> Level {
    let mut worst = [Status::Fail, Status::Warn].into_iter();
    let worst = worst.find(|status| count(checks, *status) > 0);
    level_of(worst.unwrap_or(Status::Ok)).1
}

fn print(check: &Check) {
    let text = shown(check, fwdlab_report::text::width());
    output::named(level_of(check.status).1, &text);
}

/// Returns the lines of a check: its status and name, and the finding and its fix in a column of
/// their own. On a narrow terminal the column is below the name.
fn shown(check: &Check, width: usize) -> String {
    let head = format!("{:<5} {:<22} ", level_of(check.status).0, check.name);
    let (head, indent) = match width < WIDE {
        true => (format!("{}\n", head.trim_end()), 6),
        false => (head.clone(), head.len()),
    };
    let fix = check.fix.iter().map(|fix| format!("fix: {fix}"));
    let words = std::iter::once(check.finding.clone()).chain(fix);
    let indent = " ".repeat(indent);
    let body: String = words.map(|words| wrap(&words, width, &indent)).collect();
    let body = match head.ends_with('\n') {
        true => &*body,
        false => body.trim_start(),
    };
    format!("{head}{}", body.trim_end())
}

/// Returns descriptions of the test beds that exist now.
fn existing_labs() -> Result<Vec<String>, String> {
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

/// Measures noise on the CPU that a DUT would get.
fn noise() -> anyhow::Result<Vec<Check>> {
    let placement = Placement::choose(&[], 1)?;
    Ok(Probes::on_dut_cpu(&placement, |probes| {
        preflight::noise(NOISE, || {
            std::thread::sleep(Duration::from_millis(4));
            probes.read()
        })
    })
    .unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_and_fixes_are_in_a_column() {
        let check = Check {
            name: "other work",
            status: Status::Warn,
            finding: "some program takes 37 % of a CPU, and ".repeat(3),
            fix: Some("wait for it".into()),
        };
        let next_to_it =
            "warn  other work             some program takes 37 % of a CPU, and some program\n";
        for (width, begins) in [
            (80, next_to_it),
            (40, "warn  other work\n      some program takes"),
        ] {
            let text = shown(&check, width);
            assert!(text.starts_with(begins), "{text}");
            let column = begins.lines().last().unwrap().find("some").unwrap();
            for line in text.lines().skip(1) {
                let start = line.len() - line.trim_start().len();
                assert!(start == column && line.chars().count() <= width, "{text}");
            }
            assert!(
                text.ends_with(&format!("\n{:column$}fix: wait for it", "")),
                "{text}"
            );
        }
    }

    #[test]
    fn the_first_sentence_has_the_verdict_and_its_reasons() {
        let checks = |all: &[(&str, Status)]| -> Vec<(String, Status)> {
            all.iter()
                .map(|(name, status)| ((*name).to_owned(), *status))
                .collect()
        };
        let (veth, noise, xdp) = (
            ("veth", Status::Ok),
            ("noise", Status::Warn),
            ("xdp", Status::Fail),
        );
        for (all, root, words) in [
            (&[veth][..], true, "This host is fit for measurements."),
            (
                &[veth, noise],
                true,
                "This host is fit for measurements, with 1 warning: noise.",
            ),
            (
                &[noise, xdp],
                true,
                "Not fit for measurements: 1 failure: xdp.",
            ),
            (
                &[noise, xdp],
                false,
                "Not fit for measurements: 1 failure: xdp.",
            ),
            (
                &[veth, noise],
                false,
                "This host fails no check that is possible without root;",
            ),
        ] {
            let output = verdict("This host", &checks(all), root);
            assert!(output.starts_with(words), "{output}");
        }
    }

    #[test]
    fn without_root_unchecked_items_are_not_reported_as_passed() {
        let checks = [Check {
            name: "privileges",
            status: Status::Warn,
            finding: String::new(),
            fix: None,
        }];
        assert_eq!(
            total(&checks, true),
            "0 ok, 1 warning, 0 skipped, 0 failures"
        );
        let reported = total(&checks, false);
        assert!(
            !reported.contains("0 failures") && reported.contains("sudo fwdlab doctor"),
            "{reported}"
        );
    }
}
