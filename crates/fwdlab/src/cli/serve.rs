//! `fwdlab serve`: the dashboard, or ports for clients of TRex (`--trex`, in `serve_trex`). Start
//! with [`Serve::run`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use fwdlab_serve::{Config, Server, new_token, token_of_file};

use super::serve_trex::Trex;
use super::{Global, runs};
use crate::exit_code::{Code, Usage};
use crate::output;

/// The default address of the dashboard.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// Show runs in a browser, while they are running and afterwards
///
/// On this machine everyone may look, and who has the token may pause, resume and stop runs, and skip test cases. Where it listens on
/// another address, everything takes the token, through TLS. It keeps nothing itself: end it with Ctrl-C at any time.
///
/// With --trex it serves ports to clients of TRex instead, which have no token: docs/reference/trex.md.
#[derive(Debug, Args)]
pub struct Serve {
    /// Directory of runs [default: as everywhere, see --runs]
    #[arg(conflicts_with = "trex")]
    dir: Option<PathBuf>,
    /// Where to listen; port 0 takes any [default: 127.0.0.1:8080, with --trex 127.0.0.1:4501]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// File with the token, which is made if there is none [default: a new token at every start]
    #[arg(long, value_name = "FILE", conflicts_with = "trex")]
    token_file: Option<PathBuf>,
    /// Certificate for TLS, PEM [default: where one is needed, one is made at the start]
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "trex")]
    cert: Option<PathBuf>,
    /// Its key, PEM
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
        let token = match &self.token_file {
            Some(path) => token_of_file(path).map_err(wrong)?,
            None => new_token()?,
        };
        let runs = match self.dir {
            Some(dir) => dir,
            None => global.runs_root()?,
        };
        let server = Server::bind(Config {
            listen: self.listen.unwrap_or(LISTEN),
            runs: runs.clone(),
            token: token.clone(),
            certificate: self.cert.zip(self.key),
            report: runs::page,
            charts: runs::charts,
            allowance: fwdlab_measure::paired::ALLOWANCE,
        })
        .map_err(wrong)?;
        let url = server.url();
        match global.json || global.json_stream {
            true => output::json(&serde_json::json!({
                "url": url, "token": token, "runs": runs,
            }))?,
            false => output::result(&format!(
                "runs      {}\nlook      {url}\nsteer     {url}#token={token}",
                runs.display()
            )),
        }
        server.run()?;
        Ok(Code::Done)
    }
}
