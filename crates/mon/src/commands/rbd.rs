//! Commands of `rbd` for a Ceph's manager that are not supported here: they are refused with the reason.

use super::command::Command;
use super::context::Context;
use super::{Answer, refuse};
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
        "not supported: trash is purged only when asked to",
        no_schedules,
    ),
    Command::new(
        "rbd trash purge schedule list {level_spec:String,req=false}",
        "r",
        "not supported: trash is purged only when asked to",
        no_schedules,
    ),
    Command::new(
        "rbd trash purge schedule status {level_spec:String,req=false}",
        "r",
        "not supported: trash is purged only when asked to",
        no_schedules,
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

fn no_schedules(_: &Context<'_>) -> Answer {
    refuse(Errno::EOPNOTSUPP, "nothing here purges trash by a schedule; run `rbd trash purge` from a timer")
}

fn no_statistics(_: &Context<'_>) -> Answer {
    // The error EOPNOTSUPP would have `rbd` advise to enable a module.
    refuse(Errno::EINVAL, "operations are not counted by image; `ceph osd pool stats` has them by pool")
}
