//! Signals and sudden death: what is undone, what is kept, and that the next start cleans up. Start
//! with [`a_killed_run_is_reported_and_swept_by_the_next`].

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    Lab, PATIENCE, PROGRAM, TINY, beds, count, list, namespaces, root, tool, words,
};

/// A run of some three seconds, with several beds.
const SHORT: &[&str] = &[
    "quick", "--size", "64", "--flows", "10", "-n", "3", "--trial", "200ms", "--load", "max",
];

/// Returns times between start and end from a seed (xorshift), the same in every test run.
fn moments(mut seed: u64, count: usize, longest: Duration) -> Vec<Duration> {
    (0..count)
        .map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            longest.mul_f64((seed % 1000) as f64 / 1000.0)
        })
        .collect()
}

#[test]
fn signals_undo_everything_and_keep_what_was_measured() {
    if !root("signals_undo_everything_and_keep_what_was_measured") {
        return;
    }
    let lab = Lab::new();
    let signals = [(Signal::INT, 130), (Signal::TERM, 143)];
    let mut interrupted = 0;
    for (number, moment) in moments(0x5eed, 4, Duration::from_secs(3))
        .into_iter()
        .enumerate()
    {
        let (signal, code) = signals[number % 2];
        let quick = lab.start(SHORT);
        std::thread::sleep(moment);
        quick.signal(signal);
        let ended = quick.wait(Duration::from_secs(10));
        let what = format!("{signal:?} after {moment:?}");
        // before the program handles signals, the kernel ends it; after its end there is nothing to
        // interrupt
        let allowed = [0, 5, code];
        assert!(allowed.contains(&ended.code), "{what}: {ended:?}");
        assert!(!ended.err.contains("panicked"), "{what}: {}", ended.err);
        lab.assert_clean(&what);
        interrupted += usize::from(ended.code == code);

        let shown = lab.run(&["runs", "show", "@1", "--json"]);
        if shown.code == 0 {
            let run: Value = serde_json::from_str(&shown.out).unwrap();
            let state = run["info"]["state"].as_str().unwrap();
            let expect = if ended.code == code {
                "interrupted"
            } else {
                "finished"
            };
            assert_eq!(state, expect, "{what}");
            if state == "interrupted" && run.get("noise").is_some() {
                // the interruption is the only cause
                assert_eq!(run["noise"]["too_noisy"], false, "{what}");
                let text = lab.run(&["runs", "show", "@1"]).out;
                assert!(text.starts_with("Interrupted"), "{what}: {text}");
                assert!(!text.contains("oo noisy"), "{what}: {text}");
            }
        } else {
            assert!(
                moment < Duration::from_millis(200),
                "{what}: no run is kept: {shown:?}"
            );
        }
        lab.run(&["runs", "rm", "@1"]);
    }
    assert!(
        interrupted >= 3,
        "only {interrupted} of 4 signals came in time"
    );
}

/// Two labs in parallel do not interfere; killed runs leave theirs intact.
#[test]
fn a_killed_run_is_reported_and_swept_by_the_next() {
    if !root("a_killed_run_is_reported_and_swept_by_the_next") {
        return;
    }
    let lab = Lab::new();
    let arguments = [TINY, &["--json"]].concat();
    let both = [lab.start(&arguments), lab.start(&arguments)];
    let wholes = both.map(|quick| {
        let ended = quick.wait(PATIENCE);
        let document: Value = serde_json::from_str(&ended.measured().out).unwrap();
        for trial in list(&document["trials"]) {
            assert_eq!(trial["frames_unexplained"], 0);
            assert!(count(&trial["frames_received"]) > 0);
        }
        let summary = Path::new(document["directory"].as_str().unwrap()).join("summary.json");
        (fs::read(&summary).unwrap(), summary)
    });
    lab.assert_clean("two labs");

    let mut standing = Vec::new();
    for moment in moments(0xdead, 3, Duration::from_secs(2)) {
        let mut quick = lab.start(SHORT);
        let pid = quick.pid();
        // one dies before its bed exists or while it is built, the others with a bed
        if moment > Duration::from_millis(500) {
            quick.bed();
        }
        std::thread::sleep(moment);
        quick.signal(Signal::KILL);
        quick.wait(PATIENCE);
        // its children die with it; grandchildren a little later
        let died = Instant::now();
        while !lab.processes().is_empty() && died.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(lab.processes(), Vec::<String>::new(), "after {moment:?}");
        for bed in beds().iter().filter(|bed| bed["pid"] == pid) {
            assert_eq!(bed["in_use"], false, "{bed}");
            let human = tool(&[PROGRAM, "bed", "show"]);
            assert!(human.contains("its process died"), "{human}");
            standing.extend(words(&bed["namespaces"]));
        }
    }
    assert!(!standing.is_empty(), "no moment hit a standing bed");

    // the next start removes what is left
    lab.run(TINY).measured();
    let left: Vec<String> = namespaces()
        .into_iter()
        .filter(|n| standing.contains(n))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    lab.assert_clean("after kill -9");

    // earlier runs are complete; killed ones are listed as interrupted and can be read
    for (whole, summary) in wholes {
        assert_eq!(fs::read(summary).unwrap(), whole);
    }
    let listed = lab.run(&["runs", "ls"]);
    // neither the header nor results on a line of their own
    let runs = || listed.out.lines().filter(|line| !line.starts_with("     "));
    let lines = |word: &str| runs().filter(|line| line.contains(word)).count();
    // a run that is killed at once may not exist
    assert!(lines("interrupted") >= 2, "{}", listed.out);
    assert!(
        lines(" finished") >= 3 && lines("damaged") == 0,
        "{}",
        listed.out
    );
    listed.code(0);
    for n in 1..=runs().count() {
        lab.run(&["runs", "show", &format!("@{n}")]).code(0);
    }
}

/// `bed up`, a killed run, `bed down`: in a /run of their own, because they affect all beds of a
/// host.
#[test]
fn beds_by_hand_exist_until_they_are_removed() {
    if !root("beds_by_hand_exist_until_they_are_removed") {
        return;
    }
    let lab = Lab::new();
    let script = format!(
        r#"set -eu
        mount -t tmpfs tmpfs /run
        {PROGRAM} bed up --duts 2
        {PROGRAM} bed show
        ls /run/netns
        {PROGRAM} quick --size 64 -n 1 --load max > /dev/null 2>&1 & pid=$!
        while [ "$(ls /run/netns | wc -l)" -lt 5 ]; do sleep 0.05; done
        kill -9 $pid; wait $pid || true
        echo killed; {PROGRAM} bed show
        {PROGRAM} bed down; {PROGRAM} bed down
        echo left: $(ls /run/netns) $(ls /run/fwdlab | grep json)"#
    );
    let ended = crate::support::ended(lab.with(
        &["unshare", "--mount", "--propagation", "private", "sh", "-c"],
        &[&script],
    ));
    ended.code(0);
    ended.says(&["no test beds on this host"]).prints(&[
        "kept by `bed up`; remove it with: fwdlab bed down",
        "its process died; the next start removes it",
    ]);
    let out = &ended.out;
    let removed = out.lines().filter(|line| line.contains("removed "));
    assert_eq!(removed.count(), 2, "{out}");
    assert_eq!(out.lines().last(), Some("left:"), "{out}");
    lab.assert_clean("beds by hand");
}
