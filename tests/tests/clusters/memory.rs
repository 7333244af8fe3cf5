//! OSDs stay within their memory, whatever clients do: many small objects, a huge omap, large writes with many in
//! flight, readers that take nothing of their answers.

use cluster_tests::{Background, TestCluster, clients_are_here, python, run};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const OSDS: u32 = 3;
/// Memory that `nacre up` gives each OSD.
const BUDGET: u64 = 112 << 20;

/// The number of a size in `/proc/PID/status`, in bytes.
fn status_bytes(status: &str, field: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_else(|| panic!("no {field}: {status}"));
    let kib: u64 = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number");
    kib << 10
}

/// The most pages of the program itself that each process was seen with. The kernel takes them away where memory is
/// short, and the most memory that a process ever had holds them all the same.
type ProgramBytes = BTreeMap<i32, u64>;

/// The most memory that any OSD ever had, without the pages of the program itself.
fn peak(cluster: &TestCluster, programs: &mut ProgramBytes) -> u64 {
    let of = |osd: u32| {
        let pid = cluster.pid_of(&format!("osd.{osd}")).as_raw_nonzero().get();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the OSD runs");
        let program = programs.entry(pid).or_default();
        *program = (*program).max(status_bytes(&status, "RssFile:"));
        status_bytes(&status, "VmHWM:").saturating_sub(*program)
    };
    (0..OSDS).map(of).max().expect("there are OSDs")
}

#[track_caller]
fn within_budget(cluster: &TestCluster, programs: &mut ProgramBytes, after: &str) {
    let peak = peak(cluster, programs);
    eprintln!("after {after}: {} MiB", peak >> 20);
    assert!(peak <= BUDGET, "an OSD took {} MiB of memory, where it was given {}", peak >> 20, BUDGET >> 20);
}

fn scale() -> u64 {
    // A million objects and as many omap entries take a quarter of an hour; these take half a minute.
    std::env::var("NACRE_MEMORY_TEST_SCALE").map_or(1, |text| text.parse().expect("a number"))
}

#[test]
fn memory_stays_within_the_budget() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("memory", OSDS);
    cluster.make_pool("p", 16, 3);
    let programs = &mut ProgramBytes::new();
    within_budget(&cluster, programs, "start");
    let limit = Duration::from_secs(600 * scale());
    for (script, count) in [("many_objects", 50_000 * scale()), ("huge_omap", 100_000 * scale())] {
        let path = format!("{}/python/{script}.py", env!("CARGO_MANIFEST_DIR"));
        let out = run(cluster.command(python(), &[&path, "p", &count.to_string()]), limit).ok();
        within_budget(&cluster, programs, out.trim());
    }
    // Objects enough that each of the 128 operations is used again; more would only fill the disk below.
    let bench =
        ["-p", "p", "bench", "60", "write", "-b", "4194304", "-t", "128", "--no-cleanup", "--max-objects", "300"];
    cluster.rados(&bench).ok();
    within_budget(&cluster, programs, "4 MiB writes, 128 in flight");
    cluster.rados(&["-p", "p", "bench", "5", "rand", "-t", "128"]).ok();
    within_budget(&cluster, programs, "4 MiB reads, 128 in flight");
    cluster.down();
    cluster.up();
    cluster.wait_until_clean(Duration::from_secs(30));
    within_budget(&cluster, programs, "a restart");
}

/// Readers that ask for far more than an OSD has memory, and stand still. Their answers are encrypted, so that none
/// shares memory with the block cache.
#[test]
fn readers_that_take_nothing_leave_memory_to_others() {
    const READERS: usize = 12;
    /// A reader's librados asks for so many at once: 100 MiB.
    const OBJECTS: &str = "25";
    /// How long readers stand still. An OSD that is full gives up connections that take nothing for 10 s.
    const STILL: Duration = Duration::from_secs(25);
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start_secure("standing-readers", OSDS);
    cluster.make_pool("p", 8, 3);
    let (pids, programs) = (cluster.pids(), &mut ProgramBytes::new());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/standing_reader.py");
    run(cluster.command(python(), &[script, "write", "p", OBJECTS]), Duration::from_secs(300)).ok();
    within_budget(&cluster, programs, "writes");
    let reader = || Background::start(cluster.command(python(), &[script, "read", "p", OBJECTS]));
    let mut readers: Vec<Background> = (0..READERS).map(|_| reader()).collect();
    let mut came = 0;
    for reader in &readers {
        let line = reader.says("asked; ", Duration::from_secs(120));
        came += line.split_whitespace().nth(1).and_then(|word| word.parse::<usize>().ok()).expect("a number");
    }
    let asked = READERS * OBJECTS.parse::<usize>().expect("a number");
    assert!(came < asked / 2, "{came} of {asked} reads were answered before their readers stood still");
    let (began, file) = (Instant::now(), cluster.scratch("honest"));
    let (mut served, mut longest) = (0, Duration::ZERO);
    while served == 0 || began.elapsed() < STILL {
        let turn = Instant::now();
        std::fs::write(&file, format!("{served} ").repeat(50_000)).expect("it is written");
        let path = file.to_str().expect("a plain path");
        cluster.rados(&["-p", "p", "put", "honest", path]).ok();
        let back = cluster.scratch("back");
        cluster.rados(&["-p", "p", "get", "honest", back.to_str().expect("a plain path")]).ok();
        assert!(std::fs::read(&back).expect("it came") == std::fs::read(&file).expect("it is there"));
        (served, longest) = (served + 1, longest.max(turn.elapsed()));
        within_budget(&cluster, programs, "a client that was served beside readers that take nothing");
    }
    eprintln!("a client wrote and read {served} times, in {longest:?} at most");
    // Readers that take nothing are parted with after ten seconds.
    assert!(longest < Duration::from_secs(60), "{longest:?}");
    for reader in &readers {
        reader.signal(Signal::CONT);
    }
    for reader in &mut readers {
        let line = reader.says("reads are right", Duration::from_secs(300));
        assert_eq!(line, format!("{OBJECTS} of {OBJECTS} reads are right"));
        assert_eq!(reader.exit_code(Duration::from_secs(30)), Some(0));
    }
    within_budget(&cluster, programs, "readers that went on");
    assert_eq!(cluster.pids(), pids, "daemons have ended");
}
