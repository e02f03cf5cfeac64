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

/// Environment variables that describe the terminal.
#[derive(Debug, Default)]
pub struct Environment {
    pub lc_all: Option<String>,
    pub lc_ctype: Option<String>,
    pub lang: Option<String>,
    pub term: Option<String>,
    pub no_color: Option<String>,
}

impl Environment {
    /// Returns those of this process.
    pub fn from_process() -> Environment {
        let of = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Environment {
            lc_all: of("LC_ALL"),
            lc_ctype: of("LC_CTYPE"),
            lang: of("LANG"),
            term: of("TERM"),
            no_color: of("NO_COLOR"),
        }
    }
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
    pub fn choose(symbols: Option<Symbols>, environment: &Environment) -> Theme {
        let locale = (environment.lc_all.as_ref())
            .or(environment.lc_ctype.as_ref())
            .or(environment.lang.as_ref());
        let locale = locale.map(|locale| locale.to_ascii_lowercase().replace('-', ""));
        let is_utf8 = locale.is_some_and(|locale| locale.contains("utf8"));
        let term = environment.term.as_deref().unwrap_or("dumb");
        let symbols = symbols.unwrap_or(match term {
            _ if !is_utf8 => Symbols::Ascii,
            "linux" => Symbols::Block,
            "dumb" | "vt100" | "vt220" | "ansi" => Symbols::Ascii,
            _ => Symbols::Braille,
        });
        let is_plain = matches!(term, "dumb" | "vt100" | "vt220") || term.ends_with("-mono");
        Theme {
            symbols,
            has_colour: environment.no_color.is_none() && !is_plain,
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
            let environment = Environment {
                lang: Some(lang.into()),
                term: Some(term.into()),
                no_color: no_color.map(str::to_owned),
                ..Environment::default()
            };
            let theme = Theme::choose(None, &environment);
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
        let output = Theme::choose(Some(Symbols::Block), &Environment::default());
        assert_eq!(output.symbols, Symbols::Block);
    }
}
