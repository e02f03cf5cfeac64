//! Accepts connections, plain or through TLS, and serves each in its own task. A client that is
//! slow, silent, or does not read does not stall others for long: `places` decides which connection
//! makes room.

use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

use crate::places::{ConnectionSlot, Places, TimedConnection};
use crate::tls::Tls;

/// A connection is closed if the handshake takes longer.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A connection is closed if it sends no request for this time, at first or after an answer.
const QUESTION: Duration = Duration::from_secs(10);

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, tls: Option<Tls>, router: Router) {
    let places = Arc::<Places>::default();
    let router = router.layer(Extension(places.clone()));
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(one) => one,
            Err(_) => {
                // no descriptors are left, or the client disconnected: others may still come
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // without a place the connection is closed
        let Some(place) = places.enter(from.ip()) else {
            continue;
        };
        let (tls, router) = (tls.clone(), router.clone());
        tokio::spawn(async move {
            match tls {
                None => one(stream, router, place).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) =
                        tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await
                    {
                        one(stream, router, place).await;
                    }
                }
            }
        });
    }
}

/// Serves one connection until it ends for any reason.
async fn one(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router, place: ConnectionSlot) {
    let connection = place.connection.clone();
    let answers = TowerToHyperService::new(router.layer(Extension(connection.clone())));
    let stream = TokioIo::new(TimedConnection::new(stream, connection.clone()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(QUESTION);
    tokio::select! {
        _ = http.serve_connection(stream, answers) => {}
        () = connection.closed() => {}
    }
}
