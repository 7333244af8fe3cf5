//! A cluster without authentication gets it, while clients work.

use cluster_tests::{Killed, TestCluster, clients_are_here, python, run};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// Six daemons are started again twice.
const GOES_OVER: Duration = Duration::from_secs(280);

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// A client that writes all the time over one connection, by a `ceph.conf` of its own.
struct Writer {
    child: Killed,
    said: BufReader<std::process::ChildStdout>,
}

impl Writer {
    fn start(conf: &Path) -> Writer {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/steady_writer.py");
        let mut command = Command::new("timeout");
        command.args(["400", python(), script, text(conf), "p"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it says something");
        assert_eq!(line, "began\n");
        Writer { child: Killed(child), said }
    }

    /// Ends it. Returns how much it wrote, and the longest time that one write took, in seconds.
    fn end(mut self) -> (u64, f64) {
        drop(self.child.0.stdin.take());
        let mut line = String::new();
        self.said.read_line(&mut line).expect("it says something");
        assert!(self.child.0.wait().expect("it ends").success(), "{line}");
        let (count, longest) = line.trim().split_once(' ').expect("two numbers");
        (count.parse().expect("a number"), longest.parse().expect("a number"))
    }
}

/// A `ceph.conf` of a client that takes what methods there are, `cephx` rather than none, as Ceph's do by default.
fn conf_of_client(cluster: &TestCluster, name: &str, methods: &str) -> PathBuf {
    let own = std::fs::read_to_string(cluster.conf()).expect("a ceph.conf");
    let value = |key: &str| {
        own.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("no {key}: {own}")).to_owned()
    };
    let path = cluster.scratch(name);
    let mut file = std::fs::File::create(&path).expect("a file");
    let keyring = cluster.dir().join("ceph.client.admin.keyring");
    let lines = [value("fsid"), value("mon host"), format!("keyring = {}", keyring.display())];
    writeln!(file, "[global]\n{}\nauth client required = {methods}", lines.join("\n")).expect("it is written");
    path
}

#[test]
fn clients_write_on_while_a_cluster_goes_over_to_authentication() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start_without_keys("going-over", 3, 3);
    cluster.make_pool("p", 8, 3);
    let goes_over = Writer::start(&conf_of_client(&cluster, "client.conf", "cephx, none"));
    let stays = Writer::start(&conf_of_client(&cluster, "old.conf", "none"));
    // A warning does not keep a cluster from it.
    cluster.ceph(&["osd", "set", "noscrub"]).ok();
    let first = cluster.nacre(&["auth", "enable"], GOES_OVER);
    let said = format!("{}{}", first.stdout, first.stderr);
    assert_eq!(first.code, Some(1), "{said}");
    assert_eq!(said.matches("client.admin (client.").count(), 1, "the client that takes 'none' alone is named: {said}");
    let status = cluster.nacre(&["auth", "enable", "--status"], LIMIT);
    assert!(status.stdout.contains("offered, and 1 connections prove nothing"), "{}", status.stdout);
    let (count, longest) = stays.end();
    eprintln!("without a key: {count} writes, {longest} s at most");
    let done = cluster.nacre(&["auth", "enable"], GOES_OVER).ok();
    eprintln!("{done}");
    let (count, longest) = goes_over.end();
    eprintln!("over one connection all the time: {count} writes, {longest} s at most");
    assert!(count > 100 && longest < 30.0, "{count} writes, {longest} s at most");
    let unproven =
        run(cluster.command("ceph", &["--auth-client-required", "none", "--connect-timeout", "5", "-s"]), LIMIT);
    assert!(!unproven.succeeded(), "{}", unproven.stdout);
    assert!(cluster.ceph(&["-s"]).ok().contains("3 osds: 3 up"));
    assert!(cluster.nacre(&["auth", "enable", "--status"], LIMIT).ok().contains("required of everybody"));
    // It starts as what it is now, and new OSDs have keys.
    cluster.nacre(&["down"], LIMIT).ok();
    cluster.up();
    cluster.grow(4);
    cluster.wait_until_up(3, true, LIMIT);
    cluster.wait_until_clean(LIMIT);
}

/// A client that writes until it cannot any more, and says why.
const WRITES_UNTIL_IT_ENDS: &str = r#"
import os, rados, sys, time
conf = {"keyring": sys.argv[2], "rados_osd_op_timeout": "10"}
cluster = rados.Rados(conffile=sys.argv[1], name="client.gone", conf=conf)
cluster.connect(timeout=20)
io = cluster.open_ioctx("p")
io.write_full("gone", b"x")
print("began", flush=True)
end = time.monotonic() + 180
why = "it goes on"
while time.monotonic() < end:
    try:
        io.write_full("gone", b"y")
    except rados.Error as error:
        why = type(error).__name__
        break
    time.sleep(0.2)
print(why, flush=True)
os._exit(0)
"#;

/// OSDs end sessions of clients once the tickets by which they were let in have ended. A client that has its key comes
/// again by itself, and one whose key was removed does not.
#[test]
fn a_removed_key_is_of_no_use_at_osds_once_its_tickets_have_ended() {
    if !clients_are_here(&["ceph", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start_without_keys("ended", 3, 1);
    cluster.make_pool("p", 8, 3);
    // Secrets are made with these lives as the cluster goes over. Clients look after their tickets every ten seconds.
    cluster.ceph(&["config", "set", "mon", "auth_service_ticket_ttl", "40"]).ok();
    cluster.nacre(&["auth", "enable", "--force"], GOES_OVER).ok();
    let keyring = cluster.scratch("gone.keyring");
    let caps = ["mon", "allow r", "osd", "allow rwx pool=p"];
    let key = cluster.ceph(&[&["auth", "get-or-create", "client.gone"], &caps[..]].concat()).ok();
    std::fs::write(&keyring, key).expect("it is written");
    let stays = Writer::start(&conf_of_client(&cluster, "client.conf", "cephx"));
    let mut command = cluster.command("timeout", &["300", python(), "-c", WRITES_UNTIL_IT_ENDS]);
    command.args([text(&cluster.conf()), text(&keyring)]).stdout(Stdio::piped());
    let mut gone = command.spawn().expect("it starts");
    let mut said = BufReader::new(gone.stdout.take().expect("a pipe"));
    let gone = Killed(gone);
    let mut line = String::new();
    said.read_line(&mut line).expect("it says something");
    assert_eq!(line, "began\n");
    cluster.ceph(&["auth", "rm", "client.gone"]).ok();
    let removed = Instant::now();
    line.clear();
    said.read_line(&mut line).expect("it says something");
    eprintln!("the removed client: {} after {} s", line.trim(), removed.elapsed().as_secs());
    assert_eq!(line, "TimedOut\n");
    drop(gone);
    // Two lives of secrets, or more, for each session of the other one.
    sleep(Duration::from_secs(100).saturating_sub(removed.elapsed()));
    let (count, longest) = stays.end();
    eprintln!("over sessions that ended: {count} writes, {longest} s at most");
    assert!(count > 100 && longest < 20.0, "{count} writes, {longest} s at most");
    assert!(cluster.ceph(&["-s"]).ok().contains("3 osds: 3 up"));
}
