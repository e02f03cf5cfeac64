//! The server's answers: each test starts a server on its own port, with a client that writes raw
//! bytes.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use fwdlab_model::event::{Event, EventKind, Request};
use fwdlab_model::result::{RunInfo, RunState};
use fwdlab_serve::{Config, Page, Server};
use fwdlab_store::{Labels, Requests, RunWriter};
use tempfile::TempDir;

const TOKEN: &str = "0123456789abcdef";
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>";

fn served(runs: &Path) -> SocketAddr {
    served_with(runs, |run| {
        Some(format!("<!doctype html>report of {}", run.info.id))
    })
}

fn served_with(runs: &Path, report: Page) -> SocketAddr {
    let server = Server::bind(Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        runs: runs.into(),
        token: TOKEN.into(),
        certificate: None,
        state: None,
        report,
        fragment: |run| Some(format!("content of {}", run.info.id)),
        picture: |run, file| (file == "a.svg").then(|| run.info.id.clone().into_bytes()),
        allowance: 0.0,
    })
    .unwrap();
    let url = server.url();
    std::thread::spawn(move || server.run().unwrap());
    let address = url.strip_prefix("http://").unwrap().trim_end_matches('/');
    address.parse().unwrap()
}

/// As many browsers may connect in one moment as are served, also while the server is busy.
#[test]
fn the_queue_of_connections_is_as_long_as_the_number_served() {
    let test = "the_queue_of_connections_is_as_long_as_the_number_served";
    let runs = TempDir::new().unwrap();
    let at = format!("sport = :{}", served(runs.path()).port());
    let Ok(listed) = Command::new("ss").args(["-Hltn", &at]).output() else {
        return println!("SKIPPED: {test}: there is no program ss");
    };
    let listed = String::from_utf8(listed.stdout).unwrap();
    // state, queue now, queue at most
    let most: u32 = listed.split_whitespace().nth(2).unwrap().parse().unwrap();
    assert_eq!(most, 256, "{listed}");
}

fn info(id: &str) -> RunInfo {
    serde_json::from_value(serde_json::json!({
        "format": fwdlab_model::version::RUN_FORMAT,
        "id": id, "kind": "campaign", "tool_version": "0", "command_line": [], "seed": 1,
        "started_at": "2026-11-23T00:00:00Z", "state": "running",
        "parameters": {"campaign": HOSTILE, "bed": "rack1"},
        "facts": {
            "kernel": "6.1", "kernel_command_line": "secret=1", "cpu_model": "x", "cpus": 1, "virtual_machine": false,
            "mitigations": {}, "memory_bytes": 1, "privileged": false, "placement": {}, "sysctls": {},
            "offloads": {}, "engine": "sim:x"
        }
    }))
    .unwrap()
}

fn note(id: &str, text: &str) -> Event {
    let kind = EventKind::Note { text: text.into() };
    Event {
        t: 1.0,
        run: id.into(),
        kind,
    }
}

const ID: &str = "2026-11-23-campaign-aaaa";

/// A running run, with these notes in its journal.
fn live(notes: &[&str]) -> (TempDir, RunWriter) {
    let dir = tempfile::tempdir().unwrap();
    let info = info(ID);
    let mut writer = RunWriter::create(dir.path(), &info).unwrap();
    let kind = EventKind::RunStarted {
        format: 3,
        info: Box::new(info),
        estimate_s: 1.0,
        guessed: false,
        steps: 1,
    };
    let started = Event {
        t: 0.0,
        run: ID.into(),
        kind,
    };
    writer.event(&started).unwrap();
    for text in notes {
        writer.event(&note(ID, text)).unwrap();
    }
    (dir, writer)
}

fn ask(to: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    let host = if headers.contains("Host:") {
        String::new()
    } else {
        format!("Host: {to}\r\n")
    };
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    stream
}

fn get(to: SocketAddr, path: &str) -> String {
    let mut text = String::new();
    ask(to, "GET", path, "", "")
        .read_to_string(&mut text)
        .unwrap();
    text
}

fn code(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn post(to: SocketAddr, headers: &str, body: &str) -> u16 {
    let path = format!("/api/runs/{ID}/steer");
    let mut text = String::new();
    ask(to, "POST", &path, headers, body)
        .read_to_string(&mut text)
        .unwrap();
    code(&text)
}

/// A stream of events: id and data of each.
struct Following(BufReader<TcpStream>);

impl Following {
    fn from(to: SocketAddr, headers: &str) -> Following {
        let path = format!("/api/runs/{ID}/events");
        Following(BufReader::new(ask(to, "GET", &path, headers, "")))
    }

    fn next(&mut self) -> (String, String) {
        let (mut id, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "it ended");
            if let Some(found) = line.strip_prefix("id: ") {
                id = found.trim().to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (id, data.trim().to_owned());
            }
        }
    }
}

#[test]
fn history_precedes_live_events_and_a_reconnect_misses_nothing() {
    let (dir, mut writer) = live(&["one", "two"]);
    let to = served(dir.path());
    let mut first = Following::from(to, "");
    assert!(first.next().1.contains("run_started"));
    let (after_one, one) = first.next();
    assert!(one.contains("one"));
    assert!(first.next().1.contains("two"));
    writer.event(&note(ID, "three")).unwrap();
    assert!(first.next().1.contains("three"));
    // another server, as if the first one was killed
    let mut again = Following::from(
        served(dir.path()),
        &format!("Last-Event-ID: {after_one}\r\n"),
    );
    assert!(again.next().1.contains("two"));
    assert!(again.next().1.contains("three"));
    // an unknown position: all events again
    let mut beyond = Following::from(to, "Last-Event-ID: 999999999\r\n");
    assert!(beyond.next().1.contains("run_started"));
    drop(writer);
    assert_eq!(first.next().1, "{}", "the end is told");
}

#[test]
fn runs_are_changed_only_with_the_token() {
    let (dir, writer) = live(&[]);
    let to = served(dir.path());
    let mut requests = Requests::open(&dir.path().join(ID));
    let pause = r#"{"request": "pause"}"#;
    assert_eq!(post(to, "", pause), 401);
    assert_eq!(
        post(to, "Authorization: Bearer 0123456789abcdee\r\n", pause),
        401
    );
    let good = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(post(to, &good, r#"{"request": "fly"}"#), 400);
    assert_eq!(requests.read(), []);
    assert_eq!(post(to, &good, pause), 202);
    assert_eq!(requests.read(), [Request::Pause]);
    drop(writer);
    assert_eq!(post(to, &good, pause), 409, "it does not run any more");
}

#[test]
fn foreign_names_and_paths_lead_nowhere() {
    let (dir, _writer) = live(&[]);
    std::fs::write(dir.path().join("run.json"), "{}").unwrap();
    let to = served(dir.path());
    let named = |host: &str| {
        let mut text = String::new();
        let header = format!("Host: {host}\r\n");
        ask(to, "GET", "/api/runs", &header, "")
            .read_to_string(&mut text)
            .unwrap();
        code(&text)
    };
    for (host, expect) in [
        ("localhost:80", 200),
        ("127.0.0.1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("", 421),
    ] {
        assert_eq!(named(host), expect, "{host}");
    }
    for id in [
        "..",
        ".",
        "%2e%2e",
        "..%2f..%2fetc",
        "%2fetc",
        "x%00",
        ".hidden",
        "none",
    ] {
        let answer = get(to, &format!("/api/runs/{id}"));
        assert_eq!(code(&answer), 404, "{id}: {answer}");
    }
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("run.json"), "{}").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("link")).unwrap();
    assert_eq!(code(&get(to, "/api/runs/link")), 404);
}

#[test]
fn runs_are_listed_and_shown_without_private_data() {
    let (dir, writer) = live(&["one"]);
    let to = served(dir.path());
    let all = get(to, "/api/runs?q=bed:rack*%20state:running");
    assert!(
        all.contains(ID) && all.contains("content-type: application/json"),
        "{all}"
    );
    assert!(all.contains("\"total\":1"), "{all}");
    assert!(!get(to, "/api/runs?q=!state:running").contains(ID));
    let second = get(to, "/api/runs?page=2");
    assert!(
        second.contains("\"total\":1") && !second.contains(ID),
        "{second}"
    );
    let one = get(to, &format!("/api/runs/{ID}"));
    assert!(one.contains("rack1") && !one.contains("secret=1"), "{one}");
    assert!(!Following::from(to, "").next().1.contains("secret=1"));
    assert!(get(to, "/api/beds").contains("rack1"));
    assert!(get(to, "/metrics").contains("fwdlab_runs{state=\"running\"} 1"));
    assert_eq!(code(&get(to, "/api/trend")), 200);
    assert_eq!(code(&get(to, "/api/compare")), 400);
    assert!(get(to, &format!("/runs/{ID}/report")).contains("sandbox"));
    let chart = get(to, &format!("/runs/{ID}/charts/a.svg"));
    assert!(
        chart.contains("image/svg+xml") && chart.ends_with(ID),
        "{chart}"
    );
    assert!(get(to, &format!("/runs/{ID}/charts/b.svg")).starts_with("HTTP/1.1 404"));
    let brief = get(to, &format!("/api/runs/{ID}?brief=true"));
    assert!(
        one.contains("\"trials\":[") && brief.contains("\"has_result\""),
        "{brief}"
    );
    assert!(
        !brief.contains("\"trials\"") && !brief.contains("\"summary\""),
        "{brief}"
    );
    let content = get(to, &format!("/api/runs/{ID}/report"));
    assert!(content.contains(&format!("content of {ID}")), "{content}");
    assert!(get(to, "/assets/report.css").contains(":host"));
    let app = get(to, "/runs");
    assert!(
        app.contains("default-src 'none'") && app.contains("/assets/app.js"),
        "{app}"
    );
    drop(writer);
}

/// The chart of the load has the windows at the end of the journal, and the metrics the last of
/// them.
#[test]
fn the_latest_windows_of_a_run_are_drawn() {
    let (dir, mut writer) = live(&["one"]);
    let to = served(dir.path());
    let load = format!("/api/runs/{ID}/load");
    let drawn = |answer: &str| (code(answer), answer.contains("The last 2 windows"));
    assert_eq!(drawn(&get(to, &load)), (200, false));
    for done in [1, 2] {
        let kind = EventKind::Progress {
            activity: "x".into(),
            done,
            steps: 9,
            left_s: 1.0,
            offered_load_pps: Some(1e6),
            forwarding_rate_pps: Some(9e5),
            estimate: None,
        };
        let event = Event {
            t: f64::from(done),
            run: ID.into(),
            kind,
        };
        writer.event(&event).unwrap();
    }
    assert_eq!(drawn(&get(to, &load)), (200, true));
    let done = format!("fwdlab_run_steps_done{{run=\"{ID}\"}} 2\n");
    assert!(get(to, "/metrics").contains(&done));
}

/// The line of a run that has ended is kept until the run changes.
#[test]
fn a_line_of_the_list_is_never_stale() {
    let (dir, writer) = live(&[]);
    let mut info = info(ID);
    info.state = RunState::Failed;
    writer.finish(&info, None, None).unwrap();
    let run = dir.path().join(ID);
    let earlier = SystemTime::now() - Duration::from_secs(60);
    std::fs::File::open(&run)
        .unwrap()
        .set_modified(earlier)
        .unwrap();
    let to = served(dir.path());
    let all = get(to, "/api/runs");
    assert!(
        all.contains("\"state\":\"failed\"") && !all.contains("nightly"),
        "{all}"
    );
    let labels = Labels {
        tags: ["nightly".to_owned()].into(),
        note: None,
    };
    fwdlab_store::label(&run, &labels).unwrap();
    let all = get(to, "/api/runs?q=tag:nightly");
    assert!(all.contains(ID), "{all}");
    std::fs::remove_dir_all(&run).unwrap();
    assert!(get(to, "/api/runs").contains("\"total\":0"));
}

#[test]
fn a_client_with_an_incomplete_request_is_disconnected() {
    let (dir, writer) = live(&[]);
    let to = served(dir.path());
    let mut silent = TcpStream::connect(to).unwrap();
    let mut slow = TcpStream::connect(to).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    // a client that follows a run is not closed: its request is complete, and the answer lasts as
    // long as the run
    let mut following = Following::from(to, "");
    assert!(following.next().1.contains("run_started"));
    for stream in [&mut silent, &mut slow] {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut left = Vec::new();
        stream.read_to_end(&mut left).unwrap();
    }
    drop(writer);
    assert_eq!(following.next().1, "{}");
}

/// More clients than there are places, none of which reads: one of them is dropped for a client
/// that does.
#[test]
fn a_client_that_does_not_read_does_not_block_others() {
    const LARGE: usize = 8 << 20;
    let (dir, writer) = live(&[]);
    let to = served_with(dir.path(), |_| Some("x".repeat(LARGE)));
    let path = format!("/runs/{ID}/report");
    let deaf: Vec<TcpStream> = (0..300).map(|_| ask(to, "GET", &path, "", "")).collect();
    let mut reads = ask(to, "GET", &path, "", "");
    reads
        .set_read_timeout(Some(Duration::from_secs(40)))
        .unwrap();
    let mut answer = Vec::new();
    reads.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > LARGE, "{} bytes", answer.len());
    drop((deaf, writer));
}

#[test]
fn elsewhere_takes_tls() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::bind(Config {
        listen: "0.0.0.0:0".parse().unwrap(),
        runs: dir.path().into(),
        token: TOKEN.into(),
        certificate: None,
        state: None,
        report: |_| None,
        fragment: |_| None,
        picture: |_, _| None,
        allowance: 0.0,
    })
    .unwrap();
    assert!(server.url().starts_with("https://") && !server.is_local());
}
