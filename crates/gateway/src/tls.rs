//! TLS: certificates, which are read again as their files change, and handshakes.

use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ProtocolVersion, ServerConfig};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, rustls::pki_types::pem};
use zeroize::Zeroizing;

/// Interval of looks at the files.
const FOLLOW_EVERY: Duration = Duration::from_secs(5);
/// Time that a client has for its handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// The reason why a certificate cannot be shown to clients.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    #[error("{} has no certificate in PEM ('-----BEGIN CERTIFICATE-----')", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} has no private key in PEM ('-----BEGIN PRIVATE KEY-----')", .0.display())]
    NoKey(PathBuf),
    /// A text between lines of PEM that stands for no bytes. What it is stands in no error, as it may be a key.
    #[error("{} is damaged: it has no PEM that can be read", .0.display())]
    Damaged(PathBuf),
    #[error("the certificate in {} and the key in {} do not do", .certificate.display(), .key.display())]
    Pair { certificate: PathBuf, key: PathBuf, source: rustls::Error },
}

/// A certificate with its chain, and its key, as files in PEM.
pub struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    used: Mutex<Used>,
}

struct Used {
    config: Arc<ServerConfig>,
    /// States of the files when they were last read, whether they did or not.
    stamps: [Option<Stamp>; 2],
}

/// State of a file that differs once somebody has written it or put another in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Certificates {
    /// Reads the files of a certificate, with the chain behind it, and of its key.
    pub fn read(certificate: &Path, key: &Path) -> Result<Certificates, TlsError> {
        let stamps = [stamp(certificate), stamp(key)];
        let used = Mutex::new(Used { config: config(certificate, key)?, stamps });
        Ok(Certificates { certificate: certificate.to_owned(), key: key.to_owned(), used })
    }

    /// Reads the files anew if they have changed. Those that do not do are told in the log, once, and what was there
    /// before is shown on.
    pub(crate) fn follow(&self) {
        let stamps = [stamp(&self.certificate), stamp(&self.key)];
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if stamps == used.stamps {
            return;
        }
        used.stamps = stamps;
        match config(&self.certificate, &self.key) {
            Ok(config) => {
                used.config = config;
                tracing::info!("the certificate in {} was read again", self.certificate.display());
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                tracing::warn!("the certificate that was there before is still shown: {error}{cause}");
            }
        }
    }

    /// Follows changes of the files for ever.
    pub(crate) async fn followed(&self) -> Infallible {
        loop {
            tokio::time::sleep(FOLLOW_EVERY).await;
            self.follow();
        }
    }

    /// Shakes hands with a client. `None`: it does not speak TLS, or not as it has to, or not in time.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let config = self.used.lock().unwrap_or_else(PoisonError::into_inner).config.clone();
        match tokio::time::timeout(HANDSHAKE_WITHIN, TlsAcceptor::from(config).accept(stream)).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!("a client's handshake failed: {error}");
                None
            }
            Err(_) => {
                tracing::debug!("a client's handshake took more than {HANDSHAKE_WITHIN:?}");
                None
            }
        }
    }
}

/// Version of a connection's TLS, as policies call it.
pub(crate) fn version(stream: &TlsStream<TcpStream>) -> &'static str {
    match stream.get_ref().1.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => "1.2",
        _ => "1.3",
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    Some(Stamp { inode: metadata.ino(), size: metadata.size(), changed })
}

fn config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let read = |path: &Path| fs::read(path).map(Zeroizing::new).map_err(|e| TlsError::Read(path.to_owned(), e));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
    let chain = chain.map_err(|_| TlsError::Damaged(certificate.to_owned()))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(certificate.to_owned()));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey(key.to_owned()),
        _ => TlsError::Damaged(key.to_owned()),
    })?;
    if fs::metadata(key).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0) {
        tracing::warn!("others than its owner may read {}: 'chmod 600' mends that", key.display());
    }
    let pair = |source| TlsError::Pair { certificate: certificate.to_owned(), key: key.to_owned(), source };
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The refusal of files that hold these texts.
    fn refusal(certificate: &str, key: &str) -> String {
        let paths = ["certificate", "key"]
            .map(|name| std::env::temp_dir().join(format!("gateway-tls-{}-{name}", std::process::id())));
        for (path, text) in paths.iter().zip([certificate, key]) {
            fs::write(path, text).expect("a file");
        }
        let read = Certificates::read(&paths[0], &paths[1]);
        paths.iter().for_each(|path| fs::remove_file(path).expect("it was written"));
        read.err().expect("a refusal").to_string()
    }

    #[test]
    fn files_that_do_not_do_are_told_by_name() {
        let some = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        assert!(refusal("", "").contains("certificate has no certificate in PEM"));
        assert!(refusal("not one", "").contains("certificate has no certificate in PEM"));
        assert!(refusal(some, some).contains("key has no private key in PEM"));
        let secret = "-----BEGIN PRIVATE KEY-----\nsecret!\n-----END PRIVATE KEY-----\n";
        let damaged = refusal(some, secret);
        assert!(damaged.contains("key is damaged") && !damaged.contains("secret!"), "{damaged}");
        assert!(refusal(&some.replace("MAA=", "M-A="), secret).contains("certificate is damaged"));
        let unlike = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
        assert!(refusal(some, unlike).contains("do not do"));
        let missing = Certificates::read(Path::new("/nowhere/at-all"), Path::new("/nowhere/key"));
        assert!(matches!(missing, Err(TlsError::Read(path, _)) if path == Path::new("/nowhere/at-all")));
    }
}
