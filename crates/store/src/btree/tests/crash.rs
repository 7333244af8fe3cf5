//! A crash while a merge is under way finds the old tree as it was.

use super::bed::Bed;
use crate::btree::Depth;
use proptest::prelude::*;

fn numbered(number: u64) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

fn change(bed: &mut Bed, changes: u64) {
    for _ in 0..changes {
        let number = bed.random.below(2000);
        match bed.random.below(8) {
            0 => bed.delete(&numbered(number)),
            1 => bed.delete_range(&numbered(number), &numbered(number + 30)),
            2 => bed.put(&numbered(number), &vec![number as u8; 5000]),
            _ => bed.put(&numbered(number), &vec![number as u8; (number % 300) as usize]),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn the_old_tree_is_whole_whichever_writes_are_done(seed: u64) {
        let mut bed = Bed::new(seed, 20_000, 64 << 10);
        change(&mut bed, 800);
        bed.merge();
        for _ in 0..3 {
            let before: Vec<_> = bed.model.clone().into_iter().collect();
            let old = bed.root;
            change(&mut bed, 60);
            let mut merge = bed.begin();
            let mut crashes = 0;
            let merged = bed.run(&mut merge, |bed, write| {
                // The crash leaves this write undone, done or torn, and no page in memory.
                let mut disk = bed.disk.clone();
                match bed.random.below(3) {
                    0 => {}
                    1 => disk.write(write),
                    _ => {
                        disk.write(write);
                        disk.0.insert(write.run.start, vec![0xdb; 4096]);
                    }
                }
                let disk = std::mem::replace(&mut bed.disk, disk);
                let fresh = crate::btree::PageCache::new(super::bed::TAG, 1 << 20);
                let cache = std::mem::replace(&mut bed.cache, fresh);
                let reads = std::mem::take(&mut bed.reads);
                assert_eq!(bed.walk(old, Depth::Values).3, []);
                assert!(bed.content_under(old) == before);
                bed.settle();
                (bed.disk, bed.cache, bed.reads) = (disk, cache, reads);
                crashes += 1;
            });
            prop_assert!(crashes > 0);
            bed.switch(merged.unwrap());
            bed.content_is_the_models();
        }
        bed.every_block_is_free_or_reachable();
    }
}
