//! Messages by which members of a group come to agree on an interval and a log, and by which OSDs find out who has a
//! group.

use super::PeerKind;
use super::interval::PgInterval;
use crate::group::info::PgInfo;
use crate::group::log::LogEntry;
use std::collections::BTreeMap;
use types::{EVersion, Epoch, ObjectId, OsdId, PgId};
use wire::own_message as message;
use wire::{Decode, DecodeError, Encode, Header, Message, Reader, Rope, Writer};

/// Facts that the members of one interval agree about. A member may have a newer map than the primary, whose interval
/// may be over there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// The acting set, in erasure-coded pools followed by the one that they should come to, which tells who is brought
    /// which shard.
    pub sets: Vec<OsdId>,
    /// Numbers of groups that the pool has, and that it is to have next: they tell which objects are the group's, and
    /// if it is about to be merged. `None`: from software that does not tell.
    pub pg_nums: Option<(u32, u32)>,
}

/// Primary to member: an interval begins, tell me what you have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgQuery {
    /// The member must have this map before it answers.
    pub epoch: Epoch,
    pub groups: Vec<(PgInterval, Agreed)>,
}

/// Versions of the encodings of messages in which groups agree. Each has all fields of those before it.
mod form {
    /// Has the fields that each message had at first.
    pub const PLAIN: u8 = 1;
    /// Adds to [`PgQuery`](super::PgQuery) the numbers of groups of the pool.
    pub const QUERY_PG_NUMS: u8 = 2;
    /// Adds to [`PgNotify`](super::PgNotify) promises.
    pub const NOTIFY_PROMISES: u8 = 2;
    /// Adds to [`PgNotify`](super::PgNotify) shares of leases. Receivers must know this version: who does not know of
    /// shares must not go on.
    pub const NOTIFY_SHARES: u8 = 3;
    /// Adds to [`PgNotify`](super::PgNotify) groups of which the sender is no member. Who does not know of that takes
    /// it for one that has nothing.
    pub const NOTIFY_STRANGE: u8 = 4;
}

impl Message for PgQuery {
    const TYPE: u16 = PeerKind::PgQuery.number();

    fn encode_front(&self, w: &mut Writer) {
        w.versioned(form::QUERY_PG_NUMS, form::PLAIN, |w| {
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
        let (version, mut r) = front.versioned("PgQuery", form::QUERY_PG_NUMS)?;
        let epoch = r.get()?;
        let sets: Vec<(PgInterval, Vec<OsdId>)> = r.get()?;
        let pg_nums: Vec<(u32, u32)> = if version.version >= form::QUERY_PG_NUMS { r.get()? } else { Vec::new() };
        let pg_nums = pg_nums.into_iter().map(Some).chain(std::iter::repeat(None));
        let groups = sets.into_iter().zip(pg_nums).map(|((pg, sets), pg_nums)| (pg, Agreed { sets, pg_nums }));
        Ok(PgQuery { epoch, groups: groups.collect() })
    }
}

/// One member's state of one group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemberState {
    /// `None`: nothing.
    pub info: Option<PgInfo>,
    /// Objects of which the log knows a version that the member's store does not have.
    pub missing: BTreeMap<ObjectId, EVersion>,
}

impl MemberState {
    /// Returns about how many bytes it takes in a message.
    pub fn size_bytes(&self) -> usize {
        let objects = self.missing.keys().map(|object| object.name.len() + object.key.len() + object.nspace.len());
        OTHER_BYTES * (1 + self.missing.len()) + objects.sum::<usize>()
    }
}

/// Bytes of an object's id and version beside its names, and of what a member says of itself, with some to spare.
const OTHER_BYTES: usize = 100;

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
    /// Microseconds that promises which the sender may have made before it started can last.
    pub unknown_promises: u64,
    /// Microseconds that its promises to other OSDs last.
    pub promises: Vec<(OsdId, u64)>,
    /// Microseconds that others may read in groups that the sender leads or led ([`super::lease::ReadShare`]).
    pub shares: Vec<(OsdId, u64)>,
    /// Members of `groups` of which the sender is no member by its map, so that what it has of them is not told.
    pub strange: Vec<PgInterval>,
}

impl Message for PgNotify {
    const TYPE: u16 = PeerKind::PgNotify.number();

    fn encode_front(&self, w: &mut Writer) {
        // Few have shares or strange groups: the others are as they were.
        let (version, oldest) = match (self.shares.is_empty(), self.strange.is_empty()) {
            (true, true) => (form::NOTIFY_PROMISES, form::PLAIN),
            (false, true) => (form::NOTIFY_SHARES, form::NOTIFY_SHARES),
            (true, false) => (form::NOTIFY_STRANGE, form::PLAIN),
            (false, false) => (form::NOTIFY_STRANGE, form::NOTIFY_SHARES),
        };
        w.versioned(version, oldest, |w| {
            w.put(&self.groups);
            w.put(&self.unknown_promises);
            w.put(&self.promises);
            if version >= form::NOTIFY_SHARES {
                w.put(&self.shares);
            }
            if version >= form::NOTIFY_STRANGE {
                w.put(&self.strange);
            }
        });
    }

    fn decode(_: &Header, front: &mut Reader<'_>, _: &Rope) -> Result<PgNotify, DecodeError> {
        let (version, mut r) = front.versioned("PgNotify", form::NOTIFY_STRANGE)?;
        Ok(PgNotify {
            groups: r.get()?,
            unknown_promises: r.get()?,
            promises: r.get()?,
            shares: if version.version >= form::NOTIFY_SHARES { r.get()? } else { Vec::new() },
            strange: if version.version >= form::NOTIFY_STRANGE { r.get()? } else { Vec::new() },
        })
    }
}

/// Primary to member: send me your log after `since`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgLogGet {
    pub pg: PgInterval,
    pub since: EVersion,
}

message!(PgLogGet = PeerKind::PgLogGet.number(), version 1 { pg, since });

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
    /// Requests of updates up to `after`, as entries, for a receiver that starts over.
    pub dups: Vec<LogEntry>,
}

message!(PgLogEntries = PeerKind::PgLogEntries.number(), version 2 { pg, after, entries, info, start_over, dups });

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

message!(PgStart = PeerKind::PgStart.number(), version 2 { pg, after, entries, info });

/// Member to primary: [`PgStart`] is durable; or the member's log does not meet the authoritative one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgStarted {
    pub pg: PgInterval,
    /// The member now has the log, and has remembered the interval.
    pub merged: bool,
    /// Objects of which the member then lacks the newest version.
    pub missing: BTreeMap<ObjectId, EVersion>,
}

message!(PgStarted = PeerKind::PgStarted.number(), version 2 { pg, merged, missing });

/// Member to primary: something of this interval has not come, so I do not follow you in it any more. Begin another
/// one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgInterrupted {
    pub pg: PgInterval,
}

message!(PgInterrupted = PeerKind::PgInterrupted.number(), version 1 { pg });

/// Primary to every OSD that is up: what do you have of these groups?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgSought {
    /// The asker's map: whoever has not seen it may still serve.
    pub epoch: Epoch,
    /// Groups as clients name them, whatever shard a copy is of.
    pub groups: Vec<PgId>,
}

message!(PgSought = PeerKind::PgSought.number(), version 1 { epoch, groups });

/// Answers [`PgSought`]: each group with what is there of it, which may be nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgFound {
    /// The answerer's map.
    pub epoch: Epoch,
    pub groups: Vec<(PgId, Vec<FoundCopy>)>,
}

message!(PgFound = PeerKind::PgFound.number(), version 1 { epoch, groups });

/// One copy of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundCopy {
    /// The shard, in erasure-coded pools.
    pub shard: Option<u8>,
    /// True if the copy answers for all objects.
    pub complete: bool,
    pub last_epoch_started: Epoch,
    pub last_update: EVersion,
}

impl Encode for FoundCopy {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.shard);
            w.bool(self.complete);
            w.put(&self.last_epoch_started);
            w.put(&self.last_update);
        });
    }
}

impl Decode for FoundCopy {
    const MIN_BYTES: usize = 8;

    fn decode(r: &mut Reader<'_>) -> Result<FoundCopy, DecodeError> {
        let (_, mut r) = r.versioned("found copy", 1)?;
        Ok(FoundCopy { shard: r.get()?, complete: r.bool()?, last_epoch_started: r.get()?, last_update: r.get()? })
    }
}

/// OSD to primary: I have copies of these groups and am no member. Are they needed?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgStrays {
    /// The asker's map; an older one says nothing.
    pub epoch: Epoch,
    pub groups: Vec<PgId>,
}

message!(PgStrays = PeerKind::PgStrays.number(), version 1 { epoch, groups });

/// Primary to an OSD that is no member: these copies are not needed. A copy of which the receiver is a member by now
/// stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgUnneeded {
    /// The primary's map.
    pub epoch: Epoch,
    pub groups: Vec<PgId>,
}

message!(PgUnneeded = PeerKind::PgUnneeded.number(), version 1 { epoch, groups });

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
