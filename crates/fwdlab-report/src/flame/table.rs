//! Renders the differences of two profiles by function: the table below a pair of flame graphs, as
//! text, Markdown and CSV.
//!
//! It shows the output of [`fwdlab_model::stacks::difference`] and only sums up rows. Start with
//! [`differences`].

use fwdlab_model::stacks::Difference;

use crate::table::{Cell, Column, Mark, Table};

/// The table of the functions of two profiles, without their callees. Text formats show rows above
/// a threshold, CSV shows all.
#[derive(Debug, Clone)]
pub struct Differences {
    shown: Table,
    all: Table,
}

/// Builds the table of `rows`; `names` are the names of the profiles. Rows that differ by less than
/// `least` instructions per frame share one row, so that the rows add up to the last one, the
/// total.
pub fn differences(rows: &[Difference], names: [&str; 2], least: f64) -> Differences {
    let (large, small): (Vec<_>, Vec<_>) = rows
        .iter()
        .partition(|row| row.difference().abs() >= least && row.difference() != 0.0);
    let mut shown = empty(names);
    for row in &large {
        push(&mut shown, &row.function, row.before, row.after);
    }
    let sum = |rows: &[&Difference]| {
        let before: f64 = rows.iter().map(|row| row.before).sum();
        let after: f64 = rows.iter().map(|row| row.after).sum();
        (before, after)
    };
    if !small.is_empty() {
        let (before, after) = sum(&small);
        let others = match small.len() {
            1 => "1 other".to_owned(),
            n => format!("{n} others"),
        };
        push(&mut shown, &others, before, after);
    }
    let (before, after) = sum(&rows.iter().collect::<Vec<_>>());
    push(&mut shown, "total", before, after);
    let mut all = empty(names);
    for row in rows {
        push(&mut all, &row.function, row.before, row.after);
    }
    Differences { shown, all }
}

impl Differences {
    /// Renders the table as text, with the unit on a line of its own.
    pub fn text(&self, width: usize) -> String {
        format!(" {}\n{}", super::UNIT, self.shown.text(width))
    }

    /// Renders the table as Markdown, with the unit below.
    pub fn markdown(&self) -> String {
        format!("{}\nIn {}.\n", self.shown.markdown(), super::UNIT)
    }

    /// Renders the table as CSV: every function, in the same order, without sums.
    pub fn csv(&self) -> String {
        self.all.csv()
    }

    /// Returns the table of the text formats.
    pub fn table(&self) -> &Table {
        &self.shown
    }
}

fn empty(names: [&str; 2]) -> Table {
    Table::new(vec![
        Column::left("function", &["function"]),
        Column::right(names[0], &["a_instructions_per_frame"]),
        Column::right(names[1], &["b_instructions_per_frame"]),
        Column::right("difference", &["difference_instructions_per_frame"]),
    ])
}

fn push(table: &mut Table, function: &str, before: f64, after: f64) {
    let difference = after - before;
    let signed = match figure(difference) {
        zero if zero == "0.0" => zero,
        some if difference > 0.0 => format!("+{some}"),
        some => some,
    };
    table.push(
        Mark::None,
        vec![
            Cell::text(function),
            Cell::new(figure(before), before),
            Cell::new(figure(after), after),
            // remove floating-point errors
            Cell::new(signed, (difference * 1e9).round() / 1e9 + 0.0),
        ],
    );
}

/// Formats a figure with one decimal: `213.0`. Never returns `-0.0`.
pub(super) fn figure(per: f64) -> String {
    let text = format!("{per:.1}");
    match text.as_str() {
        "-0.0" => "0.0".to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Vec<Difference> {
        [
            ("nft_do_chain [nf_tables]", 0.0, 213.0),
            ("nf_hook_slow", 40.0, 80.002),
            ("clear_page_erms", 86.51, 80.36),
            ("kmem_cache_free", 199.12, 199.117),
            ("ip_route_input_slow", 426.0, 426.0),
        ]
        .map(|(function, before, after)| Difference {
            function: function.to_owned(),
            before,
            after,
        })
        .to_vec()
    }

    #[test]
    fn rows_add_up_to_the_total() {
        let table = differences(&rule(), ["plain", "1 rule"], 1.0);
        insta::assert_snapshot!(table.text(80), @r"
        instructions per frame
        function                  plain  1 rule  difference
        nft_do_chain [nf_tables]    0.0   213.0      +213.0
        nf_hook_slow               40.0    80.0       +40.0
        clear_page_erms            86.5    80.4        -6.2
        2 others                  625.1   625.1         0.0
        total                     751.6   998.5      +246.8
        ");
        insta::assert_snapshot!(table.markdown(), @r"
        | function | plain | 1 rule | difference |
        | --- | ---: | ---: | ---: |
        | nft\_do\_chain \[nf\_tables\] | 0.0 | 213.0 | +213.0 |
        | nf\_hook\_slow | 40.0 | 80.0 | +40.0 |
        | clear\_page\_erms | 86.5 | 80.4 | -6.2 |
        | 2 others | 625.1 | 625.1 | 0.0 |
        | total | 751.6 | 998.5 | +246.8 |

        In instructions per frame.
        ");
        insta::assert_snapshot!(table.csv().replace('\r', ""), @r"
        function,a_instructions_per_frame,b_instructions_per_frame,difference_instructions_per_frame
        nft_do_chain [nf_tables],0,213,213
        nf_hook_slow,40,80.002,40.002
        clear_page_erms,86.51,80.36,-6.15
        kmem_cache_free,199.12,199.117,-0.003
        ip_route_input_slow,426,426,0
        ");
    }

    #[test]
    fn an_empty_graph_has_a_total() {
        let table = differences(&[], ["A", "B"], 1.0);
        insta::assert_snapshot!(table.text(80), @r"
        instructions per frame
        function    A    B  difference
        total     0.0  0.0         0.0
        ");
        let same = &rule()[4..];
        insta::assert_snapshot!(differences(same, ["A", "B"], 0.0).text(80), @r"
        instructions per frame
        function      A      B  difference
        1 other   426.0  426.0         0.0
        total     426.0  426.0         0.0
        ");
    }
}
