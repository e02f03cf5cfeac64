//! Renders the differences of two profiles by function: the table below a pair of flame
//! graphs.
//!
//! It shows the output of [`fwdlab_model::stacks::difference`] and only sums up rows. Start with
//! [`differences`].

use fwdlab_model::stacks::Difference;

use crate::table::{Cell, Table, table};

/// Builds the table of `rows`, the functions of two profiles without their callees; `names` are the
/// names of the profiles. Rows that differ by less than `least` instructions per frame share one
/// row, so that the rows add up to the last one, the total.
pub fn differences(rows: &[Difference], names: [&str; 2], least: f64) -> Table {
    let (large, small): (Vec<_>, Vec<_>) = rows
        .iter()
        .partition(|row| row.difference().abs() >= least && row.difference() != 0.0);
    let sum = |function: String, rows: &[&Difference]| Difference {
        function,
        before: rows.iter().map(|row| row.before).sum(),
        after: rows.iter().map(|row| row.after).sum(),
    };
    let others = match small.len() {
        1 => "1 other".to_owned(),
        n => format!("{n} others"),
    };
    let others = (!small.is_empty()).then(|| sum(others, &small));
    let total = sum("total".to_owned(), &rows.iter().collect::<Vec<_>>());
    table! {
        row in large.into_iter().chain(&others).chain([&total]);
        left("function", "function") => Cell::text(&row.function),
        right(names[0], "a_instructions_per_frame") => Cell::new(figure(row.before), row.before),
        right(names[1], "b_instructions_per_frame") => Cell::new(figure(row.after), row.after),
        right("difference", "difference_instructions_per_frame") => signed(row.difference()),
    }
}

fn signed(difference: f64) -> Cell {
    let text = match figure(difference) {
        zero if zero == "0.0" => zero,
        some if difference > 0.0 => format!("+{some}"),
        some => some,
    };
    // remove floating-point errors
    Cell::new(text, (difference * 1e9).round() / 1e9 + 0.0)
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
        function                  plain  1 rule  difference
        nft_do_chain [nf_tables]    0.0   213.0      +213.0
        nf_hook_slow               40.0    80.0       +40.0
        clear_page_erms            86.5    80.4        -6.2
        2 others                  625.1   625.1         0.0
        total                     751.6   998.5      +246.8
        ");
    }

    #[test]
    fn an_empty_graph_has_a_total() {
        let table = differences(&[], ["A", "B"], 1.0);
        insta::assert_snapshot!(table.text(80), @r"
        function    A    B  difference
        total     0.0  0.0         0.0
        ");
        let same = &rule()[4..];
        insta::assert_snapshot!(differences(same, ["A", "B"], 0.0).text(80), @r"
        function      A      B  difference
        1 other   426.0  426.0         0.0
        total     426.0  426.0         0.0
        ");
    }
}
