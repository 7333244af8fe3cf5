//! Large things go in slices: they are gone at once for all lookups, and their content is found bit by bit.

use super::harness::{Bench, KIB, config, object, ready, txn, write};
use super::model::ModelObject;
use crate::{Lookup, Memory, Step, StoreConfig, Transaction};
use bytes::Bytes;

use types::{ObjectId, PgId};

const PIECE: u64 = 128 << 20;
const SEGMENT: u64 = 128 * KIB;
/// Blocks that the large object holds, each of them many times.
pub const BLOCKS: u64 = 8;

/// Makes a store with little memory, on which object 1 has this many pieces of 1024 segments. The model does not know
/// it.
pub fn with_large_object(seed: u64, pieces: u64) -> Bench {
    let config = StoreConfig { device_bytes: 32 << 20, wal_bytes: 512 * KIB, ..config() };
    let mut bench = Bench::with(config, seed);
    bench.store.state.segments_at_once = 100;
    bench.store.set_memory(Memory { page_bytes: 200 << 10, onode_bytes: 100 << 10, overlay_bytes: 400 << 10 });
    let mut put = |step: Step| {
        bench.store.submit(txn(vec![step])).unwrap();
        bench.settle_unknown();
    };
    for at in 0..BLOCKS {
        put(write(1, at * SEGMENT + 4096, vec![at as u8 + 1; 4096]));
    }
    let clone = |length: u64, target_offset: u64| Step::CloneRange {
        source: object(1),
        target: object(1),
        source_offset: 0,
        length,
        target_offset,
    };
    put(Step::Truncate { object: object(1), size: BLOCKS * SEGMENT });
    let mut size = BLOCKS * SEGMENT;
    while size < PIECE {
        put(clone(size, size));
        size *= 2;
    }
    // The pieces lie far from each other.
    (1..pieces).for_each(|piece| put(clone(PIECE, piece * 8 * PIECE)));
    bench.history.clear();
    bench.history.push_back((
        crate::Ticket(bench.store.turns.last_ticket()),
        bench.model.digest(),
        bench.model.clone(),
    ));
    assert_eq!(bench.store.usage().data_bytes, BLOCKS * 4096);
    bench
}

impl Bench {
    /// Does [`Bench::settle`] after transactions that the model does not know.
    pub fn settle_unknown(&mut self) {
        while !self.store.is_idle() {
            self.store.end_turn();
            self.pump();
            while self.device.queued() > 0 {
                self.complete_some();
            }
            while let Some(event) = self.store.poll_event() {
                assert!(!matches!(event, crate::StoreEvent::Failed { .. }), "{event:?}");
            }
        }
    }
}

#[test]
fn a_large_object_is_gone_at_once_and_its_name_is_free() {
    for seed in 0..4 {
        let mut bench = with_large_object(seed, 24);
        bench.submit(txn(vec![Step::Remove { object: object(1) }])).unwrap();
        bench.submit(txn(vec![write(1, SEGMENT, vec![9; 9000])])).unwrap();
        while bench.history.len() > 1 {
            bench.turn_without_steps();
        }
        let (mut turns, mut meanwhile) = (0, 0);
        let checkpoint = bench.store.log_state().checkpoint;
        bench.store.checkpoint();
        while !bench.store.state.destroying.is_empty() || turns == 0 {
            turns += 1;
            if turns % 3 == 0 {
                bench.submit(txn(vec![write(2 + turns % 7, 0, vec![turns as u8; 3000])])).unwrap();
            }
            bench.turn_without_steps();
            if turns % 10 == 0 {
                let size = bench.ask(|store| store.stat(&object(1))).unwrap().size_bytes;
                assert_eq!(size, SEGMENT + 9000);
                // The free blocks after a crash do not depend on the progress of this job.
                let (store, ..) = bench.reopen(bench.device.after_crash(&mut || 0));
                assert!(store.usage().data_bytes <= (3 + 7) * 4096, "{}", store.usage().data_bytes);
            }
            meanwhile = bench.store.log_state().checkpoint - checkpoint;
            assert!(turns < 100_000);
        }
        assert!(turns > 21, "{turns} turns for 24,576 segments");
        assert!(meanwhile > 0, "no checkpoint is made meanwhile");
        bench.settle();
        bench.check_all();
        bench.store.checkpoint();
        bench.settle();
        assert_eq!(bench.store.metadata.held_blocks(), 0);
        assert_eq!(bench.store.usage().data_bytes, (3 + 7) * 4096);
        bench.reopen(bench.device.after_kill(&mut || 0));
    }
}

impl Bench {
    fn turn_without_steps(&mut self) {
        self.store.end_turn();
        self.pump();
        for _ in 0..self.random.below(12) {
            self.complete_some();
        }
        self.events();
    }
}

#[test]
fn large_parts_of_objects_go_in_slices() {
    for seed in 0..6 {
        let mut bench = with_large_object(seed, 6);
        let size = 5 * 8 * PIECE + PIECE;
        let kept = 3 * SEGMENT + 5000;
        let steps = match seed % 3 {
            0 => vec![Step::Truncate { object: object(1), size: kept }],
            1 => vec![Step::Zero { object: object(1), offset: kept, len: size }],
            _ => vec![
                write(1, 2 * size, vec![7; 100]),
                Step::Zero { object: object(1), offset: kept, len: 2 * size - 5000 },
                Step::Truncate { object: object(1), size: kept + 100 },
            ],
        };
        bench.store.submit(txn(steps)).unwrap();
        let check = |bench: &mut Bench| {
            let found = bench.ask(|store| store.extents(&object(1), 0, u64::MAX));
            let expected: Vec<(u64, u64)> =
                (0..4).map(|at| (at * SEGMENT + 4096, if at == 3 { kept % SEGMENT - 4096 } else { 4096 })).collect();
            assert_eq!(found[..3], expected[..3]);
            assert!(found.len() == 4 && found[3].0 == expected[3].0 && found[3].1 <= 4096, "{found:?}");
        };
        check(&mut bench);
        let mut sliced = false;
        while !bench.store.is_idle() {
            sliced |= !bench.store.state.destroying.is_empty();
            bench.store.end_turn();
            bench.pump();
            bench.complete_some();
            while bench.store.poll_event().is_some() {}
        }
        assert!(sliced);
        check(&mut bench);
        // The first four segments are removed, one of which was made anew.
        assert_eq!(bench.store.usage().data_bytes, 4 * 4096);
        assert!(bench.store.blocks_add_up());
        bench.store.checkpoint();
        bench.settle_unknown();
        let device = bench.device.after_kill(&mut || 0);
        let mut device = device;
        let store = super::harness::open(&mut device, &bench.config).unwrap();
        assert_eq!(store.usage().data_bytes, 4 * 4096);
        assert!(store.blocks_add_up());
    }
}

/// Histories with objects of several segments, mostly lost bit by bit, and crashes at any time.
#[test]
fn histories_of_sparse_objects_equal_the_model() {
    for seed in 0..24 {
        let mut bench = Bench::with(StoreConfig { device_bytes: 8 << 20, ..config() }, seed);
        bench.span_bytes = 1 << 20;
        bench.store.state.segments_at_once = (seed % 3) as usize;
        for turn in 0..80 {
            if turn % 4 == 0 {
                let number = bench.random.below(bench.objects);
                let step = match bench.random.below(4) {
                    0 => Step::Truncate { object: object(number), size: bench.random.below(1 << 20) },
                    1 => Step::Zero { object: object(number), offset: bench.random.below(1 << 19), len: 1 << 19 },
                    2 => Step::Remove { object: object(number) },
                    _ => write(number, bench.random.below(1 << 20), vec![turn as u8; 5000]),
                };
                match bench.submit(txn(vec![step])) {
                    Ok(_) | Err(crate::SubmitError::NoSpace { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            bench.turn();
            if turn % 20 == 19 {
                bench.reopen(bench.device.after_crash(&mut || seed));
            }
        }
        bench.settle();
        bench.check_all();
        bench.reopen(bench.device.after_kill(&mut || 0));
    }
}

#[test]
fn a_group_with_changes_in_memory_is_destroyed_without_copying_them() {
    let mut bench = Bench::with(StoreConfig { device_bytes: 64 << 20, wal_bytes: 16 << 20, ..config() }, 2);
    bench.store.set_memory(Memory::default());
    for first in (0..20_000).step_by(500) {
        let steps = (first..first + 500).map(|n| Step::Touch { object: object(n) }).collect();
        bench.store.submit(txn(steps)).unwrap();
    }
    bench.settle_unknown();
    let before = bench.store.state.overlay.bytes();
    bench.store.submit(Transaction { pg: PgId::new(1, 0), steps: vec![Step::PgDestroy { pg_num: 1 }] }).unwrap();
    assert_eq!(bench.ask(|store| store.list(&ObjectId::min(), &ObjectId::max(), 10)), []);
    let after = bench.store.state.overlay.bytes();
    assert!(after.0 < before.0 / 100, "{after:?} of {before:?}");
    bench.settle_unknown();
    assert_eq!(bench.store.usage().objects, 0);
    assert!(bench.store.blocks_add_up());
}

/// Every page is read again each time, and something changes all the time; the answers still end.
#[test]
fn questions_of_many_pages_end_whatever_happens_meanwhile() {
    for seed in 0..4 {
        let mut bench = Bench::with(StoreConfig { device_bytes: 16 << 20, ..config() }, seed);
        let entries: Vec<(Bytes, Bytes)> =
            (0..3000).map(|n| (format!("key-{n:05}").into(), vec![n as u8; 60].into())).collect();
        for some in entries.chunks(300) {
            bench.submit(txn(vec![Step::OmapSet { object: object(0), entries: some.to_vec() }])).unwrap();
            bench.settle();
        }
        for first in (10..1010).step_by(100) {
            let attr = |n| Step::SetAttr { object: object(n), name: b"_".to_vec(), value: vec![1; 150].into() };
            bench.submit(txn((first..first + 100).map(attr).collect())).unwrap();
            bench.settle();
        }
        bench.store.checkpoint();
        bench.settle();
        bench.store.set_memory(Memory { page_bytes: 0, onode_bytes: 0, overlay_bytes: 200_000 });
        let keys: Vec<Bytes> = entries.iter().step_by(23).rev().map(|(key, _)| key.clone()).collect();
        let mut changes = 0;
        let mut change = |bench: &mut Bench| {
            changes += 1;
            let step = match changes % 4 {
                0 => Step::OmapSet {
                    object: object(0),
                    entries: vec![(keys[changes % keys.len()].clone(), "new".into())],
                },
                1 => Step::OmapRemove { object: object(0), keys: vec![entries[changes * 7 % 3000].0.clone()] },
                2 => Step::Touch { object: object(2000 + changes as u64) },
                _ => Step::Remove { object: object(10 + changes as u64 * 13 % 1000) },
            };
            let change = txn(vec![step]);
            bench.store.submit(change.clone()).unwrap();
            bench.model.apply(&change);
        };
        macro_rules! end {
            ($question:expr) => {{
                let mut asked = 0;
                loop {
                    asked += 1;
                    assert!(asked < 3000, "no end");
                    match $question(&mut bench.store) {
                        Lookup::Pending(_) => {}
                        answer => break ready(answer),
                    }
                    change(&mut bench);
                    for _ in 0..4 {
                        bench.store.end_turn();
                        bench.pump();
                        bench.complete_some();
                        while let Some(event) = bench.store.poll_event() {
                            assert!(!matches!(event, crate::StoreEvent::Failed { .. }), "{event:?}");
                        }
                    }
                }
            }};
        }
        let all = bench.model.clone();
        let found: Vec<ObjectId> = end!(|store: &mut crate::Store| store.list(&ObjectId::min(), &ObjectId::max(), 800));
        let expected: Vec<ObjectId> = bench.model.objects.keys().take(800).cloned().collect();
        assert!(found == expected && all != bench.model);
        let object_0 = |bench: &Bench| -> ModelObject { bench.model.objects[&object(0)].clone() };
        let found = end!(|store: &mut crate::Store| store.omap_get(&object(0), &keys, usize::MAX));
        let omap = object_0(&bench).omap;
        let expected: Vec<(Bytes, Bytes)> =
            keys.iter().filter_map(|key| omap.get(key).map(|value| (key.clone(), value.clone()))).collect();
        assert!(found == Some(expected));
        let (found, more) = end!(|store: &mut crate::Store| store.omap_list(&object(0), b"key-001", b"", 2000));
        let behind = omap_behind(&object_0(&bench), b"key-001");
        assert!(more && found[..] == behind[..2000]);
    }
}

fn omap_behind(object: &ModelObject, key: &'static [u8]) -> Vec<(Bytes, Bytes)> {
    object.omap.range(Bytes::from_static(key)..).map(|(key, value)| (key.clone(), value.clone())).collect()
}
