//! The core of the S3 gateway: users, buckets, objects, uploads and lists, on the objects of a RADOS cluster.
//!
//! * [`Store`]: start here. It is one gateway's view of all buckets. `docs/s3.md` and the decision on the gateway tell
//!   how things are laid out in RADOS.
//! * [`Rados`]: the part of RADOS that is needed, and the clock.
//! * `index`: stamps and slots, by which keys and heads agree. `moves`: ranges that split and merge.
//! * `objects`, `reading`, `multipart`, `listing`, `version_listing`, `buckets`, `users`: requests.
//! * `present`: a key's versions; `versions`: what a change makes of them; `commit`: how it is made.
//! * `bucket_settings`: what owners set for a bucket, in the types of `s3rules`; `settings`: changes of it.
//! * `tenants`: names of buckets and users within tenants.
//! * `counts`: bytes and objects of buckets; `quotas`: how many there may be.
//! * `sealing`: encrypted bytes of objects, and the keys for them.
//! * `sweep`: what dead gateways left. `check`: indexes that differ from heads; `orphans`: bytes that nothing names.
//! * `lifecycle`: rounds through buckets by their rules; `lapse`: what is due of one key.
//!
//! Absent: sockets, threads, clocks, XML and signatures, which are the driver's (`crates/gateway`).

mod body;
mod bucket_settings;
mod buckets;
mod check;
mod commit;
mod conditions;
mod counts;
mod digest;
mod error;
#[cfg(test)]
mod executor;
mod index;
mod lapse;
mod lifecycle;
mod listing;
#[cfg(test)]
mod memory;
mod moves;
mod multipart;
mod names;
mod objects;
mod orphans;
mod present;
mod quotas;
mod rados;
mod reading;
mod records;
mod sealing;
mod settings;
mod store;
mod sweep;
mod tenants;
#[cfg(test)]
mod tests;
mod usage;
mod users;
mod version_listing;
mod versions;
mod window;

pub use body::{Body, ByteRange, Whole};
pub use bucket_settings::{BucketSettings, StoredPolicy};
pub use check::Checked;
pub use conditions::Conditions;
pub use counts::BucketUsage;
pub use digest::{ChecksumKind, check_content_md5, content_md5};
pub use error::{Code, Error};
pub use lapse::STORAGE_CLASS;
pub use lifecycle::Lapsed;
pub use listing::{ListedUpload, Page, Query, UploadPage};
pub use multipart::{Completion, PARTS_MAX, PartPage, PartRequest, WantedPart};
pub use objects::{Deleted, Deletion, KEY_MAX_BYTES, METADATA_MAX_BYTES, Object, PUT_MAX_BYTES, PutRequest};
pub use orphans::{OrphanFound, PoolChecked};
pub use present::NULL_VERSION;
pub use rados::{ObjectNames, Rados, RadosError, Reply, Step};
pub use reading::ReadStream;
pub use records::{
    AccessKey, Bucket, Entry, Head, Layout, Part, SealedBy, Sealing, StoredChecksum, Tail, Upload, User, VersionEntry,
    Versioning,
};
pub use sealing::{CustomerKey, Encryption, MasterKeyError, MasterKeys, SEALING_KEY_BYTES};
pub use store::{Settings, Store};
pub use tenants::{bucket_called, bucket_parts, is_tenant, user_of, user_parts};
pub use users::ANONYMOUS;
pub use version_listing::{ListedVersion, VersionPage};
pub use versions::OLDER_MAX;
