//! Keys as the screen understands them, and what the program does when one asks for more than another view.
//!
//! Where they come from is `terminal`'s; what they mean is decided in [`super::app`].

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use fwdlab_model::event::Request;

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    /// With Ctrl.
    Control(char),
    Left,
    Right,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Tab,
    BackTab,
    Enter,
    Escape,
}

/// What is done beyond another view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Nothing,
    /// This is asked of the run.
    Ask(Request),
    /// The profile of this test case is looked for.
    Profile(String),
    /// The screen ends, the run goes on.
    Leave,
    /// The same, and what stood on the screen stays on the terminal.
    Keep,
    /// The run is stopped, and the screen ends with it.
    Stop,
    /// Ctrl-Z.
    Suspend,
}

/// The key of an event of the terminal; `None`: one that nothing is bound to.
pub fn key(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    Some(match event.code {
        KeyCode::Char(c) if event.modifiers.contains(KeyModifiers::CONTROL) => {
            Key::Control(c.to_ascii_lowercase())
        }
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        _ => return None,
    })
}
