//! Objects that are copied from others on behalf of clients (`COPY_FROM`).
//!
//! The primary of the copy asks the primary of the source for what is there, as a client would: with the same messages,
//! over the network of the OSDs. So whatever holds for clients' reads (leases, the order of operations, objects that
//! are still missing) holds here. Large objects come in several answers, all of one version of the source. What has
//! come is then written by one update.

mod copied;
mod copies;

pub(crate) use copied::Copied;
pub(crate) use copies::{Copies, CopySource, PIECE_BYTES};
