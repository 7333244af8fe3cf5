//! A small cluster for tests: three hosts with an OSD each, two pools with some objects.

use super::{Outcome, Reply, Request, handle};
use crate::bootstrap::bootstrap;
use crate::identity::Party;
use crate::volatile::{IoRates, OsdStat, PgStat, Quorum};
use crate::{Batch, BootstrapSpec, MonState, Update, Volatile};
use bytes::Bytes;
use crush::{CrushMap, Location};
use osdmap::Incremental;
use serde_json::{Value, json};
use std::sync::Arc;
use types::{EVersion, EntityName, Epoch, Fsid, OsdId, PgId, PoolId, Utime};
use wire::EntityAddrVec;
use wire::nacre::mon::{OsdStats, PgReport, pg_state};
use wire::nacre::quorum::QuorumReport;

pub(super) const NOW: Utime = Utime { sec: 1_795_262_700, nsec: 0 };

pub(crate) struct TestCluster {
    pub state: MonState,
    pub volatile: Volatile,
    /// The one who gives the commands.
    pub who: Party,
}

impl TestCluster {
    /// Makes a cluster of a monitor and nothing else.
    pub fn empty() -> TestCluster {
        let addrs: EntityAddrVec = EntityAddrVec::msgr2("127.0.0.1:3300".parse().unwrap(), 0);
        let spec = BootstrapSpec {
            fsid: Fsid([0x42; 16]),
            monitors: vec![("a".to_owned(), addrs)],
            auth: Default::default(),
            config: Vec::new(),
            now: Utime { sec: NOW.sec - 600, nsec: 0 },
        };
        let mut state = MonState::default();
        state.apply(1, &bootstrap(&spec));
        let since = Utime { sec: NOW.sec - 450, nsec: 0 };
        let quorum = QuorumReport { epoch: 1, leader: "a".into(), members: ["a".to_owned()].into(), since };
        let volatile = Volatile {
            now: NOW,
            quorum: Quorum { report: quorum, ..Quorum::default() },
            name: "a".into(),
            ..Volatile::default()
        };
        TestCluster { state, volatile, who: Party::claimed(&Default::default()) }
    }

    /// Makes a cluster with three OSDs, up and in, the first two of class `ssd`.
    pub fn with_osds() -> TestCluster {
        let mut cluster = TestCluster::empty();
        let mut crush: CrushMap = cluster.state.osdmap().crush.as_ref().clone();
        let mut incremental = Incremental::after(cluster.state.osdmap(), Utime { sec: NOW.sec - 440, nsec: 0 });
        incremental.new_max_osd = Some(3);
        for id in 0..3 {
            let osd = OsdId(id);
            let location = Location::parse([format!("host=host{id}").as_str(), "root=default"]).unwrap();
            crush.insert_item(id, 0x1_0000, &osd.to_string(), &location).unwrap();
            let addr = |port: u16| EntityAddrVec::msgr2(format!("127.0.0.1:{port}").parse().unwrap(), 7);
            let port = 6800 + 10 * id as u16;
            incremental.mark_in(osd);
            incremental.new_uuid.insert(osd, Fsid([id as u8 + 1; 16]));
            incremental.mark_up(osd, addr(port), addr(port + 1), addr(port + 2), addr(port + 3));
        }
        incremental.set_crush(&crush);
        let update = cluster.state.osd_update(incremental).unwrap();
        cluster.apply(vec![update]);
        for id in 0..3 {
            let metadata = [("hostname", "vm"), ("ceph_version", "nacre version 0.1.0")];
            let metadata = metadata.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            cluster.apply(vec![Update::OsdMetadata { osd: OsdId(id), metadata: Some(metadata) }]);
        }
        cluster.ok(json!({"prefix": "osd crush set-device-class", "class": "ssd", "ids": ["0", "1"]}));
        for id in 0..3 {
            let stats = OsdStats {
                total_bytes: 2 << 30,
                free_bytes: 1 << 30,
                data_bytes: 1 << 20,
                stored_bytes: 1 << 20,
                omap_bytes: 0,
                metadata_bytes: 1 << 18,
                commit_latency_us: 1500,
                pg_count: 12,
                heartbeat_peers: 2,
                ..OsdStats::default()
            };
            let stat = OsdStat { stats, epoch: cluster.state.osdmap().epoch, at: NOW };
            cluster.volatile.osds.insert(OsdId(id), stat);
        }
        cluster
    }

    /// Makes a cluster with OSDs and the pools `rep3` and `rep2`, with 80 objects.
    pub fn with_pools() -> TestCluster {
        let mut cluster = TestCluster::with_osds();
        for command in [
            json!({"prefix": "osd pool create", "pool": "rep3", "pg_num": 8}),
            json!({"prefix": "osd pool create", "pool": "rep2", "pg_num": 4, "size": 2}),
            json!({"prefix": "osd pool application enable", "pool": "rep3", "app": "rados"}),
            json!({"prefix": "config set", "who": "osd", "name": "osd_max_backfills", "value": "3"}),
            json!({"prefix": "config set", "who": "global", "name": "mon_allow_pool_delete", "value": "true"}),
            json!({"prefix": "config-key set", "key": "a/b", "val": "hello"}),
            json!({"prefix": "auth get-or-create", "entity": "client.admin", "caps": ["mon", "allow *"]}),
        ] {
            cluster.ok(command);
        }
        let map: Arc<osdmap::OsdMap> = cluster.state.osdmaps.current().clone();
        for pg in map.pgs() {
            let place = map.pg_to_up_acting(pg).unwrap();
            let report = PgReport {
                pgid: pg,
                state: pg_state::ACTIVE | pg_state::CLEAN,
                epoch: map.epoch,
                sequence: 5,
                last_update: EVersion::new(map.epoch.0, 10),
                interval_since: map.epoch,
                created: Epoch(3),
                up: place.up,
                acting: place.acting,
                objects: 10,
                bytes: 1_000_000,
                log_entries: 10,
                write_ops: 10,
                write_kib: 980,
                ..PgReport::default()
            };
            let mut stat = PgStat { first_known: NOW, ..PgStat::default() };
            stat.update(report, NOW);
            cluster.volatile.pgs.insert(pg, stat);
        }
        cluster.volatile.pool_sizes = map.pools.iter().map(|(id, pool)| (*id, pool.size)).collect();
        let rates =
            IoRates { read_ops: 0.0, read_bytes: 0.0, write_ops: 5.0, write_bytes: 1_249_759.0, ..IoRates::default() };
        cluster.volatile.rates.insert(PoolId(1), rates);
        cluster
    }

    pub fn apply(&mut self, updates: Vec<Update>) {
        let batch = Batch { stamp: NOW, updates };
        self.state.apply(self.state.applied + 1, &batch);
    }

    /// Returns the outcome of a command, without carrying it out.
    pub fn outcome(&self, command: &str) -> Outcome {
        self.outcome_with(command, Bytes::new())
    }

    fn outcome_with(&self, command: &str, input: Bytes) -> Outcome {
        let mut random = [9; 32];
        random[..8].copy_from_slice(&self.state.applied.to_le_bytes());
        let who = self.who.clone();
        let request = Request {
            command,
            input,
            from: EntityName::client(4123),
            who: &who,
            tell: false,
            to_manager: false,
            sessions: &[],
            now: NOW,
            random,
        };
        handle(&self.state, &self.volatile, &request)
    }

    /// Carries out a command and returns its answer.
    pub fn run(&mut self, command: Value) -> Reply {
        self.run_with(command, Bytes::new())
    }

    /// Carries out a command with its input and returns its answer.
    pub fn run_with(&mut self, command: Value, input: impl Into<Bytes>) -> Reply {
        match self.outcome_with(&command.to_string(), input.into()) {
            Outcome::Reply(reply) => reply,
            Outcome::Propose { updates, reply } => {
                self.apply(updates);
                reply
            }
            Outcome::Order { orders, asked } => {
                let told: Vec<OsdId> = orders.into_iter().map(|(osd, _)| osd).collect();
                asked.reply(&told, &[])
            }
        }
    }

    /// Carries out a command that must succeed, as [`TestCluster::run`], and returns its output.
    pub fn ok(&mut self, command: Value) -> String {
        let reply = self.run(command.clone());
        assert_eq!(reply.code, 0, "{command}: {}", reply.status);
        String::from_utf8(reply.output.to_vec()).expect("text")
    }

    /// Returns a group's report, to be changed.
    pub fn report(&mut self, pg: PgId) -> &mut PgReport {
        &mut self.volatile.pgs.get_mut(&pg).expect("the group is there").report
    }
}
