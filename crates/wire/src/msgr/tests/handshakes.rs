//! Sessions between all kinds of parties: who may open one, and how it ends.

use super::network::{Network, message};
use crate::basic::AuthName;
use crate::msgr::assembler::{Assembler, Incoming};
use crate::msgr::config::{Config, Policy, limits};
use crate::msgr::control::*;
use crate::msgr::frame::put_control;
use crate::msgr::{ConnId, Output};
use crate::{EntityAddr, EntityAddrVec};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeSet;
use std::time::Duration;
use types::{EntityName, EntityType, OsdId};

const MON: &str = "[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]";

fn admin(seed: u64) -> Config {
    Config::client(AuthName::new(EntityType::CLIENT, "admin"), seed)
}

/// A monitor (node 0) with 100 ids to give, and a client (node 1).
fn mon_and_client() -> Network {
    let mut net = Network::new(1);
    net.add(Config::mon(0, "a", MON.parse().unwrap(), 1));
    net.messenger(0).set_global_ids(4100..4200);
    net.add(admin(2));
    net
}

fn dial(net: &mut Network, from: usize, name: EntityName, addrs: &str, policy: Policy) {
    let now = net.now;
    net.messenger(from).connect(name, &addrs.parse().unwrap(), policy, now);
    net.settle();
}

fn dial_mon(net: &mut Network, from: usize) {
    dial(net, from, EntityName::mon(0), MON, Policy::MON_CLIENT);
}

#[test]
fn a_client_is_given_an_id_and_talks() {
    let mut net = mon_and_client();
    dial_mon(&mut net, 1);
    let (at_mon, peer) = net.nodes[0].opened[0].clone();
    assert_eq!((peer.name, peer.global_id, peer.lossy), (EntityName::client(4100), 4100, true));
    assert_eq!(peer.auth_name.to_string(), "client.admin");
    assert_eq!(net.messenger(0).global_ids_left(), 99);
    assert_eq!(net.messenger(1).global_id(), 4100);
    let (at_client, peer) = net.nodes[1].opened[0].clone();
    assert_eq!((peer.name, peer.addrs.to_string()), (EntityName::mon(0), MON.to_owned()));
    net.send(1, at_client, message(1, 30, 0));
    net.send(0, at_mon, message(2, 30, 70_000));
    net.settle();
    assert_eq!((net.nodes[0].received.len(), net.nodes[1].received.len()), (1, 1));

    net.messenger(0).close(at_mon);
    net.settle();
    assert_eq!(net.nodes[1].resets.len(), 1);
    assert_eq!(net.nodes[1].resets[0].1, "mon.0 at v2:10.0.0.1:3300/0: closed by peer");
    assert_eq!(net.nodes[0].resets, [], "who closes knows it");
    // A client that comes again keeps its id.
    dial_mon(&mut net, 1);
    assert_eq!(net.nodes[0].opened[1].1.global_id, 4100);
}

#[test]
fn messages_sent_before_the_session_stands_are_sent_then() {
    let mut net = mon_and_client();
    let now = net.now;
    let session = net.messenger(1).connect(EntityName::mon(0), &MON.parse().unwrap(), Policy::MON_CLIENT, now);
    net.send(1, session, message(1, 30, 20_000));
    net.settle();
    assert_eq!(net.nodes[0].received.len(), 1);
    // And none to a session that is gone.
    net.messenger(1).close(session);
    net.send(1, session, message(2, 1, 1));
    net.settle();
    assert_eq!(net.nodes[0].received.len(), 1);
}

/// The client's session ends with a reason that contains `cause`; the monitor's line, if any, contains `refused`.
fn check_refused(net: &Network, cause: &str, refused: &str) {
    let [(_, reason)] = &net.nodes[1].resets[..] else { panic!("{:?}", net.nodes[1].resets) };
    assert!(reason.contains(cause), "{reason}");
    let lines = net.nodes[0].refused.join("\n");
    assert!(lines.contains(refused), "{lines}");
    assert!(net.nodes[0].refused.len() <= 1 && net.nodes[0].opened.is_empty() && net.nodes[1].opened.is_empty());
}

#[test]
fn who_does_not_fit_is_turned_away_with_a_reason() {
    let mut net = mon_and_client();
    dial(&mut net, 1, EntityName::osd(OsdId(3)), MON, Policy::LOSSY_CLIENT);
    check_refused(&net, "peer is a mon, not a osd", "");

    // The address of an earlier incarnation.
    let mut net = mon_and_client();
    dial(&mut net, 1, EntityName::mon(0), "v2:10.0.0.1:3300/77", Policy::MON_CLIENT);
    check_refused(&net, "closed by peer", "(client.admin): wants to reach v2:10.0.0.1:3300/77, but this is");

    let mut net = mon_and_client();
    dial(&mut net, 1, EntityName::mon(0), "v1:10.0.0.1:6789/0", Policy::MON_CLIENT);
    check_refused(&net, "none of its addresses (v1:10.0.0.1:6789/0) can be dialled", "");

    let mut net = mon_and_client();
    dial(&mut net, 1, EntityName::mon(0), "v2:10.0.0.2:3300/0", Policy::MON_CLIENT);
    check_refused(&net, "connection refused", "");

    let mut net = mon_and_client();
    net.messenger(1).config.features &= !(1 << 59);
    dial_mon(&mut net, 1);
    check_refused(&net, "requires features that we lack: 0x800000000000000", "lacks required features");

    let mut net = mon_and_client();
    net.messenger(1).config.features = 1 << 59;
    dial(&mut net, 1, EntityName::mon(0), MON, Policy { features_required: 1 << 62, ..Policy::MON_CLIENT });
    check_refused(&net, "closed by peer", "requires features that we lack: 0x4000000000000000");

    let mut net = mon_and_client();
    net.messenger(0).config.accept.remove(&EntityType::CLIENT);
    dial_mon(&mut net, 1);
    check_refused(&net, "closed by peer", "client (entity type 8) is not served by a mon");

    let mut net = mon_and_client();
    while net.messenger(0).take_global_id().is_some() {}
    dial_mon(&mut net, 1);
    net.sleep(limits::ID_TIME);
    check_refused(&net, "closed by peer", "no global id is left");
}

#[test]
fn clients_wait_for_a_monitor_that_has_no_ids_yet() {
    let mut net = mon_and_client();
    while net.messenger(0).take_global_id().is_some() {}
    for node in 2..5 {
        net.add(admin(node));
    }
    (1..5).for_each(|node| dial_mon(&mut net, node));
    net.sleep(Duration::from_secs(1));
    for node in &net.nodes {
        assert!(node.opened.is_empty() && node.resets.is_empty(), "{:?} {:?}", node.opened, node.resets);
    }
    // One has gone meanwhile: it gets none.
    net.cut(0);
    net.settle();
    net.messenger(0).set_global_ids(7000..7002);
    net.settle();
    let ids = |net: &Network| net.nodes[0].opened.iter().map(|(_, peer)| peer.global_id).collect::<BTreeSet<_>>();
    assert_eq!(ids(&net), [7000, 7001].into(), "the third waits on");
    net.messenger(0).set_global_ids(9000..9010);
    net.settle();
    assert_eq!((ids(&net), net.messenger(0).global_ids_left()), ([7000, 7001, 9000].into(), 9));
    // They stay beyond the time in which they would have been turned away.
    net.sleep(limits::HANDSHAKE_TIME * 2);
    assert_eq!(net.nodes[0].resets, []);
    assert_eq!((2..5).map(|node| net.nodes[node].opened.len()).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn sessions_of_one_client_with_a_monitor_stand_side_by_side() {
    let mut net = mon_and_client();
    dial_mon(&mut net, 1);
    dial_mon(&mut net, 1);
    assert_eq!(net.nodes[0].opened.len(), 2);
    assert_eq!((net.nodes[0].resets.len(), net.nodes[1].resets.len()), (0, 0));
    for (session, _) in net.nodes[0].opened.clone() {
        net.send(0, session, message(1, 30, 0));
    }
    net.settle();
    assert_eq!(net.nodes[1].received.len(), 2);
    net.cut(0);
    net.settle();
    assert_eq!((net.nodes[0].resets.len(), net.nodes[1].resets.len()), (1, 1), "each ends by itself");
}

#[test]
fn a_newer_session_of_the_same_client_fences_the_older() {
    let mut net = Network::new(1);
    let mut config = Config::mon(0, "a", MON.parse().unwrap(), 1);
    config.accept.insert(EntityType::CLIENT, Policy::LOSSY_SERVER);
    net.add(config);
    net.messenger(0).set_global_ids(4100..4200);
    net.add(admin(2));
    dial_mon(&mut net, 1);
    let old = net.session(0);
    dial_mon(&mut net, 1);
    let new = net.nodes[0].opened[1].0;
    assert_eq!(net.nodes[0].order, [(old, true), (old, false), (new, true)]);
    let reason = &net.nodes[0].resets[0].1;
    assert!(reason.starts_with("client.4100 at 10.0.0.99:0/") && reason.contains("newer session"), "{reason}");
    assert_eq!(net.nodes[1].resets.len(), 1, "the older session ended at the client, too");
    // Another client is another client.
    net.add(admin(3));
    dial_mon(&mut net, 2);
    assert_eq!(net.nodes[0].resets.len(), 1);
}

#[test]
fn a_lossy_session_ends_with_its_connection() {
    let mut net = mon_and_client();
    dial_mon(&mut net, 1);
    net.cut(0);
    net.settle();
    assert_eq!((net.nodes[0].resets.len(), net.nodes[1].resets.len()), (1, 1));
    assert!(net.nodes[0].resets[0].1.ends_with("connection reset"));
    assert_eq!((net.nodes[0].faults.len(), net.nodes[1].faults.len()), (0, 0));
}

#[test]
fn keepalives_are_answered_and_missed() {
    let mut net = mon_and_client();
    dial_mon(&mut net, 1);
    net.sleep(Duration::from_secs(300));
    assert_eq!(net.nodes[1].resets, [], "answers keep the session alive");
    // The monitor falls silent: its bytes go nowhere.
    net.nodes[0].addr = "10.9.9.9:1".parse().unwrap();
    net.mute(0);
    let before = net.now;
    while net.nodes[1].resets.is_empty() && net.now < before + Duration::from_secs(100) {
        net.sleep(Duration::from_millis(100));
    }
    let waited = net.now - before;
    assert!((3..=5).contains(&waited.as_secs()), "noticed after {waited:?}");
    assert!(net.nodes[1].resets[0].1.ends_with("no answer to keepalives for 4s"), "{:?}", net.nodes[1].resets);
}

#[test]
fn a_peer_that_still_sends_or_takes_something_is_not_given_up() {
    let mut net = mon_and_client();
    dial_mon(&mut net, 1);
    let session = net.session(1);
    let conn = net.messenger(1).connection_of(session).unwrap();
    net.nodes[0].addr = "10.9.9.9:1".parse().unwrap();
    net.mute(0);
    // Its answers to keepalives are stuck behind something large.
    for _ in 0..100 {
        net.sleep(Duration::from_secs(1));
        let now = net.now;
        net.messenger(1).progressed(conn, now);
    }
    assert_eq!(net.nodes[1].resets, []);
    net.sleep(Duration::from_secs(6));
    assert_eq!(net.nodes[1].resets.len(), 1);
}

#[test]
fn connections_that_get_nowhere_are_closed_after_a_while() {
    let mut net = mon_and_client();
    net.messenger(0).accepted(ConnId(1000), "10.1.1.1:5".parse().unwrap(), Duration::from_secs(1));
    net.feed(0, ConnId(1000), b"ceph v2\n");
    net.sleep(limits::HANDSHAKE_TIME - Duration::from_millis(1));
    assert_eq!(net.nodes[0].refused, [""; 0]);
    net.sleep(Duration::from_millis(2));
    assert_eq!(net.nodes[0].refused, ["connection from 10.1.1.1:5: no session within 10s"]);
}

/// Feeds the bytes of a strange peer, and checks the line that they earn.
fn check_stranger(bytes: &[u8], line: &str) {
    let mut net = mon_and_client();
    net.messenger(0).accepted(ConnId(2), "10.1.1.1:5".parse().unwrap(), Duration::ZERO);
    let (_, closed) = net.feed(0, ConnId(2), bytes);
    assert!(closed);
    assert_eq!(net.nodes[0].refused, [format!("connection from 10.1.1.1:5: {line}")]);
    // It may have sent more.
    assert_eq!(net.feed(0, ConnId(2), bytes), (vec![], false));
}

fn banner(features: u64, required: u64) -> Vec<u8> {
    let mut bytes = b"ceph v2\n\x10\0".to_vec();
    bytes.extend(features.to_le_bytes());
    bytes.extend(required.to_le_bytes());
    bytes
}

fn control<C: Control>(value: &C) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_control(&mut out, C::TAG, |w| value.encode(w));
    out.to_vec()
}

#[test]
fn strangers_get_one_line_each() {
    check_stranger(b"GET / HTTP/1.1\r\n", "malformed frame: peer does not speak Ceph's protocol");
    check_stranger(b"ceph v027", "malformed frame: peer speaks msgr v1; only v2.1 is spoken here");
    check_stranger(&banner(0, 0), "peer speaks msgr v2.0; only v2.1 is spoken here");
    check_stranger(&banner(3, 2), "peer requires messenger features 0x2");
    let good = banner(3, 0);
    check_stranger(
        &[&good[..], &control(&Ack { seq: 1 })].concat(),
        "malformed frame: frame of type 20 is unknown or may not come now",
    );
    let mut damaged = control(&Ack { seq: 1 });
    damaged[0] = 1;
    let damaged = [&good[..], &damaged].concat();
    let mut net = mon_and_client();
    net.messenger(0).accepted(ConnId(2), "10.1.1.1:5".parse().unwrap(), Duration::ZERO);
    assert!(net.feed(0, ConnId(2), &damaged).1);
    assert!(net.nodes[0].refused[0].contains("preamble: checksum"), "{}", net.nodes[0].refused[0]);

    let hello = Hello { kind: EntityType::CLIENT, peer_addr: EntityAddr::BLANK };
    let request = AuthRequest { method: 2, preferred_modes: vec![2, 1], payload: Bytes::from(vec![0; 30_000]) };
    let mut endless = [good, control(&hello)].concat();
    for _ in 0..3 {
        endless.extend(control(&request));
    }
    check_stranger(&endless, "malformed frame: more than 65536 bytes before a session stands");
}

#[test]
fn a_client_that_prefers_cephx_is_told_what_is_allowed() {
    let mut net = mon_and_client();
    net.messenger(0).accepted(ConnId(2), "10.1.1.1:5".parse().unwrap(), Duration::ZERO);
    let hello = Hello { kind: EntityType::CLIENT, peer_addr: EntityAddr::BLANK };
    let cephx = AuthRequest { method: 2, preferred_modes: vec![2, 1], payload: Bytes::from_static(&[10]) };
    let bytes = [banner(1, 0), control(&hello), control(&cephx)].concat();
    let (answer, closed) = net.feed(0, ConnId(2), &bytes);
    assert!(!closed);
    let bad = last_frame::<AuthBadMethod>(&answer);
    assert_eq!(bad, AuthBadMethod { method: 2, result: -95, allowed_methods: vec![1], allowed_modes: vec![1] });
    // Secure mode alone will not do either.
    let payload = Bytes::from([&[10u8, 8, 0, 0, 0, 1, 0, 0, 0, b'x'][..], &[0; 8]].concat());
    let secure = AuthRequest { method: 1, preferred_modes: vec![2], payload: payload.clone() };
    let (answer, closed) = net.feed(0, ConnId(2), &control(&secure));
    assert!(!closed && last_frame::<AuthBadMethod>(&answer).result == -95);
    // That connection goes on with an allowed method.
    let none = AuthRequest { method: 1, preferred_modes: vec![2, 1], payload };
    let (answer, _) = net.feed(0, ConnId(2), &[control(&none), control(&AuthSignature([0; 32]))].concat());
    let done = first_frame::<AuthDone>(&answer);
    assert_eq!(done, AuthDone { global_id: 4100, mode: 1, payload: Bytes::new() });
    // A lossless session is not for clients: there is nothing to resume.
    let addrs: EntityAddrVec = EntityAddr::new(crate::AddrKind::ANY, "10.1.1.1:0".parse().unwrap(), 9).into();
    let resume =
        SessionReconnect { addrs, client_cookie: 1, server_cookie: 2, global_seq: 1, connect_seq: 1, msg_seq: 0 };
    let (answer, closed) = net.feed(0, ConnId(2), &control(&resume));
    assert!(!closed && first_frame::<SessionReset>(&answer).full);
}

fn all_frames(bytes: &[u8]) -> Vec<Incoming> {
    let mut assembler = Assembler::new(None, true, types::BufPool::new(1 << 16));
    let mut bytes = if bytes.starts_with(b"ceph") { bytes.to_vec() } else { [banner(1, 0), bytes.to_vec()].concat() };
    let mut input = &bytes.split_off(0)[..];
    let mut frames: Vec<_> = std::iter::from_fn(|| assembler.next(&mut input).unwrap()).collect();
    frames.remove(0);
    frames
}

fn decode<C: Control>(incoming: &Incoming) -> C {
    let Incoming::Control { tag, payload } = incoming else { panic!("{incoming:?}") };
    assert_eq!(*tag, C::TAG);
    C::from_slice(payload).unwrap()
}

fn first_frame<C: Control>(bytes: &[u8]) -> C {
    decode(&all_frames(bytes)[0])
}

fn last_frame<C: Control>(bytes: &[u8]) -> C {
    decode(all_frames(bytes).last().unwrap())
}

#[test]
fn a_message_out_of_order_ends_the_session() {
    let mut net = mon_and_client();
    dial_mon(&mut net, 1);
    let session = net.session(0);
    let conn = net.messenger(0).connection_of(session).unwrap();
    let mut t = crate::msgr::frame::Transmission::new(BytesMut::new());
    let header = crate::msgr::frame::MessageHeader { seq: 2, ack_seq: 0, flags: 1, header: Default::default() };
    t.put_message(&header, &message(0, 5, 5));
    let (_, closed) = net.feed(0, conn, &t.finish().0.to_vec());
    assert!(closed);
    assert!(net.nodes[0].resets[0].1.ends_with("message 2 where 1 was expected"), "{:?}", net.nodes[0].resets);
}

/// A Linux kernel acknowledges on lossy sessions, of which nothing is kept that could be acknowledged.
#[test]
fn acknowledgements_on_a_lossy_session_change_nothing() {
    let mut net = mon_and_client();
    dial_mon(&mut net, 1);
    let session = net.session(0);
    let conn = net.messenger(0).connection_of(session).unwrap();
    for seq in [0, 1, 5, u64::MAX] {
        let (_, closed) = net.feed(0, conn, &control(&Ack { seq }));
        assert!(!closed, "{:?}", net.nodes[0].resets);
    }
    net.send(0, session, message(0, 5, 5));
    net.settle();
    assert_eq!((net.nodes[1].received.len(), net.nodes[0].resets.len()), (1, 0));
    let (_, closed) = net.feed(0, conn, &control(&AuthSignature([0; 32])));
    assert!(closed && net.nodes[0].resets[0].1.contains("may not come now"), "{:?}", net.nodes[0].resets);
}

#[test]
fn unknown_connections_are_ignored() {
    let mut net = mon_and_client();
    let m = net.messenger(0);
    assert_eq!(m.received(ConnId(8), &[1, 2, 3], Duration::ZERO), 3);
    m.connected(ConnId(8), Duration::ZERO);
    m.closed(ConnId(8), "", Duration::ZERO);
    assert_eq!(m.bulk_wanted(ConnId(8)), None);
    assert!(m.poll().is_none());
    dial_mon(&mut net, 1);
    let m = net.messenger(1);
    let conn = m.connection_of(crate::msgr::SessionId(1)).unwrap();
    m.close(crate::msgr::SessionId(1));
    assert!(matches!(m.poll(), Some(Output::Close { conn: c }) if c == conn));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 50, ..Default::default() })]

    /// Lossy sessions deliver in order and without gaps until they end, and end at both sides.
    #[test]
    fn a_lossy_session_delivers_a_prefix(seed: u64, count in 1..30u64, steps in 0..400u32) {
        let mut net = mon_and_client();
        (net.rng, net.chunk_max) = (super::network::Rng(seed), 3000);
        dial_mon(&mut net, 1);
        let session = net.session(1);
        for number in 0..count {
            net.send(1, session, message(number, 100, number as usize * 500));
        }
        for _ in 0..steps {
            net.step();
        }
        net.cut(0);
        net.settle();
        let received = &net.nodes[0].received;
        for (number, (_, envelope)) in received.iter().enumerate() {
            super::network::assert_same(envelope, &message(number as u64, 100, number * 500));
        }
        proptest::prop_assert!(received.len() as u64 <= count);
        proptest::prop_assert_eq!((net.nodes[0].resets.len(), net.nodes[1].resets.len()), (1, 1));
    }
}
