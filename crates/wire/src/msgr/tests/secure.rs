//! Connections in secure mode, with methods of several rounds. The cipher is a toy, which shows that each record is
//! sealed once, in order, and opened as it was sealed.

use super::damage::preamble_claiming;
use super::network::{Authority, Network, Rng, assert_same, message};
use crate::basic::AuthName;
use crate::msgr::assembler::{Assembler, Incoming};
use crate::msgr::config::{Config, Policy};
use crate::msgr::frame::{MessageHeader, PREAMBLE_BYTES, Tag, Transmission};
use crate::msgr::framing::{Framing, Secure};
use crate::msgr::{
    AuthAnswer, AuthStep, Identity, Keys, Open, Peer, RecordError, Records, Rights, SIGNATURE_BYTES, Seal, SessionId,
    Sign, TAG_BYTES,
};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use types::{BufPool, EntityName, EntityType, Errno, OsdId};

/// One direction: a stream of random bytes per record, and a sum over what was encrypted.
#[derive(Debug)]
struct Toy {
    key: u64,
    records: u64,
    /// Records after which nothing can be sealed any more, and after which the direction is worn.
    max: u64,
    worn: u64,
}

impl Toy {
    fn new(key: u64) -> Toy {
        Toy { key, records: 0, max: u64::MAX, worn: u64::MAX }
    }

    fn apply(&mut self, record: &mut [u8]) {
        let mut rng = Rng(self.key.wrapping_mul(31).wrapping_add(self.records));
        record.iter_mut().for_each(|byte| *byte ^= rng.next() as u8);
    }

    fn tag(&self, sealed: &[u8]) -> [u8; TAG_BYTES] {
        let mut sum = self.key ^ self.records.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in sealed {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mut tag = [0; TAG_BYTES];
        tag[..8].copy_from_slice(&sum.to_le_bytes());
        tag[8..].copy_from_slice(&(sealed.len() as u64 ^ sum).to_le_bytes());
        tag
    }
}

impl Seal for Toy {
    fn seal(&mut self, record: &mut [u8]) -> Result<[u8; TAG_BYTES], RecordError> {
        if self.records >= self.max {
            return Err(RecordError);
        }
        self.apply(record);
        let tag = self.tag(record);
        self.records += 1;
        Ok(tag)
    }

    fn is_worn(&self) -> bool {
        self.records >= self.worn
    }
}

impl Open for Toy {
    fn open(&mut self, record: &mut [u8], tag: &[u8; TAG_BYTES]) -> Result<(), RecordError> {
        if self.tag(record) != *tag {
            return Err(RecordError);
        }
        self.apply(record);
        self.records += 1;
        Ok(())
    }
}

#[derive(Debug)]
struct ToySign(u64);

impl Sign for ToySign {
    fn sign(&self, pieces: &[&[u8]]) -> [u8; SIGNATURE_BYTES] {
        let sum =
            pieces.concat().iter().fold(self.0, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        let mut out = [7; SIGNATURE_BYTES];
        out[..8].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn verify(&self, pieces: &[&[u8]], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        self.sign(pieces) == *signature
    }
}

fn keys(key: u64, connecting: bool, secure: bool, worn: u64) -> Keys {
    let (own, other) = if connecting { (key, key + 1) } else { (key + 1, key) };
    let seal = Toy { worn, ..Toy::new(own) };
    let records = secure.then(|| Records { seal: Box::new(seal), open: Box::new(Toy::new(other)) });
    Keys { sign: Some(Box::new(ToySign(key))), records }
}

/// Behaviour of one side in a test's handshakes.
#[derive(Clone)]
struct Party {
    name: AuthName,
    secure: bool,
    /// Rounds of the method, beyond the first.
    rounds: u64,
    /// Its view of the secret.
    key: u64,
    worn: u64,
    refuses: bool,
}

fn party(kind: EntityType, id: &str) -> Party {
    Party { name: AuthName::new(kind, id), secure: true, rounds: 2, key: 77, worn: u64::MAX, refuses: false }
}

/// Method 9: the name, then as many rounds as agreed.
fn authority(party: Party) -> Authority {
    // Connections get secrets of their own, of which both sides know.
    let rounds = Arc::new(AtomicU64::new(0));
    Box::new(move |messenger, now| {
        while let Some((conn, step)) = messenger.poll_auth() {
            let mode = if party.secure { 2 } else { 1 };
            let answer = match step {
                AuthStep::Begin { .. } => {
                    let payload = Bytes::from(party.name.to_string());
                    AuthAnswer::Request { method: 9, modes: vec![mode], payload }
                }
                AuthStep::Challenge(payload) => AuthAnswer::More(payload),
                AuthStep::BadMethod { method, result, methods, modes } => {
                    let cause = crate::msgr::Cause::MethodRefused { method, result, methods, modes };
                    AuthAnswer::Fail { cause, again: false }
                }
                AuthStep::Done { global_id, mode, .. } => {
                    AuthAnswer::Connected { global_id, keys: keys(party.key, true, mode == 2, party.worn) }
                }
                AuthStep::Request { .. } if party.refuses => {
                    AuthAnswer::Refused { errno: Errno::EACCES, methods: vec![9], modes: vec![2] }
                }
                AuthStep::Request { payload, .. } => {
                    rounds.store(0, Ordering::Relaxed);
                    AuthAnswer::More(payload)
                }
                AuthStep::More(payload) if rounds.fetch_add(1, Ordering::Relaxed) + 1 < party.rounds => {
                    AuthAnswer::More(payload)
                }
                AuthStep::More(payload) => {
                    let name = String::from_utf8_lossy(&payload);
                    let (kind, id) = name.split_once('.').unwrap_or_default();
                    let kind = if kind == "osd" { EntityType::OSD } else { EntityType::CLIENT };
                    let rights = Rights::Caps("allow r".into());
                    let name = AuthName::new(kind, id);
                    let identity = Identity { name, is_proven: true, global_id: 4242, rights };
                    let keys = keys(party.key, false, party.secure, party.worn);
                    AuthAnswer::Accepted { identity, wants_id: false, payload: Bytes::new(), keys }
                }
            };
            messenger.answer(conn, answer, now);
        }
    })
}

const OSD: &str = "v2:10.0.0.1:6800/5";

/// An OSD (node 0) and a client (node 1).
fn osd_and_client(osd: Party, client: Party, seed: u64) -> Network {
    let mut net = Network::new(seed);
    net.add(Config::osd(OsdId(0), OSD.parse().unwrap(), 1));
    net.add(Config { bulk_min_bytes: Some(16 << 10), ..Config::client(client.name.clone(), 2) });
    net.nodes[0].authority = authority(osd);
    net.nodes[1].authority = authority(client);
    net
}

fn dial(net: &mut Network) {
    let now = net.now;
    net.messenger(1).connect(EntityName::osd(OsdId(0)), &OSD.parse().unwrap(), Policy::LOSSY_CLIENT, now);
    net.settle();
}

#[test]
fn a_session_carries_what_was_proven_in_either_mode() {
    for secure in [false, true] {
        for chunk_max in [1, 7, 100_000] {
            let osd = Party { secure, ..party(EntityType::OSD, "0") };
            let client = Party { secure, ..party(EntityType::CLIENT, "x") };
            let mut net = osd_and_client(osd, client, 3);
            net.chunk_max = chunk_max;
            dial(&mut net);
            let peer: &Peer = &net.nodes[0].opened[0].1;
            assert_eq!((peer.auth_name.to_string(), peer.global_id), ("client.x".to_owned(), 4242));
            assert_eq!((peer.name, &peer.rights), (EntityName::client(4242), &Rights::Caps("allow r".into())));
            let sizes = [(0, 0), (30, 0), (3000, 5), (5, 4096), (77, 40_000), (0, 12_288)];
            for from in [1, 0] {
                let session = net.session(from);
                for (number, (front, data)) in sizes.into_iter().enumerate() {
                    net.send(from, session, message(number as u64, front, data));
                }
                net.settle();
                let received = &net.nodes[1 - from].received;
                assert_eq!(received.len(), sizes.len(), "{:?}", net.nodes[1 - from].resets);
                for (number, (front, data)) in sizes.into_iter().enumerate() {
                    assert_same(&received[number].1, &message(number as u64, front, data));
                }
            }
            // The OSD's store takes payloads as they lie there.
            for (_, envelope) in net.nodes[0].received.iter().filter(|(_, envelope)| envelope.data.len() >= 4096) {
                let data = envelope.data.clone();
                assert_eq!(data.pieces().next().unwrap().as_ptr() as usize % 4096, 0);
                let crcs: Vec<u32> = crate::msgr::frame::block_crcs(&data.to_vec()).collect();
                assert_eq!(data.block_crcs(), Some(&crcs[..]));
            }
        }
    }
}

#[test]
fn sides_that_know_different_secrets_do_not_meet() {
    for secure in [false, true] {
        let osd = Party { secure, ..party(EntityType::OSD, "0") };
        let client = Party { secure, key: 78, ..party(EntityType::CLIENT, "x") };
        let mut net = osd_and_client(osd, client, 3);
        dial(&mut net);
        assert!(net.nodes.iter().all(|node| node.opened.is_empty()));
        let reason = format!("{:?} {:?}", net.nodes[1].resets, net.nodes[0].refused);
        let part = if secure { "does not open" } else { "signature of the handshake does not match" };
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn a_refused_client_hears_why() {
    let osd = Party { refuses: true, ..party(EntityType::OSD, "0") };
    let mut net = osd_and_client(osd, party(EntityType::CLIENT, "x"), 3);
    dial(&mut net);
    let reason = &net.nodes[1].resets[0].1;
    assert!(reason.contains("method 9 refused: ") && reason.contains("methods [9] with modes [2]"), "{reason}");
}

/// Whoever has an OSD's key is that OSD, and no other one.
#[test]
fn nobody_is_an_osd_by_saying_so() {
    let try_as = |me: EntityName, name: AuthName| {
        let mut net = Network::new(1);
        net.add(Config::osd(OsdId(0), OSD.parse().unwrap(), 1));
        let own = "v2:10.0.0.2:6800/7".parse().unwrap();
        net.add(Config { me, auth_name: name.clone(), ..Config::osd(OsdId(3), own, 2) });
        net.nodes[0].authority = authority(party(EntityType::OSD, "0"));
        net.nodes[1].authority = authority(Party { name, ..party(EntityType::OSD, "3") });
        let now = net.now;
        net.messenger(1).connect(EntityName::osd(OsdId(0)), &OSD.parse().unwrap(), Policy::LOSSLESS_PEER, now);
        net.settle();
        net
    };
    let osd = |id: &str| AuthName::new(EntityType::OSD, id);
    let net = try_as(EntityName::osd(OsdId(3)), osd("3"));
    assert_eq!((net.nodes[0].opened.len(), net.nodes[0].opened[0].1.name), (1, EntityName::osd(OsdId(3))));
    for (name, proven) in [(osd("5"), "osd.5"), (AuthName::new(EntityType::CLIENT, "3"), "client.3")] {
        let net = try_as(EntityName::osd(OsdId(3)), name);
        assert!(net.nodes[0].opened.is_empty());
        let refused = &net.nodes[0].refused[0];
        assert!(refused.contains(&format!("it says that it is osd.3, and has proven to be {proven}")), "{refused}");
    }
}

/// A client that proves a name of its own and gives the address of another one neither ends a session of that one nor
/// keeps it out.
#[test]
fn an_address_of_somebody_else_ends_no_session_and_takes_no_place() {
    let mut net = osd_and_client(party(EntityType::OSD, "0"), party(EntityType::CLIENT, "x"), 3);
    dial(&mut net);
    let addrs = net.messenger(1).addrs().clone();
    let other = net.add(Config { my_addrs: addrs, ..Config::client(AuthName::new(EntityType::CLIENT, "y"), 9) });
    net.nodes[other].authority = authority(party(EntityType::CLIENT, "y"));
    let dial_again = |net: &mut Network, node: usize| {
        let now = net.now;
        net.messenger(node).connect(EntityName::osd(OsdId(0)), &OSD.parse().unwrap(), Policy::LOSSY_CLIENT, now);
        net.settle();
    };
    dial_again(&mut net, other);
    assert_eq!((net.nodes[0].opened.len(), net.nodes[0].resets.len()), (2, 0), "{:?}", net.nodes[0].refused);
    // Each fences its own session alone, also while the other one's stands.
    let (of_x, of_y) = (net.nodes[0].opened[0].0, net.nodes[0].opened[1].0);
    dial_again(&mut net, 1);
    let newer = net.nodes[0].opened[2].0;
    assert_eq!(net.nodes[0].order, [(of_x, true), (of_y, true), (of_x, false), (newer, true)]);
    assert_eq!(net.nodes[0].opened[2].1.auth_name.to_string(), "client.x");
    assert_eq!(net.nodes[0].refused, [""; 0]);
}

/// Two OSDs with a lossless session in secure mode.
fn two_osds(seed: u64, worn: u64) -> Network {
    two_osds_ahead(seed, Party { worn, ..party(EntityType::OSD, "") }, usize::MAX)
}

/// Two OSDs that may each encrypt `ahead` bytes that the transport has not taken.
fn two_osds_ahead(seed: u64, of: Party, ahead: usize) -> Network {
    let mut net = Network::new(seed);
    for id in 0..2 {
        let addrs = format!("v2:10.0.0.{}:6800/5", id + 1).parse().unwrap();
        net.add(Config { sealed_ahead_bytes: ahead, ..Config::osd(OsdId(id), addrs, id as u64 + 1) });
        let name = AuthName::new(EntityType::OSD, id.to_string());
        net.nodes[id as usize].authority = authority(Party { rounds: 1, name, ..of.clone() });
    }
    net
}

/// Has node 0 send ten messages of `bytes` bytes at once. Returns the bytes that it transmits at most before its
/// transport has taken what was transmitted before, and how often it goes on.
fn most_ahead(net: &mut Network, policy: Policy, bytes: usize) -> (usize, usize) {
    let (now, addrs) = (net.now, "v2:10.0.0.2:6800/5".parse().unwrap());
    let session = net.messenger(0).connect(EntityName::osd(OsdId(1)), &addrs, policy, now);
    net.settle();
    most_ahead_in(net, session, bytes)
}

/// [`most_ahead`] in a session of node 0 with node 1.
fn most_ahead_in(net: &mut Network, session: SessionId, bytes: usize) -> (usize, usize) {
    let before = net.nodes[1].received.len();
    (0..10).for_each(|number| net.messenger(0).send(session, message(number, 100, bytes)));
    let (mut most, mut rounds) = (0, 0);
    loop {
        let transmitted = net.transmitted;
        net.collect(0);
        most = most.max(net.transmitted - transmitted);
        net.settle();
        let waiting: Vec<_> = net.messenger(0).ahead().filter(|(_, _, is_full)| *is_full).collect();
        let Some((conn, counted, _)) = waiting.first().copied() else { break };
        assert!(counted >= bytes && counted <= net.transmitted - transmitted);
        // The transport is as full as before.
        assert!(!net.messenger(0).taken(conn, counted), "nothing goes on");
        net.collect(0);
        assert!(net.messenger(0).taken(conn, 0));
        rounds += 1;
    }
    let received = &net.nodes[1].received[before..];
    assert_eq!(received.len(), 10);
    for (number, (_, envelope)) in received.iter().enumerate() {
        assert_same(envelope, &message(number as u64, 100, bytes));
    }
    (most, rounds)
}

const MIB: usize = 1 << 20;

/// A message of a lossless session is kept until it is acknowledged. What is encrypted lies beside it, and must not be
/// all that waits.
#[test]
fn messages_that_are_kept_are_encrypted_when_the_transport_has_room() {
    let osd = || party(EntityType::OSD, "");
    let (most, rounds) = most_ahead(&mut two_osds_ahead(3, osd(), 256 << 10), Policy::LOSSLESS_PEER, MIB);
    assert!(most < MIB + (64 << 10) && rounds == 9, "{most} bytes at once, {rounds} rounds");
    // Small ones go together.
    let (most, rounds) = most_ahead(&mut two_osds_ahead(3, osd(), 256 << 10), Policy::LOSSLESS_PEER, 8 << 10);
    assert!(most > 80 << 10 && rounds == 0, "{most} bytes at once, {rounds} rounds");
    // Nothing is held twice without encryption.
    let plain = Party { secure: false, ..osd() };
    let (most, rounds) = most_ahead(&mut two_osds_ahead(3, plain, 256 << 10), Policy::LOSSLESS_PEER, MIB);
    assert!(most > 10 * MIB && rounds == 0, "{most} bytes at once, {rounds} rounds");
    // A driver that does not say what the transport takes gets all of it.
    let (most, rounds) = most_ahead(&mut two_osds_ahead(3, osd(), usize::MAX), Policy::LOSSLESS_PEER, MIB);
    assert!(most > 10 * MIB && rounds == 0, "{most} bytes at once, {rounds} rounds");
}

/// An OSD, node 0, that encrypts as its transports have room, and its client.
fn osd_and_client_ahead() -> Network {
    let mut net = Network::new(3);
    net.add(Config { sealed_ahead_bytes: 256 << 10, ..Config::osd(OsdId(0), OSD.parse().unwrap(), 1) });
    net.add(Config::client(AuthName::new(EntityType::CLIENT, "x"), 2));
    net.nodes[0].authority = authority(party(EntityType::OSD, "0"));
    net.nodes[1].authority = authority(party(EntityType::CLIENT, "x"));
    dial(&mut net);
    net
}

#[test]
fn a_client_whose_session_is_closed_is_sent_no_more_than_the_transport_has_room_for() {
    let mut net = osd_and_client_ahead();
    let session = net.session(0);
    (0..10).for_each(|number| net.messenger(0).send(session, message(number, 100, MIB)));
    net.messenger(0).close(session);
    net.settle();
    assert_eq!(net.nodes[1].received.len(), 1);
}

/// An answer may share bytes with a cache; encrypted, it is memory of its own.
#[test]
fn answers_to_clients_are_encrypted_when_the_transport_has_room() {
    let mut net = osd_and_client_ahead();
    let session = net.session(0);
    let (most, rounds) = most_ahead_in(&mut net, session, MIB);
    assert!(most < MIB + (64 << 10) && rounds == 9, "{most} bytes at once, {rounds} rounds");
    let conn = net.messenger(0).connection_of(session).expect("it stands");
    net.messenger(0).taken(conn, 0);
    assert_eq!((net.messenger(0).ahead().count(), net.messenger(0).waiting_bytes()), (0, 0));
    (0..4).for_each(|number| net.messenger(0).send(session, message(number, 100, MIB)));
    net.settle();
    assert_eq!(net.nodes[1].received.len(), 11, "the others wait");
    assert_eq!(net.messenger(0).waiting_bytes(), 3 * (MIB + 100));
    net.messenger(0).taken(conn, 0);
    net.settle();
    assert_eq!((net.nodes[1].received.len(), net.messenger(0).waiting_bytes()), (12, 2 * (MIB + 100)));
    // They go with their session.
    net.cut(0);
    net.settle();
    assert_eq!((net.messenger(0).ahead().count(), net.messenger(0).waiting_bytes()), (0, 0));
}

#[test]
fn messages_that_wait_for_the_transport_survive_the_connection_and_the_end_of_the_session() {
    let mut net = two_osds_ahead(3, party(EntityType::OSD, ""), 1);
    let (now, addrs) = (net.now, "v2:10.0.0.2:6800/5".parse().unwrap());
    let session = net.messenger(0).connect(EntityName::osd(OsdId(1)), &addrs, Policy::LOSSLESS_PEER, now);
    net.settle();
    (0..4).for_each(|number| net.messenger(0).send(session, message(number, 100, 5000)));
    net.settle();
    assert_eq!(net.nodes[1].received.len(), 1, "the others wait");
    // Nothing is known of a new connection's transport: one more goes out.
    net.cut(0);
    net.sleep(Duration::from_secs(1));
    assert_eq!(net.nodes[1].received.len(), 2);
    assert_eq!(net.messenger(0).ahead().count(), 1, "the former connection is forgotten");
    // The last words of a session go out before its connection is closed.
    net.messenger(0).close(session);
    net.settle();
    let numbers: Vec<u64> = net.nodes[1].received.iter().map(|(_, envelope)| envelope.header.tid).collect();
    assert_eq!((numbers, net.messenger(0).ahead().count()), (vec![0, 1, 2, 3], 0));
}

#[test]
fn a_worn_connection_is_replaced_and_nothing_is_lost() {
    let mut net = two_osds(5, 20);
    let now = net.now;
    let addrs = "v2:10.0.0.2:6800/5".parse().unwrap();
    let session = net.messenger(0).connect(EntityName::osd(OsdId(1)), &addrs, Policy::LOSSLESS_PEER, now);
    for number in 0..60 {
        net.send(0, session, message(number, 100, 5000));
        net.sleep(Duration::from_millis(300));
    }
    net.sleep(Duration::from_secs(5));
    let numbers: Vec<u64> = net.nodes[1].received.iter().map(|(_, envelope)| envelope.header.tid).collect();
    assert_eq!(numbers, (0..60).collect::<Vec<_>>());
    let worn = net.nodes[0].faults.iter().filter(|fault| fault.contains("worn")).count();
    assert!(worn >= 4, "{:?}", net.nodes[0].faults);
}

#[test]
fn damage_on_the_way_is_noticed_and_healed() {
    for seed in 0..40 {
        let mut net = two_osds(seed, u64::MAX);
        let now = net.now;
        let addrs = "v2:10.0.0.2:6800/5".parse().unwrap();
        let session = net.messenger(0).connect(EntityName::osd(OsdId(1)), &addrs, Policy::LOSSLESS_PEER, now);
        net.settle();
        for number in 0..10 {
            net.send(0, session, message(number, 100, 6000));
        }
        let at = net.rng.below(60_000);
        net.flip(at);
        net.sleep(Duration::from_secs(5));
        let numbers: Vec<u64> = net.nodes[1].received.iter().map(|(_, envelope)| envelope.header.tid).collect();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
        for (number, (_, envelope)) in net.nodes[1].received.iter().enumerate() {
            assert_same(envelope, &message(number as u64, 100, 6000));
        }
        let faults = net.nodes[1].faults.join("\n");
        assert!(faults.contains("does not open"), "{faults}");
    }
}

/// Frames of a stream in secure mode, until the first error or the end, and whether there was an error.
fn assemble(bytes: &[u8], block_crcs: bool, seed: u64) -> (Vec<Incoming>, bool) {
    let mut assembler = Assembler::new(Some(16_384), block_crcs, BufPool::new(1 << 16));
    let banner = [&b"ceph v2\n\x10\0"[..], &[0; 16]].concat();
    assembler.next(&mut &banner[..]).unwrap().unwrap();
    assembler.secure(Box::new(Toy::new(5)));
    assembler.establish();
    let (mut frames, mut rng, mut rest) = (Vec::new(), Rng(seed), bytes);
    while !rest.is_empty() {
        let (mut chunk, tail) = rest.split_at(rest.len().min(1 + rng.below(3000)));
        loop {
            assert_eq!(assembler.bulk_wanted(), None, "a record is opened as a whole");
            match assembler.next(&mut chunk) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
        assert!(chunk.is_empty());
        rest = tail;
    }
    (frames, false)
}

/// The records of messages, each frame by itself.
fn frames(sizes: &[(usize, usize, usize)]) -> Vec<Vec<u8>> {
    let mut secure = Secure::new(Box::new(Toy::new(5)), BufPool::new(1 << 16));
    let mut frames = Vec::new();
    for (i, (front, middle, data)) in sizes.iter().enumerate() {
        let mut envelope = message(i as u64, *front, *data);
        envelope.middle = vec![9; *middle].into();
        let mut t = Transmission::new(BytesMut::new());
        let header = MessageHeader { seq: i as u64 + 1, ack_seq: 3, flags: 1, header: envelope.header };
        secure.put_message(&mut t, &header, &envelope);
        frames.push(t.finish().0.to_vec());
    }
    frames
}

/// The lengths on the wire that records of each shape have.
#[test]
fn records_have_the_lengths_of_the_protocol() {
    let lengths: Vec<usize> = frames(&[(0, 0, 0), (1, 0, 0), (16, 0, 0), (17, 0, 5000)]).iter().map(Vec::len).collect();
    let segments = [0, 16, 16, 32 + 5008].map(|bytes| if bytes == 0 { 0 } else { bytes + 16 + 16 });
    assert_eq!(lengths, segments.map(|bytes| 96 + bytes));
    let mut secure = Secure::new(Box::new(Toy::new(5)), BufPool::new(1 << 16));
    for (payload, length) in [(0, 96), (48, 96), (49, 96 + 16 + 16), (100, 96 + 64 + 16)] {
        let mut out = BytesMut::new();
        secure.put_control(&mut out, Tag::ACK, &vec![1; payload]);
        assert_eq!(out.len(), length, "payload of {payload}");
    }
    assert_eq!(PREAMBLE_BYTES, 32);
}

#[test]
fn nothing_is_written_once_a_record_cannot_be_sealed() {
    let mut secure = Secure::new(Box::new(Toy { max: 1, ..Toy::new(5) }), BufPool::new(1 << 16));
    let mut out = BytesMut::new();
    secure.put_control(&mut out, Tag::ACK, &[1; 8]);
    assert!(out.len() == 96 && !secure.is_worn());
    secure.put_control(&mut out, Tag::ACK, &[1; 8]);
    assert!(out.len() == 96 && secure.is_worn());
    let mut t = Transmission::new(BytesMut::new());
    let envelope = message(1, 5, 90_000);
    secure.put_message(&mut t, &MessageHeader { seq: 1, ack_seq: 0, flags: 1, header: envelope.header }, &envelope);
    assert!(t.finish().0.is_empty());
}

type Sizes = Vec<(usize, usize, usize)>;

fn any_sizes() -> impl Strategy<Value = Sizes> {
    let data = prop_oneof![Just(0), 0..100usize, 0..40_000usize];
    prop::collection::vec((0..5000usize, prop_oneof![Just(0usize), 0..3000usize], data), 1..6)
}

proptest! {
    #[test]
    fn messages_of_any_shape_are_read_as_they_were_written(sizes in any_sizes(), block_crcs: bool, seed: u64) {
        let (incoming, error) = assemble(&frames(&sizes).concat(), block_crcs, seed);
        prop_assert!(!error);
        prop_assert_eq!(incoming.len(), sizes.len());
        for ((i, frame), (front, middle, data)) in incoming.into_iter().enumerate().zip(sizes) {
            let Incoming::Message { header, envelope } = frame else { panic!("not a message") };
            let sent = message(i as u64, front, data);
            prop_assert_eq!((header.seq, header.ack_seq, header.header), (i as u64 + 1, 3, sent.header));
            prop_assert_eq!(envelope.front, sent.front);
            prop_assert_eq!(envelope.middle.len(), middle);
            prop_assert_eq!(envelope.data.to_vec(), sent.data.to_vec());
        }
    }

    #[test]
    fn control_frames_are_read_as_they_were_written(payload in prop::collection::vec(any::<u8>(), 0..200), seed: u64) {
        let mut secure = Secure::new(Box::new(Toy::new(5)), BufPool::new(1 << 16));
        let mut out = BytesMut::new();
        secure.put_control(&mut out, Tag::WAIT, &payload);
        secure.put_control(&mut out, Tag::ACK, &payload);
        let (incoming, error) = assemble(&out, true, seed);
        prop_assert!(!error && incoming.len() == 2);
        for (frame, expect) in incoming.into_iter().zip([Tag::WAIT, Tag::ACK]) {
            let Incoming::Control { tag, payload: read } = frame else { panic!("not a control frame") };
            prop_assert!(tag == expect && read == payload);
        }
    }

    /// A changed bit, a frame left out, said twice or out of turn, and a stream cut short.
    #[test]
    fn what_happens_to_records_on_the_way_is_noticed(
        sizes in any_sizes(),
        at: prop::sample::Index,
        change in 1..=255u8,
        what in 0..5,
        block_crcs: bool,
        seed: u64,
    ) {
        let mut frames = frames(&sizes);
        let frame = at.index(frames.len());
        let is_last = frame + 1 == frames.len();
        match what {
            0 => {
                let byte = at.index(frames[frame].len());
                frames[frame][byte] ^= change;
            }
            1 => drop(frames.remove(frame)),
            2 => frames.insert(frame, frames[frame].clone()),
            3 if !is_last => frames.swap(frame, frame + 1),
            _ => {
                let kept = at.index(frames[frame].len());
                frames[frame].truncate(kept);
                frames.truncate(frame + 1);
            }
        }
        let (incoming, error) = assemble(&frames.concat(), block_crcs, seed);
        // Nothing behind the change is believed.
        prop_assert!(incoming.len() <= frame + usize::from(what == 2));
        let cut_off = (what == 1 && is_last) || what == 4 || (what == 3 && is_last);
        prop_assert!(error || cut_off);
        for (i, incoming) in incoming.into_iter().enumerate() {
            let Incoming::Message { envelope, .. } = incoming else { panic!("not a message") };
            let (front, _, data) = sizes[i];
            prop_assert_eq!(envelope.front, message(i as u64, front, data).front);
        }
    }

    #[test]
    fn any_bytes_do_no_harm(bytes: Vec<u8>, block_crcs: bool, seed: u64) {
        let (frames, error) = assemble(&bytes, block_crcs, seed);
        prop_assert!(frames.is_empty() && (error || bytes.len() < 96));
    }

    /// A peer that knows the key and says nonsense with it.
    #[test]
    fn any_sealed_preamble_does_no_harm(
        tag in prop_oneof![Just(17u8), any::<u8>()],
        count in 0..6u8,
        lengths: [prop::sample::Index; 4],
        flags in 0..3u8,
        rest in prop::collection::vec(any::<u8>(), 0..300),
        seed: u64,
    ) {
        let mut raw = preamble_claiming(tag, count, &lengths, flags);
        raw.resize(80, 0);
        let mut toy = Toy::new(5);
        let code = toy.seal(&mut raw).unwrap();
        raw.extend(code);
        let mut rest = rest;
        let code = toy.seal(&mut rest).unwrap();
        raw.extend(rest);
        raw.extend(code);
        assemble(&raw, true, seed);
        assemble(&raw, false, seed);
    }

    /// Bytes of a stranger while an answer to it is awaited, and behind it.
    #[test]
    fn a_stranger_that_talks_on_is_no_danger(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut: prop::sample::Index,
        seed: u64,
    ) {
        let mut recorded = recorded_client();
        for (at, change) in changes {
            let at = at.index(recorded.len());
            recorded[at] ^= change;
        }
        let end = cut.index(recorded.len() + 1);
        recorded.truncate(end);
        let mut net = osd_and_client(party(EntityType::OSD, "0"), party(EntityType::CLIENT, "x"), seed);
        net.chunk_max = 1 + net.rng.below(300);
        net.messenger(0).accepted(crate::msgr::ConnId(2), "10.0.0.99:30002".parse().unwrap(), Duration::ZERO);
        net.feed(0, crate::msgr::ConnId(2), &recorded);
    }
}

/// All that an honest client says in a handshake and two messages, at once.
fn recorded_client() -> Vec<u8> {
    let mut net = osd_and_client(party(EntityType::OSD, "0"), party(EntityType::CLIENT, "x"), 3);
    net.record = Some(Vec::new());
    dial(&mut net);
    let session = net.session(1);
    net.send(1, session, message(1, 50, 100));
    net.send(1, session, message(2, 50, 9000));
    net.settle();
    net.record.take().unwrap()
}

/// An answer may come late; what the peer says meanwhile waits, up to a bound.
#[test]
fn an_answer_may_come_late() {
    let recorded = recorded_client();
    let mut net = osd_and_client(party(EntityType::OSD, "0"), party(EntityType::CLIENT, "x"), 3);
    let mut answers = std::mem::replace(&mut net.nodes[0].authority, Box::new(|_, _| {}));
    let conn = crate::msgr::ConnId(2);
    net.messenger(0).accepted(conn, "10.0.0.99:30002".parse().unwrap(), Duration::ZERO);
    let (_, closed) = net.feed(0, conn, &recorded);
    assert!(!closed && net.nodes[0].opened.is_empty(), "it waits for the answer to its request");
    let now = net.now;
    answers(&mut net.nodes[0].messenger, now);
    net.nodes[0].authority = answers;
    net.feed(0, conn, &[]);
    assert_eq!(net.nodes[0].opened.len(), 1, "{:?}", net.nodes[0].refused);
    assert_eq!(net.nodes[0].received.len(), 2);
    // Nobody who waits may have us keep more than a handshake has.
    let mut net = osd_and_client(party(EntityType::OSD, "0"), party(EntityType::CLIENT, "x"), 3);
    net.nodes[0].authority = Box::new(|_, _| {});
    net.messenger(0).accepted(conn, "10.0.0.99:30002".parse().unwrap(), Duration::ZERO);
    let endless = [recorded, vec![0; crate::msgr::limits::HANDSHAKE_BYTES]].concat();
    let (_, closed) = net.feed(0, conn, &endless);
    assert!(closed && net.nodes[0].refused[0].contains("before a session stands"), "{:?}", net.nodes[0].refused);
}
