//! Erasure-coded pools as Ceph's clients see them, while OSDs die, come back and are replaced.

use cluster_tests::{
    Journal, Killed, Pattern, TestCluster, assert_same_bytes, assert_same_lines, binary, clients_are_here, python,
    said_by_ceph,
};
use rustix::process::Signal;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// Objects of all kinds of sizes: none, less than a stripe unit, stripes with and without a rest, several pieces.
const SIZES: [u64; 7] = [0, 1, 5000, 16_384, 100_001, 4 << 20, (9 << 20) + 77];

struct Pool<'a> {
    cluster: &'a TestCluster,
    name: &'static str,
    stripe_bytes: u64,
}

impl Pool<'_> {
    fn make<'a>(cluster: &'a TestCluster, name: &'static str, k: u32, m: u32, plugin: &str) -> Pool<'a> {
        let (k_word, m_word, plugin) = (format!("k={k}"), format!("m={m}"), format!("plugin={plugin}"));
        cluster.ceph(&["osd", "erasure-code-profile", "set", name, &k_word, &m_word, &plugin]).ok();
        cluster.ceph(&["osd", "pool", "create", name, "8", "8", "erasure", name]).ok();
        Pool { cluster, name, stripe_bytes: u64::from(k) * 4096 }
    }

    fn rados(&self, args: &[&str]) -> cluster_tests::Outcome {
        self.cluster.rados_within(&[&["-p", self.name], args].concat(), LIMIT)
    }

    fn given(&self, index: usize) -> std::path::PathBuf {
        self.cluster.scratch(&format!("given{index}"))
    }

    fn put_all(&self) {
        for (index, size) in SIZES.into_iter().enumerate() {
            Pattern::new(index as u64).write(&self.given(index), size);
            self.put(index);
        }
        self.rados(&["setxattr", "object1", "color", "green"]).ok();
    }

    fn put(&self, index: usize) {
        self.rados(&["put", &format!("object{index}"), self.given(index).to_str().expect("plain path")]).ok();
    }

    fn check_all(&self, what: &str) {
        let got = self.cluster.scratch("got");
        for (index, size) in SIZES.into_iter().enumerate() {
            let name = format!("object{index}");
            let _ = std::fs::remove_file(&got);
            self.rados(&["get", &name, got.to_str().expect("plain path")]).ok();
            assert_same_bytes(&self.given(index), &got);
            let stat = self.rados(&["stat", &name]).ok();
            assert!(stat.trim_end().ends_with(&format!("size {size}")), "{what}: {stat}");
        }
        assert_eq!(self.rados(&["getxattr", "object1", "color"]).ok(), "green", "{what}");
        let mut listed: Vec<String> = self.rados(&["ls"]).ok().lines().map(str::to_owned).collect();
        listed.sort();
        let all: Vec<String> = (0..SIZES.len()).map(|index| format!("object{index}")).collect();
        assert_eq!(listed, all, "{what}");
    }
}

pub(crate) fn osd_command(cluster: &TestCluster, osd: &str) -> Command {
    let mut command = Command::new(binary());
    command.args(["osd", "--id", osd, "--conf"]).arg(cluster.conf());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn start_osd(cluster: &TestCluster, osd: &str) -> Killed {
    let child = Killed(osd_command(cluster, osd).spawn().expect("nacre runs"));
    let started = Instant::now();
    loop {
        let up = cluster.ceph_json(&["osd", "info", osd])["up"].as_u64();
        if up == Some(1) {
            break;
        }
        assert!(started.elapsed() < LIMIT, "osd.{osd} does not come up");
        sleep(Duration::from_millis(200));
    }
    cluster.wait_until_clean(LIMIT);
    child
}

pub(crate) fn kill_osd(cluster: &TestCluster, osd: &str) {
    cluster.signal(&format!("osd.{osd}"), Signal::KILL);
    let started = Instant::now();
    while cluster.ceph_json(&["osd", "info", osd])["up"].as_u64() != Some(0) {
        assert!(started.elapsed() < LIMIT, "osd.{osd} stays up");
        sleep(Duration::from_millis(200));
    }
}

fn check_store(cluster: &TestCluster, osd: u32) {
    let mut command = Command::new(binary());
    command.args(["store", "check"]).arg(cluster.dir().join(format!("osd.{osd}")));
    let out = command.output().expect("nacre runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "osd.{osd}: {text} {}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn objects_are_what_was_written_whatever_happens_to_osds() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("erasure", 6);
    let pools = [Pool::make(&cluster, "wide", 4, 2, "jerasure"), Pool::make(&cluster, "small", 2, 1, "isa")];
    cluster.wait_until_clean(LIMIT);
    let check = |what: &str| {
        let started = Instant::now();
        pools.iter().for_each(|pool| pool.check_all(what));
        eprintln!("{what}: {:.1} s", started.elapsed().as_secs_f64());
    };
    pools.iter().for_each(Pool::put_all);
    check("at first");

    // Operations that Ceph's pools without overwrites refuse.
    let wide = &pools[0];
    cluster.refuse_overwrites("wide");
    let one = wide.given(1);
    let one = one.to_str().expect("plain path");
    let stripe = wide.stripe_bytes.to_string();
    assert!(wide.rados(&["put", "object3", one, "--offset", &stripe]).succeeded(), "at the end of a whole stripe");
    wide.put(3);
    assert!(!wide.rados(&["put", "object4", one, "--offset", "1"]).succeeded());
    assert!(!wide.rados(&["truncate", "object4", "5"]).succeeded());
    assert!(!wide.rados(&["setomapval", "object4", "key", "value"]).succeeded());
    // With overwrites the same are carried out.
    cluster.ceph(&["osd", "pool", "set", "wide", "allow_ec_overwrites", "true"]).ok();
    wide.rados(&["put", "object4", one, "--offset", "1"]).ok();
    wide.rados(&["truncate", "object4", "5"]).ok();
    assert!(wide.rados(&["stat", "object4"]).ok().trim_end().ends_with("size 5"));
    wide.put(4);
    wide.rados(&["setomapval", "object5", "key", "kept"]).ok();
    let omap_is_kept = |what: &str| {
        let said = wide.rados(&["getomapval", "object5", "key"]).ok();
        assert!(said.contains("|kept|"), "{what}: {said}");
    };

    // `rados bench` verifies what it reads.
    wide.rados(&["bench", "3", "write", "-b", "65536", "-t", "4", "--no-cleanup"]).ok();
    let out = wide.rados(&["bench", "30", "seq", "-t", "4"]).ok();
    assert!(!out.contains("not correct") && !out.contains("does not match"), "{out}");
    wide.rados(&["cleanup"]).ok();

    // One OSD less: degraded, and written on.
    kill_osd(&cluster, "2");
    check("without an OSD");
    pools.iter().for_each(Pool::put_all);
    check("written without an OSD");
    let second = start_osd(&cluster, "2");
    check("with the OSD back");

    // One is replaced by an empty one, and does its part when another one is away.
    kill_osd(&cluster, "4");
    std::fs::remove_dir_all(cluster.dir().join("osd.4")).expect("the OSD's directory");
    cluster.ceph(&["osd", "destroy", "4", "--yes-i-really-mean-it"]).ok();
    assert!(osd_command(&cluster, "4").arg("--mkfs").status().expect("nacre runs").success());
    cluster.import_key(4);
    let fourth = start_osd(&cluster, "4");
    check("with a new OSD");
    kill_osd(&cluster, "0");
    check("with a new OSD and without another one");
    omap_is_kept("with a new OSD and without another one");
    let first = start_osd(&cluster, "0");

    cluster.deep_scrub_all(LIMIT);
    cluster.wait_until_clean(LIMIT);
    let health = cluster.ceph(&["health", "detail"]).ok();
    assert!(!health.contains("inconsistent") && !health.contains("damage"), "{health}");
    drop((first, second, fourth));
    cluster.down();
    (0..6).for_each(|osd| check_store(&cluster, osd));
}

/// A group's name, where the map wants it, and who has its shards.
type Placed = (String, Vec<i64>, Vec<i64>);

/// Where the pool's groups are, once all of them are clean.
fn placed_groups(cluster: &TestCluster, pool: &str) -> Option<Vec<Placed>> {
    let groups = cluster.ceph_json(&["pg", "ls-by-pool", pool]);
    let groups = groups["pg_stats"].as_array().or(groups.as_array()).cloned().unwrap_or_default();
    let osds =
        |value: &serde_json::Value| value.as_array().into_iter().flatten().filter_map(|osd| osd.as_i64()).collect();
    let placed = |group: &serde_json::Value| {
        let is_clean = group["state"].as_str()?.starts_with("active+clean");
        let name = group["pgid"].as_str()?.to_owned();
        is_clean.then(|| (name, osds(&group["up"]), osds(&group["acting"])))
    };
    groups.iter().map(placed).collect::<Option<Vec<_>>>().filter(|placed| placed.len() == 8)
}

fn sorted(osds: &[i64]) -> Vec<i64> {
    let mut osds = osds.to_vec();
    osds.sort_unstable();
    osds
}

/// Every group is wanted in another order, on other OSDs, on other OSDs in another order, while a client writes and
/// reads. Who stays keeps its shard, all that was acknowledged is there, and tools see a clean group where it is
/// wanted, place by place.
#[test]
fn groups_that_are_placed_anew_keep_what_was_written() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    const OSDS: i64 = 5;
    let cluster = TestCluster::start("shard-places", OSDS as u32);
    // An exception that the balancer makes for a new group holds beside those that are made here.
    cluster.ceph(&["balancer", "off"]).ok();
    Pool::make(&cluster, "e", 2, 1, "isa");
    cluster.wait_until_clean(LIMIT);
    let mut journal = Journal::begin(&cluster, "e");
    journal.goes_on(100, LIMIT);
    for round in 0..5 {
        let before = placed_groups(&cluster, "e").expect("all was clean");
        for (name, up, acting) in &before {
            let mut wanted = if round == 0 { up.clone() } else { acting.clone() };
            wanted.rotate_left(1);
            if round > 0 {
                let stranger = (0..OSDS).map(|osd| (osd + round) % OSDS).find(|osd| !up.contains(osd));
                wanted[(round % 3) as usize] = stranger.expect("there are more OSDs than shards");
            }
            let words: Vec<String> = wanted.iter().map(i64::to_string).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            cluster.ceph(&[&["osd", "pg-upmap", name.as_str()][..], &words].concat()).ok();
        }
        let started = Instant::now();
        let after = loop {
            // Another order alone leads back to the order of the shards.
            let is_there = |was: &Placed, is: &Placed| round == 0 || sorted(&was.1) != sorted(&is.1);
            let is_new = |(was, is): (&Placed, &Placed)| is_there(was, is) && is.1 == is.2;
            match placed_groups(&cluster, "e") {
                Some(after) if before.iter().zip(&after).all(is_new) => break after,
                _ => assert!(started.elapsed() < LIMIT, "round {round}: not all groups get there"),
            }
            sleep(Duration::from_millis(300));
        };
        for ((name, _, was), (_, up, is)) in before.iter().zip(&after) {
            let stays = |(_, osd): &(usize, &i64)| up.contains(osd);
            assert!(
                was.iter().enumerate().filter(stays).all(|(shard, osd)| is[shard] == *osd),
                "{name}: {was:?}, {is:?}"
            );
        }
        assert_eq!(cluster.ceph_json(&["osd", "dump"])["pg_temp"], serde_json::json!([]), "round {round}");
        assert_eq!(cluster.ceph_json(&["osd", "stat"])["num_remapped_pgs"], 0, "round {round}");
        journal.goes_on(50, LIMIT);
    }
    // Back to where CRUSH has them, while one OSD is away.
    let groups = placed_groups(&cluster, "e").expect("all was clean");
    kill_osd(&cluster, "3");
    for (name, ..) in groups {
        cluster.ceph(&["osd", "rm-pg-upmap", &name]).ok();
    }
    for osd in ["0", "1"] {
        cluster.ceph(&["osd", "reweight", osd, "0.6"]).ok();
    }
    journal.goes_on(50, LIMIT);
    let back = start_osd(&cluster, "3");
    cluster.wait_until_clean(LIMIT);
    journal.end(&cluster);
    cluster.deep_scrub_all(LIMIT);
    cluster.wait_until_clean(LIMIT);
    let health = cluster.ceph(&["health", "detail"]).ok();
    assert!(!health.contains("inconsistent") && !health.contains("damage"), "{health}");
    drop(back);
    cluster.down();
    (0..OSDS as u32).for_each(|osd| check_store(&cluster, osd));
}

/// Everything that applications may try is answered as by a real Ceph, what is refused included.
#[test]
fn operations_are_answered_as_by_ceph() {
    if !clients_are_here(&["ceph", "python3-rados"]) {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/erasure_operations.py");
    let run = |cluster: TestCluster, is_ceph: bool| {
        Pool::make(&cluster, "coded", 2, 1, "jerasure");
        if !is_ceph {
            cluster.refuse_overwrites("coded");
        }
        cluster.wait_until_clean(LIMIT);
        cluster_tests::run(cluster.command(python(), &[script, "coded"]), LIMIT).ok()
    };
    let ours = run(TestCluster::start("erasure-ops", 3), false);
    let cephs = said_by_ceph("erasure_operations", || run(TestCluster::start_ceph("erasure-ops-ceph", 3), true));
    assert!(ours.lines().count() > 80, "{ours}");
    assert_same_lines(&ours, &cephs, "left Nacre, right Ceph");
}
