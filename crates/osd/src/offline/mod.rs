//! An OSD's store while the OSD does not run: checked, counted, exported, imported, repaired.
//!
//! * [`OfflineStore`]: a store opened on a [`Device`], with lookups that wait. Start here.
//! * [`check()`], [`stats()`], [`export()`], [`import()`], [`repair()`]: what can be done with it, one file each.
//! * [`FileDevice`]: a file or block device, through the reactor. Tests use a simulated one.
//!
//! Unlike a running OSD this may wait: nobody else uses the store. The work is still the store's own core; here are
//! only loops over what it answers.

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

/// Hears how far the work has come: bytes done, and in all where that is known.
pub type Progress<'a> = &'a mut dyn FnMut(u64, Option<u64>);
