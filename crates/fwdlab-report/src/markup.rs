//! Writes HTML and SVG in which text from outside cannot become markup.
//!
//! Tags and attribute names are constants of this crate; every attribute value and every text is
//! escaped here and nowhere else. It contains no page layout. Start with [`Markup::within`].

/// A piece of a page.
#[derive(Debug, Default)]
pub(crate) struct Markup {
    text: String,
    /// Prefix of anchor names: several runs on one page would otherwise use the same ones.
    pub places: String,
}

/// Attributes of an element.
pub(crate) type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Markup {
    /// Writes an element with children.
    pub fn within(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        children: impl FnOnce(&mut Markup),
    ) {
        self.open(tag, attributes, ">");
        children(self);
        self.text.push_str("</");
        self.text.push_str(tag);
        self.text.push('>');
        if matches!(
            tag,
            "div" | "figure" | "p" | "section" | "table" | "tr" | "svg" | "h1" | "h2" | "h3"
        ) {
            self.text.push('\n');
        }
    }

    /// Returns the text between the tags, without style sheet and scripts.
    pub fn words(&self) -> String {
        let parts = self.text.split('<').filter_map(|part| part.split_once('>'));
        let words = parts
            .filter(|(tag, _)| *tag != "style" && !tag.starts_with("script"))
            .map(|(_, words)| words);
        words.collect::<Vec<_>>().join(" ")
    }

    /// Writes an element that contains only text.
    pub fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.within(tag, attributes, |m| m.text(text));
    }

    /// Writes an HTML element that has no end tag, such as `meta`.
    pub fn void(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes, ">\n");
    }

    /// Writes an SVG element without children.
    pub fn shape(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes, "/>");
    }

    /// Writes text, escaped.
    pub fn text(&mut self, text: &str) {
        self.escaped(text);
    }

    /// Writes text of this crate that is markup already: the style sheet.
    pub fn trusted(&mut self, text: &'static str) {
        self.text.push_str(text);
    }

    /// Returns the anchor name of `what` on this page.
    pub fn place(&self, what: &str) -> String {
        format!("{}{what}", self.places)
    }

    /// Appends another piece of markup.
    pub fn append(&mut self, other: Markup) {
        self.text.push_str(&other.text);
    }

    /// Returns the finished text.
    pub fn finish(self) -> String {
        self.text
    }

    fn open(&mut self, tag: &'static str, attributes: Attributes<'_>, end: &str) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.escaped(value);
            self.text.push('"');
        }
        self.text.push_str(end);
    }

    fn escaped(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\'' => self.text.push_str("&#39;"),
                // noncharacters: neither HTML nor XML allows them
                '\u{fffe}' | '\u{ffff}' => self.text.push('\u{fffd}'),
                // control characters are errors in HTML, and not readable
                c if c.is_control() && !matches!(c, '\n' | '\t') => self.text.push('\u{fffd}'),
                c => self.text.push(c),
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
