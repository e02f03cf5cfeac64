//! Limits the connections and the large answers in memory. A client that does not read makes room
//! for others.
//!
//! An answer takes a place from before it is created until its last bytes are handed to the kernel,
//! because it is in memory for that time. The newest waiting request gets the next place: a crowd
//! of clients that never read then does not delay others. Start with [`Places::enter`]
//! (connections) and [`answered`] (answers).

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Extension, Request};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::error::Refusal;

/// Maximum number of connections, in total and from one address.
pub(crate) const MOST: usize = 256;
const MOST_OF_PEER: usize = 128;

/// Maximum number of answers that are created and sent at the same time.
const ANSWERS: usize = 4;

/// A connection that reads nothing for this long is closed.
const WRITE: Duration = Duration::from_secs(10);

/// Also closed: a connection whose answer has a place that others wait for, if it reads nothing for
/// this long, or not all of it within `SLOW`. Two consecutive lost segments, or a machine that
/// stalls for a second, are tolerated.
const STALLED: Duration = Duration::from_secs(3);
const SLOW: Duration = Duration::from_secs(30);

/// How long an answer waits for a place.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers are written in pieces of this size, so that a place becomes free only when its answer
/// has been sent.
const PIECE: usize = 64 << 10;

/// The places of connections and answers.
#[derive(Default)]
pub struct Places {
    /// Connections, oldest first.
    connections: Mutex<Vec<Arc<Connection>>>,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    /// Connections whose answers have a place, and since when they are being sent.
    taken: Vec<(Arc<Connection>, Option<Instant>)>,
    /// Waiting connections; the last one is next.
    waiting: Vec<oneshot::Sender<Place>>,
}

/// A connection, as others see it.
pub struct Connection {
    from: IpAddr,
    /// Since when nothing has been sent to it: it has not made a request yet, waits for the place
    /// of an answer, or does not read.
    stalled: Mutex<Option<Instant>>,
    close: Notify,
}

impl Connection {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stalled(&self) -> bool {
        self.lock().is_some_and(|since| since.elapsed() >= STALLED)
    }

    /// Returns when others need its place.
    pub async fn closed(&self) {
        self.close.notified().await;
    }
}

/// A connection's place, released when dropped.
pub struct ConnectionSlot {
    places: Arc<Places>,
    /// The connection.
    pub connection: Arc<Connection>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut all = lock(&self.places.connections);
        all.retain(|one| !Arc::ptr_eq(one, &self.connection));
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    /// Adds a connection. If there is no room, closes the one that has waited or read nothing for
    /// the longest time; `None` if there is none.
    pub fn enter(self: &Arc<Places>, from: IpAddr) -> Option<ConnectionSlot> {
        let mut all = lock(&self.connections);
        let of_peer = all.iter().filter(|one| one.from == from).count();
        if all.len() >= MOST || of_peer >= MOST_OF_PEER {
            let may_go = |one: &&Arc<Connection>| of_peer < MOST_OF_PEER || one.from == from;
            let stalled = (all.iter().filter(may_go)).filter(|one| one.lock().is_some());
            let longest = stalled.min_by_key(|one| *one.lock())?.clone();
            longest.close.notify_one();
            all.retain(|one| !Arc::ptr_eq(one, &longest));
        }
        let connection = Arc::new(Connection {
            from,
            stalled: Mutex::new(Some(Instant::now())),
            close: Notify::new(),
        });
        all.push(connection.clone());
        Some(ConnectionSlot {
            places: self.clone(),
            connection,
        })
    }

    /// Waits for a place for an answer.
    async fn answer(self: &Arc<Places>, connection: &Arc<Connection>) -> Option<Place> {
        let mut next = {
            let mut answers = lock(&self.answers);
            if answers.taken.len() < ANSWERS {
                return Some(self.place(&mut answers, connection));
            }
            let (send, receive) = oneshot::channel();
            connection.lock().get_or_insert_with(Instant::now);
            answers.waiting.push(send);
            receive
        };
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Ok(place) = timeout(STALLED, &mut next).await {
                let mut place = place.ok()?;
                place.belongs_to(connection);
                return Some(place);
            }
            self.close_stalled();
        }
        None
    }

    fn place(self: &Arc<Places>, answers: &mut Answers, of: &Arc<Connection>) -> Place {
        *of.lock() = None;
        answers.taken.push((of.clone(), None));
        Place {
            places: self.clone(),
            connection: of.clone(),
        }
    }

    /// Closes connections that do not read their answers while others wait for a place.
    fn close_stalled(&self) {
        for (connection, sent) in &lock(&self.answers).taken {
            let is_slow = sent.is_some_and(|since| since.elapsed() >= SLOW);
            if is_slow || connection.is_stalled() {
                connection.close.notify_one();
            }
        }
    }
}

/// An answer's place, which is passed on when dropped.
struct Place {
    places: Arc<Places>,
    connection: Arc<Connection>,
}

impl Place {
    fn with<T>(&self, change: impl FnOnce(&mut (Arc<Connection>, Option<Instant>)) -> T) {
        let mut answers = lock(&self.places.answers);
        let is_its = |(one, _): &&mut (Arc<Connection>, _)| Arc::ptr_eq(one, &self.connection);
        if let Some(taken) = answers.taken.iter_mut().find(is_its) {
            change(taken);
        }
    }

    fn belongs_to(&mut self, connection: &Arc<Connection>) {
        *connection.lock() = None;
        self.with(|taken| *taken = (connection.clone(), None));
        self.connection = connection.clone();
    }

    fn is_sent(&self) {
        self.with(|taken| *taken.1.get_or_insert_with(Instant::now));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut answers = lock(&self.places.answers);
        let is_its = |(one, _): &(Arc<Connection>, _)| Arc::ptr_eq(one, &self.connection);
        if let Some(at) = answers.taken.iter().position(is_its) {
            answers.taken.swap_remove(at);
        }
        let Some(next) = answers.waiting.pop() else {
            return;
        };
        let place = self.places.place(&mut answers, &self.connection);
        drop(answers);
        // a request that no longer waits drops it, and the previous one is next
        drop(next.send(place));
    }
}

/// Creates an answer once there is a place for it, and keeps the place until it has been sent.
pub async fn answered(
    Extension(places): Extension<Arc<Places>>,
    Extension(connection): Extension<Arc<Connection>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(place) = places.answer(&connection).await else {
        let reason = "this server has too many requests; try again in some seconds";
        let mut busy = Refusal(StatusCode::SERVICE_UNAVAILABLE, reason.into()).into_response();
        let headers = busy.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        return busy;
    };
    next.run(request).await.map(|body| {
        Body::new(Pieces {
            body,
            rest: Bytes::new(),
            place,
        })
    })
}

/// A body in pieces, with its place.
struct Pieces {
    body: Body,
    /// The rest of the last part of the body.
    rest: Bytes,
    place: Place,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.place.is_sent();
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return other,
            }
        }
        let bytes = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, more) = (self.body.size_hint(), self.rest.len() as u64);
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower() + more);
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + more);
        }
        whole
    }
}

/// A stream that fails if the other end reads nothing for too long.
pub struct TimedConnection<S> {
    stream: S,
    connection: Arc<Connection>,
    patience: Pin<Box<Sleep>>,
    /// True if the other end has not read what is there.
    is_waiting: bool,
}

impl<S> TimedConnection<S> {
    pub fn new(stream: S, connection: Arc<Connection>) -> TimedConnection<S> {
        TimedConnection {
            stream,
            connection,
            patience: Box::pin(sleep(WRITE)),
            is_waiting: false,
        }
    }

    /// Records the result of an attempt to write. Having nothing to write is not a sign of a
    /// reading client.
    fn record_io<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.is_waiting = false;
            return done;
        }
        if !self.is_waiting {
            let now = Instant::now();
            self.is_waiting = true;
            self.connection.lock().get_or_insert(now);
            self.patience.as_mut().reset(now + WRITE);
        }
        match self.patience.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedConnection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if matches!(written, Poll::Ready(Ok(1..))) {
            *self.connection.lock() = None;
        }
        self.record_io(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.record_io(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.record_io(context, ended)
    }
}
