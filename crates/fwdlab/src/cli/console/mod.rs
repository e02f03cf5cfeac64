//! `fwdlab console`: interactive traffic on ports, with commands like those of the TRex console.
//!
//! - [`commands`]: the commands and their options;
//! - [`multiplier`]: loads in TRex's units;
//! - [`input`]: lines from a terminal or a pipe;
//! - [`traffic`]: the ports and what they send;
//! - [`display`]: tables and messages.
//!
//! When the console exits, however it exits, sending stops and the ports are released. Start with
//! [`Console::run`].

mod commands;
mod display;
mod input;
mod multiplier;
mod traffic;

use std::time::{Duration, Instant};

use clap::Args;
use fwdlab_lab::control::Control;
use fwdlab_model::link::LinkSpeed;

use self::commands::{Command, Read, Start};
use self::input::{Input, Typed};
use self::multiplier::Multiplier;
use self::traffic::{Common, Traffic};
use super::Global;
use super::session::Signals;
use super::session::options::{Answers, Ports};
use crate::exit_code::{Code, Usage};
use crate::output;
use crate::tui::keys::Key;
use crate::tui::panes;
use crate::tui::terminal::Screen;
use crate::tui::theme::Theme;

/// Interval of the checks for signals, finished traffic and due counters.
const LOOK: Duration = Duration::from_millis(20);

/// Start, change and stop traffic on ports interactively, like the TRex console
///
/// Ports are numbered from 0 in the order given; even ports send forward, odd ports in reverse. All
/// of them count what they receive. Commands come from the terminal, with history and completion,
/// or from a pipe: there the first error ends the console. docs/reference/terminal.md lists the
/// commands and what differs from TRex.
#[derive(Debug, Args)]
pub struct Console {
    /// Interface; repeat for further ports
    #[arg(long = "port", required = true, value_name = "IFACE")]
    ports: Vec<String>,
    /// Speed of the links, such as 1G: percentages refer to it, and no more is ever sent [default:
    /// the ports' own]
    #[arg(long, value_name = "SPEED")]
    link: Option<LinkSpeed>,
    /// Destination MAC address, for each port [default: resolved from the first destination]
    #[arg(long, value_name = "MAC", value_delimiter = ',')]
    dst_mac: Vec<fwdlab_model::profile::Mac>,
    /// Engine; auto takes the fastest that can send the frames on the port
    #[arg(long, default_value = "auto", value_parser = super::engines())]
    engine: String,
    /// Number in all signatures that identifies this session to receivers
    #[arg(long, value_name = "N", default_value_t = 1)]
    session: u16,
    /// Allow non-test destinations. Use only in an isolated network
    #[arg(long, help_heading = "Ports that may be in use")]
    to_any_address: bool,
    #[command(flatten)]
    answers: Answers,
    #[command(flatten)]
    where_: Ports,
}

/// Whether the console continues.
enum NextStep {
    Next,
    Quit,
}

/// A running console.
struct Running {
    traffic: Traffic,
    input: Input,
    link: Option<LinkSpeed>,
    signals: Signals,
}

impl Console {
    /// Runs the command.
    pub fn run(mut self, global: &Global) -> anyhow::Result<Code> {
        if global.json || global.json_stream {
            return Err(Usage(
                "the console answers in words; for JSON use fwdlab traffic send --json-stream"
                    .into(),
            )
            .into());
        }
        self.where_.by_own_names(&mut self.ports);
        for (at, port) in self.ports.iter().enumerate() {
            if self.ports[..at].contains(port) {
                return Err(Usage(format!("--port {port} is given twice")).into());
            }
        }
        let signals = Signals::catch()?;
        let common = Common {
            ports: self.where_.clone(),
            answers: self.answers.clone(),
            of_send: self.send_arguments(),
            session: self.session,
        };
        let traffic = Traffic::open(common, &self.ports)?;
        let input = Input::open(&self.ports)?;
        let mut running = Running {
            traffic,
            input,
            link: self.link,
            signals,
        };
        if running.input.is_terminal() && !global.quiet {
            output::note(&display::table(
                &display::ports(&running.traffic.ports, self.link),
                false,
            ));
            output::note(
                "help lists the commands, tab completes, Ctrl-C stops all traffic, quit ends",
            );
        }
        running.read_lines()
    }

    fn send_arguments(&self) -> Vec<String> {
        let mut line = vec!["--engine".to_owned(), self.engine.clone()];
        if let Some(link) = self.link {
            line.extend(["--link".into(), link.to_string()]);
        }
        if !self.dst_mac.is_empty() {
            let macs: Vec<String> = self.dst_mac.iter().map(ToString::to_string).collect();
            line.extend(["--dst-mac".into(), macs.join(",")]);
        }
        if let Some(netns) = &self.where_.netns {
            line.extend(["--netns".into(), netns.clone()]);
        }
        if self.to_any_address {
            line.push("--to-any-address".into());
        }
        line
    }
}

impl Running {
    /// Reads and runs lines until the end.
    fn read_lines(&mut self) -> anyhow::Result<Code> {
        let control = Control::default();
        let code = loop {
            self.input.ask();
            let typed = loop {
                if self.interrupted() {
                    break Some(Typed::Interrupt);
                }
                if self.signals.is_stopped() {
                    break None;
                }
                if let Some(typed) = self.input.wait(LOOK) {
                    break Some(typed);
                }
                for at in self.traffic.tick(&control)? {
                    let words = display::ended(at, &self.traffic.ports[at]);
                    self.input.print_message(&words);
                }
            };
            match typed {
                None => break self.signals.code(false),
                Some(Typed::Interrupt) => match self.traffic.stop_all(&control)? {
                    true => self.input.print_message("all traffic stopped"),
                    false => self
                        .input
                        .print_message("nothing is being sent; quit ends the console"),
                },
                Some(Typed::End) => {
                    // no more commands from a pipe: wait for traffic with a duration to finish
                    if !self.input.is_terminal() {
                        self.wait(None)?;
                    }
                    break self.signals.code(false);
                }
                Some(Typed::Line(line)) => {
                    match self.line(&line, &control) {
                        Ok(NextStep::Next) => {}
                        Ok(NextStep::Quit) => break Code::Done,
                        Err(error) if self.input.is_terminal() => output::error(&error),
                        Err(error) => {
                            self.traffic.stop_all(&control)?;
                            return Err(error);
                        }
                    }
                    // Ctrl-C during the last command: handle it before the next prompt
                    if self.interrupted() && self.traffic.stop_all(&control)? {
                        self.input.print_message("all traffic stopped");
                    }
                }
            }
        };
        self.traffic.stop_all(&control)?;
        let limited = self.traffic.ports.iter().any(|port| port.sent.limited);
        Ok(match code {
            Code::Done if limited && !self.input.is_terminal() => Code::NotValid,
            code => code,
        })
    }

    /// Returns true if a user at the terminal pressed Ctrl-C while the line editor was not reading
    /// keys. Ctrl-C stops the traffic, not the console.
    fn interrupted(&self) -> bool {
        self.input.is_terminal() && self.signals.take_interrupt()
    }

    /// Runs a line.
    fn line(&mut self, line: &str, control: &Control) -> anyhow::Result<NextStep> {
        let command = match commands::read(line) {
            Read::Nothing => return Ok(NextStep::Next),
            Read::Help(text) => {
                output::result(text.trim_end());
                return Ok(NextStep::Next);
            }
            Read::Wrong(reason) => return Err(Usage(reason).into()),
            Read::Command(command) => command,
        };
        match command {
            Command::Start(start) => self.start(&start, control)?,
            Command::Update(update) => {
                let which = self
                    .traffic
                    .select_ports(&update.ports, |p| p.stream().is_some())?;
                self.some(&which, "nothing is being sent")?;
                for &at in &which {
                    self.traffic.update(at, update.each(which.len()), control)?;
                    output::result(&display::begun(at, &self.traffic.ports[at], false));
                }
            }
            Command::Pause(which) => {
                let which = self
                    .traffic
                    .select_ports(&which.ports, traffic::ConsolePort::is_sending)?;
                self.some(&which, "nothing is being sent")?;
                for at in which {
                    let done = self.traffic.pause(at, control)?;
                    self.done(at, if done { "paused" } else { "sends nothing" });
                }
            }
            Command::Resume(which) => {
                let is_paused =
                    |p: &traffic::ConsolePort| matches!(p.state, traffic::State::Paused(_));
                let which = self.traffic.select_ports(&which.ports, is_paused)?;
                self.some(&which, "nothing is paused")?;
                for at in which {
                    match self.traffic.resume(at, control)? {
                        true => output::result(&display::begun(at, &self.traffic.ports[at], true)),
                        false => self.done(at, "is not paused"),
                    }
                }
            }
            Command::Stop(which) => {
                let which = self
                    .traffic
                    .select_ports(&which.ports, |p| p.stream().is_some())?;
                self.some(&which, "nothing is being sent")?;
                for at in which {
                    match self.traffic.stop(at, control)? {
                        true => output::result(&display::ended(at, &self.traffic.ports[at])),
                        false => self.done(at, "sends nothing"),
                    }
                }
            }
            Command::Wait { time } => self.wait(time)?,
            Command::Stats => {
                self.traffic.count()?;
                output::result(&display::table(
                    &display::stats(&self.traffic.ports, self.link),
                    true,
                ));
            }
            Command::Clear => {
                self.traffic.clear()?;
                output::result("all counters are 0");
            }
            Command::Tui => self.tui(control)?,
            Command::Ports => {
                output::result(&display::table(
                    &display::ports(&self.traffic.ports, self.link),
                    false,
                ));
            }
            Command::Help { command } => {
                output::result(
                    commands::help(command.as_deref())
                        .map_err(Usage)?
                        .trim_end(),
                );
            }
            Command::Quit => return Ok(NextStep::Quit),
        }
        Ok(NextStep::Next)
    }

    /// Starts traffic.
    fn start(&mut self, start: &Start, control: &Control) -> anyhow::Result<()> {
        let which = self.traffic.select_ports(&start.ports, |_| true)?;
        let mult = start.mult.unwrap_or(Multiplier::OWN);
        if mult.is_change() {
            return Err(
                Usage("start -m: + and - change traffic that runs, with `update`".into()).into(),
            );
        }
        let mult = traffic::shared(mult, start.total, which.len());
        self.traffic.start(&which, start, mult, control)?;
        for at in which {
            output::result(&display::begun(at, &self.traffic.ports[at], true));
        }
        Ok(())
    }

    /// Waits for a time, or until all traffic with a duration has finished.
    fn wait(&mut self, time: Option<Duration>) -> anyhow::Result<()> {
        let control = Control::default();
        let started = Instant::now();
        loop {
            for at in self.traffic.tick(&control)? {
                output::result(&display::ended(at, &self.traffic.ports[at]));
            }
            let ends = |port: &traffic::ConsolePort| {
                port.is_sending() && port.stream().is_some_and(|stream| stream.left().is_some())
            };
            let is_over = match time {
                Some(time) => started.elapsed() >= time,
                None => !self.traffic.ports.iter().any(ends),
            };
            if is_over || self.signals.is_stopped() {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Shows rates and counters on the full screen until the user presses a key to leave.
    fn tui(&mut self, control: &Control) -> anyhow::Result<()> {
        if !self.input.is_terminal() || output::is_dumb() {
            let reason = "tui needs a terminal that can draw; stats prints the same once";
            return Err(Usage(reason.into()).into());
        }
        let mut screen = Screen::open()?;
        let theme = Theme::choose(None);
        while !self.signals.is_stopped() && !screen.is_gone() {
            match screen.typed(LOOK * 5) {
                Some(Key::Char('q') | Key::Escape | Key::Control('c' | 'd')) => break,
                Some(Key::Char('c')) => self.traffic.clear()?,
                Some(Key::Control('z')) => screen.suspend()?,
                _ => {}
            }
            self.traffic.tick(control)?;
            let table = display::table(&display::stats(&self.traffic.ports, self.link), true);
            screen.draw(false, |frame| panes::ports(frame, &table, theme));
        }
        Ok(())
    }

    /// Returns a usage error if no ports are selected.
    fn some(&self, which: &[usize], nothing: &str) -> anyhow::Result<()> {
        match which {
            [] => Err(Usage(nothing.into()).into()),
            _ => Ok(()),
        }
    }

    fn done(&self, at: usize, what: &str) {
        output::result(&format!(
            "port {at} {}  {what}",
            self.traffic.ports[at].interface
        ));
    }
}
