//! The way of a change into the log, and the answers once it is applied.
//!
//! At most one batch is on its way. Meanwhile requests wait here; each is decided on the state in which the batch
//! before it has been applied. That costs a little concurrency, and buys that no decision rests on a state that never
//! came about.

use super::{Monitor, MonitorAction, Now};
use crate::bounds::{
    ACTIVATIONS_MAX, ADDRS_MAX, BATCH_BYTES, GROUPS_PER_MESSAGE, LOG_LINE_BYTES_MAX, LOG_LINES_WAITING_MAX,
    NAME_BYTES_MAX, REQUEST_BYTES_MAX, REQUESTS_MAX, cut,
};
use crate::commands::{self, Asked, Order, Outcome, Reply};
use crate::identity::{Party, Standing};
use crate::pools::{self, PoolOpOutcome};
use crate::state::{LogEntry, LogPriority, STATE_CHECK_CHANNEL};
use crate::update::{Batch, Update};
use auth::Granted;
use bytes::Bytes;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use tracing::{error, info};
use types::{EntityName, EntityType, Errno, OsdId, PgId};
use wire::basic::AuthName;
use wire::messages as msg;
use wire::msgr::SessionId;
use wire::nacre::mon as nacre;
use wire::{Encode, Message, Target};

/// Size of the ranges in which global ids are made durable.
const GLOBAL_IDS_RANGE: u64 = 10_000;
/// Most lines taken from one message.
const LOG_LINES_MAX: usize = 200;
/// Number of batches that a snapshot replaces.
pub const SNAPSHOT_EVERY: u64 = 500;

/// A request that may change something.
#[derive(Debug)]
pub(super) enum PendingRequest {
    Command(CommandRequest),
    PoolOp { session: SessionId, tid: u64, op: msg::PoolOp },
}

impl PendingRequest {
    /// Returns the bytes that it takes while it waits.
    fn bytes(&self) -> usize {
        match self {
            PendingRequest::Command(request) => {
                request.cmd.iter().map(String::len).sum::<usize>() + request.input.len()
            }
            PendingRequest::PoolOp { op, .. } => op.name.len(),
        }
    }
}

/// The message that answers a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AnswerKind {
    /// Answers a command to the monitors.
    Monitor,
    /// Answers a command to one daemon in person.
    Daemon,
    /// Answers a command to the manager.
    Manager,
}

/// A command with everything that its answer needs.
pub(super) struct CommandRequest {
    pub session: SessionId,
    pub tid: u64,
    pub from: EntityName,
    /// The party that sent it, as it was known then.
    pub who: Box<Party>,
    /// The words as they came; echoed in the answer.
    pub cmd: Vec<String>,
    pub input: Bytes,
    /// True if it came as a message to this monitor in person.
    pub tell: bool,
    pub answer: AnswerKind,
}

/// Words and input may be secrets.
impl fmt::Debug for CommandRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {} of {} on {:?}", self.tid, self.from, self.session)
    }
}

/// An answer to be given once a batch is applied.
#[derive(Debug)]
pub(super) enum PendingAnswer {
    Command(CommandRequest, Reply),
    PoolOp {
        session: SessionId,
        tid: u64,
        code: i32,
        data: Option<Bytes>,
    },
    GoingDown {
        session: SessionId,
        osd: OsdId,
    },
    PgActivated {
        session: SessionId,
        pgs: Vec<PgId>,
    },
    LogAck {
        session: SessionId,
        last: u64,
        channel: String,
    },
    /// A range of [`GLOBAL_IDS_RANGE`] ids from `from` on may be handed out.
    GlobalIds {
        from: u64,
        /// `None`: this monitor hands them out, else the one at the other end of the session does.
        by: Option<SessionId>,
    },
}

#[derive(Default)]
pub(super) struct Proposals {
    in_flight: Option<InFlight>,
    waiting: VecDeque<PendingRequest>,
    waiting_bytes: usize,
    global_ids_wanted: bool,
    /// Sessions of other monitors that want ids.
    global_ids_for: BTreeSet<SessionId>,
    /// True while a batch with ids is on its way.
    global_ids_coming: bool,
    /// Requested records of activations, each with its asker; and the number of the records.
    activations: VecDeque<(SessionId, nacre::PgActivate)>,
    activations_count: usize,
    /// Updates that are decided already and go with the next batch.
    updates: Vec<Update>,
    /// Lines of other parties for the cluster log, each with the answer it gets.
    log_lines: VecDeque<(LogEntry, Option<PendingAnswer>)>,
}

struct InFlight {
    index: u64,
    batch: Batch,
    answers: Vec<PendingAnswer>,
}

impl Proposals {
    /// Returns true if a request of this session waits or is on its way to the log.
    pub fn is_changing_for(&self, session: SessionId) -> bool {
        let waits = |request: &PendingRequest| match request {
            PendingRequest::Command(request) => request.session == session,
            PendingRequest::PoolOp { session: of, .. } => *of == session,
        };
        let on_its_way = |answer: &PendingAnswer| match answer {
            PendingAnswer::Command(request, _) => request.session == session,
            PendingAnswer::PoolOp { session: of, .. } => *of == session,
            _ => false,
        };
        let in_flight = self.in_flight.iter().flat_map(|in_flight| &in_flight.answers);
        self.waiting.iter().any(waits) || in_flight.into_iter().any(on_its_way)
    }

    /// Returns the index of the batch on its way.
    pub fn in_flight_index(&self) -> Option<u64> {
        self.in_flight.as_ref().map(|in_flight| in_flight.index)
    }

    /// Describes the requests of clients that wait, or whose changes are on their way to the log, without what may be
    /// secret.
    pub fn described(&self) -> Vec<String> {
        let command = |request: &CommandRequest| {
            let command = request.cmd.first().map(|command| commands::for_log(command)).unwrap_or_default();
            format!("mon_command({command} tid {} from {})", request.tid, request.from)
        };
        let waiting = self.waiting.iter().map(|request| match request {
            PendingRequest::Command(request) => command(request),
            PendingRequest::PoolOp { .. } => "pool_op".to_owned(),
        });
        let on_its_way = |answer: &PendingAnswer| match answer {
            PendingAnswer::Command(request, _) => Some(command(request)),
            PendingAnswer::PoolOp { tid, .. } => Some(format!("pool_op(tid {tid})")),
            _ => None,
        };
        let in_flight = self.in_flight.iter().flat_map(|in_flight| &in_flight.answers).filter_map(on_its_way);
        waiting.chain(in_flight).collect()
    }

    /// Returns the sessions that wait for an answer.
    pub fn askers(&self) -> BTreeSet<SessionId> {
        let waiting = self.waiting.iter().map(|request| match request {
            PendingRequest::Command(request) => request.session,
            PendingRequest::PoolOp { session, .. } => *session,
        });
        let asked = |answer: &PendingAnswer| match answer {
            PendingAnswer::Command(request, _) => Some(request.session),
            PendingAnswer::PoolOp { session, .. }
            | PendingAnswer::GoingDown { session, .. }
            | PendingAnswer::PgActivated { session, .. }
            | PendingAnswer::LogAck { session, .. } => Some(*session),
            PendingAnswer::GlobalIds { .. } => None,
        };
        let in_flight = self.in_flight.iter().flat_map(|in_flight| &in_flight.answers).filter_map(asked);
        let lines = self.log_lines.iter().filter_map(|(_, answer)| asked(answer.as_ref()?));
        let activations = self.activations.iter().map(|(session, _)| *session);
        waiting.chain(in_flight).chain(lines).chain(activations).collect()
    }

    /// Drops the requests of a session that wait.
    pub fn forget(&mut self, session: SessionId) {
        let is_of = |request: &PendingRequest| match request {
            PendingRequest::Command(request) => request.session == session,
            PendingRequest::PoolOp { session: of, .. } => *of == session,
        };
        self.waiting.retain(|request| !is_of(request));
        self.waiting_bytes = self.waiting.iter().map(PendingRequest::bytes).sum();
    }

    /// Returns true if no batch is on its way.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_none()
    }

    pub fn want_global_ids(&mut self) {
        self.global_ids_wanted = !self.global_ids_coming;
    }

    /// Asks for ids for the monitor at the other end of the session.
    pub fn want_global_ids_for(&mut self, session: SessionId) {
        self.global_ids_for.insert(session);
    }

    /// Asks for records. A part of a message with many groups may be answered before the rest; groups beyond
    /// [`ACTIVATIONS_MAX`] are dropped.
    pub fn activate(&mut self, session: SessionId, request: nacre::PgActivate) {
        let nacre::PgActivate { epoch, mut pgs } = request;
        // A message without groups is queued as well, because it is owed an answer.
        loop {
            let rest = pgs.split_off(pgs.len().min(GROUPS_PER_MESSAGE));
            if self.activations_count + pgs.len() > ACTIVATIONS_MAX {
                return info!(
                    "{ACTIVATIONS_MAX} placement groups' records wait; others are dropped until they are asked for \
                     again"
                );
            }
            self.activations_count += pgs.len();
            self.activations.push_back((session, nacre::PgActivate { epoch, pgs }));
            if rest.is_empty() {
                return;
            }
            pgs = rest;
        }
    }

    fn next_activation(&mut self) -> Option<(SessionId, nacre::PgActivate)> {
        let (session, request) = self.activations.pop_front()?;
        self.activations_count -= request.pgs.len();
        Some((session, request))
    }

    /// Takes out the next request.
    fn next_request(&mut self) -> Option<PendingRequest> {
        let request = self.waiting.pop_front()?;
        self.waiting_bytes -= request.bytes();
        Some(request)
    }

    /// Adds an update that stays right whatever is applied before it.
    pub fn update(&mut self, update: Update) {
        if !self.updates.contains(&update) {
            self.updates.push(update);
        }
    }

    /// Adds a line to the cluster log with the next batch.
    pub fn log(&mut self, entry: LogEntry) {
        self.log_lines.push_back((entry, None));
    }

    /// Adds lines that a daemon or client sent; the answer acknowledges the last one's number. Surplus lines are
    /// dropped and long ones cut: the log's tail is part of the state. While too many wait, none is taken nor
    /// acknowledged.
    pub fn log_for(&mut self, session: SessionId, mut entries: Vec<LogEntry>) {
        if self.log_lines.len() >= LOG_LINES_WAITING_MAX {
            return;
        }
        let surplus = entries.len().saturating_sub(LOG_LINES_MAX);
        entries.drain(..surplus);
        for entry in &mut entries {
            cut(&mut entry.message, LOG_LINE_BYTES_MAX);
            cut(&mut entry.channel, NAME_BYTES_MAX);
            if entry.channel == STATE_CHECK_CHANNEL {
                entry.channel = "cluster".to_owned();
            }
            cut(&mut entry.name.id, NAME_BYTES_MAX);
            entry.addrs.0.truncate(ADDRS_MAX);
            entry.addrs.0.shrink_to_fit();
        }
        let Some(last) = entries.pop() else { return };
        self.log_lines.extend(entries.into_iter().map(|entry| (entry, None)));
        let answer = PendingAnswer::LogAck { session, last: last.seq, channel: last.channel.clone() };
        self.log_lines.push_back((last, Some(answer)));
    }
}

impl Monitor {
    /// Handles a command. A query is answered at once, unless an earlier change of the same session is not made yet: an
    /// answer that is true without that change need not be true after it.
    pub(super) fn command(&mut self, now: Now, request: CommandRequest, out: &mut Vec<MonitorAction>) {
        if self.proposals.is_changing_for(request.session) {
            return self.wait(PendingRequest::Command(request), out);
        }
        match self.decide(now, &request) {
            Outcome::Reply(reply) => self.answer(PendingAnswer::Command(request, reply), out),
            Outcome::Order { orders, asked } => self.hand_on(request, orders, asked, out),
            Outcome::Propose { .. } if !self.leads => {
                let why = format!("mon.{} does not lead; ask without naming a monitor", self.volatile.name);
                self.refuse(request, Errno::EAGAIN, &why, out);
            }
            // The command is decided again once it is its turn: the state may be another by then.
            Outcome::Propose { .. } => self.wait(PendingRequest::Command(request), out),
        }
    }

    /// Hands orders on to the OSDs that are connected.
    fn hand_on(
        &mut self,
        request: CommandRequest,
        orders: Vec<(OsdId, Order)>,
        asked: Asked,
        out: &mut Vec<MonitorAction>,
    ) {
        let (mut told, mut absent) = (Vec::new(), Vec::new());
        for (osd, order) in orders {
            let mut is_connected = false;
            for (session, _) in self.sessions.iter().filter(|(_, known)| known.osd() == Some(osd)) {
                match order.clone() {
                    Order::Scrub(order) => self.send(*session, 0, order, out),
                    Order::Force(order) => self.send(*session, 0, order, out),
                }
                is_connected = true;
            }
            if is_connected { told.push(osd) } else { absent.push(osd) }
        }
        self.answer(PendingAnswer::Command(request, asked.reply(&told, &absent)), out);
    }

    pub(super) fn refuse(&self, request: CommandRequest, errno: Errno, why: &str, out: &mut Vec<MonitorAction>) {
        self.answer(PendingAnswer::Command(request, Reply::error(errno, why)), out);
    }

    pub(super) fn pool_op(&mut self, session: SessionId, tid: u64, op: msg::PoolOp, out: &mut Vec<MonitorAction>) {
        if !self.sessions[&session].may_change_pool(&self.state, &op) {
            let code = Errno::EPERM.as_result();
            return self.answer(PendingAnswer::PoolOp { session, tid, code, data: None }, out);
        }
        self.wait(PendingRequest::PoolOp { session, tid, op }, out);
    }

    fn wait(&mut self, request: PendingRequest, out: &mut Vec<MonitorAction>) {
        let (count, bytes) = (self.proposals.waiting.len(), self.proposals.waiting_bytes);
        // The first request may have any size.
        if count < REQUESTS_MAX && (count == 0 || bytes + request.bytes() <= REQUEST_BYTES_MAX) {
            self.proposals.waiting_bytes += request.bytes();
            return self.proposals.waiting.push_back(request);
        }
        let why = format!("{count} requests of {bytes} bytes are waiting; try again later");
        let busy = Reply::error(Errno::EAGAIN, why);
        match request {
            PendingRequest::Command(request) => self.answer(PendingAnswer::Command(request, busy), out),
            PendingRequest::PoolOp { session, tid, .. } => {
                self.answer(PendingAnswer::PoolOp { session, tid, code: busy.code, data: None }, out);
            }
        }
    }

    fn decide(&mut self, now: Now, request: &CommandRequest) -> Outcome {
        let [command] = &request.cmd[..] else {
            return Outcome::Reply(Reply::error(Errno::EINVAL, "a command is one JSON text"));
        };
        let who = self.sessions.get(&request.session).map_or(&*request.who, |known| &known.identity).clone();
        let sessions = if commands::asks_for_sessions(command) { self.session_infos() } else { Vec::new() };
        if commands::asks_for_options(command) {
            let (own, options) = (self.volatile.name.clone(), self.option_report());
            self.told_options(&own, options);
        }
        let request = commands::Request {
            command,
            input: request.input.clone(),
            from: request.from,
            who: &who,
            tell: request.tell,
            to_manager: request.answer == AnswerKind::Manager,
            sessions: &sessions,
            now: now.wall,
            random: (self.entropy)(),
        };
        commands::handle(&self.state, &self.volatile, &request)
    }

    pub(super) fn session_infos(&self) -> Vec<commands::SessionInfo> {
        let info = |known: &super::session::Session| commands::SessionInfo {
            name: known.peer.name,
            entity: known.peer.auth_name.to_string(),
            addrs: known.peer.addrs.clone(),
            features: known.peer.features,
            global_id: known.peer.global_id,
            host: known.host.clone(),
            osd_epoch: known.subscriptions.get("osdmap").map_or(0, |wanted| wanted.next.saturating_sub(1)),
            caps: match &known.identity.granted {
                Granted::Everything => "allow *".to_owned(),
                Granted::Text(caps) => caps.clone(),
            },
            is_proven: known.identity.standing == Standing::Proven,
        };
        self.sessions.values().filter(|known| !known.is_at_manager).map(info).collect()
    }

    /// Appends the next batch if there is something to append and none is on its way.
    pub(super) fn advance(&mut self, now: Now, out: &mut Vec<MonitorAction>) {
        while self.leads && self.proposals.in_flight.is_none() {
            let mut answers = Vec::new();
            let mut updates = self.own_updates(now, &mut answers);
            if updates.is_empty() {
                // Without updates, everything that the answers report holds already.
                answers.drain(..).for_each(|answer| self.answer(answer, out));
                let Some(request) = self.proposals.next_request() else { return };
                updates = self.requested(now, request, &mut answers, out);
            }
            if updates.is_empty() {
                continue;
            }
            self.replace_known_secrets(now, &mut updates);
            let index = self.state.applied + 1;
            let batch = Batch { stamp: now.wall, updates };
            out.push(MonitorAction::Append { index, batch: batch.to_vec(Target::PACIFIC).into() });
            self.proposals.in_flight = Some(InFlight { index, batch, answers });
        }
    }

    /// Drops the batch on its way, which is too large to be decided: nothing of it is done. Clients that asked for it
    /// are told; OSDs and other daemons ask again.
    pub fn refused(&mut self, now: Now, why: &str, out: &mut Vec<MonitorAction>) {
        let Some(in_flight) = self.proposals.in_flight.take() else { return };
        error!("batch {} is dropped: {why}", in_flight.index);
        self.proposals.global_ids_coming = false;
        for answer in in_flight.answers {
            match answer {
                PendingAnswer::Command(request, _) => self.refuse(request, Errno::E2BIG, why, out),
                PendingAnswer::PoolOp { session, tid, .. } => {
                    let code = Errno::E2BIG.as_result();
                    self.answer(PendingAnswer::PoolOp { session, tid, code, data: None }, out);
                }
                PendingAnswer::GlobalIds { by: None, .. } => self.proposals.want_global_ids(),
                PendingAnswer::GlobalIds { by: Some(session), .. } => self.proposals.want_global_ids_for(session),
                PendingAnswer::GoingDown { .. } | PendingAnswer::PgActivated { .. } | PendingAnswer::LogAck { .. } => {}
            }
        }
        self.advance(now, out);
    }

    /// Returns the updates that answer no command or pool operation: records, OSD map changes, ids. Records that do not
    /// fit wait for the next batch.
    fn own_updates(&mut self, now: Now, answers: &mut Vec<PendingAnswer>) -> Vec<Update> {
        let mut updates = std::mem::take(&mut self.proposals.updates);
        let own = std::mem::take(&mut self.proposals.global_ids_wanted);
        self.proposals.global_ids_coming |= own;
        let others = std::mem::take(&mut self.proposals.global_ids_for).into_iter().map(Some);
        let mut from = self.state.global_ids_below.max(FIRST_GLOBAL_ID);
        for by in own.then_some(None).into_iter().chain(others) {
            answers.push(PendingAnswer::GlobalIds { from, by });
            from += GLOBAL_IDS_RANGE;
            updates.push(Update::GlobalIds { below: from });
        }
        self.member_updates(now, &mut updates);
        self.secret_updates(now, &mut updates);
        // Activations go before map changes, because they are checked against the map as it is now.
        let bytes_of = |update: &Update| update.to_vec(Target::PACIFIC).len();
        let mut bytes: usize = updates.iter().map(bytes_of).sum();
        while bytes < BATCH_BYTES
            && let Some((session, request)) = self.proposals.next_activation()
        {
            let (update, answer) = self.activation(session, request);
            bytes += update.as_ref().map_or(0, bytes_of);
            updates.extend(update);
            answers.push(answer);
        }
        let before = updates.len();
        self.osd_updates(now, &mut updates, answers);
        bytes += updates[before..].iter().map(bytes_of).sum::<usize>();
        let mut entries = Vec::new();
        while bytes < BATCH_BYTES
            && let Some((entry, answer)) = self.proposals.log_lines.pop_front()
        {
            bytes += entry.to_vec(Target::PACIFIC).len();
            entries.push(entry);
            answers.extend(answer);
        }
        if !entries.is_empty() {
            updates.push(Update::Log(entries));
        }
        updates
    }

    fn requested(
        &mut self,
        now: Now,
        request: PendingRequest,
        answers: &mut Vec<PendingAnswer>,
        out: &mut Vec<MonitorAction>,
    ) -> Vec<Update> {
        match request {
            PendingRequest::Command(request) => match self.decide(now, &request) {
                Outcome::Reply(reply) => {
                    self.answer(PendingAnswer::Command(request, reply), out);
                    Vec::new()
                }
                Outcome::Order { orders, asked } => {
                    self.hand_on(request, orders, asked, out);
                    Vec::new()
                }
                Outcome::Propose { mut updates, reply } => {
                    if let Err(why) = self.state.check_budget(&updates) {
                        self.refuse(request, Errno::EDQUOT, &why.to_string(), out);
                        return Vec::new();
                    }
                    if !request.cmd.iter().any(|command| commands::is_routine(command)) {
                        updates.push(Update::Log(vec![self.audit_line(now, &request)]));
                    }
                    answers.push(PendingAnswer::Command(request, reply));
                    updates
                }
            },
            PendingRequest::PoolOp { session, tid, op } => match pools::pool_op(&self.state, &op, now.wall) {
                PoolOpOutcome::Reply { code, data } => {
                    self.answer(PendingAnswer::PoolOp { session, tid, code, data }, out);
                    Vec::new()
                }
                PoolOpOutcome::Propose { updates, data } => {
                    if let Err(why) = self.state.check_budget(&updates) {
                        info!("a request about a pool is refused: {why}");
                        let code = Errno::EDQUOT.as_result();
                        self.answer(PendingAnswer::PoolOp { session, tid, code, data: None }, out);
                        return Vec::new();
                    }
                    answers.push(PendingAnswer::PoolOp { session, tid, code: 0, data });
                    updates
                }
            },
        }
    }

    /// Applies the batch on its way, which is decided.
    pub(super) fn committed(&mut self, now: Now, index: u64, out: &mut Vec<MonitorAction>) {
        let in_flight = self.proposals.in_flight.take();
        let in_flight = in_flight.unwrap_or_else(|| panic!("batch {index} committed, but none is on its way"));
        assert_eq!(in_flight.index, index, "another batch was on its way");
        let (before, secrets) = (self.state.osdmap().epoch, self.newest_secrets());
        self.state.apply(index, &in_flight.batch);
        self.proposals.global_ids_coming = false;
        if self.awaits_merges() {
            self.osd_changes.look(now.since_start);
        }
        self.after(now, &in_flight.batch, secrets, out);
        self.followed(now, before, out);
        for answer in in_flight.answers {
            self.answer(answer, out);
        }
    }

    pub(super) fn answer(&self, answer: PendingAnswer, out: &mut Vec<MonitorAction>) {
        match answer {
            PendingAnswer::Command(request, reply) => self.answer_command(request, reply, out),
            PendingAnswer::PoolOp { session, tid, code, data } => {
                let epoch = self.state.osdmap().epoch;
                let reply = msg::PoolOpReply {
                    version: epoch.0.into(),
                    fsid: self.state.fsid,
                    result: code,
                    epoch,
                    response: data,
                };
                self.send(session, tid, reply, out);
            }
            PendingAnswer::GoingDown { session, osd } => {
                let epoch = self.state.osdmap().epoch;
                self.send(session, 0, nacre::OsdGoingDownAck { osd, epoch }, out);
            }
            PendingAnswer::PgActivated { session, pgs } => {
                let pgs = pgs.iter().filter_map(|pg| self.pg_history(*pg)).collect();
                self.send(session, 0, nacre::PgActivated { pgs }, out);
            }
            PendingAnswer::LogAck { session, last, channel } => {
                self.send(session, 0, msg::LogAck { fsid: self.state.fsid, last, channel }, out);
            }
            PendingAnswer::GlobalIds { from, by } => {
                let ids = from..from + GLOBAL_IDS_RANGE;
                out.push(match by {
                    None => MonitorAction::GlobalIds(ids),
                    Some(session) => MonitorAction::GlobalIdsFor { session, ids },
                });
            }
        }
    }

    fn answer_command(&self, request: CommandRequest, reply: Reply, out: &mut Vec<MonitorAction>) {
        let CommandRequest { session, tid, cmd, answer, .. } = request;
        let Reply { code: result, status, .. } = reply;
        let output = reply.output.into();
        match answer {
            AnswerKind::Monitor => {
                let version = self.state.applied;
                self.send(session, tid, msg::MonCommandAck { version, result, status, cmd, output }, out);
            }
            AnswerKind::Daemon => self.send(session, tid, msg::CommandReply { result, status, output }, out),
            AnswerKind::Manager => self.send(session, tid, msg::MgrCommandReply { result, status, output }, out),
        }
    }

    pub(super) fn send(&self, session: SessionId, tid: u64, message: impl Message, out: &mut Vec<MonitorAction>) {
        let Some(known) = self.sessions.get(&session) else { return };
        out.push(MonitorAction::Send { session, envelope: message.seal(tid, known.target()) });
    }

    fn audit_line(&self, now: Now, request: &CommandRequest) -> LogEntry {
        let entity = self.sessions.get(&request.session).map(|s| s.peer.auth_name.to_string()).unwrap_or_default();
        let cmd: Vec<String> = request.cmd.iter().map(|command| commands::for_log(command)).collect();
        let message = format!("from='{}' entity='{entity}' cmd=[{}]: dispatch", request.from, cmd.join(","));
        LogEntry { channel: "audit".to_owned(), ..self.log_line(now, LogPriority::INFO, message) }
    }

    /// Returns a line of this monitor for the cluster log, cut as those of other parties are.
    pub(super) fn log_line(&self, now: Now, priority: LogPriority, mut message: String) -> LogEntry {
        cut(&mut message, LOG_LINE_BYTES_MAX);
        LogEntry {
            seq: 0,
            stamp: now.wall,
            name: AuthName::new(EntityType::MON, &self.volatile.name),
            rank: EntityName::mon(self.state.monmap.rank(&self.volatile.name).unwrap_or(0) as i64),
            addrs: self.state.monmap.mons.get(&self.volatile.name).map(|mon| mon.addrs.clone()).unwrap_or_default(),
            priority,
            channel: "cluster".to_owned(),
            message,
        }
    }
}

/// Ids below are reserved, as in Ceph.
const FIRST_GLOBAL_ID: u64 = 4100;
