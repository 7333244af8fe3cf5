//! Owners of new objects, and whether lists count (`OwnershipControls`).

use crate::acl::{Acl, AclHeaders, AclUser, CannedAcl};
use crate::error::{S3Code, S3Error};
use crate::xml::Element;
use serde::{Deserialize, Serialize};

/// `ObjectOwnership` of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectOwnership {
    /// Access control lists do not count; everything is the bucket owner's.
    BucketOwnerEnforced,
    /// Objects written with `bucket-owner-full-control` are the bucket owner's.
    BucketOwnerPreferred,
    /// Objects are their writer's. It is so where a bucket has no controls, too.
    #[default]
    ObjectWriter,
}

impl ObjectOwnership {
    const ALL: [(ObjectOwnership, &str); 3] = [
        (ObjectOwnership::BucketOwnerEnforced, "BucketOwnerEnforced"),
        (ObjectOwnership::BucketOwnerPreferred, "BucketOwnerPreferred"),
        (ObjectOwnership::ObjectWriter, "ObjectWriter"),
    ];

    pub fn name(self) -> &'static str {
        ObjectOwnership::ALL.iter().find(|(ownership, _)| *ownership == self).map_or("", |(_, name)| name)
    }

    /// Reads a name, as in `x-amz-object-ownership`. Errors: `InvalidArgument`.
    pub fn parse(name: &str) -> Result<ObjectOwnership, S3Error> {
        match ObjectOwnership::ALL.iter().find(|(_, known)| *known == name) {
            Some((ownership, _)) => Ok(*ownership),
            None => Err(S3Error::invalid_argument(format!("there is no object ownership {name:?}"))),
        }
    }

    /// Reads `OwnershipControls`. Errors: `MalformedXML`.
    pub fn from_xml(document: &[u8]) -> Result<ObjectOwnership, S3Error> {
        let root = Element::parse(document, "OwnershipControls")?;
        root.only(&["Rule"])?;
        let rule = root.required("Rule")?;
        rule.only(&["ObjectOwnership"])?;
        let name = rule.required("ObjectOwnership")?.leaf()?;
        ObjectOwnership::parse(name.trim()).map_err(|error| S3Error::malformed_xml(error.message))
    }

    /// `OwnershipControls` of an answer.
    pub fn to_xml(self) -> String {
        let rule = Element::new("Rule").with_text("ObjectOwnership", self.name());
        Element::root("OwnershipControls").with(rule).write()
    }

    /// Refuses controls that the bucket's list contradicts.
    ///
    /// Errors: `InvalidBucketAclWithObjectOwnership` if lists shall not count and others than the owner have grants.
    pub fn check_bucket_acl(self, acl: &Acl) -> Result<(), S3Error> {
        if self == ObjectOwnership::BucketOwnerEnforced && !acl.is_owners_only() {
            return Err(S3Error::new(
                S3Code::InvalidBucketAclWithObjectOwnership,
                "the ACL of the bucket grants something to others than its owner",
            ));
        }
        Ok(())
    }

    /// Refuses the headers of a request that writes an object, if lists do not count and the headers ask for one that
    /// is not `bucket-owner-full-control`. Errors: `AccessControlListNotSupported`.
    pub fn check_object_headers(self, headers: &AclHeaders) -> Result<(), S3Error> {
        match headers {
            AclHeaders::Absent | AclHeaders::Canned(CannedAcl::BucketOwnerFullControl) => Ok(()),
            _ => self.check_acl_change(),
        }
    }

    /// Refuses to set the list of a bucket or an object, if lists do not count.
    /// Errors: `AccessControlListNotSupported`.
    pub fn check_acl_change(self) -> Result<(), S3Error> {
        match self {
            ObjectOwnership::BucketOwnerEnforced => {
                Err(S3Error::new(S3Code::AccessControlListNotSupported, "The bucket does not allow ACLs"))
            }
            _ => Ok(()),
        }
    }

    /// Owner of a new object.
    pub fn object_owner<'a>(self, headers: &AclHeaders, writer: &'a AclUser, bucket_owner: &'a AclUser) -> &'a AclUser {
        let full_control = *headers == AclHeaders::Canned(CannedAcl::BucketOwnerFullControl);
        match self {
            ObjectOwnership::BucketOwnerEnforced => bucket_owner,
            ObjectOwnership::BucketOwnerPreferred if full_control => bucket_owner,
            ObjectOwnership::BucketOwnerPreferred | ObjectOwnership::ObjectWriter => writer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_new_objects() {
        use ObjectOwnership::*;
        let user = |id: &str| AclUser { id: id.into(), display_name: id.into() };
        let (writer, owner) = (user("writer"), user("owner"));
        let (absent, full) = (AclHeaders::Absent, AclHeaders::Canned(CannedAcl::BucketOwnerFullControl));
        let private = AclHeaders::Canned(CannedAcl::Private);
        for (ownership, headers, expected, taken) in [
            (BucketOwnerEnforced, &absent, "owner", true),
            (BucketOwnerEnforced, &full, "owner", true),
            (BucketOwnerEnforced, &private, "owner", false),
            (BucketOwnerPreferred, &absent, "writer", true),
            (BucketOwnerPreferred, &full, "owner", true),
            (BucketOwnerPreferred, &private, "writer", true),
            (ObjectWriter, &absent, "writer", true),
            (ObjectWriter, &full, "writer", true),
            (ObjectWriter, &private, "writer", true),
        ] {
            assert_eq!(ownership.object_owner(headers, &writer, &owner).id, expected, "{ownership:?} {headers:?}");
            assert_eq!(ownership.check_object_headers(headers).is_ok(), taken, "{ownership:?} {headers:?}");
            assert_eq!(ownership.check_acl_change().is_ok(), ownership != BucketOwnerEnforced);
            assert_eq!(ObjectOwnership::from_xml(ownership.to_xml().as_bytes()), Ok(ownership));
        }
        let open = CannedAcl::PublicRead.acl(&owner, &owner);
        let refused = BucketOwnerEnforced.check_bucket_acl(&open).unwrap_err();
        assert_eq!(refused.code, S3Code::InvalidBucketAclWithObjectOwnership);
        assert!(BucketOwnerEnforced.check_bucket_acl(&Acl::private(owner)).is_ok());
        assert!(ObjectWriter.check_bucket_acl(&open).is_ok());
    }

    #[test]
    fn controls_that_are_none() {
        for inside in [
            "",
            "<Rule/>",
            "<Rule><ObjectOwnership>Mine</ObjectOwnership></Rule>",
            "<Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule><Rule/>",
        ] {
            let document = format!("<OwnershipControls>{inside}</OwnershipControls>");
            assert_eq!(
                ObjectOwnership::from_xml(document.as_bytes()).unwrap_err().code,
                S3Code::MalformedXML,
                "{inside}"
            );
        }
    }
}
