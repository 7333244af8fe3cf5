//! Reads that other members than the primary answer.

use super::cluster::{Cluster, HASH, OBJECT, PG, appending};
use std::time::Duration;
use types::{Epoch, Errno, OsdId, PgId};
use wire::messages::{Op, OpFlags};
use wire::msgr::SessionId;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);

const AGAIN: i32 = Errno::EAGAIN.as_result();

/// Hash of an object of each of two groups, which lie on different shards where there are two.
const HASHES: [u32; 2] = [8, 7];

fn ask(cluster: &mut Cluster, osd: OsdId, session: SessionId, tid: u64, op: Op) {
    ask_of(cluster, osd, session, tid, HASH, op);
}

fn ask_of(cluster: &mut Cluster, osd: OsdId, session: SessionId, tid: u64, hash: u32, op: Op) {
    let epoch = cluster.epoch_of(osd);
    cluster.ask_flagged(osd, session, tid, epoch, OpFlags::BALANCE_READS, (hash, OBJECT), op);
}

fn read(cluster: &mut Cluster, osd: OsdId, session: SessionId, tid: u64) {
    ask(cluster, osd, session, tid, Op::read(0, 0));
}

fn answer(cluster: &Cluster, tid: u64) -> Option<(i32, String)> {
    match &cluster.answers_to(tid)[..] {
        [] => None,
        [(_, result, out)] => Some((*result, out.clone())),
        other => panic!("{tid} has several answers: {other:?}"),
    }
}

fn seen(text: &str) -> Option<(i32, String)> {
    Some((0, text.to_owned()))
}

/// Reads until the member answers itself.
fn warm(cluster: &mut Cluster, osd: OsdId) -> SessionId {
    warm_of(cluster, osd, HASH)
}

fn warm_of(cluster: &mut Cluster, osd: OsdId, hash: u32) -> SessionId {
    let session = cluster.connect(osd);
    for tid in 9000..9020 {
        cluster.answers.retain(|answer| answer.tid != tid);
        ask_of(cluster, osd, session, tid, hash, Op::read(0, 0));
        cluster.pass(Duration::from_millis(150));
        if answer(cluster, tid).expect("it is answered").0 >= 0 {
            return session;
        }
    }
    panic!("{osd} never answers a read");
}

/// Makes three members, of which the first has appended 1.
fn cluster() -> (Cluster, SessionId) {
    cluster_of(1)
}

/// Makes three members with OSDs of so many shards, of which the first has appended 1.
fn cluster_of(shards: usize) -> (Cluster, SessionId) {
    let mut cluster = Cluster::of_shards(3, 7, shards, 1);
    let session = cluster.connect(A);
    cluster.append(A, session, 1, Epoch(1));
    cluster.settle();
    (cluster, session)
}

#[test]
fn a_member_answers_once_its_primary_lets_it() {
    let (mut cluster, _) = cluster();
    let session = cluster.connect(B);
    read(&mut cluster, B, session, 2);
    assert_eq!(answer(&cluster, 2), Some((AGAIN, String::new())), "nothing is known yet");
    let session = warm(&mut cluster, B);
    read(&mut cluster, B, session, 3);
    assert_eq!(answer(&cluster, 3), seen("1,"), "at once");
    assert_eq!(cluster.client_bytes(B), 0);
    // Without its primary, not for long.
    cluster.cut.extend([(A, B), (B, A)]);
    for tid in 10..30 {
        read(&mut cluster, B, session, tid);
        cluster.pass(Duration::from_millis(100));
    }
    assert_eq!((answer(&cluster, 10), answer(&cluster, 29)), (seen("1,"), Some((AGAIN, String::new()))));
}

#[test]
fn a_member_that_finds_that_its_clock_stood_still_reads_by_no_share_from_before() {
    let (mut cluster, _) = cluster();
    let session = warm(&mut cluster, B);
    cluster.shard(B).clock_stood_still();
    read(&mut cluster, B, session, 3);
    assert_eq!(answer(&cluster, 3), Some((AGAIN, String::new())));
    cluster.pass(Duration::from_millis(150));
    read(&mut cluster, B, session, 4);
    assert_eq!(answer(&cluster, 4), seen("1,"), "it was asked for again");
}

#[test]
fn what_not_all_have_is_not_shown() {
    let (mut cluster, primary) = cluster();
    let at_b = warm(&mut cluster, B);
    let at_c = warm(&mut cluster, C);
    cluster.stuck_disks.insert(C);
    cluster.append(A, primary, 2, Epoch(1));
    cluster.settle();
    read(&mut cluster, B, at_b, 3);
    read(&mut cluster, C, at_c, 4);
    cluster.settle();
    let refused = Some((AGAIN, String::new()));
    assert_eq!((answer(&cluster, 2), answer(&cluster, 3), answer(&cluster, 4)), (None, refused.clone(), refused));
    cluster.stuck_disks.clear();
    cluster.settle();
    assert!(answer(&cluster, 2).is_some());
    // Members learn when they ask that all have the update now.
    for (osd, session, tid) in [(B, at_b, 5), (C, at_c, 6)] {
        cluster.later(Duration::from_millis(150));
        read(&mut cluster, osd, session, tid);
        cluster.settle();
        read(&mut cluster, osd, session, tid + 10);
        cluster.settle();
        assert_eq!(answer(&cluster, tid + 10), seen("1,2,"));
    }
}

#[test]
fn a_member_that_is_left_alone_reads_nothing_that_others_have_changed() {
    // The primary stays, or is replaced, too; and is reached by the new one, or is not.
    let cases = [(vec![1], vec![B]), (vec![0, 1], vec![A, B]), (vec![0, 1], vec![B])];
    for (shards, (left, cut)) in [1, 2, 4].into_iter().flat_map(|shards| cases.clone().map(|case| (shards, case))) {
        let (mut cluster, _) = cluster_of(shards);
        let session = warm(&mut cluster, B);
        for osd in &cut {
            cluster.cut.extend([(*osd, C), (C, *osd)]);
        }
        cluster.cut.extend([(A, B), (B, A)]);
        for osd in &left {
            cluster.mark_down(*osd);
        }
        let since = cluster.map.epoch;
        let primary = if left.contains(&0) { C } else { A };
        cluster.update(C);
        if cut != [A, B] {
            cluster.update(A);
        }
        cluster.settle();
        let other = cluster.connect(primary);
        cluster.append(primary, other, 3, since);
        cluster.settle();
        for tid in 100..150 {
            let changed = answer(&cluster, 3).is_some();
            read(&mut cluster, B, session, tid);
            let saw = answer(&cluster, tid).expect("at once");
            assert!(saw.0 == AGAIN || !changed && saw.1 == "1,", "{shards} shards, {left:?} {tid}: {saw:?}");
            cluster.pass(Duration::from_millis(50));
        }
        let shown = answer(&cluster, 100).expect("at once");
        assert_eq!(shown, (0, "1,".to_owned()), "the share lasts a while");
        assert!(left.len() == 2 || answer(&cluster, 3).is_some(), "and ends");
    }
}

#[test]
fn nobody_reads_while_members_may_be_added() {
    let (mut cluster, primary) = cluster();
    cluster.down(&[C]);
    // Two serve, which is enough.
    let session = warm(&mut cluster, B);
    for tid in 100..1400 {
        let epoch = cluster.map.epoch;
        cluster.append(A, primary, tid, epoch);
        cluster.settle();
    }
    cluster.mark_up(2);
    // C is backfilled, which does not end.
    cluster.stuck_disks.insert(C);
    cluster.update_all();
    cluster.settle();
    for tid in 10..30 {
        read(&mut cluster, B, session, tid);
        cluster.pass(Duration::from_millis(150));
        assert_eq!(answer(&cluster, tid), Some((AGAIN, String::new())));
    }
}

#[test]
fn what_is_no_plain_read_goes_to_the_primary() {
    let (mut cluster, _) = cluster();
    let session = warm(&mut cluster, B);
    let ops = [Op::list_watchers(), Op::pg_nls(&types::ObjectId::min(), 10, 0)];
    for (op, tid) in ops.into_iter().zip(10..) {
        ask(&mut cluster, B, session, tid, op);
        cluster.settle();
        assert_eq!(answer(&cluster, tid).map(|(result, _)| result), Some(AGAIN));
    }
    ask(&mut cluster, B, session, 20, Op::stat());
    assert!(answer(&cluster, 20).is_some_and(|(result, _)| result == 0));
    // An operation that changes something is the primary's alone.
    ask(&mut cluster, B, session, 21, appending(21));
    cluster.settle();
    assert_eq!(answer(&cluster, 21), None);
}

/// Chooses what happens next.
struct Choices(u64);

impl Choices {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

/// Makes two groups on two shards, in each of which the first OSD has appended 1. Returns its session, too.
fn two_groups() -> (Cluster, SessionId) {
    let mut cluster = Cluster::of_shards(3, 7, 2, 2);
    let session = cluster.connect(A);
    for hash in HASHES {
        cluster.ask_of(A, session, 1, Epoch(1), 0, (hash, OBJECT), appending(1));
    }
    cluster.settle();
    // Promises that the OSDs may have made before they started are over then.
    cluster.pass(Duration::from_secs(2));
    (cluster, session)
}

/// Has the new `primary` change both objects, whose members were changed in epoch `since`, beside reads at B. Returns
/// the time after which each of the changes was answered.
fn changed_beside_reads(cluster: &mut Cluster, primary: OsdId, since: Epoch, at_b: SessionId) -> [Option<Duration>; 2] {
    let begun = cluster.now();
    let session = cluster.connect(primary);
    for (i, hash) in HASHES.into_iter().enumerate() {
        cluster.ask_of(primary, session, 10 + i as u64, since, 0, (hash, OBJECT), appending(2));
    }
    cluster.settle();
    let mut changed = [None; 2];
    for step in 0..50 {
        for (i, hash) in HASHES.into_iter().enumerate() {
            if changed[i].is_none() && answer(cluster, 10 + i as u64).is_some() {
                changed[i] = Some(cluster.now() - begun);
            }
            let tid = 100 + 2 * step + i as u64;
            ask_of(cluster, B, at_b, tid, hash, Op::read(0, 0));
            let saw = answer(cluster, tid).expect("at once");
            assert!(saw.0 == AGAIN || changed[i].is_none() && saw.1 == "1,", "{hash} at {step}: {saw:?}");
        }
        cluster.pass(Duration::from_millis(50));
    }
    changed
}

#[test]
fn each_shard_tells_what_it_has_shared() {
    for read in 0..2 {
        let (mut cluster, _) = two_groups();
        let session = warm_of(&mut cluster, B, HASHES[read]);
        cluster.cut.extend([(A, B), (B, A), (C, B), (B, C)]);
        cluster.move_group_of(PgId { seed: 0, ..PG }, &[2, 0]);
        let since = cluster.move_group_of(PgId { seed: 1, ..PG }, &[2, 0]);
        cluster.update(C);
        cluster.update(A);
        cluster.settle();
        let changed = changed_beside_reads(&mut cluster, C, since, session);
        let waited = changed.map(|after| after.expect("it is answered in the end"));
        assert!(waited[read] > Duration::from_millis(500), "the share is waited for: {waited:?}");
        assert!(waited[1 - read] < Duration::from_millis(50), "nothing of the other shard is shared: {waited:?}");
    }
}

#[test]
fn a_primary_that_starts_anew_remembers_no_share_of_any_shard() {
    let (mut cluster, _) = two_groups();
    warm_of(&mut cluster, B, HASHES[0]);
    let session = warm_of(&mut cluster, B, HASHES[1]);
    cluster.lose_power(A);
    cluster.cut.extend([(A, B), (B, A), (C, B), (B, C)]);
    cluster.mark_down(0);
    cluster.mark_down(1);
    let since = cluster.mark_up(0);
    cluster.update(A);
    cluster.update(C);
    cluster.settle();
    let changed = changed_beside_reads(&mut cluster, A, since, session);
    let waited = changed.map(|after| after.expect("it is answered in the end"));
    let least = Duration::from_millis(500);
    assert!(waited.iter().all(|waited| *waited > least), "both are waited for: {waited:?}");
}

#[test]
fn reads_never_go_back_whoever_answers() {
    reads_never_go_back(1, 80);
}

#[test]
fn reads_never_go_back_whichever_shard_answers() {
    reads_never_go_back(2, 80);
}

fn reads_never_go_back(shards: usize, seeds: u64) {
    let (mut served, mut refused) = (0, 0);
    for seed in 0..seeds {
        let mut cluster = Cluster::of_shards(4, seed, shards, 1);
        cluster.queues_wait = shards > 1;
        let mut choices = Choices(seed);
        let primary = cluster.connect(A);
        let members = [B, C, OsdId(3)].map(|osd| (osd, cluster.connect(osd)));
        // Appends that readers have seen, at the least; and reads that are not answered.
        let (mut least, mut open): (usize, Vec<(u64, OsdId, usize)>) = (0, Vec::new());
        let mut appends: Vec<u64> = Vec::new();
        for tid in 1..=120 {
            let epoch = cluster.map.epoch;
            if choices.below(4) == 0 {
                appends.push(tid);
                cluster.append(A, primary, tid, epoch);
            } else {
                // A read must see what was answered, or seen, before it was asked.
                let (osd, session) = members[choices.below(3) as usize];
                read(&mut cluster, osd, session, tid);
                open.push((tid, osd, least));
            }
            for _ in 0..choices.below(12) {
                let pick = choices.below(1 << 30);
                cluster.step(pick);
                let done = appends.iter().take_while(|tid| answer(&cluster, **tid).is_some()).count();
                let mut now_seen = least.max(done);
                open.retain(|(tid, osd, least)| {
                    let Some((result, text)) = answer(&cluster, *tid) else { return true };
                    match result {
                        AGAIN => refused += 1,
                        _ => {
                            served += 1;
                            let count = text.matches(',').count();
                            let expected: String = appends.iter().take(count).map(|tid| format!("{tid},")).collect();
                            assert_eq!(text, expected, "seed {seed}: {osd} answers {tid}");
                            assert!(count >= *least, "seed {seed}: {osd} answers {tid} with {text}, not {least}");
                            now_seen = now_seen.max(count);
                        }
                    }
                    false
                });
                least = now_seen;
            }
            if choices.below(20) == 0 {
                cluster.move_group([[0, 1, 2], [0, 3, 1], [0, 2, 3]][choices.below(3) as usize].as_slice());
                let osds = choices.below(16);
                (0..4).filter(|osd| osds >> osd & 1 == 1).for_each(|osd| cluster.update(OsdId(osd)));
            }
            if choices.below(6) == 0 {
                cluster.pass(Duration::from_millis(120));
            }
        }
    }
    assert!(served > 500 && refused > 500, "{served} served, {refused} refused");
}
