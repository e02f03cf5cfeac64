//! The server: where it listens, what it reads, and its life.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use fwdlab_report::chart::Chart;
use fwdlab_store::StoredRun;

use crate::error::ServeError;
use crate::{listen, routes, tls, token};

/// Makes the report of a run: one page. None where there is no result yet.
pub type Page = fn(&StoredRun) -> Option<String>;

/// Makes the charts of a report of a run.
pub type Charts = fn(&StoredRun) -> Vec<Chart>;

/// What to serve, and where.
pub struct Config {
    /// Where to listen; port 0 takes any.
    pub listen: SocketAddr,
    /// The directory of runs.
    pub runs: PathBuf,
    /// What a browser must have to change a run, and to read at all where this is not loopback.
    pub token: String,
    /// Files with a certificate and its key; without them one is made where one is needed.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Makes reports.
    pub report: Page,
    /// Makes their charts, which the page of a run shows, too.
    pub charts: Charts,
    /// What rebuilds of one run cannot show to be real, for comparisons: a logarithm of a ratio.
    pub allowance: f64,
}

/// What every answer is made from.
pub(crate) struct Shared {
    pub runs: PathBuf,
    pub token: String,
    /// What a browser has that showed the token once: it may read.
    pub session: String,
    /// Reached from this machine only.
    pub local: bool,
    pub report: Page,
    pub charts: Charts,
    pub allowance: f64,
    /// Those who follow a run now.
    pub following: Arc<tokio::sync::Semaphore>,
}

/// A server that listens.
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    tls: Option<tls::Tls>,
    shared: Arc<Shared>,
}

/// So many browsers may follow runs at once.
const FOLLOWERS: usize = 64;

impl Server {
    /// Listens. Nothing is answered before [`Server::run`].
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn bind(config: Config) -> Result<Server, ServeError> {
        let bad = |source| ServeError::Listen {
            address: config.listen,
            source,
        };
        let listener = std::net::TcpListener::bind(config.listen).map_err(bad)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let local = address.ip().is_loopback();
        let tls = match local && config.certificate.is_none() {
            true => None,
            false => Some(tls::acceptor(config.certificate.as_ref(), address)?),
        };
        let shared = Arc::new(Shared {
            runs: config.runs,
            token: config.token,
            session: token::new_token()?,
            local,
            report: config.report,
            charts: config.charts,
            allowance: config.allowance,
            following: Arc::new(tokio::sync::Semaphore::new(FOLLOWERS)),
        });
        Ok(Server {
            listener,
            address,
            tls,
            shared,
        })
    }

    /// Where to look: without the token, which follows behind `#token=`.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/", self.address)
    }

    /// Is it reached from this machine only?
    pub fn is_local(&self) -> bool {
        self.shared.local
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// The system does not let it.
    pub fn run(self) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            listen::serve(listener, self.tls, routes::all(self.shared)).await;
            Ok(())
        })
    }
}
