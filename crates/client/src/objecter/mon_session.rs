//! Finding a monitor and keeping a session with it.

use super::sessions::Sessions;
use std::time::Duration;
use types::EntityName;
use wire::EntityAddrVec;
use wire::msgr::{Policy, SessionId};

/// Monitors dialled at once; the first to answer is kept.
const PARALLEL: usize = 3;
/// Longest time of a round before other monitors are dialled.
const ROUND: Duration = Duration::from_secs(3);
/// Shortest and longest pause between rounds; the pause grows with each failed round.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// A session that ends sooner than this after dialling counts as a failed round: a monitor that knows of no leader
/// closes sessions at once.
const LASTING: Duration = Duration::from_secs(1);

/// Hunts for a monitor: dials some at once, keeps the first that answers, and dials others if none does.
pub(super) struct MonSession {
    candidates: Vec<EntityAddrVec>,
    next: usize,
    dialling: Vec<SessionId>,
    open: Option<SessionId>,
    /// Time when the present round is given up, or the next one begins.
    due: Option<Duration>,
    failed_rounds: u32,
    /// Time when monitors were last dialled.
    dialled_at: Duration,
    random: u64,
    /// The reason why the last attempt failed, for people.
    pub last_failure: String,
}

impl MonSession {
    pub fn new(candidates: Vec<EntityAddrVec>, seed: u64) -> MonSession {
        let mut hunt = MonSession {
            candidates: Vec::new(),
            next: 0,
            dialling: Vec::new(),
            open: None,
            due: None,
            failed_rounds: 0,
            dialled_at: Duration::ZERO,
            random: seed | 1,
            last_failure: String::new(),
        };
        hunt.set_candidates(candidates);
        hunt
    }

    /// Replaces the monitors' addresses, in random order, so that clients spread over the monitors. An open session
    /// stays.
    pub fn set_candidates(&mut self, mut candidates: Vec<EntityAddrVec>) {
        for last in (1..candidates.len()).rev() {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            candidates.swap(last, (self.random >> 33) as usize % (last + 1));
        }
        self.candidates = candidates;
        self.next = 0;
    }

    pub fn session(&self) -> Option<SessionId> {
        self.open
    }

    pub fn owns(&self, session: SessionId) -> bool {
        self.open == Some(session) || self.dialling.contains(&session)
    }

    pub fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Dials the next monitors.
    pub fn start_round(&mut self, link: &mut impl Sessions, now: Duration) {
        for session in self.dialling.drain(..) {
            link.close(session);
        }
        for _ in 0..self.candidates.len().min(PARALLEL) {
            let addrs = &self.candidates[self.next % self.candidates.len()];
            self.next = (self.next + 1) % self.candidates.len();
            // The rank is not known before the monitor tells it.
            self.dialling.push(link.connect(EntityName::mon(-1), addrs, Policy::MON_CLIENT, now));
        }
        self.dialled_at = now;
        self.due = Some(now + ROUND);
    }

    /// Event: a session is open. Returns false if another session was open already: the new one is closed.
    pub fn opened(&mut self, session: SessionId, link: &mut impl Sessions) -> bool {
        if self.open.is_some() {
            self.dialling.retain(|s| *s != session);
            link.close(session);
            return false;
        }
        for other in self.dialling.drain(..).filter(|other| *other != session) {
            link.close(other);
        }
        self.open = Some(session);
        self.due = None;
        true
    }

    /// Event: a session is over.
    pub fn lost(&mut self, session: SessionId, reason: String, now: Duration) {
        self.last_failure = reason;
        if self.open == Some(session) {
            self.open = None;
            if now >= self.dialled_at + LASTING {
                self.failed_rounds = 0;
            }
            // After the first failure the next monitor is dialled at once, as it may work; after further failures there
            // is a pause.
            let pause = self.pause();
            self.due = Some(if self.failed_rounds == 1 { now } else { now + pause });
        } else {
            self.dialling.retain(|s| *s != session);
            if self.dialling.is_empty() && self.open.is_none() {
                self.due = Some(now + self.pause());
            }
        }
    }

    fn pause(&mut self) -> Duration {
        let pause = PAUSE_MIN * 2u32.saturating_pow(self.failed_rounds.min(10));
        self.failed_rounds += 1;
        pause.min(PAUSE_MAX)
    }

    /// Begins the next round if it is time.
    pub fn tick(&mut self, link: &mut impl Sessions, now: Duration) {
        if self.due.is_some_and(|due| due <= now) {
            self.start_round(link, now);
        }
    }
}
