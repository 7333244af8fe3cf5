//! Many seeds, each a cluster with its misfortunes.
//!
//! * `NACRE_SIM_SEED=n`: only this seed.
//! * `NACRE_SIM_SEEDS=n`: `n` seeds instead of the usual number (and likewise for the other tests of this folder).
//! * `NACRE_SIM_SWARM=n`: `n` large runs.

use crate::{number, runs};
use sim::faults::Mix;
use sim::setup::{Setup, Wishes};
use sim::{Failure, check_seed};
use std::sync::atomic::{AtomicU64, Ordering};

/// Usual number of small seeds, and of seeds of a swarm.
const SEEDS: u64 = 220;
const SWARM: u64 = 12;

/// Number of runs with erasure-coded pools, and of those that lose disks.
const CODED_RUNS: u64 = 110;
const MEMBERSHIP_RUNS: u64 = 25;
/// Number of runs with snapshots.
const SNAP_RUNS: u64 = 110;
/// Number of runs with snapshots of erasure-coded pools.
const CODED_SNAP_RUNS: u64 = 20;
const OVERWRITE_RUNS: u64 = 24;
/// Number of runs in which OSDs pass for earlier software at first.
const UPGRADE_RUNS: u64 = 12;
/// Number of runs with clients that watch.
const WATCH_RUNS: u64 = 20;
/// Number of runs of either kind with reads that any member answers.
const BALANCED_RUNS: u64 = 40;
/// Number of runs with calls of the class `version`.
const VERSION_RUNS: u64 = 20;
/// Number of runs of each kind with several shards of an OSD.
const SHARD_RUNS: u64 = 6;
/// Number of runs of each kind in which sessions of OSDs end.
const SESSION_RUNS: u64 = 12;
/// Number of runs of each kind with copies and long values.
const HEAVY_RUNS: u64 = 8;
/// Number of runs of each kind in which an object is lost at the end.
const LOSS_RUNS: u64 = 15;
/// Number of runs of each kind in which disks lie.
const LIE_RUNS: u64 = 15;
/// Number of runs with OSDs that only clients still reach.
const ISLAND_RUNS: u64 = 30;
/// Number of runs of each kind for each of the newer misfortunes.
const NEWER_RUNS: u64 = 6;
/// Number of runs with several monitors.
const QUORUM_RUNS: u64 = 80;

fn check(seeds: impl Iterator<Item = u64>) {
    check_by(seeds, |seed| check_seed(seed).map(drop));
}

fn check_swarm(seed: u64) -> Result<(), Box<Failure>> {
    let wishes = Wishes::default();
    sim::check(&Setup::of(seed, &wishes), &Setup::flags(seed, &wishes)).map(drop)
}

fn check_by(seeds: impl Iterator<Item = u64>, run: impl Fn(u64) -> Result<(), Box<Failure>> + Sync) {
    let seeds: Vec<u64> = seeds.collect();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    if let Err(failure) = run(*seed) {
                        panic!("{failure}");
                    }
                }
            });
        }
    });
}

#[test]
fn clusters_keep_their_promises_under_all_seeds() {
    match number("NACRE_SIM_SEED") {
        Some(seed) => check(std::iter::once(seed)),
        None => check(0..runs("NACRE_SIM_SEEDS", SEEDS)),
    }
}

#[test]
fn large_clusters_under_mixed_misfortunes_keep_them_too() {
    check_by(0..runs("NACRE_SIM_SWARM", SWARM), check_swarm);
}

/// Seeds that have found bugs. Tests of the parts concerned stand for the bugs as well. A change of the simulator makes
/// such a seed one like any other; they are kept because they cost nothing.
#[test]
fn seeds_that_found_bugs() {
    // Operations were lost in intervals that began and ended within one message of maps.
    check([725, 1412, 1535, 1643, 1769].into_iter());
    // An 'unset' overtook a 'set'; a repeated request made a pool twice.
    check([50, 105, 171, 193, 125].into_iter());
    // An OSD whose store had just stopped answered.
    check(std::iter::once(2368));
    // Sessions that were resumed, or had nothing to send, counted as lost, and living OSDs were reported.
    check(std::iter::once(516));
    check_by(std::iter::once(74), check_swarm);
    // A read gave EIO if metadata of a damaged object was not in memory.
    check_by(std::iter::once(14), check_swarm);
    // Monitors had no leader, and clients gave them no rest.
    check(std::iter::once((1 << 44) + 1058));
    // A command came late by a session that its client had left; a shard was lost while its group moved.
    check_by([3521, 5103].into_iter(), check_swarm);
    // A peon waited for ever for a leader that it had lost sight of; updates did not say that they were updates.
    check_by([7537, 7193].into_iter(), check_swarm);
    // A monitor that no longer led passed on a request that its client had repeated elsewhere.
    check_by(std::iter::once(10890), check_swarm);
    // A map that was not in force yet split tables, and the next one merged them again.
    check_by(std::iter::once(20442), check_swarm);
    // An OSD that was no longer a member had no room for a primary that did not know that yet.
    check_by(std::iter::once(21087), check_swarm);
    // A shard that was found bad while another one was brought to the same OSD was never brought.
    check_by(std::iter::once(22890), check_swarm);
    // Scrubs of all OSDs were refused because one of them was not connected at that moment.
    check_by([24420, 29349].into_iter(), check_swarm);
    // An object that its primary did not have durably yet was changed on all members that had it.
    check_by(std::iter::once(29406), check_swarm);
    // Updates that only one member had were made binding.
    check_by(std::iter::once(29495), check_swarm);
    // The OSD that had served before, and had the shard that others lacked, did not lead.
    check_by(std::iter::once(23736), check_swarm);
    // A primary took a member's log for that of the group, although the member, with a newer map, had only a part of
    // the group.
    check_by(std::iter::once(63094), check_swarm);
    // Updates lacked the room that is set aside for the tree.
    check_by(std::iter::once(81831), check_swarm);
    // Members that could undo an update left, and members that had been brought its object whole stayed.
    check_by(std::iter::once(610_250), check_swarm);
    // Half of the room was promised to an OSD that was silent, and the rest to others; a check was too strict for many
    // groups.
    check_by([608_478, 607_604].into_iter(), check_swarm);
    // An update that had waited for a silent OSD was refused at once when another OSD lacked room for a moment.
    check_by(std::iter::once(17_956_387_902), check_swarm);
    // A member that lacked answered updates took the place of one that had them.
    check_by(std::iter::once(17_956_389_672), check_swarm);
    // A read of a damaged object failed while the OSD with a good copy was about to act.
    check_by(std::iter::once(17_956_390_742), check_swarm);
    // An object went back to its state before an update, and the clone that the update had made stayed, lost.
    check_by(std::iter::once(17_956_401_875), check_swarm);
    // A message that an OSD had sent before it was removed came afterwards; an OSD that newly led a group took the
    // group for just scrubbed.
    check_by([17_956_404_526, 17_956_404_582].into_iter(), check_swarm);
    // A client that ends a watch is not told that the watch had been dropped; the check had taken that for granted.
    check_by(std::iter::once(17_956_420_521), check_swarm);
    // A pool grew from one group to 48, and OSDs took fifty times as long for it as they were meant to.
    check_by(std::iter::once(17_956_437_406), check_swarm);
    // A shard that an OSD had from before was not read, although too few others had the object.
    check_by(std::iter::once(17_956_429_418), check_swarm);
    // The simulated network delivered bytes of a connection before the event that the connection existed.
    check_by(std::iter::once(17_956_426_171), check_swarm);
    // A shard that did not know yet that its OSD had been down was taken for the primary that it had been before.
    check_by(std::iter::once(700_414), check_swarm);
    // Bits rotted on two disks: the simulator damaged one OSD before another one's damage was mended.
    check_by(std::iter::once(602_937), check_swarm);
    // A group that was merged twice forgot a request from just before.
    check_by(std::iter::once(85852), check_swarm);
    // A session ended whose reads of one object waited. Dropping the first had the next one run and end.
    check_by(std::iter::once(17_958_000_196), check_swarm);
    // A client that was cut off took none of its answers, and its OSD read from nobody any more.
    check_by(std::iter::once(17_958_000_425), check_swarm);
    // A watch had ended while a session of members did, and notifications waited for it.
    check_by(std::iter::once(17_958_000_592), check_swarm);
    // A half received message counted after its connection was closed; a rotten copy was the only one for a while.
    check_by([17_958_000_826, 17_958_000_923].into_iter(), check_swarm);
    // An OSD that had been killed and was back at once took the answer to what its former process had asked.
    check_by(std::iter::once(17_958_116_516), check_swarm);
    // A change that was too large was refused before an earlier one of its client had been made; a check minded that.
    check_by(std::iter::once(956_684_120_762), check_swarm);
    // The simulated network delivered a message while the machine of its sender slept in the midst of a turn.
    check_by(std::iter::once(22_958_886_403), check_swarm);
    // A group served with one member while it asked for an acting set with the other, and bits rotted on that one.
    check_by(std::iter::once(1_432_827_120_030), check_swarm);
    // An OSD was looked at in the midst of a turn that took long: its messenger had given up a connection, and memory
    // for messages on it was counted until the turn's end.
    check_by(std::iter::once(998_825_430_168), check_swarm);
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    let twins = || (100..109).map(|seed| check_seed(seed).map(|report| report.fingerprint)).collect::<Vec<_>>();
    let first = twins().into_iter().map(|run| run.unwrap_or_else(|failure| panic!("{failure}"))).collect::<Vec<_>>();
    let second = twins().into_iter().map(|run| run.unwrap_or_else(|failure| panic!("{failure}"))).collect::<Vec<_>>();
    assert_eq!(first, second);
    assert_eq!(first.iter().collect::<std::collections::BTreeSet<_>>().len(), first.len());
}

/// Erasure-coded groups whose OSDs come, go, and are replaced by empty ones at once. The empty OSDs come before the
/// others have agreed who serves without the lost ones, or the same OSDs are wanted for each other's shards.
#[test]
fn shards_are_where_they_belong_after_disks_were_lost() {
    let wishes = Wishes { small: true, coding: Some((2, 2)), mixes: vec![Mix::Membership], ..Wishes::default() };
    let fresh = 0..runs("NACRE_SIM_CODED_SEEDS", MEMBERSHIP_RUNS);
    check_by(fresh.chain([53, 101, 105, 142, 144]), |seed| {
        sim::check(&Setup::of(seed, &wishes), &Setup::flags(seed, &wishes)).map(drop)
    });
}

/// Clients take snapshots. `NACRE_SIM_SNAP_SEEDS=n`: `n` seeds instead of the usual number.
#[test]
fn snapshots_keep_what_objects_were() {
    let count = runs("NACRE_SIM_SNAP_SEEDS", SNAP_RUNS);
    check((0..count).map(|seed| sim::setup::SNAP_SEEDS + seed));
}

/// Clients overwrite parts of objects in erasure-coded pools, which have omaps, too; half of them take snapshots.
/// `NACRE_SIM_OVERWRITE_SEEDS=n`: `n` seeds instead of the usual number. The other seeds had digests that did not cover
/// their shards.
#[test]
fn overwrites_of_coded_pools_keep_what_objects_were() {
    let of_kind = |kind: u64| move |seed: u64| sim::setup::OVERWRITE_SEEDS + kind + seed;
    let kinds = [sim::setup::CODED_SEEDS, sim::setup::CODED_SNAP_SEEDS];
    let count = runs("NACRE_SIM_OVERWRITE_SEEDS", OVERWRITE_RUNS);
    check(kinds.into_iter().flat_map(|kind| (0..count / 2).map(of_kind(kind))));
    check([1026, 1056].into_iter().map(of_kind(sim::setup::CODED_SEEDS)));
}

/// OSDs pass for earlier software until their first restart, so that updates of erasure-coded objects begin to skip
/// shards somewhere.
#[test]
fn osds_of_earlier_software_become_newer_while_clients_overwrite() {
    let wishes = Wishes { small: true, upgrades: true, ..Wishes::default() };
    let of_kind = |seed: u64| sim::setup::OVERWRITE_SEEDS + sim::setup::CODED_SEEDS + seed;
    check_by((0..UPGRADE_RUNS).map(of_kind), |seed| {
        sim::check(&Setup::of(seed, &wishes), &Setup::flags(seed, &wishes)).map(drop)
    });
}

/// Clients take snapshots of erasure-coded pools. `NACRE_SIM_CODED_SNAP_SEEDS=n`: `n` seeds instead of the usual
/// number.
#[test]
fn snapshots_of_erasure_coded_pools_keep_what_objects_were() {
    let count = runs("NACRE_SIM_CODED_SNAP_SEEDS", CODED_SNAP_RUNS);
    check((0..count).map(|seed| sim::setup::CODED_SNAP_SEEDS + seed));
}

/// Clients read from any member of a placement group, even from OSDs that are alone with them.
/// `NACRE_SIM_BALANCED_SEEDS=n`: `n` seeds of either kind instead of the usual number.
#[test]
fn whoever_answers_reads_never_go_back() {
    use sim::setup::{BALANCED_SEEDS, ISLAND_SEEDS};
    let count = runs("NACRE_SIM_BALANCED_SEEDS", BALANCED_RUNS);
    check((0..count).flat_map(|seed| [BALANCED_SEEDS + seed, BALANCED_SEEDS + ISLAND_SEEDS + seed]));
}

/// Clients call the class `version`. `NACRE_SIM_VERSION_SEEDS=n`: `n` seeds instead of the usual number.
#[test]
fn versions_grow_as_the_class_says() {
    let count = runs("NACRE_SIM_VERSION_SEEDS", VERSION_RUNS);
    check((0..count).map(|seed| sim::setup::VERSION_SEEDS + seed));
}

/// Sessions of OSDs end while both OSDs go on, and objects go in small pieces. Pools are of any kind.
#[test]
fn sessions_of_osds_may_end() {
    let count = runs("NACRE_SIM_SESSION_SEEDS", SESSION_RUNS);
    let kinds = [0, sim::setup::CODED_SEEDS, sim::setup::SNAP_SEEDS, sim::setup::SHARD_SEEDS, sim::setup::WATCH_SEEDS];
    check(kinds.into_iter().flat_map(|kind| (0..count).map(move |seed| sim::setup::SESSION_SEEDS + kind + seed)));
}

/// More copies or shards of an object rot than others can make up for. Pools are of any kind. `NACRE_SIM_LOSS_SEEDS=n`:
/// `n` seeds of each kind instead of the usual number.
#[test]
fn an_object_that_is_lost_keeps_nothing_else_waiting() {
    let count = runs("NACRE_SIM_LOSS_SEEDS", LOSS_RUNS);
    let kinds = [0, sim::setup::CODED_SEEDS, sim::setup::SNAP_SEEDS, sim::setup::CODED_SNAP_SEEDS];
    check(kinds.into_iter().flat_map(|kind| (0..count).map(move |seed| sim::setup::LOSS_SEEDS + kind + seed)));
}

/// Disks of an OSD have lied about flushes. Pools are of any kind. `NACRE_SIM_LIE_SEEDS=n`: `n` seeds of each kind
/// instead of the usual number.
#[test]
fn an_osd_that_has_lost_the_end_of_its_log_has_nobody_take_anything_back() {
    let count = runs("NACRE_SIM_LIE_SEEDS", LIE_RUNS);
    let kinds = [0, sim::setup::CODED_SEEDS, sim::setup::SNAP_SEEDS, sim::setup::SHARD_SEEDS + sim::setup::CODED_SEEDS];
    check(kinds.into_iter().flat_map(|kind| (0..count).map(move |seed| sim::setup::LIE_SEEDS + kind + seed)));
}

/// Checks seeds of the newer kinds. `NACRE_SIM_NEWER_SEEDS=n`: `n` seeds of each kind instead of the usual number, here
/// and in the tests that call this.
fn check_newer(bit: u64, kinds: &[u64]) {
    let count = runs("NACRE_SIM_NEWER_SEEDS", NEWER_RUNS);
    check(kinds.iter().flat_map(|kind| (0..count).map(move |seed| bit + kind + seed)));
}

/// The work of OSDs and monitors takes time, so a clock that they read before is old afterwards.
#[test]
fn what_takes_time_breaks_no_promise() {
    use sim::setup::{BALANCED_SEEDS, BUSY_SEEDS, CODED_SEEDS, ISLAND_SEEDS, QUORUM_SEEDS, SHARD_SEEDS};
    check_newer(BUSY_SEEDS, &[0, CODED_SEEDS, ISLAND_SEEDS, BALANCED_SEEDS + ISLAND_SEEDS, QUORUM_SEEDS, SHARD_SEEDS]);
}

/// A flush fails. The next one succeeds, although the data that the first was to make durable is lost.
#[test]
fn who_could_not_flush_believes_no_later_flush() {
    use sim::setup::{CODED_SEEDS, FLUSH_SEEDS, SHARD_SEEDS, SNAP_SEEDS};
    check_newer(FLUSH_SEEDS, &[0, CODED_SEEDS, SNAP_SEEDS, SHARD_SEEDS]);
}

/// Machines sleep, or are paused together with their clocks. Wall clocks jump by hours.
#[test]
fn who_has_slept_answers_by_no_lease_from_before() {
    use sim::setup::{BALANCED_SEEDS, CODED_SEEDS, QUORUM_SEEDS, SHARD_SEEDS, SLEEP_SEEDS};
    check_newer(SLEEP_SEEDS, &[0, BALANCED_SEEDS, CODED_SEEDS, QUORUM_SEEDS, SHARD_SEEDS]);
}

/// OSDs have little memory for clients, and must count exactly the memory that they hold.
#[test]
fn memory_for_clients_is_counted_and_given_back() {
    use sim::setup::{CODED_SEEDS, HEAVY_SEEDS, MEMORY_SEEDS, SHARD_SEEDS};
    check_newer(MEMORY_SEEDS, &[0, CODED_SEEDS, HEAVY_SEEDS, SHARD_SEEDS]);
}

/// Single connections with monitors are slow.
#[test]
fn answers_of_monitors_may_overtake_each_other() {
    use sim::setup::{CODED_SEEDS, QUORUM_SEEDS, ROUTE_SEEDS};
    check_newer(ROUTE_SEEDS, &[0, CODED_SEEDS, QUORUM_SEEDS]);
}

/// Another process tries to start OSDs that run.
#[test]
fn a_store_has_one_process() {
    check_newer(sim::setup::TWICE_SEEDS, &[0, sim::setup::SHARD_SEEDS]);
}

/// OSDs have two shards, or four. Pools are of any kind. `NACRE_SIM_SHARD_SEEDS=n`: `n` seeds of each kind instead of
/// the usual number.
#[test]
fn osds_of_several_shards_keep_their_promises() {
    use sim::setup::{BALANCED_SEEDS, CODED_SEEDS, ISLAND_SEEDS, MERGE_SEEDS, SHARD_SEEDS, SNAP_SEEDS, SPLIT_SEEDS};
    let count = runs("NACRE_SIM_SHARD_SEEDS", SHARD_RUNS);
    let kinds = [
        0,
        CODED_SEEDS,
        SPLIT_SEEDS,
        SPLIT_SEEDS + CODED_SEEDS,
        MERGE_SEEDS,
        SNAP_SEEDS,
        BALANCED_SEEDS,
        BALANCED_SEEDS + ISLAND_SEEDS,
    ];
    check((0..count).flat_map(|seed| kinds.map(|kind| SHARD_SEEDS + kind + seed)));
}

/// Clients also copy objects, repeat patterns and set long values. `NACRE_SIM_HEAVY_SEEDS=n`: `n` seeds of each kind
/// instead of the usual number.
#[test]
fn copies_and_patterns_are_what_they_should_be() {
    use sim::setup::{CODED_SEEDS, CODED_SNAP_SEEDS, HEAVY_SEEDS, MERGE_SEEDS, SHARD_SEEDS, SNAP_SEEDS};
    let count = runs("NACRE_SIM_HEAVY_SEEDS", HEAVY_RUNS);
    let kinds = [0, SNAP_SEEDS, SNAP_SEEDS + SHARD_SEEDS, CODED_SEEDS, CODED_SNAP_SEEDS, MERGE_SEEDS];
    check((0..count).flat_map(|seed| kinds.map(|kind| HEAVY_SEEDS + kind + seed)));
}

/// Clients watch objects and notify each other. `NACRE_SIM_WATCH_SEEDS=n`: `n` seeds instead of the usual number.
#[test]
fn watchers_are_told() {
    let count = runs("NACRE_SIM_WATCH_SEEDS", WATCH_RUNS);
    check((0..count).map(|seed| sim::setup::WATCH_SEEDS + seed));
}

/// Pools are erasure-coded. `NACRE_SIM_CODED_SEEDS=n`: `n` seeds instead of the usual number.
#[test]
fn erasure_coded_pools_keep_their_promises() {
    let count = runs("NACRE_SIM_CODED_SEEDS", CODED_RUNS);
    check((0..count).map(|seed| sim::setup::CODED_SEEDS + seed));
}

/// Some OSDs are reached by clients and by nobody else. `NACRE_SIM_ISLAND_SEEDS=n`: `n` seeds instead of the usual
/// number.
#[test]
fn islands_answer_nothing_that_is_out_of_date() {
    let count = runs("NACRE_SIM_ISLAND_SEEDS", ISLAND_RUNS);
    check((0..count).map(|seed| sim::setup::ISLAND_SEEDS + seed));
}

/// All prove by keys who they are, while tickets and secrets live for seconds. `NACRE_SIM_KEY_SEEDS=n`: `n` seeds of
/// each kind instead of the usual number.
#[test]
fn clusters_keep_their_promises_with_keys() {
    use sim::setup::{
        CODED_SEEDS, KEY_SEEDS, KEY_TROUBLE_SEEDS, QUORUM_SEEDS, ROTATION_SEEDS, SHARD_SEEDS, SNAP_SEEDS,
    };
    let count = runs("NACRE_SIM_KEY_SEEDS", NEWER_RUNS);
    let troubles = [0, QUORUM_SEEDS, CODED_SEEDS].map(|kind| kind + KEY_TROUBLE_SEEDS);
    let kinds = [0, CODED_SEEDS, SNAP_SEEDS, QUORUM_SEEDS, SHARD_SEEDS, QUORUM_SEEDS + ROTATION_SEEDS];
    let kinds: Vec<u64> = kinds.into_iter().chain(troubles).collect();
    check((0..count).flat_map(|seed| kinds.iter().map(move |kind| KEY_SEEDS + kind + seed)));
}

/// There are three or five monitors, with misfortunes of their own. `NACRE_SIM_QUORUM_SEEDS=n`: `n` seeds instead of
/// the usual number.
#[test]
fn a_minority_of_monitors_may_be_in_trouble() {
    let count = runs("NACRE_SIM_QUORUM_SEEDS", QUORUM_RUNS);
    check((0..count).map(|seed| sim::setup::QUORUM_SEEDS + seed));
}
