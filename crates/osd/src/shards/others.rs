//! An OSD's workers, as its front sees them.

use super::facts::{free_of_both, usage_of_both};
use super::messages::QuestionId;
use super::thread::WorkerThread;
use super::{FromWorker, ShardFacts, ToWorker};
use crate::failure::Failure;
use pg::as_one::AsOne;
use pg::{Homes, TwoHomes};
use std::collections::BTreeMap;
use std::time::Duration;
use store::SpaceUsage;
use types::{Epoch, OsdId, PgId};
use wire::messages::{Command, CommandReply};
use wire::msgr::SessionId;
use wire::nacre::mon::{OsdBeacon, PgReport};
use wire::{EntityAddrVec, Envelope};

/// A worker on its way to being queued more than its share is not read for any more.
const QUEUED_SHARE: usize = 2;

struct Other {
    thread: WorkerThread,
    /// Groups and usage of its store when it was opened.
    opened: Option<(Vec<PgId>, SpaceUsage)>,
    beacon: Option<OsdBeacon>,
    /// Of the map in force there.
    epoch: Epoch,
    is_idle: bool,
}

/// A message about a group that no map shows yet.
pub(crate) struct Early {
    pub needed: Epoch,
    pub envelope: Envelope,
    pub began: Duration,
    pub from: EarlyFrom,
}

#[derive(Clone, Copy)]
pub(crate) enum EarlyFrom {
    Client(SessionId),
    Osd(OsdId),
}

/// A command whose answer several shards give.
struct Question {
    session: SessionId,
    tid: u64,
    command: Command,
    /// Facts that have come; absent if a reply is waited for.
    facts: Option<ShardFacts>,
    waits_for: usize,
}

/// Result of a command.
pub(crate) enum Answered {
    /// All facts are there.
    Facts {
        session: SessionId,
        tid: u64,
        command: Command,
        facts: Box<ShardFacts>,
    },
    Reply {
        session: SessionId,
        tid: u64,
        reply: Box<CommandReply>,
    },
}

/// All shards but the first.
#[derive(Default)]
pub(crate) struct Others {
    others: Vec<Other>,
    /// `None` where there are none.
    as_one: Option<AsOne>,
    /// Reports of groups for the next beacon.
    reports: BTreeMap<PgId, PgReport>,
    early: Vec<Early>,
    questions: BTreeMap<QuestionId, Question>,
    next_question: u64,
}

impl Others {
    pub fn new(threads: Vec<WorkerThread>) -> Others {
        let as_one = (!threads.is_empty()).then(|| AsOne::new(threads.len() + 1));
        let other = |thread| Other { thread, opened: None, beacon: None, epoch: Epoch(0), is_idle: false };
        Others { others: threads.into_iter().map(other).collect(), as_one, ..Others::default() }
    }

    /// All shards, with the first.
    pub fn shards(&self) -> usize {
        self.others.len() + 1
    }

    pub fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// Promises between OSDs, which all shards make together; `None` with one shard.
    pub fn as_one(&mut self) -> Option<&mut AsOne> {
        self.as_one.as_mut()
    }

    // ---- starting ----

    /// Takes what workers say before they have begun. Returns why the OSD cannot start, if so.
    pub fn take_opened(&mut self) -> Option<Failure> {
        for other in &mut self.others {
            for message in other.thread.inbox.take().unwrap_or_default() {
                match message {
                    FromWorker::Opened { groups, usage } => other.opened = Some((groups, usage)),
                    FromWorker::Failed(why) => return Some(why),
                    _ => panic!("a worker has begun before it was told to"),
                }
            }
        }
        None
    }

    pub fn all_opened(&self) -> bool {
        self.others.iter().all(|other| other.opened.is_some())
    }

    /// Has all begin. Gives the homes of groups, of which `own` are the first shard's. To be called once all are open.
    pub fn begin(&mut self, own: Vec<PgId>, public_addrs: &EntityAddrVec) -> Result<Homes, TwoHomes> {
        let groups = |other: &mut Other| std::mem::take(&mut other.opened.as_mut().expect("all are open").0);
        let groups: Vec<Vec<PgId>> = std::iter::once(own).chain(self.others.iter_mut().map(groups)).collect();
        let homes = Homes::found(&groups)?;
        self.tell_all(|| ToWorker::Begin { homes: homes.clone(), public_addrs: public_addrs.clone() });
        self.flush();
        Ok(homes)
    }

    // ---- queues ----

    /// To a shard, of which the first is number 1.
    pub fn tell(&mut self, shard: usize, message: ToWorker) {
        let thread = &mut self.others[shard - 1].thread;
        thread.meter.queued(message.bytes());
        thread.outbox.push(message);
    }

    pub fn tell_all(&mut self, message: impl Fn() -> ToWorker) {
        for shard in 1..self.shards() {
            self.tell(shard, message());
        }
    }

    pub fn flush(&mut self) {
        self.others.iter_mut().for_each(|other| other.thread.outbox.flush());
    }

    /// Takes all messages of workers, with the shard's number.
    pub fn take(&mut self) -> Vec<(usize, FromWorker)> {
        let mut all = Vec::new();
        for (i, other) in self.others.iter_mut().enumerate() {
            while let Some(batch) = other.thread.inbox.take() {
                all.extend(batch.into_iter().map(|message| (i + 1, message)));
            }
        }
        all
    }

    /// Tells whether nothing more is to be read from clients, and from other OSDs, given how much of their data may
    /// wait.
    pub fn hold(&self, client_bytes: usize) -> (bool, bool) {
        let is_behind = |other: &Other| {
            let queued = other.thread.meter.queued_bytes();
            other.thread.outbox.is_backed_up() || queued > client_bytes / QUEUED_SHARE
        };
        let behind = self.others.iter().any(is_behind);
        let clients = self.others.iter().any(|other| other.thread.meter.holds_clients());
        let peers = self.others.iter().any(|other| other.thread.meter.holds_peers());
        (behind || clients || !self.early_has_room(client_bytes), behind || peers)
    }

    /// Bytes that clients' requests hold in the other shards, or on their way there.
    pub fn client_bytes(&self) -> usize {
        self.others.iter().map(|other| other.thread.meter.client_bytes() + other.thread.meter.queued_bytes()).sum()
    }

    fn early_has_room(&self, client_bytes: usize) -> bool {
        let bytes = |early: &Early| early.envelope.front.len() + early.envelope.data.len();
        self.early.iter().map(bytes).sum::<usize>() <= client_bytes / QUEUED_SHARE
    }

    /// The network has not taken so much yet, all in all.
    pub fn set_unsent_bytes(&mut self, bytes: usize) {
        let share = bytes / self.shards();
        self.others.iter().for_each(|other| other.thread.meter.set_unsent_bytes(share));
    }

    pub fn disk_wait(&self) -> Duration {
        self.others.iter().map(|other| other.thread.meter.disk_wait()).max().unwrap_or_default()
    }

    // ---- messages that came before their map ----

    pub fn keep_early(&mut self, early: Early) {
        self.early.push(early);
    }

    /// Drops messages of another OSD whose session has ended.
    pub fn drop_early(&mut self, osd: OsdId) {
        self.early.retain(|early| !matches!(early.from, EarlyFrom::Osd(from) if from == osd));
    }

    /// A client is gone, and what it has sent with it.
    pub fn forget_early(&mut self, session: SessionId) {
        self.early.retain(|early| !matches!(early.from, EarlyFrom::Client(of) if of == session));
    }

    /// Takes those that need no newer map than this.
    pub fn take_early(&mut self, epoch: Epoch) -> Vec<Early> {
        self.early.extract_if(.., |early| early.needed <= epoch).collect()
    }

    // ---- maps ----

    pub fn in_force(&mut self, shard: usize, epoch: Epoch) {
        self.others[shard - 1].epoch = epoch;
    }

    /// Tells whether that map, or a later one, is in force on all.
    pub fn all_follow(&self, epoch: Epoch) -> bool {
        self.others.iter().all(|other| other.epoch >= epoch)
    }

    // ---- beacons ----

    /// A worker's share of the next beacon. Returns whether it reports changes of groups.
    pub fn beacon_came(&mut self, shard: usize, mut beacon: OsdBeacon) {
        self.reports.extend(std::mem::take(&mut beacon.pgs).into_iter().map(|report| (report.pgid, report)));
        self.others[shard - 1].beacon = Some(beacon);
    }

    pub fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// Forgets reports that a new session with a monitor makes void: workers make them anew.
    pub fn forget_reports(&mut self) {
        self.reports.clear();
    }

    /// The first shard's beacon and what the others have to add to it.
    pub fn add_to_beacon(&mut self, beacon: &mut OsdBeacon) {
        beacon.pgs.extend(std::mem::take(&mut self.reports).into_values());
        for other in self.others.iter().filter_map(|other| other.beacon.as_ref()) {
            let (sum, part) = (&mut beacon.stats, &other.stats);
            sum.free_bytes = free_of_both((sum.free_bytes, sum.total_bytes), (part.free_bytes, part.total_bytes));
            sum.total_bytes += part.total_bytes;
            sum.data_bytes += part.data_bytes;
            sum.stored_bytes += part.stored_bytes;
            sum.omap_bytes += part.omap_bytes;
            sum.metadata_bytes += part.metadata_bytes;
            sum.pg_count += part.pg_count;
            sum.slow_ops += part.slow_ops;
            sum.oldest_slow_op_ms = sum.oldest_slow_op_ms.max(part.oldest_slow_op_ms);
            beacon.epoch = beacon.epoch.min(other.epoch);
        }
    }

    /// The whole store's usage, with the first shard's `own`.
    pub fn usage(&self, own: SpaceUsage) -> SpaceUsage {
        let opened = self.others.iter().filter_map(|other| other.opened.as_ref());
        opened.fold(own, |sum, (_, usage)| usage_of_both(&sum, usage))
    }

    // ---- commands ----

    /// Asks all workers for facts, to which `own` are added.
    pub fn ask_facts(&mut self, session: SessionId, tid: u64, command: Command, own: ShardFacts) {
        let id = self.ask(Question { session, tid, command, facts: Some(own), waits_for: self.others.len() });
        self.tell_all(|| ToWorker::Facts { id });
    }

    /// Has a worker carry out a command about one of its groups.
    pub fn ask_about_group(&mut self, shard: usize, session: SessionId, tid: u64, command: Command) {
        let id = self.ask(Question { session, tid, command: command.clone(), facts: None, waits_for: 1 });
        self.tell(shard, ToWorker::PgCommand { id, command: Box::new(command) });
    }

    fn ask(&mut self, question: Question) -> QuestionId {
        self.next_question += 1;
        let id = QuestionId(self.next_question);
        self.questions.insert(id, question);
        id
    }

    pub fn facts_came(&mut self, id: QuestionId, facts: ShardFacts) -> Option<Answered> {
        let mut question = self.questions.remove(&id)?;
        question.facts = question.facts.map(|known| known.and(facts));
        question.waits_for -= 1;
        if question.waits_for > 0 {
            self.questions.insert(id, question);
            return None;
        }
        let Question { session, tid, command, facts, .. } = question;
        Some(Answered::Facts { session, tid, command, facts: Box::new(facts?) })
    }

    pub fn reply_came(&mut self, id: QuestionId, reply: Box<CommandReply>) -> Option<Answered> {
        let Question { session, tid, .. } = self.questions.remove(&id)?;
        Some(Answered::Reply { session, tid, reply })
    }

    // ---- stopping ----

    pub fn idle_came(&mut self, shard: usize) {
        self.others[shard - 1].is_idle = true;
    }

    pub fn all_idle(&self) -> bool {
        self.others.iter().all(|other| other.is_idle)
    }
}
