//! Objects that are copied, within a group and between groups with different primaries.

use super::cluster::{Cluster, PG, POOL};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Errno, OsdId, PgId, SnapId};
use wire::basic::{Locator, SnapContext};
use wire::messages::{Op, OsdOpReply};
use wire::msgr::SessionId;

struct Copying {
    cluster: Cluster,
    tid: u64,
    /// Primaries of the two groups, by their seeds.
    primaries: [OsdId; 2],
    sessions: BTreeMap<OsdId, SessionId>,
}

impl Copying {
    /// Makes two groups: one's primary is OSD 0, the other's OSD 1.
    fn new() -> Copying {
        let mut cluster = Cluster::new(3);
        cluster.split(2);
        cluster.move_group_of(PgId { seed: 1, ..PG }, &[1, 2, 0]);
        cluster.update_all();
        cluster.settle();
        let primaries = [OsdId(0), OsdId(1)];
        let sessions = primaries.map(|osd| (osd, cluster.connect(osd))).into();
        let mut copying = Copying { cluster, tid: 0, primaries, sessions };
        copying.seconds(4);
        copying
    }

    fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.cluster.pass(Duration::from_secs(1));
        }
    }

    /// Returns a name whose object is in that group.
    fn name(&self, seed: u32, number: u32) -> Bytes {
        let names = (0..).map(|n| Bytes::from(format!("object-{number}-{n}")));
        let is_there =
            |name: &Bytes| self.cluster.map.object_to_pg(name, &Locator::pool(POOL)).expect("placed").0.seed == seed;
        names.into_iter().find(is_there).expect("there are enough")
    }

    fn send(&mut self, name: &Bytes, op: Op) -> u64 {
        self.tid += 1;
        let (pg, hash) = self.cluster.map.object_to_pg(name, &Locator::pool(POOL)).expect("placed");
        let (osd, epoch) = (self.primaries[pg.seed as usize], self.cluster.map.epoch);
        self.cluster.ask_of(osd, self.sessions[&osd], self.tid, epoch, 0, (hash, name), op);
        self.tid
    }

    fn answer(&self, tid: u64) -> Option<&OsdOpReply> {
        self.cluster.answers.iter().find(|answer| answer.tid == tid).map(|answer| &answer.reply)
    }

    fn ask(&mut self, name: &Bytes, op: Op) -> OsdOpReply {
        let tid = self.send(name, op);
        self.cluster.settle();
        self.answer(tid).expect("it is answered").clone()
    }

    fn content(&mut self, name: &Bytes) -> Vec<u8> {
        let reply = self.ask(name, Op::read(0, 0));
        assert_eq!(reply.result, 0);
        reply.ops[0].outdata.to_vec()
    }
}

fn copy_of(name: &Bytes, version: u64) -> Op {
    Op::copy_from(name.clone(), Locator::pool(POOL), SnapId::HEAD, version)
}

#[test]
fn objects_are_copied_within_groups_and_between_them() {
    let mut c = Copying::new();
    for (from, to) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let (source, target) = (c.name(from, 1), c.name(to, 2));
        let bytes = vec![from as u8 + 3; 300_000];
        assert_eq!(c.ask(&source, Op::write_full(bytes.clone())).result, 0);
        assert_eq!(c.ask(&source, Op::set_xattr(b"k", b"v")).result, 0);
        let entries = BTreeMap::from([(Bytes::from_static(b"key"), Bytes::from_static(b"value"))]);
        assert_eq!(c.ask(&source, Op::omap_set_vals(&entries)).result, 0);
        assert_eq!(c.ask(&target, Op::write_full(vec![1; 500_000])).result, 0);
        assert_eq!(c.ask(&target, Op::set_xattr(b"old", b"v")).result, 0);
        let version = c.ask(&source, Op::stat()).user_version;
        assert_eq!(c.ask(&target, copy_of(&source, 0)).result, 0, "from {from} to {to}");
        assert!(c.content(&target) == bytes);
        assert_eq!(c.ask(&target, Op::stat()).user_version, version);
        assert_eq!(c.ask(&target, Op::get_xattr(b"k")).ops[0].outdata.to_vec(), b"v");
        assert_eq!(c.ask(&target, Op::get_xattr(b"old")).result, Errno::ENODATA.as_result());
        let listed = c.ask(&target, Op::omap_get_vals_by_keys(&[Bytes::from_static(b"key")].into()));
        assert!(listed.ops[0].outdata.to_vec().ends_with(b"value"));
        // A copy is made of this version only.
        assert_eq!(c.ask(&target, copy_of(&source, version)).result, 0);
        assert_eq!(c.ask(&target, copy_of(&source, version + 1)).result, Errno::EOVERFLOW.as_result());
        assert_eq!(c.ask(&target, copy_of(&target, 0)).result, Errno::EINVAL.as_result());
        let absent = c.name(from, 3);
        assert_eq!(c.ask(&target, copy_of(&absent, 0)).result, Errno::ENOENT.as_result());
        assert!(c.content(&target) == bytes, "a copy that fails changes nothing");
    }
}

#[test]
fn a_question_that_is_lost_is_asked_again() {
    let mut c = Copying::new();
    let (source, target) = (c.name(1, 1), c.name(0, 2));
    assert_eq!(c.ask(&source, Op::write_full(vec![7; 5000])).result, 0);
    for (from, to) in [(OsdId(0), OsdId(1)), (OsdId(1), OsdId(0))] {
        c.cluster.cut.insert((from, to));
        let tid = c.send(&target, copy_of(&source, 0));
        c.cluster.settle();
        assert!(c.answer(tid).is_none());
        c.cluster.lose(from, to);
        c.cluster.cut.clear();
        c.seconds(5);
        assert_eq!(c.answer(tid).expect("it is answered").result, 0);
        assert!(c.content(&target) == vec![7; 5000]);
    }
}

#[test]
fn objects_that_wait_for_each_other_do_not_for_ever() {
    let mut c = Copying::new();
    let (a, b) = (c.name(0, 1), c.name(1, 2));
    assert_eq!(c.ask(&a, Op::write_full(vec![1; 50])).result, 0);
    assert_eq!(c.ask(&b, Op::write_full(vec![2; 50])).result, 0);
    let into_b = c.send(&b, copy_of(&a, 0));
    let into_a = c.send(&a, copy_of(&b, 0));
    c.seconds(70);
    let results = [into_a, into_b].map(|tid| c.answer(tid).expect("it is answered").result);
    assert!(results.iter().all(|result| [0, Errno::ETIMEDOUT.as_result()].contains(result)), "{results:?}");
    let contents = [c.content(&a), c.content(&b)];
    assert!(contents.iter().all(|content| *content == vec![1; 50] || *content == vec![2; 50]));
}

#[test]
fn an_object_becomes_what_it_was_at_its_own_snapshot() {
    for mut cluster in [Cluster::new(3), Cluster::coded(7)] {
        let name = Bytes::from_static(b"object");
        let hash = cluster.map.object_to_pg(&name, &Locator::pool(POOL)).expect("placed").1;
        let (session, epoch) = (cluster.connect(OsdId(0)), cluster.map.epoch);
        let mut tid = 0;
        let mut ask = |cluster: &mut Cluster, op: Op| {
            tid += 1;
            cluster.ask_of(OsdId(0), session, tid, epoch, 0, (hash, &name), op);
            cluster.settle();
            let answer = cluster.answers.iter().find(|answer| answer.tid == tid).expect("it is answered at once");
            (answer.reply.result, answer.reply.ops[0].outdata.to_vec())
        };
        let was = vec![b'a'; 20_000];
        assert_eq!(ask(&mut cluster, Op::write_full(was.clone())).0, 0);
        assert_eq!(ask(&mut cluster, Op::set_xattr(b"k", b"then")).0, 0);
        cluster.snaps = SnapContext { seq: SnapId(4), snaps: vec![SnapId(4)] };
        assert_eq!(ask(&mut cluster, Op::write_full(vec![b'b'; 50])).0, 0);
        assert_eq!(ask(&mut cluster, Op::set_xattr(b"k", b"now")).0, 0);
        let copy = |snap| Op::copy_from(name.clone(), Locator::pool(POOL), snap, 0);
        assert_eq!(ask(&mut cluster, copy(SnapId::HEAD)).0, Errno::EINVAL.as_result());
        assert_eq!(ask(&mut cluster, copy(SnapId(4))).0, 0);
        assert!(ask(&mut cluster, Op::read(0, 0)).1 == was);
        assert_eq!(ask(&mut cluster, Op::get_xattr(b"k")).1, b"then");
        // There was nothing new to preserve: the snapshot is what it was.
        cluster.snap = SnapId(4);
        assert!(ask(&mut cluster, Op::read(0, 0)).1 == was);
        cluster.snap = SnapId::HEAD;
        assert_eq!(cluster.client_bytes(OsdId(0)), 0);
    }
}

#[test]
fn questions_that_wait_take_no_more_than_one_does() {
    let mut c = Copying::new();
    let (source, target) = (c.name(1, 1), c.name(0, 2));
    assert_eq!(c.ask(&source, Op::write_full(vec![7; 5000])).result, 0);
    // The source's group does not serve.
    let of_source = PgId { seed: 1, ..PG };
    c.cluster.move_group_of(of_source, &[1]);
    c.cluster.update_all();
    c.cluster.settle();
    let tid = c.send(&target, copy_of(&source, 0));
    c.seconds(25);
    let held = c.cluster.client_bytes(OsdId(1));
    assert!(c.answer(tid).is_none() && held < 5000, "{held} are held");
    assert!(c.cluster.client_bytes(OsdId(0)) >= 8 << 20, "what is going to be copied is counted from the beginning");
    c.cluster.move_group_of(of_source, &[1, 2, 0]);
    c.cluster.update_all();
    c.seconds(10);
    assert_eq!(c.answer(tid).expect("it is answered").result, 0);
    assert!(c.content(&target) == vec![7; 5000]);
    // An update of the source is not done.
    c.cluster.cut = [(OsdId(1), OsdId(2))].into();
    let update = c.send(&source, Op::write_full(vec![8; 6000]));
    let tid = c.send(&target, copy_of(&source, 0));
    c.seconds(25);
    let held = c.cluster.client_bytes(OsdId(1));
    assert!(c.answer(update).is_none() && c.answer(tid).is_none() && held < 6000 + 5000, "{held} are held");
    c.cluster.cut.clear();
    c.seconds(10);
    assert_eq!(c.answer(tid).expect("it is answered").result, 0);
    assert!(c.content(&target) == vec![8; 6000]);
    assert_eq!([0, 1, 2].map(|osd| c.cluster.client_bytes(OsdId(osd))), [0; 3]);
}

#[test]
fn not_more_is_copied_at_once_than_there_is_memory_for() {
    let mut c = Copying::new();
    let source = c.name(1, 1);
    assert_eq!(c.ask(&source, Op::write_full(vec![7; 5000])).result, 0);
    let other = c.name(0, 50);
    assert_eq!(c.ask(&other, Op::write_full(vec![9; 5000])).result, 0);
    // The source's group does not serve.
    let of_source = PgId { seed: 1, ..PG };
    c.cluster.move_group_of(of_source, &[1]);
    c.cluster.update_all();
    c.seconds(2);
    let targets: Vec<Bytes> = (10..40).map(|number| c.name(0, number)).collect();
    let tids: Vec<u64> = targets.iter().map(|target| c.send(target, copy_of(&source, 0))).collect();
    c.cluster.settle();
    let (held, limit) = (c.cluster.client_bytes(OsdId(0)), crate::ops::Limits::default().client_bytes);
    assert!(held >= limit / 4 && held < limit / 4 + (9 << 20), "{held} are held");
    // Other operations are served meanwhile.
    assert!(c.content(&other) == vec![9; 5000]);
    c.cluster.move_group_of(of_source, &[1, 2, 0]);
    c.cluster.update_all();
    c.seconds(20);
    for (target, tid) in targets.iter().zip(tids) {
        assert_eq!(c.answer(tid).expect("it is answered").result, 0);
        assert!(c.content(target) == vec![7; 5000]);
    }
    assert_eq!(c.cluster.client_bytes(OsdId(0)), 0);
}

#[test]
fn questions_of_an_osd_that_is_down_are_forgotten() {
    let mut c = Copying::new();
    let (source, target) = (c.name(1, 1), c.name(0, 2));
    assert_eq!(c.ask(&source, Op::write_full(vec![7; 5000])).result, 0);
    c.cluster.cut = [(OsdId(1), OsdId(2))].into();
    let update = c.send(&source, Op::write_full(vec![8; 6000]));
    c.send(&target, copy_of(&source, 0));
    c.seconds(4);
    assert!(c.answer(update).is_none());
    let before = c.cluster.client_bytes(OsdId(1));
    // Group 1 stays as it is.
    c.cluster.mark_down(0);
    c.cluster.move_group_of(PgId { seed: 1, ..PG }, &[1, 2, 0]);
    c.cluster.update(OsdId(1));
    let after = c.cluster.client_bytes(OsdId(1));
    assert!(after < before, "{before} were held, and {after} are");
}

#[test]
fn who_copies_is_answered_though_clients_take_all_memory() {
    let mut c = Copying::new();
    let (source, target) = (c.name(1, 1), c.name(0, 2));
    assert_eq!(c.ask(&source, Op::write_full(vec![7; 5000])).result, 0);
    let held = crate::ops::Limits::default().client_bytes;
    c.cluster.shard(OsdId(1)).set_unsent_bytes(held);
    assert!(c.cluster.shard(OsdId(1)).is_full());
    let tid = c.send(&target, copy_of(&source, 0));
    c.cluster.settle();
    assert_eq!(c.answer(tid).expect("it is answered").result, 0);
}
