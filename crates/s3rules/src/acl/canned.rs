//! Lists that have a name.

use crate::acl::{Acl, AclUser, Grant, Group, Permission};
use crate::error::S3Error;

/// Value of `x-amz-acl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannedAcl {
    Private,
    PublicRead,
    PublicReadWrite,
    AuthenticatedRead,
    BucketOwnerRead,
    BucketOwnerFullControl,
    LogDeliveryWrite,
}

impl CannedAcl {
    const ALL: [(CannedAcl, &str); 7] = [
        (CannedAcl::Private, "private"),
        (CannedAcl::PublicRead, "public-read"),
        (CannedAcl::PublicReadWrite, "public-read-write"),
        (CannedAcl::AuthenticatedRead, "authenticated-read"),
        (CannedAcl::BucketOwnerRead, "bucket-owner-read"),
        (CannedAcl::BucketOwnerFullControl, "bucket-owner-full-control"),
        (CannedAcl::LogDeliveryWrite, "log-delivery-write"),
    ];

    /// Reads a name. Errors: `InvalidArgument` for any other, `aws-exec-read` among them: there is no such service.
    pub fn parse(name: &str) -> Result<CannedAcl, S3Error> {
        match CannedAcl::ALL.iter().find(|(_, known)| *known == name) {
            Some((canned, _)) => Ok(*canned),
            None => Err(S3Error::invalid_argument(format!("there is no canned ACL {name:?}"))),
        }
    }

    /// The list. `owner` owns what it is for; `bucket_owner` counts for objects only.
    pub fn acl(self, owner: &AclUser, bucket_owner: &AclUser) -> Acl {
        let mut grants = vec![Grant::to_user(owner.clone(), Permission::FullControl)];
        let mut to_bucket_owner = |permission| {
            if owner.id != bucket_owner.id {
                grants.push(Grant::to_user(bucket_owner.clone(), permission));
            }
        };
        match self {
            CannedAcl::Private => {}
            CannedAcl::BucketOwnerRead => to_bucket_owner(Permission::Read),
            CannedAcl::BucketOwnerFullControl => to_bucket_owner(Permission::FullControl),
            CannedAcl::PublicRead => grants.push(Grant::to_group(Group::AllUsers, Permission::Read)),
            CannedAcl::PublicReadWrite => {
                grants.push(Grant::to_group(Group::AllUsers, Permission::Read));
                grants.push(Grant::to_group(Group::AllUsers, Permission::Write));
            }
            CannedAcl::AuthenticatedRead => {
                grants.push(Grant::to_group(Group::AuthenticatedUsers, Permission::Read));
            }
            CannedAcl::LogDeliveryWrite => {
                grants.push(Grant::to_group(Group::LogDelivery, Permission::Write));
                grants.push(Grant::to_group(Group::LogDelivery, Permission::ReadAcp));
            }
        }
        Acl::new(owner.clone(), grants)
    }
}
