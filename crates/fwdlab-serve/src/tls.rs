//! TLS for servers that are reachable from other machines: with a certificate of the user, or a
//! self-signed one created at the start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::error::ServeError;

/// Performs the TLS handshake with clients.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// Returns the encrypted stream, after the handshake.
    pub async fn accept(
        &self,
        stream: TcpStream,
    ) -> std::io::Result<impl AsyncRead + AsyncWrite + Unpin> {
        self.0.accept(stream).await
    }
}

/// Uses these files, or creates a certificate.
pub fn acceptor(
    files: Option<&(PathBuf, PathBuf)>,
    address: SocketAddr,
) -> Result<Tls, ServeError> {
    let (chain, key) = match files {
        Some((chain, key)) => read(chain, key)?,
        None => make(address)?,
    };
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| ServeError::Certificate(error.to_string()))?;
    Ok(Tls(TlsAcceptor::from(Arc::new(config))))
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read(chain: &Path, key: &Path) -> Result<Pair, ServeError> {
    let bad = |path: &Path| {
        let path = path.display().to_string();
        move |error| ServeError::Certificate(format!("{path}: {error}; it must be PEM"))
    };
    let all = CertificateDer::pem_file_iter(chain).map_err(bad(chain))?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(bad(chain))?;
    Ok((all, PrivateKeyDer::from_pem_file(key).map_err(bad(key))?))
}

fn make(address: SocketAddr) -> Result<Pair, ServeError> {
    let mut names = vec!["localhost".to_owned()];
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| ServeError::Certificate(error.to_string()))?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}
