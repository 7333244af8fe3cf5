//! Several shards and their maps, without network, clock or devices of their own.

mod backfill;
mod background_check;
mod backoffs;
mod cluster;
mod coded;
mod copy;
mod degraded;
mod dups;
mod full;
mod giving_up;
mod going_back;
mod healing;
mod hops;
mod hurried;
mod maps;
mod memory;
mod merging;
mod node;
mod replica_reads;
mod reports;
mod requeue;
mod scrub;
mod snapshots;
mod split;
mod waiting_lookups;
mod watch;
