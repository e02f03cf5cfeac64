//! The IMIX genome of RFC 6985: a sequence of frame sizes in letters, `7a4dg`.
//!
//! One letter is one frame, in the order sent; a number before a letter or a group in parentheses
//! repeats it. Capital letters stand for sizes that a table behind the sequence defines:
//! `7a4Ag A=594`. Sizes include the FCS and no VLAN tag. Rates are in [`crate::mix`] and
//! [`crate::link`]. Sequences are never expanded in memory, so a text of a few letters cannot
//! request much of it. Start with [`Genome`].

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Peekable;
use std::str::{CharIndices, FromStr};

/// Letters of RFC 6985 and their frame sizes in bytes. `z` is the size of the MTU, which only a
/// table can define.
pub const LETTERS: [(char, u32); 10] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1024),
    ('f', 1280),
    ('g', 1518),
    ('h', 2112),
    ('i', 9000),
    ('j', 16_000),
];

const LONGEST_TEXT_BYTES: usize = 65_536;
const DEEPEST: usize = 16;
const MOST_FRAMES: u64 = 1_000_000_000;
const LARGEST_BYTES: u64 = 65_535;

/// A sequence of frame sizes. It has 1 to 10^9 frames, every letter has a size, and runs are merged
/// as far as possible: `aa` is `2a`, `2(3a)` is `6a`, and `(ab)` is `ab`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Genome {
    runs: Vec<Run>,
    custom: BTreeMap<char, u32>,
}

/// A repetition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    count: u64,
    kind: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Frame(char),
    Group(Vec<Run>),
}

/// Why a text is not a genome, and the position of the error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("character {position}: {reason}")]
pub struct GenomeError {
    /// Position of the wrong character, from 1.
    pub position: usize,
    /// What is wrong, and the correct form.
    pub reason: String,
}

impl Genome {
    /// Returns the genome of runs of `(frame size, count)`; sizes without a letter get capital
    /// letters from `A` on.
    ///
    /// # Errors
    /// If there are more than 26 such sizes, no frames at all or more than 10^9, or a size is 0 or
    /// above 65535. The position is that of the run, counted from 1.
    pub fn from_runs(runs: impl IntoIterator<Item = (u32, u64)>) -> Result<Genome, GenomeError> {
        let mut genome = Genome {
            runs: Vec::new(),
            custom: BTreeMap::new(),
        };
        let mut letter_of: BTreeMap<u32, char> = LETTERS
            .iter()
            .map(|&(letter, size)| (size, letter))
            .collect();
        let mut free = 'A'..='Z';
        for (index, (size, count)) in runs.into_iter().enumerate() {
            let wrong = |cause: &str| GenomeError {
                position: index + 1,
                reason: cause.to_owned(),
            };
            if size == 0 || u64::from(size) > LARGEST_BYTES {
                return Err(wrong("a frame has 1 to 65535 bytes"));
            }
            let letter = match letter_of.get(&size) {
                Some(&letter) => letter,
                None => {
                    let letter = free
                        .next()
                        .ok_or_else(|| wrong("only 26 letters are available for custom sizes"))?;
                    letter_of.insert(size, letter);
                    genome.custom.insert(letter, size);
                    letter
                }
            };
            if count > 0 {
                push(&mut genome.runs, count, What::Frame(letter));
            }
        }
        match genome.frame_count() {
            1..=MOST_FRAMES => Ok(genome),
            count => Err(GenomeError {
                position: 1,
                reason: count_text(count),
            }),
        }
    }

    /// Returns the number of frames in the sequence.
    pub fn frame_count(&self) -> u64 {
        count(&self.runs)
    }

    /// Returns each frame size with the number of its frames, smallest size first.
    pub fn sizes(&self) -> BTreeMap<u32, u64> {
        let mut sizes = BTreeMap::new();
        self.add_sizes(&self.runs, 1, &mut sizes);
        sizes
    }

    fn add_sizes(&self, runs: &[Run], times: u64, sizes: &mut BTreeMap<u32, u64>) {
        for run in runs {
            match &run.kind {
                What::Frame(letter) => {
                    *sizes.entry(self.size_of(*letter)).or_default() += times * run.count;
                }
                What::Group(inner) => self.add_sizes(inner, times * run.count, sizes),
            }
        }
    }

    /// Iterates over the frame sizes in the order sent.
    pub fn frames(&self) -> Frames<'_> {
        Frames {
            genome: self,
            levels: vec![Level::new(&self.runs)],
        }
    }

    /// Returns the expanded sequence, `aaaaaaaddddg`, without the table; `None` above 65536 frames.
    pub fn letters(&self) -> Option<String> {
        let mut frames = self.frames();
        (self.frame_count() <= LONGEST_TEXT_BYTES as u64)
            .then(|| std::iter::from_fn(|| frames.next_letter()).collect())
    }

    fn size_of(&self, letter: char) -> u32 {
        standard_size(letter)
            .or_else(|| self.custom.get(&letter).copied())
            .expect("every letter of a genome has a size")
    }
}

fn standard_size(letter: char) -> Option<u32> {
    LETTERS
        .iter()
        .find(|(l, _)| *l == letter)
        .map(|(_, size)| *size)
}

fn count(runs: &[Run]) -> u64 {
    runs.iter().fold(0, |sum: u64, run| {
        let one = match &run.kind {
            What::Frame(_) => 1,
            What::Group(inner) => count(inner),
        };
        sum.saturating_add(one.saturating_mul(run.count))
    })
}

fn count_text(count: u64) -> String {
    if count == 0 {
        "no frames; a sequence is letters such as 7a4dg".to_owned()
    } else {
        "more than 10^9 frames; give a longer sequence by its proportions".to_owned()
    }
}

/// Appends a run and merges it if possible. Counts saturate: excessive ones are refused at the end.
fn push(runs: &mut Vec<Run>, count: u64, what: What) {
    let what = match what {
        What::Group(inner) if count == 1 => {
            for run in inner {
                push(runs, run.count, run.kind);
            }
            return;
        }
        What::Group(mut inner) if inner.len() == 1 => {
            let only = inner.remove(0);
            return push(runs, count.saturating_mul(only.count), only.kind);
        }
        what => what,
    };
    match runs.last_mut() {
        Some(last) if last.kind == what => last.count = last.count.saturating_add(count),
        _ => runs.push(Run { count, kind: what }),
    }
}

impl fmt::Display for Genome {
    /// With run lengths, and the table behind: `7a4Ag A=594`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_runs(&self.runs, f)?;
        for (letter, size) in &self.custom {
            write!(f, " {letter}={size}")?;
        }
        Ok(())
    }
}

fn write_runs(runs: &[Run], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for run in runs {
        if run.count > 1 {
            write!(f, "{}", run.count)?;
        }
        match &run.kind {
            What::Frame(letter) => write!(f, "{letter}")?,
            What::Group(inner) => {
                f.write_str("(")?;
                write_runs(inner, f)?;
                f.write_str(")")?;
            }
        }
    }
    Ok(())
}

impl FromStr for Genome {
    type Err = GenomeError;

    fn from_str(text: &str) -> Result<Self, GenomeError> {
        let mut parser = Parser {
            text,
            rest: text.char_indices().peekable(),
            custom: BTreeMap::new(),
            used: BTreeMap::new(),
        };
        if text.len() > LONGEST_TEXT_BYTES {
            return Err(parser.wrong(0, "more than 65536 bytes of text"));
        }
        let runs = parser.sequence(None, 0)?;
        for (&letter, &at) in &parser.used {
            if standard_size(letter).is_none() && !parser.custom.contains_key(&letter) {
                let reason = match letter {
                    'z' => "`z` is a frame of the MTU's size, which is not known here; add it after the sequence: z=1518".into(),
                    _ => format!("`{letter}` has no size; add it after the sequence: {letter}=594"),
                };
                return Err(parser.wrong(at, reason));
            }
        }
        match count(&runs) {
            1..=MOST_FRAMES => Ok(Genome {
                runs,
                custom: parser.custom,
            }),
            frames => Err(parser.wrong(0, count_text(frames))),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
    custom: BTreeMap<char, u32>,
    /// Letters of the sequence, with the byte of their first occurrence.
    used: BTreeMap<char, usize>,
}

impl Parser<'_> {
    /// Returns an error at a byte of the text.
    fn wrong(&self, at: usize, cause: impl Into<String>) -> GenomeError {
        GenomeError {
            position: self.text[..at].chars().count() + 1,
            reason: cause.into(),
        }
    }

    /// Parses runs up to the end, or to the parenthesis that closes the one at `opened`.
    fn sequence(&mut self, opened: Option<usize>, depth: usize) -> Result<Vec<Run>, GenomeError> {
        let mut runs = Vec::new();
        loop {
            self.skip_blanks();
            let number = self.number(MOST_FRAMES)?;
            if let Some((at, 0)) = number {
                return Err(self.wrong(at, "a run length of 0"));
            }
            self.skip_blanks();
            let Some((at, c)) = self.rest.next() else {
                return match (number, opened) {
                    (Some((at, _)), _) => {
                        Err(self.wrong(at, "a run length without a letter after it"))
                    }
                    (None, Some(opened)) => Err(self.wrong(opened, "this `(` is never closed")),
                    (None, None) => Ok(runs),
                };
            };
            let times = number.map_or(1, |(_, times)| times);
            match c {
                '(' if depth == DEEPEST => {
                    return Err(self.wrong(at, format!("more than {DEEPEST} nested groups")));
                }
                '(' => {
                    let inner = self.sequence(Some(at), depth + 1)?;
                    if inner.is_empty() {
                        return Err(self.wrong(at, "an empty group"));
                    }
                    push(&mut runs, times, What::Group(inner));
                }
                ')' if opened.is_none() => return Err(self.wrong(at, "this `)` closes nothing")),
                ')' => {
                    return match number {
                        Some((at, _)) => {
                            Err(self.wrong(at, "a run length without a letter after it"))
                        }
                        None => Ok(runs),
                    };
                }
                'A'..='Z' | 'z' if self.rest.next_if(|&(_, c)| c == '=').is_some() => {
                    if number.is_some() || opened.is_some() {
                        return Err(self.wrong(
                            at,
                            "the table of sizes follows the sequence, each size after a space",
                        ));
                    }
                    self.table_entry(at, c)?;
                }
                c if standard_size(c).is_some() || c.is_ascii_uppercase() || c == 'z' => {
                    self.used.entry(c).or_insert(at);
                    push(&mut runs, times, What::Frame(c));
                }
                c => {
                    let reason = format!(
                        "`{}` is none of the letters a to j (64 to 16000 bytes), z, and A to Z",
                        c.escape_debug()
                    );
                    return Err(self.wrong(at, reason));
                }
            }
        }
    }

    /// Parses the size behind `A=`.
    fn table_entry(&mut self, at: usize, letter: char) -> Result<(), GenomeError> {
        let size = match self.number(LARGEST_BYTES)? {
            Some((_, size)) if size > 0 => size,
            _ => {
                return Err(self.wrong(at, format!("`{letter}=` needs a size of 1 to 65535 bytes")));
            }
        };
        if let Some(&(at, c)) = self.rest.peek()
            && !is_blank(c)
        {
            return Err(self.wrong(at, "a space must follow a size of the table"));
        }
        // at most 65535
        match self.custom.insert(letter, size as u32) {
            None => Ok(()),
            Some(_) => Err(self.wrong(at, format!("`{letter}` is in the table twice"))),
        }
    }

    fn skip_blanks(&mut self) {
        while self.rest.next_if(|&(_, c)| is_blank(c)).is_some() {}
    }

    /// Parses digits, if there are any: returns their position and value.
    fn number(&mut self, most: u64) -> Result<Option<(usize, u64)>, GenomeError> {
        let Some(&(at, c)) = self.rest.peek() else {
            return Ok(None);
        };
        if !c.is_ascii_digit() {
            return Ok(None);
        }
        let mut value = 0u64;
        while let Some((_, digit)) = self.rest.next_if(|(_, c)| c.is_ascii_digit()) {
            let digit = u64::from(digit as u32 - '0' as u32);
            value = value.saturating_mul(10).saturating_add(digit);
        }
        if value > most {
            return Err(self.wrong(at, format!("this number is above {most}")));
        }
        Ok(Some((at, value)))
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace()
}

/// The frame sizes of a genome, one by one.
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    genome: &'a Genome,
    levels: Vec<Level<'a>>,
}

/// A position of the iterator in the runs of the sequence, or of a group.
#[derive(Debug, Clone)]
struct Level<'a> {
    runs: &'a [Run],
    done: u64,
}

impl<'a> Level<'a> {
    fn new(runs: &'a [Run]) -> Level<'a> {
        Level { runs, done: 0 }
    }
}

impl Frames<'_> {
    fn next_letter(&mut self) -> Option<char> {
        loop {
            let level = self.levels.last_mut()?;
            let Some((run, others)) = level.runs.split_first() else {
                self.levels.pop();
                continue;
            };
            if level.done == run.count {
                *level = Level::new(others);
                continue;
            }
            level.done += 1;
            match &run.kind {
                What::Frame(letter) => return Some(*letter),
                What::Group(inner) => self.levels.push(Level::new(inner)),
            }
        }
    }
}

impl Iterator for Frames<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let letter = self.next_letter()?;
        Some(self.genome.size_of(letter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn genome(text: &str) -> Genome {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn letters_and_run_lengths() {
        let short = genome("7a4dg");
        let long = genome("aaaaaaaddddg");
        assert_eq!(short, long);
        assert_eq!(long.to_string(), "7a4dg");
        assert_eq!(short.letters().unwrap(), "aaaaaaaddddg");
        assert_eq!(short.frame_count(), 12);
        assert_eq!(
            short.sizes(),
            BTreeMap::from([(64, 7), (512, 4), (1518, 1)])
        );
        let all: Vec<u32> = genome("abcdefghij").frames().collect();
        assert_eq!(
            all,
            [64, 128, 256, 512, 1024, 1280, 1518, 2112, 9000, 16_000]
        );
    }

    #[test]
    fn groups_and_tables() {
        for (text, letters, printed) in [
            ("2(ab)c", "ababc", "2(ab)c"),
            ("(ab)(ab)", "abab", "abab"),
            ("2(ab)3(ab)", "ababababab", "5(ab)"),
            ("2(3(a))a", "aaaaaaa", "7a"),
            ("2(a2(bc))", "abcbcabcbc", "2(a2(bc))"),
            ("1(ab)b", "abb", "a2b"),
            ("007a 2 b", "aaaaaaabb", "7a2b"),
            ("2Az z=1500 A=84", "AAz", "2Az A=84 z=1500"),
            ("a B=70", "a", "a B=70"),
        ] {
            let genome = genome(text);
            assert_eq!(genome.letters().unwrap(), letters, "{text}");
            assert_eq!(genome.to_string(), printed, "{text}");
        }
        let custom: Vec<u32> = genome("AzB A=84 B=66 z=1522").frames().collect();
        assert_eq!(custom, [84, 1522, 66]);
    }

    #[test]
    fn errors_have_position_and_reason() {
        for (text, position, cause) in [
            ("", 1, "no frames"),
            ("7k", 2, "`k`"),
            ("a\u{7}", 2, "`\\u{7}`"),
            ("äb", 1, "`ä`"),
            ("b ä", 3, "`ä`"),
            ("7", 1, "without a letter"),
            ("2(a3)", 4, "without a letter"),
            ("0a", 1, "run length of 0"),
            ("a(b", 2, "never closed"),
            ("ab)", 3, "closes nothing"),
            ("3()", 2, "empty group"),
            ("4A", 2, "A=594"),
            ("az", 2, "MTU"),
            ("A A=0", 3, "1 to 65535"),
            ("A A=", 3, "1 to 65535"),
            ("A A=65536", 5, "above 65535"),
            ("A A=84B", 7, "space"),
            ("A A=84 A=90", 8, "twice"),
            ("2A=84", 2, "follows the sequence"),
            ("(A=84)", 2, "follows the sequence"),
            ("a=64", 2, "`=`"),
            ("A=84", 1, "no frames"),
            ("1000000001a", 1, "above 1000000000"),
            ("99999999999999999999999999a", 1, "above 1000000000"),
            ("500000000a500000001b", 1, "more than 10^9"),
        ] {
            let error = text.parse::<Genome>().unwrap_err();
            assert_eq!(error.position, position, "{text}: {error}");
            assert!(error.reason.contains(cause), "{text}: {error}");
        }
    }

    /// A few letters must not cost much memory, time or stack.
    #[test]
    fn hostile_texts_are_refused_or_cheap() {
        let bomb = format!("{}a{}", "1000000000(".repeat(16), ")".repeat(16));
        assert!(bomb.parse::<Genome>().unwrap_err().reason.contains("10^9"));
        let bomb = format!("{}ab{}", "1000000000(".repeat(16), ")".repeat(16));
        assert!(bomb.parse::<Genome>().unwrap_err().reason.contains("10^9"));
        let deep = "(".repeat(60_000);
        assert_eq!(deep.parse::<Genome>().unwrap_err().position, 17);
        let long = "ab".repeat(40_000);
        assert!(long.parse::<Genome>().unwrap_err().reason.contains("65536"));
        let large = genome("500000000(ab)");
        assert_eq!(large.frame_count(), 1_000_000_000);
        assert_eq!(large.letters(), None);
        assert_eq!(large.frames().nth(99_999), Some(128));
        let wide = genome(&format!("{}b", "(ab)2(ab)".repeat(7_000)));
        assert_eq!(wide.frame_count(), 42_001);
    }

    #[test]
    fn runs_of_sizes() {
        let genome = Genome::from_runs([(64, 7), (594, 4), (1518, 1), (594, 2), (80, 0)]).unwrap();
        assert_eq!(genome.to_string(), "7a4Ag2A A=594 B=80");
        assert!(Genome::from_runs([]).is_err());
        assert!(Genome::from_runs([(0, 1)]).is_err());
        assert!(Genome::from_runs([(64, u64::MAX), (128, u64::MAX)]).is_err());
        let error = Genome::from_runs((110..140).map(|size| (size, 1))).unwrap_err();
        // 110 to 136 need 26 letters, because 128 has one
        assert_eq!(error.position, 28);
    }

    /// A text with repetitions, and its expansion by repeating text.
    fn sequences() -> impl Strategy<Value = (String, String)> {
        let letter = proptest::sample::select("abcdefghijzABZ".chars().collect::<Vec<_>>());
        let leaf = letter.prop_map(|c| (c.to_string(), c.to_string()));
        leaf.prop_recursive(4, 24, 4, |inner| {
            proptest::collection::vec((0usize..4, inner), 1..4).prop_map(|items| {
                let mut text = String::new();
                let mut meant = String::new();
                for (times, (inner, frames)) in items {
                    match times {
                        0 => text += &inner,
                        _ if inner.len() == 1 => text += &format!("{times}{inner}"),
                        _ => text += &format!("{times}({inner})"),
                    }
                    meant += &frames.repeat(times.max(1));
                }
                (text, meant)
            })
        })
    }

    proptest! {
        #[test]
        fn parsed_genomes_equal_the_intended_ones((text, meant) in sequences()) {
            let genome = genome(&format!("{text} A=84 B=66 Z=9018 z=1500"));
            prop_assert_eq!(genome.letters().unwrap(), meant.as_str());
            prop_assert_eq!(genome.frame_count(), meant.len() as u64);
            let bytes: u64 = genome.frames().map(u64::from).sum();
            let by_size: u64 = genome.sizes().iter().map(|(size, n)| u64::from(*size) * n).sum();
            prop_assert_eq!(bytes, by_size);
        }

        #[test]
        fn printed_genomes_can_be_parsed((text, meant) in sequences()) {
            let table = "A=84 B=66 Z=9018 z=1500";
            let first = genome(&format!("{text} {table}"));
            prop_assert_eq!(&genome(&first.to_string()), &first);
            let spelt_out = genome(&format!("{meant} {table}"));
            prop_assert_eq!(&genome(&spelt_out.to_string()), &spelt_out);
            prop_assert_eq!(spelt_out.letters().unwrap(), meant);
        }

        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = text.parse::<Genome>();
        }

        #[test]
        fn no_text_of_its_own_characters_panics(text in "[0-9a-kzA-C()= ]{0,60}") {
            if let Ok(genome) = text.parse::<Genome>() {
                prop_assert!((1..=MOST_FRAMES).contains(&genome.frame_count()));
                prop_assert_eq!(genome.to_string().parse::<Genome>().unwrap(), genome);
            }
        }
    }
}
