//! `fwdlab serve`: its pages in a real browser, and its answers to other clients.
//!
//! `web/tests/pages.mjs` has the checks in the browser. Start with [`serve`].

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Lab, Started, ended, id_of, making, skipped, try_tool};
use crate::tty::Tty;

const TOKEN: &str = "0123456789abcdef";
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

/// Finds Node with the packages of the page, or returns why it is not available. Others wait until
/// they are installed.
fn node() -> Result<(), String> {
    let _making = making("node-packages");
    try_tool(&["node", "--version"]).map_err(|_| "node is not installed".to_owned())?;
    // the file that npm writes last
    if web().join("node_modules/.package-lock.json").is_file() {
        return Ok(());
    }
    let web = web();
    let installed = Command::new("npm")
        .args(["ci", "--silent", "--ignore-scripts", "--prefix"])
        .arg(&web)
        .output();
    match installed {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) => Err("npm could not get the packages of web/".into()),
        Err(_) => Err("npm is not installed".into()),
    }
}

#[test]
fn embedded_files_match_their_sources() {
    if let Err(reason) = node() {
        return skipped(&reason);
    }
    for words in [
        ["build.mjs", "--check"],
        ["node_modules/typescript/bin/tsc", "--noEmit"],
    ] {
        let mut command = Command::new("node");
        command.args(words).current_dir(web());
        ended(command).code(0);
    }
}

/// Starts a server for a lab's runs. Returns its address.
fn serve(lab: &Lab, listen: &str, more: &[&str]) -> (Started, String) {
    lab.write("fwdlab/dashboard_token", TOKEN);
    let line = ["serve", "--json", "--listen", listen];
    let mut command = lab.program(&[&line[..], more].concat());
    command.env("XDG_STATE_HOME", lab.path());
    let mut server = lab.start_command(command);
    let mut url = String::new();
    server.wait_until("an address", |this| {
        let output: Option<Value> = serde_json::from_str(&this.out()).ok();
        url = output
            .map(|output| output["url"].as_str().unwrap().to_owned())
            .unwrap_or_default();
        !url.is_empty()
    });
    (server, url.trim_end_matches('/').to_owned())
}

fn simulated(lab: &Lab, line: &str) -> String {
    let document = lab.json(&format!("{line} --engine sim --max 3Mpps"));
    id_of(&document)
}

/// Writes a campaign of many short trials on this machine's test bed, so that there is always a
/// next one.
fn short_trials(lab: &Lab) -> String {
    let text = "campaign = 'short-trials'\niterations = 1000\n[procedure]\nid = 'trial'\nload = '2kpps'\nfor = '200ms'\n";
    lab.write("short-trials.toml", text)
}

/// Writes a campaign of one turn, which has no iteration before its end, at low loads. It takes
/// minutes, so that it lasts until a slow browser stops it.
fn one_turn(lab: &Lab) -> String {
    let sizes = Vec::from_iter((64..=1518).step_by(50));
    let text = format!(
        "campaign = 'one-turn'\norder = 'together'\niterations = 1\n[bed]\nmax = '5kpps'\n[matrix]\nsize = {sizes:?}\n\
         [procedure]\nid = 'rfc2544'\ntests = ['frame-loss']\ntrial = '1s'\n"
    );
    lab.write("one-turn.toml", &text)
}

/// Executes the requests of the browser's script.
struct Script {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Script {
    fn next(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut reason = String::new();
            let mut stderr = self.child.stderr.take().unwrap();
            std::io::Read::read_to_string(&mut stderr, &mut reason).unwrap();
            panic!("the browser's script ended: {reason}");
        }
        line.trim().to_owned()
    }

    fn answer(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{text}").unwrap();
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // chromium ends when the pipe of its parent closes
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes a minute.
mod slow {
    use super::*;

    #[test]
    fn pages_are_rendered_in_a_browser() {
        let lab = Lab::new();
        if let Err(reason) = node() {
            return skipped(&reason);
        }
        let browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
        let Some(browser) = browsers.into_iter().find(|path| Path::new(path).exists()) else {
            return skipped("chromium is not installed");
        };
        let mut runs: Vec<String> = ["1", "2"]
            .iter()
            .map(|seed| simulated(&lab, &format!("ndr --goals ndr --seed {seed}")))
            .collect();
        // more trials than a page shows at a time
        let many = "campaign = 'many'\niterations = 26\n[bed]\nengine = 'sim'\n[matrix]\nflows = [1, 10]\n[procedure]\nid = 'mrr'\n";
        lab.write("many.toml", many);
        let many = lab.json("run many.toml");
        runs.push(many["info"]["id"].as_str().unwrap().to_owned());
        // names are words; notes may be any text
        lab.run(&["runs", "note", &runs[0], HOSTILE]).code(0);
        lab.run(&["runs", "tag", &runs[0], "baseline"]).code(0);
        let rfc = "rfc2544 --size 64 --tests throughput,latency";
        runs.push(simulated(&lab, rfc));
        let (mut server, url) = serve(&lab, "127.0.0.1:0", &[]);
        let port = url.rsplit(':').next().unwrap().to_owned();
        // a live run needs a test bed on this machine; it sends frames, so it starts when the page
        // opens
        let is_root = rustix::process::geteuid().is_root();
        let mut campaigns = [short_trials(&lab), one_turn(&lab)].into_iter();
        let mut going = Vec::new();
        let mut child = Command::new("node")
            .arg(web().join("tests/pages.mjs"))
            .args([browser, &url, TOKEN, if is_root { "live" } else { "-" }])
            .env("REPORT", lab.runs().join(&runs[2]).join("report.html"))
            .args(&runs)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut script = Script {
            child,
            stdout: output,
        };
        loop {
            match script.next().as_str() {
                "run" => {
                    let campaign = campaigns.next().unwrap();
                    let mut run = lab.start(&["run", &campaign, "--json-stream"]);
                    let live = run.event("progress")["run"].as_str().unwrap().to_owned();
                    script.answer(&live);
                    going.push((run, live));
                }
                "kill" => {
                    server.signal(rustix::process::Signal::KILL);
                    server.wait_until("its end", |this| this.has_ended());
                    script.answer("killed");
                }
                "start" => {
                    server = serve(&lab, &format!("127.0.0.1:{port}"), &[]).0;
                    script.answer("started");
                }
                "count" => {
                    let counts = going.iter_mut().map(|(run, live)| {
                        run.wait_until("its end", |this| this.has_ended());
                        let journal = lab.runs().join(live).join("events.jsonl");
                        let journal = fs::read_to_string(journal).unwrap();
                        journal.lines().count().to_string()
                    });
                    script.answer(&counts.collect::<Vec<_>>().join(" "));
                }
                "done" => break,
                other => panic!("{other}"),
            }
        }
        drop(server);
    }
}

/// The journal of a run grows as long as it lasts, its result does not.
#[test]
fn a_report_of_a_run_without_a_result_does_not_keep_its_journal() {
    const JOURNAL: usize = 96 << 20;
    let lab = Lab::new();
    if try_tool(&["curl", "--version"]).is_err() {
        return skipped("curl is not installed");
    }
    let text = "campaign = 'one'\niterations = 3\n[bed]\nengine = 'sim'\n[procedure]\nid = 'mrr'\n";
    lab.write("one.toml", text);
    let id = lab.json("run one.toml")["info"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let run = lab.runs().join(&id);
    fs::remove_file(run.join("summary.json")).unwrap();
    let journal = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let mut lines = journal.split_inclusive('\n');
    let line = lines.find(|line| line.contains("\"trial_finished\""));
    let line = line.unwrap();
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(run.join("events.jsonl"))
        .unwrap();
    file.write_all(line.repeat(JOURNAL / line.len()).as_bytes())
        .unwrap();
    let (server, url) = serve(&lab, "127.0.0.1:0", &[]);
    let report = format!("{url}/api/runs/{id}/report");
    let report = try_tool(&["curl", "-s", "--max-time", "300", &report]).unwrap();
    assert!(report.contains("receive rate"), "{report}");
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let most = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let most: usize = most.unwrap().parse().unwrap();
    assert!(most << 10 < JOURNAL, "{most} kB");
}

/// Through TLS, with our certificate and with the user's own, and with the token only; runs of
/// different kinds are refused with a message.
#[test]
fn curl_reads_through_tls_with_the_token_only() {
    let lab = Lab::new();
    for (tool, version) in [("curl", "--version"), ("openssl", "version")] {
        if try_tool(&[tool, version]).is_err() {
            return skipped(&format!("{tool} is not installed"));
        }
    }
    let [other, run] =
        ["1", "2"].map(|seed| simulated(&lab, &format!("ndr --goals ndr --seed {seed}")));
    let ramp = simulated(&lab, "ramp");
    let (mut server, url) = serve(&lab, "0.0.0.0:0", &[]);
    let at = url.replace("0.0.0.0", "127.0.0.1");
    assert!(url.starts_with("https://"), "{url}");
    let curl = |more: &[&str], path: &str| {
        let address = format!("{at}{path}");
        let line = ["curl", "-sk", "--max-time", "300", "-w", "\n%{http_code}"];
        let output = try_tool(&[&line[..], more, &[&address]].concat()).unwrap();
        let (body, code) = output.rsplit_once('\n').unwrap();
        (code.parse::<u32>().unwrap(), body.to_owned())
    };
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let jar = lab.path().join("jar").display().to_string();
    // the page holds no data and is public; its data is not
    assert_eq!(curl(&[], "/").0, 200);
    let report = format!("/runs/{run}/report");
    for path in ["/api/runs", "/metrics", &report] {
        assert_eq!(curl(&[], path).0, 401, "{path}");
        let (code, body) = curl(&["-H", &bearer], path);
        assert!(code == 200 && body.contains(&run), "{path}: {code} {body}");
    }
    // a browser's cookie permits reading only
    let session = curl(&["-X", "POST", "-H", &bearer, "-c", &jar], "/api/session");
    assert_eq!(session.0, 204, "{session:?}");
    assert!(fs::read_to_string(&jar).unwrap().contains("#HttpOnly_"));
    assert!(curl(&["-b", &jar], "/api/runs").1.contains(&run));
    // and still does after a restart: an open page continues. So does a browser that has accepted
    // the certificate
    server.signal(rustix::process::Signal::KILL);
    server.wait_until("its end", |this| this.has_ended());
    let _server = serve(&lab, url.trim_start_matches("https://"), &[]).0;
    let accepted = lab.path().join("fwdlab/certificate-0.0.0.0.pem");
    let mode = accepted.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let named = url.replace("0.0.0.0", "localhost");
    let page = ["curl", "-s", "--cacert", accepted.to_str().unwrap(), &named];
    assert!(try_tool(&page).unwrap().contains("<title>"));
    assert!(curl(&["-b", &jar], "/api/runs").1.contains(&run));
    let stop = ["-X", "POST", "-d", "{\"request\": \"stop\"}", "-b", &jar];
    let steer = format!("/api/runs/{run}/steer");
    assert_eq!(curl(&stop, &steer).0, 401);

    let [cert, key] =
        ["cert.pem", "key.pem"].map(|name| lab.path().join(name).display().to_string());
    let made = format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
         -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {cert}"
    );
    try_tool(&made.split(' ').collect::<Vec<_>>()).unwrap();
    let other_token = lab.write("token", "another-token-of-16");
    let own = ["--cert", &cert, "--key", &key, "--token-file", &other_token];
    let (_server, url) = serve(&lab, "127.0.0.1:0", &own);
    let session = format!("{url}/api/session");
    let with = ["curl", "-sk", "-X", "POST", "-w", "%{http_code}", "-H"];
    let with = |header: &str| try_tool(&[&with[..], &[header, &session]].concat()).unwrap();
    assert!(with(&bearer).ends_with("401"));
    assert!(with("Authorization: Bearer another-token-of-16").ends_with("204"));
    let get = |more: &[&str], with: &str| {
        let path = format!("{url}/api/compare?run={run}&run={with}");
        try_tool(&[&["curl", "-s"], more, &[&path]].concat())
    };
    let refused = get(&["--cacert", &cert], &ramp).unwrap();
    assert!(
        refused.contains("no figure in common") && refused.contains(&run),
        "{refused}"
    );
    assert!(get(&[], &ramp).is_err(), "no authority has signed it");
    let both = get(&["--cacert", &cert], &other).unwrap();
    assert!(both.contains("\"outcome\""), "{both}");
}

/// The full screen of a run on a server: it follows and steers the run, and survives the loss of
/// the server.
#[test]
fn the_terminal_shows_a_run_of_a_dashboard() {
    if try_tool(&["curl", "--version"]).is_err() {
        return skipped("curl is not installed");
    }
    let Some(lab) = Lab::root() else { return };
    let old = simulated(&lab, "ndr --goals ndr");
    let campaign = short_trials(&lab);
    let mut going = lab.start(&["run", &campaign, "--json-stream"]);
    going.event("progress");
    let (mut server, url) = serve(&lab, "127.0.0.1:0", &[]);
    let elsewhere = Lab::new();
    let here = [("TMPDIR", elsewhere.path().to_str().unwrap())];
    let mut tty = Tty::start(
        &elsewhere,
        &["top", &format!("{url}#token={TOKEN}")],
        (80, 24),
        &here,
    );
    tty.wait_for_text("short-trials")
        .wait_for_text("running")
        .wait_for_text("trial 2");
    server.signal(rustix::process::Signal::KILL);
    server.wait_until("its end", |this| this.has_ended());
    server = serve(&lab, url.trim_start_matches("http://"), &[]).0;
    tty.keys("p")
        .wait_for_text("PAUSED")
        .keys("p")
        .wait_for_text(" running ");
    tty.keys("qs");
    going.wait_until("its end", |this| this.has_ended());
    tty.wait_for_text("interrupted").wait_for_text(" ended ");
    tty.keys("q");
    assert_eq!(tty.end(), 0);
    assert!(tty.is_restored());
    let mut tty = Tty::start(
        &elsewhere,
        &["top", &format!("{url}/runs/{old}")],
        (80, 24),
        &here,
    );
    tty.wait_for_text("REPLAY").keys("q");
    assert_eq!(tty.end(), 0);
    let copies = fs::read_dir(elsewhere.path()).unwrap();
    let mut copies = copies.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(
        !copies.any(|name| name.starts_with("fwdlab-top-")),
        "a copy was left"
    );
    drop(server);
    lab.assert_clean("a run behind a server");
}
