//! Random histories against a naive map.

use super::bed::Bed;
use crate::btree::{KEY_BYTES_MAX, MergeError};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Action {
    Put {
        key: u16,
        len: usize,
    },
    /// Puts entries of adjoining keys at once.
    Fill {
        key: u16,
        count: u16,
        len: usize,
    },
    Delete {
        key: u16,
    },
    DeleteRange {
        key: u16,
        count: u16,
    },
    Get {
        key: u16,
    },
    Range {
        key: u16,
        count: u16,
        page: usize,
    },
    Merge,
    /// Runs a merge with lookups and changes between its slices.
    BusyMerge {
        key: u16,
    },
    Reopen,
    Abort,
}

fn lens() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..60usize, 2 => 200..600usize, 1 => 1990..2100usize, 1 => 4000..30_000usize]
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let key = 0..600u16;
    let action = prop_oneof![
        6 => (key.clone(), lens()).prop_map(|(key, len)| Action::Put { key, len }),
        4 => (key.clone(), 1..120u16, 0..300usize).prop_map(|(key, count, len)| Action::Fill { key, count, len }),
        3 => key.clone().prop_map(|key| Action::Delete { key }),
        2 => (key.clone(), 0..200u16).prop_map(|(key, count)| Action::DeleteRange { key, count }),
        3 => key.clone().prop_map(|key| Action::Get { key }),
        2 => (key.clone(), 0..200u16, 1..20usize).prop_map(|(key, count, page)| Action::Range { key, count, page }),
        2 => Just(Action::Merge),
        2 => key.prop_map(|key| Action::BusyMerge { key }),
        1 => Just(Action::Reopen),
        1 => Just(Action::Abort),
    ];
    prop::collection::vec(action, 1..60)
}

/// Returns the key of a number: number order is key order, in several shapes.
fn key_of(shape: u8, number: u16) -> Vec<u8> {
    let digits = format!("{number:05}");
    match shape % 6 {
        // Shape 1: the empty key, then plain ones.
        0 if number == 0 => Vec::new(),
        0 | 1 => digits.into_bytes(),
        // Shape 2: long common prefixes.
        2 => [&vec![b'p'; 3000][..], digits.as_bytes()].concat(),
        // Shape 3: keys that differ in the first byte and are long, so that separators are short.
        3 => [digits.as_bytes(), &vec![0xff; 10 + usize::from(number) % 700][..]].concat(),
        // Shape 4: six tables, some of which are counted.
        4 => [&[(number / 100) as u8], digits.as_bytes()].concat(),
        // Shape 5: the longest possible separators, as each key is the one before and a byte more.
        _ => {
            let mut key = vec![0; KEY_BYTES_MAX - 1200];
            key.extend(vec![1; usize::from(number)]);
            key
        }
    }
}

fn value_of(number: u16, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u16 ^ number) as u8).collect()
}

fn check(seed: u64, shape: u8, cache_bytes: usize, run_max: u32, actions: Vec<Action>) {
    let mut bed = Bed::new(seed, 60_000, cache_bytes);
    bed.blocks.run_max = run_max;
    let key_of = |number| key_of(shape, number);
    for action in actions {
        match action {
            Action::Put { key, len } => bed.put(&key_of(key), &value_of(key, len)),
            Action::Fill { key, count, len } => {
                (key..key.saturating_add(count).min(600)).for_each(|key| bed.put(&key_of(key), &value_of(key, len)));
            }
            Action::Delete { key } => bed.delete(&key_of(key)),
            Action::DeleteRange { key, count } => bed.delete_range(&key_of(key), &key_of((key + count).min(600))),
            Action::Get { key } => {
                let key = key_of(key);
                let expected = bed.model.get(&key).cloned();
                assert_eq!(bed.get(&key).unwrap().map(|value| value.to_vec()), expected);
            }
            Action::Range { key, count, page } => {
                let (begin, end) = (key_of(key), key_of((key + count).min(600)));
                let found = bed.range(&begin, Some(&end), page).unwrap();
                let expected: Vec<_> = bed.model.range(begin..end).map(|(k, v)| (k.clone(), v.clone())).collect();
                assert!(found == expected, "{} found, {} expected", found.len(), expected.len());
            }
            Action::Merge if !bed.overlay.is_frozen() => {
                bed.merge();
            }
            Action::Merge => bed.merge_all(),
            Action::BusyMerge { key } => {
                if bed.overlay.is_frozen() {
                    bed.merge_all();
                }
                let mut merge = bed.begin();
                let (mut number, mut behind) = (key, 600);
                let mut cursor = crate::btree::Cursor::new(&key_of(0), None, true);
                let mut listed = Vec::new();
                let merged = bed.run(&mut merge, |bed, _| {
                    number = (number + 37) % 600;
                    let value = bed.get(&key_of(number)).unwrap().map(|value| value.to_vec());
                    assert_eq!(value, bed.model.get(&key_of(number)).cloned());
                    listed.extend(bed.ask(|view| cursor.next_page(view, 3, 1000)).unwrap().entries);
                    // Changes are made only behind the entries that the cursor has listed.
                    bed.put(&key_of(behind), b"meanwhile");
                    behind = (behind + 1).min(1200);
                });
                bed.switch(merged.unwrap());
                loop {
                    let page = bed.ask(|view| cursor.next_page(view, 7, 5000)).unwrap();
                    listed.extend(page.entries);
                    if page.done {
                        break;
                    }
                }
                assert!(
                    listed.iter().map(|(k, v)| (&k[..], &v[..])).eq(bed.model.iter().map(|(k, v)| (&k[..], &v[..])))
                );
            }
            Action::Reopen => {
                bed.settle();
                bed.forget_all_pages(cache_bytes);
            }
            Action::Abort => {
                let mut merge = if bed.overlay.is_frozen() { bed.begin_again() } else { bed.begin() };
                let mut writes = bed.random.below(20);
                let outcome = loop {
                    match merge.step(&bed.overlay, &mut bed.cache, &mut bed.blocks, 5000) {
                        Ok(crate::btree::Progress::Working) => {}
                        Ok(crate::btree::Progress::Waiting(_)) => bed.read_one(),
                        Ok(crate::btree::Progress::Done(merged)) => break Some(merged),
                        Err(error) => panic!("{error}"),
                    }
                    while let Some(write) = merge.poll_write() {
                        bed.disk.write(&write);
                    }
                    if writes == 0 {
                        break None;
                    }
                    writes -= 1;
                };
                match outcome {
                    Some(merged) => {
                        while let Some(write) = merge.poll_write() {
                            bed.disk.write(&write);
                        }
                        bed.switch(merged);
                    }
                    None => merge.abort().into_iter().for_each(|run| bed.blocks.allocator.release(run)),
                }
            }
        }
        while !bed.overlay.shed(5) {}
    }
    bed.content_is_the_models();
    bed.merge_all();
    bed.content_is_the_models();
    bed.every_block_is_free_or_reachable();
    let entries = bed.walk(bed.root, crate::btree::Depth::Pages).1;
    assert_eq!(entries, bed.model.len() as u64);
    // No page stays of a tree whose entries are all deleted.
    let keys: Vec<_> = bed.model.keys().cloned().collect();
    keys.iter().for_each(|key| bed.delete(key));
    bed.merge();
    assert_eq!(bed.root, None);
    bed.every_block_is_free_or_reachable();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_is_a_map(seed: u64, shape in 0u8..6, cache_pages in prop::sample::select(vec![0usize, 3, 40, 4000]),
                       run_max in prop::sample::select(vec![1u32, 4, 64]), actions in actions()) {
        check(seed, shape, cache_pages * 8192, run_max, actions);
    }
}

#[test]
fn without_space_a_merge_ends_and_the_tree_stays() {
    let mut bed = Bed::new(1, 200, 1 << 20);
    for number in 0..200u16 {
        bed.put(&key_of(1, number), &value_of(number, 1000));
    }
    bed.merge();
    let before = bed.model.clone();
    for number in 0..400u16 {
        bed.put(&key_of(1, number), &value_of(number, 1500));
    }
    let free = bed.blocks.allocator.free_blocks();
    let mut merge = bed.begin();
    let outcome = bed.run(&mut merge, |_, _| ());
    assert_eq!(outcome, Err(MergeError::NoSpace));
    merge.abort().into_iter().for_each(|run| bed.blocks.allocator.release(run));
    assert_eq!(bed.blocks.allocator.free_blocks(), free);
    assert_eq!(bed.content_under(bed.root), before.into_iter().collect::<Vec<_>>());
    bed.content_is_the_models();
}
