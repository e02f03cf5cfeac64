//! A local copy of a run on a remote dashboard: copies the journal into a directory as it grows,
//! and forwards requests to the run. So `top` needs no network code.
//!
//! curl fetches the journal, because it handles proxies, certificates and TLS. Start with
//! [`Mirror::open`].

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use fwdlab_model::event::Request;
use fwdlab_store::Requests;
use serde_json::Value;

use crate::exit_code::Usage;

/// Delay between two attempts to reach a server.
const AGAIN: Duration = Duration::from_secs(1);
/// Interval of the checks for requests.
const LOOK: Duration = Duration::from_millis(100);

/// A server and its token.
#[derive(Debug, Clone)]
struct Server {
    base: String,
    token: Option<String>,
}

/// A run that is copied until this is dropped.
pub struct Mirror {
    dir: PathBuf,
    /// True if the run is still running.
    pub is_live: bool,
    is_left: Arc<AtomicBool>,
    /// The curl process that fetches the journal; killed at the end.
    fetching: Arc<Mutex<Option<Child>>>,
    threads: Vec<JoinHandle<()>>,
}

/// Returns true for the address of a dashboard, false for the name of a run.
pub fn is_address(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

impl Mirror {
    /// Starts to copy a run: the one in the address, or the newest of the server.
    ///
    /// # Errors
    /// If the server cannot be reached, or has no such run.
    pub fn open(address: &str) -> anyhow::Result<Mirror> {
        let (server, run) = Server::parse(address)?;
        let run = match run {
            Some(run) => run,
            None => {
                let all = server.json("/api/runs")?["runs"].take();
                let newest = all.get(0).and_then(|run| run["id"].as_str());
                newest.context("there is no run yet")?.to_owned()
            }
        };
        let shown = server.json(&format!("/api/runs/{run}"))?;
        let info = &shown["info"];
        let is_live = info["state"] == "running";
        let dir = directory()?;
        let mut mirror = Mirror {
            is_live,
            is_left: Arc::default(),
            fetching: Arc::default(),
            threads: Vec::new(),
            dir: dir.clone(),
        };
        let write = |name: &str, text: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))
        };
        write("run.json", &serde_json::to_vec(info)?)?;
        write("events.jsonl", b"")?;
        // hold the lock as long as more may come: followers take a locked run for a running one
        let lock = File::create(dir.join(".lock")).context("create a lock")?;
        lock.lock().context("lock the copy of a run")?;
        let path = format!("/api/runs/{run}/events");
        let copy = Copy {
            server: server.clone(),
            path,
            to: dir.join("events.jsonl"),
            is_left: mirror.is_left.clone(),
            fetching: mirror.fetching.clone(),
        };
        let copying = std::thread::spawn(move || {
            copy.run();
            drop(lock);
        });
        if !is_live {
            // a replay needs the complete journal at its start
            let _ = copying.join();
            return Ok(mirror);
        }
        mirror.threads.push(copying);
        let (mut requests, is_left) = (Requests::open(&dir), mirror.is_left.clone());
        mirror.threads.push(std::thread::spawn(move || {
            while !is_left.load(Ordering::Acquire) {
                for request in requests.read() {
                    // the effect of a request comes back in the journal; a refusal changes nothing
                    // on the screen
                    let _ = server.steer(&run, request);
                }
                std::thread::sleep(LOOK);
            }
        }));
        Ok(mirror)
    }

    /// Returns the directory of the copy.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.is_left.store(true, Ordering::Release);
        let fetching = self.fetching.lock();
        if let Some(child) = &mut *fetching.unwrap_or_else(PoisonError::into_inner) {
            let _ = child.kill();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Creates a directory that other users cannot read.
fn directory() -> anyhow::Result<PathBuf> {
    let root = std::env::temp_dir();
    for n in 0..100 {
        let path = root.join(format!("fwdlab-top-{}-{n}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("create {}", path.display()));
            }
        }
    }
    bail!(
        "{} is full of copies of runs that were left",
        root.display()
    )
}

impl Server {
    /// Returns the server of an address, and the run in it, if any.
    fn parse(address: &str) -> anyhow::Result<(Server, Option<String>)> {
        let wrong = || {
            let reason = format!(
                "`{address}` is not an address of a dashboard: http://HOST:8080, or that of the page of a run, http://HOST:8080/runs/ID"
            );
            Usage(reason)
        };
        let (address, token) = match address.split_once("#token=") {
            Some((address, token)) => (address, Some(token.to_owned())),
            None => (address, std::env::var("FWDLAB_TOKEN").ok()),
        };
        let address = address.split(['?', '#']).next().unwrap_or_default();
        let (scheme, rest) = address.split_once("://").ok_or_else(wrong)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        // both become lines of a file that curl reads
        let is_plain = |text: &str| !text.contains(['"', '\\', '\n', '\r', ' ']);
        let is_sound = !host.is_empty() && is_plain(host) && token.iter().all(|t| is_plain(t));
        let run = match path.trim_end_matches('/') {
            "" | "runs" => None,
            path => Some(path.strip_prefix("runs/").ok_or_else(wrong)?.to_owned()),
        };
        let is_run = |run: &String| !run.contains('/') && is_plain(run);
        if !is_sound || !run.iter().all(is_run) {
            return Err(wrong().into());
        }
        let base = format!("{scheme}://{host}");
        Ok((Server { base, token }, run))
    }

    /// Starts curl. Passes the token and the address on standard input, because all users can see
    /// the arguments of processes.
    fn curl(&self, path: &str, more: &[&str]) -> anyhow::Result<Child> {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--fail-with-body",
            "--no-buffer",
        ])
        .args(more)
        .args(["--config", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
        let mut child = curl
            .spawn()
            .context("cannot run curl, which fetches runs from other machines; install it")?;
        let mut config = format!("url = \"{}{path}\"\n", self.base);
        if let Some(token) = &self.token {
            config += &format!("header = \"Authorization: Bearer {token}\"\n");
        }
        let mut input = child.stdin.take().context("curl has no input")?;
        input.write_all(config.as_bytes()).context("tell curl")?;
        Ok(child)
    }

    fn ask(&self, path: &str, more: &[&str]) -> anyhow::Result<String> {
        let output = self.curl(path, more)?.wait_with_output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(printed);
        }
        let of_server = serde_json::from_str(&printed).ok();
        let of_server =
            of_server.and_then(|printed: Value| Some(printed["error"].as_str()?.to_owned()));
        let of_curl = String::from_utf8_lossy(&output.stderr);
        let reason = of_server.unwrap_or_else(|| of_curl.trim().to_owned());
        bail!("cannot fetch {}{path}: {reason}", self.base)
    }

    fn json(&self, path: &str) -> anyhow::Result<Value> {
        let output = self.ask(path, &["--max-time", "30"])?;
        serde_json::from_str(&output).with_context(|| format!("{} is not a dashboard", self.base))
    }

    fn steer(&self, run: &str, request: Request) -> anyhow::Result<String> {
        let body = serde_json::json!({ "request": request }).to_string();
        let path = format!("/api/runs/{run}/steer");
        self.ask(&path, &["--max-time", "30", "--data", &body])
    }
}

/// Copies the journal.
struct Copy {
    server: Server,
    path: String,
    to: PathBuf,
    is_left: Arc<AtomicBool>,
    fetching: Arc<Mutex<Option<Child>>>,
}

impl Copy {
    /// Copies until the journal ends or the mirror is dropped. After a lost connection, continues
    /// where it stopped.
    fn run(&self) {
        let mut after = "0".to_owned();
        while !self.is_left.load(Ordering::Acquire) {
            if matches!(self.once(&mut after), Ok(true)) {
                return;
            }
            std::thread::sleep(AGAIN);
        }
    }

    /// Returns true at the end of the journal.
    fn once(&self, after: &mut String) -> anyhow::Result<bool> {
        let path = format!("{}?after={after}", self.path);
        let mut child = self.server.curl(&path, &[])?;
        let events = child.stdout.take().context("curl has no output")?;
        *self.fetching.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        let mut to = OpenOptions::new().append(true).open(&self.to)?;
        let (mut id, mut is_end) = (String::new(), false);
        for line in BufReader::new(events).lines() {
            let line = line?;
            if let Some(found) = line.strip_prefix("id: ") {
                id = found.to_owned();
            } else if line.strip_prefix("event: ") == Some("end") {
                is_end = true;
            } else if let Some(data) = line.strip_prefix("data: ").filter(|_| !is_end) {
                to.write_all(format!("{data}\n").as_bytes())?;
                after.clone_from(&id);
            }
        }
        let mut fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut child) = fetching.take() {
            child.wait()?;
        }
        Ok(is_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_pages() {
        let of = |address: &str| {
            let (server, run) = Server::parse(address).unwrap();
            (server.base, server.token, run)
        };
        let base = "http://lab:8080".to_owned();
        assert_eq!(of("http://lab:8080"), (base.clone(), None, None));
        assert_eq!(of("http://lab:8080/runs?q=a"), (base.clone(), None, None));
        let run = Some("2026-11-21-quick-7f3k".to_owned());
        assert_eq!(
            of("http://lab:8080/runs/2026-11-21-quick-7f3k?case=a#token=abc"),
            (base, Some("abc".into()), run)
        );
        for bad in [
            "http://",
            "http://lab/elsewhere",
            "http://lab/runs/a/b",
            "http://la b",
            "http://lab\"/",
        ] {
            assert!(Server::parse(bad).is_err(), "{bad}");
        }
        assert!(is_address("https://lab") && !is_address("@1"));
    }
}
