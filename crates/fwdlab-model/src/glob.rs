//! Glob patterns for names, as in files and on command lines: `plain/64B-*`, `/etc/frr/*.conf`,
//! `nft-1?`.
//!
//! Not for paths of archives, where a star stops at `/`. Start with [`matches()`].

/// Returns true if a pattern with `*` and `?` matches the whole text.
pub(crate) fn matches(glob: &str, text: &str) -> bool {
    let glob: Vec<char> = glob.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut g, mut t) = (0, 0);
    // position of the last star, and how much of the text it has matched
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match glob.get(g) {
            Some('*') => {
                star = Some((g, t));
                g += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => (g, t) = (g + 1, t + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (g, t) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    glob[g..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_the_whole() {
        for (glob, text, is) in [
            ("/etc/*", "/etc/a/b", true),
            ("/etc/*.conf", "/etc/x.conf", true),
            ("/etc/*.conf", "/etc/x.conf.bak", false),
            ("*", "", true),
            ("nft-*", "nft-10", true),
            ("nft-*", "anft-10", false),
            ("*-1?", "nft-10", true),
            ("*a*b*c", "xxaxxbxxcxc", true),
            ("*a*b*c", "xxaxxbxxcx", false),
            ("a", "ab", false),
            ("", "", true),
            ("**", "", true),
        ] {
            assert_eq!(matches(glob, text), is, "{glob} {text}");
        }
    }
}
