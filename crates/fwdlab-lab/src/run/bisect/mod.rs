//! Bisection by instructions: candidates become images, which are booted and measured in ordinary
//! runs until the first one that changed the figure is found.
//!
//! `fwdlab_measure::bisect` decides what to test next and what a figure means; this module carries
//! it out and keeps a [`log`](Log), from which a search can be continued. Start with
//! [`Bisection::carry_out`]; a [`Source`] provides the images.

mod git;
mod log;

use std::path::Path;

use fwdlab_measure::bisect::{ChangePosition, Ends, Next, next, rounds};
use fwdlab_measure::exact::exact_of;
use fwdlab_model::bisect::{Began, Candidate, Compared, Figure, Tested, Verdict};
use fwdlab_model::campaign::{self, Draft, Matrix, OnFailure, PLAIN, Procedure, Several, Size};
use fwdlab_model::event::Event;
use fwdlab_model::instructions::Exact;
use fwdlab_model::result::{RunInfo, RunState, Summary};
use fwdlab_model::test_case::TestCase;
use serde_json::json;

pub use self::git::{Commits, Git};
pub use self::log::Log;
use super::campaign::start;
use super::method::bursts::side_by_side;
use super::plan::{Host, Plan};
use super::{Control, Measured};
use crate::error::LabError;

/// Kind of the runs of a bisection.
pub const KIND: &str = "bisect";

/// Provides images.
pub trait Source {
    /// Returns the image of a candidate, or the reason why it has none and must be skipped.
    ///
    /// # Errors
    /// Fails for reasons that affect all candidates.
    fn image(
        &mut self,
        candidate: &Candidate,
        control: &Control,
    ) -> Result<Result<String, String>, LabError>;

    /// Returns how many candidates to test at a time.
    fn parallelism(&self) -> usize;
}

/// Candidates that are images already.
#[derive(Debug, Clone, Copy)]
pub struct Images;

impl Source for Images {
    fn image(
        &mut self,
        candidate: &Candidate,
        _: &Control,
    ) -> Result<Result<String, String>, LabError> {
        Ok(Ok(candidate.name.clone()))
    }

    /// As many as are booted in parallel: together they take the time of one. Not more than four,
    /// because each of them may be a download, and most are not needed.
    fn parallelism(&self) -> usize {
        side_by_side().min(4)
    }
}

/// Progress of a bisection.
pub enum BisectEvent<'a> {
    /// An event of a run.
    Event(&'a Event),
    /// These candidates are built if necessary, and measured now.
    Testing {
        /// Their indices among the candidates.
        candidates: &'a [usize],
        /// Rounds after this one, if no candidate must be skipped.
        rounds: u32,
    },
    /// A candidate was tested.
    Tested(&'a Tested),
    /// The last unchanged candidate and the first changed one are now compared by function.
    Comparing,
}

/// How a bisection ended.
#[derive(Debug, Clone)]
pub enum End {
    /// The change was found.
    Found(Box<Answer>),
    /// The ends show no difference.
    NoDifference {
        /// Figure of the good end.
        good: Figure,
        /// Figure of the bad end.
        bad: Figure,
        /// The reason, in words.
        reason: String,
    },
    /// An end cannot be measured.
    NoEnd {
        /// Its index among the candidates.
        at: usize,
        /// The reason.
        reason: String,
    },
    /// Stopped by a signal; the log contains what was tested until then.
    Interrupted,
}

/// The first candidate that changed the figure.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The position of the change.
    pub found: ChangePosition,
    /// Both sides of it, by function.
    pub compared: Compared,
    /// Difference between the good and the bad end.
    pub whole: f64,
}

/// Parameters of a bisection.
pub struct Bisection<'a> {
    /// The machine that carries it out.
    pub host: Host,
    /// Name and parts of the configuration that every DUT has.
    pub set: Option<(String, Vec<String>)>,
    /// The folder that paths in its parts are relative to.
    pub folder: &'a Path,
    /// Folder of the runs.
    pub runs: &'a Path,
    /// Stops the bisection.
    pub control: &'a Control,
    /// Renders the page of a run.
    pub render: &'a dyn Fn(&RunInfo, &Summary, &Measured) -> String,
}

/// Results of a run.
struct Run {
    id: String,
    /// For every image, in order: its figures or the reason why it has none; `None` if the run was
    /// stopped before it was measured.
    found: Vec<Option<Result<Exact, String>>>,
}

impl Bisection<'_> {
    /// Searches, starting with what the log contains, until the end.
    ///
    /// # Errors
    /// Fails if an end has no image or does not boot, or if something unrelated to a single
    /// candidate fails.
    pub fn carry_out(
        &self,
        log: &mut Log,
        source: &mut dyn Source,
        report: &mut dyn FnMut(BisectEvent<'_>),
    ) -> Result<End, LabError> {
        let last = log.began.candidates.len() - 1;
        loop {
            if self.control.is_stopped() {
                return Ok(End::Interrupted);
            }
            let verdicts = log.verdicts();
            let figure = |at| log.tested(at).and_then(|one: &Tested| one.figure);
            let ends = match (figure(0), figure(last)) {
                (Some(good), Some(bad)) => {
                    let again = log.tested(0).and_then(|one| one.again);
                    match Ends::new(good, bad, again, log.began.threshold_percent) {
                        Ok(ends) => Some(ends),
                        Err(cause) => {
                            return Ok(End::NoDifference {
                                good,
                                bad,
                                reason: cause,
                            });
                        }
                    }
                }
                _ => None,
            };
            let which = match next(&verdicts, source.parallelism()) {
                Next::Test(which) => which,
                Next::NoEnd(at) => {
                    let cause = log.tested(at).and_then(|one| one.why.clone());
                    let cause = cause.unwrap_or_else(|| "it was skipped".into());
                    return Ok(End::NoEnd { at, reason: cause });
                }
                Next::Found(found) => {
                    let whole = ends.map_or(f64::NAN, |ends| ends.difference());
                    return self.compare(found, whole, log, source, report);
                }
            };
            let open = verdicts.iter().filter(|verdict| verdict.is_none()).count();
            let after = match ends {
                None => open.saturating_sub(which.len()),
                Some(_) => open_after(&verdicts, which.len()),
            };
            report(BisectEvent::Testing {
                candidates: &which,
                rounds: rounds(after, source.parallelism()),
            });
            self.test(&which, ends, log, source, report)?;
        }
    }

    /// Measures these candidates in one run, and logs the verdicts.
    fn test(
        &self,
        which: &[usize],
        ends: Option<Ends>,
        log: &mut Log,
        source: &mut dyn Source,
        report: &mut dyn FnMut(BisectEvent<'_>),
    ) -> Result<(), LabError> {
        let last = log.began.candidates.len() - 1;
        let of = |at: usize, log: &Log| Tested {
            at,
            candidate: log.began.candidates[at].name.clone(),
            verdict: Verdict::Skipped,
            figure: None,
            again: None,
            why: None,
            image: None,
            run: None,
        };
        let mut images = Vec::new();
        for &at in which {
            match source.image(&log.began.candidates[at].clone(), self.control)? {
                Ok(image) => images.push((at, image)),
                Err(_) if self.control.is_stopped() => return Ok(()),
                Err(reason) => {
                    let skipped = Tested {
                        why: Some(reason),
                        ..of(at, log)
                    };
                    log.keep(skipped.clone())?;
                    report(BisectEvent::Tested(&skipped));
                }
            }
        }
        // if an end has no image, there is nothing to compare with
        if images.is_empty() || ends.is_none() && images.len() < which.len() {
            return Ok(());
        }
        let is_first = ends.is_none();
        let names: Vec<&str> = images.iter().map(|(_, image)| image.as_str()).collect();
        let (run, again) = self.measure(&log.began, &names, is_first, false, report)?;
        for ((at, image), found) in images.into_iter().zip(run.found) {
            let known = Tested {
                image: Some(image),
                run: Some(run.id.clone()),
                ..of(at, log)
            };
            let tested = match found {
                // stopped before it was measured
                None => continue,
                Some(Err(_)) if self.control.is_stopped() => continue,
                Some(Err(reason)) => Tested {
                    why: Some(reason),
                    ..known
                },
                Some(Ok(found)) => {
                    let figure = Figure::from(&found);
                    let (verdict, reason) = match &ends {
                        _ if at == 0 => (Verdict::Good, None),
                        _ if at == last => (Verdict::Bad, None),
                        Some(ends) => ends.judge(figure),
                        None => continue,
                    };
                    Tested {
                        verdict,
                        figure: (verdict != Verdict::Skipped).then_some(figure),
                        again: again.filter(|_| at == 0),
                        why: reason,
                        ..known
                    }
                }
            };
            log.keep(tested.clone())?;
            report(BisectEvent::Tested(&tested));
        }
        Ok(())
    }

    /// Measures both sides of the change, by function.
    fn compare(
        &self,
        found: ChangePosition,
        whole: f64,
        log: &mut Log,
        source: &mut dyn Source,
        report: &mut dyn FnMut(BisectEvent<'_>),
    ) -> Result<End, LabError> {
        if let Some(compared) = log.compared.clone() {
            return Ok(End::Found(Box::new(Answer {
                found,
                compared,
                whole,
            })));
        }
        report(BisectEvent::Comparing);
        let mut images = Vec::new();
        for at in [found.last_good, found.first_bad] {
            let candidate = log.began.candidates[at].clone();
            match source.image(&candidate, self.control)? {
                Ok(image) => images.push(image),
                Err(_) if self.control.is_stopped() => return Ok(End::Interrupted),
                Err(reason) => return Err(not_again(&candidate, &reason)),
            }
        }
        let names: Vec<&str> = images.iter().map(String::as_str).collect();
        let (run, _) = self.measure(&log.began, &names, false, true, report)?;
        let mut both = Vec::new();
        for (at, found) in [found.last_good, found.first_bad].iter().zip(run.found) {
            match found {
                Some(Ok(found)) => both.push(found),
                _ if self.control.is_stopped() => return Ok(End::Interrupted),
                None => return Ok(End::Interrupted),
                Some(Err(reason)) => return Err(not_again(&log.began.candidates[*at], &reason)),
            }
        }
        let (Some(first_bad), Some(last_good)) = (both.pop(), both.pop()) else {
            return Ok(End::Interrupted);
        };
        let compared = Compared {
            last_good,
            first_bad,
            run: run.id,
        };
        log.keep_compared(compared.clone())?;
        Ok(End::Found(Box::new(Answer {
            found,
            compared,
            whole,
        })))
    }

    /// Measures these images in one run; the first one also as A/A control, if requested.
    fn measure(
        &self,
        started: &Began,
        images: &[&str],
        are_ends: bool,
        profile: bool,
        report: &mut dyn FnMut(BisectEvent<'_>),
    ) -> Result<(Run, Option<f64>), LabError> {
        let plan = self.plan(started, images, are_ends, profile)?;
        let mut listener = |event: &Event| report(BisectEvent::Event(event));
        let (run, mut measured) = start(&plan, self.runs, self.control, &mut listener)?;
        let summary = measured
            .summary
            .take()
            .ok_or_else(|| LabError::system("sum up a run", std::io::ErrorKind::UnexpectedEof))?;
        let state = match self.control.is_stopped() {
            true => RunState::Interrupted,
            false => RunState::Finished,
        };
        let info = run.finish(&summary, state, |info| {
            (self.render)(info, &summary, &measured)
        })?;
        let again = (summary.test_cases.first())
            .and_then(|case| exact_of(case)?.difference.as_ref())
            .filter(|_| are_ends)
            .map(|control| control.instructions_per_frame);
        let of_image = |image: &&str| {
            let mut cases = summary.test_cases.iter();
            let case = cases.find(|case| case.case.image.as_deref() == Some(image))?;
            case_figures(case)
        };
        let found = images.iter().map(of_image).collect();
        let id = info.id;
        Ok((Run { id, found }, again))
    }

    fn plan(
        &self,
        started: &Began,
        images: &[&str],
        are_ends: bool,
        profile: bool,
    ) -> Result<Plan, LabError> {
        let requested = match &started.campaign {
            Some(of) => of.procedure.clone(),
            None => campaign::Exact {
                frames: started.frames,
                ..campaign::Exact::default()
            },
        };
        let name = (self.set.as_ref()).map_or(PLAIN, |(name, _)| name.as_str());
        let procedure = Procedure::Exact(campaign::Exact {
            profile: profile && requested.profile,
            control: are_ends,
            reference: name.into(),
            ..requested
        });
        let stream = &started.stream;
        let images = images.iter().map(|image| (*image).to_owned()).collect();
        let draft = Draft {
            seed: Some(self.host.seed),
            // the ends and the comparison need every image; otherwise a candidate that does not
            // boot is skipped
            on_failure: match are_ends || profile {
                true => OnFailure::End,
                false => OnFailure::Continue,
            },
            configuration: self.set.clone().into_iter().collect(),
            matrix: Matrix {
                configuration: Some(Several(vec![name.into()])),
                size: Some(Several(vec![Size::from(stream.frame_size_bytes)])),
                flows: Some(Several(vec![stream.flows])),
                ip: Some(Several(vec![stream.ip_version])),
                image: Some(Several(images)),
                ..Matrix::default()
            },
            ..Draft::new(KIND, procedure)
        };
        let no_profile = |_: &str, _, _| Err(String::new());
        let mut plan = Plan::new(
            draft.campaign()?,
            self.folder,
            self.host.clone(),
            &no_profile,
        )?;
        if let Some(of) = &started.campaign {
            plan.keep("campaign", json!(of.file));
            plan.keep("test_case", json!(of.case));
        }
        Ok(plan)
    }
}

/// Returns the maximum number of open candidates after the next round, whatever its verdicts.
fn open_after(verdicts: &[Option<Verdict>], tests: usize) -> usize {
    let last = verdicts.len() - 1;
    let is = |verdict| move |at: &usize| verdicts[*at] == Some(verdict);
    let bad = (1..=last).find(is(Verdict::Bad)).unwrap_or(last);
    let good = (0..bad).rev().find(is(Verdict::Good)).unwrap_or(0);
    let open = (good + 1..bad).filter(|&at| verdicts[at].is_none()).count();
    (open + 1).div_ceil(tests + 1).saturating_sub(1)
}

/// Returns the figures of a test case, or its first failure.
fn case_figures(case: &TestCase) -> Option<Result<Exact, String>> {
    if let Some(found) = exact_of(case) {
        return Some(Ok(found.clone()));
    }
    let failure = (case.iterations.iter()).find_map(|one| one.failure.clone())?;
    Some(Err(failure))
}

fn not_again(candidate: &Candidate, cause: &str) -> LabError {
    LabError::NotUp {
        image: candidate.words(),
        reason: format!(
            "it was measured before, but the second measurement for the comparison failed: {cause}"
        ),
    }
}
