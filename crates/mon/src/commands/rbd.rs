//! Commands of `rbd` for a Ceph's manager. Nothing here works on images by itself: there are no tasks and no schedules,
//! and new ones are refused. Adding a task is not known at all, so that tools do its work themselves.

use super::command::Command;
use super::context::Context;
use super::{Answer, Reply, done, refuse};
use serde_json::json;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "rbd trash purge schedule add {level_spec:String} {interval:String} {start_time:String,req=false}",
        "rw",
        "not supported: trash is purged only when asked to",
        no_schedules,
    ),
    Command::new(
        "rbd trash purge schedule remove {level_spec:String} {interval:String,req=false} {start_time:String,req=false}",
        "rw",
        "remove schedules of purging trash, which there are none of",
        no_schedule,
    ),
    Command::new(
        "rbd trash purge schedule list {level_spec:String,req=false}",
        "r",
        "list schedules of purging trash; there are none",
        |c| if_there(c, json!({})),
    ),
    Command::new(
        "rbd trash purge schedule status {level_spec:String,req=false}",
        "r",
        "list when trash is to be purged next: never",
        |c| if_there(c, json!({"scheduled": []})),
    ),
    Command::new(
        "rbd mirror snapshot schedule list {level_spec:String,req=false}",
        "r",
        "list schedules of snapshots for mirrors; there are none",
        |c| if_there(c, json!({})),
    ),
    Command::new(
        "rbd mirror snapshot schedule status {level_spec:String,req=false}",
        "r",
        "list when snapshots for mirrors are made next: never",
        |c| if_there(c, json!({"scheduled_images": []})),
    ),
    Command::new("rbd task list {task_id:String,req=false}", "r", "list tasks about images; there are none", |c| {
        if c.args.has("task_id") { no_task(c) } else { c.value(json!([])) }
    }),
    Command::new("rbd task cancel {task_id:String}", "rw", "cancel a task about an image; there are none", no_task),
    Command::new(
        "rbd perf image stats {pool_spec:String,req=false} {sort_by:String,req=false}",
        "r",
        "not supported: operations are not counted by image",
        no_statistics,
    ),
    Command::new(
        "rbd perf image counters {pool_spec:String,req=false} {sort_by:String,req=false}",
        "r",
        "not supported: operations are not counted by image",
        no_statistics,
    ),
];

fn no_schedules(_: &Context<'_>) -> Answer {
    refuse(Errno::EOPNOTSUPP, "nothing here purges trash by a schedule; run `rbd trash purge` from a timer")
}

/// Answers `value` if the pool that is asked about, if any, exists: as `POOL/` or `POOL/NAMESPACE/`.
fn if_there(c: &Context<'_>, value: serde_json::Value) -> Answer {
    pool_of_level(c)?;
    c.value(value)
}

fn no_schedule(c: &Context<'_>) -> Answer {
    pool_of_level(c)?;
    done("")
}

/// Errors: a level that names no pool of this cluster.
fn pool_of_level(c: &Context<'_>) -> Result<(), Reply> {
    let level = c.args.text("level_spec").unwrap_or_default();
    let pool = level.split('/').next().filter(|pool| !pool.is_empty());
    match pool.filter(|pool| c.map().pool_by_name(pool).is_none()) {
        Some(pool) => refuse(Errno::ENOENT, format!("there is no pool '{pool}'")),
        None => Ok(()),
    }
}

fn no_task(c: &Context<'_>) -> Answer {
    refuse(Errno::ENOENT, format!("No such task {}", c.args.word("task_id")))
}

fn no_statistics(_: &Context<'_>) -> Answer {
    // The error EOPNOTSUPP would have `rbd` advise to enable a module.
    refuse(Errno::EINVAL, "operations are not counted by image; `ceph osd pool stats` has them by pool")
}
