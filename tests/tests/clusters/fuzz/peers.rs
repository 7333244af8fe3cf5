//! Visits of somebody who has taken over a daemon: he has its key and its address, and says what only daemons say.

use super::harm::{Harm, Random, flip};
use super::visit::{CAME_IN, Place, Says, Visitor};
use super::{GROWTH_MAX_KIB, memory, no_log_tells_of_a_panic, number, places, serves};
use cluster_tests::{TestCluster, clients_are_here, is_whole_suite};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use types::{EntityName, EntityType, Epoch, Fsid, OsdId, PgId};
use wire::nacre::heartbeat::{OsdPing, OsdPingReply};
use wire::nacre::mon as said;
use wire::{Envelope, Header, Message, Rope, Target, Writer};

const OSDS: u32 = 4;
/// The OSD that is taken over. It goes on to run, and its peers hear both.
const TAKEN: u32 = 3;
const LIMIT: Duration = Duration::from_secs(240);
/// Numbers of own messages, those that are in use and some that are not.
const FIRST_OWN: u64 = 0x4e00;
const OWN: u64 = 0x60;
/// Time after which the visitors look at the map again.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A sample of each message between OSDs: name, numbers of the header, front and data.
const RECORDED: &str = include_str!("../../../../crates/pg/src/tests/peer_messages.golden");
/// The pool that the samples are about, and the group with its interval as they have it.
const POOL: u64 = 4;
const GROUP: [u8; 17] = [1, POOL as u8, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
const INTERVAL: [u8; 4] = [6, 0, 0, 0];
const GROUPS: u64 = 8;

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
            4 => w.put(&PgId::new(random.below(POOL + 2) as i64, random.below(GROUPS + 1) as u32)),
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
fn invented(random: &mut Random) -> Envelope {
    let kind = (FIRST_OWN + random.below(OWN)) as u16;
    let mut w = Writer::new(Target::PACIFIC);
    let version = 1 + random.below(4) as u8;
    w.versioned(version, 1, |w| {
        if random.below(3) > 0 {
            w.put(&PgId::new(POOL as i64, random.below(GROUPS + 1) as u32));
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

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("a byte")).collect()
}

/// The recorded messages between OSDs.
fn samples() -> Vec<Envelope> {
    let of = |line: &str| {
        let words: Vec<&str> = line.split(':').map(str::trim).collect();
        let [_, numbers, front, data] = words[..] else { panic!("{line}") };
        let numbers: Vec<u16> = numbers.split(' ').map(|number| number.parse().expect("a number")).collect();
        let [kind, priority, version, compat_version, data_off] = numbers[..] else { panic!("{line}") };
        let header = Header { tid: 3, kind, priority, version, compat_version, data_off };
        Envelope { header, front: unhex(front).into(), middle: Default::default(), data: unhex(data).into() }
    };
    RECORDED.lines().map(of).collect()
}

/// A recorded message about a group that there is, as it is, or with some numbers or bits changed.
fn recorded(samples: &[Envelope], epoch: u64, random: &mut Random) -> Envelope {
    let Envelope { mut header, front, middle, data } = samples[random.below(samples.len() as u64) as usize].clone();
    let mut front = front.to_vec();
    let (group, interval) = (random.below(GROUPS) as u8, (epoch + 2).saturating_sub(random.below(5)) as u32);
    for at in 0..front.len().saturating_sub(GROUP.len() + INTERVAL.len()) + 1 {
        if front[at..].starts_with(&GROUP) {
            front[at + 9] = group;
            let behind = &mut front[at + GROUP.len()..];
            if behind.starts_with(&INTERVAL) {
                behind[..INTERVAL.len()].copy_from_slice(&interval.to_le_bytes());
            }
        }
    }
    match random.below(4) {
        0 => {}
        1 => {
            let bits = 1 + random.below(3);
            flip(&mut front, bits, random);
        }
        _ => {
            for _ in 0..=random.below(3) {
                let at = random.below(front.len().saturating_sub(4) as u64) as usize;
                let number = if random.below(4) == 0 { epoch } else { plausible(random) };
                front[at..at + 4].copy_from_slice(&(number as u32).to_le_bytes());
            }
        }
    }
    header.tid = plausible(random);
    let data = if random.below(6) == 0 { Rope::from(random.bytes(70_000)) } else { data };
    Envelope { header, front: front.into(), middle, data }
}

/// A message of an OSD to monitors, or a heartbeat, with any numbers in it.
fn reported(epoch: u64, random: &mut Random) -> Envelope {
    let at = |random: &mut Random| Epoch(if random.below(3) == 0 { plausible(random) } else { epoch } as u32);
    let osd =
        |random: &mut Random| OsdId(if random.below(6) == 0 { plausible(random) } else { random.below(5) } as i32);
    let osds = |random: &mut Random| (0..random.below(6)).map(|_| osd(random)).collect::<Vec<_>>();
    let pg = |random: &mut Random| PgId::new(random.below(POOL + 2) as i64, random.below(GROUPS + 1) as u32);
    let tid = plausible(random);
    let target = Target::PACIFIC;
    let sealed = match random.below(9) {
        0 => {
            let mut report = said::PgReport { pgid: pg(random), epoch: at(random), ..said::PgReport::default() };
            (report.state, report.sequence) = (random.next(), plausible(random));
            (report.up, report.acting, report.blocked_by) = (osds(random), osds(random), osds(random));
            (report.objects, report.bytes, report.degraded_copies) =
                (plausible(random), plausible(random), plausible(random));
            let stats = said::OsdStats {
                total_bytes: plausible(random),
                free_bytes: plausible(random),
                stored_bytes: plausible(random),
                ..said::OsdStats::default()
            };
            let pgs = vec![report; random.below(3) as usize];
            said::OsdBeacon { osd: osd(random), epoch: at(random), stats, pgs, options: None, pings: None }
                .seal(tid, target)
        }
        1 => said::PgTemp { epoch: at(random), pgs: vec![(pg(random), osds(random))] }.seal(tid, target),
        2 => said::PgHistoryGet { epoch: at(random), pgs: vec![pg(random), pg(random)] }.seal(tid, target),
        3 => {
            let activation = said::PgActivation {
                pgid: pg(random),
                interval_since: at(random),
                acting: osds(random),
                members: osds(random),
                recovered: random.below(2) == 0,
                member_shards: random.bytes(6),
                basis: (random.below(2) == 0).then(|| at(random)),
            };
            said::PgActivate { epoch: at(random), pgs: vec![activation] }.seal(tid, target)
        }
        4 => said::NewerMapGet { after: at(random) }.seal(tid, target),
        5 => {
            let (target_addrs, epoch) = (Default::default(), at(random));
            let (immediate, failed_for_ms) = (random.below(2) == 0, plausible(random));
            said::OsdFailure { target: osd(random), target_addrs, epoch, immediate, failed_for_ms }.seal(tid, target)
        }
        6 => OsdPing { osd: osd(random), epoch: at(random), sent_us: plausible(random) }.seal(tid, target),
        7 => OsdPingReply { osd: osd(random), epoch: at(random), sent_us: plausible(random) }.seal(tid, target),
        _ => {
            let addrs = || Default::default();
            said::OsdBoot {
                fsid: Fsid::default(),
                osd: osd(random),
                osd_uuid: Fsid::default(),
                public_addrs: addrs(),
                cluster_addrs: addrs(),
                hb_back_addrs: addrs(),
                hb_front_addrs: addrs(),
                epoch: at(random),
                weight: plausible(random) as u32,
                location: BTreeMap::from([("host".to_owned(), "elsewhere".to_owned())]),
                device_class: "ssd".to_owned(),
                metadata: BTreeMap::new(),
                features: plausible(random),
            }
            .seal(tid, target)
        }
    };
    let mut front = sealed.front.to_vec();
    if random.below(3) == 0 {
        let bits = 1 + random.below(3);
        flip(&mut front, bits, random);
    }
    Envelope { front: front.into(), ..sealed }
}

/// Makes a message of samples, for about this epoch.
type Known = fn(&[Envelope], u64, &mut Random) -> Envelope;

/// Makes what a daemon says: one of what it is known to say in two of three cases. `epoch`: about that of the newest
/// map.
fn says(known: Known, epoch: Rc<Cell<u64>>) -> Says {
    let samples = samples();
    Box::new(move |random| match random.below(3) {
        0 => invented(random),
        _ => known(&samples, epoch.get(), random),
    })
}

/// Visitors, each with the daemons that take it for one of them.
fn visitors(
    cluster: &TestCluster,
    places: &[Place],
    epoch: &Rc<Cell<u64>>,
    random: &mut Random,
) -> Vec<(Visitor, Vec<usize>)> {
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
    let as_osd = |port: &str, known: Known| {
        let visitor = Visitor::as_osd(&cluster.conf(), TAKEN, &keyring);
        visitor.coming_as(me, osds_addrs(port), says(known, epoch.clone()))
    };
    let reports = |_: &[Envelope], epoch: u64, random: &mut Random| reported(epoch, random);
    let kind =
        |kind: EntityType, name: &'static str| move |place: &Place| place.kind == kind && place.name.starts_with(name);
    let monitor = Visitor::as_monitor(&cluster.conf(), &cluster.dir().join("mon.a/keyring"));
    let monitor = monitor.coming_as(EntityName::mon(0), places[0].addrs.clone(), says(reports, epoch.clone()));
    let mut all = vec![
        (as_osd("cluster_addrs", recorded), at(&kind(EntityType::OSD, "cluster_addrs"))),
        (as_osd("public_addrs", recorded), at(&kind(EntityType::OSD, "public_addrs"))),
        (as_osd("heartbeat_back_addrs", reports), at(&kind(EntityType::OSD, "heartbeat"))),
        (as_osd("public_addrs", reports), at(&kind(EntityType::MON, "mon"))),
    ];
    for (visitor, _) in &mut all {
        visitor.renew(&places[0], random);
    }
    all.push((monitor, at(&kind(EntityType::MON, "mon"))));
    all
}

/// Makes pools until there is the one that recorded messages are about.
fn make_pools(cluster: &TestCluster) {
    let number = |name: &str| {
        let pools = cluster.ceph_json(&["osd", "pool", "ls", "detail"]);
        let pools = pools.as_array().expect("pools").clone();
        pools.iter().find(|pool| pool["pool_name"] == name).and_then(|pool| pool["pool_id"].as_u64())
    };
    let mut name = "p".to_owned();
    loop {
        cluster.make_pool(&name, GROUPS as u32, 3);
        let number = number(&name).expect("it was made");
        assert!(number <= POOL, "pool {number}");
        if number == POOL {
            return;
        }
        name = format!("pool-{number}");
    }
}

#[test]
fn no_daemon_minds_what_a_daemon_says_that_somebody_took_over() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    // A daemon that dies stays dead here.
    let cluster = TestCluster::start("fuzz-peers", OSDS);
    make_pools(&cluster);
    serves(&cluster, 0);
    let by_clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let seed = number("NACRE_FUZZ_SEED").unwrap_or(by_clock);
    let limit = Duration::from_secs(number("NACRE_FUZZ_SECONDS").unwrap_or(if is_whole_suite() { 120 } else { 12 }));
    eprintln!("NACRE_FUZZ_SEED={seed} NACRE_FUZZ_SECONDS={}", limit.as_secs());
    let mut random = Random(seed);
    let places = places(&cluster);
    let epoch = Rc::new(Cell::new(0));
    let mut visitors = visitors(&cluster, &places, &epoch, &mut random);
    let before = memory(&cluster, TAKEN);
    let mut most = before.clone();
    let mut outcomes: BTreeMap<(usize, &'static str), u64> = BTreeMap::new();
    let (begin, mut looked) = (Instant::now(), None::<Instant>);
    while begin.elapsed() < limit {
        if looked.is_none_or(|looked| looked.elapsed() > LOOK_EVERY) {
            looked = Some(Instant::now());
            epoch.set(cluster.ceph_json(&["osd", "dump"])["epoch"].as_u64().expect("a number"));
            for (pid, kib) in memory(&cluster, TAKEN) {
                let known = most.entry(pid).or_default();
                *known = kib.max(*known);
            }
        }
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
        let who = ["an OSD, to OSDs", "an OSD, to OSDs as a client", "heartbeats", "an OSD, to monitors", "a monitor"];
        eprintln!("{}: {count} {outcome}", who[*number]);
    }
    let came_in = |number: usize| outcomes.get(&(number, CAME_IN)).copied().unwrap_or(0);
    assert!((0..visitors.len()).all(|number| came_in(number) > 0), "{outcomes:?}");
    drop(visitors);
    // Whoever it is, he may harm data, as OSDs trust each other; nobody ends by it, and the others serve.
    no_log_tells_of_a_panic(&cluster);
    for (pid, kib) in &before {
        let (now, most) = (memory(&cluster, TAKEN).get(pid).copied(), most[pid]);
        eprintln!("process {pid}: {kib} KiB, at most {most}, then {now:?}");
        let grew = most.saturating_sub(*kib);
        assert!(now.is_some_and(|now| now > 0) && grew < GROWTH_MAX_KIB, "process {pid}: {kib} KiB, at most {most}");
    }
    let log = |osd: u32| std::fs::read_to_string(cluster.dir().join(format!("log/osd.{osd}.log"))).expect("a log");
    let heard = |osd| log(osd).contains(&format!("from=osd.{TAKEN}"));
    assert!((0..TAKEN).any(heard), "nobody takes what is said for the OSD's");
    (0..TAKEN).for_each(|osd| cluster.wait_until_up(osd, true, LIMIT));
    serves(&cluster, seed);
    assert!(cluster.ceph(&["-s"]).succeeded());
}
