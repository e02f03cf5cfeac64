//! Replaces `tls` in a build without that feature: no connection can be encrypted.

use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::net::TcpStream;

use crate::error::ServeError;

/// TLS that does not exist: no value of this type can be made.
#[derive(Clone)]
pub enum Tls {}

impl Tls {
    /// Never called, because there is no value.
    pub async fn accept(&self, _: TcpStream) -> std::io::Result<TcpStream> {
        match *self {}
    }
}

/// Fails: this build has no TLS.
pub fn acceptor(
    _: Option<(PathBuf, PathBuf)>,
    _: Option<PathBuf>,
    _: SocketAddr,
) -> Result<Tls, ServeError> {
    Err(ServeError::NoTls)
}
