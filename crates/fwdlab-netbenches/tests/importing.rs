//! Tests import and audit of archives: the sample of the public one, and hostile directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fwdlab_netbenches::{self as netbenches, Audit, Imported, Options, SetResult};

/// Prints a line that the test runner counts.
fn skipped(test: &str, reason: &str) {
    use std::io::Write;
    // failing to write the message must not fail the test
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
}

/// Returns the sample of the archive, if it is available.
fn sample(test: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/netbenches");
    let path = std::env::var_os("FWDLAB_NETBENCHES").map_or(beside, PathBuf::from);
    if !path.is_dir() {
        skipped(
            test,
            "the sample of the netbenches archive is not here (FWDLAB_NETBENCHES)",
        );
        return None;
    }
    Some(path)
}

fn audit(root: &Path) -> Audit {
    netbenches::audit(root, &[], &AtomicBool::new(false), &mut |_| {}).unwrap()
}

fn import(archive: &Path, runs: &Path, choices: &[&str], again: bool) -> Imported {
    let choices: Vec<String> = choices.iter().map(|c| (*c).to_owned()).collect();
    netbenches::import(
        &Options {
            archive,
            runs,
            choices: &choices,
            again,
            tool_version: "0",
            command_line: &[],
            entropy: 1,
        },
        &AtomicBool::new(false),
        &|_, _| "<html>".to_owned(),
        &mut |_| {},
    )
    .unwrap()
}

#[test]
fn every_block_of_the_sample_follows_from_its_logs() {
    let Some(root) = sample("every_block_of_the_sample_follows_from_its_logs") else {
        return;
    };
    let audit = audit(&root);
    assert_eq!(audit.blocks.len(), 9, "{:#?}", audit.blocks);
    for block in &audit.blocks {
        assert!(block.is_exact(), "{block:#?}");
        assert!(!block.models.is_empty(), "{block:#?}");
        assert!(!block.sources.is_empty());
    }
    // Two blocks use a baseline from a directory that is not in the sample; everything else is
    // exact.
    let as_printed = audit.blocks.iter().flat_map(|b| &b.sets);
    let as_printed = as_printed.filter(|set| set.as_printed).count();
    assert_eq!(as_printed, 2);
    assert_eq!(audit.files.len(), 21);
    for file in &audit.files {
        assert_eq!(file.status, "exact", "{file:#?}");
    }
    assert_eq!(audit.problems, Vec::<String>::new());
}

#[test]
fn the_sample_becomes_one_run_per_set() {
    let Some(root) = sample("the_sample_becomes_one_run_per_set") else {
        return;
    };
    let runs = tempfile::tempdir().unwrap();
    let imported = import(&root, runs.path(), &[], false);
    assert_eq!(imported.problems, Vec::<String>::new());
    assert_eq!(imported.sets.len(), 8);
    assert_eq!(imported.tally.unknown, 0);
    let mut exact = 0;
    for set in &imported.sets {
        let SetResult::Imported(id) = &set.result else {
            panic!("{set:?}")
        };
        let run = fwdlab_store::load(&runs.path().join(id)).unwrap();
        assert_eq!(run.problems, Vec::<String>::new());
        assert_eq!(run.imported.len(), set.runs);
        // Derived files equal those that the archive published, if it has them next to the logs
        // under the same name.
        let home = root.join(set.path.trim_end_matches("/RAW"));
        for case in &run.summary.unwrap().imported {
            let name = format!("{}.pps", case.test_case);
            let derived = fs::read_to_string(run.path.join(&name)).unwrap();
            if let Ok(published) = fs::read_to_string(home.join(&name)) {
                assert_eq!(derived, published, "{name}");
                exact += 1;
            }
            assert_eq!(case.ours.iterations_pps.len(), 5, "{case:?}");
            assert!(
                case.rule_difference_percent.unwrap().abs() < 1.5,
                "{case:?}"
            );
            assert!(
                case.frame_size_bytes.is_some() && case.flows == Some(2000),
                "{case:?}"
            );
        }
    }
    assert_eq!(exact, 18);
    let bridge = run_of(&imported, "bridge");
    let run = fwdlab_store::load(&runs.path().join(bridge)).unwrap();
    for kept in [
        "bench.bridge.info",
        "README.md",
        "configs/bridge/etc/rc.conf",
        "configs/no-bridge/boot/loader.conf.local",
        "published/bridge.pps",
        "published/gnuplot.data",
    ] {
        assert!(run.path.join("inputs").join(kept).is_file(), "{kept}");
    }
    let gnuplot = fs::read_to_string(run.path.join("gnuplot.data")).unwrap();
    let published = fs::read_to_string(run.path.join("inputs/published/gnuplot.data")).unwrap();
    assert_eq!(gnuplot, published);
    let record = &run.imported[0];
    assert_eq!(record.labels["configuration"], "bridge");
    assert_eq!(record.frames_sent, Some(1_000_000_000));
    assert_eq!(record.frames_received, None);

    // Importing again adds nothing; with --again it adds one run for each.
    let count = || fs::read_dir(runs.path()).unwrap().count();
    let again = import(&root, runs.path(), &[], false);
    assert!(
        again
            .sets
            .iter()
            .all(|set| matches!(set.result, SetResult::Already(_))),
        "{again:?}"
    );
    // A subdirectory of the archive yields the same set.
    let part = import(
        &root.join("Xeon_E5-2650_8Cores"),
        runs.path(),
        &["**/bridge"],
        false,
    );
    assert!(
        matches!(&part.sets[..], [one] if one.result == SetResult::Already(bridge.to_owned())),
        "{part:?}"
    );
    assert_eq!(count(), 8);
    let replaced = import(&root, runs.path(), &[], true);
    assert!(
        replaced
            .sets
            .iter()
            .all(|set| matches!(set.result, SetResult::Replaced(..)))
    );
    assert_eq!(count(), 8);
}

fn run_of<'a>(imported: &'a Imported, words: &str) -> &'a str {
    let set = imported
        .sets
        .iter()
        .find(|set| set.path.contains(&format!("/{words}/")));
    match &set.unwrap().result {
        SetResult::Imported(id) => id,
        other => panic!("{other:?}"),
    }
}

/// A log of `seconds` seconds of `pps` frames per second.
fn log(pps: u64, seconds: u64) -> String {
    let head =
        "CMD: pkt-gen -N -f rx -i vcxl1 -w 4\n".to_owned() + &"001.000000 main [1] x\n".repeat(8);
    let sample = |n: u64| {
        let pps = pps + n % 3;
        format!(
            "{:03}.000000 main_thread [2277] {pps} pps ({pps} pkts 1 bps in 1000000 usec) 1.0 avg_batch 0 min_space\n",
            10 + n
        )
    };
    head + &(0..seconds).map(sample).collect::<String>() + "Terminated\n"
}

/// An archive with one set of five runs.
fn archive() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let set = root.path().join("cpu/nic/topic/results/os");
    fs::create_dir_all(&set).unwrap();
    for run in 1..=5 {
        fs::write(
            set.join(format!("bench.fw.{run}.receiver")),
            log(1000 * run, 60),
        )
        .unwrap();
    }
    fs::write(
        set.join("bench.fw.info"),
        "IMAGE=\"\"\nCFG=\"fw\"\nPKTGEN=\"\"\n",
    )
    .unwrap();
    root
}

#[test]
fn hostile_archives_are_imported_as_far_as_they_go() {
    let root = archive();
    let set = root.path().join("cpu/nic/topic/results/os");
    let write = |name: &str, bytes: &[u8]| fs::write(set.join(name), bytes).unwrap();
    write("bench.empty.1.receiver", b"");
    write(
        "bench.binary.1.receiver",
        &[0, 255, 10, 128, 7].repeat(20_000),
    );
    write("bench.one line.1.receiver", &vec![b'x'; 3 << 20]);
    write("bench.a b\n.c.d.1.receiver", log(77, 60).as_bytes());
    write("bench.cut.1.receiver", &log(5000, 60).as_bytes()[..3000]);
    write(
        "bench.ouch.1.receiver",
        b"001.000000 main_thread [1502] ouch, thread 0 exited with error\n",
    );
    write("bench.fw.1.sender", &[]);
    let unreadable = set.join("bench.locked.1.receiver");
    fs::create_dir_all(set.join("bench.dir.1.receiver")).unwrap();
    std::os::unix::fs::symlink("..", set.join("up")).unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", &unreadable).unwrap();

    let runs = tempfile::tempdir().unwrap();
    let imported = import(root.path(), runs.path(), &[], false);
    let [set] = &imported.sets[..] else {
        panic!("{imported:?}")
    };
    let SetResult::Imported(id) = &set.result else {
        panic!("{set:?}")
    };
    let run = fwdlab_store::load(&runs.path().join(id)).unwrap();
    let of = |case: &str| {
        let mut found = run
            .imported
            .iter()
            .filter(|record| record.test_case == case);
        found.next().unwrap_or_else(|| panic!("{case}"))
    };
    for (case, words) in [
        ("empty", "no samples"),
        ("binary", "no samples"),
        ("one line", "no samples"),
        ("ouch", "exited with error"),
        ("locked", "cannot read"),
    ] {
        let record = of(case);
        assert_eq!(record.forwarding_rate_pps, None, "{case}");
        assert!(
            record.validity.reasons.join(" ").contains(words),
            "{record:?}"
        );
    }
    assert!(
        of("binary").warnings[0].contains("lines not understood"),
        "{:?}",
        of("binary")
    );
    assert_eq!(of("a b\n.c.d").forwarding_rate_legacy_pps, Some(78.0));
    assert!(of("cut").forwarding_rate_pps.is_some());
    assert_eq!(set.invalid, 5);
    assert!(
        imported
            .problems
            .iter()
            .any(|p| p.contains("symbolic link")),
        "{:?}",
        imported.problems
    );

    // The audit also survives this archive.
    write("README.md", &[b"x 5 1 2 3 4 5\n+ 5 1 2\n    N           Min           Max        Median           Avg        Stddev\n\xff\n".to_vec(), vec![b'|'; 1 << 20]].concat());
    write("fw.pps", b"1001\nnan\n\xff\n");
    let audit = audit(root.path());
    assert_eq!(audit.blocks.len(), 1);
    assert!(
        audit.blocks[0].status.starts_with("no logs"),
        "{:?}",
        audit.blocks
    );
    assert_eq!(audit.files[0].cause, Some("run removed"));
}

#[test]
fn an_audit_names_the_cause() {
    let root = archive();
    let set = root.path().join("cpu/nic/topic/results/os");
    let write = |name: &str, text: &str| fs::write(set.join(name), text).unwrap();
    let one = |name: &str, pps: &str| {
        write(name, pps);
        let audit = audit(root.path());
        let found = audit
            .files
            .iter()
            .find(|f| f.file.ends_with(name))
            .unwrap()
            .clone();
        fs::remove_file(set.join(name)).unwrap();
        found
    };
    let exact = one("fw.pps", "1001\n2001\n3001\n4001\n5001\n");
    assert_eq!((&exact.status[..], exact.cause), ("exact", None));
    assert_eq!(exact.sources.len(), 5);
    assert_eq!(
        one("fw.pps", "1001\n2001\n4001\n5001\n").cause,
        Some("run removed")
    );
    assert_eq!(
        one("pps.firewall", "1001\n2001\n3001\n4001\n5001\n").status,
        "exact"
    );
    // The first log is overwritten by a profiled rerun.
    write("bench.fw.1.receiver", &log(700, 60));
    write("bench.fw.1.pmc.graph", "");
    let rerun = one("fw.pps", "1001\n2001\n3001\n4001\n5001\n");
    assert_eq!(rerun.cause, Some("log overwritten by a profiled rerun"));
    assert!(rerun.status.contains("gives 701"), "{rerun:?}");

    // A block as Debian's ministat prints it for runs 2 to 5, trimmed.
    let block = "```\nx fw\n    N           Min           Max        Median           Avg        Stddev\n\
                 x   4          2001          5001          4001          3501     1290.9944\n```\n";
    write("README.md", block);
    let found = &audit(root.path()).blocks[0];
    assert!(
        found.status.contains("without") && found.status.contains("bench.fw.1.receiver"),
        "{found:?}"
    );
    assert_eq!(found.models, ["debian"]);
    // The same block in a directory without logs: borrowed.
    let other = root.path().join("cpu/nic/other/results/os");
    fs::create_dir_all(&other).unwrap();
    fs::rename(set.join("README.md"), other.join("README.md")).unwrap();
    fs::rename(set.join("bench.fw.1.receiver"), root.path().join("gone")).unwrap();
    let found = &audit(root.path()).blocks[0];
    assert_eq!(found.status, "exact");
    assert!(found.sets[0].borrowed);
    assert_eq!(found.sources.len(), 4);
}

#[test]
fn a_row_is_taken_as_printed_only_when_its_directory_is_not_here() {
    let root = archive();
    let set = root.path().join("cpu/nic/topic/results/os");
    // The output of Debian's ministat for these values and for those of the runs.
    let block = |label: &str| {
        format!(
            "x {label}\n+ fw\n    N           Min           Max        Median           Avg        Stddev\n\
             x   5          9001          9005          9003          9003     1.5811388\n\
             +   5          1001          5001          3001          3001     1581.1388\n\
             Difference at 95.0% confidence\n\t-6002 +/- 1630.59\n\t-66.6667% +/- 18.1116%\n\t(Student's t, pooled s = 1118.03)\n"
        )
    };
    for (label, begin) in [
        ("../../gone/results/os/fw.pps", "exact"),
        (
            "baseline",
            "set x baseline: nothing in the archive gives its row",
        ),
        (
            "pf.pps",
            "set x pf.pps: nothing in the archive gives its row",
        ),
        (
            "fw.pps",
            "set x fw.pps: N 5 min 9001 max 9005 median 9003 do not follow from `fw`",
        ),
    ] {
        fs::write(set.join("README.md"), block(label)).unwrap();
        let found = audit(root.path()).blocks.remove(0);
        assert!(found.status.starts_with(begin), "{label}: {}", found.status);
        assert!(found.sets[0].as_printed && !found.sets[1].as_printed);
    }
}

/// A set of 2026 whose `.info` files name the varied parameter but not its values, and describe the
/// CPU far above.
#[test]
fn cpu_time_and_traffic_of_a_set_are_known() {
    let root = tempfile::tempdir().unwrap();
    let place = "Xeon_E5-2650v4_2x12Cores/a_network_card_with_a_long_name/harvest_mask/results/fbsd15-n302145";
    let set = root.path().join(place);
    fs::create_dir_all(&set).unwrap();
    for (case, pps) in [("4479", 5000), ("351", 4000)] {
        for (traffic, started) in [("inet4", "15:30:22 CEST"), ("inet6", "16:30:22 CEST")] {
            for run in 1..=3 {
                let name = format!("bench.{case}.{traffic}.{run}.receiver");
                fs::write(set.join(name), log(pps + run, 60)).unwrap();
            }
            let info = format!(
                "IMAGE=\"\"\nCFG=\"harvest_mask\"\nPKTGEN=\"inet4\"\nStart time: Wed Aug 26 {started} 2015\n\
                 End time: Wed Aug 26 17:00:00 CEST 2015\n"
            );
            fs::write(set.join(format!("bench.{case}.{traffic}.info")), info).unwrap();
        }
    }
    let runs = tempfile::tempdir().unwrap();
    let imported = import(root.path(), runs.path(), &[], false);
    assert_eq!(
        imported.problems,
        Vec::<String>::new(),
        "every line is understood"
    );
    let SetResult::Imported(id) = &imported.sets[0].result else {
        panic!("{imported:?}")
    };
    assert!(
        id.contains("xeon-e5-2650v4-2x12cores") && id.contains("fbsd15-n302145"),
        "{id}"
    );
    let run = fwdlab_store::load(&runs.path().join(id)).unwrap();
    assert_eq!(run.info.facts.cpu_model, "Xeon E5-2650v4 2x12Cores");
    let labels: std::collections::BTreeSet<(&str, &str)> = run
        .imported
        .iter()
        .map(|r| (&r.labels["configuration"][..], &r.labels["traffic"][..]))
        .collect();
    let expect = [
        ("351", "inet4"),
        ("351", "inet6"),
        ("4479", "inet4"),
        ("4479", "inet6"),
    ];
    assert_eq!(labels, expect.into());
    let doubts = run.imported.iter().flat_map(|r| &r.warnings);
    assert!(
        doubts.clone().any(|w| w.contains("divided at its suffix")),
        "{:?}",
        run.imported[0]
    );
    let listed = &fwdlab_store::list(runs.path()).unwrap()[0];
    let measured = listed.measured_at.unwrap().to_string();
    assert_eq!(measured, "2015-08-26T13:30:22Z");

    // its name is its path: within the archive, and on disk
    let in_archive = imported.sets[0].path.as_str();
    for name in [in_archive, set.to_str().unwrap(), &format!("{in_archive}/")] {
        assert_eq!(
            fwdlab_store::resolve(runs.path(), name).unwrap(),
            run.path,
            "{name}"
        );
    }
    assert!(fwdlab_store::resolve(runs.path(), "harvest_mask/results").is_err());
}

#[test]
fn a_truncated_comparison_is_reported() {
    let root = archive();
    let set = root.path().join("cpu/nic/topic/results/os");
    for run in 1..=5 {
        let name = format!("bench.pf.{run}.receiver");
        fs::write(set.join(name), log(1000 * run, 60)).unwrap();
    }
    let text = "x fw\n+ pf\n    N           Min           Max        Median           Avg        Stddev\n\
                x   5          1001          5001          3001          3001     1581.1388\n\
                +   5          1001          5001          3001          3001     1581.1388\n";
    fs::write(set.join("README.md"), text).unwrap();
    let found = audit(root.path()).blocks.remove(0);
    assert!(found.is_exact(), "{found:?}");
    assert_eq!(found.without_comparison, ["pf"]);
    let whole = format!("{text}No difference proven at 95.0% confidence\n");
    fs::write(set.join("README.md"), whole).unwrap();
    let found = audit(root.path()).blocks.remove(0);
    assert!(found.is_exact(), "{found:?}");
    assert_eq!(found.without_comparison, Vec::<String>::new());
}
