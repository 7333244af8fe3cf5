//! Encodings against samples and recorded traffic of Ceph, and decoders against hostile input.

mod corpus;
mod decoders;
mod fixture;
mod golden;
