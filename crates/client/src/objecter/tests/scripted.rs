//! A scripted cluster.

use crate::error::Error;
use crate::objecter::{Answer, MonRequest, Objecter, Request, Resend, Sessions, Settings};
use osdmap::{Incremental, OsdMap, OsdMapFlags, OsdState, PgPool};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{EntityName, EntityType, Epoch, Fsid, OsdId, PgId, PoolId};
use wire::messages as msg;
use wire::msgr::{Policy, SessionId};
use wire::{Encode, EntityAddrVec, Envelope, Message, Target};

pub const MON_ADDRS: [&str; 5] = ["10.0.0.1:3300", "10.0.0.2:3300", "10.0.0.3:3300", "10.0.0.4:3300", "10.0.0.5:3300"];

/// Sessions that only record the calls made on them.
#[derive(Default)]
pub struct Link {
    pub dials: Vec<(EntityName, EntityAddrVec, SessionId)>,
    pub sent: Vec<(SessionId, Envelope)>,
    pub closed: Vec<SessionId>,
}

impl Sessions for Link {
    fn connect(&mut self, peer: EntityName, addrs: &EntityAddrVec, _: Policy, _: Duration) -> SessionId {
        let session = SessionId(self.dials.len() as u64 + 1);
        self.dials.push((peer, addrs.clone(), session));
        session
    }

    fn send(&mut self, session: SessionId, envelope: Envelope) {
        self.sent.push((session, envelope));
    }

    fn close(&mut self, session: SessionId) {
        self.closed.push(session);
    }
}

impl Link {
    pub fn dialled_mons(&self) -> Vec<SessionId> {
        let mons = self.dials.iter().filter(|(peer, ..)| peer.kind == EntityType::MON);
        mons.map(|(.., session)| *session).collect()
    }

    /// The latest session with an OSD.
    pub fn session_of(&self, osd: OsdId) -> SessionId {
        let peer = EntityName::osd(osd);
        self.dials.iter().rev().find(|(p, ..)| *p == peer).map(|(.., session)| *session).expect("dialled")
    }

    pub fn osd_of(&self, session: SessionId) -> Option<OsdId> {
        let (peer, ..) = self.dials.iter().find(|(.., s)| *s == session)?;
        (peer.kind == EntityType::OSD).then_some(OsdId(peer.num as i32))
    }
}

/// The change from one map to the next.
pub struct MapChange<'a> {
    map: &'a OsdMap,
    pub inc: Incremental,
}

impl MapChange<'_> {
    pub fn restart(&mut self, osd: i32) {
        let addrs = |port| EntityAddrVec::msgr2(([10, 1, 0, osd as u8], port).into(), self.inc.epoch.0);
        let osd = OsdId(osd);
        self.inc.new_up_client.insert(osd, addrs(6800));
        self.inc.new_up_cluster.insert(osd, addrs(6801));
        self.inc.new_hb_back_up.insert(osd, addrs(6802));
        self.inc.new_hb_front_up.insert(osd, addrs(6803));
    }

    pub fn down(&mut self, osd: i32) {
        if self.map.is_up(OsdId(osd)) {
            self.inc.new_state.insert(OsdId(osd), OsdState::UP);
        }
    }

    pub fn flags(&mut self, flags: OsdMapFlags) {
        self.inc.new_flags = Some(OsdMapFlags::NEW_MAP | flags);
    }

    pub fn pool(&mut self, id: i64) {
        let pool = PgPool { last_change: self.inc.epoch, ..PgPool::replicated(2, 8, 0) };
        self.inc.new_pools.insert(PoolId(id), pool);
        self.inc.new_pool_names.insert(PoolId(id), format!("pool{id}"));
        self.inc.new_pool_max = Some(self.map.pool_max.max(id as i32).into());
    }

    pub fn remove_pool(&mut self, id: i64) {
        self.inc.old_pools.insert(PoolId(id));
    }

    /// Makes OSDs other than `not` serve the group.
    pub fn pg_temp(&mut self, pg: PgId, not: i32) {
        let others = (0..3).map(OsdId).filter(|osd| osd.0 != not && self.map.is_up(*osd));
        self.inc.new_pg_temp.insert(pg, others.collect());
    }

    /// Makes the OSDs of `acting` serve the group, led by `primary` or else by the first.
    pub fn acting(&mut self, pg: PgId, acting: &[OsdId], primary: Option<OsdId>) {
        self.inc.new_pg_temp.insert(pg, acting.iter().copied().collect());
        self.inc.new_primary_temp.insert(pg, primary);
    }

    /// Gives the group back to the OSDs that CRUSH chooses.
    pub fn no_pg_temp(&mut self, pg: PgId) {
        self.inc.new_pg_temp.insert(pg, Default::default());
    }
}

/// An objecter, its sessions, and the script's present map.
pub struct Scripted {
    pub objecter: Objecter<u64>,
    pub link: Link,
    pub now: Duration,
    pub fsid: Fsid,
    pub map: OsdMap,
    mon: Option<SessionId>,
}

impl Scripted {
    /// A script whose objecter hunts for one of `mons` monitors. The map has three OSDs on three hosts, and pool 1 with
    /// two replicas.
    pub fn new(mons: usize) -> Scripted {
        let fsid = Fsid([7; 16]);
        let mut map = OsdMap::new(fsid);
        let mut crush = crush::CrushMap::new();
        crush.add_bucket("default", "root").unwrap();
        for osd in 0..3 {
            let host = format!("host{osd}");
            let location = crush::Location::from([("root", "default"), ("host", host.as_str())]);
            crush.insert_item(osd, crush::WEIGHT_ONE, &format!("osd.{osd}"), &location).unwrap();
        }
        assert_eq!(crush.create_replicated_rule("replicated_rule", "default", "host", None), Ok(0));
        let mut change = MapChange { map: &map, inc: Incremental::new(fsid, Epoch(1), types::Utime::ZERO) };
        change.inc.crush = crush.to_vec(Target::default()).into();
        change.inc.new_max_osd = Some(3);
        for osd in 0..3 {
            change.inc.new_weight.insert(OsdId(osd), osdmap::WEIGHT_IN);
            change.restart(osd);
        }
        change.pool(1);
        let inc = change.inc;
        map.apply(&inc).unwrap();
        let settings = Settings {
            mons: MON_ADDRS[..mons].iter().map(|a| EntityAddrVec::msgr2(a.parse().unwrap(), 0)).collect(),
            hostname: "h".into(),
            op_timeout: None,
            mon_op_timeout: None,
            seed: 3,
            resend: Resend::default(),
            near: BTreeSet::new(),
        };
        let (mut objecter, mut link, now) = (Objecter::new(settings), Link::default(), Duration::from_secs(100));
        objecter.start(&mut link, now);
        Scripted { objecter, link, now, fsid, map, mon: None }
    }

    /// A script whose objecter has a monitor and the first map.
    pub fn connected() -> Scripted {
        let mut s = Scripted::new(1);
        let mon = s.link.dialled_mons()[0];
        s.open(mon);
        s.send_map(mon, s.full_map());
        assert_eq!(s.objecter.fsid(), Some(s.fsid));
        s
    }

    pub fn mon(&self) -> SessionId {
        self.mon.expect("open() of a monitor")
    }

    pub fn open(&mut self, session: SessionId) {
        self.objecter.opened(session, &mut self.link);
        if self.link.osd_of(session).is_none() {
            self.mon = Some(session);
        }
    }

    pub fn lose(&mut self, session: SessionId) {
        self.objecter.reset(session, "lost", &mut self.link, self.now);
    }

    pub fn advance(&mut self, by: Duration) {
        self.now += by;
        self.objecter.tick(&mut self.link, self.now);
    }

    pub fn advance_to_next_wake(&mut self) {
        let wake = self.objecter.next_wake().expect("something is due");
        self.advance(wake.saturating_sub(self.now));
    }

    pub fn submit(&mut self, request: Request, who: u64) {
        self.objecter.submit(request, who, &mut self.link, self.now);
    }

    pub fn ask(&mut self, request: MonRequest, who: u64) {
        self.objecter.ask(request, who, &mut self.link, self.now);
    }

    pub fn done(&mut self) -> (u64, Result<Answer, Error>) {
        let done = self.objecter.poll_done().expect("something is done");
        (done.completion, done.result)
    }

    pub fn raw(&mut self, session: SessionId, envelope: Envelope) {
        self.objecter.message(session, envelope, &mut self.link, self.now);
    }

    pub fn says(&mut self, session: SessionId, message: impl Message, tid: u64) {
        self.raw(session, message.seal(tid, Target::default()));
    }

    pub fn mon_says(&mut self, message: impl Message, tid: u64) {
        self.says(self.mon(), message, tid);
    }

    pub fn full(&self) -> msg::OsdMap {
        self.full_map()
    }

    fn full_map(&self) -> msg::OsdMap {
        let fulls = BTreeMap::from([(self.map.epoch, self.map.to_vec(Target::default()).into())]);
        msg::OsdMap { fsid: self.fsid, fulls, oldest: Epoch(1), newest: self.map.epoch, ..Default::default() }
    }

    pub fn send_map(&mut self, session: SessionId, message: msg::OsdMap) {
        self.says(session, message, 0);
    }

    /// Goes on to the next map; returns a message with it as an increment.
    pub fn next_increment(&mut self, change: impl FnOnce(&mut MapChange<'_>)) -> msg::OsdMap {
        let inc = Incremental::after(&self.map, types::Utime::ZERO);
        let mut next = MapChange { map: &self.map, inc };
        change(&mut next);
        let inc = next.inc;
        self.map.apply(&inc).expect("the script's change fits");
        let incrementals = BTreeMap::from([(inc.epoch, inc.to_vec(Target::default()).into())]);
        msg::OsdMap { fsid: self.fsid, incrementals, oldest: Epoch(1), newest: inc.epoch, ..Default::default() }
    }

    /// Goes on to the next map; returns a message with it in full.
    pub fn cluster_map(&mut self, change: impl FnOnce(&mut MapChange<'_>)) -> msg::OsdMap {
        if self.objecter.placement().is_some() || self.mon.is_none() {
            self.next_increment(change);
        }
        self.full_map()
    }

    /// Goes on to the next map and sends it to the objecter.
    pub fn push_map(&mut self, change: impl FnOnce(&mut MapChange<'_>)) {
        let message = self.next_increment(change);
        self.mon_says(message, 0);
    }

    /// Messages of one type sent on a session, with their transaction ids.
    pub fn sent<M: Message>(&self, session: SessionId) -> Vec<(u64, M)> {
        let sent = self.link.sent.iter().filter(|(s, e)| *s == session && e.header.kind == M::TYPE);
        sent.map(|(_, e)| (e.header.tid, M::open(e).unwrap())).collect()
    }

    /// All operations sent, in order: OSD, transaction id, operation.
    pub fn ops_sent(&self) -> Vec<(OsdId, u64, msg::OsdOp)> {
        let ops = self.link.sent.iter().filter(|(_, e)| e.header.kind == msg::OsdOp::TYPE);
        let to = |session: &SessionId| self.link.osd_of(*session).expect("operations go to OSDs");
        ops.map(|(session, e)| (to(session), e.header.tid, msg::OsdOp::open(e).unwrap())).collect()
    }

    pub fn last_op(&self) -> (OsdId, u64, msg::OsdOp) {
        self.ops_sent().pop().expect("an operation was sent")
    }

    pub fn only_op(&self) -> (OsdId, u64, msg::OsdOp) {
        let ops = self.ops_sent();
        assert_eq!(ops.len(), 1, "one operation sent: {ops:?}");
        self.last_op()
    }

    pub fn answer(&mut self, osd: OsdId, tid: u64, op: &msg::OsdOp, result: i32) {
        let mut reply = msg::OsdOpReply::to(op, result, self.map.epoch);
        reply.user_version = 5;
        self.says(self.link.session_of(osd), reply, tid);
    }
}
