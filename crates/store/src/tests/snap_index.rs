//! Clones are listed by their snapshots, whatever happens to them.

use super::harness::{Bench, KIB, config, object, txn, write};
use crate::{SNAPS_ATTR, Step, StoreConfig, Transaction, UNKNOWN_SNAP, snaps_attr};
use types::{ObjectId, PgId, PoolId, SnapId};

fn clone(number: u64, snap: u64) -> ObjectId {
    ObjectId { snap: SnapId(snap), ..object(number) }
}

fn set_snaps(object: ObjectId, snaps: &[u64]) -> Step {
    let snaps: Vec<SnapId> = snaps.iter().copied().map(SnapId).collect();
    Step::SetAttr { object, name: SNAPS_ATTR.to_vec(), value: snaps_attr(&snaps) }
}

fn listed(bench: &mut Bench, snap: u64) -> Vec<ObjectId> {
    let (from, until) = (ObjectId { pool: PoolId(1), ..ObjectId::min() }, ObjectId::max());
    bench.ask(|store| store.clones_of(SnapId(snap), &from, &until, 100))
}

#[test]
fn a_clone_is_listed_under_its_snapshots() {
    let mut bench = Bench::new(3);
    bench.submit(txn(vec![write(1, 0, "data"), write(2, 0, "data")])).unwrap();
    let made = |number, snap| Step::Clone { from: object(number), to: clone(number, snap) };
    bench.submit(txn(vec![made(1, 5), set_snaps(clone(1, 5), &[5, 4]), made(2, 5), made(2, 7)])).unwrap();
    bench.submit(txn(vec![set_snaps(clone(2, 7), &[7]), set_snaps(object(1), &[5])])).unwrap();
    bench.settle();
    assert_eq!(listed(&mut bench, 5), [clone(1, 5)], "present states are not listed");
    assert_eq!(listed(&mut bench, 4), [clone(1, 5)]);
    assert_eq!(listed(&mut bench, 7), [clone(2, 7)]);
    assert_eq!(listed(&mut bench, UNKNOWN_SNAP.0), [clone(2, 5)]);
    // Clones of other groups are not in this group's part of the list.
    let behind = ObjectId { snap: SnapId(6), ..object(1) };
    let found = bench.ask(|store| store.clones_of(SnapId(5), &behind, &ObjectId::max(), 100));
    assert_eq!(found, []);
    let found = bench.ask(|store| store.clones_of(SnapId(5), &clone(1, 0), &clone(1, 5), 100));
    assert_eq!(found, []);
    let remove = Step::Remove { object: clone(1, 5) };
    let kept = ObjectId { pool: PoolId(1).kept_back(), ..clone(1, 9) };
    bench.submit(txn(vec![remove, set_snaps(clone(2, 7), &[8]), Step::Touch { object: kept }])).unwrap();
    bench.settle();
    let all: Vec<Vec<ObjectId>> = (0..9).map(|snap| listed(&mut bench, snap)).collect();
    assert_eq!(all.concat(), [clone(2, 5), clone(2, 7)]);
    assert_eq!(all[8], [clone(2, 7)]);
    bench.check_all();
}

#[test]
fn a_store_of_before_has_no_list() {
    let mut bench = Bench::new(3);
    bench.store.pass_over_clone_lists();
    bench.submit(txn(vec![Step::Touch { object: clone(1, 5) }])).unwrap();
    bench.settle();
    assert!(!bench.store.lists_clones());
    assert_eq!(listed(&mut bench, UNKNOWN_SNAP.0), []);
}

/// After each part of a random history, and after an opening, the lists agree with the objects: `contents` compares
/// them.
#[test]
fn lists_follow_the_objects() {
    let mut all_destroyed = 0;
    for seed in 0..60 {
        let small = StoreConfig { wal_bytes: 64 * KIB, ..config() };
        let mut bench = Bench::with(small, seed);
        let (mut destroyed, mut made) = (0, 0);
        for part in 0..6 {
            for _ in 0..12 {
                let pg = PgId::new(1, bench.random.below(2) as u32);
                let mut steps = Vec::new();
                for _ in 0..1 + bench.random.below(3) {
                    let (n, snap) = (bench.random.below(5), 1 + bench.random.below(4));
                    let (clone, other) = (clone(n, snap), clone(bench.random.below(5), snap));
                    let mut after = bench.model.clone();
                    after.apply(&Transaction { pg, steps: steps.clone() });
                    let is_there = |object: &ObjectId| after.objects.contains_key(object);
                    steps.push(match bench.random.below(11) {
                        0..=2 => set_snaps(clone, &[snap, bench.random.below(6)]),
                        3 | 4 => Step::Remove { object: clone },
                        5 => Step::RemoveAttr { object: clone, name: SNAPS_ATTR.to_vec() },
                        6 if is_there(&clone) => Step::Clone { from: clone, to: other },
                        7 if is_there(&clone) => Step::Clone { from: clone, to: object(n) },
                        8 if is_there(&object(n)) => Step::Clone { from: object(n), to: clone },
                        9 if bench.random.chance(3) => {
                            destroyed += 1;
                            Step::PgDestroy { pg_num: 2 }
                        }
                        _ => {
                            made += 1;
                            let data = bench.random.bytes(3000).into();
                            Step::Write { object: clone, offset: bench.random.below(9000), data }
                        }
                    });
                }
                match bench.submit(Transaction { pg, steps }) {
                    Ok(_) => {}
                    Err(crate::SubmitError::NoSpace { .. }) => bench.settle(),
                    Err(error) => panic!("{error}"),
                }
                if bench.random.chance(3) {
                    bench.turn();
                }
                if bench.random.chance(9) {
                    bench.store.checkpoint();
                }
            }
            match part % 3 {
                0 => {
                    bench.settle();
                    bench.check_all();
                }
                1 => drop(bench.reopen(bench.device.after_crash(&mut || seed))),
                _ => {
                    bench.settle();
                    let (store, device, _) = bench.reopen(bench.device.after_kill(&mut || 0));
                    bench = Bench::on(bench.config.clone(), store, device, bench.model.clone(), bench.random.clone());
                }
            }
        }
        assert!(made > 0, "seed {seed}");
        all_destroyed += destroyed;
    }
    assert!(all_destroyed > 20, "{all_destroyed} groups destroyed");
}
