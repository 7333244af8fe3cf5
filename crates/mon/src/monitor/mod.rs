//! The monitor as a state machine: sessions' messages, durable appends and time in; messages and appends out.
//!
//! * this file: inputs, actions, and who handles what.
//! * `proposals.rs`: how a change gets into the log and who hears of it afterwards.
//! * `client_messages.rs`, `osd_messages.rs`: what clients and OSDs send.
//! * `osd_changes.rs`: from boots, failures and time to the next OSD map; `failures.rs`, `liveness.rs`, `newcomers.rs` under it.
//! * `blocklist.rs`: clients that were locked out are let in again. `balancing.rs`: rounds of the balancer.
//! * `pg_numbers.rs`, `pg_merges.rs`, `shard_orders.rs`: pools get more placement groups, or fewer.
//! * `leading.rs`: to lead and to follow, where there are several monitors.
//! * `publish.rs`: subscriptions.
//! * `statistics.rs`: what OSDs report, summed up. `health_watch.rs`: alarms that come and go.

mod balancing;
mod blocklist;
mod client_messages;
mod failures;
mod flapping;
mod health_watch;
mod late;
mod leading;
mod liveness;
mod newcomers;
mod osd_changes;
mod osd_messages;
mod pg_merges;
mod pg_numbers;
mod proposals;
mod publish;
mod session;
mod shard_orders;
mod snap_purge;
mod statistics;
mod subscriptions;
#[cfg(test)]
mod tests;

use crate::{MonState, Volatile};
use balancing::Balancing;
use bytes::Bytes;
use health_watch::KnownAlarms;
use late::LateRequests;
use leading::Members;
use liveness::Liveness;
use osd_changes::OsdChanges;
use pg_merges::PgMerges;
use pg_numbers::PgNumbers;
use proposals::Proposals;
pub use proposals::SNAPSHOT_EVERY;
use session::Session;
use shard_orders::ShardOrders;
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
    /// Since an arbitrary start; never goes back.
    pub since_start: Duration,
    /// Wall clock, for stamps that people read.
    pub wall: Utime,
}

/// What happened.
#[derive(Debug)]
pub enum Input {
    Opened {
        session: SessionId,
        peer: Peer,
    },
    /// The same at the address where a manager is expected ([`Monitor::set_manager_addrs`]).
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
    /// The batch that [`Action::Append`] named is decided.
    Committed {
        index: u64,
    },
    /// So many ids can still be handed out; told when few are left.
    GlobalIdsLeft(u64),
    Tick,
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub enum Action {
    Send {
        session: SessionId,
        envelope: Envelope,
    },
    Close {
        session: SessionId,
    },
    /// Have the batch decided, then say [`Input::Committed`]. There is at most one at a time.
    Append {
        index: u64,
        batch: Bytes,
    },
    /// Keep this state, the one after batch `index`, instead of the batches up to it.
    Snapshot {
        index: u64,
        state: Bytes,
    },
    /// These ids may be handed out to clients; nobody else ever will.
    GlobalIds(Range<u64>),
    /// The same for the monitor at the other end of a session.
    GlobalIdsFor {
        session: SessionId,
        ids: Range<u64>,
    },
}

/// Where random bytes come from.
pub type Entropy = Box<dyn FnMut() -> [u8; 32] + Send>;

/// A monitor. Feed it with [`Monitor::handle`]; after [`Monitor::next_wake`], with a tick.
pub struct Monitor {
    state: MonState,
    volatile: Volatile,
    covered: Covered,
    entropy: Entropy,
    sessions: BTreeMap<SessionId, Session>,
    late: LateRequests,
    proposals: Proposals,
    osd_changes: OsdChanges,
    balancing: Balancing,
    pg_numbers: PgNumbers,
    pg_merges: PgMerges,
    shard_orders: ShardOrders,
    liveness: Liveness,
    members: Members,
    /// What `ceph mon metadata` shows of this monitor.
    metadata: BTreeMap<String, String>,
    /// Whether this monitor decides.
    leads: bool,
    /// From when on records that may be behind are told.
    doubt_told_from: Duration,
    /// When statistics and timeouts are next looked at.
    next_tick: Duration,
    /// Health alarms when last looked.
    alarms: KnownAlarms,
    /// Message types that were ignored, so that each is logged once.
    ignored: BTreeSet<u16>,
}

/// How often statistics and timeouts are looked at.
const TICK: Duration = Duration::from_secs(1);

impl Monitor {
    /// The driver says [`Input::GlobalIdsLeft`] below this.
    pub const GLOBAL_IDS_LOW: u64 = 1000;

    /// A monitor called `name` that continues from `state`.
    pub fn new(name: &str, state: MonState, entropy: Entropy) -> Monitor {
        Monitor {
            state,
            volatile: Volatile { name: name.to_owned(), ..Volatile::default() },
            covered: Covered::default(),
            entropy,
            sessions: BTreeMap::new(),
            late: LateRequests::default(),
            proposals: Proposals::default(),
            osd_changes: OsdChanges::default(),
            balancing: Balancing::default(),
            pg_numbers: PgNumbers::default(),
            pg_merges: PgMerges::default(),
            shard_orders: ShardOrders::default(),
            liveness: Liveness::default(),
            members: Members::default(),
            metadata: BTreeMap::new(),
            leads: false,
            doubt_told_from: Duration::ZERO,
            next_tick: Duration::ZERO,
            alarms: KnownAlarms::new(),
            ignored: BTreeSet::new(),
        }
    }

    /// Sets where clients find what they take for a manager. To be told before anything begins.
    pub fn set_manager_addrs(&mut self, addrs: EntityAddrVec) {
        self.volatile.manager_addrs = addrs;
    }

    /// Sets what `ceph mon metadata` shows of this monitor. To be told before anything begins.
    pub fn set_metadata(&mut self, metadata: BTreeMap<String, String>) {
        self.metadata = metadata;
    }

    /// Begins, following nobody yet. Nothing is handled before.
    pub fn start(&mut self, now: Now) {
        self.volatile.now = now.wall;
        self.next_tick = now.since_start + TICK;
        self.map_changed(now);
    }

    /// When a [`Input::Tick`] is next needed.
    pub fn next_wake(&self) -> Duration {
        // While a batch is on its way nothing can be decided; its commit comes without a tick.
        let due = if self.leads && self.proposals.is_idle() { self.osd_changes.due() } else { None };
        due.map_or(self.next_tick, |due| due.min(self.next_tick))
    }

    /// Handles one input, adding what is to be done to `out`.
    pub fn handle(&mut self, now: Now, input: Input, out: &mut Vec<Action>) {
        self.volatile.now = now.wall;
        match input {
            Input::Opened { session, peer } => {
                let mut known = Session::new(peer);
                known.store = known.osd().and_then(|osd| self.store_of(osd));
                self.sessions.insert(session, known);
            }
            Input::OpenedAtManager { session, peer } => {
                self.sessions.insert(session, Session { is_at_manager: true, ..Session::new(peer) });
            }
            Input::Closed { session } => {
                self.sessions.remove(&session);
            }
            Input::Message { session, envelope } => self.message(now, session, &envelope, out),
            Input::Committed { index } => self.committed(now, index, out),
            Input::GlobalIdsLeft(_) if self.leads => self.proposals.want_global_ids(),
            Input::GlobalIdsLeft(_) => {}
            Input::Tick => {
                if now.since_start >= self.next_tick {
                    self.next_tick = now.since_start + TICK;
                    self.tick(now);
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
