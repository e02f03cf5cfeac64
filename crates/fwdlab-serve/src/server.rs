//! The server: its address, its data, and its lifetime.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use fwdlab_store::{Roots, StoredRun};

use crate::api::runs::Lines;
use crate::error::ServeError;
use crate::{listen, places, routes, tls, token};

/// Creates the report of a run: one page, or its content. `None` if there is no result yet.
pub type Page = fn(StoredRun) -> Option<String>;
/// Draws a chart of a run, by the name of its file, if the run has it and the program can.
pub type Picture = fn(StoredRun, &str) -> Option<Vec<u8>>;

/// Configuration of the server.
pub struct Config {
    /// The address to listen on; port 0 takes any.
    pub listen: SocketAddr,
    /// The directory of runs.
    pub runs: Roots,
    /// The token that a browser needs to change a run, and to read at all if the address is not
    /// loopback.
    pub token: String,
    /// Files with a certificate and its key; without them one is created if needed.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The folder that keeps a created certificate for the next start: browsers accept it once.
    pub state: Option<PathBuf>,
    /// Creates reports.
    pub report: Page,
    /// Creates their content, which the dashboard's page of a run shows.
    pub fragment: Page,
    /// Draws charts as files: `receive-rate.svg`.
    pub picture: Picture,
    /// The allowance for comparisons: a difference that rebuilds of one run cannot prove, as the
    /// logarithm of a ratio.
    pub allowance: f64,
}

/// What every request uses.
pub(crate) struct Shared {
    pub runs: Roots,
    pub token: String,
    /// The cookie of a browser that has shown the token: it may read.
    pub session: String,
    /// True if only reachable from this machine.
    pub local: bool,
    pub report: Page,
    pub fragment: Page,
    pub picture: Picture,
    pub allowance: f64,
    pub lines: Lines,
    /// Limits the clients that follow a run.
    pub following: Arc<tokio::sync::Semaphore>,
}

/// A listening server.
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    tls: Option<tls::Tls>,
    shared: Arc<Shared>,
}

/// Maximum number of browsers that follow runs at the same time.
const FOLLOWERS: usize = 64;

impl Server {
    /// Listens. Requests are only answered by [`Server::run`].
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn bind(config: Config) -> Result<Server, ServeError> {
        let bad = |source| ServeError::Listen {
            address: config.listen,
            source,
        };
        let listener = std::net::TcpListener::bind(config.listen).map_err(bad)?;
        // the library's queue is shorter than the number of connections that are served
        rustix::net::listen(&listener, places::MOST as i32).map_err(|e| bad(e.into()))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let local = address.ip().is_loopback();
        let tls = match local && config.certificate.is_none() {
            true => None,
            false => Some(tls::acceptor(config.certificate, config.state, address)?),
        };
        let shared = Arc::new(Shared {
            runs: config.runs,
            session: token::session_of(&config.token),
            token: config.token,
            local,
            report: config.report,
            fragment: config.fragment,
            picture: config.picture,
            allowance: config.allowance,
            lines: Lines::default(),
            following: Arc::new(tokio::sync::Semaphore::new(FOLLOWERS)),
        });
        Ok(Server {
            listener,
            address,
            tls,
            shared,
        })
    }

    /// Returns the URL, without the token, which is appended as `#token=`.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/", self.address)
    }

    /// Returns true if it is only reachable from this machine.
    pub fn is_local(&self) -> bool {
        self.shared.local
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn run(self) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let shared = self.shared.clone();
        // so that the first request need not wait
        std::thread::spawn(move || drop(shared.lines.all(&shared.runs)));
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            listen::serve(listener, self.tls, routes::all(self.shared)).await;
            Ok(())
        })
    }
}
