//! The S3 gateway as a server: HTTP on tokio in front of the core in `s3`.
//!
//! * [`Server`]: start here. It listens, serves, and does the work beside requests.
//! * `link`: the core's view of RADOS, on `client`.
//! * `service`: requests of S3 as `s3s` reads them, answered by the core. `authority`: access keys and rights.
//! * `objects`, `uploads`, `lists`: the requests by subject. `budget`: memory for bodies.
//! * `convert`: values of `s3s` and of the core.
//!
//! Absent: TLS. No type of `s3s` is known outside this crate.

mod authority;
mod budget;
mod convert;
mod link;
mod lists;
mod objects;
mod server;
mod service;
mod streams;
mod uploads;

pub use link::{DATA_POOL, Link, META_POOL, open};
pub use server::{Server, ServerError};
