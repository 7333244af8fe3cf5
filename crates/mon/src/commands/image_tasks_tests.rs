//! Tasks about images and schedules of purges, as people and workers see them.

use super::test_cluster::{NOW, TestCluster};
use super::{Outcome, Reply, Request, handle};
use crate::identity::Party;
use crate::state::image_tasks::POOL_TASKS_MAX;
use crate::state::purge_schedules::LEVELS_MAX;
use serde_json::{Value, json};
use types::{EntityName, EntityType, Errno, Utime};
use wire::basic::AuthName;

/// A cluster with pool `p`, which has images, and a clock.
struct Tasks {
    cluster: TestCluster,
    seconds: u32,
    who: Party,
}

impl Tasks {
    fn new() -> Tasks {
        let mut cluster = TestCluster::with_osds();
        for pool in ["p", "q"] {
            cluster.ok(json!({"prefix": "osd pool create", "pool": pool, "pg_num": 4}));
            cluster.ok(json!({"prefix": "osd pool application enable", "pool": pool, "app": "rbd"}));
        }
        cluster.ok(json!({"prefix": "osd pool create", "pool": "plain", "pg_num": 4}));
        Tasks { cluster, seconds: 0, who: Party::claimed(&AuthName::default()) }
    }

    /// Someone with these capabilities at the manager.
    fn by(&mut self, caps: &str) -> &mut Tasks {
        let name = AuthName::new(EntityType::CLIENT, "csi");
        self.who = Party::vouched_for(&name, caps.to_owned(), None);
        self
    }

    fn run(&mut self, command: Value) -> Reply {
        let mut random = [9; 32];
        random[..8].copy_from_slice(&self.cluster.state.applied.to_le_bytes());
        let request = Request {
            command: &command.to_string(),
            input: Default::default(),
            from: EntityName::client(4123),
            who: &self.who,
            tell: false,
            to_manager: true,
            sessions: &[],
            now: Utime { sec: NOW.sec + self.seconds, nsec: 0 },
            random,
        };
        match handle(&self.cluster.state, &self.cluster.volatile, &request) {
            Outcome::Reply(reply) => reply,
            Outcome::Propose { updates, reply } => {
                self.cluster.state.check_budget(&updates).expect("it fits");
                self.cluster.apply(updates);
                reply
            }
            Outcome::Order { .. } => panic!("no OSD has a part in this"),
        }
    }

    fn ok(&mut self, command: Value) -> Value {
        let reply = self.run(command.clone());
        assert_eq!(reply.code, 0, "{command}: {}", reply.status);
        serde_json::from_slice(&reply.output).unwrap_or(Value::Null)
    }

    fn fails(&mut self, command: Value, errno: Errno, words: &str) {
        let reply = self.run(command.clone());
        assert_eq!(reply.code, errno.as_result(), "{command}: {}", reply.status);
        assert!(reply.status.contains(words), "{command}: {}", reply.status);
    }

    fn add(&mut self, what: &str, spec: &str) -> Value {
        let argument = if what == "trash remove" { "image_id_spec" } else { "image_spec" };
        self.ok(json!({"prefix": format!("rbd task add {what}"), argument: spec}))
    }

    fn next(&mut self, worker: &str) -> Value {
        self.ok(json!({"prefix": "rbd task lease next", "worker": worker}))
    }

    fn list(&mut self) -> Vec<Value> {
        let list = self.ok(json!({"prefix": "rbd task list", "format": "json"}));
        list.as_array().expect("a list").clone()
    }

    fn progress(&mut self) -> Value {
        self.ok(json!({"prefix": "progress json"}))
    }
}

fn keep(worker: &str, id: &Value, done: u32) -> Value {
    json!({"prefix": "rbd task lease keep", "worker": worker, "task_id": id, "done": done})
}

fn end(worker: &str, id: &Value, how: &str, reason: &str) -> Value {
    json!({"prefix": "rbd task lease end", "worker": worker, "task_id": id, "how": how, "reason": reason})
}

#[test]
fn a_task_is_told_as_a_cephs_manager_tells_it() {
    let mut tasks = Tasks::new();
    let reply = tasks.run(json!({"prefix": "rbd task add flatten", "image_spec": "p/n/i"}));
    let text = String::from_utf8(reply.output.to_vec()).expect("text");
    let id = tasks.list()[0]["id"].as_str().expect("an id").to_owned();
    let refs = r#"{"action":"flatten","pool_name":"p","pool_namespace":"n","image_name":"i"}"#;
    assert_eq!(text, format!(r#"{{"sequence":1,"id":"{id}","message":"Flattening image p/n/i","refs":{refs}}}"#));
    assert_eq!((id.len(), &id[14..15]), (36, "4"), "a random UUID");
    // Once more is the same task, under one name or the other.
    assert_eq!(tasks.add("flatten", "p/n/i")["id"], json!(id));
    let removal = tasks.add("remove", "p/i");
    assert_eq!(removal["message"], "Removing image p/i");
    let trash = tasks.add("trash remove", "p/105ab");
    assert_eq!(trash["message"], "Removing image p/105ab from trash");
    let refs = json!({"action": "trash remove", "pool_name": "p", "pool_namespace": "", "image_id": "105ab"});
    assert_eq!(trash["refs"], refs);
    assert_eq!(tasks.list().len(), 3);
    assert_eq!(tasks.ok(json!({"prefix": "rbd task list", "task_id": id, "format": "json"}))["sequence"], 1);
    for (spec, errno, words) in [
        ("none/i", Errno::ENOENT, "there is no pool 'none'"),
        ("p/i@s", Errno::EINVAL, "Invalid image spec: p/i@s"),
        ("p/n/i/x", Errno::EINVAL, "Invalid image spec"),
        ("p/", Errno::EINVAL, "Invalid image spec"),
        ("i", Errno::ENOENT, "there is no pool 'rbd'"),
    ] {
        tasks.fails(json!({"prefix": "rbd task add remove", "image_spec": spec}), errno, words);
    }
    let migration = json!({"prefix": "rbd task add migration execute", "image_spec": "p/i"});
    tasks.fails(migration, Errno::EINVAL, "Image p/i is not migrating");
    for prefix in ["rbd task list", "rbd task cancel"] {
        tasks.fails(json!({"prefix": prefix, "task_id": "nothing"}), Errno::ENOENT, "No such task nothing");
    }
    assert_eq!(tasks.list().len(), 3, "what is refused changes nothing");
}

#[test]
fn a_worker_has_a_task_until_its_lease_ends() {
    let mut tasks = Tasks::new();
    let id = tasks.add("flatten", "p/i")["id"].clone();
    assert_eq!(tasks.next("a")["id"], id);
    assert_eq!(tasks.next("a")["id"], id, "the answer was not heard");
    assert_eq!(tasks.next("b"), json!({"pools": []}));
    tasks.seconds = 20;
    let mut told = keep("a", &id, 2500);
    told["image_id"] = json!("10ab");
    tasks.ok(told);
    let listed = tasks.list()[0].clone();
    assert_eq!((&listed["in_progress"], &listed["progress"]), (&json!(true), &json!(0.25)));
    assert_eq!(listed["refs"]["image_id"], "10ab");
    // The id that came later makes it no other task.
    assert_eq!(tasks.add("flatten", "p/i")["id"], id);
    let event = tasks.progress()["events"][0].clone();
    assert_eq!((&event["id"], &event["progress"]), (&id, &json!(0.25)));
    assert_eq!((&event["refs"]["origin"], &event["refs"]["action"]), (&json!("rbd_support"), &json!("flatten")));
    tasks.seconds = 45;
    assert_eq!(tasks.next("b"), json!({"pools": []}));
    tasks.seconds = 51;
    assert_eq!(tasks.list()[0].get("in_progress"), None, "its worker is dead");
    // An image at which workers end counts as one that fails: others come first.
    assert_eq!(tasks.next("b"), json!({"pools": []}));
    let listed = tasks.list()[0].clone();
    assert_eq!(
        (&listed["retry_message"], &listed["retry_attempts"]),
        (&json!("its worker told nothing more"), &json!(1))
    );
    tasks.seconds = 80;
    assert_eq!(tasks.next("b")["id"], id);
    tasks.fails(keep("a", &id, 9000), Errno::ECANCELED, "not with this worker");
    tasks.ok(end("a", &id, "failed", "it has nothing to say any more"));
    assert_eq!(tasks.list().len(), 1);
    tasks.ok(end("b", &id, "done", ""));
    tasks.ok(end("b", &id, "done", ""));
    assert!(tasks.list().is_empty());
    let progress = tasks.progress();
    assert_eq!((&progress["completed"][0]["id"], progress["completed"][0].get("failed")), (&id, None));
    assert_ne!(tasks.add("flatten", "p/i")["id"], id, "another image may have the name by now");
}

#[test]
fn what_fails_is_tried_again_later_or_told_once() {
    let mut tasks = Tasks::new();
    let (first, second) = (tasks.add("trash remove", "p/1")["id"].clone(), tasks.add("remove", "p/i")["id"].clone());
    tasks.next("a");
    tasks.ok(end("a", &first, "again", "a client has the image open"));
    let listed = tasks.list()[0].clone();
    assert_eq!(
        (&listed["retry_message"], &listed["retry_attempts"]),
        (&json!("a client has the image open"), &json!(1))
    );
    let at = Utime { sec: NOW.sec + 30, nsec: 0 }.to_string();
    assert_eq!(listed["retry_time"], at.trim_end_matches("+0000"));
    // Others do not wait for it.
    assert_eq!(tasks.next("a")["id"], second);
    tasks.ok(end("a", &second, "failed", "Image does not exist"));
    assert_eq!(tasks.next("a"), json!({"pools": []}));
    let completed = tasks.progress()["completed"][0].clone();
    assert_eq!((&completed["failed"], &completed["failure_message"]), (&json!(true), &json!("Image does not exist")));
    let line = tasks.cluster.state.log.entries.back().expect("a line").message.clone();
    assert_eq!(line, "Removing image p/i failed: Image does not exist");
    tasks.seconds = 30;
    assert_eq!(tasks.next("a")["id"], first);
    tasks.ok(end("a", &first, "back", ""));
    assert_eq!(tasks.list()[0]["retry_attempts"], 1, "to give a task back is no failure");
    assert_eq!(tasks.next("b")["id"], first);
    tasks.ok(end("b", &first, "done", ""));
    // Whoever asks again has not heard the answer.
    assert_eq!(tasks.add("trash remove", "p/1")["id"], first);
    assert!(tasks.list().is_empty());
}

#[test]
fn a_task_is_canceled_at_once_or_when_its_worker_hears_of_it() {
    let mut tasks = Tasks::new();
    let cancel = |id: &Value| json!({"prefix": "rbd task cancel", "task_id": id});
    let waiting = tasks.add("flatten", "p/i")["id"].clone();
    tasks.ok(cancel(&waiting));
    tasks.fails(cancel(&waiting), Errno::ENOENT, "No such task");
    assert_eq!(tasks.progress()["completed"][0]["failure_message"], "Operation canceled");
    let running = tasks.add("flatten", "p/i")["id"].clone();
    tasks.next("a");
    tasks.ok(cancel(&running));
    assert_eq!(tasks.list()[0]["canceled"], true);
    let again = tasks.add("flatten", "p/i")["id"].clone();
    assert_ne!(again, running, "whoever wants it again gets it");
    tasks.fails(keep("a", &running, 1), Errno::ECANCELED, "was canceled");
    tasks.ok(end("a", &running, "back", ""));
    assert_eq!(tasks.list().len(), 1);
    // One whose worker died goes with the lease.
    tasks.next("a");
    tasks.ok(cancel(&again));
    tasks.seconds = 31;
    assert_eq!(tasks.next("b"), json!({"pools": []}));
    assert!(tasks.list().is_empty());
}

#[test]
fn rights_hold_for_their_pools() {
    let mut tasks = Tasks::new();
    let add = |spec: &str| json!({"prefix": "rbd task add remove", "image_spec": spec});
    tasks.by("profile rbd pool=p").ok(add("p/i"));
    tasks.fails(add("q/i"), Errno::EACCES, "not authorized on pool=q, namespace=");
    tasks.by("profile rbd").ok(add("q/i"));
    assert_eq!(tasks.by("profile rbd").list().len(), 2);
    assert_eq!(tasks.by("profile rbd pool=p").list().len(), 1);
    let other = tasks.by("profile rbd").list()[1]["id"].clone();
    let cancel = json!({"prefix": "rbd task cancel", "task_id": other});
    tasks.by("profile rbd pool=p").fails(cancel, Errno::ENOENT, "No such task");
    tasks.by("profile rbd-read-only").fails(add("p/j"), Errno::EACCES, "access denied: ");
    let cancel = json!({"prefix": "rbd task cancel", "task_id": other});
    tasks.by("profile rbd-read-only").fails(cancel, Errno::EACCES, "access denied: ");
    assert_eq!(tasks.by("profile rbd-read-only").list().len(), 2);
    for caps in ["", "allow profile osd"] {
        tasks.by(caps).fails(add("p/j"), Errno::EACCES, "access denied: ");
        tasks.by(caps).fails(json!({"prefix": "rbd task list"}), Errno::EACCES, "access denied: ");
    }
    // A worker works on all images.
    let next = json!({"prefix": "rbd task lease next", "worker": "a"});
    tasks.by("profile rbd pool=p").fails(next.clone(), Errno::EACCES, "access denied: ");
    assert_eq!(tasks.by("profile rbd").ok(next)["refs"]["pool_name"], "p");
    let schedule =
        |level: &str| json!({"prefix": "rbd trash purge schedule add", "level_spec": level, "interval": "1h"});
    tasks.by("profile rbd pool=p").ok(schedule("p/"));
    tasks.fails(schedule("q/"), Errno::EACCES, "access denied: ");
    tasks.fails(schedule(""), Errno::EACCES, "access denied: ");
    tasks.by("profile rbd pool=p namespace=n").fails(schedule("p/"), Errno::EACCES, "access denied: ");
    tasks.by("profile rbd pool=p namespace=n").ok(schedule("p/n/"));
}

/// `ceph` asks a monitor, whose session has the capabilities for monitors.
#[test]
fn at_a_monitor_the_capabilities_for_the_manager_count() {
    let mut tasks = Tasks::new();
    let caps = ["mon", "profile rbd", "mgr", "profile rbd pool=p"];
    tasks.cluster.ok(json!({"prefix": "auth get-or-create", "entity": "client.csi", "caps": caps}));
    let name = AuthName::new(EntityType::CLIENT, "csi");
    tasks.cluster.who = Party::vouched_for(&name, "profile rbd".to_owned(), None);
    let add = |pool: &str| json!({"prefix": "rbd task add remove", "image_spec": format!("{pool}/i")});
    assert_eq!(tasks.cluster.run(add("p")).code, 0);
    assert_eq!(tasks.cluster.run(add("q")).code, Errno::EACCES.as_result());
    tasks.cluster.who = Party::unknown(&name);
    assert_eq!(tasks.cluster.run(add("p")).code, Errno::EACCES.as_result());
}

#[test]
fn tasks_are_bounded() {
    let mut tasks = Tasks::new();
    for number in 0..POOL_TASKS_MAX {
        tasks.add("trash remove", &format!("p/{number}"));
    }
    let add = |spec: &str| json!({"prefix": "rbd task add trash remove", "image_id_spec": spec});
    tasks.fails(add("p/more"), Errno::EAGAIN, "try again once some are done");
    tasks.ok(add("q/more"));
    tasks.ok(add("p/7"));
    let id = tasks.next("a")["id"].clone();
    tasks.ok(end("a", &id, "done", ""));
    tasks.ok(add("p/more"));
    tasks.fails(add(&format!("p/{}", "x".repeat(513))), Errno::EINVAL, "Invalid image spec");
}

#[test]
fn a_task_is_about_the_pool_that_had_the_name_when_it_was_added() {
    let mut tasks = Tasks::new();
    let (id, taken) = (tasks.add("remove", "q/i")["id"].clone(), tasks.add("remove", "p/i")["id"].clone());
    let pool_id = tasks.cluster.state.osdmap().pool_by_name("q").expect("a pool").0;
    assert_eq!(tasks.next("a")["pool_id"], json!(pool_id));
    tasks.ok(end("a", &id, "back", ""));
    tasks.cluster.ok(json!({"prefix": "osd pool rename", "srcpool": "q", "destpool": "r"}));
    tasks.cluster.ok(json!({"prefix": "osd pool create", "pool": "q", "pg_num": 4}));
    assert_eq!(tasks.next("a")["id"], taken);
    let completed = tasks.progress()["completed"][0].clone();
    assert_eq!(completed["id"], id);
    assert!(completed["failure_message"].as_str().expect("text").contains("deleted or renamed"), "{completed}");
}

#[test]
fn a_worker_goes_by_one_id_and_what_it_says_is_plain_text() {
    let mut tasks = Tasks::new();
    let id = tasks.add("remove", "p/i")["id"].clone();
    tasks.next("a");
    let with = |image: &str| {
        let mut told = keep("a", &id, 0);
        told["image_id"] = json!(image);
        told
    };
    tasks.fails(with(&"x".repeat(513)), Errno::EINVAL, "is not the id of the task's image");
    tasks.fails(with("1\n2"), Errno::EINVAL, "is not the id of the task's image");
    tasks.ok(with("10ab"));
    tasks.ok(with("10ab"));
    tasks.fails(with("10ac"), Errno::EINVAL, "10ac is not the id of the task's image");
    assert_eq!(tasks.next("a")["refs"]["image_id"], "10ab");
    tasks.ok(end("a", &id, "failed", "no\n\u{1b}[2Jsuch image"));
    let line = tasks.cluster.state.log.entries.back().expect("a line").message.clone();
    assert_eq!(line, "Removing image p/i failed: no  [2Jsuch image");
}

#[test]
fn a_purge_that_fails_is_not_added_once_more_and_goes_with_its_schedule() {
    let mut tasks = Tasks::new();
    let schedule = |word: &str| json!({"prefix": format!("rbd trash purge schedule {word}"), "level_spec": "p/", "interval": "1m"});
    tasks.ok(schedule("add"));
    tasks.seconds = 60;
    let purge = tasks.next("a");
    assert_eq!(purge["refs"]["action"], "trash purge");
    // Its worker dies: it waits, and no further one is added.
    for minute in 2..10 {
        tasks.seconds = 60 * minute;
        let next = tasks.next(&format!("worker {minute}"));
        assert!(next.get("id").is_none_or(|id| *id == purge["id"]), "{next}");
        assert_eq!(tasks.cluster.state.image_tasks.tasks.len(), 1);
    }
    // One that fails comes due again.
    tasks.seconds = 1200;
    assert_eq!(tasks.next("b")["id"], purge["id"]);
    tasks.ok(end("b", &purge["id"], "again", "an image is broken"));
    assert!(tasks.cluster.state.image_tasks.tasks.is_empty());
    tasks.seconds = 1260;
    let purge = tasks.next("b");
    assert_eq!(purge["refs"]["action"], "trash purge");
    tasks.ok(end("b", &purge["id"], "back", ""));
    assert_eq!(tasks.next("b")["id"], purge["id"], "its worker was stopped");
    tasks.ok(schedule("remove"));
    tasks.fails(keep("b", &purge["id"], 1), Errno::ECANCELED, "the schedule");
    tasks.seconds = 1300;
    assert_eq!(tasks.next("c"), json!({"pools": []}));
    assert!(tasks.cluster.state.image_tasks.tasks.is_empty());
}

#[test]
fn names_and_levels_are_bounded_for_each_pool() {
    let mut tasks = Tasks::new();
    let add = |level: &str| json!({"prefix": "rbd trash purge schedule add", "level_spec": level, "interval": "1d"});
    tasks.fails(add(&format!("p/{}/", "x".repeat(513))), Errno::EINVAL, "512 bytes at most");
    tasks.fails(
        json!({"prefix": "rbd trash purge schedule add", "level_spec": "p/", "interval": "71582789m"}),
        Errno::EINVAL,
        "Invalid interval",
    );
    for number in 0..LEVELS_MAX {
        tasks.ok(add(&format!("p/{number}/")));
    }
    tasks.fails(add("p/more/"), Errno::E2BIG, "remove some first");
    tasks.ok(add("p/7/"));
    tasks.ok(add("q/more/"));
    let names = ["n", "", "n", &"x".repeat(513)];
    tasks.ok(json!({"prefix": "rbd task lease namespaces", "worker": "a", "pool": "p", "namespaces": names}));
    let pool = tasks.cluster.state.osdmap().pool_by_name("p").expect("a pool");
    let known: Vec<&str> = tasks.cluster.state.image_tasks.schedules.namespaces_of(pool).collect();
    assert_eq!(known, ["", "n"]);
}

#[test]
fn trash_is_purged_by_the_schedule_of_its_level() {
    let mut tasks = Tasks::new();
    let schedule = |word: &str, level: &str| json!({"prefix": format!("rbd trash purge schedule {word}"), "level_spec": level, "format": "json"});
    let with = |mut command: Value, interval: &str, start: Option<&str>| {
        command["interval"] = json!(interval);
        if let Some(start) = start {
            command["start_time"] = json!(start);
        }
        command
    };
    let pool = tasks.cluster.state.osdmap().pool_by_name("p").expect("a pool").0.to_string();
    assert_eq!(tasks.ok(schedule("list", "")), json!({}));
    assert_eq!(tasks.ok(schedule("status", "")), json!({"scheduled": []}));
    tasks.ok(with(schedule("add", "p/"), "10m", None));
    tasks.ok(with(schedule("add", ""), "1d", Some("14:00-05:00")));
    tasks.ok(with(schedule("add", "p/n/"), "2h", None));
    let own = json!({"name": "p/", "schedule": [{"interval": "10m", "start_time": null}]});
    let all = json!({"name": "", "schedule": [{"interval": "1d", "start_time": "14:00:00-05:00"}]});
    let listed = tasks.ok(schedule("list", ""));
    assert_eq!((&listed[""], &listed[&pool]), (&all, &own));
    assert_eq!(tasks.ok(schedule("list", "q/")), json!({"": all}), "that of all pools counts");
    assert_eq!(tasks.ok(schedule("list", "p/"))[format!("{pool}/n")]["name"], "p/n/");
    for (level, words) in [
        ("none/", "Invalid level spec none/: pool none does not exist"),
        ("plain/", "plain is not an RBD pool"),
        ("p/n/i", "image level is not allowed"),
        ("p/i", "image level is not allowed"),
        ("p/n/i/x", "failed to parse"),
    ] {
        tasks.fails(schedule("status", level), Errno::EINVAL, words);
    }
    tasks.fails(with(schedule("add", "p/"), "often", None), Errno::EINVAL, "Invalid interval (often)");
    tasks.fails(with(schedule("add", "p/"), "1h", Some("noon")), Errno::EINVAL, "Invalid start time noon");
    assert_eq!(tasks.next("a"), json!({"pools": ["p", "q"]}), "nothing is due yet");
    let tell = |names: &[&str]| json!({"prefix": "rbd task lease namespaces", "worker": "a", "pool": "p", "namespaces": names});
    tasks.ok(tell(&["n"]));
    let status = tasks.ok(schedule("status", "p/"));
    let seen: Vec<&str> =
        status["scheduled"].as_array().unwrap().iter().map(|run| run["namespace"].as_str().unwrap()).collect();
    assert_eq!(seen, ["", "n"]);
    let first = &status["scheduled"][0];
    assert_eq!((&first["pool_id"], &first["pool_name"]), (&json!(pool), &json!("p")));
    let next_at = (NOW.sec / 600 + 1) * 600;
    let stamp = Utime { sec: next_at, nsec: 0 }.to_string();
    assert_eq!(first["schedule_time"], stamp[..19].replace('T', " "));
    tasks.seconds = next_at - NOW.sec;
    let task = tasks.next("a");
    assert_eq!((&task["refs"]["action"], &task["refs"]["pool_namespace"]), (&json!("trash purge"), &json!("")));
    assert!(tasks.list().is_empty(), "a Ceph lists no purges");
    assert_eq!(tasks.next("b"), json!({"pools": ["p", "q"]}), "once each time");
    tasks.ok(end("a", &task["id"], "done", ""));
    tasks.ok(with(schedule("remove", "p/"), "10m", None));
    assert_eq!(tasks.ok(schedule("list", "p/")).as_object().unwrap().len(), 2);
    tasks.ok(schedule("remove", ""));
    tasks.ok(schedule("remove", "p/n/"));
    assert_eq!(tasks.ok(schedule("list", "")), json!({}));
}
