//! The intake as a part of its group: what other parts do for operations, and in which order.

use crate::coded::wanted::Wanted;
use crate::context::Context;
use crate::group::pg::Pg;
use crate::healing::healer::Healer;
use crate::intake::machine::Intake;
use crate::intake::operations::ClientOp;
use crate::intake::orders::Order;
use crate::ops::Effects;
use crate::updates::preparation::PreparedUpdate;
use mutant::Mutant;
use types::ObjectId;

impl Pg {
    /// Returns the group's intake, with what it is lent. Inputs that may run operations go by [`Pg::with_intake`].
    pub(crate) fn intake(&mut self) -> Intake<'_> {
        let is_loading = self.is_loading();
        let durability = self.replication.durability_mut();
        let (core, members, coded) = (&mut self.core, &mut self.members, &mut self.coded);
        let healer = Healer::new(&mut self.healing, core, members, durability, coded, &self.peering);
        Intake { state: &mut self.requests, healer, watches: &mut self.watches, scrub: &self.scrub, is_loading }
    }

    /// Hands the intake one input. What its operations order of other parts is done at once, each before the next
    /// operation runs.
    pub(crate) fn with_intake(&mut self, cx: &mut Context<'_>, input: impl FnOnce(&mut Intake<'_>, &mut Context<'_>)) {
        input(&mut self.intake(), cx);
        while let Some(order) = self.intake().work(cx) {
            self.carry_out(cx, order);
        }
    }

    fn carry_out(&mut self, cx: &mut Context<'_>, order: Order) {
        match order {
            Order::Submit { op, effects, growth_bytes } => self.submit(cx, *op, *effects, growth_bytes),
            Order::Gather { number, object, version, offset, len } => {
                let id = self.gatherer().gather(cx, &object, version, Wanted::Object { offset, len }, None);
                self.intake().waits_for_shards(cx, number, id);
            }
            Order::AnswerAgain(op) => {
                let version = op.repeated.as_ref().expect("the log knows it").version;
                let is_redirected = !mutant::is(Mutant::ResendAnsweredEarly)
                    && self.replication.redirect_answer(version, op.session, op.tid, op.op.retry_attempt);
                self.intake().answer_again(cx, &op, is_redirected);
            }
            Order::Fetch { object, version } => self.healer().object_damaged(cx, &object, version),
            Order::Trimmed { object, trim } => self.snap_trim.trimmed(&self.core, cx, object, trim),
            Order::TrimFailed(object) => self.snap_trim.failed(&self.core, cx, &object),
        }
    }

    /// Submits the update that an executed operation makes. Members need room for `growth_bytes`.
    fn submit(&mut self, cx: &mut Context<'_>, mut op: ClientOp, effects: Effects, growth_bytes: u64) {
        if let Some(give_up) = op.give_up.take() {
            self.healer().is_given_up(cx, &give_up.lost);
        }
        let update = PreparedUpdate::of(cx, &self.core, &self.coded, &op, effects);
        self.requests.ops.take_on_its_way(cx, &mut op, update.new_bytes());
        match self.updates().submit(cx, op, update, growth_bytes) {
            Ok(later) => {
                for osd in later.members {
                    later.objects.iter().for_each(|object| self.healer().copy_later(osd, object));
                }
            }
            Err(refused) => self.intake().not_submitted(cx, *refused),
        }
    }

    /// Answers updates that are done.
    pub(crate) fn updates_are_done(&mut self, cx: &mut Context<'_>) {
        let done = self.replication.take_done();
        if let Some(last) = done.last() {
            self.core.is_answered(last.version);
        }
        self.with_intake(cx, |intake, cx| intake.answer_done_updates(cx, done));
    }

    /// Looks for watchers that have been silent for too long.
    pub(crate) fn watch_tick(&mut self, cx: &mut Context<'_>) {
        if self.is_active() && !self.watches.is_empty() {
            let requests = &self.requests;
            let is_removed = |object: &ObjectId, cookie, client| requests.removes_watch(object, cookie, client);
            self.watches.tick(cx, self.core.id, is_removed);
        }
    }
}
