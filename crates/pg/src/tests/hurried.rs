//! Objects that clients wait for do not go at the pace that recovery keeps for clients' sake.

use super::cluster::Cluster;
use bytes::Bytes;
use types::OsdId;
use wire::messages::Op;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
/// Writes that make an object which is sent in two pieces. The first piece is more than goes at once while there are
/// clients.
const LARGE_WRITES: usize = 20;
const WRITE: usize = 64 << 10;

fn name(n: u32) -> Vec<u8> {
    format!("o{n}").into_bytes()
}

/// Asks for `op` on object `n`, and lets everything happen that takes no time. Returns true if it was answered.
fn is_answered(cluster: &mut Cluster, primary: OsdId, n: u32, op: Op) -> bool {
    let session = cluster.connect(primary);
    let tid = 1 + cluster.answers.len() as u64 * 100 + u64::from(n);
    let epoch = cluster.map.epoch;
    cluster.ask_of(primary, session, tid, epoch, 0, (n, &name(n)), op);
    cluster.settle_now();
    cluster.answers.iter().any(|answer| answer.tid == tid)
}

/// Makes a cluster in which the member has been away while the large objects 0 and 1 and the small one 2 were written,
/// and comes back. Clients have been served by `primary` at this very moment.
fn comes_back(osd: OsdId, primary: OsdId) -> Cluster {
    let mut cluster = Cluster::new(3);
    cluster.down(&[osd]);
    for n in [0, 1, 2] {
        for _ in 0..if n < 2 { LARGE_WRITES } else { 1 } {
            assert!(is_answered(&mut cluster, primary, n, Op::append(Bytes::from(vec![n as u8; WRITE]))));
        }
    }
    cluster.mark_up(osd.0);
    cluster.update_all();
    cluster.settle_now();
    assert_eq!(cluster.pushed.len(), 1, "one is being sent");
    cluster
}

/// Returns true if at least the first piece was sent.
fn has_gone(cluster: &Cluster, n: u32) -> bool {
    cluster.pushed.iter().any(|(_, object)| object.name.as_ref() == name(n))
}

#[test]
fn an_object_whose_sending_has_begun_goes_on_at_once() {
    let mut cluster = comes_back(C, A);
    assert!(is_answered(&mut cluster, A, 0, Op::append(Bytes::from_static(b"more"))));
    assert!(has_gone(&cluster, 0) && !has_gone(&cluster, 1));
}

#[test]
fn an_object_that_waits_for_the_rest_of_another_has_that_go_on_at_once() {
    let mut cluster = comes_back(C, A);
    assert!(is_answered(&mut cluster, A, 2, Op::append(Bytes::from_static(b"more"))));
    assert!(has_gone(&cluster, 0) && has_gone(&cluster, 2) && !has_gone(&cluster, 1));
}

#[test]
fn an_object_that_the_primary_has_asked_for_comes_at_once() {
    for n in [0, 2] {
        let mut cluster = comes_back(A, B);
        assert!(is_answered(&mut cluster, A, n, Op::read(0, 100)), "object {n}");
        assert!(has_gone(&cluster, n) && !has_gone(&cluster, 1));
    }
}
