//! An OSD's workers as its front sees them.

use super::facts::{free_of_both, usage_of_both};
use super::messages::QuestionId;
use super::thread::WorkerThread;
use super::{FromWorker, ShardFacts, ToWorker};
use crate::commands::Asker;
use crate::failure::Failure;
use control::Told;
use pg::as_one::AsOne;
use pg::{Homes, TwoHomes};
use std::collections::BTreeMap;
use std::time::Duration;
use store::SpaceUsage;
use types::{Epoch, OsdId, PgId};
use wire::messages::CommandReply;
use wire::msgr::SessionId;
use wire::nacre::mon::{OsdBeacon, PgReport};
use wire::{DecodeError, EntityAddrVec, Envelope};

/// If more than this part of the room for clients, one half, is on its way to one worker, nothing more is read.
const QUEUED_SHARE: usize = 2;

struct Other {
    thread: WorkerThread,
    /// Groups of its store, and usage of the store, when it was opened.
    opened: Option<(Vec<PgId>, SpaceUsage)>,
    beacon: Option<OsdBeacon>,
    /// Epoch of the map in force on this shard.
    epoch: Epoch,
    is_idle: bool,
    /// Bytes of its answers that have come since the last look at the network.
    arrived_bytes: usize,
}

/// A message that needs a map which this OSD does not have in force yet.
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

/// Bytes of messages of one OSD that wait for newer maps, at most, and those that each takes beside its own.
const EARLY_BYTES_MAX: usize = 8 << 20;
const EARLY_BYTES: usize = 1 << 10;

/// Errors: one OSD's messages that wait for newer maps are too large together.
fn may_wait<'a>(envelopes: impl Iterator<Item = &'a Envelope>) -> Result<(), DecodeError> {
    let bytes: usize = envelopes.map(|it| it.front.len() + it.data.len() + EARLY_BYTES).sum();
    match bytes <= EARLY_BYTES_MAX {
        true => Ok(()),
        false => Err(DecodeError::Value { what: "bytes of messages that wait for maps to come", value: bytes as u64 }),
    }
}

/// A command that other shards answer.
struct GatheredCommand {
    asker: Asker,
    /// The command, and facts that have come so far; `None` if the question waits for one reply.
    facts: Option<(Told, ShardFacts)>,
    waits_for: usize,
}

/// Result of a command.
pub(crate) enum Answered {
    /// The facts of all shards are there.
    Facts {
        asker: Asker,
        told: Told,
        facts: Box<ShardFacts>,
    },
    Reply {
        asker: Asker,
        reply: Box<CommandReply>,
    },
}

/// All shards but the first.
#[derive(Default)]
pub(crate) struct Others {
    others: Vec<Other>,
    /// `None` if there are no other shards.
    as_one: Option<AsOne>,
    /// Reports of groups, for the next beacon.
    reports: BTreeMap<PgId, PgReport>,
    early: Vec<Early>,
    questions: BTreeMap<QuestionId, GatheredCommand>,
    next_question: u64,
}

impl Others {
    pub fn new(threads: Vec<WorkerThread>) -> Others {
        let as_one = (!threads.is_empty()).then(|| AsOne::new(threads.len() + 1));
        let other =
            |thread| Other { thread, opened: None, beacon: None, epoch: Epoch(0), is_idle: false, arrived_bytes: 0 };
        Others { others: threads.into_iter().map(other).collect(), as_one, ..Others::default() }
    }

    /// Number of all shards, including the first.
    pub fn shards(&self) -> usize {
        self.others.len() + 1
    }

    pub fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// The promises between OSDs that all shards make together; `None` with one shard.
    pub fn as_one(&mut self) -> Option<&mut AsOne> {
        self.as_one.as_mut()
    }

    // ---- starting ----

    /// Takes the messages that workers send before they have begun. Returns the reason if the OSD cannot start.
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

    /// Tells all workers to begin. `own`: the first shard's groups. Returns the homes of all groups. Must be called
    /// once all stores are open.
    pub fn begin(&mut self, own: Vec<PgId>, public_addrs: &EntityAddrVec) -> Result<Homes, TwoHomes> {
        let groups = |other: &mut Other| std::mem::take(&mut other.opened.as_mut().expect("all are open").0);
        let groups: Vec<Vec<PgId>> = std::iter::once(own).chain(self.others.iter_mut().map(groups)).collect();
        let homes = Homes::found(&groups)?;
        self.tell_all(|| ToWorker::Begin { homes: homes.clone(), public_addrs: public_addrs.clone() });
        self.flush();
        Ok(homes)
    }

    // ---- queues ----

    /// Queues a message to a shard. The first worker is shard 1.
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

    /// Takes all messages of workers, each with its shard's number.
    pub fn take(&mut self) -> Vec<(usize, FromWorker)> {
        let mut all = Vec::new();
        for (i, other) in self.others.iter_mut().enumerate() {
            while let Some(batch) = other.thread.inbox.take() {
                other.arrived_bytes += batch.iter().map(FromWorker::answer_bytes).sum::<usize>();
                all.extend(batch.into_iter().map(|message| (i + 1, message)));
            }
        }
        all
    }

    /// Tells whether nothing more is to be read from clients, and from other OSDs. `client_bytes`: bytes of clients'
    /// data that may wait.
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

    /// Bytes that clients' requests hold in the other shards and on their way there, and that answers hold on their way
    /// from there.
    pub fn client_bytes(&self) -> usize {
        let meters = self.others.iter().map(|other| &other.thread.meter);
        meters.map(|meter| meter.client_bytes() + meter.queued_bytes() + meter.answering_bytes()).sum()
    }

    fn early_has_room(&self, client_bytes: usize) -> bool {
        let bytes = |early: &Early| early.envelope.front.len() + early.envelope.data.len();
        self.early.iter().map(bytes).sum::<usize>() <= client_bytes / QUEUED_SHARE
    }

    /// Tells the workers their parts of the bytes that the network has not taken yet. `bytes`: all of them, those of
    /// answers included that [`Others::take`] has returned.
    pub fn set_unsent_bytes(&mut self, bytes: usize) {
        let share = bytes / self.shards();
        for Other { thread, arrived_bytes, .. } in &mut self.others {
            if thread.meter.set_unsent_bytes(share, std::mem::take(arrived_bytes)) {
                thread.outbox.ring();
            }
        }
    }

    /// Tells whether clients' requests and answers hold as much as they may in one of these shards.
    pub fn is_full(&self) -> bool {
        self.others.iter().any(|other| other.thread.meter.is_full())
    }

    pub fn disk_wait(&self) -> Duration {
        self.others.iter().map(|other| other.thread.meter.disk_wait()).max().unwrap_or_default()
    }

    // ---- messages that came before their map ----

    pub fn keep_early(&mut self, early: Early) {
        self.early.push(early);
    }

    /// Errors: another OSD has sent more messages that need newer maps than any does. Its session is to be closed.
    pub fn has_room_for_early(&self, osd: OsdId, envelope: &Envelope) -> Result<(), DecodeError> {
        let is_of = |early: &&Early| matches!(early.from, EarlyFrom::Osd(from) if from == osd);
        let of_osd = self.early.iter().filter(is_of).map(|early| &early.envelope);
        may_wait(of_osd.chain([envelope]))
    }

    /// Drops early messages of another OSD whose session has ended.
    pub fn drop_early(&mut self, osd: OsdId) {
        self.early.retain(|early| !matches!(early.from, EarlyFrom::Osd(from) if from == osd));
    }

    /// Drops early messages of a client that is gone.
    pub fn forget_early(&mut self, session: SessionId) {
        self.early.retain(|early| !matches!(early.from, EarlyFrom::Client(of) if of == session));
    }

    /// Takes the early messages that need no newer map than this.
    pub fn take_early(&mut self, epoch: Epoch) -> Vec<Early> {
        self.early.extract_if(.., |early| early.needed <= epoch).collect()
    }

    // ---- maps ----

    pub fn in_force(&mut self, shard: usize, epoch: Epoch) {
        self.others[shard - 1].epoch = epoch;
    }

    /// True if the map of this epoch, or a later one, is in force on all shards.
    pub fn all_follow(&self, epoch: Epoch) -> bool {
        self.others.iter().all(|other| other.epoch >= epoch)
    }

    // ---- beacons ----

    /// Takes a worker's share of the next beacon.
    pub fn beacon_came(&mut self, shard: usize, mut beacon: OsdBeacon) {
        self.reports.extend(std::mem::take(&mut beacon.pgs).into_iter().map(|report| (report.pgid, report)));
        self.others[shard - 1].beacon = Some(beacon);
    }

    pub fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// Forgets reports that a new session with a monitor makes void. Workers make them anew.
    pub fn forget_reports(&mut self) {
        self.reports.clear();
    }

    /// Adds the other shards' shares to the first shard's beacon.
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
            sum.bad_copies += part.bad_copies;
            sum.oldest_slow_op_ms = sum.oldest_slow_op_ms.max(part.oldest_slow_op_ms);
            beacon.epoch = beacon.epoch.min(other.epoch);
        }
    }

    /// Usage of the whole store. `own`: usage of the first shard's part.
    pub fn usage(&self, own: SpaceUsage) -> SpaceUsage {
        let opened = self.others.iter().filter_map(|other| other.opened.as_ref());
        opened.fold(own, |sum, (_, usage)| usage_of_both(&sum, usage))
    }

    // ---- commands ----

    /// Asks all workers for their facts. `own`: the first shard's facts, to which they are added.
    pub fn ask_facts(&mut self, asker: Asker, told: Told, own: ShardFacts) {
        let id = self.ask(GatheredCommand { asker, facts: Some((told, own)), waits_for: self.others.len() });
        self.tell_all(|| ToWorker::Facts { id });
    }

    /// Sends a worker a command about one of its groups.
    pub fn ask_about_group(&mut self, shard: usize, asker: Asker, command: String) {
        let id = self.ask(GatheredCommand { asker, facts: None, waits_for: 1 });
        self.tell(shard, ToWorker::PgCommand { id, command });
    }

    fn ask(&mut self, question: GatheredCommand) -> QuestionId {
        self.next_question += 1;
        let id = QuestionId(self.next_question);
        self.questions.insert(id, question);
        id
    }

    pub fn facts_came(&mut self, id: QuestionId, facts: ShardFacts) -> Option<Answered> {
        let mut question = self.questions.remove(&id)?;
        question.facts = question.facts.map(|(told, known)| (told, known.and(facts)));
        question.waits_for -= 1;
        if question.waits_for > 0 {
            self.questions.insert(id, question);
            return None;
        }
        let GatheredCommand { asker, facts, .. } = question;
        let (told, facts) = facts?;
        Some(Answered::Facts { asker, told, facts: Box::new(facts) })
    }

    pub fn reply_came(&mut self, id: QuestionId, reply: Box<CommandReply>) -> Option<Answered> {
        let GatheredCommand { asker, .. } = self.questions.remove(&id)?;
        Some(Answered::Reply { asker, reply })
    }

    // ---- stopping ----

    pub fn idle_came(&mut self, shard: usize) {
        self.others[shard - 1].is_idle = true;
    }

    pub fn all_idle(&self) -> bool {
        self.others.iter().all(|other| other.is_idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_osd_that_wait_for_maps_are_bounded() {
        let large = Envelope { front: vec![7; EARLY_BYTES_MAX / 4].into(), ..Envelope::default() };
        assert!(may_wait([&large; 3].into_iter()).is_ok() && may_wait([&large; 4].into_iter()).is_err());
        let empty = Envelope::default();
        let many = EARLY_BYTES_MAX / EARLY_BYTES;
        assert!(may_wait(std::iter::repeat_n(&empty, many)).is_ok());
        assert!(may_wait(std::iter::repeat_n(&empty, many + 1)).is_err());
    }
}
