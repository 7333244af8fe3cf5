//! The S3 gateway: its clients at two gateways of one cluster, one of which is killed.

use cluster_tests::{Killed, TestCluster, binary, clients_are_here, python, run, wait_until};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_secs(60);
/// For a client to do everything.
const SESSION: Duration = Duration::from_secs(300);
/// A gateway that was killed counts as dead after 30 s.
const SHUT_OUT_WITHIN: Duration = Duration::from_secs(120);

/// A gateway, and its endpoint.
pub(crate) struct Gateway {
    pub(crate) process: Killed,
    pub(crate) endpoint: String,
}

/// Starts a gateway and waits until it listens.
pub(crate) fn gateway(cluster: &TestCluster, flags: &[&str]) -> Gateway {
    gateway_that_says(cluster, flags, Stdio::inherit())
}

/// Starts a gateway that logs to `log`.
pub(crate) fn gateway_that_says(cluster: &TestCluster, flags: &[&str], log: Stdio) -> Gateway {
    let mut command = Command::new(binary());
    command.args(["s3", "serve", "--listen", "127.0.0.1:0", "--conf"]).arg(cluster.conf()).args(flags);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().expect("the gateway starts");
    let out = child.stdout.take().expect("asked for a pipe");
    let process = Killed(child);
    let endpoint = BufReader::new(out).lines().next().expect("it says where it listens").expect("text");
    let scheme = if flags.contains(&"--tls-key") { "https" } else { "http" };
    assert!(endpoint.starts_with(&format!("{scheme}://127.0.0.1:")), "{endpoint}");
    Gateway { process, endpoint }
}

/// Makes a user. Gives access key and secret.
pub(crate) fn user(cluster: &TestCluster, flags: &[&str]) -> (String, String) {
    let made = cluster.nacre(&[&["s3", "user", "add", "--json"], flags].concat(), SHORT).ok();
    let made: serde_json::Value = serde_json::from_str(&made).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    (text(&made["access_keys"][0]), text(&made["secret_key"]))
}

/// Runs a session of clients, which says by `kill` when the second gateway is to die, and ends with a part.
fn session(script: &str, words: &[&str], second: &mut Gateway, last_part: &str) {
    let mut command = Command::new(python());
    command.arg(format!("{}/python/{script}", env!("CARGO_MANIFEST_DIR"))).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut session = Killed(command.spawn().expect("the client starts"));
    let end = Instant::now() + SESSION;
    let mut parts = Vec::new();
    for line in BufReader::new(session.0.stdout.take().expect("asked for a pipe")).lines() {
        let line = line.expect("text");
        if line == "kill" {
            second.process.0.kill().expect("it runs");
        }
        parts.push(line);
        assert!(Instant::now() < end, "{parts:?}");
    }
    let status = session.0.wait().expect("it can be waited for");
    assert!(status.success(), "after {parts:?}: {status}");
    assert_eq!(parts.last().map(String::as_str), Some(last_part));
}

fn clients_work_through_a_gateway_s_death(cluster: &TestCluster) {
    let (access, secret) = user(cluster, &["me"]);
    let (first, mut second) = (gateway(cluster, &[]), gateway(cluster, &[]));
    let other = second.endpoint.clone();
    let words = [&access, &secret, &first.endpoint, &other].map(String::as_str);
    session("s3_session.py", &words, &mut second, "through_a_death");
    // The gateway that lives shuts the other one out before it ends what that one has begun. The session itself stays
    // as long as readers may use what it replaced.
    let is_shut_out = || cluster.ceph(&["osd", "blocklist", "ls"]).ok().contains("127.0.0.1:0/");
    wait_until("the dead gateway is shut out", SHUT_OUT_WITHIN, is_shut_out);
    let checked = cluster.nacre(&["s3", "bucket", "check", "first"], SHORT).ok();
    assert!(checked.contains(" 0 entries were wrong"), "{checked}");
    assert_eq!(cluster.nacre(&["s3", "bucket", "ls"], SHORT).ok(), "first\tme\n");
    assert!(cluster.nacre(&["s3", "user", "rm", "me"], SHORT).failure().contains("'first'"));
}

/// Costs a cluster of three OSDs and about two minutes, half of them waiting.
#[test]
fn clients_work_through_a_death_on_nacre() {
    if clients_are_here(&["python3-boto3", "ceph"]) {
        clients_work_through_a_gateway_s_death(&TestCluster::start_supervised("s3", 3));
    }
}

#[test]
fn clients_work_through_a_death_on_ceph() {
    if clients_are_here(&["python3-boto3", "ceph-mon", "ceph-osd", "ceph-mgr", "ceph"]) {
        clients_work_through_a_gateway_s_death(&TestCluster::start_ceph("s3-ceph", 3));
    }
}

/// Objects, versions and uploads go by lifecycle rules with short days, also after the death of a gateway.
#[test]
fn lifecycle_rules_are_carried_out() {
    if !clients_are_here(&["python3-boto3"]) {
        return;
    }
    const DAY_S: &str = "3";
    let cluster = TestCluster::start("s3-lifecycle", 2);
    let (access, secret) = user(&cluster, &["me"]);
    let flags = ["--lifecycle-day", DAY_S];
    let (first, mut second) = (gateway(&cluster, &flags), gateway(&cluster, &flags));
    let other = second.endpoint.clone();
    let words = [&first.endpoint, &other, &access, &secret].map(String::as_str);
    session("s3_lifecycle.py", &[&words[..], &[DAY_S]].concat(), &mut second, "rounds_go_on_after_a_death");
    for bucket in ["things", "last", "uploads"] {
        let checked = cluster.nacre(&["s3", "bucket", "check", bucket], SHORT).ok();
        assert!(checked.contains(" 0 entries were wrong"), "{checked}");
    }
}

/// Bytes that nothing names are found and removed; those of a gateway that died amid uploads are left to its sweep.
#[test]
fn bytes_that_nothing_names_are_found() {
    if !clients_are_here(&["python3-boto3", "rados"]) {
        return;
    }
    const DATA: &str = "nacre.s3.data";
    let cluster = TestCluster::start("s3-orphans", 2);
    let (access, secret) = user(&cluster, &["me"]);
    let (first, mut second) = (gateway(&cluster, &[]), gateway(&cluster, &[]));
    let other = second.endpoint.clone();
    let words = [&first.endpoint, &other, &access, &secret].map(String::as_str);
    session("s3_orphans.py", &words, &mut second, "cut_short");
    let check = |flags: &[&str]| {
        let said = cluster.nacre(&[&["s3", "bucket", "check", "--json"], flags].concat(), SHORT);
        let found: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
        (said.succeeded(), found["pools"][0].clone())
    };
    let empty = serde_json::json!([]);
    let at_once = ["--orphan-age", "0", "--repair"];
    let (is_right, pool) = check(&at_once);
    assert!(is_right && pool["orphans"] == empty && pool["unlisted"] == empty, "{pool}");
    assert!(pool["under_way"].as_u64() >= Some(4), "two bodies of two stripes or more: {pool}");
    wait_until("the dead gateway is swept", SHUT_OUT_WITHIN, || check(&at_once).1["under_way"] == 0);
    let objects = || {
        let mut objects: Vec<String> = cluster.rados(&["-p", DATA, "ls"]).ok().lines().map(str::to_owned).collect();
        objects.sort();
        objects
    };
    let before = objects();
    // Three stripes of 9 MiB, two and one of parts, two of the open upload's part, and two heads.
    assert_eq!(before.len(), 10, "{before:?}");

    let file = cluster.scratch("bytes");
    std::fs::write(&file, "12345").expect("a file");
    let file = file.to_str().expect("a path");
    for name in ["t/dead.1/0", "v/dead.2", "something else"] {
        cluster.rados(&["-p", DATA, "put", name, file]).ok();
    }
    let (is_right, pool) = check(&["--repair"]);
    assert!(is_right && pool["orphans"] == empty && pool["young"] == 2 && pool["foreign"] == 1, "{pool}");
    let (is_right, pool) = check(&["--orphan-age", "0"]);
    assert!(!is_right && pool["orphan_bytes"] == 10, "{pool}");
    assert_eq!(pool["orphans"], serde_json::json!(["t/dead.1/0", "v/dead.2"]));
    let said = cluster.nacre(&["s3", "bucket", "check", "--fix", "--orphan-age", "0"], SHORT).ok();
    assert!(said.contains("removed: t/dead.1/0 (5 bytes)") && said.contains("of which 2 (10 bytes)"), "{said}");
    assert!(check(&at_once).0);
    let mut expected = before;
    expected.push("something else".into());
    expected.sort();
    assert_eq!(objects(), expected);
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/s3_orphans.py")).arg("read");
    command.args([&first.endpoint, &other, &access, &secret]);
    assert_eq!(run(command, SHORT).ok(), "read\n");
}

/// Forms that boto3 has signed, and such as nobody has.
#[test]
fn forms_are_stored_as_they_were_signed() {
    if !clients_are_here(&["python3-boto3"]) {
        return;
    }
    let cluster = TestCluster::start("s3-forms", 2);
    let (access, secret) = user(&cluster, &["me"]);
    let gateway = gateway(&cluster, &[]);
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/s3_forms.py"));
    command.args([&gateway.endpoint, &access, &secret]);
    let said = run(command, SESSION).ok();
    assert!(said.ends_with("anybody_may_where_a_bucket_lets_him\n"), "{said}");
}

/// Encryption by keys of customers and of the gateway; the bytes that lie in the cluster are looked at by librados.
#[test]
fn objects_are_encrypted() {
    if !clients_are_here(&["python3-boto3", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("s3-encryption", 2);
    let (access, secret) = user(&cluster, &["me"]);
    let keys = cluster.scratch("keys");
    let keys = keys.to_str().expect("a path");
    let make = || {
        let mut command = Command::new(binary());
        command.args(["s3", "master-key", keys]);
        run(command, SHORT)
    };
    make().ok();
    assert!(make().failure().contains("keys"), "there is one");
    let log = cluster.scratch("log");
    let file = File::create(&log).expect("a log");
    let first = gateway_that_says(
        &cluster,
        &["--master-key", keys, "--log", "debug,gateway=trace,s3s=trace,hyper=trace"],
        file.into(),
    );
    let second = gateway(&cluster, &[]);
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/s3_encryption.py"));
    command.args([&first.endpoint, &second.endpoint, &access, &secret]).arg(cluster.conf()).arg(log);
    let said = run(command, SESSION).ok();
    assert!(said.ends_with("requests_that_come_again_later\n"), "{said}");
}

/// TLS with certificates of an authority of the test's own, which are replaced meanwhile.
#[test]
fn gateways_speak_tls() {
    if !clients_are_here(&["python3-boto3", "openssl"]) {
        return;
    }
    let cluster = TestCluster::start("s3-tls", 2);
    let (access, secret) = user(&cluster, &["me"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/s3_tls.py");
    let python_with = |words: &[&str]| {
        let mut command = Command::new(python());
        command.arg(script).args(words);
        run(command, SESSION).ok()
    };
    let folder = cluster.scratch("tls");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let folder = folder.to_str().expect("a path");
    python_with(&["make", folder]);
    let path = |name: &str| format!("{folder}/{name}");
    let serve = |certificate: &str, key: &str| {
        let mut command = Command::new(binary());
        command.args(["s3", "serve", "--listen", "127.0.0.1:0", "--tls-certificate", certificate, "--tls-key", key]);
        command.arg("--conf").arg(cluster.conf());
        run(command, SHORT).failure()
    };
    let unlike = serve(&path("server.pem"), &path("other.key"));
    assert!(unlike.contains("do not do"), "{unlike}");
    let absent = serve(&path("nothing.pem"), &path("other.key"));
    assert!(absent.contains("nothing.pem"), "{absent}");
    let log = path("log");
    let flags = ["--tls-certificate", &path("server.pem"), "--tls-key", &path("server.key")];
    let gateway = gateway_that_says(&cluster, &flags, File::create(&log).expect("a log").into());
    let said = python_with(&[&gateway.endpoint, folder, &access, &secret, &log]);
    assert!(said.ends_with("certificates_are_replaced\n"), "{said}");
}

/// Lines for requests, in AWS's form and as JSON, in a file that is moved meanwhile.
#[test]
fn requests_are_logged() {
    if !clients_are_here(&["python3-boto3"]) {
        return;
    }
    let cluster = TestCluster::start("s3-access-log", 2);
    let (access, secret) = user(&cluster, &["me"]);
    let logs = ["first.log", "second.log"].map(|name| cluster.scratch(name).to_str().expect("a path").to_owned());
    let first = gateway(&cluster, &["--access-log", &logs[0]]);
    let second = gateway(&cluster, &["--access-log", &logs[1], "--access-log-format", "json"]);
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/s3_access_log.py"));
    command.args([&first.endpoint, &second.endpoint, &logs[0], &logs[1], &second.process.0.id().to_string()]);
    command.args([&access, &secret]);
    let said = run(command, SESSION).ok();
    assert!(said.ends_with("a_log_that_was_moved_is_opened_again\n"), "{said}");
    let absent = cluster.scratch("nothing").join("log");
    let mut command = Command::new(binary());
    command.args(["s3", "serve", "--listen", "127.0.0.1:0", "--conf"]).arg(cluster.conf());
    command.arg("--access-log").arg(&absent);
    let refused = run(command, SHORT).failure();
    assert!(refused.contains("cannot write") && refused.contains("nothing/log"), "{refused}");
}

/// Usage of buckets and users, and quotas and rate limits that bound it, at two gateways.
#[test]
fn quotas_and_rates_bound_what_is_stored() {
    if !clients_are_here(&["python3-boto3"]) {
        return;
    }
    let cluster = TestCluster::start("s3-limits", 2);
    let (access, secret) = user(&cluster, &["me"]);
    let (first, second) = (gateway(&cluster, &[]), gateway(&cluster, &[]));
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/s3_limits.py"));
    command.args([&first.endpoint, &second.endpoint, &access, &secret]).arg(binary()).arg(cluster.conf());
    let said = run(command, SESSION).ok();
    assert!(said.ends_with("rates_limit\n"), "{said}");
    for bucket in ["counted", "small", "more"] {
        let checked = cluster.nacre(&["s3", "bucket", "check", bucket], SHORT).ok();
        assert!(checked.contains(" 0 entries were wrong\n0 of "), "{checked}");
    }
}

/// Tenants have names of their own, whichever gateway is asked.
#[test]
fn tenants_have_names_of_their_own() {
    if !clients_are_here(&["python3-boto3"]) {
        return;
    }
    let cluster = TestCluster::start("s3-tenants", 2);
    let keys = [&["ann", "--tenant", "acme"][..], &["zeta$ann"], &["ann"]].map(|flags| user(&cluster, flags));
    for wrong in [&["ann", "--tenant", "a-b"][..], &["$ann"], &["acme$"], &["acme$a$b"], &["ann", "--tenant", "acme"]] {
        let refused = cluster.nacre(&[&["s3", "user", "add"], wrong].concat(), SHORT).failure();
        assert!(refused.contains("tenant") || refused.contains("name has") || refused.contains("already"), "{refused}");
    }
    let (first, second) = (gateway(&cluster, &[]), gateway(&cluster, &[]));
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/s3_tenants.py"));
    command.args([&first.endpoint, &second.endpoint]).args(keys.iter().flat_map(|(access, secret)| [access, secret]));
    let said = run(command, SESSION).ok();
    assert!(said.ends_with("what_is_made_here_is_there\n"), "{said}");
    let listed = cluster.nacre(&["s3", "bucket", "ls"], SHORT).ok();
    let expected = ["acme:acme-alone\tacme$ann", "acme:photos\tacme$ann", "photos\tann", "zeta:photos\tzeta$ann"];
    let mut lines: Vec<&str> = listed.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, expected);
    let checked = cluster.nacre(&["s3", "bucket", "check", "acme:photos"], SHORT).ok();
    assert!(checked.contains(" 0 entries were wrong\n0 of "), "{checked}");
}

/// A gateway of several threads, beside one of a single thread: all of them serve, share bounds, and end uploads before
/// the gateway stops.
#[test]
fn threads_share_a_gateway_s_work() {
    if !clients_are_here(&["python3-boto3"]) {
        return;
    }
    let cluster = TestCluster::start("s3-threads", 2);
    let (access, secret) = user(&cluster, &["me"]);
    let (mut first, second) = (gateway(&cluster, &["--threads", "3"]), gateway(&cluster, &["--threads", "1"]));
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/s3_threads.py"));
    command.args([&first.endpoint, &second.endpoint, &first.process.0.id().to_string(), "3", &access, &secret]);
    command.arg(binary()).arg(cluster.conf());
    let said = run(command, SESSION).ok();
    assert!(said.ends_with("uploads_end_before_it_stops\n"), "{said}");
    let mut status = None;
    wait_until("the gateway has stopped", SHORT, || {
        status = first.process.0.try_wait().expect("it can be asked");
        status.is_some()
    });
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    for bucket in ["shared", "small", "paced"] {
        let checked = cluster.nacre(&["s3", "bucket", "check", bucket], SHORT).ok();
        assert!(checked.contains(" 0 entries were wrong\n0 of "), "{checked}");
    }
}

/// Pages, errors and redirects of web sites, at hosts of their own and at a port of their own.
#[test]
fn buckets_are_web_sites() {
    if !clients_are_here(&["python3-boto3"]) {
        return;
    }
    let cluster = TestCluster::start("s3-sites", 2);
    let (access, secret) = user(&cluster, &["me"]);
    let sites = format!("127.0.0.1:{}", cluster.spare_port());
    let flags = ["--website-domain", "web.test", "--website-listen", &sites];
    let gateway = gateway(&cluster, &flags);
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/s3_sites.py"));
    command.args([&gateway.endpoint, &format!("http://{sites}"), &access, &secret]);
    let said = run(command, SESSION).ok();
    assert!(said.ends_with("sites_have_a_port\n"), "{said}");
    is_served_by_one_that_nobody_reads(&cluster);
}

/// A gateway serves, though whoever started it has closed its standard output.
fn is_served_by_one_that_nobody_reads(cluster: &TestCluster) {
    let [port, sites] = [(); 2].map(|()| format!("127.0.0.1:{}", cluster.spare_port()));
    let mut command = Command::new(binary());
    command.args(["s3", "serve", "--listen", &port, "--conf"]).arg(cluster.conf());
    command.args(["--website-domain", "web.test", "--website-listen", &sites]);
    let mut gateway = Killed(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts"));
    drop(gateway.0.stdout.take());
    // Connections are taken before it has said where it listens, and answered afterwards only.
    let mut answer = String::new();
    let mut ask = || {
        let mut stream = TcpStream::connect(&port)?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: s3\r\nConnection: close\r\n\r\n")?;
        stream.read_to_string(&mut answer)
    };
    wait_until("it answers", SHORT, || ask().is_ok_and(|read| read > 0));
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    assert!(gateway.0.try_wait().expect("it can be asked").is_none(), "it ended");
}

/// Requests of an owner, another user and nobody, by policies and lists; settings of buckets; another gateway.
#[test]
fn requests_are_judged_by_the_rules() {
    if !clients_are_here(&["python3-boto3"]) {
        return;
    }
    let cluster = TestCluster::start("s3-rules", 2);
    let (owner, owner_secret) = user(&cluster, &["owner"]);
    let (guest, guest_secret) = user(&cluster, &["guest", "--display-name", "The guest", "--email", "guest@e.com"]);
    let flags = ["--domain", "s3.test"];
    let (first, second) = (gateway(&cluster, &flags), gateway(&cluster, &flags));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/s3_access.py");
    let mut command = Command::new(python());
    command.args([script, &first.endpoint, &second.endpoint, &owner, &owner_secret, &guest, &guest_secret]);
    let said = run(command, SESSION).ok();
    assert!(said.ends_with("hosts\n"), "{said}");
}

/// `nacre up` starts a gateway, starts it again when it dies, and stops it.
#[test]
fn up_serves_s3() {
    if !clients_are_here(&["python3-boto3"]) {
        return;
    }
    let cluster = TestCluster::start("s3-up", 2);
    cluster.down();
    let port = cluster.spare_port().to_string();
    let up = cluster.nacre(&["up", "--detach", "--s3-port", &port], Duration::from_secs(150));
    let said = up.stderr.clone();
    up.ok();
    let word = |before: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(before));
        line.unwrap_or_else(|| panic!("no '{before}' in {said}")).trim().to_owned()
    };
    let (endpoint, access, secret) = (word("S3 at"), word("access key"), word("secret key"));
    assert_eq!(endpoint, format!("http://127.0.0.1:{port}"));
    let script = "import boto3, sys\n\
                  a, s, e = sys.argv[1:]\n\
                  c = boto3.client('s3', endpoint_url=e, aws_access_key_id=a, aws_secret_access_key=s, \
                  region_name='us-east-1')\n\
                  c.create_bucket(Bucket='made')\n\
                  c.put_object(Bucket='made', Key='k', Body=b'v')\n\
                  c.get_bucket_logging(Bucket='made'), c.get_bucket_notification_configuration(Bucket='made')\n\
                  c.get_bucket_accelerate_configuration(Bucket='made')\n\
                  try: c.get_bucket_replication(Bucket='made')\n\
                  except c.exceptions.ClientError as e: assert 'ReplicationConfigurationNotFound' in str(e), e\n\
                  else: assert False\n\
                  print(c.get_object(Bucket='made', Key='k')['Body'].read().decode())";
    let session = || {
        let mut command = Command::new(python());
        command.args(["-c", script, &access, &secret, &endpoint]);
        run(command, SHORT)
    };
    assert_eq!(session().ok(), "v\n");
    let stats = cluster.nacre(&["s3", "bucket", "stats", "made", "--json"], SHORT).ok();
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!((&stats["objects"], &stats["bytes"]), (&1.into(), &1.into()));
    cluster.nacre(&["s3", "user", "suspend", "nacre"], SHORT).ok();
    // Gateways remember users for a moment. A user may make its own bucket again.
    wait_until("a suspended user is kept out", SHORT, || {
        let outcome = session();
        !outcome.succeeded() && outcome.stderr.contains("AccessDenied")
    });
}
