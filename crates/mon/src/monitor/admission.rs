//! The right to send a message: one table for all types.

use super::Monitor;
use super::manager_clients::{MgrClose, MgrOpen, MgrReport};
use super::session::Session;
use crate::MonState;
use auth::caps::{Access, Applications, MonRequest, OsdCaps, OsdRequest};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tracing::info;
use types::EntityType;
use wire::basic::AuthName;
use wire::messages as msg;
use wire::messages::PoolOpKind;
use wire::msgr::SessionId;
use wire::nacre::mon as nacre;
use wire::nacre::quorum;
use wire::{Envelope, Message};

/// The condition under which a party may send a message of some type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Needs {
    /// No condition: the message tells what everybody may know, or its handler checks rights by its content.
    Nothing,
    /// A right for a service, as Ceph's monitors ask for it.
    Right(&'static str, Access),
    /// The party must be an OSD with the rights of one. Handlers check that it does not speak in the name of another
    /// OSD.
    Osd,
    /// The party must be a monitor.
    Monitor,
}

const RULES: &[(u16, Needs)] = &[
    (msg::Auth::TYPE, Needs::Nothing),
    (msg::MonGetMap::TYPE, Needs::Nothing),
    (msg::MonSubscribe::TYPE, Needs::Nothing),
    (msg::MonGetVersion::TYPE, Needs::Nothing),
    (msg::MonCommand::TYPE, Needs::Nothing),
    (msg::Command::TYPE, Needs::Nothing),
    (msg::MgrCommand::TYPE, Needs::Nothing),
    (msg::PoolOp::TYPE, Needs::Nothing),
    (msg::GetConfig::TYPE, Needs::Nothing),
    (msg::Ping::TYPE, Needs::Nothing),
    (MgrOpen::TYPE, Needs::Nothing),
    (MgrReport::TYPE, Needs::Nothing),
    (MgrClose::TYPE, Needs::Nothing),
    (msg::Statfs::TYPE, Needs::Right("pg", Access::R)),
    (msg::GetPoolStats::TYPE, Needs::Right("pg", Access::R)),
    (msg::MonGetOsdMap::TYPE, Needs::Right("osd", Access::R)),
    (msg::Log::TYPE, Needs::Right("log", Access::W)),
    (quorum::GlobalIdsGet::TYPE, Needs::Monitor),
    (nacre::OsdBoot::TYPE, Needs::Osd),
    (nacre::OsdBeacon::TYPE, Needs::Osd),
    (nacre::OsdFailure::TYPE, Needs::Osd),
    (nacre::OsdGoingDown::TYPE, Needs::Osd),
    (nacre::PgHistoryGet::TYPE, Needs::Osd),
    (nacre::PgTemp::TYPE, Needs::Osd),
    (nacre::NewerMapGet::TYPE, Needs::Osd),
    (nacre::PgActivate::TYPE, Needs::Osd),
];

/// Rights that an OSD's messages ask for.
const OF_OSDS: Access = Access { read: false, write: false, execute: true, everything: false };

/// The right to hear of the maps that a subscription is for.
fn heard_by(what: &str) -> Needs {
    match what {
        "osdmap" => Needs::Right("osd", Access::R),
        "osd_pg_creates" => Needs::Right("osd", Access::W),
        _ if what.starts_with("mdsmap") || what.starts_with("fsmap") => Needs::Right("mds", Access::R),
        _ => Needs::Nothing,
    }
}

impl Session {
    fn meets(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::Right(service, access) => self.identity.has(service, access),
            Needs::Osd => self.osd().is_some() && self.identity.has("osd", OF_OSDS),
            Needs::Monitor => self.is_monitor(),
        }
    }

    /// True if a monitor is at the other end. All monitors have one name to prove, or each its own.
    pub fn is_monitor(&self) -> bool {
        let proven = &self.identity.name;
        self.peer.name.kind == EntityType::MON && self.identity.is_daemon(EntityType::MON, &proven.id)
    }

    /// True if the party may hear of the maps that the subscription is for.
    pub fn may_subscribe(&self, what: &str) -> bool {
        self.meets(heard_by(what))
    }

    /// True if the party may have this done with a pool. Snapshots that clients manage are for everybody who may write
    /// to the pool.
    pub fn may_change_pool(&self, state: &MonState, op: &msg::PoolOp) -> bool {
        if ![PoolOpKind::CREATE_UNMANAGED_SNAP, PoolOpKind::DELETE_UNMANAGED_SNAP].contains(&op.op) {
            return self.identity.has("osd", Access::W);
        }
        let id = types::PoolId(op.pool.into());
        let map = state.osdmap();
        let (name, pool) = (map.pool_name(id).unwrap_or_default(), map.pool(id));
        let arguments: BTreeMap<String, String> =
            if name.is_empty() { BTreeMap::new() } else { [("poolname".to_owned(), name.to_owned())].into() };
        let request = MonRequest {
            service: "osd",
            command: "osd pool op unmanaged-snap",
            arguments: &arguments,
            needs: Access::W,
        };
        if self.identity.allows(&request) {
            return true;
        }
        let none = Applications::default();
        let applications = pool.map_or(&none, |pool| &pool.application_metadata);
        may_write(state, &self.identity.name, self.identity.from, (name, applications))
    }
}

/// True if the capabilities for OSDs of an entity let it write to a pool.
fn may_write(state: &MonState, name: &AuthName, from: Option<IpAddr>, pool: (&str, &Applications)) -> bool {
    let entry = state.auth.get(&name.to_string());
    let caps: Option<OsdCaps> = entry.and_then(|entry| entry.caps.get("osd")).and_then(|text| text.parse().ok());
    let (pool, applications) = pool;
    let request =
        OsdRequest { pool, namespace: "", applications, object: "", reads: false, writes: true, classes: &[] };
    caps.is_some_and(|caps| caps.allows(from, &request))
}

impl Monitor {
    /// True if the party at the other end may send messages of this type. Those that have no rule are ignored later.
    pub(super) fn may_send(&self, session: SessionId, kind: u16) -> bool {
        let known = &self.sessions[&session];
        let rule = RULES.iter().find(|(of, _)| *of == kind);
        let may = rule.is_none_or(|(_, needs)| known.meets(*needs));
        if !may {
            let (peer, name) = (&known.peer, &known.identity.name);
            info!("{} ({name}) at {}: has no right to send messages of type {kind}, dropped", peer.name, peer.addrs);
        }
        may
    }

    /// Returns true if an OSD is at the other end of a session and says this of itself.
    pub fn is_own_beacon(&self, session: SessionId, envelope: &Envelope) -> bool {
        self.sessions.contains_key(&session)
            && self.may_send(session, nacre::OsdBeacon::TYPE)
            && nacre::OsdBeacon::open(envelope).is_ok_and(|beacon| self.speaks_for(session, beacon.osd))
    }

    /// Returns true if a monitor is at the other end of a session.
    pub fn is_monitor(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(Session::is_monitor)
    }
}
