//! Pools get more placement groups, or fewer, while misfortunes happen. `NACRE_SIM_SPLIT_SEEDS=n`: so many of each kind of pool
//! instead of the usual number.

use sim::check_seed;
use sim::setup::{CODED_SEEDS, MERGE_SEEDS, SPLIT_SEEDS};
use sim::splits::MERGED;

const SEEDS: u64 = 44;

/// In how many of how many runs groups were merged.
fn check(from: u64) -> (u64, u64) {
    let count = std::env::var("NACRE_SIM_SPLIT_SEEDS").map_or(SEEDS, |n| n.parse().expect("a number"));
    let mut merged = 0;
    for seed in from..from + count {
        match check_seed(seed) {
            Ok(report) => {
                eprintln!("DBG seed {} merged {} took {:?} healed {:?} mixes {:?} osds {} coding {:?}", seed - from, report.faults.contains_key(MERGED), report.took, report.healed_in, report.setup.mixes, report.setup.osds, report.setup.coding);
                merged += u64::from(report.faults.contains_key(MERGED))
            }
            Err(failure) => panic!("{failure}"),
        }
    }
    (merged, count)
}

#[test]
fn replicated_pools_keep_their_promises() {
    check(SPLIT_SEEDS);
}

#[test]
fn erasure_coded_pools_keep_their_promises() {
    check(SPLIT_SEEDS + CODED_SEEDS);
}

#[test]
fn replicated_pools_that_shrink_keep_their_promises() {
    let (merged, count) = check(MERGE_SEEDS);
    assert!(merged * 2 > count, "in {merged} of {count} runs only");
}

#[test]
fn erasure_coded_pools_that_shrink_keep_their_promises() {
    let (merged, count) = check(MERGE_SEEDS + CODED_SEEDS);
    assert!(merged * 2 > count, "in {merged} of {count} runs only");
}
