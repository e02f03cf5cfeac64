//! The abilities of a terminal: the characters for lines and charts, and colour.
//!
//! No meaning is expressed by colour alone. Start with [`Theme::choose`].

use clap::ValueEnum;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;

/// Characters that charts and frames are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Symbols {
    /// Dots, eight in a character: the finest charts
    Braille,
    /// Blocks and lines
    Block,
    /// ASCII only
    Ascii,
}

/// The look of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    pub symbols: Symbols,
    pub has_colour: bool,
}

const ASCII: border::Set<'_> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

impl Theme {
    /// Chooses the symbols given by the user, or else by the environment: the locale must support
    /// characters beyond ASCII, and `linux` (its console) has no Braille in its font.
    pub fn choose(symbols: Option<Symbols>) -> Theme {
        Theme::in_environment(symbols, |name| std::env::var(name).ok())
    }

    fn in_environment(
        symbols: Option<Symbols>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Theme {
        let variable = |name: &&str| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(variable);
        let locale = locale.map(|locale| locale.to_ascii_lowercase().replace('-', ""));
        let is_utf8 = locale.is_some_and(|locale| locale.contains("utf8"));
        let term = variable(&"TERM");
        let term = term.as_deref().unwrap_or("dumb");
        let symbols = symbols.unwrap_or(match term {
            _ if !is_utf8 => Symbols::Ascii,
            "linux" => Symbols::Block,
            "dumb" | "vt100" | "vt220" | "ansi" => Symbols::Ascii,
            _ => Symbols::Braille,
        });
        let is_plain = matches!(term, "dumb" | "vt100" | "vt220") || term.ends_with("-mono");
        Theme {
            symbols,
            has_colour: variable(&"NO_COLOR").is_none() && !is_plain,
        }
    }

    pub fn border(self) -> border::Set<'static> {
        match self.symbols {
            Symbols::Ascii => ASCII,
            _ => border::PLAIN,
        }
    }

    /// Returns the first character, or the second one if the terminal has only ASCII.
    pub fn pick(self, full: &'static str, ascii: &'static str) -> &'static str {
        match self.symbols {
            Symbols::Ascii => ascii,
            _ => full,
        }
    }

    fn coloured(self, colour: Color) -> Style {
        match self.has_colour {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    pub fn plain(self) -> Style {
        Style::new()
    }

    pub fn strong(self) -> Style {
        Style::new()
            .add_modifier(Modifier::BOLD)
            .remove_modifier(Modifier::DIM)
    }

    /// Returns the terminal's own colour, dimmed: any other grey is invisible on some background.
    pub fn faint(self) -> Style {
        match self.has_colour {
            true => Style::new().add_modifier(Modifier::DIM),
            false => Style::new(),
        }
    }

    /// Returns the style of important figures. Their labels stay plain: coloured words are
    /// unreadable on some backgrounds.
    pub fn figure(self) -> Style {
        self.strong()
    }

    pub fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    pub fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub fn doubtful(self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// Returns the style of offered frames. Like all colours here, for signs and lines, not for
    /// words.
    pub fn offered(self) -> Style {
        self.coloured(Color::Magenta)
    }

    /// Returns the style of forwarded frames.
    pub fn forwarded(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// Returns the style of the focus.
    pub fn focus(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_capabilities_come_from_the_environment() {
        let of = |lang: &str, term: &str, no_color: Option<&str>| {
            let theme = Theme::in_environment(None, |name| match name {
                "LANG" => Some(lang.to_owned()),
                "TERM" => Some(term.to_owned()),
                "NO_COLOR" => no_color.map(str::to_owned),
                _ => None,
            });
            (theme.symbols, theme.has_colour)
        };
        assert_eq!(
            of("en_US.UTF-8", "xterm-256color", None),
            (Symbols::Braille, true)
        );
        assert_eq!(of("de_DE.utf8", "linux", None), (Symbols::Block, true));
        assert_eq!(of("C", "xterm", None), (Symbols::Ascii, true));
        assert_eq!(of("C.UTF-8", "vt100", None), (Symbols::Ascii, false));
        assert_eq!(of("C.UTF-8", "xterm", Some("1")), (Symbols::Braille, false));
        let output = Theme::in_environment(Some(Symbols::Block), |_| None);
        assert_eq!(output.symbols, Symbols::Block);
    }
}
