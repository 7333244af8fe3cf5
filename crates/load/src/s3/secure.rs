//! TLS to gateways.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Authorities of the system, where Debian and others have them.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The reason why a client cannot speak TLS to a gateway.
#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    #[error("certificates of authorities in {path} are of no use: {reason}")]
    Authorities { path: String, reason: String },
    #[error("{authority} has no name that a certificate could have")]
    Name { authority: String },
}

/// The side of a client: whose certificates it believes, and who a gateway has to be.
#[derive(Clone)]
pub struct Secure {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS to {:?}", self.name)
    }
}

impl Secure {
    /// `authority`: the gateway's `HOST:PORT`. `file`: authorities in PEM, or else the system's.
    pub fn new(authority: &str, file: Option<&str>) -> Result<Secure, SecureError> {
        let path = file.unwrap_or(SYSTEM_AUTHORITIES);
        let wrong = |reason: String| SecureError::Authorities { path: path.to_owned(), reason };
        let found = CertificateDer::pem_file_iter(Path::new(path)).map_err(|e| wrong(e.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in found {
            let certificate = certificate.map_err(|e| wrong(e.to_string()))?;
            // A system's file may have some that nobody can use.
            let added = roots.add(certificate);
            if file.is_some() {
                added.map_err(|e| wrong(e.to_string()))?;
            }
        }
        if roots.is_empty() {
            return Err(wrong("it has no certificate of an authority".into()));
        }
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|_| SecureError::Name { authority: authority.to_owned() })?;
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong(e.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Secure { connector: TlsConnector::from(Arc::new(config)), name })
    }

    /// Shakes hands with a gateway. Errors: it is another one, or speaks no TLS.
    pub async fn connect(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), stream).await
    }
}
