//! Operations that become updates.

use crate::context::Context;
use crate::group::pg::Pg;
use crate::intake::operations::ClientOp;
use crate::ops::Effects;
use crate::updates::preparation::PreparedUpdate;

impl Pg {
    /// Submits the update that an executed operation makes. Members need room for `growth_bytes`.
    pub(super) fn submit(&mut self, cx: &mut Context<'_>, mut op: ClientOp, effects: Effects, growth_bytes: u64) {
        let update = PreparedUpdate::of(cx, &self.core, &self.coded, &op, effects);
        self.ops.take_on_its_way(cx, &mut op, update.new_bytes());
        let later = self.submit_update(cx, op, update, growth_bytes);
        for osd in later.members {
            later.objects.iter().for_each(|object| self.healer().copy_later(osd, object));
        }
    }
}
