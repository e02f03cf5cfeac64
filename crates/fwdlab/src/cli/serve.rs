//! `fwdlab serve`: the dashboard, or ports for clients of TRex (`--trex`, in `serve_trex`). Start
//! with [`Serve::run`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use fwdlab_lab::run::so_far::so_far;
use fwdlab_report::html::ShownFacts;
use fwdlab_report::run::Run;
use fwdlab_serve::{Config, Server, new_token, token_of_file};
use fwdlab_store::{Roots, StoredRun};

use super::run::shown;
use super::serve_trex::Trex;
use super::{Global, runs};
use crate::exit_code::{Code, Usage};
use crate::output;

/// The default address of the dashboard.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Show runs in a browser, while they are running and afterwards
///
/// On loopback, everyone on this machine can view runs; pausing, resuming, skipping and stopping
/// requires the token. On any other address, everything requires the token, and TLS is on. The
/// server stores nothing about runs: stop it with Ctrl-C at any time.
///
/// With --trex, it serves ports to TRex clients instead, which have no token: see
/// docs/reference/trex.md.
#[derive(Debug, Args)]
pub struct Serve {
    /// Directory of runs [default: --runs]
    #[arg(conflicts_with = "trex")]
    dir: Option<PathBuf>,
    /// Address to listen on; port 0 takes any free port [default: 127.0.0.1:8080, with --trex
    /// 127.0.0.1:4501]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// File with the token, created if it does not exist [default: dashboard_token in
    /// ~/.local/state/fwdlab]
    #[arg(long, value_name = "FILE", conflicts_with = "trex")]
    token_file: Option<PathBuf>,
    /// TLS certificate, PEM [default: generated at the start if needed]
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "trex")]
    cert: Option<PathBuf>,
    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "cert", conflicts_with = "trex")]
    key: Option<PathBuf>,
    #[command(flatten)]
    trex: Trex,
}

impl Serve {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        if self.trex.trex {
            return self.trex.run(self.listen, global);
        }
        let wrong = |error: fwdlab_serve::ServeError| Usage(error.to_string());
        let state = super::state_folder();
        let kept = || token_of_file(&state.as_ref()?.join("dashboard_token")).ok();
        let token = match &self.token_file {
            Some(path) => token_of_file(path).map_err(wrong)?,
            None => kept().map_or_else(new_token, Ok)?,
        };
        let runs = match self.dir {
            Some(dir) => Roots::from(&dir),
            None => global.runs_roots()?,
        };
        let server = Server::bind(Config {
            listen: self.listen.unwrap_or(LISTEN),
            runs: runs.clone(),
            token: token.clone(),
            certificate: self.cert.zip(self.key),
            state,
            report: page,
            fragment,
            picture,
            allowance: fwdlab_measure::paired::ALLOWANCE,
        })
        .map_err(wrong)?;
        let url = server.url();
        match global.json || global.json_stream {
            true => output::json(&serde_json::json!({
                "url": url, "token": token, "runs": runs.all(),
            }))?,
            false => output::lines(&format!(
                "runs      {runs}\nlook      {url}\nsteer     {url}#token={token}"
            )),
        }
        server.run()?;
        Ok(Code::Done)
    }
}

/// Returns the page of a stored run, if it has a result.
fn page(run: StoredRun) -> Option<String> {
    rendered(run, |run| fwdlab_report::html::page(run, ShownFacts::Brief))
}

/// Returns the content of that page.
fn fragment(run: StoredRun) -> Option<String> {
    rendered(run, |run| {
        fwdlab_report::html::fragment(run, ShownFacts::Brief, FORMATS)
    })
}

/// Formats of charts as files.
const FORMATS: &[&str] = match cfg!(feature = "png") {
    true => &["svg", "png"],
    false => &["svg"],
};

/// Draws a chart of a stored run, by the name of its file.
fn picture(run: StoredRun, file: &str) -> Option<Vec<u8>> {
    let (name, format) = file.rsplit_once('.')?;
    let chart = rendered(run, |run| {
        let mut all = fwdlab_report::charts::all(&[*run]).into_iter();
        all.find(|chart| chart.name == name)
    })??;
    match format {
        "svg" => Some(fwdlab_report::chart::svg::draw(&chart).into_bytes()),
        #[cfg(feature = "png")]
        "png" => {
            use fwdlab_report::chart::png;
            let fonts = png::Fonts::new(super::fonts::files()).ok()?;
            png::draw(&chart, &fonts).ok()
        }
        _ => None,
    }
}

fn rendered<T>(mut run: StoredRun, render: impl FnOnce(&Run<'_>) -> T) -> Option<T> {
    // a run in progress has no result yet
    if run.summary.is_none() {
        run.summary = Some(so_far(&run)?);
    }
    run.info.state = run.state;
    let profiles = runs::profiles(&run);
    Some(render(&shown(&run, &profiles)?))
}
