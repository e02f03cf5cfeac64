//! The terminal: taken for the full screen and given back however that ends, by a key, a signal, a panic or Ctrl-Z.
//!
//! A thread writes. While it is busy no frame is drawn: a slow terminal shows fewer of them, and one that takes nothing holds up
//! nobody. Start with [`Screen`].

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

/// Between two frames that nobody asked for.
const BETWEEN: Duration = Duration::from_millis(250);
/// Whoever leaves waits so long for what is still to be written.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The terminal as it was before, as long as it is ours.
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
    /// What stands on the terminal.
    shown: Option<Buffer>,
}

/// What was drawn and is not written yet.
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
    /// Takes the terminal that is standard output.
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

    /// Has the terminal been closed?
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Draws, unless the last frame is still being written or, where nobody waits for it, was a moment ago.
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
            // the backend sets colours and hides the cursor all the same
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

    /// What stands on the terminal, without its colours and without the last line, which only names keys.
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

    /// Waits for a key; the size of the terminal is looked at with every frame.
    ///
    /// Whether somebody is there is asked before anything is read: crossterm reads a terminal that was hung up for ever.
    pub fn typed(&mut self, time: Duration) -> Option<Key> {
        if !self.is_there(Duration::ZERO) {
            return None;
        }
        // what came together with a key before is known without reading
        let is_known = matches!(event::poll(Duration::ZERO), Ok(true));
        if !is_known && !self.is_there(time) {
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
                // a signal, or there is nobody any more: whoever waits will see
                thread::sleep(time);
                None
            }
        }
    }

    /// Waits for something to read; says whether there still is a terminal to read it from.
    fn is_there(&mut self, time: Duration) -> bool {
        let time = Timespec::try_from(time).unwrap_or_default();
        let mut tty = [PollFd::new(&self.tty, PollFlags::IN)];
        // a signal ends it early
        let _ = poll(&mut tty, Some(&time));
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        if tty[0].revents().intersects(gone) {
            self.is_gone.store(true, Ordering::Release);
            return false;
        }
        true
    }

    /// Gives the terminal back, stops this process as Ctrl-Z does, and takes it again afterwards.
    pub fn suspend(&mut self) -> anyhow::Result<()> {
        self.wait_for_writer();
        let tty = give_back();
        // stops here until somebody continues us
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        if let Some(tty) = tty {
            take(tty)?;
        }
        // one that knows nothing of what stood there; its own `clear` would ask the terminal for its cursor, and wait for the answer
        self.terminal = Terminal::new(CrosstermBackend::new(self.drawn.clone()))?;
        self.enter();
        Ok(())
    }

    fn wait_for_writer(&self) {
        let began = Instant::now();
        while self.is_busy.load(Ordering::Acquire) && began.elapsed() < LAST_WORDS {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.wait_for_writer();
        match self.is_busy.load(Ordering::Acquire) {
            // it takes nothing; its modes can be set
            true => drop(give_back_modes()),
            false => drop(give_back()),
        }
    }
}

/// Keeps how the terminal is, and makes it one that passes keys on as they come. A panic gives it back before it says why.
fn take(tty: File) -> io::Result<()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
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

/// Gives the terminal back as it was, where it was taken.
fn give_back() -> Option<File> {
    let mut tty = give_back_modes()?;
    let mut bytes = Vec::new();
    let _ = queue!(bytes, LeaveAlternateScreen, Show);
    let _ = tty.write_all(&bytes);
    Some(tty)
}

fn give_back_modes() -> Option<File> {
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
    fn a_panic_gives_the_terminal_back_before_it_says_why() {
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
        assert!(give_back().is_none());
    }
}
