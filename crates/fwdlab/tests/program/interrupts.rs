//! Signals and sudden death: what is undone, what is kept, and that the next start cleans up. Start
//! with [`a_killed_run_is_reported_and_swept_by_the_next`].

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Lab, PATIENCE, PROGRAM, TINY, beds, count, list, tool};
use rustix::process::Signal;

/// A run of some three seconds, with several beds.
const SHORT: &str = "quick --size 64 --flows 10 -n 3 --trial 200ms --load max";

/// `lab` stops scripted runs at every command.
#[test]
fn signals_undo_everything_and_keep_what_was_measured() {
    let Some(lab) = Lab::root() else { return };
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut quick = lab.start(&format!("{SHORT} --json-stream"));
        match signal {
            Signal::INT => drop(quick.event("trial_finished")),
            _ => drop(quick.bed()),
        }
        quick.signal(signal);
        let ended = quick.wait(PATIENCE);
        ended.code(code);
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        lab.assert_clean("a signal");
        let run = lab.run("runs show @1 --json").code(0).document();
        assert_eq!(run["info"]["state"], "interrupted", "{signal:?}");
        if signal == Signal::INT {
            // the interruption is the only cause
            assert_eq!(run["noise"]["too_noisy"], false, "{run}");
            let text = lab.run("runs show @1").out;
            assert!(text.starts_with("Interrupted"), "{text}");
            assert!(!text.contains("oo noisy"), "{text}");
        }
    }
}

/// Two labs in parallel do not interfere; killed runs leave theirs intact.
#[test]
fn a_killed_run_is_reported_and_swept_by_the_next() {
    let Some(lab) = Lab::root() else { return };
    let line = format!("{TINY} --json");
    let both = [lab.start(&line), lab.start(&line)];
    let wholes = both.map(|quick| {
        let document = quick.wait(PATIENCE).measured().document();
        for trial in list(&document["trials"]) {
            assert_eq!(trial["frames_unexplained"], 0);
            assert!(count(&trial["frames_received"]) > 0);
        }
        let summary = Path::new(document["directory"].as_str().unwrap()).join("summary.json");
        (fs::read(&summary).unwrap(), summary)
    });
    lab.assert_clean("two labs");

    // one dies while its bed is built, the other with a bed
    let mut has_left = false;
    for has_begun in [false, true] {
        let mut quick = lab.start(&format!("{SHORT} --json-stream"));
        let pid = quick.pid();
        quick.event(if has_begun { "progress" } else { "run_started" });
        quick.signal(Signal::KILL);
        quick.wait(PATIENCE);
        // its children die with it; grandchildren a little later
        let died = Instant::now();
        while !lab.processes().is_empty() && died.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(lab.processes(), Vec::<String>::new(), "{has_begun}");
        for bed in beds().iter().filter(|bed| bed["pid"] == pid) {
            assert_eq!(bed["in_use"], false, "{bed}");
            let human = tool(&[PROGRAM, "bed", "show"]);
            assert!(human.contains("its process died"), "{human}");
            has_left = true;
        }
    }
    assert!(has_left, "no bed was left");

    // the next start removes what is left
    lab.run(TINY).measured();
    lab.assert_clean("after kill -9");

    // earlier runs are complete; killed ones are listed as interrupted and can be read
    for (whole, summary) in wholes {
        assert_eq!(fs::read(summary).unwrap(), whole);
    }
    let listed = lab.run("runs ls").code(0).out.clone();
    let runs = listed.lines().skip(1).count();
    let interrupted = listed.matches("interrupted").count();
    let is_whole = interrupted >= 2 && runs >= interrupted + 3 && !listed.contains("damaged");
    assert!(is_whole, "{listed}");
    for n in 1..=runs {
        lab.run(&format!("runs show @{n}")).code(0);
    }
}

/// `bed up`, a killed run, `bed down`: in a /run of their own, because they affect all beds of a
/// host.
#[test]
fn beds_by_hand_exist_until_they_are_removed() {
    let Some(lab) = Lab::root() else { return };
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
