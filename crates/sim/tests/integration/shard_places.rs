//! Tests of groups of erasure-coded pools that are wanted on some of their OSDs in another order: an OSD that stays
//! keeps its shard. `NACRE_SIM_PLACE_SEEDS=n`: `n` seeds instead of the usual number.

use crate::runs;
use reactor::sim::{Crash, Rng, WorldConfig};
use sim::check::{all_shards_agree, histories_are_linearizable};
use sim::check_seed;
use sim::client_process::Purpose;
use sim::cluster::{Cluster, ClusterConfig};
use sim::setup::{CODED_SEEDS, PLACE_SEEDS};
use sim::workload::{Objects, Workload};
use std::collections::BTreeSet;
use std::time::Duration;
use types::{OsdId, PgId};
use wire::nacre::mon::pg_state;

const STEP: Duration = Duration::from_millis(10);
const K: u8 = 2;

struct Bench {
    cluster: Cluster,
    operator: usize,
    worker: usize,
    groups: u32,
    m: u8,
}

impl Bench {
    /// Makes a cluster whose erasure-coded pool is clean, with a client that writes to it.
    fn new(seed: u64, osds: usize, groups: u32, m: u8, requests: u32) -> Bench {
        let config = ClusterConfig {
            osds,
            world: WorldConfig::default(),
            down_out_interval: Duration::from_secs(3600),
            groups,
            ..ClusterConfig::default()
        };
        let mut cluster = Cluster::new(seed, config);
        cluster.start_mons();
        (0..osds).for_each(|osd| cluster.start_osd(osd));
        let operator = cluster.add_client(Purpose::OperateCoded { k: K, m, overwrites: false });
        let mut bench = Bench { cluster, operator, worker: operator, groups, m };
        let up = |cluster: &Cluster| cluster.monitor().map_or(0, |mon| mon.state().osdmap().up_osds().count());
        bench.wait("the start", |cluster| up(cluster) == osds);
        bench.wait("the pool", is_done(operator));
        bench.cluster.find_pool();
        bench.command(r#"{"prefix": "balancer off"}"#.to_owned());
        let pause = Duration::ZERO..=Duration::from_millis(5);
        let workload = Workload::new(seed, requests, pause, Objects::new(None, 40)).coded(false);
        bench.worker = bench.cluster.add_client(Purpose::Work(workload));
        bench.wait("being clean", |cluster| cluster.is_clean().is_ok());
        bench
    }

    fn wait(&mut self, what: &str, done: impl Fn(&Cluster) -> bool) {
        let begin = self.cluster.world.now();
        while !done(&self.cluster) {
            let late = self.cluster.world.now() > begin + Duration::from_secs(60);
            assert!(!late, "{what} takes longer than a minute: {:?}", self.cluster.is_clean());
            self.step(what);
        }
    }

    fn step(&mut self, what: &str) {
        self.cluster.world.run_for(STEP);
        self.cluster.check_processes().unwrap_or_else(|why| panic!("{what}: {why}"));
    }

    fn command(&mut self, json: String) {
        self.cluster.command(self.operator, json);
        self.wait("the command", is_done(self.operator));
    }

    fn group(&mut self, seed: u32) -> PgId {
        PgId { pool: self.cluster.find_pool(), seed }
    }

    fn place(&mut self, pg: PgId, osds: &[OsdId]) {
        let ids: Vec<String> = osds.iter().map(|osd| osd.0.to_string()).collect();
        self.command(format!(r#"{{"prefix": "osd pg-upmap", "pgid": "{pg}", "id": [{}]}}"#, ids.join(", ")));
        // The order becomes that of the shards where the OSDs have them.
        self.wait("the new place", |cluster| sorted(&sets(cluster, pg).0) == sorted(osds));
    }

    /// Waits until the workload is done and shards that are no longer needed have gone. Checks that everything that
    /// clients saw has an order, and that all shards of a group agree.
    fn end(mut self) {
        self.wait("the workload", is_done(self.worker));
        histories_are_linearizable(&self.cluster.history()).unwrap_or_else(|why| panic!("{why:?}"));
        self.wait("the end", |cluster| cluster.is_clean().is_ok());
        // Every five seconds OSDs ask primaries which of their shards may go.
        (0..2000).for_each(|_| self.step("settling"));
        all_shards_agree(&mut self.cluster, self.groups, (K, self.m), &|_, _| false, Crash::Process)
            .unwrap_or_else(|e| panic!("{e:?}"));
    }
}

fn is_done(client: usize) -> impl Fn(&Cluster) -> bool {
    move |cluster| cluster.client(client).is_some_and(|client| client.is_done())
}

/// The group's up set and acting set.
fn sets(cluster: &Cluster, pg: PgId) -> (Vec<OsdId>, Vec<OsdId>) {
    let placed = cluster.monitor().expect("it runs").state().osdmap().pg_to_up_acting(pg).expect("it can be placed");
    (placed.up, placed.acting)
}

/// True if the group's primary has reported the group clean on these OSDs, and the group acts where it is wanted, place
/// by place.
fn is_clean_on(cluster: &Cluster, pg: PgId, up: &[OsdId]) -> bool {
    let pgs = &cluster.monitor().expect("it runs").volatile().pgs;
    let clean = pg_state::ACTIVE | pg_state::CLEAN;
    pgs.get(&pg).is_some_and(|known| {
        let report = &known.report;
        report.state & clean == clean && report.up == report.acting && sorted(&report.up) == sorted(up)
    })
}

fn states(cluster: &Cluster) -> Vec<u64> {
    cluster.monitor().expect("it runs").volatile().pgs.values().map(|pg| pg.report.state).collect()
}

fn sorted(osds: &[OsdId]) -> Vec<OsdId> {
    osds.iter().copied().collect::<BTreeSet<_>>().into_iter().collect()
}

/// Two of four shards are lost. The map wants the other two OSDs in the places of the lost ones, and new OSDs in their
/// own places. The new ones must get the shards that nobody has, or the group would never have the three that it needs
/// to serve.
fn replaced_in_another_order(seed: u64) {
    let mut bench = Bench::new(seed, 6, 1, 2, 300);
    let pg = bench.group(0);
    let (_, before) = sets(&bench.cluster, pg);
    let spare: Vec<OsdId> = (0..6).map(OsdId).filter(|osd| !before.contains(osd)).collect();
    for lost in &before[2..] {
        bench.cluster.kill_osd(lost.0 as usize, Crash::Process);
    }
    let lost = before[2..].to_vec();
    bench.wait("their absence", |cluster| {
        let map = cluster.monitor().expect("it runs").state().osdmap();
        lost.iter().all(|osd| !map.is_up(*osd))
    });
    let wanted = [spare[0], spare[1], before[0], before[1]];
    bench.place(pg, &wanted);
    bench.wait("healing", |cluster| is_clean_on(cluster, pg, &wanted));
    assert_eq!(sets(&bench.cluster, pg).1, [before[0], before[1], spare[0], spare[1]], "nobody exchanges shards");
    lost.iter().for_each(|osd| bench.cluster.start_osd(osd.0 as usize));
    bench.end();
}

#[test]
fn a_group_whose_osds_are_wanted_in_another_order_heals() {
    (0..3).for_each(replaced_in_another_order);
}

/// Groups are placed anywhere, again and again. No shard goes before another OSD has it, and an OSD that stays keeps
/// its shard.
fn placed_at_random(seed: u64, m: u8) {
    const OSDS: i32 = 6;
    let mut rng = Rng::new(seed);
    let mut bench = Bench::new(seed, OSDS as usize, 2, m, 1500);
    for round in 0..8 {
        let pg = bench.group(rng.below(2) as u32);
        let (_, before) = sets(&bench.cluster, pg);
        let mut left: Vec<OsdId> = (0..OSDS).map(OsdId).collect();
        let wanted: Vec<OsdId> =
            (0..before.len()).map(|_| left.swap_remove(rng.below(left.len() as u64) as usize)).collect();
        bench.place(pg, &wanted);
        let what = format!("round {round} of {seed}, from {before:?} to {wanted:?}");
        let until = bench.cluster.world.now() + Duration::from_secs(60);
        while !is_clean_on(&bench.cluster, pg, &wanted) {
            assert!(bench.cluster.world.now() < until, "{what}: {:?}", bench.cluster.is_clean());
            let lacking = pg_state::UNDERSIZED | pg_state::DEGRADED;
            assert!(states(&bench.cluster).iter().all(|state| state & lacking == 0), "{what}: a shard is gone");
            bench.step(&what);
        }
        let (_, after) = sets(&bench.cluster, pg);
        for (shard, osd) in before.iter().enumerate().filter(|(_, osd)| wanted.contains(osd)) {
            assert_eq!(after[shard], *osd, "{what}, which ends with {after:?}");
        }
    }
    bench.end();
}

#[test]
fn groups_that_are_placed_at_random_keep_their_shards() {
    (0..2).for_each(|seed| placed_at_random(seed, 1));
    (2..4).for_each(|seed| placed_at_random(seed, 2));
}

/// Number of seeds in which misfortunes happen, too.
const SEEDS: u64 = 66;

#[test]
fn pools_keep_their_promises_wherever_groups_are_placed() {
    let count = runs("NACRE_SIM_PLACE_SEEDS", SEEDS);
    for seed in 0..count {
        check_seed(PLACE_SEEDS + CODED_SEEDS + seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
}
