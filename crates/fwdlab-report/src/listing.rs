//! Lists runs: their ids, their dates, and the result of each in one line.
//!
//! The caller provides the entries from the store. Start with [`lines`]; [`answer`] is the result
//! of a run.

use fwdlab_model::result::{RunInfo, Summary};

use crate::headline;
use crate::table::{Cell, Table, shorten, table, wrap};

/// The state of a run that needs no remark.
const FINISHED: &str = "finished";

/// Minimum width of an id, which is shortened if a line would be too long.
const ID: usize = 20;

/// Minimum width of a result next to its run.
const RESULT: usize = 42;

/// Indent of a result on a line below its run.
const BELOW: &str = "     ";

/// A run in the list.
#[derive(Debug, Clone, Default)]
pub struct Entry<'a> {
    /// Its number, by which it can be referred to; 1 is the newest run. `None` if the run has no
    /// date.
    pub place: Option<usize>,
    /// Id of the run.
    pub id: &'a str,
    /// When it began, in UTC: `2026-11-21 08:50`.
    pub began: Option<String>,
    /// For imported runs: when they were measured, if that differs from `began`.
    pub measured: Option<String>,
    /// State of the run.
    pub state: &'a str,
    /// Tags of the run.
    pub tags: String,
    /// The result, or why there is none.
    pub result: String,
}

impl Entry<'_> {
    /// Returns the result, after the state of a run that is not finished, and with the time of
    /// measurement for imported runs.
    fn found(&self) -> String {
        let state = match (self.state, self.result.as_str()) {
            (FINISHED, _) => String::new(),
            (state, "") => state.to_owned(),
            (state, _) => format!("{state}: "),
        };
        let measured = self.measured.as_ref();
        let measured = measured.map_or(String::new(), |time| format!("measured {time} UTC: "));
        format!("{state}{measured}{}", self.result)
    }

    /// Returns when it began, without the day if its id begins with it.
    fn time(&self) -> Option<&str> {
        let began = self.began.as_deref()?;
        let time = began
            .split_once(' ')
            .filter(|(day, _)| self.id.starts_with(day));
        Some(time.map_or(began, |(_, time)| time))
    }
}

/// Renders the list with a line per run. On a terminal, ids and results are cut to fit, and tags
/// that do not are at the end; on a narrow one a result is on a line of its own. Returns the
/// header, then the lines of each entry.
pub fn lines(entries: &[Entry<'_>]) -> Vec<String> {
    fitted(entries, crate::table::fold())
}

fn fitted(entries: &[Entry<'_>], fold: usize) -> Vec<String> {
    let longest = entries.iter().map(|entry| entry.id.chars().count()).max();
    let longest = longest.unwrap_or(0);
    let arranged = |tags| {
        let width = |of_ids| table(entries, of_ids, tags).text_width() + 3;
        let room = fold.saturating_sub(RESULT);
        let of_ids = longest.saturating_sub(width(longest).saturating_sub(room));
        let of_ids = of_ids.max(ID.min(longest));
        (table(entries, of_ids, tags), width(of_ids))
    };
    let has_tags = entries.iter().any(|entry| !entry.tags.is_empty());
    let fits = has_tags && arranged(true).1 + RESULT <= fold;
    let (table, used) = arranged(fits);
    let is_beside = used + RESULT <= fold;
    let lines = table.folded(usize::MAX, usize::MAX);
    let found = entries.iter().map(|entry| match &entry.tags {
        tags if fits || tags.is_empty() => entry.found(),
        tags => format!("{}  [{tags}]", entry.found()),
    });
    let results = std::iter::once("result".to_owned()).chain(found);
    let each = lines.lines().zip(results).map(|(line, result)| {
        let result = result.replace('\n', " ");
        let lines = match is_beside {
            true => format!("{line:used$}{}", cut(&result, fold.saturating_sub(used))),
            false => format!("{line}\n{}", wrap(&result, fold, BELOW)),
        };
        Vec::from_iter(lines.lines().map(str::trim_end)).join("\n")
    });
    each.collect()
}

/// Cuts the end of a text that is too long, but never between a number and its unit.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let lines = wrap(text, width.saturating_sub(3), "");
    let first = lines.lines().next().unwrap_or_default();
    format!(
        "{}...",
        first.trim_end_matches([',', ':', ';', ' ', '\u{b1}'])
    )
}

/// Creates the table of runs without their results.
fn table(entries: &[Entry<'_>], longest: usize, tags: bool) -> Table {
    let reported = |text: &Option<String>| Cell::text(text.as_deref().unwrap_or("-"));
    let mut table = table! {
        entry in entries;
        right("", "place") => reported(&entry.place.map(|n| format!("@{n}"))),
        left("run", "run") => Cell::text(shorten(entry.id, longest)),
        right("UTC", "began") => Cell::text(entry.time().unwrap_or("-")),
        left("tags", "tags") => Cell::text(&entry.tags),
    };
    if !tags {
        table.remove("tags");
    }
    table
}

/// Returns the answer of a run, as the first sentence of its report; the reasons of doubts are left
/// out.
pub fn answer(info: &RunInfo, summary: &Summary) -> String {
    headline::in_list(info, summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measurement_time_is_shown_with_the_result() {
        let ours = Entry {
            place: Some(1),
            id: "2026-11-21-quick-7f3k",
            began: Some("2026-11-21 08:50".into()),
            state: "finished",
            result: "64B-1flow-ipv4 1.000 Mpps".into(),
            ..Entry::default()
        };
        let list = lines(std::slice::from_ref(&ours)).concat();
        assert!(!list.contains("measured") && list.contains("@1"), "{list}");
        let theirs = Entry {
            place: None,
            measured: Some("2015-08-26 13:30".into()),
            ..ours.clone()
        };
        let found = lines(&[ours.clone(), theirs]);
        assert_eq!(found.len(), 3, "{found:?}");
        let said = "  -  2026-11-21-quick-7f3k  08:50  measured 2015-08-26 13:30 UTC: 64B-1flow-ipv4 1.000 Mpps";
        assert_eq!(found[2], said);
        let stopped = Entry {
            state: "interrupted",
            ..ours
        };
        assert!(lines(&[stopped])[1].contains("08:50  interrupted: 64B-1flow"));
    }

    #[test]
    fn a_run_is_one_line_that_fits() {
        let run = |place, id, result: &str| Entry {
            place: Some(place),
            id,
            began: Some("2026-11-21 08:50".into()),
            state: "finished",
            result: result.into(),
            ..Entry::default()
        };
        let long =
            "rules, cost of one 12.5 ns, of which half is spent in the first of them, 3 more";
        let id =
            "2026-11-21-import-xeon-e5-2650-8cores-chelsio-t540-cr-bridge-fbsd11-1-yandex-v1n8";
        let runs = [
            run(1, "2026-11-21-ndr-7f3k", "NDR 999.4 kpps"),
            run(2, id, long),
            run(3, "2026-11-21-ndr-7f3h", ""),
        ];
        let expected = "
     run                         UTC  result
 @1  2026-11-21-ndr-7f3k       08:50  NDR 999.4 kpps
 @2  2026-11-21-...andex-v1n8  08:50  rules, cost of one 12.5 ns, of which...
 @3  2026-11-21-ndr-7f3h       08:50
";
        assert_eq!(fitted(&runs, 80).join("\n"), expected.trim_matches('\n'));
        // tags do not push the result out
        let tagged = runs.clone().map(|run| Entry {
            tags: "before-the-upgrade".into(),
            ..run
        });
        let [_, first, ..] = &fitted(&tagged, 80)[..] else {
            panic!()
        };
        assert!(
            first.ends_with("  NDR 999.4 kpps  [before-the-upgrade]"),
            "{first}"
        );
        assert!(
            fitted(&tagged, 80)
                .iter()
                .all(|line| line.chars().count() <= 80)
        );
        assert!(fitted(&tagged, 120)[0].contains("UTC  tags"));
        // nor do the numbers of many runs
        let many = runs.clone().map(|run| Entry {
            place: run.place.map(|n| n + 10_000),
            ..run
        });
        let many = fitted(&many, 80);
        let is_line = |line: &String| !line.contains('\n') && line.chars().count() <= 80;
        assert!(many.iter().all(is_line), "{many:?}");
        let narrow = fitted(&runs, 40).join("\n");
        assert_eq!(narrow.lines().count(), 9, "{narrow}");
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 40),
            "{narrow}"
        );
        assert_eq!(
            cut("64 B: 1.488 \u{b1} 0.057 Mpps, 3 more", 27),
            "64 B: 1.488..."
        );
        assert!(narrow.contains("     NDR 999.4 kpps\n"), "{narrow}");
    }
}
