//! Things that a placement group can reach while it handles an event: the store, the clocks, and its outputs.

use crate::agreement::leases::Leases;
use crate::coded::{CodedReads, OldShardReads};
use crate::copy::Copies;
use crate::group::dups::DupsLimit;
use crate::group::effects::Effect;
use crate::group::load_progress::LoadError;
use crate::healing::pacing::Pacing;
use crate::healing::reservations::Reservations;
use crate::hops::{MemberTimes, Recorder};
use crate::intake::backoffs::Backoffs;
use crate::intake::memory::Held;
use crate::messages::PgInterval;
use crate::messages::peering::{Agreed, MemberState, PgNotify};
use crate::messages::table::{GroupMessage, PeerBound};
use crate::ops::Limits;
use crate::rights::ClientRights;
use crate::tuning::Tuning;
use crate::updates::rooms::Rooms;
use crate::updates::trim_turns::TrimTurns;
use mutant::Mutant;
use osdmap::OsdMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use store::{LookupId, StopReason, Store, SubmitError, Ticket, Transaction};
use types::{EVersion, EntityName, Epoch, ObjectId, OsdId, PgId, Utime};
use wire::messages::LogPriority;
use wire::msgr::SessionId;
use wire::nacre::mon::{PgActivation, PgReport};
use wire::{EntityAddr, Envelope, Message, Target};

/// An order to the driver.
#[derive(Debug)]
pub enum Output {
    /// A message to a client's session, if it is still there.
    ToClient { session: SessionId, envelope: Envelope },
    /// A message to another OSD, over the session between the two.
    ToOsd { osd: OsdId, envelope: Envelope },
    /// A message to the monitor this OSD has a session with. It is lost if there is none; everything said to monitors
    /// is repeated.
    ToMonitor { envelope: Envelope },
    /// A line for the cluster log, written at this time.
    ToClusterLog { priority: LogPriority, message: String, stamp: Utime },
    /// Maps are missing: subscribe to OSD maps from this epoch on (0: the newest, whole).
    NeedMaps { from: Epoch },
    /// The OSD must stop.
    Fatal(Fatal),
}

/// Why an OSD must stop: its store can no longer be trusted, or a belief about it was wrong.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    #[error("{0}")]
    StoreFailed(Box<StopReason>),
    #[error("the store has stopped: {0}")]
    StoreStopped(Box<StopReason>),
    #[error("pg {pgid}: the store refused a replicated change: {error}")]
    ChangeRefused { pgid: PgId, error: SubmitError },
    #[error("{0}")]
    Table(LoadError),
    /// Groups of a pool were told to merge over two shards of an OSD. What one of them has would be missing for ever.
    #[error(
        "pool {} has {pg_num} groups, fewer than this OSD has shards ({shards}): what pg {from} has here cannot become \
         part of pg {into}, which lies on another shard; give the pool {shards} groups again",
        .from.pool.base()
    )]
    MergedOverShards { from: PgId, into: PgId, pg_num: u32, shards: usize },
}

/// Follow-up of a transaction that has become durable here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OnCommit {
    Nothing,
    /// This OSD, the primary, has the update.
    PrimaryUpdate {
        since: Epoch,
        version: EVersion,
    },
    /// This OSD, a member, has the update: the primary must learn.
    MemberUpdate {
        primary: OsdId,
        since: Epoch,
        version: EVersion,
        times: MemberTimes,
    },
    /// A pushed object is whole here (or, without one, all are).
    Pushed {
        from: OsdId,
        since: Epoch,
        object: Option<ObjectId>,
    },
    /// [`crate::messages::peering::PgStart`] is durable here.
    Started {
        primary: OsdId,
        since: Epoch,
    },
}

/// Why a store lookup is waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    /// A client operation, by its number within the group.
    ClientOp { pgid: PgId, op: u64 },
    /// The table of a group that is being read.
    Load { pgid: PgId },
    /// The background check.
    Check,
    /// A scrub, as primary or as member.
    Scrub { pgid: PgId },
    /// Something to be pushed to another member.
    Push { pgid: PgId, to: OsdId },
    /// Something that could not be read before.
    Reread { pgid: PgId },
    /// Objects that the primary compares.
    Scan { pgid: PgId },
    /// The walk over objects that snapshots preserve.
    Trim { pgid: PgId },
    /// Earlier states of objects that may go back.
    GoingBack { pgid: PgId },
    /// A copy that is removed.
    Stray { pgid: PgId },
    /// A copy here of a group that another OSD looks for.
    Sought { pgid: PgId, from: OsdId },
    /// Bytes of one shard.
    ShardRead { pgid: PgId },
    /// Bytes of a shard that this OSD does not act for.
    OldShard,
    /// The primary's own shard of an object.
    Rebuild { pgid: PgId, object: ObjectId },
}

/// A client that is connected.
pub(crate) struct ClientSession {
    pub name: EntityName,
    pub addr: EntityAddr,
    /// Newest map that it is known to have, or was sent.
    pub epoch: Epoch,
    /// True if the client can be asked to hold operations back; or, if it is another OSD, to ask later.
    pub takes_backoffs: bool,
    pub rights: std::sync::Arc<ClientRights>,
}

/// Requests to the monitors that are gathered over a turn.
#[derive(Debug, Default)]
pub(crate) struct MonitorRequests {
    pub history: Vec<PgId>,
    pub activations: Vec<PgActivation>,
    /// Acting sets that should stand in; an empty one: none any more.
    pub temps: Vec<(PgId, Vec<OsdId>)>,
    /// A map that is newer than this one.
    pub newer_than: Option<Epoch>,
}

/// State that the groups of a shard share: turns, promises to others, and counts for all of them.
pub(crate) struct Shared {
    pub leases: Leases,
    pub held: Held,
    pub backoffs: Backoffs,
    pub recorder: Recorder,
    pub pacing: Pacing,
    pub reservations: Reservations,
    pub rooms: Rooms,
    pub coded_reads: CodedReads,
    pub old_shard_reads: OldShardReads,
    pub copies: Copies,
    pub trim_turns: TrimTurns,
    pub tuning: Tuning,
    /// Copies here that turned out to be bad and are replaced, since the OSD started.
    pub bad_copies: u64,
}

/// Work that groups go on with later: when the store has done something, at some time, or in another turn.
#[derive(Default)]
pub(crate) struct Agenda {
    pub commits: VecDeque<(Ticket, PgId, OnCommit)>,
    pub waiters: BTreeMap<LookupId, Waiter>,
    /// Times at which groups want to be looked at again.
    pub wakes: BTreeSet<(Duration, PgId)>,
    /// Times at which groups may go on sending objects to where they are missing.
    pub sends_later: BTreeSet<(Duration, PgId)>,
    /// Times at which reads of groups may be late.
    pub hedges: BTreeSet<(Duration, PgId)>,
    /// Groups whose scrubs go on in another turn.
    pub scrubs_later: BTreeSet<PgId>,
    /// Notifications take more of memory than before.
    pub notifications_grew: bool,
    /// Notices between parts of groups, which are acted on when the present input is handled.
    pub effects: BTreeSet<(PgId, Effect)>,
}

/// Messages to another OSD that wait for others to go with, each about one group.
#[derive(Default)]
pub(crate) struct Postponed {
    /// When the first of them was postponed.
    since: Duration,
    messages: Vec<(PgId, Envelope)>,
}

/// Time that a postponed message waits at the most.
const POSTPONED_FOR: Duration = Duration::from_millis(20);
/// Messages to one OSD that are postponed at the most.
const POSTPONED_MAX: usize = 64;

impl Outbox {
    /// Sends a message to another OSD, after those to it that were postponed.
    pub fn send(&mut self, osd: OsdId, envelope: Envelope) {
        self.send_postponed(osd);
        self.outputs.push(Output::ToOsd { osd, envelope });
        self.sent_to.push(osd);
    }

    /// Sends a message for which nothing that was postponed matters but what is about `group`. It takes nothing else
    /// along: the OSD would have to write and flush for that.
    pub fn send_beside(&mut self, osd: OsdId, group: Option<PgId>, envelope: Envelope) {
        let matters = |postponed: &Postponed| {
            postponed.messages.iter().any(|(about, _)| Some(*about) == group) && !mutant::is(Mutant::UntoldOvertaken)
        };
        if self.postponed.get(&osd).is_some_and(matters) {
            self.send_postponed(osd);
        }
        self.outputs.push(Output::ToOsd { osd, envelope });
    }

    /// Sends a message about `group` to another OSD together with the next that goes there, or after a while.
    pub fn send_later(&mut self, osd: OsdId, group: PgId, envelope: Envelope, now: Duration) {
        let postponed = self.postponed.entry(osd).or_insert(Postponed { since: now, messages: Vec::new() });
        postponed.messages.push((group, envelope));
        if postponed.messages.len() >= POSTPONED_MAX {
            self.send_postponed(osd);
        }
    }

    fn send_postponed(&mut self, osd: OsdId) {
        if let Some(postponed) = self.postponed.remove(&osd) {
            self.outputs.extend(postponed.messages.into_iter().map(|(_, envelope)| Output::ToOsd { osd, envelope }));
        }
    }

    /// Forgets what was postponed to an OSD, as what was on its way there is lost.
    pub fn forget_postponed(&mut self, osd: OsdId) {
        self.postponed.remove(&osd);
    }

    /// Ends a turn: sends what has waited for long, and what can go with something else.
    pub fn settle_postponed(&mut self, now: Duration) {
        let is_due = |(osd, postponed): (&OsdId, &Postponed)| {
            (self.sent_to.contains(osd) || postponed.since + POSTPONED_FOR <= now).then_some(*osd)
        };
        let due: Vec<OsdId> = self.postponed.iter().filter_map(is_due).collect();
        due.into_iter().for_each(|osd| self.send_postponed(osd));
        self.sent_to.clear();
    }

    /// Returns the time at which something postponed is to be sent.
    pub fn postponed_until(&self) -> Option<Duration> {
        self.postponed.values().map(|postponed| postponed.since + POSTPONED_FOR).min()
    }
}

/// Messages and orders that leave the shard.
#[derive(Default)]
pub(crate) struct Outbox {
    /// Orders to the driver, in order.
    pub outputs: Vec<Output>,
    postponed: BTreeMap<OsdId, Postponed>,
    /// OSDs to which something was sent in this turn.
    sent_to: Vec<OsdId>,
    /// Requests to the monitors, gathered over a turn.
    pub to_monitor: MonitorRequests,
    /// Questions to other members, gathered over a turn.
    pub queries: BTreeMap<OsdId, Vec<(PgInterval, Agreed)>>,
    /// Reports that should go out with the next beacon at once.
    pub reports: BTreeMap<PgId, PgReport>,
    /// Clients whose operations were dropped with their interval: they must learn of the new map.
    pub interrupted: BTreeSet<SessionId>,
}

/// Everything that a shard lends a group while the group handles an event.
///
/// * Facts, the same for the whole event: `whoami`, `now`, `unix_zero`, `map`, `may_skip_shards`, `limits`,
///   `dups_limit`, `clients`.
/// * `store`: lookups are answered or pending ([`Context::wait`]); changes go in with [`Context::submit`].
/// * `shared`: state that all groups share.
/// * `agenda`: work for later.
/// * `outbox`: messages and orders that leave the shard.
pub(crate) struct Context<'a> {
    pub whoami: OsdId,
    pub now: Duration,
    /// The wall clock, as time since 1970, when `now` was zero.
    pub unix_zero: Duration,
    /// The map in force.
    pub map: &'a OsdMap,
    /// By the map in force, all OSDs understand updates that skip shards.
    pub may_skip_shards: bool,
    pub limits: &'a Limits,
    pub dups_limit: DupsLimit,
    /// Clients that are connected.
    pub clients: &'a BTreeMap<SessionId, ClientSession>,
    pub store: &'a mut Store,
    pub shared: &'a mut Shared,
    pub agenda: &'a mut Agenda,
    pub outbox: &'a mut Outbox,
}

/// Bytes behind which what members have of groups goes on in another message.
const NOTIFY_BYTES: usize = 4 << 20;

/// Divides items, in their order, into messages of `bytes_max` each. One that is longer has a message of its own.
fn in_messages<T>(items: Vec<T>, bytes_max: usize, bytes_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut messages: Vec<(usize, Vec<T>)> = Vec::new();
    for item in items {
        let bytes = bytes_of(&item);
        match messages.last_mut().filter(|(taken, _)| taken.saturating_add(bytes) <= bytes_max) {
            Some((taken, items)) => {
                *taken += bytes;
                items.push(item);
            }
            None => messages.push((bytes, vec![item])),
        }
    }
    messages.into_iter().map(|(_, items)| items).collect()
}

impl Context<'_> {
    pub fn send_osd(&mut self, osd: OsdId, message: impl PeerBound) {
        debug_assert_ne!(osd, self.whoami, "messages to oneself are handled in place");
        self.outbox.send(osd, message.seal(0, Target::default()));
    }

    /// Sends a message for which nobody waits. Order is kept towards all messages but those that
    /// [`answer_osd`](Context::answer_osd) sends, and those about other groups that [`ask_osd`](Context::ask_osd) does.
    pub fn send_osd_later(&mut self, osd: OsdId, message: impl GroupMessage) {
        let group = message.pg().pgid;
        self.outbox.send_later(osd, group, message.seal(0, Target::default()), self.now);
    }

    /// Answers a primary about its groups. What was postponed is about others, whose primary this OSD is.
    pub fn answer_osd(&mut self, osd: OsdId, message: impl PeerBound) {
        debug_assert_ne!(osd, self.whoami, "messages to oneself are handled in place");
        self.outbox.send_beside(osd, None, message.seal(0, Target::default()));
    }

    /// Asks a member about one group.
    pub fn ask_osd(&mut self, osd: OsdId, message: impl GroupMessage) {
        debug_assert_ne!(osd, self.whoami, "messages to oneself are handled in place");
        let group = message.pg().pgid;
        self.outbox.send_beside(osd, Some(group), message.seal(0, Target::default()));
    }

    /// Tells whether clients' latency lets `group` send something to heal others now; where not, it goes on by itself
    /// later.
    pub fn may_heal_now(&mut self, group: PgId) -> bool {
        match self.shared.pacing.may_send() {
            Ok(()) => true,
            Err(at) => {
                self.agenda.sends_later.insert((at, group));
                false
            }
        }
    }

    /// Tells a primary what this member has of groups, and what it has promised to others. Groups in which much is
    /// missing are told in messages of their own.
    pub fn notify(&mut self, osd: OsdId, groups: Vec<(PgInterval, MemberState)>, strange: Vec<PgInterval>) {
        let (unknown, promises) = self.shared.leases.promises(self.now);
        let micros = |span: Duration| span.as_micros() as u64;
        let told = |spans: Vec<(OsdId, Duration)>| -> Vec<(OsdId, u64)> {
            spans.into_iter().map(|(osd, span)| (osd, micros(span))).collect()
        };
        let shares = told(self.shared.leases.shares(self.now));
        let (unknown_promises, promises) = (micros(unknown), told(promises));
        let bytes_max = self.limits.message_bytes.min(NOTIFY_BYTES);
        for groups in in_messages(groups, bytes_max, |(_, state)| state.size_bytes()) {
            let strange = strange.iter().filter(|pg| groups.iter().any(|(told, _)| told == *pg)).copied().collect();
            let (promises, shares) = (promises.clone(), shares.clone());
            self.send_osd(osd, PgNotify { groups, unknown_promises, promises, shares, strange });
        }
    }

    pub fn send_client(&mut self, session: SessionId, tid: u64, message: impl Message) {
        let output = Output::ToClient { session, envelope: message.seal(tid, Target::default()) };
        self.shared.held.answered(output.answer_bytes());
        self.outbox.outputs.push(output);
    }

    /// Writes a line to the cluster log.
    pub fn tell_cluster(&mut self, priority: LogPriority, message: String) {
        let stamp = Utime::from_unix(self.unix_zero + self.now);
        self.outbox.outputs.push(Output::ToClusterLog { priority, message, stamp });
    }

    /// Notes what a part of the group has caused; others act on it when the present input is handled.
    pub fn cause(&mut self, group: PgId, effect: Effect) {
        self.agenda.effects.insert((group, effect));
    }

    /// Notes who waits for a lookup. Every lookup that is pending has an id of its own, so it has one waiter.
    pub fn wait(&mut self, id: LookupId, waiter: Waiter) {
        if let Some(other) = self.agenda.waiters.insert(id, waiter.clone()) {
            panic!("{waiter:?} waits for {id:?}, for which {other:?} waits already");
        }
    }

    /// Hands a transaction to the store.
    pub fn submit(&mut self, txn: Transaction, then: OnCommit) -> Result<(), SubmitError> {
        let pgid = txn.pg;
        let ticket = self.store.submit(txn)?;
        self.agenda.commits.push_back((ticket, pgid, then));
        Ok(())
    }

    /// Hands a transaction to the store for whose durability nobody waits: it goes to the device with others.
    pub fn submit_patiently(&mut self, txn: Transaction, then: OnCommit) -> Result<(), SubmitError> {
        let pgid = txn.pg;
        let ticket = self.store.submit_patiently(txn)?;
        self.agenda.commits.push_back((ticket, pgid, then));
        Ok(())
    }

    /// Submits as [`submit_or_stop`](Context::submit_or_stop) does a transaction for whose durability nobody waits.
    pub fn submit_or_stop_patiently(&mut self, txn: Transaction, then: OnCommit) {
        let pgid = txn.pg;
        match self.store.submit_owed_patiently(txn) {
            Ok(ticket) => self.agenda.commits.push_back((ticket, pgid, then)),
            Err(error) => self.outbox.outputs.push(Output::Fatal(Fatal::ChangeRefused { pgid, error })),
        }
    }

    /// Submits a transaction that no client can be told about, and for which there is room by promise: if it fails, the
    /// OSD stops.
    pub fn submit_or_stop(&mut self, txn: Transaction, then: OnCommit) {
        let pgid = txn.pg;
        if let Err(error) = self.submit_owed(txn, then) {
            self.outbox.outputs.push(Output::Fatal(Fatal::ChangeRefused { pgid, error }));
        }
    }

    /// Hands a transaction to the store that takes no room to speak of, or for which room was promised.
    pub fn submit_owed(&mut self, txn: Transaction, then: OnCommit) -> Result<(), SubmitError> {
        let pgid = txn.pg;
        let ticket = self.store.submit_owed(txn)?;
        self.agenda.commits.push_back((ticket, pgid, then));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::peering::PgLogGet;

    const OTHER: OsdId = OsdId(3);

    fn group(seed: u32) -> PgId {
        PgId { pool: types::PoolId(1), seed }
    }

    fn message(tid: u64) -> Envelope {
        let pg = PgInterval { pgid: group(0), since: Epoch(1) };
        PgLogGet { pg, since: EVersion::ZERO }.seal(tid, Target::default())
    }

    /// Returns what was sent since the last time.
    fn sent(outbox: &mut Outbox) -> Vec<u64> {
        let tid = |output| match output {
            Output::ToOsd { osd: OTHER, envelope } => envelope.header.tid,
            other => panic!("{other:?}"),
        };
        std::mem::take(&mut outbox.outputs).into_iter().map(tid).collect()
    }

    #[test]
    fn what_is_postponed_goes_with_the_next_message_that_may_take_it_along() {
        let mut outbox = Outbox::default();
        let at = Duration::from_millis;
        outbox.send_later(OTHER, group(1), message(1), at(7));
        outbox.send_beside(OTHER, None, message(2));
        outbox.send_beside(OTHER, Some(group(2)), message(3));
        outbox.settle_postponed(at(8));
        assert_eq!(sent(&mut outbox), [2, 3]);
        outbox.send_later(OTHER, group(2), message(4), at(9));
        outbox.send_beside(OTHER, Some(group(2)), message(5));
        assert_eq!(sent(&mut outbox), [1, 4, 5], "order within the group");
        // Before another message of the turn, and behind it.
        outbox.send_later(OTHER, group(1), message(6), at(9));
        outbox.send(OTHER, message(7));
        outbox.send_later(OTHER, group(1), message(8), at(9));
        assert_eq!(sent(&mut outbox), [6, 7]);
        outbox.settle_postponed(at(9));
        assert_eq!((sent(&mut outbox), outbox.postponed_until()), (vec![8], None));
        // Once it has waited for long, in another turn.
        outbox.send_later(OTHER, group(1), message(9), at(10));
        outbox.settle_postponed(at(29));
        assert_eq!((sent(&mut outbox), outbox.postponed_until()), (vec![], Some(at(30))));
        outbox.settle_postponed(at(30));
        assert_eq!(sent(&mut outbox), [9]);
        // As many as may wait go at once.
        (0..POSTPONED_MAX as u64).for_each(|tid| outbox.send_later(OTHER, group(1), message(tid), at(31)));
        assert_eq!(sent(&mut outbox).len(), POSTPONED_MAX);
        outbox.send_later(OTHER, group(1), message(1), at(31));
        outbox.forget_postponed(OTHER);
        outbox.settle_postponed(at(90));
        assert_eq!(sent(&mut outbox), []);
    }
}
