//! The session with a monitor.

use std::time::Duration;
use types::{EntityName, Epoch};
use wire::messages::{MonSubscribe, Subscription};
use wire::msgr::{Messenger, Policy, SessionId};
use wire::{EntityAddrVec, Envelope, Message, Target};

/// Time after which the next monitor is tried.
const HUNT_EVERY: Duration = Duration::from_secs(2);

/// Finds a monitor, stays with it, and finds another when it is lost.
pub(crate) struct MonitorLink {
    monitors: Vec<EntityAddrVec>,
    /// Index of the next monitor to try.
    next: usize,
    session: Option<SessionId>,
    open: bool,
    tried_at: Duration,
}

impl MonitorLink {
    pub fn new(monitors: Vec<EntityAddrVec>, first: usize) -> MonitorLink {
        let next = first % monitors.len().max(1);
        MonitorLink { monitors, next, session: None, open: false, tried_at: Duration::ZERO }
    }

    /// Begins with the first monitor, or goes on to the next one if the last did not answer.
    pub fn hunt(&mut self, messenger: &mut Messenger, now: Duration) {
        let due = self.session.is_none() || now >= self.tried_at + HUNT_EVERY;
        if self.open || !due || self.monitors.is_empty() {
            return;
        }
        if let Some(session) = self.session.take() {
            messenger.close(session);
        }
        let rank = self.next;
        self.next = (self.next + 1) % self.monitors.len();
        self.tried_at = now;
        let name = EntityName::mon(rank as i64);
        self.session = Some(messenger.connect(name, &self.monitors[rank], Policy::MON_CLIENT, now));
    }

    pub fn is(&self, session: SessionId) -> bool {
        self.session == Some(session)
    }

    pub fn is_open(&self) -> bool {
        self.open
    }

    pub fn opened(&mut self) {
        self.open = true;
    }

    pub fn lost(&mut self) {
        (self.session, self.open) = (None, false);
    }

    /// Sends an envelope if there is a session.
    pub fn send(&self, messenger: &mut Messenger, envelope: Envelope) {
        if let (Some(session), true) = (self.session, self.open) {
            messenger.send(session, envelope);
        }
    }

    /// Sets the monitors. An open session stays.
    pub fn are_now(&mut self, monitors: Vec<EntityAddrVec>) {
        if !monitors.is_empty() && monitors != self.monitors {
            self.next %= monitors.len();
            self.monitors = monitors;
        }
    }

    /// Subscribes to the monitor map, to this OSD's options, and to OSD maps from epoch `from` on. 0: the newest map,
    /// whole, and all that follow.
    pub fn subscribe(&self, messenger: &mut Messenger, from: Epoch) {
        let start = |start: u64| Subscription { start, onetime: false };
        let what = [
            ("osdmap".to_owned(), start(from.0.into())),
            ("monmap".to_owned(), start(0)),
            ("config".to_owned(), start(0)),
        ];
        let what = what.into_iter().collect();
        self.send(messenger, MonSubscribe { what, hostname: String::new() }.seal(0, Target::default()));
    }
}
