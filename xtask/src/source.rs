//! Rust source as far as a textual check needs it: code without comments and literals, and the
//! paths in it.
//!
//! Not a parser: it knows comments, literals, braces and `use` trees, which suffices for the checks
//! and is the same in every edition. Start with [`code`].

/// Returns the source with every comment and every string or character literal replaced by spaces;
/// lines and columns stay the same.
pub fn code(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    let mut after_word = false;
    while let Some(first) = rest.chars().next() {
        // a raw string or a byte string starts with a letter, but not in the middle of a word
        let hidden = if after_word && first.is_alphabetic() {
            0
        } else {
            hidden_length(rest)
        };
        if hidden == 0 {
            code.push(first);
            after_word = is_word(first);
            rest = &rest[first.len_utf8()..];
        } else {
            let (gone, left) = rest.split_at(hidden);
            code.extend(gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            after_word = false;
            rest = left;
        }
    }
    code
}

/// Returns the length in bytes of the comment or literal at the start of `text`; 0 if it starts
/// with code.
fn hidden_length(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment_length(text);
    }
    let prefix = text.len() - text.trim_start_matches(['b', 'c', 'r']).len();
    let (letters, literal) = text.split_at(prefix.min(2));
    match letters {
        "" | "b" | "c" if literal.starts_with('"') => letters.len() + quoted_length(literal, '"'),
        "" | "b" if literal.starts_with('\'') => match character_length(literal) {
            0 => 0,
            length => letters.len() + length,
        },
        "r" | "br" | "cr" => {
            let hashes = literal.len() - literal.trim_start_matches('#').len();
            if !literal[hashes..].starts_with('"') {
                return 0; // a word, or a raw identifier
            }
            let end = format!("\"{}", "#".repeat(hashes));
            let body = hashes + 1;
            let length = literal[body..]
                .find(&end)
                .map_or(literal.len(), |at| body + at + end.len());
            letters.len() + length
        }
        _ => 0,
    }
}

fn block_comment_length(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Returns the length of a literal with both its quotes.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + quote.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of a character literal; 0 for a lifetime.
fn character_length(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), _) => quoted_length(text, '\''),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Replaces every item behind `#[cfg(test)]` by spaces. Requires the result of [`code`], in which
/// every brace is a real one.
pub fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        let (before, item) = rest.split_at(at);
        kept.push_str(before);
        let (gone, left) = item.split_at(item_length(item));
        kept.extend(gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = left;
    }
    kept.push_str(rest);
    kept
}

/// Returns the number of bytes up to the semicolon or the closing brace that ends the item.
fn item_length(item: &str) -> usize {
    let mut depth = 0;
    for (at, c) in item.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

/// Returns true if this line of code contains the word, and not only as part of another one.
pub fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Returns every path that starts with `start::` (`std::fs::read`), with its line number; `use`
/// trees are expanded.
pub fn paths(code: &str, start: &str) -> Vec<(usize, String)> {
    let head = format!("{start}::");
    let mut paths = Vec::new();
    for (at, _) in code.match_indices(&head) {
        if code[..at].chars().next_back().is_some_and(is_word) {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        expand(&code[at..], "", &mut |path| paths.push((line, path)));
    }
    paths
}

/// Calls `found` for every path of a `use` tree, and returns the number of bytes read. An ordinary
/// path is a tree of one.
fn expand(tree: &str, prefix: &str, found: &mut dyn FnMut(String)) -> usize {
    let mut path = prefix.to_owned();
    let mut at = 0;
    loop {
        at += tree[at..].len() - tree[at..].trim_start().len();
        if tree[at..].starts_with('{') {
            at += 1;
            loop {
                at += tree[at..].len()
                    - tree[at..]
                        .trim_start_matches(|c: char| c.is_whitespace() || c == ',')
                        .len();
                if tree[at..].starts_with('}') {
                    return at + 1;
                }
                match expand(&tree[at..], &path, found) {
                    0 => return tree.len(),
                    read => at += read,
                }
            }
        }
        let word = tree[at..]
            .find(|c: char| !is_word(c) && c != '*')
            .unwrap_or(tree.len() - at);
        path.push_str(&tree[at..at + word]);
        at += word;
        if !tree[at..].starts_with("::") {
            break;
        }
        // `Vec::<u8>::new` continues after the types; the checks need only the path before them
        if tree[at + 2..].starts_with('<') {
            break;
        }
        path.push_str("::");
        at += 2;
    }
    if let Some(alias) = tree[at..].strip_prefix(" as ") {
        at += 4 + alias.find(|c: char| !is_word(c)).unwrap_or(alias.len());
    }
    found(path.trim_end_matches("::self").to_owned());
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_removed_and_lines_kept() {
        let source = "let a = \"unsafe // \\\" {\"; // unsafe\n/* unsafe /* nested */ unsafe */ let b = 'u'; let c: &'a str;\nlet d = r#\"un\"safe\"#; let e = b\"unsafe\"; let f = '\\''; let bar = 1; r#type";
        let code = code(source);
        assert!(!code.contains("unsafe"), "{code}");
        assert_eq!(code.lines().count(), source.lines().count());
        assert_eq!(code.chars().count(), source.chars().count());
        for kept in [
            "let a =",
            "let b =",
            "&'a str",
            "let d =",
            "let e =",
            "let f =",
            "let bar = 1",
            "r#type",
        ] {
            assert!(code.contains(kept), "{kept} in {code}");
        }
    }

    #[test]
    fn a_letter_at_the_end_of_a_word_is_no_prefix_of_a_string() {
        assert_eq!(code("macro_r\"x\" + bar'y'"), "macro_r    + bar   ");
    }

    #[test]
    fn tests_are_removed() {
        let source = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { c() }\n}\nfn d() {}\n#[cfg(test)]\nuse e;\nfn f() {}";
        let kept = without_tests(source);
        assert_eq!(
            kept.lines()
                .filter(|l| !l.trim().is_empty())
                .collect::<Vec<_>>(),
            ["fn a() {}", "fn d() {}", "fn f() {}"]
        );
        assert_eq!(kept.lines().count(), source.lines().count());
    }

    #[test]
    fn words_are_matched_as_a_whole() {
        assert!(has_word("unsafe {", "unsafe"));
        assert!(has_word("x = unsafe{", "unsafe"));
        assert!(!has_word("#![allow(unsafe_code)]", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
    }

    #[test]
    fn use_trees_are_expanded() {
        let code = "use std::{fs, io::{self, Read as _, Write}, thread};\nlet a = std::net::Ipv4Addr::new();\nuse\n  std::time::*;";
        let found = paths(code, "std");
        let found: Vec<(usize, &str)> = found.iter().map(|(l, p)| (*l, p.as_str())).collect();
        assert_eq!(
            found,
            [
                (1, "std::fs"),
                (1, "std::io"),
                (1, "std::io::Read"),
                (1, "std::io::Write"),
                (1, "std::thread"),
                (2, "std::net::Ipv4Addr::new"),
                (4, "std::time::*"),
            ]
        );
        assert!(paths("my_std::fs", "std").is_empty());
    }
}
