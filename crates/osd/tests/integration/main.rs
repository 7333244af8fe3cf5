//! Tests of whole OSDs without a cluster.

mod block_devices;
mod common;
mod orderly_stop;
mod shards;
