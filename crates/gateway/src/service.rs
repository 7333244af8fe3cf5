//! The operations of S3 that this gateway has. Every other one is answered by `NotImplemented`.

use crate::asker::{Asked, list_user};
use crate::authority::{Authority, bucket_name, list_headers};
use crate::budget::{Budget, Reserved};
use crate::convert::{Gateway, not_implemented, ruled, time, told, unset};
use crate::notes::note_bucket;
use s3::Versioning;
use s3rules::ObjectOwnership;
use s3rules::acl::{Acl, AclHeaders, AclUser, CannedAcl};
use s3rules::object_lock;
use s3rules::policy::{Action, ResourceArn};
use s3s::dto::*;
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};
use std::sync::Arc;

/// The header that tells the ownership of a new bucket.
const OWNERSHIP: &str = "x-amz-object-ownership";

/// Requests of S3, on one gateway of the core.
#[derive(Clone)]
pub(crate) struct Service {
    pub gateway: Gateway,
    pub authority: Arc<Authority>,
    pub budget: Budget,
}

/// Runs work that has to come to its end, also if the client goes away meanwhile.
pub(crate) async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, s3::Error>> + Send + 'static,
) -> S3Result<T> {
    tokio::spawn(work).await.map_err(S3Error::internal_error)?.map_err(told)
}

/// As [`to_its_end`], for work that holds the memory of a body until then.
pub(crate) async fn to_its_end_holding<T: Send + 'static>(
    memory: Reserved,
    work: impl Future<Output = Result<T, s3::Error>> + Send + 'static,
) -> S3Result<T> {
    to_its_end(async move {
        let _memory = memory;
        work.await
    })
    .await
}

#[async_trait::async_trait]
impl S3 for Service {
    async fn list_buckets(&self, req: S3Request<ListBucketsInput>) -> S3Result<S3Response<ListBucketsOutput>> {
        let user = self.authority.asker(req.credentials.as_ref()).await?;
        self.authority.count(user.as_deref(), &req.method)?;
        if let Some(user) = &user {
            let about = (Action::ListAllMyBuckets, &ResourceArn::service(user.tenant()));
            self.authority.may_without_bucket(&req, user, about)?;
        }
        let uid = user.as_ref().map_or(s3::ANONYMOUS, |user| user.uid.as_str());
        // Nobody owns buckets without a key.
        let buckets = match &user {
            Some(user) => self.gateway.buckets(&user.uid).await.map_err(told)?,
            None => Vec::new(),
        };
        let prefix = req.input.prefix.clone().unwrap_or_default();
        let after = req.input.continuation_token.clone().unwrap_or_default();
        let most = req.input.max_buckets.map_or(usize::MAX, |max| max.max(1) as usize);
        // All are of the user's own tenant, which goes without saying.
        let named = buckets.iter().map(|bucket| (bucket.bare_name(), bucket.created_ms));
        let mut wanted = named.filter(|(name, _)| name.starts_with(&prefix) && *name > after.as_str());
        let page: Vec<_> = wanted.by_ref().take(most).collect();
        let continuation_token = page.last().filter(|_| wanted.next().is_some()).map(|(last, _)| (*last).to_owned());
        let listed = page.into_iter().map(|(name, created_ms)| Bucket {
            name: Some(name.to_owned()),
            creation_date: Some(time(created_ms)),
            ..Default::default()
        });
        Ok(S3Response::new(ListBucketsOutput {
            buckets: Some(listed.collect()),
            owner: Some(self.owner(uid).await?),
            continuation_token,
            prefix: req.input.prefix,
        }))
    }

    async fn create_bucket(&self, req: S3Request<CreateBucketInput>) -> S3Result<S3Response<CreateBucketOutput>> {
        let user = self.authority.user(req.credentials.as_ref()).await?;
        self.authority.count(Some(&user), &req.method)?;
        let name = bucket_name(Some(&user), &req.input.bucket);
        let (tenant, bare) = s3::bucket_parts(&name);
        let resource = ResourceArn::bucket(tenant, bare);
        self.authority.may_without_bucket(&req, &user, (Action::CreateBucket, &resource))?;
        let with_locks = req.input.object_lock_enabled_for_bucket == Some(true);
        for action in asked_of_new(&req.headers, with_locks)? {
            self.authority.may_without_bucket(&req, &user, (action, &resource))?;
        }
        let S3Request { input, headers, .. } = req;
        let mut settings = self.settings_of_new(&user, &headers).await?;
        if with_locks {
            settings.versioning = Versioning::Enabled;
            settings.object_lock = Some(object_lock::ObjectLockConfiguration::default());
        }
        let (gateway, made, acl) = (self.gateway.clone(), name.clone(), settings.acl.clone());
        let made = to_its_end(async move { gateway.create_bucket(&user, &made, settings).await }).await;
        match made {
            // Making one's own bucket again changes nothing, as in the first region of AWS: its list has to agree.
            Err(error) if *error.code() == S3ErrorCode::BucketAlreadyOwnedByYou => {
                let (bucket, present) = self.gateway.settings_now(&name).await.map_err(told)?;
                note_bucket(&bucket);
                if present.acl != acl {
                    let message = "you have this bucket already, with another list";
                    return Err(S3Error::with_message(S3ErrorCode::BucketAlreadyExists, message));
                }
            }
            made => note_bucket(&made?),
        }
        let location = Some(format!("/{}", input.bucket));
        Ok(S3Response::new(CreateBucketOutput { location }))
    }

    async fn head_bucket(&self, req: S3Request<HeadBucketInput>) -> S3Result<S3Response<HeadBucketOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::ListBucket, None)?;
        let mut response = S3Response::new(HeadBucketOutput::default());
        // Ceph's gateway tells it those who ask; a bucket of many ranges is counted with many reads.
        if Asked::from(&req).query().iter().any(|(name, value)| name == "read-stats" && value == "true") {
            let usage = self.gateway.usage(&visit.bucket.id, false).await.map_err(told)?.stored;
            for (name, value) in [("x-rgw-object-count", usage.objects), ("x-rgw-bytes-used", usage.bytes)] {
                response.headers.insert(name, http::HeaderValue::from(value));
            }
            if let Some(owner) = visit.user.as_ref().filter(|user| user.uid == visit.bucket.owner) {
                response.headers.insert("x-rgw-quota-max-buckets", http::HeaderValue::from(owner.buckets_max));
            }
        }
        Ok(response)
    }

    async fn delete_bucket(&self, req: S3Request<DeleteBucketInput>) -> S3Result<S3Response<DeleteBucketOutput>> {
        let user = self.authority.asker(req.credentials.as_ref()).await?;
        self.gateway.bucket_now(&bucket_name(user.as_deref(), &req.input.bucket)).await.map_err(told)?;
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::DeleteBucket, None)?;
        let (gateway, bucket) = (self.gateway.clone(), visit.bucket);
        to_its_end(async move { gateway.delete_bucket(&bucket).await }).await?;
        Ok(S3Response::new(DeleteBucketOutput::default()))
    }

    async fn get_bucket_location(
        &self,
        req: S3Request<GetBucketLocationInput>,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        self.authority.visit(&req, &req.input.bucket).await?.may(Action::GetBucketLocation, None)?;
        Ok(S3Response::new(GetBucketLocationOutput::default()))
    }

    // Tools ask for every setting of a bucket, and stop at one that is refused. Those below are never set here.

    async fn get_bucket_logging(
        &self,
        req: S3Request<GetBucketLoggingInput>,
    ) -> S3Result<S3Response<GetBucketLoggingOutput>> {
        self.authority.visit(&req, &req.input.bucket).await?.may(Action::GetBucketLogging, None)?;
        Ok(S3Response::new(GetBucketLoggingOutput::default()))
    }

    async fn get_bucket_notification_configuration(
        &self,
        req: S3Request<GetBucketNotificationConfigurationInput>,
    ) -> S3Result<S3Response<GetBucketNotificationConfigurationOutput>> {
        self.authority.visit(&req, &req.input.bucket).await?.may(Action::GetBucketNotification, None)?;
        Ok(S3Response::new(GetBucketNotificationConfigurationOutput::default()))
    }

    async fn get_bucket_accelerate_configuration(
        &self,
        req: S3Request<GetBucketAccelerateConfigurationInput>,
    ) -> S3Result<S3Response<GetBucketAccelerateConfigurationOutput>> {
        self.authority.visit(&req, &req.input.bucket).await?.may(Action::GetAccelerateConfiguration, None)?;
        Ok(S3Response::new(GetBucketAccelerateConfigurationOutput::default()))
    }

    async fn get_bucket_replication(
        &self,
        req: S3Request<GetBucketReplicationInput>,
    ) -> S3Result<S3Response<GetBucketReplicationOutput>> {
        self.authority.visit(&req, &req.input.bucket).await?.may(Action::GetReplicationConfiguration, None)?;
        Err(unset("ReplicationConfigurationNotFoundError"))
    }

    async fn get_bucket_versioning(
        &self,
        req: S3Request<GetBucketVersioningInput>,
    ) -> S3Result<S3Response<GetBucketVersioningOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::GetBucketVersioning, None)?;
        // The one who changed it at another gateway a moment ago sees the change.
        let (_, settings) = self.gateway.settings_now(&visit.bucket.name).await.map_err(told)?;
        let status = match settings.versioning {
            Versioning::Off => None,
            Versioning::Enabled => Some(BucketVersioningStatus::from_static(BucketVersioningStatus::ENABLED)),
            Versioning::Suspended => Some(BucketVersioningStatus::from_static(BucketVersioningStatus::SUSPENDED)),
        };
        Ok(S3Response::new(GetBucketVersioningOutput { status, ..Default::default() }))
    }

    async fn put_bucket_versioning(
        &self,
        req: S3Request<PutBucketVersioningInput>,
    ) -> S3Result<S3Response<PutBucketVersioningOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::PutBucketVersioning, None)?;
        let VersioningConfiguration { mfa_delete, status, .. } = req.input.versioning_configuration;
        if mfa_delete.is_some_and(|wish| wish.as_str() == MFADelete::ENABLED) {
            return Err(not_implemented("deletion by a second factor"));
        }
        let versioning = match status.as_ref().map(BucketVersioningStatus::as_str) {
            Some(BucketVersioningStatus::ENABLED) => Versioning::Enabled,
            Some(BucketVersioningStatus::SUSPENDED) => Versioning::Suspended,
            _ => {
                let message = "the status of versioning is Enabled or Suspended";
                return Err(S3Error::with_message(S3ErrorCode::MalformedXML, message));
            }
        };
        let (gateway, bucket) = (self.gateway.clone(), visit.bucket);
        let change = move |settings: &mut s3::BucketSettings| {
            if versioning == Versioning::Suspended {
                object_lock::check_may_suspend_versioning(settings.object_lock.as_ref())?;
            }
            settings.versioning = versioning;
            Ok(())
        };
        to_its_end(async move { gateway.change_settings(&bucket, change).await }).await?;
        Ok(S3Response::new(PutBucketVersioningOutput::default()))
    }

    async fn get_object(&self, req: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        self.read_object(req).await
    }

    async fn head_object(&self, req: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        self.head_of_object(req).await
    }

    async fn get_object_attributes(
        &self,
        req: S3Request<GetObjectAttributesInput>,
    ) -> S3Result<S3Response<GetObjectAttributesOutput>> {
        self.attributes(req).await
    }

    async fn put_object(&self, req: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        self.store_object(req).await
    }

    async fn copy_object(&self, req: S3Request<CopyObjectInput>) -> S3Result<S3Response<CopyObjectOutput>> {
        self.copy_of_object(req).await
    }

    async fn delete_object(&self, req: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.remove_object(req).await
    }

    async fn delete_objects(&self, req: S3Request<DeleteObjectsInput>) -> S3Result<S3Response<DeleteObjectsOutput>> {
        self.remove_objects(req).await
    }

    async fn list_objects(&self, req: S3Request<ListObjectsInput>) -> S3Result<S3Response<ListObjectsOutput>> {
        self.first_list(req).await
    }

    async fn list_objects_v2(&self, req: S3Request<ListObjectsV2Input>) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.second_list(req).await
    }

    async fn list_object_versions(
        &self,
        req: S3Request<ListObjectVersionsInput>,
    ) -> S3Result<S3Response<ListObjectVersionsOutput>> {
        self.list_of_versions(req).await
    }

    async fn create_multipart_upload(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        self.begin_upload(req).await
    }

    async fn upload_part(&self, req: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        self.store_part(req).await
    }

    async fn upload_part_copy(
        &self,
        req: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        self.copy_of_part(req).await
    }

    async fn complete_multipart_upload(
        &self,
        req: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        self.end_upload(req).await
    }

    async fn abort_multipart_upload(
        &self,
        req: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.give_up_upload(req).await
    }

    async fn list_parts(&self, req: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
        self.list_of_parts(req).await
    }

    async fn list_multipart_uploads(
        &self,
        req: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        self.list_of_uploads(req).await
    }
}

/// Actions that the making of a bucket asks for beside `CreateBucket`, by what it sets. Errors: those of
/// [`AclHeaders::read`].
fn asked_of_new(headers: &http::HeaderMap, with_locks: bool) -> S3Result<Vec<Action>> {
    let mut actions = Vec::new();
    if !matches!(list_headers(headers)?, AclHeaders::Absent | AclHeaders::Canned(CannedAcl::Private)) {
        actions.push(Action::PutBucketAcl);
    }
    if headers.contains_key(OWNERSHIP) {
        actions.push(Action::PutBucketOwnershipControls);
    }
    if with_locks {
        actions.extend([Action::PutBucketObjectLockConfiguration, Action::PutBucketVersioning]);
    }
    Ok(actions)
}

impl Service {
    /// A user as answers show him.
    pub async fn owner(&self, uid: &str) -> S3Result<Owner> {
        let AclUser { id, display_name } = self.authority.shown(uid).await?;
        Ok(Owner { display_name: Some(display_name), id: Some(id) })
    }

    /// The settings with which a bucket is made: its list and ownership, as headers tell.
    async fn settings_of_new(&self, user: &s3::User, headers: &http::HeaderMap) -> S3Result<s3::BucketSettings> {
        let told_ownership = headers.get(OWNERSHIP).and_then(|value| value.to_str().ok());
        let ownership = ruled(told_ownership.map(ObjectOwnership::parse).transpose())?;
        let owner = list_user(Some(user));
        let acl = self.authority.list_of(&list_headers(headers)?, &owner, &owner).await?;
        ruled(ownership.unwrap_or_default().check_bucket_acl(&acl))?;
        let acl = Some(acl).filter(|acl| *acl != Acl::private(owner));
        Ok(s3::BucketSettings { acl, ownership, ..s3::BucketSettings::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_new_bucket_gets_is_asked_for() {
        let asked = |pairs: &[(&'static str, &str)], with_locks| {
            let mut headers = http::HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().expect("a value"));
            }
            asked_of_new(&headers, with_locks).expect("headers")
        };
        assert!(asked(&[], false).is_empty() && asked(&[("x-amz-acl", "private")], false).is_empty());
        for list in [("x-amz-acl", "public-read"), ("x-amz-grant-read", "id=\"bob\"")] {
            assert_eq!(asked(&[list], false), [Action::PutBucketAcl]);
        }
        let ownership = (OWNERSHIP, "BucketOwnerEnforced");
        assert_eq!(asked(&[ownership], false), [Action::PutBucketOwnershipControls]);
        assert_eq!(asked(&[], true), [Action::PutBucketObjectLockConfiguration, Action::PutBucketVersioning]);
        assert_eq!(asked(&[("x-amz-acl", "public-read"), ownership], true).len(), 4);
    }
}
