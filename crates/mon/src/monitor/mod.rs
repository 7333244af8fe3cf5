//! The monitor as a state machine: sessions' messages, durable appends and time in; messages and appends out.
//!
//! * this file: inputs, actions, and their handlers.
//! * `proposals.rs`: the way of a change into the log, and the answers once it is applied.
//! * `authentication.rs`: parties prove who they are; `shared_keys.rs`: how monitors know each other. `admission.rs`:
//!   who may send which message.
//! * `client_messages.rs`, `osd_messages.rs`: messages of clients and OSDs.
//! * `osd_changes.rs`: from boots, failures and time to the next OSD map; `failures.rs`, `liveness.rs`, `newcomers.rs`
//!   under it.
//! * `blocklist.rs`: clients that were locked out are let in again. `balancing.rs`: rounds of the balancer.
//! * `pg_numbers.rs`, `pg_merges.rs`, `shard_orders.rs`: pools get more placement groups, or fewer.
//! * `leading.rs`: to lead and to follow, where there are several monitors.
//! * `publish.rs`: subscriptions.
//! * `state_check.rs`: monitors compare their states.
//! * `statistics.rs`: sums of OSDs' reports. `health_watch.rs`: alarms that come and go.

mod admission;
mod authentication;
mod balancing;
mod blocklist;
mod client_messages;
mod failures;
mod flapping;
mod health_watch;
mod late;
mod leading;
mod liveness;
mod manager_clients;
mod manager_commands;
mod newcomers;
mod osd_changes;
mod osd_messages;
pub mod own_commands;
mod pg_merges;
mod pg_numbers;
mod proposals;
mod publish;
mod session;
mod shard_orders;
mod shared_keys;
mod snap_purge;
mod state_check;
mod statistics;
mod subscriptions;
#[cfg(test)]
mod tests;

use crate::identity::Party;
use crate::{MonState, Volatile};
use ::auth::Key;
use authentication::Authentication;
pub use authentication::Said;
pub(crate) use authentication::fill;
use balancing::Balancing;
use bytes::Bytes;
use health_watch::KnownAlarms;
use late::LateRequests;
use leading::Members;
use liveness::Liveness;
use osd_changes::OsdChanges;
use own_commands::OwnCommands;
use pg_merges::PgMerges;
use pg_numbers::PgNumbers;
use proposals::Proposals;
pub use proposals::SNAPSHOT_EVERY;
use session::Session;
use shard_orders::ShardOrders;
use state_check::StateCheck;
use statistics::Covered;
pub(crate) use statistics::undecided;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;
use types::Utime;
use wire::msgr::{Peer, SessionId};
use wire::{EntityAddrVec, Envelope};

/// The time of an input.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Time since an arbitrary start; never goes back.
    pub since_start: Duration,
    /// Wall clock, for stamps that people read.
    pub wall: Utime,
}

/// An event that is reported to the monitor.
#[derive(Debug)]
pub enum MonitorInput {
    Opened {
        session: SessionId,
        peer: Peer,
    },
    /// A session opened at the address where clients expect a manager ([`Monitor::set_manager_addrs`]).
    OpenedAtManager {
        session: SessionId,
        peer: Peer,
    },
    /// Another monitor, which knows who is there, passes a session on.
    Forwarded {
        session: SessionId,
        peer: Peer,
        identity: Party,
    },
    Message {
        session: SessionId,
        envelope: Envelope,
    },
    Closed {
        session: SessionId,
    },
    /// The batch that [`MonitorAction::Append`] named is decided.
    Committed {
        index: u64,
    },
    /// Count of ids that can still be handed out; reported when few are left.
    GlobalIdsLeft(u64),
    Tick,
}

/// An order to the caller.
#[derive(Debug, PartialEq)]
pub enum MonitorAction {
    Send {
        session: SessionId,
        envelope: Envelope,
    },
    Close {
        session: SessionId,
    },
    /// Have the batch decided, then report [`MonitorInput::Committed`]. At most one is under way.
    Append {
        index: u64,
        batch: Bytes,
    },
    /// Keep this state, the one after batch `index`, instead of the batches up to it.
    Snapshot {
        index: u64,
        state: Bytes,
    },
    /// Ids that may be handed out to clients; no other monitor ever gets them.
    GlobalIds(Range<u64>),
    /// Keys that monitors share have changed: prove the first of these, and keep all in the keyring, before any later
    /// snapshot is kept.
    SharedKeys(Vec<Key>),
    /// Ids for the monitor at the other end of a session, which alone may hand them out.
    GlobalIdsFor {
        session: SessionId,
        ids: Range<u64>,
    },
}

/// Source of random bytes.
pub type Entropy = Box<dyn FnMut() -> [u8; 32] + Send>;

/// A monitor. The caller feeds it with [`Monitor::handle`], and after [`Monitor::next_wake`] with a tick.
pub struct Monitor {
    state: MonState,
    volatile: Volatile,
    covered: Covered,
    entropy: Entropy,
    sessions: BTreeMap<SessionId, Session>,
    authentication: Authentication,
    late: LateRequests,
    proposals: Proposals,
    own_commands: OwnCommands,
    osd_changes: OsdChanges,
    balancing: Balancing,
    pg_numbers: PgNumbers,
    pg_merges: PgMerges,
    shard_orders: ShardOrders,
    liveness: Liveness,
    state_check: StateCheck,
    members: Members,
    /// Facts that `ceph mon metadata` shows of this monitor.
    metadata: BTreeMap<String, String>,
    /// True while this monitor decides.
    leads: bool,
    /// Time from which on primaries are told of records that may be behind.
    doubt_told_from: Duration,
    /// Time at which statistics and timeouts are next looked at.
    next_tick: Duration,
    /// Health alarms at the last look.
    alarms: KnownAlarms,
    /// Message types that were ignored, so that each is logged once.
    ignored: BTreeSet<u16>,
}

/// Period at which statistics and timeouts are looked at.
const TICK: Duration = Duration::from_secs(1);

impl Monitor {
    /// Ids left below which the caller reports [`MonitorInput::GlobalIdsLeft`].
    pub const GLOBAL_IDS_LOW: u64 = 1000;

    /// Makes a monitor called `name` that continues from `state`.
    pub fn new(name: &str, state: MonState, entropy: Entropy) -> Monitor {
        Monitor {
            state,
            volatile: Volatile { name: name.to_owned(), ..Volatile::default() },
            covered: Covered::default(),
            entropy,
            sessions: BTreeMap::new(),
            authentication: Authentication::default(),
            late: LateRequests::default(),
            proposals: Proposals::default(),
            own_commands: OwnCommands::new(name),
            osd_changes: OsdChanges::default(),
            balancing: Balancing::default(),
            pg_numbers: PgNumbers::default(),
            pg_merges: PgMerges::default(),
            shard_orders: ShardOrders::default(),
            liveness: Liveness::default(),
            state_check: StateCheck::default(),
            members: Members::default(),
            metadata: BTreeMap::new(),
            leads: false,
            doubt_told_from: Duration::ZERO,
            next_tick: Duration::ZERO,
            alarms: KnownAlarms::new(),
            ignored: BTreeSet::new(),
        }
    }

    /// Sets the addresses of the manager. To be called before [`Monitor::start`].
    pub fn set_manager_addrs(&mut self, addrs: EntityAddrVec) {
        self.volatile.manager_addrs = addrs;
    }

    /// Sets the facts that `ceph mon metadata` shows of this monitor. To be called before [`Monitor::start`].
    pub fn set_metadata(&mut self, metadata: BTreeMap<String, String>) {
        self.metadata = metadata;
    }

    /// Begins without a leader. No input may come before.
    pub fn start(&mut self, now: Now) {
        self.volatile.now = now.wall;
        self.next_tick = now.since_start + TICK;
        self.map_changed(now);
    }

    /// Returns the time at which a [`MonitorInput::Tick`] is next needed.
    pub fn next_wake(&self) -> Duration {
        // While a batch is on its way nothing can be decided; its commit comes without a tick.
        let due = if self.leads && self.proposals.is_idle() { self.osd_changes.due() } else { None };
        due.map_or(self.next_tick, |due| due.min(self.next_tick))
    }

    /// Handles one input and adds the resulting actions to `out`.
    pub fn handle(&mut self, now: Now, input: MonitorInput, out: &mut Vec<MonitorAction>) {
        self.volatile.now = now.wall;
        match input {
            MonitorInput::Opened { session, peer } => {
                let mut known = Session::new(peer);
                self.identify(&mut known);
                known.store = known.osd().and_then(|osd| self.store_of(osd));
                self.sessions.insert(session, known);
                self.give_to_returned(now, session, out);
            }
            MonitorInput::OpenedAtManager { session, peer } => {
                let mut known = Session { is_at_manager: true, ..Session::new(peer) };
                self.identify(&mut known);
                self.sessions.insert(session, known);
            }
            MonitorInput::Forwarded { session, peer, identity } => {
                let mut known = Session { identity: self.believed(identity), ..Session::new(peer) };
                known.store = known.osd().and_then(|osd| self.store_of(osd));
                self.sessions.insert(session, known);
            }
            MonitorInput::Closed { session } => {
                self.sessions.remove(&session);
                self.volatile.services.closed(session, now.wall);
            }
            MonitorInput::Message { session, envelope } => self.message(now, session, &envelope, out),
            MonitorInput::Committed { index } => self.committed(now, index, out),
            MonitorInput::GlobalIdsLeft(_) if self.leads => self.proposals.want_global_ids(),
            MonitorInput::GlobalIdsLeft(_) => {}
            MonitorInput::Tick => {
                if now.since_start >= self.next_tick {
                    self.next_tick = now.since_start + TICK;
                    self.tick(now);
                    self.forget_ended_keys(now, out);
                    self.end_sessions_by_old_tickets(out);
                }
            }
        }
        self.advance(now, out);
    }

    pub fn state(&self) -> &MonState {
        &self.state
    }

    pub fn volatile(&self) -> &Volatile {
        &self.volatile
    }
}
