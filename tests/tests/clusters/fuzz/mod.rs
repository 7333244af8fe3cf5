//! Hostile input at every port of real daemons: whatever comes, none of them ends, grows without bound, or keeps honest
//! clients out.
//!
//! A visit is an honest conversation by our own messenger, with a key, tickets and signatures that are right, and one
//! kind of harm done to its bytes on their way, or before it encrypts them ([`harm::Harm`]). `NACRE_FUZZ_SEED` gives
//! the visits of a run again, `NACRE_FUZZ_SECONDS` has it go on for so long.

pub mod harm;
mod honest;
mod peers;
mod servers;
pub mod visit;

use cluster_tests::{TestCluster, clients_are_here, is_whole_suite};
use harm::{Harm, Random};
use honest::Honest;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use types::EntityType;
use visit::{Place, Visitor};
use wire::EntityAddrVec;

const OSDS: u32 = 3;
/// The most by which a daemon may have grown in the end.
const GROWTH_MAX_KIB: u64 = 96 << 10;
/// The longest time without visitors between two with them.
const QUIET: Duration = Duration::from_secs(5);
/// Visits go on so often, each time for so many rounds, if honest clients seem to be served badly.
const MORE_MAX: u32 = 4;
const MORE_ROUNDS: u32 = 3;
/// Fewer visits do not show much.
const VISITS_MIN: u64 = 100;

/// Ports of daemons: of monitors first.
pub fn places(cluster: &TestCluster) -> Vec<Place> {
    let mut places = Vec::new();
    let mut add = |kind: EntityType, number: i64, name: String, addrs: &serde_json::Value| {
        let addr = addrs["addrvec"].as_array().and_then(|addrs| addrs.first()).expect("an address");
        let text = format!("[v2:{}/{}]", addr["addr"].as_str().expect("an address"), addr["nonce"]);
        let addrs: EntityAddrVec = text.parse().expect("an address");
        let to: SocketAddr = addr["addr"].as_str().and_then(|text| text.parse().ok()).expect("an address");
        places.push(Place { kind, number, name, addrs, to });
    };
    let mons = cluster.ceph_json(&["mon", "dump"]);
    for mon in mons["mons"].as_array().expect("monitors") {
        add(
            EntityType::MON,
            mon["rank"].as_i64().expect("a rank"),
            format!("mon.{}", mon["name"]),
            &mon["public_addrs"],
        );
    }
    let manager = cluster.ceph_json(&["mgr", "dump"]);
    add(EntityType::MGR, manager["active_gid"].as_i64().expect("a number"), "manager".into(), &manager["active_addrs"]);
    let osds = cluster.ceph_json(&["osd", "dump"]);
    for osd in osds["osds"].as_array().expect("OSDs") {
        let number = osd["osd"].as_i64().expect("a number");
        for port in ["public_addrs", "cluster_addrs", "heartbeat_back_addrs", "heartbeat_front_addrs"] {
            add(EntityType::OSD, number, format!("{port} of osd.{number}"), &osd[port]);
        }
    }
    places
}

/// Resident memory of a monitor and the first `osds` OSDs, by their processes.
fn memory(cluster: &TestCluster, osds: u32) -> BTreeMap<i32, u64> {
    let resident = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default().to_owned();
        line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    let names = (0..osds).map(|osd| format!("osd.{osd}")).chain(["mon.a".to_owned()]);
    names.map(|name| cluster.pid_of(&name).as_raw_nonzero().get()).map(|pid| (pid, resident(pid))).collect()
}

/// An honest client writes and reads.
fn serves(cluster: &TestCluster, seed: u64) {
    let (from, to) = (cluster.scratch("from"), cluster.scratch("to"));
    let content: Vec<u8> = (0..300_000_u64).map(|n| (n * 31 + seed) as u8).collect();
    std::fs::write(&from, &content).expect("it is written");
    cluster.rados(&["-p", "p", "put", "object", from.to_str().expect("a plain path")]).ok();
    cluster.rados(&["-p", "p", "get", "object", to.to_str().expect("a plain path")]).ok();
    assert!(std::fs::read(&to).expect("it came") == content);
}

/// Numbers of visits by kind of harm and outcome.
#[derive(Default)]
struct Visits(BTreeMap<(&'static str, &'static str), u64>);

impl Visits {
    /// Makes visits for so long.
    fn go_on(&mut self, time: Duration, places: &[Place], visitor: &mut Visitor, random: &mut Random) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            let place = &places[random.below(places.len() as u64) as usize];
            let harm = Harm::any(random);
            let kind = harm.name();
            let outcome = visitor.visit(place, harm, random);
            *self.0.entry((kind, outcome)).or_default() += 1;
        }
    }

    fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Checks that they would find something: harm that keeps everybody from coming in would test little, and harm that
    /// nobody notices would be none.
    #[track_caller]
    fn are_of_all_kinds(&self) {
        for ((kind, outcome), count) in &self.0 {
            eprintln!("{kind}: {count} {outcome}");
        }
        let all = self.count();
        let came_in: u64 = self.0.iter().filter(|((_, outcome), _)| *outcome == visit::CAME_IN).map(|(_, n)| n).sum();
        assert!(all > VISITS_MIN && came_in * 20 > all && came_in < all, "{came_in} of {all} came in");
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn no_daemon_minds_what_comes_to_its_ports() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    // A daemon that dies stays dead here.
    let cluster = TestCluster::start("fuzz", OSDS);
    cluster.make_pool("p", 8, 3);
    serves(&cluster, 0);
    let by_clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let seed = number("NACRE_FUZZ_SEED").unwrap_or(by_clock);
    let limit = Duration::from_secs(number("NACRE_FUZZ_SECONDS").unwrap_or(if is_whole_suite() { 180 } else { 12 }));
    eprintln!("NACRE_FUZZ_SEED={seed} NACRE_FUZZ_SECONDS={}", limit.as_secs());
    let mut random = Random(seed);
    let mut visitor = Visitor::new(&cluster.conf());
    let places = places(&cluster);
    let monitor = &places[0];
    visitor.renew(monitor, &mut random);
    let before = memory(&cluster, OSDS);
    let mut visits = Visits::default();
    let mut honest = Honest::begin(&cluster, "p");
    // Quiet times lie between those with visitors, so that whatever else the machine does falls on both.
    let mut rounds = (limit.as_secs() / 30).max(6) as u32;
    let visited = limit / rounds;
    let (mut more, mut checked) = (MORE_MAX, Instant::now());
    let times = loop {
        for _ in 0..rounds {
            honest.quiet(visited.min(QUIET));
            honest.during(true, || visits.go_on(visited, &places, &mut visitor, &mut random));
            if checked.elapsed() > Duration::from_secs(30) {
                checked = Instant::now();
                serves(&cluster, random.next());
                visitor.renew(monitor, &mut random);
            }
        }
        let times = honest.times();
        eprintln!("{times}");
        // Bad luck does not last, and a fault does.
        if times.are_many() && times.are_good() || more == 0 {
            break times;
        }
        (more, rounds) = (more - 1, MORE_ROUNDS);
    };
    // A slow machine needs longer for as many.
    let end = Instant::now() + Duration::from_secs(240);
    while visits.count() <= VISITS_MIN && Instant::now() < end {
        visits.go_on(visited, &places, &mut visitor, &mut random);
    }
    honest.end();
    serves(&cluster, seed);
    let after = memory(&cluster, OSDS);
    visits.are_of_all_kinds();
    assert!(times.are_good(), "honest clients suffer: {times}");
    assert!(visitor.replays_let_in == 0, "{} replayed conversations were believed", visitor.replays_let_in);
    for (pid, kib) in before {
        let now = after.get(&pid).copied();
        eprintln!("process {pid}: {kib} KiB, then {now:?}");
        assert!(now.is_some_and(|now| now > 0 && now < kib + GROWTH_MAX_KIB), "process {pid}: {kib} KiB, then {now:?}");
    }
    no_log_tells_of_a_panic(&cluster);
}

fn no_log_tells_of_a_panic(cluster: &TestCluster) {
    for entry in std::fs::read_dir(cluster.dir().join("log")).expect("logs").flatten() {
        let log = String::from_utf8_lossy(&std::fs::read(entry.path()).expect("a log")).into_owned();
        assert!(!log.contains("panicked at"), "{}", entry.path().display());
        let bytes = log.len();
        // Each machine has its lines by the minute.
        assert!(bytes < 8 << 20, "{} has {bytes} bytes", entry.path().display());
    }
}
