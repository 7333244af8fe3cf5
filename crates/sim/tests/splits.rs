//! Pools get more placement groups, or fewer, while misfortunes happen. `NACRE_SIM_SPLIT_SEEDS=n`: so many of each kind of pool
//! instead of the usual number.

use sim::check_seed;
use sim::setup::{CODED_SEEDS, MERGE_SEEDS, SPLIT_SEEDS};

const SEEDS: u64 = 44;

fn check(from: u64) {
    let count = std::env::var("NACRE_SIM_SPLIT_SEEDS").map_or(SEEDS, |n| n.parse().expect("a number"));
    for seed in from..from + count {
        if let Err(failure) = check_seed(seed) {
            panic!("{failure}");
        }
    }
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
    check(MERGE_SEEDS);
}

#[test]
fn erasure_coded_pools_that_shrink_keep_their_promises() {
    check(MERGE_SEEDS + CODED_SEEDS);
}
