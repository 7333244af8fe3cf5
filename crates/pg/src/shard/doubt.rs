//! Copies of groups that primaries look for: those that this OSD has, and those that others have told it of.

use super::Shard;
use crate::context::Waiter;
use crate::group::info::{INFO_KEY, PgInfo};
use crate::group::lookup::{NoAnswer, ready};
use crate::messages::peering::{FoundCopy, PgFound, PgSought};
use types::{OsdId, PgId};
use wire::Decode;

impl Shard {
    /// Answers another OSD that looks for groups. Groups of which nothing is known yet are answered later, or when it
    /// asks again.
    pub(super) fn sought(&mut self, from: OsdId, message: PgSought) {
        // A primary with an older map may still serve.
        if message.epoch > self.host.maps.epoch() {
            return;
        }
        let mut groups = Vec::new();
        for pgid in message.groups {
            // Another shard of this OSD answers.
            if !self.is_home_of(pgid) {
                continue;
            }
            let copies: Vec<PgId> = self.host.store.pgs().into_iter().filter(|copy| copy.base() == pgid).collect();
            let told: Option<Vec<FoundCopy>> = copies.into_iter().map(|copy| self.copy_of(from, copy)).collect();
            groups.extend(told.map(|told| (pgid, told)));
        }
        if !groups.is_empty() {
            let epoch = self.host.maps.epoch();
            self.host.context().send_osd(from, PgFound { epoch, groups });
        }
    }

    /// Describes a copy that this OSD has; `None`: that cannot be told now.
    fn copy_of(&mut self, from: OsdId, copy: PgId) -> Option<FoundCopy> {
        if self.splits.is_unexamined(copy) || self.merges.awaits(copy) {
            return None;
        }
        let info = match self.pgs.get(&copy) {
            Some(pg) if pg.is_loading() => return None,
            Some(pg) => pg.core.info.clone(),
            None => match ready(self.host.store.pg_get(copy, &INFO_KEY)) {
                Ok(Some(kept)) => match PgInfo::from_slice(&kept) {
                    Ok(info) => info,
                    Err(error) => {
                        tracing::error!(pg = %copy, "a copy that a primary looks for cannot be read: {error}");
                        return None;
                    }
                },
                // A table that says nothing of the group: it never took part.
                Ok(None) => PgInfo::default(),
                Err(NoAnswer::Pending(id)) => {
                    self.host.context().wait(id, Waiter::Sought { pgid: copy.base(), from });
                    return None;
                }
                Err(NoAnswer::Damaged(damage)) => {
                    tracing::error!(pg = %copy, "a copy that a primary looks for cannot be read: {damage}");
                    return None;
                }
            },
        };
        let PgInfo { complete, last_epoch_started, last_update, .. } = info;
        Some(FoundCopy { shard: copy.pool.shard(), complete, last_epoch_started, last_update })
    }

    /// Takes what another OSD has told that it has.
    pub(super) fn found(&mut self, from: OsdId, message: PgFound) {
        for (pgid, copies) in message.groups {
            let id = self.instance(pgid);
            self.with_group(id, |pg, cx| pg.agreement().found_at(cx, from, message.epoch, copies));
        }
    }
}
