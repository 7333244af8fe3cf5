//! Tests of an OSD that hears nothing of the monitor for many epochs while everybody else does.

use sim::client_process::Purpose;
use sim::cluster::{Cluster, ClusterConfig};
use sim::history::{Answer, Ask, ObjectName, Usage};
use sim::model::Change;
use std::time::Duration;
use types::Epoch;

const OSDS: usize = 3;
const OBJECTS: u8 = 20;
const STEP: Duration = Duration::from_millis(50);

fn wait(cluster: &mut Cluster, what: &str, mut done: impl FnMut(&Cluster) -> Result<(), String>) {
    for _ in 0..2000 {
        let Err(why) = done(cluster) else { return };
        cluster.world.run_for(STEP);
        cluster.check_processes().unwrap_or_else(|why| panic!("{what}: {why}"));
        if cluster.world.now() > Duration::from_secs(600) {
            panic!("{what}: {why}");
        }
    }
    panic!("{what}: {:?}", done(cluster));
}

fn epoch(cluster: &Cluster) -> Epoch {
    cluster.monitor().expect("the monitor runs").state().osdmap().epoch
}

/// The OSD that is cut off becomes the primary of everything, and clients send to it. Once it hears of that, it must
/// answer them, even if the monitors no longer have the maps that it missed.
fn check(missed: u32, kept: bool) {
    let config = ClusterConfig { osds: OSDS, down_out_interval: Duration::from_secs(3600), ..ClusterConfig::default() };
    let mut cluster = Cluster::new(11, config);
    cluster.start_mons();
    (0..OSDS).for_each(|osd| cluster.start_osd(osd));
    wait(&mut cluster, "the start", |cluster| {
        let up = cluster.monitor().map_or(0, |monitor| monitor.state().osdmap().up_osds().count());
        if up == OSDS { Ok(()) } else { Err(format!("{up} OSDs are up")) }
    });
    let operator = cluster.add_client(Purpose::Operate);
    let is_done = |cluster: &Cluster, client| match cluster.client(client).is_some_and(|client| client.is_done()) {
        true => Ok(()),
        false => Err("not answered".to_owned()),
    };
    wait(&mut cluster, "the pool", |cluster| is_done(cluster, operator));
    cluster.find_pool();
    wait(&mut cluster, "becoming clean", Cluster::is_clean);

    let command = |cluster: &mut Cluster, words: &str| {
        let before = epoch(cluster);
        cluster.command(operator, format!("{{\"prefix\": {words}}}"));
        wait(cluster, words, |cluster| if epoch(cluster) > before { Ok(()) } else { Err("no new map".to_owned()) });
    };
    command(&mut cluster, "\"osd set\", \"key\": \"nodown\"");
    cluster.world.run_for(Duration::from_secs(1));
    let (mon, osd) = (cluster.nodes()[0], cluster.osd_node(0));
    cluster.world.sever(mon, osd);
    cluster.world.block(mon, osd);
    cluster.world.block(osd, mon);
    let known = epoch(&cluster);
    for other in 1..OSDS {
        command(&mut cluster, &format!("\"osd primary-affinity\", \"id\": {other}, \"weight\": 0.0"));
    }
    let write =
        |index| (ObjectName { usage: Usage::Register, index }, Ask::Change(vec![Change::WriteFull { words: 9 }]));
    let client = cluster.add_client(Purpose::Script { left: (0..OBJECTS).map(write).collect(), list: false });
    cluster.world.run_for(Duration::from_secs(1));
    while epoch(&cluster).0 < known.0 + missed {
        command(&mut cluster, "\"osd set\", \"key\": \"noout\"");
        command(&mut cluster, "\"osd unset\", \"key\": \"noout\"");
    }
    assert!(is_done(&cluster, client).is_err(), "the primary of all knows nothing of it");
    let oldest = cluster.monitor().expect("the monitor runs").state().osdmaps.oldest();
    assert_eq!(oldest <= known, kept, "{oldest}, {known}");
    cluster.world.unblock_all();
    wait(&mut cluster, "the operations", |cluster| is_done(cluster, client));
    let client = cluster.client(client).expect("still there");
    assert!(client.history().iter().all(|operation| matches!(operation.answer, Some((_, Answer::Done)))));
    wait(&mut cluster, "becoming clean", Cluster::is_clean);
}

#[test]
fn maps_that_are_kept_are_fetched_page_by_page() {
    check(300, true);
}

#[test]
fn maps_that_are_gone_cost_no_operation() {
    check(1100, false);
}
