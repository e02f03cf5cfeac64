//! Renders the step summary of a CI job for GitHub and Gitea: short Markdown, with details folded.
//!
//! It has the content of `markdown`; thresholds come first. Start with [`text`].

use crate::executive;
use crate::headline;
use crate::markdown::summary;
use crate::run::Run;
use crate::table::escaped;
use crate::trust::Mark;
use fwdlab_model::result::RunState;

/// Largest summary, in bytes. GitHub accepts 1 MiB per step; a longer summary ends after a whole
/// run and mentions the cut.
const AT_MOST: usize = 1_000_000;

/// Renders the summary of runs.
pub fn text(runs: &[Run<'_>]) -> String {
    let mut text = String::new();
    for (done, run) in runs.iter().enumerate() {
        let one = of_run(run);
        if text.len() + one.len() > AT_MOST {
            text += &format!("\n{} more runs have no room here.\n", runs.len() - done);
            break;
        }
        text += &one;
    }
    text
}

fn of_run(run: &Run<'_>) -> String {
    let (info, found) = (run.info, run.summary);
    let missed = found.thresholds.iter().filter(|one| !one.passed).count();
    let sign = match (missed, info.state, Mark::from_summary(found)) {
        (0, RunState::Finished, Mark::Good) => "\u{2705}",
        (0, ..) => "\u{26a0}\u{fe0f}",
        _ => "\u{274c}",
    };
    let mut text = format!(
        "### {sign} {}\n\n",
        escaped(&headline::from_summary(info, found).line())
    );
    if !found.thresholds.is_empty() {
        text += "| threshold | |\n| --- | --- |\n";
        for judged in &found.thresholds {
            let returned = match (judged.passed, judged.failed.is_empty()) {
                (true, _) => "\u{2705} kept".to_owned(),
                (false, false) => format!("\u{274c} {}", escaped(&judged.failed.join("; "))),
                (false, true) => "\u{26a0}\u{fe0f} could not be judged".to_owned(),
            };
            text += &format!("| {} | {returned} |\n", escaped(&judged.limit));
        }
        text.push('\n');
    }
    for sentence in executive::sentences(info, found) {
        text += &format!("- {}\n", escaped(&sentence.words));
    }
    text += &format!(
        "\n<details><summary>All figures of run {}</summary>\n\n{}\n</details>\n\n",
        entities(&info.id),
        summary(info, found)
    );
    text
}

/// Escapes text for use between tags.
fn entities(text: &str) -> String {
    let mut m = crate::markup::Markup::default();
    m.text(&text.replace(['\n', '\r'], " "));
    m.finish()
}
