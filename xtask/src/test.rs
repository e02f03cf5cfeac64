//! `make test`: runs the checks, the lints and all tests, and ends with a list of what was skipped
//! and why.
//!
//! cargo-nextest runs the tests according to `.config/nextest.toml`, without retries. A test that
//! cannot run here prints `SKIPPED: <test>: <reason>` and returns; nextest counts it as passed, and
//! the last lines list it separately. Start with [`all`].

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::Context;
use serde_json::Value;

use crate::check;

mod links;

/// Property tests use the same cases in every run, as the fuzz targets do: if one fails, a change
/// caused it. For new cases use `cargo test`, or another seed here.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Runs everything in a tier; returns `true` if nothing failed. A failure does not stop the rest.
pub fn all(root: &Path, tier: Tier) -> anyhow::Result<bool> {
    let mut tally = Tally::default();
    if tier != Tier::Rest {
        lint(root, &mut tally, "rustfmt", &["fmt", "--all", "--check"])?;
    }
    // clippy's compiler also builds what it lints, so nothing is compiled twice
    let lints = is_installed(root, "clippy", &mut tally)?;
    heading(match lints {
        true => "clippy, build of the tests",
        false => "build of the tests",
    });
    if features().is_empty() && tier == Tier::First {
        let reason = "DPDK 22.11 or newer is not installed; scripts/bootstrap --tests installs it";
        tally.skipped.push(format!("fwdlab-dpdk: {reason}"));
    }
    let built = build(root, lints)?;
    if lints && tier != Tier::Rest {
        tally.count("clippy", built.warnings == 0);
    }
    match built.succeeded {
        false => tally.failed.push("cargo could not build all tests".into()),
        true => {
            let metadata = metadata(root)?;
            let (also, check): (_, Check) = match tier {
                Tier::First => ("links in doc comments", links::check),
                Tier::Rest => (
                    "our crates without features, as in make quick",
                    links::check_without_features,
                ),
            };
            let (checked, tested) = std::thread::scope(|scope| {
                // they take a minute, in which tests mostly wait
                let checked = scope.spawn(|| -> anyhow::Result<_> {
                    let layout = match tier {
                        Tier::First => {
                            let findings = check::all(root)?.into_iter();
                            Some(("layout", findings.map(|one| one.to_string()).collect()))
                        }
                        Tier::Rest => None,
                    };
                    let also = (also, check(&built.messages, &metadata)?);
                    Ok(layout.into_iter().chain([also]))
                });
                let tested = tests(root, lints, tier, &mut tally);
                (checked.join(), tested)
            });
            tested?;
            for (name, errors) in
                checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?
            {
                heading(name);
                errors
                    .iter()
                    .for_each(|text| println!("{}", text.trim_end()));
                tally.count(name, errors.is_empty());
            }
            match tier {
                Tier::First => documentation(root, lints, &mut tally)?,
                Tier::Rest => dependencies(root, &mut tally)?,
            }
        }
    }
    print!("{tally}");
    Ok(tally.failed.is_empty())
}

/// Prints what comes next, and how long everything before it took.
fn heading(text: &str) {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let seconds = BEGAN.get_or_init(Instant::now).elapsed().as_secs();
    println!("== {text} (after {seconds} s)");
}

/// A check of our crates with the libraries of the test build: of cargo's messages about that
/// build, and of its metadata. Returns errors.
type Check = fn(&[Value], &Value) -> anyhow::Result<Vec<String>>;

/// The tests to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Those of `make test`.
    First,
    /// Those that `make test-all` adds, which need a dedicated machine or minutes; and cargo deny.
    Rest,
}

impl Tier {
    /// Returns the profile in `.config/nextest.toml`.
    fn profile(self) -> &'static str {
        match self {
            Tier::First => "default",
            Tier::Rest => "rest",
        }
    }
}

/// The result of building.
struct Built {
    succeeded: bool,
    /// Number of warnings about our crates from the compiler, or from clippy in its place.
    warnings: usize,
    /// cargo's messages about everything it built.
    messages: Vec<Value>,
}

/// Builds all tests, and the benchmarks to check that they build; shows the compiler's messages.
fn build(root: &Path, lints: bool) -> anyhow::Result<Built> {
    let mut command = cargo(root);
    command.args(compiler(lints)).args([
        "test",
        "--workspace",
        "--all-targets",
        "--no-run",
        "--quiet",
        "--message-format=json",
    ]);
    command.args(features());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("run cargo")?;
    let output = child.stdout.take().context("read what cargo says")?;
    let (mut warnings, mut messages) = (0, Vec::new());
    for line in BufReader::new(output).lines() {
        let line = line.context("read what cargo says")?;
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        if let (Some("compiler-message"), Some(printed)) = (
            message["reason"].as_str(),
            message["message"]["rendered"].as_str(),
        ) {
            println!("{}", printed.trim_end());
            warnings += 1;
        }
        messages.push(message);
    }
    Ok(Built {
        succeeded: child.wait().context("wait for cargo")?.success(),
        warnings,
        messages,
    })
}

/// Runs the tests of a tier, as root if we are root; the calling user built them.
fn tests(root: &Path, lints: bool, tier: Tier, tally: &mut Tally) -> anyhow::Result<()> {
    // make started the download; wait for it here
    let installed = Command::new(root.join("scripts/bootstrap"))
        .arg("--tests")
        .stdin(Stdio::null())
        .status();
    anyhow::ensure!(
        installed.context("run scripts/bootstrap")?.success(),
        "what the tests need could not be installed: see above"
    );
    heading("tests");
    let Some(nextest) = nextest(root) else {
        println!("there is no cargo-nextest: cargo runs all tests, one at a time");
        return one_by_one(root, lints, tally);
    };
    let target = target(root);
    let [binaries, packages] =
        ["binaries", "packages"].map(|name| target.join(format!("nextest-{name}.json")));
    let list = [
        "nextest",
        "list",
        "--workspace",
        "--list-type",
        "binaries-only",
        "--message-format",
        "json",
    ];
    let metadata = [
        "metadata",
        "--format-version=1",
        "--all-features",
        "--no-deps",
    ];
    for (file, arguments) in [(&binaries, &list[..]), (&packages, &metadata)] {
        // cargo takes its configuration before the command, nextest after it
        let (before, after) = match arguments[0] {
            "nextest" => (&[][..], [features(), compiler(lints)].concat()),
            _ => (compiler(lints), vec![]),
        };
        let mut command = cargo(root);
        let output = (command.args(before).args(arguments).args(after))
            .stderr(Stdio::inherit())
            .output()
            .context("run cargo")?;
        anyhow::ensure!(
            output.status.success(),
            "cargo {} failed",
            arguments.join(" ")
        );
        std::fs::write(file, output.stdout).with_context(|| format!("write {}", file.display()))?;
    }
    let mut command = Command::new(nextest);
    command
        .current_dir(root)
        .args(["nextest", "run", "--profile", tier.profile()])
        .arg("--binaries-metadata")
        .arg(&binaries)
        .arg("--cargo-metadata")
        .arg(&packages)
        .stdin(Stdio::null());
    if std::env::var_os(SEED).is_none() {
        command.env(SEED, "1");
    }
    let passed = command.status().context("run cargo-nextest")?.success();
    let report = target
        .join("nextest")
        .join(tier.profile())
        .join("junit.xml");
    let report =
        std::fs::read_to_string(&report).with_context(|| format!("read {}", report.display()))?;
    tally.read(&report);
    if !passed && tally.failed.is_empty() {
        tally.failed.push("cargo-nextest: see above".into());
    }
    Ok(())
}

/// Returns nextest as installed by `scripts/bootstrap --tests`, or by the machine.
fn nextest(root: &Path) -> Option<PathBuf> {
    let ours = root.join("target/venv/bin/cargo-nextest");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join("cargo-nextest"));
    std::iter::once(ours)
        .chain(installed)
        .find(|file| file.is_file())
}

/// Runs the tests with cargo if there is no nextest, one at a time.
fn one_by_one(root: &Path, lints: bool, tally: &mut Tally) -> anyhow::Result<()> {
    let mut command = cargo(root);
    command.arg("--root").args(compiler(lints));
    command.args([
        "test",
        "--workspace",
        "--no-fail-fast",
        "--lib",
        "--bins",
        "--tests",
    ]);
    command.args(features());
    command
        .args(["--", "--test-threads=1"])
        .stdin(Stdio::null());
    let passed = command.status().context("run cargo")?.success();
    tally.count("tests", passed);
    Ok(())
}

/// Returns cargo's description of our packages and their dependencies.
fn metadata(root: &Path) -> anyhow::Result<Value> {
    let output = cargo(root)
        .args(["metadata", "--format-version=1", "--offline"])
        .args(["--filter-platform", &host()?])
        .stderr(Stdio::inherit())
        .output()
        .context("run cargo metadata")?;
    serde_json::from_slice(&output.stdout).context("read what cargo metadata says")
}

/// Returns the platform of this machine. Dependencies of other platforms are never downloaded.
fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .stderr(Stdio::inherit())
        .output()
        .context("run rustc")?;
    let output = String::from_utf8_lossy(&output.stdout);
    let host = output.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV says no host")?.into())
}

/// Checks licences, duplicate versions and sources of the dependencies by `deny.toml`, and
/// advisories if their database is here.
fn dependencies(root: &Path, tally: &mut Tally) -> anyhow::Result<()> {
    heading("cargo deny");
    if !has_command(root, "deny")? {
        let reason = "cargo-deny is not installed; scripts/bootstrap --tests installs it";
        tally.skipped.push(format!("cargo deny: {reason}"));
        return Ok(());
    }
    let mut command = cargo(root);
    command
        .args(["deny", "--offline", "--target", &host()?, "check"])
        .args(["bans", "licenses", "sources"]);
    if has_advisories() {
        command.arg("advisories");
    } else {
        let reason = "no advisory database; target/venv/bin/cargo-deny fetch db downloads it";
        tally
            .skipped
            .push(format!("cargo deny advisories: {reason}"));
    }
    let passed = command.stdin(Stdio::null()).status();
    tally.count("cargo deny", passed.context("run cargo")?.success());
    Ok(())
}

/// Returns true if cargo-deny has downloaded an advisory database. A check without one leaves an
/// empty folder with a lock file.
fn has_advisories() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let entries = home.and_then(|home| home.join("advisory-dbs").read_dir().ok());
    entries.is_some_and(|mut all| all.any(|entry| entry.is_ok_and(|one| one.path().is_dir())))
}

/// Runs the examples in the documentation of the crates.
fn documentation(root: &Path, lints: bool, tally: &mut Tally) -> anyhow::Result<()> {
    heading("examples in doc comments");
    let mut command = cargo(root);
    // as root if we are root
    command.arg("--root").args(compiler(lints));
    command.args(["test", "--workspace", "--doc", "--quiet"]);
    let passed = command.stdin(Stdio::null()).status();
    tally.count(
        "examples in doc comments",
        passed.context("run cargo")?.success(),
    );
    Ok(())
}

fn lint(root: &Path, tally: &mut Tally, component: &str, arguments: &[&str]) -> anyhow::Result<()> {
    heading(component);
    if is_installed(root, component, tally)? {
        let ended = cargo(root).args(arguments).stdin(Stdio::null()).status();
        tally.count(component, ended.context("run cargo")?.success());
    }
    Ok(())
}

/// Returns the arguments that also build the engine for DPDK, if DPDK is installed.
fn features() -> &'static [&'static str] {
    let mut probe = Command::new("pkg-config");
    let found = probe.args(["--exists", "libdpdk >= 22.11"]).status();
    match found.is_ok_and(|status| status.success()) {
        true => &["--features", "fwdlab-dpdk/driver"],
        false => &[],
    }
}

/// Returns true if a component of the toolchain is installed. If not, its checks are skipped.
fn is_installed(root: &Path, component: &str, tally: &mut Tally) -> anyhow::Result<bool> {
    let installed = has_command(root, component.trim_start_matches("rust"))?;
    if !installed {
        tally.skipped.push(format!(
            "{component}: not installed; get it with: rustup component add {component}"
        ));
    }
    Ok(installed)
}

/// Returns true if cargo has this command.
fn has_command(root: &Path, command: &str) -> anyhow::Result<bool> {
    let probe = cargo(root)
        .args([command, "--version"])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .status();
    Ok(probe.context("run cargo")?.success())
}

/// Returns cargo's arguments that select the compiler of our crates.
fn compiler(lints: bool) -> &'static [&'static str] {
    match lints {
        true => &[
            "--config",
            "build.rustc-workspace-wrapper=\"clippy-driver\"",
        ],
        false => &[],
    }
}

/// Returns cargo, started through the script that finds it and prevents builds as root.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new(root.join("scripts/cargo"));
    let tools = std::iter::once(root.join("target/venv/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(tools.chain(std::env::split_paths(&path)));
    command
        .env("PATH", path.unwrap_or_default())
        .current_dir(root)
        .env("CARGO_TERM_COLOR", "never")
        .env_remove("CARGO_MANIFEST_DIR");
    command
}

/// Returns cargo's build directory.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Counts of passed and failed tests, and the skipped ones.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    passed: usize,
    failed: Vec<String>,
    /// `test: reason`
    skipped: Vec<String>,
}

impl Tally {
    fn count(&mut self, name: &str, passed: bool) {
        match passed {
            true => self.passed += 1,
            false => self.failed.push(name.into()),
        }
    }

    /// Adds the results of a JUnit report as written by nextest: each element starts a line, and
    /// contains the output of its test.
    fn read(&mut self, report: &str) {
        let attribute = |line: &str, name: &str| {
            let rest = line.split_once(&format!(" {name}=\""))?.1;
            Some(plain(rest.split_once('"')?.0))
        };
        let (mut test, mut has_failed, mut skips) = (String::new(), false, Vec::new());
        for line in report.lines() {
            let element = line.trim_start();
            if element.starts_with("<testcase ") {
                test = attribute(element, "name").unwrap_or_default();
                (has_failed, skips) = (false, Vec::new());
            }
            has_failed |= element.starts_with("<failure") || element.starts_with("<error");
            if let Some((before, skip)) = line.split_once("SKIPPED: ")
                && (before.is_empty() || before.ends_with('>') || before.ends_with(" ... "))
            {
                let skip = plain(skip.split("</system-").next().unwrap_or(skip).trim());
                if !skips.contains(&skip) {
                    skips.push(skip);
                }
            }
            let has_ended = element.starts_with("</testcase>")
                || element.ends_with("/>") && element.starts_with("<testcase ");
            match has_ended {
                true if has_failed => self.failed.push(std::mem::take(&mut test)),
                true if skips.is_empty() => self.passed += 1,
                true => self.skipped.append(&mut skips),
                false => {}
            }
        }
    }
}

/// Returns XML text with its character entities decoded.
fn plain(text: &str) -> String {
    let pairs = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&#10;", " "),
        ("&amp;", "&"),
    ];
    pairs
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The last lines of the run: failures, skips by reason, and one line that is also
/// machine-readable.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        for name in &self.failed {
            writeln!(f, "failed: {name}")?;
        }
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for skip in &self.skipped {
            let (test, reason) = skip.split_once(": ").unwrap_or(("unnamed", skip));
            reasons.entry(reason).or_default().push(test);
        }
        for (reason, tests) in reasons {
            writeln!(
                f,
                "skipped {}: {reason} ({})",
                tests.len(),
                tests.join(", ")
            )?;
        }
        let (failed, skipped) = (self.failed.len(), self.skipped.len());
        writeln!(
            f,
            "{} passed, {failed} failed, {skipped} skipped",
            self.passed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of nextest 0.9.148, shortened.
    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="5" failures="1" errors="0" time="1.0">
    <testsuite name="fwdlab::program" tests="5" disabled="0" errors="0" failures="1">
        <testcase name="bed::stands" classname="fwdlab::program" time="0.1">
            <system-out>
running 1 test
</system-out>
            <system-err>SKIPPED: bed::stands: needs root
SKIPPED: bed::stands: needs root
</system-err>
        </testcase>
        <testcase name="bed::falls" classname="fwdlab::program" time="0.1"/>
        <testcase name="bed::lies" classname="fwdlab::program" time="0.1">
            <system-out>test bed::lies ... SKIPPED: bed::lies: a &lt;bed&gt; &amp; no veth
ok</system-out>
        </testcase>
        <testcase name="bed::talks" classname="fwdlab::program" time="0.1">
            <system-out>it does not say SKIPPED: anything</system-out>
        </testcase>
        <testcase name="cpu::pins" classname="fwdlab::program" time="0.1">
            <failure type="test failure">panicked at here</failure>
            <system-err>SKIPPED: cpu::pins: a failing test skips nothing</system-err>
        </testcase>
    </testsuite>
</testsuites>
"#;

    #[test]
    fn a_report_is_counted_and_skips_are_grouped() {
        let mut tally = Tally {
            skipped: vec!["clippy: needs root".into()],
            ..Tally::default()
        };
        tally.count("layout", true);
        tally.read(REPORT);
        let output = "\nfailed: cpu::pins\nskipped 1: a <bed> & no veth (bed::lies)\nskipped 2: needs root (clippy, bed::stands)\n\
            3 passed, 1 failed, 3 skipped\n";
        assert_eq!(tally.to_string(), output);
    }
}
