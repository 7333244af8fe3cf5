//! Judgement of a request: by policies, ownership, lists, and blocks of public access. The order is in [`judge`].

#[cfg(test)]
mod tests;

use crate::acl::{Acl, Permission};
use crate::error::{S3Code, S3Error};
use crate::ownership::ObjectOwnership;
use crate::policy::{
    Action, ActionTarget, Context, Identity, Policy, PolicyRequest, ResourceArn, StatementRef, UserIdentity, Verdict,
};
use crate::public_access::PublicAccessBlock;

/// Request to judge.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    pub identity: &'a Identity,
    pub action: Action,
    pub resource: &'a ResourceArn,
    pub context: &'a Context,
    /// Policies of the user.
    pub user_policies: &'a [Policy],
    /// True if the request says `x-amz-request-payer: requester`, in a header or the query.
    pub requester_pays: bool,
    /// `None` if the request is about no bucket, or creates one.
    pub bucket: Option<BucketFacts<'a>>,
    /// The object or upload; `None` if the request is about none, or writes a new one.
    pub object: Option<ObjectFacts<'a>>,
}

/// Facts of a bucket.
#[derive(Clone, Copy, Debug)]
pub struct BucketFacts<'a> {
    pub acl: &'a Acl,
    pub ownership: ObjectOwnership,
    /// True if requesters pay: others than the owner must say that they know, and who they are.
    pub requesters_pay: bool,
    pub policy: Option<&'a Policy>,
    /// True if the policy was set with `x-amz-confirm-remove-self-bucket-access`: it may keep the owner from the policy
    /// itself.
    pub policy_binds_owner: bool,
    /// Of the bucket and the account together.
    pub public_access: PublicAccessBlock,
}

/// Facts of an object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectFacts<'a> {
    pub acl: &'a Acl,
}

/// Answer to a request, with what decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    Allowed(AllowedBy),
    Denied(DeniedBy),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedBy {
    /// The user is an operator of the cluster.
    Operator,
    UserPolicy(StatementRef),
    BucketPolicy(StatementRef),
    /// The user owns the bucket or the object.
    Ownership,
    BucketAcl(Permission),
    ObjectAcl(Permission),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeniedBy {
    /// Requesters pay, and the request does not say that it knows.
    RequesterPays,
    UserPolicy(StatementRef),
    BucketPolicy(StatementRef),
    /// A public policy or list would allow it, but public access is blocked.
    PublicAccessBlock,
    /// Nothing allows it.
    Default,
}

impl Access {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Access::Allowed(_))
    }

    /// `AccessDenied` unless the request is allowed.
    pub fn into_result(self) -> Result<AllowedBy, S3Error> {
        match self {
            Access::Allowed(by) => Ok(by),
            Access::Denied(_) => Err(S3Error::new(S3Code::AccessDenied, "Access Denied")),
        }
    }
}

/// Right that an action needs where no policy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// A key: the request is about no bucket that exists.
    Account,
    BucketAcl(Permission),
    ObjectAcl(Permission),
    /// Being the owner of the bucket.
    BucketOwner,
    /// Being the owner of the bucket or the object.
    EitherOwner,
}

fn need_of(action: Action) -> Need {
    use Action::*;
    match action {
        CreateBucket => Need::Account,
        ListBucket | ListBucketVersions | ListBucketMultipartUploads => Need::BucketAcl(Permission::Read),
        PutObject | DeleteObject | DeleteObjectVersion | AbortMultipartUpload => Need::BucketAcl(Permission::Write),
        GetBucketAcl => Need::BucketAcl(Permission::ReadAcp),
        PutBucketAcl => Need::BucketAcl(Permission::WriteAcp),
        GetObject
        | GetObjectVersion
        | GetObjectAttributes
        | GetObjectVersionAttributes
        | GetObjectTorrent
        | GetObjectVersionTorrent => Need::ObjectAcl(Permission::Read),
        GetObjectAcl | GetObjectVersionAcl => Need::ObjectAcl(Permission::ReadAcp),
        PutObjectAcl | PutObjectVersionAcl => Need::ObjectAcl(Permission::WriteAcp),
        GetObjectTagging
        | GetObjectVersionTagging
        | PutObjectTagging
        | PutObjectVersionTagging
        | DeleteObjectTagging
        | DeleteObjectVersionTagging
        | GetObjectRetention
        | GetObjectLegalHold
        | ListMultipartUploadParts => Need::EitherOwner,
        other if other.target() == ActionTarget::Service => Need::Account,
        _ => Need::BucketOwner,
    }
}

/// True for what one may set of a bucket while it is made.
fn is_of_making(action: Action) -> bool {
    use Action::*;
    matches!(action, PutBucketAcl | PutBucketOwnershipControls | PutBucketObjectLockConfiguration | PutBucketVersioning)
}

/// Judges a request. The first of these that applies decides:
///
/// 1. An operator may do everything.
/// 2. Requesters pay, and one who does not own the bucket is unknown or does not say that he knows. He is denied.
/// 3. A policy of the user denies.
/// 4. The bucket's policy denies. It cannot keep the owner's root user from the policy itself, unless it was set so.
/// 5. The bucket's policy allows. A public one gives nothing to other accounts if that is blocked. A user without all
///    rights of his account needs a policy of his own, too, in a bucket of another account.
/// 6. A policy of the user allows, in a bucket of his account.
/// 7. The user owns what the action is about, and the action is not one that lists rule; or there is no bucket yet, and
///    the user makes it.
/// 8. A list allows, if lists count. Grants to everybody do not count if that is blocked.
/// 9. Otherwise the request is denied.
pub fn judge(request: &AccessRequest<'_>) -> Access {
    if let Identity::User(UserIdentity { operator: true, .. }) = request.identity {
        return Access::Allowed(AllowedBy::Operator);
    }
    if request.bucket.is_some_and(|bucket| bucket.requesters_pay && !agrees_to_pay(request, &bucket)) {
        return Access::Denied(DeniedBy::RequesterPays);
    }
    let own = match user_verdict(request) {
        Verdict::Deny(statement) => return Access::Denied(DeniedBy::UserPolicy(statement)),
        Verdict::Allow(statement) => Some(statement),
        Verdict::Default => None,
    };
    let root = matches!(request.identity, Identity::User(UserIdentity { root: true, .. }));
    let Some(bucket) = request.bucket else {
        return match own {
            Some(statement) => Access::Allowed(AllowedBy::UserPolicy(statement)),
            // A bucket that is made will be its maker's.
            None if root && (need_of(request.action) == Need::Account || is_of_making(request.action)) => {
                Access::Allowed(AllowedBy::Ownership)
            }
            None => Access::Denied(DeniedBy::Default),
        };
    };
    let account = request.identity.account();
    let same_account = account == Some(&bucket.acl.owner.id);
    // True for one who may use what others give: nobody of his own account stands between.
    let may_take = account.is_none() || root || own.is_some();
    let mut blocked = false;
    match bucket.policy.map(|policy| policy.evaluate(&policy_request(request))) {
        Some(Verdict::Deny(statement)) if !(same_account && root && owner_keeps(request.action, &bucket)) => {
            return Access::Denied(DeniedBy::BucketPolicy(statement));
        }
        Some(Verdict::Allow(statement)) if same_account || may_take => {
            let public = bucket.policy.is_some_and(Policy::is_public);
            if same_account || !bucket.public_access.restrict_public_buckets || !public {
                return Access::Allowed(AllowedBy::BucketPolicy(statement));
            }
            blocked = true;
        }
        _ => {}
    }
    let object_owner = request.object.map(|object| object.acl.owner.id.as_str());
    let lists_count = bucket.ownership != ObjectOwnership::BucketOwnerEnforced;
    if let Some(statement) = own
        && same_account
        && (!lists_count || object_owner.is_none_or(|owner| account == Some(owner)))
    {
        return Access::Allowed(AllowedBy::UserPolicy(statement));
    }
    if root && owns(request.action, same_account, !lists_count, account.is_some() && account == object_owner) {
        return Access::Allowed(AllowedBy::Ownership);
    }
    if lists_count && may_take {
        match by_lists(request, &bucket) {
            Listing::Allowed(by) => return Access::Allowed(by),
            Listing::Blocked => blocked = true,
            Listing::Nothing => {}
        }
    }
    Access::Denied(if blocked { DeniedBy::PublicAccessBlock } else { DeniedBy::Default })
}

/// Judges whether one who asks for an object that is not there may know so: if not, the answer is `AccessDenied` in
/// place of `NoSuchKey`. `bucket`: name of the bucket as a resource; `key`: the one that the request names.
///
/// He may know if no policy denies what he asked for, and he may list the bucket with the key as prefix.
pub fn judge_absent(request: &AccessRequest<'_>, bucket: &ResourceArn, key: &str) -> Access {
    match judge(request) {
        denied @ Access::Denied(DeniedBy::UserPolicy(_) | DeniedBy::BucketPolicy(_) | DeniedBy::RequesterPays) => {
            denied
        }
        _ => {
            let mut context = request.context.clone();
            context.set("s3:prefix", key);
            let action = Action::ListBucket;
            judge(&AccessRequest { action, resource: bucket, context: &context, object: None, ..*request })
        }
    }
}

/// True for the owner of a bucket whose requesters pay, and for others who say that they know.
fn agrees_to_pay(request: &AccessRequest<'_>, bucket: &BucketFacts<'_>) -> bool {
    match request.identity.account() {
        None => false,
        Some(account) => account == bucket.acl.owner.id || request.requester_pays,
    }
}

fn policy_request<'a>(request: &AccessRequest<'a>) -> PolicyRequest<'a> {
    let AccessRequest { identity, action, resource, context, .. } = *request;
    PolicyRequest { identity, action, resource, context }
}

/// Verdict of all policies of the user together.
fn user_verdict(request: &AccessRequest<'_>) -> Verdict {
    let mut allowed = Verdict::Default;
    for policy in request.user_policies {
        match policy.evaluate(&policy_request(request)) {
            denied @ Verdict::Deny(_) => return denied,
            verdict @ Verdict::Allow(_) if allowed == Verdict::Default => allowed = verdict,
            _ => {}
        }
    }
    allowed
}

/// True for actions on the policy itself, from which a policy does not keep the owner.
fn owner_keeps(action: Action, bucket: &BucketFacts<'_>) -> bool {
    !bucket.policy_binds_owner
        && matches!(action, Action::GetBucketPolicy | Action::PutBucketPolicy | Action::DeleteBucketPolicy)
}

/// True if ownership alone allows an action. `owns_all`: lists do not count, so the bucket's owner has all rights.
fn owns(action: Action, owns_bucket: bool, owns_all: bool, owns_object: bool) -> bool {
    match need_of(action) {
        Need::BucketOwner | Need::Account => owns_bucket,
        Need::EitherOwner => owns_bucket || (owns_object && !owns_all),
        Need::BucketAcl(_) | Need::ObjectAcl(_) => owns_bucket && owns_all,
    }
}

/// Answer of lists.
enum Listing {
    Allowed(AllowedBy),
    /// Only grants to everybody allow it, and they do not count.
    Blocked,
    Nothing,
}

fn by_lists(request: &AccessRequest<'_>, bucket: &BucketFacts<'_>) -> Listing {
    let ignore_public = bucket.public_access.ignore_public_acls;
    let (acl, permission, by) = match (need_of(request.action), request.object) {
        (Need::BucketAcl(permission), _) => (bucket.acl, permission, AllowedBy::BucketAcl(permission)),
        (Need::ObjectAcl(permission), Some(object)) => (object.acl, permission, AllowedBy::ObjectAcl(permission)),
        _ => return Listing::Nothing,
    };
    if acl.grants(request.identity, permission, ignore_public) {
        Listing::Allowed(by)
    } else if acl.grants(request.identity, permission, false) {
        Listing::Blocked
    } else {
        Listing::Nothing
    }
}
