//! Terminal output: errors, live progress, or one line per event in a pipe.
//!
//! Results go to standard output, everything else to standard error; nothing else in the program
//! writes to either. A message that cannot be written is dropped: it never ends a measurement. A
//! result that cannot be written makes the exit code 1 ([`lost`]), unless its reader closed the
//! pipe. Names may come from other people's files, so control characters never reach a terminal
//! ([`harmless`]). Start with [`result`] and [`Screen`].

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};
use clap::error::ErrorKind as ErrorOfArguments;
use fwdlab_model::event::{Event, EventKind, Request};
use fwdlab_model::facts::TEST_BED;
use fwdlab_model::result::{RunInfo, TrialRecord};
use fwdlab_report::number::{counted, estimate, percent, rate, seconds};
use fwdlab_report::text::steers;
pub use fwdlab_report::text::{Level, Text};
use indicatif::{ProgressBar, ProgressStyle};

use crate::exit_code::Code;

/// Returns text that is safe to print. Escapes control characters, except line ends and tabs, as
/// JSON does, so that a JSON document keeps its meaning.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let of_lines =
        |c: char, next: Option<&char>| matches!(c, '\n' | '\t') || c == '\r' && next == Some(&'\n');
    if !text.contains(|c: char| steers(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if steers(c) && !of_lines(c, characters.peek()) {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Writes to standard error, without colours if it is not a terminal. Ignores errors.
fn message(text: &str) {
    let text = format!("{text}\n");
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// Standard output, unbuffered. The standard library's own reports success even if the descriptor
/// is not open for writing.
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let lock = io::stdout().lock();
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&lock, bytes));
        let written = written.map_err(io::Error::from);
        ANSWERED.store(true, Ordering::Relaxed);
        if let Err(error) = &written
            && error.kind() != ErrorKind::BrokenPipe
        {
            let _ = LOST.set(error.to_string());
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why the first lost result could not be written. A closed pipe does not count.
static LOST: OnceLock<String> = OnceLock::new();

/// Reports a result that could not be written to standard output. Returns `false` if all were
/// written, or if the reader closed the pipe.
pub fn lost() -> bool {
    let reason = LOST.get();
    if let Some(reason) = reason {
        message(&format!(
            "fwdlab: cannot write to standard output: {reason}"
        ));
    }
    reason.is_some()
}

/// Prints why the program failed.
pub fn error(error: &anyhow::Error) {
    let text = format!("fwdlab: {}", within(&chain(error), 2));
    message(&fitted(&text, &io::stderr()));
}

/// Prints help to standard output, and errors in the command line to standard error.
pub fn argument_error(error: &clap::Error) {
    let text = error.render().ansi().to_string();
    match (error.use_stderr(), error.kind()) {
        // help, although its kind is an error
        (true, ErrorOfArguments::DisplayHelpOnMissingArgumentOrSubcommand) => {
            message(text.trim_end())
        }
        // the same prefix as for all errors
        (true, _) => message(text.replacen("error:", "fwdlab:", 1).trim_end()),
        (false, _) => styled(&text),
    }
}

/// Returns an error with its causes. Omits causes that the error of a library already includes.
pub fn chain(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |output, cause| {
        let cause = cause.to_string();
        match output.as_str() {
            "" => cause,
            _ if output.contains(&cause) => output,
            _ => format!("{output}: {cause}"),
        }
    })
}

/// Indents all lines but the first, so that no foreign name starts a line.
fn within(text: &str, indent: usize) -> String {
    harmless(text).replace('\n', &format!("\n{:indent$}", ""))
}

/// Columns of the first word of a progress line.
const LABEL: usize = 10;

/// Prints a message that is not a result.
pub fn note(text: &str) {
    message(&fitted(&harmless(text), &io::stderr()));
}

/// Wraps lines that are too long for a terminal; what another program reads stays as it is.
fn fitted(text: &str, to: &impl IsTerminal) -> String {
    if !to.is_terminal() {
        return text.to_owned();
    }
    let lines = text.lines().map(fwdlab_report::text::hanging);
    lines.collect::<Vec<_>>().join("\n")
}

/// Prints a result for people, wrapped on a terminal.
pub fn lines(text: &str) {
    result(&fitted(text, &io::stdout()));
}

/// Prints a result. Ignores a closed pipe.
pub fn result(text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    console(&format!("{text}{end}"));
}

/// Prints console output as it arrives, including incomplete lines such as a prompt.
pub fn console(text: &str) {
    bytes(harmless(text).as_bytes(), &[]);
}

/// Prints what the replaced program would print, to the byte.
pub fn bytes(stdout: &[u8], stderr: &[u8]) {
    // one thread at a time
    let _lock = io::stdout().lock();
    // `lost` reports a failure at the end
    let _ = Stdout.write_all(stdout);
    let _ = io::stderr().lock().write_all(stderr);
}

/// True after a result was printed. With `--json`, that was the only document.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// Prints a value as one JSON document.
pub fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    result(&text);
    Ok(())
}

/// Prints the document of `--json` for an error. Prints nothing if a result was printed before the
/// error.
pub fn json_error(code: Code, message: &str) {
    if ANSWERED.load(Ordering::Relaxed) {
        return;
    }
    let error = serde_json::json!({
        "error": {"code": code as u8, "kind": code.kind(), "message": message}
    });
    result(&format!("{error:#}"));
}

/// Reads the width of the terminal, to wrap text to it.
pub fn read_width() {
    let stdout = io::stdout();
    if stdout.is_terminal()
        && let Ok(size) = rustix::termios::tcgetwinsize(&stdout)
        && size.ws_col > 0
    {
        fwdlab_report::text::fit(size.ws_col.into());
    }
    // some CI systems show colours on a `dumb` terminal; a person's `dumb` terminal prints the
    // codes
    if is_dumb() && std::env::var_os("CLICOLOR_FORCE").is_none() {
        anstream::ColorChoice::Never.write_global();
    }
}

/// Returns true if the terminal cannot draw. Lines are printed instead.
pub fn is_dumb() -> bool {
    std::env::var("TERM").map_or(true, |term| term.is_empty() || term == "dumb")
}

fn style(level: Level) -> Style {
    let colour = match level {
        Level::Plain => return Style::new(),
        Level::Ok => AnsiColor::Green,
        Level::Warn => AnsiColor::Yellow,
        Level::Fail => AnsiColor::Red,
    };
    Style::new().fg_color(Some(colour.into()))
}

/// Colours the first word of some text.
fn paint(level: Level, text: &str) -> String {
    let (blanks, text) = text.split_at(text.len() - text.trim_start().len());
    let (word, rest) = text.split_at(text.find(' ').unwrap_or(text.trim_end().len()));
    let style = style(level);
    format!("{blanks}{style}{word}{style:#}{rest}")
}

/// Prints a result whose first lines are its headline: highlighted on a terminal, in the colour of
/// its level. The names of paragraphs have the colours of theirs. Respects `NO_COLOR`.
pub fn answer(level: Level, text: impl Into<Text>) {
    let text = text.into();
    let mut parts = text.parts().iter().map(|(level, words)| (*level, &**words));
    let first = parts.next().map_or("", |(_, words)| words);
    let (headline, more) = first.split_at(first.find("\n\n").unwrap_or(first.len()));
    let style = style(level).bold();
    let rest: String = parts.map(|(level, words)| paint(level, words)).collect();
    let text = format!("{style}{headline}{style:#}{more}{rest}");
    let end = if text.ends_with('\n') { "" } else { "\n" };
    styled(&format!("{text}{end}"));
}

/// Prints a result whose first word has the colour of its level.
pub fn named(level: Level, text: &str) {
    let text = fitted(&harmless(text), &io::stdout());
    styled(&format!("{}\n", paint(level, &text)));
}

/// Prints text with colours, or strips them.
fn styled(text: &str) {
    match anstream::AutoStream::choice(&io::stdout()) {
        anstream::ColorChoice::Never => {
            bytes(
                anstream::adapter::strip_str(text).to_string().as_bytes(),
                &[],
            );
        }
        _ => bytes(text.as_bytes(), &[]),
    }
}

/// The amount of output during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// The result only.
    Quiet,
    /// Progress, and a line per test case.
    Normal,
    /// A line per trial.
    Verbose,
}

/// Shows the events of a run to a person on standard error.
pub struct Screen {
    verbosity: Verbosity,
    bar: Option<ProgressBar>,
    /// On a terminal without a progress bar: the last step printed.
    step: Option<u32>,
    /// For a campaign: print a line per iteration instead of a line per trial.
    tells_iterations: bool,
    /// Printed lines of iterations, so that none is repeated.
    printed_iterations: BTreeSet<String>,
    /// Invalid trials without a line of their own: their number, and how often each reason
    /// occurred.
    invalid: u32,
    reasons: BTreeMap<String, u32>,
}

impl Screen {
    /// Creates the screen of a run: a live bar on a terminal, otherwise lines.
    pub fn new(verbosity: Verbosity) -> Screen {
        let bar = bar_for(verbosity);
        let step = (bar.is_none() && io::stderr().is_terminal()).then_some(u32::MAX);
        Screen {
            verbosity,
            bar,
            step,
            tells_iterations: false,
            printed_iterations: BTreeSet::new(),
            invalid: 0,
            reasons: BTreeMap::new(),
        }
    }

    /// Shows that a run begins or is resumed, and its number of steps.
    fn starts(
        &mut self,
        info: &RunInfo,
        steps: u32,
        lasts: String,
        words: impl FnOnce(String) -> String,
    ) {
        self.tells_iterations = info.kind == "campaign";
        let words = words(counted(steps, "step"));
        self.line(&format!("run       {}{words}, {lasts}", info.id));
        if let Some(bar) = &self.bar {
            bar.set_length(u64::from(steps));
            bar.enable_steady_tick(Duration::from_millis(250));
        }
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Event) {
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        match &event.kind {
            EventKind::RunStarted {
                info,
                estimate_s,
                guessed,
                steps,
                ..
            } => {
                let facts = &info.facts;
                let host = match facts.is_known() {
                    true => format!(
                        "kernel {}  {} ({})",
                        facts.kernel,
                        counted(facts.cpus, "CPU"),
                        facts.cpu_model
                    ),
                    false => "the host of the DUT cannot be read".into(),
                };
                let user = match facts.privileged || facts.is_simulated() {
                    true => "",
                    false => "  user namespace, no root",
                };
                self.line(&format!("fwdlab {}  {host}{user}", info.tool_version));
                let steps_of = |steps| format!("  seed {}  {steps}", info.seed);
                self.starts(info, *steps, estimate(*estimate_s, *guessed), steps_of);
            }
            EventKind::RunResumed {
                info,
                estimate_s,
                guessed,
                steps,
            } => {
                let steps_of = |steps| format!("  resumed: {steps} left");
                self.starts(info, *steps, estimate(*estimate_s, *guessed), steps_of);
            }
            EventKind::Steered {
                request,
                heeded: handled,
            } => {
                let done = match (request, handled) {
                    (Request::Pause, true) => "paused on request",
                    (Request::Resume, true) => "resumed on request",
                    (Request::Skip, true) => "skips this test case on request",
                    (Request::Stop, true) => "stops on request",
                    (Request::Pause, false) => "asked to pause, and is paused already",
                    (Request::Resume, false) => "asked to resume, but is not paused",
                    (Request::Skip, false) => "skip ignored: nothing to skip",
                    (Request::Stop, false) => "asked to stop, and stops already",
                };
                self.line(&format!("run       {done}"));
            }
            // printed with the load of its trials
            EventKind::LoadFound { .. } => {}
            EventKind::BedReady { facts } => {
                // a campaign of both kinds reports the first bed of each
                let dut = match facts.placement.contains_key("vpp") {
                    true => "VPP",
                    false => "Linux kernel",
                };
                // existing hosts: print their names instead of a drawing
                self.line(&match facts.placement.get(TEST_BED) {
                    Some(bed) => format!("test bed  {bed}"),
                    None => format!(
                        "test bed  [generator]==veth==[DUT: {dut} forwarding]==veth==[receiver]"
                    ),
                });
                if let Some(link) = &facts.link {
                    self.line(&format!("link      {link}"));
                }
                self.line(&format!("engine    {}", facts.engine));
                if self.verbosity == Verbosity::Verbose {
                    for (engine, reason) in &facts.engines_rejected {
                        self.line(&format!("          {engine}: {reason}"));
                    }
                }
                for (subject, words) in &facts.placement {
                    self.line(&format!("placement {subject}: {words}"));
                }
            }
            EventKind::Progress {
                activity,
                done,
                steps,
                left_s,
                forwarding_rate_pps,
                estimate,
                ..
            } => self.progress(
                activity,
                (*done, *steps),
                *left_s,
                *forwarding_rate_pps,
                estimate.as_deref(),
            ),
            EventKind::TrialFinished { record } => self.trial(record),
            EventKind::RebuildFinished { record } => {
                let words = fwdlab_report::campaign::rebuild_in_one_line(record);
                let invalid = invalid(&record.validity.reasons);
                let level = level_of(record.validity.is_valid());
                self.named(level, &format!("{words}{invalid}"));
            }
            EventKind::BootFinished { record } => self.detail(&format!(
                "boot {}  {}  {}, Linux {}{}",
                record.boot,
                record.test_case,
                counted(record.bursts.len() as u64, "burst"),
                record.kernel,
                invalid(&record.validity.reasons)
            )),
            EventKind::IterationFinished {
                test_case,
                iteration,
            } => {
                if self.tells_iterations {
                    let words = fwdlab_report::campaign::in_one_line(iteration);
                    let number = iteration.iteration;
                    let line = format!("{test_case}  iteration {number}  {words}");
                    if self.printed_iterations.insert(line.clone()) {
                        let level = match iteration.failure {
                            None => Level::Ok,
                            Some(_) => Level::Fail,
                        };
                        self.named(level, &line);
                    }
                }
            }
            EventKind::HookFinished { record } => {
                // a successful one is shown only in verbose output
                if record.failure.is_some() || self.verbosity == Verbosity::Verbose {
                    let (when, status) = (record.when.name(), &record.status);
                    let (command, host) = (&record.command, &record.host);
                    let level = match record.failure {
                        None => Level::Ok,
                        Some(_) => Level::Fail,
                    };
                    let line = format!("hook      {when} on {host}: {command}: {status}");
                    self.named(level, &line);
                }
            }
            EventKind::Note { text } => self.line(&format!("note      {}", text.trim_end())),
            EventKind::Warning { text } => self.named(Level::Warn, &format!("warning   {text}")),
            EventKind::RunFinished { .. } | EventKind::RunEnded { .. } => {
                self.print_invalid();
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
            }
        }
    }

    fn progress(
        &mut self,
        activity: &str,
        (done, steps): (u32, u32),
        left_s: f64,
        forwarded_pps: Option<f64>,
        found: Option<&str>,
    ) {
        let forwarded = forwarded_pps.map_or(String::new(), rate);
        let found = found.unwrap_or_default().to_owned();
        let invalid = match self.invalid {
            0 => String::new(),
            invalid => format!("{invalid} invalid"),
        };
        // most important first: a narrow terminal cuts off the end
        let left = format!("left ~{}", seconds(left_s.round()));
        let words = [forwarded, found, activity.to_owned(), invalid];
        let words = words.into_iter().filter(|words| !words.is_empty());
        let words = words.collect::<Vec<_>>().join("  ");
        if let Some(bar) = &self.bar {
            bar.set_length(u64::from(steps));
            bar.set_position(u64::from(done));
            bar.set_prefix(left);
            bar.set_message(harmless(&words).into_owned());
        } else if self.step.is_some_and(|step| step != done) {
            self.step = Some(done);
            self.line(&format!("progress  {done}/{steps}  {left}  {words}"));
        }
    }

    /// Counts an invalid trial without printing it.
    fn fold(&mut self, record: &TrialRecord) {
        self.invalid += 1;
        for reason in &record.validity.reasons {
            // ignore the numbers, which differ from trial to trial
            let kind: String = reason.chars().filter(|c| !c.is_ascii_digit()).collect();
            let known = self.reasons.keys().find(|known| {
                let of_known: String = known.chars().filter(|c| !c.is_ascii_digit()).collect();
                of_known == kind
            });
            let name = known.unwrap_or(reason).clone();
            *self.reasons.entry(name).or_default() += 1;
        }
    }

    fn print_invalid(&self) {
        if self.invalid == 0 {
            return;
        }
        let reasons: Vec<String> = self
            .reasons
            .iter()
            .map(|(reason, times)| format!("{times} x {reason}"))
            .collect();
        let line = format!(
            "invalid   {} of the trials, repeated and not used (-v lists each): {}",
            self.invalid,
            reasons.join("; ")
        );
        self.named(Level::Warn, &line);
    }

    /// Prints a line per iteration; with -v a line per trial.
    fn trial(&mut self, record: &TrialRecord) {
        let is_verbose = self.verbosity == Verbosity::Verbose;
        if !record.validity.is_valid() && !is_verbose {
            self.fold(record);
        }
        if let Some(requested) = &record.asked {
            if is_verbose {
                self.line(&format!(
                    "trial {:>3}  {} for {}  lost {}  {}{}",
                    record.trial,
                    rate(requested.question.peak_pps()),
                    seconds(record.duration_s),
                    percent(100.0 * record.frame_loss_ratio),
                    requested.question.reason,
                    invalid(&record.validity.reasons)
                ));
            }
            return;
        }
        let forwarded = record.forwarding_rate_pps;
        let words = |pps: Option<f64>| pps.map_or("no result".into(), rate);
        if is_verbose {
            self.line(&format!(
                "trial {:>3}  {:<28} offered {}  forwarded {}{}",
                record.trial,
                record.test_case,
                rate(record.offered_load_pps),
                words(forwarded),
                invalid(&record.validity.reasons)
            ));
        }
        if record.validity.is_valid() && !is_verbose && !self.tells_iterations {
            let (name, number) = (&record.test_case, record.iteration);
            let quiet = || counted(record.quiet.windows, "quiet window");
            let words = forwarded.map_or_else(|| format!("no result: {}", quiet()), rate);
            let line = format!("{name}  iteration {number}  {words}");
            self.named(level_of(forwarded.is_some()), &line);
        }
    }

    /// Prints a line that a progress bar replaces, unless the output is verbose.
    fn detail(&self, text: &str) {
        if self.bar.is_none() || self.verbosity == Verbosity::Verbose {
            self.line(text);
        }
    }

    fn line(&self, text: &str) {
        self.named(Level::Plain, text);
    }

    /// Prints a line whose first word has the colour of its level.
    fn named(&self, level: Level, text: &str) {
        let text = within(text, LABEL);
        let Some(bar) = &self.bar else {
            return message(&paint(level, &text));
        };
        let text = fwdlab_report::text::hanging(&text);
        bar.println(match anstream::AutoStream::choice(&io::stderr()) {
            anstream::ColorChoice::Never => text,
            _ => paint(level, &text),
        });
    }
}

fn level_of(is_valid: bool) -> Level {
    match is_valid {
        true => Level::Ok,
        false => Level::Warn,
    }
}

/// Returns why something measured is invalid; nothing if it is valid.
pub fn invalid(reasons: &[String]) -> String {
    match reasons {
        [] => String::new(),
        reasons => format!("  INVALID: {}", reasons.join("; ")),
    }
}

/// Returns a progress bar, on a terminal that can draw it.
fn bar_for(verbosity: Verbosity) -> Option<ProgressBar> {
    let live = verbosity != Verbosity::Quiet && io::stderr().is_terminal() && !is_dumb();
    live.then(bar)
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:10} {pos}/{len}  {prefix}  {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("##.");
    ProgressBar::new(1).with_style(style)
}

/// Progress of something that counts: one line that changes on a terminal, nothing elsewhere.
pub struct Counter {
    bar: Option<ProgressBar>,
}

impl Counter {
    /// Creates a counter, and shows nothing.
    pub fn new(verbosity: Verbosity) -> Counter {
        Counter {
            bar: bar_for(verbosity),
        }
    }

    /// Shows `done` of `all`, with some text.
    pub fn show(&mut self, done: u64, all: u64, words: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_length(all);
            bar.set_position(done);
            bar.set_message(harmless(&words()).into_owned());
        }
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Prints one event as one line of JSON.
pub fn stream(event: &Event) {
    if let Ok(line) = serde_json::to_string(event) {
        result(&line);
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::harmless;

    #[test]
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("a\tline\r\nand \u{e9}\n", "a\tline\r\nand \u{e9}\n"),
            (
                "\u{1b}[2J\u{1b}]0;title\u{7}",
                "\\u001b[2J\\u001b]0;title\\u0007",
            ),
            ("over\rwritten\u{8}\r", "over\\u000dwritten\\u0008\\u000d"),
            ("\u{7f}\u{9b}31m\0", "\\u007f\\u009b31m\\u0000"),
            // bidirectional characters, and other line separators
            (
                "a\u{202e}gpj.exe\u{2066}\u{2028}",
                "a\\u202egpj.exe\\u2066\\u2028",
            ),
        ] {
            assert_eq!(harmless(text), shown);
        }
        // serde leaves some of them in strings; the meaning of the document stays the same
        let name = "a\u{9b}31m\u{7f}\u{1b}";
        let document = serde_json::to_string(&name).unwrap();
        assert!(document.contains('\u{9b}'));
        let printed = harmless(&document).into_owned();
        assert!(!printed.contains(char::is_control));
        assert_eq!(serde_json::from_str::<String>(&printed).unwrap(), name);
    }

    #[test]
    fn the_first_word_has_the_colour() {
        use super::{Level, paint};
        let painted = "  \u{1b}[32mok\u{1b}[0m  x";
        assert_eq!(paint(Level::Ok, "  ok  x"), painted);
        assert_eq!(paint(Level::Plain, "  ok  x"), "  ok  x");
    }

    #[test]
    fn no_name_in_a_message_begins_a_line() {
        assert_eq!(
            super::within("a\nfwdlab: done\n", 2),
            "a\n  fwdlab: done\n  "
        );
    }

    #[test]
    fn causes_are_printed_once() {
        let exit = fwdlab_lab::host::Failure::Exit {
            status: "exit status: 1".into(),
            said: "no".into(),
        };
        let host = fwdlab_lab::host::HostError::new("router1", "ip", exit);
        let error = fwdlab_lab::LabError::NotApplied {
            name: "x".into(),
            source: Box::new(host.into()),
        };
        let error = Err::<(), _>(error).context("make a run").unwrap_err();
        assert_eq!(
            super::chain(&error),
            "make a run: configuration `x` could not be applied to the DUT: `ip` failed on router1 (exit status: 1): no"
        );
    }
}
