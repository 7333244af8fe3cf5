//! Clients are locked out for a time.

use super::Now;
use osdmap::{Incremental, OsdMap};
use types::Utime;

/// Lets in again whose time is over.
pub(super) fn expired_lock_outs(now: Now, map: &OsdMap, incremental: &mut Incremental) {
    let is_over = |until: &Utime| *until < now.wall;
    let over = map.blocklist.iter().filter(|(_, until)| is_over(until)).map(|(addr, _)| *addr);
    incremental.old_blocklist.extend(over);
    let over = map.range_blocklist.iter().filter(|(_, until)| is_over(until)).map(|(addr, _)| *addr);
    incremental.old_range_blocklist.extend(over);
}
