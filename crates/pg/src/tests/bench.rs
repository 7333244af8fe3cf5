//! Writes for the time that they take.

use super::cluster::Cluster;
use crate::{BenchError, BenchOrder};
use std::time::Duration;
use types::OsdId;

const A: OsdId = OsdId(0);

/// Runs to the end. Returns the result, and the most bytes that the store had meanwhile.
fn run(cluster: &mut Cluster, order: BenchOrder) -> (Result<Duration, BenchError>, u64) {
    cluster.shard(A).begin_bench(order).expect("there is room");
    let mut most = 0;
    for _ in 0..5000 {
        // The first OSD's device does one thing, which takes a moment.
        cluster.step(1);
        cluster.turn(A);
        most = most.max(cluster.store(A).usage().stored_bytes);
        if let Some(result) = cluster.shard(A).take_bench_result() {
            cluster.settle();
            return (result, most);
        }
    }
    panic!("it ends");
}

#[test]
fn all_is_written_and_nothing_stays() {
    let mut cluster = Cluster::new(3);
    let before = cluster.store(A).usage();
    let groups = cluster.store(A).pgs().len();
    let grown = BenchOrder { bytes: 200_000, block_bytes: 4096, overwritten: None };
    let (result, most) = run(&mut cluster, grown);
    assert!(result.expect("it has ended well") > Duration::ZERO);
    assert!(most >= before.stored_bytes + 100_000, "{most}");
    let again = BenchOrder { overwritten: Some((4, 16_384)), ..grown };
    run(&mut cluster, again).0.expect("it has ended well");
    let after = cluster.store(A).usage();
    assert_eq!((after.objects, after.stored_bytes), (before.objects, before.stored_bytes));
    assert_eq!(cluster.store(A).pgs().len(), groups, "they are no group's");
}

#[test]
fn one_runs_at_a_time_and_only_where_there_is_much_room() {
    let mut cluster = Cluster::new(3);
    let room_bytes = cluster.store(A).room_bytes();
    let large = BenchOrder { bytes: room_bytes / 2, block_bytes: 1 << 20, overwritten: None };
    assert_eq!(cluster.shard(A).begin_bench(large), Err(BenchError::Room { room_bytes }));
    let small = BenchOrder { bytes: 10_000, block_bytes: 4096, overwritten: None };
    cluster.shard(A).begin_bench(small).unwrap();
    assert_eq!(cluster.shard(A).begin_bench(small), Err(BenchError::Busy));
    cluster.shard(A).retire();
    assert_eq!(cluster.shard(A).take_bench_result(), Some(Err(BenchError::Stops)));
}
