//! The commands, one file each, and what they share. Start with [`arguments`] and [`run()`].

mod agent;
mod archive;
mod bed;
mod bisect;
mod campaign;
mod capture;
mod command;
mod compare;
mod completions;
mod console;
mod defaults;
mod doctor;
mod flow;
#[cfg(feature = "png")]
mod fonts;
mod foreign;
mod gate;
mod help;
mod image;
mod import;
mod label;
mod loadtest;
mod man;
mod merge;
mod ministat;
mod mirror;
mod ndr;
mod netbenches;
mod new;
mod ping;
mod pkt_gen;
mod procedure;
mod profile;
mod prune;
mod queues;
mod quick;
mod ramp;
mod rate;
mod rebuild;
mod receive;
mod report;
mod rfc2544;
mod run;
mod run_screen;
mod runs;
mod schema;
mod selftest;
mod send;
mod serve;
mod serve_trex;
mod session;
mod soak;
mod steer;
mod test_bed;
mod throughput;
mod top;
mod traffic;
mod trex_frames;
mod trex_profile;
mod trial;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{
    OsStringValueParser, PossibleValuesParser, RangedI64ValueParser, TypedValueParser,
};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use fwdlab_engine::Mode;
use fwdlab_lab::promise::{Machine, Promises};
use fwdlab_lab::user_namespace;
use fwdlab_model::test_bed::MOST_SENDERS;
use fwdlab_store::Roots;

use crate::exit_code::Code;
use crate::output::{self, Verbosity};
use crate::tui::settings::Settings;

/// Measures how fast a router or firewall forwards, and explains the result
#[derive(Debug, Parser)]
#[command(
    name = "fwdlab",
    version,
    infer_subcommands = true,
    max_term_width = 100
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    global: Global,
}

/// The variable of directories of runs.
const RUNS: &str = "FWDLAB_RUNS";

/// Options of every command. Its help shows those that mean something there, after its own:
/// [`help::with_options`].
#[derive(Debug, Clone, Args)]
#[command(next_display_order = 100)]
struct Global {
    /// Print the result as one JSON document
    #[arg(long, global = true, hide = true)]
    json: bool,
    /// Print events as they happen, one JSON object per line
    #[arg(long, global = true, hide = true, conflicts_with = "json")]
    json_stream: bool,
    /// Print only the result
    #[arg(short, long, global = true, hide = true)]
    quiet: bool,
    /// Print more, such as a line per trial
    #[arg(short, long, global = true, hide = true, conflicts_with = "quiet")]
    verbose: bool,
    /// Directory of runs; repeat it to read those of other directories, too (in the variable, with
    /// : between directories)
    // an empty variable counts as unset; clap would refuse an empty path
    #[arg(long, global = true, hide = true, value_name = "DIR", env = RUNS, value_parser = OsStringValueParser::new().map(PathBuf::from))]
    runs: Vec<PathBuf>,
    /// Another process shows the run: its id is printed when it begins, and nothing else.
    #[arg(skip)]
    behind_a_screen: bool,
    /// What files say of the full screen.
    #[arg(skip)]
    screen: Settings,
}

impl Global {
    /// Prints a result: its document with `--json`, else its text. The command is done then.
    fn result(&self, document: &impl serde::Serialize, text: &str) -> anyhow::Result<Code> {
        match self.json {
            true => output::json(document)?,
            false => output::lines(text),
        }
        Ok(Code::Done)
    }

    fn verbosity(&self) -> Verbosity {
        match (
            self.quiet || self.json_stream || self.behind_a_screen,
            self.verbose,
        ) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }

    /// Returns the directory of new runs.
    fn runs_root(&self) -> anyhow::Result<PathBuf> {
        Ok(self.runs_roots()?.first().to_owned())
    }

    /// Returns all directories of runs.
    fn runs_roots(&self) -> anyhow::Result<Roots> {
        let current_dir = std::env::current_dir()?;
        let variable = std::env::var_os(RUNS);
        let of = |given: &PathBuf| match variable.as_ref().is_some_and(|of| of == given) {
            true => std::env::split_paths(given).collect(),
            false => vec![given.clone()],
        };
        let named: Vec<PathBuf> = self.runs.iter().flat_map(of).collect();
        let mut named = named.iter().filter(|path| !path.as_os_str().is_empty());
        let first = fwdlab_store::runs_root(&fwdlab_store::Surroundings {
            named: named.next().map(PathBuf::as_path),
            current_dir: &current_dir,
            xdg_data_home: std::env::var_os("XDG_DATA_HOME").as_deref(),
            home: std::env::var_os("HOME").as_deref(),
        })?;
        Ok(Roots::new(first, named.map(|path| current_dir.join(path))))
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure how fast this machine's kernel forwards, in namespaces
    Quick(Box<quick::Quick>),
    // `tr` meant `trial` before there was `traffic`
    #[command(alias = "tr")]
    Trial(Box<trial::Trial>),
    Ndr(Box<ndr::Ndr>),
    Throughput(Box<throughput::Throughput>),
    Ramp(Box<ramp::Ramp>),
    #[command(name = "rfc2544")]
    Rfc2544(Box<rfc2544::Rfc2544>),
    Soak(Box<soak::Soak>),
    Run(campaign::Run),
    Top(top::Top),
    Plan(campaign::Plan),
    Check(campaign::Check),
    Bisect(Box<bisect::Bisect>),
    Gate(Box<gate::Gate>),
    /// Use ports by hand: send, receive, ping, capture, queues, selftest
    #[command(subcommand, infer_subcommands = true)]
    Traffic(Traffic),
    /// Their older names.
    #[command(flatten)]
    OlderTraffic(Traffic),
    Doctor(doctor::Doctor),
    #[command(subcommand, infer_subcommands = true)]
    New(new::New),
    /// Their older names.
    #[command(flatten)]
    OlderNew(new::Printed),
    /// Compare runs or files of numbers: which differences are proven
    Compare(Box<compare::Compare>),
    Report(report::Report),
    /// List, show, tag, verify, export and remove stored runs
    #[command(subcommand, infer_subcommands = true)]
    Runs(runs::Runs),
    /// Build, show and remove the embedded test bed by hand
    #[command(subcommand, infer_subcommands = true)]
    Bed(bed::Bed),
    /// List, fetch, boot and remove images of virtual machines
    #[command(subcommand, infer_subcommands = true)]
    Image(image::Image),
    /// Import published measurements as stored runs, and audit them
    #[command(subcommand, infer_subcommands = true)]
    Import(import::Import),
    Serve(serve::Serve),
    Ministat(ministat::Ministat),
    Agent(agent::Agent),
}

/// Ports, and the frames on them, by hand.
#[derive(Debug, Subcommand)]
enum Traffic {
    Send(Box<send::Send>),
    Receive(Box<receive::Receive>),
    Ping(Box<ping::Ping>),
    Capture(Box<capture::Capture>),
    Console(Box<console::Console>),
    Queues(queues::Queues),
    Flow(flow::Flow),
    #[command(name = "selftest")]
    SelfTest(Box<selftest::SelfTest>),
    PktGen(Box<pkt_gen::PktGen>),
    /// List and show traffic profiles and their frames
    #[command(subcommand, infer_subcommands = true)]
    Profile(profile::Profile),
    Rate(rate::Rate),
}

impl Traffic {
    fn run(self, global: &Global) -> anyhow::Result<Code> {
        match self {
            Traffic::Send(send) => send.run(global),
            Traffic::Receive(receive) => receive.run(global),
            Traffic::Ping(ping) => ping.run(global),
            Traffic::Capture(capture) => capture.run(global),
            Traffic::Console(console) => console.run(global),
            Traffic::Queues(queues) => queues.run(global),
            Traffic::Flow(flow) => flow.run(global),
            Traffic::SelfTest(selftest) => selftest.run(global),
            Traffic::PktGen(pkt_gen) => pkt_gen.run(global),
            Traffic::Profile(profile) => profile.run(global),
            Traffic::Rate(rate) => rate.run(global),
        }
    }
}

impl Arguments {
    /// Returns true if the output must be one JSON document, even after an error.
    pub fn wants_json(&self) -> bool {
        self.global.json
    }
}

/// Parses the command line. Handles usage errors and requests for help itself, and returns the exit
/// code for them.
pub fn arguments(line: impl IntoIterator<Item = OsString>) -> Result<Arguments, Code> {
    let line = foreign::in_order(Arguments::command(), foreign::under_our_name(line));
    let mut ours = line.iter().take_while(|argument| *argument != "--");
    let as_json = ours.any(|argument| argument == "--json");
    let (program, screen) = match defaults::with_file_defaults(help::declared()) {
        Ok((program, screen)) => (help::with_options(program), screen),
        Err(error) => {
            output::error(&error);
            if as_json {
                output::json_error(Code::Usage, &output::chain(&error));
            }
            return Err(Code::Usage);
        }
    };
    let read = program.try_get_matches_from(line);
    let read = read.and_then(|matches| Arguments::from_arg_matches(&matches));
    // clap detects conflicting options only on the same side of the command's name
    let read = read.and_then(|arguments| match arguments.global {
        Global {
            json: true,
            json_stream: true,
            ..
        } => Err(help::program().error(
            clap::error::ErrorKind::ArgumentConflict,
            "the argument '--json' cannot be used with '--json-stream'",
        )),
        _ => Ok(arguments),
    });
    let read = read.map(|mut arguments| {
        arguments.global.screen = screen;
        arguments
    });
    read.map_err(|error| {
        match help::instead_of(&error).filter(|_| !as_json) {
            Some(help) => output::note(help.trim_end()),
            None => output::argument_error(&error),
        }
        if error.exit_code() == 0 {
            return Code::Done;
        }
        if as_json {
            let reason = error.to_string();
            let reason = reason.strip_prefix("error: ").unwrap_or(&reason);
            output::json_error(Code::Usage, reason.trim());
        }
        Code::Usage
    })
}

/// Makes the folder of what the program keeps between its starts; `None` if there can be none.
fn state_folder() -> Option<PathBuf> {
    let folder = state_path()?;
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder)
}

/// Returns what self-tests of this machine promise.
fn promises() -> Promises {
    let here = || Machine::here(user_namespace::is_root());
    state_path().map_or_else(Promises::default, |folder| Promises::read(&folder, here))
}

/// Returns that folder, which may not exist.
fn state_path() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|dir| !dir.is_empty());
    let state = match set("XDG_STATE_HOME") {
        Some(state) => PathBuf::from(state),
        None => PathBuf::from(set("HOME")?).join(".local/state"),
    };
    Some(state.join("fwdlab"))
}

/// Returns the values of `--engine`: one of the senders, or automatic.
fn engines() -> PossibleValuesParser {
    PossibleValuesParser::new(["auto"].into_iter().chain(Mode::ALL.map(Mode::name)))
}

/// Values of `--senders`.
fn senders() -> RangedI64ValueParser<u32> {
    RangedI64ValueParser::new().range(1..=i64::from(MOST_SENDERS))
}

/// Runs the command.
pub fn run(arguments: Arguments) -> anyhow::Result<Code> {
    let global = arguments.global;
    match arguments.command {
        Command::Quick(quick) => quick.run(&global),
        Command::Trial(trial) => trial.run(&global),
        Command::Ndr(ndr) => ndr.run(&global),
        Command::Throughput(throughput) => throughput.run(&global),
        Command::Ramp(ramp) => ramp.run(&global),
        Command::Rfc2544(rfc2544) => rfc2544.run(&global),
        Command::Soak(soak) => soak.run(&global),
        Command::Run(run) => run.run(&global),
        Command::Top(top) => top.run(&global),
        Command::Plan(plan) => plan.run(&global),
        Command::Check(check) => check.run(&global),
        Command::Bisect(bisect) => bisect.run(&global),
        Command::Gate(gate) => gate.run(&global),
        Command::Traffic(traffic) | Command::OlderTraffic(traffic) => traffic.run(&global),
        Command::Doctor(doctor) => doctor.run(&global),
        Command::New(new) => new.run(&global),
        Command::OlderNew(printed) => printed.run(&global),
        Command::Compare(compare) => compare.run(&global),
        Command::Report(report) => report.run(&global),
        Command::Runs(runs) => runs.run(&global),
        Command::Bed(bed) => bed.run(&global),
        Command::Image(image) => image.run(&global),
        Command::Import(import) => import.run(&global),
        Command::Serve(serve) => serve.run(&global),
        Command::Ministat(ministat) => ministat.run(&global),
        Command::Agent(agent) => agent.run(),
    }
}
