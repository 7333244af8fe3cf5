//! A messenger whose connections are authenticated.
//!
//! It answers steps of handshakes by the client's key and tickets, and asks the monitor that is spoken with for new
//! tickets before the old ones expire.

#[cfg(test)]
mod tests;

use super::transport::Transport;
use crate::objecter::Sessions;
use auth::cephx::client::Client;
use auth::messenger::Connector;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, SystemTime};
use types::{AlignedBuf, EntityName, EntityType, Errno, Utime};
use wire::messages::{Auth, AuthReply};
use wire::msgr::{ConnId, Messenger, Output, Policy, SessionId};
use wire::{EntityAddrVec, Envelope, Message, Target};

/// Shortest time between two requests for tickets. It doubles with each request that leaves some missing.
const RENEWAL_PAUSE: Duration = Duration::from_secs(1);
/// Longest time without a look at the clock of the wall, by which tickets expire.
const LOOK_EVERY: Duration = Duration::from_secs(30);

pub(crate) struct Authenticated {
    messenger: Messenger,
    connector: Connector,
    /// The kernel's source of random bytes.
    random: File,
    /// The clock of the wall.
    clock: Box<dyn Fn() -> Utime + Send>,
    /// The session with the monitor that is spoken with.
    monitor: Option<SessionId>,
    /// Time at which tickets are next looked at.
    look_at: Duration,
    /// Time before which no tickets are asked for again, and the pause after the next request.
    quiet_until: Duration,
    pause: Duration,
}

impl Authenticated {
    /// Errors: there is no source of random bytes.
    pub fn new(messenger: Messenger, client: Client) -> std::io::Result<Authenticated> {
        Ok(Authenticated {
            messenger,
            connector: Connector::new(client),
            random: File::open("/dev/urandom")?,
            clock: Box::new(|| Utime::from(SystemTime::now())),
            monitor: None,
            look_at: Duration::ZERO,
            quiet_until: Duration::ZERO,
            pause: RENEWAL_PAUSE,
        })
    }

    fn answer_steps(&mut self, now: Duration) {
        while let Some((conn, step)) = self.messenger.poll_auth() {
            let random = &mut self.random;
            let answer = self.connector.answer(conn, step, (self.clock)(), &mut |out: &mut [u8]| fill(random, out));
            self.messenger.answer(conn, answer, now);
            // A refused ticket is forgotten, and missed at once.
            self.look_at = Duration::ZERO;
        }
    }

    /// Asks for tickets that are missing or grow old.
    fn renew(&mut self, now: Duration) {
        self.look_at = now + self.until_renewal();
        let Some(session) = self.monitor else { return };
        if now < self.quiet_until {
            self.look_at = self.look_at.min(self.quiet_until);
            return;
        }
        let random = &mut self.random;
        let request = self.connector.client.renewal((self.clock)(), &mut |out: &mut [u8]| fill(random, out));
        let Some(payload) = request else {
            self.pause = RENEWAL_PAUSE;
            return;
        };
        let request = Auth { method: auth::Method::Cephx.number(), payload: payload.into(), monmap_epoch: 0 };
        self.messenger.send(session, request.seal(0, Target::PACIFIC));
        self.quiet_until = now + self.pause;
        self.pause = (self.pause * 2).min(LOOK_EVERY);
        self.look_at = self.quiet_until;
    }

    fn until_renewal(&self) -> Duration {
        let renew_at = self.connector.client.renew_at().map(Utime::to_unix);
        let left = renew_at.map_or(LOOK_EVERY, |at| at.saturating_sub((self.clock)().to_unix()));
        left.clamp(RENEWAL_PAUSE, LOOK_EVERY)
    }

    fn renewed(&mut self, envelope: &Envelope) {
        let reply = match AuthReply::open(envelope) {
            Ok(reply) => reply,
            Err(error) => return tracing::warn!(%error, "a monitor's answer about tickets cannot be read"),
        };
        if let Some(errno) = Errno::from_result(reply.result) {
            return tracing::warn!(%errno, status = reply.status, "the monitor gives no tickets");
        }
        match self.connector.client.renewed(&reply.payload, (self.clock)()) {
            Ok(()) => self.look_at = Duration::ZERO,
            Err(error) => tracing::warn!(%error, "the monitor's tickets are of no use"),
        }
    }
}

fn fill(mut random: &File, out: &mut [u8]) {
    random.read_exact(out).expect("the kernel's source of random bytes does not end");
}

impl Sessions for Authenticated {
    fn connect(&mut self, peer: EntityName, addrs: &EntityAddrVec, policy: Policy, now: Duration) -> SessionId {
        self.messenger.connect(peer, addrs, policy, now)
    }

    fn send(&mut self, session: SessionId, envelope: Envelope) {
        self.messenger.send(session, envelope);
    }

    fn close(&mut self, session: SessionId) {
        if self.monitor == Some(session) {
            self.monitor = None;
        }
        self.messenger.close(session);
    }
}

impl Transport for Authenticated {
    fn poll(&mut self) -> Option<Output> {
        loop {
            let output = self.messenger.poll()?;
            match &output {
                Output::Close { conn } => self.connector.closed(*conn),
                Output::Opened { session, peer } if peer.name.kind == EntityType::MON => {
                    (self.monitor, self.look_at) = (Some(*session), Duration::ZERO);
                }
                Output::Reset { session, .. } if self.monitor == Some(*session) => self.monitor = None,
                Output::Message { session, envelope, .. } if envelope.header.kind == AuthReply::TYPE => {
                    if self.monitor == Some(*session) {
                        self.renewed(envelope);
                    }
                    continue;
                }
                _ => {}
            }
            return Some(output);
        }
    }

    fn global_id(&self) -> u64 {
        self.messenger.global_id()
    }

    fn denied(&self) -> Option<Errno> {
        self.connector.denied()
    }

    fn tick(&mut self, now: Duration) {
        self.messenger.tick(now);
        if now >= self.look_at {
            self.renew(now);
        }
    }

    fn next_wake(&self) -> Option<Duration> {
        self.messenger.next_wake().into_iter().chain([self.look_at]).min()
    }

    fn connected(&mut self, conn: ConnId, now: Duration) {
        self.messenger.connected(conn, now);
    }

    fn received(&mut self, conn: ConnId, bytes: &[u8], now: Duration) -> usize {
        let taken = self.messenger.received(conn, bytes, now);
        self.answer_steps(now);
        taken
    }

    fn bulk_wanted(&self, conn: ConnId) -> Option<usize> {
        self.messenger.bulk_wanted(conn)
    }

    fn bulk_received(&mut self, conn: ConnId, buf: AlignedBuf, now: Duration) {
        self.messenger.bulk_received(conn, buf, now);
    }

    fn progressed(&mut self, conn: ConnId, now: Duration) {
        self.messenger.progressed(conn, now);
    }

    fn closed(&mut self, conn: ConnId, cause: &str, now: Duration) {
        self.connector.closed(conn);
        self.messenger.closed(conn, cause, now);
    }
}
