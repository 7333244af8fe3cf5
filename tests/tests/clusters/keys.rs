//! A cluster in which clients and daemons prove by keys who they are.

use crate::fuzz;
use crate::fuzz::harm::{Harm, Random};
use crate::fuzz::visit::{CAME_IN, Place, Visitor};
use client::{Rope, Who};
use cluster_tests::{Background, TestCluster, binary, clients_are_here, python, run, wait_until};
use rustix::process::Signal;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use types::Fsid;
use wire::messages::Command as OsdCommand;
use wire::{Message, Target};

const LIMIT: Duration = Duration::from_secs(60);
/// Capabilities of a client that may do everything.
const ALL: [&str; 4] = ["mon", "allow *", "osd", "allow *"];

fn text(path: &Path) -> String {
    path.to_str().expect("a plain path").to_owned()
}

/// Makes a client with these capabilities. Returns its keyring.
fn client(cluster: &TestCluster, name: &str, caps: &[&str]) -> PathBuf {
    let keyring = cluster.scratch(&format!("{name}.keyring"));
    let key = cluster.ceph(&[&["auth", "get-or-create", name], caps].concat()).ok();
    std::fs::write(&keyring, key).expect("it is written");
    keyring
}

#[test]
fn clients_and_daemons_prove_who_they_are() {
    if !clients_are_here(&["ceph", "rados", "rbd"]) {
        return;
    }
    let cluster = TestCluster::start_monitors("keys", 3, 3);
    for keyring in ["ceph.client.admin.keyring", "mon.a/keyring", "mon.c/keyring", "osd.0/keyring"] {
        let mode = std::fs::metadata(cluster.dir().join(keyring)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{keyring}");
    }
    assert!(cluster.ceph(&["-s"]).ok().contains("3 osds: 3 up"));
    cluster.make_pool("p", 8, 3);
    cluster.make_pool("other", 8, 3);
    rights_are_those_of_the_key(&cluster);
    // Any test may run where all connections are encrypted.
    let is_encrypted =
        std::fs::read_to_string(cluster.conf()).expect("a ceph.conf").contains("ms client mode = secure");
    for mode in ["secure", "crc"] {
        let modes = ["--ms-client-mode", mode, "--ms-mon-client-mode", mode];
        let (from, to) = (cluster.scratch("from"), cluster.scratch(mode));
        std::fs::write(&from, vec![7; 5 << 20]).expect("it is written");
        let put = cluster.rados(&[&modes[..], &["-p", "p", "put", mode, &text(&from)]].concat());
        if mode == "crc" && is_encrypted {
            put.failure();
            continue;
        }
        put.ok();
        cluster.rados(&[&modes[..], &["-p", "p", "get", mode, &text(&to)]].concat()).ok();
        assert!(std::fs::read(&to).expect("it came") == std::fs::read(&from).expect("it is there"));
    }
    clients_write_on_while_daemons_are_killed(&cluster);
    run(cluster.command("rbd", &["create", "other/image", "--size", "64M"]), LIMIT).ok();
    assert!(run(cluster.command("rbd", &["info", "other/image"]), LIMIT).ok().contains("64 MiB"));
    a_purged_osd_does_not_come_back(&cluster);
    no_log_has_a_key(&cluster);
    nobody_gains_privileges(&cluster);
}

fn nobody_gains_privileges(cluster: &TestCluster) {
    for daemon in ["mon.a", "osd.0"] {
        let pid = cluster.pid_of(daemon).as_raw_nonzero();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        assert!(status.lines().any(|line| line.split_whitespace().eq(["NoNewPrivs:", "1"])), "{daemon}: {status}");
    }
    let store = std::fs::metadata(cluster.dir().join("osd.0/block")).expect("a store").permissions().mode();
    assert_eq!(store & 0o777, 0o600);
}

/// Every key and secret is replaced by another one while a client writes: those of services by themselves.
#[test]
fn clients_write_on_while_every_key_is_replaced() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start_monitors("rotation", 3, 3);
    cluster.make_pool("p", 8, 3);
    for (option, seconds) in [("auth_service_ticket_ttl", "8"), ("auth_mon_ticket_ttl", "12")] {
        cluster.ceph(&["config", "set", "mon", option, seconds]).ok();
    }
    let caps = ["mon", "allow r", "osd", "allow rwx pool=p"];
    let keyring = client(&cluster, "client.bench", &caps);
    let mut bench = cluster.command("rados", &["-n", "client.bench", "-k", &text(&keyring)]);
    // One after the other, and small: no OSD is full after a minute.
    bench.args(["bench", "-p", "p", "60", "write", "-b", "8192", "-t", "1"]);
    let bench = bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // A pending key is good beside the present one, so a daemon is started again with it, and then it is the only one.
    let replace = |name: &str, keyring: &Path| {
        let entry = cluster.ceph_json(&["auth", "get-or-create-pending", name]);
        let (old, new) = (entry[0]["key"].as_str().expect("a key"), entry[0]["pending_key"].as_str().expect("a key"));
        let ring = std::fs::read_to_string(keyring).expect("a keyring");
        assert!(ring.contains(old) && old != new);
        std::fs::write(keyring, ring.replace(old, new)).expect("it is written");
    };
    replace_the_key_of_monitors(&cluster);
    for osd in 0..3 {
        let name = format!("osd.{osd}");
        replace(&name, &cluster.dir().join(&name).join("keyring"));
        let before = cluster.ceph_json(&["osd", "info", &osd.to_string()])["up_from"].as_u64();
        cluster.signal(&name, Signal::TERM);
        wait_until("it is up again", LIMIT, || {
            let info = cluster.ceph_json(&["osd", "info", &osd.to_string()]);
            info["up"] == 1 && info["up_from"].as_u64() > before
        });
        cluster.ceph(&["auth", "commit-pending", &name]).ok();
        cluster.wait_until_clean(LIMIT);
    }
    let admin = cluster.dir().join("ceph.client.admin.keyring");
    replace("client.admin", &admin);
    cluster.ceph(&["auth", "commit-pending", "client.admin"]).ok();
    replace("client.bench", &keyring);
    let output = bench.wait_with_output().expect("it ends");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("Total writes made") && !said.contains("error"), "{said}");
    // The bench had its old key to the end; it can be forgotten now.
    cluster.ceph(&["auth", "commit-pending", "client.bench"]).ok();
    cluster.rados(&["-n", "client.bench", "-k", &text(&keyring), "-p", "p", "stat", "benchmark_last_metadata"]);
    assert!(cluster.ceph(&["-s"]).ok().contains("3 osds: 3 up"));
    assert!(!cluster.ceph(&["auth", "ls"]).ok().contains("pending"), "nothing is left to commit");
}

/// Monitors write the new key to their keyrings themselves, and one that starts again is let in by it.
fn replace_the_key_of_monitors(cluster: &TestCluster) {
    let keyrings = ["a", "b", "c"].map(|mon| cluster.dir().join(format!("mon.{mon}/keyring")));
    let have = |wanted: &[&str], unwanted: &str| {
        keyrings.iter().all(|keyring| {
            let ring = std::fs::read_to_string(keyring).expect("a keyring");
            wanted.iter().all(|key| ring.contains(key)) && !ring.contains(unwanted)
        })
    };
    let old = cluster.ceph(&["auth", "print-key", "mon."]).ok();
    let rotate = |rest: &[&str]| cluster.nacre(&[&["auth", "rotate", "mon."], rest].concat(), LIMIT).ok();
    let new = rotate(&[]);
    let new = new.lines().find_map(|line| line.trim().strip_prefix("key = ")).expect("a key");
    wait_until("all keyrings have both keys", LIMIT, || have(&[old.trim(), new], "nothing of the kind"));
    rotate(&["--commit"]);
    wait_until("all keyrings have the new key alone", LIMIT, || have(&[new], old.trim()));
    let before = std::fs::read_to_string(cluster.dir().join("run/mon.b.pid")).expect("it runs");
    cluster.signal("mon.b", Signal::KILL);
    wait_until("the monitor is back", LIMIT, || {
        let pid = std::fs::read_to_string(cluster.dir().join("run/mon.b.pid")).unwrap_or_default();
        let is_new = !pid.is_empty() && pid != before;
        is_new && cluster.ceph_json(&["quorum_status"])["quorum"].as_array().map(Vec::len) == Some(3)
    });
}

/// As on a Ceph, a daemon goes on as the user that is asked for; what it makes is that one's.
#[test]
fn daemons_go_on_as_another_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root may become another user");
        return;
    }
    let folder = std::env::temp_dir().join(format!("nacre-test-setuser-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::os::unix::fs::chown(&folder, Some(65_534), Some(65_534)).expect("root may");
    let conf = folder.join("ceph.conf");
    let lines = "[global]\nfsid = 3f0c0000-0000-0000-0000-000000000001\nmon host = 127.0.0.1:1\nauth cluster required = cephx\n";
    std::fs::write(&conf, lines).expect("it is written");
    let data = folder.join("osd.9");
    let osd = |more: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["osd", "--id", "9", "--mkfs", "--size", "1GiB", "--conf"]).arg(&conf).arg("--data").arg(&data);
        run(
            {
                command.args(more);
                command
            },
            LIMIT,
        )
    };
    assert!(osd(&["--setuser", "no-such-user"]).failure().contains("no user 'no-such-user'"));
    assert!(!data.exists());
    osd(&["--setuser", "nobody", "--setgroup", "nogroup"]).ok();
    for file in ["keyring", "block"] {
        let found = std::fs::metadata(data.join(file)).expect("it is there");
        assert_eq!((found.uid(), found.gid(), found.permissions().mode() & 0o777), (65_534, 65_534, 0o600), "{file}");
    }
    std::fs::remove_dir_all(&folder).expect("it goes");
}

/// Clients with 31 capabilities do 18 operations at four places each. A real Ceph gave the recorded answers.
#[test]
fn capabilities_at_osds_are_those_of_a_ceph() {
    if !clients_are_here(&["ceph", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start_supervised("capabilities", 3);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/capabilities.py");
    let keyrings = cluster.scratch("keyrings");
    std::fs::create_dir_all(&keyrings).expect("a folder");
    let conf = text(&cluster.conf());
    let found = run(cluster.command(python(), &[script, &conf, &text(&keyrings)]), Duration::from_secs(600)).ok();
    let recorded = include_str!("../../recorded/capabilities.txt");
    assert_eq!(recorded.lines().count(), 124);
    for (found, recorded) in found.lines().zip(recorded.lines()) {
        assert_eq!(found, recorded);
    }
    assert_eq!(found.lines().count(), recorded.lines().count());
}

/// A client that may nearly nothing gives a command to an OSD, and ends its session before the OSD looks at it.
#[test]
fn a_session_that_ends_at_once_gives_no_more_rights_than_its_key() {
    if !clients_are_here(&["ceph"]) {
        return;
    }
    let cluster = TestCluster::start("ended-sessions", 1);
    let told = |words: &[&str]| cluster.ceph(&[&["tell", "osd.0"], words].concat()).ok();
    let before = told(&["config", "get", "osd_max_backfills"]);
    let change = r#"{"prefix": "config set", "var": "osd_max_backfills", "val": ["7"]}"#;
    let places = fuzz::places(&cluster);
    let place = |name: &str| places.iter().find(|place| place.name == name).expect("a port");
    let mut random = Random(1);
    for (name, caps, works) in [("weak", ["mon", "allow r"].as_slice(), false), ("strong", &ALL, true)] {
        let keyring = client(&cluster, &format!("client.{name}"), caps);
        let who = Who::new("client", name);
        let mut visitor = Visitor::with_key(&cluster.conf(), &who, &keyring);
        visitor.renew(place("mon.\"a\""), &mut random);
        // How much the OSD has read when it looks is left to chance.
        for tid in 1..=20 {
            let command = OsdCommand { fsid: Fsid::default(), cmd: vec![change.to_owned()], input: Rope::default() };
            visitor.say_and_break(place("public_addrs of osd.0"), command.seal(tid, Target::default()), &mut random);
        }
        // The OSD may look at them after it has answered others.
        if works {
            wait_until("commands of who may give them are carried out", LIMIT, || {
                told(&["config", "get", "osd_max_backfills"]) != before
            });
        }
        let after = told(&["config", "get", "osd_max_backfills"]);
        assert_eq!(after != before, works, "{name}: {before}, then {after}");
    }
}

#[test]
fn a_cluster_whose_connections_are_encrypted_serves_and_heals() {
    if !clients_are_here(&["ceph", "rados", "rbd"]) {
        return;
    }
    let cluster = TestCluster::start_secure("secure", 3);
    cluster.make_pool("p", 8, 3);
    let (from, to) = (cluster.scratch("from"), cluster.scratch("to"));
    let content: Vec<u8> = (0..9 << 20).map(|n: u32| (n % 251) as u8).collect();
    std::fs::write(&from, &content).expect("it is written");
    cluster.rados(&["-p", "p", "put", "large", &text(&from)]).ok();
    cluster.signal("osd.0", Signal::KILL);
    cluster.rados(&["-p", "p", "put", "meanwhile", &text(&from)]).ok();
    cluster.wait_until_up(0, true, LIMIT);
    cluster.wait_until_clean(LIMIT);
    for object in ["large", "meanwhile"] {
        cluster.rados(&["-p", "p", "get", object, &text(&to)]).ok();
        assert!(std::fs::read(&to).expect("it came") == content);
    }
    run(cluster.command("rbd", &["-p", "p", "create", "image", "--size", "64M"]), LIMIT).ok();
    // Whoever wants less is turned away.
    let outcome = cluster.ceph(&["--ms-mon-client-mode", "crc", "-s"]);
    assert!(!outcome.succeeded(), "{}", outcome.stdout);
}

fn rights_are_those_of_the_key(cluster: &TestCluster) {
    let file = cluster.scratch("file");
    std::fs::write(&file, "content").expect("it is written");
    let file = text(&file);
    cluster.rados(&["-p", "p", "put", "object", &file]).ok();
    cluster.rados(&["-p", "other", "put", "object", &file]).ok();
    let reader = text(&client(cluster, "client.reader", &["mon", "allow r", "osd", "allow r pool=p"]));
    let by_reader = ["-n", "client.reader", "-k", &reader];
    cluster.rados(&[&by_reader[..], &["-p", "p", "get", "object", &text(&cluster.scratch("read"))]].concat()).ok();
    let refused: [&[&str]; 4] = [
        &["-p", "p", "put", "object", &file],
        &["-p", "p", "rm", "object"],
        &["-p", "other", "get", "object", "/dev/null"],
        &["-p", "p", "lock", "get", "object", "lock"],
    ];
    for words in refused {
        let outcome = cluster.rados(&[&by_reader[..], words].concat());
        assert!(outcome.failure().contains("(1) Operation not permitted"), "{words:?}");
    }
    let outcome = cluster.ceph(&[&by_reader[..], &["osd", "set", "noout"]].concat());
    assert_eq!(outcome.code, Some(13), "{}", outcome.stderr);
    let outcome = cluster.ceph(&[&by_reader[..], &["tell", "osd.0", "version"]].concat());
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    // Somebody else's key, and none.
    let wrong = cluster.scratch("wrong.keyring");
    let other = std::fs::read_to_string(&reader).expect("a keyring").replace("client.reader", "client.admin");
    std::fs::write(&wrong, other).expect("it is written");
    let outcome = cluster.ceph(&["-k", &text(&wrong), "-s"]);
    assert_eq!(outcome.code, Some(13), "{}", outcome.stderr);
    // Where it is told to encrypt, Ceph's client finds no mode for that method, and goes on without asking anybody.
    let outcome = cluster.ceph(&["--auth-client-required", "none", "--ms-mon-client-mode", "crc", "-s"]);
    assert_eq!(outcome.code, Some(13), "{}", outcome.stderr);
}

fn clients_write_on_while_daemons_are_killed(cluster: &TestCluster) {
    let mut bench = cluster.command("rados", &["bench", "-p", "p", "8", "write", "-b", "65536", "-t", "4"]);
    let bench = bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_secs(2));
    cluster.signal("osd.1", Signal::KILL);
    cluster.signal("mon.b", Signal::KILL);
    let output = bench.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("Total writes made"), "{said}");
    cluster.wait_until_up(1, true, LIMIT);
    wait_until("three monitors decide", LIMIT, || {
        let status = cluster.ceph_json(&["quorum_status"]);
        status["quorum"].as_array().is_some_and(|quorum| quorum.len() == 3)
    });
    cluster.wait_until_clean(LIMIT);
}

fn a_purged_osd_does_not_come_back(cluster: &TestCluster) {
    cluster.grow(4);
    cluster.wait_until_up(3, true, LIMIT);
    cluster.ceph(&["osd", "out", "3"]).ok();
    cluster.wait_until_clean(LIMIT);
    cluster.ceph(&["osd", "stop", "3"]).ok();
    cluster.wait_until_up(3, false, LIMIT);
    let mut thief = Thief::with_key_of(cluster, 3);
    // A visit gives up soon, which a busy OSD may be too slow for.
    wait_until("the thief is let in", LIMIT, || thief.is_let_in() == [true, true]);
    let session = thief.stays();
    cluster.ceph(&["osd", "purge", "3", "--yes-i-really-mean-it"]).ok();
    is_hung_up(session);
    assert_eq!(thief.is_let_in(), [false, false], "its ticket would be good for an hour");
    assert!(!cluster.ceph(&["auth", "get", "osd.3"]).succeeded());
    let mut again = Command::new(binary());
    again.args(["osd", "--id", "3", "--conf"]).arg(cluster.conf());
    let mut again = Background::start(again);
    let logs = ["mon.a", "mon.b", "mon.c"].map(|mon| cluster.dir().join(format!("log/{mon}.log")));
    wait_until("a monitor tells why", LIMIT, || {
        logs.iter().any(|log| std::fs::read_to_string(log).is_ok_and(|log| log.contains("there is no 'osd.3'")))
    });
    std::thread::sleep(Duration::from_secs(5));
    assert!(again.is_running(), "it goes on asking until it is stopped");
    drop(again);
    let dump = cluster.ceph_json(&["osd", "dump"]);
    assert!(dump["osds"].as_array().expect("OSDs").iter().all(|osd| osd["osd"] != 3), "{dump}");
    cluster.down();
    let up = cluster.nacre(&["up", "--detach"], Duration::from_secs(180));
    let said = format!("{}{}", up.stdout, up.stderr);
    assert!(up.succeeded() && said.contains("osd.3 was purged and is not started"), "{said}");
}

/// Somebody who has stolen an OSD's key, and got tickets by it.
struct Thief {
    visitor: Visitor,
    random: Random,
    /// The port for clients of another OSD, and the one for OSDs.
    public: Place,
    cluster: Place,
}

impl Thief {
    fn with_key_of(cluster: &TestCluster, osd: u32) -> Thief {
        let keyring = cluster.dir().join(format!("osd.{osd}/keyring"));
        let mut places = fuzz::places(cluster);
        let mut take = |name: &str| {
            let at = places.iter().position(|place| place.name == name).expect("a port");
            places.remove(at)
        };
        let (monitor, public, cluster_port) =
            (take("mon.\"a\""), take("public_addrs of osd.0"), take("cluster_addrs of osd.0"));
        let mut thief = Thief {
            visitor: Visitor::as_osd(&cluster.conf(), osd, &keyring),
            random: Random(1),
            public,
            cluster: cluster_port,
        };
        thief.visitor.renew(&monitor, &mut thief.random);
        thief
    }

    /// True for each of the two ports that lets it in.
    fn is_let_in(&mut self) -> [bool; 2] {
        let Thief { visitor, random, public, cluster } = self;
        [public, cluster].map(|place| visitor.visit(place, Harm::None { secure: false }, random) == CAME_IN)
    }

    fn stays(&mut self) -> TcpStream {
        self.visitor.stay(&self.public, &mut self.random)
    }
}

/// Waits until the other end hangs up.
fn is_hung_up(mut stream: TcpStream) {
    stream.set_read_timeout(Some(LIMIT)).expect("a socket");
    let mut buf = [0; 4096];
    loop {
        match stream.read(&mut buf) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => return,
            Err(e) => panic!("the session stays: {e}"),
        }
    }
}

fn no_log_has_a_key(cluster: &TestCluster) {
    let keyrings = ["ceph.client.admin.keyring", "mon.a/keyring", "osd.0/keyring", "osd.3/keyring"];
    let mut keys = Vec::new();
    for keyring in keyrings {
        let text = std::fs::read_to_string(cluster.dir().join(keyring)).expect("a keyring");
        keys.extend(text.lines().filter_map(|line| line.trim().strip_prefix("key = ")).map(str::to_owned));
    }
    assert_eq!(keys.len(), keyrings.len());
    for entry in std::fs::read_dir(cluster.dir().join("log")).expect("logs").flatten() {
        let log = std::fs::read_to_string(entry.path()).expect("text");
        assert!(keys.iter().all(|key| !log.contains(key.trim_end_matches('='))), "{}", entry.path().display());
    }
}
