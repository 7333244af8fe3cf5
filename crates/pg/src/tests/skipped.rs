//! Updates that skip shards of an erasure-coded group: who is waited for, and what becomes of them with their primary.

use super::cluster::{Cluster, PG, POOL};
use crate::coded::forward::FORWARD_ENTRIES;
use crate::coded::skipped::Skipped;
use crate::group::pg::Pg;
use crate::messages::PeerKind;
use crate::messages::replication::RepOp;
use crate::ops::Limits;
use bytes::Bytes;
use osdmap::{OsdXInfo, PgPool, PoolFlags};
use std::time::Duration;
use store::SimDevice;
use types::{Epoch, OsdId};
use wire::messages::Op;
use wire::msgr::SessionId;
use wire::nacre::mon::{PgScrub, osd_features};
use wire::{Message, Target};

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);
const E: OsdId = OsdId(4);
const F: OsdId = OsdId(5);
const UNIT: usize = 4096;
const BYTES: usize = 16 * UNIT;
/// The unit that is overwritten: B has it, E and F have parity, C and D are skipped.
const CHANGED: usize = 5;

fn old() -> String {
    (0..BYTES).map(|at| char::from(b'!' + ((at / UNIT * 31 + at % 89) % 90) as u8)).collect()
}

fn new() -> String {
    let (old, changed) = (old(), CHANGED * UNIT);
    [&old[..changed], &"~".repeat(UNIT), &old[changed + UNIT..]].concat()
}

fn pg(cluster: &mut Cluster, osd: OsdId) -> &Pg {
    cluster.shard(osd).groups().next().expect("a member")
}

fn head(cluster: &mut Cluster, osd: OsdId) -> u64 {
    pg(cluster, osd).core.log.head().version
}

/// Makes the object in a cluster of four data shards and two parity shards.
fn written(seed: u64) -> (Cluster, SessionId) {
    written_with(seed, Limits::default())
}

fn written_with(seed: u64, limits: Limits) -> (Cluster, SessionId) {
    written_to(Cluster::coded_large(seed, limits))
}

/// Makes the object in a cluster whose erasure-coded pool has it on A first.
fn written_to(mut cluster: Cluster) -> (Cluster, SessionId) {
    let mut pool = cluster.map.pools[&POOL].clone();
    pool.flags.insert(PoolFlags::EC_OVERWRITES);
    cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
    cluster.update_all();
    cluster.settle();
    let session = cluster.connect(A);
    cluster.ask(A, session, 0, cluster.map.epoch, 0, Op::write_full(Bytes::from(old())));
    cluster.settle();
    assert_eq!(cluster.answers_to(0), [(session, 0, String::new())]);
    cluster.pass(Duration::from_secs(2));
    (cluster, session)
}

fn overwrite(cluster: &mut Cluster, session: SessionId) {
    overwrite_as(cluster, session, 1);
}

fn overwrite_as(cluster: &mut Cluster, session: SessionId, tid: u64) {
    let op = Op::write((CHANGED * UNIT) as u64, Bytes::from("~".repeat(UNIT)));
    cluster.ask(A, session, tid, cluster.map.epoch, 0, op);
    // As far as it takes no time: nobody is told yet whom it skips.
    cluster.settle_now();
}

#[test]
fn who_is_skipped_is_told_later_and_not_waited_for() {
    let (mut cluster, session) = written(3);
    let before = head(&mut cluster, C);
    cluster.cut.extend([(A, C), (A, D)]);
    overwrite(&mut cluster, session);
    assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
    for (osd, has) in [(A, 1), (B, 1), (C, 0), (D, 0), (E, 1), (F, 1)] {
        assert_eq!(head(&mut cluster, osd), before + has, "{osd}");
    }
    assert_eq!(cluster.in_transit_of(A, C, PeerKind::RepOp.number()).len(), 0, "it is not even sent");
    cluster.pass(Duration::from_millis(30));
    assert_eq!(cluster.in_transit_of(A, C, PeerKind::RepOp.number()).len(), 1);
    cluster.cut.clear();
    cluster.settle();
    assert_eq!([C, D].map(|osd| head(&mut cluster, osd)), [before + 1; 2]);
    assert_eq!(cluster.content(A), new());
}

/// Has the map say what an OSD's software can do.
fn tells(cluster: &mut Cluster, osd: OsdId, features: u64) {
    cluster.change(|next| {
        next.new_xinfo.insert(osd, OsdXInfo { features, ..OsdXInfo::default() });
    });
    cluster.update_all();
    cluster.settle();
}

#[test]
fn nothing_is_skipped_until_all_osds_understand_that() {
    // The primary, one that is touched, one that would be skipped, and one with parity.
    for untold in [A, B, C, F] {
        let (mut cluster, session) = written(8);
        tells(&mut cluster, untold, 1);
        let before = head(&mut cluster, C);
        cluster.cut.extend([(A, C), (A, D)]);
        overwrite(&mut cluster, session);
        assert_eq!(cluster.answers_to(1), [], "{untold}: all are waited for");
        for osd in [C, D] {
            let sent = cluster.in_transit_of(A, osd, PeerKind::RepOp.number());
            let [sent] = &sent[..] else { panic!("{untold}: {} messages to {osd}", sent.len()) };
            assert_eq!(RepOp::open(sent).expect("an update").entry.skipped, Skipped::default());
        }
        cluster.cut.clear();
        cluster.settle();
        assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
        for osd in [A, B, C, D, E, F] {
            assert_eq!(head(&mut cluster, osd), before + 1);
            let entries = pg(&mut cluster, osd).core.log.entries();
            assert!(entries.last().is_some_and(|entry| entry.skipped == Skipped::default()), "{osd}");
        }
        // It was started again with newer software.
        tells(&mut cluster, untold, osd_features::ALL);
        cluster.cut.extend([(A, C), (A, D)]);
        overwrite_as(&mut cluster, session, 2);
        assert_eq!(cluster.answers_to(2), [(session, 0, String::new())], "{untold}");
        assert_eq!([C, D].map(|osd| head(&mut cluster, osd)), [before + 1; 2], "{untold}: they are told later");
    }
}

#[test]
fn what_is_read_of_a_skipped_shard_is_as_new_as_the_others() {
    let (mut cluster, session) = written(4);
    overwrite(&mut cluster, session);
    assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
    let gathered = cluster.shard(A).coded_reads_made();
    cluster.ask(A, session, 2, cluster.map.epoch, 0, Op::read((6 * UNIT) as u64, UNIT as u64));
    cluster.settle();
    assert_eq!(cluster.answers_to(2), [(session, 0, old()[6 * UNIT..7 * UNIT].to_owned())]);
    assert_eq!(cluster.shard(A).coded_reads_made(), gathered + 1);
    assert_eq!(pg(&mut cluster, A).members.missing_count(), 0);
}

#[test]
fn an_answered_update_outlives_its_primary_though_some_were_not_told() {
    for seed in 0..4 {
        let (mut cluster, session) = written(seed);
        cluster.cut.extend([(A, C), (A, D)]);
        overwrite(&mut cluster, session);
        assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
        cluster.lose(A, C);
        cluster.lose(A, D);
        cluster.down(&[A]);
        cluster.heal(2);
        assert!(cluster.is_active(B));
        assert_eq!(cluster.content(B), new(), "seed {seed}");
        assert_eq!(pg(&mut cluster, B).members.missing_count(), 0, "nobody's bytes are older for it");
        for osd in [C, D] {
            assert!(pg(&mut cluster, osd).core.missing.is_empty(), "{osd}");
        }
    }
}

#[test]
fn an_update_that_a_touched_shard_lacks_is_taken_back() {
    for (seed, lacks) in [(0, B), (1, E), (2, F)] {
        for others_told in [false, true] {
            let (mut cluster, session) = written(seed);
            let before = head(&mut cluster, C);
            cluster.cut.insert((A, lacks));
            // The old bytes, which are read of B first.
            if lacks == B {
                cluster.cut.clear();
                let op = Op::write((CHANGED * UNIT) as u64, Bytes::from("~".repeat(UNIT)));
                cluster.ask(A, session, 1, cluster.map.epoch, 0, op);
                while cluster.in_transit_of(A, B, PeerKind::RepOp.number()).is_empty() {
                    cluster.step(0);
                    (0..6).for_each(|osd| cluster.step(1 + osd));
                }
                cluster.cut.insert((A, B));
                cluster.settle_now();
            } else {
                overwrite(&mut cluster, session);
            }
            assert_eq!(cluster.answers_to(1), [], "it is waited for");
            if others_told {
                cluster.pass(Duration::from_millis(30));
                assert_eq!(head(&mut cluster, C), before + 1);
            }
            cluster.lose(A, lacks);
            cluster.down(&[A]);
            cluster.heal(2);
            let leads = if cluster.is_active(B) { B } else { C };
            assert_eq!(cluster.content(leads), old(), "{lacks} {others_told}");
        }
    }
}

/// Has an OSD's power fail. It comes back.
fn restarts(cluster: &mut Cluster, osd: OsdId) {
    cluster.lose_power(osd);
    let maps = cluster.message(Epoch(1), cluster.map.epoch);
    cluster.maps(osd, &maps).expect("the maps are good");
    cluster.mark_down(osd.0);
    cluster.mark_up(osd.0);
}

/// Has an OSD's power fail, whose drive lied about flushes: it comes back as it was `before`.
fn lies(cluster: &mut Cluster, osd: OsdId, before: SimDevice) {
    *cluster.device_of(osd) = before;
    restarts(cluster, osd);
}

#[test]
fn a_primary_whose_shard_is_skipped_is_not_waited_for() {
    for (stuck, is_answered) in [(A, true), (B, false), (C, true), (F, false)] {
        let (mut cluster, session) = written(9);
        let before = head(&mut cluster, A);
        // The old bytes are read of B.
        cluster.cut.insert((A, B));
        overwrite(&mut cluster, session);
        cluster.cut.clear();
        while cluster.in_transit_of(A, B, PeerKind::RepOp.number()).is_empty() {
            (0..7).for_each(|pick| cluster.step(pick));
        }
        cluster.stuck_disks.insert(stuck);
        cluster.settle_now();
        assert_eq!(cluster.answers_to(1).len(), usize::from(is_answered), "{stuck}");
        assert_eq!(head(&mut cluster, A), before + 1);
        cluster.stuck_disks.clear();
        cluster.settle();
        assert_eq!(cluster.answers_to(1), [(session, 0, String::new())], "{stuck}");
        assert_eq!(cluster.content(A), new());
    }
}

#[test]
fn who_starts_again_without_what_skips_it_lacks_nothing() {
    // Some that were not told; the primary, which has told others before it had it; and all.
    for osds in [&[C][..], &[C, D], &[A], &[A, D], &[A, B, C, D, E, F]] {
        let (mut cluster, session) = written(10);
        cluster.cut.extend([(A, C), (A, D)]);
        overwrite(&mut cluster, session);
        assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
        let end = head(&mut cluster, A);
        osds.iter().for_each(|osd| restarts(&mut cluster, *osd));
        cluster.cut.clear();
        cluster.update_all();
        cluster.heal(4);
        assert!(cluster.is_active(A), "{osds:?}");
        assert_eq!(cluster.content(A), new(), "{osds:?}");
        assert_eq!([A, B, C, D, E, F].map(|osd| head(&mut cluster, osd)), [end; 6], "{osds:?}");
        for osd in [A, B, C, D, E, F] {
            assert!(pg(&mut cluster, osd).core.missing.is_empty(), "{osd} of {osds:?}");
        }
    }
}

/// The primary knows for what clients were answered, though those that the update skips were not told of it.
#[test]
fn an_answered_update_outlives_drives_that_lied_though_some_were_not_told() {
    let cases = [(0, &[B][..], true), (1, &[F], true), (2, &[E, F], true), (3, &[B, E], true), (4, &[B, E, F], false)];
    for (seed, liars, stays) in cases {
        let (mut cluster, session) = written(seed);
        let before: Vec<SimDevice> = liars.iter().map(|osd| cluster.device_of(*osd).after_crash(&mut || 0)).collect();
        cluster.cut.extend([(A, C), (A, D)]);
        overwrite(&mut cluster, session);
        assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
        let end = head(&mut cluster, A);
        assert_eq!([C, D].map(|osd| head(&mut cluster, osd)), [end - 1; 2], "they have not been told");
        liars.iter().zip(before).for_each(|(osd, before)| lies(&mut cluster, *osd, before));
        cluster.cut.clear();
        cluster.update_all();
        cluster.heal(4);
        assert!(cluster.is_active(A));
        // Without as many shards as it takes to read the update it is gone everywhere.
        assert!(cluster.content(A) == if stays { new() } else { old() }, "{liars:?}");
        assert_eq!([A, B, C, D, E, F].map(|osd| head(&mut cluster, osd)), [end - u64::from(!stays); 6], "{liars:?}");
        assert_eq!(pg(&mut cluster, A).members.missing_count(), 0, "{liars:?}");
        let core = &pg(&mut cluster, A).core;
        assert!(core.info.answered <= core.log.head(), "{liars:?}");
    }
}

/// Lets groups exist whose members are as few as can be read of.
fn with_few(cluster: &mut Cluster) {
    let pool = PgPool { min_size: 4, ..cluster.map.pools[&POOL].clone() };
    cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
    cluster.update_all();
    cluster.settle();
}

#[test]
fn who_was_not_told_leads_with_what_others_have() {
    let (mut cluster, session) = written(5);
    with_few(&mut cluster);
    let before = head(&mut cluster, C);
    cluster.cut.extend([(A, C), (A, D)]);
    overwrite(&mut cluster, session);
    assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
    assert_eq!(head(&mut cluster, C), before);
    cluster.lose(A, C);
    cluster.lose(A, D);
    cluster.down(&[A, B]);
    cluster.heal(2);
    assert!(cluster.is_active(C));
    assert_eq!(cluster.content(C), new());
    assert!(pg(&mut cluster, C).core.missing.is_empty());
    // An OSD that was away meanwhile lacks nothing but log entries.
    cluster.cut.clear();
    cluster.up(B);
    cluster.heal(2);
    assert_eq!(cluster.content(B), new());
}

#[test]
fn what_an_interval_took_over_is_taken_back_if_one_that_served_turns_out_to_lack_it() {
    for told in [false, true] {
        let (mut cluster, session) = written(6);
        let before = head(&mut cluster, C);
        cluster.cut.insert((A, F));
        overwrite(&mut cluster, session);
        assert_eq!(cluster.answers_to(1), [], "F has parity");
        if told {
            cluster.pass(Duration::from_millis(30));
        }
        assert_eq!(head(&mut cluster, C), before + u64::from(told));
        cluster.lose(A, F);
        // Four are too few to serve, and so are not recorded, but come to terms.
        cluster.down(&[A, F]);
        assert!(!cluster.is_active(B));
        assert_eq!(
            [B, C, D, E].map(|osd| head(&mut cluster, osd)),
            [before + 1; 4],
            "those here have it or are skipped"
        );
        cluster.cut.clear();
        cluster.up(F);
        cluster.heal(2);
        assert!(cluster.is_active(B));
        assert_eq!([B, C, D, E, F].map(|osd| head(&mut cluster, osd)), [before; 5], "{told}");
        assert_eq!(cluster.content(B), old(), "{told}");
        for osd in [B, C, D, E, F] {
            assert!(pg(&mut cluster, osd).core.missing.is_empty(), "{osd} {told}");
        }
        // Whichever shards are read.
        cluster.up(A);
        cluster.heal(2);
        cluster.down(&[B]);
        cluster.heal(2);
        assert_eq!(cluster.content(A), old(), "{told}");
    }
}

#[test]
fn what_was_not_told_when_a_session_ended_or_a_group_was_split_is_told_in_the_next_interval() {
    for is_split in [false, true] {
        let (mut cluster, session) = written(7);
        cluster.cut.extend([(A, C), (A, D)]);
        overwrite(&mut cluster, session);
        assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
        cluster.cut.clear();
        match is_split {
            true => drop(cluster.split(4)),
            false => cluster.end_session(A, C),
        }
        cluster.update_all();
        cluster.heal(2);
        assert_eq!(cluster.content(A), new(), "{is_split}");
        for osd in [A, B, C, D, E, F] {
            let heads: Vec<_> = cluster.shard(osd).groups().map(|pg| (pg.core.id.seed, pg.core.log.head())).collect();
            let of_a: Vec<_> = cluster.shard(A).groups().map(|pg| (pg.core.id.seed, pg.core.log.head())).collect();
            assert_eq!(heads, of_a, "{osd}");
            assert!(cluster.shard(osd).groups().all(|pg| pg.core.missing.is_empty()), "{osd} {is_split}");
        }
    }
}

#[test]
fn updates_behind_one_that_went_to_another_group_outlive_the_split() {
    let (mut cluster, session) = written(11);
    // In another of four groups than the object of the other tests.
    let other = (8, &b"other"[..]);
    let ask = |cluster: &mut Cluster, tid, op| cluster.ask_of(A, session, tid, cluster.map.epoch, 0, other, op);
    ask(&mut cluster, 20, Op::write_full(Bytes::from(old())));
    cluster.settle();
    cluster.pass(Duration::from_secs(2));
    cluster.cut.extend([(A, C), (A, D)]);
    overwrite(&mut cluster, session);
    ask(&mut cluster, 21, Op::write((CHANGED * UNIT) as u64, Bytes::from("~".repeat(UNIT))));
    cluster.settle_now();
    overwrite_as(&mut cluster, session, 22);
    for tid in [1, 20, 21, 22] {
        assert_eq!(cluster.answers_to(tid), [(session, 0, String::new())], "{tid}");
    }
    cluster.cut.clear();
    cluster.split(4);
    cluster.update_all();
    cluster.heal(2);
    assert_eq!(cluster.content(A), new());
    let epoch = cluster.map.epoch;
    let reader = cluster.connect(A);
    cluster.ask_of(A, reader, 23, epoch, 0, other, Op::read(0, 0));
    cluster.settle();
    assert_eq!(cluster.answers_to(23), [(reader, 0, new())]);
}

/// Counts those of so many requests that are answered.
fn answered(cluster: &Cluster, tids: u64) -> usize {
    (1..=tids).filter(|tid| !cluster.answers_to(*tid).is_empty()).count()
}

#[test]
fn clients_are_answered_only_so_far_ahead_of_who_is_skipped_and_silent() {
    let (mut cluster, session) = written_with(12, Limits { log_entries_min: 4, ..Limits::default() });
    let before = head(&mut cluster, C);
    cluster.cut.insert((A, C));
    (1..=6).for_each(|tid| overwrite_as(&mut cluster, session, tid));
    assert_eq!(answered(&cluster, 6), 4, "it takes no time");
    cluster.settle();
    assert_eq!(answered(&cluster, 6), 4);
    assert_eq!([A, B, C, D].map(|osd| head(&mut cluster, osd)), [before + 6, before + 6, before, before + 6]);
    let entries = pg(&mut cluster, B).core.log.entries();
    assert!(entries.last().is_some_and(|entry| entry.skipped.skips(2)), "it lacks nothing for it all the same");
    cluster.cut.clear();
    cluster.settle();
    assert_eq!(answered(&cluster, 6), 6);
    // Once it has caught up nobody waits for it.
    cluster.cut.insert((A, C));
    overwrite_as(&mut cluster, session, 7);
    assert_eq!(cluster.answers_to(7), [(session, 0, String::new())]);
}

#[test]
fn what_was_kept_for_who_was_silent_goes_in_parts() {
    const UPDATES: u64 = 150;
    let part = FORWARD_ENTRIES as u64;
    let rolled = |cluster: &mut Cluster| [A, B, E].map(|osd| pg(cluster, osd).core.info.rolled_forward.version);
    for goes_down in [false, true] {
        let (mut cluster, session) = written(13);
        let before = rolled(&mut cluster);
        cluster.cut.insert((A, C));
        overwrite(&mut cluster, session);
        assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
        // Updates that take no room of the small stores: there is no such object.
        let (epoch, begin) = (cluster.map.epoch, head(&mut cluster, A));
        (2..=UPDATES).for_each(|tid| cluster.ask_of(A, session, tid, epoch, 0, (8, b"other"), Op::delete()));
        cluster.settle();
        assert_eq!(head(&mut cluster, A), begin + UPDATES - 1);
        assert_eq!(rolled(&mut cluster), before, "it is silent");
        if goes_down {
            cluster.lose(A, C);
            cluster.down(&[C]);
        }
        cluster.cut.clear();
        cluster.settle();
        if !goes_down {
            overwrite_as(&mut cluster, session, UPDATES + 1);
            assert_eq!(rolled(&mut cluster), before.map(|before| before + part), "one transaction");
        }
        cluster.pass(Duration::from_secs(2));
        cluster.pass(Duration::from_secs(2));
        let end = head(&mut cluster, A);
        assert_eq!(rolled(&mut cluster), [end; 3], "{goes_down}");
        assert_eq!(cluster.content(A), new());
    }
}

#[test]
fn all_learn_in_the_next_interval_for_what_clients_were_answered() {
    let (mut cluster, session) = written(14);
    overwrite(&mut cluster, session);
    assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
    let end = head(&mut cluster, A);
    // B and E are told of that with an update which F does not get.
    cluster.cut.insert((A, F));
    overwrite_as(&mut cluster, session, 2);
    let known = [A, B, E, F].map(|osd| pg(&mut cluster, osd).core.info.answered.version);
    assert_eq!((known[1], known[2]), (end, end));
    assert!(known[3] < end, "{known:?}");
    // The primary has neither update, as these skip it, and so does not know.
    cluster.lose(A, F);
    restarts(&mut cluster, A);
    assert!(head(&mut cluster, B) > end);
    cluster.cut.clear();
    cluster.update_all();
    cluster.settle();
    let known = [A, B, C, D, E, F].map(|osd| pg(&mut cluster, osd).core.info.answered.version);
    assert_eq!([A, B, C, D, E, F].map(|osd| head(&mut cluster, osd)), [end; 6], "F has not had the last one");
    assert_eq!(known, [end; 6]);
    cluster.heal(2);
    assert_eq!(cluster.content(A), new());
}

#[test]
fn an_update_by_which_an_object_grows_within_its_last_stripe_skips_nothing() {
    let (mut cluster, session) = written(15);
    let grow = |cluster: &mut Cluster, tid| {
        let bytes = pg(cluster, A).core.info.stats.bytes;
        cluster.ask(A, session, tid, cluster.map.epoch, 0, Op::append(Bytes::from_static(b"more")));
        cluster.settle_now();
        assert_eq!(pg(cluster, A).core.info.stats.bytes, bytes + 4);
    };
    // It begins a stripe, and goes on with it.
    grow(&mut cluster, 1);
    cluster.pass(Duration::from_secs(2));
    let before = head(&mut cluster, C);
    cluster.cut.extend([(A, C), (A, D)]);
    grow(&mut cluster, 2);
    assert_eq!(cluster.answers_to(2), [], "all are waited for");
    let entry = pg(&mut cluster, B).core.log.entries().last().expect("it has the update").clone();
    assert_eq!((entry.version.version, entry.skipped), (before + 1, Skipped::default()));
    // The log is cut, and the counts go back with it.
    let bytes = pg(&mut cluster, C).core.info.stats.bytes;
    cluster.lose(A, C);
    cluster.lose(A, D);
    cluster.down(&[A]);
    cluster.cut.clear();
    cluster.heal(2);
    assert!(cluster.is_active(B));
    assert_eq!(pg(&mut cluster, B).core.info.stats.bytes, bytes);
    assert_eq!(cluster.content(B), old() + "more");
}

/// Of two data shards one is down, and the primary's is skipped: the OSD with the parity shard alone has the update.
#[test]
fn an_update_that_one_member_alone_has_outlives_a_power_failure_of_all() {
    let (mut cluster, session) = written_to(Cluster::coded(16));
    cluster.down(&[B]);
    assert!(cluster.is_active(A));
    overwrite(&mut cluster, session);
    assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
    let end = head(&mut cluster, C);
    let entry = pg(&mut cluster, C).core.log.entries().last().expect("it has the update").clone();
    assert_eq!(entry.skipped.shards.iter().collect::<Vec<_>>(), [0]);
    [C, A].iter().for_each(|osd| restarts(&mut cluster, *osd));
    cluster.update_all();
    cluster.heal(4);
    assert!(cluster.is_active(A));
    assert_eq!([A, C].map(|osd| head(&mut cluster, osd)), [end; 2]);
    assert_eq!(cluster.content(A), new());
    // The shard that was away is computed of these two.
    cluster.up(B);
    cluster.heal(4);
    assert_eq!(pg(&mut cluster, A).members.missing_count(), 0);
    cluster.down(&[C]);
    cluster.heal(2);
    assert_eq!(cluster.content(A), new());
}

#[test]
fn who_starts_again_before_what_skips_it_is_flushed_lacks_nothing() {
    for osds in [&[C][..], &[C, D], &[A, C, D]] {
        let (mut cluster, session) = written(17);
        overwrite(&mut cluster, session);
        assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
        let end = head(&mut cluster, A);
        cluster.later(Duration::from_millis(20));
        cluster.turn(A);
        cluster.settle_now();
        assert_eq!([C, D].map(|osd| head(&mut cluster, osd)), [end; 2], "they were told");
        let committed = pg(&mut cluster, A).replication.durability().committed();
        assert_eq!(committed.version, end - 1, "nothing is durable there");
        osds.iter().for_each(|osd| restarts(&mut cluster, *osd));
        cluster.update_all();
        cluster.heal(4);
        assert!(cluster.is_active(A), "{osds:?}");
        assert_eq!(cluster.content(A), new(), "{osds:?}");
        assert_eq!([A, B, C, D, E, F].map(|osd| head(&mut cluster, osd)), [end; 6], "{osds:?}");
        for osd in [A, B, C, D, E, F] {
            assert!(pg(&mut cluster, osd).core.missing.is_empty(), "{osd} of {osds:?}");
        }
    }
}

#[test]
fn a_deep_scrub_right_after_an_update_takes_no_skipped_shard_for_stale() {
    let (mut cluster, session) = written(18);
    for is_silent in [false, true] {
        let tid = 1 + u64::from(is_silent);
        overwrite_as(&mut cluster, session, tid);
        assert_eq!(cluster.answers_to(tid), [(session, 0, String::new())]);
        let before = pg(&mut cluster, A).scrub.mark().deep_at;
        if is_silent {
            cluster.cut.insert((A, C));
        }
        let order = PgScrub { pgs: vec![PG], deep: true, repair: false }.seal(0, Target::default());
        cluster.shard(A).monitor_message(&order).expect("well-formed");
        cluster.turn(A);
        cluster.settle_now();
        (0..5).for_each(|_| cluster.pass(Duration::from_millis(100)));
        cluster.cut.clear();
        (0..50).for_each(|_| cluster.pass(Duration::from_millis(100)));
        let mark = pg(&mut cluster, A).scrub.mark();
        assert!(mark.deep_at > before, "it has ended");
        assert_eq!((mark.shallow_errors, mark.deep_errors, mark.repaired), (0, 0, 0));
        assert_eq!(cluster.cluster_log.iter().filter(|(_, line)| line.contains("error")).count(), 0);
    }
}
