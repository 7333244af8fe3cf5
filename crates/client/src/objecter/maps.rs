//! New OSD maps, and their effect on operations in flight.

use super::mon_request::{Asked, Asker, MonAnswer, MonRequest};
use super::osd_session::OsdSession;
use super::request::OpState;
use super::{Answer, Objecter, Placement, Resend, Sessions, Step};
use std::time::Duration;
use types::{Errno, Fsid, OsdId};
use wire::messages as msg;
use wire::{Envelope, Message};

impl<C> Objecter<C> {
    pub(super) fn osd_map(
        &mut self,
        envelope: &Envelope,
        link: &mut impl Sessions,
        now: Duration,
    ) -> Result<(), wire::DecodeError> {
        let message = msg::OsdMap::open(envelope)?;
        if self.fsid.is_some_and(|fsid| fsid != message.fsid) {
            tracing::warn!(fsid = %message.fsid, "map of another cluster ignored");
            return Ok(());
        }
        let before = self.placement.as_ref().map(Placement::epoch);
        let result = self.take_maps(&message);
        let after = self.placement.as_ref().map(Placement::epoch);
        if after == before {
            if result.is_ok() && before.is_none_or(|have| message.last() > have) {
                // Maps are missing between the present one and those in the message.
                if let Some(session) = self.mon.session() {
                    self.subscribe(session, link);
                }
            }
            return result;
        }
        self.learn_fsid(message.fsid, link);
        self.map_changed(link, now);
        result
    }

    /// Applies the maps of a message one after another: an interval that begins and ends within the message makes OSDs
    /// forget operations, though the last map looks like the first.
    fn take_maps(&mut self, message: &msg::OsdMap) -> Result<(), wire::DecodeError> {
        while let Some(step) = Placement::step(&mut self.placement, message)? {
            let placement = self.placement.as_mut().expect("a step leads to a map");
            let mut forgotten = Vec::new();
            for (tid, op) in &mut self.ops {
                if !matches!(op.state, OpState::Assigned { .. }) {
                    continue;
                }
                let paused = placement.is_paused(&op.request);
                // OSDs drop operations that a flag forbids, so such an operation is sent again once it is allowed.
                let allowed_again = op.paused && !paused;
                op.paused = paused;
                let target = placement.target(&op.request.subject);
                let sent_to = op.target.as_ref().expect("an operation that has an OSD has a target");
                // OSDs forget notifications in every new interval, and clients ask again. A read at another member than
                // the primary is sent again in every interval too: only a primary that stays must answer.
                let is_forgotten = op.request.is_notify() || op.at_member;
                let resend = if is_forgotten { Resend::NewInterval } else { self.settings.resend };
                let is_left = sent_to.is_left_for(target.as_ref(), resend);
                if step == Step::Skipped || allowed_again || is_left {
                    forgotten.push(*tid);
                } else {
                    op.target = target;
                }
            }
            for watch in self.watches.values_mut() {
                watch.follow_map(placement, step);
            }
            forgotten.into_iter().for_each(|tid| self.unassign(tid));
        }
        self.watches_due = true;
        Ok(())
    }

    pub(super) fn learn_fsid(&mut self, fsid: Fsid, link: &mut impl Sessions) {
        if self.fsid.is_none() {
            self.fsid = Some(fsid);
            self.ask_all_again(link);
        }
    }

    pub(super) fn map_changed(&mut self, link: &mut impl Sessions, now: Duration) {
        let placement = self.placement.as_ref().expect("map_changed() with a map");
        let moved = |s: &&OsdSession| placement.addrs(s.osd) != Some(&s.addrs);
        let gone: Vec<OsdId> = self.osds.values().filter(moved).map(|s| s.osd).collect();
        for osd in gone {
            let session = self.osds.remove(&osd).expect("just seen");
            self.commands_lost(osd);
            if let Some(id) = session.session {
                self.by_session.remove(&id);
                link.close(id);
            }
            for tid in session.tids {
                self.ops.get_mut(&tid).expect("a session's operations are under way").state = OpState::Waiting;
            }
        }
        let tids: Vec<u64> = self.ops.keys().copied().collect();
        for tid in tids {
            self.reconsider(tid, link, now);
        }
        self.watches_due = true;
        let epoch = self.epoch();
        for index in (0..self.map_waiters.len()).rev() {
            if self.map_waiters[index].0 <= epoch {
                let (_, completion) = self.map_waiters.swap_remove(index);
                self.finish(completion, Ok(Answer::MapReached));
            }
        }
        let reached = |asked: &Asked<C>| asked.reached_with.as_ref().is_some_and(|(at, _)| *at <= epoch);
        let tids: Vec<u64> = self.asked.iter().filter(|(_, asked)| reached(asked)).map(|(tid, _)| *tid).collect();
        for tid in tids {
            let response = self.asked.get_mut(&tid).and_then(|asked| asked.reached_with.take());
            let response = response.and_then(|(_, response)| response);
            self.answered(tid, Ok(MonAnswer::PoolOp(response)), link, now);
        }
    }

    /// Checks one operation against a new map.
    pub(super) fn reconsider(&mut self, tid: u64, link: &mut impl Sessions, now: Duration) {
        let placement = self.placement.as_mut().expect("reconsider() with a map");
        let op = self.ops.get_mut(&tid).expect("reconsider() for an operation under way");
        match op.state {
            OpState::Waiting => self.advance(tid, link, now),
            OpState::CheckingPool { missing_in } => {
                if placement.has_pool(op.request.subject.pool()) {
                    op.state = OpState::Waiting;
                    self.advance(tid, link, now);
                } else if missing_in.is_some_and(|epoch| epoch <= placement.epoch()) {
                    self.complete(tid, Err(Errno::ENOENT.into()));
                }
            }
            // `take_maps` checks assigned operations with each map.
            OpState::Assigned { .. } => {}
        }
    }

    /// Asks the monitors for the newest map's epoch, because the present map lacks the operation's pool.
    pub(super) fn check_pool(&mut self, tid: u64, link: &mut impl Sessions, now: Duration) {
        let op = self.ops.get_mut(&tid).expect("check_pool() for an operation under way");
        op.state = OpState::CheckingPool { missing_in: None };
        let request = MonRequest::Version { map: "osdmap".into() };
        self.ask_as(request, Asker::PoolCheck(tid), link, now);
    }
}
