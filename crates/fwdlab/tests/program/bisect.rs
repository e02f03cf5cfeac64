//! `fwdlab bisect`: usage errors, commits that fail to build, and one search among Debian's
//! kernels, with a campaign.
//!
//! The search is tested in `measure`, the builds of commits in `lab`. Start with
//! [`in_guests::the_first_kernel_that_changed_it`].

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Lab, ended, refused, runs_long, skipped, try_tool};

/// Two packages of one version, and one of another that takes more instructions.
pub const KERNELS: [&str; 3] = [
    "debian:linux-image-6.1.0-55-cloud-amd64",
    "debian:linux-image-6.1.0-56-cloud-amd64",
    "debian:linux-image-6.12.117+deb12-cloud-amd64",
];

/// Each error appears before any image is fetched.
#[test]
fn wrong_use_of_bisect() {
    let lab = Lab::new();
    lab.write("list", "a\nb\nc\n");
    lab.write("log.jsonl", "{\"line\":\"tes");
    let two = "campaign = 'c'\n[configuration]\nrule = 'true'\nlost = '/no/such'\n[procedure]\nid = 'exact'\n";
    lab.write("two.toml", two);
    lab.write("wrong.toml", "campaign = 1\n");
    let table = "--good a => 2: --bad
        --good a --bad a => 2: the same
        --good x --bad a --images list => 2: x is not
        --good a --bad b --images /no/such => 2: cannot read
        --good a --bad b => 2: --images FILE
        --good a --bad b --git /no/such --build true => 2: --git
        --good a --bad b --threshold 100 => 2: --threshold
        --resume /no/such => 2: there is no file
        --resume log.jsonl => 3: not a log of a bisection
        --resume log.jsonl --good a => 2: cannot be used with
        --good a --bad b --case x => 2: --campaign
        CAMPAIGN two.toml => 2: 2 test cases
        CAMPAIGN two.toml --case lost => 2: /no/such
        CAMPAIGN two.toml --case rule --set true => 2: cannot be used with
        CAMPAIGN wrong.toml => 2: wrong.toml:1";
    let campaign = "--good a --bad b --images list --campaign";
    refused(&table.replace("CAMPAIGN", campaign), |line| {
        lab.run(&format!("bisect {line}"))
    });
}

fn git(folder: &Path, words: &str) {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(words.split(' '));
    let done = command.output().unwrap();
    assert!(done.status.success(), "{words}: {done:?}");
}

/// The build always fails. The good commit cannot be built, so the search ends with the output of
/// the build, and leaves only the log.
#[test]
fn a_commit_that_cannot_be_built_is_reported() {
    if Command::new("git").arg("--version").output().is_err() {
        return skipped("no git");
    }
    let lab = Lab::new();
    let repository = lab.path().join("repository");
    fs::create_dir(&repository).unwrap();
    git(&repository, "init -q");
    for title in ["one", "two", "three"] {
        let nobody = "-c user.name=nobody -c user.email=nobody@example.org";
        let commit = format!("{nobody} commit -q --allow-empty -m {title}");
        git(&repository, &commit);
    }
    let log = lab.path().join("log.jsonl");
    let line = "bisect --good HEAD~2 --bad HEAD --git repository --build 'echo no compiler >&2; false' --log log.jsonl";
    let mut command = lab.program(line);
    let cache = lab.path().join("cache");
    command.env("FWDLAB_CACHE", &cache);
    ended(command).code(4).prints(&["No result", "no compiler"]);
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 3);
    for search in fs::read_dir(cache.join("bisect")).unwrap() {
        assert!(!search.unwrap().path().join("tree").exists());
    }
    assert!(!lab.runs().join("bisect").exists());
}

/// Guests keep a CPU busy each, which would stall the frames of other tests. Nothing here is judged
/// by time.
mod in_guests {
    use super::*;

    /// Boots guests, because only that shows that all parts work together. Takes some 50 s, and
    /// longer if kernels must be downloaded.
    #[test]
    fn the_first_kernel_that_changed_it() {
        if !runs_long("a search among kernels") {
            return;
        }
        if try_tool(&["qemu-system-x86_64", "--version"]).is_err() {
            return skipped("no qemu-system-x86_64");
        }
        let lab = Lab::new();
        lab.write("kernels", &KERNELS.join("\n"));
        // a campaign that names no images
        let text = "campaign = 'firewall'\n[configuration]\nrule = 'rule.nft'\n[matrix]\nimage = 'debian:none'\n\
            configuration = ['plain', 'rule']\n[procedure]\nid = 'exact'\nframes = 3200\n";
        lab.write("firewall.toml", text);
        lab.write("rule.nft", "table ip t { chain f { type filter hook forward priority 0; ip saddr 10.0.0.1 drop; }; }\n");
        let done = lab.run(&format!(
            "bisect --good {} --bad {} --images kernels --log log.jsonl --campaign firewall.toml --case rule --threshold 1 --json",
            KERNELS[0], KERNELS[2]
        ));
        let words = ["cannot get debian", "there is no image"];
        if words.iter().any(|words| done.err.contains(words)) {
            return skipped(done.err.lines().last().unwrap_or("no image"));
        }
        let document = done.code(0).document();
        assert_eq!(document["outcome"], "found", "{document:#}");
        assert_eq!(document["last_good"], KERNELS[1]);
        assert_eq!(document["first_bad"], KERNELS[2]);
        assert_eq!(document["difference"]["proven"], true);
        assert_eq!(document["search"]["frames"], 3200);
        // without a compiler, there are no functions
        let functions = document["compared"]["last_good"]["functions"].as_array();
        let mut functions = functions.into_iter().flatten().peekable();
        if functions.peek().is_some() {
            let is_chain = |one: &Value| one["function"] == "nft_do_chain [nf_tables]";
            assert!(functions.any(is_chain), "{document:#}");
        }
        // a second time: all results are known, so nothing boots
        let log = lab.path().join("log.jsonl");
        let known = fs::read_to_string(&log).unwrap();
        lab.run("bisect --resume log.jsonl")
            .code(0)
            .prints(&["first changed by: debian:linux-image-6.12.117"]);
        assert_eq!(fs::read_to_string(log).unwrap(), known);
    }
}
