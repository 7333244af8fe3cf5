//! Settings of a bucket: everything that its owner may set, in one record beside the bucket's own.

use crate::error::Error;
use crate::names;
use crate::records::Versioning;
use bytes::Bytes;
use s3rules::acl::Acl;
use s3rules::cors::CorsConfiguration;
use s3rules::lifecycle::LifecycleConfiguration;
use s3rules::object_lock::ObjectLockConfiguration;
use s3rules::quota::Quota;
use s3rules::rate::RateLimit;
use s3rules::tagging::TagSet;
use s3rules::website::WebsiteConfiguration;
use s3rules::{DefaultEncryption, ObjectOwnership, PublicAccessBlock};
use serde::{Deserialize, Serialize};

/// The latest form of settings that this gateway understands.
const FORMAT: u32 = 5;

/// A policy as it was set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredPolicy {
    /// The document, byte for byte.
    pub text: String,
    /// It may keep the owner from the policy itself.
    #[serde(default)]
    pub binds_owner: bool,
}

/// Settings of a bucket. `None` is what was never set, or deleted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BucketSettings {
    /// The form that a reader has to understand. One who knows only older ones does not serve the bucket, because it
    /// would let in whom a newer kind of rule keeps out.
    pub format: u32,
    /// Number of changes.
    pub revision: u64,
    /// `None` gives everything to the owner, and nothing to anybody else.
    #[serde(default)]
    pub acl: Option<Acl>,
    #[serde(default)]
    pub policy: Option<StoredPolicy>,
    #[serde(default)]
    pub ownership: Option<ObjectOwnership>,
    #[serde(default)]
    pub public_access: Option<PublicAccessBlock>,
    #[serde(default)]
    pub cors: Option<CorsConfiguration>,
    #[serde(default)]
    pub tags: Option<TagSet>,
    #[serde(default)]
    pub requesters_pay: bool,
    #[serde(default)]
    pub versioning: Versioning,
    /// Versions can be locked. Versioning stays enabled then.
    #[serde(default)]
    pub object_lock: Option<ObjectLockConfiguration>,
    /// To be changed by [`Store::set_lifecycle`](crate::Store::set_lifecycle), which has a round through the bucket
    /// begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<LifecycleConfiguration>,
    /// Set by those who run the cluster, as the next one is.
    #[serde(default)]
    pub quota: Quota,
    #[serde(default)]
    pub rate_limit: RateLimit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website: Option<WebsiteConfiguration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<DefaultEncryption>,
}

impl Default for BucketSettings {
    fn default() -> BucketSettings {
        BucketSettings {
            format: FORMAT,
            revision: 0,
            acl: None,
            policy: None,
            ownership: None,
            public_access: None,
            cors: None,
            tags: None,
            requesters_pay: false,
            versioning: Versioning::Off,
            object_lock: None,
            lifecycle: None,
            quota: Quota::default(),
            rate_limit: RateLimit::default(),
            website: None,
            encryption: None,
        }
    }
}

impl BucketSettings {
    pub(crate) fn revision_bytes(&self) -> Bytes {
        Bytes::from(self.revision.to_string())
    }

    /// Marks settings that this gateway writes: one that does not know all of them would drop some.
    pub(crate) fn mark_format(&mut self) {
        self.format = FORMAT;
    }

    /// Errors: `Damaged` for settings of a form that this gateway does not know.
    pub(crate) fn check_format(&self, bucket: &str) -> Result<(), Error> {
        if self.format <= FORMAT {
            return Ok(());
        }
        let reason = format!("settings of form {} need a newer gateway: this one knows {FORMAT}", self.format);
        Err(Error::damaged(&names::bucket_object(bucket), reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{from_bytes, to_bytes};

    /// A record as a gateway has written it that knew no encryption.
    #[test]
    fn settings_of_form_4_are_read() {
        let stored = r#"{"format":4,"revision":9,"acl":null,"policy":{"text":"{}","binds_owner":true},"ownership":null,
            "public_access":null,"cors":null,"tags":null,"requesters_pay":true,"versioning":"Enabled","object_lock":null,
            "quota":{"enabled":true,"bytes_max":5,"objects_max":null},"rate_limit":{"read_ops":1,"write_ops":null,
            "read_bytes":null,"write_bytes":null}}"#;
        let mut settings: BucketSettings = from_bytes("settings", stored.as_bytes()).expect("a record");
        settings.check_format("things").expect("it is known");
        assert!(settings.requesters_pay && settings.versioning == Versioning::Enabled && settings.revision == 9);
        assert_eq!((settings.quota.bytes_max, settings.rate_limit.read_ops), (Some(5), Some(1)));
        assert_eq!((&settings.encryption, &settings.website), (&None, &None));
        // One who knows form 4 alone shall not take the bucket for one without encryption.
        settings.mark_format();
        let written: serde_json::Value = from_bytes("settings", &to_bytes(&settings)).expect("JSON");
        assert_eq!(written["format"], 5);
    }
}
