//! OSDs end sessions of clients once the tickets by which they were let in have ended. Clients that have their keys
//! come again by themselves; removed keys and narrowed capabilities count from then on.

use crate::fuzz;
use crate::fuzz::harm::{Harm, Random};
use crate::fuzz::visit::{CAME_IN, Visitor};
use client::{Cluster, Config, Who};
use cluster_tests::{Killed, Outcome, TestCluster, clients_are_here, python, run, wait_until};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const GOES_OVER: Duration = Duration::from_secs(280);
/// Seconds for which a ticket is good. Ceph's clients renew it after three quarters, and look every ten seconds.
const TICKET_S: u64 = 40;
/// Time in which each session ends at least twice: a ticket's secret is kept for two lives of tickets.
const WORK: Duration = Duration::from_secs(5 * TICKET_S);
/// Time in which a client ends that was let in before: two lives, pauses between looks of OSDs, the client's timeout.
const ENDED: Duration = Duration::from_secs(2 * TICKET_S + 50);
/// The longest that an operation may take, on a machine that does much else besides. A client that waits for a timeout
/// of its own takes longer.
const LONGEST_S: f64 = 4.0;

/// A client that writes and reads one object again and again: until its time is over, or it cannot any more.
struct Client {
    child: Killed,
    said: BufReader<ChildStdout>,
}

impl Client {
    fn start(cluster: &TestCluster, name: &str, limit: Duration) -> Client {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/until_refused.py");
        let keyring = cluster.scratch(&format!("{name}.keyring"));
        let caps = ["mon", "allow r", "osd", "allow rwx pool=p"];
        let key = cluster.ceph(&[&["auth", "get-or-create", name], &caps[..]].concat()).ok();
        std::fs::write(&keyring, key).expect("it is written");
        let mut command = cluster.command("timeout", &["400", python(), script, name, "p"]);
        command.arg(&keyring).arg(limit.as_secs().to_string()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut client = Client { child: Killed(child), said };
        assert_eq!(client.line(), "began");
        client
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("it says something");
        line.trim().to_owned()
    }

    /// Returns why it ended, how many rounds it did, and the longest time of one, in seconds.
    fn end(mut self) -> (String, u64, f64) {
        let line = self.line();
        let words: Vec<&str> = line.split(' ').collect();
        let [why, count, longest] = words[..] else { panic!("it says '{line}'") };
        assert!(self.child.0.wait().expect("it ends").success());
        (why.to_owned(), count.parse().expect("a number"), longest.parse().expect("a number"))
    }
}

/// Runs a program beside others.
fn beside(command: Command) -> JoinHandle<Outcome> {
    thread::spawn(move || run(command, WORK + LIMIT))
}

/// The number behind `label` in what a program says.
#[track_caller]
fn number(said: &str, label: &str) -> f64 {
    let line = said.lines().find_map(|line| line.trim().strip_prefix(label)).unwrap_or_else(|| panic!("{said}"));
    line.trim().parse().unwrap_or_else(|_| panic!("{line}"))
}

/// Runs `rados bench`, which writes one object after the other, beside others.
fn rados_bench(cluster: &TestCluster, work: Duration) -> JoinHandle<Outcome> {
    let seconds = work.as_secs().to_string();
    // Without a number of objects, at which it would end.
    beside(cluster.command("rados", &["bench", "-p", "p", &seconds, "write", "-b", "4096", "-t", "1", "--no-cleanup"]))
}

/// `rados bench`, and fio that checks an image, with many operations in flight.
fn load(cluster: &TestCluster) -> [JoinHandle<Outcome>; 2] {
    let runtime = format!("--runtime={}", WORK.as_secs());
    let image =
        ["--name=i", "--ioengine=rbd", "--clientname=admin", "--pool=rbd", "--rbdname=i", "--output-format=json"];
    // A part of it is read back each time that all of it was written.
    let work = ["--rw=randwrite", "--bs=4k", "--size=4m", "--iodepth=8", "--rate_iops=100", "--verify=crc32c"];
    let more = ["--verify_fatal=1", "--do_verify=1", "--time_based", &runtime];
    let mut fio = cluster.command("fio", &[&image[..], &work[..], &more[..]].concat());
    fio.current_dir(cluster.dir());
    [rados_bench(cluster, WORK), beside(fio)]
}

/// Writes by our own client library, all the time over the connections that it has. Returns the longest time of one.
fn own_client(conf: &Path, work: Duration) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let connected =
            Cluster::connect(Config::from_conf(conf).expect("a configuration")).await.expect("a connection");
        let pool = connected.pool("p").await.expect("the pool");
        let (until, mut longest, mut round) = (Instant::now() + work, Duration::ZERO, 0u32);
        while Instant::now() < until {
            let (begin, content) = (Instant::now(), round.to_string());
            pool.write_full("own", content.clone()).await.expect("a write");
            assert_eq!(pool.read("own", 0, 0).await.expect("a read"), content.as_bytes());
            longest = longest.max(begin.elapsed());
            round += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        longest
    })
}

#[test]
fn sessions_end_with_their_tickets_and_clients_with_keys_notice_nothing() {
    if !clients_are_here(&["ceph", "rados", "rbd", "fio", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start_without_keys("tickets", 3, 1);
    // Secrets are made with these lives as the cluster goes over.
    cluster.ceph(&["config", "set", "mon", "auth_service_ticket_ttl", &TICKET_S.to_string()]).ok();
    cluster.nacre(&["auth", "enable", "--force"], GOES_OVER).ok();
    cluster.make_pool("p", 8, 3);
    cluster.make_pool("rbd", 8, 3);
    run(cluster.command("rbd", &["create", "rbd/i", "--size", "16M"]), LIMIT).ok();
    let [removed, narrowed] = ["client.removed", "client.narrowed"].map(|name| Client::start(&cluster, name, WORK));
    let stays = Client::start(&cluster, "client.stays", WORK);
    let [bench, fio] = load(&cluster);
    let own = thread::spawn({
        let conf = cluster.conf();
        move || own_client(&conf, WORK)
    });
    let begin = Instant::now();
    cluster.ceph(&["auth", "rm", "client.removed"]).ok();
    cluster.ceph(&["auth", "caps", "client.narrowed", "mon", "allow r", "osd", "allow r pool=p"]).ok();
    for (client, expected) in [(narrowed, "PermissionError"), (removed, "TimedOut")] {
        let (why, count, _) = client.end();
        eprintln!("{why} after {} s and {count} rounds", begin.elapsed().as_secs());
        assert!(why == expected && count > 0 && begin.elapsed() < ENDED, "{why} after {} s", begin.elapsed().as_secs());
    }
    let (why, count, longest) = stays.end();
    eprintln!("a client that stays: {count} rounds, {longest} s at most");
    assert!(why == "over" && count > 100 && longest < LONGEST_S, "{why}: {count} rounds, {longest} s at most");
    let longest = own.join().expect("our own client writes").as_secs_f64();
    let bench = bench.join().expect("it ends").ok();
    let slowest_write = number(&bench, "Max latency(s):");
    let fio = fio.join().expect("it ends").ok();
    let told = serde_json::from_str::<serde_json::Value>(&fio[fio.find('{').unwrap_or(0)..]);
    let job = &told.unwrap_or_else(|e| panic!("{e}: {fio}"))["jobs"][0];
    assert_eq!(job["error"], 0, "{job}");
    let slowest_of_image = ["read", "write"].map(|kind| job[kind]["lat_ns"]["max"].as_f64().expect("a time") / 1e9);
    eprintln!("at most: our own client {longest} s, rados bench {slowest_write} s, fio {slowest_of_image:?} s");
    for seconds in slowest_of_image.into_iter().chain([longest, slowest_write]) {
        assert!(seconds < LONGEST_S, "{seconds} s");
    }
    let log = |osd: u32| std::fs::read_to_string(cluster.dir().join(format!("log/osd.{osd}.log"))).expect("a log");
    let ends: Vec<usize> = (0..3).map(|osd| log(osd).matches("whose tickets have ended").count()).collect();
    eprintln!("times at which OSDs ended sessions: {ends:?}");
    assert!(ends.iter().all(|times| *times >= 2), "{ends:?}");
    assert!(cluster.ceph(&["-s"]).ok().contains("3 osds: 3 up"));
}

/// Time from a purge on in which clients work, and in which OSDs take no ticket any more that was made before it.
const AFTER_PURGE: Duration = Duration::from_secs(60);

/// Whoever has an OSD's key knows the secrets by which OSDs believe tickets. Once the OSD is purged they are worth
/// nothing, long before the tickets' time is over, and clients with keys go on.
#[test]
fn a_purge_ends_all_tickets_and_clients_with_keys_notice_nothing() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start_monitors("replaced", 4, 3);
    // With 32 groups every OSD is the primary of some.
    cluster.make_pool("p", 32, 3);
    cluster.ceph(&["osd", "out", "3"]).ok();
    cluster.wait_until_clean(LIMIT);
    cluster.ceph(&["osd", "stop", "3"]).ok();
    cluster.wait_until_up(3, false, LIMIT);
    let keyring = cluster.scratch("client.before.keyring");
    let caps = ["mon", "allow r", "osd", "allow rwx pool=p"];
    let key = cluster.ceph(&[&["auth", "get-or-create", "client.before"], &caps[..]].concat()).ok();
    std::fs::write(&keyring, key).expect("it is written");
    let (mut visitor, mut random) =
        (Visitor::with_key(&cluster.conf(), &Who::new("client", "before"), &keyring), Random(1));
    let places = fuzz::places(&cluster);
    let monitor = places.iter().find(|place| place.name == "mon.\"a\"").expect("a port");
    visitor.renew(monitor, &mut random);
    let osds: Vec<_> = places.iter().filter(|place| place.name.starts_with("public_addrs of osd.")).collect();
    let osds: Vec<_> = osds.into_iter().filter(|place| !place.name.ends_with('3')).collect();
    assert_eq!(osds.len(), 3);
    for osd in &osds {
        assert_eq!(visitor.visit(osd, Harm::None { secure: false }, &mut random), CAME_IN, "{}", osd.name);
    }
    // One client is there all the time, others come meanwhile.
    let stays = Client::start(&cluster, "client.stays", AFTER_PURGE + Duration::from_secs(5));
    let bench = rados_bench(&cluster, AFTER_PURGE);
    let own = thread::spawn({
        let conf = cluster.conf();
        move || own_client(&conf, AFTER_PURGE)
    });
    thread::sleep(Duration::from_secs(3));
    let begin = Instant::now();
    cluster.ceph(&["osd", "purge", "3", "--yes-i-really-mean-it"]).ok();
    for osd in &osds {
        // A visit that a busy machine holds up does not come in, either.
        wait_until("tickets from before are good for nothing", AFTER_PURGE, || {
            (0..3).all(|_| visitor.visit(osd, Harm::None { secure: false }, &mut random) != CAME_IN)
        });
    }
    eprintln!("no OSD takes a ticket from before after {:?}", begin.elapsed());
    visitor.renew(monitor, &mut random);
    for osd in &osds {
        wait_until("a new ticket is good", LIMIT, || {
            visitor.visit(osd, Harm::None { secure: false }, &mut random) == CAME_IN
        });
    }
    let (why, count, longest) = stays.end();
    let own = own.join().expect("our own client writes").as_secs_f64();
    let bench = bench.join().expect("it ends").ok();
    let slowest = number(&bench, "Max latency(s):");
    eprintln!("at most: a client that stays {longest} s in {count} rounds, our own {own} s, rados bench {slowest} s");
    assert!(why == "over" && count > 30, "{why}: {count} rounds");
    for seconds in [longest, own, slowest] {
        assert!(seconds < LONGEST_S, "{seconds} s");
    }
    let log = |osd: u32| std::fs::read_to_string(cluster.dir().join(format!("log/osd.{osd}.log"))).expect("a log");
    assert!((0..3).all(|osd| log(osd).contains("whose tickets have ended")), "sessions of clients stay");
    assert!(cluster.ceph(&["-s"]).ok().contains("3 osds: 3 up"));
}
