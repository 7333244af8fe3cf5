//! One of the cluster's monitors: the state machine, and the consensus that keeps it equal on all of them.
//!
//! A [`Member`] puts the log that a majority keeps ([`raft`]) around a [`Monitor`]. The leader's monitor decides: each
//! batch it wants to append becomes an entry, and every member applies entries once they are decided. The other members
//! (Ceph calls them peons) serve clients and OSDs, too. A peon sends maps from its own state, once the leader has told
//! it which index the newest state has. It forwards everything else to the leader, and passes the leader's answers on.
//!
//! * this file: inputs and actions, the log, and leadership.
//! * `links.rs`: sessions with the other monitors. `introductions.rs`: their first messages, and the rules by which a
//!   server becomes a member.
//! * `letters.rs`: messages that wait, and the bound on their memory.
//! * `routing.rs`: messages of clients and OSDs, and the monitor that answers them.
//! * `duties.rs`: periodic work: members come and go, the quorum is watched.

mod duties;
mod introductions;
mod letters;
mod links;
mod routing;
#[cfg(test)]
mod tests;

use crate::bounds::CLOCK_GAIN_MAX;
pub use crate::bounds::raft_config;
use crate::identity::Party;
use crate::log::{Identity, Loaded};
use crate::monitor::{self, Entropy, Monitor, Now};
use crate::{MonState, volatile::ClockSample};
use ::auth::Key;
use bytes::Bytes;
use control::Settings;
use links::Links;
use raft::{Entry, Payload, Persist, ProposeError, Raft, ServerId, Ticket};
use routing::Routing;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;
use stdx::ClockWatch;
use tracing::{info, warn};
use types::{EntityName, EntityType};
use wire::messages::CommandReply;
use wire::msgr::{Peer, SessionId};
use wire::{Decode, Encode, EntityAddrVec, Envelope, Target};

/// Settings of a member.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// Addresses at which clients and other monitors reach it.
    pub addrs: EntityAddrVec,
    /// Addresses of other monitors, used as long as its own state names none.
    pub peers: Vec<EntityAddrVec>,
    /// Addresses at which clients reach it as the cluster's manager while it leads.
    pub manager_addrs: EntityAddrVec,
    /// Facts that `ceph mon metadata` shows.
    pub metadata: BTreeMap<String, String>,
    /// Seed of its random choices. Members should differ.
    pub seed: u64,
    pub raft: raft::Config,
}

/// An event that the driver reports.
#[derive(Debug)]
pub enum Input {
    Opened {
        session: SessionId,
        peer: Peer,
    },
    /// A session opened at the address where clients expect a manager.
    OpenedAtManager {
        session: SessionId,
        peer: Peer,
    },
    Message {
        session: SessionId,
        envelope: Envelope,
    },
    Closed {
        session: SessionId,
    },
    /// A session that [`Action::Dial`] asked for has begun.
    Dialled {
        addrs: EntityAddrVec,
        session: SessionId,
    },
    /// This write, and all before it, are on the disk.
    Persisted(Ticket),
    /// Count of ids that can still be handed out; reported when few are left.
    GlobalIdsLeft(u64),
    Tick,
}

/// An order to the driver.
#[derive(Debug, PartialEq)]
pub enum Action {
    Send {
        session: SessionId,
        envelope: Envelope,
    },
    /// Close the session; [`Input::Closed`] need not follow.
    Close {
        session: SessionId,
    },
    /// Begin a session with the monitor at these addresses, and report its number at once ([`Input::Dialled`]).
    Dial {
        addrs: EntityAddrVec,
    },
    /// Write this, in the order of tickets, and then report [`Input::Persisted`].
    Persist {
        ticket: Ticket,
        write: Persist,
    },
    /// Ids that may be handed out to clients; no other monitor ever gets them.
    GlobalIds(Range<u64>),
    /// Prove the first of these keys to other monitors, and keep all in the keyring, before what is to be written next.
    SharedKeys(Vec<Key>),
    /// This server is no member any more and never will be: end, and report the reason.
    Stop {
        reason: String,
    },
}

/// A member takes a snapshot once the batches since the last one have this many bytes more than that snapshot, because
/// the member keeps the log in memory. [`crate::monitor::SNAPSHOT_EVERY`] limits their number besides.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// First number of sessions at the manager's address.
pub const MANAGER_SESSIONS: u64 = 1 << 62;

/// One of the monitors. The driver feeds it with [`Member::handle`], and at [`Member::next_wake`] with a tick.
pub struct Member {
    identity: Identity,
    config: MemberConfig,
    raft: Raft,
    monitor: Monitor,
    /// Index of the last log entry that was applied.
    applied: u64,
    /// Bytes of the batches applied since the last snapshot.
    batch_bytes: usize,
    /// Term in which the monitor leads; meaningful while it does.
    lead_term: u64,
    /// Time at which it began to lead.
    leads_since: Duration,
    /// Time since which no leader is known; `None` while one is.
    leaderless_since: Option<Duration>,
    /// Batch that the monitor wants to append and raft has not taken, for example while leadership moves to another
    /// member.
    unproposed: Option<Bytes>,
    /// Actions of the monitor that are not carried out yet.
    todo: Vec<monitor::MonitorAction>,
    links: Links,
    routing: Routing,
    clocks: BTreeMap<String, ClockSample>,
    /// Time of the last request for ids.
    ids_asked: Option<Duration>,
    duties_at: Duration,
    clock_watch: ClockWatch,
}

/// Reasons why the content of the disk cannot be a monitor's.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    #[error(transparent)]
    Log(#[from] raft::StoredError),
    #[error("the monitor's store is damaged: its state does not decode")]
    State(#[source] wire::DecodeError),
}

impl Member {
    /// Ids left below which the driver reports [`Input::GlobalIdsLeft`].
    pub const GLOBAL_IDS_LOW: u64 = 1000;

    /// Makes a member that goes on from the content of its disk.
    pub fn new(loaded: Loaded, config: MemberConfig, entropy: Entropy, now: Now) -> Result<Member, MemberError> {
        let Loaded { identity, stored } = loaded;
        let state = match &stored.snapshot {
            Some(snapshot) => MonState::from_slice(&snapshot.data).map_err(MemberError::State)?,
            None => MonState::default(),
        };
        let applied = stored.snapshot.as_ref().map_or(0, |snapshot| snapshot.last.index);
        let raft = Raft::new(identity.server, config.raft.clone(), stored, config.seed, now.since_start)?;
        let mut monitor = Monitor::new(&identity.name, state, entropy);
        monitor.set_manager_addrs(config.manager_addrs.clone());
        monitor.set_metadata(config.metadata.clone());
        monitor.start(now);
        Ok(Member {
            identity,
            config,
            raft,
            monitor,
            applied,
            batch_bytes: 0,
            lead_term: 0,
            leads_since: now.since_start,
            leaderless_since: Some(now.since_start),
            unproposed: None,
            todo: Vec::new(),
            links: Links::default(),
            routing: Routing::default(),
            clocks: BTreeMap::new(),
            ids_asked: None,
            duties_at: now.since_start,
            clock_watch: ClockWatch::new(CLOCK_GAIN_MAX),
        })
    }

    /// Sets the options that the monitor starts with.
    pub fn set_settings(&mut self, settings: Settings) {
        self.monitor.set_settings(settings);
    }

    /// Answers a command to this monitor that came by its admin socket.
    pub fn told(&mut self, now: Now, line: &str) -> CommandReply {
        let from = EntityName { kind: EntityType::CLIENT, num: 0 };
        self.monitor.told(now, from, &Party::local_administrator(), line).into()
    }

    /// Filter of the log that this monitor's options ask for.
    pub fn log_filter(&mut self) -> String {
        self.monitor.log_filter()
    }

    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// The monitor, for its part in handshakes: [`Monitor::set_auth_policy`], [`Monitor::authenticate`] and its
    /// relatives. Whoever sets a policy gives it the ids of [`Action::GlobalIds`], too.
    pub fn monitor_mut(&mut self) -> &mut Monitor {
        &mut self.monitor
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn raft(&self) -> &Raft {
        &self.raft
    }

    /// Returns the time at which an [`Input::Tick`] is next needed.
    pub fn next_wake(&self) -> Duration {
        let wakes = [self.raft.next_wake(), self.links.next_wake()];
        wakes.into_iter().flatten().fold(self.monitor.next_wake().min(self.duties_at), Duration::min)
    }

    /// Handles one input and adds the resulting actions to `out`.
    pub fn handle(&mut self, now: Now, input: Input, out: &mut Vec<Action>) {
        self.watch_clocks(now);
        match input {
            Input::Opened { session, peer } => self.opened(now, session, peer, out),
            Input::OpenedAtManager { session, peer } => self.opened_at_manager(now, session, peer, out),
            Input::Message { session, envelope } => self.received(now, session, envelope, out),
            Input::Closed { session } => self.closed(now, session, out),
            Input::Dialled { addrs, session } => self.links.dialled(addrs, session),
            Input::Persisted(ticket) => self.raft.handle(now.since_start, raft::Event::Persisted(ticket)),
            Input::GlobalIdsLeft(left) => self.ids_are_few(now, left, out),
            Input::Tick => {
                self.raft.handle(now.since_start, raft::Event::Tick);
                self.monitor.handle(now, monitor::MonitorInput::Tick, &mut self.todo);
                if now.since_start >= self.duties_at {
                    self.duties(now, out);
                }
                self.tick_links(now, out);
            }
        }
        self.settle(now, out);
    }

    /// Has a leader whose machine stood still answer nothing by the lease that it had. Every input comes by here before
    /// anything is answered.
    fn watch_clocks(&mut self, now: Now) {
        let Some(gain) = self.clock_watch.look(now.since_start, now.wall.to_unix()) else { return };
        if mutant::is(mutant::Mutant::PauseUnnoticed) {
            return;
        }
        if self.raft.is_leader() {
            warn!("wall-clock time jumped ahead by {gain:.1?}: it was set, or this machine stood still; no lease");
        }
        self.raft.clock_stood_still(now.since_start);
    }

    /// Returns true if this server has no state yet and is still to become a member.
    fn is_empty(&self) -> bool {
        self.monitor.state().applied == 0
    }

    fn me(&self) -> ServerId {
        self.identity.server
    }

    /// Returns the leader, if it is another server.
    fn other_leader(&self) -> Option<ServerId> {
        self.raft.leader().filter(|leader| *leader != self.me())
    }

    /// Passes outputs between raft, monitor and driver until none is left.
    fn settle(&mut self, now: Now, out: &mut Vec<Action>) {
        loop {
            self.pump(now, out);
            let mut actions = Vec::new();
            self.raft.poll(now.since_start, &mut actions);
            let is_idle = actions.is_empty() && self.todo.is_empty();
            for action in actions {
                self.perform_for_raft(now, action, out);
            }
            self.perform_for_monitor(now, out);
            self.deliver(now, out);
            if is_idle && self.todo.is_empty() {
                return;
            }
        }
    }

    fn perform_for_raft(&mut self, now: Now, action: raft::Action, out: &mut Vec<Action>) {
        match action {
            raft::Action::Send { to, message } => self.send_raft(to, message, out),
            raft::Action::Persist { ticket, write } => out.push(Action::Persist { ticket, write }),
            raft::Action::Install(snapshot) => {
                let state = MonState::from_slice(&snapshot.data);
                let state = state.unwrap_or_else(|e| panic!("a state that the leader sent does not decode: {e}"));
                info!("took over the state after batch {} from the leader", state.applied);
                (self.applied, self.batch_bytes) = (snapshot.last.index, 0);
                self.monitor.install(now, state, &mut self.todo);
            }
            raft::Action::Apply(entries) => entries.into_iter().for_each(|entry| self.apply(now, entry, out)),
            raft::Action::ReadReady(id) => self.read_ready(now, id, out),
            raft::Action::ReadFailed(id) => self.read_failed(id),
            raft::Action::Leadership { term, leader } => self.leadership(now, term, leader, out),
        }
    }

    fn apply(&mut self, now: Now, entry: Entry, out: &mut Vec<Action>) {
        // A monitor must not take an entry of another leader for the batch that it has on its way itself.
        let leads = self.raft.is_leader() && self.raft.term() == self.lead_term;
        if self.monitor.leads() && !(leads && entry.position.term == self.lead_term) {
            self.stop_leading(now, out);
        }
        self.applied = entry.position.index;
        match entry.payload {
            Payload::TermStart => {
                if self.raft.is_leader() && self.raft.term() == entry.position.term {
                    self.begin_to_lead(now);
                }
            }
            Payload::Data(data) => {
                self.batch_bytes += data.len();
                let (index, batch) = data.split_first_chunk().expect("entries begin with the batch's index");
                self.monitor.decided(now, u64::from_le_bytes(*index), batch, &mut self.todo);
            }
            Payload::Membership(_) => self.duties_at = now.since_start,
        }
        // The monitor may ask for a snapshot of the state as it is now, so its actions are carried out first.
        self.perform_for_monitor(now, out);
        if self.batch_bytes > BATCH_BYTES_MAX + self.raft.snapshot_bytes() {
            let state = self.monitor.state().to_vec(Target::PACIFIC);
            self.take_snapshot(state.into());
        }
    }

    /// Makes the monitor lead, once everything that was decided before is applied.
    fn begin_to_lead(&mut self, now: Now) {
        info!("mon.{} leads from term {} on", self.identity.name, self.raft.term());
        self.lead_term = self.raft.term();
        self.leads_since = now.since_start;
        self.clocks.clear();
        let quorum = self.first_quorum(now);
        self.monitor.lead(now, quorum, &mut self.todo);
        self.duties_at = now.since_start;
    }

    fn stop_leading(&mut self, now: Now, out: &mut Vec<Action>) {
        info!("mon.{} does not lead any more", self.identity.name);
        self.unproposed = None;
        self.monitor.follow(&mut self.todo);
        self.perform_for_monitor(now, out);
        self.end_forwarded(now);
    }

    fn leadership(&mut self, now: Now, term: u64, leader: Option<ServerId>, out: &mut Vec<Action>) {
        if self.monitor.leads() && (leader, term) != (Some(self.me()), self.lead_term) {
            self.stop_leading(now, out);
        }
        if leader != Some(self.me()) {
            self.end_forwarded(now);
        }
        self.leaderless_since = match leader {
            Some(_) => None,
            None => self.leaderless_since.or(Some(now.since_start)),
        };
        if let Some(leader) = leader {
            self.leader_is(now, term, leader, out);
        }
    }

    fn perform_for_monitor(&mut self, now: Now, out: &mut Vec<Action>) {
        while !self.todo.is_empty() {
            for action in std::mem::take(&mut self.todo) {
                match action {
                    monitor::MonitorAction::Send { session, envelope } => self.send(session, Some(envelope), out),
                    monitor::MonitorAction::Close { session } => self.close(now, session, out),
                    monitor::MonitorAction::Append { index, batch } => {
                        let mut data = Vec::with_capacity(8 + batch.len());
                        data.extend_from_slice(&index.to_le_bytes());
                        data.extend_from_slice(&batch);
                        self.propose(now, data.into(), out);
                    }
                    monitor::MonitorAction::Snapshot { state, .. } => self.take_snapshot(state),
                    monitor::MonitorAction::GlobalIds(ids) => out.push(Action::GlobalIds(ids)),
                    monitor::MonitorAction::SharedKeys(keys) => out.push(Action::SharedKeys(keys)),
                    monitor::MonitorAction::GlobalIdsFor { session, ids } => self.send_ids(session, ids, out),
                }
            }
        }
    }

    fn take_snapshot(&mut self, state: Bytes) {
        self.batch_bytes = 0;
        self.raft.snapshot_taken(self.applied, state);
    }

    fn propose(&mut self, now: Now, data: Bytes, out: &mut Vec<Action>) {
        match self.raft.propose(data.clone()) {
            Ok(_) => {}
            // The member tries again soon: either the cause passes, or this monitor leads no more.
            Err(ProposeError::HandingOver | ProposeError::Busy) => self.unproposed = Some(data),
            Err(ProposeError::NotLeader { .. }) => self.stop_leading(now, out),
            Err(error @ ProposeError::TooLarge { .. }) => self.monitor.refused(now, &error.to_string(), &mut self.todo),
        }
    }

    /// Returns true if a server was a member and is none any more. A server that is to be removed is a member until the
    /// log says otherwise.
    fn is_former(&self, server: ServerId) -> bool {
        self.monitor.state().former_servers.contains(&server.0) && !self.raft.membership().contains(server)
    }

    /// Returns the servers that vote.
    fn voters(&self) -> BTreeSet<u64> {
        self.raft.membership().voters.iter().map(|server| server.0).collect()
    }

    /// Returns the name of the monitor whose server this is.
    fn name_of(&self, server: ServerId) -> Option<&str> {
        let servers = &self.monitor.state().mon_servers;
        servers.iter().find(|(_, known)| known.server == server.0).map(|(name, _)| name.as_str())
    }
}
