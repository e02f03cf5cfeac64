//! Input of the console: a line editor on a terminal, plain lines elsewhere. A thread waits for
//! lines, so that the console can watch its traffic meanwhile.
//!
//! Apart from completion, it knows nothing about commands. Start with [`Input`].

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{FileHistory, History};
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, ExternalPrinter, Helper};

use super::commands;
use crate::output;

const PROMPT: &str = "fwdlab> ";
/// Turns off bracketed paste, which the editor turned on, and ends the unfinished line.
const AFTER_HALF_A_LINE: &[u8] = b"\x1b[?2004l\n";
/// Lines kept in the history.
const HISTORY: usize = 1000;

/// What the user typed.
#[derive(Debug)]
pub enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    End,
}

/// The input of the console.
pub struct Input {
    typed: Receiver<Typed>,
    next: Sender<()>,
    /// True if a user types, with a line editor or without.
    is_typed: bool,
    /// Prints above the line that the user is typing.
    printer: Option<Box<dyn ExternalPrinter + Send>>,
    /// The terminal settings at the start, to be restored.
    terminal: Option<Termios>,
    /// True if the user may be in the middle of a line.
    is_asked: bool,
}

impl Input {
    /// Starts to read lines.
    pub fn open(ports: &[String]) -> anyhow::Result<Input> {
        let (to_us, typed) = channel();
        let (next, requested) = channel();
        let is_typed = io::stdin().is_terminal() && io::stdout().is_terminal();
        if !is_typed || output::is_dumb() {
            thread::spawn(move || plain(&to_us, &requested, is_typed));
            return Ok(Input {
                typed,
                next,
                is_typed,
                printer: None,
                terminal: None,
                is_asked: false,
            });
        }
        let terminal = tcgetattr(io::stdin()).ok();
        let config = Config::builder()
            .max_history_size(HISTORY)?
            .completion_type(CompletionType::List)
            .build();
        let mut editor: Editor<Completion, FileHistory> = Editor::with_config(config)?;
        editor.set_helper(Some(Completion {
            ports: ports.to_vec(),
        }));
        let printer = editor.create_external_printer()?;
        thread::spawn(move || edited(editor, &to_us, &requested));
        Ok(Input {
            typed,
            next,
            is_typed,
            printer: Some(Box::new(printer)),
            terminal,
            is_asked: false,
        })
    }

    /// Returns true if standard input is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_typed
    }

    /// Requests the next line, after the last one was handled.
    pub fn ask(&mut self) {
        if std::mem::replace(&mut self.is_asked, true) {
            // the line that the user is typing is the next one
            return;
        }
        // the reader may be gone; it has reported the end of the input
        let _ = self.next.send(());
    }

    /// Waits for input, at most for this time.
    pub fn wait(&mut self, time: Duration) -> Option<Typed> {
        let typed = match self.typed.recv_timeout(time) {
            Ok(typed) => typed,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => Typed::End,
        };
        self.is_asked = false;
        Some(typed)
    }

    /// Prints a message while the user is typing.
    pub fn print_message(&mut self, text: &str) {
        let text = output::harmless(text);
        let printed = (self.printer.as_mut()).is_some_and(|p| p.print(format!("{text}\n")).is_ok());
        if !printed {
            output::note(&text);
        }
    }
}

impl Drop for Input {
    /// Restores the terminal, even in the middle of a line.
    fn drop(&mut self) {
        if let Some(terminal) = &self.terminal {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, terminal);
            if self.is_asked {
                let mut out = io::stdout();
                let _ = out.write_all(AFTER_HALF_A_LINE).and_then(|()| out.flush());
            }
        }
    }
}

fn plain(typed: &Sender<Typed>, requested: &Receiver<()>, is_typed: bool) {
    let mut lines = io::stdin().lock().lines();
    while requested.recv().is_ok() {
        if is_typed {
            output::console(PROMPT);
        }
        let line = match lines.next() {
            Some(Ok(line)) => Typed::Line(line),
            _ => Typed::End,
        };
        if typed.send(line).is_err() {
            return;
        }
    }
}

fn edited(
    mut editor: Editor<Completion, FileHistory>,
    typed: &Sender<Typed>,
    requested: &Receiver<()>,
) {
    let file = super::super::state_folder().map(|folder| folder.join("console_history"));
    if let Some(file) = &file {
        // the history file may not exist yet
        let _ = editor.load_history(file);
    }
    while requested.recv().is_ok() {
        let line = match editor.readline(PROMPT) {
            Ok(line) => {
                let is_new = editor.add_history_entry(line.as_str()).unwrap_or(false);
                if let Some(file) = file.as_ref().filter(|_| is_new)
                    && !editor.history().is_empty()
                {
                    let _ = editor.append_history(file);
                }
                Typed::Line(line)
            }
            Err(ReadlineError::Interrupted) => Typed::Interrupt,
            Err(ReadlineError::Signal(_)) => Typed::Line(String::new()),
            Err(_) => {
                // end the line of the prompt
                let _ = io::stdout().write_all(b"\n");
                Typed::End
            }
        };
        if typed.send(line).is_err() {
            return;
        }
    }
}

/// Completes words.
struct Completion {
    ports: Vec<String>,
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let (begin, mut words) = commands::complete(&line[..at], &self.ports);
        if let [word] = &mut words[..]
            && !word.ends_with('/')
        {
            word.push(' ');
        }
        Ok((begin, words))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}
