//! Shards of those that served before and do not act for them now.
//!
//! An acting set may have come to be without an OSD that had, with its primary alone, what clients had been answered
//! for: it was down for a moment, and somebody else was to have its shard. Once it is up again it is read from there,
//! until nobody lacks anything any more: so long the record names who served before.

use super::shard_reading::{ReadBeside, read_shard};
use super::source::{Source, SourceStanding};
use crate::context::{Context, Waiter};
use crate::group::lookup::{NoAnswer, ready};
use crate::group::missing::missing_key;
use crate::messages::coded::{ShardReadOutcome, ShardReadReply, StrayRead};
use crate::messages::table::GroupMessage;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::{LookupId, ReadError};
use types::{Epoch, ObjectId, OsdId};
use wire::Rope;

/// Time that an OSD has to answer that is no member. Such an OSD can go down without a new interval.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Time after which an OSD that did not have something, or did not answer, is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(30);
const _: () = assert!(
    ANSWER_WITHIN.as_millis() < ASK_AGAIN_AFTER.as_millis(),
    "an OSD is asked again only after the time for its last answer is up"
);

/// A primary's knowledge of OSDs that served before.
#[derive(Debug, Default)]
pub(crate) struct OldShards {
    /// OSDs that are up, with the shard that each had, and since when.
    there: BTreeMap<(OsdId, u8), Epoch>,
    /// OSDs of `there`, and members, that might have had a shard of an object and do not.
    not_there: BTreeMap<ObjectId, BTreeSet<(OsdId, usize)>>,
    ask_again_at: Option<Duration>,
}

impl OldShards {
    /// Notes who is there. Returns true if what could not be read may be tried again: somebody has come, or time has
    /// passed.
    pub(super) fn are_there(&mut self, there: BTreeMap<(OsdId, u8), Epoch>, now: Duration) -> bool {
        let has_come = there.iter().any(|(holder, since)| self.there.get(holder) != Some(since));
        self.there = there;
        let may_try = has_come || self.ask_again_at.is_some_and(|at| at <= now);
        if may_try {
            self.not_there.clear();
            self.ask_again_at = None;
        }
        may_try
    }

    /// Notes that an OSD that might have had a shard of an object does not.
    pub(super) fn lacks(&mut self, object: ObjectId, holder: (OsdId, usize), now: Duration) {
        self.not_there.entry(object).or_default().insert(holder);
        self.ask_again_at.get_or_insert(now + ASK_AGAIN_AFTER);
    }

    pub fn sources(&self) -> impl Iterator<Item = Source> {
        let source = |(osd, shard): &(OsdId, u8)| Source {
            shard: usize::from(*shard),
            osd: *osd,
            standing: SourceStanding::ServedBefore,
        };
        self.there.keys().map(source)
    }

    pub fn is_not_there(&self, object: &ObjectId, osd: OsdId, shard: usize) -> bool {
        self.not_there.get(object).is_some_and(|holders| holders.contains(&(osd, shard)))
    }
}

/// A read for another OSD's group, or this one's, that waits for the device.
#[derive(Debug)]
pub(crate) struct OldShardRead {
    to: OsdId,
    asked: StrayRead,
    read: ReadBeside,
}

/// Reads of old shards that an OSD answers.
pub(crate) type OldShardReads = BTreeMap<LookupId, OldShardRead>;

impl Context<'_> {
    /// Reads bytes of a shard that this OSD does not act for, as a primary wants. Returns the answer, if it is there
    /// already.
    pub(crate) fn old_shard_wanted(&mut self, to: OsdId, mut asked: StrayRead) -> Option<ShardReadReply> {
        // The shard that it names is the one that this OSD had.
        let pool = asked.pg.pgid.pool;
        asked.rehome(pool);
        self.read_old_shard(OldShardRead { to, asked, read: ReadBeside::default() })
    }

    fn read_old_shard(&mut self, mut read: OldShardRead) -> Option<ShardReadReply> {
        let answer = self.old_shard(&mut read);
        match answer {
            Ok((outcome, data)) => Some(read.reply(outcome, data)),
            Err(NoAnswer::Pending(id)) => {
                self.wait(id, Waiter::OldShard);
                self.shared.old_shard_reads.insert(id, read);
                None
            }
            Err(NoAnswer::Damaged(damage)) => {
                tracing::error!(pg = %read.asked.pg.pgid, object = %read.asked.object, "shard cannot be read: {damage}");
                Some(read.reply(ShardReadOutcome::Bad, Rope::new()))
            }
        }
    }

    fn old_shard(&mut self, read: &mut OldShardRead) -> Result<(ShardReadOutcome, Rope), NoAnswer> {
        let asked = read.asked.as_shard_read();
        let is_missing = ready(self.store.pg_get(asked.pg.pgid, &missing_key(&asked.object)))?.is_some();
        read_shard(self.store, &asked, is_missing, &mut read.read)
    }

    /// Goes on with a read of an old shard, whose lookup is done. Returns the answer and who is to have it, if there is
    /// one now.
    pub(crate) fn old_shard_lookup_done(
        &mut self,
        id: LookupId,
        data: Option<Result<Rope, ReadError>>,
    ) -> Option<(OsdId, ShardReadReply)> {
        let read = self.shared.old_shard_reads.remove(&id)?;
        let to = read.to;
        let reply = match data {
            None => self.read_old_shard(read)?,
            Some(Ok(data)) => read.reply(ShardReadOutcome::Read, data),
            Some(Err(e)) => {
                tracing::error!(pg = %read.asked.pg.pgid, object = %read.asked.object, "shard cannot be read: {e}");
                read.reply(ShardReadOutcome::Bad, Rope::new())
            }
        };
        Some((to, reply))
    }
}

impl OldShardRead {
    fn reply(self, outcome: ShardReadOutcome, data: Rope) -> ShardReadReply {
        let (pg, read) = (self.asked.pg, self.asked.read);
        let (attrs, omap) = (self.read.attrs.unwrap_or_default(), self.read.omap);
        ShardReadReply { pg, read, outcome, attrs, omap, data }
    }
}
