//! Tests of pools that get more placement groups, or fewer, while misfortunes happen. `NACRE_SIM_SPLIT_SEEDS=n`: `n`
//! seeds of each kind of pool instead of the usual number.

use crate::runs;
use sim::check_seed;
use sim::setup::{CODED_SEEDS, MERGE_SEEDS, SPLIT_SEEDS};
use sim::splits::{MERGED, ORDERED};

const SEEDS: u64 = 44;

/// Number of runs, and of those with merged groups and with shards put in order.
struct Runs {
    count: u64,
    merged: u64,
    ordered: u64,
}

fn check(from: u64) -> Runs {
    let count = runs("NACRE_SIM_SPLIT_SEEDS", SEEDS);
    let (mut merged, mut ordered) = (0, 0);
    for seed in from..from + count {
        match check_seed(seed) {
            Ok(report) => {
                merged += u64::from(report.faults.contains_key(MERGED));
                ordered += u64::from(report.faults.contains_key(ORDERED));
            }
            Err(failure) => panic!("{failure}"),
        }
    }
    Runs { count, merged, ordered }
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
    let Runs { count, merged, .. } = check(MERGE_SEEDS);
    assert!(merged * 2 > count, "in {merged} of {count} runs only");
}

#[test]
fn erasure_coded_pools_that_shrink_keep_their_promises() {
    let Runs { count, merged, ordered } = check(MERGE_SEEDS + CODED_SEEDS);
    assert!(merged * 3 > count * 2, "in {merged} of {count} runs only");
    assert!(ordered * 2 > count, "shards were put in order in {ordered} of {count} runs only");
}
