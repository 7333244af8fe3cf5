//! Tests of an OSD that was stopped or killed and whose metadata or log rots. Its store is repaired, and its groups get
//! back everything that is lost.

use offline::{Finding, RepairAction};
use reactor::sim::{Crash, Rng};
use sim::check::{all_replicas_are_identical, histories_are_linearizable, updates_are_applied_once};
use sim::client_process::Purpose;
use sim::cluster::{Cluster, ClusterConfig};
use sim::workload::{Objects, Workload, fill};
use std::time::Duration;
use store::Device;

const OSDS: usize = 3;
const GROUPS: u32 = 8;
const BALLAST: u8 = 60;
const STEP: Duration = Duration::from_millis(20);
const MINUTE: Duration = Duration::from_secs(60);

fn wait(cluster: &mut Cluster, what: &str, done: impl Fn(&Cluster) -> bool) {
    let begin = cluster.world.now();
    while !done(cluster) {
        assert!(cluster.world.now() < begin + MINUTE, "{what} takes too long: {:?}", cluster.is_clean());
        cluster.world.run_for(STEP);
        cluster.check_processes().unwrap_or_else(|why| panic!("{what}: {why}"));
    }
}

fn done(client: usize) -> impl Fn(&Cluster) -> bool {
    move |cluster| cluster.client(client).is_some_and(|client| client.is_done())
}

/// Results of losing one block of metadata in several stores.
#[derive(Default, Debug)]
struct Outcome {
    /// Number of blocks that nothing refers to.
    harmless: u32,
    /// Number of losses that nothing mends.
    hopeless: u32,
    noted: u32,
    started_over: u32,
}

/// The part of the store that rots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Tree,
    Log,
}

fn check(seed: u64, part: Part, outcome: &mut Outcome) {
    let config = ClusterConfig {
        osds: OSDS,
        down_out_interval: Duration::from_secs(3600),
        groups: GROUPS,
        little_memory: seed % 3 == 1,
        ..ClusterConfig::default()
    };
    let mut cluster = Cluster::new(seed, config);
    let victim = match part {
        Part::Tree => (0..OSDS).find(|osd| cluster.has_disk(*osd, Device::Metadata)).expect("one has such a disk"),
        Part::Log => seed as usize % OSDS,
    };
    let mut rng = Rng::new(seed);
    cluster.start_mons();
    (0..OSDS).for_each(|osd| cluster.start_osd(osd));
    let all_up =
        |cluster: &Cluster| cluster.monitor().is_some_and(|mon| mon.state().osdmap().up_osds().count() == OSDS);
    wait(&mut cluster, "the start", all_up);
    let operator = cluster.add_client(Purpose::Operate);
    wait(&mut cluster, "the pool", done(operator));
    cluster.find_pool();
    let objects = Objects::new(None, BALLAST);
    let filler = cluster.add_client(Purpose::Script { left: fill(&mut rng, objects, 1 << 15), list: false });
    wait(&mut cluster, "filling", done(filler));
    let work = |seed| Purpose::Work(Workload::new(seed, 300, Duration::ZERO..=Duration::from_millis(20), objects));
    let worker = cluster.add_client(work(seed));
    cluster.world.run_for(Duration::from_millis(200 + rng.below(500)));

    // An orderly stop leaves an empty log.
    let is_orderly = rng.one_in(2) && part == Part::Tree;
    match is_orderly {
        true => cluster.stop_osd(victim),
        false => cluster.kill_osd(victim, Crash::Power),
    }
    wait(&mut cluster, "the stop", |cluster| !cluster.osd_runs(victim));
    // The other OSDs go on.
    wait(&mut cluster, "the workload", done(worker));
    let device = match part {
        Part::Tree => Device::Metadata,
        Part::Log if cluster.has_disk(victim, Device::Wal) => Device::Wal,
        Part::Log => Device::Main,
    };
    if !lose_metadata(&mut cluster, victim, (part, device), &mut rng, outcome) {
        return;
    }
    cluster.start_osd(victim);
    let begin = cluster.world.now();
    while cluster.osd_runs(victim) {
        assert!(cluster.world.now() < begin + MINUTE, "it runs with what is left");
        cluster.world.run_for(STEP);
    }
    let why = cluster.take_failure(victim).expect("it says why it has stopped");
    assert!(why.contains("nacre store repair"), "{why}");

    let report = cluster.repair(victim, 0).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.after.is_clean(), "{:?}", report.after.findings);
    for action in &report.done {
        match action {
            RepairAction::NoteLost { group: Some(_), .. } => outcome.noted += 1,
            RepairAction::StartOver { .. } => outcome.started_over += 1,
            _ => {}
        }
    }
    let worker = cluster.add_client(work(seed + 1000));
    cluster.start_osd(victim);
    wait(&mut cluster, "more work", done(worker));
    wait(&mut cluster, "healing", |cluster| cluster.is_clean().is_ok());
    cluster.world.run_for(Duration::from_secs(6));
    let looker = cluster.add_client(Purpose::look(objects, std::iter::empty()));
    wait(&mut cluster, "a last look", done(looker));
    let history = cluster.history();
    let checked = updates_are_applied_once(&history)
        .and_then(|()| histories_are_linearizable(&history))
        .and_then(|()| all_replicas_are_identical(&mut cluster, GROUPS, &|_, _| false, Crash::Process));
    checked.unwrap_or_else(|violation| panic!("seed {seed}: {}", violation.0));
}

/// Damages blocks of the OSD's metadata, one after another, until something is lost that can be given up. Undoes damage
/// without such an effect. Returns false if no block had it.
fn lose_metadata(
    cluster: &mut Cluster,
    victim: usize,
    (part, device): (Part, Device),
    rng: &mut Rng,
    outcome: &mut Outcome,
) -> bool {
    const BLOCK: u64 = 4096;
    // The superblocks and roots lie before this offset.
    let begin = store::StoreConfig::LABEL_BYTES;
    let len = if part == Part::Log { 1 << 20 } else { 2 << 20 };
    let disk = cluster.disk_of(victim, device);
    let is_used = |at: &u64| disk.peek(*at, BLOCK as usize).iter().any(|byte| *byte != 0);
    let mut used: Vec<u64> = (begin..begin + len).step_by(BLOCK as usize).filter(is_used).collect();
    while !used.is_empty() {
        let at = used.swap_remove(rng.below(used.len() as u64) as usize);
        let disk = cluster.disk_of(victim, device);
        let before = disk.peek(at, BLOCK as usize);
        disk.rot(at..at + 100, 1, rng);
        let report = cluster.check(victim, 0).unwrap_or_else(|error| panic!("{error}"));
        let has = |is: fn(&Finding) -> bool| report.findings.iter().any(is);
        if has(|finding| matches!(finding, Finding::Hopeless { .. } | Finding::DoesNotOpen { .. })) {
            outcome.hopeless += 1;
        } else if has(|finding| matches!(finding, Finding::Lost { .. })) {
            return true;
        } else {
            assert!(report.is_clean(), "{:?}", report.findings);
            outcome.harmless += 1;
        }
        cluster.disk_of(victim, device).poke(at, &before);
    }
    false
}

#[test]
fn what_a_repair_gave_up_comes_back_from_other_members() {
    let mut outcome = Outcome::default();
    // Under these seeds stores have a disk of their own for metadata.
    for seed in (0..40).filter(|seed| seed % 4 > 1) {
        check(seed, Part::Tree, &mut outcome);
    }
    assert!(outcome.noted > 10 && outcome.started_over > 10 && outcome.harmless > 0, "{outcome:?}");
}

#[test]
fn a_store_that_lost_the_end_of_its_log_catches_up() {
    let mut outcome = Outcome::default();
    (0..12).for_each(|seed| check(seed, Part::Log, &mut outcome));
    assert!(outcome.started_over > 10 && outcome.hopeless == 0, "{outcome:?}");
}
