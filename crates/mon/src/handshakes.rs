//! Handshakes of a monitor's connections: steps of its messengers, answered by the monitor and by its own key.

use crate::Monitor;
use crate::monitor::{Entropy, Now, Said, fill};
use auth::cephx::client::Client;
use auth::messenger::{Connector, answer};
use auth::{ClientPolicy, Key};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use types::EntityType;
use wire::basic::AuthName;
use wire::msgr::{AuthAnswer, AuthStep, ConnId, Messenger};

/// The means by which a monitor proves itself to others. It asks those who connect for proofs by the policy that it was
/// given ([`Monitor::set_auth_policy`]).
pub struct Proofs {
    /// Methods and modes towards other monitors.
    pub connect: ClientPolicy,
    /// The key that monitors share.
    pub key: Option<Key>,
    /// The operating system's random bytes, or a simulation's.
    pub entropy: Entropy,
}

/// The address that connections have come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    Monitor,
    Manager,
}

/// A monitor's part in all handshakes that go on.
pub struct Handshakes {
    connector: Connector,
    entropy: Entropy,
    /// Kinds that those who connect say they are of, and their addresses.
    peers: BTreeMap<ConnId, (EntityType, IpAddr)>,
    /// Requests that wait until the monitor has ids and secrets for tickets.
    waiting: VecDeque<(ConnId, AuthStep)>,
}

impl Handshakes {
    pub fn new(proofs: Proofs) -> Handshakes {
        let Proofs { connect, key, entropy } = proofs;
        let client = Client::new(AuthName::new(EntityType::MON, ""), key, connect, &[]);
        let connector = Connector::among_monitors(client);
        Handshakes { connector, entropy, peers: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// Proves another key from now on.
    pub fn prove(&mut self, key: Key) {
        self.connector.client.set_key(key);
    }

    /// Answers all steps of connections to one of the monitor's addresses.
    pub fn answer_steps(&mut self, now: Now, monitor: &mut Monitor, messenger: &mut Messenger, door: Door) {
        while let Some((conn, step)) = messenger.poll_auth() {
            let wants_id = matches!(step, AuthStep::Request { peer, .. } if peer != EntityType::MON);
            if door == Door::Monitor && wants_id && !monitor.can_let_in() {
                self.waiting.push_back((conn, step));
                continue;
            }
            let answer = self.answer(now, monitor, door, conn, step);
            messenger.answer(conn, answer, now.since_start);
        }
    }

    /// Answers requests that waited for ids or secrets, once there are some. The messenger gives up those that wait for
    /// too long.
    pub fn answer_those_that_wait(&mut self, now: Now, monitor: &mut Monitor, messenger: &mut Messenger) {
        while monitor.can_let_in()
            && let Some((conn, step)) = self.waiting.pop_front()
        {
            let answer = self.answer(now, monitor, Door::Monitor, conn, step);
            messenger.answer(conn, answer, now.since_start);
            self.answer_steps(now, monitor, messenger, Door::Monitor);
        }
    }

    fn answer(&mut self, now: Now, monitor: &mut Monitor, door: Door, conn: ConnId, step: AuthStep) -> AuthAnswer {
        match step {
            AuthStep::Request { peer, addr, method, modes, payload } => {
                self.peers.insert(conn, (peer, addr.ip()));
                self.judge(now, monitor, door, conn, Said::Request { peer, method, modes: &modes, payload: &payload })
            }
            AuthStep::More(payload) => self.judge(now, monitor, door, conn, Said::More(&payload)),
            step => self.connector.answer(conn, step, now.wall, &mut fill(&mut self.entropy)),
        }
    }

    /// The monitor's answer to who connects.
    fn judge(&self, now: Now, monitor: &mut Monitor, door: Door, conn: ConnId, said: Said<'_>) -> AuthAnswer {
        let peer = self.peers.get(&conn);
        let (kind, from) = peer.map_or((EntityType::CLIENT, None), |(kind, ip)| (*kind, Some(*ip)));
        let step = match door {
            Door::Monitor => monitor.authenticate(now, conn, from, said),
            Door::Manager => monitor.authenticate_at_manager(now, conn, from, said),
        };
        // The monitor has written the reason of a refusal to the log.
        answer(step, &monitor.auth_policy(kind), from).0
    }

    /// Forgets the handshake of a connection that is over.
    pub fn hung_up(&mut self, monitor: &mut Monitor, conn: ConnId) {
        self.connector.closed(conn);
        self.waiting.retain(|(of, _)| *of != conn);
        if self.peers.remove(&conn).is_some() {
            monitor.hung_up(conn);
        }
    }
}
