//! Reports telemetry of the DUT: findings as sentences for every format, and the activity of its
//! host as tables.
//!
//! It does not judge: `fwdlab_measure::findings` decides what is a finding. Start with
//! [`sentences`] and [`tables`].

use fwdlab_model::result::Summary;
use fwdlab_model::telemetry::{CpuShare, Finding, QueueShare, Telemetry, Way};
use fwdlab_model::test_case::TestCase;

use crate::name::label;
use crate::number::{count, percent};
use crate::table::{Cell, Table, table};

/// Returns a finding in one line: the cause, the observation, and the setting to check.
pub(crate) fn sentence(finding: &Finding) -> String {
    let seen = match (finding.trials, finding.of_trials) {
        (_, 0 | 1) => String::new(),
        (seen, all) if seen == all => format!(" (in all {all} trials)"),
        (seen, all) => format!(" (in {seen} of {all} trials; the clearest is shown)"),
    };
    format!(
        "{}: {}{seen}. Look at: {}",
        finding.cause, finding.sentence, finding.setting
    )
}

/// Returns all findings of a run; if there are several test cases, with their names.
pub(crate) fn sentences(summary: &Summary) -> Vec<String> {
    let all = &summary.test_cases;
    let mut telemetry = Vec::new();
    for case in all {
        let of = match all.len() {
            1 => String::new(),
            _ => format!("{}: ", label(case, all)),
        };
        telemetry.extend(
            case.findings
                .iter()
                .map(|one| format!("{of}{}", sentence(one))),
        );
    }
    telemetry
}

/// Returns what could not be read, with the reason, each once.
pub(crate) fn missing(summary: &Summary) -> Vec<String> {
    let mut telemetry: Vec<String> = Vec::new();
    for one in summary.test_cases.iter().flat_map(read) {
        for (what, reason) in &one.missing {
            let words = format!("{what}: not read: {reason}");
            if !telemetry.contains(&words) {
                telemetry.push(words);
            }
        }
    }
    telemetry
}

/// Returns the telemetry of the iterations of a test case.
fn read(case: &TestCase) -> impl Iterator<Item = &Telemetry> {
    case.iterations
        .iter()
        .filter_map(|one| one.telemetry.as_deref())
}

/// The activity of the DUT's host in a test case.
pub(crate) struct DutActivity {
    /// Name of the test case.
    pub case: String,
    /// The most important figures in one line; may be empty.
    pub gist: String,
    /// Tables of CPUs, queues and other counters, each with its title.
    pub tables: Vec<(String, Table)>,
}

/// Returns the activity of the DUT's host in each test case that has telemetry. If there are
/// several iterations, it is from the middle one of the list; the records contain all.
pub(crate) fn tables(summary: &Summary) -> Vec<DutActivity> {
    let all = &summary.test_cases;
    let mut cases = Vec::new();
    for case in all {
        let iterations: Vec<&Telemetry> = read(case).collect();
        let Some(telemetry) = iterations.get(iterations.len() / 2) else {
            continue;
        };
        let mut tables = Vec::new();
        if telemetry.cpus.iter().any(|cpu| cpu.ticks > 0) {
            tables.push((format!("CPUs of {}", telemetry.host), cpus(telemetry)));
        }
        if telemetry.queues.iter().any(|queue| queue.packets > 0) {
            tables.push(("packets by queue".into(), queues(&telemetry.queues)));
        }
        let rest = others(telemetry);
        if !rest.rows.is_empty() {
            tables.push(("what else was counted".into(), rest));
        }
        if !tables.is_empty() {
            cases.push(DutActivity {
                case: label(case, all),
                gist: gist(telemetry),
                tables,
            });
        }
    }
    cases
}

/// Summarizes the busiest CPU, the share of a single queue, and the largest counter of drops.
/// Counters of drops may count the same frame, so they are not added up.
fn gist(telemetry: &Telemetry) -> String {
    let forward = telemetry
        .cpus
        .iter()
        .filter(|cpu| cpu.forwards && cpu.ticks > 0);
    let busiest = forward.map(|cpu| cpu.busy_ratio()).reduce(f64::max);
    let beside = |one: &QueueShare| {
        let same = |other: &&QueueShare| other.port == one.port && other.way == one.way;
        telemetry.queues.iter().filter(same).count() > 1
    };
    let several = (telemetry.queues.iter()).filter(|queue| queue.packets > 0 && beside(queue));
    let fullest = several.map(|queue| queue.ratio).reduce(f64::max);
    let dropped = telemetry.drops.iter().max_by_key(|(_, frames)| **frames);
    let share = |what: &str, ratio: f64| format!("{what} {}", percent(100.0 * ratio));
    let parts = [
        busiest.map(|ratio| share("busiest CPU", ratio)),
        fullest.map(|ratio| share("largest share of a queue", ratio)),
        dropped.map(|(counter, frames)| format!("dropped most: {counter}, {}", count(*frames))),
    ];
    let telemetry: Vec<String> = parts.into_iter().flatten().collect();
    telemetry.join("; ")
}

fn cpus(telemetry: &Telemetry) -> Table {
    let share = |ratio: f64| Cell::new(percent(100.0 * ratio), ratio);
    let whose = |cpu: &CpuShare| if cpu.forwards { "" } else { " (not the DUT's)" };
    table! {
        cpu in &telemetry.cpus;
        left("CPU", "cpu", "forwards") => Cell::with_values(
            format!("{}{}", cpu.cpu, whose(cpu)),
            [cpu.cpu.to_string(), cpu.forwards.to_string()],
        ),
        right("busy", "busy_ratio") => share(cpu.busy_ratio()),
        right("softirq", "softirq_ratio") => share(cpu.softirq_ratio),
        right("system", "system_ratio") => share(cpu.system_ratio),
        right("user", "user_ratio") => share(cpu.user_ratio),
        right("interrupts", "irq_ratio") => share(cpu.irq_ratio),
        right("idle", "idle_ratio") => share(cpu.idle_ratio),
        right("stolen", "steal_ratio") => share(cpu.steal_ratio),
    }
}

fn queues(all: &[QueueShare]) -> Table {
    let way = |way| match way {
        Way::Rx => "in",
        Way::Tx => "out",
    };
    table! {
        queue in all;
        left("port", "port") => Cell::text(&queue.port),
        left("way", "way") => Cell::text(way(queue.way)),
        right("queue", "queue") => Cell::new(queue.queue.to_string(), queue.queue),
        right("packets", "packets") => Cell::new(count(queue.packets), queue.packets),
        right("share", "ratio") => Cell::new(percent(100.0 * queue.ratio), queue.ratio),
    }
}

fn others(telemetry: &Telemetry) -> Table {
    let drops = telemetry.drops.iter().map(|(counter, frames)| {
        let what = format!("dropped: {counter}");
        (what, count(*frames), frames.to_string())
    });
    let sizes = telemetry.sizes.iter().map(|(name, size)| {
        let limit = size.limit.map(|limit| format!(" of {}", count(limit)));
        let text = format!("{}{}", count(size.value), limit.unwrap_or_default());
        (name.clone(), text, size.value.to_string())
    });
    let energy = telemetry.joules_per_frame().map(|(meter, joules)| {
        let what = format!("energy per frame forwarded: {meter}");
        (what, format!("{:.3} µJ", 1e6 * joules), joules.to_string())
    });
    let lowest = "lowest frequency of a CPU that forwards";
    let rest = [
        (lowest, telemetry.lowest_mhz, "MHz"),
        ("highest frequency", telemetry.highest_mhz, "MHz"),
        ("highest temperature", telemetry.hottest_celsius, "°C"),
        ("longest time between two samples", telemetry.gap_s, "s"),
    ];
    let rest = rest.into_iter().filter_map(|(name, value, unit)| {
        let value = value?;
        Some((
            name.to_owned(),
            format!("{value:.2} {unit}"),
            value.to_string(),
        ))
    });
    table! {
        (what, text, raw) in drops.chain(sizes).chain(energy).chain(rest);
        prose("what", "what") => Cell::text(what),
        right("how much", "value") => Cell::new(text, raw),
    }
}
