//! Takes connections in, as they are or through TLS. A slow handshake holds nobody else up.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Who has not shaken hands by then is let go.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// So many connections are served at once; others wait in the system's queue.
const MOST: usize = 256;

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
        let places = Arc::new(Semaphore::new(MOST));
        tokio::spawn(async move {
            while let Ok(place) = places.clone().acquire_owned().await {
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
                    let stream = match tls {
                        None => Stream::Plain(stream),
                        Some(tls) => {
                            match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                                Ok(Ok(stream)) => Stream::Tls(Box::new(stream)),
                                _ => return,
                            }
                        }
                    };
                    let connection = Connection {
                        stream,
                        _place: place,
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

/// A connection, in its place among those that are served.
pub struct Connection {
    stream: Stream,
    _place: OwnedSemaphorePermit,
}

/// One of either kind.
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
