//! Published ministat output, and the differences between versions of ministat.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the failure")]

use fwdlab_stats::ministat::{Arguments, Model, Options, Output, PlotStyle, Report, run};
use proptest::prelude::*;
use std::io;

fn ministat(model: Model, arguments: &[&str], files: &[(&str, &str)]) -> Output {
    let names = files.iter().map(|(name, _)| *name);
    let line: Vec<&str> = arguments.iter().copied().chain(names).collect();
    match Arguments::parse(&line, model, 74) {
        Ok(arguments) => run(&arguments, |name| {
            let found = files.iter().find(|(known, _)| known.as_bytes() == name);
            let (_, text) = found.ok_or(io::Error::from_raw_os_error(2))?;
            Ok(io::Cursor::new(text.replace(' ', "\n")))
        }),
        Err(output) => output,
    }
}

fn stdout(model: Model, arguments: &[&str], files: &[(&str, &str)]) -> String {
    let output = ministat(model, arguments, files);
    assert_eq!(
        (output.exit_code, output.stderr.as_slice()),
        (0, b"".as_slice())
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The netbenches archive, Xeon E5-2650 with Chelsio T540-CR, machdep.hyperthreading_allowed,
/// FreeBSD 11.1: the README's block from its .pps files.
#[test]
fn hyperthreading_block_of_the_archive() {
    let files = [
        (
            "HT-enabled and 8 queues(default)",
            "4648451 4735822 4724896 4632222 4500078",
        ),
        (
            "HT-enabled increased to 16 queues (using all thread)",
            "4925106 5070589.5 5104512 5198632 5142971",
        ),
        (
            "HT-disabled and 8 queues",
            "5801231.5 5783115 5765684 5780396 5794597",
        ),
    ];
    let published = "\
x HT-enabled and 8 queues(default)
+ HT-enabled increased to 16 queues (using all thread)
* HT-disabled and 8 queues
+--------------------------------------------------------------------------+
|                                                                        **|
|x      xx    x          +       + + +  +                               ***|
|   |____A_____|                                                           |
|                           |_____AM____|                                  |
|                                                                       |A||
+--------------------------------------------------------------------------+
    N           Min           Max        Median           Avg        Stddev
x   5       4500078       4735822       4648451     4648293.8     94545.404
+   5       4925106       5198632       5104512     5088362.1     102920.87
Difference at 95.0% confidence
\t440068 +/- 144126
\t9.46731% +/- 3.23827%
\t(Student's t, pooled s = 98821.9)
*   5       5765684     5801231.5       5783115     5785004.7     13724.265
Difference at 95.0% confidence
\t1.13671e+06 +/- 98524.2
\t24.4544% +/- 2.62824%
\t(Student's t, pooled s = 67554.4)
";
    for model in [Model::Freebsd2016, Model::Freebsd] {
        assert_eq!(stdout(model, &["-s"], &files), published);
    }
    // docs/methodology.md, "ministat": the output of the older formula.
    let older = published
        .replace("3.23827%", "3.10062%")
        .replace("2.62824%", "2.11958%");
    for model in [Model::Debian, Model::Freebsd2015] {
        assert_eq!(stdout(model, &["-s"], &files), older);
    }
}

const IGUANA: (&str, &str) = ("iguana", "50 200 150 400 750 400 150");
const CHAMELEON: (&str, &str) = ("chameleon", "150 400 720 500 930");

/// The manual page's example at 80 %.
#[test]
fn manual_page() {
    let table = "    N           Min           Max        Median           Avg        Stddev
x   7            50           750           200           300     238.04761
+   5           150           930           500           540     299.08193
Difference at 80.0% confidence
\t240 +/- 212.215
\t80% +/- 70.7384%
\t(Student's t, pooled s = 264.159)
";
    let printed = stdout(Model::Debian, &["-A", "-c", "80"], &[IGUANA, CHAMELEON]);
    assert_eq!(printed, format!("x iguana\n+ chameleon\n{table}"));
    let not = stdout(Model::Freebsd, &["-Aq"], &[IGUANA, CHAMELEON]);
    assert!(not.ends_with("299.08193\nNo difference proven at 95.0% confidence\n"));
    assert!(!not.contains("iguana") && !not.contains("Median"));
}

#[test]
fn generations_differ_in_the_median_of_an_even_count() {
    let median = |model| {
        let options = Arguments::parse(&["-n"], model, 74).unwrap().options;
        Report::new(vec![(Vec::new(), vec![4.0, 1.0, 2.0, 3.0])], &options)
            .unwrap()
            .sets[0]
            .median
    };
    assert_eq!(median(Model::Debian), 3.0);
    for model in [Model::Freebsd2015, Model::Freebsd2016, Model::Freebsd] {
        assert_eq!(median(model), 2.5, "{}", model.name());
    }
}

/// Three times 100000000.1 has a deviation of 1.4142136 if computed in one pass.
#[test]
fn generations_differ_in_the_deviation_of_large_values() {
    let same = [("f", "100000000.1 100000000.1 100000000.1")];
    let line = |model| {
        stdout(model, &["-n"], &same)
            .lines()
            .last()
            .unwrap()
            .to_owned()
    };
    for model in [Model::Debian, Model::Freebsd2015, Model::Freebsd2016] {
        assert!(line(model).ends_with("     1.4142136"), "{}", line(model));
    }
    // Two passes are not exact either: the mean is a rounded sum.
    assert!(
        line(Model::Freebsd).ends_with(" 1.8250121e-08"),
        "{}",
        line(Model::Freebsd)
    );
}

#[test]
fn generations_differ_in_messages() {
    let fail = |model| {
        let output = run(
            &Arguments::parse(&["bad", "nofile"], model, 74).unwrap(),
            |name| match name {
                b"bad" => Ok(&b"x\n"[..]),
                _ => Err(io::Error::from_raw_os_error(2)),
            },
        );
        (String::from_utf8(output.stderr).unwrap(), output.exit_code)
    };
    // Older programs read each file before they open the next.
    assert_eq!(
        fail(Model::Debian),
        ("ministat: Invalid data on line 1 in bad\n".to_owned(), 2)
    );
    let cannot = "ministat: Cannot open nofile: No such file or directory\n";
    assert_eq!(fail(Model::Freebsd), (cannot.to_owned(), 2));

    let nan = [("f", "nan nan nan")];
    assert!(stdout(Model::Debian, &["-n"], &[("f", "1 inf 2")]).ends_with("-nan\n"));
    assert!(stdout(Model::Freebsd, &["-n"], &nan).ends_with("  nan\n"));

    let named = |model, line: &[&str]| {
        let output = run(&Arguments::parse(line, model, 74).unwrap(), |name| {
            assert_eq!(name, b"-");
            Ok(&b"1\n2\n3\n"[..])
        });
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(named(Model::Debian, &["-"]), "x <stdin>");
    assert_eq!(named(Model::Freebsd, &[]), "x <stdin>");
    assert_eq!(named(Model::Freebsd, &["-"]), "x -");
}

#[test]
fn input_that_crashes_the_original_is_refused() {
    let refusal = |arguments: &[&str], files: &[(&str, &str)]| {
        let output = ministat(Model::Freebsd, arguments, files);
        assert_eq!(
            (output.exit_code, output.stdout.as_slice()),
            (2, b"".as_slice())
        );
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(
        refusal(&["-w", "1"], &[IGUANA]).starts_with("ministat: cannot plot in so few columns")
    );
    assert!(
        refusal(&[], &[("f", "1 2 inf")])
            .starts_with("ministat: cannot plot values that are not finite")
    );
    assert!(
        refusal(&["-w", "2000000000"], &[IGUANA])
            .starts_with("ministat: cannot plot that many cells")
    );
    assert!(stdout(Model::Freebsd, &["-A", "-w1"], &[("f", "1 2 inf")]).contains("inf"));
    let zero = stdout(Model::Freebsd, &[], &[("f", "7 7 7")]);
    assert!(zero.contains("[no plot, span is zero width]"));
}

proptest! {
    /// Hostile files and any options: an answer or a refusal, never a panic.
    #[test]
    fn bytes_never_panic(
        files in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..9),
        numbers in prop::collection::vec(any::<f64>(), 3..9),
        (column, width) in (0..3_usize, 0..300_usize),
    ) {
        let mut contents = files;
        contents.push(numbers.iter().map(|v| format!("{v:e}\n")).collect::<String>().into_bytes());
        let names: Vec<Vec<u8>> = (0..contents.len()).map(|i| vec![i as u8]).collect();
        for model in [Model::Debian, Model::Freebsd2015, Model::Freebsd2016, Model::Freebsd] {
            for plot in [PlotStyle::None, PlotStyle::SharedBar, PlotStyle::SeparateBars] {
                let options = Options { model, plot, column, width, ..Options::default() };
                for files in [&names[..], &names[names.len() - 1..]] {
                    let arguments = Arguments { options: options.clone(), files: files.to_vec() };
                    let output = run(&arguments, |name| Ok(&contents[usize::from(name[0])][..]));
                    prop_assert_eq!(output.exit_code == 0, output.stderr.is_empty());
                    prop_assert_eq!(output.exit_code == 0, !output.stdout.is_empty());
                }
            }
        }
    }
}
