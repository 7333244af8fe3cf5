//! What the monitor counts is what there is.

use super::Violation;
use std::collections::BTreeMap;
use types::PgId;

/// Objects and bytes of each group: as the monitor `counted` them while nothing changed, and as they are `stored`.
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
