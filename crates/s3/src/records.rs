//! Records as they are stored: JSON, in attributes, omaps and the bytes of heads.
//!
//! Fields that are not known are passed over, and absent ones have their defaults, so that a newer gateway can add
//! some.

use crate::error::Error;
use bytes::Bytes;
use s3rules::acl::Acl;
use s3rules::object_lock::ObjectLock;
use s3rules::quota::Quota;
use s3rules::rate::RateLimit;
use s3rules::tagging::TagSet;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Attributes of objects.
pub(crate) mod attr {
    /// The record.
    pub const RECORD: &str = "nacre.record";
    /// A name of the present state of a head or of a bucket, never used twice.
    pub const TAG: &str = "nacre.tag";
    /// Number of changes of a range's bounds or state.
    pub const GENERATION: &str = "nacre.generation";
    /// State of an upload or of a bucket's root.
    pub const STATE: &str = "nacre.state";
    /// Counter by which a gateway shows that it lives.
    pub const BEAT: &str = "nacre.beat";
    /// The older versions of a head's key.
    pub const OLDER: &str = "nacre.older";
    /// Number of changes of a bucket's settings, which are the bytes of its record's object.
    pub const REVISION: &str = "nacre.revision";
}

/// A bucket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bucket {
    pub name: String,
    /// A name that no other bucket had or will have.
    pub id: String,
    pub owner: String,
    pub created_ms: u64,
    /// The pool with the bytes of its objects.
    pub data_pool: String,
}

/// Setting of a bucket: what becomes of the version that a change replaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Versioning {
    /// Never enabled. A put replaces the null version, and a deletion removes it.
    #[default]
    Off,
    /// A put or a deletion adds a version.
    Enabled,
    /// A put or a deletion replaces the null version alone.
    Suspended,
}

/// State of a range of an index.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum RangeState {
    Live,
    /// Keys from `at` on are not changed any more, because they go over to range `to`.
    Splitting {
        at: String,
        to: String,
    },
    /// Entries are being written here, and nobody looks for them yet.
    Filling,
    /// The next range, with everything up to `end`, goes over to this one.
    Receiving {
        from: String,
        end: Option<String>,
    },
    /// Nothing is changed any more, because everything goes over to the range before.
    Leaving {
        into: String,
    },
    /// The bucket is being deleted.
    Closed,
}

/// A range: the keys from `start` up to, and without, `end`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Range {
    pub start: String,
    pub end: Option<String>,
    pub state: RangeState,
}

/// The entry of a key in an index.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub size: u64,
    /// Without quotes.
    pub etag: String,
    pub mtime_ms: u64,
    pub owner: String,
}

/// The changes of a key that are under way.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Slot {
    /// Number of changes of this slot, so that no state of it comes twice.
    pub seq: u64,
    pub stamps: Vec<String>,
}

/// Whose key seals an object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SealedBy {
    Customer,
    Master { id: String },
}

/// How the bytes of an object are sealed. Salt, key and proof are base64.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sealing {
    pub by: SealedBy,
    pub(crate) salt: String,
    /// The data key, sealed.
    pub(crate) key: String,
    /// Bytes of each chunk before it is sealed, but of the last one of a stripe.
    pub(crate) chunk: u64,
    /// Empty for an upload under way, whose parts are not known yet. `parts:` and base64 where an upload was completed
    /// without its customer's key: made of the parts' own then. Gateways from before that write it back as it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) proof: String,
}

/// Place of the bytes of an S3 object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Layout {
    /// The head's bytes.
    Whole,
    /// Stripes of a tail.
    Striped(Tail),
    /// Parts of an upload, whose list are the head's bytes.
    Parts { upload: String },
    /// Sealed bytes at one of the other places. Sizes and tails tell bytes as they were before. A gateway from before
    /// there was sealing cannot read a record with this, and so gives out nothing of the object.
    Sealed { bytes: Box<Layout>, sealing: Box<Sealing> },
}

impl Layout {
    /// The place of the bytes, sealed or not.
    pub(crate) fn bare(&self) -> &Layout {
        match self {
            Layout::Sealed { bytes, .. } => bytes,
            bare => bare,
        }
    }
}

/// A row of stripes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tail {
    pub id: String,
    /// Bytes in all.
    pub size: u64,
    /// Bytes of each stripe but the last.
    pub stripe: u64,
}

impl Tail {
    pub(crate) fn stripes(&self) -> u64 {
        self.size.div_ceil(self.stripe.max(1))
    }
}

/// Objects of the pool of bytes that versions have beside the head of their key.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Named {
    pub tails: Vec<Tail>,
    /// Objects of older versions.
    pub places: Vec<String>,
}

impl Named {
    pub(crate) fn of_tails(tails: &[Tail]) -> Named {
        Named { tails: tails.to_vec(), places: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tails.is_empty() && self.places.is_empty()
    }
}

/// A checksum that the client gave or asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredChecksum {
    pub kind: crate::digest::ChecksumKind,
    /// Base64; for an upload's composite checksum with `-COUNT` behind it.
    pub value: String,
    /// The checksum is that of the parts' checksums.
    #[serde(default)]
    pub is_composite: bool,
}

/// The head of an S3 object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    pub bucket: String,
    pub key: String,
    /// The value of the head's tag.
    pub tag: String,
    pub size: u64,
    /// Without quotes.
    pub etag: String,
    pub mtime_ms: u64,
    pub owner: String,
    /// Standard headers that are kept with the object, by lower-case name.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Metadata of the user, by name without `x-amz-meta-`.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    #[serde(default)]
    pub checksum: Option<StoredChecksum>,
    /// `None` gives everything to the owner, and nothing to anybody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<Acl>,
    #[serde(default, skip_serializing_if = "has_no_tags")]
    pub tags: TagSet,
    pub layout: Layout,
    /// Id of the version; `None` is the null version, of which a key has at most one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Place of the version among those of its key: newer ones have greater numbers.
    #[serde(default)]
    pub order: u64,
    /// The version is a delete marker: it has no bytes, and the key shows no object while it is the newest.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_marker: bool,
    #[serde(default, skip_serializing_if = "is_unlocked")]
    pub lock: ObjectLock,
}

fn is_unlocked(lock: &ObjectLock) -> bool {
    !lock.is_set()
}

fn has_no_tags(tags: &TagSet) -> bool {
    tags.tags.is_empty()
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A version that is not the newest of its key, in the list that the key's head keeps.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Older {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub order: u64,
    pub entry: Entry,
    /// The object that has the version's record and bytes, as a head has them; it never changes. A delete marker has
    /// none.
    pub place: Option<String>,
    pub layout: Layout,
    #[serde(default, skip_serializing_if = "is_unlocked")]
    pub lock: ObjectLock,
}

/// A version in a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VersionEntry {
    /// `None` is the null version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_marker: bool,
    pub entry: Entry,
}

impl Head {
    pub(crate) fn entry(&self) -> Entry {
        Entry { size: self.size, etag: self.etag.clone(), mtime_ms: self.mtime_ms, owner: self.owner.clone() }
    }

    /// How the bytes are sealed; `None` if they are not.
    pub fn sealing(&self) -> Option<&Sealing> {
        match &self.layout {
            Layout::Sealed { sealing, .. } => Some(sealing),
            _ => None,
        }
    }
}

/// A part of an upload, also in the list of an object's parts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    pub number: u16,
    pub etag: String,
    pub mtime_ms: u64,
    #[serde(default)]
    pub checksum: Option<StoredChecksum>,
    pub tail: Tail,
    /// Base64 of a proof by the data key of an upload that a customer's key seals. Only the upload's own record of the
    /// part has it: who knows it could put the part into another list.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) proof: String,
    /// Whose key seals the part, where it was just stored: the upload's record has it.
    #[serde(skip)]
    pub sealed_by: Option<SealedBy>,
}

impl Part {
    /// The part as the list of an object's parts has it.
    pub(crate) fn without_proof(&self) -> Part {
        Part { proof: String::new(), ..self.clone() }
    }
}

/// A multipart upload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Upload {
    pub id: String,
    pub key: String,
    pub owner: String,
    pub created_ms: u64,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// The checksum that the client announced for the parts.
    #[serde(default)]
    pub checksum: Option<crate::digest::ChecksumKind>,
    /// The checksum of the whole is that of the parts' checksums.
    #[serde(default)]
    pub is_composite: bool,
    /// List and tags of the object that comes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<Acl>,
    #[serde(default, skip_serializing_if = "has_no_tags")]
    pub tags: TagSet,
    #[serde(default, skip_serializing_if = "is_unlocked")]
    pub lock: ObjectLock,
    /// How every part is sealed, by keys that follow from this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealing: Option<Sealing>,
}

/// An upload's record as it is stored. That of a sealed one is wrapped, so that a gateway from before there was sealing
/// cannot read it, and stores no part as it comes.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum StoredUpload {
    Sealed { sealed: Upload },
    Plain(Upload),
}

impl From<Upload> for StoredUpload {
    fn from(upload: Upload) -> StoredUpload {
        match upload.sealing {
            Some(_) => StoredUpload::Sealed { sealed: upload },
            None => StoredUpload::Plain(upload),
        }
    }
}

impl From<StoredUpload> for Upload {
    fn from(stored: StoredUpload) -> Upload {
        match stored {
            StoredUpload::Sealed { sealed } => sealed,
            StoredUpload::Plain(upload) => upload,
        }
    }
}

/// A user.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct User {
    pub uid: String,
    pub display_name: String,
    /// Address by which grants may name the user.
    #[serde(default)]
    pub email: Option<String>,
    #[serde(default)]
    pub is_suspended: bool,
    pub access_keys: Vec<String>,
    pub buckets_max: u32,
    /// Of all of the user's buckets together.
    #[serde(default)]
    pub quota: Quota,
    #[serde(default)]
    pub rate_limit: RateLimit,
    /// Policies as they were set, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, String>,
}

/// An access key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKey {
    pub uid: String,
    pub secret: String,
}

/// A gateway, as the directory of sessions has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    /// The name by which its client can be fenced.
    pub client: String,
    pub started_ms: u64,
}

/// A piece of work that another gateway has to end, or to take back, if its own dies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Intent {
    /// Of these tails and places only those stay that a version of a key has.
    Tails {
        bucket: Bucket,
        key: String,
        named: Named,
    },
    /// Of the tails of a part those stay that the upload or a version of the key names.
    PartTails {
        bucket: Bucket,
        key: String,
        upload: String,
        number: u16,
        tails: Vec<Tail>,
    },
    /// Nothing names these tails and places, and readers may use them until the time has come.
    Garbage {
        data_pool: String,
        named: Named,
        due_ms: u64,
    },
    /// An upload is made or ended.
    Abort {
        bucket: Bucket,
        key: String,
        upload: String,
    },
    Complete {
        bucket: Bucket,
        key: String,
        upload: String,
    },
    CreateBucket(Bucket),
    DeleteBucket(Bucket),
    /// Range `range` goes over to `to` in part.
    Split {
        bucket: String,
        range: String,
        to: String,
    },
    /// Range `from` goes over to `into`.
    Merge {
        bucket: String,
        into: String,
        from: String,
    },
}

pub(crate) fn to_bytes<T: Serialize>(record: &T) -> Bytes {
    // Records have string keys and no fallible parts.
    Bytes::from(serde_json::to_vec(record).expect("a record is representable as JSON"))
}

/// Reads a record; `object` is named where it is damaged.
pub(crate) fn from_bytes<T: DeserializeOwned>(object: &str, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|e| Error::damaged(object, e))
}
