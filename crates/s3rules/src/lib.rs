//! Rules of the S3 gateway: who may do what, and what becomes of objects by rules of their bucket.
//!
//! There is no I/O here, no clock and no randomness: facts go in, judgements come out. Start with [`access::judge`].
//!
//! | question | answer |
//! |---|---|
//! | May this request be done? | [`access`], by [`policy`], [`acl`], [`ObjectOwnership`] and [`PublicAccessBlock`] |
//! | May pages of another origin send it? | [`cors`] |
//! | Which object does a path of a web site mean? | [`website`] |
//! | When does an object expire or move? | [`lifecycle`] |
//! | May this version be removed? | [`object_lock`] |
//! | Is there room for it, and is it not too soon? | [`quota`], [`rate`] |
//! | How are new objects encrypted? | [`DefaultEncryption`] |
//! | Does a form keep to what was signed? | [`post_policy`] |

pub mod access;
pub mod acl;
#[cfg(test)]
mod client_documents;
pub mod cors;
mod encryption;
mod error;
pub mod lifecycle;
pub mod object_lock;
mod ownership;
pub mod policy;
pub mod post_policy;
mod public_access;
pub mod quota;
pub mod rate;
mod request_payment;
pub mod tagging;
mod time;
mod uri;
pub mod website;
mod xml;

pub use encryption::{DefaultEncryption, EncryptionAlgorithm};
pub use error::{S3Code, S3Error};
pub use ownership::ObjectOwnership;
pub use public_access::{PublicAccessBlock, is_public_bucket, policy_status_xml};
pub use request_payment::{requesters_pay_from_xml, requesters_pay_xml};
pub use time::UnixMillis;
pub use uri::{percent_decode, percent_decode_path, percent_encode};
pub use xml::XML_BYTES_MAX;
