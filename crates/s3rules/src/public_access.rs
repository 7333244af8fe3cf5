//! Blocks of public access (`PublicAccessBlockConfiguration`).

use crate::acl::Acl;
use crate::error::{S3Code, S3Error};
use crate::policy::Policy;
use crate::xml::Element;
use serde::{Deserialize, Serialize};

/// Block of public access. Without one nothing is blocked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicAccessBlock {
    /// Public lists are refused.
    pub block_public_acls: bool,
    /// Grants to everybody do not count.
    pub ignore_public_acls: bool,
    /// Public policies are refused.
    pub block_public_policy: bool,
    /// A public policy gives nothing to others than the account of the bucket's owner.
    pub restrict_public_buckets: bool,
}

impl PublicAccessBlock {
    /// Reads `PublicAccessBlockConfiguration`. What is left out is not blocked. Errors: `MalformedXML`.
    pub fn from_xml(document: &[u8]) -> Result<PublicAccessBlock, S3Error> {
        let root = Element::parse(document, "PublicAccessBlockConfiguration")?;
        root.only(&["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"])?;
        let flag = |name| -> Result<bool, S3Error> { Ok(root.flag_of(name)?.unwrap_or(false)) };
        Ok(PublicAccessBlock {
            block_public_acls: flag("BlockPublicAcls")?,
            ignore_public_acls: flag("IgnorePublicAcls")?,
            block_public_policy: flag("BlockPublicPolicy")?,
            restrict_public_buckets: flag("RestrictPublicBuckets")?,
        })
    }

    /// `PublicAccessBlockConfiguration` of an answer.
    pub fn to_xml(self) -> String {
        Element::root("PublicAccessBlockConfiguration")
            .with_text("BlockPublicAcls", self.block_public_acls.to_string())
            .with_text("IgnorePublicAcls", self.ignore_public_acls.to_string())
            .with_text("BlockPublicPolicy", self.block_public_policy.to_string())
            .with_text("RestrictPublicBuckets", self.restrict_public_buckets.to_string())
            .write()
    }

    /// All that is blocked by this block or another, such as the account's.
    pub fn or(self, other: PublicAccessBlock) -> PublicAccessBlock {
        PublicAccessBlock {
            block_public_acls: self.block_public_acls || other.block_public_acls,
            ignore_public_acls: self.ignore_public_acls || other.ignore_public_acls,
            block_public_policy: self.block_public_policy || other.block_public_policy,
            restrict_public_buckets: self.restrict_public_buckets || other.restrict_public_buckets,
        }
    }

    /// Refuses a list that shall be set, if public ones are blocked. Errors: `AccessDenied`.
    pub fn check_acl(self, acl: &Acl) -> Result<(), S3Error> {
        if self.block_public_acls && acl.is_public() {
            return Err(S3Error::new(S3Code::AccessDenied, "public ACLs are blocked by BlockPublicAcls"));
        }
        Ok(())
    }

    /// Refuses a policy that shall be set, if public ones are blocked. Errors: `AccessDenied`.
    pub fn check_policy(self, policy: &Policy) -> Result<(), S3Error> {
        if self.block_public_policy && policy.is_public() {
            return Err(S3Error::new(S3Code::AccessDenied, "public policies are blocked by BlockPublicPolicy"));
        }
        Ok(())
    }
}

/// `IsPublic` of `GetBucketPolicyStatus`: true if the bucket's policy or list is public. Blocks do not count.
pub fn is_public_bucket(acl: &Acl, policy: Option<&Policy>) -> bool {
    acl.is_public() || policy.is_some_and(Policy::is_public)
}

/// `PolicyStatus` of an answer.
pub fn policy_status_xml(is_public: bool) -> String {
    Element::root("PolicyStatus").with_text("IsPublic", is_public.to_string()).write()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{AclUser, CannedAcl};
    use crate::policy::PolicyKind;

    #[test]
    fn blocks_refuse_what_is_public() {
        let owner = AclUser { id: "ann".into(), display_name: "Ann".into() };
        let none = PublicAccessBlock::default();
        let block = PublicAccessBlock { block_public_acls: true, block_public_policy: true, ..none };
        for (canned, public) in [
            (CannedAcl::Private, false),
            (CannedAcl::PublicRead, true),
            (CannedAcl::PublicReadWrite, true),
            (CannedAcl::AuthenticatedRead, true),
            (CannedAcl::LogDeliveryWrite, false),
        ] {
            let acl = canned.acl(&owner, &owner);
            assert_eq!(block.check_acl(&acl).is_err(), public, "{canned:?}");
            assert!(none.check_acl(&acl).is_ok());
            assert_eq!(is_public_bucket(&acl, None), public);
        }
        let text = r#"{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::b"}}"#;
        let private = Acl::private(owner);
        let open = Policy::parse(text, PolicyKind::Bucket, "").unwrap();
        assert_eq!(block.check_policy(&open).unwrap_err().code, S3Code::AccessDenied);
        assert!(none.check_policy(&open).is_ok());
        assert!(is_public_bucket(&private, Some(&open)) && !is_public_bucket(&private, None));
        let named = Policy::parse(&text.replace(r#""*""#, r#"{"AWS":"arn:aws:iam:::user/x"}"#), PolicyKind::Bucket, "");
        assert!(block.check_policy(&named.unwrap()).is_ok());
    }

    #[test]
    fn blocks_in_xml() {
        for bits in 0..16u8 {
            let bit = |at: u8| bits >> at & 1 == 1;
            let block = PublicAccessBlock {
                block_public_acls: bit(0),
                ignore_public_acls: bit(1),
                block_public_policy: bit(2),
                restrict_public_buckets: bit(3),
            };
            assert_eq!(PublicAccessBlock::from_xml(block.to_xml().as_bytes()), Ok(block));
            assert_eq!(block.or(PublicAccessBlock::default()), block);
        }
        let parse = |inside: &str| {
            let document = format!("<PublicAccessBlockConfiguration>{inside}</PublicAccessBlockConfiguration>");
            PublicAccessBlock::from_xml(document.as_bytes())
        };
        assert_eq!(parse(""), Ok(PublicAccessBlock::default()));
        assert!(parse("<BlockPublicAcls>yes</BlockPublicAcls>").is_err());
        assert!(parse("<BlockAll>true</BlockAll>").is_err());
        assert!(policy_status_xml(true).contains("<IsPublic>true</IsPublic>"));
    }
}
