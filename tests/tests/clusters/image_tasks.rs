//! Tasks about block images, given by Debian's `ceph` and `rbd`, and carried out by the cluster's worker.

use cluster_tests::{TestCluster, clients_are_here, run, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

struct Tasks {
    cluster: TestCluster,
}

impl Tasks {
    fn start(name: &str) -> Option<Tasks> {
        if !clients_are_here(&["ceph", "rbd"]) {
            return None;
        }
        let cluster = TestCluster::start(name, 3);
        cluster.ceph(&["osd", "pool", "create", "rbd", "8"]).ok();
        cluster.ceph(&["osd", "pool", "application", "enable", "rbd", "rbd"]).ok();
        cluster.wait_until_clean(LIMIT);
        Some(Tasks { cluster })
    }

    fn rbd(&self, args: &[&str]) -> String {
        run(self.cluster.command("rbd", args), LIMIT).ok()
    }

    fn add(&self, what: &[&str], spec: &str) -> Value {
        let words = [&["rbd", "task", "add"], what, &[spec]].concat();
        serde_json::from_str(&self.cluster.ceph(&words).ok()).expect("a task as JSON")
    }

    fn list(&self) -> Vec<Value> {
        self.cluster.ceph_json(&["rbd", "task", "list"]).as_array().expect("a list").clone()
    }

    fn wait_until_done(&self) {
        wait_until("no task is left", LIMIT, || self.list().is_empty());
    }

    /// The failure of a task that has ended; `None`: it was done.
    fn failure(&self, task: &Value) -> Option<String> {
        let progress = self.cluster.ceph_json(&["progress", "json"]);
        let ended = progress["completed"].as_array().expect("a list").iter().find(|event| event["id"] == task["id"]);
        let ended = ended.unwrap_or_else(|| panic!("{task} has not ended: {progress}"));
        ended["failure_message"].as_str().map(str::to_owned)
    }

    /// Makes image `parent` of these MiB, in objects of some size, with snapshot `s` and clone `child`. Returns a file
    /// with its content.
    fn make_clone(&self, mib: usize, object_size: &str) -> PathBuf {
        let file = self.cluster.scratch("content");
        let content: Vec<u8> = (0..mib << 20).map(|at| (at / 509 % 250 + at % 5 + 1) as u8).collect();
        std::fs::write(&file, content).expect("a file");
        let path = file.display().to_string();
        self.rbd(&["import", "--object-size", object_size, "--no-progress", &path, "rbd/parent"]);
        self.rbd(&["snap", "create", "--no-progress", "rbd/parent@s"]);
        self.rbd(&["clone", "--object-size", object_size, "rbd/parent@s", "rbd/child"]);
        file
    }

    fn assert_content(&self, image: &str, file: &PathBuf) {
        let copy = self.cluster.scratch("copy");
        let _ = std::fs::remove_file(&copy);
        self.rbd(&["export", "--no-progress", image, &copy.display().to_string()]);
        assert!(std::fs::read(&copy).expect("a copy") == std::fs::read(file).expect("a file"), "{image} has changed");
    }

    fn worker_pid(&self) -> Option<i32> {
        std::fs::read_to_string(self.cluster.dir().join("run/worker.pid")).ok()?.trim().parse().ok()
    }
}

#[test]
fn images_are_flattened_and_removed() {
    let Some(tasks) = Tasks::start("image-tasks") else { return };
    let file = tasks.make_clone(24, "1M");
    let flattening = tasks.add(&["flatten"], "rbd/child");
    assert_eq!(flattening["message"], "Flattening image rbd/child");
    tasks.wait_until_done();
    assert_eq!(tasks.failure(&flattening), None);
    assert!(!tasks.rbd(&["info", "rbd/child"]).contains("parent:"));
    tasks.assert_content("rbd/child", &file);

    // An image with snapshots waits until they are gone.
    let removal = tasks.add(&["remove"], "rbd/parent");
    let told = |tasks: &Tasks| tasks.list().iter().any(|task| task["retry_message"].as_str().is_some());
    wait_until("the failure is told", LIMIT, || told(&tasks));
    assert_eq!(tasks.list()[0]["retry_attempts"], 1);
    tasks.rbd(&["snap", "rm", "--no-progress", "rbd/parent@s"]);
    tasks.wait_until_done();
    assert_eq!(tasks.failure(&removal), None);
    assert_eq!(tasks.rbd(&["ls"]), "child\n");

    // As ceph-csi does: with a key of its own, by the image's id.
    let caps = ["mon", "profile rbd", "mgr", "profile rbd pool=rbd", "osd", "profile rbd pool=rbd"];
    let keyring = tasks.cluster.scratch("csi.keyring");
    let key = tasks.cluster.ceph(&[&["auth", "get-or-create", "client.csi"], &caps[..]].concat()).ok();
    std::fs::write(&keyring, key).expect("a keyring");
    let info: Value = serde_json::from_str(&tasks.rbd(&["info", "--format", "json", "rbd/child"])).expect("JSON");
    let id = info["id"].as_str().expect("an id");
    tasks.rbd(&["trash", "mv", "rbd/child"]);
    let keyring = keyring.display().to_string();
    let by_csi = ["--id", "csi", "--keyring", &keyring, "rbd", "task", "add"];
    let spec = format!("rbd/{id}");
    let added = tasks.cluster.ceph(&[&by_csi[..], &["trash", "remove", &spec]].concat()).ok();
    let removal: Value = serde_json::from_str(&added).expect("a task as JSON");
    assert_eq!(removal["refs"]["image_id"], id);
    tasks.wait_until_done();
    assert_eq!(tasks.failure(&removal), None);
    assert_eq!(tasks.rbd(&["trash", "ls"]), "");
    let refused = tasks.cluster.ceph(&[&by_csi[..], &["remove", "other/image"]].concat()).failure();
    assert!(refused.contains("not authorized on pool=other"), "{refused}");
    let left = tasks.cluster.rados(&["-p", "rbd", "ls"]).ok();
    assert!(!left.contains("rbd_data.") && !left.contains("rbd_header."), "{left}");

    // An image that is not there is told with the task.
    let nothing = tasks.add(&["flatten"], "rbd/nothing");
    tasks.wait_until_done();
    assert_eq!(tasks.failure(&nothing).as_deref(), Some("Image does not exist"));
    let log = tasks.cluster.ceph(&["log", "last", "20"]).ok();
    assert!(log.contains("Flattening image rbd/nothing failed: Image does not exist"), "{log}");
}

#[test]
fn a_task_outlives_its_worker_and_ends_when_it_is_canceled() {
    let Some(tasks) = Tasks::start("image-tasks-kill") else { return };
    let file = tasks.make_clone(24, "4K");
    let flattening = tasks.add(&["flatten"], "rbd/child");
    let share = || tasks.list().first().and_then(|task| task["progress"].as_f64()).unwrap_or(0.0);
    wait_until("some of it is done", LIMIT, || share() > 0.0);
    let first = tasks.worker_pid().expect("a worker");
    kill_process(Pid::from_raw(first).expect("a process"), Signal::KILL).expect("it is killed");
    assert_eq!(tasks.list()[0]["id"], flattening["id"], "it was killed in the midst");
    wait_until("another worker runs", LIMIT, || tasks.worker_pid().is_some_and(|pid| pid != first));
    tasks.wait_until_done();
    assert_eq!(tasks.failure(&flattening), None);
    assert!(!tasks.rbd(&["info", "rbd/child"]).contains("parent:"));
    tasks.assert_content("rbd/child", &file);

    tasks.rbd(&["clone", "--object-size", "4K", "rbd/parent@s", "rbd/other"]);
    let flattening = tasks.add(&["flatten"], "rbd/other");
    wait_until("some of it is done", LIMIT, || share() > 0.0);
    let id = flattening["id"].as_str().expect("an id");
    tasks.cluster.ceph(&["rbd", "task", "cancel", id]).ok();
    tasks.wait_until_done();
    assert_eq!(tasks.failure(&flattening).as_deref(), Some("Operation canceled"));
    assert!(tasks.rbd(&["info", "rbd/other"]).contains("parent: rbd/parent@s"));
    tasks.assert_content("rbd/other", &file);

    // A worker that is stopped gives its task back, and the cluster goes on with it after a start.
    tasks.add(&["flatten"], "rbd/other");
    wait_until("some of it is done", LIMIT, || share() > 0.0);
    tasks.cluster.down();
    tasks.cluster.up();
    tasks.wait_until_done();
    tasks.assert_content("rbd/other", &file);
    assert!(!tasks.rbd(&["info", "rbd/other"]).contains("parent:"));
}

#[test]
fn trash_is_purged_by_a_schedule() {
    let Some(tasks) = Tasks::start("image-tasks-purge") else { return };
    tasks.rbd(&["namespace", "create", "rbd/n"]);
    for image in ["rbd/due", "rbd/kept", "rbd/n/due"] {
        tasks.rbd(&["create", "--size", "8M", image]);
    }
    tasks.rbd(&["trash", "mv", "rbd/due"]);
    tasks.rbd(&["trash", "mv", "rbd/n/due"]);
    tasks.rbd(&["trash", "mv", "--expires-at", "2 days", "rbd/kept"]);
    tasks.rbd(&["trash", "purge", "schedule", "add", "--pool", "rbd", "1m"]);
    assert!(tasks.rbd(&["trash", "purge", "schedule", "ls", "--pool", "rbd"]).contains("every 1m"));
    let status = || tasks.rbd(&["trash", "purge", "schedule", "status", "--pool", "rbd"]);
    assert!(status().contains("rbd"), "{}", status());
    let trash = |spec: &str| tasks.rbd(&["trash", "ls", spec]);
    wait_until("what is due is gone", 2 * LIMIT, || trash("rbd/n").is_empty() && trash("rbd").lines().count() == 1);
    assert!(trash("rbd").contains("kept"));
    tasks.rbd(&["trash", "purge", "schedule", "rm", "--pool", "rbd"]);
    // rbd has no other word for a pool without a schedule than ENOENT.
    let left = run(tasks.cluster.command("rbd", &["trash", "purge", "schedule", "ls", "--pool", "rbd"]), LIMIT);
    assert!(!left.succeeded() && left.stdout.is_empty(), "{left:?}");
}
