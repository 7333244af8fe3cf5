//! Schedules by which a worker purges the trash of pools: `rbd trash purge schedule`.

use super::command::Command;
use super::context::Context;
use super::image_rights::{authorize_worker, no_right_to_images, on_images};
use super::{Answer, Reply, refuse};
use crate::Update;
use crate::state::image_tasks::{ImageTask, TaskAction, TaskChange};
use crate::state::purge_schedules::{
    ITEMS_MAX, Item, LEVELS_MAX, Level, NAME_BYTES_MAX, NAMESPACES_MAX, Schedule, ScheduleChange, StartTime,
};
use auth::caps::Access;
use osdmap::PgPool;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use types::{Errno, PoolId, Utime};

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "rbd trash purge schedule add {level_spec:String} {interval:String} {start_time:String,req=false}",
        "w",
        "have the trash purged every so often",
        add,
    ),
    Command::new(
        "rbd trash purge schedule remove {level_spec:String} {interval:String,req=false} {start_time:String,req=false}",
        "w",
        "have the trash purged less often, or no more",
        remove,
    ),
    Command::new(
        "rbd trash purge schedule list {level_spec:String,req=false}",
        "r",
        "list how often trash is purged",
        list,
    ),
    Command::new(
        "rbd trash purge schedule status {level_spec:String,req=false}",
        "r",
        "list when trash is purged next",
        status,
    ),
    Command::new(
        "rbd task lease namespaces {worker:String} {pool:String} {namespaces:String,n=N,req=false}",
        "rw",
        "for a worker: tell which namespaces a pool has",
        namespaces,
    )
    .routine(),
];

/// Returns true for pools that have images.
fn has_images(pool: &PgPool) -> bool {
    pool.application_metadata.contains_key("rbd")
}

/// Reads ``, `POOL/` or `POOL/NAMESPACE/`; returns the level and its text.
fn level<'a>(c: &'a Context<'_>, needs: Access) -> Result<(Level, &'a str), Reply> {
    let text = c.args.text("level_spec").unwrap_or_default();
    let wrong = |why: String| refuse(Errno::EINVAL, format!("Invalid level spec {text}: {why}"));
    let level = if text.is_empty() {
        Level::default()
    } else {
        let parts: Vec<&str> = text.split('/').collect();
        let (name, namespace) = match parts[..] {
            [pool, ""] => (pool, None),
            [pool, namespace, ""] => (pool, Some(namespace.to_owned())),
            [_, image] | [_, _, image] if !image.contains('@') => {
                return wrong(format!("invalid name {text}: image level is not allowed"));
            }
            _ => return wrong(format!("failed to parse {text}")),
        };
        let Some(pool) = c.map().pool_by_name(name).filter(|_| !name.is_empty()) else {
            return wrong(format!("pool {name} does not exist"));
        };
        if namespace.as_ref().is_some_and(|namespace| namespace.len() > NAME_BYTES_MAX) {
            return refuse(Errno::EINVAL, format!("Invalid level spec: a name has {NAME_BYTES_MAX} bytes at most"));
        }
        if !c.map().pool(pool).is_some_and(has_images) {
            return wrong(format!("{name} is not an RBD pool"));
        }
        Level { pool: Some(pool), namespace }
    };
    let caps = on_images(c);
    let may = match (&level.pool, &level.namespace) {
        (None, _) => caps.allows_everywhere(needs),
        (Some(pool), namespace) => {
            let name = c.map().pool_name(*pool).unwrap_or_default();
            // A name that no namespace has stands for all of them.
            caps.allows(needs, name, namespace.as_deref().unwrap_or("/"))
        }
    };
    if may { Ok((level, text)) } else { Err(no_right_to_images()) }
}

/// Reads the interval and the start time.
fn item(c: &Context<'_>) -> Result<Item, Reply> {
    let interval = c.args.word("interval");
    let Some(minutes) = Item::parse_interval(interval) else {
        return refuse(Errno::EINVAL, format!("Invalid interval ({interval})"));
    };
    let start = match c.args.text("start_time").filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => match StartTime::parse(text) {
            None => {
                return refuse(
                    Errno::EINVAL,
                    format!("Invalid start time {text}: it has the form HH:MM or HH:MM+HH:MM"),
                );
            }
            time => time,
        },
    };
    Ok(Item { minutes, start })
}

fn set(c: &Context<'_>, level: Level, schedule: Schedule) -> Answer {
    let known = c.state.image_tasks.schedules.levels.get(&level);
    let has = |schedule: Option<&Schedule>| schedule.map(|schedule| schedule.items.clone()).unwrap_or_default();
    let changed = has(known) != schedule.items;
    let update = Update::ImageTask(TaskChange::Schedule(ScheduleChange::Set(level, schedule)));
    c.propose(if changed { vec![update] } else { Vec::new() }, Reply::default())
}

fn add(c: &Context<'_>) -> Answer {
    let (level, _) = level(c, Access::W)?;
    let levels = &c.state.image_tasks.schedules.levels;
    let mut schedule = levels.get(&level).cloned().unwrap_or_default();
    schedule.items.insert(item(c)?);
    schedule.since = c.request.now;
    // Each pool has its own bound: whoever fills it up keeps nobody else from adding some.
    let of_pool = levels.keys().filter(|known| known.pool == level.pool).count();
    if schedule.items.len() > ITEMS_MAX || (of_pool >= LEVELS_MAX && !levels.contains_key(&level)) {
        let sentence = format!(
            "{LEVELS_MAX} levels of a pool may have schedules, of {ITEMS_MAX} entries each: remove some first \
             (`rbd trash purge schedule list`)"
        );
        return refuse(Errno::E2BIG, sentence);
    }
    set(c, level, schedule)
}

fn remove(c: &Context<'_>) -> Answer {
    let (level, _) = level(c, Access::W)?;
    let mut schedule = c.state.image_tasks.schedules.levels.get(&level).cloned().unwrap_or_default();
    if c.args.text("interval").is_some_and(|interval| !interval.is_empty()) {
        schedule.items.remove(&item(c)?);
    } else {
        schedule.items.clear();
    }
    set(c, level, schedule)
}

/// Returns the level's name as Ceph shows it.
fn name(c: &Context<'_>, level: &Level) -> String {
    let Some(pool) = level.pool else { return String::new() };
    let pool = c.map().pool_name(pool).unwrap_or_default();
    match &level.namespace {
        None => format!("{pool}/"),
        Some(namespace) => format!("{pool}/{namespace}/"),
    }
}

fn list(c: &Context<'_>) -> Answer {
    let (wanted, _) = level(c, Access::R)?;
    let levels = &c.state.image_tasks.schedules.levels;
    // Without a schedule of its own the next one above counts.
    let above = levels
        .keys()
        .filter(|level| level.contains(&wanted))
        .max_by_key(|level| usize::from(level.pool.is_some()) + usize::from(level.namespace.is_some()));
    let shown = levels.iter().filter(|(level, _)| Some(*level) == above || wanted.contains(level));
    let one = |(level, schedule): (&Level, &Schedule)| {
        let item =
            |item: &Item| json!({"interval": item.interval(), "start_time": item.start.map(|start| start.to_string())});
        let items: Vec<Value> = schedule.items.iter().map(item).collect();
        (level.id(), json!({"name": name(c, level), "schedule": items}))
    };
    c.value(Value::Object(shown.map(one).collect::<Map<_, _>>()))
}

/// Returns each namespace of a pool with images that has a schedule, with the time of its next purge.
fn runs<'a>(c: &Context<'a>) -> impl Iterator<Item = (Utime, PoolId, &'a str)> {
    let (now, schedules) = (c.request.now, &c.state.image_tasks.schedules);
    let pools = c.map().pools.iter().filter(|(_, pool)| has_images(pool)).map(|(id, _)| *id);
    pools.flat_map(move |pool| {
        schedules
            .namespaces_of(pool)
            .filter_map(move |namespace| Some((schedules.next_run(pool, namespace, now)?, pool, namespace)))
    })
}

fn status(c: &Context<'_>) -> Answer {
    let (wanted, _) = level(c, Access::R)?;
    let mut runs: Vec<_> = runs(c)
        .filter(|(_, pool, namespace)| {
            wanted.contains(&Level { pool: Some(*pool), namespace: Some((*namespace).to_owned()) })
        })
        .collect();
    runs.sort();
    let one = |(at, pool, namespace): (Utime, PoolId, &str)| {
        let stamp = at.to_string().replace('T', " ");
        json!({
            "namespace": namespace,
            "pool_id": pool.0.to_string(),
            "pool_name": c.map().pool_name(pool).unwrap_or_default(),
            "schedule_time": stamp.split('.').next(),
        })
    };
    let scheduled: Vec<Value> = runs.into_iter().map(one).collect();
    c.value(json!({"scheduled": scheduled}))
}

// --- for workers ---

/// Returns a namespace of a pool whose trash is to be purged now, and since when it is due. While a purge of it is not
/// over, none is due.
pub(super) fn due(c: &Context<'_>) -> Option<(Utime, PoolId, String)> {
    let now = c.request.now;
    let purges = c.state.image_tasks.tasks.values().filter(|task| task.action == TaskAction::TrashPurge);
    let live: BTreeSet<(PoolId, &str)> = purges.map(|task| (task.pool_id, task.namespace.as_str())).collect();
    let due = runs(c).filter(|(at, pool, namespace)| *at <= now && !live.contains(&(*pool, *namespace))).min();
    due.map(|(at, pool, namespace)| (at, pool, namespace.to_owned()))
}

/// Returns true for a purge that no schedule asks for any more.
pub(super) fn is_unasked(c: &Context<'_>, task: &ImageTask) -> bool {
    let schedules = &c.state.image_tasks.schedules;
    task.action == TaskAction::TrashPurge && schedules.of(task.pool_id, &task.namespace).is_none()
}

/// Returns the names of the pools with images and a schedule: the worker is to tell their namespaces.
pub(super) fn pools<'a>(c: &Context<'a>) -> Vec<&'a str> {
    let levels = &c.state.image_tasks.schedules.levels;
    let has_schedule = |id: PoolId| levels.keys().any(|level| level.pool.is_none_or(|pool| pool == id));
    let pools = c.map().pools.iter().filter(|(id, pool)| has_images(pool) && has_schedule(**id));
    pools.filter_map(|(id, _)| c.map().pool_name(*id)).collect()
}

fn namespaces(c: &Context<'_>) -> Answer {
    authorize_worker(c)?;
    let (pool, ..) = c.pool("pool")?;
    let told = c.args.texts("namespaces").into_iter();
    let mut names: Vec<String> =
        told.filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names.truncate(NAMESPACES_MAX);
    let schedules = &c.state.image_tasks.schedules;
    let known: Vec<&str> = schedules.namespaces_of(pool).skip(1).collect();
    let is_news = known != names && !schedules.levels.is_empty();
    let update = Update::ImageTask(TaskChange::Schedule(ScheduleChange::Namespaces(pool, names)));
    c.propose(if is_news { vec![update] } else { Vec::new() }, Reply::default())
}
