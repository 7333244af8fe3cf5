//! Instructions of one operation of a client in a group of three members, their stores included.

use super::cluster::Cluster;
use std::ops::RangeInclusive;
use types::OsdId;
use wire::Rope;
use wire::messages::Op;

// Bounds are of the profile of tests, on x86-64. A write has its share of the checkpoints of three small stores.
const WRITE: RangeInclusive<u64> = 1_130_000..=1_320_000;
const READ: RangeInclusive<u64> = 62_000..=84_000;

const A: OsdId = OsdId(0);
const BLOCK: u64 = 4096;
/// Blocks of the object.
const BLOCKS: u64 = 16;

/// A cluster whose object is there, with a client's session of its primary.
fn served() -> (Cluster, wire::msgr::SessionId) {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.settle();
    cluster.ask_all(A, session, 1, vec![Op::write(0, Rope::from(vec![1; (BLOCKS * BLOCK) as usize]))]);
    cluster.settle();
    assert_eq!(cluster.answers_to(1).len(), 1);
    (cluster, session)
}

#[test]
fn a_write_of_a_block() {
    counted::per_operation("tests::instructions::a_write_of_a_block", WRITE, |operations| {
        let (mut cluster, session) = served();
        for tid in 2..2 + operations {
            let op = Op::write(tid * 7 % BLOCKS * BLOCK, Rope::from(vec![tid as u8; BLOCK as usize]));
            cluster.ask_all(A, session, tid, vec![op]);
            cluster.settle_now();
        }
        assert_eq!(cluster.answers.len() as u64, 1 + operations);
    });
}

#[test]
fn a_read_of_a_block() {
    counted::per_operation("tests::instructions::a_read_of_a_block", READ, |operations| {
        let (mut cluster, session) = served();
        for tid in 2..2 + operations {
            cluster.ask_all(A, session, tid, vec![Op::read(tid * 7 % BLOCKS * BLOCK, BLOCK)]);
            cluster.settle_now();
        }
        assert_eq!(cluster.answers.len() as u64, 1 + operations);
    });
}
