//! One who asks for something, and the judgement about it by the rules.

use crate::convert::{DELETE_MARKER, Gateway, basic_time, now, ruled, told, version_id};
use crate::rates::{Meter, direction};
use crate::signatures::{RequestSignature, SignaturePlace};
use http::{Extensions, HeaderMap, Uri};
use s3::{Bucket, BucketSettings, Code, Head, Upload, User, Versioning};
use s3rules::access::{Access, AccessRequest, BucketFacts, ObjectFacts, judge, judge_absent};
use s3rules::acl::{Acl, AclUser};
use s3rules::lifecycle::{LifecycleClock, VersionFacts, VersionState};
use s3rules::policy::{
    Action, ActionTarget, Context, Identity, Policy, RequestFacts, ResourceArn, SignatureKind, UserIdentity,
};
use s3rules::rate::Direction;
use s3rules::tagging::TagSet;
use s3rules::{ObjectOwnership, UnixMillis, percent_decode};
use s3s::auth::Credentials;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The client and its connection, as an extension of its requests.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub address: IpAddr,
    /// Version of TLS: `1.2`, `1.3`.
    pub tls: Option<&'static str>,
}

impl Peer {
    /// The client that a request came from.
    pub fn of(extensions: &Extensions) -> Peer {
        let nobody = Peer { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), tls: None };
        extensions.get::<Peer>().copied().unwrap_or(nobody)
    }
}

/// The name by which a request tells who owns a bucket that it names.
#[derive(Clone, Copy)]
pub(crate) struct ExpectedOwner(&'static str);

impl ExpectedOwner {
    pub fn name(&self) -> &'static str {
        self.0
    }

    /// Of the bucket that the request is about.
    pub const OWN: ExpectedOwner = ExpectedOwner("x-amz-expected-bucket-owner");
    /// Of the bucket of a copy's source.
    pub const SOURCE: ExpectedOwner = ExpectedOwner("x-amz-source-expected-bucket-owner");
}

/// The parts of a request that rules may want to know.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub credentials: Option<&'a Credentials>,
    pub headers: &'a HeaderMap,
    pub uri: &'a Uri,
    pub peer: Peer,
    /// Tags that the body brings.
    pub tags: Option<&'a TagSet>,
    /// Version of the signature of a form, which has it among its fields.
    pub form_signature: Option<u8>,
    pub direction: Direction,
}

impl<'a, T> From<&'a S3Request<T>> for Asked<'a> {
    fn from(request: &'a S3Request<T>) -> Asked<'a> {
        let peer = Peer::of(&request.extensions);
        let S3Request { credentials, headers, uri, method, .. } = request;
        let (credentials, direction) = (credentials.as_ref(), direction(method));
        Asked { credentials, headers, uri, peer, tags: None, form_signature: None, direction }
    }
}

impl Asked<'_> {
    /// Decoded names and values of the query.
    pub fn query(&self) -> Vec<(String, String)> {
        let decoded = |text: &str| percent_decode(text).unwrap_or_else(|| text.to_owned());
        let pairs = self.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(n, v)| (decoded(n), decoded(v))).collect()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// True if the client says that it knows that requesters pay.
    fn pays(&self) -> bool {
        const NAME: &str = "x-amz-request-payer";
        self.header(NAME).is_some_and(|value| value == "requester")
            || self.query().iter().any(|(name, value)| name.eq_ignore_ascii_case(NAME) && value == "requester")
    }

    /// Refuses a bucket of another owner than the request expects, in headers or among the parameters of an address
    /// that was signed before. Errors: `AccessDenied`.
    pub fn check_owner(&self, expectation: ExpectedOwner, owner: &str) -> S3Result<()> {
        let ExpectedOwner(name) = expectation;
        let is_right = self.headers.get_all(name).iter().all(|value| value.as_bytes() == owner.as_bytes());
        let is_other = |(named, value): &(String, String)| named.eq_ignore_ascii_case(name) && value != owner;
        if is_right && !self.query().iter().any(is_other) {
            return Ok(());
        }
        // Its words are those for one who may not: nobody learns by guesses who owns a bucket.
        Err(S3Error::with_message(S3ErrorCode::AccessDenied, "Access Denied"))
    }

    /// How the request was signed. The signature was checked before.
    fn signature(&self, now: UnixMillis) -> Option<(SignatureKind, u8)> {
        self.credentials?;
        if let Some(version) = self.form_signature {
            return Some((SignatureKind::Form, version));
        }
        let signature = RequestSignature::of(self.headers, self.uri)?;
        Some(match signature.place {
            SignaturePlace::SecondInHeader => (SignatureKind::Header, 2),
            SignaturePlace::FourthInHeader => (SignatureKind::Header, 4),
            SignaturePlace::SecondInQuery => (SignatureKind::Query { age_ms: 0 }, 2),
            SignaturePlace::FourthInQuery => {
                let signed = signature.parameter("X-Amz-Date").and_then(basic_time);
                (SignatureKind::Query { age_ms: signed.map_or(0, |signed| now.0 - signed.0) }, 4)
            }
        })
    }

    /// Values of condition keys. `tenant`: the bucket's.
    pub fn context(&self, identity: &Identity, settings: &BucketSettings, tenant: &str) -> Context {
        let now = now();
        let query = self.query();
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let asker = match identity {
            Identity::User(user) => user.tenant.as_str(),
            Identity::Anonymous => "",
        };
        // The source of a copy is in the tenant of the one who asks, which policies of other tenants have to see.
        let judged = |name: &http::HeaderName, value: String| match name.as_str() {
            "x-amz-copy-source" if asker != tenant => format!("{asker}:{}", value.trim_start_matches('/')),
            _ => value,
        };
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (name.as_str().to_owned(), judged(name, text(value)))).collect();
        // Tags that cannot be read are refused where they are to be stored.
        let in_header = self.header("x-amz-tagging").and_then(|tags| TagSet::from_header(tags).ok());
        Context::of(&RequestFacts {
            identity,
            now,
            source_ip: self.peer.address,
            secure: self.peer.tls.is_some(),
            tls_version: self.peer.tls,
            signature: self.signature(now),
            headers: &headers,
            query: &query,
            request_tags: self.tags.or(in_header.as_ref()),
            object_tags: None,
            bucket_tags: settings.tags.as_ref(),
            lock: None,
            location_constraint: None,
            bucket_tenant: Some(tenant),
        })
    }
}

/// The identity of a user, or of nobody. A user has no account but his own.
pub(crate) fn identity_of(user: Option<&User>) -> Identity {
    match user {
        None => Identity::Anonymous,
        Some(user) => Identity::User(UserIdentity {
            account: user.uid.clone(),
            tenant: user.tenant().to_owned(),
            name: user.bare_name().to_owned(),
            root: true,
            operator: false,
        }),
    }
}

/// The one who asks as he stands in lists.
pub(crate) fn list_user(user: Option<&User>) -> AclUser {
    match user {
        Some(user) => AclUser { id: user.uid.clone(), display_name: user.display_name.clone() },
        None => AclUser { id: s3::ANONYMOUS.to_owned(), display_name: s3::ANONYMOUS.to_owned() },
    }
}

/// The list of a user's own things, without the user's name for display.
pub(crate) fn private(uid: &str) -> Acl {
    Acl::private(AclUser { id: uid.to_owned(), display_name: uid.to_owned() })
}

/// A request to a bucket, with all that it is judged by.
pub(crate) struct Visit {
    /// `None` for anonymous requests.
    pub user: Option<Arc<User>>,
    pub bucket: Arc<Bucket>,
    pub settings: Arc<BucketSettings>,
    /// Counts the bytes of the request.
    pub meter: Meter,
    identity: Identity,
    acl: Acl,
    policy: Option<Arc<Policy>>,
    /// Policies of the user.
    user_policies: Arc<Vec<Policy>>,
    /// Empty where there is no policy that could ask for something.
    context: Context,
    pays: bool,
}

impl Visit {
    pub fn new(
        asked: &Asked<'_>,
        user: Option<Arc<User>>,
        (bucket, settings): (Arc<Bucket>, Arc<BucketSettings>),
        (policy, user_policies): (Option<Arc<Policy>>, Arc<Vec<Policy>>),
    ) -> Visit {
        let identity = identity_of(user.as_deref());
        let context = match policy.is_some() || !user_policies.is_empty() {
            true => asked.context(&identity, &settings, bucket.tenant()),
            false => Context::default(),
        };
        let acl = settings.acl.clone().unwrap_or_else(|| private(&bucket.owner));
        let pays = settings.requesters_pay && asked.pays();
        Visit { user, bucket, settings, meter: Meter::default(), identity, acl, policy, user_policies, context, pays }
    }

    fn resource(&self, action: Action, key: Option<&str>) -> ResourceArn {
        let (tenant, bucket) = (self.bucket.tenant(), self.bucket.bare_name());
        match (action.target(), key) {
            (ActionTarget::Object, Some(key)) => ResourceArn::object(tenant, bucket, key),
            _ => ResourceArn::bucket(tenant, bucket),
        }
    }

    fn with_request<T>(
        &self,
        (action, key): (Action, Option<&str>),
        (object, context): (Option<&Acl>, &Context),
        judged: impl FnOnce(&AccessRequest<'_>) -> T,
    ) -> T {
        judged(&AccessRequest {
            identity: &self.identity,
            action,
            resource: &self.resource(action, key),
            context,
            user_policies: &self.user_policies,
            requester_pays: self.pays,
            bucket: Some(BucketFacts {
                acl: &self.acl,
                ownership: self.settings.ownership.unwrap_or_default(),
                requesters_pay: self.settings.requesters_pay,
                policy: self.policy.as_deref(),
                policy_binds_owner: self.settings.policy.as_ref().is_some_and(|policy| policy.binds_owner),
                public_access: self.settings.public_access.unwrap_or_default(),
            }),
            object: object.map(|acl| ObjectFacts { acl }),
        })
    }

    fn outcome(&self, access: Access) -> S3Result<()> {
        ruled(access.into_result()).map(drop)
    }

    /// Lets an action on the bucket, or on a key whatever is there, pass. Errors: `AccessDenied`.
    pub fn may(&self, action: Action, key: Option<&str>) -> S3Result<()> {
        self.outcome(self.with_request((action, key), (None, &self.context), judge))
    }

    /// Lets an action on an object that is there pass. Errors: `AccessDenied`.
    pub fn may_with(&self, action: Action, head: &Head) -> S3Result<()> {
        let acl = head.acl.as_ref().map_or_else(|| Cow::Owned(private(&head.owner)), Cow::Borrowed);
        let mut context = Cow::Borrowed(&self.context);
        let has_policies = self.policy.is_some() || !self.user_policies.is_empty();
        if has_policies && !head.tags.tags.is_empty() {
            context.to_mut().add_object_tags(&head.tags);
        }
        self.outcome(self.with_request((action, Some(&head.key)), (Some(&acl), &context), judge))
    }

    /// Lets an action on an upload that `owner` began pass. Errors: `AccessDenied`.
    pub fn may_with_upload_of(&self, action: Action, key: &str, owner: &str) -> S3Result<()> {
        self.outcome(self.with_request((action, Some(key)), (Some(&private(owner)), &self.context), judge))
    }

    /// The answer to an action on an object that is not there: `AccessDenied` for one who may not know so.
    pub fn absent(&self, action: Action, key: &str) -> S3Error {
        let bucket = ResourceArn::bucket(self.bucket.tenant(), self.bucket.bare_name());
        let absent = |request: &AccessRequest<'_>| judge_absent(request, &bucket, key);
        match self.outcome(self.with_request((action, Some(key)), (None, &self.context), absent)) {
            Ok(()) => {
                let mut error = S3Error::with_message(S3ErrorCode::NoSuchKey, "there is no such object");
                let not_marked = http::HeaderValue::from_static("false");
                error.set_headers(HeaderMap::from_iter([(http::HeaderName::from_static(DELETE_MARKER), not_marked)]));
                error
            }
            Err(error) => error,
        }
    }

    /// The head of an object, for one who may do `action` with it. Errors: `NoSuchKey`, `AccessDenied`.
    pub async fn head(
        &self,
        gateway: &Gateway,
        action: Action,
        (key, version): (&str, Option<&str>),
    ) -> S3Result<Head> {
        match gateway.stat(&self.bucket, key, version).await {
            Ok(head) => self.may_with(action, &head).map(|()| head),
            Err(error) => Err(self.refusal(error, action, key)),
        }
    }

    /// An error of the core about a key, as this one may hear it.
    pub fn refusal(&self, error: s3::Error, action: Action, key: &str) -> S3Error {
        match error.code() {
            Some(Code::NoSuchKey) if !matches!(error, s3::Error::DeleteMarker { .. }) => self.absent(action, key),
            Some(Code::NoSuchKey | Code::NoSuchVersion | Code::MethodNotAllowed) => {
                let absent = self.absent(action, key);
                if *absent.code() == S3ErrorCode::NoSuchKey { told(error) } else { absent }
            }
            _ => told(error),
        }
    }

    /// The id of a version, where answers tell it: in buckets that keep versions or did so.
    pub fn shown_version(&self, version: Option<String>) -> Option<String> {
        let is_off = self.settings.versioning == Versioning::Off;
        Some(version_id(version)).filter(|version| !is_off || version != s3::NULL_VERSION)
    }

    /// The value of `x-amz-expiration` for the newest version of a key.
    pub fn expiration(&self, head: &Head) -> Option<String> {
        self.settings.lifecycle.as_ref()?.expiration_header(&VersionFacts {
            key: &head.key,
            size_bytes: head.size,
            tags: &head.tags,
            storage_class: s3::STORAGE_CLASS,
            modified: UnixMillis::from_unsigned(head.mtime_ms),
            state: VersionState::Current,
        })
    }

    /// When an upload will be given up, in milliseconds since 1970, and by which rule.
    pub fn abortion(&self, upload: &Upload) -> Option<(u64, String)> {
        let clock = LifecycleClock { now: now(), debug_day_s: None };
        let begun = UnixMillis::from_unsigned(upload.created_ms);
        let (at, rule) = self.settings.lifecycle.as_ref()?.upload_abort_at(&upload.key, begun, &clock)?;
        Some((u64::try_from(at.0).ok()?, rule.to_owned()))
    }

    /// The rule by which new objects get their owners.
    pub fn ownership(&self) -> ObjectOwnership {
        self.settings.ownership.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use s3::StoredPolicy;
    use s3rules::acl::{CannedAcl, Grant, Permission};
    use s3rules::policy::PolicyKind;

    fn user(uid: &str) -> Arc<User> {
        Arc::new(User { uid: uid.into(), display_name: uid.into(), buckets_max: 1, ..User::default() })
    }

    fn bucket() -> Arc<Bucket> {
        let text = |text: &str| text.to_owned();
        let (name, id, owner) = (text("things"), text("b1"), text("ann"));
        Arc::new(Bucket { name, id, owner, created_ms: 0, data_pool: text("data") })
    }

    fn head(owner: &str, acl: Option<Acl>) -> Head {
        let json = serde_json::json!({
            "bucket": "things", "key": "k", "tag": "t", "size": 1, "etag": "e", "mtime_ms": 0, "owner": owner,
            "layout": "Whole", "tags": {"tags": [{"key": "kind", "value": "open"}]},
        });
        Head { acl, ..serde_json::from_value(json).expect("a head") }
    }

    fn visit(who: Option<&str>, settings: BucketSettings, uri: &str, headers: &[(&'static str, &str)]) -> Visit {
        visit_by(who, (settings, &[]), uri, headers)
    }

    /// `own`: statements of policies of the user.
    fn visit_by(
        who: Option<&str>,
        judged_by: (BucketSettings, &[&str]),
        uri: &str,
        headers: &[(&'static str, &str)],
    ) -> Visit {
        visit_to(who, bucket(), judged_by, (uri, headers))
    }

    fn visit_to(
        who: Option<&str>,
        bucket: Arc<Bucket>,
        (settings, own): (BucketSettings, &[&str]),
        (uri, headers): (&str, &[(&'static str, &str)]),
    ) -> Visit {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        let uri: Uri = uri.parse().expect("an address");
        let peer = Peer { address: "10.1.2.3".parse().expect("an address"), tls: Some("1.3") };
        let asked = Asked {
            credentials: None,
            headers: &map,
            uri: &uri,
            peer,
            tags: None,
            form_signature: None,
            direction: Direction::Read,
        };
        let parsed = |policy: &StoredPolicy| Policy::parse(&policy.text, PolicyKind::Bucket, bucket.tenant());
        let policy = settings.policy.as_ref().map(|policy| Arc::new(parsed(policy).expect("a policy")));
        let of_user = |statement: &&str| {
            let text = format!(r#"{{"Version":"2012-10-17","Statement":[{statement}]}}"#);
            let tenant = who.map_or("", |uid| s3::user_parts(uid).0);
            Policy::parse(&text, PolicyKind::User, tenant).expect("a policy")
        };
        let own = Arc::new(own.iter().map(of_user).collect());
        Visit::new(&asked, who.map(user), (bucket, Arc::new(settings)), (policy, own))
    }

    /// A policy speaks of the bucket of its own tenant, and of users by tenant and name.
    #[test]
    fn tenants_are_told_apart() {
        let of_acme = |name: &str| Bucket { name: name.into(), owner: "acme$ann".into(), ..(*bucket()).clone() };
        let may = |who, bucket: Bucket, settings: BucketSettings, own: &[&str]| {
            let visit = visit_to(who, Arc::new(bucket), (settings, own), ("/things/k", &[]));
            visit.may(Action::PutObject, Some("k")).is_ok()
        };
        let allow = |principal: &str| {
            with_policy(&format!(
                r#"{{"Effect":"Allow","Principal":{{"AWS":"{principal}"}},"Action":"s3:*",
                "Resource":"arn:aws:s3:::things/*"}}"#
            ))
        };
        for (who, principal, allowed) in [
            ("zeta$bob", "arn:aws:iam::zeta:user/bob", true),
            ("bob", "arn:aws:iam::zeta:user/bob", false),
            ("zeta$bob", "arn:aws:iam:::user/bob", false),
            ("bob", "arn:aws:iam:::user/bob", true),
            ("zeta$bob", "arn:aws:iam::zeta:root", true),
            ("acme$bob", "arn:aws:iam::zeta:root", false),
            ("ann", "arn:aws:iam::acme:user/ann", false),
        ] {
            let settings = allow(principal);
            assert_eq!(may(Some(who), of_acme("acme:things"), settings, &[]), allowed, "{who} {principal}");
        }
        assert!(may(Some("acme$ann"), of_acme("acme:things"), BucketSettings::default(), &[]));
        assert!(!may(Some("ann"), of_acme("acme:things"), BucketSettings::default(), &[]));
        // A user's policy without a tenant is about the user's own.
        const DENY: &str = r#"{"Effect":"Deny","Action":"s3:*","Resource":"arn:aws:s3:::things/*"}"#;
        assert!(!may(Some("acme$ann"), of_acme("acme:things"), BucketSettings::default(), &[DENY]));
        let of_zeta = allow("arn:aws:iam::acme:user/ann");
        let elsewhere = Bucket { owner: "zeta$bob".into(), ..of_acme("zeta:things") };
        assert!(may(Some("acme$ann"), elsewhere, of_zeta, &[DENY]));
    }

    fn with_policy(statements: &str) -> BucketSettings {
        let text = format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#);
        BucketSettings { policy: Some(StoredPolicy { text, binds_owner: false }), ..BucketSettings::default() }
    }

    /// Every action, for the owner, another user and nobody: without a policy, with one that allows everything, and
    /// with one that also denies it.
    #[test]
    fn actions_are_judged_for_everybody() {
        const ALLOW: &str = r#"{"Effect":"Allow","Principal":"*","Action":"s3:*",
            "Resource":["arn:aws:s3:::things","arn:aws:s3:::things/*"]}"#;
        const DENY: &str = r#"{"Effect":"Deny","Principal":"*","Action":"s3:*",
            "Resource":["arn:aws:s3:::things","arn:aws:s3:::things/*"]}"#;
        let both = format!("{ALLOW},{DENY}");
        let own = head("ann", None);
        for action in Action::ALL.iter().copied() {
            if action.target() == ActionTarget::Service || action == Action::CreateBucket {
                continue;
            }
            let may = |who, settings: BucketSettings| {
                let visit = visit(who, settings, "/things/k", &[]);
                match action.target() {
                    ActionTarget::Object => visit.may_with(action, &own).is_ok(),
                    _ => visit.may(action, None).is_ok(),
                }
            };
            let of_policy =
                matches!(action, Action::GetBucketPolicy | Action::PutBucketPolicy | Action::DeleteBucketPolicy);
            for who in [Some("ann"), Some("bob"), None] {
                let is_owner = who == Some("ann");
                assert_eq!(may(who, BucketSettings::default()), is_owner, "{action:?} of {who:?}");
                assert!(may(who, with_policy(ALLOW)), "{action:?} of {who:?} by a policy");
                // A policy keeps the owner from everything but itself.
                assert_eq!(may(who, with_policy(&both)), is_owner && of_policy, "{action:?} of {who:?} denied");
            }
        }
    }

    /// Policies of users bind those who own everything, too, and open nothing that belongs to others.
    #[test]
    fn policies_of_users_are_judged() {
        const NO_DELETION: &str = r#"{"Effect":"Deny","Action":"s3:DeleteObject","Resource":"*"}"#;
        const NO_SECRETS: &str = r#"{"Effect":"Deny","Action":"s3:*","Resource":"arn:aws:s3:::things/secret/*",
            "Condition":{"NotIpAddress":{"aws:SourceIp":"10.1.0.0/16"}}}"#;
        const NOTHING_OPEN: &str = r#"{"Effect":"Deny","Action":"s3:GetObject","Resource":"*",
            "Condition":{"StringEquals":{"s3:ExistingObjectTag/kind":"open"}}}"#;
        const EVERYTHING: &str = r#"{"Effect":"Allow","Action":"s3:*","Resource":"*"}"#;
        const LET_IN: &str = r#"{"Effect":"Allow","Principal":"*","Action":"s3:*",
            "Resource":["arn:aws:s3:::things","arn:aws:s3:::things/*"]}"#;
        let (get, delete) = (Action::GetObject, Action::DeleteObject);
        for (who, bucket_policy, own, action, key, allowed) in [
            ("ann", None, &[NO_DELETION][..], delete, "k", false),
            ("ann", None, &[NO_DELETION][..], Action::PutObject, "k", true),
            ("ann", None, &[NO_DELETION, EVERYTHING][..], delete, "k", false),
            ("ann", None, &[NO_SECRETS][..], delete, "secret/k", true),
            ("bob", None, &[EVERYTHING][..], delete, "k", false),
            ("bob", Some(LET_IN), &[EVERYTHING][..], delete, "k", true),
            ("bob", Some(LET_IN), &[NO_DELETION][..], delete, "k", false),
            ("bob", Some(LET_IN), &[NO_DELETION][..], Action::PutObject, "k", true),
        ] {
            let settings = || bucket_policy.map_or_else(BucketSettings::default, with_policy);
            let visit = visit_by(Some(who), (settings(), own), "/things/k", &[]);
            assert_eq!(visit.may(action, Some(key)).is_ok(), allowed, "{who} {own:?} {action:?}");
        }
        let tagged = head("ann", None);
        let reads = |own: &[&str]| {
            let visit = visit_by(Some("ann"), (BucketSettings::default(), own), "/things/k", &[]);
            visit.may_with(get, &tagged).is_ok()
        };
        assert_eq!((reads(&[]), reads(&[NOTHING_OPEN]), reads(&[NO_DELETION])), (true, false, true));
    }

    #[test]
    fn lists_let_others_in() {
        let ann = AclUser { id: "ann".into(), display_name: "ann".into() };
        let bob = AclUser { id: "bob".into(), display_name: "bob".into() };
        let canned = |canned: CannedAcl| Some(canned.acl(&ann, &ann));
        let of_bob = |permission| Some(Acl::new(ann.clone(), vec![Grant::to_user(bob.clone(), permission)]));
        let (bob_reads, bob_writes) = (of_bob(Permission::Read), of_bob(Permission::Write));
        for (acl, action, others, nobody) in [
            (canned(CannedAcl::PublicRead), Action::ListBucket, true, true),
            (canned(CannedAcl::PublicRead), Action::PutObject, false, false),
            (canned(CannedAcl::PublicReadWrite), Action::PutObject, true, true),
            (canned(CannedAcl::AuthenticatedRead), Action::ListBucket, true, false),
            (bob_reads.clone(), Action::ListBucket, true, false),
            (bob_writes, Action::DeleteObject, true, false),
            (bob_reads, Action::GetBucketAcl, false, false),
        ] {
            let may = |who, settings| visit(who, settings, "/things/k", &[]).may(action, Some("k")).is_ok();
            let settings = BucketSettings { acl, ..BucketSettings::default() };
            assert_eq!(may(Some("bob"), settings.clone()), others, "{action:?} {:?}", settings.acl);
            assert_eq!(may(None, settings.clone()), nobody, "{action:?} {:?}", settings.acl);
            let enforced = BucketSettings { ownership: Some(ObjectOwnership::BucketOwnerEnforced), ..settings };
            assert!(!may(Some("bob"), enforced), "lists do not count");
        }
        let may_read = |who, head: &Head| {
            visit(who, BucketSettings::default(), "/things/k", &[]).may_with(Action::GetObject, head).is_ok()
        };
        // The owner of a bucket does not read what others keep private in it.
        for (head, readers) in [
            (head("ann", None), [true, false, false]),
            (head("bob", None), [false, true, false]),
            (head("ann", canned(CannedAcl::PublicRead)), [true, true, true]),
            (head("ann", canned(CannedAcl::AuthenticatedRead)), [true, true, false]),
        ] {
            assert_eq!([Some("ann"), Some("bob"), None].map(|who| may_read(who, &head)), readers, "{head:?}");
        }
    }

    #[test]
    fn conditions_see_the_request() {
        let allow = |condition: &str| {
            with_policy(&format!(
                r#"{{"Effect":"Allow","Principal":"*","Action":["s3:GetObject","s3:ListBucket"],
                "Resource":["arn:aws:s3:::things","arn:aws:s3:::things/*"],"Condition":{condition}}}"#
            ))
        };
        let own = head("ann", None);
        for (condition, allowed) in [
            (r#"{"IpAddress":{"aws:SourceIp":"10.1.0.0/16"}}"#, true),
            (r#"{"IpAddress":{"aws:SourceIp":"10.2.0.0/16"}}"#, false),
            (r#"{"StringLike":{"aws:Referer":"http://e.com/*"}}"#, true),
            (r#"{"StringLike":{"aws:Referer":"http://f.com/*"}}"#, false),
            (r#"{"StringEquals":{"s3:ExistingObjectTag/kind":"open"}}"#, true),
            (r#"{"StringEquals":{"s3:ExistingObjectTag/kind":"shut"}}"#, false),
            (r#"{"Bool":{"aws:SecureTransport":"true"}}"#, true),
            (r#"{"Bool":{"aws:SecureTransport":"false"}}"#, false),
            (r#"{"NumericLessThan":{"s3:TlsVersion":"1.3"}}"#, false),
        ] {
            let visit = visit(None, allow(condition), "/things/k", &[("referer", "http://e.com/a")]);
            assert_eq!(visit.may_with(Action::GetObject, &own).is_ok(), allowed, "{condition}");
        }
        let listed = allow(r#"{"StringEquals":{"s3:prefix":"a b/"}}"#);
        for (uri, allowed) in [("/things?prefix=a+b%2F", true), ("/things?prefix=c", false), ("/things", false)] {
            let visit = visit(None, listed.clone(), uri, &[]);
            assert_eq!(visit.may(Action::ListBucket, None).is_ok(), allowed, "{uri}");
        }
    }

    /// The signature that was checked is the one that conditions see, whatever else the request has.
    #[test]
    fn a_header_does_not_hide_how_old_an_address_is() {
        let credentials = Credentials { access_key: "AK".into(), secret_key: "s".to_owned().into() };
        let kind = |authorization: Option<&str>, uri: &str| {
            let mut headers = HeaderMap::new();
            if let Some(value) = authorization {
                headers.insert("authorization", value.parse().expect("a value"));
            }
            let (uri, peer) = (uri.parse().expect("an address"), Peer::of(&Extensions::new()));
            let (tags, form_signature, direction) = (None, None, Direction::Read);
            let credentials = Some(&credentials);
            let asked = Asked { credentials, headers: &headers, uri: &uri, peer, tags, form_signature, direction };
            asked.signature(UnixMillis::parse("2026-11-28T04:06:06Z").expect("a time"))
        };
        let address = "/b/k?X-Amz-Date=20261128T040506Z&X-Amz-Signature=a";
        let old = Some((SignatureKind::Query { age_ms: 60_000 }, 4));
        assert_eq!(kind(None, address), old);
        assert_eq!(kind(Some("AWS4-HMAC-SHA256 nothing"), address), old);
        assert_eq!(kind(Some("AWS nothing"), address), old);
        assert_eq!(kind(Some("FOO Credential=AK/x"), "/b/k"), Some((SignatureKind::Header, 4)));
        assert_eq!(kind(Some("AWS4-HMAC-SHA256 Credential=AK/x"), "/b/k"), Some((SignatureKind::Header, 4)));
        assert_eq!(kind(Some("AWS AK:x"), "/b/k?x-amz-date=20261128T040506Z"), Some((SignatureKind::Header, 2)));
        let second = Some((SignatureKind::Query { age_ms: 0 }, 2));
        assert_eq!(kind(None, "/b/k?AWSAccessKeyId=AK&Signature=x&X-Amz-Date=20261128T040506Z"), second);
    }

    #[test]
    fn who_may_not_list_does_not_learn_what_is_absent() {
        let code = |who, settings| visit(who, settings, "/things/k", &[]).absent(Action::GetObject, "k").code().clone();
        assert_eq!(code(Some("ann"), BucketSettings::default()), S3ErrorCode::NoSuchKey);
        assert_eq!(code(Some("bob"), BucketSettings::default()), S3ErrorCode::AccessDenied);
        let ann = AclUser { id: "ann".into(), display_name: "ann".into() };
        let acl = Some(CannedAcl::PublicRead.acl(&ann, &ann));
        assert_eq!(code(None, BucketSettings { acl, ..BucketSettings::default() }), S3ErrorCode::NoSuchKey);
    }

    #[test]
    fn requesters_say_that_they_pay() {
        let ann = AclUser { id: "ann".into(), display_name: "ann".into() };
        let acl = Some(CannedAcl::PublicRead.acl(&ann, &ann));
        let settings = BucketSettings { acl, requesters_pay: true, ..BucketSettings::default() };
        let may = |who, uri: &str, headers: &[(&'static str, &str)]| {
            visit(who, settings.clone(), uri, headers).may(Action::ListBucket, None).is_ok()
        };
        let paying = [("x-amz-request-payer", "requester")];
        assert!(!may(Some("bob"), "/things", &[]));
        assert!(may(Some("bob"), "/things", &paying));
        assert!(may(Some("bob"), "/things?x-amz-request-payer=requester", &[]));
        assert!(!may(None, "/things", &paying), "nobody knows who pays");
        assert!(may(Some("ann"), "/things", &[]));
    }

    #[test]
    fn requests_expect_the_owner_of_a_bucket() {
        let (own, source) = ("x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner");
        let passes = |expectation, uri: &str, headers: &[(&'static str, &str)]| {
            let headers = HeaderMap::from_iter(
                headers.iter().map(|(n, v)| (http::HeaderName::from_static(n), v.parse().expect("a value"))),
            );
            let (uri, peer) = (uri.parse().expect("an address"), Peer::of(&Extensions::new()));
            let (credentials, tags, form_signature, direction) = (None, None, None, Direction::Read);
            let asked = Asked { credentials, headers: &headers, uri: &uri, peer, tags, form_signature, direction };
            let checked = asked.check_owner(expectation, "acme$ann");
            assert!(checked.as_ref().err().is_none_or(|error| *error.code() == S3ErrorCode::AccessDenied));
            checked.is_ok()
        };
        for (expectation, name, other) in [(ExpectedOwner::OWN, own, source), (ExpectedOwner::SOURCE, source, own)] {
            assert!(passes(expectation, "/b/k", &[]) && passes(expectation, "/b/k?prefix=owner", &[(other, "bob")]));
            assert!(passes(expectation, "/b/k", &[(name, "acme$ann")]));
            for wrong in ["ann", "acme$annie", "", "ACME$ANN"] {
                assert!(!passes(expectation, "/b/k", &[(name, wrong)]), "{name}: {wrong}");
            }
            assert!(passes(expectation, &format!("/b/k?{name}=acme%24ann"), &[]));
            assert!(!passes(expectation, &format!("/b/k?acl&{}=ann", name.to_uppercase()), &[]));
            assert!(!passes(expectation, &format!("/b/k?{}=ann", name.replace('-', "%2D")), &[]));
            assert!(!passes(expectation, &format!("/b/k?{name}=ann"), &[(name, "acme$ann")]), "one of two is wrong");
        }
        let mut twice = HeaderMap::from_iter([(http::HeaderName::from_static(own), "acme$ann".parse().expect("text"))]);
        twice.append(own, "ann".parse().expect("a value"));
        let (uri, peer) = ("/b".parse().expect("an address"), Peer::of(&Extensions::new()));
        let (credentials, tags, form_signature, direction) = (None, None, None, Direction::Read);
        let asked = Asked { credentials, headers: &twice, uri: &uri, peer, tags, form_signature, direction };
        assert!(asked.check_owner(ExpectedOwner::OWN, "acme$ann").is_err());
    }

    #[test]
    fn times_of_signatures() {
        assert_eq!(basic_time("20261128T040506Z"), UnixMillis::parse("2026-11-28T04:05:06Z"));
        assert_eq!(basic_time("2026"), None);
    }
}
