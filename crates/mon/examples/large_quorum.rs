//! Measures the cost of a large cluster for three monitors: a mass start, a rack that fails at once, and quiet times
//! between.
//!
//! `cargo run --release -p mon --example large_quorum -- [OSDS [GROUPS [MONITORS]]]`. The members are those of
//! production; network, disks and OSDs are stand-ins in one thread. Time is virtual: a message takes 0.2 ms, a durable
//! write 1 ms, and a member is busy for as long as its turn took of a processor. OSDs hear maps, boot, send beacons
//! every five seconds and report others; they have no groups to report.

use mon::daemon::founded;
use mon::log::{Identity, Loaded};
use mon::member::{Action, Input, Member, MemberConfig, raft_config};
use mon::monitor::Now;
use mon::{BootstrapSpec, MonState};
use osdmap::OsdMap;
use raft::ServerId;
use rustix::time::{ClockId, clock_gettime};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::time::Duration;
use types::{EntityName, EntityType, Epoch, Fsid, OsdId, Utime};
use wire::basic::AuthName;
use wire::codec::features;
use wire::messages as msg;
use wire::msgr::{Peer, Rights, SessionId};
use wire::nacre::mon::{OsdBeacon, OsdBoot, OsdFailure, OsdStats, osd_features};
use wire::{EntityAddrVec, Envelope, Message, Target};

const FSID: Fsid = Fsid([7; 16]);
const HOST_OSDS: usize = 20;
const RACK_OSDS: usize = 400;
const LATENCY: Duration = Duration::from_micros(200);
const WRITE: Duration = Duration::from_millis(1);
const BEACON_EVERY: Duration = Duration::from_secs(5);
/// The most groups that a pool may have.
const POOL_GROUPS: usize = 65_536;
/// Time within which all OSDs start.
const START: Duration = Duration::from_secs(5);
/// Number of OSDs that report one that failed, and the time within which they do.
const REPORTERS: usize = 10;
const REPORTS: Duration = Duration::from_secs(2);
/// Time after which an OSD that its monitor sent away turns to the next one.
const RECONNECT: Duration = Duration::from_millis(500);
/// Time without a change after which the map is stable.
const STABLE: Duration = Duration::from_secs(2);
/// Time within which the map must be stable.
const STABLE_MAX: Duration = Duration::from_secs(120);
const CLIENT: usize = usize::MAX;

enum Event {
    Member(usize, Input),
    /// A member's requested time of waking has come.
    Wake(usize),
    Hears(usize, Envelope),
    Boots(usize),
    Connects(usize, usize),
    Beacon(usize),
    Reports(usize, usize),
}

/// A place in the queue: the time, and the number of the event.
type Due = (Duration, u64);

struct Node {
    member: Member,
    busy_until: Duration,
    cpu: Duration,
    longest: Duration,
    to_osds: u64,
    to_monitors: u64,
}

#[derive(Clone, Copy, Default)]
struct Osd {
    epoch: Epoch,
    is_gone: bool,
    /// Number of its starts, which its addresses tell.
    starts: u32,
    /// Its session with a monitor.
    session: Option<(usize, SessionId)>,
}

struct Bench {
    now: Duration,
    nodes: Vec<Node>,
    osds: Vec<Osd>,
    queue: BinaryHeap<Reverse<Due>>,
    events: HashMap<u64, Event>,
    next: u64,
    /// The other end of each session between members.
    links: HashMap<(usize, SessionId), (usize, SessionId)>,
    /// The party at the other end of each of the other sessions.
    parties: HashMap<(usize, SessionId), usize>,
    client: Option<(usize, SessionId)>,
    /// Number of sessions that monitors closed.
    sent_away: usize,
    heard_at: Duration,
}

/// Returns the processor time of this thread: other threads' use of the processor must not change results.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn bytes_of(envelope: &Envelope) -> u64 {
    (envelope.front.len() + envelope.middle.len() + envelope.data.len()) as u64
}

fn addr(number: usize) -> EntityAddrVec {
    EntityAddrVec::msgr2(format!("10.9.0.{}:3300", number + 1).parse().expect("an address"), 0)
}

fn peer(kind: EntityType, num: i64, addrs: EntityAddrVec) -> Peer {
    let auth_name = AuthName::new(kind, num.to_string());
    let global_id = 4000 + num as u64;
    Peer {
        name: EntityName { kind, num },
        auth_name,
        addrs,
        features: features::PACIFIC,
        global_id,
        rights: Rights::Everything,
        lossy: true,
        global_seq: 0,
    }
}

fn osd_addrs(osd: usize, network: usize, start: u32) -> EntityAddrVec {
    let (a, b, port) = (osd / 5000, 1 + osd / HOST_OSDS % 250, 6800 + osd % 5000);
    format!("[v2:10.{network}.{a}.{b}:{port}/{start}]").parse().expect("valid")
}

impl Bench {
    fn new(monitors: usize, osds: usize) -> Bench {
        let names = ["a", "b", "c", "d", "e"];
        let spec = BootstrapSpec {
            fsid: FSID,
            monitors: (0..monitors).map(|number| (names[number].to_owned(), addr(number))).collect(),
            auth: Default::default(),
            config: Vec::new(),
            now: Utime { sec: 1_000_000, nsec: 0 },
        };
        let servers: Vec<ServerId> = (1..=monitors as u64).map(ServerId).collect();
        let stored = founded(&spec, &servers);
        let mut bench = Bench {
            now: Duration::from_secs(1),
            nodes: Vec::new(),
            osds: vec![Osd::default(); osds],
            queue: BinaryHeap::new(),
            events: HashMap::new(),
            next: 0,
            links: HashMap::new(),
            parties: HashMap::new(),
            client: None,
            sent_away: 0,
            heard_at: Duration::ZERO,
        };
        for number in 0..monitors {
            let identity = Identity { fsid: FSID, name: names[number].to_owned(), server: servers[number] };
            let config = MemberConfig {
                addrs: addr(number),
                peers: Vec::new(),
                manager_addrs: EntityAddrVec::default(),
                metadata: BTreeMap::new(),
                seed: number as u64 + 1,
                raft: raft_config(),
            };
            let loaded = Loaded { identity, stored: stored.clone() };
            let entropy = Box::new(|| [1; 32]);
            let member = Member::new(loaded, config, entropy, bench.at()).expect("it has just been founded");
            let zero = Duration::ZERO;
            bench.nodes.push(Node { member, busy_until: zero, cpu: zero, longest: zero, to_osds: 0, to_monitors: 0 });
        }
        (0..monitors).for_each(|number| bench.push(Duration::ZERO, Event::Member(number, Input::Tick)));
        bench
    }

    fn at(&self) -> Now {
        Now { since_start: self.now, wall: Utime::from_unix(Duration::from_secs(1_000_000) + self.now) }
    }

    fn push(&mut self, after: Duration, event: Event) {
        self.next += 1;
        self.events.insert(self.next, event);
        self.queue.push(Reverse((self.now + after, self.next)));
    }

    fn session(&mut self) -> SessionId {
        self.next += 1;
        SessionId(self.next)
    }

    fn say(&mut self, party: usize, message: impl Message) {
        let known = if party == CLIENT { self.client } else { self.osds[party].session };
        let Some((monitor, session)) = known else { return };
        let input = Input::Message { session, envelope: message.seal(1, Target::PACIFIC) };
        self.push(LATENCY, Event::Member(monitor, input));
    }

    fn command(&mut self, command: serde_json::Value) {
        let cmd = vec![command.to_string()];
        self.say(CLIENT, msg::MonCommand { have: 0, fsid: FSID, cmd, input: Default::default() });
    }

    /// Opens a session with a monitor; an OSD asks for the maps that it lacks, and reports that it is there.
    fn connect(&mut self, party: usize, monitor: usize) {
        let session = self.session();
        self.parties.insert((monitor, session), party);
        let opened = match party {
            CLIENT => peer(EntityType::CLIENT, 1, EntityAddrVec::default()),
            osd => peer(EntityType::OSD, osd as i64, osd_addrs(osd, 1, self.osds[osd].starts.max(1))),
        };
        self.push(LATENCY, Event::Member(monitor, Input::Opened { session, peer: opened }));
        if party == CLIENT {
            self.client = Some((monitor, session));
            return;
        }
        self.osds[party].session = Some((monitor, session));
        self.subscribe(party);
        if self.osds[party].starts > 0 {
            let boot = self.boot(party);
            self.say(party, boot);
        }
    }

    /// Has an OSD ask for maps behind the one that it has.
    fn subscribe(&mut self, osd: usize) {
        let start = match self.osds[osd].epoch {
            Epoch(0) => 0,
            Epoch(have) => u64::from(have) + 1,
        };
        let what = BTreeMap::from([("osdmap".to_owned(), msg::Subscription { start, onetime: false })]);
        self.say(osd, msg::MonSubscribe { what, hostname: "here".to_owned() });
    }

    fn input(&mut self, number: usize, input: Input) {
        let now = self.at();
        let node = &mut self.nodes[number];
        let (mut out, started) = (Vec::new(), cpu_time());
        node.member.handle(now, input, &mut out);
        let took = cpu_time() - started;
        node.cpu += took;
        node.longest = node.longest.max(took);
        node.busy_until = self.now + took;
        for action in out {
            self.perform(number, took, action);
        }
        let wake = self.nodes[number].member.next_wake().saturating_sub(self.now);
        self.push(wake.max(took).max(Duration::from_millis(1)), Event::Wake(number));
    }

    fn perform(&mut self, number: usize, took: Duration, action: Action) {
        match action {
            Action::Persist { ticket, .. } => self.push(took + WRITE, Event::Member(number, Input::Persisted(ticket))),
            Action::Send { session, envelope } => match self.links.get(&(number, session)).copied() {
                Some((to, session)) => {
                    self.nodes[number].to_monitors += bytes_of(&envelope);
                    self.push(took + LATENCY, Event::Member(to, Input::Message { session, envelope }));
                }
                None => {
                    self.nodes[number].to_osds += bytes_of(&envelope);
                    if let Some(party) = self.parties.get(&(number, session)).filter(|party| **party != CLIENT) {
                        self.push(took + LATENCY, Event::Hears(*party, envelope));
                    }
                }
            },
            Action::Dial { addrs } => {
                let to = (0..self.nodes.len()).find(|to| addr(*to) == addrs).expect("a member");
                let (mine, theirs) = (self.session(), self.session());
                self.links.insert((number, mine), (to, theirs));
                self.links.insert((to, theirs), (number, mine));
                let opened =
                    |session, of: usize| Input::Opened { session, peer: peer(EntityType::MON, of as i64, addr(of)) };
                self.push(Duration::ZERO, Event::Member(number, Input::Dialled { addrs, session: mine }));
                self.push(LATENCY, Event::Member(to, opened(theirs, number)));
                self.push(2 * LATENCY, Event::Member(number, opened(mine, to)));
            }
            Action::Close { session } => {
                if let Some((to, theirs)) = self.links.remove(&(number, session)) {
                    self.links.remove(&(to, theirs));
                    self.push(LATENCY, Event::Member(to, Input::Closed { session: theirs }));
                } else if let Some(party) = self.parties.remove(&(number, session)) {
                    self.sent_away += 1;
                    if party != CLIENT {
                        self.osds[party].session = None;
                    }
                    self.push(RECONNECT, Event::Connects(party, (number + 1) % self.nodes.len()));
                }
            }
            Action::GlobalIds(_) | Action::SharedKeys(_) => {}
            Action::Stop { reason } => panic!("a monitor stops: {reason}"),
        }
    }

    fn step(&mut self) {
        let Some(Reverse((at, id))) = self.queue.pop() else { return };
        self.now = self.now.max(at);
        let busy = |number: usize| self.nodes[number].busy_until.saturating_sub(self.now);
        match self.events.remove(&id).expect("queued once") {
            Event::Member(number, _) | Event::Wake(number) if !busy(number).is_zero() => unreachable!(),
            Event::Member(number, input) => self.input(number, input),
            Event::Wake(number) if self.nodes[number].member.next_wake() <= self.now => self.input(number, Input::Tick),
            Event::Wake(_) => {}
            Event::Hears(osd, envelope) if envelope.header.kind == msg::OsdMap::TYPE => {
                let map = msg::OsdMap::open(&envelope).expect("well-formed");
                let last = map.fulls.keys().chain(map.incrementals.keys()).max().copied().unwrap_or_default();
                if last > self.osds[osd].epoch {
                    self.osds[osd].epoch = last;
                    self.heard_at = self.now;
                    if last < map.newest {
                        // One message does not hold all maps: the OSD asks for the rest.
                        self.subscribe(osd);
                    }
                }
            }
            Event::Hears(..) => {}
            Event::Connects(party, monitor) => self.connect(party, monitor),
            Event::Boots(osd) => {
                self.osds[osd].starts += 1;
                let boot = self.boot(osd);
                self.say(osd, boot);
            }
            Event::Beacon(osd) if !self.osds[osd].is_gone => {
                let stats = OsdStats { total_bytes: 1 << 40, free_bytes: 1 << 39, ..OsdStats::default() };
                let epoch = self.osds[osd].epoch;
                self.say(
                    osd,
                    OsdBeacon { osd: OsdId(osd as i32), epoch, stats, pgs: Vec::new(), options: None, pings: None },
                );
                self.push(BEACON_EVERY, Event::Beacon(osd));
            }
            Event::Beacon(_) => {}
            Event::Reports(by, target) => {
                let (failed_for_ms, epoch) = (21_000, self.osds[by].epoch);
                let (target, target_addrs) = (OsdId(target as i32), osd_addrs(target, 1, self.osds[target].starts));
                self.say(by, OsdFailure { target, target_addrs, epoch, immediate: false, failed_for_ms });
            }
        }
    }

    fn boot(&self, osd: usize) -> OsdBoot {
        let host = format!("host{}", osd / HOST_OSDS);
        let addrs = |network: usize| osd_addrs(osd, network, self.osds[osd].starts);
        OsdBoot {
            fsid: FSID,
            osd: OsdId(osd as i32),
            osd_uuid: Fsid((osd as u128 + 1).to_le_bytes()),
            public_addrs: addrs(1),
            cluster_addrs: addrs(2),
            hb_back_addrs: addrs(3),
            hb_front_addrs: addrs(4),
            epoch: self.osds[osd].epoch.max(Epoch(1)),
            weight: 0x1_0000,
            location: BTreeMap::from([
                ("host".to_owned(), host.clone()),
                ("rack".to_owned(), format!("rack{}", osd / RACK_OSDS)),
            ]),
            device_class: "ssd".to_owned(),
            metadata: BTreeMap::from([("hostname".to_owned(), host)]),
            features: osd_features::ALL,
        }
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.queue.peek().is_some_and(|Reverse((at, _))| *at <= until) {
            self.step_when_free();
        }
        self.now = until;
    }

    /// Carries out the next event; one for a member that is busy waits until it is not.
    fn step_when_free(&mut self) {
        let Some(Reverse((at, id))) = self.queue.peek().copied() else { return };
        let number = match &self.events[&id] {
            Event::Member(number, _) | Event::Wake(number) => *number,
            _ => return self.step(),
        };
        let free_at = self.nodes[number].busy_until;
        if free_at <= at {
            return self.step();
        }
        self.queue.pop();
        self.queue.push(Reverse((free_at, id)));
    }

    fn leader(&self) -> Option<usize> {
        (0..self.nodes.len()).find(|number| self.nodes[*number].member.monitor().leads())
    }

    fn state(&self) -> &MonState {
        self.nodes[self.leader().expect("one leads")].member.monitor().state()
    }

    fn map(&self) -> &OsdMap {
        self.state().osdmap()
    }

    /// Lets time pass until the map is as it should be and every OSD has it; prints the cost.
    fn until_stable(&mut self, what: &str, done: impl Fn(&OsdMap) -> bool) {
        for node in &mut self.nodes {
            (node.cpu, node.longest, node.to_osds, node.to_monitors) = Default::default();
        }
        let (begin, first) = (self.now, self.leader().map_or(Epoch(0), |_| self.map().epoch));
        let (mut since, mut stable_at) = (None, begin);
        loop {
            self.pass(Duration::from_millis(20));
            let epoch = self.leader().map(|_| self.map().epoch);
            let everybody = epoch
                .is_some_and(|epoch| self.osds.iter().all(|osd| osd.is_gone || osd.epoch == epoch) && done(self.map()));
            if !everybody {
                since = None;
            } else if since.is_none_or(|(known, _)| Some(known) != epoch) {
                since = epoch.map(|epoch| (epoch, self.now));
                stable_at = self.heard_at.max(begin);
            } else if since.is_some_and(|(_, at)| self.now >= at + STABLE) {
                break;
            }
            if self.now >= begin + STABLE_MAX {
                let up = self.leader().map(|_| (self.map().epoch, self.map().counts().1));
                let behind = self.osds.iter().filter(|osd| Some(osd.epoch) != epoch && !osd.is_gone).count();
                panic!(
                    "{what}: not stable after {STABLE_MAX:?}; epoch and OSDs up: {up:?}, {behind} OSDs lack it, {} \
                     sessions were ended",
                    self.sent_away
                );
            }
        }
        println!(
            "{what}: everybody has the last map after {:.2?}; {} maps",
            stable_at - begin,
            self.map().epoch.0 - first.0
        );
        let leader = self.leader();
        for (number, node) in self.nodes.iter().enumerate() {
            let role = if leader == Some(number) { "leader" } else { "peon" };
            println!(
                "  {role:6} {:>9.2?} of CPU in {:.2?}, longest turn {:>9.2?}; {:8.1} MiB to OSDs, {:7.1} MiB to \
                 monitors",
                node.cpu,
                self.now - begin,
                node.longest,
                node.to_osds as f64 / f64::from(1 << 20),
                node.to_monitors as f64 / f64::from(1 << 20),
            );
        }
    }
}

fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it tells the resident set");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") / 1024
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>().expect("a number"));
    let osds = args.next().unwrap_or(1000);
    let groups = args.next().unwrap_or(osds * 32);
    // An OSD's first start changes the hierarchy, which goes to all OSDs.
    let first_start = START.max(Duration::from_secs(osds as u64 / 200));
    let mut bench = Bench::new(args.next().unwrap_or(3), osds);
    bench.pass(Duration::from_secs(6));
    bench.connect(CLIENT, bench.leader().expect("one leads by now"));
    for osd in 0..osds {
        bench.connect(osd, osd % bench.nodes.len());
        let at = first_start * osd as u32 / osds as u32;
        bench.push(at, Event::Boots(osd));
        // An OSD that is silent for 20 s is marked down.
        bench.push(at + BEACON_EVERY, Event::Beacon(osd));
    }
    println!("{osds} OSDs, {} monitors", bench.nodes.len());
    let what = format!("OSDs start for the first time within {} s", first_start.as_secs());
    bench.until_stable(&what, |map| map.counts().1 == osds);
    println!("  {} MiB in all", memory_mib());
    for (number, before) in (0..groups).step_by(POOL_GROUPS).enumerate() {
        let (pool, pg_num) = (format!("p{number}"), POOL_GROUPS.min(groups - before));
        bench.command(serde_json::json!({"prefix": "osd pool create", "pool": pool, "pg_num": pg_num}));
    }
    let pools = groups.div_ceil(POOL_GROUPS);
    bench.until_stable(&format!("{pools} pools of {groups} groups in all are made"), |map| map.pools.len() == pools);
    println!("  {} MiB in all", memory_mib());
    bench.pass(Duration::from_secs(5));
    bench.until_stable("nothing happens but beacons", |_| true);
    let failed = RACK_OSDS.min(osds / 4);
    for target in 0..failed {
        bench.osds[target].is_gone = true;
        for nth in 0..REPORTERS {
            // The reporters are on as many hosts.
            let by = failed + (target * 7 + nth * HOST_OSDS * 3) % (osds - failed);
            let after = REPORTS * ((target * REPORTERS + nth) % 997) as u32 / 997;
            bench.push(after, Event::Reports(by, target));
        }
    }
    bench.until_stable(&format!("{failed} OSDs fail at once"), |map| map.counts().1 == osds - failed);
    println!("  {} MiB in all", memory_mib());
    for osd in 0..failed {
        bench.osds[osd].is_gone = false;
        bench.push(REPORTS * osd as u32 / failed as u32, Event::Boots(osd));
        bench.push(BEACON_EVERY * osd as u32 / failed as u32, Event::Beacon(osd));
    }
    bench.until_stable("they come back within 2 s", |map| map.counts().1 == osds);
    println!("  {} MiB in all", memory_mib());
    (0..osds).for_each(|osd| bench.push(START * osd as u32 / osds as u32, Event::Boots(osd)));
    let before = bench.map().epoch;
    let has_restarted = |map: &OsdMap, osd| map.osd(osd).is_some_and(|osd| osd.info.up_from > before);
    bench.until_stable("all OSDs restart within 5 s", |map| {
        map.counts().1 == osds && (0..osds).all(|osd| has_restarted(map, OsdId(osd as i32)))
    });
    println!("  {} MiB in all", memory_mib());
}
