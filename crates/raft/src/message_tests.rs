//! Bytes of messages.

use crate::{Entry, Membership, Message, Packet, Payload, Position, ServerId, Snapshot};
use bytes::Bytes;
use proptest::prelude::*;
use wire::{Decode, Encode, Target};

fn position() -> impl Strategy<Value = Position> {
    (any::<u64>(), any::<u64>()).prop_map(|(term, index)| Position { term, index })
}

fn membership() -> impl Strategy<Value = Membership> {
    let servers = || prop::collection::btree_set(any::<u64>().prop_map(ServerId), 0..4);
    (servers(), servers()).prop_map(|(voters, learners)| Membership { voters, learners })
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn entry() -> impl Strategy<Value = Entry> {
    let payload = prop_oneof![
        Just(Payload::TermStart),
        bytes().prop_map(Payload::Data),
        membership().prop_map(Payload::Membership)
    ];
    (position(), payload).prop_map(|(position, payload)| Entry { position, payload })
}

fn message() -> impl Strategy<Value = Message> {
    let n = any::<u64>;
    prop_oneof![
        (n(), position()).prop_map(|(term, last)| Message::PreVote { term, last }),
        (n(), any::<bool>()).prop_map(|(term, granted)| Message::PreVoteReply { term, granted }),
        (n(), position(), any::<Option<u64>>()).prop_map(|(term, last, released)| Message::RequestVote {
            term,
            last,
            released
        }),
        (n(), any::<bool>()).prop_map(|(term, granted)| Message::VoteReply { term, granted }),
        (n(), position(), prop::collection::vec(entry(), 0..4), n(), n())
            .prop_map(|(term, prev, entries, commit, sent)| Message::Append { term, prev, entries, commit, sent }),
        (n(), n(), n()).prop_map(|(term, matched, sent)| Message::Appended { term, matched, sent }),
        (n(), n(), position(), n()).prop_map(|(term, prev, last, sent)| Message::AppendRefused {
            term,
            prev,
            last,
            sent
        }),
        (n(), position(), membership(), n(), n(), bytes(), n()).prop_map(
            |(term, last, membership, total, offset, data, sent)| Message::SnapshotChunk {
                term,
                last,
                membership,
                total,
                offset,
                data,
                sent
            }
        ),
        (n(), position(), n(), n()).prop_map(|(term, last, received, sent)| Message::SnapshotReceived {
            term,
            last,
            received,
            sent
        }),
        n().prop_map(|term| Message::TimeoutNow { term }),
    ]
}

proptest! {
    #[test]
    fn packets_come_back(from: u64, to: u64, message in message()) {
        let packet = Packet { from: ServerId(from), to: ServerId(to), message };
        let bytes = packet.to_vec(Target::default());
        prop_assert_eq!(Packet::from_slice(&bytes).unwrap(), packet);
        for cut in 0..bytes.len() {
            prop_assert!(Packet::from_slice(&bytes[..cut]).is_err(), "cut at {}", cut);
        }
    }

    #[test]
    fn garbage_is_an_error_or_a_packet(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Packet::from_slice(&bytes);
        let _ = Snapshot::from_slice(&bytes);
        let _ = Entry::from_slice(&bytes);
    }

    #[test]
    fn snapshots_come_back(last in position(), membership in membership(), data in bytes()) {
        let snapshot = Snapshot { last, membership, data };
        prop_assert_eq!(Snapshot::from_slice(&snapshot.to_vec(Target::default())).unwrap(), snapshot);
    }
}

#[test]
fn packet_v1_bytes_do_not_move() {
    let entry = Entry { position: Position { term: 3, index: 8 }, payload: Payload::Data(Bytes::from_static(b"ab")) };
    let message =
        Message::Append { term: 3, prev: Position { term: 2, index: 7 }, entries: vec![entry], commit: 6, sent: 5 };
    let bytes = Packet { from: ServerId(1), to: ServerId(2), message }.to_vec(Target::default());
    let mut expected = vec![1, 1, 0x6c, 0, 0, 0];
    expected.extend([1, 0, 0, 0, 0, 0, 0, 0]); // from
    expected.extend([2, 0, 0, 0, 0, 0, 0, 0]); // to
    expected.extend([5, 1, 1, 0x55, 0, 0, 0]); // Append, version, compat, length
    expected.extend([3, 0, 0, 0, 0, 0, 0, 0]); // term
    expected.extend([2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]); // prev: term, index
    expected.extend([1, 0, 0, 0]); // entries
    expected.extend([1, 1, 0x17, 0, 0, 0]); // an entry: version, compat, length
    expected.extend([3, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]); // its position
    expected.extend([1, 2, 0, 0, 0, b'a', b'b']); // data
    expected.extend([6, 0, 0, 0, 0, 0, 0, 0]); // commit
    expected.extend([5, 0, 0, 0, 0, 0, 0, 0]); // sent
    expected[2] = u8::try_from(expected.len() - 6).unwrap();
    expected[25] = u8::try_from(expected.len() - 29).unwrap();
    assert_eq!(bytes, expected);
}
