//! One run: a cluster, a workload, misfortunes, an end in peace, and the checks.

use crate::check::{
    Violation, all_replicas_are_identical, all_shards_agree, histories_are_linearizable, listing_agrees_with_objects,
    pipelined_updates_keep_their_order, updates_are_applied_once,
};
use crate::client_process::Purpose;
use crate::cluster::{COPIES, Cluster, ClusterConfig};
use crate::faults::{Fault, Mix};
use crate::history::{Answer, ObjectName};
use crate::stored::Stored;
use crate::timeline;
use crate::workload::{Workload, fill, without_omap};
use reactor::sim::{Crash, NodeId, Rng};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// How often it is looked whether something is done.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A new cluster must be clean within this time.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// Once misfortunes have ended, everything must be clean and answered within this time.
const HEAL_TIME_MAX: Duration = Duration::from_secs(180);
/// An orderly stop takes at most this long, also in the middle of a start from a slow disk.
const STOP_MAX: Duration = Duration::from_secs(20);
/// How often it is looked whether an OSD has stopped.
const STOPPED_LOOK_EVERY: Duration = Duration::from_millis(20);
/// A disk is used within this time.
const DISK_FAILS_WITHIN: Duration = Duration::from_millis(500);
/// One in so many seeds has bits rot at the end.
const ROT_ONE_IN: u64 = 3;
/// Everything must be read and repaired within this time.
const SCRUB_TIME_MAX: Duration = Duration::from_secs(120);
/// A deep scrub is ordered so often at most.
const SCRUB_ORDERS: u32 = 6;
/// Statistics are at most this old; a state that lasts longer is the true one.
const SETTLED_AFTER: Duration = Duration::from_secs(6);

/// From this seed on, pools are erasure-coded.
pub const CODED_SEEDS: u64 = 1 << 40;

/// What a run has shown.
#[derive(Clone, Debug)]
pub struct Report {
    pub seed: u64,
    pub mix: Mix,
    /// A digest of everything that happened.
    pub fingerprint: u64,
    pub operations: usize,
    /// Operations that were never answered.
    pub in_doubt: usize,
    /// Virtual time.
    pub took: Duration,
    /// From the end of misfortunes until all was clean and answered.
    pub healed_in: Duration,
}

/// A run that has shown a fault.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub mix: Mix,
    pub violation: Violation,
    /// The last of what happened.
    pub timeline: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LINES: usize = 80;
        let from = self.timeline.len().saturating_sub(LINES);
        writeln!(f, "the last of what happened under seed {}:", self.seed)?;
        self.timeline[from..].iter().try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "\nseed {} ({:?}): {}", self.seed, self.mix, self.violation.0)?;
        write!(f, "again, with all lines: cargo run -p sim -- --seed {} --timeline", self.seed)
    }
}

/// Runs one seed; if something does not hold, once more for its timeline.
pub fn check_seed(seed: u64) -> Result<Report, Box<Failure>> {
    run(seed).map_err(|violation| {
        let (again, timeline) = timeline::recorded(|| run(seed));
        let violation = match again {
            Err(again) if again == violation => violation,
            other => Violation(format!("{}\n(the same seed then gave {other:?})", violation.0)),
        };
        Box::new(Failure { seed, mix: Mix::of(seed), violation, timeline })
    })
}

/// Runs one seed. A panic counts as a violation.
pub fn run(seed: u64) -> Result<Report, Violation> {
    catch_unwind(AssertUnwindSafe(|| Run::new(seed).complete())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Violation(format!("panic: {}", text.unwrap_or_default())))
    })
}

/// Something that is to happen.
enum Due {
    Fault(Fault),
    StartOsd(usize),
    /// An OSD that has been asked to stop is started again, so long after it has.
    StartStopped {
        osd: usize,
        away: Duration,
    },
    StartMon,
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
}

struct Run {
    seed: u64,
    mix: Mix,
    /// For the plan; the world has its own.
    rng: Rng,
    cluster: Cluster,
    /// Misfortunes, with their times since the workload's beginning.
    plan: Vec<(Duration, Fault)>,
    due: BTreeMap<(Duration, u64), Due>,
    dues_made: u64,
    workers: Vec<usize>,
    /// The client that gives commands.
    operator: usize,
    groups: u32,
    ballast: u8,
    /// OSDs that the operator has put out.
    out: BTreeSet<usize>,
    /// Commands that take back what the operator has changed.
    undo: BTreeSet<String>,
    /// Data and parity shards, if the pool is erasure-coded.
    coding: Option<(u8, u8)>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mix = Mix::of(seed);
        let mut rng = Rng::new(seed ^ 0x5eed);
        let short_logs = rng.one_in(3);
        let groups = if short_logs { 1 + rng.below(2) as u32 } else { 1 << rng.below(5) };
        // The smaller, the more often it wraps around, and the more checkpoints there are.
        let wal_bytes = (256 << 10) << rng.below(4);
        let ballast = if rng.one_in(2) { 0 } else { 10 + rng.below(50) as u8 };
        let out_soon = matches!(mix, Mix::Replaced) || (mix == Mix::Everything && rng.one_in(2));
        let config = ClusterConfig {
            // Some more than there are copies, where data is to move; there are at most four shards.
            osds: if seed >= CODED_SEEDS || out_soon || mix == Mix::Moved {
                4 + rng.below(2) as usize
            } else {
                3 + rng.below(2) as usize
            },
            world: mix.world(&mut rng),
            down_out_interval: Duration::from_secs(if out_soon { 3 + rng.below(6) } else { 600 }),
            fixed_ports: rng.one_in(2),
            groups,
            log_entries_min: if short_logs { 40 } else { 1000 },
            // Few, so that there are many steps at which it can be interrupted.
            backfill_objects: 1 + (seed / 3 % 8) as usize,
            wal_bytes,
            little_memory: seed / Mix::COUNT % 2 == 1,
        };
        let coding = (seed >= CODED_SEEDS).then(|| (2, 1 + rng.below(2) as u8));
        let cluster = Cluster::new(seed, config);
        Run {
            seed,
            mix,
            rng,
            cluster,
            plan: Vec::new(),
            due: BTreeMap::new(),
            dues_made: 0,
            workers: Vec::new(),
            operator: 0,
            groups,
            ballast,
            out: BTreeSet::new(),
            undo: BTreeSet::new(),
            coding,
        }
    }

    fn complete(mut self) -> Result<Report, Violation> {
        self.start()?;
        self.misfortunes()?;
        let healed_in = self.heal()?;
        self.look_at_everything()?;
        if self.seed.is_multiple_of(ROT_ONE_IN) {
            self.rot()?;
        }
        let history = self.cluster.history();
        updates_are_applied_once(&history)?;
        histories_are_linearizable(&history)?;
        pipelined_updates_keep_their_order(&history)?;
        self.compare_replicas()?;
        Ok(Report {
            seed: self.seed,
            mix: self.mix,
            fingerprint: self.cluster.world.fingerprint(),
            operations: history.len(),
            in_doubt: history.iter().filter(|operation| operation.answer.is_none()).count(),
            took: self.cluster.world.now(),
            healed_in,
        })
    }

    fn note(&self, line: impl FnOnce() -> String) {
        timeline::note(self.cluster.world.now(), line);
    }

    fn check_processes(&mut self) -> Result<(), Violation> {
        for osd in self.cluster.take_failed() {
            self.note(|| format!("osd.{osd} has stopped because its disk failed"));
            self.at(self.cluster.world.now() + DISK_FAILS_WITHIN, Due::StartOsd(osd));
        }
        self.cluster.check_processes().map_err(Violation)
    }

    /// Lets time pass until `done`, at most `time`.
    fn wait(
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
            // A disk that fails late does so after misfortunes are over.
            while let Some(entry) = self.due.first_entry().filter(|due| due.key().0 <= self.cluster.world.now()) {
                let due = entry.remove();
                self.happen(due);
            }
        }
    }

    fn start(&mut self) -> Result<(), Violation> {
        let osds = self.cluster.osd_count();
        self.cluster.start_mon();
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
        self.operator = self.cluster.add_client(match self.coding {
            Some((k, m)) => Purpose::OperateCoded { k, m },
            None => Purpose::Operate,
        });
        self.wait_for_client("making the pool", self.operator)?;
        self.cluster.find_pool();
        if self.ballast > 0 {
            let mut left = fill(&mut self.rng, self.ballast);
            if self.coding.is_some() {
                without_omap(&mut left);
            }
            let filler = self.cluster.add_client(Purpose::Script { left, list: false });
            self.wait_for_client("filling the pool", filler)?;
        } else if !self.rng.one_in(4) {
            self.wait("becoming clean", START_TIME_MAX, Cluster::is_clean)?;
        }
        let workers = 2 + self.rng.below(2) as usize;
        let clients = self.cluster.client_count() + workers;
        self.plan = self.mix.plan(&mut self.rng, osds, clients);
        for _ in 0..workers {
            let purpose = self.work();
            let worker = self.cluster.add_client(purpose);
            self.workers.push(worker);
        }
        Ok(())
    }

    fn wait_for_client(&mut self, what: &str, client: usize) -> Result<(), Violation> {
        self.wait(what, HEAL_TIME_MAX, |cluster| match cluster.client(client) {
            Some(client) if client.is_done() => Ok(()),
            _ => Err("it is not answered".to_owned()),
        })
    }

    /// A workload that lasts about as long as misfortunes do.
    fn work(&mut self) -> Purpose {
        let requests = 30 + self.rng.below(60) as u32;
        let lasts = self.plan.last().map_or(Duration::ZERO, |(at, _)| *at) + Duration::from_secs(2);
        let pause_max = lasts * Workload::REQUESTS_PER_PAUSE_MAX / requests;
        let workload = Workload::new(self.rng.next_u64(), requests, Duration::ZERO..=pause_max, self.ballast);
        Purpose::Work(if self.coding.is_some() { workload.coded() } else { workload })
    }

    fn at(&mut self, at: Duration, due: Due) {
        self.dues_made += 1;
        self.due.insert((at, self.dues_made), due);
    }

    fn misfortunes(&mut self) -> Result<(), Violation> {
        let begin = self.cluster.world.now();
        let patient = self.mix == Mix::Replaced || self.rng.one_in(2);
        for (at, fault) in self.plan.clone() {
            self.at(begin + at, Due::Fault(fault));
        }
        while let Some(((at, _), due)) = self.due.pop_first() {
            while self.cluster.world.now() < at {
                let next = at.min(self.cluster.world.now() + LOOK_EVERY);
                self.cluster.world.run_until(next);
                self.check_processes()?;
            }
            // Once there are no more faults, what is away may come back with the healing, all at once.
            let is_fault = |due: &Due| matches!(due, Due::Fault(_) | Due::KillMon | Due::KillOsd { .. });
            let last = !is_fault(&due) && !self.due.values().any(is_fault);
            self.happen(due);
            if last && !patient {
                break;
            }
        }
        Ok(())
    }

    fn happen(&mut self, due: Due) {
        let now = self.cluster.world.now();
        match due {
            Due::Fault(fault) => self.fault(fault),
            Due::StartOsd(osd) => {
                self.note(|| format!("osd.{osd} is started"));
                self.cluster.start_osd(osd);
            }
            Due::StartStopped { osd, away } => match self.cluster.is_stopping(osd) {
                true => self.at(now + STOPPED_LOOK_EVERY, Due::StartStopped { osd, away }),
                false => self.at(now + away, Due::StartOsd(osd)),
            },
            Due::StartMon => {
                self.note(|| "the monitor is started".to_owned());
                self.cluster.start_mon();
            }
            Due::KillMon => {
                self.note(|| "the monitor is killed".to_owned());
                self.cluster.kill_mon(Crash::Process);
                self.at(now + Duration::from_millis(300), Due::StartMon);
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
    }

    fn fault(&mut self, fault: Fault) {
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
            Fault::KillMon { crash, away } => {
                self.cluster.kill_mon(crash);
                self.at(now + away.0, Due::StartMon);
            }
            Fault::KillAll { crash, away, spread } => {
                self.cluster.kill_mon(crash);
                (0..self.cluster.osd_count()).for_each(|osd| self.cluster.kill_osd(osd, crash));
                self.start_all(now + away.0, spread);
            }
            Fault::BootStorm { mon_after } => {
                (0..self.cluster.osd_count()).for_each(|osd| self.cluster.kill_osd(osd, Crash::Process));
                self.start_all(now + Duration::from_millis(10), Duration::ZERO);
                self.at(now + mon_after, Due::KillMon);
            }
            Fault::Out { osd, lasts } => {
                // At least as many as there are copies must stay in.
                let copies = self.coding.map_or(COPIES, |(k, m)| k + m);
                if self.cluster.osd_count() - self.out.len() > usize::from(copies) && self.out.insert(osd) {
                    let json = format!("{{\"prefix\": \"osd out\", \"ids\": [\"{osd}\"]}}");
                    self.cluster.command(self.operator, json);
                    self.at(now + lasts.0, Due::In(osd));
                }
            }
            // The number of shards is the code's.
            Fault::Change { command, .. } if self.coding.is_some() && command.contains("\"size\"") => {}
            Fault::Change { command, undo, lasts } => {
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
                if is_worker && self.cluster.client(client).is_some_and(|client| !client.is_done()) {
                    self.cluster.kill_client(client);
                    let purpose = self.work();
                    self.cluster.start_client(client, purpose);
                }
            }
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
                let nodes = self.cluster.nodes();
                // The monitor and the other OSDs.
                let others = nodes[..=self.cluster.osd_count()].iter().filter(|node| **node != nodes[1 + osd]);
                for other in others.copied() {
                    if !heard {
                        self.block(nodes[1 + osd], other, now + lasts.0);
                    }
                    if !hears {
                        self.block(other, nodes[1 + osd], now + lasts.0);
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
        }
    }

    fn bring_in(&mut self, osd: usize) {
        if self.out.remove(&osd) {
            self.cluster.command(self.operator, format!("{{\"prefix\": \"osd in\", \"ids\": [\"{osd}\"]}}"));
        }
    }

    fn block(&mut self, from: NodeId, to: NodeId, until: Duration) {
        self.cluster.world.block(from, to);
        self.at(until, Due::Unblock(from, to));
    }

    fn start_all(&mut self, from: Duration, spread: Duration) {
        let spread_ms = spread.as_millis() as u64 + 1;
        let at = from + Duration::from_millis(self.rng.below(spread_ms));
        self.at(at, Due::StartMon);
        for osd in 0..self.cluster.osd_count() {
            let at = from + Duration::from_millis(self.rng.below(spread_ms));
            self.at(at, Due::StartOsd(osd));
        }
    }

    /// Ends all misfortunes; then everything must become clean, and everybody be answered.
    fn heal(&mut self) -> Result<Duration, Violation> {
        self.due.clear();
        self.cluster.world.unblock_all();
        (0..self.cluster.osd_count()).for_each(|osd| self.cluster.normal_disks(osd));
        // Whoever has been asked to stop does so before it is started again.
        let stopped_by = self.cluster.world.now() + STOP_MAX;
        while (0..self.cluster.osd_count()).any(|osd| self.cluster.is_stopping(osd)) {
            if self.cluster.world.now() >= stopped_by {
                return Err(Violation(format!("an OSD that was asked to stop still runs after {STOP_MAX:?}")));
            }
            self.cluster.world.run_for(STOPPED_LOOK_EVERY);
            self.check_processes()?;
        }
        self.cluster.start_mon();
        for osd in 0..self.cluster.osd_count() {
            self.cluster.start_osd(osd);
            self.bring_in(osd);
        }
        for undo in std::mem::take(&mut self.undo) {
            self.cluster.command(self.operator, undo);
        }
        self.note(|| "misfortunes are over".to_owned());
        let begin = self.cluster.world.now();
        let workers = self.workers.clone();
        let mut clean_since = None;
        self.wait("healing", HEAL_TIME_MAX, |cluster| {
            let now = cluster.world.now();
            if let Err(why) = cluster.is_clean() {
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
        Ok(self.cluster.world.now() - begin)
    }

    /// A last client reads and lists everything.
    fn look_at_everything(&mut self) -> Result<(), Violation> {
        let looker = self.cluster.add_client(Purpose::look(self.ballast));
        self.wait_for_client("a last look", looker)?;
        let looker = self.cluster.client(looker).expect("just seen");
        let mut exist: BTreeMap<ObjectName, bool> = BTreeMap::new();
        for operation in looker.history() {
            if let Some((_, Answer::Seen(state))) = &operation.answer {
                exist.insert(operation.object, state.is_some());
            }
        }
        listing_agrees_with_objects(looker.listed(), &exist)
    }

    /// Bits of objects rot on one disk. A deep scrub must find and repair that.
    fn rot(&mut self) -> Result<(), Violation> {
        let pool = self.cluster.find_pool();
        let osd = self.rng.below(self.cluster.osd_count() as u64) as usize;
        let failed = |why: String| Violation(format!("the disk of osd.{osd}: {why}"));
        let map = self.cluster.monitor().expect("the monitor runs").state().osdmap().clone();
        let mut runs = Vec::new();
        {
            let config = self.cluster.store_config(osd).clone();
            let mut stored = Stored::open(self.cluster.disks_of(osd), config).map_err(failed)?;
            for seed in 0..self.groups {
                let pg = types::PgId { pool, seed };
                // Of shards only the one that it acts for: another one may be on its way out, and nobody reads that.
                let placed = map.pg_to_up_acting(pg).expect("the pool can be placed");
                let shard = placed.acting.iter().position(|other| *other == types::OsdId(osd as i32));
                let pg = match (self.coding, shard) {
                    (None, _) => pg,
                    (Some(_), Some(shard)) => pg.of_shard(shard as u8),
                    (Some(_), None) => continue,
                };
                let (from, until) = osdmap::pg_range(pg, self.groups);
                runs.extend(stored.data_runs(&from, &until).map_err(failed)?);
            }
        }
        if runs.is_empty() {
            return Ok(());
        }
        for _ in 0..1 + self.rng.below(3) {
            let run = runs[self.rng.below(runs.len() as u64) as usize].clone();
            self.note(|| format!("a bit rots on the disk of osd.{osd} in {run:?}"));
            self.cluster.disk(osd).rot(run, 1, &mut self.rng);
        }
        // A scrub that began before bits rotted has been told of by then, and is not taken for one that is ordered now.
        let settled = self.cluster.world.now() + SETTLED_AFTER;
        self.wait("what is told", 2 * SETTLED_AFTER, |cluster| {
            if cluster.world.now() >= settled { Ok(()) } else { Err("not yet".to_owned()) }
        })?;
        let before: BTreeMap<types::PgId, _> = self.scrubbed(pool).collect();
        let mut scrubbed = Ok(());
        // An OSD whose connection is reset just then does not hear of the order.
        for _ in 0..SCRUB_ORDERS {
            self.cluster.command(self.operator, r#"{"prefix": "osd deep-scrub", "who": "all"}"#.to_owned());
            scrubbed = self.wait("a deep scrub", SCRUB_TIME_MAX / SCRUB_ORDERS, |cluster| {
                cluster.is_clean()?;
                let pgs = &cluster.monitor().expect("it is clean").volatile().pgs;
                let left = before.iter().filter(|(id, at)| pgs[id].report.scrub.deep_at <= **at).count();
                if left == 0 { Ok(()) } else { Err(format!("{left} groups are not scrubbed")) }
            });
            if scrubbed.is_ok() {
                break;
            }
        }
        scrubbed
    }

    /// When each group was last scrubbed deeply.
    fn scrubbed(&self, pool: types::PoolId) -> impl Iterator<Item = (types::PgId, types::Utime)> {
        let pgs = &self.cluster.monitor().expect("the monitor runs").volatile().pgs;
        pgs.iter().filter(move |(id, _)| id.pool == pool).map(|(id, pg)| (*id, pg.report.scrub.deep_at))
    }

    /// Ends every OSD and compares what their disks hold.
    fn compare_replicas(&mut self) -> Result<(), Violation> {
        let crash = if self.rng.one_in(2) { Crash::Power } else { Crash::Process };
        match self.coding {
            Some(coding) => all_shards_agree(&mut self.cluster, self.groups, coding, crash),
            None => all_replicas_are_identical(&mut self.cluster, self.groups, crash),
        }
    }
}
