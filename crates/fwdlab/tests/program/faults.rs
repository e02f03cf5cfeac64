//! Hosts without disk space, programs, CPUs or privileges. Start with [`on_a_file_system`].

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use crate::conservation::conserved;
use crate::support::{
    CommandResult, Lab, PROGRAM, TINY, count, ended, list, number, skipped, texts,
};

const NOBODY: u32 = 65534;

/// Runs the program with its runs directory on a small or read-only file system, then lists the
/// runs there.
fn on_a_file_system(lab: &Lab, options: &str, arguments: &str) -> CommandResult {
    let runs = lab.runs();
    fs::create_dir_all(&runs).unwrap();
    let script = format!(
        "mount -t tmpfs -o {options} tmpfs '{}' || exit 99; {PROGRAM} \"$@\"; code=$?; {PROGRAM} runs ls; exit $code",
        runs.display()
    );
    let unshare = "unshare --mount --propagation private sh -c".split(' ');
    let unshare: Vec<&str> = unshare.chain([script.as_str(), "sh"]).collect();
    let ended = ended(lab.with(&unshare, arguments));
    assert_ne!(ended.code, 99, "no file system: {}", ended.err);
    ended
}

#[test]
fn runs_that_cannot_be_kept_are_not_measured() {
    let Some(lab) = Lab::root() else { return };
    let runs = lab.runs().to_str().unwrap().to_owned();
    let ended = on_a_file_system(&lab, "ro", TINY);
    ended.code(3).says(&[&runs, "Read-only file system"]);
    assert!(!ended.err.contains("test bed"), "it began: {}", ended.err);

    // no room for a journal or its reserve: nothing was measured yet (3). 4: the disk filled up
    // during the run
    for (size, codes) in [("4k", &[3][..]), ("36k", &[3, 4])] {
        let ended = on_a_file_system(&lab, &format!("size={size}"), TINY);
        assert!(codes.contains(&ended.code), "{size}: {ended:?}");
        ended.says(&[&runs, "No space left on device"]);
        assert_eq!(ended.err.matches("No space left").count(), 1, "{ended:?}");
        lab.assert_clean(size);
        // the list of runs works
        assert!(!ended.out.contains("damaged"), "{size}: {}", ended.out);
    }
}

/// The disk fills up in the middle of a run: the run is recorded as failed, with the reason, and
/// not taken for a killed one.
#[test]
fn a_disk_that_gets_full_is_reported() {
    let Some(lab) = Lab::root() else { return };
    let many = "rfc2544 --engine sim --max 3Mpps --size 64,128,256,512,1024";
    // room for the start of a run, its reserve, and a few of some hundred trials
    let ended = on_a_file_system(&lab, "size=200k", many);
    assert_ne!(ended.code, 0, "it all fitted: {}", ended.out);
    ended.says(&["No space left on device"]);
    ended.prints(&["  failed: cannot "]);
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    let Some(lab) = Lab::root() else { return };
    let mut command = lab.program(TINY);
    command.env("PATH", "/nonexistent");
    ended(command)
        .code(3)
        .says(&["`ip`", "apt-get install iproute2"]);
    lab.assert_clean("no ip");
}

/// The requested engine sends both versions of IP and the sizes at the ends.
#[test]
fn one_cpu_is_enough_and_reported() {
    let Some(lab) = Lab::root() else { return };
    let line = "quick --engine af-packet --ipv4 --ipv6 --size 84,1518 --flows 1 -n 1 --trial 100ms --load max --json";
    let ended = ended(lab.with(&["taskset", "-c", "0", PROGRAM], line));
    let document = ended.measured().document();
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("share a CPU"), "{warnings}");
    let reported = document["info"]["facts"]["engine"].as_str().unwrap();
    assert!(reported.starts_with("af-packet"), "{reported}");
    assert_eq!(
        texts(&document["test_cases"], "test_case"),
        [
            "plain/84B-1flow-ipv4",
            "plain/1518B-1flow-ipv4",
            "plain/84B-1flow-ipv6",
            "plain/1518B-1flow-ipv6"
        ]
    );
    for trial in list(&document["trials"]) {
        assert_eq!(trial["engine"], "af-packet");
        conserved(trial);
        assert!(count(&trial["frames_received"]) > 0, "{trial}");
    }
    lab.assert_clean("one CPU");
}

/// Without a home and without --runs, there is no place for runs.
#[test]
fn a_missing_home_directory_is_reported() {
    let mut command = std::process::Command::new(PROGRAM);
    command.args(["runs", "ls"]).env_clear().current_dir("/");
    ended(command).code(2).says(&["HOME", "--runs DIR"]);
}

mod alone {
    use super::*;

    /// As an ordinary user with nothing but a home: it measures in a user namespace, or explains
    /// why not.
    #[test]
    fn without_root_it_works_or_gives_the_reason() {
        let Some(lab) = Lab::root_alone() else { return };
        // other users may lack access to the build directory
        fs::set_permissions(lab.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = lab.path().join("fwdlab");
        fs::copy(PROGRAM, &program).unwrap();
        let home = lab.path().join("home");
        fs::create_dir(&home).unwrap();
        chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        let as_nobody = |line: &str| {
            let [user, group] = ["reuid", "regid"].map(|id| format!("--{id}={NOBODY}"));
            let program = program.to_str().unwrap();
            let before = ["setpriv", &user, &group, "--clear-groups", program];
            let mut command = lab.with(&before, line);
            command
                .env_remove("FWDLAB_RUNS")
                .env_remove("XDG_DATA_HOME")
                .env("HOME", &home)
                .current_dir("/");
            ended(command)
        };
        // here, too, a configuration must not change the host's files
        let set = "nft add table ip t && echo x > /etc/fwdlab-nobody && test -e /etc/fwdlab-nobody && \
            ! touch /usr/fwdlab-nobody 2>/dev/null";
        for engine in ["auto", "af-packet"] {
            let ended = as_nobody(&format!("{TINY} --engine {engine} --set '{set}' --json"));
            if ended.code == 3 {
                ended.says(&["does not allow user namespaces", "sudo"]);
                return;
            }
            ended.measured();
            let document = ended.document();
            assert_eq!(document["info"]["facts"]["privileged"], false);
            let warnings = document["warnings"].to_string();
            assert!(
                warnings.contains("no root") && warnings.contains("sudo"),
                "{warnings}"
            );
            for trial in list(&document["trials"]) {
                conserved(trial);
                assert!(count(&trial["frames_received"]) > 0, "{trial}");
                // a sender that stalled in every window has no rate
                let has_stalled = count(&trial["windows_not_offered"]) > 0;
                let rate = trial["forwarding_rate_ungated_pps"].as_f64();
                assert!(rate.map_or(has_stalled, |rate| rate > 0.0), "{trial}");
            }
            // the stored run can be read
            let shown = as_nobody("runs show @1 --json");
            shown.code(0);
            let run = shown.document();
            assert_eq!(run["run"], document["run"]);
        }
        as_nobody("bed show").code(2).says(&["sudo"]);
        lab.assert_clean("no root");
    }
}

/// In the second tier, because they take long.
mod slow {
    use super::*;

    /// The clock is set a day ahead during the first trial of a campaign, and during the second one
    /// back to before its old time: trials keep their duration, and events stay in order.
    #[test]
    fn a_clock_that_is_stepped_changes_no_trial() {
        let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
        let library = format!("/usr/lib/{triple}/faketime/libfaketimeMT.so.1");
        if !std::path::Path::new(&library).exists() {
            return skipped("libfaketime is not installed");
        }
        let Some(lab) = Lab::root() else { return };
        let offset = lab.path().join("offset");
        fs::write(&offset, "+0").unwrap();
        let step = format!(
            "if [ $FWDLAB_ITERATION = 1 ]; then by=+86400; else by=-7200; fi; printf %s $by > {}",
            offset.display()
        );
        let text = format!(
            "campaign = 'clock'\niterations = 3\n[procedure]\nid = 'trial'\nload = '5kpps'\nfor = '200ms'\n\
             [hooks]\nduring = {{ on = 'controller', command = '{step}' }}\n"
        );
        lab.write("clock.toml", &text);
        let mut command = lab.program("run clock.toml --json-stream");
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", &offset)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let mut run = lab.start_command(command);
        run.wait_until("its end", |run| run.has_ended());
        let mut days = BTreeSet::new();
        for event in run
            .events()
            .iter()
            .filter(|e| e["event"] == "trial_finished")
        {
            let seconds = number(&event["record"]["duration_s"]);
            assert!((0.19..0.5).contains(&seconds), "{event}");
            days.insert(event["record"]["started_at"].as_str().unwrap()[..10].to_owned());
        }
        assert!(days.len() > 1, "the clock was not stepped: {days:?}");
        let times: Vec<f64> = run.events().iter().map(|e| number(&e["t"])).collect();
        assert!(times.is_sorted(), "{times:?}");
        assert!(times.last().is_some_and(|last| *last < 600.0), "{times:?}");
        lab.run("runs verify @1").code(0);
        lab.assert_clean("a stepped clock");
    }
}
