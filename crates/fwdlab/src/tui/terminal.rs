//! The terminal: taken over for the full screen, and restored whatever ends it: a key, a signal, a
//! panic or Ctrl-Z.
//!
//! A thread writes to it. While it is busy, no frame is drawn: a slow terminal shows fewer frames,
//! and a stalled one stalls nothing else. Start with [`Screen`].

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{self, Event};
use crossterm::queue;
use crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::{Frame, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::SIGTSTP;

use super::keys::{Key, key};

/// Minimum interval between two frames, except after a key.
const BETWEEN: Duration = Duration::from_millis(250);
/// Maximum wait for pending output on exit.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The original state of the terminal, while the screen has it.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

struct Before {
    tty: File,
    modes: Termios,
}

/// The full screen.
pub struct Screen {
    tty: File,
    terminal: Terminal<CrosstermBackend<Drawn>>,
    drawn: Drawn,
    writer: SyncSender<Vec<u8>>,
    is_busy: Arc<AtomicBool>,
    is_gone: Arc<AtomicBool>,
    last: Option<Instant>,
    /// The contents of the screen.
    shown: Option<Buffer>,
}

/// Drawn output that is not written yet.
#[derive(Clone, Default)]
struct Drawn(Arc<Mutex<Vec<u8>>>);

impl Drawn {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Drawn {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Screen {
    /// Takes over the terminal on standard output.
    pub fn open() -> anyhow::Result<Screen> {
        let tty =
            || -> io::Result<File> { Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)) };
        let mut out = tty().context("cannot use the terminal")?;
        take(tty()?).context("cannot use the terminal")?;
        let (is_busy, is_gone) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (writer, written) = sync_channel::<Vec<u8>>(1);
        let (busy, gone) = (is_busy.clone(), is_gone.clone());
        thread::spawn(move || {
            for bytes in written {
                if out.write_all(&bytes).is_err() {
                    gone.store(true, Ordering::Release);
                }
                busy.store(false, Ordering::Release);
            }
        });
        let drawn = Drawn::default();
        let terminal = Terminal::new(CrosstermBackend::new(drawn.clone()));
        let mut screen = Screen {
            tty: tty().context("cannot use the terminal")?,
            terminal: terminal.context("cannot use the terminal")?,
            drawn,
            writer,
            is_busy,
            is_gone,
            last: None,
            shown: None,
        };
        screen.enter();
        Ok(screen)
    }

    fn enter(&mut self) {
        let mut begin = self.drawn.clone();
        // into memory
        let _ = queue!(begin, EnterAlternateScreen, Hide, Clear(ClearType::All));
        self.last = None;
        self.shown = None;
    }

    /// Returns true if the terminal has been closed.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Draws a frame. Skips it if the previous one is still being written, or was drawn a moment
    /// ago and `at_once` is false.
    pub fn draw(&mut self, at_once: bool, draw: impl FnOnce(&mut Frame<'_>)) -> bool {
        let is_early = self.last.is_some_and(|last| last.elapsed() < BETWEEN);
        if self.is_busy.load(Ordering::Acquire) || (is_early && !at_once) {
            return false;
        }
        self.last = Some(Instant::now());
        let Ok(frame) = self.terminal.draw(draw) else {
            self.is_gone.store(true, Ordering::Release);
            return false;
        };
        if self.shown.as_ref() == Some(frame.buffer) {
            // drop colours and cursor codes that the backend sends even without a change
            self.drawn.take();
            return true;
        }
        self.shown = Some(frame.buffer.clone());
        self.write()
    }

    fn write(&mut self) -> bool {
        let bytes = self.drawn.take();
        if bytes.is_empty() {
            return true;
        }
        self.is_busy.store(true, Ordering::Release);
        match self.writer.try_send(bytes) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// Returns the text on the screen, without colours and without the last line, which only lists
    /// keys.
    pub fn words(&self) -> String {
        let Some(shown) = &self.shown else {
            return String::new();
        };
        let mut text = String::new();
        for y in 0..shown.area.height.saturating_sub(1) {
            let line: String = (0..shown.area.width)
                .map(|x| shown[(x, y)].symbol())
                .collect();
            text += line.trim_end();
            text.push('\n');
        }
        text.trim_end().to_owned()
    }

    /// Waits for a key; every frame checks the size of the terminal.
    ///
    /// Checks that the terminal still exists before it reads: crossterm would read a closed
    /// terminal forever.
    pub fn typed(&mut self, time: Duration) -> Option<Key> {
        if !self.has_input(Duration::ZERO) {
            return None;
        }
        // keys that arrived together are already buffered
        let is_known = matches!(event::poll(Duration::ZERO), Ok(true));
        if !is_known && !self.has_input(time) {
            return None;
        }
        match event::poll(Duration::ZERO) {
            Ok(true) => match event::read() {
                Ok(Event::Key(event)) => key(event),
                Ok(Event::Resize(..)) => {
                    self.last = None;
                    None
                }
                _ => None,
            },
            Ok(false) => None,
            Err(_) => {
                // a signal, or a closed terminal: the caller will notice
                thread::sleep(time);
                None
            }
        }
    }

    /// Waits for input. Returns false if the terminal has been closed.
    fn has_input(&mut self, time: Duration) -> bool {
        let time = Timespec::try_from(time).unwrap_or_default();
        let mut tty = [PollFd::new(&self.tty, PollFlags::IN)];
        // a signal interrupts it
        let _ = poll(&mut tty, Some(&time));
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        if tty[0].revents().intersects(gone) {
            self.is_gone.store(true, Ordering::Release);
            return false;
        }
        true
    }

    /// Restores the terminal, stops this process like Ctrl-Z, and takes over the terminal again
    /// when it continues.
    pub fn suspend(&mut self) -> anyhow::Result<()> {
        self.wait_for_writer();
        let tty = restore_terminal();
        // stops here until the process is continued
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        if let Some(tty) = tty {
            take(tty)?;
        }
        // a new one, because the old one remembers the previous contents; its own `clear` would
        // query the cursor position and wait for the answer
        self.terminal = Terminal::new(CrosstermBackend::new(self.drawn.clone()))?;
        self.enter();
        Ok(())
    }

    fn wait_for_writer(&self) {
        let started = Instant::now();
        while self.is_busy.load(Ordering::Acquire) && started.elapsed() < LAST_WORDS {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.wait_for_writer();
        match self.is_busy.load(Ordering::Acquire) {
            // the terminal accepts no output, but its modes can be set
            true => drop(restore_modes()),
            false => drop(restore_terminal()),
        }
    }
}

/// Saves the modes of the terminal, and switches it to raw mode. A panic restores it before it
/// prints its message.
fn take(tty: File) -> io::Result<()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore_terminal();
            before(info);
        }));
    });
    let modes = tcgetattr(&tty)?;
    let mut raw = modes.clone();
    raw.make_raw();
    tcsetattr(&tty, OptionalActions::Now, &raw)?;
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Before { tty, modes });
    Ok(())
}

/// Restores the terminal, if it was taken over.
fn restore_terminal() -> Option<File> {
    let mut tty = restore_modes()?;
    let mut bytes = Vec::new();
    let _ = queue!(bytes, LeaveAlternateScreen, Show);
    let _ = tty.write_all(&bytes);
    Some(tty)
}

fn restore_modes() -> Option<File> {
    let before = BEFORE
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()?;
    let _ = tcsetattr(&before.tty, OptionalActions::Now, &before.modes);
    Some(before.tty)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::LocalModes;

    use super::*;

    #[test]
    fn a_panic_restores_the_terminal_before_its_message() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let tty = File::options().read(true).write(true).open(name).unwrap();
        let is_canonical = |tty: &File| {
            tcgetattr(tty)
                .unwrap()
                .local_modes
                .contains(LocalModes::ICANON)
        };
        assert!(is_canonical(&tty));
        take(tty.try_clone().unwrap()).unwrap();
        assert!(!is_canonical(&tty));
        let panicked = std::panic::catch_unwind(|| panic!("of a test"));
        assert!(panicked.is_err());
        assert!(is_canonical(&tty));
        let mut bytes = [0; 64];
        let len = File::from(ours).read(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
        assert!(
            text.contains("\x1b[?1049l") && text.contains("\x1b[?25h"),
            "{text:?}"
        );
        // only once
        assert!(restore_terminal().is_none());
    }
}
