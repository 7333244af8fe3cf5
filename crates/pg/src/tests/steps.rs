//! Results and outputs of the steps of clients' operations.

use super::cluster::{Cluster, HASH, OBJECT, POOL};
use crate::ops::Limits;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, ObjectId, OsdId};
use wire::messages::listing::ObjectListing;
use wire::messages::op_data::FilteredListInput;
use wire::messages::{Op, OpArgs, OpCode, OsdOpReply, op_flag};
use wire::msgr::SessionId;
use wire::{Decode, Encode, Target};

const A: OsdId = OsdId(0);

/// A client of one object.
pub(super) struct Client {
    pub cluster: Cluster,
    pub session: SessionId,
    pub tid: u64,
}

impl Client {
    pub fn of(mut cluster: Cluster) -> Client {
        let session = cluster.connect(A);
        Client { cluster, session, tid: 0 }
    }

    pub fn new() -> Client {
        Client::of(Cluster::new(3))
    }

    pub fn ask(&mut self, ops: Vec<Op>) -> OsdOpReply {
        self.tid += 1;
        let tid = self.tid;
        self.cluster.ask_all(A, self.session, tid, ops);
        self.cluster.settle();
        let at = self.cluster.answers.iter().position(|answer| answer.tid == tid).expect("it is answered");
        self.cluster.answers.remove(at).reply
    }

    pub fn result(&mut self, ops: Vec<Op>) -> i32 {
        self.ask(ops).result
    }
}

fn entries(keys: &[&'static str], value_bytes: usize) -> BTreeMap<Bytes, Bytes> {
    keys.iter().map(|key| (Bytes::from_static(key.as_bytes()), vec![b'v'; value_bytes].into())).collect()
}

fn by_keys(keys: &[&'static str]) -> Op {
    Op::omap_get_vals_by_keys(&keys.iter().map(|key| Bytes::from_static(key.as_bytes())).collect::<BTreeSet<_>>())
}

#[test]
fn what_one_operation_reads_is_bounded() {
    const LIMIT: u64 = 100_000;
    const TOO_MUCH: i32 = -90;
    let clusters = [
        Cluster::limited(3, 7, Limits { op_bytes: LIMIT as usize, ..Limits::default() }),
        Cluster::coded_limited(7, Limits { op_bytes: LIMIT as usize, ..Limits::default() }),
    ];
    for mut client in clusters.map(Client::of) {
        assert_eq!(client.result(vec![Op::write_full(vec![b'x'; 60_000])]), 0);
        assert_eq!(client.result(vec![Op::set_xattr(b"large", &[b'a'; 50_000])]), 0);
        let whole = || Op::read(0, 0);
        assert_eq!(client.result(vec![whole()]), 0);
        let reply = client.ask(vec![whole(), Op::read(0, LIMIT - 60_000)]);
        assert_eq!((reply.result, reply.ops[1].outdata.len()), (0, 40_000));
        assert_eq!(client.result(vec![whole(), Op::read(0, LIMIT - 60_000 + 1)]), TOO_MUCH);
        assert_eq!(client.result(vec![whole(), Op::sparse_read(0, 60_000)]), TOO_MUCH);
        assert_eq!(client.result(vec![whole(), Op::get_xattr(b"large")]), TOO_MUCH);
        assert_eq!(client.result(vec![whole(), Op::get_xattrs()]), TOO_MUCH);
        assert_eq!(client.result(vec![Op::get_xattrs(); 3]), TOO_MUCH);
        assert_eq!(client.result(vec![whole(); 40]), TOO_MUCH);
        // A step that may fail leaves the rest what it is.
        let mut may_fail = whole();
        may_fail.flags |= op_flag::FAILOK;
        let reply = client.ask(vec![whole(), may_fail, Op::read(0, 5)]);
        assert_eq!(
            (reply.result, reply.ops[1].result, reply.ops[2].outdata.to_vec()),
            (0, TOO_MUCH, b"xxxxx".to_vec())
        );
        assert_eq!(client.cluster.client_bytes(A), 0);
    }
}

#[test]
fn what_one_operation_reads_of_an_omap_is_bounded() {
    let limits = Limits { op_bytes: 120_000, ..Limits::default() };
    let mut client = Client::of(Cluster::limited(3, 7, limits));
    let keys = ["a", "b", "c", "d"];
    assert_eq!(client.result(vec![Op::omap_set_vals(&entries(&keys, 9_000))]), 0);
    // No operation of these limits can set it.
    let object = ObjectId::head(POOL, HASH, b"", OBJECT);
    let large = entries(&["large"], 200_000).into_iter().collect();
    client.cluster.change_store(A, vec![store::Step::OmapSet { object, entries: large }]);
    assert_eq!(client.result(vec![by_keys(&keys[..2])]), 0);
    assert_eq!(client.result(vec![by_keys(&keys[..3])]), Errno::EMSGSIZE.as_result());
    assert_eq!(client.result(vec![by_keys(&keys[..1]); 3]), Errno::EMSGSIZE.as_result());
    assert_eq!(client.result(vec![by_keys(&["large"])]), 0, "one value alone can be had");
    let page = |after: &'static str| Op::omap_get_vals(Bytes::from_static(after.as_bytes()), 10, Bytes::new());
    let count = |client: &mut Client, after| {
        let reply = client.ask(vec![page(after)]);
        let out = reply.ops[0].outdata.to_vec();
        (reply.result, out[0], out[out.len() - 1] == 1)
    };
    assert_eq!(count(&mut client, ""), (0, 2, true));
    assert_eq!(count(&mut client, "b"), (0, 2, true));
    assert_eq!(count(&mut client, "d"), (0, 1, true));
    assert_eq!(count(&mut client, "large"), (0, 0, false));
    assert_eq!(client.result(vec![page("d"), page("")]), Errno::EMSGSIZE.as_result());
    assert_eq!(client.cluster.client_bytes(A), 0);
}

#[test]
fn what_an_operation_reads_counts_until_it_is_answered() {
    let mut client = Client::new();
    assert_eq!(client.result(vec![Op::write(0, vec![b'x'; 8000])]), 0);
    client.cluster.stuck_disks = [A].into();
    client.cluster.ask_all(A, client.session, 99, vec![Op::call_method("hello", "replay", b"")]);
    client.cluster.settle();
    let held = client.cluster.client_bytes(A);
    assert!(client.cluster.answers.is_empty() && held > 1600, "{held} are held");
    client.cluster.stuck_disks.clear();
    client.cluster.settle();
    assert_eq!((client.cluster.answers.len(), client.cluster.client_bytes(A)), (1, 0));
}

#[test]
fn keys_that_are_too_long_are_refused_before_anybody_has_them() {
    let mut client = Client::new();
    let key = |bytes: usize| Bytes::from(vec![b'k'; bytes]);
    let set = |bytes| Op::omap_set_vals(&[(key(bytes), Bytes::from_static(b"value"))].into());
    let too_long = store::OMAP_KEY_BYTES_MAX + 1;
    assert_eq!(client.result(vec![set(too_long - 1)]), 0);
    let reply = client.ask(vec![Op::create(false), set(too_long)]);
    assert_eq!((reply.result, reply.ops[1].result), (Errno::ENAMETOOLONG.as_result(), Errno::ENAMETOOLONG.as_result()));
    assert_eq!(client.result(vec![Op::omap_rm_key_range(key(1), key(too_long))]), Errno::ENAMETOOLONG.as_result());
    assert_eq!(client.result(vec![Op::omap_rm_keys(&[key(too_long), key(too_long - 1)].into())]), 0);
    let listed = client.ask(vec![Op::omap_get_keys(Bytes::new(), 10)]);
    assert_eq!((listed.result, listed.ops[0].outdata.to_vec()), (0, vec![0; 5]));
    assert_eq!(client.result(vec![Op::omap_get_vals_by_keys(&[key(too_long)].into())]), 0);
}

#[test]
fn attributes_that_are_no_numbers_compare_as_what_they_begin_with() {
    const EQUAL: u8 = 1;
    let mut client = Client::new();
    assert_eq!(client.result(vec![Op::set_xattr(b"bad", b"abc"), Op::set_xattr(b"some", b"12 apples")]), 0);
    assert_eq!(client.result(vec![Op::cmp_xattr_u64(b"bad", 0, EQUAL)]), 1);
    assert_eq!(client.result(vec![Op::cmp_xattr_u64(b"bad", 9, EQUAL)]), Errno::ECANCELED.as_result());
    assert_eq!(client.result(vec![Op::cmp_xattr_u64(b"some", 12, EQUAL)]), 1);
}

#[test]
fn steps_of_updates_tell_what_they_gave() {
    let mut client = Client::new();
    let ops = vec![Op::call_method("hello", "write_return_data", b""), Op::set_xattr(b"a", b"b")];
    let reply = client.ask(ops);
    let steps: Vec<(i32, usize)> = reply.ops.iter().map(|op| (op.result, op.outdata.len())).collect();
    assert_eq!((reply.result, steps), (0, vec![(42, 0), (0, 0)]));
}

#[test]
fn a_sparse_read_of_nothing_gives_nothing() {
    for mut client in [Cluster::new(3), Cluster::coded(7)].map(Client::of) {
        assert_eq!(client.result(vec![Op::write_full(&b"some text"[..])]), 0);
        let reply = client.ask(vec![Op::sparse_read(0, 0), Op::read(0, 0)]);
        assert_eq!((reply.result, reply.ops[0].outdata.to_vec()), (0, vec![0; 8]));
        assert_eq!(reply.ops[1].outdata.to_vec(), b"some text");
    }
}

#[test]
fn listings_are_filtered_by_an_attribute() {
    for mut client in [Cluster::new(3), Cluster::coded(7)].map(Client::of) {
        let names: Vec<String> = (0..30).map(|number| format!("object-{number}")).collect();
        for (hash, name) in names.iter().enumerate() {
            let colour: &[u8] = if hash % 3 == 0 { b"blue" } else { b"red" };
            client.tid += 1;
            let object = (hash as u32, name.as_bytes());
            let epoch = client.cluster.map.epoch;
            client.cluster.ask_of(A, client.session, client.tid, epoch, 0, object, Op::set_xattr(b"colour", colour));
        }
        client.cluster.settle();
        let mut list = |attr: &'static [u8], value: &'static [u8], count: u64, pages_max: usize| {
            let mut cursor = types::ObjectId::min();
            let mut found = 0;
            for _ in 0..pages_max {
                let (xattr, value) = (Bytes::from_static(attr), Bytes::from_static(value));
                let input = FilteredListInput { xattr, value, cursor }.to_vec(Target::default());
                let args = OpArgs::PgLs { count, start_epoch: 0 };
                let reply = client.ask(vec![Op::new(OpCode::PGNLS_FILTER, args, input)]);
                let page = ObjectListing::from_slice(&reply.ops[0].outdata.to_vec()).unwrap();
                assert!(reply.result >= 0 && page.objects.len() as u64 <= count);
                found += page.objects.len();
                if reply.result == 1 {
                    return found;
                }
                cursor = page.next;
            }
            panic!("the listing never ends");
        };
        assert_eq!(list(b"_colour", b"blue", 100, 1), 10);
        assert_eq!(list(b"_colour", b"red", 7, 3), 20);
        assert_eq!(list(b"_colour", b"re", 7, 1), 0);
        assert_eq!(list(b"_other", b"", 7, 1), 0);
        assert_eq!(list(b"colour", b"red", 7, 1), 0, "clients name an attribute as a Ceph stores it");
        let mut unknown = Vec::new();
        for word in ["pg", "filter", "bogus"] {
            unknown.extend((word.len() as u32).to_le_bytes());
            unknown.extend(word.as_bytes());
        }
        let args = OpArgs::PgLs { count: 10, start_epoch: 0 };
        assert_eq!(client.result(vec![Op::new(OpCode::PGNLS_FILTER, args, unknown)]), Errno::EINVAL.as_result());
    }
}

#[test]
fn what_pools_without_tiers_have_none_of_is_listed_as_nothing() {
    let mut client = Client::new();
    let reply = client.ask(vec![Op::new(OpCode::PG_HITSET_LS, OpArgs::None, Vec::new())]);
    assert_eq!((reply.result, reply.ops[0].outdata.to_vec()), (0, vec![0; 4]));
    assert_eq!(
        client.result(vec![Op::new(
            OpCode::PG_HITSET_GET,
            OpArgs::HitSetGet { stamp: Default::default() },
            Vec::new()
        )]),
        Errno::ENOENT.as_result()
    );
}

#[test]
fn nothing_but_the_states_of_an_object_is_asked_for_at_their_list() {
    let mut client = Client::new();
    assert_eq!(client.result(vec![Op::write_full(&b"text"[..])]), 0);
    assert_eq!(client.result(vec![Op::list_snaps()]), -22, "states are listed at a place of their own");
    client.cluster.snap = types::SnapId::DIR;
    assert_eq!(client.result(vec![Op::list_snaps()]), 0);
    for op in [Op::read(0, 0), Op::stat()] {
        assert_eq!(client.result(vec![op]), Errno::EINVAL.as_result());
    }
}

#[test]
fn attributes_of_an_object_are_bounded_together() {
    let mut client = Client::of(Cluster::limited(3, 7, Limits { attrs_bytes: 1000, ..Limits::default() }));
    let set = |name: &str, bytes: usize| Op::set_xattr(name.as_bytes(), &vec![b'v'; bytes]);
    let too_large = Errno::EFBIG.as_result();
    assert_eq!(client.result(vec![set("a", 600), set("b", 400)]), 0);
    assert_eq!(client.result(vec![set("c", 1)]), too_large);
    // A value that is replaced, or removed before, does not count.
    assert_eq!(client.result(vec![set("a", 599), set("c", 1)]), 0);
    assert_eq!(client.result(vec![set("b", 401)]), too_large);
    assert_eq!(client.result(vec![Op::rm_xattr(b"b"), set("d", 400)]), 0);
    assert_eq!(client.result(vec![set("d", 300), set("e", 101)]), too_large);
}
