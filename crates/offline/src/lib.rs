//! Work on an OSD's store while the OSD does not run: check, count, export, import, repair.
//!
//! * [`OfflineStore`]: a store opened on a [`Device`], with lookups that wait. Start here.
//! * [`check()`], [`stats()`], [`export()`], [`import()`], [`repair()`]: the kinds of work, one file each.
//! * [`FileDevice`]: a file or block device, through the reactor. Tests use a simulated one.
//!
//! Unlike a running OSD this code may wait, because nobody else uses the store. The store's own core still does the
//! work; this code only loops over its answers.

mod check;
mod device;
mod export;
mod finding;
mod group;
mod import;
mod losses;
mod repair;
mod session;
mod stats;
mod stream;
#[cfg(test)]
mod tests;
mod verify;

pub use check::{CheckReport, check};
pub use device::{Device, DeviceError, FileDevice};
pub use export::{ExportReport, ExportScope, export};
pub use finding::{Finding, MAKE_ANEW};
pub use import::{ImportReport, check_beside, check_stream, groups_of_stream, import};
pub use repair::{RepairAction, RepairPlan, RepairReport, plan_repair, repair};
pub use session::{OfflineError, OfflineStore, read_labels};
pub use stats::{PgStatsReport, PoolStats, StoreStats, stats};
pub use stream::StreamError;

/// Callback for progress: bytes done, and bytes in all if their number is known.
pub type Progress<'a> = &'a mut dyn FnMut(u64, Option<u64>);
