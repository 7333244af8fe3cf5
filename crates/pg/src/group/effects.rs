//! Notices between the parts of a group.
//!
//! A part that handles an input does not call the others where it need not know their answer: it notes what it has
//! caused ([`Context::cause`](crate::context::Context::cause)). When the input is handled, the shard has each group act
//! on its notices, in the order of [`Effect`]'s variants, until there are none ([`Shard::settle`](crate::Shard)).
//! Several causes of one effect count once. An effect may cause further ones; those of an earlier variant come first
//! again.

use crate::scrub::record::Record;
use std::collections::BTreeSet;
use types::{EVersion, EntityName, ObjectId, OsdId, Utime};

/// Something that one part of a group has caused and another one acts on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Effect {
    /// A member has its log, and gets what is behind `from` (`None`: everything) by backfill.
    Backfill { osd: OsdId, from: Option<ObjectId> },
    /// An object is to be brought to all members that serve, before the group serves.
    Bring(ObjectId),
    /// The former state of an object, to which it goes back, is to be fetched.
    PullFormer { object: ObjectId, source: OsdId },
    /// An object goes back to what it was, which is here, by an update.
    GoBack(ObjectId),
    /// The group has become active: clients may send again, and parts that work only then begin.
    Active,
    /// A member that was brought everything has all that clients were answered for, too: it may serve.
    MemberSettled(OsdId),
    /// Updates are done: their clients are answered.
    UpdatesDone,
    /// The interval has lost its ground, for this reason: it ends, and the next one begins with the next map.
    PeerAnew(&'static str),
    /// Something of the interval has not come from another OSD: the interval is not gone on with.
    SessionEnded(OsdId),
    /// Copies of an object are bad: healing replaces them.
    Replace(BadCopies),
    /// A read has found a shard of an object bad: healing replaces it.
    ShardIsBad { object: ObjectId, osd: OsdId, version: EVersion },
    /// This OSD's own shard of an object, computed of others', is not what it should be. `bad`: shards of these OSDs
    /// made it so, if that is known.
    OwnShardIsWrong { object: ObjectId, version: EVersion, bad: Vec<OsdId> },
    /// This OSD's own shard of an object, which was pulled, cannot be computed.
    NoOwnShard(ObjectId),
    /// A piece of this OSD's own shard of an object is computed: healing takes it.
    OwnPiece(ObjectId),
    /// This OSD's copy of an object no longer counts. What operations have read of it does not, either.
    LostHere(ObjectId),
    /// An update of an object that a scrub holds back is durable: the scrub may go on.
    ScrubSettled,
    /// This OSD has all objects again, or the group has begun to serve: operations that wait for the group start.
    StartOps,
    /// Operations on an object may start: it has come to where they need it, or cannot come, or an update of it
    /// is done.
    RunObject(ObjectId),
    /// Operations on objects in `from .. until` may start.
    RunObjects { from: ObjectId, until: ObjectId },
    /// The watchers of an object are to be read from the object.
    LookAtWatched(ObjectId),
    /// The client of a watch is silent: the watch is to be removed.
    RemoveWatch { object: ObjectId, cookie: u64, client: EntityName },
    /// Digests of an object are to be recorded. `mtime`: when the object was changed; the oldest come first.
    Record { mtime: Utime, object: ObjectId, record: Record },
    /// States of an object that no snapshot needs any more are to be removed.
    Trim(ObjectId),
    /// Something is missing somewhere, or can be had, that was not before: healing goes on.
    Recover,
    /// This OSD's own shard of an object, which is pulled, is to be computed.
    Rebuild(ObjectId),
    /// A client waits for an object whose shard here is computed.
    HurryRebuild(ObjectId),
    /// Objects for another OSD wait to be sent: sending to it goes on.
    Send(OsdId),
    /// Objects that could not be read are read again.
    Reread,
    /// An object that goes back has come from another member as it was.
    FormerCame(ObjectId),
    /// A member that was brought everything serves from now on.
    MemberServes(OsdId),
    /// Members have got further: the group may serve, or the monitors should know.
    MembersChanged,
    /// The group will perhaps not serve soon: operations that wait for it are to wait with their clients.
    HoldClientsBack,
    /// The monitors are to learn the group's state with the next beacon.
    Report,
}

/// Copies of one object, or shards of it, that are bad.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct BadCopies {
    pub object: ObjectId,
    /// The members that have them.
    pub bad: BTreeSet<OsdId>,
    /// The version that replaces them; `None`: the object should not be there.
    pub version: Option<EVersion>,
    pub reason: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PoolId;

    #[test]
    fn what_reads_over_shards_find_out_is_known_before_operations_run_and_objects_are_sent() {
        let object = ObjectId::head(PoolId(1), 7, b"", b"a");
        let version = EVersion::ZERO;
        let found_out = [
            Effect::ShardIsBad { object: object.clone(), osd: OsdId(1), version },
            Effect::OwnShardIsWrong { object: object.clone(), version, bad: Vec::new() },
            Effect::NoOwnShard(object.clone()),
            Effect::OwnPiece(object.clone()),
        ];
        for later in [Effect::StartOps, Effect::RunObject(object.clone()), Effect::Recover, Effect::Send(OsdId(0))] {
            assert!(found_out.iter().all(|effect| *effect < later), "{later:?}");
        }
    }

    #[test]
    fn what_agreement_and_updates_cause_in_an_interval_is_done_before_the_interval_ends() {
        let object = ObjectId::head(PoolId(1), 7, b"", b"a");
        let of_interval = [
            Effect::Backfill { osd: OsdId(1), from: None },
            Effect::Bring(object.clone()),
            Effect::PullFormer { object: object.clone(), source: OsdId(1) },
            Effect::GoBack(object),
            Effect::Active,
            Effect::MemberSettled(OsdId(1)),
            Effect::UpdatesDone,
        ];
        for ends in [Effect::PeerAnew(""), Effect::SessionEnded(OsdId(0))] {
            assert!(of_interval.iter().all(|effect| *effect < ends), "{ends:?}");
        }
    }
}
