//! Messages between monitors.
//!
//! Each dials each of the others and says [`MonHello`] first, and again every few seconds; whoever is dialled answers
//! with [`MonHelloReply`] and takes nothing else before. What else travels on such a session: from the one that
//! dialled, what raft has to say, what it was asked and only the leader can answer, and what OSDs report; the other
//! way, the answers.

use super::kind;
use super::mon::OptionReport;
use crate::addr::EntityAddrVec;
use crate::basic::AuthName;
use crate::own_message as message;
use crate::{Decode, DecodeError, Encode, Envelope, Header, Reader, Rope, Writer};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityName, Fsid, Utime};

/// The quorum, as the leader sees it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct QuorumReport {
    /// Counts elections.
    pub epoch: u64,
    pub leader: String,
    pub members: BTreeSet<String>,
    /// Since when these are the members.
    pub since: Utime,
}

impl Encode for QuorumReport {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.epoch);
            w.str(&self.leader);
            w.put(&self.members);
            w.put(&self.since);
        });
    }
}

impl Decode for QuorumReport {
    const MIN_BYTES: usize = 30;

    fn decode(r: &mut Reader<'_>) -> Result<QuorumReport, DecodeError> {
        let (_, mut r) = r.versioned("quorum report", 1)?;
        Ok(QuorumReport { epoch: r.u64()?, leader: r.get()?, members: r.get()?, since: r.get()? })
    }
}

/// A monitor introduces itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonHello {
    pub fsid: Fsid,
    /// The number of its store.
    pub server: u64,
    /// Where its history began: the first server of all. 0: it has none, and wants to become a member.
    pub founder: u64,
    pub name: String,
    pub addrs: EntityAddrVec,
    /// Shown by `ceph mon metadata`.
    pub metadata: BTreeMap<String, String>,
    /// The sender's clock, for [`MonHelloReply::asked`].
    pub wall: Utime,
    /// From the leader.
    pub quorum: Option<QuorumReport>,
    /// The sender's options that have values of their own.
    pub options: Vec<OptionReport>,
    /// The sender's state, as it was when monitors were last told to compare theirs.
    pub state_sum: Option<StateSum>,
}

message!(MonHello = kind::MON_HELLO, version 3 {
    fsid, server, founder, name, addrs, metadata, wall, quorum; since 2 { options }; since 3 { state_sum }
});

/// A monitor's state in short, for comparison.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StateSum {
    /// Version of the software, by which the encoding may differ.
    pub software: String,
    /// The last batch that is in it.
    pub applied: u64,
    /// Length and checksum of its encoding.
    pub bytes: u64,
    pub crc: u32,
}

impl Encode for StateSum {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.str(&self.software);
            w.u64(self.applied);
            w.u64(self.bytes);
            w.u32(self.crc);
        });
    }
}

impl Decode for StateSum {
    const MIN_BYTES: usize = 30;

    fn decode(r: &mut Reader<'_>) -> Result<StateSum, DecodeError> {
        let (_, mut r) = r.versioned("state sum", 1)?;
        Ok(StateSum { software: r.get()?, applied: r.u64()?, bytes: r.u64()?, crc: r.u32()? })
    }
}

/// Outcomes of a [`MonHello`].
pub mod verdict {
    pub const WELCOME: u8 = 0;
    /// It is of another cluster, or has another history.
    pub const FOREIGN: u8 = 1;
    /// It was a member and never will be again.
    pub const REMOVED: u8 = 2;
    /// It may not become a member as things are now.
    pub const REFUSED: u8 = 3;
}

/// Answers [`MonHello`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonHelloReply {
    pub fsid: Fsid,
    pub server: u64,
    pub name: String,
    /// [`MonHello::wall`].
    pub asked: Utime,
    /// The sender's clock.
    pub wall: Utime,
    /// Of [`verdict`].
    pub verdict: u8,
    /// A sentence, unless the verdict is a welcome.
    pub reason: String,
    /// The newest monitor map that the sender has, encoded.
    pub monmap: Bytes,
}

message!(MonHelloReply = kind::MON_HELLO_REPLY, version 1 { fsid, server, name, asked, wall, verdict, reason, monmap });

/// An encoded packet of raft.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RaftPacket {
    pub packet: Bytes,
}

message!(RaftPacket = kind::RAFT_PACKET, version 1 { packet });

/// A message within a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrapped(pub Envelope);

impl Encode for Wrapped {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            let Header { tid, kind, priority, version, compat_version, data_off } = self.0.header;
            w.u64(tid);
            [kind, priority, version, compat_version, data_off].into_iter().for_each(|field| w.u16(field));
            w.blob(&self.0.front);
            w.blob(&self.0.middle);
            w.blob(&self.0.data.clone().into_bytes());
        });
    }
}

impl Decode for Wrapped {
    const MIN_BYTES: usize = 36;

    fn decode(r: &mut Reader<'_>) -> Result<Wrapped, DecodeError> {
        let (_, mut r) = r.versioned("wrapped message", 1)?;
        let header = Header {
            tid: r.u64()?,
            kind: r.u16()?,
            priority: r.u16()?,
            version: r.u16()?,
            compat_version: r.u16()?,
            data_off: r.u16()?,
        };
        let (front, middle) = (r.blob_bytes()?, r.blob_bytes()?);
        Ok(Wrapped(Envelope { header, front, middle, data: Rope::from(r.blob_bytes()?) }))
    }
}

/// A session of the sender's, of which the leader hears for the first time or again, and what came on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forward {
    /// The sender's number of the session.
    pub session: u64,
    pub name: EntityName,
    pub auth_name: AuthName,
    pub addrs: EntityAddrVec,
    pub features: u64,
    pub global_id: u64,
    /// By which the leader tells earlier sessions of a client from later ones, by whatever monitors they came.
    pub global_seq: u64,
    /// `None`: the leader is only to know of the session.
    pub message: Option<Wrapped>,
    /// `None`: nobody proved that `auth_name` is at the other end.
    pub proven: Option<Proven>,
}

/// Rights of a party that has proven its name to the monitor that it is connected to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proven {
    /// Capabilities for monitors, as text.
    pub caps: String,
    /// The address at the other end of the connection; empty: it is not known.
    pub from: String,
}

impl Encode for Proven {
    fn encode(&self, w: &mut Writer) {
        w.str(&self.caps);
        w.str(&self.from);
    }
}

impl Decode for Proven {
    const MIN_BYTES: usize = 8;

    fn decode(r: &mut Reader<'_>) -> Result<Proven, DecodeError> {
        Ok(Proven { caps: r.get()?, from: r.get()? })
    }
}

// Version 2 ended before `proven`.
message!(Forward = kind::MON_FORWARD, version 3 {
    session, name, auth_name, addrs, features, global_id, global_seq, message; since 3 { proven }
});

/// A session of which [`Forward`] told is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForwardEnd {
    pub session: u64,
}

message!(ForwardEnd = kind::MON_FORWARD_END, version 1 { session });

/// Message that the leader sends on a session of the receiver's. It may be passed on once the receiver's state includes
/// the log up to `index`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routed {
    pub session: u64,
    pub index: u64,
    /// `None`: the session is to be closed.
    pub message: Option<Wrapped>,
}

message!(Routed = kind::MON_ROUTED, version 1 { session, index, message });

/// How far must my state be to be the newest?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexGet {
    pub id: u64,
}

message!(IndexGet = kind::MON_INDEX_GET, version 1 { id });

/// Answers [`IndexGet`]: everything that was decided before the question came is in the log up to `index`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexGot {
    pub id: u64,
    pub index: u64,
}

message!(IndexGot = kind::MON_INDEX, version 1 { id, index });

/// Asks the leader for ids that the sender may give to clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GlobalIdsGet {
    /// How many are left.
    pub left: u64,
}

message!(GlobalIdsGet = kind::MON_IDS_GET, version 1 { left });

/// Ids from `from` up to, without it, `below`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GlobalIds {
    pub from: u64,
    pub below: u64,
}

message!(GlobalIds = kind::MON_IDS, version 1 { from, below });

/// Message of an OSD to the sender, for the receiver's statistics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdSaid {
    pub message: Wrapped,
}

message!(OsdSaid = kind::MON_OSD_SAID, version 1 { message });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;
    use crate::Target;

    #[test]
    fn messages_travel_within_messages() {
        let inner = Envelope {
            header: Header { tid: 9, kind: 50, priority: 127, version: 2, compat_version: 1, data_off: 3 },
            front: Bytes::from_static(b"front"),
            middle: Bytes::from_static(b"mid"),
            data: Rope::from(Bytes::from_static(b"payload")),
        };
        let forward = Forward {
            session: 7,
            name: EntityName::osd(types::OsdId(3)),
            auth_name: AuthName::new(types::EntityType::OSD, "3"),
            addrs: "v2:10.0.0.1:6800/5".parse().unwrap(),
            features: 0x55,
            global_id: 4200,
            global_seq: 17,
            message: Some(Wrapped(inner.clone())),
            proven: Some(Proven { caps: "allow r".to_owned(), from: "10.0.0.1".to_owned() }),
        };
        let sealed = forward.clone().seal(0, Target::PACIFIC);
        assert_eq!(Forward::open(&sealed).unwrap(), forward);
        let hollow = Forward { message: None, ..forward };
        assert_eq!(Forward::open(&hollow.clone().seal(0, Target::PACIFIC)).unwrap(), hollow);
        // Cut short anywhere, it is an error and nothing worse.
        for cut in 0..sealed.front.len() {
            let short = Envelope { front: sealed.front.slice(..cut), ..sealed.clone() };
            assert!(Forward::open(&short).is_err(), "{cut}");
        }
    }

    #[test]
    fn hello_bytes_do_not_move() {
        let hello = MonHello {
            fsid: Fsid([7; 16]),
            server: 0x0102,
            founder: 0,
            name: "b".into(),
            addrs: EntityAddrVec::default(),
            metadata: BTreeMap::new(),
            wall: Utime { sec: 5, nsec: 6 },
            quorum: None,
            options: Vec::new(),
            state_sum: None,
        };
        let sealed = hello.clone().seal(0, Target::PACIFIC);
        assert_eq!(sealed.header.kind, 0x4e40);
        // version, compat, length | fsid | server | founder | name | addrs | metadata | wall | quorum | options | sum
        let expect = [
            &[3, 1, 60, 0, 0, 0][..],
            &[7; 16],
            &[2, 1, 0, 0, 0, 0, 0, 0],
            &[0; 8],
            &[1, 0, 0, 0, b'b'],
            &[2, 0, 0, 0, 0],
            &[0; 4],
            &[5, 0, 0, 0, 6, 0, 0, 0],
            &[0],
            &[0; 4],
            &[0],
        ];
        let expect: Vec<u8> = expect.concat();
        assert_eq!(sealed.front[..], expect[..], "{:?}", &sealed.front[..]);
        // Version 1 ended before the options, version 2 before the sum.
        for (version, left_out) in [(1, 5), (2, 1)] {
            let mut earlier = expect[..expect.len() - left_out].to_vec();
            (earlier[0], earlier[2]) = (version, 60 - left_out as u8);
            let envelope = Envelope { front: earlier.into(), ..sealed.clone() };
            assert_eq!(MonHello::open(&envelope).unwrap(), hello, "version {version}");
        }
        let told =
            MonHello { state_sum: Some(StateSum { software: "1.2".into(), applied: 1, bytes: 2, crc: 3 }), ..hello };
        assert_eq!(MonHello::open(&told.clone().seal(0, Target::PACIFIC)).unwrap(), told);
    }
}
