//! The dashboard: a server that shows stored and running runs to browsers.
//!
//! It has no state of its own: every answer is read from the directory of runs on request, so a
//! killed server loses nothing, and several may read the same runs. It only writes requests to a
//! running run, which require a token. It does not measure. Start with [`Server::bind`]; the paths
//! are in `routes.rs`, access control in `access.rs`, the page in `assets/`, built from `web/`.

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
pub use server::{Config, Page, Picture, Server};
pub use token::{new_token, token_of_file};
