//! A member's durable knowledge of a placement group, beside the log.

use bytes::Bytes;
use store::Step;
use types::{EVersion, Epoch, ObjectId};
use wire::{Decode, DecodeError, Encode, Reader, Target, Writer};

/// Key of the [`PgInfo`] in the group's table.
pub const INFO_KEY: Bytes = Bytes::from_static(b"info");

/// Counts over a group's objects and client operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PgStats {
    /// Objects, with the ones at snapshots and the ones that are there for their snapshots' sake only.
    pub objects: i64,
    /// Objects at snapshots.
    pub clones: i64,
    pub bytes: i64,
    pub write_ops: u64,
    pub write_kib: u64,
}

/// One member's knowledge of its placement group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PgInfo {
    /// Newest update in the log.
    pub last_update: EVersion,
    /// The log reaches back to here.
    pub log_tail: EVersion,
    /// The interval in which this member last was brought up to date with all others of the acting set.
    pub last_epoch_started: Epoch,
    /// False while this member is backfilled: the primary brings what is here to what the others have, object by
    /// object.
    pub complete: bool,
    /// Set for a member that is not complete: objects before this one are as the log and the missing ones say. Nothing
    /// is known of the others, whatever is here. `None`: nothing is known of any object.
    pub last_backfill: Option<ObjectId>,
    /// Epoch in which the pool was made.
    pub created: Epoch,
    pub last_user_version: u64,
    pub stats: PgStats,
    /// Number of groups that the pool had in the interval in which this was written: with it the group's objects are
    /// known from the store alone. 0: not known (written by a version that did not keep it).
    pub pg_num: u32,
    /// Updates up to here will stay, because all members that serve had them. In erasure-coded pools the shards no
    /// longer keep what would take them back. A lower bound.
    pub rolled_forward: EVersion,
    /// The interval that the record named when this member last joined one that was not recorded yet; and the newest
    /// update that it had then. What its log got from others since is not what it was sent as one that serves.
    pub own_in: Epoch,
    pub own_until: EVersion,
    /// In erasure-coded pools: clients were answered for updates up to here, as this member knows. All that served had
    /// them but for those whose shards an update skips. A lower bound.
    pub answered: EVersion,
}

impl PgInfo {
    /// Joins an interval while the record names the one that began at `recorded`.
    pub fn joins_after(&mut self, recorded: Epoch) {
        if self.own_in != recorded {
            (self.own_in, self.own_until) = (recorded, self.last_update);
        }
    }

    /// Returns the newest update that this member can have got as one that serves, in the interval that the record
    /// names or before.
    pub fn had_itself(&self, recorded: Epoch) -> EVersion {
        if self.own_in == recorded { self.own_until } else { self.last_update }
    }

    /// Takes over what is the same on all members that have the same log.
    pub fn follow(&mut self, primary: &PgInfo) {
        (self.last_user_version, self.stats, self.created) =
            (primary.last_user_version, primary.stats, primary.created);
        self.answered = self.answered.max(primary.answered);
    }

    /// Returns true if this member answers for the object: its state here is as the log and the missing objects say.
    pub fn covers(&self, object: &ObjectId) -> bool {
        self.complete || self.last_backfill.as_ref().is_some_and(|before| object < before)
    }

    /// Keeps the information in the group's table.
    pub fn step(&self) -> Step {
        Step::PgSet { key: INFO_KEY, value: self.to_vec(Target::default()).into() }
    }
}

/// Versions of the encoding of [`PgInfo`]. Each has all fields of those before it.
mod form {
    /// Ends with the counts of writes.
    pub const PLAIN: u8 = 1;
    /// Adds the number of groups of the pool.
    pub const PG_NUM: u8 = 2;
    /// Adds up to where a backfill has come.
    pub const LAST_BACKFILL: u8 = 3;
    /// Adds the version up to which updates of erasure-coded objects stay.
    pub const ROLLED_FORWARD: u8 = 4;
    /// Adds the number of clones.
    pub const CLONES: u8 = 5;
    /// Adds what the member got as one that serves.
    pub const OWN: u8 = 6;
    /// Adds up to where clients were answered.
    pub const ANSWERED: u8 = 7;
}

impl Encode for PgInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(form::ANSWERED, form::PLAIN, |w| {
            w.put(&self.last_update);
            w.put(&self.log_tail);
            w.put(&self.last_epoch_started);
            w.bool(self.complete);
            w.put(&self.created);
            w.u64(self.last_user_version);
            w.i64(self.stats.objects);
            w.i64(self.stats.bytes);
            w.u64(self.stats.write_ops);
            w.u64(self.stats.write_kib);
            w.u32(self.pg_num);
            w.put(&self.last_backfill);
            w.put(&self.rolled_forward);
            w.i64(self.stats.clones);
            w.put(&self.own_in);
            w.put(&self.own_until);
            w.put(&self.answered);
        });
    }
}

impl Decode for PgInfo {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<PgInfo, DecodeError> {
        let (version, mut r) = r.versioned("placement group information", form::ANSWERED)?;
        let mut info = PgInfo {
            last_update: r.get()?,
            log_tail: r.get()?,
            last_epoch_started: r.get()?,
            complete: r.bool()?,
            created: r.get()?,
            last_user_version: r.u64()?,
            stats: PgStats { objects: r.i64()?, bytes: r.i64()?, write_ops: r.u64()?, write_kib: r.u64()?, clones: 0 },
            pg_num: if version.version >= form::PG_NUM { r.u32()? } else { 0 },
            last_backfill: if version.version >= form::LAST_BACKFILL { r.get()? } else { None },
            rolled_forward: if version.version >= form::ROLLED_FORWARD { r.get()? } else { EVersion::ZERO },
            own_in: Epoch(0),
            own_until: EVersion::ZERO,
            answered: EVersion::ZERO,
        };
        if version.version >= form::CLONES {
            info.stats.clones = r.i64()?;
        }
        if version.version >= form::OWN {
            (info.own_in, info.own_until) = (r.get()?, r.get()?);
        }
        if version.version >= form::ANSWERED {
            info.answered = r.get()?;
        }
        Ok(info)
    }
}
