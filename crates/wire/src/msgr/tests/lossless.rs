//! Sessions between daemons: every message exactly once and in order, whatever happens to connections.

use super::network::{Network, assert_same, message};
use crate::EntityAddrVec;
use crate::msgr::{Config, Policy, SessionId};
use proptest::prelude::*;
use std::time::Duration;
use types::{EntityName, OsdId};

fn addrs(i: usize) -> EntityAddrVec {
    EntityAddrVec::msgr2(format!("10.0.0.{}:6800", i + 1).parse().unwrap(), 100 + i as u32)
}

pub fn two_osds(seed: u64) -> Network {
    let mut net = Network::new(seed);
    for i in 0..2 {
        net.add(Config::osd(OsdId(i as i32), addrs(i), seed ^ (i as u64 + 1) << 40));
    }
    net
}

pub fn dial(net: &mut Network, from: usize) -> SessionId {
    let now = net.now;
    let to = 1 - from;
    let name = EntityName::osd(OsdId(to as i32));
    let id = net.messenger(from).connect(name, &addrs(to), Policy::LOSSLESS_PEER, now);
    net.collect(from);
    id
}

/// The node received messages `0..count`, on one session.
pub fn check_received(net: &Network, node: usize, count: u64, size: impl Fn(u64) -> (usize, usize)) {
    let node = &net.nodes[node];
    assert_eq!(node.resets, [], "no session ended");
    assert_eq!(node.received.len() as u64, count, "faults: {:?}", node.faults);
    for (number, (session, envelope)) in node.received.iter().enumerate() {
        let (front, data) = size(number as u64);
        assert_eq!(*session, node.received[0].0);
        assert_same(envelope, &message(number as u64, front, data));
    }
}

/// Sizes around every threshold: empty, copied, shared, aligned, bulk.
fn size(number: u64) -> (usize, usize) {
    let fronts = [0, 1, 100, 2048, 2049, 9000];
    let datas = [0, 1, 0, 2000, 4095, 4096, 5000, 16_383, 16_384, 40_000];
    (fronts[number as usize % fronts.len()], datas[number as usize % datas.len()])
}

/// Two OSDs dial each other (or one the other) and send `counts` messages, while connections are cut at random.
fn chaos(seed: u64, counts: [u64; 2], dialling: [bool; 2], cuts: u32, chunk_max: usize) -> Network {
    let mut net = two_osds(seed);
    net.chunk_max = chunk_max;
    let mut sessions = [None; 2];
    for i in 0..2 {
        if dialling[i] {
            sessions[i] = Some(dial(&mut net, i));
        }
    }
    let (mut sent, mut cuts_left) = ([0; 2], cuts);
    for _ in 0..1_000_000 {
        for i in 0..2 {
            // A node that did not dial learns the session from the peer's dialling.
            let session = sessions[i].or_else(|| net.nodes[i].opened.first().map(|(id, _)| *id));
            if let Some(session) = session
                && sent[i] < counts[i]
                && net.rng.below(4) == 0
            {
                let (front, data) = size(sent[i]);
                net.send(i, session, message(sent[i], front, data));
                sent[i] += 1;
            }
        }
        if cuts_left > 0 && net.rng.below(20) == 0 && net.streams() > 0 {
            let index = net.rng.below(net.streams());
            net.cut(index);
            cuts_left -= 1;
        }
        if !net.step() || net.rng.below(50) == 0 {
            let time = net.rng.below(300) as u64;
            net.sleep_interleaved(Duration::from_millis(time));
        }
        if sent == counts && cuts_left == 0 {
            break;
        }
    }
    // Peace: the longest backoffs and handshake times pass.
    net.sleep(Duration::from_secs(60));
    net
}

impl Network {
    /// Advances the clock without waiting for bytes on their way.
    fn sleep_interleaved(&mut self, time: Duration) {
        self.now += time;
        for node in 0..self.nodes.len() {
            let now = self.now;
            self.messenger(node).tick(now);
            self.collect(node);
        }
    }
}

#[test]
fn messages_flow_both_ways() {
    let net = chaos(1, [50, 50], [true, false], 0, 1 << 16);
    check_received(&net, 0, 50, size);
    check_received(&net, 1, 50, size);
    assert_eq!(net.nodes[0].opened[0].1.name, EntityName::osd(OsdId(1)));
    assert_eq!(net.nodes[1].opened[0].1.name, EntityName::osd(OsdId(0)));
    assert_eq!(net.nodes[1].opened[0].1.addrs, addrs(0));
    let peak = net.nodes[0].messenger.queued_bytes(net.session(0));
    assert_eq!(peak, 0, "everything is acknowledged in the end");
}

#[test]
fn block_crcs_come_with_the_data() {
    let mut net = two_osds(2);
    let session = dial(&mut net, 0);
    for (number, data) in [4095, 4096, 10_000, 16_384, 30_000].into_iter().enumerate() {
        net.send(0, session, message(number as u64, 10, data));
    }
    net.settle();
    let received: Vec<_> = net.nodes[1].received.iter().map(|(_, envelope)| envelope.clone()).collect();
    assert_eq!(received[0].data.block_crcs(), None);
    for envelope in &received[1..] {
        let crcs: Vec<u32> = envelope.data.to_vec().chunks(4096).map(types::crc32c::checksum).collect();
        assert_eq!(envelope.data.block_crcs(), Some(&crcs[..]));
        assert_eq!(envelope.data.pieces().next().unwrap().as_ptr() as usize % 4096, 0, "data lies aligned");
    }
    // Handed on with their crcs, the data need not be read again; the receiver finds them right.
    let back = net.session(1);
    for envelope in received {
        net.send(1, back, envelope);
    }
    net.settle();
    assert_eq!((net.nodes[0].received.len(), &net.nodes[0].faults), (5, &vec![]));
}

#[test]
fn both_dial_at_once_and_get_one_session() {
    for seed in 0..50 {
        let mut net = two_osds(seed);
        net.chunk_max = 200;
        let sessions = [dial(&mut net, 0), dial(&mut net, 1)];
        for (i, session) in sessions.into_iter().enumerate() {
            net.send(i, session, message(0, 3, 5));
        }
        net.sleep(Duration::from_secs(2));
        for (i, session) in sessions.into_iter().enumerate() {
            check_received(&net, i, 1, |_| (3, 5));
            assert_eq!(net.nodes[i].opened.len(), 1, "seed {seed}");
            assert_eq!(net.nodes[i].opened[0].0, session);
        }
        net.sleep(Duration::from_secs(20));
        assert_eq!(net.streams(), 1, "one connection is left");
    }
}

#[test]
fn an_idle_session_stands_by_and_wakes() {
    let mut net = two_osds(3);
    let session = dial(&mut net, 0);
    net.settle();
    net.cut(0);
    net.sleep(Duration::from_secs(30));
    assert_eq!(net.streams(), 0, "nobody has anything to say");
    assert_eq!(net.messenger(0).next_wake(), None);
    // The side that was dialled has something to say first.
    let back = net.session(1);
    net.send(1, back, message(0, 1, 1));
    net.settle();
    check_received(&net, 0, 1, |_| (1, 1));
    net.cut(0);
    net.send(0, session, message(0, 1, 1));
    net.settle();
    check_received(&net, 1, 1, |_| (1, 1));
}

#[test]
fn a_session_that_one_side_forgot_is_reset() {
    let mut net = two_osds(4);
    let session = dial(&mut net, 0);
    net.settle();
    let back = net.session(1);
    net.messenger(1).close(back);
    net.settle();
    net.send(0, session, message(0, 1, 1));
    net.settle();
    assert_eq!(net.nodes[0].resets.len(), 1);
    let (id, reason) = &net.nodes[0].resets[0];
    assert_eq!(*id, session);
    assert!(reason.starts_with("osd.1 at v2:10.0.0.2:6800/101:") && reason.contains("does not know"), "{reason}");
    // A new one can be made.
    let session = dial(&mut net, 0);
    net.send(0, session, message(0, 1, 1));
    net.settle();
    assert_eq!(net.nodes[1].received.len(), 1);
}

#[test]
fn a_new_session_of_the_same_address_ends_the_old() {
    let mut net = two_osds(5);
    let old = dial(&mut net, 0);
    net.settle();
    let back = net.session(1);
    // The dialling side forgets silently: its connection is cut, and it begins anew.
    net.cut(0);
    net.messenger(0).close(old);
    dial(&mut net, 0);
    net.settle();
    let events: Vec<bool> = net.nodes[1].order.iter().map(|(_, opened)| *opened).collect();
    assert_eq!(events, [true, false, true], "the old session is reset before the new one opens");
    assert_eq!(net.nodes[1].resets[0].0, back);
}

#[test]
fn an_absent_peer_is_dialled_again_with_growing_pauses() {
    let mut net = Network::new(6);
    net.add(Config::osd(OsdId(0), addrs(0), 1));
    let session = dial(&mut net, 0);
    net.send(0, session, message(0, 1, 1));
    net.sleep(Duration::from_secs(30));
    let attempts = net.nodes[0].faults.len();
    assert!((8..=14).contains(&attempts), "{attempts} attempts in 30 s");
    let lost_for = net.messenger(0).lost_since(session).map(|since| net.now - since);
    assert!(lost_for > Some(Duration::from_secs(29)), "{lost_for:?}");
    assert!(net.nodes[0].faults[0].ends_with("connection refused"), "{}", net.nodes[0].faults[0]);
    net.add(Config::osd(OsdId(1), addrs(1), 2));
    net.sleep(Duration::from_secs(6));
    check_received(&net, 1, 1, |_| (1, 1));
    assert_eq!(net.messenger(0).lost_since(session), None);
}

#[test]
fn a_session_that_is_resumed_or_has_nothing_to_send_is_not_lost() {
    let mut net = two_osds(8);
    let session = dial(&mut net, 0);
    net.settle();
    net.send(0, session, message(0, 1, 1));
    net.cut(0);
    assert_eq!(net.messenger(0).lost_since(session), Some(net.now));
    net.sleep(Duration::from_secs(2));
    check_received(&net, 1, 1, |_| (1, 1));
    assert_eq!(net.messenger(0).lost_since(session), None, "resumed");
    net.cut(0);
    net.sleep(Duration::from_secs(20));
    assert_eq!(net.nodes[0].faults.len(), 2);
    assert_eq!(net.messenger(0).lost_since(session), None, "it wants no connection");
}

#[test]
fn acknowledgements_are_batched() {
    let mut net = two_osds(7);
    let session = dial(&mut net, 0);
    net.settle();
    let before = net.transmitted;
    for number in 0..100 {
        net.send(0, session, message(number, 0, 0));
    }
    net.sleep(Duration::from_secs(1));
    // 77 bytes a message; an acknowledgement takes 44.
    let acks = (net.transmitted - before - 100 * 77) / 44;
    assert!((1..=5).contains(&acks), "{acks} acknowledgements of 100 messages");
    assert_eq!(net.messenger(0).queued_bytes(session), 0);
    let asks_at = net.now + Duration::from_secs(4);
    assert!(
        net.messenger(0).next_wake().is_some_and(|at| at >= asks_at),
        "an idle session only asks whether the peer lives"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_message_arrives_once_and_in_order(
        seed: u64,
        counts in [0..40u64, 0..40u64],
        both: bool,
        cuts in 0..30u32,
        chunk_max in prop_oneof![Just(7usize), Just(300), Just(5000), Just(100_000)],
    ) {
        let net = chaos(seed, counts, [true, both], cuts, chunk_max);
        check_received(&net, 1, counts[0], size);
        check_received(&net, 0, counts[1], size);
        for node in 0..2 {
            prop_assert!(net.nodes[node].opened.len() <= 1);
            prop_assert_eq!(&net.nodes[node].refused, &Vec::<String>::new());
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run(seed: u64) {
        let run = || {
            let net = chaos(seed, [10, 10], [true, true], 5, 1000);
            (net.transmitted, net.now, net.nodes[0].faults.clone(), net.nodes[1].faults.clone())
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn messages_tell_when_their_first_byte_came() {
    let mut net = two_osds(5);
    let session = dial(&mut net, 0);
    net.settle();
    let begun = net.now;
    net.chunk_max = 30_000;
    net.send(0, session, message(0, 100, 100_000));
    assert!(net.step(), "some bytes of it come");
    net.now += Duration::from_millis(5);
    net.settle();
    let later = net.now;
    net.send(0, session, message(1, 100, 100));
    net.settle();
    assert_eq!(net.nodes[1].began, [begun, later]);
}

/// A path that swallows everything: neither side hears of it from its kernel.
#[test]
fn a_peer_that_falls_silent_is_dialled_anew_and_nothing_is_lost() {
    let mut net = two_osds(5);
    let session = dial(&mut net, 0);
    net.send(0, session, message(0, 100, 0));
    net.settle();
    net.sleep(Duration::from_secs(300));
    assert_eq!((net.nodes[0].faults.len(), net.nodes[1].faults.len()), (0, 0), "idle peers keep their connection");
    net.mute(1);
    net.send(0, session, message(1, 100, 0));
    let before = net.now;
    while net.nodes[0].faults.is_empty() && net.now < before + Duration::from_secs(1000) {
        net.sleep(Duration::from_millis(500));
    }
    let waited = (net.now - before).as_secs();
    assert!((15..=25).contains(&waited), "noticed after {waited} s");
    assert!(net.nodes[0].faults[0].ends_with("no answer to keepalives for 20s"), "{:?}", net.nodes[0].faults);
    net.nodes[1].muted = false;
    net.sleep(Duration::from_secs(60));
    net.send(0, session, message(2, 100, 0));
    net.settle();
    check_received(&net, 1, 3, |_| (100, 0));
}

/// Whoever reads nothing for a while cannot tell a silent peer from one that it does not listen to.
#[test]
fn silence_is_not_judged_while_nothing_is_read() {
    let mut net = two_osds(6);
    dial(&mut net, 0);
    net.settle();
    let now = net.now;
    net.messenger(0).set_deaf(true, now);
    net.mute(1);
    net.sleep(Duration::from_secs(100));
    assert_eq!(net.nodes[0].faults.len(), 0);
    let now = net.now;
    net.messenger(0).set_deaf(false, now);
    net.sleep(Duration::from_secs(14));
    assert_eq!(net.nodes[0].faults.len(), 0, "what waits to be read is waited for");
    net.sleep(Duration::from_secs(12));
    assert!(net.nodes[0].faults.len() == 1, "{:?}", net.nodes[0].faults);
}
