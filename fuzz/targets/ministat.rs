//! Fuzz target: the whole of ministat, from arguments and data files to its output.
//!
//! The input is a line `MODEL TAB ARGUMENT TAB ...` and after it the data files, separated by form
//! feeds; whatever is opened gets the next of them. Start at [`ministat`].

use fwdlab_stats::ministat::{Arguments, Model, Output, run};
use std::io::{Cursor, Error};

/// Widest plot that is tried: what is asked for with `-w` is used, and is no finding.
const WIDEST: usize = 10_000;

/// Panics if ministat panics, or if it neither answers nor refuses.
pub fn ministat(data: &[u8]) {
    let end = data.iter().position(|b| *b == b'\n').unwrap_or(data.len());
    let (line, files) = data.split_at(end);
    let mut words = line.split(|b| *b == b'\t');
    let model = words
        .next()
        .and_then(|name| Model::from_name(std::str::from_utf8(name).ok()?));
    let words: Vec<&[u8]> = words.collect();
    let output = match Arguments::parse(&words, model.unwrap_or_default(), 74) {
        Ok(arguments) if arguments.options.width > WIDEST => return,
        Ok(arguments) => {
            let mut files = files.get(1..).unwrap_or_default().split(|b| *b == b'\x0c');
            run(&arguments, |name| match name {
                b"missing" => Err(Error::from_raw_os_error(2)),
                _ => Ok(Cursor::new(files.next().unwrap_or_default())),
            })
        }
        Err(refusal) => refusal,
    };
    let Output {
        stdout,
        stderr,
        exit_code,
    } = output;
    match exit_code {
        0 => assert!(!stdout.is_empty() && stderr.is_empty()),
        1 | 2 => assert!(stdout.is_empty() && stderr.ends_with(b"\n")),
        code => panic!("exit code {code}"),
    }
}
