//! Bytes of one shard, read from the store for a primary that wants them.

use crate::group::lookup::{NoAnswer, ready};
use crate::group::object_info::ObjectInfo;
use crate::healing::object_reading::PIECE_OMAP_ENTRIES;
use crate::messages::coded::{OmapPage, ShardRead, ShardReadOutcome};
use bytes::Bytes;
use mutant::Mutant;
use std::collections::BTreeMap;
use store::Store;
use types::{Epoch, OsdId};
use wire::Rope;

/// Keys and values of an omap in one answer, unless one entry alone is longer.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// A read that waits for the device.
#[derive(Debug)]
pub(super) struct Serve {
    pub to: OsdId,
    pub since: Epoch,
    pub asked: ShardRead,
    pub read: ReadBeside,
}

/// The parts of an object beside its data that a read has found so far.
#[derive(Debug, Default)]
pub(super) struct ReadBeside {
    pub attrs: Option<BTreeMap<Bytes, Bytes>>,
    omap_header: Option<Bytes>,
    pub omap: Option<OmapPage>,
}

impl ReadBeside {
    /// Reads what is asked for of the omap.
    fn read_omap(&mut self, store: &mut Store, asked: &ShardRead, has_omap: bool) -> Result<(), NoAnswer> {
        let Some(after) = asked.omap_after.0.as_ref().filter(|_| self.omap.is_none()) else { return Ok(()) };
        if !has_omap {
            self.omap = Some(OmapPage::default());
            return Ok(());
        }
        if self.omap_header.is_none() && after.is_empty() {
            self.omap_header = Some(ready(store.omap_header(&asked.object))?);
        }
        let page = (PIECE_OMAP_ENTRIES, PAGE_BYTES_MAX);
        let (entries, has_more) = ready(store.omap_page(&asked.object, after, b"", page))?;
        let header = self.omap_header.take().unwrap_or_default();
        self.omap = Some(OmapPage { header, entries, has_more });
        Ok(())
    }
}

/// Reads the bytes that `asked` names, as far as they are here in that version, and the object's attributes and
/// omap into `beside`, if they are wanted.
pub(super) fn read_shard(
    store: &mut Store,
    asked: &ShardRead,
    is_missing: bool,
    beside: &mut ReadBeside,
) -> Result<(ShardReadOutcome, Rope), NoAnswer> {
    let ShardRead { object, version, offset, len, .. } = asked;
    let stat = ready(store.stat(object))?;
    let is_wanted = |stat: &std::sync::Arc<store::ObjectStat>| {
        let is_any = mutant::is(Mutant::ShardOfAnyVersion);
        ObjectInfo::of(stat).is_ok_and(|info| info.version == *version || is_any)
    };
    let Some(stat) = stat.filter(|stat| is_wanted(stat) && !is_missing) else {
        return Ok((ShardReadOutcome::Absent, Rope::new()));
    };
    if asked.attrs {
        let all = stat.attrs.iter();
        beside.attrs = Some(all.map(|(name, value)| (Bytes::copy_from_slice(name), value.clone())).collect());
    }
    beside.read_omap(store, asked, stat.has_omap)?;
    let len = (*len).min(stat.size_bytes.saturating_sub(*offset));
    match len {
        0 => Ok((ShardReadOutcome::Read, Rope::new())),
        len => Ok((ShardReadOutcome::Read, ready(store.read(object, *offset, len))?)),
    }
}
