//! Connections without a session are bounded: in number, in bytes and in time.

use super::network::Network;
use crate::Encode;
use crate::basic::AuthName;
use crate::msgr::config::{Config, Policy, limits};
use crate::msgr::control::Hello;
use crate::msgr::frame::{Tag, put_control, put_control_payload};
use crate::msgr::{ConnId, Messenger, Output};
use bytes::BytesMut;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;
use types::{EntityName, EntityType};

const MON: &str = "[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]";

fn monitor(half_open_max: usize) -> Messenger {
    let config = Config { half_open_max, ..Config::mon(0, "a", MON.parse().unwrap(), 1) };
    Messenger::new(config)
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Lines about connections that were turned away, and the connections that were closed.
fn turned_away(messenger: &mut Messenger) -> (Vec<String>, Vec<u64>) {
    let (mut lines, mut closed) = (Vec::new(), Vec::new());
    while let Some(output) = messenger.poll() {
        match output {
            Output::Refused { reason, .. } => lines.push(reason.to_string()),
            Output::Close { conn } => closed.push(conn.0),
            _ => {}
        }
    }
    (lines, closed)
}

#[test]
fn silent_connections_give_way_to_new_ones() {
    let mut it = monitor(3);
    it.accepted(ConnId(2), at("10.0.0.9:1"), Duration::ZERO);
    for port in 2..5 {
        it.accepted(ConnId(port * 2), at(&format!("10.0.0.8:{port}")), Duration::ZERO);
    }
    let (lines, closed) = turned_away(&mut it);
    assert_eq!(closed, [4], "the oldest of the machine that has most");
    assert!(lines[0].starts_with("connection from 10.0.0.8:2: no room: 3 connections"), "{lines:?}");
    // Each that is over makes room for another one.
    it.closed(ConnId(6), "gone", Duration::ZERO);
    it.accepted(ConnId(10), at("10.0.0.8:5"), Duration::ZERO);
    assert_eq!(turned_away(&mut it).1, [0; 0]);
}

#[test]
fn clients_get_in_among_silent_connections_and_count_no_more_once_they_have_a_session() {
    let mut net = Network::new(1);
    net.add(Config { half_open_max: 3, ..Config::mon(0, "a", MON.parse().unwrap(), 1) });
    net.messenger(0).set_global_ids(4100..4200);
    for number in 0..20 {
        net.add(Config::client(AuthName::new(EntityType::CLIENT, "admin"), number + 2));
        let now = net.now;
        for port in 0..3 {
            let conn = ConnId(1_000_000 + number * 6 + port * 2);
            net.messenger(0).accepted(conn, at(&format!("10.9.9.9:{}", 5000 + port)), now);
        }
        net.messenger(number as usize + 1).connect(EntityName::mon(0), &MON.parse().unwrap(), Policy::MON_CLIENT, now);
        net.settle();
        assert_eq!(net.nodes[0].opened.len(), number as usize + 1);
    }
}

#[test]
fn whoever_sends_slowly_or_much_is_turned_away() {
    let mut it = monitor(1000);
    let banner = [b"ceph v2\n".as_slice(), &16u16.to_le_bytes(), &1u64.to_le_bytes(), &0u64.to_le_bytes()].concat();
    it.accepted(ConnId(2), at("10.0.0.9:1"), Duration::ZERO);
    for (second, byte) in banner.iter().enumerate() {
        let now = Duration::from_secs(second as u64);
        it.received(ConnId(2), &[*byte], now);
        it.tick(now);
    }
    let (lines, closed) = turned_away(&mut it);
    assert_eq!(closed, [2]);
    assert!(lines[0].ends_with("no session within 10s"), "{lines:?}");
    // A banner that is as long as a banner may be, of all that come.
    let now = Duration::from_secs(60);
    let long = [b"ceph v2\n".as_slice(), &[0xff, 0xff], &[0; 60_000]].concat();
    let count = limits::HALF_OPEN_BYTES / long.len();
    for number in 0..count as u64 + 1 {
        it.accepted(ConnId(4 + number * 2), at("10.0.0.9:2"), now);
        it.received(ConnId(4 + number * 2), &long, now);
        let closed = turned_away(&mut it).1;
        assert_eq!(closed.is_empty(), (number as usize) < count, "{number}");
    }
}

proptest! {
    #[test]
    fn frames_that_say_anything_open_no_session(
        frames in proptest::collection::vec((0..24_u8, proptest::collection::vec(any::<u8>(), 0..300)), 0..10),
        honest in any::<bool>(),
        rest in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut net = Network::new(7);
        net.add(Config::mon(0, "a", MON.parse().unwrap(), 1));
        net.messenger(0).set_global_ids(4100..4200);
        let (conn, now) = (ConnId(1_000_002), net.now);
        net.messenger(0).accepted(conn, at("10.9.9.9:1"), now);
        let mut bytes = BytesMut::from(&b"ceph v2\n\x10\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..]);
        if honest {
            let hello = Hello { kind: EntityType::CLIENT, peer_addr: "v2:10.9.9.9:1/0".parse().unwrap() };
            put_control(&mut bytes, Tag::HELLO, |w| hello.encode(w));
        }
        for (tag, payload) in &frames {
            put_control_payload(&mut bytes, Tag(*tag), payload);
        }
        bytes.extend_from_slice(&rest);
        net.feed(0, conn, &bytes);
        prop_assert!(net.nodes[0].opened.is_empty() && net.nodes[0].received.is_empty());
        // Nothing of it is left once the time for a handshake is over.
        let later = now + limits::HANDSHAKE_TIME;
        net.messenger(0).tick(later);
        prop_assert!(net.messenger(0).next_wake().is_none());
    }
}
