//! Clones of large objects: copied in slices first, in little memory, wholly or not at all.

use super::harness::{Bench, KIB, Random, config, object, txn, write};
use super::large::{BLOCKS, with_large_object};
use crate::btree::{Cursor, Fetch};
use crate::disk::key::{OMAP_PREFIX_BYTES, object_key, omap_key};
use crate::disk::tree_key::{TableId, parse_segment_key};
use crate::metadata::jobs::CopyRules;
use crate::{Memory, Step, StoreConfig, SubmitError};
use bytes::Bytes;
use std::collections::BTreeSet;

fn clone(from: u64, to: u64) -> Step {
    Step::Clone { from: object(from), to: object(to) }
}

fn entries(from: u32, count: u32) -> Vec<(Bytes, Bytes)> {
    (from..from + count).map(|n| (format!("key-{n:06}").into(), format!("value {n:012}").into())).collect()
}

impl Bench {
    /// Returns the keys in a table, without the table's number.
    fn keys_of(&mut self, table: TableId) -> Vec<Bytes> {
        let mut cursor = Cursor::new(&[table as u8], Some(&[table as u8 + 1]), false);
        let mut keys = Vec::new();
        loop {
            match cursor.next_page(&mut self.store.state.view(), 1000, usize::MAX).unwrap() {
                Fetch::Ready(page) => {
                    keys.extend(page.entries.into_iter().map(|(key, _)| key.slice(1..)));
                    if page.done {
                        return keys;
                    }
                }
                Fetch::Pending(_) => {
                    self.pump();
                    self.complete_some();
                    self.events();
                }
            }
        }
    }

    /// Checks that all metadata belongs to objects, so that nothing is left of copies.
    fn nothing_is_left_over(&mut self) {
        assert_eq!(self.keys_of(TableId::Copies), Vec::<Bytes>::new());
        let omaps: usize = self.model.objects.values().map(|object| object.omap.len()).sum();
        let found = self.keys_of(TableId::Omap);
        assert_eq!(found.len(), omaps, "{found:?}");
        let objects: BTreeSet<Vec<u8>> = self.model.objects.keys().map(|id| object_key(id).to_vec()).collect();
        for key in self.keys_of(TableId::Segments) {
            let (of, index) = parse_segment_key(&key).unwrap();
            assert!(objects.contains(of), "segment {index} of {of:x?}, which is not there");
        }
    }

    /// Goes on with the devices after a crash, whose fates come from `random`.
    fn crash(self, random: &mut Random) -> Bench {
        let (store, device, at) = self.reopen(self.device.after_crash(&mut || random.next()));
        let (config, model) = (self.config.clone(), self.history[at].2.clone());
        Bench::on(config, store, device, model, random.clone())
    }
}

#[test]
fn a_large_omap_is_cloned_in_the_memory_of_changes() {
    const KEYS: u32 = 30_000;
    let config = StoreConfig { device_bytes: 64 << 20, wal_bytes: 2 << 20, ..config() };
    let mut bench = Bench::with(config, 2);
    let memory = Memory { page_bytes: 48 << 10, onode_bytes: 4 << 10, overlay_bytes: 150 << 10 };
    bench.store.set_memory(memory);
    bench.store.state.copy_rules = CopyRules::default();
    for first in (0..KEYS).step_by(1000) {
        bench.store.submit(txn(vec![Step::OmapSet { object: object(1), entries: entries(first, 1000) }])).unwrap();
        bench.settle_unknown();
    }
    let header = Step::OmapSetHeader { object: object(1), header: "header".into() };
    bench.store.submit(txn(vec![write(1, 0, "bytes"), header])).unwrap();
    bench.store.checkpoint();
    bench.settle_unknown();
    let put_bytes = bench.store.usage().omap_bytes;
    let checkpoint = bench.store.log_state().checkpoint;
    // Later changes, of the same transaction or the next one, are in the source only.
    let new = |key: &'static str| Step::OmapSet { object: object(1), entries: vec![(key.into(), "new".into())] };
    bench.store.submit(txn(vec![clone(1, 2), new("key-000000")])).unwrap();
    bench
        .store
        .submit(txn(vec![new("key-000001"), Step::OmapRemove { object: object(1), keys: vec!["key-000002".into()] }]))
        .unwrap();
    let (mut turns, mut pages_max, mut changes_max) = (0, 0, 0);
    while bench.store.queue.last_of_object(&object_key(&object(2))).is_some() {
        bench.store.end_turn();
        bench.pump();
        bench.complete_some();
        while bench.store.poll_event().is_some() {}
        let taken = bench.store.memory().1;
        pages_max = pages_max.max(taken.page_bytes);
        changes_max = changes_max.max(taken.overlay_bytes + taken.onode_bytes);
        assert!(bench.store.state.omap_copies.is_empty());
        turns += 1;
    }
    // A cursor reads up to 64 pages ahead.
    assert!(pages_max < memory.page_bytes + (80 << 13), "{pages_max} bytes of pages");
    assert!(changes_max < 4 * memory.overlay_bytes, "{changes_max} bytes of changes");
    assert!(turns > KEYS / 400, "{turns} turns");
    assert!(bench.store.log_state().checkpoint > checkpoint + 5);
    bench.settle_unknown();
    assert!(bench.store.usage().omap_bytes > 2 * put_bytes - 100);
    let mut after = Bytes::new();
    let mut copied = Vec::new();
    loop {
        let (page, more) = bench.ask(|store| store.omap_list(&object(2), &after, b"", 1000));
        after = page.last().unwrap().0.clone();
        copied.extend(page);
        if !more {
            break;
        }
    }
    assert!(copied == entries(0, KEYS), "{} entries", copied.len());
    assert_eq!(bench.ask(|store| store.omap_header(&object(2))), "header");
    let keys: Vec<Bytes> = ["key-000000", "key-000001", "key-000002"].map(Bytes::from).to_vec();
    let found = bench.ask(|store| store.omap_get(&object(1), &keys, usize::MAX));
    assert_eq!(found.unwrap(), [(keys[0].clone(), "new".into()), (keys[1].clone(), "new".into())]);
    assert_eq!(bench.keys_of(TableId::Copies), Vec::<Bytes>::new());
}

#[test]
fn a_large_object_is_cloned_in_the_memory_of_changes() {
    for seed in 0..3 {
        let mut bench = with_large_object(seed, 24);
        bench.store.state.copy_rules = CopyRules::default();
        let data_bytes = bench.store.usage().data_bytes;
        bench.store.submit(txn(vec![clone(1, 2), write(2, 0, vec![77; 100])])).unwrap();
        let (mut turns, mut taken_max, mut crashes) = (0, 0, 0);
        while bench.store.queue.last_of_object(&object_key(&object(2))).is_some() {
            bench.store.end_turn();
            bench.pump();
            bench.complete_some();
            while bench.store.poll_event().is_some() {}
            let taken = bench.store.memory().1;
            taken_max = taken_max.max(taken.overlay_bytes + taken.onode_bytes);
            turns += 1;
            if turns % 50 == 20 {
                // Half a copy is no copy: it neither shows nor holds anything.
                let mut device = bench.device.after_crash(&mut || seed);
                let mut store = super::harness::open(&mut device, &bench.config).unwrap();
                assert_eq!(super::harness::ask(&mut store, &mut device, |store| store.stat(&object(2))), Ok(None));
                assert_eq!(store.usage().data_bytes, data_bytes);
                crashes += 1;
            }
        }
        assert!(taken_max < 1700 << 10, "{taken_max} bytes");
        assert!(turns > 60 && crashes > 0, "{turns} turns");
        bench.settle_unknown();
        let extents = |bench: &mut Bench, number| bench.ask(|store| store.extents(&object(number), 0, u64::MAX));
        let (one, other) = (extents(&mut bench, 1), extents(&mut bench, 2));
        assert!(one.len() == 24 * 1024 && other[0] == (0, 8192) && other[1..] == one[1..]);
        assert_eq!(bench.store.usage().data_bytes, data_bytes + 4096);
        for (number, left) in [(1, data_bytes + 4096), (2, 0)] {
            bench.store.submit(txn(vec![Step::Remove { object: object(number) }])).unwrap();
            bench.settle_unknown();
            assert_eq!(bench.store.usage().data_bytes, left);
        }
        assert!(data_bytes == BLOCKS * 4096 && bench.store.blocks_add_up());
    }
}

/// Crashes at any time while things are copied. Some crashes happen, and their remains are gone before anything else is
/// there.
#[test]
fn a_crash_while_something_is_copied_leaves_all_of_it_or_nothing() {
    let mut crashes = 0;
    for seed in 0..30u64 {
        let mut random = Random::new(seed + 7000);
        let mut bench = Bench::with(StoreConfig { device_bytes: 8 << 20, ..config() }, seed);
        let rules = |seed: u64| CopyRules {
            at_once_segments: 0,
            slice_entries: 1 + (seed % 3) as usize,
            replayed_bytes: [0, 300, 1 << 20][(seed / 3 % 3) as usize],
        };
        bench.store.state.copy_rules = rules(seed);
        for round in 0..6 {
            let [from, to] = [1 + random.below(3), 4 + random.below(3)];
            let behind = write(to, random.below(400 * KIB), vec![round as u8; 3000]);
            let set = Step::OmapSet { object: object(from), entries: entries(random.below(50) as u32, 8) };
            let steps = vec![
                vec![write(from, random.below(500 * KIB), vec![round as u8; 9000]), set],
                vec![Step::Remove { object: object(to) }],
                match random.below(3) {
                    0 => vec![clone(from, to)],
                    1 => vec![clone(from, to), behind],
                    _ => vec![clone(from, to), Step::OmapSet { object: object(from), entries: entries(3, 1) }],
                },
            ];
            for steps in steps {
                match bench.submit(txn(steps)) {
                    Ok(_) | Err(SubmitError::NoSpace { .. } | SubmitError::CloneSource(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            if random.chance(4) {
                bench.store.checkpoint();
            }
            let mut turns = 0;
            while bench.history.len() > 1 || turns == 0 {
                bench.store.end_turn();
                bench.pump();
                for _ in 0..random.below(4) {
                    bench.complete_some();
                }
                bench.events();
                if bench.store.copies.is_some() && random.chance(3) {
                    crashes += 1;
                    let happens = random.chance(8);
                    let device = bench.device.after_crash(&mut || random.next());
                    bench.reopen(device);
                    if happens {
                        bench = bench.crash(&mut random);
                        bench.store.state.copy_rules = rules(seed + 1);
                        // New content is not mixed up with the remains.
                        let number = 4 + random.below(3);
                        let _ = bench.submit(txn(vec![write(number, 200 * KIB, vec![9; 5000])]));
                    }
                }
                turns += 1;
                assert!(turns < 20_000);
            }
        }
        bench.settle();
        bench.check_all();
        bench.nothing_is_left_over();
        let mut bench = bench.crash(&mut random);
        bench.settle();
        bench.check_all();
        bench.nothing_is_left_over();
    }
    assert!(crashes > 200, "{crashes}");
}

#[test]
fn transactions_that_change_before_they_clone_copy_what_they_changed() {
    for seed in 0..4 {
        let mut bench = Bench::new(seed);
        bench.store.state.copy_rules.at_once_segments = 0;
        let set = |number, first| Step::OmapSet { object: object(number), entries: entries(first, 5) };
        bench.submit(txn(vec![write(1, 0, vec![1; 9000]), set(1, 0)])).unwrap();
        bench.store.checkpoint();
        bench.settle();
        bench.submit(txn(vec![set(1, 10), write(1, 5000, vec![2; 9000]), clone(1, 2), set(1, 20)])).unwrap();
        bench.submit(txn(vec![clone(1, 3), clone(3, 4), set(3, 30), clone(4, 4)])).unwrap();
        bench.submit(txn(vec![clone(1, 5), clone(5, 5), write(5, 100, vec![3; 20])])).unwrap();
        bench.submit(txn(vec![clone(5, 1), Step::Remove { object: object(5) }, clone(2, 5)])).unwrap();
        bench.settle();
        bench.check_all();
        bench.nothing_is_left_over();
        let mut bench = bench.crash(&mut Random::new(seed));
        bench.settle();
        bench.check_all();
        bench.nothing_is_left_over();
    }
}

/// The copies' ids are given before the transaction's steps are applied, in a replay too.
#[test]
fn omaps_that_a_transaction_makes_before_it_clones_are_not_mixed_with_the_copies() {
    for rules in 0..4u64 {
        let mut bench = Bench::new(rules);
        let replayed_bytes = (rules % 2) * 1000;
        bench.store.state.copy_rules = CopyRules { at_once_segments: 0, slice_entries: 2, replayed_bytes };
        let set = |number, first| Step::OmapSet { object: object(number), entries: entries(first, 5) };
        bench.submit(txn(vec![set(1, 0), set(2, 10)])).unwrap();
        bench.settle();
        if rules < 2 {
            bench.store.checkpoint();
            bench.settle();
        }
        bench.submit(txn(vec![set(3, 20), clone(1, 4), set(5, 30), clone(2, 6), set(7, 40)])).unwrap();
        bench.submit(txn(vec![set(8, 50), Step::OmapClear { object: object(5) }])).unwrap();
        bench.settle();
        let mut bench = bench.crash(&mut Random::new(rules));
        bench.submit(txn(vec![set(9, 60)])).unwrap();
        bench.settle();
        bench.check_all();
        bench.nothing_is_left_over();
    }
}

#[test]
fn what_names_a_copy_has_a_key_of_its_length() {
    let of = crate::disk::copies::CopyOf { to: object_key(&object(1)), id: 0x1234, segments: true };
    let key = omap_key(of.id, &[]);
    assert_eq!(key.len(), OMAP_PREFIX_BYTES);
    let entry = [&[1, 1][..], &of.to].concat();
    assert_eq!(crate::disk::copies::CopyOf::decode(&key, &entry), Ok(of));
    for (key, entry) in
        [(&key[1..], &entry[..]), (&key, &entry[..9]), (&key, &[]), (&key, &[&[3], &entry[1..]].concat())]
    {
        assert!(crate::disk::copies::CopyOf::decode(key, entry).is_err());
    }
}

/// The space set aside for the copy of an omap is that of this omap, not of all omaps.
#[test]
fn a_small_omap_is_cloned_beside_a_large_one_on_a_nearly_full_store() {
    let config = StoreConfig { device_bytes: 64 << 20, wal_bytes: 2 << 20, ..config() };
    let mut bench = Bench::with(config, 3);
    bench.store.set_memory(Memory::default());
    let large = |bench: &mut Bench, first| {
        let step = Step::OmapSet { object: object(1), entries: entries(first, 2000) };
        bench.store.submit(txn(vec![step])).unwrap();
        bench.settle_unknown();
    };
    (0..40).for_each(|n| large(&mut bench, n * 2000));
    bench.store.submit(txn(vec![Step::OmapSet { object: object(2), entries: entries(0, 100) }])).unwrap();
    bench.store.checkpoint();
    bench.settle_unknown();
    let omap_bytes = bench.store.usage().omap_bytes;
    let mut number = 10;
    while bench.store.usage().free_bytes > 2 * omap_bytes {
        bench.store.submit(txn(vec![write(number, 0, vec![1; 1 << 19])])).unwrap();
        bench.settle_unknown();
        number += 1;
    }
    bench.store.checkpoint();
    bench.settle_unknown();
    for from in [1, 2] {
        // This makes the source's size known.
        bench.ask(|store| store.stat(&object(from)));
    }
    let refused = bench.store.submit(txn(vec![clone(1, 3)]));
    assert!(matches!(refused, Err(SubmitError::NoSpace { .. })), "{refused:?}");
    bench.store.submit(txn(vec![clone(2, 4)])).unwrap();
    bench.settle_unknown();
    let (copied, _) = bench.ask(|store| store.omap_list(&object(4), b"", b"", usize::MAX));
    assert_eq!(copied, entries(0, 100));
    assert!(bench.store.blocks_add_up());
}

/// A clone is made at the first write behind a snapshot: it must cost little besides that.
#[test]
fn a_clone_of_4_mib_takes_less_than_8_kib_of_metadata() {
    let config = StoreConfig { device_bytes: 64 << 20, wal_bytes: 2 << 20, ..config() };
    let mut bench = Bench::with(config, 4);
    bench.store.set_memory(Memory::default());
    bench.store.state.copy_rules = CopyRules::default();
    bench.submit(txn(vec![write(1, 0, vec![7; 4 << 20])])).unwrap();
    bench.store.checkpoint();
    bench.settle();
    let log = bench.store.wal.used_bytes();
    bench.submit(txn(vec![clone(1, 2)])).unwrap();
    bench.settle();
    let (changes, bytes) = bench.store.state.overlay.unmerged();
    assert_eq!((changes, bench.store.wal.used_bytes() - log), (33, 4096), "a record, and 32 of 128 KiB");
    assert!(bytes < 8 << 10, "{bytes} bytes");
    // The blocks are scattered as much as possible.
    for n in 0..1024 {
        bench.submit(txn(vec![write(1, n * 389 % 1024 * 4096, vec![n as u8; 4096])])).unwrap();
        if n % 16 == 0 {
            bench.settle();
        }
    }
    bench.store.checkpoint();
    bench.settle();
    bench.submit(txn(vec![clone(1, 3)])).unwrap();
    bench.settle();
    let (changes, bytes) = bench.store.state.overlay.unmerged();
    assert!(changes == 33 && bytes < 16 << 10, "{changes} changes with {bytes} bytes");
}
