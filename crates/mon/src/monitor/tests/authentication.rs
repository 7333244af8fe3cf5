//! Parties that prove who they are, and parties that do not. The counterpart is `auth`'s own client, and what Ceph's
//! clients said.

use super::harness::*;
use super::prelude::*;
use crate::Update;
use crate::bootstrap::first_entities;
use crate::commands::Reply;
use crate::state::AuthEntry;
use auth::cephx::client::Client;
use auth::cephx::service::{ServiceAccept, ServiceView};
use auth::clock::TOLERANCE;
use auth::messenger::Connector;
use auth::{Accepted, ClientPolicy, Granted, Key, KeyKind, Method, Mode, NoneFrom, Refusal, ServerPolicy, Step};
use serde_json::Value;
use wire::msgr::{AuthAnswer, AuthStep, ConnId, Rights};

pub(super) const SERVICES: [EntityType; 3] = [EntityType::MON, EntityType::OSD, EntityType::MGR];

pub(super) fn entropy(seed: u8) -> impl FnMut(&mut [u8]) {
    let mut next = seed;
    move |out: &mut [u8]| {
        for byte in out {
            next = next.wrapping_mul(29).wrapping_add(71);
            *byte = next;
        }
    }
}

pub(super) fn name_of(text: &str) -> AuthName {
    auth::keyring::parse_entity(text).unwrap()
}

/// An entity: name, kind of its key, capabilities by service.
pub(super) type Known<'a> = (&'a str, KeyKind, &'a [(&'a str, &'a str)]);

/// A monitor that asks for proofs, in a cluster where these entities are known.
pub(super) fn asking(entities: &[Known<'_>]) -> Harness {
    let mut state = MonState::default();
    let mut first = first_batch();
    let now = Utime { sec: 1_000_000, nsec: 0 };
    let mut known = first_entities(None, now, &mut entropy(3)).unwrap();
    for (number, (name, kind, caps)) in entities.iter().enumerate() {
        let caps = caps.iter().map(|(service, caps)| ((*service).to_owned(), (*caps).to_owned())).collect();
        let key = Key::generate(*kind, now, &mut entropy(number as u8 + 100));
        known.insert((*name).to_owned(), AuthEntry { key, pending_key: None, caps });
    }
    first.updates.extend(known.into_iter().map(|(entity, entry)| Update::Auth { entity, entry: Some(entry) }));
    state.apply(1, &first);
    asking_from(state, vec![(1, first.to_vec(Target::PACIFIC).into())])
}

fn asking_from(state: MonState, log: Vec<(u64, Bytes)>) -> Harness {
    let mut h = Harness::continuing(state, log);
    h.monitor.set_auth_policy(ServerPolicy::cephx(), &[]);
    for ids in h.ids.clone() {
        h.monitor.take_global_ids(ids);
    }
    h.pass(secs(2));
    h
}

/// The peer of a session that was accepted so, and says that it is `says`.
pub(super) fn peer_of(accepted: &Accepted, says: EntityName, session: SessionId) -> Peer {
    Peer {
        name: says,
        auth_name: accepted.name.clone(),
        rights: Rights::Caps("".into()),
        addrs: EntityAddrVec::default(),
        features: features::PACIFIC,
        global_id: accepted.global_id,
        lossy: true,
        global_seq: session.0,
    }
}

impl Harness {
    pub(super) fn party(&self, name: &str) -> Client {
        let key = self.monitor.state.auth[name].key.clone();
        Client::new(name_of(name), Some(key), ClientPolicy::cephx(), &SERVICES)
    }

    /// Has a client prove who it is over connection `conn`.
    pub(super) fn meet(&mut self, conn: u64, client: &mut Client) -> Result<Box<Accepted>, Refusal> {
        let (at, conn, from) = (self.at(), ConnId(conn), Some("10.0.0.7".parse().unwrap()));
        let mut connect = client.connect_monitor(Method::Cephx).unwrap();
        let request = connect.request();
        let modes: Vec<u32> = request.modes.iter().map(|mode| mode.number()).collect();
        let said = Said::Request {
            peer: EntityType::CLIENT,
            method: request.method.number(),
            modes: &modes,
            payload: &request.payload,
        };
        let challenge = match self.monitor.authenticate(at, conn, from, said) {
            Step::More(challenge) => challenge,
            Step::Refused(refusal) => return Err(refusal),
            Step::Accepted(_) => panic!("nothing is proven yet"),
        };
        let more = connect.more(&challenge, &mut entropy(conn.0 as u8)).unwrap();
        match self.monitor.authenticate(at, conn, from, Said::More(&more)) {
            Step::Accepted(accepted) => {
                let connected =
                    connect.done(accepted.global_id, accepted.mode.number(), &accepted.payload, at.wall).unwrap();
                assert_eq!(connected.session_key, accepted.session_key);
                assert_eq!(connected.connection_secret, accepted.connection_secret);
                client.keep(&connected);
                Ok(accepted)
            }
            Step::Refused(refusal) => Err(refusal),
            Step::More(_) => panic!("everything is said"),
        }
    }

    /// Opens the session of an accepted peer, which says that it is `says`.
    pub(super) fn begin(&mut self, accepted: &Accepted, says: EntityName) -> SessionId {
        let session = self.begin_without_map(accepted, says);
        self.say(session, msg::MonGetMap);
        assert_eq!(self.heard::<msg::MonMap>(session).len(), 1);
        session
    }

    /// Opens the session of a party that has not asked for the monitor map yet, as Ceph's clients do first.
    pub(super) fn begin_without_map(&mut self, accepted: &Accepted, says: EntityName) -> SessionId {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        self.input(MonitorInput::Opened { session, peer: peer_of(accepted, says, session) });
        session
    }

    pub(super) fn join(&mut self, conn: u64, name: &str, says: EntityName) -> SessionId {
        let mut client = self.party(name);
        let accepted = self.meet(conn, &mut client).unwrap();
        self.begin(&accepted, says)
    }

    fn ask(&mut self, session: SessionId, payload: Vec<u8>) -> msg::AuthReply {
        self.say(session, msg::Auth { method: 2, payload: payload.into(), monmap_epoch: 1 });
        self.heard(session).pop().expect("an answer")
    }

    /// Has a client show its ticket to an OSD that has the present secrets.
    pub(super) fn reach(&mut self, client: &Client) -> Result<Box<Accepted>, Refusal> {
        let policy = ServerPolicy::cephx();
        let secrets = self.monitor.state.service_secrets[&EntityType::OSD].clone();
        let mut drawn = entropy(50);
        let mut view = ServiceView {
            service: EntityType::OSD,
            policy: &policy,
            secrets: &secrets,
            now: self.at().wall,
            tolerance: TOLERANCE,
            peer: None,
            entropy: &mut drawn,
        };
        let mut connect = client.connect_service(EntityType::OSD, Method::Cephx, &mut entropy(60)).unwrap();
        let request = connect.request(&mut entropy(61));
        let (step, accept) = ServiceAccept::begin(&mut view, 2, &[1], &request.payload);
        let challenge = match step {
            Step::More(challenge) => challenge,
            Step::Refused(refusal) => return Err(refusal),
            Step::Accepted(_) => panic!("nothing is proven yet"),
        };
        let more = connect.more(&challenge, &mut entropy(62)).unwrap();
        match accept.unwrap().more(&mut view, &more) {
            Step::Accepted(accepted) => Ok(accepted),
            Step::Refused(refusal) => Err(refusal),
            Step::More(_) => panic!("everything is said"),
        }
    }
}

#[test]
fn who_has_a_key_gets_an_id_rights_and_tickets() {
    let mut h = asking(&[
        ("client.new", KeyKind::Aes256k, &[("mon", "allow r"), ("osd", "allow rw pool=x")]),
        ("osd.3", KeyKind::Aes, &[("mon", "allow profile osd")]),
    ]);
    let mut client = h.party("client.new");
    let accepted = h.meet(2, &mut client).unwrap();
    assert_eq!((accepted.mode, accepted.caps.clone()), (Mode::Secure, Granted::Text("allow r".to_owned())));
    assert_eq!(h.reach(&client).unwrap().caps, Granted::Text("allow rw pool=x".to_owned()));
    let session = h.begin(&accepted, EntityName::client(accepted.global_id));
    assert_eq!(h.command(session, r#"{"prefix":"fsid"}"#).result, 0);

    h.pass(secs(3 * 3600 / 4 + 60));
    let request = client.renewal(h.at().wall, &mut entropy(9)).expect("the OSD's ticket grows old");
    let reply = h.ask(session, request);
    assert_eq!((reply.result, reply.global_id), (0, accepted.global_id));
    client.renewed(&reply.payload, h.at().wall).unwrap();
    assert!(h.reach(&client).is_ok());

    let mut osd = h.party("osd.3");
    let accepted = h.meet(4, &mut osd).unwrap();
    let session = h.begin(&accepted, EntityName::osd(OsdId(3)));
    let reply = h.ask(session, Client::secrets_request());
    assert_eq!(osd.open_secrets(&reply.payload).unwrap(), h.monitor.state.service_secrets[&EntityType::OSD]);
    let client = h.join(6, "client.new", EntityName::client(1));
    assert_eq!(h.ask(client, Client::secrets_request()).result, Errno::EAGAIN.as_result());
    h.say(client, msg::Auth { method: 9, payload: Bytes::new(), monmap_epoch: 1 });
    assert_eq!(h.heard::<msg::AuthReply>(client)[0].result, Errno::EOPNOTSUPP.as_result());
}

#[test]
fn who_proves_nothing_may_do_nothing() {
    let mut h = asking(&[("client.new", KeyKind::Aes, &[("mon", "allow *")])]);
    let mut stranger = Client::new(
        name_of("client.new"),
        Some(Key::generate(KeyKind::Aes, h.at().wall, &mut entropy(7))),
        ClientPolicy::cephx(),
        &SERVICES,
    );
    assert_eq!(h.meet(2, &mut stranger).unwrap_err(), Refusal::WrongKey(name_of("client.new")));
    let none = Said::Request { peer: EntityType::CLIENT, method: 1, modes: &[1], payload: &[] };
    let at = h.at();
    assert!(matches!(h.monitor.authenticate(at, ConnId(4), None, none), Step::Refused(Refusal::Method(1))));
    assert!(matches!(h.monitor.authenticate(at, ConnId(4), None, Said::More(&[1])), Step::Refused(Refusal::OutOfTurn)));
    // A session that comes all the same is of nobody.
    for kind in [EntityType::CLIENT, EntityType::OSD, EntityType::MON] {
        let session = h.open(kind, 0);
        assert_eq!(h.command(session, r#"{"prefix":"fsid"}"#).result, Errno::EACCES.as_result());
        let epoch = h.map().epoch;
        h.say(session, boot_message(0, "host", 1));
        h.pass(secs(1));
        assert_eq!(h.map().epoch, epoch);
        assert!(!h.monitor.is_monitor(session));
        h.say(session, subscribe(&[("osdmap", 0, false)]));
        assert!(h.heard::<msg::OsdMap>(session).is_empty());
        h.say(session, msg::Statfs { have: 0, fsid: FSID, pool: None });
        assert!(h.heard::<msg::StatfsReply>(session).is_empty());
    }
    // The ids of others are of no use to somebody else.
    let mut owner = h.party("client.new");
    let accepted = h.meet(6, &mut owner).unwrap();
    let mut other = accepted.clone();
    other.name = name_of("client.other");
    let session = h.begin(&other, EntityName::client(1));
    assert_eq!(h.command(session, r#"{"prefix":"fsid"}"#).result, Errno::EACCES.as_result());
    let session = h.begin(&accepted, EntityName::client(1));
    assert_eq!(h.command(session, r#"{"prefix":"fsid"}"#).result, 0);
}

#[test]
fn capabilities_decide_on_commands_and_messages() {
    let mut h = asking(&[
        ("client.r", KeyKind::Aes, &[("mon", "allow r"), ("osd", "allow rw pool=p1")]),
        ("client.w", KeyKind::Aes, &[("mon", "allow rw")]),
        ("client.x", KeyKind::Aes, &[("mon", "allow rwx")]),
        ("client.auth", KeyKind::Aes, &[("mon", "allow service auth rwx")]),
        ("client.rbd", KeyKind::Aes, &[("mon", "profile rbd"), ("osd", "profile rbd pool=p1")]),
        ("client.far", KeyKind::Aes, &[("mon", "allow rw network 192.168.0.0/16")]),
        ("client.near", KeyKind::Aes, &[("mon", "allow rw network 10.0.0.0/8")]),
    ]);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    for pool in ["p1", "p2"] {
        let made = format!(r#"{{"prefix":"osd pool create","pool":"{pool}","pg_num":8}}"#);
        assert_eq!(h.command(admin, &made).result, 0);
    }
    let p1 = h.map().pool_by_name("p1").unwrap();
    let p2 = h.map().pool_by_name("p2").unwrap();
    let denied = Errno::EACCES.as_result();
    let fence = r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.9:0/123"}"#;
    let unfence = r#"{"prefix":"osd blocklist","blocklistop":"rm","addr":"10.0.0.9:0/123"}"#;
    let commands = [
        r#"{"prefix":"osd dump","format":"json"}"#,
        r#"{"prefix":"osd set","key":"noout"}"#,
        r#"{"prefix":"auth ls"}"#,
        r#"{"prefix":"config-key set","key":"a","val":"b"}"#,
        fence,
        unfence,
        r#"{"prefix":"auth get-or-create","entity":"client.n"}"#,
        r#"{"prefix":"osd set"}"#,
    ];
    let expected: &[(&str, [bool; 8])] = &[
        ("client.r", [true, false, false, false, false, false, false, false]),
        ("client.w", [true, true, false, false, true, true, false, true]),
        ("client.x", [true, true, true, false, true, true, true, true]),
        ("client.auth", [false, false, true, false, false, false, true, false]),
        ("client.rbd", [true, false, false, false, true, false, false, false]),
        ("client.far", [false; 8]),
        ("client.near", [true, true, false, false, true, true, false, true]),
        ("client.admin", [true; 8]),
    ];
    for (number, (name, may)) in expected.iter().enumerate() {
        let session = h.join(100 + 2 * number as u64, name, EntityName::client(1));
        for (command, may) in commands.iter().zip(may) {
            let reply = h.command(session, command);
            assert_eq!(reply.result != denied, *may, "{name}: {command}: {} {}", reply.result, reply.status);
            assert!(*may || reply.status == "access denied", "{}", reply.status);
        }
        // To one monitor in person speaks who may do everything with monitors.
        let cmd = vec![r#"{"prefix":"mon_status"}"#.to_owned()];
        h.say(session, msg::Command { fsid: FSID, cmd, input: Default::default() });
        let told = h.heard::<msg::CommandReply>(session)[0].result != denied;
        assert_eq!(told, ["client.x", "client.admin"].contains(name), "{name}");
        assert_eq!(h.command(session, r#"{"prefix":"no such"}"#).result, Errno::EINVAL.as_result());
        assert_eq!(h.command(session, r#"{"prefix":"get_command_descriptions"}"#).result, 0);

        h.say(session, msg::Statfs { have: 0, fsid: FSID, pool: None });
        assert_eq!(h.heard::<msg::StatfsReply>(session).len() == 1, may[0], "{name}");
        h.say(session, subscribe(&[("osdmap", 0, false), ("monmap", 0, false)]));
        assert_eq!(h.heard::<msg::OsdMap>(session).is_empty(), !may[0], "{name}");
        assert_eq!(h.heard::<msg::MonMap>(session).len(), 1, "{name}");

        let eperm = Errno::EPERM.as_result();
        let snap = h.snap_op(session, msg::PoolOpKind::CREATE_SNAP, p1.0 as u32, name, 0).result;
        assert_eq!(snap != eperm, may[1], "{name}");
        for (pool, writes) in [(p1, may[1] || ["client.r", "client.rbd"].contains(name)), (p2, may[1])] {
            let made = h.snap_op(session, msg::PoolOpKind::CREATE_UNMANAGED_SNAP, pool.0 as u32, "", 0).result;
            assert_eq!(made != eperm, writes, "{name} in {pool:?}");
        }
        let line = msg::LogEntry { seq: 1, message: "x".to_owned(), ..msg::LogEntry::default() };
        h.say(session, msg::Log { have: 0, fsid: FSID, entries: vec![line] });
        assert_eq!(h.heard::<msg::LogAck>(session).len() == 1, may[1], "{name}");
        let ids = wire::nacre::quorum::GlobalIdsGet { left: 0 };
        h.say(session, ids);
    }
}

#[test]
fn an_osd_speaks_for_itself_alone() {
    let osd = &[("mon", "allow profile osd"), ("osd", "allow *")][..];
    let mut h = asking(&[
        ("osd.1", KeyKind::Aes256k, osd),
        ("osd.2", KeyKind::Aes, osd),
        ("osd.4", KeyKind::Aes, &[("mon", "allow r")]),
    ]);
    let boots = |h: &mut Harness, session: SessionId, id: i32| {
        h.say(session, boot_message(id, &format!("host{id}"), 1));
        h.pass(secs(2));
        h.map().is_up(OsdId(id))
    };
    // A key of an OSD is of no use to act as another one, or as a monitor; a client's is of no use to act as an OSD.
    let as_other = h.join(2, "osd.1", EntityName::osd(OsdId(2)));
    assert!(!boots(&mut h, as_other, 2) && !boots(&mut h, as_other, 1));
    let one = h.join(4, "osd.1", EntityName::osd(OsdId(1)));
    assert!(!boots(&mut h, one, 2));
    let as_monitor = h.join(6, "osd.1", EntityName::mon(0));
    assert!(!h.monitor.is_monitor(as_monitor));
    let admin = h.join(8, "client.admin", EntityName::osd(OsdId(2)));
    assert!(!boots(&mut h, admin, 2));
    let weak = h.join(10, "osd.4", EntityName::osd(OsdId(4)));
    assert!(!boots(&mut h, weak, 4));
    let monitor = h.join(12, "mon.", EntityName::mon(0));
    assert!(h.monitor.is_monitor(monitor));

    assert!(boots(&mut h, one, 1));
    let two = h.join(14, "osd.2", EntityName::osd(OsdId(2)));
    assert!(boots(&mut h, two, 2));
    let beacon = |of: i32| {
        let (epoch, stats) = (Epoch(1), nacre::OsdStats::default());
        nacre::OsdBeacon { osd: OsdId(of), epoch, stats, pgs: Vec::new(), options: None, pings: None }
            .seal(0, Target::PACIFIC)
    };
    for (session, of, own) in
        [(one, 1, true), (one, 2, false), (two, 2, true), (as_other, 2, false), (as_other, 1, false), (admin, 2, false)]
    {
        assert_eq!(h.monitor.is_own_beacon(session, &beacon(of)), own, "{session:?} of {of}");
    }
    h.say(one, nacre::OsdGoingDown { osd: OsdId(2), public_addrs: addrs(2, 1), epoch: Epoch(1) });
    h.pass(secs(1));
    assert!(h.map().is_up(OsdId(2)));
}

#[test]
fn a_removed_or_replaced_key_is_dead_at_once() {
    let osd = &[("mon", "allow profile osd"), ("osd", "allow *")][..];
    let mut h = asking(&[("osd.0", KeyKind::Aes, osd), ("client.c", KeyKind::Aes, &[("mon", "allow rw")])]);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let mut owner = h.party("osd.0");
    let accepted = h.meet(4, &mut owner).unwrap();
    let session = h.begin(&accepted, EntityName::osd(OsdId(0)));
    h.say(session, boot_message(0, "host0", 1));
    h.pass(secs(2));
    assert_eq!(h.command(admin, r#"{"prefix":"osd down","ids":["0"]}"#).result, 0);
    assert_eq!(h.command(admin, r#"{"prefix":"osd purge","id":0,"yes_i_really_mean_it":true}"#).status, "purged osd.0");
    assert_eq!(h.closed, [session]);
    assert_eq!(h.meet(6, &mut owner).unwrap_err(), Refusal::UnknownEntity(name_of("osd.0")));

    let mut before = h.party("client.c");
    let accepted = h.meet(8, &mut before).unwrap();
    let session = h.begin(&accepted, EntityName::client(9));
    let noout = r#"{"prefix":"osd set","key":"noout"}"#;
    assert_eq!(h.command(session, noout).result, 0);
    // Fewer capabilities count at once.
    assert_eq!(h.command(admin, r#"{"prefix":"auth caps","entity":"client.c","caps":["mon","allow r"]}"#).result, 0);
    assert_eq!(h.command(session, noout).result, Errno::EACCES.as_result());
    // A pending key is good beside the present one, and the only one once it is made that.
    assert_eq!(h.command(admin, r#"{"prefix":"auth get-or-create-pending","entity":"client.c"}"#).result, 0);
    let pending = h.monitor.state.auth["client.c"].pending_key.clone();
    let mut after = Client::new(name_of("client.c"), pending, ClientPolicy::cephx(), &SERVICES);
    let accepted = h.meet(10, &mut after).unwrap();
    let by_pending = h.begin(&accepted, EntityName::client(10));
    assert!(h.meet(12, &mut before).is_ok());
    assert!(!h.closed.contains(&session));
    assert_eq!(h.command(admin, r#"{"prefix":"auth commit-pending","entity":"client.c"}"#).result, 0);
    assert!(h.closed.contains(&session) && !h.closed.contains(&by_pending));
    assert_eq!(h.meet(14, &mut before).unwrap_err(), Refusal::WrongKey(name_of("client.c")));
    assert!(h.meet(16, &mut after).is_ok());
    assert_eq!(h.command(by_pending, r#"{"prefix":"fsid"}"#).result, 0);
}

/// Has another monitor prove `key` over connection `conn`.
pub(super) fn meet_as_monitor(h: &mut Harness, conn: u64, key: &Key) -> Result<Box<Accepted>, Refusal> {
    let (at, conn, from) = (h.at(), ConnId(conn), Some("10.0.0.8".parse().unwrap()));
    let mut connector =
        Connector::among_monitors(Client::new(name_of("mon."), Some(key.clone()), ClientPolicy::cephx(), &[]));
    let begin = AuthStep::Begin { to: EntityType::MON };
    let AuthAnswer::Request { method, modes, payload } = connector.answer(conn, begin, at.wall, &mut entropy(3)) else {
        panic!("a monitor with a key can ask")
    };
    let said = Said::Request { peer: EntityType::MON, method, modes: &modes, payload: &payload };
    let challenge = match h.monitor.authenticate(at, conn, from, said) {
        Step::More(challenge) => challenge,
        Step::Refused(refusal) => return Err(refusal),
        Step::Accepted(_) => panic!("nothing is proven yet"),
    };
    let step = AuthStep::Challenge(challenge.into());
    let AuthAnswer::More(more) = connector.answer(conn, step, at.wall, &mut entropy(4)) else { panic!("no answer") };
    match h.monitor.authenticate(at, conn, from, Said::More(&more)) {
        Step::Accepted(accepted) => Ok(accepted),
        Step::Refused(refusal) => Err(refusal),
        Step::More(_) => panic!("everything is said"),
    }
}

#[test]
fn monitors_take_another_key_in_two_steps() {
    let mut h = asking(&[]);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let old = h.monitor.state.auth["mon."].key.clone();
    let accepted = meet_as_monitor(&mut h, 4, &old).unwrap();
    let peer = h.begin(&accepted, EntityName::mon(1));
    assert!(h.monitor.is_monitor(peer));
    assert_eq!(h.command(admin, r#"{"prefix":"auth rotate","entity":"mon."}"#).result, Errno::EINVAL.as_result());
    assert_eq!(h.command(admin, r#"{"prefix":"auth get-or-create-pending","entity":"mon."}"#).result, 0);
    let new = h.monitor.state.auth["mon."].pending_key.clone().unwrap();
    assert_eq!(h.keyring, [old.clone(), new.clone()]);
    for (conn, key) in [(6, &old), (7, &new)] {
        assert!(meet_as_monitor(&mut h, conn, key).is_ok());
    }
    assert_eq!(h.command(admin, r#"{"prefix":"auth commit-pending","entity":"mon."}"#).result, 0);
    assert_eq!(h.keyring, std::slice::from_ref(&new));
    let by_new = meet_as_monitor(&mut h, 8, &new).unwrap();
    let by_new = h.begin(&by_new, EntityName::mon(2));
    // Monitors that have not come so far prove the former key for a while.
    h.pass(secs(50));
    assert!(meet_as_monitor(&mut h, 10, &old).is_ok());
    assert!(!h.closed.contains(&peer));
    h.pass(secs(20));
    assert!(meet_as_monitor(&mut h, 12, &old).is_err() && meet_as_monitor(&mut h, 14, &new).is_ok());
    assert!(h.closed.contains(&peer) && !h.closed.contains(&by_new));
}

#[test]
fn secrets_change_in_time_and_tickets_outlive_that() {
    let mut h = asking(&[("client.c", KeyKind::Aes, &[("mon", "allow *"), ("osd", "allow *")])]);
    let mut client = h.party("client.c");
    let accepted = h.meet(2, &mut client).unwrap();
    let session = h.begin(&accepted, EntityName::client(1));
    let range = |h: &Harness, service| h.monitor.state.service_secrets[&service].range();
    assert_eq!((range(&h, EntityType::OSD), range(&h, EntityType::AUTH)), ((1, 3), (1, 3)));
    let renew = |h: &mut Harness, client: &mut Client| {
        let request = client.renewal(h.at().wall, &mut entropy(9));
        if let Some(request) = request {
            let reply = h.ask(session, request);
            client.renewed(&reply.payload, h.at().wall).unwrap();
        }
    };
    for _ in 0..6 * 10 {
        h.pass(secs(600));
        renew(&mut h, &mut client);
        assert!(h.reach(&client).is_ok());
    }
    assert!(range(&h, EntityType::OSD).1 >= 12, "{:?}", range(&h, EntityType::OSD));
    assert_eq!(range(&h, EntityType::AUTH), (1, 3));
    // An option counts from the next ticket on, but no ticket outlives its secret.
    let set = |h: &mut Harness, seconds: u32| {
        let command =
            format!(r#"{{"prefix":"config set","who":"mon","name":"auth_service_ticket_ttl","value":"{seconds}"}}"#);
        assert_eq!(h.command(session, &command).result, 0);
    };
    for seconds in [60, 5, 100_000] {
        set(&mut h, seconds);
        let mut client = h.party("client.c");
        h.meet(u64::from(seconds), &mut client).unwrap();
        let renewal = client.renew_at().unwrap().sec;
        let mut good_for = 0;
        while h.reach(&client).is_ok() && good_for < 20_000 {
            h.pass(secs(60));
            good_for += 60;
        }
        let now = h.at().wall.sec;
        assert!(renewal < now, "a ticket of {seconds} s is good until it is to be renewed: {renewal}, {now}");
        // Clocks may differ by five minutes. The secrets of short tickets are soon forgotten.
        let most = 360 + seconds.min(60);
        assert!(good_for <= most, "{good_for} s with tickets of {seconds} s");
        if seconds == 5 {
            h.pass(secs(2 * 3600));
            let before = range(&h, EntityType::OSD).1;
            h.pass(secs(100));
            assert!(range(&h, EntityType::OSD).1 >= before + 15, "{before} {:?}", range(&h, EntityType::OSD));
        }
    }
    let mut client = h.party("client.c");
    h.meet(4, &mut client).unwrap();
    assert!(client.renew_at().unwrap().sec >= h.at().wall.sec + 70_000);
    assert!(h.reach(&client).is_ok());
}

/// A leader's clock was ahead by years, and is right again.
#[test]
fn secrets_of_a_clock_that_was_ahead_change_in_time() {
    let mut h = asking(&[("client.c", KeyKind::Aes, &[("mon", "allow *"), ("osd", "allow *")])]);
    let now = h.at().wall;
    let mut client = h.party("client.c");
    let accepted = h.meet(2, &mut client).unwrap();
    let session = h.begin(&accepted, EntityName::client(9));
    let ahead = Utime { sec: now.sec + 100_000_000, nsec: 0 };
    let hour = Duration::from_secs(3600);
    for service in crate::state::SERVICES {
        let mut secrets = h.monitor.state.service_secrets[&service].clone();
        assert!(secrets.rotate(ahead, hour, KeyKind::Aes256k, &mut entropy(8)));
        h.monitor.state.service_secrets.insert(service, secrets);
    }
    let (current, _) = h.monitor.state.service_secrets[&EntityType::OSD].current().unwrap();
    h.pass(secs(2));
    let secrets = &h.monitor.state.service_secrets[&EntityType::OSD];
    assert_eq!(secrets.current().unwrap().0, current, "no ticket is lost");
    assert!(h.heard::<msg::AuthReply>(session).is_empty(), "nobody needs another one");
    let secrets = &h.monitor.state.service_secrets[&EntityType::OSD];
    assert!(secrets.current().unwrap().1.expires.sec <= now.sec + 3602, "{secrets:?}");
    let told = |h: &Harness| {
        let lines = h.monitor.state.log.entries.iter().map(|line| line.message.clone());
        lines.filter(|line| line.contains("made by a clock that was")).collect::<Vec<_>>()
    };
    assert_eq!(told(&h).len(), crate::state::SERVICES.len(), "{:?}", told(&h));
    assert!(
        told(&h).iter().any(|line| line.contains("service 'osd'") && line.contains("99999999 s")),
        "{:?}",
        told(&h)
    );
    h.pass(secs(3700));
    assert!(h.monitor.state.service_secrets[&EntityType::OSD].current().unwrap().0 > current);
    assert_eq!(told(&h).len(), crate::state::SERVICES.len(), "it is told once");
}

#[test]
fn ids_are_never_given_twice_and_kept_by_their_owners() {
    let mut h = asking(&[("client.c", KeyKind::Aes, &[("mon", "allow r")])]);
    let mut given = Vec::new();
    let mut owners = Vec::new();
    for round in 0..3u64 {
        for number in 0..5 {
            let mut client = h.party("client.c");
            given.push(h.meet(1000 * round + 2 * number, &mut client).unwrap().global_id);
            owners.push(client);
        }
        // Another monitor leads from here on, from the state that all have.
        h = asking_from(h.monitor.state.clone(), h.log.clone());
        for (number, owner) in owners.iter_mut().enumerate() {
            let again = h.meet(1000 * round + 500 + 2 * number as u64, owner).unwrap();
            assert_eq!(again.global_id, given[number]);
        }
    }
    let count = given.len();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), count);
    assert!(given.iter().all(|id| *id >= 4100));

    // Without ids at hand one may try again.
    let mut h = asking_from(h.monitor.state.clone(), h.log.clone());
    h.monitor.authentication.ids.clear();
    let mut client = h.party("client.c");
    assert_eq!(h.meet(2, &mut client).unwrap_err(), Refusal::NoGlobalId);
    h.input(MonitorInput::GlobalIdsLeft(0));
    let ids = h.ids.last().unwrap().clone();
    h.monitor.take_global_ids(ids.clone());
    assert_eq!(h.meet(2, &mut client).unwrap().global_id, ids.start);
    assert_eq!(h.monitor.global_ids_left(), ids.end - ids.start - 1);
}

#[test]
fn unproven_parties_are_welcome_where_the_policy_says_so() {
    let mut h = asking(&[]);
    h.monitor.set_auth_policy(ServerPolicy { none: NoneFrom::Loopback, ..ServerPolicy::cephx() }, &[]);
    let client = Client::new(
        name_of("client.admin"),
        None,
        ClientPolicy { methods: vec![Method::None], ..ClientPolicy::cephx() },
        &[],
    );
    let request = client.connect_monitor(Method::None).unwrap().request();
    let at = h.at();
    let said = Said::Request { peer: EntityType::CLIENT, method: 1, modes: &[1], payload: &request.payload };
    let step = h.monitor.authenticate(at, ConnId(2), Some("10.0.0.1".parse().unwrap()), said);
    assert!(matches!(step, Step::Refused(Refusal::Method(1))));
    let Step::Accepted(accepted) = h.monitor.authenticate(at, ConnId(2), Some("127.0.0.1".parse().unwrap()), said)
    else {
        panic!("refused")
    };
    let session = h.begin(&accepted, EntityName::client(1));
    assert_eq!(h.command(session, r#"{"prefix":"auth ls"}"#).result, 0);
}

#[test]
fn handshakes_that_are_not_ended_are_bounded() {
    let mut h = asking(&[]);
    let client = h.party("client.admin");
    let request = client.connect_monitor(Method::Cephx).unwrap().request();
    let at = h.at();
    for conn in 0..30_000 {
        let said = Said::Request { peer: EntityType::CLIENT, method: 2, modes: &[1], payload: &request.payload };
        assert!(matches!(h.monitor.authenticate(at, ConnId(conn), None, said), Step::More(_)));
    }
    assert_eq!(h.monitor.authentication.handshakes.len(), 20_000);
    h.monitor.hung_up(ConnId(29_999));
    assert_eq!(h.monitor.authentication.handshakes.len(), 19_999);
}

/// Frames of one direction of a recorded connection in crc mode, by their tags.
fn frame(stream: &[u8], tag: u8) -> Vec<u8> {
    // The banner is "ceph v2\n", a length and two numbers.
    let mut at = 26;
    loop {
        let preamble = &stream[at..at + 32];
        let length = u32::from_le_bytes(preamble[2..6].try_into().unwrap()) as usize;
        if preamble[0] == tag {
            return stream[at + 32..at + 32 + length].to_vec();
        }
        at += 32 + length + 4;
    }
}

/// Ceph's clients and OSDs are let in, or not, as its own monitor did. `crates/auth/tests/golden` has the
/// conversations.
#[test]
fn recorded_parties_of_ceph_meet_this_monitor() {
    let text = include_str!("../../../../auth/tests/golden/handshakes.jsonl");
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let keys = lines.next().unwrap();
    let hex = |value: &Value| -> Vec<u8> {
        let text = value.as_str().unwrap();
        (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
    };
    let mut met = BTreeMap::new();
    for line in lines.filter(|line| !line["name"].as_str().unwrap().contains("to_osd")) {
        let name = line["name"].as_str().unwrap().to_owned();
        if name == "osd_without_secrets" {
            continue;
        }
        let (client, server) = (hex(&line["client"]), hex(&line["server"]));
        // The challenge is what the recorded monitor drew.
        let challenge = frame(&server, 4)[5..13].to_vec();
        let mut h = asking(&[]);
        for (entity, caps) in [("client.g", "allow r"), ("osd.0", "allow profile osd")] {
            let key = Key::from_text(keys["keys"][entity].as_str().unwrap()).unwrap();
            let caps = [("mon".to_owned(), caps.to_owned())].into();
            h.monitor.state.auth.insert(entity.to_owned(), AuthEntry { key, pending_key: None, caps });
        }
        let mut first = Some(challenge);
        h.monitor.entropy = Box::new(move || {
            let mut bytes = [9; 32];
            if let Some(challenge) = first.take() {
                bytes[..8].copy_from_slice(&challenge);
            }
            bytes
        });
        let request = frame(&client, 2);
        let mut r = wire::Reader::new(&request);
        let (method, modes): (u32, Vec<u32>) = (r.u32().unwrap(), r.get().unwrap());
        let payload = r.blob().unwrap();
        let at = h.at();
        let step = h.monitor.authenticate(
            at,
            ConnId(2),
            None,
            Said::Request { peer: EntityType::CLIENT, method, modes: &modes, payload },
        );
        assert!(matches!(step, Step::More(_)), "{name}: {step:?}");
        let outcome = match h.monitor.authenticate(at, ConnId(2), None, Said::More(&frame(&client, 5)[4..])) {
            Step::Accepted(accepted) => accepted.name.to_string(),
            Step::Refused(refusal) => refusal.to_string(),
            Step::More(_) => panic!("{name}"),
        };
        met.insert(name, outcome);
    }
    let met: Vec<(&str, &str)> = met.iter().map(|(name, outcome)| (name.as_str(), outcome.as_str())).collect();
    assert_eq!(met, EXPECTED);
}

const EXPECTED: &[(&str, &str)] = &[
    ("client_to_mon_again", "the ticket for an earlier id does not open: it was changed"),
    ("client_to_mon_before", "client.g"),
    ("client_to_mon_bootstrap", "client.g"),
    ("client_to_mon_crc", "client.g"),
    ("client_to_mon_long", "client.g"),
    ("client_to_mon_secure", "client.g"),
    ("osd_to_mon", "osd.0"),
    ("unknown_entity", "there is no 'client.nobody'"),
    ("wrong_key", "'client.g' does not have the key that belongs to it"),
];

/// Neither what is printed of values nor what is logged has the bytes or the text of a key.
#[test]
fn no_secret_is_printed() {
    let mut h = asking(&[("client.c", KeyKind::Aes256k, &[("mon", "allow *")])]);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let mut client = h.party("client.c");
    let accepted = h.meet(4, &mut client).unwrap();
    let state = h.monitor.state.clone();
    let update = Update::Auth { entity: "client.c".to_owned(), entry: state.auth.get("client.c").cloned() };
    let secrets = state.service_secrets[&EntityType::OSD].clone();
    let rotated = Update::ServiceSecrets { service: EntityType::OSD, secrets: secrets.clone() };
    h.command(admin, r#"{"prefix":"config-key set","key":"dm","val":"luks-secret-value"}"#);
    let given = "AQBpkAlrW/XJBRAAsrk6AiloMTqp6z6JQC4YaQ==";
    let input = format!("[client.given]\n\tkey = {given}\n\tcaps mon = \"allow r\"\n");
    let cmd = vec![r#"{"prefix":"auth import"}"#.to_owned()];
    h.say(admin, msg::MonCommand { have: 0, fsid: FSID, cmd, input: Bytes::from(input).into() });
    assert_eq!(h.heard::<msg::MonCommandAck>(admin)[0].result, 0);
    let state = &h.monitor.state;
    let value = state.config_keys["dm"].clone();
    let kept = Update::ConfigKey { key: "dm".to_owned(), value: Some(value.clone()) };
    let reply = Reply { output: value.0, ..Reply::default() };
    let printed = format!(
        "{state:?} {update:?} {rotated:?} {accepted:?} {kept:?} {reply:?} {:?} {:?}",
        h.monitor.sessions, h.monitor.authentication
    );
    let mut keys: Vec<Key> = state.auth.values().map(|entry| entry.key.clone()).collect();
    let (oldest, newest) = secrets.range();
    keys.extend((oldest..=newest).filter_map(|id| secrets.find(id)).map(|secret| secret.key.clone()));
    keys.extend(accepted.session_key.clone());
    for key in keys {
        assert!(!printed.contains(key.to_text().as_str()));
        assert!(!printed.contains(&format!("{:?}", key.secret())), "bytes as a list");
        let hex: String = key.secret().iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!printed.contains(&hex), "bytes as hex");
    }
    assert!(!printed.contains(given) && !printed.contains("luks-secret-value"), "{printed}");
    // The commands themselves are there.
    assert!(printed.contains("auth import") && printed.contains("config-key set"));
}

#[test]
fn failed_logins_of_a_machine_are_limited_and_who_is_known_there_goes_on() {
    let all: &[(&str, &str)] = &[("mon", "allow *")];
    let mut h = asking(&[("client.honest", KeyKind::Aes, all), ("client.new", KeyKind::Aes, all)]);
    let mut honest = h.party("client.honest");
    h.meet(2, &mut honest).unwrap();
    let wrong = Key::generate(KeyKind::Aes, Utime { sec: 1_000_000, nsec: 0 }, &mut entropy(200));
    let mut guess = Client::new(name_of("client.new"), Some(wrong), ClientPolicy::cephx(), &SERVICES);
    for number in 0..auth::failures::FAILURES_MAX {
        let refused = h.meet(4 + u64::from(number) * 2, &mut guess).unwrap_err();
        assert_eq!(refused, Refusal::WrongKey(name_of("client.new")));
    }
    assert_eq!(h.meet(100, &mut guess).unwrap_err(), Refusal::TooManyFailures);
    let mut new = h.party("client.new");
    assert_eq!(h.meet(102, &mut new).unwrap_err(), Refusal::TooManyFailures, "its key is not looked at either");
    // Whoever guesses a known name hears no more of it than of one that is not there.
    let wrong = Key::generate(KeyKind::Aes, Utime { sec: 1_000_000, nsec: 0 }, &mut entropy(201));
    for name in ["client.honest", "client.nobody"] {
        let mut guess = Client::new(name_of(name), Some(wrong.clone()), ClientPolicy::cephx(), &SERVICES);
        assert_eq!(h.meet(103, &mut guess).unwrap_err(), Refusal::TooManyFailures, "{name}");
    }
    honest.forget();
    h.meet(104, &mut honest).unwrap();
    h.pass(secs(1));
    h.meet(106, &mut new).unwrap();
}

/// While a cluster goes over to proofs some of its monitors ask for them and others do not.
#[test]
fn a_monitor_that_asks_for_nothing_makes_secrets_for_those_that_will() {
    let mut h = Harness::new();
    let admin = h.client();
    h.pass(secs(2));
    assert!(h.monitor.state.service_secrets.is_empty());
    let option = r#"{"prefix":"config set","who":"global","name":"auth_service_required","value":"cephx, none"}"#;
    assert_eq!(h.command(admin, option).result, 0);
    h.pass(secs(2));
    assert!(h.monitor.state.service_secrets[&EntityType::OSD].current().is_some());
}

#[test]
fn the_word_of_a_monitor_that_asks_for_nothing_counts_where_none_is_allowed() {
    let mut h = asking(&[]);
    let claimed = || crate::identity::Party::claimed(&name_of("client.x"));
    assert_eq!(h.monitor.believed(claimed()).standing, crate::identity::Standing::Unknown);
    h.monitor.set_auth_policy(ServerPolicy { none: NoneFrom::Everybody, ..ServerPolicy::cephx() }, &[]);
    assert_eq!(h.monitor.believed(claimed()).standing, crate::identity::Standing::Claimed);
}
