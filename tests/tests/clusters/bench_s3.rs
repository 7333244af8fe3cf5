//! `nacre bench` with objects by S3, through a gateway of Nacre's.

use super::bench::{exit_code, result_in, start, text};
use super::s3::{Gateway, gateway, user};
use cluster_tests::{Background, Outcome, TestCluster, binary, clients_are_here, python, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// A cluster with a gateway, and the access key and secret of a user.
fn with_gateway(name: &str) -> (TestCluster, Gateway, (String, String)) {
    let cluster = TestCluster::start(name, 2);
    let keys = user(&cluster, &["me"]);
    let text = format!("[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n", keys.0, keys.1);
    fs::write(cluster.scratch("keys"), text).unwrap();
    let gateway = gateway(&cluster, &[]);
    (cluster, gateway, keys)
}

fn bench(args: &[&str]) -> Outcome {
    let mut command = Command::new(binary());
    command.arg("bench").args(args);
    run(command, LIMIT)
}

/// A workload in the bucket `load` on objects that are there before.
fn workload(name: &str, object_bytes: u64, io_bytes: u64, operations: &Value) -> Value {
    json!({"name": name, "pool": "load", "tool": "nacre-s3", "warm_up_s": 0.2, "stop": {"duration_s": 1.0},
           "groups": [{"name": "clients", "object_bytes": object_bytes, "io_bytes": io_bytes, "objects": 12,
                       "operations": operations, "instances": 2, "prefill": true,
                       "load": {"closed": {"queue_depth": 2}}}]})
}

/// Runs a plan of whole and of partial operations. Every byte that is read is compared by `nacre bench`.
#[test]
fn objects_by_s3_are_measured_and_removed() {
    let (cluster, gateway, _) = with_gateway("bench-s3");
    let (mixed, reads) = (json!({"random_write": 50, "random_read": 50}), json!({"random_read": 100}));
    let plan = json!({
        "version": 1, "name": "objects by S3", "seed": 36,
        "clusters": [{"name": "nacre", "engine": "nacre", "configuration": "ceph.conf",
                      "s3": {"endpoint": gateway.endpoint, "keys": text(&cluster.scratch("keys"))}}],
        "pools": [{"name": "load"}],
        "workloads": [workload("small", 4096, 4096, &mixed), workload("large", 1 << 20, 1 << 20, &mixed),
                      workload("ranges", 1 << 20, 4096, &reads)],
        "iterations": 1
    });
    let (file, out) = (cluster.dir().join("plan.json"), cluster.scratch("run"));
    fs::write(&file, plan.to_string()).unwrap();
    bench(&["run", text(&file), "--out", text(&out)]).ok();
    let result = result_in(&out);
    assert_eq!(result["end"], "complete", "{result}");
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    let port = gateway.endpoint.rsplit_once(':').unwrap().1;
    for row in rows {
        assert!(row["operations"].as_u64() > Some(0), "{row}");
        assert_eq!((&row["mismatches"], &row["errors"]), (&0.into(), &0.into()), "{row}");
        let of_gateway = row["figures"][format!("gateway.{port}.cores")].as_f64();
        assert!(of_gateway > Some(0.0), "{}", row["figures"]);
        assert!(row["figures"]["server_cores"].as_f64() > of_gateway, "OSDs count, too: {}", row["figures"]);
    }
    assert_eq!(cluster.nacre(&["s3", "bucket", "ls"], LIMIT).ok(), "", "the bucket is removed with its objects");

    // Signed bodies, by flags; a bucket that is there stays.
    let mut command = Command::new(binary());
    command.args(["bench", "run", "--cluster", &format!("nacre={}", cluster.dir().display()), "--tool", "nacre-s3"]);
    command.args(["--s3", &gateway.endpoint, "--s3-keys", text(&cluster.scratch("keys")), "--s3-signed-payload"]);
    command.args([
        "--mode",
        "write",
        "--object-size",
        "64KiB",
        "--objects",
        "32",
        "--warm-up",
        "0",
        "--seconds",
        "0.5",
    ]);
    let signed = cluster.scratch("signed");
    command.args(["--keep", "--out", text(&signed)]);
    run(command, LIMIT).ok();
    let row = &result_in(&signed)["rows"][0];
    assert!(row["operations"].as_u64() > Some(0) && row["errors"] == 0, "{row}");
    assert_eq!(cluster.nacre(&["s3", "bucket", "ls"], LIMIT).ok(), "nacre-bench\tme\n");
}

/// HEAD, DELETE and lists, through TLS, by two agents with keys of their own. Nothing is left.
#[test]
fn agents_ask_list_and_remove_through_tls() {
    if !clients_are_here(&["openssl"]) {
        return;
    }
    let cluster = TestCluster::start("bench-s3-tls", 2);
    let (access, secret) = user(&cluster, &["me"]);
    let keys = cluster.scratch("keys");
    fs::write(&keys, format!("aws_access_key_id={access}\naws_secret_access_key={secret}\n")).unwrap();
    let certificates = |name: &str| {
        let folder = cluster.scratch(name);
        fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new(python());
        command.args([concat!(env!("CARGO_MANIFEST_DIR"), "/python/s3_tls.py"), "make", text(&folder)]);
        run(command, LIMIT).ok();
        folder
    };
    let (folder, others) = (certificates("tls"), certificates("others"));
    let path = |name: &str| text(&folder.join(name)).to_owned();
    let gateway = gateway(&cluster, &["--tls-certificate", &path("server.pem"), "--tls-key", &path("server.key")]);
    let load = |name: &str, operations: Value| {
        let mut load = workload(name, 4096, 4096, &operations);
        let group = &mut load["groups"][0];
        group["objects"] = 200.into();
        if operations.get("list").is_some() {
            group["list_keys"] = 30.into();
        }
        load
    };
    let mixed = json!({"random_read": 30, "head": 20, "delete": 20, "list": 10, "random_write": 20});
    let mut plan = json!({
        "version": 1, "name": "objects by S3", "seed": 36,
        "clusters": [{"name": "nacre", "engine": "nacre", "configuration": "ceph.conf",
                      "s3": {"endpoint": gateway.endpoint, "keys": text(&keys), "ca": path("ca.pem")}}],
        "pools": [{"name": "load"}],
        "workloads": [load("heads", json!({"head": 100})), load("lists", json!({"list": 100})),
                      load("deletions", json!({"delete": 100})), load("all", mixed)],
        "iterations": 1
    });
    let file = cluster.dir().join("plan.json");
    fs::write(&file, plan.to_string()).unwrap();
    let measured = |more: &[&str], out: &str| {
        let out = cluster.scratch(out);
        bench(&[&["run", text(&file), "--out", text(&out)], more].concat()).ok();
        let result = result_in(&out);
        assert_eq!(result["end"], "complete", "{result}");
        let rows = result["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 4);
        for row in rows {
            assert!(row["operations"].as_u64() > Some(20), "{row}");
            assert_eq!((&row["mismatches"], &row["errors"]), (&0.into(), &0.into()), "{row}");
        }
        assert_eq!(cluster.nacre(&["s3", "bucket", "ls"], LIMIT).ok(), "", "the bucket is removed with its objects");
    };
    measured(&[], "here");
    let agents = [(), ()].map(|()| {
        let mut command = Command::new(binary());
        command.args(["bench", "agent", "--listen", "127.0.0.1:0", "--s3-keys", text(&keys)]);
        command.args(["--s3-ca", &path("ca.pem")]);
        let agent = Background::start(command);
        let line = agent.says("listens on ", LIMIT);
        (agent, line.rsplit(' ').next().unwrap().to_owned())
    });
    let addresses = agents.each_ref().map(|(_, address)| address.as_str()).join(",");
    measured(&["--agents", &addresses], "elsewhere");

    // Another authority's certificate does not count, and is told before any load.
    plan["clusters"][0]["s3"]["ca"] = text(&others.join("ca.pem")).into();
    fs::write(&file, plan.to_string()).unwrap();
    let said = bench(&["run", text(&file), "--out", text(&cluster.scratch("never"))]).failure();
    assert!(said.contains("connecting to 127.0.0.1:") && said.contains("certificate"), "{said}");
}

/// Objects that others have removed or replaced meanwhile are told; so are keys that open nothing, before any load.
#[test]
fn absent_and_damaged_objects_of_a_bucket_are_told() {
    if !clients_are_here(&["python3-boto3"]) {
        return;
    }
    let (cluster, gateway, (access, secret)) = with_gateway("bench-s3-damage");
    let (nacre, out) = (format!("nacre={}", cluster.dir().display()), cluster.scratch("run"));
    let flags = "run --seconds 100 --warm-up 0 --tool nacre-s3 --mode randread --object-size 4KiB --objects 20";
    let keys = cluster.scratch("keys");
    let paths = |keys, out| {
        let named =
            ["--cluster", nacre.as_str(), "--s3", &gateway.endpoint, "--s3-keys", text(keys), "--out", text(out)];
        named.map(str::to_owned)
    };
    let wrong = cluster.scratch("wrong-keys");
    fs::write(&wrong, format!("aws_access_key_id={access}\naws_secret_access_key=nonsense\n")).unwrap();
    let refused =
        bench(&[&flags.split(' ').collect::<Vec<_>>()[..], &paths(&wrong, &out).each_ref().map(|s| &s[..])].concat());
    let said = refused.failure();
    assert!(said.contains("bucket nacre-bench at 127.0.0.1:") && said.contains("403"), "{said}");
    fs::remove_dir_all(&out).unwrap();

    let child = start(&[flags], &paths(&keys, &out).each_ref().map(|s| &s[..]), "measuring");
    let script = "import boto3, sys\n\
                  a, s, e = sys.argv[1:]\n\
                  c = boto3.client('s3', endpoint_url=e, aws_access_key_id=a, aws_secret_access_key=s, \
                  region_name='us-east-1')\n\
                  keys = [o['Key'] for o in c.list_objects_v2(Bucket='nacre-bench')['Contents']]\n\
                  c.delete_object(Bucket='nacre-bench', Key=keys[3])\n\
                  body = bytearray(c.get_object(Bucket='nacre-bench', Key=keys[5])['Body'].read())\n\
                  body[4000] ^= 1\n\
                  c.put_object(Bucket='nacre-bench', Key=keys[5], Body=bytes(body))\n\
                  print(len(keys))";
    let mut command = Command::new(python());
    command.args(["-c", script, &access, &secret, &gateway.endpoint]);
    assert_eq!(run(command, LIMIT).ok(), "20\n");
    std::thread::sleep(Duration::from_secs(2));
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
    assert_eq!(exit_code(child, LIMIT), Some(130));
    let row = &result_in(&out)["rows"][0];
    assert!(row["operations"].as_u64() > Some(0), "{row}");
    assert!(row["mismatches"].as_u64() > Some(0), "one bit is another: {row}");
    assert!(row["errors"].as_u64() > Some(0), "{row}");
    assert!(row["error_examples"][0].as_str().unwrap().contains("NoSuchKey"), "{row}");
    assert_eq!(cluster.nacre(&["s3", "bucket", "ls"], LIMIT).ok(), "");
}
