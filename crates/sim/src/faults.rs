//! Misfortunes of a run and their times, drawn from the seed before the run begins. Families of misfortunes have files
//! of their own, which draw them and carry them out.

pub mod clocks;
mod islands;
mod key_troubles;
mod lies;
pub(crate) mod loss;
pub mod membership;
pub mod quorum;
pub(crate) mod rot;
mod rotation;
pub mod slowness;

use crate::client_process::POOL;
use crate::setup::Setup;
use clocks::ClockFault;
use membership::MembershipFault;
use quorum::QuorumFault;
use reactor::sim::{Crash, DiskFault, Rng, Sleep, Stalls, WorldConfig};
use slowness::SlownessFault;
use std::time::Duration;
use types::Errno;

const EIO: i32 = Errno::EIO.0;

/// The time for which something is away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Away(pub Duration);

/// One misfortune.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    KillOsd {
        osd: usize,
        crash: Crash,
        away: Away,
    },
    /// An operator asks an OSD to stop. The OSD tells the monitor that it goes.
    StopOsd {
        osd: usize,
        away: Away,
    },
    /// A write or a flush fails. The OSD must stop, and comes back later.
    FailDisk {
        osd: usize,
        fault: DiskFault,
        away: Away,
    },
    /// An OSD hears its peers, and they do not hear it. It therefore has updates that nobody else has when it is
    /// killed.
    Strand {
        osd: usize,
        lasts: Away,
        crash: Crash,
        away: Away,
    },
    /// An OSD reaches nobody but clients that only read, and these reach nobody but the OSD. None of them learns what
    /// the others agree on.
    Island {
        osd: usize,
        lasts: Away,
    },
    /// The monitor that leads is killed.
    KillMon {
        crash: Crash,
        away: Away,
    },
    /// All monitors and OSDs are killed at once. They come back one by one within `spread`.
    KillAll {
        crash: Crash,
        away: Away,
        spread: Duration,
    },
    /// All OSDs start again at once. The monitor that leads does so, too, in the middle of it.
    BootStorm {
        mon_after: Duration,
    },
    /// An OSD is put out of the data distribution although it runs, and later in again.
    Out {
        osd: usize,
        lasts: Away,
    },
    /// The operator changes something, and later undoes it.
    Change {
        command: String,
        undo: Option<String>,
        lasts: Away,
    },
    /// Every request to a disk takes `times` times as long.
    SlowDisk {
        osd: usize,
        times: u32,
        lasts: Away,
    },
    /// A client ends, and another one takes its place.
    KillClient {
        client: usize,
    },
    /// Connections between two nodes are reset.
    Sever {
        a: usize,
        b: usize,
    },
    /// No message gets from one node to the other. None gets back either, unless `one_way` is set.
    Block {
        a: usize,
        b: usize,
        one_way: bool,
        lasts: Away,
    },
    /// An OSD is cut off from monitors and other OSDs. `heard`: they still hear it. `hears`: it still hears them.
    /// Clients reach it.
    CutOff {
        osd: usize,
        heard: bool,
        hears: bool,
        lasts: Away,
    },
    /// A node is cut off from all others.
    Isolate {
        node: usize,
        lasts: Away,
    },
    /// An OSD ends its session with another one, and all messages on their way in it are lost.
    EndSession {
        osd: usize,
        other: usize,
    },
    /// One of the connections from one node to another is slow. Others between the two are not.
    SlowConnection {
        from: usize,
        to: usize,
        which: u64,
        by: Duration,
        lasts: Away,
    },
    /// Another process tries to open the disks of an OSD that runs.
    StartTwice {
        osd: usize,
    },
    Clock(ClockFault),
    Slowness(SlownessFault),
    Membership(MembershipFault),
    Quorum(QuorumFault),
    /// Bits of an object rot on an OSD's disk.
    Rot {
        osd: usize,
        bits: u32,
    },
}

impl Fault {
    /// Name under which reports count that the cluster is full.
    pub const FULL: &str = "cluster full";

    /// The name under which reports count it.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::KillOsd { crash: Crash::Process, .. } => "OSD killed",
            Fault::KillOsd { crash: Crash::Power, .. } => "OSD lost power",
            Fault::StopOsd { .. } => "OSD stopped in order",
            Fault::FailDisk { fault: DiskFault::LoseFlush(_), .. } => "flush failed and lost",
            Fault::FailDisk { .. } => "disk request failed",
            Fault::Strand { .. } => "OSD stranded, then killed",
            Fault::Island { .. } => "OSD alone with readers",
            Fault::KillMon { .. } => "monitor killed",
            Fault::KillAll { .. } => "everything killed",
            Fault::BootStorm { .. } => "all OSDs restarted at once",
            Fault::Out { .. } => "OSD out and in",
            Fault::Change { command, .. } if command.contains("full-ratio") => Fault::FULL,
            Fault::Change { .. } => "map or pool changed",
            Fault::SlowDisk { .. } => "slow disk",
            Fault::KillClient { .. } => "client killed",
            Fault::Sever { .. } => "connections reset",
            Fault::Block { one_way: true, .. } => "link cut one way",
            Fault::Block { .. } => "link cut",
            Fault::CutOff { heard, hears, .. } if heard != hears => "OSD cut off one way",
            Fault::CutOff { .. } => "OSD cut off",
            Fault::Isolate { .. } => "node isolated",
            Fault::EndSession { .. } => "session of OSDs ended",
            Fault::SlowConnection { .. } => "one connection slow",
            Fault::StartTwice { .. } => "OSD started twice",
            Fault::Clock(ClockFault::Rate { .. }) => "clock rate changed",
            Fault::Clock(ClockFault::Skew { .. }) => "wall clock jumped",
            Fault::Clock(ClockFault::Sleep { sleep: Sleep::Counted, .. }) => "machine slept",
            Fault::Clock(ClockFault::Sleep { .. }) => "machine paused with its clocks",
            Fault::Slowness(SlownessFault::Pause { .. }) => "process paused",
            Fault::Slowness(SlownessFault::SlowLink { .. }) => "slow link",
            Fault::Membership(MembershipFault::Add) => "OSD added",
            Fault::Membership(MembershipFault::LoseDisk { .. }) => "disks lost, OSD made anew",
            Fault::Membership(MembershipFault::Remove { .. }) => "OSD lost and removed",
            Fault::Quorum(fault) => fault.name(),
            Fault::Rot { .. } => "bits rotted",
        }
    }
}

/// A kind of misfortunes that a run can have. The seed chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// Delays only.
    Calm,
    /// Connections are reset.
    Resets,
    /// OSDs are killed, and come back at once or soon.
    QuickRestarts,
    /// OSDs are killed or lose power, and stay away for some time.
    LongAbsences,
    /// OSDs stay away for so long that others take their place.
    Replaced,
    /// The operator moves data around. Sometimes an OSD is killed meanwhile.
    Moved,
    /// The operator changes which OSDs serve: marks living OSDs down, moves primaries, keeps fewer copies, pauses
    /// everything.
    Changed,
    /// The monitor that leads is killed.
    Monitor,
    /// Everything is killed at once.
    Blackout,
    /// Nodes cannot reach each other.
    Partitions,
    /// An OSD and clients that read reach nobody but each other.
    Islands,
    Everything,
    /// Clocks run at different rates, and wall clocks jump. OSDs are killed and cut off, too.
    Clocks,
    /// Processes stand still, links and disks are slow, and segments are lost.
    Slowness,
    /// OSDs are added, removed, and lose their disks.
    Membership,
    /// The cluster is full for a while.
    Full,
    /// Bits rot on one OSD's disk.
    Rot,
    /// Some of several monitors are away, cut off, slow or replaced.
    Quorum,
    /// Sessions of OSDs end while both OSDs go on.
    Sessions,
    /// Flushes fail and lose the data that they were to make durable. OSDs are killed and lose power meanwhile.
    Flushes,
    /// Machines sleep, or are paused together with their clocks. Wall clocks jump by hours.
    Sleeps,
    /// Single connections with monitors are slow. OSDs, clients and monitors change from them to others.
    Routes,
    /// Another process tries to start OSDs that run. OSDs are killed and started again.
    Twice,
}

impl Mix {
    /// The kinds of which a small run has one.
    const SMALL: [Mix; 11] = [
        Mix::Calm,
        Mix::Resets,
        Mix::QuickRestarts,
        Mix::LongAbsences,
        Mix::Replaced,
        Mix::Moved,
        Mix::Changed,
        Mix::Monitor,
        Mix::Blackout,
        Mix::Partitions,
        Mix::Everything,
    ];

    pub const COUNT: u64 = Mix::SMALL.len() as u64;

    /// The kinds that a run of a swarm combines.
    pub fn swarming() -> impl Iterator<Item = Mix> {
        let small = Mix::SMALL.into_iter().filter(|mix| *mix != Mix::Everything);
        small.chain([Mix::Clocks, Mix::Slowness, Mix::Membership, Mix::Full])
    }

    /// All kinds.
    pub fn all() -> impl Iterator<Item = Mix> {
        Mix::swarming().chain([Mix::Everything, Mix::Rot, Mix::Quorum, Mix::Islands, Mix::Sessions]).chain([
            Mix::Flushes,
            Mix::Sleeps,
            Mix::Routes,
            Mix::Twice,
        ])
    }

    /// The kind's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Mix::Calm => "calm",
            Mix::Resets => "resets",
            Mix::QuickRestarts => "quick-restarts",
            Mix::LongAbsences => "long-absences",
            Mix::Replaced => "replaced",
            Mix::Moved => "moved",
            Mix::Changed => "changed",
            Mix::Monitor => "monitor",
            Mix::Blackout => "blackout",
            Mix::Partitions => "partitions",
            Mix::Islands => "islands",
            Mix::Everything => "everything",
            Mix::Clocks => "clocks",
            Mix::Slowness => "slowness",
            Mix::Membership => "membership",
            Mix::Full => "full",
            Mix::Rot => "rot",
            Mix::Quorum => "quorum",
            Mix::Sessions => "sessions",
            Mix::Flushes => "flushes",
            Mix::Sleeps => "sleeps",
            Mix::Routes => "routes",
            Mix::Twice => "twice",
        }
    }

    /// True if there should be more OSDs than copies.
    pub(crate) fn wants_spare_osds(self) -> bool {
        matches!(self, Mix::Replaced | Mix::Moved | Mix::Everything | Mix::Membership)
    }

    /// The kind of misfortunes of a small run.
    pub fn of(seed: u64) -> Mix {
        Mix::SMALL[(seed % Mix::COUNT) as usize]
    }

    /// Properties of the network and disks of a run.
    pub fn world(setup: &Setup, rng: &mut Rng) -> WorldConfig {
        const MS: Duration = Duration::from_millis(1);
        let mut config = WorldConfig::default();
        if setup.has(Mix::Resets) || setup.has(Mix::Everything) {
            config.reset_one_in = [50, 300, 2000][rng.below(3) as usize];
        }
        if setup.has(Mix::Slowness) {
            config.loss_one_in = [0, 100, 1000][rng.below(3) as usize];
        }
        match rng.below(4) {
            // The network is slow: messages of several connections overtake each other by far.
            0 => config.latency = MS / 10..=15 * MS,
            // Disks are slow: much is not durable yet when something dies.
            1 => config.flush_latency = MS..=40 * MS,
            _ => {}
        }
        if setup.busy {
            config.stalls = Some(Stalls {
                one_in: [200, 1000, 5000][rng.below(3) as usize],
                short: MS / 10..=[50, 150, 600][rng.below(3) as usize] * MS,
                long_one_in: [0, 10, 50][rng.below(3) as usize],
                long: 300 * MS..=4000 * MS,
            });
        }
        config
    }

    fn draw(self, rng: &mut Rng, setup: &Setup, clients: usize) -> Fault {
        let osds = setup.osds;
        let crash = if rng.one_in(2) { Crash::Power } else { Crash::Process };
        let osd = rng.below(osds as u64) as usize;
        // Nodes are numbered in this order: monitors, OSDs, clients.
        let nodes = setup.mons + osds + clients;
        let a = rng.below(nodes as u64) as usize;
        let b = (a + 1 + rng.below(nodes as u64 - 1) as usize) % nodes;
        match self {
            Mix::Calm => Fault::KillClient { client: rng.below(clients as u64) as usize },
            Mix::Resets => Fault::Sever { a, b },
            Mix::QuickRestarts => match rng.below(4) {
                0 => Fault::StopOsd { osd, away: quick(rng) },
                _ => Fault::KillOsd { osd, crash: Crash::Process, away: quick(rng) },
            },
            Mix::LongAbsences => match rng.below(6) {
                0 => Fault::StopOsd { osd, away: long(rng) },
                1 => Fault::FailDisk { osd, fault: DiskFault::FailWrite(EIO), away: quick(rng) },
                2 => Fault::FailDisk { osd, fault: DiskFault::FailFlush(EIO), away: quick(rng) },
                _ => Fault::KillOsd { osd, crash, away: long(rng) },
            },
            Mix::Replaced => match rng.below(5) {
                0 => Fault::KillOsd { osd, crash, away: quick(rng) },
                1 | 2 => Fault::KillOsd { osd, crash, away: long(rng) },
                _ => {
                    let lasts = Away(Duration::from_millis(100 + rng.below(1500)));
                    Fault::Strand { osd, lasts, crash, away: long(rng) }
                }
            },
            Mix::Moved => match rng.below(6) {
                0 => Fault::KillOsd { osd, crash, away: quick(rng) },
                1 => Fault::SlowDisk { osd, times: 2 << rng.below(5), lasts: long(rng) },
                _ => Fault::Out { osd, lasts: long(rng) },
            },
            Mix::Changed => match rng.below(6) {
                0 => Fault::KillOsd { osd, crash, away: quick(rng) },
                1 | 2 => change(format!("\"osd down\", \"ids\": [\"{osd}\"]"), None, Away(Duration::ZERO)),
                3 => {
                    let affinity = |weight| format!("\"osd primary-affinity\", \"id\": {osd}, \"weight\": {weight}");
                    change(affinity("0.0"), Some(affinity("1.0")), long(rng))
                }
                4 => {
                    let size =
                        |n| format!("\"osd pool set\", \"pool\": \"{POOL}\", \"var\": \"size\", \"val\": \"{n}\"");
                    change(size(2), Some(size(setup.copies)), long(rng))
                }
                _ => {
                    let pause = |word| format!("\"osd {word}\", \"key\": \"pause\"");
                    change(pause("set"), Some(pause("unset")), quick(rng))
                }
            },
            Mix::Monitor => match rng.below(4) {
                0 => Fault::KillOsd { osd, crash, away: quick(rng) },
                1 => Fault::BootStorm { mon_after: Duration::from_millis(rng.below(1500)) },
                2 => Fault::KillMon { crash, away: long(rng) },
                _ => Fault::KillMon { crash, away: quick(rng) },
            },
            Mix::Blackout => {
                let spread = if rng.one_in(2) { Duration::ZERO } else { Duration::from_millis(rng.below(4000)) };
                Fault::KillAll { crash, away: quick(rng), spread }
            }
            Mix::Partitions => match rng.below(5) {
                3 | 4 => {
                    let (heard, hears) = [(false, false), (true, false), (false, true)][rng.below(3) as usize];
                    Fault::CutOff { osd, heard, hears, lasts: long(rng) }
                }
                0 => Fault::Isolate { node: a, lasts: long(rng) },
                1 => Fault::Sever { a, b },
                _ => Fault::Block { a, b, one_way: rng.one_in(2), lasts: long(rng) },
            },
            Mix::Islands => match rng.below(4) {
                0 => Fault::KillOsd { osd, crash, away: quick(rng) },
                _ => Fault::Island { osd, lasts: Away(Duration::from_secs(4 + rng.below(30))) },
            },
            Mix::Everything => {
                let which = 1 + rng.below(Mix::SMALL.len() as u64 - 2) as usize;
                match rng.one_in(12) {
                    true => Mix::Calm.draw(rng, setup, clients),
                    false => Mix::SMALL[which].draw(rng, setup, clients),
                }
            }
            Mix::Clocks => match rng.below(3) {
                0 => Fault::KillOsd { osd, crash, away: quick(rng) },
                1 => Mix::Partitions.draw(rng, setup, clients),
                _ => Fault::Clock(ClockFault::draw(rng, nodes)),
            },
            Mix::Slowness => match rng.below(6) {
                0 => Fault::KillOsd { osd, crash, away: quick(rng) },
                1 => Fault::SlowDisk { osd, times: 2 << rng.below(6), lasts: long(rng) },
                _ => Fault::Slowness(SlownessFault::draw(rng, nodes)),
            },
            Mix::Membership => match rng.below(4) {
                0 => Fault::KillOsd { osd, crash, away: quick(rng) },
                _ => Fault::Membership(MembershipFault::draw(rng, osds)),
            },
            Mix::Full => {
                let ratio = |text| format!("\"osd set-full-ratio\", \"ratio\": {text}");
                change(ratio("0.0"), Some(ratio("0.95")), long(rng))
            }
            Mix::Rot => rot::draw(rng, clients),
            Mix::Quorum => Fault::Quorum(QuorumFault::draw(rng)),
            Mix::Sessions => match rng.below(8) {
                0 => Fault::KillOsd { osd, crash, away: long(rng) },
                _ => Fault::EndSession { osd, other: (osd + 1 + rng.below(osds as u64 - 1) as usize) % osds },
            },
            Mix::Flushes => match rng.below(8) {
                0 => Fault::KillAll { crash: Crash::Power, away: quick(rng), spread: Duration::from_secs(1) },
                1 => Fault::KillOsd { osd, crash: Crash::Process, away: quick(rng) },
                2 | 3 => Fault::KillOsd { osd, crash: Crash::Power, away: quick(rng) },
                _ => Fault::FailDisk { osd, fault: DiskFault::LoseFlush(EIO), away: quick(rng) },
            },
            Mix::Sleeps => match rng.below(8) {
                0 => Fault::KillOsd { osd, crash, away: long(rng) },
                1 => Fault::Island { osd, lasts: long(rng) },
                _ => Fault::Clock(ClockFault::draw_sleep(rng, setup.mons, osds)),
            },
            Mix::Routes => match rng.below(10) {
                0 => Fault::KillOsd { osd, crash, away: quick(rng) },
                1 => change(format!("\"osd down\", \"ids\": [\"{osd}\"]"), None, Away(Duration::ZERO)),
                2 => Fault::Out { osd, lasts: long(rng) },
                3 => Fault::Sever { a: rng.below(setup.mons as u64) as usize, b },
                _ => {
                    let mon = rng.below(setup.mons as u64) as usize;
                    let other = (mon + 1 + rng.below(nodes as u64 - 1) as usize) % nodes;
                    let (from, to) = if rng.one_in(3) { (other, mon) } else { (mon, other) };
                    let by = Duration::from_millis(50 << rng.below(8));
                    let lasts = Away(Duration::from_millis(500 + rng.below(10_000)));
                    Fault::SlowConnection { from, to, which: rng.next_u64(), by, lasts }
                }
            },
            Mix::Twice => match rng.below(3) {
                0 => Fault::KillOsd { osd, crash: Crash::Process, away: quick(rng) },
                _ => Fault::StartTwice { osd },
            },
        }
    }

    /// Draws the misfortunes of a run with their times since the workload's beginning, in order.
    pub fn plan(setup: &Setup, rng: &mut Rng, clients: usize) -> Vec<(Duration, Fault)> {
        let (count, within_ms) = match setup.only() {
            Some(Mix::Calm) => (rng.below(3), 6_000),
            Some(Mix::Resets) => (5 + rng.below(20), 6_000),
            Some(Mix::QuickRestarts) => (2 + rng.below(8), 10_000),
            Some(Mix::Blackout) => (1 + rng.below(4), 12_000),
            Some(Mix::Quorum) => (4 + rng.below(9), 20_000),
            Some(Mix::Sessions) => (5 + rng.below(20), 10_000),
            Some(Mix::Routes) => (10 + rng.below(25), 15_000),
            Some(Mix::Flushes) => (5 + rng.below(15), 12_000),
            Some(_) => (2 + rng.below(7), 15_000),
            None => (4 + rng.below(10), 15_000),
        };
        let mut plan: Vec<(Duration, Fault)> = (0..count)
            .map(|_| {
                let mix = match setup.only() {
                    Some(mix) => mix,
                    None => setup.mixes[rng.below(setup.mixes.len() as u64) as usize],
                };
                (Duration::from_millis(200 + rng.below(within_ms)), mix.draw(rng, setup, clients))
            })
            .collect();
        // Many misfortunes come soon after another one, because one that strikes during recovery does the most harm.
        for i in 1..plan.len() {
            if rng.one_in(2) {
                plan[i].0 = plan[i - 1].0 + Duration::from_millis(rng.below(1500));
            }
        }
        plan.sort_by_key(|(at, _)| *at);
        plan
    }
}

/// A change by commands. Each text is the JSON after `"prefix": `.
fn change(command: String, undo: Option<String>, lasts: Away) -> Fault {
    let json = |words: String| format!("{{\"prefix\": {words}}}");
    Fault::Change { command: json(command), undo: undo.map(json), lasts }
}

/// Draws a short time, from zero to two seconds. Often it is so short that nobody notices the absence.
fn quick(rng: &mut Rng) -> Away {
    Away(match rng.below(3) {
        0 => Duration::from_micros(rng.below(5_000)),
        1 => Duration::from_millis(rng.below(200)),
        _ => Duration::from_millis(rng.below(2_000)),
    })
}

fn long(rng: &mut Rng) -> Away {
    Away(match rng.below(3) {
        0 => Duration::from_millis(500 + rng.below(3_000)),
        1 => Duration::from_secs(3 + rng.below(8)),
        _ => Duration::from_secs(10 + rng.below(30)),
    })
}
