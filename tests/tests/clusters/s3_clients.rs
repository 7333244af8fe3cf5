//! Programs that people use with S3 every day, unchanged, on a gateway: aws, rclone, s3cmd, restic, and a registry of
//! images of containers with its client.

use crate::s3::{gateway, user};
use cluster_tests::{Killed, Outcome, TestCluster, clients_are_here, run, wait_until};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(400);
/// Larger than a part of any of these programs.
const LARGE_BYTES: usize = 30_000_000;

/// A folder of the test, the endpoint, and a user's keys.
struct Desk {
    cluster: TestCluster,
    endpoint: String,
    access: String,
    secret: String,
    _gateway: Killed,
}

impl Desk {
    fn new(name: &str) -> Desk {
        let cluster = TestCluster::start(name, 3);
        let (access, secret) = user(&cluster, &["someone"]);
        let started = gateway(&cluster, &[]);
        Desk { endpoint: started.endpoint, _gateway: started.process, cluster, access, secret }
    }

    /// A folder or file of this test that is not there yet.
    fn path(&self, name: &str) -> PathBuf {
        self.cluster.scratch(name)
    }

    /// Runs a program with the keys, and without what the machine says of other services.
    fn run(&self, program: &str, args: &[&str]) -> Outcome {
        let mut command = Command::new(program);
        command.args(args).env("AWS_ACCESS_KEY_ID", &self.access).env("AWS_SECRET_ACCESS_KEY", &self.secret);
        command.env("AWS_DEFAULT_REGION", "us-east-1").env("HOME", self.cluster.dir()).env_remove("AWS_CA_BUNDLE");
        command.env("RESTIC_PASSWORD", "of the test").env("RESTIC_CACHE_DIR", self.cluster.dir().join("restic-cache"));
        run(command, LIMIT)
    }

    fn aws(&self, args: &str) -> String {
        let words: Vec<&str> = args.split_whitespace().collect();
        self.run("aws", &[&["--endpoint-url", &self.endpoint], &words[..]].concat()).ok()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Bytes of which no part is like another.
fn noise(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..count.div_ceil(8)).flat_map(step).take(count).collect()
}

/// A tree of files of some hundred bytes to some ten thousand, with names that have to be quoted, and one large one.
fn tree(folder: &Path, files: u64) {
    for number in 0..files {
        let inner = folder.join(format!("{}/{}", number % 17, number % 5));
        fs::create_dir_all(&inner).expect("a folder");
        let bytes = noise(100 + (number * 7919 % 20_000) as usize, number);
        fs::write(inner.join(format!("file é + {number} & co.bin")), bytes).expect("a file");
    }
    fs::write(folder.join("large"), noise(LARGE_BYTES, 1)).expect("a file");
}

fn assert_same(one: &Path, other: &Path) {
    let mut diff = Command::new("diff");
    diff.args(["-r", "-q"]).args([one, other]);
    run(diff, LIMIT).ok();
}

#[test]
fn aws_copies_lists_and_removes() {
    if !clients_are_here(&["aws"]) {
        return;
    }
    let desk = Desk::new("s3-aws");
    let (from, back) = (desk.path("from"), desk.path("back"));
    tree(&from, 60);
    desk.aws("s3 mb s3://bucket-of-aws");
    desk.aws(&format!("s3 sync --quiet {} s3://bucket-of-aws/a", text(&from)));
    assert_eq!(desk.aws("s3 ls --recursive s3://bucket-of-aws").lines().count(), 61);
    desk.aws(&format!("s3 sync --quiet s3://bucket-of-aws/a {}", text(&back)));
    assert_same(&from, &back);
    desk.aws("s3 mv --quiet s3://bucket-of-aws/a/large s3://bucket-of-aws/moved");
    assert!(desk.aws("s3api head-object --bucket bucket-of-aws --key moved").contains(&LARGE_BYTES.to_string()));
    // The address is enough to read it, without a key.
    let address = desk.aws("s3 presign s3://bucket-of-aws/moved");
    let got = desk.path("presigned");
    desk.run("curl", &["-s", "-f", "-o", text(&got), address.trim()]).ok();
    assert!(fs::read(&got).expect("it came") == fs::read(from.join("large")).expect("it is there"));
    desk.aws("s3 rb --force s3://bucket-of-aws");
    assert_eq!(desk.aws("s3 ls"), "");
}

#[test]
fn rclone_synchronises_both_ways() {
    if !clients_are_here(&["rclone"]) {
        return;
    }
    let desk = Desk::new("s3-rclone");
    let (from, back, config) = (desk.path("from"), desk.path("back"), desk.path("rclone.conf"));
    tree(&from, 3000);
    let text_of_config = format!(
        "[n]\ntype = s3\nprovider = Other\naccess_key_id = {}\nsecret_access_key = {}\nendpoint = {}\n",
        desk.access, desk.secret, desk.endpoint
    );
    fs::write(&config, text_of_config).expect("a file");
    let rclone = |args: &[&str]| desk.run("rclone", &[&["--config", text(&config)], args].concat());
    rclone(&["sync", text(&from), "n:bucket-of-rclone/t"]).ok();
    let said = rclone(&["check", text(&from), "n:bucket-of-rclone/t"]);
    assert!(said.succeeded() && said.stderr.contains(" 3001 matching files"), "{}", said.stderr);
    rclone(&["sync", "n:bucket-of-rclone/t", text(&back)]).ok();
    assert_same(&from, &back);
    // Files that are gone here go there, and those that have changed are sent.
    fs::remove_dir_all(from.join("3")).expect("it was there");
    fs::write(from.join("1/new"), "new").expect("a file");
    rclone(&["sync", text(&from), "n:bucket-of-rclone/t"]).ok();
    rclone(&["sync", "n:bucket-of-rclone/t", text(&back)]).ok();
    assert_same(&from, &back);
    rclone(&["purge", "n:bucket-of-rclone"]).ok();
    assert_eq!(rclone(&["lsd", "n:"]).ok(), "");
}

#[test]
fn s3cmd_signs_for_the_region_that_it_is_told() {
    if !clients_are_here(&["s3cmd"]) {
        return;
    }
    let desk = Desk::new("s3-s3cmd");
    let (from, back, config) = (desk.path("from"), desk.path("back"), desk.path("s3cfg"));
    tree(&from, 40);
    let host = desk.endpoint.trim_start_matches("http://");
    // It signs for a region called US, unless it is told of another.
    let text_of_config = format!(
        "[default]\naccess_key = {}\nsecret_key = {}\nhost_base = {host}\nhost_bucket = {host}\nuse_https = False\n",
        desk.access, desk.secret
    );
    fs::write(&config, text_of_config).expect("a file");
    let s3cmd = |args: &[&str]| desk.run("s3cmd", &[&["-c", text(&config), "--no-progress"], args].concat());
    s3cmd(&["mb", "s3://bucket-of-s3cmd"]).ok();
    s3cmd(&["sync", &format!("{}/", text(&from)), "s3://bucket-of-s3cmd/t/"]).ok();
    fs::create_dir_all(&back).expect("a folder");
    s3cmd(&["sync", "s3://bucket-of-s3cmd/t/", &format!("{}/", text(&back))]).ok();
    assert_same(&from, &back);
    assert!(s3cmd(&["info", "s3://bucket-of-s3cmd/t/large"]).ok().contains(&LARGE_BYTES.to_string()));
    let open = format!("{}/bucket-of-s3cmd/t/large", desk.endpoint);
    assert!(!desk.run("curl", &["-s", "-f", &open]).succeeded(), "nobody else reads it");
    s3cmd(&["setacl", "--acl-public", "s3://bucket-of-s3cmd/t/large"]).ok();
    desk.run("curl", &["-s", "-f", "-o", text(&desk.path("public")), &open]).ok();
    assert!(s3cmd(&["du", "s3://bucket-of-s3cmd"]).ok().contains(" 41 objects"));
    s3cmd(&["del", "-r", "--force", "s3://bucket-of-s3cmd/"]).ok();
    s3cmd(&["rb", "s3://bucket-of-s3cmd"]).ok();
}

#[test]
fn restic_keeps_and_restores() {
    if !clients_are_here(&["restic"]) {
        return;
    }
    let desk = Desk::new("s3-restic");
    let (from, back) = (desk.path("from"), desk.path("back"));
    tree(&from, 500);
    let repository = format!("s3:{}/bucket-of-restic", desk.endpoint);
    let restic = |args: &[&str]| desk.run("restic", &[&["-r", &repository], args].concat()).ok();
    restic(&["init"]);
    restic(&["backup", text(&from)]);
    fs::write(from.join("1/new"), "new").expect("a file");
    restic(&["backup", text(&from)]);
    restic(&["check", "--read-data"]);
    restic(&["forget", "--keep-last", "1", "--prune"]);
    restic(&["check"]);
    restic(&["restore", "latest", "--target", text(&back)]);
    assert_same(&from, &back.join(from.strip_prefix("/").expect("from the root")));
}

/// An image of one layer, as a folder in the form that `skopeo` calls `dir`.
fn image(folder: &Path) {
    let digest = |bytes: &[u8]| {
        let file = folder.join("hashed");
        fs::write(&file, bytes).expect("a file");
        let mut sum = Command::new("sha256sum");
        sum.arg(&file);
        let said = run(sum, LIMIT).ok();
        fs::remove_file(&file).expect("it was there");
        said.split_whitespace().next().expect("a sum").to_owned()
    };
    fs::create_dir_all(folder).expect("a folder");
    let layer = noise(LARGE_BYTES, 5);
    let layer_digest = digest(&layer);
    let config = serde_json::json!({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_digest}")]}
    })
    .to_string();
    let config_digest = digest(config.as_bytes());
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": config.len(),
                   "digest": format!("sha256:{config_digest}")},
        "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar", "size": layer.len(),
                    "digest": format!("sha256:{layer_digest}")}]
    });
    fs::write(folder.join(&layer_digest), layer).expect("a file");
    fs::write(folder.join(&config_digest), config).expect("a file");
    fs::write(folder.join("manifest.json"), manifest.to_string()).expect("a file");
    fs::write(folder.join("version"), "Directory Transport Version: 1.1\n").expect("a file");
}

#[test]
fn a_registry_keeps_images() {
    if !clients_are_here(&["docker-registry", "skopeo", "aws"]) {
        return;
    }
    let desk = Desk::new("s3-registry");
    let (from, back, config) = (desk.path("image"), desk.path("back"), desk.path("registry.yml"));
    image(&from);
    let port = desk.cluster.spare_port();
    let text_of_config = format!(
        "version: 0.1\nstorage:\n  s3:\n    accesskey: {}\n    secretkey: {}\n    region: us-east-1\n    \
         regionendpoint: {}\n    bucket: bucket-of-registry\n    secure: false\n    v4auth: true\n    rootdirectory: /r\n  \
         delete:\n    enabled: true\nhttp:\n  addr: 127.0.0.1:{port}\n",
        desk.access, desk.secret, desk.endpoint
    );
    fs::write(&config, text_of_config).expect("a file");
    desk.aws("s3 mb s3://bucket-of-registry");
    let mut registry = Command::new("docker-registry");
    registry.arg("serve").arg(&config).env_remove("AWS_CA_BUNDLE");
    let log = fs::File::create(desk.cluster.dir().join("log/registry.log")).expect("a log");
    registry.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
    let _registry = Killed(registry.spawn().expect("it starts"));
    wait_until("the registry listens", LIMIT, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let (there, insecure) = (format!("docker://127.0.0.1:{port}/some/image:1"), ["--insecure-policy", "copy"]);
    let push = ["--dest-tls-verify=false", &format!("dir:{}", text(&from)), &there];
    desk.run("skopeo", &[&insecure, &push[..]].concat()).ok();
    let pull = ["--src-tls-verify=false", &there, &format!("dir:{}", text(&back))];
    desk.run("skopeo", &[&insecure, &pull[..]].concat()).ok();
    let manifest = fs::read_to_string(back.join("manifest.json")).expect("it came");
    for file in fs::read_dir(&from).expect("a folder").map(|entry| entry.expect("a file").path()) {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        if manifest.contains(name) {
            assert!(fs::read(&file).expect("it is there") == fs::read(back.join(name)).expect("it came"), "{name}");
        }
    }
    assert!(manifest.matches("sha256:").count() >= 2, "{manifest}");
    desk.run("skopeo", &["delete", "--tls-verify=false", &there]).ok();
    assert!(!desk.run("skopeo", &["inspect", "--tls-verify=false", &there]).succeeded(), "it is gone");
}
