//! What clients' operations hold is bounded.

use super::cluster::Cluster;
use crate::ops::Limits;
use types::{Epoch, OsdId};
use wire::messages::Op;

const A: OsdId = OsdId(0);
const READS: u64 = 40;

#[test]
fn reads_wait_for_room() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    // More than the store keeps with the object's record, so that reads go to the device.
    cluster.ask(A, session, 1, Epoch(1), 0, Op::write(0, vec![b'x'; 8000]));
    cluster.settle();
    cluster.answers.clear();
    cluster.stuck_disks = [A].into();
    let tids: Vec<u64> = (2..2 + READS).collect();
    tids.iter().for_each(|tid| cluster.read(A, session, *tid, Epoch(1)));
    cluster.settle();
    let limit = Limits::default().client_bytes;
    let held = cluster.client_bytes(A);
    assert!(held >= limit && held < limit + (5 << 20), "a read without a length counts as 4 MiB: {held} are held");
    assert!(cluster.shard(A).is_full() && cluster.answers.is_empty());
    cluster.stuck_disks.clear();
    cluster.settle();
    // Reads may overtake each other.
    let mut answered: Vec<u64> = cluster.answers.iter().map(|answer| answer.tid).collect();
    answered.sort_unstable();
    assert_eq!(answered, tids);
    assert_eq!(cluster.client_bytes(A), 0);
    assert!(!cluster.shard(A).is_full());
}

#[test]
fn answers_that_the_network_has_not_taken_count() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.shard(A).set_unsent_bytes(Limits::default().client_bytes);
    cluster.append(A, session, 1, Epoch(1));
    let gone = cluster.connect(A);
    cluster.append(A, gone, 2, Epoch(1));
    cluster.disconnect(A, gone);
    cluster.settle();
    assert!(cluster.answers.is_empty() && cluster.shard(A).is_full());
    cluster.shard(A).set_unsent_bytes(0);
    cluster.turn(A);
    cluster.settle();
    assert_eq!(cluster.answers.iter().map(|answer| answer.tid).collect::<Vec<_>>(), [1]);
    assert_eq!(cluster.content(A), "1,", "what a client sent that was gone before it began is forgotten");
}
