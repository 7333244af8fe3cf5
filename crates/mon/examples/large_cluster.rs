//! Measures the time of a monitor's turns in a large cluster, without sockets and disks.
//!
//! `cargo run --release -p mon --example large_cluster -- [OSDS [PGS]]`; ten OSDs stand on a host. A turn is the time
//! from an input to its actions; the commit of its batch is a turn of its own.

use mon::monitor::{Monitor, MonitorAction, MonitorInput, Now};
use mon::{BootstrapSpec, MonState, bootstrap};
use osdmap::{OsdMap, PgMapping};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use types::{EntityName, EntityType, Epoch, Fsid, OsdId, Utime};
use wire::basic::AuthName;
use wire::codec::features;
use wire::messages as msg;
use wire::msgr::{Peer, Rights, SessionId};
use wire::nacre::mon::{OsdBeacon, OsdBoot, OsdStats, osd_features};
use wire::{EntityAddrVec, Message, Target};

const FSID: Fsid = Fsid([7; 16]);
const HOST_OSDS: i32 = 10;

struct Bench {
    monitor: Monitor,
    now: Duration,
    /// Times of the turns since the last look.
    turns: Vec<Duration>,
    messages: usize,
}

impl Bench {
    fn new() -> Bench {
        let first = bootstrap::bootstrap(&BootstrapSpec {
            fsid: FSID,
            monitors: vec![("a".to_owned(), "v2:127.0.0.1:3300/0".parse().expect("an address"))],
            auth: Default::default(),
            config: Vec::new(),
            now: Utime::ZERO,
        });
        let mut state = MonState::default();
        state.apply(1, &first);
        let monitor = Monitor::new("a", state, Box::new(|| [1; 32]));
        let mut bench = Bench { monitor, now: Duration::from_secs(1), turns: Vec::new(), messages: 0 };
        let mut actions = Vec::new();
        let at = bench.at();
        bench.monitor.start(at);
        bench.monitor.lead(at, Default::default(), &mut actions);
        bench.perform(actions);
        bench
    }

    fn at(&self) -> Now {
        Now { since_start: self.now, wall: Utime::from_unix(self.now) }
    }

    fn perform(&mut self, actions: Vec<MonitorAction>) {
        let mut todo = VecDeque::from(actions);
        while let Some(action) = todo.pop_front() {
            match action {
                MonitorAction::Append { index, .. } => todo.extend(self.turn(MonitorInput::Committed { index })),
                MonitorAction::Send { .. } => self.messages += 1,
                _ => {}
            }
        }
    }

    fn turn(&mut self, input: MonitorInput) -> Vec<MonitorAction> {
        let mut actions = Vec::new();
        let (at, started) = (self.at(), Instant::now());
        self.monitor.handle(at, input, &mut actions);
        self.turns.push(started.elapsed());
        actions
    }

    fn input(&mut self, input: MonitorInput) {
        let actions = self.turn(input);
        self.perform(actions);
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.monitor.next_wake() <= until {
            self.now = self.now.max(self.monitor.next_wake());
            self.input(MonitorInput::Tick);
        }
        self.now = until;
    }

    fn open(&mut self, kind: EntityType, num: i64) -> SessionId {
        let session = SessionId(if kind == EntityType::OSD { num as u64 } else { 1 << 40 });
        let peer = Peer {
            name: EntityName { kind, num },
            auth_name: AuthName::new(kind, num.to_string()),
            addrs: EntityAddrVec::default(),
            features: features::PACIFIC,
            global_id: 4200,
            rights: Rights::Everything,
            lossy: true,
            global_seq: 0,
        };
        self.input(MonitorInput::Opened { session, peer });
        session
    }

    fn say(&mut self, session: SessionId, message: impl Message) {
        self.input(MonitorInput::Message { session, envelope: message.seal(1, Target::PACIFIC) });
    }

    fn command(&mut self, session: SessionId, command: serde_json::Value) {
        let cmd = vec![command.to_string()];
        self.say(session, msg::MonCommand { have: 0, fsid: FSID, cmd, input: Default::default() });
    }

    fn map(&self) -> &OsdMap {
        self.monitor.state().osdmap()
    }

    fn report(&mut self, what: &str) {
        let turns = std::mem::take(&mut self.turns);
        let (sum, most) = (turns.iter().sum::<Duration>(), turns.iter().max().copied().unwrap_or_default());
        let messages = std::mem::take(&mut self.messages);
        let epoch = self.map().epoch;
        println!(
            "{what:44} {:5} turns {sum:>11.2?}, longest {most:>11.2?}, {messages:5} messages, {epoch}",
            turns.len()
        );
    }
}

fn boot(osd: i32) -> OsdBoot {
    let port = 6800 + osd % 10_000;
    let addrs =
        |ip: i32| -> EntityAddrVec { format!("[v2:10.{ip}.{}.1:{port}/1]", osd / 10_000).parse().expect("valid") };
    let host = format!("host{}", osd / HOST_OSDS);
    OsdBoot {
        fsid: FSID,
        osd: OsdId(osd),
        osd_uuid: Fsid((osd as u128 + 1).to_le_bytes()),
        public_addrs: addrs(0),
        cluster_addrs: addrs(1),
        hb_back_addrs: addrs(2),
        hb_front_addrs: addrs(3),
        epoch: Epoch(1),
        weight: 0x1_0000,
        location: BTreeMap::from([("host".to_owned(), host.clone())]),
        device_class: "ssd".to_owned(),
        metadata: BTreeMap::from([("hostname".to_owned(), host)]),
        features: osd_features::ALL,
    }
}

/// Measures the placement of every group anew, and the update after one OSD goes down.
fn placement(what: &str, map: &OsdMap) {
    let started = Instant::now();
    let mut mapping = PgMapping::compute(map);
    let computed = started.elapsed();
    let mut next = map.clone();
    let mut down = osdmap::Incremental::after(map, Utime::ZERO);
    down.mark_down(OsdId(0));
    next.apply(&down).expect("it applies");
    let started = Instant::now();
    let placed = mapping.follow(map, &next);
    let followed = started.elapsed();
    println!("  placements, {what}: all {computed:.2?}; one OSD goes down {followed:.2?}, {placed} placed by CRUSH");
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let (osds, pgs): (i32, u32) = (args.next().unwrap_or(1000), args.next().unwrap_or(8192) as u32);
    let mut bench = Bench::new();
    let client = bench.open(EntityType::CLIENT, 1);
    let sessions: Vec<SessionId> = (0..osds).map(|osd| bench.open(EntityType::OSD, osd.into())).collect();
    let subscribe = msg::MonSubscribe {
        what: BTreeMap::from([("osdmap".to_owned(), msg::Subscription { start: 0, onetime: false })]),
        hostname: "here".to_owned(),
    };
    for session in &sessions {
        bench.say(*session, subscribe.clone());
    }
    bench.report("sessions open and subscribe");
    for (osd, session) in sessions.iter().enumerate() {
        bench.say(*session, boot(osd as i32));
        // Starts trickle in over five seconds.
        bench.pass(Duration::from_secs(5) / osds as u32);
    }
    bench.pass(Duration::from_secs(1));
    bench.report("all OSDs start");
    assert_eq!(bench.map().counts().1, osds as usize);
    bench.command(client, serde_json::json!({"prefix": "osd pool create", "pool": "p", "pg_num": pgs}));
    bench.report("a pool is made");
    assert_eq!(bench.map().pools.len(), 1);
    for (osd, session) in sessions.iter().enumerate() {
        let stats = OsdStats { total_bytes: 1 << 40, free_bytes: 1 << 39, ..OsdStats::default() };
        let epoch = bench.map().epoch;
        bench.say(
            *session,
            OsdBeacon { osd: OsdId(osd as i32), epoch, stats, pgs: Vec::new(), options: None, pings: None },
        );
    }
    bench.report("all send a beacon");
    bench.pass(Duration::from_secs(5));
    bench.report("five seconds pass");
    let normal = bench.map().clone();
    for _ in 0..10 {
        bench.command(client, serde_json::json!({"prefix": "osd down", "ids": ["0"]}));
        bench.say(sessions[0], boot(0));
        bench.pass(Duration::from_millis(100));
    }
    bench.report("an OSD is called down and returns, 10 times");
    bench
        .command(client, serde_json::json!({"prefix": "osd crush reweight-subtree", "name": "default", "weight": 0.0}));
    bench.report("all weights become zero");
    for _ in 0..10 {
        bench.command(client, serde_json::json!({"prefix": "osd pool autoscale-status"}));
    }
    bench.report("osd pool autoscale-status, 10 times");
    for prefix in ["status", "pg dump", "osd df", "osd utilization", "balancer eval", "osd tree"] {
        bench.command(client, serde_json::json!({"prefix": prefix, "format": "json"}));
        bench.report(prefix);
    }
    bench.pass(Duration::from_secs(5));
    bench.report("five seconds pass");
    placement("even weights", &normal);
    placement("no weights", bench.map());
}
