//! The end of clients' lock-outs.

use super::Now;
use osdmap::{Incremental, OsdMap};
use types::Utime;

/// Lets clients in again whose lock-out is over.
pub(super) fn expired_lock_outs(now: Now, map: &OsdMap, incremental: &mut Incremental) {
    let is_over = |until: &Utime| *until < now.wall;
    let over = map.blocklist.iter().filter(|(_, until)| is_over(until)).map(|(addr, _)| *addr);
    incremental.old_blocklist.extend(over);
    let over = map.range_blocklist.iter().filter(|(_, until)| is_over(until)).map(|(addr, _)| *addr);
    incremental.old_range_blocklist.extend(over);
}
