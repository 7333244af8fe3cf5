//! Commands of `rbd` for a Ceph's manager, for which nothing is here: mirrors and statistics by image.

use super::command::Command;
use super::context::Context;
use super::{Answer, Reply, refuse};
use serde_json::json;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
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

/// Answers `value` if the pool that is asked about, if any, exists: as `POOL/` or `POOL/NAMESPACE/`.
fn if_there(c: &Context<'_>, value: serde_json::Value) -> Answer {
    pool_of_level(c)?;
    c.value(value)
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

fn no_statistics(_: &Context<'_>) -> Answer {
    // The error EOPNOTSUPP would have `rbd` advise to enable a module.
    refuse(Errno::EINVAL, "operations are not counted by image; `ceph osd pool stats` has them by pool")
}
