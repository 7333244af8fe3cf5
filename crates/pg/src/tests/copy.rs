//! Objects that are copied, within a group and between groups with different primaries.

use super::cluster::{Cluster, PG, POOL};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Errno, OsdId, PgId, SnapId};
use wire::basic::Locator;
use wire::messages::{Op, OsdOpReply};
use wire::msgr::SessionId;

struct Copying {
    cluster: Cluster,
    tid: u64,
    /// By the seeds of their groups.
    primaries: [OsdId; 2],
    sessions: BTreeMap<OsdId, SessionId>,
}

impl Copying {
    /// Two groups: one's primary is OSD 0, the other's OSD 1.
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

    /// A name whose object is in that group.
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
        // Only of this version.
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
