//! Objects of a bucket as the target of a workload, through the S3 gateway of a cluster, ours or any other.
//!
//! * [`site`]: the gateway, its keys and the bucket of a workload.
//! * [`signature`]: requests' signatures, of version 4.
//! * [`bucket`]: the objects, over connections that each carry one request at a time.
//! * [`list`]: pages of the list of objects, as documents. [`secure`]: TLS.
//! * [`listener`]: the process that serves an endpoint on this machine.

pub mod bucket;
pub mod list;
pub mod listener;
pub mod secure;
pub mod signature;
pub mod site;
#[cfg(test)]
mod tests;

pub use bucket::Bucket;
pub use site::{BucketSite, GatewayError};
