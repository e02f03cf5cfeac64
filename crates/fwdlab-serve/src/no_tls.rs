//! In place of `tls` in a build without it: nobody comes by it.

use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::net::TcpStream;

use crate::error::ServeError;

/// There is none.
#[derive(Clone)]
pub enum Tls {}

impl Tls {
    /// Never called.
    pub async fn accept(&self, _: TcpStream) -> std::io::Result<TcpStream> {
        match *self {}
    }
}

/// Says so.
pub fn acceptor(_: Option<&(PathBuf, PathBuf)>, _: SocketAddr) -> Result<Tls, ServeError> {
    Err(ServeError::NoTls)
}
