//! A client as a process of the simulated world: the objecter's core, a messenger, and something to do.

use crate::check::Listed;
use crate::commands::{Commands, Question};
use crate::content::OpId;
use crate::history::{Answer, Ask, ObjectName, Operation, Usage};
use crate::model::OPERATIONS_MAX;
use crate::port::{Answers, Port};
use crate::request::{self, page, page_request};
use crate::watching::{Link, Step, Watching, Witnessed};
use crate::window::Window;
use crate::witness::Witness;
use crate::workload::{IN_FLIGHT_MAX, Objects, Workload};
use auth::Key;
use client::objecter::{self, MonAnswer, MonRequest, Objecter, Resend, Settings};
use reactor::sim::SimIo;
use reactor::{Event, Handler, Io};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{EntityType, Epoch, ObjectId, OsdId, PoolId, SnapId};
use wire::basic::AuthName;
use wire::messages::{BackoffOp, OpFlags, OsdBackoff, PoolOpKind};
use wire::msgr::{Config, Messenger, Output};
use wire::{EntityAddrVec, Envelope, Message};

const WAKE: u64 = 1;
const ASK: u64 = 2;

/// Name of the pool in which everything is done.
pub const POOL: &str = "sim";

/// The work of a client.
pub enum Purpose {
    /// Makes the pool, then gives the commands that it is told to give.
    Operate,
    /// Makes an erasure-coded pool with `k` data and `m` parity shards, in which parts of objects may be overwritten if
    /// `overwrites` is set, then gives the commands that it is told to give.
    OperateCoded {
        k: u8,
        m: u8,
        overwrites: bool,
    },
    Work(Workload),
    /// Asks monitors one question at a time.
    Ask(Commands),
    Watch(Box<Watching>),
    /// Reads all these objects `left` times, with pauses of `pause`. The reads go to the OSD `near` where it may
    /// answer.
    Poll {
        objects: Vec<ObjectName>,
        left: u32,
        pause: Duration,
        near: Option<OsdId>,
    },
    /// Asks all of `left` at once. If `list` is set, lists the pool afterwards.
    Script {
        left: VecDeque<(ObjectName, Ask)>,
        list: bool,
    },
}

impl Purpose {
    /// Reads every object once. Reads the objects that change all the time at each of these snapshots, too. Then lists
    /// the pool.
    pub fn look(objects: Objects, snaps: impl Iterator<Item = u64>) -> Purpose {
        let changed = || objects.all().filter(|object| object.usage == Usage::Register && object.index < objects.busy);
        let at_snaps = snaps.flat_map(|snap| changed().map(move |object| (object, Ask::ReadAt(snap))));
        Purpose::Script { left: objects.all().map(|object| (object, Ask::Read)).chain(at_snaps).collect(), list: true }
    }
}

/// The request that an answer belongs to.
#[derive(Debug)]
enum Completion {
    Pool,
    Command(String),
    /// A command that may be refused.
    Attempt,
    Question(Question),
    Operation(usize),
    Page(ObjectId),
    Watching(Step),
}

/// One client from start to end.
pub struct ClientProcess {
    number: u64,
    pool: PoolId,
    port: Port,
    objecter: Objecter<Completion>,
    purpose: Purpose,
    window: Window,
    witness: Witness,
    /// Epoch of the client's map, and the newest epoch that anybody had when the client started.
    epoch: Epoch,
    least: Epoch,
    /// Unanswered updates by their index in the history, with their numbers in the window.
    unanswered: BTreeMap<usize, u64>,
    history: Vec<Operation>,
    /// Monitor commands that wait for the answer to the one before; `is_commanding`: that answer has not come yet.
    commands: VecDeque<(String, Completion)>,
    /// Commands that make the pool, one after the other.
    preparations: VecDeque<String>,
    is_commanding: bool,
    in_flight: usize,
    /// If true, the client asks for nothing more before it gets an answer.
    waits: bool,
    listed: Vec<Listed>,
    is_done: bool,
    /// An answer that no correct cluster gives.
    wrong: Option<String>,
}

/// Time after which a client that waits for others' answers checks again whether it may ask for more.
const TRY_AGAIN: Duration = Duration::from_millis(20);

impl ClientProcess {
    /// Starts client `number`. `pool` matters only once there is a pool.
    pub fn start(
        io: &mut SimIo,
        number: u64,
        mons: Vec<EntityAddrVec>,
        pool: PoolId,
        purpose: Purpose,
        (window, witness, answers): (Window, Witness, Answers),
    ) -> ClientProcess {
        let config = Config::client(AuthName::new(EntityType::CLIENT, "admin"), io.random());
        let near = if let Purpose::Poll { near, .. } = &purpose { *near } else { None };
        let settings = Settings {
            near: near.into_iter().collect(),
            mons,
            hostname: format!("client{number}"),
            op_timeout: None,
            mon_op_timeout: None,
            seed: io.random(),
            // Most clients do as Ceph's: if the primary stays, they leave it to the primary to answer.
            resend: if number.is_multiple_of(3) { Resend::NewInterval } else { Resend::NewPrimary },
        };
        let mut process = ClientProcess {
            number,
            pool,
            port: Port::new(Messenger::new(Config { bulk_min_bytes: None, ..config }), answers),
            objecter: Objecter::new(settings),
            purpose,
            window,
            epoch: Epoch(0),
            least: witness.epoch(),
            witness,
            unanswered: BTreeMap::new(),
            history: Vec::new(),
            commands: VecDeque::new(),
            preparations: VecDeque::new(),
            is_commanding: false,
            in_flight: 0,
            waits: false,
            listed: Vec::new(),
            is_done: false,
            wrong: None,
        };
        process.objecter.start(&mut process.port.messenger, io.now());
        if let Purpose::OperateCoded { k, m, overwrites } = process.purpose {
            let words = format!("\"k={k}\", \"m={m}\", \"plugin=isa\"");
            let profile = format!(
                "{{\"prefix\": \"osd erasure-code-profile set\", \"name\": \"coding\", \"profile\": [{words}]}}"
            );
            let pool = format!(
                "{{\"prefix\": \"osd pool create\", \"pool\": \"{POOL}\", \"pool_type\": \"erasure\", \
                 \"erasure_code_profile\": \"coding\"}}"
            );
            let flag = format!(
                "{{\"prefix\": \"osd pool set\", \"pool\": \"{POOL}\", \"var\": \"allow_ec_overwrites\", \
                 \"val\": \"{overwrites}\"}}"
            );
            process.preparations = [pool, flag].into();
            process.command(io, profile);
        }
        if let Purpose::Operate = process.purpose {
            let (op, name) = (PoolOpKind::CREATE, POOL.to_owned());
            let ask = MonRequest::PoolOp { op, pool: PoolId(0), snap: SnapId(0), name };
            process.objecter.ask(ask, Completion::Pool, &mut process.port.messenger, io.now());
        }
        process.while_watching(io, |watching, link| watching.start(number, link));
        io.set_timer(io.now(), ASK);
        process.settle(io);
        process
    }

    /// The client's record of watches, if it watches anything.
    pub fn witnessed(&self) -> Option<&Witnessed> {
        match &self.purpose {
            Purpose::Watch(watching) => Some(&watching.witnessed),
            _ => None,
        }
    }

    /// Tells the client that nothing is wrong any more. A client that watches notifies all others once more.
    pub fn be_calm(&mut self, io: &mut SimIo) {
        self.is_done = false;
        self.while_watching(io, |watching, _| watching.be_calm());
        io.set_timer(io.now(), ASK);
    }

    /// True if the client watches all objects that it wants to watch.
    pub fn is_steady(&self) -> bool {
        !matches!(&self.purpose, Purpose::Watch(watching) if !watching.is_steady())
    }

    fn while_watching<T>(
        &mut self,
        io: &SimIo,
        then: impl FnOnce(&mut Watching, &mut Link<'_, Completion>) -> T,
    ) -> Option<T> {
        let Purpose::Watch(watching) = &mut self.purpose else { return None };
        let mut link = Link {
            objecter: &mut self.objecter,
            messenger: &mut self.port.messenger,
            completion: Completion::Watching,
            pool: self.pool,
            now: io.now(),
            world_time: io.world_time(),
        };
        Some(then(watching, &mut link))
    }

    /// Proves another key from now on.
    pub fn set_key(&mut self, key: Key) {
        self.port.set_key(key);
    }

    /// True if all of the client's work has been answered.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// An answer that no correct cluster gives, in words.
    pub fn wrong_answer(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    pub fn history(&self) -> &[Operation] {
        &self.history
    }

    pub fn listed(&self) -> &[Listed] {
        &self.listed
    }

    /// Takes the client's updates out of the window: it has been killed and sends nothing again.
    pub fn leave_window(&self) {
        self.unanswered.values().for_each(|number| self.window.over(*number));
    }

    /// The operations that the client waits for, for messages to people.
    pub fn waits_for(&self) -> impl Iterator<Item = &Operation> {
        self.history.iter().filter(|operation| operation.answer.is_none())
    }

    /// Gives a monitor command, a JSON object, once earlier ones are answered. A command that fails counts as a wrong
    /// answer.
    pub fn command(&mut self, io: &mut SimIo, json: String) {
        self.commands.push_back((json.clone(), Completion::Command(json)));
        self.give_next_command(io);
    }

    /// Takes the pool's next snapshot, or removes one.
    pub fn snapshot(&mut self, io: &mut SimIo, pool: PoolId, removed: Option<u64>) {
        let op = if removed.is_some() { PoolOpKind::DELETE_UNMANAGED_SNAP } else { PoolOpKind::CREATE_UNMANAGED_SNAP };
        let ask = MonRequest::PoolOp { op, pool, snap: SnapId(removed.unwrap_or(0)), name: String::new() };
        tracing::info!("asks for {ask:?}");
        self.objecter.ask(ask, Completion::Attempt, &mut self.port.messenger, io.now());
        self.settle(io);
    }

    /// Gives a monitor command once earlier ones are answered. Any answer is right.
    pub fn try_command(&mut self, io: &mut SimIo, json: String) {
        self.commands.push_back((json, Completion::Attempt));
        self.give_next_command(io);
    }

    /// Gives the next command unless one is under way: monitors promise no order among commands on their way at the
    /// same time.
    fn give_next_command(&mut self, io: &mut SimIo) {
        if self.is_commanding {
            return;
        }
        let Some((json, completion)) = self.commands.pop_front() else { return };
        self.is_commanding = true;
        tracing::info!("command {json}");
        let ask = MonRequest::Command { json, input: bytes::Bytes::new() };
        self.objecter.ask(ask, completion, &mut self.port.messenger, io.now());
        self.settle(io);
    }

    /// Asks for as much as the client may ask now.
    fn ask_more(&mut self, io: &mut SimIo) {
        match &mut self.purpose {
            Purpose::Operate | Purpose::OperateCoded { .. } => {}
            Purpose::Work(workload) => {
                self.waits = self.in_flight >= IN_FLIGHT_MAX;
                if self.waits {
                    return;
                }
                if !self.window.is_open() {
                    io.set_timer(io.now() + TRY_AGAIN, ASK);
                    return;
                }
                match workload.draw() {
                    Some((object, ask)) => {
                        let members = workload.draw_members(&ask);
                        let pause = workload.pause();
                        io.set_timer(io.now() + pause, ASK);
                        self.operate(io, object, ask, members);
                    }
                    None => {
                        self.waits = true;
                        self.is_done = self.in_flight == 0;
                    }
                }
            }
            Purpose::Ask(commands) => match (self.in_flight, commands.draw(self.number)) {
                (0, Some((question, request))) => {
                    tracing::info!("asks {question:?}");
                    self.in_flight = 1;
                    let completion = Completion::Question(question);
                    self.objecter.ask(request, completion, &mut self.port.messenger, io.now());
                }
                (0, None) => self.is_done = true,
                _ => unreachable!("one question at a time"),
            },
            Purpose::Watch(_) => {
                let pause = self.while_watching(io, Watching::act).expect("it does");
                io.set_timer(io.now() + pause, ASK);
                self.is_done = matches!(&self.purpose, Purpose::Watch(watching) if watching.is_done());
            }
            Purpose::Poll { left: 0, .. } => {
                self.waits = true;
                self.is_done = self.in_flight == 0;
            }
            Purpose::Poll { objects, left, pause, near } => {
                let members = if near.is_some() { OpFlags::LOCALIZE_READS } else { OpFlags::default() };
                *left -= 1;
                io.set_timer(io.now() + *pause, ASK);
                let is_open = |object: &ObjectName| {
                    self.history.iter().any(|read| read.object == *object && read.answer.is_none())
                };
                let asked: Vec<ObjectName> = objects.iter().filter(|object| !is_open(object)).copied().collect();
                asked.into_iter().for_each(|object| self.operate(io, object, Ask::Read, members));
            }
            Purpose::Script { left, list } => match left.pop_front() {
                Some((object, ask)) => {
                    io.set_timer(io.now(), ASK);
                    self.operate(io, object, ask, OpFlags::default());
                }
                None if self.in_flight > 0 => self.waits = true,
                None if *list && !self.is_done => self.list_from(io, ObjectId::min()),
                None => self.is_done = true,
            },
        }
    }

    fn operate(&mut self, io: &mut SimIo, object: ObjectName, mut ask: Ask, members: OpFlags) {
        let index = self.history.len();
        let id: OpId = self.number * OPERATIONS_MAX + index as u64 + 1;
        let request = request::request(self.pool, id, object, &ask, members, io.wall_clock());
        if let (Ask::Change(changes), Purpose::Work(workload)) = (&mut ask, &self.purpose)
            && workload.is_large()
        {
            request::note_too_much(changes, id, &request);
        }
        let (client, balanced) = (self.number, members != OpFlags::default());
        let operation = Operation { id, client, object, ask, balanced, asked_at: io.world_time(), answer: None };
        tracing::info!("{operation}");
        if let (Ask::Change(_), Purpose::Work(_)) = (&operation.ask, &self.purpose) {
            self.unanswered.insert(index, self.window.ask());
        }
        self.history.push(operation);
        self.in_flight += 1;
        self.objecter.submit(request, Completion::Operation(index), &mut self.port.messenger, io.now());
    }

    fn list_from(&mut self, io: &SimIo, cursor: ObjectId) {
        self.in_flight += 1;
        let request = page_request(self.pool, &cursor);
        self.objecter.submit(request, Completion::Page(cursor), &mut self.port.messenger, io.now());
    }

    fn done(&mut self, io: &mut SimIo, done: objecter::Done<Completion>) {
        if let Completion::Command(_) | Completion::Attempt = done.completion {
            self.is_commanding = false;
            self.give_next_command(io);
        }
        if let (Completion::Command(json), Ok(objecter::Answer::Mon(MonAnswer::Command(reply)))) =
            (&done.completion, &done.result)
        {
            // An order to scrub needs connected OSDs. If it fails, the operator repeats it.
            let may_try_again = json.contains("scrub") && reply.result == types::Errno::EAGAIN.as_result();
            // OSDs come and go while the operator gives commands about them.
            let is_gone = reply.result == types::Errno::ENOENT.as_result() && reply.status.contains("does not exist");
            if reply.result < 0 && !may_try_again && !is_gone {
                self.wrong.get_or_insert(format!("command {json} fails: {} {}", reply.result, reply.status));
            }
            if matches!(self.purpose, Purpose::OperateCoded { .. }) && !self.is_done {
                match self.preparations.pop_front() {
                    Some(json) => self.command(io, json),
                    None => self.is_done = true,
                }
            }
            return;
        }
        if let Completion::Question(question) = done.completion {
            return self.question_done(io, question, done.result);
        }
        if let Completion::Watching(step) = done.completion {
            let (at, result) = (io.world_time(), done.result);
            let outcome = self.while_watching(io, |watching, _| watching.done(at, step, result));
            return self.is_wrong(outcome.unwrap_or(Ok(())));
        }
        let reply = done.result.map(|answer| match answer {
            objecter::Answer::Op(reply) => Some(reply),
            objecter::Answer::Mon(_)
            | objecter::Answer::Command(_)
            | objecter::Answer::Notified { .. }
            | objecter::Answer::MapReached => None,
        });
        let outcome = match (done.completion, reply.transpose()) {
            (Completion::Pool, None) => {
                self.is_done = true;
                Ok(())
            }
            (Completion::Pool, Some(reply)) => Err(format!("the pool cannot be made: {reply:?}")),
            (Completion::Operation(index), Some(reply)) => self.operation_done(io, index, reply),
            (Completion::Page(cursor), Some(reply)) => self.page_done(io, cursor, reply),
            (Completion::Command(json), Some(reply)) => Err(format!("command {json} is answered by {reply:?}")),
            (Completion::Attempt, _) => Ok(()),
            (Completion::Question(_) | Completion::Watching(_), Some(_)) => unreachable!("handled above"),
            (other, None) => Err(format!("{other:?} is answered by a monitor")),
        };
        self.is_wrong(outcome);
    }

    fn is_wrong(&mut self, outcome: Result<(), String>) {
        if let Err(why) = outcome {
            tracing::error!("{why}");
            self.wrong.get_or_insert(why);
        }
    }

    fn question_done(&mut self, io: &mut SimIo, question: Question, result: Result<objecter::Answer, client::Error>) {
        self.in_flight = 0;
        let Purpose::Ask(commands) = &mut self.purpose else { unreachable!("only they ask") };
        tracing::info!("{question:?} is answered by {result:?}");
        let pause = commands.pause();
        if let Err(why) = commands.answered(question, result, || format!("client.{}", self.number)) {
            self.wrong.get_or_insert(why);
        }
        io.set_timer(io.now() + pause, ASK);
    }

    fn operation_done(
        &mut self,
        io: &mut SimIo,
        index: usize,
        reply: Result<objecter::Reply, client::Error>,
    ) -> Result<(), String> {
        let at = io.world_time();
        self.in_flight -= 1;
        if let Some(number) = self.unanswered.remove(&index) {
            self.window.over(number);
        }
        if self.waits {
            io.set_timer(io.now(), ASK);
        }
        let operation = &mut self.history[index];
        let answer = request::answer(&operation.ask, reply).map_err(|why| format!("{operation}: {why}"))?;
        if let (Ask::Read, Answer::Seen(state), Purpose::Work(workload)) = (&operation.ask, &answer, &mut self.purpose)
        {
            workload.saw(operation.object, state);
        }
        operation.answer = Some((at, answer));
        tracing::info!("{operation}");
        Ok(())
    }

    fn page_done(
        &mut self,
        io: &SimIo,
        cursor: ObjectId,
        reply: Result<objecter::Reply, client::Error>,
    ) -> Result<(), String> {
        self.in_flight -= 1;
        let page = page(reply)?;
        self.listed.extend(page.objects.iter().map(|object| (object.nspace.to_vec(), object.name.to_vec())));
        if page.next.max {
            self.is_done = true;
        } else if page.next <= cursor {
            return Err(format!("a listing goes back from {cursor} to {}", page.next));
        } else {
            self.list_from(io, page.next);
        }
        Ok(())
    }

    /// Checks the map: it is never older than an earlier one, and the first one is as new as any was when the client
    /// started.
    fn look_at_map(&mut self) {
        let Some(epoch) = self.objecter.placement().map(|placement| placement.epoch()) else { return };
        if epoch != self.epoch {
            let (who, before) = (|| format!("client.{}", self.number), std::mem::replace(&mut self.epoch, epoch));
            match before {
                Epoch(0) => self.witness.told_newest(who, self.least, epoch),
                before => self.witness.has_map(who, before, epoch),
            }
        }
    }

    /// Hands outputs around until none is left.
    fn settle(&mut self, io: &mut SimIo) {
        loop {
            let now = io.now();
            let mut quiet = true;
            while let Some(output) = self.port.poll(io) {
                quiet = false;
                let link = &mut self.port.messenger;
                match output {
                    Output::Opened { session, .. } => self.objecter.opened(session, link),
                    Output::Message { session, envelope, .. } => {
                        if asks_to_hold_back(&envelope) {
                            self.witness.held_back();
                        }
                        self.objecter.message(session, envelope, link, now);
                    }
                    Output::Reset { session, reason } => {
                        tracing::debug!("{reason}");
                        self.objecter.reset(session, reason, link, now);
                    }
                    Output::Refused { reason, .. } | Output::Faulted { reason, .. } => tracing::debug!("{reason}"),
                    // The port has seen to the others.
                    _ => {}
                }
            }
            while let Some(done) = self.objecter.poll_done() {
                quiet = false;
                self.done(io, done);
            }
            while let Some(event) = self.objecter.poll_event() {
                quiet = false;
                let outcome = self.while_watching(io, |watching, link| watching.event(event, link));
                self.is_wrong(outcome.unwrap_or(Ok(())));
            }
            if quiet {
                break;
            }
        }
        self.look_at_map();
        let wakes = [self.objecter.next_wake(), self.port.messenger.next_wake()];
        if let Some(at) = wakes.into_iter().flatten().min() {
            io.set_timer(at.max(io.now() + Duration::from_millis(1)), WAKE);
        }
    }
}

/// True for a message that asks the client to hold back. The objecter reports malformed messages.
fn asks_to_hold_back(envelope: &Envelope) -> bool {
    envelope.header.kind == OsdBackoff::TYPE && OsdBackoff::open(envelope).is_ok_and(|it| it.op == BackoffOp::Block)
}

impl Handler<SimIo> for ClientProcess {
    fn received(&mut self, io: &mut SimIo, conn: reactor::ConnId, bytes: &[u8]) -> usize {
        self.port.received(io, conn, bytes)
    }

    fn event(&mut self, io: &mut SimIo, event: Event) {
        match event {
            Event::Connected { conn, result } => self.port.connected(io, conn, result),
            Event::Closed { conn, cause } => self.port.closed(io, conn, &cause),
            Event::Timer { token: ASK } => self.ask_more(io),
            Event::Timer { .. } => {
                self.port.messenger.tick(io.now());
                self.objecter.tick(&mut self.port.messenger, io.now());
            }
            _ => {}
        }
    }

    fn turn_end(&mut self, io: &mut SimIo) {
        self.settle(io);
    }
}
