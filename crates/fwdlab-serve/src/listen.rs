//! Takes connections in, as they are or through TLS, and serves each by itself. One that is slow, or says nothing, holds nobody else up for
//! long.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Who has not shaken hands by then is let go.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// So is who has not asked for anything by then, at first or after an answer.
const QUESTION: Duration = Duration::from_secs(10);

/// So many connections are served at once; others wait in the system's queue.
const MOST: usize = 256;

/// Serves for ever.
pub async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, router: Router) {
    let places = Arc::new(Semaphore::new(MOST));
    // nobody closes the semaphore
    while let Ok(place) = places.clone().acquire_owned().await {
        let (stream, _) = match listener.accept().await {
            Ok(one) => one,
            Err(_) => {
                // no descriptors are left, or it went away: others may still come
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (tls, router) = (tls.clone(), router.clone());
        tokio::spawn(async move {
            let _place = place;
            match tls {
                None => one(TokioIo::new(stream), router).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) =
                        tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await
                    {
                        one(TokioIo::new(stream), router).await;
                    }
                }
            }
        });
    }
}

/// Answers on one connection until its end, however it ends.
async fn one(stream: impl Read + Write + Unpin, router: Router) {
    let answers = TowerToHyperService::new(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(QUESTION);
    let _ = http.serve_connection(stream, answers).await;
}
