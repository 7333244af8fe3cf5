//! Sessions recorded between programs of Ceph.

use super::network::Network;
use crate::EntityAddrVec;
use crate::msgr::assembler::{Assembler, Incoming};
use crate::msgr::config::{Config, Policy};
use crate::msgr::control::*;
use crate::msgr::frame::{Tag, Transmission, put_control};
use crate::msgr::{ConnId, Output};
use bytes::BytesMut;
use std::time::Duration;
use types::{EntityName, EntityType, OsdId};

const MON: &str = include_str!("golden/mon-bootstrap.hex");
const OSD: &str = include_str!("golden/osd-write-full.hex");

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Frames that `side` sent: name and bytes of each.
fn frames(recording: &str, side: &str) -> Vec<(String, Vec<u8>)> {
    let lines = recording.lines().filter_map(|line| line.strip_prefix(side)?.split_once(": "));
    lines.map(|(name, hex)| (name.trim().to_owned(), unhex(hex))).collect()
}

fn stream(recording: &str, side: &str) -> Vec<u8> {
    frames(recording, side).into_iter().flat_map(|(_, bytes)| bytes).collect()
}

/// The payload of the control frame called `name`.
fn payload<C: Control>(recording: &str, side: &str, name: &str) -> C {
    let (_, bytes) = frames(recording, side).into_iter().find(|(n, _)| n == name).unwrap();
    C::from_slice(&bytes[32..]).unwrap()
}

fn rewrite<C: Control>(payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    let value = C::from_slice(payload).unwrap();
    put_control(&mut out, C::TAG, |w| value.encode(w));
    out.to_vec()
}

/// The frame written again from what was understood of it.
fn rewrite_frame(incoming: Incoming) -> Vec<u8> {
    match incoming {
        Incoming::Message { header, envelope } => {
            let mut t = Transmission::new(BytesMut::new());
            t.put_message(&header, &envelope);
            t.finish().0.to_vec()
        }
        Incoming::Control { tag, payload } => match tag {
            Tag::HELLO => rewrite::<Hello>(&payload),
            Tag::AUTH_REQUEST => rewrite::<AuthRequest>(&payload),
            Tag::AUTH_DONE => rewrite::<AuthDone>(&payload),
            Tag::AUTH_SIGNATURE => rewrite::<AuthSignature>(&payload),
            Tag::CLIENT_IDENT => rewrite::<ClientIdent>(&payload),
            Tag::SERVER_IDENT => rewrite::<ServerIdent>(&payload),
            other => panic!("{other:?} is not in the recordings"),
        },
        Incoming::Banner { .. } => panic!("a banner is no frame"),
    }
}

#[test]
fn recorded_frames_are_written_again_as_they_were() {
    for (recording, side) in [(MON, "client"), (MON, "server"), (OSD, "client"), (OSD, "server")] {
        let mut assembler = Assembler::new(None, true, types::BufPool::new(1 << 16));
        for (name, bytes) in frames(recording, side) {
            if name.starts_with("MESSAGE") {
                assembler.establish();
            }
            let incoming = assembler.next(&mut &bytes[..]).unwrap().unwrap();
            match incoming {
                Incoming::Banner { supported, required } => assert_eq!((supported, required), (1, 0)),
                incoming => assert_eq!(rewrite_frame(incoming), bytes, "{side} {name}"),
            }
        }
    }
}

fn tags(mut stream: &[u8], messages: bool) -> Vec<u8> {
    let mut assembler = Assembler::new(None, true, types::BufPool::new(1 << 16));
    if messages {
        assembler.establish();
    }
    std::iter::from_fn(|| assembler.next(&mut stream).unwrap())
        .map(|incoming| match incoming {
            Incoming::Banner { .. } => 0,
            Incoming::Control { tag, .. } => tag.0,
            Incoming::Message { .. } => Tag::MESSAGE.0,
        })
        .collect()
}

/// Plays a recorded client to a daemon of ours.
fn accept(config: Config, recording: &str, chunk_max: usize) -> Network {
    let mut net = Network::new(1);
    net.chunk_max = chunk_max;
    let node = net.add(config);
    let recorded: AuthDone = payload(recording, "server", "AUTH_DONE");
    let m = net.messenger(node);
    m.set_global_ids(recorded.global_id..recorded.global_id + 1);
    m.accepted(ConnId(2), "127.0.0.1:54240".parse().unwrap(), Duration::ZERO);
    let (answer, closed) = net.feed(node, ConnId(2), &stream(recording, "client"));
    assert!(!closed, "{:?} {:?}", net.nodes[node].refused, net.nodes[node].resets);
    // Our daemon sends the frames that Ceph's daemon sent, up to the messages.
    let theirs: Vec<u8> = tags(&stream(recording, "server"), true);
    assert_eq!(tags(&answer, false), theirs[..5]);
    let bytes_of = |name: &str| frames(recording, "server").into_iter().find(|(n, _)| n == name).unwrap().1;
    let contains = |bytes: &[u8]| answer.windows(bytes.len()).any(|w| w == bytes);
    assert!(contains(&bytes_of("banner")) && contains(&bytes_of("AUTH_DONE")) && contains(&bytes_of("AUTH_SIGNATURE")));
    net
}

#[test]
fn a_recorded_client_opens_a_session_with_our_monitor() {
    let ident: ClientIdent = payload(MON, "client", "CLIENT_IDENT");
    for chunk_max in [1, 100, 10_000] {
        let config = Config::mon(0, "a", ident.target.into(), 7);
        let net = accept(config, MON, chunk_max);
        let (session, peer) = &net.nodes[0].opened[0];
        assert_eq!((peer.name.kind, peer.global_id), (EntityType::CLIENT, peer.name.num as u64));
        assert_eq!(peer.auth_name.to_string(), "client.admin");
        assert_eq!((peer.lossy, &peer.addrs), (true, &ident.addrs));
        // It asks for the monitor map (5) and subscribes (15).
        let kinds: Vec<u16> = net.nodes[0].received.iter().map(|(_, e)| e.header.kind).collect();
        assert_eq!(kinds, [5, 15]);
        assert!(net.nodes[0].received.iter().all(|(s, _)| s == session));
    }
}

#[test]
fn a_recorded_client_writes_to_our_osd() {
    let ident: ClientIdent = payload(OSD, "client", "CLIENT_IDENT");
    let config = Config::osd(OsdId(0), ident.target.into(), 7);
    let net = accept(config, OSD, 50);
    let envelope = &net.nodes[0].received[0].1;
    assert_eq!((envelope.header.kind, envelope.data.len()), (42, 100));
}

/// Plays a recorded daemon to a client of ours.
fn connect(recording: &str, name: EntityName, policy: Policy) -> (Network, EntityAddrVec) {
    let theirs: ServerIdent = payload(recording, "server", "SERVER_IDENT");
    let mut net = Network::new(1);
    net.chunk_max = 33;
    let auth_name = crate::basic::AuthName::new(EntityType::CLIENT, "admin");
    let node = net.add(Config::client(auth_name, 5));
    let m = net.messenger(node);
    m.connect(name, &theirs.addrs, policy, Duration::ZERO);
    let Some(Output::Connect { conn, to }) = m.poll() else { panic!("nobody dialled") };
    assert_eq!(Some(to), theirs.addrs.msgr2_addr().sockaddr);
    m.connected(conn, Duration::ZERO);
    let (answer, closed) = net.feed(node, conn, &stream(recording, "server"));
    assert!(!closed, "{:?}", net.nodes[node].resets);
    // Banner, HELLO, AUTH_REQUEST, AUTH_SIGNATURE, CLIENT_IDENT.
    assert_eq!(tags(&answer, false), [0, 1, 2, 7, 8]);
    assert_eq!(net.nodes[node].opened[0].1.name, name);
    assert_eq!(net.nodes[node].opened[0].1.addrs, theirs.addrs);
    (net, theirs.addrs)
}

#[test]
fn our_client_opens_a_session_with_a_recorded_monitor() {
    let (mut net, _) = connect(MON, EntityName::mon(0), Policy::MON_CLIENT);
    let kinds: Vec<u16> = net.nodes[0].received.iter().map(|(_, e)| e.header.kind).collect();
    assert_eq!(kinds, [4, 62, 4], "monitor map, configuration, monitor map");
    let done: AuthDone = payload(MON, "server", "AUTH_DONE");
    assert_eq!(net.messenger(0).global_id(), done.global_id);
    assert_eq!(net.messenger(0).name(), EntityName::client(done.global_id));
    let me = net.messenger(0).addrs().front();
    assert!(me.ip().unwrap().is_loopback() && me.port() == 0 && me.nonce != 0, "learnt from the monitor: {me}");
}

#[test]
fn our_client_opens_a_session_with_a_recorded_osd() {
    let (net, _) = connect(OSD, EntityName::osd(OsdId(0)), Policy::LOSSY_CLIENT);
    assert_eq!(net.nodes[0].received[0].1.header.kind, 43);
}

/// Any byte of a recorded session changed, left out or the stream cut: sessions end or wait, nothing worse.
#[test]
fn damaged_recordings_do_no_harm() {
    let ident: ClientIdent = payload(OSD, "client", "CLIENT_IDENT");
    let good = stream(OSD, "client");
    // The feature bits of the banner, bytes 10 to 25, have no checksum.
    for at in (0..10).chain(26..good.len()) {
        // The upper half of an epilogue's status means nothing.
        for change in [0x01, 0x88, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= change;
            let mut net = Network::new(at as u64);
            let node = net.add(Config::osd(OsdId(0), ident.target.into(), 7));
            net.messenger(node).accepted(ConnId(2), "127.0.0.1:1".parse().unwrap(), Duration::ZERO);
            let (_, closed) = net.feed(node, ConnId(2), &bytes);
            let n = &net.nodes[node];
            let reasons = n.refused.len() + n.resets.len();
            // A longer length leaves the receiver waiting; everything else is noticed at once, and told once.
            assert_eq!(reasons, usize::from(closed), "byte {at}: {:?} {:?}", n.refused, n.resets);
            assert!(closed || n.received.is_empty(), "byte {at} changed and nobody noticed");
        }
    }
}
