//! `fwdlab bisect`: finds the first kernel in a list that needs more, or fewer, instructions per
//! frame.
//!
//! This module reads the candidates; the search itself is in `lab`. Start with [`Bisect::run`].

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::Args;
use fwdlab_lab::control::Control;
use fwdlab_lab::placement::Placement;
use fwdlab_lab::run::Measured;
use fwdlab_lab::run::bisect::{
    self, Answer, BisectEvent, Bisection, Commits, End, Git, Images, Log, Source,
};
use fwdlab_lab::run::plan::Host;
use fwdlab_lab::site::Site;
use fwdlab_lab::user_namespace;
use fwdlab_lab::vm::image::Image;
use fwdlab_lab::vm::image::cache::Cache;
use fwdlab_model::bisect::{Began, Build, Candidate, FORMAT, OfCampaign, Tested};
use fwdlab_model::campaign::{Campaign, Draft, Exact, Procedure};
use fwdlab_model::event::EventKind;
use fwdlab_model::result::{RunInfo, Summary};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use fwdlab_report::bisect::{Place, figure, found, tested};
use fwdlab_report::html::ShownFacts;
use fwdlab_report::number::plural;
use fwdlab_report::run::Run;
use jiff::Timestamp;
use serde_json::json;

use super::Global;
use super::run::{case_profiles, catch_signals, random_seed};
use crate::exit_code::{Code, Usage};
use crate::output::{self, Level, Screen, Verbosity};

/// Find the first kernel that changed the instructions per frame
///
/// Searches between a good and a bad image, as git bisect does. Every image is booted in QEMU's
/// emulator, which counts instructions, as `quick --vm` does: it needs no privileges, and other
/// work on this machine does not change the result. The good and the bad image must differ by more
/// than noise. An image that cannot be built or booted is skipped. A log records every step;
/// --resume continues from it. See docs/reference/bisect.md.
#[derive(Debug, Args)]
pub struct Bisect {
    /// Known good image, such as debian:linux-image-6.1.0-56-cloud-amd64; with --git a revision
    #[arg(long, value_name = "IMAGE", required_unless_present = "resume")]
    good: Option<String>,
    /// Known bad image; with --git a revision
    #[arg(long, value_name = "IMAGE", required_unless_present = "resume")]
    bad: Option<String>,
    /// File of images to search, one per line, the oldest first; # begins a comment [default: the
    /// kernels of the same flavour in the archive, with versions between the two]
    #[arg(long, value_name = "FILE", conflicts_with = "git")]
    images: Option<PathBuf>,
    /// Search the commits of this repository between two revisions, along first parents
    #[arg(long, value_name = "DIR", requires = "build")]
    git: Option<PathBuf>,
    /// Command that builds a commit, run by sh -c in a separate worktree; the last line of its
    /// output names the kernel [default: arch/x86/boot/bzImage]
    #[arg(long, value_name = "COMMAND", requires = "git")]
    build: Option<String>,
    /// Metric to search for a change
    #[arg(long, default_value = "instructions", value_parser = ["instructions"])]
    metric: String,
    /// Ignore changes smaller than this, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    threshold: f64,
    /// Measure a test case of this campaign (procedure exact): its frames, with its configuration;
    /// the images are those of the search
    #[arg(long, value_name = "FILE", conflicts_with_all = ["set", "size", "flows", "ipv6", "frames"])]
    campaign: Option<PathBuf>,
    /// Test case of --campaign: its name in `fwdlab plan`, or the name of its configuration
    /// [default: the only one]
    #[arg(long, value_name = "NAME", requires = "campaign")]
    case: Option<String>,
    /// Apply a configuration to every DUT: a file, a directory or a shell command
    #[arg(long, value_name = "FILE|DIR|COMMAND")]
    set: Option<String>,
    /// Frame size in bytes, including the FCS [default: the smallest]
    #[arg(long, value_name = "BYTES")]
    size: Option<FrameSize>,
    /// Number of flows
    #[arg(long, value_name = "N", default_value_t = 2000)]
    flows: u32,
    /// Measure IPv6
    #[arg(long)]
    ipv6: bool,
    /// Frames of a burst
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    frames: u32,
    /// Log file; if it exists and is of the same search, the search continues [default: a new file
    /// in the directory of runs]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Resume from this log; it contains all other options
    #[arg(long, value_name = "LOG", conflicts_with_all = ["good", "bad", "images", "git", "build", "metric", "threshold", "campaign", "case", "set", "size", "flows", "ipv6", "frames", "log"])]
    resume: Option<PathBuf>,
}

impl Bisect {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let runs = global.runs_root()?;
        let mut log = self.open(&runs)?;
        let started = log.began.clone();
        let (set, folder) = applied(&started)?;
        let stem = log.path().file_stem().unwrap_or_default();
        let mut commits = match &started.build {
            Some(build) => {
                // another search of this name may have built its DUTs with another command
                let digits = started.started_at.chars().filter(char::is_ascii_digit);
                let name = format!("{}-{}", stem.to_string_lossy(), digits.collect::<String>());
                Some(Git::new(build.clone(), &name)?)
            }
            None => None,
        };
        let mut images = Images;
        let source: &mut dyn Source = match &mut commits {
            Some(commits) => commits,
            None => &mut images,
        };
        let control = Control::default();
        let signal = catch_signals(&control.flag())?;
        let bisection = Bisection {
            host: Host {
                site: Site::default(),
                placement: Placement::choose(&[], 1)?,
                privileged: user_namespace::is_root(),
                kind: bisect::KIND.into(),
                seed: random_seed(),
                command_line: std::env::args().collect(),
            },
            set,
            folder: &folder,
            runs: &runs,
            control: &control,
            render: &render,
        };
        let mut teller = ProgressPrinter::new(global, &started);
        teller.line(&format!(
            "bisect    {} from {} to {}\nlog       {}",
            plural(started.candidates.len(), "candidate"),
            started.candidates[0].words(),
            started.candidates[started.candidates.len() - 1].words(),
            log.path().display()
        ));
        if let Some(of) = &started.campaign {
            teller.line(&format!(
                "campaign  {}: {} by exact; its images and iterations are not used: every candidate is booted once",
                of.file, of.case
            ));
        }
        if !log.tested.is_empty() {
            teller.line(&format!(
                "continued {} known from before",
                plural(log.tested.len(), "candidate")
            ));
        }
        let end = bisection.carry_out(&mut log, source, &mut |reported| {
            teller.print_event(&reported)
        });
        let signal = signal.load(Ordering::Acquire);
        let end = match end {
            Err(error) if signal == 0 => {
                go_on(&log);
                return Err(error.into());
            }
            Err(_) => End::Interrupted,
            Ok(end) => end,
        };
        if global.json {
            output::json(&document(&log, &end))?;
        } else if !global.json_stream {
            print_end(&log, &end, global.verbosity());
        }
        if matches!(end, End::Interrupted) {
            go_on(&log);
        }
        Ok(match (&end, signal) {
            (End::Interrupted, 15) => Code::Terminated,
            (End::Interrupted, _) => Code::Interrupted,
            (End::Found(answer), _) => match is_proven(answer) {
                true => Code::Done,
                false => Code::NotValid,
            },
            (End::NoDifference { .. }, _) => Code::NotValid,
            (End::NoEnd { .. }, _) => Code::TestBed,
        })
    }

    /// Opens the log: a new one, or the one to resume.
    fn open(&self, runs: &Path) -> anyhow::Result<Log> {
        if let Some(path) = &self.resume {
            if !path.is_file() {
                return Err(Usage(format!("--resume: there is no file {}", path.display())).into());
            }
            return Ok(Log::open(path)?);
        }
        if !(0.0..100.0).contains(&self.threshold) {
            return Err(Usage("--threshold: give a percentage from 0 to 100".into()).into());
        }
        let (campaign, stream) = match &self.campaign {
            Some(file) => {
                let (of, stream) = self.campaign_case(file)?;
                (Some(of), stream)
            }
            None => (None, self.stream()?),
        };
        let requested = campaign.as_ref().map(|of| of.procedure.frames);
        let mut started = Began {
            format: FORMAT,
            started_at: Timestamp::now().to_string(),
            candidates: Vec::new(),
            build: None,
            set: self.set.clone(),
            stream,
            frames: requested.unwrap_or(self.frames),
            campaign,
            threshold_percent: self.threshold,
        };
        // check the configuration before anything is downloaded
        applied(&started)?;
        started.candidates = self.candidates()?;
        started.build = self.build()?;
        match &self.log {
            Some(path) if path.exists() => {
                let log = Log::open(path)?;
                let same = Began {
                    started_at: log.began.started_at.clone(),
                    ..started
                };
                match log.began == same {
                    true => Ok(log),
                    false => Err(Usage(format!(
                        "--log: {} is of another search; continue that with --resume, or name another file",
                        path.display()
                    ))
                    .into()),
                }
            }
            Some(path) => Ok(Log::create(path, started)?),
            None => {
                let name = Timestamp::now().strftime("bisect-%Y%m%d-%H%M%S.jsonl");
                Ok(Log::create(&runs.join(name.to_string()), started)?)
            }
        }
    }

    fn stream(&self) -> anyhow::Result<Stream> {
        let version = match self.ipv6 {
            true => IpVersion::Ipv6,
            false => IpVersion::Ipv4,
        };
        let size = self.size.unwrap_or_else(|| version.smallest_frame());
        Ok(Stream::new(version, size, self.flows)?)
    }

    /// Returns what the campaign measures, and its stream.
    fn campaign_case(&self, file: &Path) -> anyhow::Result<(OfCampaign, Stream)> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            Usage(format!(
                "--campaign: cannot read {}: {error}",
                file.display()
            ))
        })?;
        let campaign = Campaign::parse(&file.display().to_string(), &text)?;
        // absolute, because the search may be resumed from another folder
        let absolute = std::path::absolute(file)?.display().to_string();
        Ok(OfCampaign::new(&campaign, &absolute, self.case.as_deref())?)
    }

    fn build(&self) -> anyhow::Result<Option<Build>> {
        let (Some(repository), Some(command)) = (&self.git, &self.build) else {
            return Ok(None);
        };
        // absolute, because the search may be resumed from another folder
        let repository = std::path::absolute(repository)?;
        Ok(Some(Build {
            repository: repository.display().to_string(),
            command: command.clone(),
        }))
    }

    /// Returns the candidates, from good to bad.
    fn candidates(&self) -> anyhow::Result<Vec<Candidate>> {
        let good = self.good.as_deref().unwrap_or_default();
        let bad = self.bad.as_deref().unwrap_or_default();
        if good == bad {
            return Err(Usage("--good and --bad are the same".into()).into());
        }
        if let Some(repository) = &self.git {
            let found = Commits::between(repository, good, bad)
                .map_err(|error| Usage(format!("--git: {error}")))?;
            return match found.len() {
                0 | 1 => Err(Usage("--good and --bad are the same commit".into()).into()),
                _ => Ok(found),
            };
        }
        let names = match &self.images {
            Some(file) => {
                let text = std::fs::read_to_string(file).map_err(|error| {
                    Usage(format!("--images: cannot read {}: {error}", file.display()))
                })?;
                listed(&text, good, bad).map_err(|reason| Usage(format!("--images: {reason}")))?
            }
            None => {
                let cache = Cache::for_user().map_err(|error| Usage(error.to_string()))?;
                let mut tell = |text: &str| output::note(text);
                Image::between(good, bad, &cache, &mut tell)
                    .map_err(|error| Usage(format!("{error}: --images FILE, one image per line")))?
            }
        };
        let names = names.into_iter();
        Ok(names
            .map(|name| Candidate {
                name,
                title: String::new(),
            })
            .collect())
    }
}

/// Name and parts of a configuration.
type Named = (String, Vec<String>);

/// Returns the configuration that all DUTs share, and the folder of its files.
fn applied(started: &Began) -> anyhow::Result<(Option<Named>, PathBuf)> {
    if let Some(of) = started.campaign.as_ref().filter(|of| !of.parts.is_empty()) {
        let folder = Path::new(&of.file).parent().unwrap_or(Path::new("/"));
        let named = (of.configuration.clone(), of.parts.clone());
        return Ok((Some(named), folder.to_owned()));
    }
    let mut draft = Draft::new(bisect::KIND, Procedure::Exact(Exact::default()));
    draft.set(started.set.as_deref())?;
    Ok((draft.configuration.pop_first(), PathBuf::new()))
}

/// Returns the images of a list from good to bad. Adds the good and the bad image at the ends if
/// the list lacks them.
fn listed(text: &str, good: &str, bad: &str) -> Result<Vec<String>, String> {
    let lines = text.lines().map(|line| {
        // a name may contain a #; a comment starts after a blank
        let end = match line.trim_start().starts_with('#') {
            true => 0,
            false => line.find(" #").unwrap_or(line.len()),
        };
        line[..end].trim().to_owned()
    });
    let names: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(format!("{name} is listed twice"));
        }
    }
    let place = |name: &str| names.iter().position(|one| one == name);
    match (place(good), place(bad)) {
        (Some(first), Some(last)) if first < last => Ok(names[first..=last].to_vec()),
        (Some(_), Some(_)) => Err(format!(
            "{bad} is listed before {good}; list from good to bad, the oldest first"
        )),
        (None, None) => Ok([vec![good.to_owned()], names, vec![bad.to_owned()]].concat()),
        (None, Some(_)) => Err(format!("{bad} is in the list, but {good} is not")),
        (Some(_), None) => Err(format!("{good} is in the list, but {bad} is not")),
    }
}

fn render(info: &RunInfo, summary: &Summary, measured: &Measured) -> String {
    let shown = Run {
        trials: &measured.trials,
        rebuilds: &measured.rebuilds,
        profiles: &case_profiles(measured),
        ..Run::new(info, summary)
    };
    fwdlab_report::html::page(&shown, ShownFacts::Brief)
}

fn is_proven(answer: &Answer) -> bool {
    let difference = answer.compared.first_bad.difference.as_ref();
    difference.is_some_and(|difference| difference.proven)
}

/// Prints the progress of the search.
struct ProgressPrinter {
    verbosity: Verbosity,
    as_stream: bool,
    began: Began,
    /// The screen of the current run.
    screen: Option<Screen>,
}

impl ProgressPrinter {
    fn new(global: &Global, started: &Began) -> ProgressPrinter {
        ProgressPrinter {
            verbosity: global.verbosity(),
            as_stream: global.json_stream,
            began: started.clone(),
            screen: None,
        }
    }

    fn line(&self, text: &str) {
        if self.verbosity != Verbosity::Quiet {
            output::note(text);
        }
    }

    fn print_event(&mut self, reported: &BisectEvent<'_>) {
        match reported {
            BisectEvent::Event(event) => {
                if self.as_stream {
                    output::stream(event);
                }
                // one line per candidate, unless the output is verbose
                let is_end = matches!(
                    event.kind,
                    EventKind::RunFinished { .. } | EventKind::RunEnded { .. }
                );
                let is_shown = matches!(
                    event.kind,
                    EventKind::Note { .. } | EventKind::Warning { .. } | EventKind::Progress { .. }
                ) || is_end;
                let verbosity = self.verbosity;
                let screen = self.screen.get_or_insert_with(|| Screen::new(verbosity));
                if is_shown || verbosity == Verbosity::Verbose {
                    screen.show(event);
                }
                if is_end {
                    self.screen = None;
                }
            }
            BisectEvent::Testing {
                candidates: which,
                rounds,
            } => {
                let names: Vec<String> = which
                    .iter()
                    .map(|&at| self.began.candidates[at].words())
                    .collect();
                let later = match rounds {
                    0 => "nothing but the comparison follows".to_owned(),
                    1 => "at most 1 more round".to_owned(),
                    rounds => format!("at most {rounds} more rounds"),
                };
                self.line(&format!("testing   {} ({later})", names.join(" and ")));
            }
            BisectEvent::Tested(one) => self.line(&tested(&self.began, one)),
            BisectEvent::Comparing => {
                self.line("comparing the last as before and the first after it")
            }
        }
    }
}

/// Returns the result of each candidate, if it was tested.
fn known(log: &Log) -> Vec<Option<&Tested>> {
    (0..log.began.candidates.len())
        .map(|at| log.tested(at))
        .collect()
}

fn place(answer: &Answer) -> Place<'_> {
    Place {
        last_good: answer.found.last_good,
        first_bad: answer.found.first_bad,
        skipped: &answer.found.skipped_between,
    }
}

fn print_end(log: &Log, end: &End, verbosity: Verbosity) {
    let started = &log.began;
    let name = |at: usize| started.candidates[at].words();
    let last = started.candidates.len() - 1;
    match end {
        End::Found(answer) => {
            let place = place(answer);
            output::answer(
                Level::Ok,
                found(started, &known(log), place, &answer.compared, answer.whole),
            );
            output::lines(&format!("\nlog       {}", log.path().display()));
            if verbosity != Verbosity::Quiet {
                let mut next = format!(
                    "\nNext   fwdlab runs show {}   both, in full, with flame graphs",
                    answer.compared.run
                );
                // quick has no options for the other settings of a campaign
                if started.campaign.is_none() {
                    let set = match &started.set {
                        Some(set) => format!(" --set '{}'", set.replace('\'', "'\\''")),
                        None => String::new(),
                    };
                    let images = [&answer.compared.last_good, &answer.compared.first_bad];
                    let [good, bad] = images.map(|one| one.image.as_str());
                    next += &format!(
                        "\n       fwdlab quick --vm {good} --vm {bad}{set} -n 3   the same difference in boots of their own"
                    );
                }
                output::note(&next);
            }
        }
        End::NoDifference {
            good,
            bad,
            reason: why,
        } => output::answer(
            Level::Warn,
            format!(
                "No result: {why}\n\n good      {}  {}\n bad       {}  {}\nlog       {}",
                name(0),
                figure(*good),
                name(last),
                figure(*bad),
                log.path().display()
            ),
        ),
        End::NoEnd { at, reason: why } => output::answer(
            Level::Warn,
            format!(
                "No result: {} cannot be measured, so there is nothing to compare the others with: {why}\n\nlog       {}",
                name(*at),
                log.path().display()
            ),
        ),
        End::Interrupted => {
            let done = known(log).iter().flatten().count();
            output::answer(
                Level::Warn,
                format!(
                    "Interrupted: {done} of {} candidates are known\n\nlog       {}",
                    started.candidates.len(),
                    log.path().display()
                ),
            );
        }
    }
}

fn go_on(log: &Log) {
    output::note(&format!(
        "to continue: fwdlab bisect --resume {}",
        log.path().display()
    ));
}

fn document(log: &Log, end: &End) -> serde_json::Value {
    let started = &log.began;
    let name = |at: usize| started.candidates[at].name.clone();
    let mut document = json!({
        "search": started,
        "log": log.path(),
        "tested": known(log).into_iter().flatten().collect::<Vec<_>>(),
    });
    let (outcome, more) = match end {
        End::Found(answer) => {
            let skipped = answer.found.skipped_between.iter();
            let more = json!({
                "first_bad": name(answer.found.first_bad),
                "last_good": name(answer.found.last_good),
                "skipped_between": skipped.map(|&at| name(at)).collect::<Vec<_>>(),
                "difference": answer.compared.first_bad.difference,
                "good_to_bad_instructions_per_frame": answer.whole,
                "compared": answer.compared,
            });
            ("found", more)
        }
        End::NoDifference { reason: why, .. } => ("no_difference", json!({ "why": why })),
        End::NoEnd { at, reason: why } => ("no_end", json!({ "candidate": name(*at), "why": why })),
        End::Interrupted => ("interrupted", json!({})),
    };
    document["outcome"] = json!(outcome);
    if let (Some(document), serde_json::Value::Object(more)) = (document.as_object_mut(), more) {
        document.extend(more);
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_goes_from_good_to_bad() {
        let text = "# kernels\nolder\n\na # the first\n  b\nc\nnewer\n";
        assert_eq!(listed(text, "a", "c").unwrap(), ["a", "b", "c"]);
        assert_eq!(listed("a\nb\n", "x", "y").unwrap(), ["x", "a", "b", "y"]);
        for (text, good, bad, words) in [
            ("a\nb\na\n", "a", "b", "twice"),
            ("a\nb\n", "b", "a", "is listed before"),
            ("a\nb\n", "a", "c", "c is not"),
            ("a\nb\n", "c", "b", "c is not"),
        ] {
            let reason = listed(text, good, bad).unwrap_err();
            assert!(reason.contains(words), "{reason}");
        }
    }
}
