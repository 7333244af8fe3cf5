//! The gateway of a cluster, as a plan names it, and the keys by which it is used.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bench::plan::S3Gateway;

use super::secure::{Secure, SecureError};
use super::signature::Signer;

/// Names of the keys in the environment, and in lower case in files.
const ACCESS_KEY: &str = "AWS_ACCESS_KEY_ID";
const SECRET_KEY: &str = "AWS_SECRET_ACCESS_KEY";

/// Time limit of a request, where a cluster's configuration sets none for operations.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The reason why a gateway cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error("its gateway's keys in {path} cannot be read")]
    Unreadable { path: String, source: std::io::Error },
    #[error("{path} has no aws_access_key_id with an aws_secret_access_key")]
    NoKeys { path: String },
    #[error("its gateway's keys are in no file, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")]
    NotSet,
    #[error(transparent)]
    Secure(#[from] SecureError),
}

/// A bucket of a gateway.
#[derive(Clone)]
pub struct BucketSite {
    /// `HOST:PORT`.
    pub authority: String,
    /// TLS, for an endpoint with `https`.
    pub secure: Option<Secure>,
    pub bucket: String,
    pub signer: Signer,
    pub signed_payload: bool,
    /// Time limit of a request.
    pub timeout: Duration,
    /// This iteration has made the bucket.
    pub made: Arc<AtomicBool>,
}

impl std::fmt::Debug for BucketSite {
    // Leaves out the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "bucket {} at {}", self.bucket, self.authority)
    }
}

impl BucketSite {
    /// The bucket `bucket` of a gateway of a checked plan.
    ///
    /// Errors: there are no keys, or no authorities whose certificates count.
    pub fn new(gateway: &S3Gateway, bucket: &str, timeout: Duration) -> Result<BucketSite, GatewayError> {
        let (access_key, secret_key) = match &gateway.keys {
            Some(path) => keys_of_file(Path::new(path))?,
            None => {
                let word = |name: &str| std::env::var(name).ok().filter(|word| !word.is_empty());
                word(ACCESS_KEY).zip(word(SECRET_KEY)).ok_or(GatewayError::NotSet)?
            }
        };
        let authority = gateway.authority().unwrap_or(&gateway.endpoint).to_owned();
        let secure = gateway.is_secure().then(|| Secure::new(&authority, gateway.ca.as_deref())).transpose()?;
        Ok(BucketSite {
            authority,
            secure,
            bucket: bucket.to_owned(),
            signer: Signer::new(access_key, secret_key, gateway.region.clone()),
            signed_payload: gateway.signed_payload,
            timeout,
            made: Arc::default(),
        })
    }
}

fn keys_of_file(path: &Path) -> Result<(String, String), GatewayError> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| GatewayError::Unreadable { path: name(), source })?;
    keys_of(&text).ok_or_else(|| GatewayError::NoKeys { path: name() })
}

/// The first of each key, whatever profile it is of.
fn keys_of(text: &str) -> Option<(String, String)> {
    let word = |wanted: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim().eq_ignore_ascii_case(wanted) && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    word(ACCESS_KEY).zip(word(SECRET_KEY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_in_files_as_aws_has_them() {
        let text = "[default]\n# keys\naws_access_key_id = AK\naws_secret_access_key=s/k+=\n";
        assert_eq!(keys_of(text), Some(("AK".into(), "s/k+=".into())));
        assert_eq!(keys_of("AWS_ACCESS_KEY_ID=AK\nAWS_SECRET_ACCESS_KEY=sk"), Some(("AK".into(), "sk".into())));
        for wrong in ["", "aws_access_key_id = AK", "aws_access_key_id=\naws_secret_access_key=s", "AK sk"] {
            assert_eq!(keys_of(wrong), None, "{wrong}");
        }
    }
}
