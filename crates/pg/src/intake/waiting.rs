//! Operations that wait: for lookups, leases, room, or memory, or for what is damaged here.

use crate::context::Context;
use crate::group::object_info::ObjectInfo;
use crate::intake::machine::Intake;
use crate::intake::operations::LookupProgress;
use crate::intake::orders::Order;
use crate::intake::running::Ran;
use std::time::Duration;
use store::{LookupId, ReadError};
use types::ObjectId;
use wire::Rope;

/// A read of what is damaged here waits for so long for others to act who may have it.
const MEMBERS_WAIT: Duration = Duration::from_secs(30);

impl Intake<'_> {
    /// Starts operations that waited for memory, as some has been given back.
    pub(crate) fn memory_came(&mut self) {
        let objects = std::mem::take(&mut self.state.ops.wait_for_memory);
        objects.into_iter().for_each(|object| self.state.run_later(object));
    }

    /// Tries reads again that wait for leases, or for members.
    pub(crate) fn lease_came(&mut self) {
        if !self.is_active() {
            return;
        }
        let objects = std::mem::take(&mut self.state.ops.wait_to_read);
        objects.into_iter().for_each(|object| self.state.run_later(object));
        self.start_waiting_ops();
    }

    /// Tries updates again that wait for room, as some may have come.
    pub(crate) fn room_came(&mut self) {
        let objects = std::mem::take(&mut self.state.ops.wait_for_room);
        objects.into_iter().for_each(|object| self.state.run_later(object));
    }

    /// Goes on with an operation whose lookup is done; for data reads, with the outcome.
    pub(crate) fn op_lookup_done(
        &mut self,
        cx: &mut Context<'_>,
        number: u64,
        id: LookupId,
        data: Option<Result<Rope, ReadError>>,
    ) {
        // The operation may be gone with its interval; and another one may have its number, if the group was gone too.
        let Some(op) = self.state.ops.ops.get_mut(&number).filter(|op| op.progress.waits_for == Some(id)) else {
            return;
        };
        op.progress.waits_for = None;
        op.times.unblocked(cx.now, data.is_some());
        if self.replica_lookup_done(cx, number, id, data.as_ref()).is_some() {
            return;
        }
        let Some(op) = self.state.ops.ops.get(&number) else { return };
        let (object, may_write) = (op.object.clone(), op.may_write);
        if matches!(data, Some(Err(_))) && self.fetch_instead(cx, number) {
            return;
        }
        let Some(op) = self.state.ops.ops.get_mut(&number) else { return };
        if let Some(result) = data {
            op.progress.answers.read_done(id, result);
        }
        if op.is_group_op() {
            let mut op = self.state.ops.ops.remove(&number).expect("just seen");
            if !self.progress().may_read(cx) {
                op.progress = LookupProgress::default();
                return self.state.ops.waiting.push_back(op);
            }
            return self.run_group_op(cx, op);
        }
        if may_write {
            self.state.ops.objects.get_mut(&object).expect("its operation waits").front_blocked = false;
        } else if !self.progress().may_read(cx) || self.lacks_any(number) {
            // The state that the operation has read may no longer be the newest, or is being replaced.
            self.read_anew(cx, number);
        } else {
            match self.run_op(cx, number) {
                Ran::Ended => self.state.ops.objects.get_mut(&object).expect("its operation waited").reads_running -= 1,
                // The state of the object that it needs is known only now, and is missing.
                Ran::Lacks(_) => self.read_anew(cx, number),
                Ran::Blocked | Ran::HasNoRoom => {}
            }
        }
        self.state.run_later(object);
    }

    /// Returns true if the object, or the state of it that an operation needs, is missing here.
    pub(super) fn lacks_any(&self, number: u64) -> bool {
        let op = &self.state.ops.ops[&number];
        let states = &op.progress.at_hand;
        self.core().missing.contains_key(&op.object)
            || states.iter().any(|state| self.core().missing.contains_key(state))
    }

    /// Begins a read anew whose object is damaged here, and fetches the object from another member first. Returns false
    /// if no other member has it.
    fn fetch_instead(&mut self, cx: &mut Context<'_>, number: u64) -> bool {
        let op = &self.state.ops.ops[&number];
        if op.is_group_op() {
            return false;
        }
        let head = op.object.clone();
        if op.may_write {
            // An update whose old bytes cannot be read waits until they can.
            let is_lost = !self.whereabouts().can_decode(&head, None);
            if is_lost {
                self.state.ops.restart(cx, number);
                self.state.ops.objects.get_mut(&head).expect("its operation waits").front_blocked = false;
                self.state.run_later(head);
            }
            return is_lost;
        }
        let object = op.progress.at_hand.first().unwrap_or(&head).clone();
        if !self.core().protection().is_whole_on_each() {
            // Some shards cannot be read, and others in their place were read already. A read waits if they are not
            // where they might have been.
            let is_lost = !self.whereabouts().can_decode(&object, None);
            if is_lost {
                self.read_anew(cx, number);
                self.state.run_later(head);
            }
            return is_lost;
        }
        if self.core().missing.contains_key(&object) {
            // Another read has found the damage, and the object is already being fetched.
            self.read_anew(cx, number);
            self.state.run_later(head);
            return true;
        }
        // The operation knows the version, which the store would have to look up again: nothing changes an object while
        // it is read.
        let stat = op.progress.answers.known_stat();
        let version = stat.and_then(|stat| ObjectInfo::of(stat).ok()).map(|info| info.version);
        let Some(version) = version.filter(|version| self.whereabouts().is_elsewhere(&object, *version)) else {
            return self.waits_for_members(cx, number);
        };
        self.read_anew(cx, number);
        self.state.orders.push_back(Order::Fetch { object, version });
        self.state.run_later(head);
        true
    }

    /// Tries a read again later. No member of the acting set has the object that is damaged here, but the primary has
    /// asked for other OSDs in the acting set, which may have it. Returns false if it has not, or if the read has
    /// waited for [`MEMBERS_WAIT`].
    fn waits_for_members(&mut self, cx: &mut Context<'_>, number: u64) -> bool {
        let asks_for_others = self.progress().asks_for_others();
        let op = self.state.ops.ops.get_mut(&number).expect("operation is known");
        let since = *op.waits_for_members.get_or_insert(cx.now);
        if !asks_for_others || cx.now >= since + MEMBERS_WAIT {
            return false;
        }
        let object = op.object.clone();
        self.wait_to_read(cx, object);
        self.read_anew(cx, number);
        true
    }

    /// Takes a read back to where it was: its reading so far does not count.
    pub(super) fn read_anew(&mut self, cx: &mut Context<'_>, number: u64) {
        self.state.ops.restart(cx, number);
        let queue = self.state.ops.objects.get_mut(&self.state.ops.ops[&number].object).expect("its operation waited");
        queue.reads_running -= 1;
        queue.queue.insert(usize::from(queue.front_blocked), number);
    }

    /// Notes that reads of the object are to be tried again when leases come, or with the next tick.
    pub(super) fn wait_to_read(&mut self, cx: &mut Context<'_>, object: ObjectId) {
        self.state.ops.wait_to_read.insert(object);
        cx.shared.leases.waiting.insert(self.core().id);
    }
}
