//! A cluster of its own for one test.

use crate::ceph_program::CephProgram;
use crate::command::{Outcome, run, wait_until};
use crate::{post_mortem, shared_ceph};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// States of groups that have all copies. Shards may be in another order than the map's.
const CLEAN: [&str; 2] = ["active+clean", "active+clean+remapped"];

/// A running cluster; dropped, it is stopped and its folder removed (kept if the test panics, for its logs).
pub struct TestCluster {
    dir: PathBuf,
    osds: u32,
    ports: Ports,
    kind: Kind,
    /// Started with the first command.
    ceph_program: OnceLock<CephProgram>,
    /// Locked as long as this test has the Ceph that tests share.
    _turn: Option<fs::File>,
}

/// The longest time that `nacre down` takes, which waits for each kind of daemon and then kills what is left.
const DOWN_LIMIT: Duration = Duration::from_secs(150);

/// The choice of daemons, and how they are started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Daemons that die stay dead.
    Plain,
    /// Daemons that die are started again.
    Supervised,
    /// Log and metadata lie in files of their own.
    Split,
    /// On an address that other hosts reach, with so many monitors.
    At { address: Ipv4Addr, mons: u32 },
    /// With OSDs of this size.
    Small(&'static str),
    /// With OSDs of so many shards; what dies is started again.
    Shards(u32),
    /// With so many monitors; what dies is started again.
    Monitors(u32),
    /// With so many monitors, and nobody proves anything; what dies is started again.
    WithoutKeys(u32),
    /// With one monitor, and with encrypted connections; what dies is started again.
    Secure,
    /// A real Ceph.
    Ceph,
    /// A real Ceph that asks for authentication.
    CephWithKeys,
    /// The real Ceph that tests share.
    SharedCeph,
}

/// The `nacre` binary: `NACRE_BIN`, or the one built beside these tests.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("NACRE_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("own path");
    let profile_folder = test.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
    let path = profile_folder.join("nacre");
    assert!(path.is_file(), "{} is missing: build the binary first, or set NACRE_BIN", path.display());
    path
}

/// The port of a stretch that `nacre up` leaves to the test, counted from the first one.
const SPARE_PORT: u16 = 40;

/// A stretch of free ports, which no other test takes as long as this lives.
struct Ports {
    first: u16,
    /// Locked, for tests of other processes: a cluster binds its ports only a while after they were looked for.
    _lock: fs::File,
}

impl Ports {
    /// Ports below the range that the kernel gives to outgoing connections.
    fn free() -> Ports {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        for _ in 0..200 {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let first = 20_000 + (std::process::id() * 7 + step) % 110 * 100;
            let first = u16::try_from(first).expect("below 65536");
            let path = std::env::temp_dir().join(format!("nacre-test-ports-{first}"));
            // Another user's file is a stretch that another user has.
            let Ok(lock) = fs::File::create(path) else { continue };
            let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
            if lock.try_lock().is_ok() && (first..=first + SPARE_PORT).all(is_free) {
                return Ports { first, _lock: lock };
            }
        }
        panic!("no free stretch of ports");
    }
}

impl TestCluster {
    /// Starts a cluster of `osds` OSDs for the test called `name`. What dies in it stays dead.
    pub fn start(name: &str, osds: u32) -> TestCluster {
        TestCluster::begin(name, osds, Kind::Plain)
    }

    /// A real Ceph, which must be installed, without pools: the one that tests share, or else one of its own. What dies
    /// in it is started again.
    pub fn start_ceph(name: &str, osds: u32) -> TestCluster {
        let Some(dir) = shared_ceph::folder() else { return TestCluster::start_own_ceph(name, osds) };
        assert_eq!(osds, shared_ceph::OSDS, "the Ceph that tests share has other OSDs");
        let turn = shared_ceph::take(&dir);
        let ports = Ports::free();
        let cluster =
            TestCluster { dir, osds, ports, kind: Kind::SharedCeph, ceph_program: OnceLock::new(), _turn: Some(turn) };
        if !cluster.conf().exists() {
            cluster.up();
        }
        shared_ceph::clear(&cluster);
        cluster
    }

    /// A real Ceph for a test that stops it, or minds what others have done to it.
    pub fn start_own_ceph(name: &str, osds: u32) -> TestCluster {
        TestCluster::begin(name, osds, Kind::Ceph)
    }

    /// As [`TestCluster::start_own_ceph`], where clients and daemons prove by keys who they are.
    pub fn start_ceph_with_keys(name: &str, osds: u32) -> TestCluster {
        TestCluster::begin(name, osds, Kind::CephWithKeys)
    }

    /// As [`TestCluster::start`], but a daemon that dies is started again.
    pub fn start_supervised(name: &str, osds: u32) -> TestCluster {
        TestCluster::begin(name, osds, Kind::Supervised)
    }

    /// As [`TestCluster::start`], each OSD with its log and its metadata in files of their own.
    pub fn start_split(name: &str, osds: u32) -> TestCluster {
        TestCluster::begin(name, osds, Kind::Split)
    }

    /// As [`TestCluster::start`], on an address of this machine that other hosts reach.
    pub fn start_at(name: &str, osds: u32, address: Ipv4Addr) -> TestCluster {
        TestCluster::start_monitors_at(name, osds, 1, address)
    }

    /// As [`TestCluster::start_at`], with several monitors.
    pub fn start_monitors_at(name: &str, osds: u32, mons: u32, address: Ipv4Addr) -> TestCluster {
        TestCluster::begin(name, osds, Kind::At { address, mons })
    }

    /// As [`TestCluster::start`], with OSDs of another size: `1GiB`.
    pub fn start_small(name: &str, osds: u32, size: &'static str) -> TestCluster {
        TestCluster::begin(name, osds, Kind::Small(size))
    }

    /// As [`TestCluster::start_supervised`], with OSDs of so many shards.
    pub fn start_shards(name: &str, osds: u32, shards: u32) -> TestCluster {
        TestCluster::begin(name, osds, Kind::Shards(shards))
    }

    /// As [`TestCluster::start_supervised`], with several monitors.
    pub fn start_monitors(name: &str, osds: u32, mons: u32) -> TestCluster {
        TestCluster::begin(name, osds, Kind::Monitors(mons))
    }

    /// As [`TestCluster::start_monitors`], where nobody proves who he is.
    pub fn start_without_keys(name: &str, osds: u32, mons: u32) -> TestCluster {
        TestCluster::begin(name, osds, Kind::WithoutKeys(mons))
    }

    /// As [`TestCluster::start_supervised`], where all connections are encrypted.
    pub fn start_secure(name: &str, osds: u32) -> TestCluster {
        TestCluster::begin(name, osds, Kind::Secure)
    }

    fn begin(name: &str, osds: u32, kind: Kind) -> TestCluster {
        let dir = std::env::temp_dir().join(format!("nacre-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let cluster = TestCluster { dir, osds, ports: Ports::free(), kind, ceph_program: OnceLock::new(), _turn: None };
        cluster.up();
        cluster
    }

    /// Starts what is not running, and waits for health.
    #[track_caller]
    pub fn up(&self) {
        let (osds, port) = (self.osds.to_string(), self.ports.first.to_string());
        let size = if let Kind::Small(size) = self.kind { size } else { "2GiB" };
        let args = ["up", "--detach", "--osds", &osds, "--osd-size", size];
        // A cluster that is there keeps its ports, and the Ceph that tests share was perhaps made by another one.
        let at_port: &[&str] = if self.conf().exists() { &[] } else { &["--port", &port] };
        let drives = ["wal", "metadata"].map(|drive| self.drive(drive).display().to_string());
        let dirs = ["--wal-dir", &drives[0], "--metadata-dir", &drives[1]];
        let (address, mons) = match self.kind {
            Kind::At { address, mons } => (address.to_string(), mons.to_string()),
            Kind::Monitors(mons) | Kind::WithoutKeys(mons) => (String::new(), mons.to_string()),
            _ => (String::new(), String::new()),
        };
        let shards = match self.kind {
            Kind::Shards(shards) => Some(shards.to_string()),
            Kind::Ceph | Kind::CephWithKeys | Kind::SharedCeph => None,
            // Any of the tests can be run with several.
            _ => std::env::var("NACRE_TEST_SHARDS").ok(),
        };
        let of_shards = shards.as_ref().map_or(Vec::new(), |shards| vec!["--shards", shards]);
        // Any of the tests can be run where nobody proves who he is, or where all connections are encrypted.
        let is_real = matches!(self.kind, Kind::Ceph | Kind::CephWithKeys | Kind::SharedCeph);
        let auth: &[&str] = match std::env::var("NACRE_TEST_AUTH").as_deref() {
            _ if is_real || self.conf().exists() || matches!(self.kind, Kind::Secure | Kind::WithoutKeys(_)) => &[],
            Err(_) | Ok("cephx") => &[],
            Ok("none") => &["--no-auth"],
            Ok("secure") => &["--secure"],
            Ok(other) => panic!("NACRE_TEST_AUTH is '{other}': none, cephx or secure"),
        };
        let (more, limit): (&[&str], _) = match self.kind {
            // Where monitors are not the subject one does, and leaves the processors to OSDs and clients.
            Kind::Plain | Kind::Small(_) => (&["--no-restart", "--mons", "1"], 180),
            Kind::Supervised | Kind::Shards(_) => (&["--mons", "1"], 180),
            Kind::WithoutKeys(_) if !self.conf().exists() => (&["--mons", &mons, "--no-auth"], 180),
            Kind::Monitors(_) | Kind::WithoutKeys(_) => (&["--mons", &mons], 180),
            Kind::Secure => (&["--mons", "1", "--secure"], 180),
            Kind::Split => (&["--no-restart", "--mons", "1", dirs[0], dirs[1], dirs[2], dirs[3]], 180),
            Kind::At { .. } => (&["--no-restart", "--mons", &mons, "--bind", &address], 180),
            // Its answers are those that were recorded without keys.
            Kind::Ceph | Kind::SharedCeph if !self.conf().exists() => (&["--engine", "ceph", "--no-auth"], 270),
            Kind::Ceph | Kind::SharedCeph | Kind::CephWithKeys => (&["--engine", "ceph"], 270),
        };
        let up = self.nacre(&[&args, at_port, more, auth, &of_shards].concat(), Duration::from_secs(limit));
        // `nacre up` waits a minute for health, which a busy machine may need several of.
        if !up.succeeded() && up.stderr.contains("the cluster goes on trying") {
            return wait_until("the cluster is healthy", Duration::from_secs(limit), || {
                let told = self.nacre(&["status", "--json"], Duration::from_secs(60)).stdout;
                let told: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
                let up = told["status"]["osdmap"]["num_up_osds"].as_u64();
                told["health"] == "HEALTH_OK" && up >= Some(self.osds.into())
            });
        }
        up.ok();
    }

    /// A port of this test that none of the cluster's daemons takes. No connection to elsewhere gets it, as it may get
    /// one that the kernel has called free.
    pub fn spare_port(&self) -> u16 {
        self.ports.first + SPARE_PORT
    }

    /// Where the files for logs (`wal`) or `metadata` are, if they are not in the OSDs' own.
    pub fn drive(&self, name: &str) -> PathBuf {
        self.dir.join("drives").join(name)
    }

    /// Adds OSDs to the cluster while it runs, until there are so many.
    #[track_caller]
    pub fn grow(&self, osds: u32) {
        self.nacre(&["up", "--osds", &osds.to_string()], Duration::from_secs(180)).ok();
    }

    /// Has the cluster have so many monitors from now on, while it runs.
    #[track_caller]
    pub fn have_monitors(&self, mons: u32) {
        self.nacre(&["up", "--mons", &mons.to_string()], Duration::from_secs(180)).ok();
    }

    #[track_caller]
    pub fn down(&self) {
        self.nacre(&["down"], DOWN_LIMIT).ok();
    }

    /// Runs `nacre ARGS --dir DIR`.
    #[track_caller]
    pub fn nacre(&self, args: &[&str], limit: Duration) -> Outcome {
        let mut command = Command::new(binary());
        command.args(args).arg("--dir").arg(&self.dir);
        run(command, limit)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    /// A file in the cluster's folder, for the test's own use.
    pub fn scratch(&self, name: &str) -> PathBuf {
        let folder = self.dir.join("scratch");
        fs::create_dir_all(&folder).expect("folder can be made");
        folder.join(name)
    }

    /// A command that finds this cluster as Ceph's tools do.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env("CEPH_CONF", self.conf());
        command
    }

    /// `ceph ARGS`, by a program that has its modules loaded: [`TestCluster::command`] starts one from the beginning.
    #[track_caller]
    pub fn ceph(&self, args: &[&str]) -> Outcome {
        let program = self.ceph_program.get_or_init(|| CephProgram::start(self.scratch("ceph")));
        program.run(args, &self.conf(), Duration::from_secs(120))
    }

    /// `ceph ARGS --format json`, read.
    #[track_caller]
    pub fn ceph_json(&self, args: &[&str]) -> serde_json::Value {
        let out = self.ceph(&[args, &["--format", "json"]].concat()).ok();
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("ceph {args:?}: {e}: {out}"))
    }

    #[track_caller]
    pub fn rados(&self, args: &[&str]) -> Outcome {
        self.rados_within(args, Duration::from_secs(120))
    }

    #[track_caller]
    pub fn rados_within(&self, args: &[&str], limit: Duration) -> Outcome {
        run(self.command("rados", args), limit)
    }

    /// Makes a replicated pool and waits until its groups serve.
    #[track_caller]
    pub fn make_pool(&self, name: &str, pg_num: u32, size: u32) {
        let (pg_num, size) = (pg_num.to_string(), size.to_string());
        self.ceph(&["osd", "pool", "create", name, &pg_num, &pg_num, "replicated"]).ok();
        self.ceph(&["osd", "pool", "set", name, "size", &size]).ok();
        self.ceph(&["osd", "pool", "application", "enable", name, "test"]).ok();
        self.wait_until_clean(Duration::from_secs(30));
    }

    /// Makes an erasure-coded pool of `k` data and `m` parity shards, which takes overwrites as all new ones do, and
    /// waits until it is clean.
    pub fn make_coded_pool(&self, name: &str, pg_num: u32, k: u32, m: u32) {
        let (pg_num, k, m) = (pg_num.to_string(), format!("k={k}"), format!("m={m}"));
        self.ceph(&["osd", "erasure-code-profile", "set", name, &k, &m, "crush-failure-domain=osd"]).ok();
        self.ceph(&["osd", "pool", "create", name, &pg_num, &pg_num, "erasure", name]).ok();
        self.ceph(&["osd", "pool", "application", "enable", name, "test"]).ok();
        self.wait_until_clean(Duration::from_secs(30));
    }

    /// Has an erasure-coded pool refuse what a Ceph's new pools refuse.
    pub fn refuse_overwrites(&self, pool: &str) {
        self.ceph(&["osd", "pool", "set", pool, "allow_ec_overwrites", "false"]).ok();
    }

    /// Waits until every placement group is active+clean. Fails once states and counts of what is to heal have stayed
    /// the same for `limit`, so that a slow machine has the time that it takes.
    #[track_caller]
    pub fn wait_until_clean(&self, limit: Duration) {
        let (mut progress, mut end) = (Vec::new(), Instant::now() + limit);
        loop {
            let status = self.ceph_json(&["status"]);
            let pgmap = &status["pgmap"];
            let clean: u64 = pgmap["pgs_by_state"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|entry| CLEAN.iter().any(|name| entry["state_name"] == *name))
                .filter_map(|entry| entry["count"].as_u64())
                .sum();
            if pgmap["num_pgs"].as_u64() == Some(clean) {
                return;
            }
            let counts = ["num_pgs", "pgs_by_state", "degraded_objects", "misplaced_objects", "unfound_objects"];
            let now = counts.map(|count| pgmap[count].clone()).to_vec();
            if now != progress {
                (progress, end) = (now, Instant::now() + limit);
            }
            assert!(Instant::now() < end, "not clean, and nothing has changed for {limit:?}: {pgmap}");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// A file with the key that monitors share, for one that is to join.
    #[track_caller]
    pub fn monitors_keyring(&self) -> PathBuf {
        let path = self.scratch("monitors.keyring");
        self.ceph(&["auth", "get", "mon.", "-o", &path.display().to_string()]).ok();
        path
    }

    /// Has the monitors know the key of an OSD that was made by hand in the cluster's folder, if it has one.
    #[track_caller]
    pub fn import_key(&self, osd: u32) {
        let path = self.dir.join(format!("osd.{osd}/keyring"));
        if path.exists() {
            self.ceph(&["auth", "import", "-i", &path.display().to_string()]).ok();
        }
    }

    /// A number of a pool, such as `pg_num`.
    #[track_caller]
    pub fn pool_number(&self, pool: &str, var: &str) -> u64 {
        self.ceph_json(&["osd", "pool", "get", pool, var])[var].as_u64().expect("a number")
    }

    /// Waits until a number of a pool is what it was set to. Fails once it has stayed the same for `limit`.
    #[track_caller]
    pub fn wait_for_pool_number(&self, pool: &str, var: &str, wanted: u64, limit: Duration) {
        let (mut before, mut end) = (None, Instant::now() + limit);
        loop {
            let now = self.pool_number(pool, var);
            if now == wanted {
                return;
            }
            if before != Some(now) {
                (before, end) = (Some(now), Instant::now() + limit);
            }
            assert!(Instant::now() < end, "{var} of pool {pool} has stayed at {now} for {limit:?}");
            thread::sleep(Duration::from_millis(300));
        }
    }

    /// Orders a deep scrub of everything and waits until each group has had it. Fails once no other group has had it
    /// for `limit`.
    #[track_caller]
    pub fn deep_scrub_all(&self, limit: Duration) {
        let stamps = || {
            let dump = self.ceph_json(&["pg", "dump", "pgs"]);
            let groups = dump["pg_stats"].as_array().or(dump.as_array()).cloned().unwrap_or_default();
            groups.iter().map(|group| group["last_deep_scrub_stamp"].clone()).collect::<Vec<_>>()
        };
        let before = stamps();
        self.ceph(&["osd", "deep-scrub", "all"]).ok();
        let (mut left, mut end) = (before.len(), Instant::now() + limit);
        while left > 0 {
            let now = stamps().iter().zip(&before).filter(|(now, before)| now == before).count();
            if now < left {
                (left, end) = (now, Instant::now() + limit);
            }
            assert!(Instant::now() < end, "{left} groups are not scrubbed, and none has been for {limit:?}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until the map shows an OSD up or down.
    #[track_caller]
    pub fn wait_until_up(&self, osd: u32, is_up: bool, limit: Duration) {
        wait_until(&format!("osd.{osd} is up: {is_up}"), limit, || {
            let dump = self.ceph_json(&["osd", "dump"]);
            let found = dump["osds"].as_array().into_iter().flatten().find(|entry| entry["osd"] == osd);
            found.is_some_and(|entry| entry["up"] == u32::from(is_up))
        });
    }

    /// A number of the clients' part of what an OSD counts.
    #[track_caller]
    pub fn counted(&self, osd: u32, name: &str) -> u64 {
        let dump = self.ceph_json(&["tell", &format!("osd.{osd}"), "perf", "dump"]);
        dump["osd"][name].as_u64().unwrap_or_else(|| panic!("osd.{osd} counts no {name}: {dump}"))
    }

    /// Ids of this cluster's processes, by the files they leave.
    pub fn pids(&self) -> Vec<Pid> {
        let mut pids = Vec::new();
        let mut folders = vec![self.dir.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "pid") {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    let number = text.split_whitespace().next().and_then(|word| word.parse().ok());
                    pids.extend(number.and_then(Pid::from_raw));
                }
            }
        }
        pids
    }

    /// Process id of a daemon that runs, such as `osd.1`.
    #[track_caller]
    pub fn pid_of(&self, daemon: &str) -> Pid {
        let path = self.dir.join(format!("run/{daemon}.pid"));
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Pid::from_raw(text.trim().parse().expect("a number")).expect("not zero")
    }

    /// Sends a daemon a signal.
    #[track_caller]
    pub fn signal(&self, daemon: &str, signal: Signal) {
        kill_process(self.pid_of(daemon), signal).expect("the daemon runs");
    }

    /// Kills every process of the cluster at once, without warning.
    pub fn kill_all(&self) {
        let pids = self.pids();
        assert!(pids.len() > self.osds as usize, "a monitor and {} OSDs run: {pids:?}", self.osds);
        for pid in &pids {
            let _ = kill_process(*pid, Signal::KILL);
        }
        wait_until_gone(&pids);
    }

    /// Kills a daemon of a cluster in which what dies is started again, and removes its folder before it is.
    #[track_caller]
    pub fn lose_disk(&self, daemon: &str) {
        let pid = self.pid_of(daemon);
        self.signal("supervisor", Signal::STOP);
        self.signal(daemon, Signal::KILL);
        wait_until_gone(&[pid]);
        fs::remove_dir_all(self.dir.join(daemon)).expect("the daemon's folder can be removed");
        self.signal("supervisor", Signal::CONT);
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        let is_shared = self.kind == Kind::SharedCeph;
        let mut command = Command::new(binary());
        command.args(["down", "--dir"]).arg(&self.dir);
        if thread::panicking() {
            post_mortem::record(&self.dir, self.osds);
            let _ = command.status();
            // Stores are large: kept, they would take from the tests that follow the room that these need.
            if std::env::var_os("NACRE_KEEP_STORES").is_none() {
                remove_large_files(&self.dir);
            }
            // The next test that wants the shared Ceph starts it anew.
            let name = format!("nacre-test-failed-ceph-{}", std::process::id());
            let kept = if is_shared { self.dir.with_file_name(name) } else { self.dir.clone() };
            let _ = fs::rename(&self.dir, &kept);
            eprintln!("the cluster's folder is kept: {} (logs in log/, how it was in failure/)", kept.display());
            return;
        }
        if is_shared {
            let _ = fs::remove_dir_all(self.dir.join("scratch"));
            return;
        }
        run(command, DOWN_LIMIT);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Waits until processes that were killed are gone, at most as zombies.
#[track_caller]
fn wait_until_gone(pids: &[Pid]) {
    let end = Instant::now() + Duration::from_secs(60);
    while pids.iter().any(|pid| Path::new(&format!("/proc/{}/exe", pid.as_raw_nonzero())).exists()) {
        assert!(Instant::now() < end, "killed processes are still there");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Removes what takes more than 16 MiB: stores, and files that a test wrote.
fn remove_large_files(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.metadata() else { continue };
        if kind.is_dir() {
            remove_large_files(&entry.path());
        } else if kind.is_file() && kind.blocks() * 512 > 16 << 20 {
            let _ = fs::remove_file(entry.path());
        }
    }
}
