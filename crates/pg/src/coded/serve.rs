//! One shard's bytes, as its OSD reads them for the primary.

use super::gather::Own;
use super::gatherer::Gatherer;
use super::shard_reading::{ReadBeside, Serve, read_shard};
use crate::context::{Context, Waiter};
use crate::group::lookup::NoAnswer;
use crate::messages::coded::{ShardRead, ShardReadOutcome, ShardReadReply};
use store::{LookupId, ReadError};
use types::OsdId;
use wire::Rope;

impl Gatherer<'_> {
    /// Reads bytes of this shard for the primary of the interval.
    pub(crate) fn shard_read(&mut self, cx: &mut Context<'_>, from: OsdId, message: ShardRead) {
        if self.peering.follows(from, message.pg.since) {
            self.serve(cx, from, message);
        }
    }

    /// Reads for `to`, which may be this OSD.
    pub(super) fn serve(&mut self, cx: &mut Context<'_>, to: OsdId, asked: ShardRead) {
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
                self.state.serves.insert(id, serve);
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
        let Some(serve) = self.state.serves.remove(&id) else { return };
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
        self.answer_itself(cx);
    }

    fn answer_shard_read(&mut self, cx: &mut Context<'_>, serve: Serve, outcome: ShardReadOutcome, data: Rope) {
        let (pg, read) = (self.core.pg_interval(), serve.asked.read);
        let (attrs, omap) = (serve.read.attrs.unwrap_or_default(), serve.read.omap);
        let reply = ShardReadReply { pg, read, outcome, attrs, omap, data };
        match serve.to == cx.whoami {
            true => self.state.own.push_back(Own::Answered(reply)),
            false => cx.answer_osd(serve.to, reply),
        }
    }
}
