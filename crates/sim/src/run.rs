//! The course of one run: a cluster, a workload, misfortunes, a peaceful end, and the checks.

use crate::check::{
    SteadyMaps, Violation, all_replicas_are_identical, all_shards_agree, copies_are_what_their_logs_were,
    groups_serve_with_enough_members, histories_are_linearizable, listing_agrees_with_objects,
    pipelined_updates_keep_their_order, statistics_agree_with_objects, updates_are_applied_once, watchers_are_told,
};
use crate::client_process::{ClientProcess, Purpose};
use crate::cluster::{Cluster, ClusterConfig};
use crate::commands::Commands;
use crate::faults::membership::Lost;
use crate::faults::rot::ROTTEN;
use crate::faults::{Fault, Mix};
use crate::history::{Answer, Ask, ObjectName, Operation, Usage};
use crate::model::Change;
use crate::places;
use crate::request::OP_BYTES_MAX;
use crate::setup::Setup;
use crate::splits;
use crate::store_disks::DISK_BYTES;
use crate::timeline;
use crate::watching::{PREFIX, Watching};
use crate::workload::{Objects, SNAPSHOTS_MAX, Snapshots, Workload, fill, without_omap};
use osdmap::MappingUpdate;
use pg::ops::Limits;
use reactor::sim::{Crash, NodeId, Rng};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::{Errno, ObjectId, OsdId, SnapId};

/// Interval at which a wait checks whether its condition holds.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time limit for a new cluster to become clean.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// Time limit, from the end of misfortunes, for everything to become clean and be answered.
pub(crate) const HEAL_TIME_MAX: Duration = Duration::from_secs(180);
/// Time limit for an orderly stop, even in the middle of a start from a slow disk.
const STOP_MAX: Duration = Duration::from_secs(20);
/// Interval at which a wait checks whether an OSD has stopped.
const STOPPED_LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time within which a disk that is to fail is used, and so fails. An OSD whose disk has failed is started again after
/// the same time.
const DISK_FAILS_WITHIN: Duration = Duration::from_millis(500);
/// Size of disks in some large runs. All objects take a quarter of one.
const SMALL_DISK_BYTES: u64 = 16 << 20;
/// One seed in this many has bits rot at the end.
const ROT_ONE_IN: u64 = 3;
/// Name in reports of snapshots that were removed.
const SNAPSHOT_REMOVED: &str = "snapshot removed";
/// Name in reports of bits that rotted.
const ROTTED: &str = "bits rotted";
/// Time limit for everything to be read and repaired.
const SCRUB_TIME_MAX: Duration = Duration::from_secs(120);
/// The most times that a deep scrub is ordered.
const SCRUB_ORDERS: u32 = 6;
/// The greatest age of statistics. A state that lasts longer is the true one.
pub(crate) const SETTLED_AFTER: Duration = Duration::from_secs(6);
/// Time limit, once all is clean, for monitors and OSDs to have the same maps.
const AGREE_TIME_MAX: Duration = Duration::from_secs(20);
/// Number of clients that ask several monitors all the time.
const ASKERS: usize = 3;

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Report {
    pub setup: Setup,
    /// A digest of everything that happened.
    pub fingerprint: u64,
    pub operations: usize,
    /// Number of operations that were never answered.
    pub in_doubt: usize,
    /// Number of times that clients were asked to hold back.
    pub backoffs: u64,
    /// The run's length in virtual time.
    pub took: Duration,
    /// Time from the end of misfortunes until everything was clean and answered.
    pub healed_in: Duration,
    /// Number of times that each kind of misfortune struck.
    pub faults: BTreeMap<&'static str, u64>,
}

/// A run that violated a property.
#[derive(Clone, Debug)]
pub struct Failure {
    pub setup: Setup,
    /// Flags for the command that repeats the run.
    pub flags: String,
    pub violation: Violation,
    /// The last events of the run.
    pub timeline: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LINES: usize = 80;
        let from = self.timeline.len().saturating_sub(LINES);
        writeln!(f, "the last of what happened under seed {}:", self.setup.seed)?;
        self.timeline[from..].iter().try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "\n{:?}: {}", self.setup, self.violation.0)?;
        write!(f, "again, with all lines: nacre sim {} --timeline timeline.html", self.flags)
    }
}

/// Makes a small run of one seed. If a check fails, makes it once more for its timeline.
pub fn check_seed(seed: u64) -> Result<Report, Box<Failure>> {
    check(&Setup::small(seed), &format!("--seed {seed} --small"))
}

/// Makes the run of `setup`; `flags` lead to it. If a check fails, makes it once more for its timeline.
pub fn check(setup: &Setup, flags: &str) -> Result<Report, Box<Failure>> {
    run(setup).map_err(|violation| {
        let (again, timeline) = timeline::recorded(|| run(setup));
        let violation = match again {
            Err(again) if again == violation => violation,
            other => Violation(format!("{}\n(the same seed then gave {other:?})", violation.0)),
        };
        Box::new(Failure { setup: setup.clone(), flags: flags.to_owned(), violation, timeline })
    })
}

/// Makes one run. A panic counts as a violation.
pub fn run(setup: &Setup) -> Result<Report, Violation> {
    catch_unwind(AssertUnwindSafe(|| Run::new(setup).complete())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let place = PLACE_OF_PANIC.take().map(|place| format!(" at {place}")).unwrap_or_default();
        Err(Violation(format!("panic: {}{place}", text.unwrap_or_default())))
    })
}

thread_local! {
    /// The source line of this thread's last panic, if [`note_place_of_panic`] is the hook.
    static PLACE_OF_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic hook that prints nothing. It notes the place of the panic for [`run`].
pub(crate) fn note_place_of_panic(panic: &PanicHookInfo<'_>) {
    PLACE_OF_PANIC.set(panic.location().map(ToString::to_string));
}

/// True if nothing of an object may be kept for a snapshot: it was removed, and no change that still knew it was on its
/// way then. In Ceph, too, a change that comes after the snapshot is forgotten preserves the object for it, and nobody
/// notices.
fn is_gone(history: &[Operation], removed: &BTreeMap<u64, Duration>, object: &ObjectId, snap: u64) -> bool {
    let Some(at) = removed.get(&snap) else { return false };
    let knows = |operation: &Operation| match &operation.ask {
        Ask::Change(changes) => changes
            .iter()
            .any(|change| matches!(change, Change::Knows { seq, without } if snap <= *seq && without >> snap & 1 == 0)),
        Ask::Read | Ask::ReadAt(_) => false,
    };
    let is_late = |operation: &Operation| operation.answer.as_ref().is_none_or(|(answered, _)| answered >= at);
    let mut late = history.iter().filter(|operation| is_late(operation) && knows(operation));
    !late.any(|operation| operation.object.to_string().as_bytes() == object.name)
}

/// An event to come.
enum Due {
    Fault(Fault),
    StartOsd(usize),
    /// Starts an OSD that has been asked to stop, this long after it has stopped.
    StartStopped {
        osd: usize,
        away: Duration,
    },
    StartMons,
    KillMon,
    KillOsd {
        osd: usize,
        crash: Crash,
        away: Duration,
    },
    Unblock(NodeId, NodeId),
    In(usize),
    Command(String),
    NormalDisks(usize),
    /// The end of a misfortune, or another later step.
    Later(Box<dyn FnOnce(&mut Run)>),
}

/// A run under way.
pub(crate) struct Run {
    pub setup: Setup,
    /// Random numbers for the plan. The world has its own.
    pub rng: Rng,
    pub cluster: Cluster,
    pub struck: BTreeMap<&'static str, u64>,
    /// OSDs whose disks are gone. `any_lost`: there was ever one.
    pub lost: Vec<Lost>,
    pub any_lost: bool,
    /// Time of the operator's next command about the key of monitors, while that is replaced.
    pub rotates_at: Option<Duration>,
    /// Time at which the operator next replaces the key of an OSD or of clients.
    pub key_trouble_at: Option<Duration>,
    /// True if the pool has had fewer copies for a while, or has them still.
    pub made_smaller: bool,
    /// Number of OSDs that were not there at the beginning.
    pub added: usize,
    /// Misfortunes, with their times since the workload's beginning.
    plan: Vec<(Duration, Fault)>,
    due: BTreeMap<(Duration, u64), Due>,
    dues_made: u64,
    workers: Vec<usize>,
    /// Clients that watch objects, and clients that only read.
    watchers: Vec<usize>,
    pub readers: Vec<usize>,
    /// Monitors in trouble, each with the end of its trouble.
    pub troubled: BTreeMap<usize, Duration>,
    /// The client that gives commands.
    pub operator: usize,
    pub groups: u32,
    pub objects: Objects,
    snaps: Arc<Snapshots>,
    /// The times at which snapshots were removed.
    removed_snaps: BTreeMap<u64, Duration>,
    /// OSDs that the operator has put out.
    pub out: BTreeSet<usize>,
    /// Commands that undo the operator's changes.
    undo: BTreeSet<String>,
    maps: SteadyMaps,
    /// Periods in which reads may be answered by leases that have ended, although the answering OSD cannot know it.
    pub unsure: Vec<(Duration, Duration)>,
}

/// The work that an OSD does to place groups in a turn, which takes a millisecond. In one of four runs, placing all
/// `groups` that the pool may come to have takes up to a second, if CRUSH has to be asked for all of them. Maps then
/// come into force late, and earlier on other OSDs.
fn placing_work(seed: u64, groups: u32) -> usize {
    const TURNS: [usize; 4] = [10, 50, 250, 1000];
    match seed % 4 {
        2 => (groups as usize * MappingUpdate::ANEW / TURNS[(seed / 4 % 4) as usize]).max(1),
        _ => Limits::default().placing_work,
    }
}

impl Run {
    fn new(setup: &Setup) -> Run {
        let seed = setup.seed;
        let mut rng = Rng::new(seed ^ 0x5eed);
        let short_logs = rng.one_in(3);
        let mut groups = if short_logs { 1 + rng.below(2) as u32 } else { 1 << rng.below(5) };
        if setup.merges && setup.coding.is_some() {
            groups = groups.max(splits::CODED_GROUPS_MIN);
        }
        // With a smaller log, the log wraps around more often and there are more checkpoints.
        let is_small = setup.operations.is_none();
        let wal_bytes = if is_small { (256 << 10) << rng.below(4) } else { (64 << 10) << rng.below(6) };
        let log_entries_min = match (short_logs, is_small) {
            (true, true) => 40,
            (true, false) => 80,
            (false, _) => 1000,
        };
        // In half of the large runs with short logs, groups remember requests no longer than their logs keep them. Not
        // with watchers, because these make updates that the window does not count.
        let no_dups = short_logs && !is_small && seed.is_multiple_of(2) && !setup.watches;
        let dups_max = if no_dups { 0 } else { Limits::default().dups_max };
        // Small disks are written all over, so that blocks are used again soon after they were freed. They grow with
        // the number of shards, because shards divide windows for updates, and each window must be as large as with one
        // shard.
        let small_bytes = SMALL_DISK_BYTES * setup.shards as u64;
        let has_small_disks = !is_small && rng.one_in(3);
        // Large operations would find no room on small disks.
        let disk_bytes = if has_small_disks && !setup.large { small_bytes } else { DISK_BYTES };
        let ballast = if rng.one_in(2) { 0 } else { 10 + rng.below(50) as u8 };
        let out_soon = setup.has(Mix::Replaced) || (setup.has(Mix::Everything) && rng.one_in(2));
        let config = ClusterConfig {
            mons: setup.mons,
            osds: setup.osds,
            copies: setup.copies,
            world: Mix::world(setup, &mut rng),
            down_out_interval: Duration::from_secs(if out_soon { 3 + rng.below(6) } else { 600 }),
            fixed_ports: rng.one_in(2),
            groups,
            log_entries_min,
            dups_max,
            window: if dups_max > 0 { u64::MAX } else { log_entries_min as u64 / 2 },
            // A small number gives many steps at which backfill can be interrupted.
            backfill_objects: 1 + (seed / 3 % 8) as usize,
            piece_bytes: setup.piece_bytes.unwrap_or(Limits::default().piece_bytes),
            // Messages are shorter than pieces, so that pieces go in parts, too.
            message_bytes: setup.piece_bytes.map_or(Limits::default().message_bytes, |bytes| bytes as usize / 2),
            placing_work: placing_work(seed, if setup.splits { splits::GROUPS_MAX } else { groups }),
            wal_bytes,
            shards: setup.shards,
            disk_bytes,
            client_bytes: setup.client_bytes,
            op_bytes: if setup.large { OP_BYTES_MAX } else { Limits::default().op_bytes },
            keys: setup.keys.then_some(setup.monitor_ticket_s),
            upgrades: setup.upgrades,
            little_memory: seed / Mix::COUNT % 2 == 1,
        };
        let cluster = Cluster::new(seed, config);
        let objects = Objects::new(setup.operations, ballast);
        let objects = if setup.heavy { objects.with_copies() } else { objects };
        let objects = if setup.large { objects.with_long_names() } else { objects };
        Run {
            setup: setup.clone(),
            rng,
            cluster,
            struck: BTreeMap::new(),
            lost: Vec::new(),
            any_lost: false,
            rotates_at: None,
            key_trouble_at: None,
            made_smaller: false,
            added: 0,
            plan: Vec::new(),
            due: BTreeMap::new(),
            dues_made: 0,
            workers: Vec::new(),
            watchers: Vec::new(),
            readers: Vec::new(),
            troubled: BTreeMap::new(),
            operator: 0,
            groups,
            objects,
            snaps: Arc::new(Snapshots { may_go: setup.snapshots && setup.asks_for_more(), ..Snapshots::default() }),
            removed_snaps: BTreeMap::new(),
            out: BTreeSet::new(),
            undo: BTreeSet::new(),
            unsure: Vec::new(),
            maps: SteadyMaps::of(if setup.splits { splits::GROUPS_MAX } else { groups }),
        }
    }

    fn complete(mut self) -> Result<Report, Violation> {
        self.start()?;
        self.misfortunes()?;
        let healed_in = self.heal()?;
        self.tell_watchers()?;
        if self.setup.lies {
            self.forget_the_end()?;
        }
        self.look_at_everything()?;
        if self.setup.seed.is_multiple_of(ROT_ONE_IN) {
            self.rot()?;
        }
        if self.struck.contains_key(ROTTED) {
            self.scrub_everything()?;
        }
        self.settle()?;
        self.wait("agreement", AGREE_TIME_MAX, Cluster::monitors_agree)?;
        let statistics = self.statistics();
        let history = self.without_unsure(self.cluster.history());
        updates_are_applied_once(&history)?;
        copies_are_what_their_logs_were(&history)?;
        histories_are_linearizable(&history)?;
        pipelined_updates_keep_their_order(&history, self.struck.contains_key(Fault::FULL))?;
        let statistics = match self.setup.loses && self.lose_an_object()? {
            true => self.statistics(),
            false => statistics,
        };
        let stored = self.compare_replicas()?;
        // After a split, groups count by estimate until the next scrub.
        if !self.setup.splits {
            statistics_agree_with_objects(&statistics, &stored)?;
        }
        Ok(Report {
            setup: self.setup,
            fingerprint: self.cluster.world.fingerprint(),
            operations: history.len(),
            in_doubt: history.iter().filter(|operation| operation.answer.is_none()).count(),
            backoffs: self.cluster.witness.backoffs(),
            took: self.cluster.world.now(),
            healed_in,
            faults: self.struck,
        })
    }

    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        timeline::note(self.cluster.world.now(), line);
    }

    fn check_processes(&mut self) -> Result<(), Violation> {
        for osd in self.cluster.take_failed() {
            self.note(|| format!("osd.{osd} has stopped because its disk failed"));
            self.at(self.cluster.world.now() + DISK_FAILS_WITHIN, Due::StartOsd(osd));
        }
        if !self.lost.is_empty() {
            self.replace_lost();
        }
        if self.setup.rotates {
            self.rotate_key_of_monitors();
        }
        if self.setup.key_troubles {
            self.replace_keys();
        }
        if let Some(monitor) = self.cluster.monitor() {
            groups_serve_with_enough_members(monitor.state())?;
            // In such runs only the ordering of shards places groups as a whole.
            if self.setup.merges
                && !self.setup.places
                && monitor.state().osdmap().pg_upmap.keys().any(|pg| !monitor.state().osdmap().has_order(*pg))
            {
                self.struck.insert(splits::ORDERED, 1);
            }
        }
        self.cluster.end_stopped_mons().map_err(Violation)?;
        self.cluster.witness_osds();
        self.cluster.memory_is_counted().map_err(Violation)?;
        self.maps.look(self.cluster.world.now(), self.cluster.witness.epoch())?;
        if self.cluster.world.flushes_tried_again() > 0 {
            return Err(Violation("an OSD goes on with a disk of which a flush has failed".to_owned()));
        }
        self.cluster.check_processes().map_err(Violation)
    }

    /// Lets time pass until `done` returns `Ok`, for `time` at most.
    pub(crate) fn wait(
        &mut self,
        what: &str,
        time: Duration,
        mut done: impl FnMut(&Cluster) -> Result<(), String>,
    ) -> Result<(), Violation> {
        let end = self.cluster.world.now() + time;
        loop {
            let Err(why) = done(&self.cluster) else { return Ok(()) };
            if self.cluster.world.now() >= end {
                return Err(Violation(format!("{what} takes longer than {time:?}: {why}")));
            }
            self.cluster.world.run_for(LOOK_EVERY);
            self.check_processes()?;
            // A disk that fails late may do so after misfortunes are over.
            while let Some(entry) = self.due.first_entry().filter(|due| due.key().0 <= self.cluster.world.now()) {
                let due = entry.remove();
                self.happen(due)?;
            }
        }
    }

    fn start(&mut self) -> Result<(), Violation> {
        let osds = self.cluster.osd_count();
        self.cluster.start_mons();
        for osd in 0..osds {
            self.cluster.start_osd(osd);
            let pause = Duration::from_millis(self.rng.below(300));
            self.cluster.world.run_for(pause);
        }
        self.wait("the first start", START_TIME_MAX, |cluster| {
            let up = cluster.monitor().map_or(0, |monitor| monitor.state().osdmap().up_osds().count());
            if up == osds { Ok(()) } else { Err(format!("{up} of {osds} OSDs are up")) }
        })?;
        for node in self.cluster.nodes() {
            let skew_ms = self.rng.below(20_000) as i64 - 10_000;
            self.cluster.world.skew_wall_clock(node, skew_ms);
        }
        self.let_clocks_differ();
        if self.setup.drift {
            self.let_clocks_drift();
        }
        self.operator = self.cluster.add_client(match self.setup.coding {
            Some((k, m)) => Purpose::OperateCoded { k, m, overwrites: self.setup.overwrites },
            None => Purpose::Operate,
        });
        self.wait_for_client("making the pool", self.operator)?;
        self.rotates_at = self.setup.rotates.then_some(Duration::ZERO);
        self.key_trouble_at = self.setup.key_troubles.then_some(Duration::ZERO);
        self.cluster.find_pool();
        if self.snaps.may_go {
            self.take_snapshots()?;
        }
        if self.objects.ballast + self.objects.long_names > 0 {
            // Where operations are bounded, reads need room for several times what they return. Where connections break
            // and bring little at a time, a large message never gets through.
            let is_hard = self.setup.client_bytes.is_some() && self.setup.has(Mix::Resets);
            let words_max = if self.setup.large || is_hard { 1 << 12 } else { 1 << 15 };
            let mut left = fill(&mut self.rng, self.objects, words_max);
            if self.setup.coding.is_some() && !self.setup.overwrites {
                without_omap(&mut left);
            }
            let filler = self.cluster.add_client(Purpose::Script { left, list: false });
            self.wait_for_client("filling the pool", filler)?;
        } else if !self.rng.one_in(4) {
            self.wait("becoming clean", START_TIME_MAX, Cluster::is_clean)?;
        }
        let workers = match self.setup.operations {
            None => 2 + self.rng.below(2) as usize,
            Some(_) => 3 + self.rng.below(4) as usize,
        };
        let watchers = if self.setup.watches { 2 + self.rng.below(2) as usize } else { 0 };
        let clients = self.cluster.client_count() + workers + watchers;
        self.plan = Mix::plan(&self.setup, &mut self.rng, clients);
        if self.setup.splits {
            splits::add(&mut self.plan, &mut self.rng, self.groups, &self.setup);
        }
        if self.setup.places {
            let pool = (self.cluster.find_pool(), self.groups);
            places::add(&mut self.plan, &mut self.rng, pool, self.setup.osds, self.setup.members());
        }
        for _ in 0..workers {
            let purpose = self.work(workers);
            let worker = self.cluster.add_client(purpose);
            self.workers.push(worker);
        }
        let lasts = self.plan.last().map_or(Duration::ZERO, |(at, _)| *at) + Duration::from_secs(10);
        if self.setup.has(Mix::Islands) || self.setup.has(Mix::Sleeps) {
            let busy = self.objects.busy;
            let changed = |object: &ObjectName| object.usage != Usage::Register || object.index < busy;
            let objects = self.objects.all().filter(changed).collect();
            let objects: Vec<ObjectName> = objects;
            let pause = Duration::from_millis(300 + self.rng.below(500));
            let left = (lasts.as_millis() / pause.as_millis()) as u32 + 1;
            // If members answer reads, each OSD has two readers: an OSD that is alone is then asked by one of them, and
            // the other one sees the answers of the rest meanwhile.
            let near = match self.setup.balanced {
                true => (0..self.cluster.osd_count()).map(|osd| Some(OsdId(osd as i32))).collect(),
                false => vec![None],
            };
            for near in near {
                let purpose = || Purpose::Poll { objects: objects.clone(), left, pause, near };
                let reader = self.cluster.add_client(purpose());
                self.readers.push(reader);
                self.workers.push(reader);
                if near.is_some() {
                    let outside = self.cluster.add_client(purpose());
                    self.workers.push(outside);
                }
            }
        }
        for _ in 0..watchers {
            let notifications = 20 + self.rng.below(60);
            let watching = Watching::new(self.rng.next_u64(), notifications, lasts / notifications as u32);
            let watcher = self.cluster.add_client(Purpose::Watch(Box::new(watching)));
            self.watchers.push(watcher);
        }
        if self.setup.mons > 1 {
            self.ask_monitors();
        }
        Ok(())
    }

    /// Has the monitors make all snapshots that clients will use.
    fn take_snapshots(&mut self) -> Result<(), Violation> {
        for snap in 1..=SNAPSHOTS_MAX {
            self.cluster.snapshot(self.operator, None);
            self.wait("taking a snapshot", START_TIME_MAX, |cluster| match cluster.newest_snapshot() {
                Some(newest) if newest >= snap => Ok(()),
                newest => Err(format!("the newest is {newest:?}")),
            })?;
        }
        Ok(())
    }

    /// Removes a snapshot if there is one to remove.
    fn remove_snapshot(&mut self) {
        if let Some(snap) = self.snaps.remove_some(&mut self.rng) {
            self.note(|| format!("snapshot {snap} is removed"));
            self.removed_snaps.insert(snap, self.cluster.world.now());
            self.cluster.snapshot(self.operator, Some(snap));
            *self.struck.entry(SNAPSHOT_REMOVED).or_default() += 1;
        }
    }

    pub(crate) fn wait_for_client(&mut self, what: &str, client: usize) -> Result<(), Violation> {
        self.wait(what, HEAL_TIME_MAX, |cluster| match cluster.client(client) {
            Some(client) if client.is_done() => Ok(()),
            _ => Err("it is not answered".to_owned()),
        })
    }

    /// Adds clients that ask monitors for as long as misfortunes last.
    fn ask_monitors(&mut self) {
        let lasts = self.plan.last().map_or(Duration::ZERO, |(at, _)| *at) + Duration::from_secs(10);
        for _ in 0..ASKERS {
            let questions = 30 + self.rng.below(90) as u32;
            let witness = self.cluster.witness.clone();
            let commands = Commands::new(self.rng.next_u64(), questions, lasts * 2 / questions, witness);
            let asker = self.cluster.add_client(Purpose::Ask(commands));
            self.workers.push(asker);
        }
    }

    /// Makes a workload that lasts about as long as misfortunes do.
    fn work(&mut self, workers: usize) -> Purpose {
        let requests = match self.setup.operations {
            None => 30 + self.rng.below(60) as u32,
            Some(operations) => operations.div_ceil(workers as u32),
        };
        let lasts = self.plan.last().map_or(Duration::ZERO, |(at, _)| *at) + Duration::from_secs(2);
        let pause_max = lasts * Workload::REQUESTS_PER_PAUSE_MAX / requests;
        let workload = Workload::new(self.rng.next_u64(), requests, Duration::ZERO..=pause_max, self.objects);
        let workload = match self.setup.coding {
            Some(_) => workload.coded(self.setup.overwrites),
            None => workload,
        };
        let workload = match self.setup.coding.is_none() || self.setup.overwrites {
            true if self.setup.asks_for_more() => workload.with_calls(),
            _ => workload,
        };
        let workload = if self.setup.large { workload.with_large_operations() } else { workload };
        let workload = if self.setup.versions { workload.with_versions() } else { workload };
        let workload = match self.setup.balanced {
            true => workload.with_balanced_reads(self.rng.next_u64()),
            false => workload,
        };
        Purpose::Work(match self.setup.snapshots {
            true => workload.with_snapshots(self.snaps.clone()),
            false => workload,
        })
    }

    /// Has a step done at the time `at`, unless misfortunes are over by then.
    pub(crate) fn later(&mut self, at: Duration, what: impl FnOnce(&mut Run) + 'static) {
        self.at(at, Due::Later(Box::new(what)));
    }

    /// Has the operator give a command at the time `at`.
    pub(crate) fn command_at(&mut self, at: Duration, json: String) {
        self.at(at, Due::Command(json));
    }

    fn at(&mut self, at: Duration, due: Due) {
        self.dues_made += 1;
        self.due.insert((at, self.dues_made), due);
    }

    fn misfortunes(&mut self) -> Result<(), Violation> {
        let begin = self.cluster.world.now();
        let patient = self.setup.has(Mix::Replaced) || self.rng.one_in(2);
        for (at, fault) in self.plan.clone() {
            self.at(begin + at, Due::Fault(fault));
        }
        if self.snaps.may_go {
            let lasts_ms = self.plan.last().map_or(0, |(at, _)| at.as_millis() as u64) + 2000;
            for _ in 0..self.rng.below(5) {
                let at = begin + Duration::from_millis(self.rng.below(lasts_ms));
                self.later(at, Run::remove_snapshot);
            }
        }
        while let Some(((at, _), due)) = self.due.pop_first() {
            while self.cluster.world.now() < at {
                let next = at.min(self.cluster.world.now() + LOOK_EVERY);
                self.cluster.world.run_until(next);
                self.check_processes()?;
            }
            // When no more faults are to come, absent processes may come back all at once in the healing.
            let is_fault = |due: &Due| matches!(due, Due::Fault(_) | Due::KillMon | Due::KillOsd { .. });
            let last = !is_fault(&due) && !self.due.values().any(is_fault);
            self.happen(due)?;
            if last && !patient {
                break;
            }
        }
        Ok(())
    }

    fn happen(&mut self, due: Due) -> Result<(), Violation> {
        let now = self.cluster.world.now();
        match due {
            Due::Fault(fault) => {
                let name = fault.name();
                if self.fault(fault)? {
                    *self.struck.entry(name).or_default() += 1;
                }
            }
            Due::Later(what) => what(self),
            Due::StartOsd(osd) => {
                self.note(|| format!("osd.{osd} is started"));
                self.cluster.start_osd(osd);
            }
            Due::StartStopped { osd, away } => match self.cluster.is_stopping(osd) {
                true => self.at(now + STOPPED_LOOK_EVERY, Due::StartStopped { osd, away }),
                false => self.at(now + away, Due::StartOsd(osd)),
            },
            Due::StartMons => {
                self.note(|| "the monitors are started".to_owned());
                self.cluster.start_mons();
            }
            Due::KillMon => {
                self.note(|| "the monitor is killed".to_owned());
                self.kill_leader(Crash::Process);
                self.at(now + Duration::from_millis(300), Due::StartMons);
            }
            Due::KillOsd { osd, crash, away } => {
                self.note(|| format!("osd.{osd} is killed"));
                self.cluster.kill_osd(osd, crash);
                self.at(now + away, Due::StartOsd(osd));
            }
            Due::Unblock(a, b) => {
                self.note(|| format!("{a:?} reaches {b:?} again"));
                self.cluster.world.unblock(a, b);
            }
            Due::In(osd) => self.bring_in(osd),
            Due::Command(json) => {
                self.undo.remove(&json);
                self.cluster.command(self.operator, json);
            }
            Due::NormalDisks(osd) => self.cluster.normal_disks(osd),
        }
        Ok(())
    }

    /// Carries out a misfortune. Returns true if it struck.
    fn fault(&mut self, fault: Fault) -> Result<bool, Violation> {
        self.note(|| format!("{fault:?}"));
        let now = self.cluster.world.now();
        match fault {
            Fault::KillOsd { osd, crash, away } => {
                self.cluster.kill_osd(osd, crash);
                self.at(now + away.0, Due::StartOsd(osd));
            }
            Fault::StopOsd { osd, away } => {
                self.cluster.stop_osd(osd);
                self.at(now, Due::StartStopped { osd, away: away.0 });
            }
            Fault::FailDisk { osd, fault, away } => {
                self.cluster.fail_disk(osd, fault);
                self.at(now + DISK_FAILS_WITHIN + away.0, Due::StartOsd(osd));
            }
            Fault::Strand { osd, lasts, crash, away } => {
                let until = now + lasts.0;
                for other in (0..self.cluster.osd_count()).filter(|other| *other != osd) {
                    self.block(self.cluster.osd_node(osd), self.cluster.osd_node(other), until);
                }
                self.at(until, Due::KillOsd { osd, crash, away: away.0 });
            }
            Fault::Island { osd, lasts } => self.leave_alone(osd, now + lasts.0),
            Fault::KillMon { crash, away } => {
                self.kill_leader(crash);
                self.at(now + away.0, Due::StartMons);
            }
            Fault::KillAll { crash, away, spread } => {
                (0..self.cluster.mon_count()).for_each(|mon| self.cluster.kill_mon(mon, crash));
                (0..self.cluster.osd_count()).for_each(|osd| self.cluster.kill_osd(osd, crash));
                self.start_all(now + away.0, spread);
            }
            Fault::BootStorm { mon_after } => {
                (0..self.cluster.osd_count()).for_each(|osd| self.cluster.kill_osd(osd, Crash::Process));
                self.start_all(now + Duration::from_millis(10), Duration::ZERO);
                self.at(now + mon_after, Due::KillMon);
            }
            Fault::Out { osd, lasts } => {
                // At least as many OSDs as there are copies must stay in.
                let enough = self.cluster.osds_present() > self.out.len() + self.setup.members();
                if !enough || !self.cluster.is_present(osd) || !self.out.insert(osd) {
                    return Ok(false);
                }
                let json = format!("{{\"prefix\": \"osd out\", \"ids\": [\"{osd}\"]}}");
                self.cluster.command(self.operator, json);
                self.at(now + lasts.0, Due::In(osd));
            }
            // The code fixes the number of shards.
            Fault::Change { command, .. } if self.setup.coding.is_some() && command.contains("\"size\"") => {
                return Ok(false);
            }
            // With one copy less, there might be none left of an object that a lost OSD had.
            Fault::Change { command, .. } if self.any_lost && command.contains("\"size\"") => return Ok(false),
            Fault::Change { command, undo, lasts } => {
                self.made_smaller |= command.contains("\"size\"");
                self.cluster.command(self.operator, command);
                if let Some(undo) = undo {
                    self.undo.insert(undo.clone());
                    self.at(now + lasts.0, Due::Command(undo));
                }
            }
            Fault::SlowDisk { osd, times, lasts } => {
                self.cluster.slow_disk(osd, times);
                self.at(now + lasts.0, Due::NormalDisks(osd));
            }
            Fault::KillClient { client } => {
                let is_worker = self.workers.contains(&client);
                if !is_worker || self.cluster.client(client).is_none_or(|client| client.is_done()) {
                    return Ok(false);
                }
                self.cluster.kill_client(client);
                let purpose = self.work(self.workers.len());
                self.cluster.start_client(client, purpose);
            }
            Fault::SlowConnection { from, to, which, by, lasts } => {
                let nodes = self.cluster.nodes();
                let (from, to) = (nodes[from % nodes.len()], nodes[to % nodes.len()]);
                if !self.cluster.world.slow_connection(from, to, which, by) {
                    return Ok(false);
                }
                self.later(now + lasts.0, move |run| run.cluster.world.hasten_connections());
            }
            Fault::StartTwice { osd } => return self.cluster.start_twice(osd).map_err(Violation),
            Fault::EndSession { osd, other } => self.cluster.end_session(osd, other),
            Fault::Sever { a, b } => {
                let nodes = self.cluster.nodes();
                self.cluster.world.sever(nodes[a], nodes[b]);
            }
            Fault::Block { a, b, one_way, lasts } => {
                let nodes = self.cluster.nodes();
                self.block(nodes[a], nodes[b], now + lasts.0);
                if !one_way {
                    self.block(nodes[b], nodes[a], now + lasts.0);
                }
            }
            Fault::CutOff { osd, heard, hears, lasts } => {
                let (nodes, own) = (self.cluster.nodes(), self.cluster.osd_node(osd));
                // These are the monitors and the other OSDs.
                let cluster = nodes[..self.cluster.mon_count() + self.cluster.osd_count()].iter().copied();
                for other in cluster.filter(|node| *node != own) {
                    if !heard {
                        self.block(own, other, now + lasts.0);
                    }
                    if !hears {
                        self.block(other, own, now + lasts.0);
                    }
                }
            }
            Fault::Isolate { node, lasts } => {
                let nodes = self.cluster.nodes();
                for (index, other) in nodes.iter().enumerate() {
                    if index != node {
                        self.block(nodes[node], *other, now + lasts.0);
                        self.block(*other, nodes[node], now + lasts.0);
                    }
                }
            }
            Fault::Clock(fault) => fault.strike(self),
            Fault::Slowness(fault) => fault.strike(self),
            Fault::Membership(fault) => return Ok(fault.strike(self)),
            Fault::Quorum(fault) => return Ok(fault.strike(self)),
            Fault::Rot { osd, bits } => return self.rot_some(osd, bits),
        }
        Ok(true)
    }

    pub(crate) fn bring_in(&mut self, osd: usize) {
        if self.out.remove(&osd) {
            self.cluster.command(self.operator, format!("{{\"prefix\": \"osd in\", \"ids\": [\"{osd}\"]}}"));
        }
    }

    /// Kills the monitor that leads, or else one that runs.
    fn kill_leader(&mut self, crash: Crash) {
        let running = || (0..self.cluster.mon_count()).find(|mon| self.cluster.mon_runs(*mon));
        let mon = self.cluster.leading_mon().or_else(running).unwrap_or(0);
        self.cluster.kill_mon(mon, crash);
    }

    pub(crate) fn block(&mut self, from: NodeId, to: NodeId, until: Duration) {
        self.cluster.world.block(from, to);
        self.at(until, Due::Unblock(from, to));
    }

    fn start_all(&mut self, from: Duration, spread: Duration) {
        let spread_ms = spread.as_millis() as u64 + 1;
        let at = from + Duration::from_millis(self.rng.below(spread_ms));
        self.at(at, Due::StartMons);
        for osd in 0..self.cluster.osd_count() {
            let at = from + Duration::from_millis(self.rng.below(spread_ms));
            self.at(at, Due::StartOsd(osd));
        }
    }

    /// Ends all misfortunes. Then everything must become clean, and all clients must be answered. Returns the time that
    /// it took.
    fn heal(&mut self) -> Result<Duration, Violation> {
        self.due.clear();
        (self.rotates_at, self.key_trouble_at) = (None, None);
        self.cluster.world.unblock_all();
        self.cluster.world.hasten_all();
        self.cluster.world.take_no_time();
        self.cluster.world.hasten_connections();
        self.set_clocks_right();
        (0..self.cluster.osd_count()).for_each(|osd| self.cluster.normal_disks(osd));
        (0..self.cluster.mon_count()).for_each(|mon| self.cluster.slow_mon_disk(mon, 1));
        // An OSD that was asked to stop does so before it is started again.
        let stopped_by = self.cluster.world.now() + STOP_MAX;
        while (0..self.cluster.osd_count()).any(|osd| self.cluster.is_stopping(osd)) {
            if self.cluster.world.now() >= stopped_by {
                return Err(Violation(format!("an OSD that was asked to stop still runs after {STOP_MAX:?}")));
            }
            self.cluster.world.run_for(STOPPED_LOOK_EVERY);
            self.check_processes()?;
        }
        self.cluster.start_mons();
        for osd in 0..self.cluster.osd_count() {
            self.cluster.start_osd(osd);
            self.bring_in(osd);
        }
        for undo in std::mem::take(&mut self.undo) {
            self.cluster.command(self.operator, undo);
        }
        if self.snaps.may_go && self.rng.one_in(2) {
            self.remove_snapshot();
        }
        if self.setup.splits {
            // The remaining changes of placement happen at once.
            self.cluster.command(self.operator, splits::careful(false));
        }
        self.note(|| "misfortunes are over".to_owned());
        let begin = self.cluster.world.now();
        let workers = self.workers.clone();
        let mut clean_since = None;
        self.wait("healing", HEAL_TIME_MAX, |cluster| {
            let now = cluster.world.now();
            if let Err(why) = cluster.is_clean().and_then(|()| splits::are_done(cluster)) {
                clean_since = None;
                return Err(why);
            }
            for worker in workers.iter().filter_map(|worker| cluster.client(*worker)) {
                if !worker.is_done() {
                    let waits: Vec<String> = worker.waits_for().map(|operation| format!("\n    {operation}")).collect();
                    return Err(format!("a client still waits, for{}", waits.concat()));
                }
            }
            let since = *clean_since.get_or_insert(now);
            if now >= since + SETTLED_AFTER { Ok(()) } else { Err("it has just become clean".to_owned()) }
        })?;
        let pool = self.cluster.find_pool();
        let known = &self.cluster.monitor().expect("it is clean").state().osdmap().pools[&pool];
        self.groups = known.pg_num;
        if known.last_pg_merge_meta.ready_epoch > types::Epoch(0) {
            self.struck.insert(splits::MERGED, 1);
        }
        Ok(self.cluster.world.now() - begin)
    }

    /// Waits until everything has stayed clean. Connections that break may have taken an OSD out of the map again, and
    /// damage that a scrub found is repaired only after the report. The comparison needs a state in which nothing
    /// changes.
    pub(crate) fn settle(&mut self) -> Result<(), Violation> {
        self.cluster.world.calm();
        let mut clean_since = None;
        let mut epoch = None;
        self.wait("staying clean", HEAL_TIME_MAX, |cluster| {
            // The balancer moves groups once all is clean, and reports about that come late.
            let newest = cluster.monitor().map(|monitor| monitor.state().osdmap().epoch);
            let is_same = std::mem::replace(&mut epoch, newest) == newest;
            if let Err(why) = cluster.is_clean().and_then(|()| cluster.is_trimmed()) {
                clean_since = None;
                return Err(why);
            }
            let now = cluster.world.now();
            let since = *clean_since.get_or_insert(now);
            if !is_same {
                clean_since = None;
                return Err("the map has just changed".to_owned());
            }
            if now >= since + SETTLED_AFTER { Ok(()) } else { Err("it has just become clean".to_owned()) }
        })
    }

    /// Has every watcher notify the others once more. All must answer now.
    fn tell_watchers(&mut self) -> Result<(), Violation> {
        let watchers = self.watchers.clone();
        let all = |cluster: &Cluster, is: fn(&ClientProcess) -> bool| {
            let waits = |watcher: &&usize| !cluster.client(**watcher).is_some_and(is);
            match watchers.iter().find(waits) {
                Some(watcher) => Err(format!("watching client {watcher} is not done")),
                None => Ok(()),
            }
        };
        self.wait("watching", HEAL_TIME_MAX, |cluster| all(cluster, ClientProcess::is_steady))?;
        watchers.iter().for_each(|watcher| self.cluster.be_calm(*watcher));
        self.wait("telling watchers", HEAL_TIME_MAX, |cluster| all(cluster, ClientProcess::is_done))?;
        let clients = watchers.iter().filter_map(|watcher| self.cluster.client(*watcher)?.witnessed());
        watchers_are_told(clients)
    }

    /// Has a last client read and list everything.
    fn look_at_everything(&mut self) -> Result<(), Violation> {
        let newest = self.snaps.newest.load(Ordering::Relaxed);
        let looker =
            self.cluster.add_client(Purpose::look(self.objects, (1..=newest).filter(|snap| self.snaps.lasts(*snap))));
        self.wait_for_client("a last look", looker)?;
        let looker = self.cluster.client(looker).expect("just seen");
        let mut exist: BTreeMap<ObjectName, bool> = BTreeMap::new();
        let mut listed = looker.listed().to_vec();
        listed.retain(|(_, name)| !name.starts_with(PREFIX.as_bytes()));
        for operation in looker.history() {
            if let (Ask::Read, Some((_, Answer::Failed(Errno::EMSGSIZE)))) = (&operation.ask, &operation.answer) {
                exist.insert(operation.object, true);
            }
            if let (Ask::Read, Some((_, Answer::Seen(state)))) = (&operation.ask, &operation.answer) {
                exist.insert(operation.object, state.is_some());
                if newest > 0 && state.is_none() {
                    // In Ceph, too, an object that was removed and still exists at snapshots is listed.
                    let name = (operation.object.nspace().to_vec(), operation.object.to_string().into_bytes());
                    listed.retain(|listed| *listed != name);
                }
            }
        }
        listing_agrees_with_objects(&listed, &exist)
    }

    /// Lets bits of objects rot on one disk. A deep scrub must find and repair them.
    fn rot(&mut self) -> Result<(), Violation> {
        let osds: Vec<usize> = (0..self.cluster.osd_count()).filter(|osd| self.cluster.is_present(*osd)).collect();
        let any = osds[self.rng.below(osds.len() as u64) as usize];
        // Earlier rot may not be mended yet, so copies on the other disks must stay whole.
        let osd = if self.struck.contains_key(ROTTED) { ROTTEN } else { any };
        let bits = 1 + self.rng.below(3) as u32;
        if self.rot_some(osd, bits)? {
            *self.struck.entry(ROTTED).or_default() += 1;
        }
        Ok(())
    }

    pub(crate) fn scrub_everything(&mut self) -> Result<(), Violation> {
        let pool = self.cluster.find_pool();
        // By then, a scrub that began before bits rotted has been reported, and does not pass for one that is ordered
        // now.
        let settled = self.cluster.world.now() + SETTLED_AFTER;
        self.wait("what is told", 2 * SETTLED_AFTER, |cluster| {
            if cluster.world.now() >= settled { Ok(()) } else { Err("not yet".to_owned()) }
        })?;
        let before: BTreeMap<types::PgId, _> = self.scrubbed(pool).collect();
        let by_any_clock = self.setup.has(Mix::Sleeps);
        let mut scrubbed = Ok(());
        // An OSD whose connection is reset at that moment does not get the order.
        for _ in 0..SCRUB_ORDERS {
            self.cluster.command(self.operator, r#"{"prefix": "osd deep-scrub", "who": "all"}"#.to_owned());
            scrubbed = self.wait("a deep scrub", SCRUB_TIME_MAX / SCRUB_ORDERS, |cluster| {
                cluster.is_clean()?;
                let pgs = &cluster.monitor().expect("it is clean").volatile().pgs;
                // If clocks jump back, a later scrub may have an earlier time.
                let is_old = |at: types::Utime, before| if by_any_clock { at == before } else { at <= before };
                let left = before.iter().filter(|(id, at)| is_old(pgs[id].report.scrub.deep_at, **at)).count();
                if left == 0 { Ok(()) } else { Err(format!("{left} groups are not scrubbed")) }
            });
            if scrubbed.is_ok() {
                break;
            }
        }
        scrubbed
    }

    /// The time of each group's last deep scrub.
    fn scrubbed(&self, pool: types::PoolId) -> impl Iterator<Item = (types::PgId, types::Utime)> {
        let pgs = &self.cluster.monitor().expect("the monitor runs").volatile().pgs;
        pgs.iter().filter(move |(id, _)| id.pool == pool).map(|(id, pg)| (*id, pg.report.scrub.deep_at))
    }

    /// Objects and bytes of each group of the pool, as the monitor counts them.
    fn statistics(&mut self) -> BTreeMap<types::PgId, (u64, u64)> {
        let pool = self.cluster.find_pool();
        let pgs = &self.cluster.monitor().expect("the monitor runs").volatile().pgs;
        let pgs = pgs.iter().filter(|(id, _)| id.pool == pool);
        pgs.map(|(id, pg)| (*id, (pg.report.objects, pg.report.bytes))).collect()
    }

    /// Ends every OSD and compares the content of their disks. Returns the number of objects and bytes of each group.
    fn compare_replicas(&mut self) -> Result<BTreeMap<types::PgId, (u64, u64)>, Violation> {
        let crash = if self.rng.one_in(2) { Crash::Power } else { Crash::Process };
        let (history, removed) = (self.cluster.history(), &self.removed_snaps);
        let is_gone = |object: &ObjectId, snap: SnapId| is_gone(&history, removed, object, snap.0);
        match self.setup.coding {
            Some(coding) => all_shards_agree(&mut self.cluster, self.groups, coding, &is_gone, crash),
            None => all_replicas_are_identical(&mut self.cluster, self.groups, &is_gone, crash),
        }
    }
}
