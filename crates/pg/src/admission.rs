//! Whether an update may be carried out, as far as room goes: decided before anybody has it.
//!
//! Updates that store nothing new, deletes above all, are always admitted.

use crate::context::Context;
use crate::members::Standing;
use crate::ops::Effects;
use crate::peer_room::RoomGet;
use crate::pg::Pg;
use crate::rooms::Fit;
use osdmap::PoolFlags;
use std::time::Duration;
use store::growth_bytes;
use types::{BLOCK_BYTES, EVersion, Errno, ObjectId, OsdId};
use wire::messages::OpFlags;

/// An update for which there is no room waits for so long before it is refused: meanwhile the monitors may learn that an OSD is
/// full and have clients wait, who are not told of an error then.
const ROOM_WAIT: Duration = Duration::from_secs(2);

/// What becomes of an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It takes so many bytes of room, at most, wherever it is stored.
    Now(u64),
    /// Room may come.
    Later,
    Refused(Errno),
    /// The pool is full, which the client learns from the map; it sends the operation again when the pool no longer is.
    Dropped,
}

impl Pg {
    /// `since`: when this was asked for the first time.
    pub(crate) fn admit_update(
        &mut self,
        cx: &mut Context<'_>,
        object: &ObjectId,
        flags: OpFlags,
        effects: &Effects,
        since: Duration,
    ) -> Admission {
        if effects.result < 0 || effects.steps.is_empty() || effects.is_removal {
            return Admission::Now(0);
        }
        let pool = &cx.map.pools[&self.id.pool.base()];
        let more = effects.objects_delta > 0 || effects.bytes_delta > 0;
        if more && pool.flags.contains(PoolFlags::FULL) && !flags.has(OpFlags::FULL_FORCE) {
            let quota = pool.flags.contains(PoolFlags::FULL_QUOTA);
            return match flags.has(OpFlags::FULL_TRY) {
                true => Admission::Refused(if quota { Errno::EDQUOT } else { Errno::ENOSPC }),
                false => Admission::Dropped,
            };
        }
        let bytes = self.update_growth_bytes(object, effects);
        if bytes == 0 {
            return Admission::Now(0);
        }
        let mut worst = Fit::Fits;
        let mut lacking = None;
        if !cx.has_own_room(bytes) {
            cx.store.want_room();
            worst = Fit::TooLarge;
            lacking = Some((cx.whoami, cx.own_room_bytes()));
        }
        let storing =
            |(osd, standing): &(OsdId, Standing)| *standing != Standing::Backfilling || self.is_copied(*osd, object);
        for (osd, _) in self.members.receiving().filter(storing) {
            let fit = cx.rooms.fit(osd, bytes, since);
            if fit != Fit::Fits {
                cx.ask_for_room(osd);
                if worst != Fit::TooLarge {
                    worst = fit;
                    lacking = Some((osd, cx.rooms.window_bytes(osd)));
                }
            }
        }
        match worst {
            Fit::Fits => Admission::Now(bytes),
            Fit::TooLarge if cx.now >= since + ROOM_WAIT => {
                let (osd, room_bytes) = lacking.expect("somebody lacks room");
                tracing::warn!(pg = %self.id, %object, bytes, %osd, room_bytes, "update refused: an OSD has no room for it");
                Admission::Refused(Errno::ENOSPC)
            }
            _ => {
                cx.rooms.waiting.insert(self.id);
                Admission::Later
            }
        }
    }

    fn update_growth_bytes(&self, object: &ObjectId, effects: &Effects) -> u64 {
        let Some((change, coded)) = effects.change.as_ref().zip(self.coded.as_ref()) else {
            return growth_bytes(&effects.steps);
        };
        // The largest shard, and the object as it was, kept by reference.
        let data = if change.data.is_empty() { 0 } else { coded.layout.shard_bytes(change.data.len() as u64) };
        let mut steps = effects.steps.clone();
        steps.extend(change.undo.prepare(object, EVersion::ZERO));
        growth_bytes(&steps) + data.next_multiple_of(BLOCK_BYTES as u64) + 2 * BLOCK_BYTES as u64
    }

    /// Members are asked for how much they have room, so that no update has to wait for it.
    pub(crate) fn ask_members_for_room(&mut self, cx: &mut Context<'_>) {
        for (osd, _) in self.members.receiving() {
            if !cx.rooms.knows(osd) {
                cx.ask_for_room(osd);
            }
        }
    }
}

impl Context<'_> {
    /// For how much this OSD has room, beside what it has promised others.
    fn own_room_bytes(&mut self) -> u64 {
        self.store.room_bytes().saturating_sub(self.rooms.promised_bytes())
    }

    /// Whether this OSD has room for so much, beside what it has promised others.
    pub fn has_own_room(&mut self, bytes: u64) -> bool {
        self.own_room_bytes() >= bytes
    }

    pub fn ask_for_room(&mut self, osd: OsdId) {
        let epoch = self.epoch;
        if self.rooms.asks(osd) {
            self.send_osd(osd, RoomGet { epoch });
        }
    }
}
