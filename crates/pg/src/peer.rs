//! What OSDs say to each other about placement groups.
//!
//! Every message names the group and the *interval* it belongs to, by the first epoch in which the group's primary
//! saw the present acting set. A member follows one primary at a time: it joins an interval when that primary's
//! [`PgQuery`] arrives, and ignores what names another.

use crate::coded::undo::Undo;
use crate::hops::MemberHops;
use crate::info::PgInfo;
use crate::log::LogEntry;
use crate::step_codec::{decode_steps, encode_steps};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::Step;
use types::{EVersion, Epoch, ObjectId, OsdId, PgId};
use wire::nacre::kind;
use wire::own_message as message;
use wire::{Decode, DecodeError, Encode, Header, Message, Reader, Rope, Writer};

/// A group in one of its intervals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PgInterval {
    pub pgid: PgId,
    pub since: Epoch,
}

impl Encode for PgInterval {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.pgid);
        w.put(&self.since);
    }
}

impl Decode for PgInterval {
    const MIN_BYTES: usize = 21;

    fn decode(r: &mut Reader<'_>) -> Result<PgInterval, DecodeError> {
        Ok(PgInterval { pgid: r.get()?, since: r.get()? })
    }
}

/// Primary to member: make this update durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepOp {
    pub pg: PgInterval,
    pub entry: LogEntry,
    /// Of states of the object that come or go with the update. They come before its own entry and follow each other.
    pub others: Vec<LogEntry>,
    /// The group's information after the update.
    pub info: PgInfo,
    /// Every member has all updates up to here durably.
    pub committed: EVersion,
    pub steps: Vec<Step>,
    /// The acknowledgement is to tell how long it took ([`MemberHops`]).
    pub hops_wanted: bool,
}

impl Message for RepOp {
    const TYPE: u16 = kind::REP_OP;

    fn encode_front(&self, w: &mut Writer) {
        // Version 2 adds the wish, which few updates have: the others are as they were. Version 3 adds entries, without
        // which an update is not whole. Version 4 has such as must be renamed, as other shards' ones.
        let (version, oldest) = match (self.others.is_empty(), self.hops_wanted) {
            (true, false) => (1, 1),
            (true, true) => (2, 1),
            (false, _) if self.others.iter().all(|entry| entry.undo == Undo::Nothing) => (3, 3),
            (false, _) => (4, 4),
        };
        w.versioned(version, oldest, |w| {
            w.put(&self.pg);
            w.put(&self.entry);
            w.put(&self.info);
            w.put(&self.committed);
            encode_steps(&self.steps, w, &mut Rope::new());
            if version >= 2 {
                w.bool(self.hops_wanted);
            }
            if version >= 3 {
                w.put(&self.others);
            }
        });
    }

    fn take_data(&mut self) -> Rope {
        let mut payload = Rope::new();
        for step in &mut self.steps {
            if let Step::Write { data, .. } = step {
                payload.append(std::mem::take(data));
            }
        }
        payload
    }

    fn decode(_: &Header, front: &mut Reader<'_>, data: &Rope) -> Result<RepOp, DecodeError> {
        let (version, mut r) = front.versioned("RepOp", 4)?;
        Ok(RepOp {
            pg: r.get()?,
            entry: r.get()?,
            info: r.get()?,
            committed: r.get()?,
            steps: decode_steps(&mut r, data)?,
            hops_wanted: version.version >= 2 && r.bool()?,
            others: if version.version >= 3 { r.get()? } else { Vec::new() },
        })
    }
}

/// Member to primary: durable up to these versions, per group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepOpReply {
    pub durable: Vec<(PgInterval, EVersion)>,
    /// How long single updates took here: those of which it was wanted, and slow ones.
    pub hops: Vec<((PgInterval, EVersion), MemberHops)>,
}

impl Message for RepOpReply {
    const TYPE: u16 = kind::REP_OP_REPLY;

    fn encode_front(&self, w: &mut Writer) {
        // Version 2 adds the hops, which few acknowledgements have: the others are as they were.
        w.versioned(1 + u8::from(!self.hops.is_empty()), 1, |w| {
            w.put(&self.durable);
            if !self.hops.is_empty() {
                w.put(&self.hops);
            }
        });
    }

    fn decode(_: &Header, front: &mut Reader<'_>, _: &Rope) -> Result<RepOpReply, DecodeError> {
        let (version, mut r) = front.versioned("RepOpReply", 2)?;
        let durable = r.get()?;
        Ok(RepOpReply { durable, hops: if version.version >= 2 { r.get()? } else { Vec::new() } })
    }
}

/// What the members of one interval agree about. A member may have a newer map than the primary, whose interval may be
/// over there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// The acting set, in erasure-coded pools followed by the one that they should come to, which tells who is brought which
    /// shard.
    pub sets: Vec<OsdId>,
    /// How many groups the pool has, and how many there are to be next: they tell which objects are the group's, and whether it
    /// is about to be merged. `None`: from software that does not tell.
    pub pg_nums: Option<(u32, u32)>,
}

/// Primary to member: an interval begins, tell me what you have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgQuery {
    /// The member must have this map before it answers.
    pub epoch: Epoch,
    pub groups: Vec<(PgInterval, Agreed)>,
}

impl Message for PgQuery {
    const TYPE: u16 = kind::PG_QUERY;

    fn encode_front(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.epoch);
            w.put(&(self.groups.len() as u32));
            for (pg, agreed) in &self.groups {
                w.put(pg);
                w.put(&agreed.sets);
            }
            let pg_nums = self.groups.iter().map(|(_, agreed)| agreed.pg_nums.unwrap_or_default());
            w.put(&pg_nums.collect::<Vec<(u32, u32)>>());
        });
    }

    fn decode(_: &Header, front: &mut Reader<'_>, _: &Rope) -> Result<PgQuery, DecodeError> {
        let (version, mut r) = front.versioned("PgQuery", 2)?;
        let epoch = r.get()?;
        let sets: Vec<(PgInterval, Vec<OsdId>)> = r.get()?;
        let pg_nums: Vec<(u32, u32)> = if version.version >= 2 { r.get()? } else { Vec::new() };
        let pg_nums = pg_nums.into_iter().map(Some).chain(std::iter::repeat(None));
        let groups = sets.into_iter().zip(pg_nums).map(|((pg, sets), pg_nums)| (pg, Agreed { sets, pg_nums }));
        Ok(PgQuery { epoch, groups: groups.collect() })
    }
}

/// What a member has of one group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemberState {
    /// `None`: nothing.
    pub info: Option<PgInfo>,
    /// Objects of which the log knows a version that the member's store does not have.
    pub missing: BTreeMap<ObjectId, EVersion>,
}

impl Encode for MemberState {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.info);
        w.put(&self.missing);
    }
}

impl Decode for MemberState {
    const MIN_BYTES: usize = 5;

    fn decode(r: &mut Reader<'_>) -> Result<MemberState, DecodeError> {
        Ok(MemberState { info: r.get()?, missing: r.get()? })
    }
}

/// Member to primary: answers [`PgQuery`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgNotify {
    pub groups: Vec<(PgInterval, MemberState)>,
    /// For how many microseconds promises that the sender may have made before it started can last.
    pub unknown_promises: u64,
    /// For how many microseconds its promises to other OSDs last.
    pub promises: Vec<(OsdId, u64)>,
    /// For how many microseconds others may read in groups that the sender leads or led ([`crate::peer_share::ReadShare`]).
    pub shares: Vec<(OsdId, u64)>,
    /// Those of `groups` of which the sender is no member by its map, so that what it has of them is not told.
    pub strange: Vec<PgInterval>,
}

impl Message for PgNotify {
    const TYPE: u16 = kind::PG_INFO;

    fn encode_front(&self, w: &mut Writer) {
        // Version 3 adds shares, which few have: the others are as they were. Who does not know of them must not go on.
        // Version 4 adds groups of which the sender is no member; who does not know of that takes it for one that has nothing.
        let (version, oldest) = match (self.shares.is_empty(), self.strange.is_empty()) {
            (true, true) => (2, 1),
            (false, true) => (3, 3),
            (true, false) => (4, 1),
            (false, false) => (4, 3),
        };
        w.versioned(version, oldest, |w| {
            w.put(&self.groups);
            w.put(&self.unknown_promises);
            w.put(&self.promises);
            if version >= 3 {
                w.put(&self.shares);
            }
            if version >= 4 {
                w.put(&self.strange);
            }
        });
    }

    fn decode(_: &Header, front: &mut Reader<'_>, _: &Rope) -> Result<PgNotify, DecodeError> {
        let (version, mut r) = front.versioned("PgNotify", 4)?;
        Ok(PgNotify {
            groups: r.get()?,
            unknown_promises: r.get()?,
            promises: r.get()?,
            shares: if version.version >= 3 { r.get()? } else { Vec::new() },
            strange: if version.version >= 4 { r.get()? } else { Vec::new() },
        })
    }
}

/// Primary to member: may I answer reads? `stamp`: microseconds of the sender's clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseGet {
    pub stamp: u64,
}

message!(LeaseGet = kind::LEASE_GET, version 1 { stamp });

/// Answers [`LeaseGet`]: in the groups in which the sender, which has the map `epoch`, follows the receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseGrant {
    pub stamp: u64,
    pub epoch: Epoch,
}

message!(LeaseGrant = kind::LEASE_GRANT, version 1 { stamp, epoch });

/// Primary to member: send me your log after `since`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgLogGet {
    pub pg: PgInterval,
    pub since: EVersion,
}

message!(PgLogGet = kind::PG_LOG_GET, version 1 { pg, since });

/// A member's log. From a member to its primary in answer to [`PgLogGet`]; from the primary to a member whose log does
/// not meet it, which then starts over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgLogEntries {
    pub pg: PgInterval,
    /// The entries follow this version.
    pub after: EVersion,
    pub entries: Vec<LogEntry>,
    /// The sender's information.
    pub info: PgInfo,
    /// The receiver drops its log, takes this one that begins behind `after`, and answers for no object any more: it is
    /// backfilled.
    pub start_over: bool,
    /// To one that starts over: requests of updates up to `after`, as entries.
    pub dups: Vec<LogEntry>,
}

message!(PgLogEntries = kind::PG_LOG, version 2 { pg, after, entries, info, start_over, dups });

/// Primary to member: push these objects to me.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgPull {
    pub pg: PgInterval,
    pub objects: Vec<ObjectId>,
    /// A client waits for them: they go before others.
    pub urgent: bool,
}

message!(PgPull = kind::PG_PULL, version 2 { pg, objects, urgent });

/// One piece of an object's state. Pieces of an object follow each other; with the last one the object is whole, and replaces
/// whatever the receiver had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgPush {
    pub pg: PgInterval,
    pub object: ObjectId,
    /// Of which version of the object the piece is; zero where that cannot be told.
    pub version: EVersion,
    /// How many pieces came before this one.
    pub piece: u32,
    pub first: bool,
    pub last: bool,
    /// The object does not exist (any more); there is only this piece.
    pub absent: bool,
    /// Size of the whole object.
    pub size_bytes: u64,
    /// With the first piece: all attributes. With the last one: the object information again, by which software that takes
    /// pieces where the object is recognises it as whole.
    pub attrs: BTreeMap<Bytes, Bytes>,
    /// With the first piece.
    pub omap_header: Bytes,
    pub omap: Vec<(Bytes, Bytes)>,
    /// Runs of bytes: offset and length each; the bytes themselves follow each other in the payload.
    pub runs: Vec<(u64, u64)>,
    pub data: Rope,
    /// All objects have been pushed: the receiver, which was backfilled, is complete, if its log has come to `version`. No object
    /// comes with it.
    pub end_of_all: bool,
}

impl Message for PgPush {
    const TYPE: u16 = kind::PG_PUSH;

    fn encode_front(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.pg);
            w.put(&self.object);
            w.bool(self.first);
            w.bool(self.last);
            w.bool(self.absent);
            w.u64(self.size_bytes);
            w.put(&self.attrs);
            w.put(&self.omap_header);
            w.put(&self.omap);
            w.put(&self.runs);
            w.bool(self.end_of_all);
            w.put(&self.version);
            w.u32(self.piece);
        });
    }

    fn take_data(&mut self) -> Rope {
        std::mem::take(&mut self.data)
    }

    fn decode(_: &Header, front: &mut Reader<'_>, data: &Rope) -> Result<PgPush, DecodeError> {
        let (version, mut r) = front.versioned("PgPush", 2)?;
        let mut push = PgPush {
            pg: r.get()?,
            object: r.get()?,
            first: r.bool()?,
            last: r.bool()?,
            absent: r.bool()?,
            size_bytes: r.u64()?,
            attrs: own_map(r.get::<BTreeMap<Bytes, Bytes>>()?),
            omap_header: Bytes::copy_from_slice(r.blob()?),
            omap: own_map(r.get::<Vec<(Bytes, Bytes)>>()?),
            runs: r.get()?,
            end_of_all: r.bool()?,
            data: data.clone(),
            version: EVersion::ZERO,
            piece: 0,
        };
        if version.version >= 2 {
            (push.version, push.piece) = (r.get()?, r.u32()?);
        }
        let mut bytes: u64 = 0;
        for &(offset, len) in &push.runs {
            let end = offset.checked_add(len).filter(|end| *end <= push.size_bytes);
            let total = bytes.checked_add(len);
            let (Some(_), Some(total)) = (end, total) else {
                return Err(DecodeError::Value { what: "run beyond the object's end", value: offset });
            };
            bytes = total;
        }
        if bytes != data.len() as u64 {
            return Err(DecodeError::Value { what: "payload that does not match its runs, bytes", value: bytes });
        }
        Ok(push)
    }
}

/// Entries are kept; they must not pin the frame they came in.
fn own_map<C: FromIterator<(Bytes, Bytes)>>(entries: impl IntoIterator<Item = (Bytes, Bytes)>) -> C {
    entries.into_iter().map(|(k, v)| (Bytes::copy_from_slice(&k), Bytes::copy_from_slice(&v))).collect()
}

/// The receiver of pushes: this object is whole and durable here; or, without an object, everything is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgPushAck {
    pub pg: PgInterval,
    pub object: Option<ObjectId>,
    /// False: there is no room for it.
    pub stored: bool,
}

message!(PgPushAck = kind::PG_PUSH_ACK, version 2 { pg, object, stored });

/// Primary to member: this is the authoritative log. Bring yours to it, and remember durably that you were part of this
/// interval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgStart {
    pub pg: PgInterval,
    /// The entries follow this version and end at the log's head.
    pub after: EVersion,
    pub entries: Vec<LogEntry>,
    /// The primary's information.
    pub info: PgInfo,
}

message!(PgStart = kind::PG_START, version 2 { pg, after, entries, info });

/// Member to primary: [`PgStart`] is durable; or the member's log does not meet the authoritative one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgStarted {
    pub pg: PgInterval,
    /// Whether the member now has the log, and has remembered the interval.
    pub merged: bool,
    /// Objects of which the member then lacks the newest version.
    pub missing: BTreeMap<ObjectId, EVersion>,
}

message!(PgStarted = kind::PG_STARTED, version 2 { pg, merged, missing });

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Target;

    #[test]
    fn questions_of_older_software_do_not_tell_the_number_of_groups() {
        let pg = PgInterval { pgid: PgId::new(1, 2), since: Epoch(3) };
        let agreed = Agreed { sets: vec![OsdId(4), OsdId(5)], pg_nums: Some((6, 7)) };
        let query = PgQuery { epoch: Epoch(8), groups: vec![(pg, agreed.clone())] };
        assert_eq!(PgQuery::open(&query.clone().seal(0, Target::default())), Ok(query));

        let mut front = Writer::new(Target::default());
        front.versioned(1, 1, |w| {
            w.put(&Epoch(8));
            w.put(&vec![(pg, agreed.sets.clone())]);
        });
        let bytes = front.into_vec();
        let mut r = Reader::new(&bytes);
        let older = PgQuery::decode(&Header::default(), &mut r, &Rope::default()).unwrap();
        assert_eq!(older.groups, [(pg, Agreed { pg_nums: None, ..agreed })]);
    }
}
