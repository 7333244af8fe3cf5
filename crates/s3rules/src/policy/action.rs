//! Actions: the names of what a request wants to do.

use crate::policy::pattern::fits_name;

/// Kind of the resource that an action is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionTarget {
    /// All that a user has: no bucket.
    Service,
    Bucket,
    /// A key in a bucket; there need not be an object.
    Object,
}

macro_rules! actions {
    ($($target:ident: $($action:ident)*;)*) => {
        /// Action that a request asks for. `CreateBucket` is `s3:CreateBucket` in a policy.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Action { $($($action,)*)* }

        impl Action {
            /// All actions.
            pub const ALL: &'static [Action] = &[$($(Action::$action,)*)*];

            /// Name without `s3:`.
            pub const fn name(self) -> &'static str {
                match self { $($(Action::$action => stringify!($action),)*)* }
            }

            /// Kind of the resource that the action is about.
            pub const fn target(self) -> ActionTarget {
                match self { $($(Action::$action => ActionTarget::$target,)*)* }
            }
        }
    };
}

actions! {
    Service: ListAllMyBuckets GetAccountPublicAccessBlock PutAccountPublicAccessBlock;
    Bucket:
        CreateBucket DeleteBucket DeleteBucketPolicy DeleteBucketWebsite DeletePublicAccessBlock
        DeleteReplicationConfiguration GetAccelerateConfiguration GetAnalyticsConfiguration GetBucketAcl GetBucketCORS
        GetBucketLocation GetBucketLogging GetBucketNotification GetBucketObjectLockConfiguration
        GetBucketOwnershipControls GetBucketPolicy GetBucketPolicyStatus GetBucketPublicAccessBlock
        GetBucketRequestPayment GetBucketTagging GetBucketVersioning GetBucketWebsite GetEncryptionConfiguration
        GetIntelligentTieringConfiguration GetInventoryConfiguration GetLifecycleConfiguration GetMetricsConfiguration
        GetReplicationConfiguration ListBucket ListBucketMultipartUploads ListBucketVersions PostBucketLogging
        PutAccelerateConfiguration PutAnalyticsConfiguration PutBucketAcl PutBucketCORS PutBucketLogging
        PutBucketNotification PutBucketObjectLockConfiguration PutBucketOwnershipControls PutBucketPolicy
        PutBucketPublicAccessBlock PutBucketRequestPayment PutBucketTagging PutBucketVersioning PutBucketWebsite
        PutEncryptionConfiguration PutIntelligentTieringConfiguration PutInventoryConfiguration
        PutLifecycleConfiguration PutMetricsConfiguration PutReplicationConfiguration;
    Object:
        AbortMultipartUpload BypassGovernanceRetention DeleteObject DeleteObjectTagging DeleteObjectVersion
        DeleteObjectVersionTagging GetObject GetObjectAcl GetObjectAttributes GetObjectLegalHold GetObjectRetention
        GetObjectTagging GetObjectTorrent GetObjectVersion GetObjectVersionAcl GetObjectVersionAttributes
        GetObjectVersionForReplication GetObjectVersionTagging GetObjectVersionTorrent InitiateReplication
        ListMultipartUploadParts ObjectOwnerOverrideToBucketOwner PutObject PutObjectAcl PutObjectLegalHold
        PutObjectRetention PutObjectTagging PutObjectVersionAcl PutObjectVersionTagging ReplicateDelete
        ReplicateObject ReplicateTags RestoreObject;
}

/// Actions that policies may name and that no request here asks for.
const OTHER_ACTIONS: &[&str] = &[
    "AssociateAccessGrantsIdentityCenter",
    "CreateAccessGrant",
    "CreateAccessPoint",
    "CreateAccessPointForObjectLambda",
    "CreateBucketMetadataTableConfiguration",
    "CreateJob",
    "CreateMultiRegionAccessPoint",
    "DeleteAccessGrant",
    "DeleteAccessPoint",
    "DeleteAccessPointPolicy",
    "DeleteJobTagging",
    "DeleteStorageLensConfiguration",
    "DescribeJob",
    "GetAccessPoint",
    "GetAccessPointPolicy",
    "GetAccessPointPolicyStatus",
    "GetDataAccess",
    "GetJobTagging",
    "GetMultiRegionAccessPoint",
    "GetStorageLensConfiguration",
    "ListAccessPoints",
    "ListJobs",
    "ListStorageLensConfigurations",
    "ListTagsForResource",
    "PutAccessPointPolicy",
    "PutAccessPointPublicAccessBlock",
    "PutJobTagging",
    "PutStorageLensConfiguration",
    "TagResource",
    "UntagResource",
    "UpdateJobPriority",
    "UpdateJobStatus",
];

/// Names that Ceph's gateway has for actions, beside AWS's.
const ALIASES: &[(&str, Action)] = &[
    ("GetBucketEncryption", Action::GetEncryptionConfiguration),
    ("PutBucketEncryption", Action::PutEncryptionConfiguration),
    ("GetPublicAccessBlock", Action::GetBucketPublicAccessBlock),
    ("PutPublicAccessBlock", Action::PutBucketPublicAccessBlock),
];

/// Name of an action in a policy, with wildcards; letters in either case are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionPattern(String);

impl ActionPattern {
    /// Reads `*`, or a service and a name such as `s3:Get*`. `None` if it names no action of S3, or if another service
    /// stands where `other_services` are not taken.
    pub fn parse(text: &str, other_services: bool) -> Option<ActionPattern> {
        let pattern = ActionPattern(text.to_owned());
        if text == "*" {
            return Some(pattern);
        }
        let (service, name) = text.split_once(':')?;
        if name.is_empty() {
            return None;
        }
        let known = if service.eq_ignore_ascii_case("s3") {
            let aliases = ALIASES.iter().map(|(alias, _)| *alias);
            let names = Action::ALL.iter().map(|action| action.name()).chain(aliases);
            names.chain(OTHER_ACTIONS.iter().copied()).any(|known| fits_name(name, known))
        } else {
            other_services
                && !service.is_empty()
                && service.chars().all(|c| c.is_ascii_alphanumeric() || "-*?".contains(c))
        };
        known.then_some(pattern)
    }

    /// True if the pattern names this action.
    pub fn fits(&self, action: Action) -> bool {
        match self.0.split_once(':') {
            None => true,
            Some((service, name)) => {
                let mut aliases = ALIASES.iter().filter(|(_, known)| *known == action);
                fits_name(service, "s3")
                    && (fits_name(name, action.name()) || aliases.any(|(alias, _)| fits_name(name, alias)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_actions() {
        for (pattern, action, fits) in [
            ("*", Action::GetObject, true),
            ("s3:*", Action::GetObject, true),
            ("S3:getobject", Action::GetObject, true),
            ("s3:GetObject", Action::GetObjectAcl, false),
            ("s3:GetObject*", Action::GetObjectAcl, true),
            ("s3:???Object", Action::PutObject, true),
            ("s3:*Object", Action::PutObjectAcl, false),
            ("s3:GetBucketEncryption", Action::GetEncryptionConfiguration, true),
            ("s3:GetEncryptionConfiguration", Action::GetEncryptionConfiguration, true),
            ("s3:GetBucketEncryption", Action::PutEncryptionConfiguration, false),
            ("s3:PutPublicAccessBlock", Action::PutBucketPublicAccessBlock, true),
        ] {
            assert_eq!(ActionPattern::parse(pattern, false).unwrap().fits(action), fits, "{pattern}");
        }
        for pattern in ["", "GetObject", "s3:", "s3:Fly", "s3:Fly*", "iam:ListUsers", ":GetObject", "s3"] {
            assert!(ActionPattern::parse(pattern, false).is_none(), "{pattern}");
        }
        let other = ActionPattern::parse("iam:*", true).unwrap();
        assert!(Action::ALL.iter().all(|&action| !other.fits(action)));
        assert!(ActionPattern::parse("s3:CreateJob", false).is_some());
    }
}
