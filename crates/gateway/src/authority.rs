//! Access keys, and what their users may do.

use crate::convert::{Gateway, told};
use s3::{Bucket, User};
use s3s::auth::{Credentials, S3Auth, SecretKey};
use s3s::{S3Error, S3ErrorCode, S3Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time for which a key and its user are remembered: a user who is suspended gets in for so long.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Keys that are remembered.
const KEYS_MAX: usize = 10_000;

struct Known {
    since: Instant,
    secret: String,
    user: Arc<User>,
}

/// Looks up keys and users.
pub(crate) struct Authority {
    gateway: Gateway,
    known: Mutex<BTreeMap<String, Known>>,
}

fn denied(why: &str) -> S3Error {
    S3Error::with_message(S3ErrorCode::AccessDenied, why.to_owned())
}

impl Authority {
    pub fn new(gateway: Gateway) -> Authority {
        Authority { gateway, known: Mutex::default() }
    }

    async fn look_up(&self, access_key: &str) -> S3Result<(String, Arc<User>)> {
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = known.get(access_key).filter(|known| known.since.elapsed() < REMEMBERED) {
                return Ok((known.secret.clone(), known.user.clone()));
            }
        }
        let (key, user) = self.gateway.access_key(access_key).await.map_err(told)?;
        let user = Arc::new(user);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEYS_MAX {
            known.clear();
        }
        let entry = Known { since: Instant::now(), secret: key.secret.clone(), user: user.clone() };
        known.insert(access_key.to_owned(), entry);
        Ok((key.secret, user))
    }

    /// The user of a request that was signed. Errors: `AccessDenied` for anonymous requests and suspended users.
    pub async fn user(&self, credentials: Option<&Credentials>) -> S3Result<Arc<User>> {
        let credentials = credentials.ok_or_else(|| denied("the request is not signed"))?;
        let (_, user) = self.look_up(&credentials.access_key).await?;
        if user.is_suspended {
            return Err(denied("the user is suspended"));
        }
        Ok(user)
    }

    /// A bucket of the user of a request. Errors: `AccessDenied` where it is another user's.
    pub async fn bucket(&self, credentials: Option<&Credentials>, name: &str) -> S3Result<(Arc<User>, Arc<Bucket>)> {
        let user = self.user(credentials).await?;
        let bucket = self.gateway.bucket(name).await.map_err(told)?;
        if bucket.owner == user.uid { Ok((user, bucket)) } else { Err(denied("the bucket is another user's")) }
    }
}

/// The face of [`Authority`] for checking signatures.
pub(crate) struct Secrets(pub Arc<Authority>);

#[async_trait::async_trait]
impl S3Auth for Secrets {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        Ok(SecretKey::from(self.0.look_up(access_key).await?.0))
    }
}
