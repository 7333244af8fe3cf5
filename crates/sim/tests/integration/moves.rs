//! Tests that groups which move to other OSDs keep as many copies as before on their way.

use sim::client_process::Purpose;
use sim::cluster::{Cluster, ClusterConfig};
use sim::workload::{Objects, Workload};
use std::time::Duration;
use wire::nacre::mon::pg_state;

const OSDS: usize = 5;
const STEP: Duration = Duration::from_millis(10);

fn wait(cluster: &mut Cluster, what: &str, within: Duration, done: impl Fn(&Cluster) -> bool) {
    let begin = cluster.world.now();
    while !done(cluster) {
        assert!(cluster.world.now() < begin + within, "{what} takes longer than {within:?}: {:?}", states(cluster));
        cluster.world.run_for(STEP);
        cluster.check_processes().unwrap_or_else(|why| panic!("{what}: {why}"));
    }
}

fn states(cluster: &Cluster) -> Vec<u64> {
    cluster.monitor().expect("it runs").volatile().pgs.values().map(|pg| pg.report.state).collect()
}

/// Lets a moment pass. No group is recorded as served by fewer members than there are to be copies.
fn step(cluster: &mut Cluster) {
    cluster.world.run_for(STEP);
    let Some(mon) = cluster.monitor() else { return };
    for (pg, record) in &mon.state().pgs {
        let copies = mon.state().osdmap().pools.get(&pg.pool).map_or(0, |pool| usize::from(pool.size));
        assert!(record.members.len() >= copies, "{pg} serves with fewer than it may: {record:?}");
    }
}

fn moves_keep_copies(seed: u64, purpose: Purpose) {
    let config = ClusterConfig { osds: OSDS, down_out_interval: Duration::from_secs(3600), ..ClusterConfig::default() };
    let mut cluster = Cluster::new(seed, config);
    cluster.start_mons();
    (0..OSDS).for_each(|osd| cluster.start_osd(osd));
    let up = |cluster: &Cluster| cluster.monitor().map_or(0, |mon| mon.state().osdmap().up_osds().count());
    wait(&mut cluster, "the start", Duration::from_secs(20), |cluster| up(cluster) == OSDS);
    let is_coded = matches!(purpose, Purpose::OperateCoded { .. });
    let operator = cluster.add_client(purpose);
    let done = |client| move |cluster: &Cluster| cluster.client(client).is_some_and(|client| client.is_done());
    wait(&mut cluster, "the pool", Duration::from_secs(20), done(operator));
    cluster.find_pool();
    let objects = Objects::new(None, 40);
    let pause = Duration::ZERO..=Duration::from_millis(5);
    let workload = Workload::new(seed, 1000, pause, objects);
    let workload = if is_coded { workload.coded(false) } else { workload };
    let worker = cluster.add_client(Purpose::Work(workload));
    wait(&mut cluster, "being clean", Duration::from_secs(30), |cluster| cluster.is_clean().is_ok());
    cluster.command(operator, r#"{"prefix": "osd set", "key": "nobackfill"}"#.to_owned());
    cluster.command(operator, r#"{"prefix": "osd out", "ids": ["2"]}"#.to_owned());
    let has = |bits: u64| move |cluster: &Cluster| states(cluster).iter().any(|state| state & bits != 0);
    let begin = cluster.world.now();
    while !has(pg_state::REMAPPED)(&cluster) {
        assert!(cluster.world.now() < begin + Duration::from_secs(10), "it moves: {:?}", states(&cluster));
        step(&mut cluster);
    }
    let settled = cluster.world.now() + Duration::from_secs(5);
    while cluster.world.now() < settled {
        step(&mut cluster);
    }
    let lacking = pg_state::UNDERSIZED | pg_state::DEGRADED;
    assert!(!has(lacking)(&cluster), "the old copies are still kept: {:?}", states(&cluster));
    assert!(has(pg_state::BACKFILL_WAIT)(&cluster), "the flag holds it back");
    assert!(!has(pg_state::BACKFILLING)(&cluster));
    let until = cluster.world.now() + Duration::from_secs(60);
    cluster.command(operator, r#"{"prefix": "osd unset", "key": "nobackfill"}"#.to_owned());
    while cluster.is_clean().is_err() || has(pg_state::REMAPPED)(&cluster) {
        assert!(cluster.world.now() < until, "{:?}", states(&cluster));
        assert!(!has(lacking)(&cluster), "nor are they given up too early: {:?}", states(&cluster));
        step(&mut cluster);
    }
    wait(&mut cluster, "the workload", Duration::from_secs(60), done(worker));
}

#[test]
fn a_group_that_moves_has_as_many_copies_as_before() {
    (0..4).for_each(|seed| moves_keep_copies(seed, Purpose::Operate));
}

#[test]
fn an_erasure_coded_group_that_moves_has_as_many_shards_as_before() {
    (0..4).for_each(|seed| moves_keep_copies(seed, Purpose::OperateCoded { k: 2, m: 1, overwrites: false }));
}
