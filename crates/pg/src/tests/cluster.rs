//! OSDs of one placement group in one thread. Messages and device requests lie in queues until the test lets them go.

mod stores;

use super::node::Node;
use crate::messages::healing::PgPush;
use crate::ops::Limits;
use crate::{ClientRights, MapError, Output, Shard};
use bytes::Bytes;
use osdmap::{Incremental, OsdMap, OsdXInfo, PgPool, PoolKind, TempSet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use store::{SimDevice, Store};
use types::{EntityName, Epoch, Fsid, ObjectId, OsdId, PgId, PoolId, SnapId, Utime};
use wire::basic::{Locator, NO_SHARD, SPgId, SnapContext};
use wire::codec::features;
use wire::messages::{self, BackoffOp, Op, OpFlags, OsdBackoff, OsdOp, OsdOpReply, WatchNotify};
use wire::msgr::SessionId;
use wire::nacre::kind;
use wire::nacre::mon::{
    NewerMapGet, PgActivate, PgActivated, PgActivation, PgHistory, PgHistoryGet, PgHistoryReply, PgTemp, doubt,
    osd_features,
};
use wire::{Decode, Encode, EntityAddr, EntityAddrVec, Envelope, Message, Target};

pub(super) const POOL: PoolId = PoolId(1);
pub(super) const PG: PgId = PgId::new(1, 0);
pub(super) const FSID: Fsid = Fsid([1; 16]);
const COPIES: u8 = 3;
/// Name of the profile of erasure-coded pools.
const PROFILE: &str = "profile";
/// The object of all operations, and its hash.
pub(super) const OBJECT: &[u8] = b"object";
pub(super) const HASH: u32 = 7;
/// Every operation of a test comes from this client, whichever session carries it.
const CLIENT: EntityName = EntityName::client(4100);

/// An answer that a client got.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub session: SessionId,
    pub tid: u64,
    pub reply: OsdOpReply,
}

/// OSDs, what is on its way between them, and a monitor that answers at once.
pub(super) struct Cluster {
    /// The newest map, which OSDs get when the test says so.
    pub map: OsdMap,
    first: Bytes,
    changes: BTreeMap<Epoch, Bytes>,
    nodes: Vec<Node>,
    in_transit: VecDeque<(OsdId, OsdId, Envelope)>,
    /// Pairs of OSDs; messages from the one to the other stay in transit.
    pub cut: BTreeSet<(OsdId, OsdId)>,
    /// OSDs whose device requests stay queued.
    pub stuck_disks: BTreeSet<OsdId>,
    /// OSDs that may stop by themselves, and the ones that have.
    pub may_stop: BTreeSet<OsdId>,
    pub stopped: BTreeSet<OsdId>,
    pub answers: Vec<Answer>,
    /// Messages to watchers and notifiers.
    pub told: Vec<(SessionId, WatchNotify)>,
    /// Messages that asked clients to hold back, or let them send again.
    backoffs: Vec<(SessionId, OsdBackoff)>,
    /// Maps that sessions were sent, by their newest epoch.
    pub shared: Vec<(SessionId, Epoch)>,
    /// Lines for the cluster log.
    pub cluster_log: Vec<(OsdId, String)>,
    /// Epochs from which OSDs have asked for maps.
    pub wanted: Vec<(OsdId, Epoch)>,
    started: BTreeMap<PgId, PgHistory>,
    /// Numbers of the pool's groups, by the epoch since which they hold.
    pg_nums: BTreeMap<Epoch, u32>,
    /// Epochs since which groups that were split have the objects that they have.
    ranges_since: BTreeMap<PgId, Epoch>,
    /// Objects that have been pushed, and their receivers.
    pub pushed: Vec<(OsdId, ObjectId)>,
    /// Snapshots that clients' operations tell, and the one that reads look at.
    pub snaps: SnapContext,
    pub snap: SnapId,
    /// Acting sets that primaries have asked for.
    pub temps: Vec<Vec<OsdId>>,
    now: Duration,
    sessions: u64,
    /// Seed that nodes are made of.
    seed: u64,
    limits: Limits,
    /// A primary has asked for a newer map, which nobody has been sent.
    newer_maps_wait: bool,
    /// Answer to the next question for the group's history, as it was in that epoch.
    pub old_history: Option<(Epoch, PgHistory)>,
    /// Set if input that OSDs hand on to shards other than their first stays queued until a step takes it, or all is
    /// let happen.
    pub queues_wait: bool,
}

fn addrs(osd: OsdId) -> EntityAddrVec {
    format!("v2:127.0.0.1:{}/1", 6800 + osd.0).parse().expect("an address")
}

impl Cluster {
    /// Makes a cluster of `osds` OSDs that are up in epoch 1, and a pool whose one group is on the first three.
    pub fn new(osds: i32) -> Cluster {
        Cluster::seeded(osds, 7)
    }

    /// Makes a cluster as [`Cluster::new`] does, in which other lookups wait.
    pub fn seeded(osds: i32, seed: u64) -> Cluster {
        Cluster::limited(osds, seed, Limits::default())
    }

    pub fn limited(osds: i32, seed: u64, limits: Limits) -> Cluster {
        Cluster::of_pool(osds, seed, limits, shards_of_tests(), PgPool::replicated(COPIES, 1, 0))
    }

    /// Makes a cluster in which every OSD has so many shards and the pool so many groups.
    pub fn of_shards(osds: i32, seed: u64, shards: usize, pg_num: u32) -> Cluster {
        Cluster::of_pool(osds, seed, Limits::default(), shards, PgPool::replicated(COPIES, pg_num, 0))
    }

    /// Makes a cluster in which it takes many turns to find out where the groups of a map are.
    pub fn slow_to_place(osds: i32, seed: u64, pg_num: u32) -> Cluster {
        let limits = Limits { placing_work: 2, ..Limits::default() };
        Cluster::of_pool(osds, seed, limits, shards_of_tests(), PgPool::replicated(COPIES, pg_num, 0))
    }

    /// Makes a cluster of three OSDs, and a pool with two data shards and a parity shard.
    pub fn coded(seed: u64) -> Cluster {
        Cluster::coded_limited(seed, Limits::default())
    }

    pub fn coded_limited(seed: u64, limits: Limits) -> Cluster {
        Cluster::coded_of(3, seed, limits)
    }

    /// Makes a cluster as [`Cluster::coded`] does, with more OSDs, which are not in the acting set.
    pub fn coded_of(osds: i32, seed: u64, limits: Limits) -> Cluster {
        let pool = PgPool {
            kind: PoolKind::ERASURE,
            min_size: 2,
            stripe_width: 8192,
            erasure_code_profile: PROFILE.to_owned(),
            ..PgPool::replicated(3, 1, 0)
        };
        Cluster::of_pool(osds, seed, limits, shards_of_tests(), pool)
    }

    /// Makes a cluster of four OSDs, and a pool with two data shards and two parity shards.
    pub fn coded_wide(seed: u64, limits: Limits) -> Cluster {
        let pool = PgPool {
            kind: PoolKind::ERASURE,
            min_size: 3,
            stripe_width: 8192,
            erasure_code_profile: PROFILE.to_owned(),
            ..PgPool::replicated(4, 1, 0)
        };
        Cluster::of_pool(4, seed, limits, shards_of_tests(), pool)
    }

    /// Makes a cluster of six OSDs, and a pool with four data shards and two parity shards.
    pub fn coded_large(seed: u64, limits: Limits) -> Cluster {
        let pool = PgPool {
            kind: PoolKind::ERASURE,
            min_size: 5,
            stripe_width: 16384,
            erasure_code_profile: PROFILE.to_owned(),
            ..PgPool::replicated(6, 1, 0)
        };
        Cluster::of_pool(6, seed, limits, shards_of_tests(), pool)
    }

    fn of_pool(osds: i32, seed: u64, limits: Limits, shards: usize, pool: PgPool) -> Cluster {
        let (pg_num, size, stripe_width) = (pool.pg_num, pool.size, pool.stripe_width);
        let mut map = OsdMap::new(FSID);
        let mut first = Incremental::after(&map, Utime::ZERO);
        first.new_max_osd = Some(osds);
        for osd in (0..osds).map(OsdId) {
            first.mark_up(osd, addrs(osd), addrs(osd), addrs(osd), addrs(osd));
            first.new_xinfo.insert(osd, OsdXInfo { features: osd_features::ALL, ..OsdXInfo::default() });
        }
        // There is no rule 0: groups are where `pg_temp` says and nowhere else.
        first.new_pools.insert(POOL, pool);
        let k = (stripe_width / 4096).max(2);
        let (k, m) = (k.to_string(), u32::from(size).saturating_sub(k).to_string());
        let profile = [("plugin", "jerasure"), ("technique", "reed_sol_van"), ("k", &*k), ("m", &m)];
        let profile = profile.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        first.new_erasure_code_profiles.insert(PROFILE.to_owned(), profile);
        first.new_pool_names.insert(POOL, "pool".to_owned());
        first.new_pool_max = Some(POOL.0);
        let all = (0..pg_num).map(|seed| PgId { seed, ..PG });
        first.new_pg_temp.extend(all.map(|pg| (pg, (0..i32::from(size)).map(OsdId).collect())));
        map.apply(&first).expect("the first change fits the empty map");
        let mut cluster = Cluster {
            first: map.to_vec(Target::default()).into(),
            map,
            changes: BTreeMap::new(),
            nodes: (0..osds).map(|osd| Node::new(OsdId(osd), seed, limits, shards)).collect(),
            in_transit: VecDeque::new(),
            cut: BTreeSet::new(),
            stuck_disks: BTreeSet::new(),
            may_stop: BTreeSet::new(),
            stopped: BTreeSet::new(),
            answers: Vec::new(),
            told: Vec::new(),
            backoffs: Vec::new(),
            shared: Vec::new(),
            cluster_log: Vec::new(),
            wanted: Vec::new(),
            started: BTreeMap::new(),
            pg_nums: [(Epoch(1), pg_num)].into(),
            ranges_since: BTreeMap::new(),
            pushed: Vec::new(),
            snaps: SnapContext::default(),
            snap: SnapId::HEAD,
            temps: Vec::new(),
            // The time has more than whole microseconds, as that of a real clock.
            now: Duration::from_nanos(1_000_000_137),
            sessions: 0,
            seed,
            limits,
            newer_maps_wait: false,
            old_history: None,
            queues_wait: false,
        };
        let first = cluster.message(Epoch(1), Epoch(1));
        for osd in (0..osds).map(OsdId) {
            cluster.maps(osd, &first).expect("the map is good");
        }
        cluster.settle();
        assert!(cluster.is_active(OsdId(0)), "the group serves");
        cluster
    }

    pub fn store(&mut self, osd: OsdId) -> &mut Store {
        self.shard(osd).store_mut()
    }

    pub fn device_of(&mut self, osd: OsdId) -> &mut SimDevice {
        &mut self.node(osd).home_mut().device
    }

    fn node(&mut self, osd: OsdId) -> &mut Node {
        &mut self.nodes[osd.0 as usize]
    }

    pub fn epoch_of(&self, osd: OsdId) -> Epoch {
        self.nodes[osd.0 as usize].front().map().epoch
    }

    /// Returns true if the group serves on its primary, as the newest map has it.
    pub fn is_active(&self, primary: OsdId) -> bool {
        self.nodes[primary.0 as usize].pg_is_active(PG)
    }

    // ---- maps ----

    /// Makes the next map, which nobody has yet.
    pub fn change(&mut self, change: impl FnOnce(&mut Incremental)) -> Epoch {
        let mut incremental = Incremental::after(&self.map, Utime::ZERO);
        change(&mut incremental);
        self.map.apply(&incremental).expect("the change fits");
        self.changes.insert(self.map.epoch, incremental.to_vec(Target::default()).into());
        self.map.epoch
    }

    pub fn move_group(&mut self, acting: &[i32]) -> Epoch {
        let acting = acting.iter().copied().map(OsdId).collect();
        self.change(|next| drop(next.new_pg_temp.insert(PG, acting)))
    }

    /// Gives the pool more groups, which are where those are that they come of.
    pub fn split(&mut self, pg_num: u32) -> Epoch {
        let pool = self.map.pools[&POOL].clone();
        let before = pool.pg_num;
        let changed: Vec<u32> = (0..before).filter(|seed| !osdmap::same_range(*seed, before, pg_num)).collect();
        let of_seed = |seed| PgId { seed, ..PG };
        let temps: Vec<(PgId, TempSet)> = (before..pg_num)
            .map(|child| {
                let parent = of_seed(osdmap::split_parent(child, before));
                (of_seed(child), self.map.pg_temp.get(&parent).expect("placed by hand").clone())
            })
            .collect();
        let epoch = self.change(|next| {
            next.new_pools.insert(POOL, PgPool { pg_num, pg_num_target: pg_num, pg_num_pending: pg_num, ..pool });
            next.new_pg_temp.extend(temps);
        });
        self.pg_nums.insert(epoch, pg_num);
        for seed in changed.into_iter().chain(before..pg_num) {
            self.ranges_since.insert(of_seed(seed), epoch);
        }
        for child in (before..pg_num).map(of_seed) {
            let parent = of_seed(osdmap::split_parent(child.seed, before));
            if let Some(history) = self.started.get(&parent).cloned() {
                self.started.insert(child, PgHistory { pgid: child, ..history });
            }
        }
        epoch
    }

    /// Has groups stop, so that the pool may have only `pending` of them next.
    pub fn prepare_merge(&mut self, pending: u32) -> Epoch {
        let pool = self.map.pools[&POOL].clone();
        self.change(|next| {
            let stopped = next.epoch;
            let changed = PgPool { pg_num_pending: pending, last_force_op_resend_prenautilus: stopped, ..pool };
            next.new_pools.insert(POOL, changed);
        })
    }

    /// Gives the pool the fewer groups that are pending, as monitors do it once those that are merged are recorded.
    pub fn merge(&mut self) -> Epoch {
        let pool = self.map.pools[&POOL].clone();
        let (before, pg_num, stopped) = (pool.pg_num, pool.pg_num_pending, pool.last_force_op_resend_prenautilus);
        let of_seed = |seed| PgId { seed, ..PG };
        let epoch = self.change(|next| {
            next.new_pools.insert(POOL, PgPool { pg_num, pg_num_target: pg_num, ..pool });
            next.new_pg_temp.extend((pg_num..before).map(|seed| (of_seed(seed), TempSet::default())));
        });
        self.pg_nums.insert(epoch, pg_num);
        for source in pg_num..before {
            let target = of_seed(osdmap::split_parent(source, pg_num));
            let (gone, known) = (self.started.remove(&of_seed(source)).expect("recorded"), &self.started[&target]);
            assert_eq!((gone.last_epoch_started, known.last_epoch_started), (stopped, stopped));
            assert_eq!((&gone.members, &gone.past, &known.past), (&known.members, &Vec::new(), &Vec::new()));
            self.ranges_since.insert(target, epoch);
        }
        epoch
    }

    /// Returns the group of an object in a map.
    fn group_at(&self, hash: u32, epoch: Epoch) -> PgId {
        let (_, pg_num) = self.pg_nums.range(..=epoch).next_back().expect("from the first map on");
        PgId { seed: osdmap::split_parent(hash, *pg_num), ..PG }
    }

    /// Returns true if all groups serve on this OSD.
    pub fn all_active(&self, primary: OsdId) -> bool {
        self.map.pools[&POOL].pgs(POOL).all(|pg| self.nodes[primary.0 as usize].pg_is_active(pg))
    }

    pub fn move_group_of(&mut self, pg: PgId, acting: &[i32]) -> Epoch {
        let acting = acting.iter().copied().map(OsdId).collect();
        self.change(|next| drop(next.new_pg_temp.insert(pg, acting)))
    }

    pub fn mark_down(&mut self, osd: i32) -> Epoch {
        self.change(|next| next.mark_down(OsdId(osd)))
    }

    pub fn mark_up(&mut self, osd: i32) -> Epoch {
        let (osd, at) = (OsdId(osd), addrs(OsdId(osd)));
        self.change(|next| next.mark_up(osd, at.clone(), at.clone(), at.clone(), at))
    }

    /// Takes some OSDs down, which all hear of. If one was the primary, others wait until it does not answer reads any
    /// more.
    pub fn down(&mut self, osds: &[OsdId]) {
        for osd in osds {
            self.mark_down(osd.0);
        }
        self.update_all();
        self.settle();
        self.pass(Duration::from_secs(2));
    }

    /// Gives up an OSD that is down, as the operator.
    pub fn give_up(&mut self, osd: OsdId) -> Epoch {
        let down_at = self.map.osd(osd).expect("it exists").info.down_at;
        self.change(|next| _ = next.new_lost.insert(osd, down_at))
    }

    /// Has an OSD come back, which all hear of.
    pub fn up(&mut self, osd: OsdId) {
        self.mark_up(osd.0);
        self.all_hear();
    }

    /// Lets all have the newest map, and time for what follows of it.
    fn all_hear(&mut self) {
        self.update_all();
        self.settle();
        self.pass(Duration::from_secs(4));
    }

    /// Returns the maps `from ..= until`: the first one whole, the others as changes.
    pub fn message(&self, from: Epoch, until: Epoch) -> messages::OsdMap {
        let changes = self.changes.iter().filter(|(epoch, _)| (from..=until).contains(epoch));
        let mut message = messages::OsdMap {
            fsid: FSID,
            oldest: Epoch(1),
            newest: self.map.epoch,
            incrementals: changes.map(|(epoch, bytes)| (*epoch, bytes.clone())).collect(),
            ..messages::OsdMap::default()
        };
        if from <= Epoch(1) {
            message.fulls.insert(Epoch(1), self.first.clone());
        }
        message
    }

    /// Returns the map of one epoch, whole, from somebody who keeps nothing older.
    pub fn whole(&self, epoch: Epoch) -> messages::OsdMap {
        let mut map = OsdMap::from_slice(&self.first).expect("our own");
        for change in self.changes.range(..=epoch).map(|(_, bytes)| bytes) {
            map.apply(&Incremental::from_slice(change).expect("our own")).expect("applied before");
        }
        let fulls = [(epoch, map.to_vec(Target::default()).into())].into();
        messages::OsdMap { fsid: FSID, oldest: epoch, newest: self.map.epoch, fulls, ..messages::OsdMap::default() }
    }

    pub fn maps(&mut self, osd: OsdId, message: &messages::OsdMap) -> Result<(), MapError> {
        let envelope = message.clone().seal(0, Target::default());
        let message = messages::OsdMap::open(&envelope).expect("our own");
        let now = self.now;
        self.node(osd).maps(message, now)?;
        self.turn(osd);
        Ok(())
    }

    /// Brings one OSD to the newest map, all changes in one message.
    pub fn update(&mut self, osd: OsdId) {
        let message = self.message(self.epoch_of(osd).next(), self.map.epoch);
        self.maps(osd, &message).expect("the maps are good");
    }

    pub fn update_all(&mut self) {
        (0..self.nodes.len() as i32).for_each(|osd| self.update(OsdId(osd)));
    }

    // ---- clients ----

    /// Opens a session of the client with an OSD.
    pub fn connect(&mut self, osd: OsdId) -> SessionId {
        self.connect_as(osd, CLIENT, EntityAddr::default())
    }

    /// Opens a session of another client.
    pub fn connect_as(&mut self, osd: OsdId, client: EntityName, addr: EntityAddr) -> SessionId {
        self.open_session(osd, client, addr, 0)
    }

    /// Opens a session of the client, which can be asked to hold back.
    pub fn connect_patient(&mut self, osd: OsdId) -> SessionId {
        self.open_session(osd, CLIENT, EntityAddr::default(), features::PACIFIC)
    }

    fn open_session(&mut self, osd: OsdId, client: EntityName, addr: EntityAddr, features: u64) -> SessionId {
        self.sessions += 1;
        let session = SessionId(self.sessions);
        self.node(osd).tell_all(Duration::ZERO, move |shard, _| {
            shard.client_opened(session, client, addr, features, Arc::new(ClientRights::Everything));
        });
        session
    }

    /// Takes the backoffs that a session was sent since they were taken last.
    pub fn backoffs_said(&mut self, session: SessionId) -> Vec<OsdBackoff> {
        self.backoffs.extract_if(.., |(to, _)| *to == session).map(|(_, message)| message).collect()
    }

    /// Acknowledges what the client is asked, behind all that it has sent.
    pub fn acknowledge(&mut self, osd: OsdId, session: SessionId, block: &OsdBackoff) {
        let ack = OsdBackoff { op: BackoffOp::AckBlock, ..block.clone() }.seal(0, Target::default());
        let now = self.now;
        self.node(osd).client_backoff(session, ack, now);
        self.turn(osd);
    }

    pub fn disconnect(&mut self, osd: OsdId, session: SessionId) {
        self.node(osd).tell_all(Duration::ZERO, move |shard, _| shard.client_closed(session));
    }

    /// Sends an operation of a client that has the map `epoch`; its first attempt is number 0.
    pub fn ask(&mut self, osd: OsdId, session: SessionId, tid: u64, epoch: Epoch, attempt: i32, op: Op) {
        self.ask_of(osd, session, tid, epoch, attempt, (HASH, OBJECT), op);
    }

    /// Sends one step on another object, given by its hash and name, as [`ask`](Cluster::ask) does.
    #[allow(clippy::too_many_arguments, reason = "they are what a request is")]
    pub fn ask_of(
        &mut self,
        osd: OsdId,
        session: SessionId,
        tid: u64,
        epoch: Epoch,
        attempt: i32,
        object: (u32, &[u8]),
        op: Op,
    ) {
        self.send_op(osd, session, tid, epoch, (attempt, OpFlags::ONDISK), object, vec![op]);
    }

    /// Sends one step on an object, given by its hash and name, with a flag, as a first attempt.
    #[allow(clippy::too_many_arguments, reason = "they are what a request is")]
    pub fn ask_flagged(
        &mut self,
        osd: OsdId,
        session: SessionId,
        tid: u64,
        epoch: Epoch,
        flag: OpFlags,
        object: (u32, &[u8]),
        op: Op,
    ) {
        self.send_op(osd, session, tid, epoch, (0, OpFlags::ONDISK | flag), object, vec![op]);
    }

    /// Sends several steps as one operation.
    pub fn ask_all(&mut self, osd: OsdId, session: SessionId, tid: u64, ops: Vec<Op>) {
        let epoch = self.map.epoch;
        self.send_op(osd, session, tid, epoch, (0, OpFlags::ONDISK), (HASH, OBJECT), ops);
    }

    /// Sends several steps as one operation, with flags, as an attempt that is not the first one.
    pub fn ask_again(
        &mut self,
        osd: OsdId,
        session: SessionId,
        tid: u64,
        (attempt, flags): (i32, OpFlags),
        ops: Vec<Op>,
    ) {
        let epoch = self.map.epoch;
        self.send_op(osd, session, tid, epoch, (attempt, OpFlags::ONDISK | flags), (HASH, OBJECT), ops);
    }

    #[allow(clippy::too_many_arguments, reason = "they are what a request is")]
    fn send_op(
        &mut self,
        osd: OsdId,
        session: SessionId,
        tid: u64,
        epoch: Epoch,
        (attempt, flags): (i32, OpFlags),
        (hash, name): (u32, &[u8]),
        ops: Vec<Op>,
    ) {
        let pgid = SPgId { pg: self.group_at(hash, epoch), shard: NO_SHARD };
        let name = Bytes::copy_from_slice(name);
        let mut message = OsdOp::new(pgid, hash, epoch, Locator::pool(POOL), name, ops);
        message.flags = flags;
        message.retry_attempt = attempt;
        message.snap = self.snap;
        (message.snap_seq, message.snaps) = (self.snaps.seq, self.snaps.snaps.clone());
        let envelope = message.seal(tid, Target::default());
        let now = self.now;
        self.node(osd).client_op(session, envelope, now);
        self.turn(osd);
    }

    pub fn append(&mut self, osd: OsdId, session: SessionId, tid: u64, epoch: Epoch) {
        self.ask(osd, session, tid, epoch, 0, appending(tid));
    }

    pub fn read(&mut self, osd: OsdId, session: SessionId, tid: u64, epoch: Epoch) {
        self.ask(osd, session, tid, epoch, 0, Op::read(0, 0));
    }

    /// Returns the OSD's shard that has the group.
    pub fn shard(&mut self, osd: OsdId) -> &mut Shard {
        &mut self.node(osd).home_mut().shard
    }

    pub fn client_bytes(&self, osd: OsdId) -> usize {
        self.nodes[osd.0 as usize].client_bytes()
    }

    /// Returns the answers to one request, oldest first: session, result and output.
    pub fn answers_to(&self, tid: u64) -> Vec<(SessionId, i32, String)> {
        let of = |answer: &&Answer| answer.tid == tid;
        let shown = |answer: &Answer| {
            let out = answer.reply.ops.first().map(|op| op.outdata.to_vec()).unwrap_or_default();
            (answer.session, answer.reply.result, String::from_utf8(out).expect("tests write text"))
        };
        self.answers.iter().filter(of).map(shown).collect()
    }

    /// Returns the content that a reader who comes now sees on the primary of the newest map.
    pub fn content(&mut self, primary: OsdId) -> String {
        const TID: u64 = 1_000_000;
        self.answers.retain(|answer| answer.tid != TID);
        let session = self.connect(primary);
        self.read(primary, session, TID, self.map.epoch);
        self.settle();
        match &self.answers_to(TID)[..] {
            [(_, _, content)] => content.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the content that a reader sees if the group moves, and the first of `acting` is the primary.
    pub fn content_by(&mut self, acting: &[OsdId]) -> String {
        self.move_group(&acting.iter().map(|osd| osd.0).collect::<Vec<_>>());
        self.all_hear();
        self.content(acting[0])
    }

    // ---- time ----

    /// Runs one turn of one OSD: its outputs go on their way, its device gets its requests.
    pub fn turn(&mut self, osd: OsdId) {
        if self.stopped.contains(&osd) {
            return;
        }
        let (now, queues_wait) = (self.now, self.queues_wait);
        let outputs = self.node(osd).turn(now, queues_wait);
        for output in outputs {
            match output {
                Output::ToClient { session, envelope } => self.client_hears(session, &envelope),
                Output::ToOsd { osd: to, envelope } => self.in_transit.push_back((osd, to, envelope)),
                Output::ToMonitor { envelope } => self.monitor_hears(osd, &envelope),
                Output::ToClusterLog { message, .. } => self.cluster_log.push((osd, message)),
                Output::NeedMaps { from } => self.wanted.push((osd, from)),
                // Outputs that come behind it are never seen.
                Output::Fatal(_) if self.may_stop.contains(&osd) => {
                    self.stopped.insert(osd);
                    break;
                }
                Output::Fatal(why) => panic!("{osd}: {why}"),
            }
        }
    }

    fn client_hears(&mut self, session: SessionId, envelope: &Envelope) {
        if let messages::OsdMap::TYPE = envelope.header.kind {
            let maps = messages::OsdMap::open(envelope).expect("well-formed");
            return self.shared.push((session, maps.last()));
        }
        if let WatchNotify::TYPE = envelope.header.kind {
            let message = WatchNotify::open(envelope).expect("well-formed");
            return self.told.push((session, message));
        }
        if let OsdBackoff::TYPE = envelope.header.kind {
            let message = OsdBackoff::open(envelope).expect("well-formed");
            return self.backoffs.push((session, message));
        }
        let reply = OsdOpReply::open(envelope).expect("clients get maps, notifications, backoffs and answers");
        self.answers.push(Answer { session, tid: envelope.header.tid, reply });
    }

    fn monitor_hears(&mut self, osd: OsdId, envelope: &Envelope) {
        let answer = match envelope.header.kind {
            kind::PG_HISTORY_GET => {
                let never = |pgid| PgHistory { pgid, created: Epoch(1), ..PgHistory::default() };
                let history = |pgid| self.started.get(&pgid).cloned().unwrap_or_else(|| never(pgid));
                let wanted = PgHistoryGet::open(envelope).expect("well-formed").pgs;
                let pgs = wanted.into_iter().map(history).collect();
                let (epoch, pgs) = match self.old_history.take() {
                    Some((epoch, old)) => (epoch, vec![old]),
                    None => (self.map.epoch, pgs),
                };
                PgHistoryReply { epoch, pgs }.seal(0, Target::default())
            }
            kind::PG_ACTIVATE => {
                let asked = PgActivate::open(envelope).expect("well-formed").pgs;
                let current = |pgid| self.map.pg_to_up_acting(pgid).expect("placed by hand").acting;
                let mut pgs = Vec::new();
                let mut is_current = |pg: &PgActivation| {
                    let since = self.ranges_since.get(&pg.pgid).copied().unwrap_or_default();
                    let started = self.started.get(&pg.pgid).map(|known| known.last_epoch_started).unwrap_or_default();
                    let basis = pg.basis.expect("OSDs tell by which record they went");
                    let is_on_it = [basis, pg.interval_since].contains(&started);
                    let is_current = pg.acting == current(pg.pgid) && pg.interval_since >= since;
                    if is_current && !is_on_it {
                        pgs.extend(self.started.get(&pg.pgid).cloned());
                    }
                    is_current && is_on_it
                };
                for pg in asked.into_iter().filter(|pg| is_current(pg)).collect::<Vec<_>>() {
                    let known = self.started.get(&pg.pgid).into_iter();
                    let served = known.flat_map(|known| {
                        let shards = known.past_shards.iter().chain(&known.member_shards).copied().map(Some);
                        known.past.iter().chain(&known.members).copied().zip(shards.chain(std::iter::repeat(None)))
                    });
                    let past: BTreeMap<OsdId, Option<u8>> =
                        served.filter(|(osd, _)| !pg.members.contains(osd) && !pg.recovered).collect();
                    let history = PgHistory {
                        pgid: pg.pgid,
                        last_epoch_started: pg.interval_since,
                        members: pg.members,
                        member_shards: pg.member_shards,
                        past: past.keys().copied().collect(),
                        past_shards: past.values().filter_map(|shard| *shard).collect(),
                        created: Epoch(1),
                        doubt: match self.started.get(&pg.pgid).map_or(doubt::NONE, |known| known.doubt) {
                            doubt::NONE => doubt::NONE,
                            doubt::BEHIND if !pg.recovered => doubt::BEHIND,
                            _ => doubt::UNCONFIRMED,
                        },
                    };
                    self.started.insert(pg.pgid, history.clone());
                    pgs.push(history);
                }
                PgActivated { pgs }.seal(0, Target::default())
            }
            kind::NEWER_MAP_GET => {
                let NewerMapGet { after } = NewerMapGet::open(envelope).expect("well-formed");
                if self.map.epoch <= after {
                    self.change(|_| ());
                }
                self.newer_maps_wait = true;
                return;
            }
            kind::PG_TEMP => {
                let asked = PgTemp::open(envelope).expect("well-formed").pgs;
                return self.temps.extend(asked.into_iter().map(|(_, osds)| osds));
            }
            other => panic!("{osd} tells the monitor {other:#x}"),
        };
        let now = self.now;
        self.node(osd).tell_all(now, move |shard, _| shard.monitor_message(&answer).expect("well-formed"));
        self.turn(osd);
    }

    /// Hands over the oldest message that may pass. Returns whether there was one.
    fn deliver(&mut self) -> bool {
        let free = |(from, to, _): &(OsdId, OsdId, Envelope)| !self.cut.contains(&(*from, *to));
        let Some(index) = self.in_transit.iter().position(free) else { return false };
        let (from, to, envelope) = self.in_transit.remove(index).expect("just seen");
        if envelope.header.kind == PgPush::TYPE {
            let push = PgPush::open(&envelope).expect("well-formed");
            if push.first {
                self.pushed.push((to, push.object));
            }
        }
        let now = self.now;
        self.node(to).osd_message(from, &envelope, now);
        self.turn(to);
        true
    }

    /// Does the oldest device request. Returns whether there was one.
    fn device(&mut self, osd: OsdId) -> bool {
        let now = self.now;
        let any = !self.stuck_disks.contains(&osd) && self.node(osd).device_request(now);
        if any {
            self.turn(osd);
        }
        any
    }

    /// Has a shard take the oldest that waits in its queue. Returns whether there was something.
    fn take_in(&mut self, osd: OsdId) -> bool {
        let now = self.now;
        let any = !self.stopped.contains(&osd) && self.node(osd).take_in(now);
        if any {
            self.turn(osd);
        }
        any
    }

    /// Lets a store go on with what waits for nothing. Returns whether there was such work.
    fn store_work(&mut self, osd: OsdId) -> bool {
        let now = self.now;
        let wanted = !self.stopped.contains(&osd) && self.node(osd).wants_turn(now);
        if wanted {
            self.turn(osd);
        }
        wanted
    }

    /// Lets one thing happen that may, as `pick` says.
    pub fn step(&mut self, pick: u64) {
        let osds = self.nodes.len() as u64;
        self.now += Duration::from_micros(50);
        match pick % (osds + 1) {
            0 => drop(self.deliver()),
            osd => {
                let osd = OsdId(osd as i32 - 1);
                let takes = self.queues_wait && pick >> 20 & 1 == 1 && self.take_in(osd);
                let _ = takes || self.device(osd) || self.store_work(osd);
            }
        }
    }

    /// Lets maps come into force that have come. Returns whether there are any.
    fn maps_go_on(&mut self, osd: OsdId) -> bool {
        let any = !self.stopped.contains(&osd) && self.node(osd).follows_maps();
        if any {
            self.turn(osd);
        }
        any
    }

    /// Lets the network take an OSD's answers. Returns whether operations wait for that.
    fn answers_leave(&mut self, osd: OsdId) -> bool {
        let any = !self.stopped.contains(&osd) && self.node(osd).waits_for_answers();
        if any {
            self.turn(osd);
        }
        any
    }

    /// Lets everything happen that may.
    pub fn settle(&mut self) {
        loop {
            self.settle_now();
            if !self.skip_to_wake() {
                break;
            }
        }
    }

    /// Lets everything happen that may, as far as it takes no time.
    pub fn settle_now(&mut self) {
        loop {
            let mut any =
                self.deliver() | std::mem::take(&mut self.newer_maps_wait).then(|| self.update_all()).is_some();
            for osd in 0..self.nodes.len() as i32 {
                let osd = OsdId(osd);
                any |= self.take_in(osd) || self.device(osd) || self.store_work(osd) || self.maps_go_on(osd);
                any |= self.answers_leave(osd);
            }
            if !any {
                break;
            }
        }
    }

    /// Comes to the time at which a group has something more to send, if that is about now. Returns whether it is.
    fn skip_to_wake(&mut self) -> bool {
        let soon = self.now + Duration::from_millis(200);
        let running = (0..self.nodes.len() as i32).map(OsdId).filter(|osd| !self.stopped.contains(osd));
        let wakes: Vec<Duration> = running.filter_map(|osd| self.nodes[osd.0 as usize].group_wake()).collect();
        let wake = wakes.into_iter().filter(|at| *at <= soon).min();
        self.now = self.now.max(wake.unwrap_or_default());
        wake.is_some()
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    /// Lets time pass in which nothing happens.
    pub fn later(&mut self, time: Duration) {
        self.now += time;
    }

    /// Has an OSD look at the time; what it does about it is on its way.
    pub fn tick(&mut self, osd: OsdId) {
        let now = self.now;
        self.node(osd).tick(now);
        self.turn(osd);
    }

    /// Lets time pass, after which messages that stay unanswered are sent again.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        (0..self.nodes.len() as i32).for_each(|osd| self.tick(OsdId(osd)));
        self.settle();
    }

    /// Lets members recover, for so many rounds.
    pub fn heal(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.settle();
            self.pass(Duration::from_secs(4));
        }
    }

    /// Cuts an OSD's power: what its disk has not flushed is gone. It starts again, and has no map.
    pub fn lose_power(&mut self, osd: OsdId) {
        let (seed, limits) = (self.seed, self.limits);
        self.node(osd).lose_power(osd, seed, limits);
        self.in_transit.retain(|(from, to, _)| *from != osd && *to != osd);
    }

    /// Ends the session between two OSDs, with all that is on its way in it. Both learn it, the first one first.
    pub fn end_session(&mut self, first: OsdId, second: OsdId) {
        self.lose(first, second);
        self.lose(second, first);
        for (osd, other) in [(first, second), (second, first)] {
            let now = self.now;
            self.node(osd).tell_all(now, move |shard, _| shard.session_ended(other));
            self.turn(osd);
        }
    }

    /// Returns the kinds of messages in transit from one OSD to another.
    pub fn in_transit_kinds(&self, from: OsdId, to: OsdId) -> Vec<u16> {
        let sent = self.in_transit.iter().filter(|(a, b, _)| (*a, *b) == (from, to));
        sent.map(|(.., envelope)| envelope.header.kind).collect()
    }

    /// Returns the messages of a kind in transit from one OSD to another.
    pub fn in_transit_of(&self, from: OsdId, to: OsdId, kind: u16) -> Vec<Envelope> {
        let sent = self.in_transit.iter().filter(|(a, b, sent)| (*a, *b, sent.header.kind) == (from, to, kind));
        sent.map(|(.., envelope)| envelope.clone()).collect()
    }

    /// Has the monitors know no more of the group than that, and nothing for certain.
    pub fn fall_back(&mut self, known: PgHistory) {
        self.started.insert(PG, PgHistory { doubt: doubt::BEHIND, ..known });
    }

    /// Confirms, as the operator, what the monitors know.
    pub fn confirm(&mut self) {
        self.started.values_mut().for_each(|known| known.doubt = doubt::NONE);
    }

    /// Records another interval of the group, late.
    pub fn record(&mut self, history: PgHistory) {
        self.started.insert(PG, history);
    }

    /// Returns the monitors' record of the group.
    pub fn history(&self) -> PgHistory {
        self.started[&PG].clone()
    }

    /// Loses messages of a kind in transit between two OSDs; others go on.
    pub fn lose_of(&mut self, from: OsdId, to: OsdId, kind: u16) {
        self.in_transit.retain(|(a, b, sent)| (*a, *b, sent.header.kind) != (from, to, kind));
    }

    /// Loses what is in transit between two OSDs.
    pub fn lose(&mut self, from: OsdId, to: OsdId) {
        self.in_transit.retain(|(a, b, _)| (*a, *b) != (from, to));
    }
}

/// Returns how many shards OSDs of tests have that do not say it: any test can be run with several.
fn shards_of_tests() -> usize {
    std::env::var("NACRE_TEST_SHARDS").map_or(1, |shards| shards.parse().expect("a number of shards"))
}

/// Appends the request's number and a comma: what was carried out, how often and in which order can be read.
pub(super) fn appending(tid: u64) -> Op {
    Op::append(Bytes::from(format!("{tid},")))
}
