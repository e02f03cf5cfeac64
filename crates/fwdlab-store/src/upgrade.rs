//! Records of earlier versions, read as if they were of today.
//!
//! Only what was renamed or moved is here: fields that are merely missing have defaults where they are defined. Version 1 kept a search
//! apart from other procedures; since version 2 it is an outcome among others, and its trials are questions and answers like all. Start
//! with [`searched`] and [`summary`].

use fwdlab_model::outcome::{Compliance, Found, Outcome};
use fwdlab_model::procedure::{Answer, Asked, Purpose, Queries, Question};
use fwdlab_model::result::{Summary, TrialRecord};
use fwdlab_model::search::SearchOutcome;
use fwdlab_model::units::FrameSize;
use serde::Deserialize;

/// What a trial of a search had beside others in version 1.
#[derive(Deserialize)]
struct SearchTrial {
    load_pps: f64,
    duration_ns: u64,
    #[serde(default)]
    ended_early: bool,
    warm_up: bool,
    #[serde(default)]
    management: Option<Queries>,
    reason: String,
    says: Vec<String>,
}

/// Reads a trial of a search of version 1, which had the place of its load.
pub(crate) fn searched(line: &[u8]) -> serde_json::Result<Box<TrialRecord>> {
    let mut record: Box<TrialRecord> = serde_json::from_slice(line)?;
    let search: SearchTrial = serde_json::from_slice(line)?;
    record.asked = Some(Box::new(asked(search, &record)));
    Ok(record)
}

fn asked(search: SearchTrial, record: &TrialRecord) -> Asked {
    let (ledger, counters) = (&record.ledger, &record.counters);
    let purpose = match search.warm_up {
        true => Purpose::WarmUp,
        false => Purpose::Search,
    };
    Asked {
        question: Question::constant(
            record.stream.frame_size_bytes,
            search.load_pps,
            search.duration_ns,
            purpose,
            search.reason,
        ),
        answer: Answer {
            frames_intended: ledger.frames_intended.unwrap_or(ledger.frames_sent),
            frames_sent: ledger.frames_sent,
            frames_received: ledger.frames_received,
            frames_beside: ledger.frames_beside,
            frames_foreign: counters.receiver_foreign,
            directions: record.directions.clone(),
            ended_early: search.ended_early,
            duration_ns: (1e9 * record.duration_s).round() as u64,
            management: search.management,
            ..Answer::default()
        },
        says: search.says.join("; "),
        latency_log: None,
    }
}

/// Reads a summary.
pub(crate) fn summary(bytes: &[u8]) -> serde_json::Result<Summary> {
    #[derive(Deserialize)]
    struct Searched {
        search: Option<SearchOutcome>,
    }
    let mut summary: Summary = serde_json::from_slice(bytes)?;
    let Searched { search } = serde_json::from_slice(bytes)?;
    summary.outcomes.extend(search.map(outcome));
    Ok(summary)
}

/// What stood only with the trials.
pub(crate) fn complete(summary: &mut Summary, trials: &[TrialRecord]) {
    let Some(first) = trials.first().filter(|_| summary.format < 2) else {
        return;
    };
    let searches = summary.outcomes.iter_mut();
    for outcome in searches.filter(|o| matches!(o.found, Found::Mlrsearch(_))) {
        outcome.frame_size_bytes = first.stream.frame_size_bytes;
    }
}

fn outcome(found: SearchOutcome) -> Outcome {
    let verdicts: Vec<&str> = found.goals.iter().map(|g| g.verdict.as_str()).collect();
    let is_answered = |goal: &fwdlab_model::search::GoalResult| {
        goal.regular || goal.relevant_lower_bound_index == Some(found.max_load_index)
    };
    Outcome {
        // it stands with the trials only, see [`complete`]
        frame_size_bytes: FrameSize::MIN,
        variant: found.variant.clone(),
        verdict: (found.failure.clone()).unwrap_or_else(|| verdicts.join("; ")),
        answered: found.failure.is_none() && found.goals.iter().all(is_answered),
        compliance: Compliance {
            standard: "RFC 2544 §26.1 throughput".into(),
            shortened: found.shortened.clone(),
        },
        warnings: Vec::new(),
        trials: found.trials,
        found: Found::Mlrsearch(found),
    }
}
