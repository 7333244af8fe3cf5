//! Handling of messages by the cluster in memory: one monitor, one OSD, and messages on their way, in virtual time.

use super::object::{Context, Stored};
use super::{Fault, Rule, Seen};
use crate::driver::Shared;
use bytes::Bytes;
use cls::Caller;
use osdmap::{Incremental, OsdMap, OsdState, PgPool};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;
use types::{EntityName, Epoch, Errno, Fsid, OsdId, PoolId, Utime};
use wire::messages::listing::{Watcher, Watchers};
use wire::messages::{self as msg, OpArgs, OpCode, OpFlags, PoolOpKind, op_data};
use wire::msgr::{Cause, OtherEnd, Output, Reason, SessionId, TransportLoss};
use wire::{Encode, EntityAddr, EntityAddrVec, Envelope, Message, Release, Rope, Target};

/// Pool, namespace and name of an object.
type Name = (PoolId, Bytes, Bytes);

const OSD_ADDR: &str = "10.1.0.0:6800";
/// Time after which watches of a client that is gone are dropped.
const WATCH_TIMEOUT: Duration = Duration::from_secs(30);

/// One client, as the cluster knows it.
pub struct Peer {
    pub name: EntityName,
    pub addr: EntityAddr,
    pub outputs: VecDeque<Output>,
    pub driver: Weak<Shared>,
    /// The peer of each open session: a monitor, or the OSD.
    sessions: BTreeMap<SessionId, EntityName>,
    last_session: u64,
    /// The client has died, or is cut off: nothing that it sends arrives any more.
    is_gone: bool,
    pub is_blocklisted: bool,
}

/// A message to the OSD.
#[derive(Clone)]
struct OsdRequest {
    client: u64,
    session: SessionId,
    tid: u64,
    op: msg::OsdOp,
    /// The rule has already chosen this operation's fault.
    is_judged: bool,
}

enum Delivery {
    /// A message reaches the monitor.
    Monitor {
        client: u64,
        session: SessionId,
        envelope: Envelope,
    },
    Operation(Box<OsdRequest>),
    Reply {
        client: u64,
        session: SessionId,
        envelope: Envelope,
    },
    /// A notification's timeout has passed.
    NotifyOver(u64),
    /// Watches of a client that is gone are dropped.
    WatchesEnd(u64),
}

struct Notified {
    notifier: (u64, u64),
    payload: Bytes,
    waits_for: BTreeSet<(u64, u64)>,
    replies: BTreeMap<(u64, u64), Bytes>,
}

pub struct World {
    random: u64,
    fsid: Fsid,
    map: OsdMap,
    pub clients: BTreeMap<u64, Peer>,
    objects: BTreeMap<Name, Stored>,
    watchers: BTreeMap<(Name, u64, u64), Watcher>,
    notified: BTreeMap<u64, Notified>,
    /// Replies to updates, by client and transaction id, for updates that are sent again.
    answered: BTreeMap<(u64, u64), msg::OsdOpReply>,
    last_snap: u64,
    pub removed_snaps: BTreeSet<u64>,
    pub rule: Option<Rule>,
    /// Held operations; true for those that later operations may pass.
    held: Vec<(OsdRequest, bool)>,
    queue: BTreeMap<(Instant, u64), Delivery>,
    numbers: u64,
    /// Arrival time of the latest message of a client about an object: no message overtakes another.
    arrivals: BTreeMap<(u64, Name), Instant>,
    /// Clients whose drivers have something to receive.
    woken: BTreeSet<u64>,
}

impl World {
    pub fn new(seed: u64, pools: &[&str], oldest_client: Release) -> World {
        let fsid = Fsid([7; 16]);
        let mut map = OsdMap::new(fsid);
        let mut crush = crush::CrushMap::new();
        crush.add_bucket("default", "root").expect("a root");
        let location = crush::Location::from([("root", "default"), ("host", "host0")]);
        crush.insert_item(0, crush::WEIGHT_ONE, "osd.0", &location).expect("an OSD");
        crush.create_replicated_rule("replicated_rule", "default", "host", None).expect("a rule");
        let mut inc = Incremental::new(fsid, Epoch(1), Utime::ZERO);
        inc.crush = crush.to_vec(Target::default()).into();
        inc.new_max_osd = Some(1);
        inc.new_weight.insert(OsdId(0), osdmap::WEIGHT_IN);
        let addr = EntityAddrVec::msgr2(OSD_ADDR.parse().expect("an address"), 1);
        for addrs in
            [&mut inc.new_up_client, &mut inc.new_up_cluster, &mut inc.new_hb_back_up, &mut inc.new_hb_front_up]
        {
            addrs.insert(OsdId(0), addr.clone());
        }
        for (number, name) in pools.iter().enumerate() {
            let id = PoolId(number as i64 + 1);
            inc.new_pools.insert(id, PgPool { last_change: Epoch(1), ..PgPool::replicated(1, 1, 0) });
            inc.new_pool_names.insert(id, (*name).to_owned());
        }
        inc.new_pool_max = Some(pools.len() as i64);
        inc.new_require_min_compat_client = Some(oldest_client);
        map.apply(&inc).expect("the first map");
        assert!(map.osd(OsdId(0)).is_some_and(|osd| osd.state.contains(OsdState::UP)));
        World {
            random: seed | 1,
            fsid,
            map,
            clients: BTreeMap::new(),
            objects: BTreeMap::new(),
            watchers: BTreeMap::new(),
            notified: BTreeMap::new(),
            answered: BTreeMap::new(),
            last_snap: 0,
            removed_snaps: BTreeSet::new(),
            rule: None,
            held: Vec::new(),
            queue: BTreeMap::new(),
            numbers: 0,
            arrivals: BTreeMap::new(),
            woken: BTreeSet::new(),
        }
    }

    /// A number below `n`: SplitMix64.
    pub fn below(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn latency(&mut self) -> Duration {
        Duration::from_millis(1 + self.below(20))
    }

    pub fn add_client(&mut self) -> u64 {
        let gid = 4100 + self.clients.len() as u64;
        let addr = EntityAddr::msgr2(([10, 9, 0, 1], 0).into(), gid as u32);
        let client = Peer {
            name: EntityName::client(gid),
            addr,
            outputs: VecDeque::new(),
            driver: Weak::new(),
            sessions: BTreeMap::new(),
            last_session: 0,
            is_gone: false,
            is_blocklisted: false,
        };
        self.clients.insert(gid, client);
        gid
    }

    fn client(&mut self, gid: u64) -> &mut Peer {
        self.clients.get_mut(&gid).expect("a client")
    }

    fn push(&mut self, at: Instant, event: Delivery) {
        self.numbers += 1;
        self.queue.insert((at, self.numbers), event);
    }

    pub fn next_at(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// The drivers that have something to receive.
    pub fn take_woken(&mut self) -> Vec<Arc<Shared>> {
        let woken = std::mem::take(&mut self.woken);
        woken.into_iter().filter_map(|gid| self.clients[&gid].driver.upgrade()).collect()
    }

    // Events that clients cause.

    pub fn connect(&mut self, gid: u64, peer: EntityName) -> SessionId {
        let client = self.client(gid);
        client.last_session += 1;
        let session = SessionId(client.last_session);
        // A newer session with the OSD ends the older one, and drops its messages that have not arrived.
        client.sessions.retain(|_, other| *other != peer);
        client.sessions.insert(session, peer);
        let described = wire::msgr::Peer {
            name: peer,
            auth_name: Default::default(),
            addrs: EntityAddrVec::empty(),
            features: 0,
            global_id: 0,
            rights: wire::msgr::Rights::Everything,
            lossy: true,
            global_seq: 0,
        };
        client.outputs.push_back(Output::Opened { session, peer: described });
        session
    }

    pub fn close(&mut self, gid: u64, session: SessionId) {
        self.client(gid).sessions.remove(&session);
    }

    pub fn send(&mut self, gid: u64, session: SessionId, envelope: Envelope) {
        let now = Instant::now();
        let at = now + self.latency();
        let client = self.client(gid);
        let Some(peer) = client.sessions.get(&session).copied().filter(|_| !client.is_gone) else { return };
        if envelope.header.kind != msg::OsdOp::TYPE {
            if peer != EntityName::osd(OsdId(0)) {
                self.push(at, Delivery::Monitor { client: gid, session, envelope });
            }
            return;
        }
        let op = msg::OsdOp::open(&envelope).expect("clients send what can be read");
        let arrival = self.arrivals.entry((gid, name_of(&op))).or_insert(now);
        *arrival = at.max(*arrival);
        let at = *arrival;
        let request = OsdRequest { client: gid, session, tid: envelope.header.tid, op, is_judged: false };
        self.push(at, Delivery::Operation(Box::new(request)));
    }

    // Events that tests cause.

    /// Kills the client: each operation that it has sent arrives or is lost, and it sends nothing more.
    pub fn kill(&mut self, gid: u64) {
        self.client(gid).is_gone = true;
        let lost = self.queue.iter().filter_map(|(key, event)| match event {
            Delivery::Operation(request) if request.client == gid => Some(*key),
            _ => None,
        });
        // A session is one stream: the messages lost are the latest.
        let lost: Vec<_> = lost.collect();
        let arrive = self.below(lost.len() as u64 + 1) as usize;
        for key in &lost[arrive..] {
            self.queue.remove(key);
        }
        self.held.retain(|(request, _)| request.client != gid);
        self.push(Instant::now() + WATCH_TIMEOUT, Delivery::WatchesEnd(gid));
    }

    /// Breaks the client's session with the OSD: operations that have not arrived are lost, and the client sends them
    /// again in a new session.
    pub fn reset(&mut self, gid: u64) {
        let client = self.client(gid);
        let osd = EntityName::osd(OsdId(0));
        let broken = client.sessions.iter().find(|(_, peer)| **peer == osd).map(|(session, _)| *session);
        if let Some(session) = broken {
            client.sessions.remove(&session);
            let peer = OtherEnd::Session { name: osd, addr: EntityAddr::BLANK };
            let cause = Cause::Transport(TransportLoss::from("broken by the test"));
            client.outputs.push_back(Output::Reset { session, reason: Reason { peer, cause } });
            self.woken.insert(gid);
        }
    }

    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Lets all held operations go on.
    pub fn release(&mut self) {
        for (request, _) in std::mem::take(&mut self.held) {
            self.push(Instant::now(), Delivery::Operation(Box::new(request)));
        }
    }

    /// The bytes of an object in the default namespace.
    pub fn object_bytes(&self, pool: PoolId, name: &str) -> Option<Vec<u8>> {
        let stored = self.objects.get(&(pool, Bytes::new(), name.to_owned().into()))?;
        stored.head.as_ref().map(|content| content.data.clone())
    }

    pub fn object_names(&self) -> Vec<String> {
        let present = self.objects.iter().filter(|(_, stored)| stored.head.is_some());
        present.map(|((.., name), _)| String::from_utf8_lossy(name).into_owned()).collect()
    }

    // Events of the cluster.

    /// Carries out the next event that is due. False if none is.
    pub fn step(&mut self) -> bool {
        let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= Instant::now()) else {
            return false;
        };
        match entry.remove() {
            Delivery::Monitor { client, session, envelope } => self.monitor(client, session, &envelope),
            Delivery::Operation(request) => self.arrived(*request),
            Delivery::Reply { client, session, envelope } => {
                let to = self.client(client);
                if !to.is_gone && to.sessions.contains_key(&session) {
                    to.outputs.push_back(Output::Message { session, envelope, began: Duration::ZERO });
                    self.woken.insert(client);
                }
            }
            Delivery::NotifyOver(id) => self.notify_over(id),
            Delivery::WatchesEnd(client) => self.watchers.retain(|(_, gid, _), _| *gid != client),
        }
        true
    }

    fn reply(&mut self, client: u64, session: SessionId, message: impl Message, tid: u64) {
        let at = Instant::now() + self.latency();
        let envelope = message.seal(tid, Target::default());
        self.push(at, Delivery::Reply { client, session, envelope });
    }

    fn map_message(&self) -> msg::OsdMap {
        let fulls = BTreeMap::from([(self.map.epoch, self.map.to_vec(Target::default()).into())]);
        msg::OsdMap { fsid: self.fsid, fulls, oldest: Epoch(1), newest: self.map.epoch, ..Default::default() }
    }

    /// Publishes a new map to all clients.
    fn publish(&mut self) {
        self.map.epoch = self.map.epoch.next();
        let mons: Vec<(u64, SessionId)> = self
            .clients
            .iter()
            .flat_map(|(gid, client)| client.sessions.iter().map(move |(session, peer)| (*gid, *session, *peer)))
            .filter(|(.., peer)| *peer != EntityName::osd(OsdId(0)))
            .map(|(gid, session, _)| (gid, session))
            .collect();
        for (gid, session) in mons {
            self.reply(gid, session, self.map_message(), 0);
        }
    }

    fn monitor(&mut self, client: u64, session: SessionId, envelope: &Envelope) {
        let tid = envelope.header.tid;
        match envelope.header.kind {
            msg::MonSubscribe::TYPE => self.reply(client, session, self.map_message(), 0),
            msg::MonGetVersion::TYPE => {
                let asked = msg::MonGetVersion::open(envelope).expect("a question");
                let version = self.map.epoch.0.into();
                self.reply(client, session, msg::MonGetVersionReply { handle: asked.handle, version, oldest: 1 }, tid);
            }
            msg::MonCommand::TYPE => {
                let command = msg::MonCommand::open(envelope).expect("a command");
                let addr = command.cmd[0].split(r#""addr": ""#).nth(1).and_then(|rest| rest.split('"').next());
                let addr = addr.unwrap_or_else(|| panic!("only blocklisting is known: {:?}", command.cmd));
                let shut_out: Vec<u64> =
                    self.clients.iter().filter(|(_, c)| c.addr.legacy_str() == addr).map(|(gid, _)| *gid).collect();
                assert_eq!(shut_out.len(), 1, "one client is at {addr}");
                self.client(shut_out[0]).is_blocklisted = true;
                self.watchers.retain(|(_, gid, _), _| *gid != shut_out[0]);
                self.publish();
                let (cmd, output) = (command.cmd, Rope::new());
                self.reply(
                    client,
                    session,
                    msg::MonCommandAck { version: 1, result: 0, status: "".into(), cmd, output },
                    tid,
                );
            }
            msg::PoolOp::TYPE => {
                let op = msg::PoolOp::open(envelope).expect("a request about a pool");
                let response = match op.op {
                    PoolOpKind::CREATE_UNMANAGED_SNAP => {
                        self.last_snap += 1;
                        Some(Bytes::copy_from_slice(&self.last_snap.to_le_bytes()))
                    }
                    PoolOpKind::DELETE_UNMANAGED_SNAP => {
                        self.removed_snaps.insert(op.snap.0);
                        None
                    }
                    other => panic!("{other:?} is not known"),
                };
                self.publish();
                let (fsid, epoch) = (self.fsid, self.map.epoch);
                self.reply(client, session, msg::PoolOpReply { version: 1, fsid, result: 0, epoch, response }, tid);
            }
            _ => {}
        }
    }

    fn arrived(&mut self, mut request: OsdRequest) {
        let OsdRequest { client: gid, session, tid, .. } = request;
        let name = name_of(&request.op);
        let client = self.client(gid);
        // An operation sent in an older session is lost with that session.
        if !client.is_gone && !client.sessions.contains_key(&session) {
            return;
        }
        let blocks = |(held, passed): &(OsdRequest, bool)| !passed && held.client == gid && name_of(&held.op) == name;
        if self.held.iter().any(blocks) {
            return self.held.push((request, false));
        }
        let mut fault = Fault::None;
        if !request.is_judged && !self.answered.contains_key(&(gid, tid)) {
            request.is_judged = true;
            if let Some(rule) = &mut self.rule {
                fault = rule(&Seen { client: gid, op: &request.op });
            }
        }
        match fault {
            Fault::LoseRequest => return,
            Fault::Hold => return self.held.push((request, false)),
            Fault::HoldBack => return self.held.push((request, true)),
            Fault::Late(time) => {
                let at = Instant::now() + time;
                self.arrivals.insert((gid, name), at);
                return self.push(at, Delivery::Operation(Box::new(request)));
            }
            Fault::None | Fault::Refuse(_) | Fault::LoseReply => {}
        }
        let refused = match fault {
            Fault::Refuse(errno) => Some(errno),
            _ if self.clients[&gid].is_blocklisted => Some(Errno::EBLOCKLISTED),
            _ => None,
        };
        let reply = match (refused, self.answered.get(&(gid, tid))) {
            (Some(errno), _) => msg::OsdOpReply::refusing(&request.op, errno, self.map.epoch),
            (None, Some(before)) => msg::OsdOpReply { retry_attempt: request.op.retry_attempt, ..before.clone() },
            (None, None) => {
                let reply = self.execute(&request, name);
                if is_update(&request.op) {
                    self.answered.insert((gid, tid), reply.clone());
                }
                reply
            }
        };
        if fault != Fault::LoseReply {
            self.reply(gid, session, reply, tid);
        }
    }

    fn execute(&mut self, request: &OsdRequest, name: Name) -> msg::OsdOpReply {
        let (gid, op, epoch) = (request.client, &request.op, self.map.epoch);
        let exists = self.objects.get(&name).is_some_and(|stored| stored.head.is_some());
        let refused = |errno| msg::OsdOpReply::refusing(op, errno, epoch);
        let done = msg::OsdOpReply::to(op, 0, epoch);
        let first = op.ops.first().expect("an operation has parts");
        match first.code {
            OpCode::NOTIFY | OpCode::LIST_WATCHERS | OpCode::WATCH if !exists => return refused(Errno::ENOENT),
            OpCode::WATCH => {
                let OpArgs::Watch(watch) = first.args else { return refused(Errno::EINVAL) };
                let key = (name, gid, watch.cookie);
                match watch.op {
                    msg::Watch::UNWATCH => drop(self.watchers.remove(&key)),
                    msg::Watch::WATCH => {
                        let Peer { name, addr, .. } = self.clients[&gid];
                        self.watchers.insert(key, Watcher { name, cookie: watch.cookie, timeout_s: 30, addr });
                    }
                    _ if !self.watchers.contains_key(&key) => return refused(Errno::ENOTCONN),
                    msg::Watch::RECONNECT => {
                        let waits = |notified: &Notified| notified.waits_for.contains(&(gid, watch.cookie));
                        let missed = self.notified.iter().filter(|(_, notified)| waits(notified)).map(|(id, _)| *id);
                        for id in missed.collect::<Vec<u64>>() {
                            self.tell_watcher(id, gid, watch.cookie);
                        }
                    }
                    _ => {}
                }
                return done;
            }
            OpCode::LIST_WATCHERS => {
                let here = self.watchers.iter().filter(|((other, ..), _)| *other == name);
                let watchers = Watchers(here.map(|(_, watcher)| watcher.clone()).collect());
                let mut reply = done;
                reply.ops[0].outdata = Rope::from(Bytes::from(watchers.to_vec(Target::default())));
                return reply;
            }
            OpCode::NOTIFY => {
                self.notify(request, &name);
                return done;
            }
            OpCode::NOTIFY_ACK => {
                let ack: op_data::NotifyAckInput = first.input().expect("an acknowledgement");
                if let Some(notified) = self.notified.get_mut(&ack.notify_id) {
                    notified.waits_for.remove(&(gid, ack.cookie));
                    notified.replies.insert((gid, ack.cookie), ack.reply.unwrap_or_default());
                    if notified.waits_for.is_empty() {
                        self.notify_over(ack.notify_id);
                    }
                }
                return done;
            }
            _ => {}
        }
        self.numbers += 1;
        let stored = self.objects.entry(name).or_default();
        let Peer { name, addr, .. } = self.clients[&gid];
        let now = Utime { sec: 1000 + self.numbers as u32, nsec: 0 };
        let (caller, removed_snaps) = (Caller { name, addr }, &self.removed_snaps);
        let context = Context { caller, now, removed_snaps, number: self.numbers };
        let executed = stored.execute(op, is_update(op), context);
        let mut reply = msg::OsdOpReply::to(op, executed.result, epoch);
        if executed.result == 0 {
            reply.ops = executed.parts;
        }
        reply.user_version = stored.version;
        reply
    }

    fn notify(&mut self, request: &OsdRequest, name: &Name) {
        let input: op_data::NotifyInput = request.op.ops[0].input().expect("a notification");
        let OpArgs::Notify { cookie: _ } = request.op.ops[0].args else { panic!("arguments of a notification") };
        self.numbers += 1;
        let id = self.numbers;
        let here = self.watchers.keys().filter(|(other, ..)| other == name);
        let waits_for: BTreeSet<(u64, u64)> = here.map(|(_, gid, cookie)| (*gid, *cookie)).collect();
        let is_over = waits_for.is_empty();
        let notifier = (request.client, request.tid);
        let (told, payload) = (waits_for.clone(), input.payload);
        self.notified.insert(id, Notified { notifier, payload, waits_for, replies: BTreeMap::new() });
        for (gid, cookie) in told {
            self.tell_watcher(id, gid, cookie);
        }
        let timeout = if is_over { Duration::from_millis(1) } else { Duration::from_secs(input.timeout_s.into()) };
        self.push(Instant::now() + timeout, Delivery::NotifyOver(id));
    }

    /// Sends a notification to a watcher. A watcher without a session is told when it reconnects its watch.
    fn tell_watcher(&mut self, id: u64, gid: u64, cookie: u64) {
        let osd = EntityName::osd(OsdId(0));
        let session = self.clients[&gid].sessions.iter().find(|(_, peer)| **peer == osd).map(|(s, _)| *s);
        let (Some(session), Some(notified)) = (session, self.notified.get(&id)) else { return };
        let message = msg::WatchNotify {
            op: msg::WatchNotifyOp::Notify,
            cookie,
            version: 0,
            notify_id: id,
            payload: notified.payload.clone(),
            result: 0,
            notifier_gid: notified.notifier.0,
            replies: Rope::new(),
        };
        self.reply(gid, session, message, 0);
    }

    fn notify_over(&mut self, id: u64) {
        let Some(Notified { notifier: (gid, tid), waits_for, replies, .. }) = self.notified.remove(&id) else { return };
        let osd = EntityName::osd(OsdId(0));
        let session = self.clients[&gid].sessions.iter().find(|(_, peer)| **peer == osd).map(|(s, _)| *s);
        let Some(session) = session else { return };
        let result = if waits_for.is_empty() { 0 } else { Errno::ETIMEDOUT.as_result() };
        let replies = msg::NotifyReplies { replies, timeouts: waits_for.into_iter().collect() };
        let message = msg::WatchNotify {
            op: msg::WatchNotifyOp::NotifyComplete,
            cookie: tid,
            version: 0,
            notify_id: id,
            payload: Bytes::new(),
            result,
            notifier_gid: gid,
            replies: Rope::from(Bytes::from(replies.to_vec(Target::default()))),
        };
        self.reply(gid, session, message, 0);
    }
}

fn name_of(op: &msg::OsdOp) -> Name {
    (op.pgid.pg.pool, op.locator.nspace.clone(), op.name.clone())
}

/// True if the operation may change the object.
pub fn is_update(op: &msg::OsdOp) -> bool {
    op.flags.has(OpFlags::WRITE)
}
