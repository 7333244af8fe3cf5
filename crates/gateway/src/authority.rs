//! Access keys, users, and who asks for something.

use crate::asker::{Asked, ExpectedOwner, Visit, identity_of, list_user};
use crate::convert::{Gateway, ruled, told};
use crate::notes::{note_bucket, note_requester};
use crate::rates::{Limited, Meter, Rates, direction};
use crate::signatures::RequestSignature;
use http::{HeaderMap, Method, Uri};
use s3::{Bucket, BucketSettings, User};
use s3rules::access::{AccessRequest, judge};
use s3rules::acl::{Acl, AclDraft, AclHeaders, AclUser, GranteeName};
use s3rules::policy::{Action, Policy, PolicyKind, ResourceArn};
use s3rules::rate::Direction;
use s3s::auth::{Credentials, S3Auth, SecretKey};
use s3s::{S3Error, S3ErrorCode, S3Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which a key and its user are remembered: a user who is suspended gets in for so long.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Keys, users and policies that are remembered, of each.
const REMEMBERED_MAX: usize = 10_000;

struct Known {
    since: Instant,
    secret: String,
    user: Arc<User>,
}

/// A user as it was read, and its policies.
type JudgedUser = (Arc<User>, Arc<Vec<Policy>>);

/// Looks up keys, users and policies.
pub(crate) struct Authority {
    pub gateway: Gateway,
    rates: Arc<Rates>,
    keys: Mutex<BTreeMap<String, Known>>,
    /// Users by name, as lists show them.
    shown: Mutex<BTreeMap<String, (Instant, AclUser)>>,
    /// Policies that were read, by the bucket's id, with the revision of its settings.
    policies: Mutex<BTreeMap<String, (u64, Arc<Policy>)>>,
    /// Policies of users that were read, by the user's name, with the record that has them.
    user_policies: Mutex<BTreeMap<String, JudgedUser>>,
}

fn denied(why: &str) -> S3Error {
    S3Error::with_message(S3ErrorCode::AccessDenied, why.to_owned())
}

/// The name of the bucket that a user, or nobody, calls so.
pub(crate) fn bucket_name(user: Option<&User>, called: &str) -> String {
    s3::bucket_called(called, user.map_or("", User::tenant))
}

/// Locks something that is remembered, and forgets all of it if it is too much.
fn remembered<T>(mutex: &Mutex<BTreeMap<String, T>>) -> MutexGuard<'_, BTreeMap<String, T>> {
    let mut map = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    if map.len() >= REMEMBERED_MAX {
        map.clear();
    }
    map
}

impl Authority {
    pub fn new(gateway: Gateway) -> Authority {
        Authority {
            gateway,
            rates: Arc::default(),
            keys: Mutex::default(),
            shown: Mutex::default(),
            policies: Mutex::default(),
            user_policies: Mutex::default(),
        }
    }

    async fn look_up(&self, access_key: &str) -> S3Result<(String, Arc<User>)> {
        if let Some(known) = remembered(&self.keys).get(access_key).filter(|known| known.since.elapsed() < REMEMBERED) {
            return Ok((known.secret.clone(), known.user.clone()));
        }
        let since = Instant::now();
        let (key, user) = self.gateway.access_key(access_key).await.map_err(told)?;
        let user = Arc::new(user);
        let entry = Known { since, secret: key.secret.clone(), user: user.clone() };
        remembered(&self.keys).insert(access_key.to_owned(), entry);
        Ok((key.secret, user))
    }

    /// The secret of an access key. Errors: `InvalidAccessKeyId`.
    pub async fn secret_of(&self, access_key: &str) -> S3Result<String> {
        Ok(self.look_up(access_key).await?.0)
    }

    /// The user of a request, or `None` if it is anonymous. Errors: `AccessDenied` for suspended users.
    pub async fn asker(&self, credentials: Option<&Credentials>) -> S3Result<Option<Arc<User>>> {
        let Some(credentials) = credentials else { return Ok(None) };
        let (_, user) = self.look_up(&credentials.access_key).await?;
        if user.is_suspended {
            return Err(denied("the user is suspended"));
        }
        note_requester(&user);
        Ok(Some(user))
    }

    /// The user of a request. Errors: `AccessDenied` for anonymous requests and suspended users.
    pub async fn user(&self, credentials: Option<&Credentials>) -> S3Result<Arc<User>> {
        self.asker(credentials).await?.ok_or_else(|| denied("the request is not signed"))
    }

    /// Counts a request that is about no bucket. Errors: `SlowDown`.
    pub fn count(&self, user: Option<&User>, method: &Method) -> S3Result<()> {
        let limits = user.map(|user| (Limited::User(user.uid.clone()), user.rate_limit));
        self.rates.take(limits.into_iter().collect(), direction(method)).map(drop)
    }

    /// The tenant of the user whose access key a request names; empty without one. Nobody has proven to have the key.
    pub async fn claimed_tenant(&self, headers: &HeaderMap, uri: &Uri) -> String {
        let signature = RequestSignature::of(headers, uri);
        let Some(key) = signature.as_ref().and_then(RequestSignature::access_key) else { return String::new() };
        let user = self.look_up(key).await.map(|(_, user)| user);
        user.map_or_else(|_| String::new(), |user| user.tenant().to_owned())
    }

    /// A request to a bucket, which counts for rate limits. Errors: `NoSuchBucket`, `AccessDenied` for suspended users
    /// and for a bucket of another owner than the request expects, `SlowDown`.
    pub async fn visit<'a>(&self, asked: impl Into<Asked<'a>>, bucket: &str) -> S3Result<Visit> {
        let asked = asked.into();
        let direction = asked.direction;
        let mut visit = self.visit_uncounted(asked, bucket).await?;
        visit.meter = self.meter(&visit, direction)?;
        asked.check_owner(ExpectedOwner::OWN, &visit.bucket.owner)?;
        Ok(visit)
    }

    /// Counts a request for rate limits. Errors: `SlowDown`.
    pub fn meter(&self, visit: &Visit, direction: Direction) -> S3Result<Meter> {
        let of_bucket = (Limited::Bucket(visit.bucket.id.clone()), visit.settings.rate_limit);
        let of_user = visit.user.as_ref().map(|user| (Limited::User(user.uid.clone()), user.rate_limit));
        self.rates.take(of_user.into_iter().chain([of_bucket]).collect(), direction)
    }

    /// A request of a copy to the bucket of its source, which does not count. Errors: as with [`Authority::visit`], but
    /// for `SlowDown`.
    pub async fn visit_source<'a>(&self, asked: impl Into<Asked<'a>>, bucket: &str) -> S3Result<Visit> {
        let asked = asked.into();
        let visit = self.visit_uncounted(asked, bucket).await?;
        asked.check_owner(ExpectedOwner::SOURCE, &visit.bucket.owner)?;
        Ok(visit)
    }

    /// A request to a bucket that does not count, and expects nobody to own it. Errors: `NoSuchBucket`, `AccessDenied`
    /// for suspended users.
    pub async fn visit_uncounted<'a>(&self, asked: impl Into<Asked<'a>>, bucket: &str) -> S3Result<Visit> {
        let asked = asked.into();
        let user = self.asker(asked.credentials).await?;
        let name = bucket_name(user.as_deref(), bucket);
        let (bucket, settings) = self.gateway.bucket_and_settings(&name).await.map_err(told)?;
        note_bucket(&bucket);
        let policy = self.policy(&bucket, &settings)?;
        let user_policies = self.policies_of(user.as_ref())?;
        Ok(Visit::new(&asked, user, (bucket, settings), (policy, user_policies)))
    }

    /// The policy of a bucket. Errors: `InternalError` for one that cannot be read, which thus lets nobody in.
    pub fn policy(&self, bucket: &Bucket, settings: &BucketSettings) -> S3Result<Option<Arc<Policy>>> {
        let Some(stored) = &settings.policy else { return Ok(None) };
        if let Some((revision, policy)) = remembered(&self.policies).get(&bucket.id)
            && *revision == settings.revision
        {
            return Ok(Some(policy.clone()));
        }
        let policy = Policy::parse(&stored.text, PolicyKind::Bucket, bucket.tenant()).map_err(|error| {
            tracing::error!("the policy of bucket '{}' cannot be read: {error}", bucket.name);
            S3Error::with_message(S3ErrorCode::InternalError, "the bucket's policy cannot be read")
        })?;
        let policy = Arc::new(policy);
        remembered(&self.policies).insert(bucket.id.clone(), (settings.revision, policy.clone()));
        Ok(Some(policy))
    }

    /// The policies of a user. Errors: `InternalError` for one that cannot be read: the user may do nothing then.
    fn policies_of(&self, user: Option<&Arc<User>>) -> S3Result<Arc<Vec<Policy>>> {
        let Some(user) = user.filter(|user| !user.policies.is_empty()) else { return Ok(Arc::default()) };
        if let Some((known, policies)) = remembered(&self.user_policies).get(&user.uid)
            && Arc::ptr_eq(known, user)
        {
            return Ok(policies.clone());
        }
        let read = user.policies.iter().map(|(name, text)| {
            Policy::parse(text, PolicyKind::User, user.tenant()).map_err(|error| {
                tracing::error!("policy '{name}' of user '{}' cannot be read: {error}", user.uid);
                S3Error::with_message(S3ErrorCode::InternalError, "a policy of the user cannot be read")
            })
        });
        let policies = Arc::new(read.collect::<S3Result<Vec<_>>>()?);
        remembered(&self.user_policies).insert(user.uid.clone(), (user.clone(), policies.clone()));
        Ok(policies)
    }

    /// Lets an action that is about no bucket that is there pass, unless a policy of the user denies it. Errors:
    /// `AccessDenied`.
    pub fn may_without_bucket<'a>(
        &self,
        asked: impl Into<Asked<'a>>,
        user: &Arc<User>,
        (action, resource): (Action, &ResourceArn),
    ) -> S3Result<()> {
        let policies = self.policies_of(Some(user))?;
        if policies.is_empty() {
            return Ok(());
        }
        let identity = identity_of(Some(user));
        let context = asked.into().context(&identity, &BucketSettings::default(), user.tenant());
        let request = AccessRequest {
            identity: &identity,
            action,
            resource,
            context: &context,
            user_policies: &policies,
            requester_pays: false,
            bucket: None,
            object: None,
        };
        ruled(judge(&request).into_result()).map(drop)
    }

    /// A user as lists show him; one who is not there any more has his id for a name.
    pub async fn shown(&self, uid: &str) -> S3Result<AclUser> {
        if uid == s3::ANONYMOUS {
            return Ok(list_user(None));
        }
        if let Some((since, user)) = remembered(&self.shown).get(uid)
            && since.elapsed() < REMEMBERED
        {
            return Ok(user.clone());
        }
        let user = self.gateway.user_if_any(uid).await.map_err(told)?;
        let display_name = user.map_or_else(|| uid.to_owned(), |user| user.display_name);
        let user = AclUser { id: uid.to_owned(), display_name };
        remembered(&self.shown).insert(uid.to_owned(), (Instant::now(), user.clone()));
        Ok(user)
    }

    /// A stored list, or the private one of something that `owner` has, as lists are shown.
    pub async fn shown_list(&self, stored: Option<&Acl>, owner: &str) -> S3Result<Acl> {
        match stored {
            Some(acl) => Ok(acl.clone()),
            None => Ok(Acl::private(self.shown(owner).await?)),
        }
    }

    /// The list of a draft, for something of `owner`. Errors: those of [`AclDraft::resolve`].
    pub async fn resolved(&self, draft: &AclDraft, owner: &AclUser) -> S3Result<Acl> {
        let mut found = BTreeMap::new();
        for name in draft.names() {
            if found.contains_key(name) {
                continue;
            }
            let user = match name {
                GranteeName::Email(email) => self.gateway.user_of_email(email).await,
                GranteeName::Id(uid) => self.gateway.user_if_any(uid).await,
            };
            if let Some(user) = user.map_err(told)? {
                found.insert(name.clone(), AclUser { id: user.uid, display_name: user.display_name });
            }
        }
        ruled(draft.resolve(owner, |name| found.get(name).cloned()))
    }

    /// The list that headers ask for, or the private one.
    pub async fn list_of(&self, headers: &AclHeaders, owner: &AclUser, bucket_owner: &AclUser) -> S3Result<Acl> {
        match headers {
            AclHeaders::Absent => Ok(Acl::private(owner.clone())),
            AclHeaders::Canned(canned) => Ok(canned.acl(owner, bucket_owner)),
            AclHeaders::Grants(draft) => self.resolved(draft, owner).await,
        }
    }

    /// The owner of a new object, and its list; `None` for the private one, which most objects have.
    ///
    /// Errors: `AccessControlListNotSupported`, `AccessDenied` for a public list where these are blocked, and those of
    /// [`AclHeaders::read`].
    pub async fn list_of_new(&self, visit: &Visit, headers: &http::HeaderMap) -> S3Result<(String, Option<Acl>)> {
        let asked = list_headers(headers)?;
        ruled(visit.ownership().check_object_headers(&asked))?;
        let writer = list_user(visit.user.as_deref());
        let uid = &visit.bucket.owner;
        let bucket_owner = match asked {
            _ if *uid == writer.id => writer.clone(),
            // No list is stored, so that only the id counts.
            AclHeaders::Absent => AclUser { id: uid.clone(), display_name: uid.clone() },
            _ => self.shown(uid).await?,
        };
        let owner = visit.ownership().object_owner(&asked, &writer, &bucket_owner);
        let acl = self.list_of(&asked, owner, &bucket_owner).await?;
        ruled(visit.settings.public_access.unwrap_or_default().check_acl(&acl))?;
        let is_private = acl == Acl::private(owner.clone());
        Ok((owner.id.clone(), Some(acl).filter(|_| !is_private)))
    }
}

/// The list that headers ask for. Errors: those of [`AclHeaders::read`].
pub(crate) fn list_headers(headers: &http::HeaderMap) -> S3Result<AclHeaders> {
    let texts = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    ruled(AclHeaders::read(texts))
}

/// The face of [`Authority`] for checking signatures.
pub(crate) struct Secrets(pub Arc<Authority>);

#[async_trait::async_trait]
impl S3Auth for Secrets {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        Ok(SecretKey::from(self.0.secret_of(access_key).await?))
    }
}
