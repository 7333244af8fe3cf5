//! Whole OSDs without a cluster.

mod common;
mod orderly_stop;
mod shards;
