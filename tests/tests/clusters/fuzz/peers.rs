//! Visits of somebody who has taken over a daemon: he has its key and its address, and says what only daemons say.

use super::harm::{Harm, Random, flip};
use super::visit::{CAME_IN, Place, Visitor};
use super::{memory, no_log_tells_of_a_panic, number, places, serves};
use cluster_tests::{TestCluster, clients_are_here, is_whole_suite};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use types::{EntityName, EntityType, OsdId, PgId, PoolId};
use wire::{Envelope, Header, Rope, Target, Writer};

const OSDS: u32 = 4;
/// The OSD that is taken over. It goes on to run, and its peers hear both.
const TAKEN: u32 = 3;
const LIMIT: Duration = Duration::from_secs(240);
/// Numbers of own messages, those that are in use and some that are not.
const FIRST_OWN: u64 = 0x4e00;
const OWN: u64 = 0x60;

/// A number as messages have them: mostly small, sometimes at an end of its range.
fn plausible(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => u64::MAX - random.below(3),
        1 => random.next(),
        2 => 1 << random.below(64),
        _ => random.below(12),
    }
}

fn body(w: &mut Writer, random: &mut Random) {
    for _ in 0..random.below(30) {
        match random.below(9) {
            0 => w.u8(plausible(random) as u8),
            1 | 2 => w.u32(plausible(random) as u32),
            3 => w.u64(plausible(random)),
            4 => w.put(&PgId { pool: PoolId(random.below(3) as i64), seed: random.below(9) as u32 }),
            5 => w.blob(&random.bytes(300)),
            6 => w.versioned(1 + random.below(3) as u8, 1, |w| w.raw(&random.bytes(60))),
            // Absent things and empty lists.
            7 => w.raw(&vec![0; random.below(40) as usize]),
            _ => w.str(["object", "", "p", "a/b"][random.below(4) as usize]),
        }
    }
}

/// A message between daemons: its block, and often the group and the interval that it is about, can be read, and what
/// follows is made of parts as messages have them.
pub fn envelope(random: &mut Random) -> Envelope {
    let kind = (FIRST_OWN + random.below(OWN)) as u16;
    let mut w = Writer::new(Target::PACIFIC);
    let version = 1 + random.below(4) as u8;
    w.versioned(version, 1, |w| {
        if random.below(3) > 0 {
            w.put(&PgId { pool: PoolId(1 + random.below(2) as i64), seed: random.below(9) as u32 });
            w.u32(random.below(60) as u32);
        }
        body(w, random);
    });
    let mut front = w.into_vec();
    if random.below(4) == 0 {
        let bits = 1 + random.below(3);
        flip(&mut front, bits, random);
    }
    let data = if random.below(3) == 0 { Rope::from(random.bytes(70_000)) } else { Rope::default() };
    let header = Header { tid: plausible(random), kind, version: 1, compat_version: 1, ..Header::default() };
    Envelope { header, front: front.into(), middle: Default::default(), data }
}

/// Visitors, each with the daemons that take it for one of them.
fn visitors(cluster: &TestCluster, places: &[Place], random: &mut Random) -> Vec<(Visitor, Vec<usize>)> {
    let own = format!("of osd.{TAKEN}");
    let at = |wanted: &dyn Fn(&Place) -> bool| -> Vec<usize> {
        let others = places.iter().enumerate().filter(|(_, place)| !place.name.ends_with(&own));
        others.filter(|(_, place)| wanted(place)).map(|(index, _)| index).collect()
    };
    let osds_addrs = |port: &str| {
        let place = places.iter().find(|place| place.name == format!("{port} {own}"));
        place.expect("an address").addrs.clone()
    };
    let keyring = cluster.dir().join(format!("osd.{TAKEN}/keyring"));
    let me = EntityName::osd(OsdId(TAKEN as i32));
    let osd = |port: &str| Visitor::as_osd(&cluster.conf(), TAKEN, &keyring).coming_as(me, osds_addrs(port), envelope);
    let kind =
        |kind: EntityType, name: &'static str| move |place: &Place| place.kind == kind && place.name.starts_with(name);
    let monitors = cluster.dir().join("mon.a/keyring");
    let monitor = Visitor::as_monitor(&cluster.conf(), &monitors);
    let monitor = monitor.coming_as(EntityName::mon(0), places[0].addrs.clone(), envelope);
    let mut all = vec![
        (osd("cluster_addrs"), at(&kind(EntityType::OSD, "cluster_addrs"))),
        (osd("public_addrs"), at(&kind(EntityType::OSD, "public_addrs"))),
        (osd("heartbeat_back_addrs"), at(&kind(EntityType::OSD, "heartbeat"))),
        (osd("public_addrs"), at(&kind(EntityType::MON, "mon"))),
    ];
    for (visitor, _) in &mut all {
        visitor.renew(&places[0], random);
    }
    all.push((monitor, at(&kind(EntityType::MON, "mon"))));
    all
}

#[test]
fn no_daemon_minds_what_a_daemon_says_that_somebody_took_over() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    // A daemon that dies stays dead here.
    let cluster = TestCluster::start("fuzz-peers", OSDS);
    cluster.make_pool("p", 8, 3);
    serves(&cluster, 0);
    let by_clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let seed = number("NACRE_FUZZ_SEED").unwrap_or(by_clock);
    let limit = Duration::from_secs(number("NACRE_FUZZ_SECONDS").unwrap_or(if is_whole_suite() { 120 } else { 12 }));
    eprintln!("NACRE_FUZZ_SEED={seed} NACRE_FUZZ_SECONDS={}", limit.as_secs());
    let mut random = Random(seed);
    let places = places(&cluster);
    let mut visitors = visitors(&cluster, &places, &mut random);
    let before = memory(&cluster, TAKEN);
    let mut outcomes: BTreeMap<(usize, &'static str), u64> = BTreeMap::new();
    let begin = Instant::now();
    while begin.elapsed() < limit {
        let number = random.below(visitors.len() as u64) as usize;
        let (visitor, to) = &mut visitors[number];
        let place = &places[to[random.below(to.len() as u64) as usize]];
        let secure = random.below(2) == 0;
        let harm = match random.below(8) {
            0 => Harm::any(&mut random),
            1 => Harm::Later { secure },
            _ => Harm::Messages { secure },
        };
        let outcome = visitor.visit(place, harm, &mut random);
        *outcomes.entry((number, outcome)).or_default() += 1;
    }
    for ((number, outcome), count) in &outcomes {
        eprintln!("visitor {number}: {count} {outcome}");
    }
    let came_in = |number: usize| outcomes.get(&(number, CAME_IN)).copied().unwrap_or(0);
    assert!((0..visitors.len()).all(|number| came_in(number) > 0), "{outcomes:?}");
    drop(visitors);
    // Whoever it is, he may harm data, as OSDs trust each other; nobody ends by it, and the others serve.
    let after = memory(&cluster, TAKEN);
    for (pid, kib) in before {
        let now = after.get(&pid).copied();
        assert!(now.is_some_and(|now| now > 0), "process {pid}: {kib} KiB, then {now:?}");
    }
    no_log_tells_of_a_panic(&cluster);
    cluster.wait_until_up(0, true, LIMIT);
    assert!(cluster.ceph(&["-s"]).succeeded());
}
