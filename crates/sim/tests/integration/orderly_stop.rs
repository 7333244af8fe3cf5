//! Tests of an OSD that is stopped in good order while clients write.

use reactor::sim::{Crash, Rng};
use sim::client_process::Purpose;
use sim::cluster::{Cluster, ClusterConfig};
use sim::workload::{Objects, Workload, fill};
use std::time::Duration;

const OSDS: usize = 3;
const WAL_BYTES: u64 = 8 << 20;
const STEP: Duration = Duration::from_millis(10);

fn wait(cluster: &mut Cluster, what: &str, within: Duration, done: impl Fn(&Cluster) -> bool) -> Duration {
    let begin = cluster.world.now();
    while !done(cluster) {
        assert!(cluster.world.now() < begin + within, "{what} takes longer than {within:?}");
        cluster.world.run_for(STEP);
        cluster.check_processes().unwrap_or_else(|why| panic!("{what}: {why}"));
    }
    cluster.world.now() - begin
}

#[test]
fn its_next_start_replays_nothing_and_clients_hardly_notice() {
    let mut replayed = 0;
    for seed in 0..6 {
        let config = ClusterConfig {
            osds: OSDS,
            down_out_interval: Duration::from_secs(3600),
            wal_bytes: WAL_BYTES,
            little_memory: seed % 2 == 1,
            ..ClusterConfig::default()
        };
        let mut cluster = Cluster::new(seed, config);
        let mut rng = Rng::new(seed);
        cluster.start_mons();
        (0..OSDS).for_each(|osd| cluster.start_osd(osd));
        let up = |cluster: &Cluster| cluster.monitor().map_or(0, |mon| mon.state().osdmap().up_osds().count());
        wait(&mut cluster, "the start", Duration::from_secs(20), |cluster| up(cluster) == OSDS);
        let operator = cluster.add_client(Purpose::Operate);
        let done = |client| move |cluster: &Cluster| cluster.client(client).is_some_and(|client| client.is_done());
        wait(&mut cluster, "the pool", Duration::from_secs(20), done(operator));
        cluster.find_pool();
        let objects = Objects::new(None, 60);
        let filler = cluster.add_client(Purpose::Script { left: fill(&mut rng, objects, 1 << 15), list: false });
        wait(&mut cluster, "filling", Duration::from_secs(60), done(filler));
        let pause = Duration::ZERO..=Duration::from_millis(5);
        let worker = cluster.add_client(Purpose::Work(Workload::new(seed, 2000, pause, objects)));
        cluster.world.run_for(Duration::from_millis(100 + rng.below(400)));

        cluster.stop_osd(1);
        let took = wait(&mut cluster, "the stop", Duration::from_secs(7), |cluster| !cluster.is_stopping(1));
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert!(!cluster.osd_runs(1) && up(&cluster) == OSDS - 1, "the monitor knows");
        let stored = cluster.stored(1).expect("the store is good");
        assert_eq!(stored.replayed_records(), 0);
        drop(stored);

        // An OSD that is killed has something to replay, unless it has just written a checkpoint.
        cluster.start_osd(1);
        wait(&mut cluster, "the workload", Duration::from_secs(60), done(worker));
        cluster.kill_osd(1, Crash::Process);
        let stored = cluster.stored(1).expect("the store is good");
        replayed += stored.replayed_records();
    }
    assert!(replayed > 0);
}
