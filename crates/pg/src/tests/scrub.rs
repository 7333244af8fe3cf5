//! Copies that are not equal and whole are found, and those that are provably bad replaced.

use super::cluster::{Cluster, PG, POOL, appending};
use super::healing;
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::group::pg::Pg;
use crate::scrub::ScrubMark;
use crate::scrub::repair::{KeepCopyError, Kept};
use crate::{OwnCopyError, ScrubTuning, Tuning};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::time::Duration;
use store::{Lookup, Memory, Step, Store};
use types::{EVersion, Epoch, Errno, ObjectId, OsdId, PgId};
use wire::nacre::mon::{PgScrub, pg_state};
use wire::{Message, Rope, Target};

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);
const ALL: [OsdId; 3] = [A, B, C];
const OBJECTS: u32 = 36;
/// Five blocks, the last one not full, and a hole behind.
const BYTES: usize = 20_000;
const WELL: u64 = pg_state::ACTIVE | pg_state::CLEAN;

fn object(n: u32) -> ObjectId {
    ObjectId::head(POOL, n << 20, b"", format!("o{n}").as_bytes())
}

/// Puts an object there that the log does not name (any more).
fn write(cluster: &mut Cluster, osd: OsdId, n: u32, fill: u8) {
    let object = object(n);
    let info = ObjectInfo { version: EVersion::new(1, u64::from(n) + 1), user_version: 1, ..ObjectInfo::default() };
    let steps = vec![
        Step::Write { object: object.clone(), offset: 0, data: Rope::from(vec![fill; BYTES]) },
        Step::Truncate { object: object.clone(), size: 60_000 },
        Step::SetAttr { object: object.clone(), name: OBJECT_INFO_ATTR.to_vec(), value: info.to_bytes() },
        Step::SetAttr { object: object.clone(), name: b"_name".to_vec(), value: Bytes::from_static(b"value") },
        Step::OmapSet { object, entries: vec![(Bytes::from_static(b"key"), Bytes::from_static(b"value"))] },
    ];
    cluster.change_store(osd, steps);
}

fn filled(seed: u64) -> Cluster {
    let mut cluster = Cluster::seeded(3, seed);
    for n in 0..OBJECTS {
        ALL.iter().for_each(|osd| write(&mut cluster, *osd, n, n as u8));
    }
    cluster
}

/// Does something with a store that remembers meanwhile.
fn remembering<T>(cluster: &mut Cluster, osd: OsdId, act: impl FnOnce(&mut Cluster) -> T) -> T {
    let (little, _) = cluster.store(osd).memory();
    cluster.store(osd).set_memory(Memory { page_bytes: 1 << 20, onode_bytes: 1 << 20, ..little });
    let done = act(cluster);
    cluster.store(osd).set_memory(little);
    done
}

fn ready<T>(cluster: &mut Cluster, osd: OsdId, ask: impl FnMut(&mut Store) -> Lookup<T>) -> T {
    remembering(cluster, osd, |cluster| cluster.ready(osd, ask))
}

fn spoil(cluster: &mut Cluster, osd: OsdId, object: &ObjectId, offset: u64) {
    remembering(cluster, osd, |cluster| cluster.spoil(osd, object, offset));
}

fn order(cluster: &mut Cluster, deep: bool, repair: bool) {
    let order = PgScrub { pgs: vec![PG], deep, repair }.seal(0, Target::default());
    cluster.shard(A).monitor_message(&order).unwrap();
    cluster.turn(A);
    cluster.settle();
}

fn pg(cluster: &mut Cluster, osd: OsdId) -> &Pg {
    cluster.shard(osd).groups().find(|pg| pg.id() == PG).expect("a member")
}

fn state(cluster: &mut Cluster) -> u64 {
    pg(cluster, A).state_bits(A)
}

fn pass(cluster: &mut Cluster) {
    cluster.pass(Duration::from_millis(100));
}

/// Scrubs to the end, and gives what is kept of it. Members keep the same.
fn scrub(cluster: &mut Cluster, deep: bool, repair: bool) -> ScrubMark {
    order(cluster, deep, repair);
    for turns in 0.. {
        pass(cluster);
        if state(cluster) & (pg_state::SCRUBBING | pg_state::RECOVERING) == 0 {
            break;
        }
        assert!(turns < 100, "it ends");
    }
    let mark = pg(cluster, A).scrub.mark().clone();
    for osd in ALL {
        assert_eq!(*pg(cluster, osd).scrub.mark(), mark);
        assert!(pg(cluster, osd).core.missing.is_empty());
    }
    mark
}

/// Returns the bytes of an object, read from the device.
fn bytes(cluster: &mut Cluster, osd: OsdId, object: &ObjectId) -> Vec<u8> {
    // The read waits for the device; asked again, it finds the bytes in memory.
    cluster.store(osd).set_block_cache_bytes(1 << 20);
    cluster.store(osd).drop_block_cache();
    let bytes = ready(cluster, osd, |store| store.read(object, 0, 60_000)).to_vec();
    cluster.store(osd).set_block_cache_bytes(0);
    bytes
}

fn page(cluster: &mut Cluster, snapsets: bool) -> Result<Vec<Vec<u8>>, Errno> {
    let mut args = wire::Writer::new(Target::default());
    args.versioned(1, 1, |w| {
        w.u32(0);
        w.u32(snapsets.into());
        w.blob(b"");
        w.blob(b"");
        w.u64(0);
        w.u64(100);
    });
    let group = pg(cluster, A);
    let page = group.scrub.list_inconsistent(&group.core, &args.into_vec(), A)?;
    let mut r = wire::Reader::new(&page);
    let (_, mut r) = r.versioned("scrub_ls_result_t", 1).unwrap();
    assert_eq!(r.u32().unwrap(), pg(cluster, A).core.interval.since.0);
    let count = r.u32().unwrap();
    Ok((0..count).map(|_| r.blob().unwrap().to_vec()).collect())
}

fn listed(cluster: &mut Cluster) -> Result<usize, Errno> {
    page(cluster, false).map(|found| found.len())
}

/// One copy as `list-inconsistent-obj` tells it: the errors, names of attributes, size, and whether it was taken for
/// good.
type ToldCopy = (u64, Vec<String>, u64, bool);

/// Returns an object as it is told: its errors, name, version, copies, and the errors of all of them.
fn told(inconsistent: &[u8]) -> (u64, String, u64, Vec<ToldCopy>, u64) {
    let mut r = wire::Reader::new(inconsistent);
    let (_, mut r) = r.versioned("inconsistent_obj_t", 2).unwrap();
    let errors = r.u64().unwrap();
    let name = {
        let (_, mut r) = r.versioned("object_id_t", 1).unwrap();
        String::from_utf8(r.blob().unwrap().to_vec()).unwrap()
    };
    let version = r.u64().unwrap();
    let mut copies = Vec::new();
    for osd in 0..r.u32().unwrap() {
        let (_, mut role) = r.versioned("osd_shard_t", 1).unwrap();
        assert_eq!((role.u32().unwrap(), role.u8().unwrap()), (osd, 0xff));
        let (_, mut r) = r.versioned("shard_info_t", 3).unwrap();
        let (errors, is_primary) = (r.u64().unwrap(), r.bool().unwrap());
        assert_eq!(is_primary, osd == 0);
        if errors & 2 != 0 {
            copies.push((errors, Vec::new(), 0, false));
            continue;
        }
        let attrs: std::collections::BTreeMap<Bytes, Bytes> = r.get().unwrap();
        let names = attrs.keys().map(|name| String::from_utf8(name.to_vec()).unwrap()).collect();
        let size = r.u64().unwrap();
        for _ in 0..2 {
            r.bool().unwrap();
            r.u32().unwrap();
        }
        copies.push((errors, names, size, r.bool().unwrap()));
    }
    (errors, name, version, copies, r.u64().unwrap())
}

#[test]
fn what_is_told_of_an_object_is_what_clients_can_read() {
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let info = names(&["_", "snapset"]);
    let mut cluster = filled(7);
    let (attr, size, other) = (object(3), object(4), object(5));
    cluster.change_store(
        B,
        vec![
            Step::SetAttr { object: attr.clone(), name: b"_name".to_vec(), value: Bytes::from_static(b"other") },
            Step::SetAttr { object: attr, name: b"_new".to_vec(), value: Bytes::from_static(b"one") },
            Step::Truncate { object: size, size: 100 },
        ],
    );
    // The log names it, and nobody has it in that version.
    let old = ObjectInfo { version: EVersion::new(1, 1), user_version: 9, ..ObjectInfo::default() };
    let set_info = Step::SetAttr { object: other, name: OBJECT_INFO_ATTR.to_vec(), value: old.to_bytes() };
    cluster.change_store(C, vec![set_info]);
    scrub(&mut cluster, false, false);
    let found: Vec<_> = page(&mut cluster, false).unwrap().iter().map(|one| told(one)).collect();
    assert_eq!(found.len(), 2, "the third one is proven: {found:?}");
    let of = |name: &str| found.iter().find(|told| told.1 == name).unwrap().clone();
    let with = |more: &[&str]| [names(&["_"]), names(more), names(&["snapset"])].concat();
    // Names and a value.
    let good = (0, with(&["_name"]), 60_000, true);
    let copies = vec![good.clone(), (0, with(&["_name", "_new"]), 60_000, false), (good.0, good.1, good.2, false)];
    assert_eq!(of("o3"), (1 << 7 | 1 << 8, "o3".to_owned(), 1, copies, 0));
    // One copy is not as long as the information says.
    let (shorter, good) = (1 << 11 | 1 << 18, (0, info.clone(), 60_000, true));
    let copies = vec![good.clone(), (shorter, info.clone(), 100, false), (0, info, 60_000, false)];
    assert_eq!(of("o4"), (1 << 6, "o4".to_owned(), 1, copies, shorter));
}

#[test]
fn states_that_their_object_does_not_list_are_told() {
    let mut cluster = filled(8);
    let clone = |n: u32, snap: u64| ObjectId { snap: types::SnapId(snap), ..object(n) };
    let info = ObjectInfo { version: EVersion::new(1, 40), user_version: 1, ..ObjectInfo::default() };
    for osd in ALL {
        let put = |object: ObjectId| Step::SetAttr { object, name: OBJECT_INFO_ATTR.to_vec(), value: info.to_bytes() };
        cluster.change_store(osd, vec![put(clone(20, 3)), put(clone(20, 5)), put(clone(100, 7))]);
    }
    let mark = scrub(&mut cluster, false, false);
    assert_eq!((mark.shallow_errors, listed(&mut cluster)), (4, Ok(0)));
    let mut told = Vec::new();
    for found in page(&mut cluster, true).unwrap() {
        let mut r = wire::Reader::new(&found);
        let (_, mut r) = r.versioned("inconsistent_snapset_t", 2).unwrap();
        let errors = r.u64().unwrap();
        let (_, mut id) = r.versioned("object_id_t", 1).unwrap();
        let name = String::from_utf8(id.blob().unwrap().to_vec()).unwrap();
        id.blob().unwrap();
        id.blob().unwrap();
        let (extra, missing): (Vec<u64>, Vec<u64>) = (r.get().unwrap(), r.get().unwrap());
        told.push((name, id.u64().unwrap(), errors, extra, missing));
        assert_eq!(r.blob().unwrap().is_empty(), errors == 1 << 5);
    }
    told.sort();
    let headless = |name: &str, snap: u64| (name.to_owned(), snap, 1 << 5, Vec::new(), Vec::new());
    let head = ("o20".to_owned(), types::SnapId::HEAD.0, 1 << 9, vec![3, 5], Vec::new());
    assert_eq!(told, [headless("o100", 7), headless("o20", 3), headless("o20", 5), head]);
    for osd in ALL {
        let gone = [clone(20, 3), clone(20, 5), clone(100, 7)].map(|object| Step::Remove { object });
        cluster.change_store(osd, gone.to_vec());
    }
    assert_eq!((scrub(&mut cluster, false, false).errors(), page(&mut cluster, true)), (0, Ok(Vec::new())));
}

#[test]
fn bad_blocks_are_replaced_by_deep_scrub_on_any_member() {
    for seed in 0..6 {
        let mut cluster = filled(seed);
        let mark = scrub(&mut cluster, true, false);
        assert_eq!((mark.errors(), mark.repaired, mark.omap_keys), (0, 0, u64::from(OBJECTS)), "seed {seed}");
        assert!(mark.deep_at == mark.light_at && mark.deep_at == mark.clean_at && !mark.deep_at.is_zero());
        for (osd, n, offset) in [(A, 3, 4096), (B, 9, 0), (B, 10, 16_384), (C, 35, 8192)] {
            spoil(&mut cluster, osd, &object(n), offset);
        }
        assert_eq!(scrub(&mut cluster, false, false).repaired, 0, "a light scrub does not read");
        let mark = scrub(&mut cluster, true, false);
        assert_eq!((mark.errors(), mark.repaired), (0, 4), "seed {seed}");
        assert_eq!((state(&mut cluster), listed(&mut cluster)), (WELL, Ok(0)));
        let mut wanted = vec![9; BYTES];
        wanted.resize(60_000, 0);
        assert!(bytes(&mut cluster, B, &object(9)) == wanted);
        assert_eq!(scrub(&mut cluster, true, false).repaired, 4, "nothing is left");
    }
}

#[test]
fn who_comes_in_learns_when_the_group_was_scrubbed() {
    let mut cluster = healing::filled(4, 12);
    let mark = scrub(&mut cluster, true, false);
    cluster.later(Duration::from_secs(100));
    healing::move_group(&mut cluster, &[0, 1, 3]);
    healing::heal(&mut cluster);
    assert_eq!(*pg(&mut cluster, OsdId(3)).scrub.mark(), mark);
    healing::move_group(&mut cluster, &[3, 0, 1]);
    healing::heal(&mut cluster);
    assert_eq!(
        pg(&mut cluster, OsdId(3)).scrub.mark().deep_at,
        mark.deep_at,
        "it leads, and does not take it for just made"
    );
}

#[test]
fn what_is_missing_on_a_minority_is_brought_by_a_light_scrub() {
    for (seed, osd) in [(0, A), (1, B), (2, C), (3, A), (4, B)] {
        let mut cluster = filled(seed);
        cluster.change_store(osd, vec![Step::Remove { object: object(20) }]);
        let mark = scrub(&mut cluster, false, false);
        assert_eq!((mark.errors(), mark.repaired, state(&mut cluster)), (0, 1, WELL), "seed {seed}");
        assert!(bytes(&mut cluster, osd, &object(20)) == bytes(&mut cluster, C, &object(20)));
    }
}

#[test]
fn objects_are_not_counted_by_a_scrub_that_finds_the_primary_s_own_copy_bad() {
    let in_order: BTreeSet<ObjectId> = (0..OBJECTS).map(object).collect();
    for (seed, lost) in [(0, in_order.last()), (1, in_order.first())] {
        let mut cluster = filled(seed);
        scrub(&mut cluster, false, false);
        assert_eq!(pg(&mut cluster, A).core.info.stats.objects, i64::from(OBJECTS));
        let object = lost.expect("there are some").clone();
        cluster.change_store(A, vec![Step::Remove { object }]);
        assert_eq!(scrub(&mut cluster, false, false).repaired, 1);
        assert_eq!(pg(&mut cluster, A).core.info.stats.objects, i64::from(OBJECTS), "seed {seed}");
    }
}

#[test]
fn readable_copies_that_differ_wait_for_a_choice() {
    let attr = |value: &'static [u8]| Step::SetAttr {
        object: object(7),
        name: b"_name".to_vec(),
        value: Bytes::from_static(value),
    };
    for (seed, osd) in [(0, A), (1, B)] {
        let mut cluster = filled(seed);
        cluster.change_store(osd, vec![attr(b"other")]);
        write(&mut cluster, C, 8, 200);
        assert_eq!(listed(&mut cluster), Err(Errno::ENOENT), "it was not scrubbed");
        let mark = scrub(&mut cluster, false, false);
        assert_eq!((mark.shallow_errors, mark.deep_errors, mark.repaired), (1, 0, 0), "seed {seed}");
        assert_eq!((state(&mut cluster), listed(&mut cluster)), (WELL | pg_state::INCONSISTENT, Ok(1)));
        let mark = scrub(&mut cluster, true, false);
        assert_eq!((mark.shallow_errors, mark.deep_errors, mark.repaired), (1, 1, 0), "seed {seed}");
        assert_eq!(listed(&mut cluster), Ok(2));
        assert_eq!(scrub(&mut cluster, false, false).errors(), 2, "a light scrub does not absolve");
        assert_eq!(listed(&mut cluster), Ok(2));
        let mark = scrub(&mut cluster, false, true);
        assert_eq!((mark.errors(), mark.repaired), (2, 0), "seed {seed}: an order proves nothing");
        let keep = |cluster: &mut Cluster, name: &str, osd| {
            let kept = cluster.shard(A).keep_copy(PG, name, osd);
            cluster.turn(A);
            cluster.settle();
            kept
        };
        assert_eq!(keep(&mut cluster, "o9", B), Err(KeepCopyError::NotFound));
        assert!(matches!(keep(&mut cluster, "o7", OsdId(7)), Err(KeepCopyError::NoChoice(_))));
        let other = if osd == A { B } else { A };
        assert_eq!(
            (keep(&mut cluster, "o7", other), keep(&mut cluster, "o8", A)),
            (Ok(Kept::Replaces), Ok(Kept::Replaces))
        );
        healing::heal(&mut cluster);
        assert_eq!(scrub(&mut cluster, true, false).errors(), 0);
        assert_eq!((state(&mut cluster), listed(&mut cluster)), (WELL, Ok(0)));
        let stat = ready(&mut cluster, osd, |store| store.stat(&object(7))).unwrap();
        assert_eq!(stat.attrs.get(b"_name").unwrap().as_ref(), b"value");
        assert_eq!(bytes(&mut cluster, C, &object(8))[0], 8);
    }
}

/// Returns the object of the cluster's clients.
fn clients_object() -> ObjectId {
    ObjectId::head(POOL, 7, b"", b"object")
}

#[test]
fn the_log_tells_what_must_be_there() {
    for seed in 0..4 {
        let mut cluster = filled(seed);
        let session = cluster.connect(A);
        cluster.append(A, session, 1, Epoch(1));
        cluster.settle();
        for osd in [A, C] {
            cluster.change_store(osd, vec![Step::Remove { object: clients_object() }]);
        }
        let mark = scrub(&mut cluster, false, false);
        assert_eq!((mark.errors(), mark.repaired), (0, 2), "though most have nothing");
        assert_eq!(cluster.content(A), "1,");
        cluster.ask(A, session, 2, Epoch(1), 0, wire::messages::Op::delete());
        cluster.settle();
        let info = ObjectInfo { version: EVersion::new(1, 1), ..ObjectInfo::default() };
        for osd in [A, B, C] {
            let name = OBJECT_INFO_ATTR.to_vec();
            cluster.change_store(osd, vec![Step::SetAttr { object: clients_object(), name, value: info.to_bytes() }]);
        }
        let mark = scrub(&mut cluster, false, false);
        assert_eq!((mark.errors(), mark.repaired), (0, 5), "though all have something");
        for osd in ALL {
            assert_eq!(ready(&mut cluster, osd, |store| store.stat(&clients_object())), None);
        }
    }
}

#[test]
fn updates_of_the_chunk_wait_and_others_do_not() {
    let mut cluster = Cluster::seeded(3, 7);
    let session = cluster.connect(A);
    cluster.append(A, session, 1, Epoch(1));
    cluster.settle();
    // One update is on its way when the chunk begins.
    cluster.cut = [(A, C)].into();
    cluster.append(A, session, 2, Epoch(1));
    cluster.settle();
    order(&mut cluster, true, false);
    cluster.append(A, session, 3, Epoch(1));
    cluster.read(A, session, 4, Epoch(1));
    cluster.settle();
    assert!(cluster.answers_to(2).is_empty() && cluster.answers_to(3).is_empty());
    cluster.cut = [(B, A)].into();
    cluster.settle();
    assert_eq!((cluster.answers_to(2).len(), cluster.answers_to(3).len()), (1, 0));
    cluster.cut.clear();
    cluster.settle();
    assert_eq!((cluster.answers_to(3).len(), cluster.answers_to(4)), (1, vec![(session, 0, "1,2,3,".to_owned())]));
    assert_eq!(scrub(&mut cluster, true, false).errors(), 0);
    assert_eq!(cluster.content(A), "1,2,3,");
}

#[test]
fn a_chunk_whose_answers_are_lost_holds_nobody_for_long() {
    let mut cluster = Cluster::seeded(3, 7);
    let session = cluster.connect(A);
    cluster.cut = [(B, A)].into();
    order(&mut cluster, true, false);
    cluster.settle();
    cluster.lose(B, A);
    cluster.cut.clear();
    cluster.ask(A, session, 1, Epoch(1), 0, appending(1));
    cluster.settle();
    assert!(cluster.answers_to(1).is_empty());
    cluster.pass(Duration::from_secs(11));
    assert_eq!(cluster.answers_to(1).len(), 1);
    assert_eq!(scrub(&mut cluster, true, false).errors(), 0);
}

#[test]
fn an_interval_that_ends_ends_a_chunk_and_the_order_is_kept() {
    for stuck in [A, B] {
        let mut cluster = Cluster::seeded(4, 3);
        for n in 0..OBJECTS {
            ALL.iter().for_each(|osd| write(&mut cluster, *osd, n, n as u8));
        }
        spoil(&mut cluster, B, &object(30), 0);
        cluster.stuck_disks = [stuck].into();
        order(&mut cluster, true, false);
        let session = cluster.connect(A);
        cluster.append(A, session, 1, Epoch(1));
        cluster.mark_down(2);
        cluster.update_all();
        cluster.stuck_disks.clear();
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
        cluster.mark_up(2);
        cluster.update_all();
        cluster.settle();
        for _ in 0..100 {
            pass(&mut cluster);
        }
        let mark = pg(&mut cluster, A).scrub.mark().clone();
        assert_eq!((mark.errors(), mark.repaired), (0, 1));
        assert_eq!(cluster.answers_to(1).len(), 1);
    }
}

#[test]
fn groups_are_scrubbed_by_themselves_in_their_time() {
    let mut cluster = filled(7);
    cluster.shard(A).set_wall_clock(Duration::from_secs(1_700_000_000));
    cluster.shard(A).set_scrub_periods(Duration::from_secs(1000), Duration::from_secs(4000));
    for _ in 0..2 {
        cluster.pass(Duration::from_secs(40));
    }
    let made = pg(&mut cluster, A).scrub.mark().clone();
    assert!(made.light_at == made.deep_at && made.light_at.sec > 1_700_000_000, "{made:?}");
    spoil(&mut cluster, B, &object(30), 0);
    let mut light = Vec::new();
    for _ in 0..400 {
        cluster.pass(Duration::from_secs(10));
        for _ in 0..10 {
            pass(&mut cluster);
        }
        let mark = pg(&mut cluster, A).scrub.mark();
        if light.last() != Some(&(mark.light_at, mark.deep_at)) {
            light.push((mark.light_at, mark.deep_at));
        }
    }
    assert_eq!(pg(&mut cluster, A).scrub.mark().repaired, 1);
    let deep = light.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    assert!((4..=9).contains(&(light.len() - 1)) && (1..=2).contains(&deep), "{light:?}");
}

fn tune(cluster: &mut Cluster, scrubs: ScrubTuning) {
    cluster.shard(A).set_tuning(Tuning { scrubs, ..Tuning::default() });
}

#[test]
fn as_many_groups_are_scrubbed_at_a_time_as_an_operator_wants() {
    for at_a_time in [0, 1, 2, 9] {
        let mut cluster = Cluster::of_shards(3, 7, 1, 4);
        tune(&mut cluster, ScrubTuning { at_a_time, ..ScrubTuning::default() });
        let pgs = (0..4).map(|seed| PgId { seed, ..PG }).collect();
        let order = PgScrub { pgs, deep: true, repair: false }.seal(0, Target::default());
        cluster.shard(A).monitor_message(&order).unwrap();
        cluster.turn(A);
        assert_eq!(cluster.shard(A).scrubs_now().count(), at_a_time.min(4));
        let scrubbed = |cluster: &mut Cluster| {
            (0..20).for_each(|_| pass(cluster));
            cluster.shard(A).groups().filter(|pg| !pg.scrub.mark().deep_at.is_zero()).count()
        };
        assert_eq!(scrubbed(&mut cluster), if at_a_time == 0 { 0 } else { 4 });
        tune(&mut cluster, ScrubTuning::default());
        assert_eq!(scrubbed(&mut cluster), 4, "an order waits until scrubs are allowed");
    }
}

#[test]
fn scrubs_that_nobody_ordered_wait_while_another_group_heals() {
    let mut cluster = Cluster::of_shards(4, 7, 1, 2);
    let session = cluster.connect(A);
    let name: &[u8] = b"o1";
    cluster.ask_of(A, session, 1, cluster.map.epoch, 0, (1, name), appending(1));
    cluster.settle();
    cluster.put_on_devices();
    cluster.shard(A).set_wall_clock(Duration::from_secs(1_700_000_000));
    cluster.shard(A).set_scrub_periods(Duration::from_secs(100), Duration::ZERO);
    let light_at = |cluster: &mut Cluster, tens_of_seconds: u32| {
        for _ in 0..tens_of_seconds {
            cluster.pass(Duration::from_secs(10));
            (0..3).for_each(|_| pass(cluster));
        }
        pg(cluster, A).scrub.mark().light_at
    };
    let made = light_at(&mut cluster, 5);
    assert!(made.sec > 1_700_000_000, "{made:?}");
    cluster.stuck_disks = [D].into();
    cluster.move_group_of(PgId { seed: 1, ..PG }, &[0, 1, 3]);
    cluster.update_all();
    assert_eq!(light_at(&mut cluster, 30), made, "the other group is brought to D");
    order(&mut cluster, false, false);
    let ordered = light_at(&mut cluster, 3);
    assert!(ordered > made, "an order does not wait");
    assert_eq!(light_at(&mut cluster, 30), ordered);
    tune(&mut cluster, ScrubTuning { while_healing: true, ..ScrubTuning::default() });
    let meanwhile = light_at(&mut cluster, 20);
    assert!(meanwhile > ordered, "the operator lets them begin");
    tune(&mut cluster, ScrubTuning::default());
    cluster.stuck_disks.clear();
    assert!(light_at(&mut cluster, 30) > meanwhile, "all is healed");
}

#[test]
fn deep_scrubs_count_omaps_once_and_those_that_are_larger_than_an_operator_wants() {
    let mut cluster = filled(7);
    // Objects that one member alone has: its chunks end earlier than those of others.
    (0..OBJECTS).for_each(|n| write(&mut cluster, B, OBJECTS + n, 9));
    let counts = |mark: ScrubMark| (mark.omap_keys, mark.large_omaps);
    assert_eq!(counts(scrub(&mut cluster, true, true)), (u64::from(OBJECTS), 0));
    // The others have got copies of all by that.
    let all = u64::from(2 * OBJECTS);
    // Each has one key, of eight bytes with its value.
    let usual = ScrubTuning::default();
    for (large_omap_keys, large_omap_bytes, large) in [(0, u64::MAX, all), (1, 8, 0), (1, 7, all)] {
        tune(&mut cluster, ScrubTuning { large_omap_keys, large_omap_bytes, ..usual });
        assert_eq!(counts(scrub(&mut cluster, true, false)), (all, large));
        let told = std::mem::take(&mut cluster.cluster_log);
        assert_eq!(told.len() as u64, large, "{told:?}");
        if let Some((osd, line)) = told.first() {
            let (begin, end) = ("Large omap object found. Object: 1:", " Key count: 1 Size (bytes): 8");
            assert!(*osd == A && line.starts_with(begin) && line.ends_with(end), "{osd}: {line}");
        }
    }
    tune(&mut cluster, usual);
    assert_eq!(counts(scrub(&mut cluster, false, false)), (all, all), "a light scrub does not count");
    assert_eq!(counts(scrub(&mut cluster, true, false)), (all, 0));
}

#[test]
fn operators_see_the_omap_of_each_osds_own_copy() {
    let mut cluster = filled(7);
    write(&mut cluster, B, OBJECTS, 9);
    let omap = |cluster: &mut Cluster, osd: OsdId, pgid: PgId, n: u32| {
        remembering(cluster, osd, |cluster| {
            for _ in 0..100 {
                match cluster.shard(osd).own_omap(pgid, &object(n)) {
                    Err(OwnCopyError::NotYet) => pass(cluster),
                    done => return done,
                }
            }
            panic!("{osd} does not come to read it");
        })
    };
    let entries = vec![(Bytes::from_static(b"key"), Bytes::from_static(b"value"))];
    assert_eq!(omap(&mut cluster, C, PG, 3), Ok((Bytes::new(), entries.clone())));
    assert_eq!(omap(&mut cluster, B, PG, OBJECTS), Ok((Bytes::new(), entries)), "nobody else has it");
    assert_eq!(omap(&mut cluster, A, PG, OBJECTS), Err(OwnCopyError::NoObject));
    let other = PgId { seed: 99, ..PG };
    assert_eq!(omap(&mut cluster, A, other, 3), Err(OwnCopyError::NoGroup(other)));
}

#[test]
fn copies_that_scrubs_replace_are_counted_by_the_osds_that_had_them() {
    let mut cluster = filled(7);
    [(B, 3), (C, 3), (C, 4)].into_iter().for_each(|(osd, n)| spoil(&mut cluster, osd, &object(n), 0));
    assert_eq!(scrub(&mut cluster, true, false).repaired, 3);
    assert_eq!(ALL.map(|osd| cluster.shard(osd).beacon(0, 0).stats.bad_copies), [0, 1, 2]);
}

#[test]
fn scrubs_that_nobody_ordered_keep_to_their_hours_until_a_group_is_overdue() {
    let mut cluster = filled(7);
    cluster.shard(A).set_wall_clock(Duration::from_secs(1_700_000_000));
    cluster.shard(A).set_scrub_periods(Duration::from_secs(100), Duration::ZERO);
    let tuning = |in_time, overdue_after_s| {
        let overdue_after = Duration::from_secs(overdue_after_s);
        ScrubTuning { in_time, overdue_after, ..ScrubTuning::default() }
    };
    let light_at = |cluster: &mut Cluster, tens_of_seconds: u32| {
        for _ in 0..tens_of_seconds {
            cluster.pass(Duration::from_secs(10));
            (0..3).for_each(|_| pass(cluster));
        }
        pg(cluster, A).scrub.mark().light_at
    };
    tune(&mut cluster, tuning(false, 500));
    let made = light_at(&mut cluster, 5);
    assert!(made.sec > 1_700_000_000, "{made:?}");
    assert_eq!(light_at(&mut cluster, 35), made, "it is not the hour");
    let overdue = light_at(&mut cluster, 20);
    assert!(overdue > made, "it is overdue");
    tune(&mut cluster, tuning(false, 0));
    assert_eq!(light_at(&mut cluster, 80), overdue, "nothing is ever overdue");
    order(&mut cluster, false, false);
    let ordered = light_at(&mut cluster, 5);
    assert!(ordered > overdue, "an order has no hours");
    assert_eq!(light_at(&mut cluster, 20), ordered);
    tune(&mut cluster, tuning(true, 0));
    assert!(light_at(&mut cluster, 5) > ordered, "it is the hour");
}

#[test]
fn an_operator_s_pause_is_kept_between_chunks() {
    let mut cluster = filled(7);
    let pause = Duration::from_secs(60);
    tune(&mut cluster, ScrubTuning { pause, ..ScrubTuning::default() });
    order(&mut cluster, false, false);
    (0..20).for_each(|_| pass(&mut cluster));
    assert_ne!(state(&mut cluster) & pg_state::SCRUBBING, 0, "the second of three chunks waits");
    cluster.pass(pause);
    (0..20).for_each(|_| pass(&mut cluster));
    assert_ne!(state(&mut cluster) & pg_state::SCRUBBING, 0, "the third chunk waits");
    tune(&mut cluster, ScrubTuning::default());
    (0..5).for_each(|_| pass(&mut cluster));
    assert_eq!(state(&mut cluster) & pg_state::SCRUBBING, 0, "there is no pause any more");
}
