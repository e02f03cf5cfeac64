//! Tables of all trials and rebuilds, in order of execution, with the reasons why some are invalid.
//!
//! Trials that a procedure requested have a table in `procedures`. Start with [`trials`].

use fwdlab_model::campaign::PLAIN;
use fwdlab_model::event::RebuildRecord;
use fwdlab_model::result::{Summary, TrialRecord};

use crate::number::{Prefix, clock, count, difference, percent};
use crate::table::{Cell, Column, Mark, Table, table};

/// Returns two cells: the verdict, and the reasons if there are any.
fn validity_cells(reasons: &[String]) -> (Mark, [Cell; 2]) {
    let (mark, word) = match reasons {
        [] => (Mark::None, "valid"),
        _ => (Mark::Invalid, "invalid"),
    };
    (mark, [Cell::text(word), Cell::text(reasons.join("; "))])
}

/// Returns the table of all trials, in order of execution.
pub(crate) fn trials(trials: &[TrialRecord]) -> Table {
    let rates = trials
        .iter()
        .flat_map(|t| [Some(t.offered_load_pps), t.forwarding_rate_pps])
        .flatten();
    let prefix = Prefix::for_largest(rates);
    let rate = |value: Option<f64>, absent| Cell::optional(value, absent, |pps| prefix.rate(pps));
    let number = |number: u64| Cell::new(count(number), number);
    let test_case =
        |trial: &TrialRecord| match trial.control && !trial.test_case.ends_with("/control") {
            true => format!("{} (control)", trial.test_case),
            false => trial.test_case.clone(),
        };
    let each = trials.iter().map(|trial| {
        let (mark, [validity, mut reasons]) = validity_cells(&trial.validity.reasons);
        if trial.not_saturated && mark == Mark::None {
            reasons =
                Cell::text("not saturated: the generator was the limit, the DUT may forward more");
        }
        (trial, mark, validity, reasons)
    });
    table! {
        (trial, mark, validity, reasons) in each, mark;
        right("trial", "trial") => number(trial.trial.into()),
        left("validity", "validity") => validity,
        left("test case", "test_case") => Cell::text(test_case(trial)),
        right("iteration", "iteration") => number(trial.iteration.into()),
        left("started", "started_at") => Cell::new(clock(&trial.started_at), &trial.started_at),
        right("intended load", "intended_load_pps") => rate(trial.intended_load_pps, "flat out"),
        right("offered load", "offered_load_pps") => rate(Some(trial.offered_load_pps), "-"),
        right("forwarding rate", "forwarding_rate_pps") => rate(trial.forwarding_rate_pps, "-"),
        right("ungated", "forwarding_rate_ungated_pps") => rate(trial.forwarding_rate_ungated_pps, "-"),
        right("quiet", "quiet_windows") => number(trial.quiet.windows.into()),
        right("contended", "contended_windows") => number(trial.contended.windows.into()),
        right("not offered", "windows_not_offered") => number(trial.windows_not_offered.into()),
        right("loss", "frame_loss_ratio") =>
            Cell::new(percent(100.0 * trial.frame_loss_ratio), trial.frame_loss_ratio),
        right("unexplained", "frames_unexplained") => number(trial.ledger.frames_unexplained),
        below("reasons", "reasons") => reasons,
    }
}

/// Returns the table of all rebuilds, in order: the differences of the configurations, their
/// places, validity.
pub(crate) fn rebuilds(rebuilds: &[RebuildRecord]) -> Table {
    let mut columns = vec![
        Column::right("rebuild", &["rebuild"]),
        Column::left("validity", &["validity"]),
        Column::left("started", &["started_at"]),
        Column::prose("places", &["places"]),
        Column::right("blocks used", &["blocks"]),
        Column::right("not offered", &["blocks_not_offered"]),
        Column::right("plain DUT", &["plain_forwarding_rate_pps"]),
    ];
    let configurations = rebuilds
        .iter()
        .map(|r| r.difference_percent.len())
        .max()
        .unwrap_or(0);
    for index in 1..configurations {
        let head = place_name(index);
        columns.push(Column::right(&head, &["difference_percent"]));
    }
    columns.extend([
        Column::right("unexplained", &["frames_unexplained"]),
        Column::below("reasons", &["reasons"]),
    ]);
    let mut table = Table::new(columns);
    let prefix = Prefix::for_largest(
        rebuilds
            .iter()
            .filter_map(|r| r.forwarding_rate_pps.first().copied()),
    );
    for rebuild in rebuilds {
        let (mark, [validity, reasons]) = validity_cells(&rebuild.validity.reasons);
        let places: Vec<String> = rebuild
            .places
            .iter()
            .map(|&place| place_name(place as usize))
            .collect();
        let plain = rebuild.forwarding_rate_pps.first().copied();
        let mut cells = vec![
            Cell::new(rebuild.rebuild.to_string(), rebuild.rebuild),
            validity,
            Cell::new(clock(&rebuild.started_at), &rebuild.started_at),
            Cell::text(places.join(", ")),
            Cell::new(count(rebuild.blocks), rebuild.blocks),
            Cell::new(
                count(rebuild.blocks_not_offered),
                rebuild.blocks_not_offered,
            ),
            Cell::optional(plain, "-", |pps| prefix.rate(pps)),
        ];
        for index in 1..configurations {
            cells.push(Cell::optional(
                rebuild.difference_percent.get(index).copied(),
                "-",
                |value| format!("{} %", difference(value, Some([-0.5, 0.5]))),
            ));
        }
        let unexplained: u64 = rebuild.ledgers.iter().map(|l| l.frames_unexplained).sum();
        cells.extend([Cell::new(count(unexplained), unexplained), reasons]);
        table.push(mark, cells);
    }
    table
}

/// Returns the short name of a DUT, if there is no room for its command: `plain`, `control`, `#1`.
pub(crate) fn place_name(index: usize) -> String {
    match index {
        0 => "plain".into(),
        1 => "control".into(),
        other => format!("#{}", other - 1),
    }
}

/// Returns the full name of a DUT.
pub(crate) fn dut_name(summary: &Summary, rebuilds: &[RebuildRecord], index: usize) -> String {
    let known = rebuilds.iter().find_map(|r| r.compared.get(index));
    match (index, known) {
        (1, _) => "A/A control".into(),
        (0, Some(dut)) if dut.configuration != PLAIN => dut.configuration.clone(),
        (0, _) => "plain DUT".into(),
        (_, Some(dut)) => dut.configuration.clone(),
        (_, None) => {
            let mut compared = summary.comparisons();
            let name = compared.nth(index - 2).map(|c| c.configuration.clone());
            name.unwrap_or_else(|| place_name(index))
        }
    }
}
