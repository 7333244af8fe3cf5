//! The client's core: knows the map, sends each operation to the right OSD, and sends it again when the right OSD
//! changes.
//!
//! [`Objecter`] does no I/O. Events go in by [`Objecter::opened`], [`Objecter::message`], [`Objecter::reset`] and
//! [`Objecter::tick`]; users' requests by [`Objecter::submit`], [`Objecter::ask`], [`Objecter::tell`] and
//! [`Objecter::wait_for_map`]. Messages go out through [`Sessions`], results through [`Objecter::poll_done`], and
//! events of watches through [`Objecter::poll_event`].
//!
//! An operation keeps its transaction id for life, however often it is sent, so that OSDs recognise it.

mod maps;
mod mon_request;
mod mon_session;
mod monitors;
mod operations;
mod osd_command;
mod osd_session;
mod placement;
mod request;
mod sessions;
#[cfg(test)]
mod tests;
mod watches;

pub use mon_request::{CommandReply, MonAnswer, MonRequest};
pub use placement::{GroupTarget, Placement, Resend, Step, Target};
pub use request::{Reply, Request, Subject};
pub use sessions::Sessions;
pub use watches::Event;

use crate::error::Error;
use mon_request::{Asked, Asker};
use mon_session::MonSession;
use osd_command::OsdCommand;
use osd_session::OsdSession;
use request::{InFlight, OpState, Owner};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;
use std::time::Duration;
use types::{Epoch, Fsid, OsdId};
use watches::WatchState;
use wire::messages as msg;
use wire::msgr::SessionId;
use wire::{EntityAddrVec, Envelope, Message};

/// Settings of an objecter, fixed at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses of possible monitors; at least one.
    pub mons: Vec<EntityAddrVec>,
    /// Host name that monitors log.
    pub hostname: String,
    /// Longest time for an operation; `None` waits for ever.
    pub op_timeout: Option<Duration>,
    /// Longest time for a request to the monitors; `None` waits for ever.
    pub mon_op_timeout: Option<Duration>,
    /// Seed for the order in which monitors are tried, and for the members asked where any member may answer.
    pub seed: u64,
    pub resend: Resend,
    /// OSDs that are near. A read with [`OpFlags::LOCALIZE_READS`](wire::messages::OpFlags::LOCALIZE_READS) goes to one
    /// of them that has the object, if there is one.
    pub near: BTreeSet<OsdId>,
}

/// The answer to a finished request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Op(Reply),
    Mon(MonAnswer),
    /// An OSD's answer to a command.
    Command(CommandReply),
    /// The watchers of an object have answered, or the time is up.
    Notified {
        /// 0, or a negated error number if a watcher was too slow.
        result: i32,
        replies: msg::NotifyReplies,
    },
    /// The awaited map has come.
    MapReached,
}

/// The result of one request, with the user's completion.
#[derive(Debug)]
pub struct Done<C> {
    pub completion: C,
    pub result: Result<Answer, Error>,
}

/// The client's core; see the module. `C` is the completion: users give it with a request and get it back with the
/// answer.
pub struct Objecter<C> {
    settings: Settings,
    fsid: Option<Fsid>,
    placement: Option<Placement>,
    mon_map_epoch: u32,
    mon: MonSession,
    osds: BTreeMap<OsdId, OsdSession>,
    by_session: BTreeMap<SessionId, OsdId>,
    /// Boxed, because removing an entry from the tree moves its neighbours.
    ops: BTreeMap<u64, Box<InFlight<C>>>,
    asked: BTreeMap<u64, Asked<C>>,
    commands: BTreeMap<u64, OsdCommand<C>>,
    map_waiters: Vec<(Epoch, C)>,
    /// Watches by cookie.
    watches: BTreeMap<u64, WatchState>,
    /// Something has happened that may concern watches.
    watches_due: bool,
    events: VecDeque<Event>,
    last_tid: u64,
    done: VecDeque<Done<C>>,
}

impl<C> Objecter<C> {
    pub fn new(settings: Settings) -> Objecter<C> {
        assert!(!settings.mons.is_empty(), "an objecter without monitors");
        let mon = MonSession::new(settings.mons.clone(), settings.seed);
        Objecter {
            settings,
            fsid: None,
            placement: None,
            mon_map_epoch: 0,
            mon,
            osds: BTreeMap::new(),
            by_session: BTreeMap::new(),
            ops: BTreeMap::new(),
            asked: BTreeMap::new(),
            commands: BTreeMap::new(),
            map_waiters: Vec::new(),
            watches: BTreeMap::new(),
            watches_due: false,
            events: VecDeque::new(),
            last_tid: 0,
            done: VecDeque::new(),
        }
    }

    /// The present map, once there is one.
    pub fn placement(&self) -> Option<&Placement> {
        self.placement.as_ref()
    }

    pub fn fsid(&self) -> Option<Fsid> {
        self.fsid
    }

    /// True if a session with a monitor is open.
    pub fn has_mon(&self) -> bool {
        self.mon.session().is_some()
    }

    /// The reason why the last attempt to reach a monitor failed; empty if none has failed.
    pub fn last_mon_failure(&self) -> &str {
        &self.mon.last_failure
    }

    /// Number of operations not answered yet.
    pub fn in_flight(&self) -> usize {
        self.ops.len()
    }

    /// The next finished request.
    pub fn poll_done(&mut self) -> Option<Done<C>> {
        self.done.pop_front()
    }

    /// Begins to look for a monitor.
    pub fn start(&mut self, link: &mut impl Sessions, now: Duration) {
        self.mon.start_round(link, now);
    }

    /// Carries out an operation.
    pub fn submit(&mut self, request: Request, completion: C, link: &mut impl Sessions, now: Duration) {
        self.submit_as(request, Owner::User(completion), link, now);
    }

    fn submit_as(&mut self, request: Request, owner: Owner<C>, link: &mut impl Sessions, now: Duration) {
        let tid = self.next_tid();
        let op = InFlight {
            owner,
            request,
            state: OpState::Waiting,
            target: None,
            paused: false,
            attempts: 0,
            at_member: false,
            submitted: now,
        };
        self.ops.insert(tid, Box::new(op));
        self.advance(tid, link, now);
    }

    /// Asks the monitors something.
    pub fn ask(&mut self, request: MonRequest, completion: C, link: &mut impl Sessions, now: Duration) {
        self.ask_as(request, Asker::User(completion), link, now);
    }

    /// Completes once the map of `epoch` or a later one is there.
    pub fn wait_for_map(&mut self, epoch: Epoch, completion: C) {
        if self.epoch() >= epoch && self.placement.is_some() {
            self.finish(completion, Ok(Answer::MapReached));
        } else {
            self.map_waiters.push((epoch, completion));
        }
    }

    /// Event: a session is open.
    pub fn opened(&mut self, session: SessionId, link: &mut impl Sessions) {
        if self.mon.owns(session) {
            if self.mon.opened(session, link) {
                self.subscribe(session, link);
                self.ask_all_again(link);
            }
        } else if let Some(osd) = self.osd_of(session) {
            osd.opened();
        }
    }

    /// Event: a session is over. `reason` is for people.
    pub fn reset(&mut self, session: SessionId, reason: impl Display, link: &mut impl Sessions, now: Duration) {
        if self.mon.owns(session) {
            tracing::debug!(%reason, "monitor session lost");
            self.mon.lost(session, reason.to_string(), now);
            self.mon.tick(link, now);
        } else if let Some(osd) = self.osd_of(session) {
            tracing::debug!(%reason, "OSD session lost");
            osd.lost(now);
            let osd = osd.osd;
            self.by_session.remove(&session);
            self.commands_lost(osd);
            // Watches are submitted before idle sessions are dropped, so that the session is kept and reopened after
            // its delay.
            self.look_after_watches(link, now);
            self.drop_idle_sessions(link);
        }
    }

    /// Event: a message has arrived.
    pub fn message(&mut self, session: SessionId, envelope: Envelope, link: &mut impl Sessions, now: Duration) {
        let kind = envelope.header.kind;
        let result = match kind {
            msg::OsdOpReply::TYPE => {
                self.op_reply(session, &envelope, link, now);
                Ok(())
            }
            msg::CommandReply::TYPE => self.command_reply(&envelope),
            msg::OsdMap::TYPE => self.osd_map(&envelope, link, now),
            msg::OsdBackoff::TYPE => self.backoff(session, &envelope, link),
            msg::WatchNotify::TYPE => self.watch_notify(session, &envelope),
            msg::MonMap::TYPE if self.mon.owns(session) => self.mon_map(&envelope, link),
            _ if self.mon.owns(session) => self.mon_answer(&envelope, link, now),
            _ => Ok(()),
        };
        if let Err(error) = result {
            tracing::warn!(kind = msg::kind_name(kind), %error, "message ignored");
        }
        if self.watches_due {
            self.look_after_watches(link, now);
        }
    }

    /// Carries out everything that is due by `now`.
    pub fn tick(&mut self, link: &mut impl Sessions, now: Duration) {
        self.mon.tick(link, now);
        let due = |s: &&mut OsdSession| s.reopen_at.is_some_and(|at| at <= now);
        let reopen: Vec<OsdId> = self.osds.values_mut().filter(due).map(|s| s.osd).collect();
        for osd in reopen {
            self.reopen(osd, link, now);
        }
        if let Some(timeout) = self.settings.op_timeout {
            // Ids grow with time, so the oldest come first.
            let late = |op: &InFlight<C>| op.submitted + timeout <= now;
            while let Some(tid) = self.ops.first_key_value().filter(|(_, op)| late(op)).map(|(tid, _)| *tid) {
                self.complete(tid, Err(Error::TimedOut { seconds: timeout.as_secs() }));
            }
        }
        self.expire_commands(now);
        self.look_after_watches(link, now);
        if let Some(timeout) = self.settings.mon_op_timeout {
            let late = |asked: &Asked<C>| asked.since + timeout <= now;
            while let Some(tid) = self.asked.first_key_value().filter(|(_, a)| late(a)).map(|(tid, _)| *tid) {
                self.answered(tid, Err(Error::TimedOut { seconds: timeout.as_secs() }), link, now);
            }
        }
    }

    /// The time at which [`Objecter::tick`] is next needed.
    pub fn next_wake(&self) -> Option<Duration> {
        let reopen = self.osds.values().filter_map(|s| s.reopen_at);
        let op = self.settings.op_timeout.and_then(|t| self.ops.first_key_value().map(|(_, op)| op.submitted + t));
        let ask = self.settings.mon_op_timeout.and_then(|t| self.asked.first_key_value().map(|(_, a)| a.since + t));
        let others = self.commands_due().into_iter().chain(self.watches_wake());
        self.mon.due().into_iter().chain(reopen).chain(op).chain(ask).chain(others).min()
    }

    /// Ends every request in flight with [`Error::Closed`].
    pub fn shut_down(&mut self) {
        let ops = std::mem::take(&mut self.ops).into_values().filter_map(|op| op.owner.into_user());
        let asked = std::mem::take(&mut self.asked).into_values().filter_map(|asked| match asked.asker {
            Asker::User(completion) => Some(completion),
            Asker::PoolCheck(_) => None,
        });
        let waiters = std::mem::take(&mut self.map_waiters).into_iter().map(|(_, completion)| completion);
        let commands: Vec<C> = self.end_commands().collect();
        let all = ops.chain(asked).chain(waiters).chain(commands);
        self.done.extend(all.map(|completion| Done { completion, result: Err(Error::Closed) }));
    }

    fn next_tid(&mut self) -> u64 {
        self.last_tid += 1;
        self.last_tid
    }

    fn epoch(&self) -> Epoch {
        self.placement.as_ref().map(Placement::epoch).unwrap_or_default()
    }

    fn osd_of(&mut self, session: SessionId) -> Option<&mut OsdSession> {
        let osd = self.by_session.get(&session)?;
        Some(self.osds.get_mut(osd).expect("a session that is known has its OSD"))
    }

    fn finish(&mut self, completion: C, result: Result<Answer, Error>) {
        self.done.push_back(Done { completion, result });
    }
}
