//! Admission of updates, as far as room goes: decided before anybody has the update.
//!
//! Updates that store nothing new, deletes above all, are always admitted.

use crate::agreement::members::Standing;
use crate::context::Context;
use crate::group::core::Core;
use crate::healing::whereabouts::Whereabouts;
use crate::messages::room::RoomGet;
use crate::ops::Effects;
use crate::updates::machine::Updates;
use crate::updates::room_wait::{Admission, RoomWait};
use crate::updates::rooms::Fit;
use osdmap::PoolFlags;
use store::growth_bytes;
use types::{BLOCK_BYTES, EVersion, Errno, ObjectId, OsdId};
use wire::messages::OpFlags;

impl Updates<'_> {
    /// Asks members for how much they have room, so that no update has to wait for it.
    pub(crate) fn ask_members_for_room(&self, cx: &mut Context<'_>) {
        for (osd, _) in self.members.receiving() {
            if !cx.shared.rooms.knows(osd) {
                cx.ask_for_room(osd);
            }
        }
    }
}

/// Decides if an update of an object may be carried out; members that have no room for it are asked. `wait` is kept for
/// when the update is tried again.
pub(crate) fn admit(
    cx: &mut Context<'_>,
    whereabouts: Whereabouts<'_>,
    (object, flags): (&ObjectId, OpFlags),
    effects: &Effects,
    wait: &mut RoomWait,
) -> Admission {
    let Whereabouts { core, members, .. } = whereabouts;
    if effects.result < 0 || effects.steps.is_empty() || effects.is_removal {
        return Admission::Now(0);
    }
    let pool = &cx.map.pools[&core.id.pool.base()];
    let more = effects.objects_delta > 0 || effects.bytes_delta > 0;
    if more && pool.flags.contains(PoolFlags::FULL) && !flags.has(OpFlags::FULL_FORCE) {
        let quota = pool.flags.contains(PoolFlags::FULL_QUOTA);
        return match flags.has(OpFlags::FULL_TRY) {
            true => Admission::Refused(if quota { Errno::EDQUOT } else { Errno::ENOSPC }),
            false => Admission::Dropped,
        };
    }
    let bytes = growth_bytes_of(core, object, effects);
    if bytes == 0 {
        return Admission::Now(0);
    }
    let mut worst = Fit::Fits;
    let mut lacking = None;
    if !cx.has_own_room(bytes) {
        cx.store.want_room();
        if wait.lacking_since.is_none() {
            cx.shared.rooms.own_part_lacks();
        }
        worst = Fit::TooLarge;
        lacking = Some((cx.whoami, cx.own_room_bytes()));
    }
    let storing =
        |(osd, standing): &(OsdId, Standing)| *standing != Standing::Backfilling || whereabouts.is_copied(*osd, object);
    for (osd, _) in members.receiving().filter(storing) {
        let fit = cx.shared.rooms.fit(osd, bytes, wait.since);
        if fit != Fit::Fits {
            cx.ask_for_room(osd);
            if worst != Fit::TooLarge {
                worst = fit;
                lacking = Some((osd, cx.shared.rooms.window_bytes(osd)));
            }
        }
    }
    let has_waited = wait.is_tried(worst, cx.now);
    match worst {
        Fit::Fits => Admission::Now(bytes),
        _ if has_waited => {
            let (osd, room_bytes) = lacking.expect("somebody lacks room");
            tracing::warn!(pg = %core.id, %object, bytes, %osd, room_bytes, "update refused: an OSD has no room for it");
            Admission::Refused(Errno::ENOSPC)
        }
        _ => {
            cx.shared.rooms.waiting.insert(core.id);
            Admission::Later
        }
    }
}

fn growth_bytes_of(core: &Core, object: &ObjectId, effects: &Effects) -> u64 {
    let Some((change, layout)) = effects.change.as_ref().zip(core.protection().stripes()) else {
        return growth_bytes(&effects.steps);
    };
    // The largest shard, and the object as it was, kept by reference.
    let of_shard = |bytes: u64| layout.shard_bytes(bytes).next_multiple_of(BLOCK_BYTES as u64);
    let data: u64 = change.extents.iter().map(|extent| of_shard(extent.data.len() as u64)).sum();
    let mut steps = effects.steps.clone();
    steps.extend(change.undo.prepare(object, EVersion::ZERO));
    growth_bytes(&steps) + data + 2 * BLOCK_BYTES as u64
}

impl Context<'_> {
    /// Returns the bytes for which this OSD has room, beside what it has promised others.
    fn own_room_bytes(&mut self) -> u64 {
        self.store.room_bytes().saturating_sub(self.shared.rooms.promised_bytes())
    }

    /// Returns true if this OSD has room for so much, beside what it has promised others.
    pub fn has_own_room(&mut self, bytes: u64) -> bool {
        self.own_room_bytes() >= bytes
    }

    pub fn ask_for_room(&mut self, osd: OsdId) {
        let epoch = self.map.epoch;
        if self.shared.rooms.asks(osd) {
            self.send_osd(osd, RoomGet { epoch });
        }
    }
}
