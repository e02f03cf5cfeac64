//! A terminal for tests: a pty on which the program runs, and an emulator with the contents of the
//! screen.
//!
//! Start with [`Tty::start`]; [`Tty::keys`] types keys, and [`Tty::wait_for_text`] waits for text
//! on the screen.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::support::{CommandLine, Lab, PATIENCE, PROGRAM, exit_code};

/// The program on a terminal of its own. Dropping it kills it.
pub struct Tty {
    ours: File,
    theirs: File,
    child: Child,
    /// The terminal modes before.
    modes: Termios,
    emulator: vt100::Parser,
    /// Bytes received so far.
    pub bytes: usize,
    /// Bytes among them that start an escape sequence.
    pub escapes: usize,
}

impl Tty {
    /// Starts the program on a terminal with this number of columns and lines, with additions to
    /// its environment.
    pub fn start(
        lab: &Lab,
        arguments: &(impl CommandLine + ?Sized),
        (columns, lines): (u16, u16),
        more: &[(&str, &str)],
    ) -> Tty {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        let size = Winsize {
            ws_row: lines,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&theirs, size).unwrap();
        let modes = tcgetattr(&theirs).unwrap();
        let stdio = || Stdio::from(theirs.try_clone().unwrap());
        // a session with this controlling terminal, as after a login
        let child = lab
            .with(&["setsid", "--ctty", PROGRAM], arguments)
            .env_remove("NO_COLOR")
            .env_remove("LC_ALL")
            .env_remove("LC_CTYPE")
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .envs(more.iter().copied())
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .unwrap();
        let size = |of| NonZeroU16::new(of).unwrap();
        Tty {
            ours: ours.into(),
            theirs,
            child,
            modes,
            emulator: vt100::Parser::new(size(lines), size(columns), 0),
            bytes: 0,
            escapes: 0,
        }
    }

    /// Reads output until there is none for this time.
    pub fn settle(&mut self, quiet: Duration) {
        let quiet = Timespec::try_from(quiet).unwrap();
        loop {
            let mut fds = [PollFd::new(&self.ours, PollFlags::IN)];
            if retry_on_intr(|| poll(&mut fds, Some(&quiet))).unwrap() == 0 {
                return;
            }
            let mut bytes = [0; 65536];
            let len = self.ours.read(&mut bytes).unwrap_or(0);
            if len == 0 {
                return;
            }
            self.bytes += len;
            self.escapes += bytes[..len].iter().filter(|byte| **byte == 0x1b).count();
            self.emulator.process(&bytes[..len]);
        }
    }

    pub fn screen(&self) -> &vt100::Screen {
        self.emulator.screen()
    }

    /// Returns the text on the screen.
    pub fn text(&self) -> String {
        self.screen().contents()
    }

    /// Waits for this text on the screen.
    #[track_caller]
    pub fn wait_for_text(&mut self, words: &str) -> &mut Tty {
        self.wait_for(&format!("`{words}`"), |text| text.contains(words))
    }

    /// Waits until the screen meets a condition.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> &mut Tty {
        let started = Instant::now();
        while !is_so(&self.text()) {
            assert!(
                started.elapsed() < PATIENCE,
                "no {what} in:\n{}",
                self.text()
            );
            self.settle(Duration::from_millis(20));
        }
        self
    }

    pub fn keys(&mut self, keys: &str) -> &mut Tty {
        self.ours.write_all(keys.as_bytes()).unwrap();
        self
    }

    pub fn signal(&mut self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Closes the terminal, like a window or a connection that closes. Waits for the program to
    /// end.
    pub fn close_terminal(&mut self) -> i32 {
        let nowhere = || File::options().read(true).write(true).open("/dev/null");
        (self.ours, self.theirs) = (nowhere().unwrap(), nowhere().unwrap());
        self.end()
    }

    /// Waits for the program to end. Returns its exit code; 128 + n if signal n ended it.
    pub fn end(&mut self) -> i32 {
        let started = Instant::now();
        loop {
            self.settle(Duration::from_millis(20));
            if let Some(status) = self.child.try_wait().unwrap() {
                self.settle(Duration::from_millis(20));
                return exit_code(status);
            }
            assert!(started.elapsed() < PATIENCE, "goes on:\n{}", self.text());
        }
    }

    /// Returns true if the terminal is restored: its modes, the primary screen, a visible cursor,
    /// and no bracketed paste.
    pub fn is_restored(&self) -> bool {
        let (is, was) = (tcgetattr(&self.theirs).unwrap(), &self.modes);
        (is.input_modes, is.output_modes, is.control_modes)
            == (was.input_modes, was.output_modes, was.control_modes)
            && is.local_modes == was.local_modes
            && !self.screen().alternate_screen()
            && !self.screen().hide_cursor()
            && !self.screen().bracketed_paste()
    }

    /// Returns true if any character has a colour.
    pub fn has_colour(&self) -> bool {
        let (lines, columns) = self.screen().size();
        (0..lines.get())
            .flat_map(|line| (0..columns.get()).map(move |column| (line, column)))
            .filter_map(|(line, column)| self.screen().cell(line, column))
            .any(|cell| {
                [cell.fgcolor(), cell.bgcolor()]
                    .iter()
                    .any(|colour| *colour != vt100::Color::Default)
            })
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        // it may have ended
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
