//! A terminal for tests: a pty on which the program runs, and an emulator that knows what stands on its screen.
//!
//! Start with [`Tty::start`]; keys go in by [`Tty::keys`], and what is seen is waited for by [`Tty::until`].

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

use crate::support::{Lab, PATIENCE, PROGRAM};

/// The program on a terminal of its own. Dropping it kills it.
pub struct Tty {
    ours: File,
    theirs: File,
    child: Child,
    /// Its modes before.
    modes: Termios,
    emulator: vt100::Parser,
    /// Bytes that came so far.
    pub bytes: usize,
    /// Of these, those that begin a command to the terminal.
    pub escapes: usize,
}

impl Tty {
    /// Starts it on so many columns and lines, with more in its environment.
    pub fn start(
        lab: &Lab,
        arguments: &[&str],
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
        // a session whose terminal this is, as a login has
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

    /// Takes what comes within this time, until nothing came for it.
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

    /// What stands on the screen.
    pub fn text(&self) -> String {
        self.screen().contents()
    }

    /// Waits until this stands there.
    #[track_caller]
    pub fn until(&mut self, words: &str) -> &mut Tty {
        self.until_it(&format!("`{words}`"), |text| text.contains(words))
    }

    /// Waits until what stands there is so.
    #[track_caller]
    pub fn until_it(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> &mut Tty {
        let began = Instant::now();
        while !is_so(&self.text()) {
            assert!(began.elapsed() < PATIENCE, "no {what} in:\n{}", self.text());
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

    /// The terminal is closed, as by a window or a connection that goes. Waits for the program's end.
    pub fn hang_up(&mut self) -> i32 {
        let nowhere = || File::options().read(true).write(true).open("/dev/null");
        (self.ours, self.theirs) = (nowhere().unwrap(), nowhere().unwrap());
        self.end()
    }

    /// Waits for its end: its code, 128 + n when signal n ended it.
    pub fn end(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let began = Instant::now();
        loop {
            self.settle(Duration::from_millis(20));
            if let Some(status) = self.child.try_wait().unwrap() {
                self.settle(Duration::from_millis(20));
                return status
                    .code()
                    .unwrap_or_else(|| 128 + status.signal().unwrap());
            }
            assert!(began.elapsed() < PATIENCE, "goes on:\n{}", self.text());
        }
    }

    /// Is the terminal as it was before: its modes, the first screen, a cursor, and nothing marked that is pasted?
    pub fn is_given_back(&self) -> bool {
        let (is, was) = (tcgetattr(&self.theirs).unwrap(), &self.modes);
        (is.input_modes, is.output_modes, is.control_modes)
            == (was.input_modes, was.output_modes, was.control_modes)
            && is.local_modes == was.local_modes
            && !self.screen().alternate_screen()
            && !self.screen().hide_cursor()
            && !self.screen().bracketed_paste()
    }

    /// Has any character a colour?
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
