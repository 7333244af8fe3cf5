//! Reads that members answer which are not the primary, where a client allows it ("balanced" and "localized" reads).
//!
//! A member answers a read only by a *share* of its primary's read leases, and never beside an update of the object
//! that may not be durable everywhere yet; `docs/peering.md` gives the reasons. What it cannot answer at once and for
//! certain it refuses with EAGAIN, which sends the client to the primary.

use crate::agreement::leases::LEASE;
use crate::context::{Context, Waiter};
use crate::intake::arrival::refusal;
use crate::intake::machine::Intake;
use crate::intake::operations::ClientOp;
use crate::intake::state::ask_elsewhere;
use crate::messages::lease::{Share, ShareWish};
use crate::ops::{Effects, Run};
use mutant::Mutant;
use std::time::Duration;
use store::{LookupId, ReadError};
use types::{EVersion, Errno, ObjectId, OsdId};
use wire::Rope;
use wire::messages::OpCode;

/// Time after which a share is asked for again: the primary may have had to ask others first.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// Time after which a share is asked for again if no read comes meanwhile.
const ASK_IDLE: Duration = Duration::from_millis(300);
const _: () = assert!(
    ASK_AGAIN.as_millis() < ASK_IDLE.as_millis() && 2 * ASK_IDLE.as_millis() < LEASE.as_millis(),
    "a share, which ends with its primary's lease, is renewed before it ends, even if a question is lost"
);
/// Time for which a share is kept after a read, so that members answer also where few reads come to each group.
const KEEP: Duration = Duration::from_secs(10);

impl Intake<'_> {
    /// Answers a client's read that has come to this OSD, which is not the primary.
    pub(crate) fn replica_read(&mut self, cx: &mut Context<'_>, mut op: Box<ClientOp>) {
        op.times.sampled = cx.shared.recorder.chooses(&op.reqid);
        self.state.replica_reads.wanted_at = Some(cx.now);
        cx.shared.leases.replica_reads.asked += 1;
        let may_answer = refusal(&op, cx.limits).is_none() && op.op.ops.iter().all(|step| is_plain_read(step.code));
        if !may_answer || !self.may_read_here(cx, &op.object) {
            return ask_elsewhere(cx, &op);
        }
        self.state.ops.hold(cx, &op);
        let share_bytes = op.share_bytes();
        let number = self.state.ops.keep(op);
        self.state.ops.take(cx, number, share_bytes);
        let head = self.core().log.head();
        self.state.replica_reads.running.insert(number, head);
        self.run_replica_read(cx, number);
    }

    /// Returns true if this member may answer reads of the object. Asks the primary in time for a share, and for how
    /// far all members have updates.
    fn may_read_here(&mut self, cx: &mut Context<'_>, object: &ObjectId) -> bool {
        if self.may_have_share() {
            let has_share = self.has_share(cx);
            let is_settled = !self.changed_after(object, self.state.replica_reads.committed);
            if !has_share || !is_settled || cx.now + LEASE / 2 >= self.state.replica_reads.until {
                self.want_share(cx);
            }
            let is_settled = is_settled || mutant::is(Mutant::ReplicaReadsBesideUpdates);
            return has_share && is_settled && !self.core().missing.contains_key(object);
        }
        false
    }

    /// Returns true if this member has all that the log names, or knows what it lacks, in the interval that it has
    /// joined.
    fn may_have_share(&self) -> bool {
        !self.is_loading
            && self.core().protection().is_whole_on_each()
            && self.core().info.complete
            && self.progress().has_started()
    }

    fn has_share(&self, cx: &Context<'_>) -> bool {
        let until = self.state.replica_reads.until;
        cx.now < until || until > Duration::ZERO && mutant::is(Mutant::ShareNeverEnds)
    }

    fn want_share(&mut self, cx: &mut Context<'_>) {
        let asked_lately = self.state.replica_reads.asked_at.is_some_and(|at| cx.now < at + ASK_AGAIN);
        if let Some(primary) = self.core().interval.primary.filter(|_| !asked_lately) {
            self.state.replica_reads.asked_at = Some(cx.now);
            let wish = ShareWish { pg: self.core().pg_interval(), stamp: cx.now.as_micros() as u64 };
            cx.shared.leases.shares_wanted.entry(primary).or_default().push(wish);
            cx.agenda.wakes.insert((cx.now + ASK_IDLE, self.core().id));
        }
    }

    /// Asks again for a share that is about to end, as time has passed, if there may be more to read.
    pub(crate) fn keep_share(&mut self, cx: &mut Context<'_>) {
        let is_wanted = self.state.replica_reads.wanted_at.is_some_and(|at| cx.now < at + KEEP);
        if is_wanted && !self.core().is_primary(cx.whoami) && self.may_have_share() {
            match self.state.replica_reads.until.checked_sub(LEASE / 2) {
                Some(at) if cx.now < at => drop(cx.agenda.wakes.insert((at.max(cx.now + ASK_AGAIN), self.core().id))),
                _ => self.want_share(cx),
            }
        }
    }

    /// Returns true if an update behind `version` concerns the object or one of its states.
    fn changed_after(&self, object: &ObjectId, version: EVersion) -> bool {
        let is_of = |other: &ObjectId| {
            (other.hash, &other.name, &other.nspace, &other.key)
                == (object.hash, &object.name, &object.nspace, &object.key)
        };
        // A log that does not reach back so far cannot tell.
        self.core().log.after(version).is_none_or(|mut entries| entries.any(|entry| is_of(&entry.object)))
    }

    /// Takes a share by which the primary lets this member read.
    pub(crate) fn share_told(&mut self, cx: &mut Context<'_>, from: OsdId, share: &Share) {
        // The stamp has whole microseconds, the clock may be finer.
        let stamp = u128::from(share.wish.stamp);
        let asked = self.state.replica_reads.asked_at.filter(|at| at.as_micros() == stamp);
        let Some(asked) = asked.filter(|_| self.peering().follows(from, share.wish.pg.since)) else { return };
        self.state.replica_reads.until =
            (asked + Duration::from_micros(share.span).min(LEASE)).max(self.state.replica_reads.until);
        self.state.replica_reads.all_have(share.committed);
        self.keep_share(cx);
    }

    /// Goes on with a read whose lookup is done. `None`: it is not one that is answered here beside the primary.
    pub(super) fn replica_lookup_done(
        &mut self,
        cx: &mut Context<'_>,
        number: u64,
        id: LookupId,
        data: Option<&Result<Rope, ReadError>>,
    ) -> Option<()> {
        let began_at = *self.state.replica_reads.running.get(&number)?;
        let op = &self.state.ops.ops[&number];
        // The state that it has read so far must be the present one.
        let is_spoiled = matches!(data, Some(Err(_)))
            || self.changed_after(&op.object, began_at)
            || self.lacks_any(number)
            || !self.has_share(cx)
            || self.lapse(cx, op).is_some();
        if is_spoiled {
            self.state.replica_read_refused(cx, number);
        } else {
            let op = self.state.ops.ops.get_mut(&number).expect("just seen");
            if let Some(result) = data {
                op.progress.answers.read_done(id, result.clone());
            }
            self.run_replica_read(cx, number);
        }
        Some(())
    }

    fn run_replica_read(&mut self, cx: &mut Context<'_>, number: u64) {
        loop {
            match self.execute(cx, number) {
                Run::Blocked(id) => {
                    let op = self.state.ops.ops.get_mut(&number).expect("operation is known");
                    op.progress.waits_for = Some(id);
                    op.times.blocked(cx.now);
                    return cx.wait(id, Waiter::ClientOp { pgid: self.core().id, op: number });
                }
                Run::Wants(state) if !self.core().missing.contains_key(&state) => {
                    self.state.ops.ops.get_mut(&number).expect("operation is known").progress.at_hand.push(state);
                }
                Run::Done(effects) if !is_unreadable(&effects) => {
                    self.state.replica_reads.running.remove(&number);
                    cx.shared.leases.replica_reads.served += 1;
                    let mut op = self.state.ops.ops.remove(&number).expect("operation is known");
                    op.times.executed(cx.now);
                    return self.answer_read(cx, &op, effects);
                }
                // An object that cannot be read here can perhaps be read elsewhere.
                Run::Wants(_) | Run::Done(_) | Run::Gather { .. } | Run::Copy(_) => {
                    return self.state.replica_read_refused(cx, number);
                }
            }
        }
    }
}

/// Returns true if the step asks for nothing but what is stored of the object.
fn is_plain_read(code: OpCode) -> bool {
    const PLAIN: &[OpCode] = &[
        OpCode::READ,
        OpCode::STAT,
        OpCode::MAPEXT,
        OpCode::SPARSE_READ,
        OpCode::SYNC_READ,
        OpCode::CHECKSUM,
        OpCode::CMPEXT,
        OpCode::ASSERT_VER,
        OpCode::LIST_SNAPS,
        OpCode::GETXATTR,
        OpCode::GETXATTRS,
        OpCode::CMPXATTR,
        OpCode::OMAPGETKEYS,
        OpCode::OMAPGETVALS,
        OpCode::OMAPGETHEADER,
        OpCode::OMAPGETVALSBYKEYS,
        OpCode::OMAP_CMP,
        // Calls of methods that only read.
        OpCode::CALL,
    ];
    PLAIN.contains(&code)
}

/// Returns true if bytes or metadata are damaged here.
fn is_unreadable(effects: &Effects) -> bool {
    let eio = Errno::EIO.as_result();
    effects.result == eio || effects.ops.iter().any(|op| op.rval == eio)
}
