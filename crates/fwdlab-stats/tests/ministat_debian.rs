//! Byte equality with Debian's ministat(1) over thousands of generated command lines and files.
//!
//! Standard output, standard error and exit code must all agree; where the original crashes, ours
//! must refuse. Without the program, the test prints what it skipped and why.

use crate::generated::{Case, Dice, PROGRAM, Tally, case, clear, line, reference_output};
use fwdlab_stats::ministat::{Arguments, Model, Report, report, run};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const CASES: u64 = 2500;

/// Opens the files of a case as the program would.
fn open<'a>(
    case: &'a Case,
    directory: &'a Path,
) -> impl FnMut(&[u8]) -> io::Result<Box<dyn Read + 'a>> {
    let mut stdin = case.stdin.as_slice();
    move |name| match name {
        b"-" => Ok(Box::new(std::mem::take(&mut stdin))),
        name => Ok(Box::new(File::open(
            directory.join(OsStr::from_bytes(name)),
        )?)),
    }
}

#[test]
fn same_bytes_as_debian() {
    if !Path::new(PROGRAM).exists() {
        println!(
            "SKIPPED: same_bytes_as_debian: {CASES} cases, ministat is not installed; apt-get install ministat"
        );
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut tally = Tally::default();
    for seed in 1..=CASES {
        let case = case(directory, &mut Dice::new(seed));
        let parsed = Arguments::parse(&case.arguments, Model::Debian, 74);
        let ours = match &parsed {
            Ok(arguments) => run(arguments, open(&case, directory)),
            Err(refusal) => refusal.clone(),
        };
        let what = format!("case {seed}: ministat {}", line(&case));
        tally.judge(
            &what,
            &ours,
            reference_output(&case, directory).as_ref(),
            || {
                let report: Report =
                    report(parsed.as_ref().unwrap(), open(&case, directory)).unwrap();
                report.sets
            },
        );
        clear(directory);
    }
    println!("{CASES} cases: {tally:?}");
    assert!(tally.is_representative(), "{tally:?}");
}
