//! Crowds of connections that prove nothing, and guesses of keys, beside honest clients.

use crate::fuzz;
use crate::fuzz::harm::Random;
use crate::fuzz::visit::Visitor;
use auth::Key;
use client::{Cluster, Config, Who};
use cluster_tests::{TestCluster, clients_are_here, is_whole_suite};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use types::Fsid;
use wire::messages::Command;
use wire::{Message, Rope, Target};

const LIMIT: Duration = Duration::from_secs(60);
/// For a thousand clients to be served, or turned away.
const CROWD_LIMIT: Duration = Duration::from_secs(300);

/// Lets this process have as many connections as it may.
fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("it may have what it may have");
}

/// Resident memory of a daemon in MiB.
fn resident_mib(cluster: &TestCluster, daemon: &str) -> u64 {
    let pid = cluster.pid_of(daemon).as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory").to_owned();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") >> 10
}

/// Linux counts processors' times so for programs, on all machines.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds of processors that this process and the cluster's daemons have spent so far.
fn processor_seconds(cluster: &TestCluster, daemons: &[&str]) -> f64 {
    let of = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
        // The name of the program, in brackets, may have blanks. Times of user and system are the 12th and 13th behind.
        let behind = stat.rsplit(')').next().expect("the rest").split_whitespace();
        behind.skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>()
    };
    let pids = daemons.iter().map(|daemon| cluster.pid_of(daemon).as_raw_nonzero().to_string());
    let ticks: f64 = pids.chain(["self".to_owned()]).map(|pid| of(&pid)).sum();
    ticks / TICKS_PER_SECOND
}

fn port(addrs: &serde_json::Value) -> SocketAddr {
    addrs["addrvec"][0]["addr"].as_str().and_then(|addr| addr.parse().ok()).expect("an address")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// An honest client asks a monitor, writes and reads. Returns the time that it took.
fn serves(cluster: &TestCluster) -> Duration {
    let begin = Instant::now();
    cluster.ceph(&["-s"]).ok();
    let (from, to) = (cluster.scratch("from"), cluster.scratch("to"));
    std::fs::write(&from, vec![7; 200_000]).expect("it is written");
    cluster.rados(&["-p", "p", "put", "object", text(&from)]).ok();
    cluster.rados(&["-p", "p", "get", "object", text(&to)]).ok();
    assert!(std::fs::read(&to).expect("it came") == std::fs::read(&from).expect("it is there"));
    begin.elapsed()
}

/// `count` connections to each port: a third of them silent, a third with half a banner, a third with a banner and a
/// part of a frame.
fn crowd(ports: &[SocketAddr], count: usize) -> Vec<TcpStream> {
    let banner = [b"ceph v2\n".as_slice(), &16_u16.to_le_bytes(), &1_u64.to_le_bytes(), &[0; 8]].concat();
    let mut crowd = Vec::new();
    for number in 0..count {
        for port in ports {
            let mut stream = TcpStream::connect_timeout(port, LIMIT).expect("it is let in, or turned away later");
            let said = match number % 3 {
                0 => &[],
                1 => &banner[..10],
                _ => &[&banner[..], &[1, 1, 40, 0, 0]].concat()[..],
            };
            let _ = stream.write_all(said);
            crowd.push(stream);
        }
    }
    crowd
}

/// True if the other side has ended the connection.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    loop {
        match stream.peek(&mut [0]) {
            Ok(0) => return true,
            Ok(_) => drop(std::io::Read::read(&mut &*stream, &mut [0; 4096])),
            Err(e) => return e.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

/// Whoever has a key may send large messages to a monitor. Those that never end have a bound together.
#[test]
fn messages_in_part_take_a_monitor_little_memory() {
    const MESSAGES: usize = 12;
    const MESSAGE_MIB: usize = 60;
    /// The monitor has room for 256 MiB of them.
    const KEPT: usize = 4;
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("in-part", 2);
    cluster.make_pool("p", 8, 2);
    let places = fuzz::places(&cluster);
    let monitor = places.iter().find(|place| place.name == "mon.\"a\"").expect("a port");
    let (mut visitor, mut random) = (Visitor::new(&cluster.conf()), Random(1));
    let before = resident_mib(&cluster, "mon.a");
    let mut streams = Vec::new();
    for tid in 1..=MESSAGES as u64 {
        let input = Rope::from(vec![7; MESSAGE_MIB << 20]);
        let command = Command { fsid: Fsid::default(), cmd: Vec::new(), input };
        streams.push(visitor.say_in_part(monitor, command.seal(tid, Target::default()), 100, &mut random));
        if tid % 4 == 0 {
            serves(&cluster);
        }
    }
    let ended = || streams.iter().map(is_closed).collect::<Vec<_>>();
    let want: Vec<bool> = (0..MESSAGES).map(|number| number < MESSAGES - KEPT).collect();
    let end = Instant::now() + LIMIT;
    while ended() != want {
        assert!(Instant::now() < end, "{:?}", ended());
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = resident_mib(&cluster, "mon.a");
    let most = before + 100 + (KEPT * MESSAGE_MIB) as u64;
    assert!(after < most, "{before} MiB, then {after}, of at most {most}");
    // A file of some size comes through meanwhile.
    let file = cluster.scratch("large");
    std::fs::write(&file, vec![b'x'; 60_000]).expect("it is written");
    cluster.ceph(&["config-key", "set", "large", "-i", text(&file)]).ok();
    serves(&cluster);
}

#[test]
fn crowds_of_idle_connections_keep_nobody_out() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    allow_descriptors();
    let cluster = TestCluster::start("crowds", 2);
    cluster.make_pool("p", 8, 2);
    let usual = serves(&cluster);
    let mon = port(&cluster.ceph_json(&["mon", "dump"])["mons"][0]["public_addrs"]);
    let osd = cluster.ceph_json(&["osd", "dump"])["osds"][0].clone();
    let ports = [mon, port(&osd["public_addrs"]), port(&osd["cluster_addrs"]), port(&osd["heartbeat_back_addrs"])];
    let daemons = ["mon.a", "osd.0"];
    let before = daemons.map(|daemon| resident_mib(&cluster, daemon));
    // Four ports have so many each; this process may have 20,000 on a usual machine.
    let count = if is_whole_suite() { 3000 } else { 800 };
    let streams = crowd(&ports, count);
    let beside = serves(&cluster);
    let after = daemons.map(|daemon| resident_mib(&cluster, daemon));
    eprintln!("{usual:?} alone, {beside:?} beside {} connections; MiB: {before:?}, then {after:?}", streams.len());
    for (before, after) in before.iter().zip(after) {
        assert!(after < before + 48, "{before} MiB, then {after}");
    }
    // Silent ones are sent away after a while; whoever comes anew is served all the same.
    let open = || streams.iter().filter(|stream| !is_closed(stream)).count();
    let end = Instant::now() + LIMIT;
    while open() > 0 {
        assert!(Instant::now() < end, "{} of {} connections are open", open(), streams.len());
        std::thread::sleep(Duration::from_millis(500));
    }
    let again = crowd(&ports, count / 4);
    serves(&cluster);
    drop((streams, again));
    for daemon in ["mon.a", "osd.0", "osd.1"] {
        cluster.pid_of(daemon);
        let log = std::fs::read_to_string(cluster.dir().join(format!("log/{daemon}.log"))).expect("a log");
        assert!(log.lines().count() < 2000, "{daemon} has written {} lines", log.lines().count());
    }
}

/// A client that has a key, and not the one that belongs to its name.
fn guess(cluster: &TestCluster) -> Config {
    let mut config = Config::from_conf(cluster.conf()).expect("a ceph.conf");
    config.who = Who::new("client", "x");
    config.login.key = Some(Key::from_text("AQDBiAlru/32OBAAed62k2sQrvSFZPR9PkqFpg==").expect("a key"));
    config.connect_timeout = Duration::from_secs(2);
    config
}

#[test]
fn guesses_of_keys_are_limited_and_hold_up_nobody_who_is_known() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("guesses", 1);
    // Its owner is known here from now on.
    cluster.ceph(&["-s"]).ok();
    let log = || std::fs::read_to_string(cluster.dir().join("log/mon.a.log")).expect("a log");
    let end = Instant::now() + CROWD_LIMIT;
    while !log().contains("too many logins from its machine have failed") {
        assert!(Instant::now() < end, "guesses are not limited");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let guesses: Vec<_> = (0..40).map(|_| tokio::spawn(Cluster::connect(guess(&cluster)))).collect();
            for guess in guesses {
                assert!(guess.await.expect("it ends").is_err());
            }
        });
    }
    assert!(cluster.ceph(&["-s"]).succeeded(), "client.admin goes on");
    // Somebody new has to wait, but not for good.
    let keyring = cluster.scratch("new.keyring");
    let key = cluster.ceph(&["auth", "get-or-create", "client.new", "mon", "allow r"]).ok();
    std::fs::write(&keyring, key).expect("it is written");
    cluster.ceph(&["-n", "client.new", "-k", text(&keyring), "-s"]).ok();
}

/// Time in which a thousand clients are served. A machine that does something else besides needs longer, a minute at
/// most, but no more work, of all who take part, than one processor does in this time.
const SERVED: Duration = Duration::from_secs(5);

/// A client of its own: it proves who it is to a monitor and to an OSD, and writes an object.
async fn comes_and_writes(conf: std::path::PathBuf, number: u32) -> Result<Cluster, String> {
    let mut config = Config::from_conf(conf).expect("a ceph.conf");
    config.connect_timeout = CROWD_LIMIT;
    config.op_timeout = Some(CROWD_LIMIT);
    let cluster = Cluster::connect(config).await.map_err(|error| format!("{error:?}"))?;
    let pool = cluster.pool("p").await.map_err(|error| format!("{error:?}"))?;
    pool.write_full(format!("from-{number}"), number.to_string()).await.map_err(|error| format!("{error:?}"))?;
    Ok(cluster)
}

#[test]
fn a_thousand_clients_come_at_once() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    allow_descriptors();
    let cluster = TestCluster::start("thousand", 2);
    cluster.make_pool("p", 8, 2);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let daemons = ["mon.a", "osd.0", "osd.1"];
    runtime.block_on(async {
        let (begin, before) = (Instant::now(), processor_seconds(&cluster, &daemons));
        let coming: Vec<_> = (0..1000).map(|number| tokio::spawn(comes_and_writes(cluster.conf(), number))).collect();
        let mut there = Vec::new();
        for client in coming {
            there.push(client.await.expect("it ends").expect("it is served"));
        }
        let (took, work) = (begin.elapsed(), processor_seconds(&cluster, &daemons) - before);
        eprintln!(
            "1000 clients, each with its monitor and an OSD, have written after {took:?}: {work:.2} s of processors"
        );
        let is_quick = took < SERVED || (work < SERVED.as_secs_f64() && took < 12 * SERVED);
        assert!(is_quick, "{took:?}, and {work:.2} s of processors");
        // All are still there, and so is whoever comes next.
        serves(&cluster);
        for (number, client) in there.iter().enumerate().step_by(100) {
            let pool = client.pool("p").await.expect("the pool");
            let written = pool.read(format!("from-{number}"), 0, 0).await.expect("its object");
            assert_eq!(written, number.to_string().as_bytes());
        }
    });
}
