//! The client's core: knows the map, sends each operation to the right OSD, and sends it again when that changes.
//!
//! [`Objecter`] does no I/O. Events go in: [`Objecter::opened`], [`Objecter::message`], [`Objecter::reset`],
//! [`Objecter::tick`], and what users want, [`Objecter::submit`], [`Objecter::ask`], [`Objecter::wait_for_map`].
//! Messages go out through [`Sessions`]; what is finished comes out of [`Objecter::poll_done`].
//!
//! An operation keeps its transaction id for life, however often it is sent, so that OSDs recognise it.

mod mon_request;
mod mon_session;
mod osd_session;
mod placement;
mod request;
mod sessions;
#[cfg(test)]
mod tests;

pub use mon_request::{CommandReply, MonAnswer, MonRequest};
pub use placement::{GroupTarget, Placement, Target};
pub use request::{Reply, Request, Subject};
pub use sessions::Sessions;

use crate::error::Error;
use mon_request::{Asked, Asker};
use mon_session::MonSession;
use osd_session::OsdSession;
use request::{InFlight, State};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{EntityName, Epoch, Errno, Fsid, OsdId};
use wire::codec::features;
use wire::messages::{self as msg, BackoffOp, OpFlags, Subscription};
use wire::msgr::{Policy, SessionId};
use wire::{EntityAddrVec, Envelope, Message, Target as WireTarget};

/// What an objecter is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where monitors may be; at least one.
    pub mons: Vec<EntityAddrVec>,
    /// Told to monitors, for their logs.
    pub hostname: String,
    /// How long an operation may take; `None` waits for ever.
    pub op_timeout: Option<Duration>,
    /// How long a request to the monitors may take.
    pub mon_op_timeout: Option<Duration>,
    /// Seed of the order in which monitors are tried.
    pub seed: u64,
}

/// Something that is finished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Op(Reply),
    Mon(MonAnswer),
    /// The map that was waited for is there.
    MapReached,
}

/// The result of one request, with what the user gave to recognise it.
#[derive(Debug)]
pub struct Done<C> {
    pub completion: C,
    pub result: Result<Answer, Error>,
}

/// The client's core; see the module. `C` is what users give along with a request and get back with its answer.
pub struct Objecter<C> {
    settings: Settings,
    fsid: Option<Fsid>,
    placement: Option<Placement>,
    mon_map_epoch: u32,
    mon: MonSession,
    osds: BTreeMap<OsdId, OsdSession>,
    by_session: BTreeMap<SessionId, OsdId>,
    ops: BTreeMap<u64, InFlight<C>>,
    asked: BTreeMap<u64, Asked<C>>,
    map_waiters: Vec<(Epoch, C)>,
    last_tid: u64,
    done: VecDeque<Done<C>>,
}

impl<C> Objecter<C> {
    pub fn new(settings: Settings) -> Objecter<C> {
        assert!(!settings.mons.is_empty(), "an objecter without monitors");
        let mon = MonSession::new(settings.mons.clone(), settings.seed);
        Objecter {
            settings,
            fsid: None,
            placement: None,
            mon_map_epoch: 0,
            mon,
            osds: BTreeMap::new(),
            by_session: BTreeMap::new(),
            ops: BTreeMap::new(),
            asked: BTreeMap::new(),
            map_waiters: Vec::new(),
            last_tid: 0,
            done: VecDeque::new(),
        }
    }

    /// The present map, once there is one.
    pub fn placement(&self) -> Option<&Placement> {
        self.placement.as_ref()
    }

    pub fn fsid(&self) -> Option<Fsid> {
        self.fsid
    }

    /// Whether a session with a monitor stands.
    pub fn has_mon(&self) -> bool {
        self.mon.session().is_some()
    }

    /// Why the last attempt to reach a monitor failed; empty if none has.
    pub fn last_mon_failure(&self) -> &str {
        &self.mon.last_failure
    }

    /// Operations not answered yet.
    pub fn in_flight(&self) -> usize {
        self.ops.len()
    }

    /// The next finished request.
    pub fn poll_done(&mut self) -> Option<Done<C>> {
        self.done.pop_front()
    }

    /// Begins to look for a monitor.
    pub fn start(&mut self, link: &mut impl Sessions, now: Duration) {
        self.mon.start_round(link, now);
    }

    /// Carries out an operation.
    pub fn submit(&mut self, request: Request, completion: C, link: &mut impl Sessions, now: Duration) {
        let tid = self.next_tid();
        let op = InFlight {
            completion,
            request,
            state: State::Waiting,
            target: None,
            paused: false,
            attempts: 0,
            submitted: now,
        };
        self.ops.insert(tid, op);
        self.advance(tid, link, now);
    }

    /// Asks the monitors something.
    pub fn ask(&mut self, request: MonRequest, completion: C, link: &mut impl Sessions, now: Duration) {
        self.ask_as(request, Asker::User(completion), link, now);
    }

    /// Completes once the map of `epoch` or a later one is there.
    pub fn wait_for_map(&mut self, epoch: Epoch, completion: C) {
        if self.epoch() >= epoch && self.placement.is_some() {
            self.finish(completion, Ok(Answer::MapReached));
        } else {
            self.map_waiters.push((epoch, completion));
        }
    }

    /// A session stands.
    pub fn opened(&mut self, session: SessionId, link: &mut impl Sessions) {
        if self.mon.owns(session) {
            if self.mon.opened(session, link) {
                self.subscribe(session, link);
                self.ask_all_again(link);
            }
        } else if let Some(osd) = self.osd_of(session) {
            osd.opened();
        }
    }

    /// A session is over; `reason` is for people.
    pub fn reset(&mut self, session: SessionId, reason: String, link: &mut impl Sessions, now: Duration) {
        if self.mon.owns(session) {
            tracing::debug!(%reason, "monitor session lost");
            self.mon.lost(session, reason, now);
            self.mon.tick(link, now);
        } else if let Some(osd) = self.osd_of(session) {
            tracing::debug!(%reason, "OSD session lost");
            osd.lost(now);
            self.by_session.remove(&session);
            self.drop_idle_sessions(link);
        }
    }

    /// A message arrived.
    pub fn message(&mut self, session: SessionId, envelope: Envelope, link: &mut impl Sessions, now: Duration) {
        let kind = envelope.header.kind;
        let result = match kind {
            msg::OsdOpReply::TYPE => {
                self.op_reply(session, &envelope, link);
                Ok(())
            }
            msg::OsdMap::TYPE => self.osd_map(&envelope, link, now),
            msg::OsdBackoff::TYPE => self.backoff(session, &envelope, link),
            msg::MonMap::TYPE if self.mon.owns(session) => self.mon_map(&envelope, link),
            _ if self.mon.owns(session) => self.mon_answer(&envelope, link, now),
            _ => Ok(()),
        };
        if let Err(error) = result {
            tracing::warn!(kind = msg::kind_name(kind), %error, "message ignored");
        }
    }

    /// Does what is due by `now`.
    pub fn tick(&mut self, link: &mut impl Sessions, now: Duration) {
        self.mon.tick(link, now);
        let due = |s: &&mut OsdSession| s.reopen_at.is_some_and(|at| at <= now);
        let reopen: Vec<OsdId> = self.osds.values_mut().filter(due).map(|s| s.osd).collect();
        for osd in reopen {
            self.reopen(osd, link, now);
        }
        if let Some(timeout) = self.settings.op_timeout {
            // Ids grow with time, so the oldest come first.
            let late = |op: &InFlight<C>| op.submitted + timeout <= now;
            while let Some(tid) = self.ops.first_key_value().filter(|(_, op)| late(op)).map(|(tid, _)| *tid) {
                self.complete(tid, Err(Error::TimedOut { seconds: timeout.as_secs() }));
            }
        }
        if let Some(timeout) = self.settings.mon_op_timeout {
            let late = |asked: &Asked<C>| asked.since + timeout <= now;
            while let Some(tid) = self.asked.first_key_value().filter(|(_, a)| late(a)).map(|(tid, _)| *tid) {
                self.answered(tid, Err(Error::TimedOut { seconds: timeout.as_secs() }), link, now);
            }
        }
    }

    /// When [`Objecter::tick`] is next needed.
    pub fn next_wake(&self) -> Option<Duration> {
        let reopen = self.osds.values().filter_map(|s| s.reopen_at);
        let op = self.settings.op_timeout.and_then(|t| self.ops.first_key_value().map(|(_, op)| op.submitted + t));
        let ask = self.settings.mon_op_timeout.and_then(|t| self.asked.first_key_value().map(|(_, a)| a.since + t));
        self.mon.due().into_iter().chain(reopen).chain(op).chain(ask).min()
    }

    /// Ends everything that is under way with [`Error::Closed`].
    pub fn shut_down(&mut self) {
        let ops = std::mem::take(&mut self.ops).into_values().map(|op| op.completion);
        let asked = std::mem::take(&mut self.asked).into_values().filter_map(|asked| match asked.asker {
            Asker::User(completion) => Some(completion),
            Asker::PoolCheck(_) => None,
        });
        let waiters = std::mem::take(&mut self.map_waiters).into_iter().map(|(_, completion)| completion);
        let all = ops.chain(asked).chain(waiters);
        self.done.extend(all.map(|completion| Done { completion, result: Err(Error::Closed) }));
    }

    fn next_tid(&mut self) -> u64 {
        self.last_tid += 1;
        self.last_tid
    }

    fn epoch(&self) -> Epoch {
        self.placement.as_ref().map(Placement::epoch).unwrap_or_default()
    }

    fn osd_of(&mut self, session: SessionId) -> Option<&mut OsdSession> {
        let osd = self.by_session.get(&session)?;
        Some(self.osds.get_mut(osd).expect("a session that is known has its OSD"))
    }

    fn finish(&mut self, completion: C, result: Result<Answer, Error>) {
        self.done.push_back(Done { completion, result });
    }

    // --- operations -------------------------------------------------------------------------------------------------

    /// Works out anew where an operation goes, and sends it there if it can be sent now.
    fn advance(&mut self, tid: u64, link: &mut impl Sessions, now: Duration) {
        let Some(placement) = &mut self.placement else { return };
        let op = self.ops.get_mut(&tid).expect("advance() for an operation under way");
        debug_assert!(!matches!(op.state, State::Assigned { .. }), "advance() for an operation that has an OSD");
        op.target = placement.target(&op.request.subject);
        let Some(target) = &op.target else { return self.check_pool(tid, link, now) };
        op.state = State::Waiting;
        op.paused = placement.is_paused(&op.request);
        let Some(osd) = target.group.primary.filter(|_| !op.paused) else { return };
        let Some(addrs) = placement.addrs(osd) else { return };
        let session = match self.osds.entry(osd) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let id = link.connect(EntityName::osd(osd), addrs, Policy::LOSSY_CLIENT, now);
                self.by_session.insert(id, osd);
                entry.insert(OsdSession::new(osd, addrs.clone(), id))
            }
        };
        session.tids.insert(tid);
        op.state = State::Assigned { osd };
        Self::send(tid, op, session, placement.epoch(), link);
    }

    /// Sends an operation on the session it belongs to, unless that waits to be opened or the OSD asked not to.
    fn send(tid: u64, op: &mut InFlight<C>, osd: &OsdSession, epoch: Epoch, link: &mut impl Sessions) {
        let Some(session) = osd.session else { return };
        let target = op.target.as_ref().expect("an operation that has an OSD has a target");
        if osd.is_held(target.group.pg, || op.object(target.hash)) {
            return;
        }
        let request = &op.request;
        let (locator, name) = match &request.subject {
            Subject::Object { locator, name } => (locator.clone(), name.clone()),
            Subject::Group { pool, nspace, .. } => {
                let locator = wire::basic::Locator { nspace: nspace.clone(), ..wire::basic::Locator::pool(*pool) };
                (locator, bytes::Bytes::new())
            }
        };
        let mut flags = OpFlags::ONDISK | OpFlags::KNOWN_REDIR | request.flags;
        if request.is_read() {
            flags = flags | OpFlags::READ;
        }
        if request.is_write() {
            flags = flags | OpFlags::WRITE;
        }
        let mut message = msg::OsdOp::new(target.group.pg, target.hash, epoch, locator, name, request.ops.clone());
        message.flags = flags;
        message.mtime = request.mtime;
        message.snap = request.snap;
        message.snap_seq = request.snap_context.seq;
        message.snaps = request.snap_context.snaps.clone();
        message.retry_attempt = op.attempts;
        message.features = features::PACIFIC;
        op.attempts += 1;
        link.send(session, message.seal(tid, WireTarget::default()));
    }

    /// Takes an operation away from its OSD.
    fn unassign(&mut self, tid: u64) {
        let op = self.ops.get_mut(&tid).expect("unassign() for an operation under way");
        if let State::Assigned { osd } = op.state {
            op.state = State::Waiting;
            if let Some(session) = self.osds.get_mut(&osd) {
                session.tids.remove(&tid);
            }
        }
    }

    fn complete(&mut self, tid: u64, result: Result<Answer, Error>) {
        self.unassign(tid);
        let op = self.ops.remove(&tid).expect("complete() for an operation under way");
        self.finish(op.completion, result);
    }

    fn op_reply(&mut self, session: SessionId, envelope: &Envelope, link: &mut impl Sessions) {
        let tid = envelope.header.tid;
        let Some(&osd) = self.by_session.get(&session) else { return };
        // An answer from an OSD that the operation has left since, or to one that timed out.
        let Some(op) = self.ops.get_mut(&tid).filter(|op| op.state == (State::Assigned { osd })) else { return };
        let reply = match msg::OsdOpReply::open(envelope) {
            Ok(reply) => reply,
            Err(error) => return self.complete(tid, Err(error.into())),
        };
        if reply.retry_attempt != op.attempts - 1 {
            return;
        }
        if Errno::from_result(reply.result) == Some(Errno::EAGAIN) {
            let epoch = self.placement.as_ref().expect("operations are sent by a map").epoch();
            return Self::send(tid, op, &self.osds[&osd], epoch, link);
        }
        if reply.redirect.is_some() {
            return self.complete(tid, Err(Error::Unsupported("pools behind a cache tier")));
        }
        if reply.result >= 0 && reply.ops.len() != op.request.ops.len() {
            let error = format!("{} parts answered of {}", reply.ops.len(), op.request.ops.len());
            return self.complete(tid, Err(Error::Answer(error)));
        }
        self.complete(tid, Ok(Answer::Op(reply.into())));
    }

    fn backoff(
        &mut self,
        session: SessionId,
        envelope: &Envelope,
        link: &mut impl Sessions,
    ) -> Result<(), wire::DecodeError> {
        let backoff = msg::OsdBackoff::open(envelope)?;
        let epoch = self.epoch();
        let Some(osd) = self.osd_of(session) else { return Ok(()) };
        match backoff.op {
            BackoffOp::Block => {
                osd.hold(backoff.pgid, backoff.id, backoff.begin.clone(), backoff.end.clone());
                let ack = msg::OsdBackoff { op: BackoffOp::AckBlock, ..backoff };
                link.send(session, ack.seal(0, WireTarget::default()));
            }
            BackoffOp::Unblock => {
                if !osd.release(backoff.pgid, backoff.id) {
                    return Ok(());
                }
                let range = |object: &types::ObjectId| {
                    backoff.begin == *object || (backoff.begin <= *object && *object < backoff.end)
                };
                let osd = &*osd;
                // What the OSD had before it blocked is dropped there, too. `osd` is borrowed from `self.osds` alone.
                let osd_id = osd.osd;
                let tids: Vec<u64> = osd.tids.iter().copied().collect();
                for tid in tids {
                    let op = self.ops.get_mut(&tid).expect("a session's operations are under way");
                    let target = op.target.as_ref().expect("an operation that has an OSD has a target");
                    if target.group.pg == backoff.pgid && range(&op.object(target.hash)) {
                        Self::send(tid, op, &self.osds[&osd_id], epoch, link);
                    }
                }
            }
            BackoffOp::AckBlock => {}
        }
        Ok(())
    }

    /// Opens a lost session again and sends everything that waits for an answer from that OSD.
    fn reopen(&mut self, osd: OsdId, link: &mut impl Sessions, now: Duration) {
        let Some(session) = self.osds.get_mut(&osd) else { return };
        if session.tids.is_empty() {
            // Nobody waits for it: the next operation opens a new one.
            self.osds.remove(&osd);
            return;
        }
        let id = link.connect(EntityName::osd(osd), &session.addrs, Policy::LOSSY_CLIENT, now);
        self.by_session.insert(id, osd);
        session.reopened(id);
        let epoch = self.placement.as_ref().expect("sessions are opened by a map").epoch();
        let session = &self.osds[&osd];
        for tid in &session.tids {
            let op = self.ops.get_mut(tid).expect("a session's operations are under way");
            Self::send(*tid, op, session, epoch, link);
        }
    }

    /// Sessions that are lost and that nobody waits for need no opening again.
    fn drop_idle_sessions(&mut self, _link: &mut impl Sessions) {
        self.osds.retain(|_, session| session.session.is_some() || !session.tids.is_empty());
    }

    // --- maps -------------------------------------------------------------------------------------------------------

    fn osd_map(
        &mut self,
        envelope: &Envelope,
        link: &mut impl Sessions,
        now: Duration,
    ) -> Result<(), wire::DecodeError> {
        let message = msg::OsdMap::open(envelope)?;
        if self.fsid.is_some_and(|fsid| fsid != message.fsid) {
            tracing::warn!(fsid = %message.fsid, "map of another cluster ignored");
            return Ok(());
        }
        let before = self.placement.as_ref().map(Placement::epoch);
        let result = Placement::update(&mut self.placement, &message);
        let after = self.placement.as_ref().map(Placement::epoch);
        if after == before {
            if result.is_ok() && before.is_none_or(|have| message.last() > have) {
                // There is a gap between what is here and what came.
                if let Some(session) = self.mon.session() {
                    self.subscribe(session, link);
                }
            }
            return result;
        }
        self.learn_fsid(message.fsid, link);
        self.map_changed(link, now);
        result
    }

    fn learn_fsid(&mut self, fsid: Fsid, link: &mut impl Sessions) {
        if self.fsid.is_none() {
            self.fsid = Some(fsid);
            self.ask_all_again(link);
        }
    }

    fn map_changed(&mut self, link: &mut impl Sessions, now: Duration) {
        let placement = self.placement.as_ref().expect("map_changed() with a map");
        let moved = |s: &&OsdSession| placement.addrs(s.osd) != Some(&s.addrs);
        let gone: Vec<OsdId> = self.osds.values().filter(moved).map(|s| s.osd).collect();
        for osd in gone {
            let session = self.osds.remove(&osd).expect("just seen");
            if let Some(id) = session.session {
                self.by_session.remove(&id);
                link.close(id);
            }
            for tid in session.tids {
                self.ops.get_mut(&tid).expect("a session's operations are under way").state = State::Waiting;
            }
        }
        let tids: Vec<u64> = self.ops.keys().copied().collect();
        for tid in tids {
            self.reconsider(tid, link, now);
        }
        let epoch = self.epoch();
        for index in (0..self.map_waiters.len()).rev() {
            if self.map_waiters[index].0 <= epoch {
                let (_, completion) = self.map_waiters.swap_remove(index);
                self.finish(completion, Ok(Answer::MapReached));
            }
        }
        let reached = |asked: &Asked<C>| asked.reached_with.as_ref().is_some_and(|(at, _)| *at <= epoch);
        let tids: Vec<u64> = self.asked.iter().filter(|(_, asked)| reached(asked)).map(|(tid, _)| *tid).collect();
        for tid in tids {
            let response = self.asked.get_mut(&tid).and_then(|asked| asked.reached_with.take());
            let response = response.and_then(|(_, response)| response);
            self.answered(tid, Ok(MonAnswer::PoolOp(response)), link, now);
        }
    }

    /// Looks at one operation in the light of a new map.
    fn reconsider(&mut self, tid: u64, link: &mut impl Sessions, now: Duration) {
        let placement = self.placement.as_mut().expect("reconsider() with a map");
        let op = self.ops.get_mut(&tid).expect("reconsider() for an operation under way");
        match op.state {
            State::Waiting => self.advance(tid, link, now),
            State::CheckingPool { missing_in } => {
                if placement.has_pool(op.request.subject.pool()) {
                    op.state = State::Waiting;
                    self.advance(tid, link, now);
                } else if missing_in.is_some_and(|epoch| epoch <= placement.epoch()) {
                    self.complete(tid, Err(Errno::ENOENT.into()));
                }
            }
            State::Assigned { .. } => {
                let target = placement.target(&op.request.subject);
                let paused = placement.is_paused(&op.request);
                // OSDs drop what a flag forbids, so it has to be sent again once it is allowed.
                let allowed_again = op.paused && !paused;
                op.paused = paused;
                if target != op.target || allowed_again {
                    self.unassign(tid);
                    self.advance(tid, link, now);
                }
            }
        }
    }

    /// The map has no such pool. Whether that is the newest word the monitors know.
    fn check_pool(&mut self, tid: u64, link: &mut impl Sessions, now: Duration) {
        let op = self.ops.get_mut(&tid).expect("check_pool() for an operation under way");
        op.state = State::CheckingPool { missing_in: None };
        let request = MonRequest::Version { map: "osdmap".into() };
        self.ask_as(request, Asker::PoolCheck(tid), link, now);
    }

    // --- monitors ---------------------------------------------------------------------------------------------------

    fn subscribe(&mut self, session: SessionId, link: &mut impl Sessions) {
        let start = |have: u32| if have == 0 { 0 } else { u64::from(have) + 1 };
        let from = |have: u32| Subscription { start: start(have), onetime: false };
        let what = [("monmap", from(self.mon_map_epoch)), ("osdmap", from(self.epoch().0))];
        let what = what.into_iter().map(|(name, sub)| (name.to_owned(), sub)).collect();
        let message = msg::MonSubscribe { what, hostname: self.settings.hostname.clone() };
        link.send(session, message.seal(0, WireTarget::default()));
    }

    fn ask_as(&mut self, request: MonRequest, asker: Asker<C>, link: &mut impl Sessions, now: Duration) {
        let tid = self.next_tid();
        let asked = Asked { asker, request, since: now, reached_with: None };
        self.asked.insert(tid, asked);
        self.send_asked(tid, link);
    }

    fn send_asked(&self, tid: u64, link: &mut impl Sessions) {
        let (Some(session), Some(fsid)) = (self.mon.session(), self.fsid) else { return };
        let asked = &self.asked[&tid];
        if asked.reached_with.is_none() {
            link.send(session, asked.request.seal(tid, fsid, self.epoch()));
        }
    }

    fn ask_all_again(&self, link: &mut impl Sessions) {
        self.asked.keys().for_each(|tid| self.send_asked(*tid, link));
    }

    fn mon_map(&mut self, envelope: &Envelope, link: &mut impl Sessions) -> Result<(), wire::DecodeError> {
        let map: osdmap::MonMap = wire::Decode::from_slice(&msg::MonMap::open(envelope)?.map)?;
        if self.fsid.is_some_and(|fsid| fsid != map.fsid) || map.epoch.0 <= self.mon_map_epoch {
            return Ok(());
        }
        self.mon_map_epoch = map.epoch.0;
        let addrs: Vec<EntityAddrVec> = map.mons.values().map(|mon| mon.addrs.clone()).collect();
        if !addrs.is_empty() {
            self.mon.set_candidates(addrs);
        }
        self.learn_fsid(map.fsid, link);
        Ok(())
    }

    fn mon_answer(
        &mut self,
        envelope: &Envelope,
        link: &mut impl Sessions,
        now: Duration,
    ) -> Result<(), wire::DecodeError> {
        let tid = envelope.header.tid;
        let answer = match envelope.header.kind {
            msg::MonCommandAck::TYPE => {
                let ack = msg::MonCommandAck::open(envelope)?;
                let output = ack.output.into_bytes();
                MonAnswer::Command(CommandReply { result: ack.result, status: ack.status, output })
            }
            msg::MonGetVersionReply::TYPE => MonAnswer::Version(msg::MonGetVersionReply::open(envelope)?.version),
            msg::StatfsReply::TYPE => MonAnswer::Statfs(msg::StatfsReply::open(envelope)?),
            msg::GetPoolStatsReply::TYPE => MonAnswer::PoolStats(msg::GetPoolStatsReply::open(envelope)?.stats),
            msg::PoolOpReply::TYPE => return self.pool_op_reply(tid, envelope, link, now),
            _ => return Ok(()),
        };
        if self.asked.contains_key(&tid) {
            self.answered(tid, Ok(answer), link, now);
        }
        Ok(())
    }

    /// A pool operation counts as done when the map that shows it is here.
    fn pool_op_reply(
        &mut self,
        tid: u64,
        envelope: &Envelope,
        link: &mut impl Sessions,
        now: Duration,
    ) -> Result<(), wire::DecodeError> {
        let reply = msg::PoolOpReply::open(envelope)?;
        let epoch = self.epoch();
        let Some(asked) = self.asked.get_mut(&tid) else { return Ok(()) };
        if let Some(errno) = Errno::from_result(reply.result) {
            self.answered(tid, Err(errno.into()), link, now);
        } else if reply.epoch <= epoch {
            self.answered(tid, Ok(MonAnswer::PoolOp(reply.response)), link, now);
        } else {
            asked.reached_with = Some((reply.epoch, reply.response));
        }
        Ok(())
    }

    fn answered(&mut self, tid: u64, result: Result<MonAnswer, Error>, link: &mut impl Sessions, now: Duration) {
        let asked = self.asked.remove(&tid).expect("answered() for a request under way");
        match asked.asker {
            Asker::User(completion) => self.finish(completion, result.map(Answer::Mon)),
            Asker::PoolCheck(op_tid) => {
                let Some(op) = self.ops.get_mut(&op_tid) else { return };
                if !matches!(op.state, State::CheckingPool { .. }) {
                    return;
                }
                match result {
                    Ok(MonAnswer::Version(version)) => {
                        let missing_in = Some(Epoch(u32::try_from(version).unwrap_or(u32::MAX)));
                        op.state = State::CheckingPool { missing_in };
                        self.reconsider(op_tid, link, now);
                    }
                    Ok(_) => self.complete(op_tid, Err(Error::Answer("another answer than the version".into()))),
                    Err(error) => self.complete(op_tid, Err(error)),
                }
            }
        }
    }
}
