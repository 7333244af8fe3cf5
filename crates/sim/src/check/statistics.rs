//! The monitor's counts are true.

use super::Violation;
use std::collections::BTreeMap;
use types::PgId;

/// Compares the objects and bytes of each group. `counted`: by the monitor, while nothing changed. `stored`: by the
/// stores.
pub fn statistics_agree_with_objects(
    counted: &BTreeMap<PgId, (u64, u64)>,
    stored: &BTreeMap<PgId, (u64, u64)>,
) -> Result<(), Violation> {
    for (pg, (objects, bytes)) in stored {
        let Some((counted_objects, counted_bytes)) = counted.get(pg) else {
            return Err(Violation(format!("pg {pg}: the monitor counts nothing, and there are {objects} objects")));
        };
        if (counted_objects, counted_bytes) != (objects, bytes) {
            return Err(Violation(format!(
                "pg {pg}: the monitor counts {counted_objects} objects and {counted_bytes} bytes, and there are {objects} and {bytes}"
            )));
        }
    }
    Ok(())
}
