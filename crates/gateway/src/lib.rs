//! The S3 gateway as a server: HTTP on tokio in front of the core in `s3`.
//!
//! * [`Server`]: start here. It listens, serves, and does the work beside requests.
//! * `link`: the core's view of RADOS, on `client`.
//! * `service`: requests of S3 as `s3s` reads them, answered by the core. `documents`: those about settings, lists and
//!   tags, which `s3rules` reads. `post`: uploads by forms, which `forms` reads.
//! * `authority`: access keys, users and policies. `asker`: judgements by `s3rules`. `place`: buckets in addresses.
//! * `objects`, `parts`, `uploads`, `lists`, `locks`: the requests by subject. `budget`: memory for bodies.
//! * `encryption`: headers about it. `rates`: rate limits. `sites`: web sites.
//! * `signatures`: where requests have them. `dates`: their times. `second_signature`: those of version 2.
//! * `expectation`: clients that wait to be told to send a body.
//! * `logged`: numbers of requests, and the lines of `access_log`, which `log_line` writes. `notes`: facts for them.
//! * `watched`: bodies at whose reading somebody looks.
//! * `tls`: certificates and handshakes. `threads`: those that serve connections.
//! * `convert`: values of `s3s` and of the core.
//!
//! No type of `s3s` is known outside this crate.

mod access_log;
mod asker;
mod authority;
mod budget;
mod convert;
mod dates;
mod documents;
mod encryption;
mod expectation;
mod forms;
mod link;
mod lists;
mod locks;
mod log_line;
mod logged;
mod notes;
mod objects;
mod parts;
mod place;
mod post;
mod rates;
mod regions;
mod second_signature;
mod server;
mod service;
mod signatures;
mod sites;
mod streams;
mod threads;
mod tls;
mod uploads;
mod watched;

pub use access_log::{AccessLog, AccessLogFormat};
pub use link::{DATA_POOL, Link, META_POOL, beating, open};
pub use server::{Server, ServerError};
pub use threads::Threads;
pub use tls::{Certificates, TlsError};
