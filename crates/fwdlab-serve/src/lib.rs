//! The dashboard: a server that shows stored runs, and runs that go on, to browsers.
//!
//! It has no state of its own: whatever it answers is read from the directory of runs when it is asked, so that a server that is killed
//! loses nothing, and several may read the same runs. The only thing it writes are requests to a run that goes on, which need a
//! token. What is measured is not its business. Start with [`Server::bind`]; the paths are in `routes.rs`, who may ask in
//! `access.rs`, the page in `assets/`, made of `web/`.

#![forbid(unsafe_code)]

mod access;
mod api;
mod assets;
mod error;
mod listen;
mod metrics;
mod places;
mod routes;
mod server;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod token;

pub use error::ServeError;
pub use server::{Config, Page, Server};
pub use token::{new_token, token_of_file};
