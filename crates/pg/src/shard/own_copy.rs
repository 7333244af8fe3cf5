//! This OSD's own copy of an object, as operators look at it.

use super::Shard;
use crate::group::lookup::{NoAnswer, ready};
use bytes::Bytes;
use types::{ObjectId, PgId};

/// Bytes of keys and values beyond which an omap is not shown.
const BYTES_MAX: usize = 16 << 20;
/// Entries that are read at a time.
const PAGE_ENTRIES: usize = 1000;

/// Why a copy is not shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OwnCopyError {
    #[error("this OSD has nothing of pg {0}: 'ceph osd map POOL OBJECT' tells which OSDs have it")]
    NoGroup(PgId),
    #[error("this OSD has no such object")]
    NoObject,
    #[error("the object's metadata is being read from the drive: ask again")]
    NotYet,
    #[error("the object's metadata is damaged here: 'ceph pg deep-scrub' finds it, and has it replaced")]
    Damaged,
    #[error("the omap has more than {BYTES_MAX} bytes: 'rados listomapvals' lists it")]
    TooLarge,
}

impl From<NoAnswer> for OwnCopyError {
    fn from(why: NoAnswer) -> OwnCopyError {
        match why {
            NoAnswer::Pending(_) => OwnCopyError::NotYet,
            NoAnswer::Damaged(_) => OwnCopyError::Damaged,
        }
    }
}

impl Shard {
    /// Returns header and entries of the omap of this OSD's copy, whether or not it is the group's newest one.
    pub fn own_omap(&mut self, pgid: PgId, object: &ObjectId) -> Result<(Bytes, Vec<(Bytes, Bytes)>), OwnCopyError> {
        let id = self.instance(pgid);
        if !self.pgs.get(&id).is_some_and(|pg| pg.core.stored) {
            return Err(OwnCopyError::NoGroup(pgid));
        }
        let store = &mut self.host.store;
        if ready(store.stat(object))?.is_none() {
            return Err(OwnCopyError::NoObject);
        }
        let header = ready(store.omap_header(object))?;
        let mut entries: Vec<(Bytes, Bytes)> = Vec::new();
        let mut left = BYTES_MAX;
        loop {
            let after = entries.last().map(|(key, _)| key.clone()).unwrap_or_default();
            let (page, has_more) = ready(store.omap_page(object, &after, b"", (PAGE_ENTRIES, left.max(1))))?;
            let bytes: usize = page.iter().map(|(key, value)| key.len() + value.len()).sum();
            left = left.checked_sub(bytes).ok_or(OwnCopyError::TooLarge)?;
            let is_over = page.is_empty() || !has_more;
            entries.extend(page);
            if is_over {
                return Ok((header, entries));
            }
        }
    }
}
