//! Lookups see submitted transactions before these are durable.

use super::harness::{Bench, KIB, PG, object, read, txn, write};
use crate::metadata::jobs::CopyRules;
use crate::{OBJECT_BYTES_MAX, PG_KEYS_END, Step, SubmitError};
use bytes::Bytes;
use types::{ObjectId, PgId};

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn random_histories_equal_the_model() {
    for seed in 0..30 {
        let mut bench = Bench::new(seed);
        (0..150).for_each(|_| bench.turn());
        bench.settle();
        bench.check_all();
        let (_, _, at) = bench.reopen(bench.device.after_kill(&mut || 0));
        assert_eq!(at, 0, "all is committed");
    }
}

#[test]
fn extents_are_the_allocated_ranges() {
    let mut bench = Bench::new(1);
    let check = |bench: &mut Bench, offset, len, expected: &[(u64, u64)]| {
        assert_eq!(bench.ask(|store| store.extents(&object(1), offset, len)), expected);
    };
    check(&mut bench, 0, u64::MAX, &[]);
    bench
        .submit(txn(vec![
            write(1, 8 * KIB, vec![1; 4096]),
            write(1, 12 * KIB, vec![2; 100]),
            write(1, 40 * KIB, vec![3; 10]),
        ]))
        .unwrap();
    check(&mut bench, 0, u64::MAX, &[(8 * KIB, 8 * KIB), (40 * KIB, 10)]);
    check(&mut bench, 9 * KIB, 4 * KIB, &[(9 * KIB, 4 * KIB)]);
    check(&mut bench, 16 * KIB, 24 * KIB, &[]);
    bench.submit(txn(vec![Step::Zero { object: object(1), offset: 8 * KIB, len: 4 * KIB }])).unwrap();
    check(&mut bench, 0, u64::MAX, &[(12 * KIB, 4 * KIB), (40 * KIB, 10)]);
    bench.submit(txn(vec![Step::Zero { object: object(1), offset: 39 * KIB, len: u64::MAX }])).unwrap();
    check(&mut bench, 0, u64::MAX, &[(12 * KIB, 4 * KIB)]);
    let size = bench.ask(|store| store.stat(&object(1))).unwrap().size_bytes;
    assert_eq!(size, 40 * KIB + 10, "zeroing never changes the size");
}

#[test]
fn omap_pages_begin_behind_a_key_and_keep_to_a_prefix() {
    let mut bench = Bench::new(1);
    let keys = ["", "a", "a\0", "aa", "b", "b1", "b2", "c"];
    let entries = keys.iter().map(|key| (bytes(key), bytes(&format!("<{key}>")))).collect();
    bench.submit(txn(vec![Step::OmapSet { object: object(1), entries }])).unwrap();
    let mut check = |after: &str, prefix: &str, max, expected: &[&str], more| {
        let (page, found_more) =
            bench.ask(|store| store.omap_list(&object(1), after.as_bytes(), prefix.as_bytes(), max));
        assert!(page.iter().all(|(key, value)| value == format!("<{}>", String::from_utf8_lossy(key)).as_bytes()));
        let found: Vec<Bytes> = page.into_iter().map(|(key, _)| key).collect();
        assert_eq!(
            (found, found_more),
            (expected.iter().map(|key| bytes(key)).collect(), more),
            "{after:?} {prefix:?}"
        );
    };
    check("", "", 3, &["", "a", "a\0"], true);
    check("a", "", 2, &["a\0", "aa"], true);
    check("aa", "", 9, &["b", "b1", "b2", "c"], false);
    check("", "b", 9, &["b", "b1", "b2"], false);
    check("b1", "b", 9, &["b2"], false);
    check("a", "b", 1, &["b"], true);
    check("c", "b", 9, &[], false);
    check("zz", "", 9, &[], false);
    let found = bench.ask(|store| store.omap_get(&object(1), &[bytes("c"), bytes("x"), bytes("a")], usize::MAX));
    assert_eq!(found.unwrap(), [(bytes("c"), bytes("<c>")), (bytes("a"), bytes("<a>"))]);
    assert_eq!(bench.ask(|store| store.omap_list(&object(2), b"", b"", 9)), (vec![], false));
}

#[test]
fn answers_about_an_omap_keep_to_their_bytes() {
    const LARGE: usize = 100_000;
    let mut bench = Bench::new(3);
    let large = |key: &str| (bytes(key), bytes(&"v".repeat(LARGE)));
    let entries = vec![large(""), large("a"), large("b"), (bytes("c"), bytes("small"))];
    bench.submit(txn(vec![Step::OmapSet { object: object(1), entries }])).unwrap();
    for round in ["in memory", "from the device"] {
        let mut page = |after: &str, max, bytes_max| {
            let (page, more) = bench.ask(|store| store.omap_page(&object(1), after.as_bytes(), b"", (max, bytes_max)));
            (page.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>().join(","), more)
        };
        assert_eq!(page("", 9, 1), (",a".to_owned(), true), "{round}: behind the empty key nobody can go on");
        assert_eq!(page("", 9, 3 * LARGE + 35), (",a,b".to_owned(), true), "{round}");
        assert_eq!(page("a", 9, 1), ("b".to_owned(), true), "{round}");
        assert_eq!(page("a", 1, LARGE + 1), ("b".to_owned(), true), "{round}");
        assert_eq!(page("a", 9, LARGE + 99), ("b,c".to_owned(), false), "{round}");
        assert_eq!(page("c", 9, 0), (String::new(), false), "{round}");
        let mut count = |keys: &[&str], bytes_max| {
            let keys: Vec<Bytes> = keys.iter().map(|key| bytes(key)).collect();
            bench.ask(|store| store.omap_get(&object(1), &keys, bytes_max)).map(|found| found.len())
        };
        assert_eq!(count(&["a", "b", "x"], 2 * LARGE), Some(2), "{round}");
        assert_eq!(count(&["a", "c", "b"], 2 * LARGE), None, "{round}");
        bench.settle();
        bench.store.checkpoint();
        bench.settle();
    }
}

#[test]
fn objects_are_listed_in_their_order_and_by_page() {
    let mut bench = Bench::new(1);
    let mut all: Vec<ObjectId> = (0..50).map(object).collect();
    bench.submit(txn(all.iter().map(|object| Step::Touch { object: object.clone() }).collect())).unwrap();
    all.sort();
    assert_eq!(bench.ask(|store| store.list(&ObjectId::min(), &ObjectId::max(), 99)), all);
    assert_eq!(bench.ask(|store| store.list(&all[10], &all[20], 99)), all[10..20]);
    assert_eq!(bench.ask(|store| store.list(&all[10], &ObjectId::max(), 5)), all[10..15]);
    assert_eq!(bench.ask(|store| store.list(&all[10], &all[5], 5)), []);
}

#[test]
fn groups_are_those_with_anything_in_their_table() {
    let mut bench = Bench::new(1);
    let pgs = [PgId::new(-1, 7), PgId::new(0, 0), PgId::new(1, 0), PgId::new(1, u32::MAX), PgId::new(2, 5)];
    for pg in pgs {
        let steps = ["a", "b", "c"].map(|key| Step::PgSet { key: bytes(key), value: bytes("v") }).to_vec();
        bench.submit(crate::Transaction { pg, steps }).unwrap();
    }
    assert_eq!(bench.store.pgs(), pgs);
    assert!(bench.store.pgs_contain(pgs[1]) && !bench.store.pgs_contain(PgId::new(0, 1)));
    assert_eq!(
        bench.ask(|store| store.pg_list(pgs[3], b"b", b"z", 9)),
        [(bytes("b"), bytes("v")), (bytes("c"), bytes("v"))]
    );
    assert_eq!(bench.ask(|store| store.pg_get(pgs[3], b"b")), Some(bytes("v")));
    bench.submit(crate::Transaction { pg: pgs[2], steps: vec![Step::PgDestroy { pg_num: 4 }] }).unwrap();
    assert_eq!(bench.store.pgs(), [pgs[0], pgs[1], pgs[3], pgs[4]]);
    // A table that is removed as a whole is gone, unless something is put there again.
    let whole = || Step::PgRemoveRange { begin: Bytes::new(), end: PG_KEYS_END };
    bench.submit(crate::Transaction { pg: pgs[0], steps: vec![whole()] }).unwrap();
    let again = Step::PgSet { key: bytes("d"), value: bytes("w") };
    bench.submit(crate::Transaction { pg: pgs[1], steps: vec![whole(), again] }).unwrap();
    assert_eq!(bench.store.pgs(), [pgs[1], pgs[3], pgs[4]]);
    assert_eq!(bench.ask(|store| store.pg_list(pgs[0], b"", &PG_KEYS_END, 9)), []);
    assert_eq!(bench.ask(|store| store.pg_list(pgs[1], b"", &PG_KEYS_END, 9)), [(bytes("d"), bytes("w"))]);
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let mut bench = Bench::new(1);
    bench.submit(txn(vec![write(1, 0, "here"), Step::PgSet { key: bytes("k"), value: bytes("v") }])).unwrap();
    let mut check = |last: Step, expected: SubmitError| {
        let steps = vec![Step::Remove { object: object(1) }, Step::PgRemove { key: bytes("k") }, last];
        assert_eq!(bench.store.submit(txn(steps)), Err(expected));
        assert_eq!(bench.ask(|store| store.pg_get(PG, b"k")), Some(bytes("v")));
        assert_eq!(bench.ask(|store| store.stat(&object(1))).unwrap().size_bytes, 4);
    };
    let clone = |from| Step::Clone { from: object(from), to: object(3) };
    check(clone(1), SubmitError::CloneSource(object(1)));
    check(clone(2), SubmitError::CloneSource(object(2)));
    let end = OBJECT_BYTES_MAX + 1;
    let too_large = |what| SubmitError::ObjectTooLarge { what, object: object(1), end };
    check(write(1, OBJECT_BYTES_MAX, "x"), too_large("write"));
    check(Step::Truncate { object: object(1), size: end }, too_large("truncation"));
    check(Step::Touch { object: ObjectId::max() }, SubmitError::Cursor(ObjectId::max()));
    check(Step::Touch { object: ObjectId::min() }, SubmitError::Cursor(ObjectId::min()));
}

#[test]
fn a_clone_in_the_middle_of_partial_writes_keeps_both_sides_apart() {
    let mut bench = Bench::new(1);
    bench.submit(txn(vec![write(1, 0, vec![1; 10_000])])).unwrap();
    bench.settle();
    // A small object is cloned without waiting for a turn.
    bench.store.state.copy_rules = CopyRules::default();
    // The first write needs the old block from the device; all later ones build on blocks that are not made yet.
    bench.submit(txn(vec![write(1, 100, vec![2; 100])])).unwrap();
    bench.submit(txn(vec![Step::Clone { from: object(1), to: object(2) }, write(2, 150, vec![3; 100])])).unwrap();
    bench.submit(txn(vec![write(1, 300, vec![4; 100]), Step::Clone { from: object(1), to: object(3) }])).unwrap();
    bench.submit(txn(vec![Step::Remove { object: object(1) }])).unwrap();
    let expected = bench.model.objects[&object(3)].data.clone();
    let found = read(&mut bench.store, &mut bench.device, &object(3), 0, u64::MAX).unwrap();
    assert_eq!(found.to_vec(), *expected, "a read in the middle waits for the merges");
    bench.settle();
    bench.check_all();
    bench.reopen(bench.device.after_crash(&mut || 0));
}

#[test]
fn writes_up_to_the_largest_offset_are_kept() {
    let mut bench = Bench::new(1);
    let end = OBJECT_BYTES_MAX - 3000;
    bench.store.submit(txn(vec![write(1, end, vec![5; 3000])])).unwrap();
    assert_eq!(bench.ask(|store| store.extents(&object(1), 0, u64::MAX)), [(OBJECT_BYTES_MAX - 4096, 4096)]);
    bench.store.submit(txn(vec![Step::Zero { object: object(1), offset: 10, len: u64::MAX }])).unwrap();
    assert_eq!(bench.ask(|store| store.extents(&object(1), 0, u64::MAX)), []);
    assert!(bench.store.blocks_add_up());
}
