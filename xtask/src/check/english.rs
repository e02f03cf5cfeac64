//! Checks that the manual is in plain English: phrases of literal translation must be rare.
//!
//! Each of them has a better word. Up to one in a thousand words is accepted; code and output are
//! ignored. Start with [`check`].

use super::Finding;
use crate::source::has_word;
use crate::tree::File;

/// Phrases of literal translation, and what to write instead.
const TELLTALES: [(&str, &str); 26] = [
    ("told", "print, report, show, record, warn"),
    ("is said", "print, report, show"),
    ("are said", "print, report, show"),
    ("stands", "is, exists, is listed"),
    ("stood", "was, existed"),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("went on", "continued"),
    ("nobody", "no one, or name who"),
    ("somebody", "someone, or name who"),
    ("so many", "the number"),
    ("held up", "stalled, delayed"),
    ("anew", "again"),
    ("amiss", "wrong"),
    ("put off", "delayed"),
    ("given up", "aborted"),
    ("taken back", "undone, reverted"),
    ("takes back", "undoes, reverts"),
    ("put right", "corrected"),
    ("beside", "next to, compared with, during"),
    ("of its own choice", "not pinned, automatic"),
    ("comes to its end", "finishes"),
    ("is that of", "is the same as, comes from"),
    ("says so", "reports it"),
    ("in vain", "without result"),
    ("without end", "endless, unlimited"),
];

/// One telltale is allowed for this number of words.
const WORDS_PER_TELLTALE: usize = 1000;

/// Returns every telltale of a page that has more than allowed.
pub fn check(file: &File) -> Vec<Finding> {
    let is_page =
        file.path == "README.md" || (file.path.starts_with("docs/") && file.path.ends_with(".md"));
    if !is_page {
        return Vec::new();
    }
    let prose = prose(&file.text);
    let mut findings = Vec::new();
    let mut words = 0;
    for (at, line) in prose.lines().enumerate() {
        words += line.split_whitespace().count();
        let lower = line.to_lowercase();
        for (telltale, better) in TELLTALES {
            if has_word(&lower, telltale) {
                let text = format!("`{telltale}`: say what happens ({better})");
                findings.push(Finding::new(&file.path, at + 1, text));
            }
        }
    }
    match findings.len() * WORDS_PER_TELLTALE > words.max(WORDS_PER_TELLTALE) {
        true => findings,
        false => Vec::new(),
    }
}

/// Returns the text of a page without its code; line numbers stay the same.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().map(|line| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return String::new();
        }
        // lines indented by four spaces are code, too
        if is_code || line.starts_with("    ") {
            return String::new();
        }
        let outside = line.split('`').step_by(2);
        outside.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> File {
        File {
            path: "docs/x.md".into(),
            text: text.into(),
        }
    }

    #[test]
    fn more_than_one_in_a_thousand_words_is_found() {
        let code = "`told`\n```\nis told\n```\n    told\n";
        assert_eq!(check(&page(code)), []);
        assert_eq!(check(&page(&format!("The user is told.\n{code}"))), []);
        let found = check(&page(&format!(
            "{code}The user is told.\nThe run goes on.\n"
        )));
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [6, 7]);
        let long = "word ".repeat(2000);
        assert_eq!(check(&page(&format!("told told\n{long}\nTold\n"))), []);
    }
}
