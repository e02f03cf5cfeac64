//! HTML and SVG as text in which nothing from outside can become markup.
//!
//! Tags and attribute names are constants of this crate; every attribute value and every text is escaped here and
//! nowhere else. It knows no page. Start with [`Markup::within`].

/// A piece of a page.
#[derive(Debug, Default)]
pub(crate) struct Markup(String);

/// Attributes of an element.
pub(crate) type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Markup {
    /// An element with children.
    pub fn within(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        children: impl FnOnce(&mut Markup),
    ) {
        self.open(tag, attributes, ">");
        children(self);
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
        if matches!(
            tag,
            "div" | "figure" | "p" | "section" | "table" | "tr" | "svg" | "h1" | "h2" | "h3"
        ) {
            self.0.push('\n');
        }
    }

    /// An element with nothing but text.
    pub fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.within(tag, attributes, |m| m.text(text));
    }

    /// An element of HTML that has no end tag, such as `meta`.
    pub fn void(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes, ">\n");
    }

    /// An element of SVG without children.
    pub fn shape(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes, "/>");
    }

    /// Text.
    pub fn text(&mut self, text: &str) {
        self.escaped(text);
    }

    /// Text of this crate that is markup already: the style sheet.
    pub fn trusted(&mut self, text: &'static str) {
        self.0.push_str(text);
    }

    /// What was made apart.
    pub fn append(&mut self, other: Markup) {
        self.0.push_str(&other.0);
    }

    /// The finished text.
    pub fn finish(self) -> String {
        self.0
    }

    fn open(&mut self, tag: &'static str, attributes: Attributes<'_>, end: &str) {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            self.escaped(value);
            self.0.push('"');
        }
        self.0.push_str(end);
    }

    fn escaped(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // Neither HTML nor XML has these.
                '\u{fffe}' | '\u{ffff}' => self.0.push('\u{fffd}'),
                // Control characters are errors in HTML, and nothing to read.
                c if c.is_control() && !matches!(c, '\n' | '\t') => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_is_markup() {
        let mut m = Markup::default();
        m.leaf("td", &[("title", "\" onclick='x'")], "<b>&\u{1b}");
        assert_eq!(
            m.finish(),
            "<td title=\"&quot; onclick=&#39;x&#39;\">&lt;b&gt;&amp;\u{fffd}</td>"
        );
    }
}
