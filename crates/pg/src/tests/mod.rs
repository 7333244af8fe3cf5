//! Several shards and their maps, without network, clock or devices of their own.

mod backfill;
mod background_check;
mod cluster;
mod degraded;
mod healing;
mod hops;
mod maps;
mod memory;
mod requeue;
mod scrub;
mod waiting_lookups;
