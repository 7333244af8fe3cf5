//! The conversation with one OSD.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{ObjectId, OsdId};
use wire::EntityAddrVec;
use wire::basic::SPgId;
use wire::msgr::{Keepalive, Policy, SessionId};

/// Policy of sessions with OSDs. Without keepalives, a connection that has silently ceased to carry anything (a host
/// that lost its power, a firewall that forgot the connection) would stand until TCP gives it up, after a quarter of an
/// hour or never. With them it counts as lost at most 20 s after the last sign of life. Unanswered operations are then
/// sent again, and watches, which OSDs drop after 30 s, are reconnected in time.
pub(super) const OSD_POLICY: Policy = Policy {
    keepalive: Some(Keepalive { interval: Duration::from_secs(5), timeout: Duration::from_secs(15) }),
    ..Policy::LOSSY_CLIENT
};

/// Shortest and longest wait before a lost session is opened again.
const REOPEN_MIN: Duration = Duration::from_millis(50);
const REOPEN_MAX: Duration = Duration::from_secs(2);

/// A range of objects for which an OSD asked to be sent no operations.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Held {
    begin: ObjectId,
    end: ObjectId,
}

/// A session with an OSD and the operations assigned to it.
pub(super) struct OsdSession {
    pub osd: OsdId,
    pub addrs: EntityAddrVec,
    /// `None` while the session waits to be reopened.
    pub session: Option<SessionId>,
    /// Transaction ids of operations whose answer is due from this OSD.
    pub tids: BTreeSet<u64>,
    /// Time at which to reopen the session.
    pub reopen_at: Option<Duration>,
    failures: u32,
    /// Holds by placement group, then by the id that the OSD gave the hold.
    held: BTreeMap<SPgId, BTreeMap<u64, Held>>,
}

impl OsdSession {
    pub fn new(osd: OsdId, addrs: EntityAddrVec, session: SessionId) -> OsdSession {
        OsdSession {
            osd,
            addrs,
            session: Some(session),
            tids: BTreeSet::new(),
            reopen_at: None,
            failures: 0,
            held: BTreeMap::new(),
        }
    }

    pub fn opened(&mut self) {
        self.failures = 0;
    }

    /// Event: the session is over. The wait before reopening doubles with each failure, up to [`REOPEN_MAX`].
    pub fn lost(&mut self, now: Duration) {
        self.session = None;
        // The OSD forgets its holds with the session.
        self.held.clear();
        let wait = REOPEN_MIN * 2u32.saturating_pow(self.failures.min(10));
        self.failures += 1;
        self.reopen_at = Some(now + wait.min(REOPEN_MAX));
    }

    pub fn reopened(&mut self, session: SessionId) {
        self.session = Some(session);
        self.reopen_at = None;
    }

    pub fn hold(&mut self, pg: SPgId, id: u64, begin: ObjectId, end: ObjectId) {
        self.held.entry(pg).or_default().insert(id, Held { begin, end });
    }

    /// Forgets a hold. True if there was one.
    pub fn release(&mut self, pg: SPgId, id: u64) -> bool {
        let Some(of_pg) = self.held.get_mut(&pg) else { return false };
        let found = of_pg.remove(&id).is_some();
        if of_pg.is_empty() {
            self.held.remove(&pg);
        }
        found
    }

    /// True if operations on `object` have to wait. `object` is called only if the group has holds.
    pub fn is_held(&self, pg: SPgId, object: impl FnOnce() -> ObjectId) -> bool {
        let Some(of_pg) = self.held.get(&pg) else { return false };
        let object = object();
        of_pg.values().any(|held| held.begin == object || (held.begin <= object && object < held.end))
    }
}
