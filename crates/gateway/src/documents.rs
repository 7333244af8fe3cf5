//! Settings of buckets, and lists and tags of objects, as documents: requests such as `GET /bucket?policy`.
//!
//! Documents are read and written by `s3rules`. A setting that the gateway would not act on is refused, so nobody
//! believes that it holds; asked for, it is answered as absent.

use crate::asker::{Asked, Visit, private};
use crate::authority::list_headers;
use crate::convert::{Gateway, not_implemented, ruled, told, unset};
use crate::encryption;
use crate::locks::{Part, bypasses};
use crate::place::{Domain, Place};
use crate::service::{Service, to_its_end};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use s3::{BucketSettings, Head, StoredPolicy, Versioning};
use s3rules::acl::{Acl, AclDraft, AclHeaders};
use s3rules::cors::{CorsAnswer, CorsConfiguration, CorsHeaders};
use s3rules::lifecycle::LifecycleConfiguration;
use s3rules::object_lock::{ObjectLockConfiguration, check_may_have_locks};
use s3rules::policy::{Action, POLICY_BYTES_MAX, Policy, PolicyKind};
use s3rules::tagging::{BUCKET_TAGS_MAX, OBJECT_TAGS_MAX, TagSet};
use s3rules::website::WebsiteConfiguration;
use s3rules::{
    DefaultEncryption, ObjectOwnership, PublicAccessBlock, XML_BYTES_MAX, is_public_bucket, policy_status_xml,
    requesters_pay_from_xml, requesters_pay_xml,
};
use s3s::route::S3Route;
use s3s::{Body, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};
use std::sync::Arc;

/// Kinds of documents, by the name in the query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Acl,
    Cors,
    Ownership,
    Policy,
    PolicyStatus,
    PublicAccess,
    RequestPayment,
    Tagging,
    Lifecycle,
    Encryption,
    Website,
    ObjectLock,
    /// Of objects alone.
    Lock(Part),
}

const KINDS: [(&str, Kind); 14] = [
    ("legal-hold", Kind::Lock(Part::LegalHold)),
    ("retention", Kind::Lock(Part::Retention)),
    ("acl", Kind::Acl),
    ("cors", Kind::Cors),
    ("ownershipControls", Kind::Ownership),
    ("policy", Kind::Policy),
    ("policyStatus", Kind::PolicyStatus),
    ("publicAccessBlock", Kind::PublicAccess),
    ("requestPayment", Kind::RequestPayment),
    ("tagging", Kind::Tagging),
    ("encryption", Kind::Encryption),
    ("lifecycle", Kind::Lifecycle),
    ("object-lock", Kind::ObjectLock),
    ("website", Kind::Website),
];

/// Handler of requests about documents.
pub(crate) struct Documents {
    pub service: Service,
    pub domain: Option<Domain>,
}

/// The kind of document that a request is about.
fn kind_of(method: &Method, uri: &Uri, of_object: bool) -> Option<Kind> {
    if ![Method::GET, Method::PUT, Method::DELETE].contains(method) {
        return None;
    }
    let names = uri.query()?.split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    let kind = names.filter_map(|name| KINDS.iter().find(|(known, _)| *known == name)).map(|(_, kind)| *kind).next()?;
    let is_right = match kind {
        Kind::Acl | Kind::Tagging => true,
        Kind::Lock(_) => of_object,
        _ => !of_object,
    };
    is_right.then_some(kind)
}

/// The action that a request about a bucket asks for; `None` if there is no such request.
fn bucket_action(kind: Kind, method: &Method) -> Option<Action> {
    use Action::*;
    let (get, put, delete) = match kind {
        Kind::Acl => (GetBucketAcl, Some(PutBucketAcl), None),
        Kind::Cors => (GetBucketCORS, Some(PutBucketCORS), Some(PutBucketCORS)),
        Kind::Ownership => {
            (GetBucketOwnershipControls, Some(PutBucketOwnershipControls), Some(PutBucketOwnershipControls))
        }
        Kind::Policy => (GetBucketPolicy, Some(PutBucketPolicy), Some(DeleteBucketPolicy)),
        Kind::PolicyStatus => (GetBucketPolicyStatus, None, None),
        Kind::PublicAccess => {
            (GetBucketPublicAccessBlock, Some(PutBucketPublicAccessBlock), Some(PutBucketPublicAccessBlock))
        }
        Kind::RequestPayment => (GetBucketRequestPayment, Some(PutBucketRequestPayment), None),
        Kind::Tagging => (GetBucketTagging, Some(PutBucketTagging), Some(PutBucketTagging)),
        Kind::Encryption => {
            (GetEncryptionConfiguration, Some(PutEncryptionConfiguration), Some(PutEncryptionConfiguration))
        }
        Kind::Lifecycle => {
            (GetLifecycleConfiguration, Some(PutLifecycleConfiguration), Some(PutLifecycleConfiguration))
        }
        Kind::ObjectLock => (GetBucketObjectLockConfiguration, Some(PutBucketObjectLockConfiguration), None),
        Kind::Website => (GetBucketWebsite, Some(PutBucketWebsite), Some(DeleteBucketWebsite)),
        Kind::Lock(_) => return None,
    };
    match *method {
        Method::GET => Some(get),
        Method::PUT => put,
        _ => delete,
    }
}

/// The answer for a document that is not there.
fn none(kind: Kind) -> S3Error {
    let code = match kind {
        Kind::Cors => "NoSuchCORSConfiguration",
        Kind::Ownership => "OwnershipControlsNotFoundError",
        Kind::Policy => "NoSuchBucketPolicy",
        Kind::PublicAccess => "NoSuchPublicAccessBlockConfiguration",
        Kind::Tagging => "NoSuchTagSet",
        Kind::Encryption => "ServerSideEncryptionConfigurationNotFoundError",
        Kind::Lifecycle => "NoSuchLifecycleConfiguration",
        Kind::ObjectLock => "ObjectLockConfigurationNotFoundError",
        Kind::Website => "NoSuchWebsiteConfiguration",
        Kind::Acl | Kind::PolicyStatus | Kind::RequestPayment | Kind::Lock(_) => "InternalError",
    };
    unset(code)
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> S3Response<Body> {
    let mut response = S3Response::new(Body::from(body.into()));
    response.status = Some(status);
    response.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn xml(body: String) -> S3Response<Body> {
    answer(StatusCode::OK, "application/xml", body)
}

fn empty(status: StatusCode) -> S3Response<Body> {
    let mut response = S3Response::new(Body::empty());
    response.status = Some(status);
    response
}

/// A change of settings.
type Change = Box<dyn Fn(&mut BucketSettings) -> Result<(), s3::Error> + Send + Sync>;

fn change(change: impl Fn(&mut BucketSettings) -> Result<(), s3::Error> + Send + Sync + 'static) -> Change {
    Box::new(change)
}

impl Documents {
    async fn answer(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let place = Place::of(self.domain.as_ref(), &request.headers, &request.uri);
        let place = place.ok_or_else(|| S3Error::new(S3ErrorCode::InvalidURI))?;
        let kind = kind_of(&request.method, &request.uri, place.key.is_some());
        let kind = kind.ok_or_else(|| not_implemented("this request"))?;
        match &place.key {
            None => self.of_bucket(request, kind, &place.bucket).await,
            Some(key) => self.of_object(request, kind, &place.bucket, key).await,
        }
    }

    /// Reads the body of a request, and compares it with its digest.
    async fn body(&self, request: &mut S3Request<Body>) -> S3Result<Bytes> {
        let max = XML_BYTES_MAX.max(POLICY_BYTES_MAX);
        let body = request.input.store_all_limited(max).await.map_err(|error| {
            S3Error::with_message(S3ErrorCode::InvalidRequest, format!("the body cannot be read: {error}"))
        })?;
        if let Some(told_md5) = request.headers.get("content-md5") {
            let text = told_md5.to_str().map_err(|_| S3Error::new(S3ErrorCode::InvalidDigest))?;
            s3::check_content_md5(text, &body).map_err(told)?;
        }
        Ok(body)
    }

    async fn of_bucket(&self, mut request: S3Request<Body>, kind: Kind, bucket: &str) -> S3Result<S3Response<Body>> {
        let action = bucket_action(kind, &request.method);
        let action = action.ok_or_else(|| S3Error::new(S3ErrorCode::MethodNotAllowed))?;
        let visit = self.service.authority.visit(&request, bucket).await?;
        visit.may(action, None)?;
        match request.method {
            Method::GET => self.bucket_document(kind, &visit).await,
            Method::DELETE => {
                let delete = change(move |settings| {
                    match kind {
                        Kind::Cors => settings.cors = None,
                        Kind::Encryption => settings.encryption = None,
                        Kind::Lifecycle => settings.lifecycle = None,
                        Kind::Ownership => settings.ownership = None,
                        Kind::Policy => settings.policy = None,
                        Kind::PublicAccess => settings.public_access = None,
                        Kind::Tagging => settings.tags = None,
                        Kind::Website => settings.website = None,
                        _ => {}
                    }
                    Ok(())
                });
                self.change(&visit, delete).await?;
                Ok(empty(StatusCode::NO_CONTENT))
            }
            _ if kind == Kind::Lifecycle => {
                let body = self.body(&mut request).await?;
                // There is one storage class, so nothing can move to another.
                let rules = ruled(LifecycleConfiguration::from_xml(&body, |_| false))?;
                let (gateway, bucket) = (self.service.gateway.clone(), visit.bucket.clone());
                to_its_end(async move { gateway.set_lifecycle(&bucket, Some(rules)).await }).await?;
                Ok(empty(StatusCode::OK))
            }
            _ => {
                let body = self.body(&mut request).await?;
                let change = self.bucket_change(kind, &visit, &request.headers, &body).await?;
                self.change(&visit, change).await?;
                let is_policy = kind == Kind::Policy;
                Ok(empty(if is_policy { StatusCode::NO_CONTENT } else { StatusCode::OK }))
            }
        }
    }

    async fn change(&self, visit: &Visit, change: Change) -> S3Result<Arc<BucketSettings>> {
        let (gateway, bucket) = (self.service.gateway.clone(), visit.bucket.clone());
        to_its_end(async move { gateway.change_settings(&bucket, change).await }).await
    }

    async fn bucket_document(&self, kind: Kind, visit: &Visit) -> S3Result<S3Response<Body>> {
        // The one who changed a setting at another gateway a moment ago sees the change.
        let (_, settings) = self.service.gateway.settings_now(&visit.bucket.name).await.map_err(told)?;
        let authority = &self.service.authority;
        let document = match kind {
            Kind::Acl => Some(authority.shown_list(settings.acl.as_ref(), &visit.bucket.owner).await?.to_xml()),
            Kind::Cors => settings.cors.as_ref().map(CorsConfiguration::to_xml),
            Kind::Ownership => settings.ownership.map(ObjectOwnership::to_xml),
            Kind::Policy => {
                let policy = settings.policy.as_ref().ok_or_else(|| none(kind))?;
                return Ok(answer(StatusCode::OK, "application/json", policy.text.clone()));
            }
            Kind::PolicyStatus => {
                let policy = authority.policy(&visit.bucket, &settings)?;
                let acl = settings.acl.clone().unwrap_or_else(|| private(&visit.bucket.owner));
                Some(policy_status_xml(is_public_bucket(&acl, policy.as_deref())))
            }
            Kind::PublicAccess => settings.public_access.map(PublicAccessBlock::to_xml),
            Kind::RequestPayment => Some(requesters_pay_xml(settings.requesters_pay)),
            Kind::Tagging => settings.tags.as_ref().map(TagSet::to_xml),
            Kind::ObjectLock => settings.object_lock.as_ref().map(ObjectLockConfiguration::to_xml),
            Kind::Lifecycle => settings.lifecycle.as_ref().map(LifecycleConfiguration::to_xml),
            Kind::Website => settings.website.as_ref().map(WebsiteConfiguration::to_xml),
            Kind::Encryption => settings.encryption.as_ref().map(DefaultEncryption::to_xml),
            Kind::Lock(_) => None,
        };
        document.map(xml).ok_or_else(|| none(kind))
    }

    /// The change that a document asks for. Whatever has to agree with other settings is looked at in the change
    /// itself, so that it agrees with those that are there then.
    async fn bucket_change(&self, kind: Kind, visit: &Visit, headers: &HeaderMap, body: &Bytes) -> S3Result<Change> {
        Ok(match kind {
            Kind::Acl => {
                let owner = self.service.authority.shown(&visit.bucket.owner).await?;
                let acl = self.asked_list(headers, body, (&owner, &owner)).await?;
                change(move |settings| {
                    settings.ownership.unwrap_or_default().check_acl_change()?;
                    settings.public_access.unwrap_or_default().check_acl(&acl)?;
                    settings.acl = Some(acl.clone());
                    Ok(())
                })
            }
            Kind::Cors => {
                let cors = ruled(CorsConfiguration::from_xml(body))?;
                change(move |settings| {
                    settings.cors = Some(cors.clone());
                    Ok(())
                })
            }
            Kind::Ownership => {
                let ownership = ruled(ObjectOwnership::from_xml(body))?;
                change(move |settings| {
                    if let Some(acl) = &settings.acl {
                        ownership.check_bucket_acl(acl)?;
                    }
                    settings.ownership = Some(ownership);
                    Ok(())
                })
            }
            Kind::Policy => {
                let text = String::from_utf8(body.to_vec());
                let text = text.map_err(|_| S3Error::new(S3ErrorCode::MalformedPolicy))?;
                let policy = ruled(Policy::parse(&text, PolicyKind::Bucket, visit.bucket.tenant()))?;
                let confirmation = headers.get("x-amz-confirm-remove-self-bucket-access");
                let binds_owner = confirmation.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"));
                change(move |settings| {
                    settings.public_access.unwrap_or_default().check_policy(&policy)?;
                    settings.policy = Some(StoredPolicy { text: text.clone(), binds_owner });
                    Ok(())
                })
            }
            Kind::PublicAccess => {
                let block = ruled(PublicAccessBlock::from_xml(body))?;
                change(move |settings| {
                    settings.public_access = Some(block);
                    Ok(())
                })
            }
            Kind::RequestPayment => {
                let pays = ruled(requesters_pay_from_xml(body))?;
                change(move |settings| {
                    settings.requesters_pay = pays;
                    Ok(())
                })
            }
            Kind::Tagging => {
                let tags = ruled(TagSet::from_xml(body, BUCKET_TAGS_MAX))?;
                change(move |settings| {
                    settings.tags = Some(tags.clone());
                    Ok(())
                })
            }
            Kind::ObjectLock => {
                let locks = ruled(ObjectLockConfiguration::from_xml(body))?;
                change(move |settings| {
                    check_may_have_locks(settings.versioning == Versioning::Enabled)?;
                    settings.object_lock = Some(locks);
                    Ok(())
                })
            }
            Kind::Website => {
                let site = ruled(WebsiteConfiguration::from_xml(body))?;
                change(move |settings| {
                    settings.website = Some(site.clone());
                    Ok(())
                })
            }
            Kind::PolicyStatus | Kind::Lifecycle | Kind::Lock(_) => {
                return Err(S3Error::new(S3ErrorCode::MethodNotAllowed));
            }
            Kind::Encryption => {
                let default = ruled(DefaultEncryption::from_xml(body))?;
                encryption::check_default(&self.service.gateway, &default)?;
                change(move |settings| {
                    settings.encryption = Some(default.clone());
                    Ok(())
                })
            }
        })
    }

    /// The list that a request brings in its headers or its body. `owners`: of the thing, and of its bucket.
    async fn asked_list(
        &self,
        headers: &HeaderMap,
        body: &Bytes,
        owners: (&s3rules::acl::AclUser, &s3rules::acl::AclUser),
    ) -> S3Result<Acl> {
        let authority = &self.service.authority;
        match list_headers(headers)? {
            AclHeaders::Absent if body.is_empty() => {
                let message = "a list comes in the headers or in the body";
                Err(S3Error::with_message(S3ErrorCode::MissingSecurityHeader, message))
            }
            AclHeaders::Absent => authority.resolved(&ruled(AclDraft::from_xml(body))?, owners.0).await,
            _ if !body.is_empty() => {
                let message = "a list comes in the headers or in the body, not in both";
                Err(S3Error::with_message(S3ErrorCode::UnexpectedContent, message))
            }
            headers => authority.list_of(&headers, owners.0, owners.1).await,
        }
    }

    async fn of_object(
        &self,
        mut request: S3Request<Body>,
        kind: Kind,
        bucket: &str,
        key: &str,
    ) -> S3Result<S3Response<Body>> {
        use Action::*;
        let query = Asked::from(&request).query();
        let version = query.iter().find(|(name, _)| name == "versionId").map(|(_, version)| version.as_str());
        let actions = match (kind, request.method.as_str()) {
            (Kind::Acl, "GET") => (GetObjectAcl, GetObjectVersionAcl),
            (Kind::Acl, "PUT") => (PutObjectAcl, PutObjectVersionAcl),
            (Kind::Tagging, "GET") => (GetObjectTagging, GetObjectVersionTagging),
            (Kind::Tagging, "PUT") => (PutObjectTagging, PutObjectVersionTagging),
            (Kind::Tagging, "DELETE") => (DeleteObjectTagging, DeleteObjectVersionTagging),
            (Kind::Lock(part), "GET" | "PUT") => [part.action(request.method == Method::PUT); 2].into(),
            _ => return Err(S3Error::new(S3ErrorCode::MethodNotAllowed)),
        };
        let action = if version.is_some() { actions.1 } else { actions.0 };
        let body = if request.method == Method::PUT { self.body(&mut request).await? } else { Bytes::new() };
        let tags = match (kind, &request.method) {
            (Kind::Tagging, &Method::PUT) => Some(ruled(TagSet::from_xml(&body, OBJECT_TAGS_MAX))?),
            _ => None,
        };
        let asked = Asked { tags: tags.as_ref(), ..Asked::from(&request) };
        let visit = self.service.authority.visit(asked, bucket).await?;
        let head = visit.head(&self.service.gateway, action, (key, version)).await?;
        let authority = &self.service.authority;
        match (kind, &request.method) {
            (Kind::Lock(part), &Method::GET) => Ok(xml(part.document(&visit, &head)?)),
            (Kind::Lock(part), _) => {
                let bypass = bypasses(&Asked::from(&request), &visit, key);
                let change = part.change(&visit, &body, bypass)?;
                self.change_head(&visit, (head, version), change).await?;
                Ok(empty(StatusCode::OK))
            }
            (Kind::Acl, &Method::GET) => Ok(xml(authority.shown_list(head.acl.as_ref(), &head.owner).await?.to_xml())),
            (Kind::Acl, _) => {
                ruled(visit.ownership().check_acl_change())?;
                let owners = (authority.shown(&head.owner).await?, authority.shown(&visit.bucket.owner).await?);
                let acl = self.asked_list(&request.headers, &body, (&owners.0, &owners.1)).await?;
                ruled(visit.settings.public_access.unwrap_or_default().check_acl(&acl))?;
                let change = move |head: &mut Head| {
                    head.acl = Some(acl.clone());
                    Ok(())
                };
                self.change_head(&visit, (head, version), change).await?;
                Ok(empty(StatusCode::OK))
            }
            (_, &Method::GET) => Ok(xml(head.tags.to_xml())),
            _ => {
                let is_deleted = tags.is_none();
                let tags = tags.unwrap_or_default();
                let change = move |head: &mut Head| {
                    head.tags = tags.clone();
                    Ok(())
                };
                self.change_head(&visit, (head, version), change).await?;
                Ok(empty(if is_deleted { StatusCode::NO_CONTENT } else { StatusCode::OK }))
            }
        }
    }

    /// Changes the head of an object that this one may change. An object that has taken its place meanwhile is
    /// another's, perhaps: it is not changed.
    async fn change_head(
        &self,
        visit: &Visit,
        (seen, version): (Head, Option<&str>),
        change: impl Fn(&mut Head) -> Result<(), s3::Error> + Send + Sync + 'static,
    ) -> S3Result<Head> {
        let (gateway, bucket, key) = (self.service.gateway.clone(), visit.bucket.clone(), seen.key.clone());
        let version = version.map(str::to_owned);
        to_its_end(async move {
            let change = |head: &mut Head| {
                if head.owner != seen.owner {
                    let message = "another object has taken the place of this one";
                    return Err(s3::Code::OperationAborted.because(message));
                }
                change(head)
            };
            gateway.change_head(&bucket, &key, version.as_deref(), change).await
        })
        .await
    }
}

/// Headers of the answer to a preflight. Errors: `NoSuchBucket`, `BadRequest`, `AccessForbidden`.
pub(crate) async fn preflight(gateway: &Gateway, place: Option<Place>, headers: &HeaderMap) -> S3Result<CorsAnswer> {
    let configuration = match &place {
        Some(place) => gateway.bucket_and_settings(&place.bucket).await.map_err(told)?.1.cors.clone(),
        None => None,
    };
    ruled(CorsConfiguration::preflight(configuration.as_ref(), &cors_headers(headers)))
}

pub(crate) fn cors_headers(headers: &HeaderMap) -> CorsHeaders<'_> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    CorsHeaders {
        origin: text("origin"),
        request_method: text("access-control-request-method"),
        request_headers: text("access-control-request-headers"),
    }
}

/// Adds headers to an answer. A value that cannot stand in one is left out.
pub(crate) fn add_headers(headers: &mut HeaderMap, added: Vec<(&'static str, String)>) {
    for (name, value) in added {
        let name = http::HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
            headers.insert(name, value);
        }
    }
}

#[async_trait::async_trait]
impl S3Route for Documents {
    fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap, _: &mut http::Extensions) -> bool {
        // Most requests name no document of a bucket either, and their paths need not be decoded for that.
        [false, true].iter().any(|of_object| kind_of(method, uri, *of_object).is_some())
            && Place::of(self.domain.as_ref(), headers, uri)
                .is_some_and(|place| kind_of(method, uri, place.key.is_some()).is_some())
    }

    /// Anonymous requests are judged like others.
    async fn check_access(&self, _: &mut S3Request<Body>) -> S3Result<()> {
        Ok(())
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        match self.answer(request).await {
            Ok(response) => Ok(response),
            // A refusal is an answer like others: `s3s` would log it as a fault of this gateway.
            Err(error) => {
                let response = error.to_http_response()?;
                let (parts, body) = response.into_parts();
                let mut refusal = S3Response::new(body);
                refusal.status = Some(parts.status);
                refusal.headers = parts.headers;
                Ok(refusal)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_told_from_other_requests() {
        let of = |method: Method, uri: &str, of_object| kind_of(&method, &uri.parse().expect("an address"), of_object);
        assert_eq!(of(Method::GET, "/b?policy", false), Some(Kind::Policy));
        assert_eq!(of(Method::GET, "/b?acl=", false), Some(Kind::Acl));
        assert_eq!(of(Method::PUT, "/b/k?versionId=null&tagging", true), Some(Kind::Tagging));
        assert_eq!(of(Method::GET, "/b/k?policy", true), None, "an object has no policy");
        assert_eq!(of(Method::GET, "/b/k?retention", true), Some(Kind::Lock(Part::Retention)));
        assert_eq!(of(Method::GET, "/b?retention", false), None, "a bucket has none");
        assert_eq!(of(Method::POST, "/b?acl", false), None);
        assert_eq!(of(Method::GET, "/b?prefix=acl", false), None);
        assert_eq!(of(Method::GET, "/b", false), None);
        assert_eq!(bucket_action(Kind::Policy, &Method::DELETE), Some(Action::DeleteBucketPolicy));
        assert_eq!(bucket_action(Kind::Acl, &Method::DELETE), None);
        assert_eq!(bucket_action(Kind::PolicyStatus, &Method::PUT), None);
    }

    #[test]
    fn documents_that_are_not_there_have_codes_of_their_own() {
        for (_, kind) in KINDS {
            if !matches!(kind, Kind::Acl | Kind::PolicyStatus | Kind::RequestPayment | Kind::Lock(_)) {
                let error = none(kind);
                assert_ne!(error.code(), &S3ErrorCode::InternalError, "{kind:?}");
                assert_eq!(error.status_code(), Some(StatusCode::NOT_FOUND));
            }
        }
    }
}
