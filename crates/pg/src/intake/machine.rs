//! The intake while it handles an input: its state, and the parts of its group that it is lent.

use super::orders::{Order, Todo};
use super::state::Requests;
use crate::agreement::phase::Peering;
use crate::agreement::progress::Progress;
use crate::context::Context;
use crate::group::core::Core;
use crate::healing::healer::Healer;
use crate::healing::whereabouts::Whereabouts;
use crate::scrub::run::Scrub;
use crate::watch::Watches;

/// The intake at work.
///
/// * Inputs: operations that have come, lookups that are done, and the news that an object, room, memory or a lease is
///   there. [`Pg::with_intake`](crate::group::pg::Pg::with_intake) hands each over, and goes on until all that it has
///   brought is done.
/// * Outputs: answers, by the context; what another part is to do before the next operation runs
///   ([`orders`](super::orders)); all else that it causes is effects ([`crate::group::effects`]).
///
/// It asks healing whether an object is where it is needed, which has it brought there if not; it tells watches what
/// operations have done to them. Of the group's core it changes nothing.
pub(crate) struct Intake<'a> {
    pub(super) state: &'a mut Requests,
    pub(super) healer: Healer<'a>,
    pub(super) watches: &'a mut Watches,
    pub(super) scrub: &'a Scrub,
    /// The group's table is still being read.
    pub(super) is_loading: bool,
}

impl Intake<'_> {
    pub(super) fn core(&self) -> &Core {
        self.healer.whereabouts().core
    }

    pub(super) fn peering(&self) -> &Peering {
        self.healer.whereabouts().peering
    }

    /// Returns whom to ask where objects are.
    pub(super) fn whereabouts(&self) -> Whereabouts<'_> {
        self.healer.whereabouts()
    }

    /// Returns whom to ask how far the group is.
    pub(super) fn progress(&self) -> Progress<'_> {
        Progress::new(self.whereabouts())
    }

    pub(super) fn is_active(&self) -> bool {
        self.peering().is_active()
    }

    /// Goes on with what the input has brought. Returns what another part of the group is to do first, or `None` where
    /// all is done.
    pub(super) fn work(&mut self, cx: &mut Context<'_>) -> Option<Order> {
        loop {
            if let Some(order) = self.state.orders.pop_front() {
                return Some(order);
            }
            match self.state.todo.pop_front()? {
                Todo::Start(op) => self.start_op(cx, op),
                Todo::Run(object) => self.start_on(cx, &object),
            }
        }
    }
}
