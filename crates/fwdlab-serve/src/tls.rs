//! TLS for servers that are reachable from other machines: with a certificate of the user, or a
//! self-signed one that is created at the first start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::ServeError;
use crate::token::write_once;

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

/// Uses these files, or creates a certificate; a folder keeps it for the next start.
pub fn acceptor(
    files: Option<(PathBuf, PathBuf)>,
    state: Option<PathBuf>,
    address: SocketAddr,
) -> Result<Tls, ServeError> {
    let kept = state.map(|folder| folder.join(format!("certificate-{}.pem", address.ip())));
    let (chain, key) = match (files, kept) {
        (Some((chain, key)), _) => read(&chain, &key)?,
        (None, Some(file)) if file.exists() => read(&file, &file)?,
        (None, file) => {
            let made = make(address)?;
            // a folder that cannot be written keeps nothing
            let _ = file.map(|file| write_once(&file, &made));
            parse(made.as_bytes(), made.as_bytes()).map_err(bad)?
        }
    };
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
        .map_err(bad)?;
    Ok(Tls(TlsAcceptor::from(Arc::new(config))))
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn bad(error: impl ToString) -> ServeError {
    ServeError::Certificate(error.to_string())
}

fn read(chain: &Path, key: &Path) -> Result<Pair, ServeError> {
    let [all, own] = [chain, key].map(|path| {
        let cannot = |error| bad(format!("{}: {error}", path.display()));
        std::fs::read(path).map_err(cannot)
    });
    parse(&all?, &own?).map_err(|error| {
        let (chain, key) = (chain.display(), key.display());
        bad(format!("{chain}, {key}: {error}; they must be PEM"))
    })
}

fn parse(chain: &[u8], key: &[u8]) -> Result<Pair, pem::Error> {
    let all = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
    Ok((all?, PrivateKeyDer::from_pem_slice(key)?))
}

/// Creates a certificate and its key, as PEM.
fn make(address: SocketAddr) -> Result<String, ServeError> {
    let mut names = vec!["localhost".to_owned()];
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    let made = rcgen::generate_simple_self_signed(names).map_err(bad)?;
    Ok(made.cert.pem() + &made.signing_key.serialize_pem())
}
