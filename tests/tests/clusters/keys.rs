//! A cluster in which clients and daemons prove by keys who they are.

use cluster_tests::{TestCluster, binary, clients_are_here, python, run, wait_until};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

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
    let cluster = TestCluster::start_with_keys("keys", 3, 3);
    for keyring in ["ceph.client.admin.keyring", "mon.a/keyring", "mon.c/keyring", "osd.0/keyring"] {
        let mode = std::fs::metadata(cluster.dir().join(keyring)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{keyring}");
    }
    assert!(cluster.ceph(&["-s"]).ok().contains("3 osds: 3 up"));
    cluster.make_pool("p", 8, 3);
    cluster.make_pool("other", 8, 3);
    rights_are_those_of_the_key(&cluster);
    for mode in ["secure", "crc"] {
        let modes = ["--ms-client-mode", mode, "--ms-mon-client-mode", mode];
        let (from, to) = (cluster.scratch("from"), cluster.scratch(mode));
        std::fs::write(&from, vec![7; 5 << 20]).expect("it is written");
        cluster.rados(&[&modes[..], &["-p", "p", "put", mode, &text(&from)]].concat()).ok();
        cluster.rados(&[&modes[..], &["-p", "p", "get", mode, &text(&to)]].concat()).ok();
        assert!(std::fs::read(&to).expect("it came") == std::fs::read(&from).expect("it is there"));
    }
    clients_write_on_while_daemons_are_killed(&cluster);
    run(cluster.command("rbd", &["create", "other/image", "--size", "64M"]), LIMIT).ok();
    assert!(run(cluster.command("rbd", &["info", "other/image"]), LIMIT).ok().contains("64 MiB"));
    a_purged_osd_does_not_come_back(&cluster);
    no_log_has_a_key(&cluster);
}

/// Clients with 31 capabilities do 18 operations at four places each. A real Ceph gave the recorded answers.
#[test]
fn capabilities_at_osds_are_those_of_a_ceph() {
    if !clients_are_here(&["ceph", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start_with_keys("capabilities", 3, 1);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/capabilities.py");
    let keyrings = cluster.scratch("keyrings");
    std::fs::create_dir_all(&keyrings).expect("a folder");
    let conf = text(&cluster.conf());
    let found = run(cluster.command(python(), &[script, &conf, &text(&keyrings)]), Duration::from_secs(120)).ok();
    let recorded = include_str!("../../recorded/capabilities.txt");
    assert_eq!(recorded.lines().count(), 124);
    for (found, recorded) in found.lines().zip(recorded.lines()) {
        assert_eq!(found, recorded);
    }
    assert_eq!(found.lines().count(), recorded.lines().count());
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
    let outcome = cluster.ceph(&["--auth-client-required", "none", "-s"]);
    assert!(!outcome.succeeded(), "{}", outcome.stdout);
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
    cluster.ceph(&["osd", "purge", "3", "--yes-i-really-mean-it"]).ok();
    assert!(!cluster.ceph(&["auth", "get", "osd.3"]).succeeded());
    let mut again = Command::new("timeout");
    let log = std::fs::File::create(cluster.scratch("purged.log")).expect("a file");
    again.arg("6").arg(binary()).args(["osd", "--id", "3", "--conf"]).arg(cluster.conf());
    again.stdout(log.try_clone().expect("a descriptor")).stderr(log);
    assert_eq!(again.status().expect("it runs").code(), Some(124), "it goes on asking until it is stopped");
    let dump = cluster.ceph_json(&["osd", "dump"]);
    assert!(dump["osds"].as_array().expect("OSDs").iter().all(|osd| osd["osd"] != 3), "{dump}");
    let logs = ["mon.a", "mon.b", "mon.c"].map(|mon| cluster.dir().join(format!("log/{mon}.log")));
    let told = logs.iter().any(|log| std::fs::read_to_string(log).is_ok_and(|log| log.contains("there is no 'osd.3'")));
    assert!(told, "a monitor has told why");
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
