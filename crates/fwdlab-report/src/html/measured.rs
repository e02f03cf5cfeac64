//! Writes what was measured: the test bed, the command, parameters and the host.
//!
//! It has no results. Start with [`measurement_table`].

use std::collections::BTreeMap;

use fwdlab_model::facts::{Card, Facts};
use fwdlab_model::link::LinkSpeed;
use fwdlab_model::result::{RunInfo, Summary};

use super::elements::{folded, note, section};
use super::{ShownFacts, bed};
use crate::link::words;
use crate::markup::Markup;
use crate::number::{bytes, time};
use crate::words;

pub(super) fn measurement_table(
    m: &mut Markup,
    info: &RunInfo,
    summary: &Summary,
    shown: ShownFacts,
) {
    section(m, "Measurement", |m| {
        m.leaf("p", &[], &note(&words::procedure_words(summary)));
        bed::test_bed(m, info);
        m.leaf("h3", &[], "Command");
        m.within("pre", &[], |m| {
            for (index, word) in info.command_line.iter().enumerate() {
                if index > 0 {
                    m.text(" ");
                }
                m.leaf("span", &[], &shell_word(&shown.word(word)));
            }
        });

        let procedure = &summary.procedure;
        let is_new = !info.parameters.contains_key("procedure");
        let mut parameters = pairs([
            ("run", Some(info.id.clone())),
            ("started", Some(time(&info.started_at))),
            ("finished", info.finished_at.as_deref().map(time)),
            ("fwdlab", Some(info.tool_version.clone())),
            ("seed", Some(info.seed.to_string())),
            ("procedure", is_new.then(|| procedure.clone())),
        ]);
        let own = info.parameters.iter();
        parameters.extend(own.map(|(name, value)| (name.clone(), plain_value(value, shown))));
        let head = |m: &mut Markup| m.text("Parameters and facts of the host");
        folded(m, false, head, |m| {
            m.within("div", &[("class", "columns")], |m| {
                group(m, "Parameters", &parameters);
                facts(m, &info.facts, shown);
            });
        });
    });
}

/// Writes the facts of a host and of the test bed on it, in groups.
pub(super) fn facts(m: &mut Markup, facts: &Facts, shown: ShownFacts) {
    let plain = |map: &BTreeMap<String, String>| -> Vec<(String, String)> {
        map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    let command_line = facts.kernel_command_line.clone();
    let of_host = |fact: &dyn Fn() -> String| facts.is_known().then(fact);
    let host = pairs([
        ("system", facts.system.clone()),
        ("kernel", of_host(&|| facts.kernel.clone())),
        ("CPU", of_host(&|| facts.cpu_model.clone())),
        ("CPUs online", of_host(&|| facts.cpus.to_string())),
        (
            "threads per core",
            facts.threads_per_core.map(|n| n.to_string()),
        ),
        ("frequency governor", facts.cpu_governor.clone()),
        ("virtual machine", Some(yes_no(facts.virtual_machine))),
        ("memory", Some(bytes(facts.memory_bytes))),
        ("machine", facts.machine.clone()),
        ("clock source", facts.clock_source.clone()),
        ("root of the host", Some(yes_no(facts.privileged))),
        ("driver of the ports", facts.driver.clone()),
        ("link", facts.link.clone()),
        ("engine", Some(facts.engine.clone())),
        (
            "kernel command line",
            command_line.filter(|_| shown == ShownFacts::Full),
        ),
    ]);
    for (title, rows) in [
        ("Host", host),
        ("Hosts of the tester", plain(&facts.testers)),
        ("Cards", facts.cards.iter().map(card).collect()),
        ("Placement", plain(&facts.placement)),
        ("Sysctls set", plain(&facts.sysctls)),
        ("Offloads", plain(&facts.offloads)),
        (
            "CPU vulnerabilities and mitigations",
            plain(&facts.mitigations),
        ),
    ] {
        group(m, title, &rows);
    }
}

/// Describes a card: its place, and what is known about it.
pub(super) fn card(card: &Card) -> (String, String) {
    let speed = card.speed_mbps.map(LinkSpeed::megabits);
    let queues = match (card.rx_queues, card.tx_queues) {
        (Some(rx), Some(tx)) => Some(format!("queues: {rx} receive, {tx} send")),
        _ => None,
    };
    let driver = card.driver.as_ref().map(|driver| {
        let version = card
            .driver_version
            .iter()
            .map(|version| format!(" {version}"));
        format!("driver {driver}{}", version.collect::<String>())
    });
    let parts = [
        card.name.clone(),
        card.pci_id.as_ref().map(|id| format!("PCI {id}")),
        driver,
        card.firmware
            .as_ref()
            .map(|version| format!("firmware {version}")),
        speed.map(words),
        queues,
        card.numa_node.map(|node| format!("NUMA node {node}")),
    ];
    let words = Vec::from_iter(parts.into_iter().flatten()).join(", ");
    (format!("{} {}", card.host, card.port), words)
}

fn group(m: &mut Markup, title: &str, rows: &[(String, String)]) {
    if rows.is_empty() {
        return;
    }
    m.within("div", &[("class", "group")], |m| {
        m.leaf("h3", &[], title);
        m.within("table", &[("class", "pairs")], |m| {
            m.within("tbody", &[], |m| {
                for (name, value) in rows {
                    m.within("tr", &[], |m| {
                        m.leaf("th", &[("scope", "row")], name);
                        m.leaf("td", &[], value);
                    });
                }
            });
        });
    });
}

/// Returns the values that are known, with their names.
fn pairs<const N: usize>(all: [(&str, Option<String>); N]) -> Vec<(String, String)> {
    let all = all.into_iter();
    all.filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

fn yes_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.into()
}

/// Formats a parameter, without JSON's quotes around plain words.
fn plain_value(value: &serde_json::Value, shown: ShownFacts) -> String {
    match value {
        serde_json::Value::String(text) => shown.word(text),
        serde_json::Value::Array(items) => {
            let items = items.iter().map(|item| plain_value(item, shown));
            items.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// Quotes a word of the command line for a shell.
fn shell_word(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
