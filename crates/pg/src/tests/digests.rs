//! Objects and shards prove themselves: digests are right wherever there are any, and what is not as they say is
//! replaced.

use super::cluster::{Cluster, HASH, OBJECT, PG, POOL};
use super::healing;
use super::steps::Client;
use crate::group::digests::{DataDigest, Digests, OmapDigest};
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::group::pg::Pg;
use crate::ops::Limits;
use crate::scrub::ScrubMark;
use crate::scrub::repair::{KeepCopyError, Kept};
use bytes::Bytes;
use osdmap::{OsdMapFlags, PoolFlags};
use std::collections::BTreeMap;
use std::time::Duration;
use store::Step;
use types::crc32c::checksum;
use types::{ObjectId, OsdId, SnapId};
use wire::basic::{Locator, SnapContext};
use wire::messages::{Op, op_flag};
use wire::nacre::mon::{PgScrub, pg_state};
use wire::{Message, Rope, Target};

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const ALL: [OsdId; 3] = [A, B, C];

fn object() -> ObjectId {
    ObjectId::head(POOL, HASH, b"", OBJECT)
}

fn pg(cluster: &mut Cluster, osd: OsdId) -> &Pg {
    cluster.shard(osd).groups().next().expect("a member")
}

/// Returns an object as a store has it: its information, and its digests.
pub(super) fn found(cluster: &mut Cluster, osd: OsdId, object: &ObjectId) -> (ObjectInfo, Digests) {
    cluster.remember(osd);
    let stat = cluster.ready(osd, |store| store.stat(object)).expect("it is there");
    let info = ObjectInfo::of(&stat).expect("it has information");
    let mut data = DataDigest::default();
    if stat.size_bytes > 0 {
        // The read waits for the device; asked again, it finds the bytes in memory.
        cluster.store(osd).set_block_cache_bytes(1 << 20);
        let bytes = cluster.ready(osd, |store| store.read(object, 0, stat.size_bytes));
        data.add_once(0, &Rope::from(bytes.to_vec()));
        cluster.store(osd).set_block_cache_bytes(0);
    }
    let header = cluster.ready(osd, |store| store.omap_header(object));
    let mut omap = OmapDigest::of_header(&header);
    let (entries, _) = cluster.ready(osd, |store| store.omap_list(object, b"", b"", 1000));
    entries.iter().for_each(|(key, value)| omap.add(key, value));
    let digests = Digests { data: data.of(stat.size_bytes), omap: Some(omap.get()), shards: Vec::new() };
    (info, digests)
}

/// Returns the digests in an object's information, and checks that they are right.
fn known(cluster: &mut Cluster, osd: OsdId, object: &ObjectId) -> (Option<u32>, Option<u32>) {
    let (ObjectInfo { digests: told, .. }, is) = found(cluster, osd, object);
    assert!(told.data.is_none_or(|data| Some(data) == is.data), "{object}: {told:x?}, {is:x?}");
    assert!(told.omap.is_none_or(|omap| Some(omap) == is.omap), "{object}: {told:x?}, {is:x?}");
    (told.data, told.omap)
}

fn order(cluster: &mut Cluster, deep: bool, repair: bool) {
    let order = PgScrub { pgs: vec![PG], deep, repair }.seal(0, Target::default());
    cluster.shard(A).monitor_message(&order).unwrap();
    cluster.turn(A);
    cluster.settle();
}

/// Scrubs to the end, and gives what is kept of it.
pub(super) fn scrub(cluster: &mut Cluster, deep: bool, repair: bool) -> ScrubMark {
    order(cluster, deep, repair);
    for turns in 0.. {
        cluster.pass(Duration::from_millis(100));
        if pg(cluster, A).state_bits(A) & (pg_state::SCRUBBING | pg_state::RECOVERING) == 0 {
            break;
        }
        assert!(turns < 100, "it ends");
    }
    pg(cluster, A).scrub.mark().clone()
}

/// Has a store hold other data or another omap of the object than its information says.
fn garble(cluster: &mut Cluster, osd: OsdId, object: &ObjectId, text: &'static str) {
    let garbled = Step::Write { object: object.clone(), offset: 1, data: Rope::from(text) };
    cluster.change_store(osd, vec![garbled]);
}

fn entries(key: &'static str, value: &'static str) -> BTreeMap<Bytes, Bytes> {
    [(Bytes::from(key), Bytes::from(value))].into()
}

/// Makes a client of an object whose digests are known.
fn written(text: &'static str) -> Client {
    let mut client = Client::new();
    assert_eq!(client.result(vec![Op::write_full(text), Op::omap_set_vals(&entries("key", "value"))]), 0);
    client
}

/// Returns the object as clients read it.
fn content(client: &mut Client) -> Vec<u8> {
    let reply = client.ask(vec![Op::read(0, 0)]);
    assert_eq!(reply.result, 0);
    reply.ops[0].outdata.to_vec()
}

#[test]
fn updates_keep_up_what_they_can_and_drop_the_rest() {
    let mut client = Client::new();
    let of = |text: &str| Some(checksum(text.as_bytes()));
    let mut after = |ops: Vec<Op>| {
        assert_eq!(client.result(ops), 0);
        ALL.map(|osd| known(&mut client.cluster, osd, &object())).map(|known| known.0)
    };
    let all = |digest: Option<u32>| [digest; 3];
    assert_eq!(after(vec![Op::create(true)]), all(None));
    assert_eq!(after(vec![Op::write_full("abc")]), all(of("abc")));
    assert_eq!(after(vec![Op::append("de")]), all(of("abcde")));
    assert_eq!(after(vec![Op::write(5, "f")]), all(of("abcdef")));
    assert_eq!(after(vec![Op::set_xattr(b"name", b"value")]), all(of("abcdef")));
    assert_eq!(after(vec![Op::omap_set_vals(&entries("k", "v"))]), all(of("abcdef")));
    assert_eq!(after(vec![Op::write(2, "x")]), all(None));
    assert_eq!(after(vec![Op::append("g")]), all(None));
    assert_eq!(after(vec![Op::write(0, "abcdefgh")]), all(of("abcdefgh")));
    assert_eq!(after(vec![Op::truncate(4)]), all(None));
    assert_eq!(after(vec![Op::write_same(0, 8, "ab")]), all(of("abababab")));
    assert_eq!(after(vec![Op::zero(2, 2)]), all(None));
    assert_eq!(after(vec![Op::write_full("")]), all(of("")));
    assert_eq!(after(vec![Op::append("abc"), Op::append("d")]), all(of("abcd")));
    assert_eq!(after(vec![Op::delete(), Op::create(true)]), all(None));
    assert_eq!(after(vec![Op::delete(), Op::write(0, "z")]), all(of("z")));
}

/// Digits that a seed gives.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn bytes(&mut self) -> Bytes {
        let (len, first) = (self.below(9000), self.below(200) as u8);
        (0..len).map(|i| first.wrapping_add(((i * i) >> 5) as u8)).collect::<Vec<u8>>().into()
    }

    fn key(&mut self) -> &'static str {
        ["", "a", "b", "c"][self.below(4) as usize]
    }

    fn op(&mut self, snaps: u64) -> Op {
        match self.below(22) {
            0 | 1 => Op::write(self.below(10_000), self.bytes()),
            2 => Op::write(0, self.bytes()),
            3 | 4 => Op::write_full(self.bytes()),
            5..8 => Op::append(self.bytes()),
            8 => Op::truncate(self.below(3) * 3000),
            9 => Op::zero(self.below(9000), self.below(5000)),
            10 => Op::write_same(self.below(9000), 60, "abc"),
            11 => Op::omap_set_vals(&entries(self.key(), "value")),
            12 => Op::omap_set_header(self.bytes()),
            13 => Op::omap_rm_keys(&[Bytes::from(self.key())].into()),
            14 => Op::omap_rm_key_range(Bytes::from(self.key()), Bytes::from("b")),
            15 => Op::omap_clear(),
            16 => Op::set_xattr(b"name", &self.bytes()),
            17 => Op::call_method("hello", ["record_hello", "turn_it_to_11"][self.below(2) as usize], b"you"),
            18 => Op::delete().with_flags(op_flag::FAILOK),
            19 => Op::create(false),
            20 => Op::rollback(SnapId(1 + self.below(snaps + 1))),
            _ => Op::copy_from(Bytes::from("source"), Locator::pool(POOL), SnapId::HEAD, 0),
        }
    }
}

#[test]
fn digests_are_right_after_whatever_operations() {
    let (mut with_data, mut with_omap, mut of_clones) = (0, 0, 0);
    for seed in 0..8 {
        let limits = Limits { record_after: Duration::ZERO, ..Limits::default() };
        let mut cluster = Cluster::limited(3, seed, limits);
        let mut pool = cluster.map.pools[&POOL].clone();
        pool.flags.insert(PoolFlags::SELFMANAGED_SNAPS);
        cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
        cluster.update_all();
        cluster.settle();
        let (mut client, mut dice, mut snaps) = (Client::of(cluster), Dice(seed), 0);
        let (session, epoch) = (client.session, client.cluster.map.epoch);
        client.cluster.ask_of(A, session, 1_000_000, epoch, 0, (1 << 20, b"source"), Op::write_full("of a copy"));
        client.cluster.settle();
        for _ in 0..50 {
            match dice.below(14) {
                0 => {
                    snaps += 1;
                    let all = (1..=snaps).rev().map(SnapId).collect();
                    client.cluster.snaps = SnapContext { seq: SnapId(snaps), snaps: all };
                }
                1 => assert_eq!(scrub(&mut client.cluster, true, false).errors(), 0, "seed {seed}"),
                _ => {
                    let steps = 1 + dice.below(3);
                    let ops = (0..steps).map(|_| dice.op(snaps)).collect();
                    client.ask(ops);
                }
            }
            let (from, until) = osdmap::pg_range(PG, 1);
            client.cluster.remember(B);
            for object in client.cluster.ready(B, |store| store.list(&from, &until, 100)) {
                let (data, omap) = known(&mut client.cluster, B, &object);
                with_data += u32::from(data.is_some());
                with_omap += u32::from(omap.is_some());
                of_clones += u32::from(data.is_some() && object.is_clone());
            }
        }
        assert_eq!(scrub(&mut client.cluster, true, true).errors(), 0, "seed {seed}: copies are as they say");
    }
    assert!(with_data > 300 && with_omap > 50 && of_clones > 50, "{with_data} {with_omap} {of_clones}");
}

#[test]
fn a_deep_scrub_records_what_is_not_known_once_the_object_is_left_alone() {
    let mut client = written("abc");
    assert_eq!(client.result(vec![Op::write(1, "x")]), 0);
    let cluster = &mut client.cluster;
    cluster.shard(A).set_wall_clock(Duration::from_secs(1_700_000_000));
    assert_eq!(known(cluster, B, &object()), (None, None));
    scrub(cluster, false, false);
    assert_eq!(known(cluster, B, &object()), (None, None), "a light scrub does not read");
    let version = |cluster: &mut Cluster| found(cluster, B, &object()).0;
    let before = version(cluster);
    let mtime = 1_700_000_000 - 60 * 60;
    let young = ObjectInfo { mtime: types::Utime { sec: mtime, nsec: 0 }, ..before.clone() };
    let set =
        |info: &ObjectInfo| Step::SetAttr { object: object(), name: OBJECT_INFO_ATTR.to_vec(), value: info.to_bytes() };
    ALL.iter().for_each(|osd| cluster.change_store(*osd, vec![set(&young)]));
    assert_eq!(scrub(cluster, true, false).errors(), 0);
    assert_eq!(known(cluster, B, &object()), (None, None), "it may be changed again soon");
    ALL.iter().for_each(|osd| cluster.change_store(*osd, vec![set(&before)]));
    assert_eq!(scrub(cluster, true, false).errors(), 0);
    let mut omap = OmapDigest::of_header(b"");
    omap.add(b"key", b"value");
    for osd in ALL {
        assert_eq!(known(cluster, osd, &object()), (Some(checksum(b"axc")), Some(omap.get())), "{osd}");
    }
    let after = version(cluster);
    assert_eq!(
        (after.user_version, after.mtime, after.prior_version),
        (before.user_version, before.mtime, before.version)
    );
    let head = pg(cluster, A).core.log.head();
    assert_eq!((scrub(cluster, true, false).errors(), pg(cluster, A).core.log.head()), (0, head), "once");
    // The next update drops what it must.
    assert_eq!(client.result(vec![Op::omap_clear()]), 0);
    assert_eq!(known(&mut client.cluster, C, &object()), (Some(checksum(b"axc")), None));
}

#[test]
fn what_has_changed_since_it_was_read_is_not_recorded() {
    let limits = Limits { record_after: Duration::ZERO, ..Limits::default() };
    let mut client = Client::of(Cluster::limited(3, 7, limits));
    assert_eq!(client.result(vec![Op::write_full("abc")]), 0);
    for steps in 0..40 {
        assert_eq!(client.result(vec![Op::write(1, "x")]), 0);
        // An update comes at any moment of the scrub.
        let order = PgScrub { pgs: vec![PG], deep: true, repair: false }.seal(0, Target::default());
        client.cluster.shard(A).monitor_message(&order).unwrap();
        client.cluster.turn(A);
        (0..steps).for_each(|pick| client.cluster.step(pick));
        assert_eq!(client.result(vec![Op::write(1, "y"), Op::append("z")]), 0);
        for osd in ALL {
            known(&mut client.cluster, osd, &object());
        }
        scrub(&mut client.cluster, true, false);
        assert!(known(&mut client.cluster, C, &object()).0.is_some(), "it is recorded by another scrub");
    }
}

#[test]
fn the_copy_that_is_as_its_digest_says_wins_against_the_majority() {
    for (bad, good) in [([A, B], C), ([B, C], A), ([A, C], B)] {
        let mut client = written("good");
        for osd in bad {
            garble(&mut client.cluster, osd, &object(), "aaa");
        }
        assert_eq!(scrub(&mut client.cluster, false, false).repaired, 0, "a light scrub does not read");
        let mark = scrub(&mut client.cluster, true, false);
        assert_eq!((mark.errors(), mark.repaired, mark.undecided), (0, 2, 0), "{good}");
        for osd in ALL {
            let (_, is) = found(&mut client.cluster, osd, &object());
            assert_eq!(is.data, Some(checksum(b"good")), "{osd}");
        }
        assert_eq!(content(&mut client), b"good");
    }
}

#[test]
fn without_a_digest_copies_that_differ_wait_for_a_choice_and_repair_makes_none() {
    let mut client = written("good");
    assert_eq!(client.result(vec![Op::write(3, "D")]), 0);
    garble(&mut client.cluster, B, &object(), "aaa");
    for repair in [false, true] {
        let mark = scrub(&mut client.cluster, true, repair);
        assert_eq!((mark.errors(), mark.repaired, mark.undecided), (1, 0, 1), "repair: {repair}");
        assert_eq!(pg(&mut client.cluster, B).scrub.mark().undecided, 1, "all members know");
    }
    assert_eq!(pg(&mut client.cluster, A).scrub.report().undecided, 1);
    assert_eq!(client.cluster.shard(A).keep_copy(PG, "object", A), Ok(Kept::Replaces));
    client.cluster.turn(A);
    healing::heal(&mut client.cluster);
    assert_eq!(pg(&mut client.cluster, A).scrub.mark().undecided, 0);
    let mark = scrub(&mut client.cluster, true, false);
    assert_eq!((mark.errors(), mark.undecided), (0, 0));
    assert_eq!(found(&mut client.cluster, B, &object()).1.data, Some(checksum(b"gooD")));
}

#[test]
fn where_no_copy_is_as_its_digest_says_an_operator_has_another_recorded() {
    let mut client = written("good");
    for (osd, text) in ALL.into_iter().zip(["aaa", "bbb", "aaa"]) {
        garble(&mut client.cluster, osd, &object(), text);
    }
    let mark = scrub(&mut client.cluster, true, true);
    assert_eq!((mark.deep_errors, mark.repaired, mark.undecided), (3, 0, 1));
    assert_eq!(client.cluster.shard(A).keep_copy(PG, "object", B), Ok(Kept::Recorded));
    client.cluster.turn(A);
    client.cluster.settle();
    assert_eq!(client.cluster.shard(A).keep_copy(PG, "object", B), Err(KeepCopyError::Changed));
    let mark = scrub(&mut client.cluster, true, false);
    assert_eq!((mark.errors(), mark.repaired, mark.undecided), (0, 2, 0));
    assert_eq!(content(&mut client), b"gbbb");
    assert_eq!(known(&mut client.cluster, C, &object()).0, Some(checksum(b"gbbb")));
}

/// Makes the copy on `bad` bad, and has it replaced from the one on `source`, which is wrong, too, as nobody knows.
fn wrongly_replaced(source: OsdId, bad: OsdId, piece_bytes: u64) -> Client {
    let limits = Limits { piece_bytes, ..Limits::default() };
    let mut client = Client::of(Cluster::limited(3, 5, limits));
    assert_eq!(client.result(vec![Op::write_full(vec![7; 20_000])]), 0);
    garble(&mut client.cluster, bad, &object(), "bad");
    found_bad(&mut client.cluster, |cluster| garble(cluster, source, &object(), "wrong"));
    client
}

#[test]
fn a_copy_that_is_not_as_its_digest_says_is_sent_to_nobody() {
    for piece_bytes in [4096, 1 << 20] {
        for (source, bad) in [(A, C), (A, B), (B, A)] {
            let mut client = wrongly_replaced(source, bad, piece_bytes);
            let good = Some(checksum(&[7; 20_000]));
            assert_eq!(found(&mut client.cluster, bad, &object()).1.data, good, "{source} {bad}");
            assert_eq!(scrub(&mut client.cluster, true, false).errors(), 0);
            assert!(content(&mut client) == [7; 20_000], "{source} {bad}");
            for osd in ALL {
                assert_eq!(found(&mut client.cluster, osd, &object()).1.data, good, "{source} {bad}: {osd}");
            }
        }
    }
}

// ---- erasure-coded pools: two data shards and a parity shard ----

pub(super) fn shard_object(osd: OsdId) -> ObjectId {
    ObjectId::head(POOL.of_shard(osd.0 as u8), HASH, b"", OBJECT)
}

/// Returns the digests that each shard's information has, which are right for the shards that are there.
fn shards_known(cluster: &mut Cluster) -> Vec<u32> {
    let told = ALL.map(|osd| {
        let (info, is) = found(cluster, osd, &shard_object(osd));
        let own = info.digests.shards.get(osd.0 as usize).copied();
        assert!(own.is_none() || own == is.data, "{osd}: {:x?}", info.digests);
        assert_eq!((info.digests.data, info.digests.omap), (None, None));
        info.digests.shards
    });
    assert!(told.iter().all(|digests| *digests == told[0]), "{told:x?}");
    told[0].clone()
}

fn coded(limits: Limits) -> Client {
    let mut client = Client::of(Cluster::coded_limited(3, limits));
    assert_eq!(client.result(vec![Op::write_full(vec![7; 20_000])]), 0);
    // Members are told meanwhile that the update will stay.
    client.cluster.pass(Duration::from_secs(2));
    client
}

/// Has a deep scrub find a bad copy. Nothing is recovered before `wrong` has come to pass.
fn found_bad(cluster: &mut Cluster, wrong: impl FnOnce(&mut Cluster)) {
    let flags = |cluster: &mut Cluster, flags: OsdMapFlags| {
        cluster.change(|next| next.new_flags = Some(flags));
        cluster.update_all();
        cluster.settle();
    };
    flags(cluster, OsdMapFlags::NORECOVER);
    order(cluster, true, false);
    for _ in 0..3 {
        cluster.pass(Duration::from_millis(100));
    }
    let group = pg(cluster, A);
    assert_eq!(group.members.missing_count() + group.core.missing.len(), 1, "it is found, and not replaced");
    wrong(cluster);
    flags(cluster, OsdMapFlags(0));
    for _ in 0..30 {
        cluster.pass(Duration::from_millis(100));
    }
    healing::heal(cluster);
}

pub(super) fn garble_shard(cluster: &mut Cluster, osd: OsdId, text: &'static str) {
    let object = shard_object(osd);
    let garbled = Step::Write { object: object.clone(), offset: 1, data: Rope::from(text) };
    let pg = types::PgId { pool: object.pool, ..PG };
    cluster.store(osd).submit(store::Transaction { pg, steps: vec![garbled] }).expect("it can be stored");
    cluster.turn(osd);
    cluster.settle();
}

#[test]
fn updates_keep_up_the_digests_of_shards() {
    let mut client = Client::of(Cluster::coded(3));
    let mut after = |ops: Vec<Op>| {
        assert_eq!(client.result(ops), 0);
        shards_known(&mut client.cluster)
    };
    assert_eq!(after(vec![Op::create(true)]), []);
    let stripe = || vec![5; 8192];
    let first = after(vec![Op::write_full(stripe())]);
    assert_eq!(first[..2], [checksum(&[5; 4096]); 2]);
    let second = after(vec![Op::append(stripe())]);
    assert_eq!(second[..2], [checksum(&[5; 8192]); 2]);
    assert_eq!(after(vec![Op::set_xattr(b"name", b"value")]), second);
    assert_eq!(after(vec![Op::write_full(stripe())]), first);
    assert_eq!(after(vec![Op::write_full("")]), []);
    assert_eq!(after(vec![Op::append(stripe()), Op::append(stripe())]), second);
    assert_eq!(after(vec![Op::delete(), Op::write(0, stripe())]), first);
    assert_ne!(after(vec![Op::append("short")]), first);
}

#[test]
fn states_of_erasure_coded_objects_that_come_back_have_their_digests() {
    let mut client = Client::of(Cluster::coded(3));
    let mut pool = client.cluster.map.pools[&POOL].clone();
    pool.flags.insert(PoolFlags::SELFMANAGED_SNAPS);
    client.cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
    client.cluster.update_all();
    client.cluster.settle();
    assert_eq!(client.result(vec![Op::write_full(vec![5; 8192])]), 0);
    let first = shards_known(&mut client.cluster);
    client.cluster.snaps = SnapContext { seq: SnapId(1), snaps: vec![SnapId(1)] };
    assert_eq!(client.result(vec![Op::append(vec![6; 100])]), 0);
    assert_ne!(shards_known(&mut client.cluster), first);
    assert_eq!(client.result(vec![Op::rollback(SnapId(1))]), 0);
    assert_eq!(shards_known(&mut client.cluster), first);
    assert_eq!(client.result(vec![Op::append(vec![6; 100])]), 0);
    assert_eq!(shards_known(&mut client.cluster).len(), 3);
}

#[test]
fn a_shard_that_is_not_as_its_digest_says_is_computed_anew() {
    for bad in ALL {
        let mut client = coded(Limits::default());
        let before = shards_known(&mut client.cluster);
        garble_shard(&mut client.cluster, bad, "garbled");
        assert_eq!(scrub(&mut client.cluster, false, false).repaired, 0, "a light scrub does not read");
        let mark = scrub(&mut client.cluster, true, false);
        assert_eq!((mark.errors(), mark.repaired), (0, 1), "{bad}");
        assert_eq!((shards_known(&mut client.cluster), content(&mut client)), (before, vec![7; 20_000]), "{bad}");
    }
    // Two of three are bad: nothing is replaced.
    let mut client = coded(Limits::default());
    garble_shard(&mut client.cluster, A, "garbled");
    garble_shard(&mut client.cluster, B, "garbled");
    let mark = scrub(&mut client.cluster, true, true);
    assert_eq!((mark.errors(), mark.repaired, mark.undecided), (2, 0, 0));
}

/// A shard was found bad, and is computed of others of which one is not as its digest says, which nobody knows.
#[test]
fn a_shard_that_is_computed_of_a_wrong_one_is_not_taken() {
    for piece_bytes in [4096, 1 << 20] {
        for (wrong, bad) in [(B, A), (A, B), (B, C), (C, A)] {
            let mut client = coded(Limits { piece_bytes, ..Limits::default() });
            let before = shards_known(&mut client.cluster);
            garble_shard(&mut client.cluster, bad, "bad");
            found_bad(&mut client.cluster, |cluster| garble_shard(cluster, wrong, "wrong"));
            // The object is lost with one good shard of two that it takes, but nothing wrong is taken for it.
            let stat = client.cluster.ready(bad, |store| store.stat(&shard_object(bad)));
            let is_missing =
                pg(&mut client.cluster, bad).core.missing.keys().any(|object| *object == shard_object(bad));
            let digest = stat.map(|_| found(&mut client.cluster, bad, &shard_object(bad)).1.data);
            let is_right = digest == Some(Some(before[bad.0 as usize]));
            assert!(is_missing || is_right, "{wrong} {bad}: {digest:x?}");
        }
    }
}

#[test]
fn a_source_that_is_wrong_is_found_and_another_taken() {
    let all = [A, B, C, OsdId(3)];
    for piece_bytes in [4096, 1 << 20] {
        for (wrong, bad) in [(A, B), (B, A), (B, C), (C, A), (A, OsdId(3))] {
            let limits = Limits { piece_bytes, ..Limits::default() };
            let mut client = Client::of(Cluster::coded_wide(3, limits));
            assert_eq!(client.result(vec![Op::write_full(vec![7; 20_000])]), 0);
            client.cluster.pass(Duration::from_secs(2));
            let digests = found(&mut client.cluster, A, &shard_object(A)).0.digests.shards;
            assert_eq!(digests.len(), 4);
            garble_shard(&mut client.cluster, bad, "bad");
            found_bad(&mut client.cluster, |cluster| garble_shard(cluster, wrong, "wrong"));
            let missing = |cluster: &mut Cluster| all.map(|osd| pg(cluster, osd).core.missing.len());
            assert_eq!(missing(&mut client.cluster), [0; 4], "{wrong} {bad}, pieces of {piece_bytes}");
            scrub(&mut client.cluster, true, false);
            healing::heal(&mut client.cluster);
            for (osd, digest) in all.into_iter().zip(&digests) {
                assert!(pg(&mut client.cluster, osd).core.missing.is_empty(), "{wrong} {bad}: {osd}");
                let is = found(&mut client.cluster, osd, &shard_object(osd)).1.data;
                assert_eq!(is, Some(*digest), "{wrong} {bad}: {osd}, pieces of {piece_bytes}");
            }
        }
    }
}
