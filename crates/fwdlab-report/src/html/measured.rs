//! Writes what was measured: the test bed, the command, parameters and the host.
//!
//! It has no results. Start with [`measurement_table`].

use std::collections::BTreeMap;

use fwdlab_model::result::{RunInfo, Summary};

use super::elements::{note, section};
use super::{ShownFacts, bed};
use crate::markup::Markup;
use crate::number::{bytes, time};
use crate::words;

pub(super) fn measurement_table(
    m: &mut Markup,
    info: &RunInfo,
    summary: &Summary,
    shown: ShownFacts,
) {
    let facts = &info.facts;
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

        let plain = |map: &BTreeMap<String, String>| -> Vec<(String, String)> {
            map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
        };
        let mut run = vec![
            ("run".to_owned(), info.id.clone()),
            ("started".to_owned(), time(&info.started_at)),
        ];
        run.extend(
            info.finished_at
                .as_deref()
                .map(|end| ("finished".to_owned(), time(end))),
        );
        run.push(("fwdlab".to_owned(), info.tool_version.clone()));
        run.push(("seed".to_owned(), info.seed.to_string()));
        if !info.parameters.contains_key("procedure") {
            run.push(("procedure".to_owned(), summary.procedure.clone()));
        }
        let mut parameters = run;
        parameters.extend(
            info.parameters
                .iter()
                .map(|(name, value)| (name.clone(), plain_value(value, shown))),
        );

        let mut host = match facts.is_known() {
            true => vec![
                ("kernel", facts.kernel.clone()),
                ("CPU", facts.cpu_model.clone()),
                ("CPUs online", facts.cpus.to_string()),
            ],
            false => vec![],
        };
        let mut optional =
            |name, value: Option<String>| host.extend(value.map(|value| (name, value)));
        optional(
            "threads per core",
            facts.threads_per_core.map(|n| n.to_string()),
        );
        optional("frequency governor", facts.cpu_governor.clone());
        optional("virtual machine", Some(yes_no(facts.virtual_machine)));
        optional("memory", Some(bytes(facts.memory_bytes)));
        optional("clock source", facts.clock_source.clone());
        optional("root of the host", Some(yes_no(facts.privileged)));
        optional("driver of the ports", facts.driver.clone());
        optional("link", facts.link.clone());
        optional("engine", Some(facts.engine.clone()));
        if shown == ShownFacts::Full {
            optional("kernel command line", facts.kernel_command_line.clone());
        }
        let host = host
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();

        m.within("div", &[("class", "columns")], |m| {
            for (title, rows) in [
                ("Parameters", parameters),
                ("Host", host),
                ("Placement", plain(&facts.placement)),
                ("Sysctls set", plain(&facts.sysctls)),
                ("Offloads", plain(&facts.offloads)),
                (
                    "CPU vulnerabilities and mitigations",
                    plain(&facts.mitigations),
                ),
            ] {
                if rows.is_empty() {
                    continue;
                }
                m.within("div", &[("class", "group")], |m| {
                    m.leaf("h3", &[], title);
                    m.within("table", &[("class", "pairs")], |m| {
                        m.within("tbody", &[], |m| {
                            for (name, value) in &rows {
                                m.within("tr", &[], |m| {
                                    m.leaf("th", &[("scope", "row")], name);
                                    m.leaf("td", &[], value);
                                });
                            }
                        });
                    });
                });
            }
        });
    });
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
