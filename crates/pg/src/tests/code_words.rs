//! A deep scrub proves that the shards of an object are one code word, whether they have digests or not.

use super::cluster::{Cluster, PG, POOL};
use super::digests::{found, garble_shard, scrub, shard_object};
use super::healing;
use super::steps::Client;
use crate::group::digests::Digests;
use crate::ops::Limits;
use bytes::Bytes;
use osdmap::PoolFlags;
use std::time::Duration;
use store::{Step, Transaction};
use types::{OsdId, PgId};
use wire::messages::Op;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const ALL: [OsdId; 4] = [A, B, OsdId(2), OsdId(3)];
const BYTES: usize = 300_000;

/// Makes a client of an object of which no digests are known, as a part of it was overwritten.
fn overwritten(mut cluster: Cluster) -> Client {
    let mut pool = cluster.map.pools[&POOL].clone();
    pool.flags.insert(PoolFlags::EC_OVERWRITES);
    cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
    cluster.update_all();
    cluster.settle();
    let mut client = Client::of(cluster);
    let entries = [(Bytes::from("key"), Bytes::from("value"))].into();
    assert_eq!(client.result(vec![Op::write_full(vec![7; BYTES]), Op::omap_set_vals(&entries)]), 0);
    assert_eq!(client.result(vec![Op::write(9000, "over")]), 0);
    // Members are told meanwhile that the updates will stay.
    client.cluster.pass(Duration::from_secs(2));
    assert_eq!(digests(&mut client.cluster), Digests::default());
    client
}

fn digests(cluster: &mut Cluster) -> Digests {
    found(cluster, A, &shard_object(A)).0.digests
}

fn is_whole(client: &mut Client) -> bool {
    let reply = client.ask(vec![Op::read(0, 0)]);
    let mut wanted = vec![7; BYTES];
    wanted[9000..9004].copy_from_slice(b"over");
    reply.result == 0 && reply.ops[0].outdata.to_vec() == wanted
}

#[test]
fn each_shard_that_is_damaged_without_a_digest_is_found_and_computed_anew() {
    for bad in ALL {
        let mut client = overwritten(Cluster::coded_wide(3, Limits::default()));
        assert_eq!(scrub(&mut client.cluster, true, false).repaired, 0);
        let before = ALL.map(|osd| found(&mut client.cluster, osd, &shard_object(osd)).1);
        garble_shard(&mut client.cluster, bad, "garbled");
        assert_eq!(scrub(&mut client.cluster, false, false).repaired, 0, "a light scrub does not read");
        let mark = scrub(&mut client.cluster, true, false);
        assert_eq!((mark.errors(), mark.repaired), (0, 1), "{bad}");
        healing::heal(&mut client.cluster);
        let after = ALL.map(|osd| found(&mut client.cluster, osd, &shard_object(osd)).1);
        assert_eq!(before, after, "{bad}");
        assert!(is_whole(&mut client), "{bad}");
    }
}

#[test]
fn nothing_is_replaced_where_nothing_tells_which_shards_are_wrong() {
    let mut client = overwritten(Cluster::coded(3));
    for (bad, text) in [(A, "garbled"), (B, "smeared"), (OsdId(2), "spoiled")] {
        garble_shard(&mut client.cluster, bad, text);
        let mark = scrub(&mut client.cluster, true, true);
        assert_eq!((mark.deep_errors, mark.shallow_errors, mark.repaired, mark.undecided), (1, 0, 0, 0), "{bad}");
    }
    let mut client = overwritten(Cluster::coded_wide(3, Limits::default()));
    garble_shard(&mut client.cluster, A, "garbled");
    garble_shard(&mut client.cluster, OsdId(3), "otherwise");
    let mark = scrub(&mut client.cluster, true, true);
    assert_eq!((mark.deep_errors, mark.repaired), (1, 0));
}

#[test]
fn digests_are_recorded_of_what_is_proven() {
    let limits = Limits { record_after: Duration::ZERO, ..Limits::default() };
    let mut client = overwritten(Cluster::coded_wide(3, limits));
    let shards = ALL.map(|osd| found(&mut client.cluster, osd, &shard_object(osd)).1);
    assert_eq!(scrub(&mut client.cluster, true, false).errors(), 0);
    let of_shards = shards.iter().map(|digests| digests.data.expect("it was read")).collect();
    assert_eq!(digests(&mut client.cluster), Digests { data: None, omap: shards[0].omap, shards: of_shards });
    // Two of four are damaged: the digests tell which.
    client.cluster.pass(Duration::from_secs(2));
    garble_shard(&mut client.cluster, A, "garbled");
    garble_shard(&mut client.cluster, OsdId(3), "otherwise");
    let mark = scrub(&mut client.cluster, true, false);
    assert_eq!((mark.errors(), mark.repaired), (0, 2));
    healing::heal(&mut client.cluster);
    assert!(is_whole(&mut client));
    // The digest of the omap tells, too.
    let object = shard_object(B);
    let entries = vec![(Bytes::from_static(b"key"), Bytes::from_static(b"other"))];
    let pg = PgId { pool: object.pool, ..PG };
    let steps = vec![Step::OmapSet { object, entries }];
    client.cluster.store(B).submit(Transaction { pg, steps }).expect("it can be stored");
    client.cluster.turn(B);
    client.cluster.settle();
    let mark = scrub(&mut client.cluster, true, false);
    assert_eq!((mark.errors(), mark.repaired), (0, 3));
    healing::heal(&mut client.cluster);
    assert_eq!(found(&mut client.cluster, B, &shard_object(B)).1.omap, shards[1].omap);
}

#[test]
fn omaps_that_differ_and_have_no_digest_wait_for_somebody() {
    let mut client = overwritten(Cluster::coded_wide(3, Limits::default()));
    let object = shard_object(B);
    let entries = vec![(Bytes::from_static(b"key"), Bytes::from_static(b"other"))];
    let pg = PgId { pool: object.pool, ..PG };
    client.cluster.store(B).submit(Transaction { pg, steps: vec![Step::OmapSet { object, entries }] }).expect("stored");
    client.cluster.turn(B);
    client.cluster.settle();
    let mark = scrub(&mut client.cluster, true, true);
    assert_eq!((mark.errors(), mark.repaired), (1, 0));
}
