//! Tests that other OSDs notice a silent one, and that nobody notices silence where there is none.

use sim::client_process::Purpose;
use sim::cluster::{Cluster, ClusterConfig};
use std::time::Duration;
use types::{Epoch, OsdId};

const OSDS: usize = 4;
const STEP: Duration = Duration::from_millis(50);
/// Time limit for noticing a silent OSD. Seven seconds are silence, and that is found within two and a half more.
const NOTICED_WITHIN: Duration = Duration::from_secs(12);

fn clean_cluster() -> Cluster {
    let config = ClusterConfig { osds: OSDS, down_out_interval: Duration::from_secs(3600), ..ClusterConfig::default() };
    let mut cluster = Cluster::new(5, config);
    cluster.start_mons();
    (0..OSDS).for_each(|osd| cluster.start_osd(osd));
    let up = |cluster: &Cluster| (0..OSDS).all(|osd| is_up(cluster, osd));
    wait(&mut cluster, "the start", Duration::from_secs(30), up);
    let operator = cluster.add_client(Purpose::Operate);
    let made = |cluster: &Cluster| cluster.client(operator).is_some_and(|client| client.is_done());
    wait(&mut cluster, "the pool", Duration::from_secs(30), made);
    cluster.find_pool();
    wait(&mut cluster, "becoming clean", Duration::from_secs(30), |cluster| cluster.is_clean().is_ok());
    cluster
}

fn is_up(cluster: &Cluster, osd: usize) -> bool {
    cluster.monitor().is_some_and(|monitor| monitor.state().osdmap().is_up(OsdId(osd as i32)))
}

fn epoch(cluster: &Cluster) -> Epoch {
    cluster.monitor().expect("the monitor runs").state().osdmap().epoch
}

/// Waits until `done` holds. Returns the time that it took.
fn wait(cluster: &mut Cluster, what: &str, at_most: Duration, done: impl Fn(&Cluster) -> bool) -> Duration {
    let begun = cluster.world.now();
    while !done(cluster) {
        cluster.world.run_for(STEP);
        cluster.check_processes().unwrap_or_else(|why| panic!("{what}: {why}"));
        let waited = cluster.world.now() - begun;
        assert!(waited <= at_most, "{what}: not after {waited:?}; clean: {:?}", cluster.is_clean());
    }
    cluster.world.now() - begun
}

#[test]
fn while_all_is_well_nobody_is_suspected() {
    let mut cluster = clean_cluster();
    let before = epoch(&cluster);
    cluster.world.run_for(Duration::from_secs(120));
    assert_eq!(epoch(&cluster), before);
}

/// The monitor hears from the OSD all the time, so only the others can know.
#[test]
fn an_osd_that_the_others_do_not_hear_is_marked_down_and_comes_back() {
    let mut cluster = clean_cluster();
    let nodes: Vec<_> = (0..OSDS).map(|osd| cluster.osd_node(osd)).collect();
    for other in 1..OSDS {
        cluster.world.block(nodes[0], nodes[other]);
    }
    let noticed = wait(&mut cluster, "noticing", NOTICED_WITHIN, |cluster| !is_up(cluster, 0));
    assert!(noticed >= Duration::from_secs(5), "after {noticed:?} already");
    assert!((1..OSDS).all(|osd| is_up(&cluster, osd)), "one OSD's word against the others is not enough");
    cluster.world.unblock_all();
    wait(&mut cluster, "coming back", Duration::from_secs(60), |cluster| cluster.is_clean().is_ok());
}

#[test]
fn an_osd_whose_drive_hangs_is_marked_down_though_its_loop_runs() {
    let mut cluster = clean_cluster();
    cluster.disk(2).slow_down(1_000_000);
    // The OSD must ask something of its drive.
    let writer = cluster.add_client(Purpose::Script { left: script(), list: false });
    let bound = NOTICED_WITHIN + Duration::from_secs(12);
    wait(&mut cluster, "noticing", bound, |cluster| !is_up(cluster, 2));
    assert!([0, 1, 3].into_iter().all(|osd| is_up(&cluster, osd)), "it blames nobody");
    cluster.world.run_for(Duration::from_secs(10));
    assert!(!is_up(&cluster, 2), "it does not ask to be marked up while it hangs");
    assert!(cluster.client(writer).is_some());
}

fn script() -> std::collections::VecDeque<(sim::history::ObjectName, sim::history::Ask)> {
    use sim::history::{Ask, ObjectName, Usage};
    use sim::model::Change;
    let write =
        |index| (ObjectName { usage: Usage::Register, index }, Ask::Change(vec![Change::WriteFull { words: 9 }]));
    (0..20).map(write).collect()
}
