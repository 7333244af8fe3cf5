//! A cluster gets more OSDs while it runs, and loses some again: only what placement moves is moved, and clients go on.

use cluster_tests::{Pattern, TestCluster, assert_same_bytes, clients_are_here, python};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(150);

/// Copies of the pool's objects.
const COPIES: usize = 2;

/// Writes an object of every group.
const TOUCH_ALL: &str = r#"
import os, rados
cluster = rados.Rados(conffile=os.environ['CEPH_CONF'])
cluster.connect(timeout=60)
pool = cluster.open_ioctx('p')
for done in [pool.aio_write_full('touched%d' % n, b'x') for n in range(256)]:
    done.wait_for_complete()
pool.close()
cluster.shutdown()
"#;

/// The line of `pg dump` on one group.
struct Group {
    up: BTreeSet<i64>,
    primary: i64,
    objects: u64,
    /// Copies brought to where they were missing, as its primary counts.
    brought: u64,
    clean: bool,
    /// The map that its primary had when it told this.
    epoch: u64,
}

fn groups(cluster: &TestCluster) -> BTreeMap<String, Group> {
    let dump = cluster.ceph_json(&["pg", "dump", "pgs"]);
    let stats = dump["pg_stats"].as_array().unwrap_or_else(|| panic!("{dump}"));
    let group = |pg: &serde_json::Value| {
        let up = pg["up"].as_array().expect("a list").iter().filter_map(serde_json::Value::as_i64).collect();
        let number = |name: &str| pg["stat_sum"][name].as_u64().expect("a number");
        let (objects, brought) = (number("num_objects"), number("num_objects_recovered"));
        let clean = pg["state"] == "active+clean";
        // Operators' tools pass over groups of which as many act as no pool has copies.
        let acting = pg["acting"].as_array().expect("a list");
        assert!(acting.len() <= COPIES && (!clean || pg["up"] == pg["acting"]), "{pg}");
        let epoch = pg["reported_epoch"].to_string().trim_matches('"').parse().expect("an epoch");
        let primary = pg["acting_primary"].as_i64().expect("an OSD");
        let group = Group { up, primary, objects, brought, clean, epoch };
        (pg["pgid"].as_str().expect("a name").to_owned(), group)
    };
    stats.iter().map(group).collect()
}

/// Copies that have another place in the second map than in the first.
fn moved_by_placement(before: &BTreeMap<String, Group>, after: &BTreeMap<String, Group>) -> u64 {
    let moved = |(id, old): (&String, &Group)| old.objects * after[id].up.difference(&old.up).count() as u64;
    before.iter().map(moved).sum()
}

struct Files<'a> {
    cluster: &'a TestCluster,
    next: u64,
}

impl Files<'_> {
    fn path(&self, n: u64) -> std::path::PathBuf {
        self.cluster.scratch(&format!("given{}", n % 8))
    }

    /// One object more or anew, and one that must be as it was written.
    fn go_on(&mut self) {
        let n = self.next;
        self.next += 1;
        Pattern::new(n).write(&self.path(n), 40_000 + n % 5 * 100_000);
        let name = format!("file{}", n % 8);
        self.cluster.rados(&["-p", "p", "put", &name, self.path(n).to_str().expect("a path")]).ok();
        self.check(n.saturating_sub(5));
    }

    fn check(&self, n: u64) {
        let got = self.cluster.scratch("got");
        let _ = std::fs::remove_file(&got);
        let name = format!("file{}", n % 8);
        self.cluster.rados(&["-p", "p", "get", &name, got.to_str().expect("a path")]).ok();
        assert_same_bytes(&self.path(n), &got);
    }

    /// Writes and reads until every group is clean under the present map, and told so. Gives the groups. Fails once no
    /// other group has become clean, and nothing was brought anywhere, for [`LIMIT`].
    fn until_clean(&mut self) -> BTreeMap<String, Group> {
        let epoch = self.cluster.ceph_json(&["osd", "dump"])["epoch"].as_u64().expect("an epoch");
        let (mut progress, mut end) = (None, Instant::now() + LIMIT);
        loop {
            // Groups that nothing happens to tell nothing new.
            let touched = self.cluster.command(python(), &["-c", TOUCH_ALL]).output().expect("python runs");
            assert!(touched.status.success(), "{}", String::from_utf8_lossy(&touched.stderr));
            self.go_on();
            let groups = groups(self.cluster);
            if groups.values().all(|group| group.clean && group.epoch >= epoch) {
                return groups;
            }
            let clean = groups.values().filter(|group| group.clean && group.epoch >= epoch).count();
            let now = Some((clean, groups.values().map(|group| group.brought).sum::<u64>()));
            if now != progress {
                (progress, end) = (now, Instant::now() + LIMIT);
            }
            assert!(Instant::now() < end, "not clean after {LIMIT:?}: {}", self.cluster.ceph(&["status"]).ok());
        }
    }
}

/// Waits until the groups are where they are after `change`, which moves some, and checks how much was moved for it.
fn change(files: &mut Files<'_>, what: &str, change: impl FnOnce()) {
    let before = files.until_clean();
    change();
    let last = files.until_clean();
    let expected = moved_by_placement(&before, &last);
    assert!(expected > 0, "{what}: no group has another place");
    // Each primary counts for itself: only those that stayed tell what was brought since.
    let mut brought = 0;
    for (id, group) in last.iter().filter(|(id, group)| before[*id].primary == group.primary) {
        let came = group.up.difference(&before[id].up).count() as u64;
        let counted = group.brought.saturating_sub(before[id].brought);
        // Objects that clients write while they are copied are copied again.
        let most = came * (group.objects + group.objects / 4 + 1);
        assert!(counted <= most, "{what}: {id} brought {counted} copies where {most} have moved");
        brought += counted;
    }
    eprintln!("{what}: {expected} copies have another place; primaries that stayed count {brought}");
}

/// While nothing may be copied, groups that are to move are told alike: by the map, by their number and by a list.
fn groups_that_are_to_move_are_told_alike(cluster: &TestCluster) {
    let told = || {
        let temps = cluster.ceph_json(&["osd", "dump"])["pg_temp"].as_array().map(Vec::len);
        let number = cluster.ceph_json(&["osd", "stat"])["num_remapped_pgs"].as_u64().map(|number| number as usize);
        let listed = cluster.ceph_json(&["pg", "ls", "remapped"])["pg_stats"].as_array().map(Vec::len);
        [temps, number, listed].map(|count| count.expect("a count"))
    };
    let flags = ["nobackfill", "norecover"];
    flags.iter().for_each(|flag| drop(cluster.ceph(&["osd", "set", flag]).ok()));
    cluster.ceph(&["osd", "out", "0"]).ok();
    let end = Instant::now() + LIMIT;
    loop {
        let [temps, number, listed] = told();
        if temps > 0 && temps == number && number == listed {
            break;
        }
        assert!(Instant::now() < end, "{temps} in the map, {number} counted, {listed} listed");
        sleep(Duration::from_millis(500));
    }
    cluster.ceph(&["osd", "in", "0"]).ok();
    flags.iter().for_each(|flag| drop(cluster.ceph(&["osd", "unset", flag]).ok()));
    cluster.wait_until_clean(LIMIT);
    let end = Instant::now() + LIMIT;
    while told() != [0; 3] {
        assert!(Instant::now() < end, "{:?} when all is clean", told());
        sleep(Duration::from_millis(500));
    }
}

#[test]
fn osds_come_and_go_and_only_what_must_is_moved() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("growing", 3);
    // Exceptions would move something of their own accord.
    cluster.ceph(&["balancer", "off"]).ok();
    cluster.make_pool("p", 32, COPIES as u32);
    let bench = ["-p", "p", "bench", "60", "write", "-b", "16384", "-t", "16", "--no-cleanup", "--max-objects", "600"];
    cluster.rados_within(&bench, LIMIT).ok();
    let mut files = Files { cluster: &cluster, next: 0 };
    (0..8).for_each(|_| files.go_on());
    cluster.wait_until_clean(LIMIT);
    // Primaries tell every few seconds what they have.
    let end = Instant::now() + LIMIT;
    while groups(&cluster).values().map(|group| group.objects).sum::<u64>() < 608 {
        assert!(Instant::now() < end, "objects are not counted");
        sleep(Duration::from_millis(200));
    }

    // One at a time: what goes to the first of two may have to go on to the second.
    change(&mut files, "one more OSD", || cluster.grow(4));
    change(&mut files, "another one", || cluster.grow(5));
    let refused = cluster.nacre(&["up", "--osds", "4"], LIMIT);
    assert!(refused.failure().contains("loses none"), "fewer are refused");
    groups_that_are_to_move_are_told_alike(&cluster);
    change(&mut files, "half the weight", || {
        cluster.ceph(&["osd", "crush", "reweight", "osd.3", "0.001"]).ok();
    });
    change(&mut files, "one is out", || drop(cluster.ceph(&["osd", "out", "4"]).ok()));
    cluster.signal("osd.4", Signal::TERM);
    let end = Instant::now() + LIMIT;
    while cluster.ceph_json(&["osd", "info", "4"])["up"] != 0 {
        assert!(Instant::now() < end, "osd.4 stays up");
        sleep(Duration::from_millis(200));
    }
    cluster.ceph(&["osd", "purge", "4", "--yes-i-really-mean-it"]).ok();
    files.until_clean();
    let tree = cluster.ceph_json(&["osd", "tree"]);
    let names: Vec<_> =
        tree["nodes"].as_array().expect("a list").iter().filter_map(|node| node["name"].as_str()).collect();
    assert!(names.contains(&"osd.3") && !names.contains(&"osd.4"), "{names:?}");
    // The first client's objects are there and whole.
    cluster.rados_within(&["-p", "p", "bench", "5", "seq", "-t", "8"], LIMIT).ok();
    (files.next - 8..files.next).for_each(|n| files.check(n));
}
