//! The fate of every frame of the trial on the screen, in sentences from its ledger.

use fwdlab_model::loss::Ledger;
use fwdlab_report::number::{count, percent, rate};
use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::app::App;
use super::super::theme::Theme;
use super::{text_popup, wrapped};

pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let Some(trial) = app.shown_trial() else {
        return;
    };
    let width = area.width.min(96);
    let inside = width.saturating_sub(4);
    let mut words = Vec::new();
    let mut say = |text: &str| {
        words.extend(wrapped(
            &text.replace(|c: char| c.is_control(), " "),
            inside,
            "  ",
        ))
    };
    say(&format!(
        "{}, iteration {}: offered {}, forwarded {}",
        app.case_name(trial.case),
        trial.iteration,
        rate(trial.offered_pps),
        trial.forwarded_pps.map_or("unknown".into(), rate)
    ));
    match &trial.record {
        None => say(
            "What became of its frames is in the report of the run: this trial was too long ago to be kept here.",
        ),
        Some(record) => {
            for sentence in sentences(&record.ledger) {
                say(&sentence);
            }
            if !record.validity.is_valid() {
                say(&format!(
                    "The trial is invalid and does not count: {}.",
                    record.validity.reasons.join("; ")
                ));
            }
        }
    }
    let title = format!("loss of trial {}", trial.number);
    text_popup(frame, area, width, &title, words, (app, theme));
}

/// Returns a ledger in sentences.
pub fn sentences(ledger: &Ledger) -> Vec<String> {
    let of_sent = |frames: u64| percent(100.0 * frames as f64 / ledger.frames_sent.max(1) as f64);
    let mut all = Vec::new();
    if let Some(intended) = ledger.frames_intended
        && ledger.frames_not_sent > 0
    {
        let limit = if ledger.gen_limited {
            ": the generator was the limit"
        } else {
            ""
        };
        all.push(format!(
            "Of {} frames intended the generator did not send {}{limit}.",
            count(intended),
            count(ledger.frames_not_sent)
        ));
    }
    all.push(format!(
        "{} frames were sent, {} came back ({}).",
        count(ledger.frames_sent),
        count(ledger.frames_received),
        of_sent(ledger.frames_received)
    ));
    match ledger.frames_lost {
        0 => all.push("None was lost.".into()),
        lost if lost < 0 => all.push(format!("{} more came back than were sent.", count(-lost))),
        lost => all.push(format!(
            "{} were lost ({}):",
            count(lost),
            of_sent(lost as u64)
        )),
    }
    for loss in ledger.losses.iter().filter(|loss| loss.frames > 0) {
        let reasons = loss.reasons.iter().filter(|reason| reason.frames > 0);
        let reasons: Vec<String> = reasons
            .map(|reason| format!("{} {}", count(reason.frames), reason.reason))
            .collect();
        let cause = match reasons.is_empty() {
            true => String::new(),
            false => format!("; the kernel says: {}", reasons.join(", ")),
        };
        all.push(format!(
            "- {} ({}) {}, says {}{cause}.",
            count(loss.frames),
            of_sent(loss.frames),
            loss.place.words(),
            loss.counter
        ));
    }
    if ledger.frames_unexplained > 0 {
        all.push(format!(
            "- {} ({}) that no counter explains.",
            count(ledger.frames_unexplained),
            of_sent(ledger.frames_unexplained)
        ));
    } else if ledger.frames_lost > 0 {
        all.push("Every lost frame is accounted for.".into());
    }
    if ledger.frames_additional > 0 {
        all.push(format!(
            "{} frames were sent in addition, which a router does not forward.",
            count(ledger.frames_additional)
        ));
    }
    all
}
