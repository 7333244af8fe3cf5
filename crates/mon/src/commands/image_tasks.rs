//! Tasks about block images: people and tools add, list and cancel them; a worker takes them and tells their end.
//!
//! Nothing is looked up in images here. The worker finds out that an image is not there, and the task ends.

use super::command::Command;
use super::context::Context;
use super::image_rights::{authorize, authorize_worker, no_right_to_images, on_images};
use super::{Answer, Reply, done, purge_schedules, refuse};
use crate::Update;
use crate::bounds::cut;
use crate::state::image_tasks::{ALL_DONE, EndedTask, ImageTask, POOL_TASKS_MAX, TASKS_MAX, TaskAction, TaskChange};
use crate::state::purge_schedules::{Level, NAME_BYTES_MAX, ScheduleChange};
use crate::state::{LogEntry, LogPriority};
use auth::caps::Access;
use serde_json::{Map, Value, json};
use types::{EntityName, EntityType, Errno, PoolId, Utime};
use wire::basic::AuthName;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("rbd task add flatten {image_spec:String}", "w", "have a clone made independent of its parent", |c| {
        add(c, TaskAction::Flatten, "image_spec")
    }),
    Command::new("rbd task add remove {image_spec:String}", "w", "have an image removed", |c| {
        add(c, TaskAction::Remove, "image_spec")
    }),
    Command::new(
        "rbd task add trash remove {image_id_spec:String}",
        "w",
        "have an image removed from the trash",
        |c| add(c, TaskAction::TrashRemove, "image_id_spec"),
    ),
    Command::new("rbd task add migration execute {image_spec:String}", "w", "not supported", no_migration),
    Command::new("rbd task add migration commit {image_spec:String}", "w", "not supported", no_migration),
    Command::new("rbd task add migration abort {image_spec:String}", "w", "not supported", no_migration),
    Command::new("rbd task cancel {task_id:String}", "r", "cancel a task about an image", cancel),
    Command::new("rbd task list {task_id:String,req=false}", "r", "list tasks about images", list),
    Command::new("rbd task lease next {worker:String}", "rw", "for a worker: take the next task", next).routine(),
    Command::new(
        "rbd task lease keep {worker:String} {task_id:String} {done:Int,range=0|10000} {image_id:String,req=false}",
        "rw",
        "for a worker: go on with a task, of which so many parts of 10000 are done",
        keep,
    )
    .routine(),
    Command::new(
        "rbd task lease end {worker:String} {task_id:String} {how:Choices,strings=done|failed|again|back} \
         {reason:String,req=false}",
        "rw",
        "for a worker: a task is done, has failed for good, is to be tried again, or is given back",
        end,
    ),
];

/// Most bytes of a reason.
const REASON_BYTES_MAX: usize = 512;

/// Reads `[POOL/[NAMESPACE/]]IMAGE`.
fn parse_spec<'a>(c: &Context<'a>, text: &'a str) -> Result<(&'a str, &'a str, &'a str), Reply> {
    let parts: Vec<&str> = text.split('/').collect();
    let (pool, namespace, image) = match parts[..] {
        [image] => (c.state.config.option_of("mgr", &c.volatile.name, "rbd_default_pool").unwrap_or("rbd"), "", image),
        [pool, image] => (pool, "", image),
        [pool, namespace, image] => (pool, namespace, image),
        _ => ("", "", ""),
    };
    let is_wrong =
        pool.is_empty() || image.is_empty() || image.contains('@') || (parts.len() == 3 && namespace.is_empty());
    if is_wrong || [namespace, image].iter().any(|name| name.len() > NAME_BYTES_MAX) {
        return refuse(Errno::EINVAL, format!("Invalid image spec: {}", shortened(text)));
    }
    Ok((pool, namespace, image))
}

fn shortened(text: &str) -> String {
    let mut text = text.to_owned();
    cut(&mut text, NAME_BYTES_MAX);
    text
}

fn add(c: &Context<'_>, action: TaskAction, argument: &str) -> Answer {
    let (pool, namespace, image) = parse_spec(c, c.args.word(argument))?;
    authorize(c, Access::W, pool, namespace)?;
    let Some(pool_id) = c.map().pool_by_name(pool) else {
        return refuse(Errno::ENOENT, format!("there is no pool '{pool}'"));
    };
    let all = &c.state.image_tasks;
    let (image, image_id) = if action == TaskAction::TrashRemove { ("", image) } else { (image, "") };
    let task = fresh(c, action, (pool, pool_id), (namespace, image, image_id));
    if let Some(known) = all.tasks.values().rev().find(|known| known.is_same_work(&task) && !known.canceled) {
        return c.text(value(known, c.request.now).to_string());
    }
    // An id in the trash never comes again: whoever asks once more has not heard the answer.
    let is_done = |ended: &&EndedTask| ended.failure.is_empty() && ended.task.is_same_work(&task);
    if let Some(ended) = all.ended.iter().rev().find(is_done).filter(|_| action == TaskAction::TrashRemove) {
        return c.text(value(&ended.task, c.request.now).to_string());
    }
    let asked = || all.tasks.values().filter(|task| task.action != TaskAction::TrashPurge);
    // Each pool has its own bound: whoever fills it up takes nobody else's place.
    let has_room =
        asked().count() < TASKS_MAX && asked().filter(|task| task.pool_id == pool_id).count() < POOL_TASKS_MAX;
    if !has_room {
        let sentence = format!(
            "there are {POOL_TASKS_MAX} tasks of pool '{pool}', or {TASKS_MAX} of all pools; try again once some are \
             done (`rbd task list`)"
        );
        return refuse(Errno::EAGAIN, sentence);
    }
    let reply = Reply::output(value(&task, c.request.now).to_string());
    c.propose(vec![Update::ImageTask(TaskChange::Set(task))], reply)
}

fn no_migration(c: &Context<'_>) -> Answer {
    let text = c.args.word("image_spec");
    let (pool, namespace, _) = parse_spec(c, text)?;
    authorize(c, Access::W, pool, namespace)?;
    refuse(
        Errno::EINVAL,
        format!("Image {text} is not migrating: images are not migrated here; `rbd deep cp` copies them"),
    )
}

/// Returns a task that nobody has begun.
fn fresh(
    c: &Context<'_>,
    action: TaskAction,
    (pool, pool_id): (&str, PoolId),
    (namespace, image, image_id): (&str, &str, &str),
) -> ImageTask {
    ImageTask {
        sequence: c.state.image_tasks.last + 1,
        id: fresh_uuid(&c.request.random),
        action,
        pool: pool.to_owned(),
        pool_id,
        namespace: namespace.to_owned(),
        image: image.to_owned(),
        image_id: image_id.to_owned(),
        added: c.request.now,
        attempts: 0,
        failure: String::new(),
        retry_at: Utime::ZERO,
        lease: None,
        done: 0,
        canceled: false,
    }
}

/// Returns a random UUID, of version 4.
fn fresh_uuid(random: &[u8; 32]) -> String {
    let mut bytes: [u8; 16] = std::array::from_fn(|i| random[i]);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    types::Fsid(bytes).to_string()
}

/// Returns what tells of the task, in Ceph's order.
fn refs(task: &ImageTask) -> Map<String, Value> {
    let mut refs = Map::new();
    refs.insert("action".to_owned(), json!(task.action.name()));
    refs.insert("pool_name".to_owned(), json!(task.pool));
    refs.insert("pool_namespace".to_owned(), json!(task.namespace));
    for (name, text) in [("image_name", &task.image), ("image_id", &task.image_id)] {
        if !text.is_empty() {
            refs.insert(name.to_owned(), json!(text));
        }
    }
    refs
}

/// Returns the task as Ceph's manager shows it.
fn value(task: &ImageTask, now: Utime) -> Value {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    set("sequence", json!(task.sequence));
    set("id", json!(task.id));
    set("message", json!(task.message()));
    set("refs", Value::Object(refs(task)));
    if task.attempts > 0 {
        let at = task.retry_at.to_string();
        set("retry_message", json!(task.failure));
        set("retry_attempts", json!(task.attempts));
        set("retry_time", json!(at.split('+').next()));
    }
    if task.is_in_progress(now) {
        set("in_progress", json!(true));
        set("progress", json!(share(task)));
    }
    if task.canceled {
        set("canceled", json!(true));
    }
    Value::Object(fields)
}

fn share(task: &ImageTask) -> f64 {
    f64::from(task.done.min(ALL_DONE)) / f64::from(ALL_DONE)
}

/// Returns the task that the argument names, if the asker may know of it. Error: there is none, or he may not do this
/// with its image.
fn named<'a>(c: &Context<'a>, needs: Access) -> Result<&'a ImageTask, Reply> {
    let id = c.args.word("task_id");
    let caps = on_images(c);
    let is_his = |task: &&ImageTask| caps.allows(Access::R, &task.pool, &task.namespace);
    let known = c.state.image_tasks.find(id).filter(|task| task.action != TaskAction::TrashPurge).filter(is_his);
    let known = known.ok_or_else(|| Reply::error(Errno::ENOENT, format!("No such task {}", shortened(id))))?;
    authorize(c, needs, &known.pool, &known.namespace)?;
    Ok(known)
}

fn list(c: &Context<'_>) -> Answer {
    let caps = on_images(c);
    if !caps.allows_somewhere(Access::R) {
        return Err(no_right_to_images());
    }
    if c.args.text("task_id").is_some_and(|id| !id.is_empty()) {
        return c.value(value(named(c, Access::R)?, c.request.now));
    }
    let tasks = c.state.image_tasks.tasks.values().filter(|task| task.action != TaskAction::TrashPurge);
    let his = tasks.filter(|task| caps.allows(Access::R, &task.pool, &task.namespace));
    c.value(his.map(|task| value(task, c.request.now)).collect())
}

fn cancel(c: &Context<'_>) -> Answer {
    if !on_images(c).allows_somewhere(Access::R) {
        return Err(no_right_to_images());
    }
    let task = named(c, Access::W)?.clone();
    let now = c.request.now;
    let change = match task.is_in_progress(now) {
        // Its worker hears of it when it next tells how far it is.
        true => TaskChange::Set(ImageTask { canceled: true, ..task }),
        false => ended(&task, now, CANCELED),
    };
    c.propose(vec![Update::ImageTask(change)], Reply::default())
}

/// The failure of a task that was canceled, in Ceph's words.
const CANCELED: &str = "Operation canceled";

fn ended(task: &ImageTask, now: Utime, failure: &str) -> TaskChange {
    TaskChange::Ended { sequence: task.sequence, at: now, failure: failure.to_owned() }
}

// --- for workers ---

fn next(c: &Context<'_>) -> Answer {
    authorize_worker(c)?;
    let worker = shortened(c.args.word("worker"));
    let now = c.request.now;
    let mut updates = Vec::new();
    let mut free = Vec::new();
    for task in c.state.image_tasks.tasks.values() {
        match settled(c, task, &worker) {
            Some(change) => updates.push(Update::ImageTask(change)),
            None => free.extend(task.turn(&worker, now).map(|turn| (turn, task))),
        }
    }
    let first = free.into_iter().min_by_key(|(turn, _)| *turn);
    // A purge is due at a time, as a task is.
    let purge = purge_schedules::due(c).filter(|(at, ..)| first.is_none_or(|(turn, _)| turn > (true, *at, 0)));
    let task = match (first, purge) {
        (_, Some((_, pool_id, namespace))) => {
            let level = Level { pool: Some(pool_id), namespace: Some(namespace.clone()) };
            updates.push(Update::ImageTask(TaskChange::Schedule(ScheduleChange::Purged(level, now))));
            let pool = c.map().pool_name(pool_id).unwrap_or_default();
            fresh(c, TaskAction::TrashPurge, (pool, pool_id), (&namespace, "", ""))
        }
        (Some((_, task)), None) => task.clone(),
        (None, None) => {
            let pools = purge_schedules::pools(c);
            return c.propose(updates, Reply::output(json!({"pools": pools}).to_string()));
        }
    };
    let task = task.taken(&worker, now);
    let mut told = value(&task, now);
    told["pool_id"] = json!(task.pool_id.0);
    updates.push(Update::ImageTask(TaskChange::Set(task)));
    c.propose(updates, Reply::output(told.to_string()))
}

/// Returns the change of a task that is over, or whose worker is gone, before anybody takes it.
fn settled(c: &Context<'_>, task: &ImageTask, worker: &str) -> Option<TaskChange> {
    let now = c.request.now;
    if task.is_in_progress(now) {
        return None;
    }
    if purge_schedules::is_unasked(c, task) {
        return Some(TaskChange::Removed(task.sequence));
    }
    if task.canceled {
        // A worker had it then, and has died.
        return Some(ended(task, now, CANCELED));
    }
    if c.map().pool_by_name(&task.pool) != Some(task.pool_id) {
        return Some(match task.action {
            TaskAction::TrashPurge => TaskChange::Removed(task.sequence),
            _ => ended(task, now, "the pool was deleted or renamed; ask again by its present name"),
        });
    }
    // An image at which workers end must not be the first that each new one takes.
    let at = |task: &ImageTask| task.lease.as_ref().map_or(now, |lease| lease.until.min(now));
    task.is_orphaned(worker, now)
        .then(|| TaskChange::Set(task.clone().failed("its worker told nothing more", at(task))))
}

/// Returns the task that the worker has. Error: it has it no more, or is to stop.
fn leased<'a>(c: &Context<'a>) -> Result<&'a ImageTask, Reply> {
    authorize_worker(c)?;
    let (worker, id) = (c.args.word("worker"), c.args.word("task_id"));
    let task = c.state.image_tasks.find(id).filter(|task| task.is_with(worker));
    task.ok_or_else(|| Reply::error(Errno::ECANCELED, format!("task {} is not with this worker", shortened(id))))
}

fn keep(c: &Context<'_>) -> Answer {
    let task = leased(c)?;
    if task.canceled {
        return refuse(Errno::ECANCELED, format!("task {} was canceled", task.id));
    }
    if purge_schedules::is_unasked(c, task) {
        return refuse(Errno::ECANCELED, format!("the schedule of task {} was removed", task.id));
    }
    let mut now = task.clone().taken(c.args.word("worker"), c.request.now);
    now.done = c.args.int("done").and_then(|done| u32::try_from(done).ok()).unwrap_or(0).min(ALL_DONE);
    if let Some(id) = c.args.text("image_id").filter(|id| !id.is_empty()) {
        // The worker goes by the id from now on: one that is not kept must not be gone by.
        let is_known = !task.image_id.is_empty() && task.image_id != id;
        if is_known || id.len() > NAME_BYTES_MAX || id.chars().any(char::is_control) {
            return refuse(Errno::EINVAL, format!("{} is not the id of the task's image", shortened(id)));
        }
        now.image_id = id.to_owned();
    }
    c.propose(vec![Update::ImageTask(TaskChange::Set(now))], Reply::default())
}

fn end(c: &Context<'_>) -> Answer {
    let task = match leased(c) {
        Ok(task) => task.clone(),
        // It was said before, and the answer was not heard; or another worker has it.
        Err(reply) if reply.code == Errno::ECANCELED.as_result() => return done(""),
        Err(reply) => return Err(reply),
    };
    let now = c.request.now;
    let mut reason = printable(c.args.text("reason").unwrap_or_default());
    cut(&mut reason, REASON_BYTES_MAX);
    let how = c.args.word("how");
    let mut updates = Vec::new();
    let change = match how {
        "done" if task.action == TaskAction::TrashPurge => TaskChange::Removed(task.sequence),
        "done" => ended(&task, now, ""),
        _ if task.canceled => ended(&task, now, CANCELED),
        "failed" => {
            // Nobody else hears of it: the task was taken before anyone looked for the image.
            updates.push(Update::Log(vec![line(c, format!("{} failed: {reason}", printable(&task.message())))]));
            match task.action {
                TaskAction::TrashPurge => TaskChange::Removed(task.sequence),
                _ => ended(&task, now, if reason.is_empty() { "it failed" } else { &reason }),
            }
        }
        // It comes due again.
        "again" if task.action == TaskAction::TrashPurge => TaskChange::Removed(task.sequence),
        "again" => TaskChange::Set(task.failed(&reason, now)),
        _ => TaskChange::Set(task.given_back()),
    };
    updates.push(Update::ImageTask(change));
    c.propose(updates, Reply::default())
}

/// Returns a text without what would be more than a line of it, or more than text, on a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns a warning for the cluster log.
fn line(c: &Context<'_>, message: String) -> LogEntry {
    let rank = c.state.monmap.rank(&c.volatile.name).unwrap_or(0) as i64;
    LogEntry {
        seq: 0,
        stamp: c.request.now,
        name: AuthName::new(EntityType::MON, &c.volatile.name),
        rank: EntityName::mon(rank),
        addrs: c.state.monmap.mons.get(&c.volatile.name).map(|mon| mon.addrs.clone()).unwrap_or_default(),
        priority: LogPriority::WARN,
        channel: "cluster".to_owned(),
        message,
    }
}

// --- as progress ---

/// A task as an event of `ceph progress`.
pub(super) struct TaskEvent {
    pub id: String,
    pub message: String,
    pub began: Utime,
    pub share: f64,
    pub refs: Value,
    /// Time at which it ended, and the reason if it was given up.
    pub ended: Option<(Utime, String)>,
}

fn event(task: &ImageTask) -> TaskEvent {
    let mut all = Map::new();
    all.insert("origin".to_owned(), json!("rbd_support"));
    all.extend(refs(task));
    let began = task.lease.as_ref().map_or(task.added, |lease| lease.since);
    let (id, message) = (task.id.clone(), task.message());
    TaskEvent { id, message, began, share: share(task), refs: Value::Object(all), ended: None }
}

/// Returns the tasks that workers have.
pub(super) fn events(c: &Context<'_>) -> Vec<TaskEvent> {
    let now = c.request.now;
    c.state.image_tasks.tasks.values().filter(|task| task.is_in_progress(now)).map(event).collect()
}

/// Returns the tasks that have ended lately, oldest first.
pub(super) fn ended_events(c: &Context<'_>) -> Vec<TaskEvent> {
    let one = |ended: &EndedTask| TaskEvent { ended: Some((ended.at, ended.failure.clone())), ..event(&ended.task) };
    c.state.image_tasks.ended.iter().map(one).collect()
}
