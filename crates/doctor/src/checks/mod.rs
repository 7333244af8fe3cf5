//! The table of all checks.

mod clocks;
mod drive_health;
mod drives;
mod limits;
mod memory;
mod network;
mod processors;

pub(crate) use drives::device_has_volatile_cache;

use crate::finding::{Check, Deviation, Mend};
use crate::machine::Machine;

/// All checks, in the order in which they are carried out.
pub fn all() -> impl Iterator<Item = &'static Check> {
    let tables = [
        processors::CHECKS,
        clocks::CHECKS,
        memory::CHECKS,
        limits::CHECKS,
        network::CHECKS,
        drives::CHECKS,
        drive_health::CHECKS,
    ];
    tables.into_iter().flatten()
}

/// A number that must be `wanted` at least.
fn at_least(machine: &Machine, path: &str, wanted: u64) -> Option<Vec<Deviation>> {
    let read = machine.number(path)?;
    let mends = vec![Mend::set(path, wanted.to_string())];
    let found = Deviation::new(format!("{read} ({path})"), format!("{wanted} at least"), mends);
    Some(if read < wanted { vec![found] } else { vec![] })
}

/// All deviations of parts; `None` if no part shows anything.
fn of_parts(parts: impl Iterator<Item = Option<Vec<Deviation>>>) -> Option<Vec<Deviation>> {
    parts.flatten().fold(None, |all, mut found| {
        let mut all: Vec<Deviation> = all.unwrap_or_default();
        all.append(&mut found);
        Some(all)
    })
}
