//! Keys of a simulated cluster in which all prove who they are, and a client's part in proving it.

use auth::cephx::client::Client;
use auth::messenger::Connector;
use auth::{ClientPolicy, Key, KeyKind, Method, ServerPolicy};
use mon::bootstrap::first_entities;
use mon::state::{AuthEntry, MONITORS};
use osd::{Credentials, OsdLogin};
use reactor::Io;
use reactor::sim::Rng;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityType, OsdId, Utime};
use wire::basic::AuthName;
use wire::messages::{Auth, AuthReply};
use wire::msgr::{AuthStep, ConnId, Messenger, Output, SessionId};
use wire::{Message, Target};

/// OSDs that have keys, more than any run has OSDs.
const OSDS_MAX: usize = 150;
/// Shortest time between two requests of a client for tickets.
const ASK_PAUSE: Duration = Duration::from_secs(1);

/// Options of clusters with keys: tickets and secrets live for so short a time that they expire again and again.
/// `monitor_s`: the time for which tickets for monitors are good.
pub(crate) fn options(monitor_s: u32) -> [(&'static str, String); 2] {
    [("auth_mon_ticket_ttl", monitor_s.to_string()), ("auth_service_ticket_ttl", "12".to_owned())]
}

/// The keys of all monitors, OSDs and clients.
pub(crate) struct Keys {
    entities: BTreeMap<String, AuthEntry>,
}

impl Keys {
    pub fn new(seed: u64) -> Keys {
        let mut rng = Rng::new(seed ^ 0x6b65_7973);
        let mut fill = |out: &mut [u8]| rng.fill(out);
        let mut entities = first_entities(None, Utime::ZERO, &mut fill).expect("there is no keyring to read");
        for osd in 0..OSDS_MAX {
            let kind = if osd % 2 == 0 { KeyKind::Aes } else { KeyKind::Aes256k };
            let caps = [("mon", "allow profile osd"), ("osd", "allow *")];
            let caps = caps.map(|(service, caps)| (service.to_owned(), caps.to_owned())).into();
            let key = Key::generate(kind, Utime::ZERO, &mut fill);
            entities.insert(format!("osd.{osd}"), AuthEntry { key, pending_key: None, caps });
        }
        Keys { entities }
    }

    pub fn entities(&self) -> BTreeMap<String, AuthEntry> {
        self.entities.clone()
    }

    fn key(&self, name: &str) -> Key {
        self.entities[name].key.clone()
    }

    /// The keyring of a monitor that is made now.
    pub fn of_monitors(&self) -> Vec<Key> {
        self.entities[MONITORS].keys().cloned().collect()
    }

    /// Takes the keys that monitors have now. True if another one has taken the place of the former.
    pub fn replace_of_monitors(&mut self, known: AuthEntry) -> bool {
        let is_other = self.entities[MONITORS].key != known.key;
        self.entities.insert(MONITORS.to_owned(), known);
        is_other
    }

    /// The command by which an operator makes a new key of an OSD.
    pub fn new_key_of_osd(osd: usize) -> String {
        let caps = r#"["mon", "allow profile osd", "osd", "allow *"]"#;
        format!(r#"{{"prefix": "auth get-or-create", "entity": "osd.{osd}", "caps": {caps}}}"#)
    }

    /// Gives an OSD the key that monitors know.
    pub fn set_of_osd(&mut self, osd: usize, known: AuthEntry) {
        self.entities.insert(format!("osd.{osd}"), known);
    }

    /// The key of a party, which it proves from its next start on, is the one that monitors know: the pending one, if
    /// there is one. Returns it if it is another than before.
    pub fn follow(&mut self, entity: &str, known: &AuthEntry) -> Option<Key> {
        let wanted = known.pending_key.as_ref().unwrap_or(&known.key);
        let entry = self.entities.get_mut(entity).filter(|entry| entry.key != *wanted)?;
        entry.key = wanted.clone();
        Some(wanted.clone())
    }

    /// Credentials of an OSD that starts.
    pub fn of_osd(&self, osd: usize) -> Credentials {
        let key = self.key(&format!("osd.{osd}"));
        let (accept, connect) = (ServerPolicy::cephx().into(), ClientPolicy::cephx());
        Credentials::new(OsdId(osd as i32), OsdLogin { accept, connect, key })
    }

    /// The part of a client that starts.
    pub fn of_client(&self) -> ClientProofs {
        let name = AuthName::new(EntityType::CLIENT, "admin");
        let key = self.key("client.admin");
        let client = Client::new(name, Some(key), ClientPolicy::cephx(), &[EntityType::OSD]);
        ClientProofs { connector: Connector::new(client), monitor: None, ask_at: Duration::ZERO }
    }
}

/// A client's part in handshakes, and its tickets.
pub struct ClientProofs {
    connector: Connector,
    /// The session with the monitor that is spoken with.
    monitor: Option<SessionId>,
    ask_at: Duration,
}

impl ClientProofs {
    pub fn answer(&mut self, io: &mut impl Io, messenger: &mut Messenger, conn: ConnId, step: AuthStep) {
        let now = io.wall_clock();
        let answer = self.connector.answer(conn, step, now, &mut |out: &mut [u8]| io.fill_random(out));
        messenger.answer(conn, answer, io.now());
    }

    pub fn closed(&mut self, conn: ConnId) {
        self.connector.closed(conn);
    }

    /// Proves another key from now on.
    pub fn set_key(&mut self, key: Key) {
        self.connector.client.set_key(key);
    }

    /// Asks for tickets that are missing or grow old.
    pub fn renew(&mut self, io: &mut impl Io, messenger: &mut Messenger) {
        let (Some(session), now) = (self.monitor, io.now()) else { return };
        if now < self.ask_at {
            return;
        }
        let wall = io.wall_clock();
        if let Some(payload) = self.connector.client.renewal(wall, &mut |out: &mut [u8]| io.fill_random(out)) {
            let request = Auth { method: Method::Cephx.number(), payload: payload.into(), monmap_epoch: 0 };
            messenger.send(session, request.seal(0, Target::PACIFIC));
            self.ask_at = now + ASK_PAUSE;
        }
    }

    /// Looks at what the messenger says. Returns false if nobody else has to hear of it.
    pub fn is_for_others(&mut self, io: &impl Io, output: &Output) -> bool {
        match output {
            Output::Opened { session, peer } if peer.name.kind == EntityType::MON => self.monitor = Some(*session),
            Output::Reset { session, .. } if self.monitor == Some(*session) => self.monitor = None,
            Output::Message { session, envelope, .. } if envelope.header.kind == AuthReply::TYPE => {
                let reply = AuthReply::open(envelope).expect("monitors write what clients read");
                if self.monitor == Some(*session) && reply.result == 0 {
                    let renewed = self.connector.client.renewed(&reply.payload, io.wall_clock());
                    // An answer to a request that was made before the session was renewed is sealed with the former
                    // key, and of no use any more. Whoever got nothing asks again.
                    if let Err(why) = renewed {
                        tracing::info!("a monitor's tickets are of no use: {why}");
                    }
                }
                return false;
            }
            _ => {}
        }
        true
    }
}
