//! Operations on one object, in their order.
//!
//! Operations on one object start in the order in which they came. Reads of an object run beside each other but not
//! while updates of it are on their way; updates follow each other without waiting, each executed on the state that
//! the one before it leaves.

use crate::context::{Context, Waiter};
use crate::copy::Copied;
use crate::intake::machine::Intake;
use crate::intake::operations::{ClientOp, NO_SESSION};
use crate::intake::orders::Order;
use crate::ops::{Effects, Run};
use crate::updates::admission::admit;
use crate::updates::room_wait::{Admission, RoomWait};
use crate::updates::trim_run::Trim;
use mutant::Mutant;
use store::LookupId;
use types::{Errno, ObjectId};

/// Outcome of a run.
pub(super) enum Ran {
    Ended,
    Blocked,
    /// The run is that of an update for which there is no room at present.
    HasNoRoom,
    /// A state of the object is not where it is needed.
    Lacks(ObjectId),
}

impl Intake<'_> {
    /// Starts what may start on an object.
    pub(crate) fn run_object(&mut self, object: ObjectId) {
        self.state.run_later(object);
    }

    /// Starts what may start on objects in `from .. until`.
    pub(crate) fn run_objects(&mut self, from: &ObjectId, until: &ObjectId) {
        let objects: Vec<_> = self.state.ops.objects.range(from..until).map(|(object, _)| object.clone()).collect();
        objects.into_iter().for_each(|object| self.state.run_later(object));
    }

    /// Starts what may start on one object, up to where another part of the group is to do something first.
    pub(super) fn start_on(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        while let Some(queue) = self.state.ops.objects.get_mut(object) {
            let Some(&number) = queue.queue.front() else {
                if queue.is_idle() {
                    self.state.ops.objects.remove(object);
                }
                return;
            };
            let may_write = self.state.ops.ops[&number].may_write;
            let must_wait = match may_write {
                true => queue.reads_running > 0,
                false => queue.updates_in_flight > 0 && !mutant::is(Mutant::ReadsBesideUpdates),
            };
            let is_held = may_write && self.scrub.holds(object);
            if queue.front_blocked {
                // The operation that is blocked may wait for what is asked here.
                return self.run_questions(cx, object);
            }
            if must_wait || is_held {
                return;
            }
            let gives_up = self.state.ops.ops[&number].give_up.is_some();
            if gives_up && !self.rest_is_here(cx, number) {
                return;
            }
            if !gives_up && !self.healer.is_where_needed(cx, object, may_write) {
                match self.hold_object_back(cx, object, object) {
                    true => continue,
                    false => return,
                }
            }
            if !may_write && !self.progress().may_read(cx) {
                return self.wait_to_read(cx, object.clone());
            }
            let states = &self.state.ops.ops[&number].progress.at_hand;
            let lacking = states.iter().find(|state| !self.healer.is_where_needed(cx, state, may_write)).cloned();
            if let Some(state) = lacking {
                self.state.ops.restart(cx, number);
                match self.hold_object_back(cx, object, &state) {
                    true => continue,
                    false => return,
                }
            }
            if !self.take_share(cx, number) {
                return;
            }
            let queue = self.state.ops.objects.get_mut(object).expect("just seen");
            queue.queue.pop_front();
            match self.run_op(cx, number) {
                Ran::Ended => {}
                Ran::Lacks(state) => {
                    self.state.ops.objects.get_mut(object).expect("still there").queue.push_front(number);
                    if !self.hold_object_back(cx, object, &state) {
                        return;
                    }
                }
                Ran::Blocked if may_write => {
                    let queue = self.state.ops.objects.get_mut(object).expect("still there");
                    queue.queue.push_front(number);
                    queue.front_blocked = true;
                    return;
                }
                Ran::HasNoRoom => {
                    let queue = self.state.ops.objects.get_mut(object).expect("still there");
                    queue.queue.push_front(number);
                    self.state.ops.wait_for_room.insert(object.clone());
                    return;
                }
                Ran::Blocked => self.state.ops.objects.get_mut(object).expect("still there").reads_running += 1,
            }
            if !self.state.orders.is_empty() {
                return self.state.run_next(object.clone());
            }
        }
    }

    /// Counts what an operation brings into memory that starts now. Returns false if it must wait for memory.
    pub(super) fn take_share(&mut self, cx: &mut Context<'_>, number: u64) -> bool {
        let op = &self.state.ops.ops[&number];
        let share_bytes = op.share_bytes();
        if share_bytes == 0 {
            return true;
        }
        if !cx.shared.held.may_start(op.share(), cx.limits.client_bytes) {
            let object = op.object.clone();
            self.state.ops.wait_for_memory.insert(object);
            cx.shared.held.wait(self.core().id);
            return false;
        }
        self.state.ops.take(cx, number, share_bytes);
        true
    }

    /// Runs one operation; if it ends, it is answered or, if it changes something, submitted.
    pub(super) fn run_op(&mut self, cx: &mut Context<'_>, number: u64) -> Ran {
        if self.state.ops.ops[&number].repeated.is_some() {
            let op = self.state.ops.ops.remove(&number).expect("just seen");
            self.state.ops.queued_requests.remove(&op.reqid);
            self.state.orders.push_back(Order::AnswerAgain(op));
            return Ran::Ended;
        }
        let op = &self.state.ops.ops[&number];
        if let Some(errno) = self.lapse(cx, op) {
            let op = self.state.ops.ops.remove(&number).expect("just seen");
            self.state.ops.queued_requests.remove(&op.reqid);
            self.answer_error(cx, &op, errno);
            return Ran::Ended;
        }
        let run = loop {
            match self.execute(cx, number) {
                Run::Wants(state) => {
                    let may_write = self.state.ops.ops[&number].may_write;
                    let is_there = self.healer.is_where_needed(cx, &state, may_write);
                    if !is_there {
                        self.state.ops.restart(cx, number);
                        return Ran::Lacks(state);
                    }
                    self.state.ops.ops.get_mut(&number).expect("operation is known").progress.at_hand.push(state);
                }
                run => break run,
            }
        };
        let op = self.state.ops.ops.get_mut(&number).expect("operation is known");
        match run {
            Run::Wants(_) => unreachable!("the loop ends with something else"),
            Run::Gather { object, version, offset, len } => {
                self.state.orders.push_back(Order::Gather { number, object, version, offset, len });
                Ran::Blocked
            }
            Run::Copy(source) => {
                let id = cx.shared.coded_reads.next_id();
                op.progress.answers.waits_for_data(id);
                op.progress.waits_for = Some(id);
                op.times.blocked(cx.now);
                cx.wait(id, Waiter::ClientOp { pgid: self.core().id, op: number });
                match cx.map.pools.contains_key(&source.locator.pool) {
                    true => cx.shared.copies.begin(id, *source, cx.now),
                    false => {
                        let nothing = Copied::into_rope(Err(Errno::ENOENT.as_result()));
                        cx.shared.coded_reads.done.push_back((id, Ok(nothing)));
                    }
                }
                Ran::Blocked
            }
            Run::Blocked(id) => {
                op.progress.waits_for = Some(id);
                op.times.blocked(cx.now);
                cx.wait(id, Waiter::ClientOp { pgid: self.core().id, op: number });
                Ran::Blocked
            }
            Run::Done(effects) => self.is_executed(cx, number, effects),
        }
    }

    /// Ends an operation that has been executed: it is answered or, if it changes something, submitted.
    fn is_executed(&mut self, cx: &mut Context<'_>, number: u64, effects: Effects) -> Ran {
        let op = &self.state.ops.ops[&number];
        match effects.steps.is_empty() {
            true if op.trim.is_some() => {
                let op = self.state.ops.ops.remove(&number).expect("operation is known");
                self.state.ops.release(cx, &op);
                match effects.result {
                    0.. => self.trimmed(op.object, Some(Trim::default())),
                    _ => self.trimmed(op.object, None),
                }
                Ran::Ended
            }
            true if op.give_up.is_some() || op.record.is_some() => {
                let op = self.state.ops.ops.remove(&number).expect("operation is known");
                self.state.ops.release(cx, &op);
                Ran::Ended
            }
            _ if op.may_write => self.update_is_executed(cx, number, effects),
            _ => self.read_is_executed(cx, number, effects),
        }
    }

    fn update_is_executed(&mut self, cx: &mut Context<'_>, number: u64, effects: Effects) -> Ran {
        let op = &self.state.ops.ops[&number];
        self.watches.learn(&op.object, &effects.watchers, |addr| cx.map.is_blocklisted(addr), cx.now);
        let (object, flags) = (op.object.clone(), op.op.flags);
        let mut wait = op.waits_for_room.unwrap_or_else(|| RoomWait::begins(cx.now));
        let (client, epoch) = (op.reqid.name, op.op.epoch);
        let admission = match self.state.ops.is_turned_away(&object, client, epoch, flags) {
            true => Admission::Dropped,
            false => admit(cx, self.whereabouts(), (&object, flags), &effects, &mut wait),
        };
        if admission == Admission::Later {
            self.state.ops.restart(cx, number);
            self.state.ops.ops.get_mut(&number).expect("operation is known").waits_for_room = Some(wait);
            return Ran::HasNoRoom;
        }
        let mut op = self.state.ops.ops.remove(&number).expect("operation is known");
        op.times.executed(cx.now);
        self.state.ops.queued_requests.remove(&op.reqid);
        match admission {
            Admission::Now(growth_bytes) => {
                self.state.ops.objects.entry(op.object.clone()).or_default().updates_in_flight += 1;
                self.state.orders.push_back(Order::Submit { op, effects: Box::new(effects), growth_bytes });
            }
            Admission::Refused(errno) => self.answer_error(cx, &op, errno),
            Admission::Dropped | Admission::Later => {
                self.state.ops.turned_away.entry((op.object.clone(), client)).or_default();
                self.state.ops.release(cx, &op);
            }
        }
        Ran::Ended
    }

    fn read_is_executed(&mut self, cx: &mut Context<'_>, number: u64, mut effects: Effects) -> Ran {
        let op = &self.state.ops.ops[&number];
        self.watches.learn(&op.object, &effects.watchers, |addr| cx.map.is_blocklisted(addr), cx.now);
        let mut op = self.state.ops.ops.remove(&number).expect("operation is known");
        if op.session == NO_SESSION {
            self.watches.object_seen(cx, &op.object, &effects);
            self.state.ops.release(cx, &op);
            return Ran::Ended;
        }
        op.times.executed(cx.now);
        let watch = std::mem::take(&mut effects.watch);
        if !watch.is_empty() && effects.result >= 0 {
            self.watches.op_done(cx, &op, watch, effects.user_version);
        }
        self.answer_read(cx, &op, effects);
        Ran::Ended
    }

    /// Notes that an operation waits for bytes that are gathered of shards.
    pub(super) fn waits_for_shards(&mut self, cx: &mut Context<'_>, number: u64, id: LookupId) {
        let op = self.state.ops.ops.get_mut(&number).expect("operation is known");
        op.progress.answers.waits_for_data(id);
        op.progress.waits_for = Some(id);
        op.times.blocked(cx.now);
        cx.wait(id, Waiter::ClientOp { pgid: self.core().id, op: number });
    }

    /// Orders that the walk over removed snapshots goes on behind an object. `None`: what is to go is still there.
    pub(super) fn trimmed(&mut self, object: ObjectId, trim: Option<Trim>) {
        self.state.orders.push_back(match trim {
            Some(trim) => Order::Trimmed { object, trim },
            None => Order::TrimFailed(object),
        });
    }

    /// Returns why an operation is not carried out any more, though it was to be when it came.
    pub(super) fn lapse(&self, cx: &Context<'_>, op: &ClientOp) -> Option<Errno> {
        if op.is_upkeep() {
            return None;
        }
        if op.session == NO_SESSION {
            return self.watches.is_needless(op, cx.now).then_some(Errno::ECANCELED);
        }
        // The operation's client may have been locked out while it waited.
        cx.map.is_blocklisted(&op.caller.addr).then_some(Errno::EBLOCKLISTED)
    }
}
