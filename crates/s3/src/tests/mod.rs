//! Tests of the core on a cluster in memory.

mod basics;
mod history;
mod lifecycle;
mod model;
mod orphans;
mod quotas;
mod sealed;
mod settings;
mod versions;
mod wreckage;

use crate::memory::Memory;
use crate::{MasterKeys, Settings, Store, User};
use std::sync::Arc;

/// A day of lifecycle rules, longer than requests take.
const DAY_S: u32 = 100;

/// Settings so small that a few keys and bytes make use of everything.
fn small() -> Settings {
    Settings {
        whole_max_bytes: 48,
        stripe_bytes: 16,
        stripes_at_once: 3,
        range_keys_max: 8,
        counts_max: 4,
        usage_ttl_ms: 1000,
        page_entries: 5,
        garbage_ms: 2000,
        dead_after_ms: 3000,
        bucket_ttl_ms: 400,
        orphan_age_ms: 0,
        orphans_at_once: 4,
        part_min_bytes: 20,
        lifecycle_day_s: Some(DAY_S),
        master_keys: MasterKeys::parse(&format!("first {}", types::base64::encode(&[1; 32]))).expect("a key"),
        sealed_chunk_bytes: 7,
        ..Settings::default()
    }
}

fn user(uid: &str) -> User {
    User { uid: uid.into(), display_name: uid.into(), buckets_max: 100, ..User::default() }
}

/// `len` bytes that differ from those of any other id.
fn bytes_of(id: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (id.wrapping_mul(0x9e37_79b9).wrapping_add(at * 131) >> 5) as u8).collect()
}

async fn open(client: &Memory, session: &str) -> Arc<Store<Memory>> {
    open_with(client, session, small()).await
}

async fn open_with(client: &Memory, session: &str, settings: Settings) -> Arc<Store<Memory>> {
    Store::open(client.clone(), session.into(), settings).await.expect("a session opens")
}
