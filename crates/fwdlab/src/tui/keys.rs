//! Keys of the screen, what they do, and actions beyond another view.
//!
//! `terminal` reads the keys. [`KeyFunction::ALL`] and the user's settings ([`super::settings`])
//! bind them, [`super::app`] handles them.

use std::fmt;
use std::str::FromStr;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use fwdlab_model::event::Request;
use fwdlab_model::file::did_you_mean;

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

/// Keys other than characters.
const NAMED: [(Key, &str); 13] = [
    (Key::Char(' '), "space"),
    (Key::Left, "left"),
    (Key::Right, "right"),
    (Key::Up, "up"),
    (Key::Down, "down"),
    (Key::PageUp, "page-up"),
    (Key::PageDown, "page-down"),
    (Key::Home, "home"),
    (Key::End, "end"),
    (Key::Tab, "tab"),
    (Key::BackTab, "back-tab"),
    (Key::Enter, "enter"),
    (Key::Escape, "escape"),
];

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Key, String> {
        if let Some((key, _)) = NAMED.iter().find(|(_, name)| *name == text) {
            return Ok(*key);
        }
        let letter = |text: &str| {
            let mut letters = text.chars();
            letters
                .next()
                .filter(|c| letters.next().is_none() && c.is_ascii_graphic())
        };
        match (letter(text), text.strip_prefix("ctrl-").map(letter)) {
            (Some(c), _) => Ok(Key::Char(c)),
            (_, Some(Some('c' | 'z'))) => {
                Err("ctrl-c and ctrl-z are as everywhere: they are not bound".to_owned())
            }
            (_, Some(Some(c))) if c.is_ascii_lowercase() => Ok(Key::Control(c)),
            _ => {
                let known = did_you_mean(text, &NAMED.map(|(_, name)| name));
                Err(format!(
                    "no key is called `{text}`; {known}, or one character, or ctrl- and a letter"
                ))
            }
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (NAMED.iter().find(|(key, _)| key == self), self) {
            (Some((_, name)), _) => f.write_str(name),
            (None, Key::Char(c)) => write!(f, "{c}"),
            (None, Key::Control(c)) => write!(f, "ctrl-{c}"),
            (None, _) => Ok(()),
        }
    }
}

/// The functions of the run screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFunction {
    Quit,
    Keep,
    Help,
    Freeze,
    Back,
    On,
    PageBack,
    PageOn,
    First,
    Latest,
    Pane,
    PaneBack,
    Up,
    Down,
    Loss,
    Latency,
    Flame,
    Pause,
    Skip,
    Detach,
    Faster,
    Slower,
}

impl KeyFunction {
    /// All functions, with their names in files and their default keys.
    pub const ALL: &[(KeyFunction, &str, &[Key])] = &[
        (KeyFunction::Quit, "quit", &[Key::Char('q'), Key::Escape]),
        (KeyFunction::Keep, "keep", &[Key::Char('Q')]),
        (KeyFunction::Help, "help", &[Key::Char('?'), Key::Char('h')]),
        (KeyFunction::Freeze, "freeze", &[Key::Char(' ')]),
        (KeyFunction::Back, "back", &[Key::Left]),
        (KeyFunction::On, "on", &[Key::Right]),
        (KeyFunction::PageBack, "page-back", &[Key::PageUp]),
        (KeyFunction::PageOn, "page-on", &[Key::PageDown]),
        (KeyFunction::First, "first", &[Key::Home]),
        (KeyFunction::Latest, "latest", &[Key::End]),
        (KeyFunction::Pane, "pane", &[Key::Tab]),
        (KeyFunction::PaneBack, "pane-back", &[Key::BackTab]),
        (KeyFunction::Up, "up", &[Key::Up]),
        (KeyFunction::Down, "down", &[Key::Down]),
        (KeyFunction::Loss, "loss", &[Key::Char('e')]),
        (KeyFunction::Latency, "latency", &[Key::Char('l')]),
        (KeyFunction::Flame, "flame", &[Key::Char('f')]),
        (KeyFunction::Pause, "pause", &[Key::Char('p')]),
        (KeyFunction::Skip, "skip", &[Key::Char('s')]),
        (KeyFunction::Detach, "detach", &[Key::Char('d')]),
        (KeyFunction::Faster, "faster", &[Key::Char('+')]),
        (KeyFunction::Slower, "slower", &[Key::Char('-')]),
    ];

    /// Returns the function with this name.
    pub fn named(name: &str) -> Option<KeyFunction> {
        let found = KeyFunction::ALL.iter().find(|(_, known, _)| *known == name);
        found.map(|(does, _, _)| *does)
    }

    pub fn name(self) -> &'static str {
        let found = KeyFunction::ALL.iter().find(|(does, _, _)| *does == self);
        found.map_or("", |(_, name, _)| name)
    }
}

/// An action beyond another view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Nothing,
    /// Send this request to the run.
    Ask(Request),
    /// Load the profile of this test case.
    Profile(String),
    /// Leave the screen; the run continues.
    Leave,
    /// Leave the screen, but keep its text on the terminal.
    Keep,
    /// Stop the run and leave the screen.
    Stop,
    /// Ctrl-Z.
    Suspend,
}

/// Returns the key of a terminal event; `None` for keys that cannot be bound.
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
