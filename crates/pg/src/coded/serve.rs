//! One shard's bytes, as its OSD reads them for the primary.

use crate::context::{Context, Waiter};
use crate::group::lookup::{NoAnswer, ready};
use crate::group::object_info::ObjectInfo;
use crate::group::pg::Pg;
use crate::healing::object_reading::PIECE_OMAP_ENTRIES;
use crate::messages::coded::{OmapPage, ShardRead, ShardReadOutcome, ShardReadReply};
use bytes::Bytes;
use mutant::Mutant;
use std::collections::BTreeMap;
use store::{LookupId, ReadError, Store};
use types::{Epoch, OsdId};
use wire::Rope;

/// Keys and values of an omap in one answer, unless one entry alone is longer.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// A read that waits for the device.
#[derive(Debug)]
pub(crate) struct Serve {
    to: OsdId,
    since: Epoch,
    asked: ShardRead,
    read: ReadBeside,
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

impl Pg {
    /// Reads bytes of this shard for the primary of the interval.
    pub(crate) fn shard_read(&mut self, cx: &mut Context<'_>, from: OsdId, message: ShardRead) {
        if self.peering.follows(from, message.pg.since) {
            self.serve(cx, from, message);
        }
    }

    /// Reads for `to`, which may be this OSD.
    pub(crate) fn serve(&mut self, cx: &mut Context<'_>, to: OsdId, asked: ShardRead) {
        let serve = Serve { to, since: self.core.interval.since, asked, read: ReadBeside::default() };
        self.serve_on(cx, serve);
    }

    fn serve_on(&mut self, cx: &mut Context<'_>, mut serve: Serve) {
        let is_missing = self.core.missing.contains_key(&serve.asked.object);
        let answer = read_shard(cx.store, &serve.asked, is_missing, &mut serve.read);
        match answer {
            Ok((outcome, data)) => self.answer_shard_read(cx, serve, outcome, data),
            Err(NoAnswer::Pending(id)) => {
                cx.wait(id, Waiter::ShardRead { pgid: self.core.id });
                self.coded.serves.insert(id, serve);
            }
            Err(NoAnswer::Damaged(damage)) => {
                tracing::error!(pg = %self.core.id, object = %serve.asked.object, "shard cannot be read: {damage}");
                self.answer_shard_read(cx, serve, ShardReadOutcome::Bad, Rope::new());
            }
        }
    }

    /// Goes on with a read whose lookup is done.
    pub(crate) fn serve_lookup_done(
        &mut self,
        cx: &mut Context<'_>,
        id: LookupId,
        data: Option<Result<Rope, ReadError>>,
    ) {
        let Some(serve) = self.coded.serves.remove(&id) else { return };
        if serve.since != self.core.interval.since {
            return;
        }
        match data {
            None => self.serve_on(cx, serve),
            Some(Ok(data)) => self.answer_shard_read(cx, serve, ShardReadOutcome::Read, data),
            Some(Err(e)) => {
                tracing::error!(pg = %self.core.id, object = %serve.asked.object, "shard cannot be read: {e}");
                self.answer_shard_read(cx, serve, ShardReadOutcome::Bad, Rope::new());
            }
        }
        self.take_own_answers(cx);
    }

    fn answer_shard_read(&mut self, cx: &mut Context<'_>, serve: Serve, outcome: ShardReadOutcome, data: Rope) {
        let (pg, read) = (self.core.pg_interval(), serve.asked.read);
        let (attrs, omap) = (serve.read.attrs.unwrap_or_default(), serve.read.omap);
        let reply = ShardReadReply { pg, read, outcome, attrs, omap, data };
        match serve.to == cx.whoami {
            true => self.coded.own_answers.put(reply),
            false => cx.answer_osd(serve.to, reply),
        }
    }
}
