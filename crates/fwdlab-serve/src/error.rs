//! Errors: [`ServeError`] before anything is served, [`Refusal`] as the answer to one request.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use fwdlab_store::StoreError;

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}; choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The token is invalid.
    #[error(
        "the token in {} has fewer than 16 characters, or others than letters, digits, - and _; remove the file and a new one is made",
        path.display()
    )]
    Token {
        /// Its file.
        path: PathBuf,
    },
    /// This build contains no TLS.
    #[error(
        "this build has no TLS, without which fwdlab serves only this machine: listen on 127.0.0.1 (from elsewhere: ssh -L), or take the program of `make dist`"
    )]
    NoTls,
    /// There is no usable certificate.
    #[error("cannot use the certificate: {0}")]
    Certificate(String),
    /// The runtime failed.
    #[error("cannot serve: {0}")]
    Io(#[from] io::Error),
}

/// A request that is refused: the status code, and the reason.
#[derive(Debug)]
pub struct Refusal(pub StatusCode, pub String);

impl Refusal {
    pub fn wrong(reason: impl Into<String>) -> Refusal {
        Refusal(StatusCode::BAD_REQUEST, reason.into())
    }

    pub fn missing(reason: impl Into<String>) -> Refusal {
        Refusal(StatusCode::NOT_FOUND, reason.into())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        let code = match &error {
            StoreError::NoSuchRun { .. } | StoreError::NotARun { .. } => StatusCode::NOT_FOUND,
            StoreError::NotRunning { .. } => StatusCode::CONFLICT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal(code, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = serde_json::json!({ "error": self.1 }).to_string();
        let kind = [(axum::http::header::CONTENT_TYPE, "application/json")];
        (self.0, kind, body).into_response()
    }
}
