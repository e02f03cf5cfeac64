//! Generated command lines and data files for ministat, and the results of Debian's own program.
//!
//! Start with [`case`] and [`Tally::judge`].

#![expect(clippy::unwrap_used, reason = "in a test a panic is the failure")]

use fwdlab_stats::ministat::{Output, Set};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Debian's ministat.
pub const PROGRAM: &str = "/usr/bin/ministat";

/// xorshift64*: yields the same cases on every machine.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.roll() >> 16) % bound
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }
    fn uniform(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1_u64 << 53) as f64
    }
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// The distribution of the values in a set.
#[derive(Clone, Copy)]
enum Shape {
    Rates,
    SmallIntegers,
    Identical,
    NearlyIdentical,
    AnyMagnitude,
    AroundZero,
    Exact,
    Exotic,
}

const SHAPES: [Shape; 8] = [
    Shape::Rates,
    Shape::SmallIntegers,
    Shape::Identical,
    Shape::NearlyIdentical,
    Shape::AnyMagnitude,
    Shape::AroundZero,
    Shape::Exact,
    Shape::Exotic,
];

fn value(shape: Shape, centre: f64, dice: &mut Dice) -> String {
    match shape {
        Shape::Rates => format!("{}", (centre * (1.0 + 0.02 * dice.normal())).round()),
        Shape::SmallIntegers => format!("{}", dice.below(12)),
        Shape::Identical => format!("{centre}"),
        Shape::NearlyIdentical => {
            format!("{}", centre + dice.below(3) as f64 * centre * f64::EPSILON)
        }
        Shape::AnyMagnitude => {
            let exponent = dice.below(600) as i32 - 300;
            format!("{:e}", dice.normal() * 10_f64.powi(exponent))
        }
        Shape::AroundZero => format!("{:.3}", dice.normal()),
        // Ties in the last printed digit.
        Shape::Exact => format!("{}", (dice.below(1 << 30) as f64 - 5e8) / 64.0),
        Shape::Exotic => dice
            .pick(&[
                "nan", "-nan", "inf", "-inf", "0x1.8p3", "-0", "0", "1e400", "5e-324", "1e308",
                "7", "-3.5",
            ])
            .to_owned(),
    }
}

fn count(dice: &mut Dice) -> u64 {
    match dice.below(40) {
        0 => dice.below(4),
        1..=20 => 3 + dice.below(8),
        21..=25 => 45 + dice.below(15),
        _ => 3 + dice.below(198),
    }
}

fn content(shape: Shape, centre: f64, delimiter: &str, column: usize, dice: &mut Dice) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..count(dice) {
        if dice.one_in(60) {
            text += dice.pick(&["\n", "# comment\n", " \n", "\r\n", "#\n", "7\t\r\n"]);
        }
        for other in 1..column {
            text += if dice.one_in(30) {
                ""
            } else {
                &"abc"[..other.min(3)]
            };
            text += delimiter;
        }
        text += &value(shape, centre, dice);
        if dice.one_in(20) {
            text += delimiter;
            text += dice.pick(&["9", "", "#", "rest"]);
        }
        text += if dice.one_in(25) {
            dice.pick(&["\r\n", " \n", "\t\n"])
        } else {
            "\n"
        };
    }
    if dice.one_in(10) {
        text.pop();
    }
    if dice.one_in(50) {
        text += dice.pick(&["x", "1x", "4#", "--1", "1e", "nan(", "0x"]);
        text += "\n";
    }
    let mut bytes = text.into_bytes();
    if dice.one_in(100) {
        let at = dice.below(bytes.len() as u64 + 1) as usize;
        let filler = [b' ', b'0', 0, 0xff][dice.below(4) as usize];
        let times = if dice.one_in(2) {
            1
        } else {
            8180 + dice.below(30) as usize
        };
        bytes.splice(at..at, std::iter::repeat_n(filler, times));
    }
    bytes
}

/// The input of one run, besides the files in its directory.
pub struct Case {
    pub arguments: Vec<Vec<u8>>,
    pub stdin: Vec<u8>,
}

/// Creates a command line, and writes its files to `directory`.
pub fn case(directory: &Path, dice: &mut Dice) -> Case {
    let mut arguments: Vec<String> = Vec::new();
    let mut option = |flag: &str, value: &str, dice: &mut Dice| {
        if dice.one_in(2) && !value.is_empty() {
            arguments.push(format!("{flag}{value}"));
        } else {
            arguments.extend([flag.to_owned(), value.to_owned()]);
        }
    };
    if dice.one_in(2) {
        let width = match dice.below(10) {
            0 => dice
                .pick(&["0", "1", "2", "-1", "abc", "", " 7", "7 ", "4294967300"])
                .to_owned(),
            _ => format!("{}", 2 + dice.below(150)),
        };
        option("-w", &width, dice);
    }
    if dice.one_in(3) {
        let level = match dice.below(8) {
            0 => dice.pick(&["97", "x", "", "nan", "-95", "95%"]),
            _ => dice.pick(&[
                "80", "90", "95", "98", "99", "99.5", "95.0", "8e1", "0x5a", " 99",
            ]),
        };
        option("-c", level, dice);
    }
    let column = if dice.one_in(3) {
        1 + dice.below(3) as usize
    } else {
        1
    };
    if column > 1 || dice.one_in(8) {
        let text = match dice.below(20) {
            0 => dice
                .pick(&["0", "-1", "x", "", "4294967297", "2147483648"])
                .to_owned(),
            _ => column.to_string(),
        };
        option("-C", &text, dice);
    }
    let delimiters = if dice.one_in(4) {
        dice.pick(&[",", ";:", " ,", "|", ""])
    } else {
        " \t"
    };
    if delimiters != " \t" {
        option("-d", delimiters, dice);
    }
    for flag in ["-A", "-n", "-s", "-ns", "-As", "-q", "-x", "--", "-C"] {
        let often = if flag == "-s" {
            3
        } else if flag.len() == 2 && "Ans".contains(&flag[1..]) {
            8
        } else {
            150
        };
        if dice.one_in(often) {
            arguments.push(flag.to_owned());
        }
    }
    let shape = SHAPES[dice.below(8) as usize];
    let centre = [1e6, 4_648_293.0, 0.1, 100_000_000.1, -250.0, 3e-7][dice.below(6) as usize];
    let delimiter = delimiters.get(..1).unwrap_or(" ");
    let sets = if dice.one_in(100) { 8 } else { dice.below(8) };
    let mut arguments: Vec<Vec<u8>> = arguments.into_iter().map(String::into_bytes).collect();
    for set in 0..sets {
        let name = match dice.below(200) {
            0 => format!("missing{set}"),
            1 => "-".to_owned(),
            2 => ".".to_owned(),
            3 => format!("a b\n{set}"),
            _ => format!("set{set}"),
        };
        let path = directory.join(&name);
        if name.starts_with('s') || name.starts_with('a') {
            let centre = centre * (1.0 + 0.01 * dice.below(5) as f64);
            let shape = if dice.one_in(10) {
                Shape::SmallIntegers
            } else {
                shape
            };
            std::fs::write(&path, content(shape, centre, delimiter, column, dice)).unwrap();
        }
        let place = if dice.one_in(40) { 0 } else { arguments.len() };
        arguments.insert(place, name.into_bytes());
    }
    Case {
        arguments,
        stdin: content(shape, centre, delimiter, column, dice),
    }
}

/// Returns true if the original writes outside its canvas: without a deviation that widens the span
/// (one-pass variance below zero) the rounded mean may be outside of all values. What it overwrites
/// then depends on the allocator; we draw nothing there.
pub fn is_undefined(sets: &[Set]) -> bool {
    let low = sets
        .iter()
        .map(|s| s.min.min(s.mean - s.stdev))
        .fold(f64::INFINITY, f64::min);
    let high = sets
        .iter()
        .map(|s| s.max.max(s.mean + s.stdev))
        .fold(f64::NEG_INFINITY, f64::max);
    sets.iter()
        .any(|s| s.stdev.is_nan() && s.mean.is_finite() && !(low..=high).contains(&s.mean))
}

/// Returns a program's output; `None` if a signal ended it.
pub fn outcome(mut command: Command, case: &Case, directory: &Path) -> Option<Output> {
    let stdin = directory.join("stdin");
    std::fs::write(&stdin, &case.stdin).unwrap();
    let output = command
        .args(case.arguments.iter().map(|a| OsStr::from_bytes(a)))
        .env_clear()
        .current_dir(directory)
        .stdin(Stdio::from(std::fs::File::open(stdin).unwrap()))
        .output()
        .unwrap();
    Some(Output {
        stdout: output.stdout,
        stderr: output.stderr,
        exit_code: output.status.code()? as u8,
    })
}

/// Returns the output of Debian's program; `None` if it crashes.
pub fn reference_output(case: &Case, directory: &Path) -> Option<Output> {
    let mut command = Command::new(PROGRAM);
    // getopt prints the name by which the program was called.
    command.arg0("ministat");
    outcome(command, case, directory)
}

/// The number of cases with each result.
#[derive(Debug, Default)]
pub struct Tally {
    pub reports: u64,
    pub refusals: u64,
    pub crashes: u64,
    pub undefined: u64,
}

impl Tally {
    /// Panics unless our output equals theirs, or is a clear refusal where theirs crashes. `sets`:
    /// the numbers behind our output, if any.
    pub fn judge(
        &mut self,
        what: &str,
        ours: &Output,
        theirs: Option<&Output>,
        sets: impl FnOnce() -> Vec<Set>,
    ) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match theirs {
            Some(theirs) if ours == theirs && ours.exit_code == 0 => self.reports += 1,
            Some(theirs) if ours == theirs => self.refusals += 1,
            Some(theirs) => {
                let undefined = ours.exit_code == 0 && is_undefined(&sets());
                assert!(
                    undefined,
                    "{what}\n--- theirs ({})\n{}{}--- ours ({})\n{}{}",
                    theirs.exit_code,
                    text(&theirs.stdout),
                    text(&theirs.stderr),
                    ours.exit_code,
                    text(&ours.stdout),
                    text(&ours.stderr),
                );
                self.undefined += 1;
            }
            None => {
                let refused =
                    ours.exit_code == 2 && ours.stderr.starts_with(b"ministat: cannot plot");
                assert!(
                    refused,
                    "{what} crashes; ours says {}: {}{}",
                    ours.exit_code,
                    text(&ours.stderr),
                    text(&ours.stdout),
                );
                self.crashes += 1;
            }
        }
    }

    /// Returns true if the cases are representative: all results occur, and only a few cannot be
    /// compared.
    pub fn is_representative(&self) -> bool {
        let all = self.reports + self.refusals + self.crashes + self.undefined;
        self.reports > all / 2
            && self.refusals > all / 20
            && self.crashes > 0
            && self.undefined <= all / 500 + 1
    }
}

/// Returns the command line as a user would type it.
pub fn line(case: &Case) -> String {
    let words = case.arguments.iter().map(|a| String::from_utf8_lossy(a));
    words.collect::<Vec<_>>().join(" ")
}

/// Removes the files of a case.
pub fn clear(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
}
