//! The conversation with one OSD.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{ObjectId, OsdId};
use wire::EntityAddrVec;
use wire::basic::SPgId;
use wire::msgr::{Keepalive, Policy, SessionId};

/// Towards an OSD. A connection that has silently ceased to carry anything (a host that lost its power, a firewall that forgot
/// it) would otherwise be waited for until TCP gives it up, for a quarter of an hour or for ever. It counts as lost at most
/// 20 s after the last sign of life; what waits for an answer is then sent again, and watches, which OSDs drop after 30 s, are
/// connected again in time.
pub(super) const OSD_POLICY: Policy = Policy {
    keepalive: Some(Keepalive { interval: Duration::from_secs(5), timeout: Duration::from_secs(15) }),
    ..Policy::LOSSY_CLIENT
};

/// First and longest wait before a lost session is opened again.
const REOPEN_MIN: Duration = Duration::from_millis(50);
const REOPEN_MAX: Duration = Duration::from_secs(2);

/// Objects for which an OSD asked to be sent nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Held {
    begin: ObjectId,
    end: ObjectId,
}

/// A session with an OSD and the operations that were given to it.
pub(super) struct OsdSession {
    pub osd: OsdId,
    pub addrs: EntityAddrVec,
    /// `None` while waiting to open it again.
    pub session: Option<SessionId>,
    /// Transaction ids of operations whose answer is due from this OSD.
    pub tids: BTreeSet<u64>,
    /// When to open the session again.
    pub reopen_at: Option<Duration>,
    failures: u32,
    /// By placement group, then by the OSD's id.
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

    /// The session is over: waits longer each time it cannot be opened.
    pub fn lost(&mut self, now: Duration) {
        self.session = None;
        // The OSD forgets what it asked for, too.
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

    /// Whether operations on `object` are to wait; the object is only named when there is something to compare with.
    pub fn is_held(&self, pg: SPgId, object: impl FnOnce() -> ObjectId) -> bool {
        let Some(of_pg) = self.held.get(&pg) else { return false };
        let object = object();
        of_pg.values().any(|held| held.begin == object || (held.begin <= object && object < held.end))
    }
}
