//! Takes connections in, as they are or through TLS. A slow handshake holds nobody else up.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Who has not shaken hands by then is let go.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// So many handshakes are finished and wait to be served.
const WAITING: usize = 16;

/// Connections, ready to be served.
pub struct Connections {
    address: SocketAddr,
    ready: mpsc::Receiver<(Connection, SocketAddr)>,
}

impl Connections {
    /// Begins to take them in, within a runtime.
    pub fn of(listener: TcpListener, tls: Option<TlsAcceptor>) -> io::Result<Connections> {
        let address = listener.local_addr()?;
        let (found, ready) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            loop {
                let (stream, from) = match listener.accept().await {
                    Ok(one) => one,
                    Err(_) => {
                        // no descriptors are left, or it went away: others may still come
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                };
                let (found, tls) = (found.clone(), tls.clone());
                tokio::spawn(async move {
                    let connection = match tls {
                        None => Connection::Plain(stream),
                        Some(tls) => {
                            match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                                Ok(Ok(stream)) => Connection::Tls(Box::new(stream)),
                                _ => return,
                            }
                        }
                    };
                    let _ = found.send((connection, from)).await;
                });
            }
        });
        Ok(Connections { address, ready })
    }
}

impl Listener for Connections {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.ready.recv().await {
            Some(one) => one,
            // whoever takes connections in never ends
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// A connection of either kind.
pub enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Connection::Tls(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Connection::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_flush(context),
            Connection::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Connection::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
