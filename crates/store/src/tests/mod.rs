//! Tests of the whole store over a simulated device, against a naive model.

mod adding;
mod cached_reads;
mod checkpoints;
mod clone_range;
mod commit;
mod compaction;
mod copying;
mod crash;
mod damage;
mod devices;
mod faults;
mod fixtures;
pub mod harness;
mod inline;
mod large;
mod lookups;
mod lost_log;
mod mending;
mod model;
mod opening;
mod relocation;
mod room;
mod snap_index;
mod space;
