//! Handshakes over honest paths, and refusals of who should not be let in.

use super::world::{CEPHX, World, given_up, refused};
use crate::accepted::{Granted, Step};
use crate::cephx::client::{Client, ClientError, Connected};
use crate::cephx::monitor::requests;
use crate::cephx::rotating::RotatingSecrets;
use crate::cephx::service::{ServiceAccept, ServiceView};
use crate::clock::ClockSkew;
use crate::key::{Key, KeyKind};
use crate::keyring::parse_entity;
use crate::policy::{ClientPolicy, Method, Mode, NoneFrom, ServerPolicy};
use crate::refusal::Refusal;
use crate::secure::{Revision, Side};
use crate::testing::seeded;
use std::time::Duration;
use types::{EntityType, Errno, Utime};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn both_kinds_of_keys_meet_monitor_and_osd_in_both_modes() {
    for (name, kind, caps) in
        [("client.old", KeyKind::Aes, "allow rw pool=x"), ("client.new", KeyKind::Aes256k, "allow *")]
    {
        for mode in [Mode::Crc, Mode::Secure] {
            let mut world = World::new();
            let mut client = world.client(name, mode);
            let at_monitor = world.join(&mut client).unwrap();
            let at_osd = world.reach(&client).unwrap();
            assert_eq!(at_osd.server.caps, Granted::Text(caps.to_owned()));
            for met in [at_monitor, at_osd] {
                assert_eq!(met.server.name.to_string(), name);
                assert_eq!((met.server.global_id, met.client.global_id), (4901, 4901));
                assert_eq!((met.server.mode, met.client.mode), (mode, mode));
                let key = met.server.session_key.unwrap();
                assert_eq!((key.kind(), Some(&key)), (kind, met.client.session_key.as_ref()));
                assert_eq!(met.server.connection_secret, met.client.connection_secret);
                assert_eq!(met.server.connection_secret.is_some(), mode == Mode::Secure);
                if let Some(secret) = met.client.connection_secret {
                    let (mut sealer, _) = secret.directions(Side::Connecting, Revision::One);
                    let (_, mut opener) =
                        met.server.connection_secret.unwrap().directions(Side::Accepting, Revision::One);
                    let mut record = b"over the wire".to_vec();
                    let tag = sealer.seal(&mut record).unwrap();
                    record.extend_from_slice(&tag);
                    assert_eq!(opener.open(&mut record).unwrap(), b"over the wire");
                }
            }
        }
    }
}

#[test]
fn who_has_no_key_or_another_hears_the_same() {
    let mut world = World::new();
    let mut stranger = world.client("client.new", Mode::Crc);
    let other = Key::generate(KeyKind::Aes256k, world.now, &mut world.entropy);
    world.entities.entries.get_mut(&parse_entity("client.new").unwrap()).unwrap().key = other;
    let wrong = refused(world.join(&mut stranger));
    world.entities.entries.remove(&parse_entity("client.new").unwrap());
    let unknown = refused(world.join(&mut stranger));
    assert_eq!(wrong.to_string(), "'client.new' does not have the key that belongs to it");
    assert_eq!(unknown.to_string(), "there is no 'client.new'");
    assert_eq!((wrong.errno(), unknown.errno()), (Errno::EACCES, Errno::EACCES));
    let mut without = Client::new(parse_entity("client.x").unwrap(), None, ClientPolicy::cephx(), &[]);
    assert_eq!(given_up(world.join(&mut without)), ClientError::NoKey);
}

#[test]
fn who_may_do_nothing_at_monitors_is_refused() {
    let mut world = World::new();
    let mut client = world.client("client.nothing", Mode::Crc);
    assert_eq!(refused(world.join(&mut client)), Refusal::NoCaps(parse_entity("client.nothing").unwrap()));
}

#[test]
fn without_ids_or_secrets_one_may_try_again() {
    let mut world = World::new();
    let mut client = world.client("client.new", Mode::Crc);
    world.ids_left = 0;
    let refusal = refused(world.join(&mut client));
    assert_eq!((refusal.errno(), refusal), (Errno::EAGAIN, Refusal::NoGlobalId));
    world.ids_left = 1;
    let secrets = world.secrets.insert(EntityType::AUTH, Default::default()).unwrap();
    assert_eq!(refused(world.join(&mut client)), Refusal::NoSecrets(EntityType::AUTH));
    world.ids_left = 1;
    world.secrets.insert(EntityType::AUTH, secrets);
    world.join(&mut client).unwrap();
    world.secrets.insert(EntityType::OSD, Default::default());
    assert_eq!(refused(world.reach(&client)), Refusal::NoSecrets(EntityType::OSD));
}

#[test]
fn an_id_is_given_again_to_who_proves_it() {
    let mut world = World::new();
    for name in ["client.old", "client.new"] {
        let mut client = world.client(name, Mode::Secure);
        let first = world.join(&mut client).unwrap();
        world.pass(HOUR);
        world.rotate();
        let again = world.join(&mut client).unwrap();
        assert_eq!(first.server.global_id, again.server.global_id);
        assert_ne!(first.server.session_key, again.server.session_key);
        world.reach(&client).unwrap();
    }
    // Monitors that do not know the ticket any more give a new one to who forgets the old.
    let mut client = world.client("client.new", Mode::Crc);
    let first = world.join(&mut client).unwrap();
    world.secrets.clear();
    world.rotate();
    world.pass(Duration::from_secs(1));
    assert!(matches!(refused(world.join(&mut client)), Refusal::OldTicketUnreadable(_)));
    client.forget();
    assert_ne!(first.server.global_id, world.join(&mut client).unwrap().server.global_id);
}

#[test]
fn tickets_are_renewed_before_they_expire() {
    let mut world = World::new();
    let mut client = world.client("client.old", Mode::Crc);
    let met = world.join(&mut client).unwrap();
    assert_eq!(client.renewal(world.now, &mut world.entropy), None);
    assert_eq!(client.renew_at().unwrap().sec, world.now.sec + 2700);
    for _ in 0..100 {
        world.pass(Duration::from_secs(2700));
        world.rotate();
        let request = client.renewal(world.now, &mut world.entropy).unwrap();
        let answer = world.monitor(|view| requests(view, &mut met.server.clone(), &request)).unwrap();
        client.renewed(&answer, world.now).unwrap();
        assert_eq!(client.renewal(world.now, &mut world.entropy), None);
        world.reach(&client).unwrap();
    }
}

#[test]
fn a_session_is_renewed_as_long_as_its_ticket_is_good() {
    for name in ["client.old", "client.new"] {
        let mut world = World::new();
        let mut client = world.client(name, Mode::Secure);
        let met = world.join(&mut client).unwrap();
        for _ in 0..10 {
            world.pass(54 * HOUR);
            world.rotate();
            let request = client.renewal(world.now, &mut world.entropy).unwrap();
            let answer = world.monitor(|view| requests(view, &mut met.server.clone(), &request)).unwrap();
            client.renewed(&answer, world.now).unwrap();
            assert_eq!(client.renewal(world.now, &mut world.entropy), None);
            world.reach(&client).unwrap();
            world.join(&mut client.clone()).unwrap();
        }
        world.pass(73 * HOUR);
        assert_eq!(client.renewal(world.now, &mut world.entropy), None, "a session that ended is not renewed");
    }
}

#[test]
fn a_session_is_renewed_for_who_proves_key_and_id_alone() {
    let mut world = World::new();
    let mut client = world.client("client.new", Mode::Crc);
    let met = world.join(&mut client).unwrap();
    world.pass(54 * HOUR);
    let request = client.renewal(world.now, &mut world.entropy).unwrap();
    let mut other = world.client("client.old", Mode::Crc);
    let others = world.join(&mut other).unwrap().server;
    let refusal = world.monitor(|view| requests(view, &mut others.clone(), &request)).unwrap_err();
    assert_eq!(refusal, Refusal::WrongKey(other.name().clone()));
    let mut twin = world.client("client.new", Mode::Crc);
    let mut twins = world.join(&mut twin).unwrap().server;
    let refusal = world.monitor(|view| requests(view, &mut twins.clone(), &request)).unwrap_err();
    assert_eq!(refusal, Refusal::WrongKey(client.name().clone()), "the challenge is of another connection");
    twins.challenge = met.server.challenge;
    let refusal = world.monitor(|view| requests(view, &mut twins.clone(), &request)).unwrap_err();
    assert_eq!(refusal, Refusal::OldTicketOfOther { claimed: twins.global_id, found: met.server.global_id });
}

#[test]
fn a_ticket_that_a_service_refused_is_asked_for_anew() {
    let mut world = World::new();
    let mut client = world.client("client.new", Mode::Crc);
    let met = world.join(&mut client).unwrap();
    let before = client.clone();
    for _ in 0..2 {
        world.pass(HOUR);
        world.rotate();
    }
    let refusal = refused(world.reach(&client));
    assert_eq!(refusal, Refusal::SecretNotAtHand { id: 2, oldest: 3, newest: 5 });
    assert!(refusal.new_ticket_may_help());
    client.forget_ticket(EntityType::OSD);
    assert_eq!(given_up(world.reach(&client)), ClientError::NoTicket(EntityType::OSD));
    let request = client.renewal(world.now, &mut world.entropy).unwrap();
    let answer = world.monitor(|view| requests(view, &mut met.server.clone(), &request)).unwrap();
    client.renewed(&answer, world.now).unwrap();
    world.reach(&client).unwrap();
    assert!(world.reach(&before).is_err());
}

#[test]
fn a_ticket_that_expired_is_refused_though_its_secret_lives() {
    let mut world = World::new();
    let mut client = world.client("client.new", Mode::Crc);
    world.lifetimes.service = Duration::from_secs(60);
    world.join(&mut client).unwrap();
    world.pass(Duration::from_secs(300));
    assert!(world.reach(&client).is_ok(), "clocks may differ by as much");
    world.pass(Duration::from_secs(100));
    let refusal = refused(world.reach(&client));
    assert_eq!((refusal.to_string().as_str(), refusal.errno()), ("the ticket expired 340 s ago", Errno::EACCES));
}

#[test]
fn a_wrong_clock_is_told_as_such() {
    let mut world = World::new();
    let mut client = world.client("client.new", Mode::Crc);
    world.join(&mut client).unwrap();
    world.osd_ahead = -299;
    world.reach(&client).unwrap();
    world.osd_ahead = -7200;
    let now = types::Utime { sec: world.now.sec - 7200, nsec: 0 };
    let skew = Refusal::ClockSkew(ClockSkew { by: 2 * HOUR, behind: true, now });
    assert_eq!(refused(world.reach(&client)), skew);
    assert_eq!(
        skew.to_string(),
        "this machine's clock (2026-11-27T09:46:40.000000+0000) is at least 7200 s behind that of the monitors: \
         set the clocks by NTP",
    );
    world.osd_ahead = 86_400;
    let refusal = refused(world.reach(&client));
    assert!(matches!(refusal, Refusal::ClockSkew(ClockSkew { behind: false, .. })), "{refusal}");
}

#[test]
fn daemons_get_the_secrets_of_their_service_and_nobody_else_does() {
    let mut world = World::new();
    let mut osd = world.client("osd.0", Mode::Secure);
    let met = world.join(&mut osd).unwrap();
    let answer = world.monitor(|view| requests(view, &mut met.server.clone(), &Client::secrets_request())).unwrap();
    assert_eq!(osd.open_secrets(&answer).unwrap(), world.secrets[&EntityType::OSD]);
    let mut client = world.client("client.new", Mode::Secure);
    let met = world.join(&mut client).unwrap();
    let refusal =
        world.monitor(|view| requests(view, &mut met.server.clone(), &Client::secrets_request())).unwrap_err();
    assert_eq!(refusal, Refusal::NoSecrets(EntityType::CLIENT));
    assert!(matches!(client.open_secrets(&answer), Err(ClientError::NotOpened { .. })));
}

#[test]
fn a_pending_key_is_good_beside_the_one_that_it_replaces() {
    let mut world = World::new();
    let name = parse_entity("osd.0").unwrap();
    let mut by_old = world.client("osd.0", Mode::Secure);
    let pending = Key::generate(KeyKind::Aes, world.now, &mut world.entropy);
    world.entities.entries.get_mut(&name).unwrap().pending_key = Some(pending.clone());
    let mut by_new = Client::new(name.clone(), Some(pending.clone()), ClientPolicy::cephx(), &[EntityType::OSD]);
    let fetch = |world: &mut World, client: &mut Client| {
        let met = world.join(client).unwrap();
        let answer = world.monitor(|view| requests(view, &mut met.server.clone(), &Client::secrets_request())).unwrap();
        assert_eq!(client.open_secrets(&answer).unwrap(), world.secrets[&EntityType::OSD]);
        met.server
    };
    let old_session = fetch(&mut world, &mut by_old);
    let new_session = fetch(&mut world, &mut by_new);
    let entry = world.entities.entries.get_mut(&name).unwrap();
    (entry.key, entry.pending_key) = (pending, None);
    world.monitor(|view| requests(view, &mut new_session.clone(), &Client::secrets_request())).unwrap();
    let refusal =
        world.monitor(|view| requests(view, &mut old_session.clone(), &Client::secrets_request())).unwrap_err();
    assert_eq!(refusal, Refusal::WrongKey(name.clone()));
    assert_eq!(refused(world.join(&mut by_old)), Refusal::WrongKey(name));
    fetch(&mut world, &mut by_new);
}

#[test]
fn none_is_for_who_may_and_never_in_place_of_cephx() {
    let mut world = World::new();
    let policy = ClientPolicy { methods: vec![Method::Cephx, Method::None], ..ClientPolicy::cephx() };
    let name = parse_entity("client.x").unwrap();
    let mut client = Client::new(name.clone(), None, policy.clone(), &[]);
    assert_eq!(refused(world.join(&mut client)), Refusal::Method(1));
    world.policy.none = NoneFrom::Loopback;
    assert_eq!(refused(world.join(&mut client)), Refusal::Method(1));
    world.peer = Some("127.0.0.1".parse().unwrap());
    let met = world.join(&mut client).unwrap();
    assert_eq!((met.server.caps, met.server.mode, met.server.session_key), (Granted::Everything, Mode::Crc, None));
    assert_eq!(world.reach(&client).unwrap().server.global_id, client.global_id());

    let key = Key::generate(KeyKind::Aes, world.now, &mut world.entropy);
    let with_key = Client::new(name.clone(), Some(key.clone()), policy, &[]);
    assert_eq!(with_key.method(), Ok(Method::Cephx));
    assert_eq!(with_key.other_method(Method::Cephx, &[1]), Some(Method::None));
    assert_eq!(with_key.other_method(Method::Cephx, &[2]), None);
    let cephx_alone = Client::new(name, Some(key), ClientPolicy::cephx(), &[]);
    assert_eq!(cephx_alone.other_method(Method::Cephx, &[1]), None);
}

/// A cluster goes over to `cephx` while its clients work.
#[test]
fn a_client_that_came_by_none_goes_over_and_keeps_its_id() {
    let mut world = World::new();
    world.policy = ServerPolicy { cephx: false, none: NoneFrom::Everybody, ..ServerPolicy::cephx() };
    let name = parse_entity("client.new").unwrap();
    let key = world.entities.find(&name).map(|entry| entry.key.clone());
    let policy = ClientPolicy { methods: vec![Method::Cephx, Method::None], ..ClientPolicy::cephx() };
    let mut unproven = Client::new(
        name.clone(),
        None,
        ClientPolicy { methods: vec![Method::None], ..policy.clone() },
        &[EntityType::OSD],
    );
    let id = world.join(&mut unproven).unwrap().server.global_id;
    // As its messenger has it, which was refused `cephx` and took `none`.
    let mut client = Client::new(name, key, policy, &[EntityType::OSD]);
    assert_eq!(client.method_with_tickets(), Ok(Method::Cephx), "it has not been let in");
    client.keep(&Connected::unproven(id));
    assert_eq!(client.method_with_tickets(), Ok(Method::None));
    // While both methods are allowed the id is believed, as `none` believes it.
    world.policy = ServerPolicy { none: NoneFrom::Everybody, ..ServerPolicy::cephx() };
    let mut late = client.clone();
    assert_eq!(world.join(&mut client).unwrap().server.global_id, id);
    assert_eq!(client.method_with_tickets(), Ok(Method::Cephx));
    assert_eq!(world.reach(&client).unwrap().server.global_id, id);
    world.policy = ServerPolicy::cephx();
    assert_eq!(world.join(&mut client).unwrap().server.global_id, id);
    assert_eq!(refused(world.join(&mut late)), Refusal::OldTicketMissing);
}

#[test]
fn neither_side_takes_less_than_it_allows() {
    let mut world = World::new();
    world.policy.modes = vec![Mode::Secure];
    let mut crc = world.client("client.new", Mode::Crc);
    let refusal = refused(world.join(&mut crc));
    assert_eq!((refusal.errno(), refusal), (Errno::EOPNOTSUPP, Refusal::Modes(vec![1])));

    // A server that chooses what was not offered, or gives no secret for what it chose.
    let mut world = World::new();
    let client = world.client("client.new", Mode::Secure);
    let mut connect = client.connect_monitor(CEPHX).unwrap();
    let (Step::More(challenge), accept) = world.monitor_begins(&connect.request()) else { panic!() };
    let answer = connect.more(&challenge, &mut world.entropy).unwrap();
    let Step::Accepted(accepted) = world.monitor(|view| accept.unwrap().more(view, &answer)) else { panic!() };
    let error = connect.done(accepted.global_id, Mode::Crc.number(), &accepted.payload, world.now).unwrap_err();
    assert_eq!(error, ClientError::ModeNotOffered(1));

    world.policy.key_kinds = vec![KeyKind::Aes256k];
    let mut old = world.client("client.old", Mode::Crc);
    let kind = KeyKind::Aes;
    assert_eq!(refused(world.join(&mut old)), Refusal::KeyKind { name: old.name().clone(), kind });
}

#[test]
fn a_client_takes_no_session_key_of_a_kind_that_it_does_not_allow() {
    let mut world = World::new();
    let name = parse_entity("client.old").unwrap();
    let key = world.entities.find(&name).unwrap().key.clone();
    let policy = ClientPolicy { key_kinds: vec![KeyKind::Aes256k], ..ClientPolicy::cephx() };
    let mut client = Client::new(name, Some(key), policy, &[]);
    assert_eq!(given_up(world.join(&mut client)), ClientError::KeyKind(KeyKind::Aes));
}

/// Has a monitor with one key dial a monitor with another one, in secure mode. Each clock is its own.
fn meet_among_monitors(dialling: &Key, dialled: &Key, ahead: u32) -> Result<Granted, String> {
    let now = Utime { sec: 1_795_780_000, nsec: 0 };
    let mut drawn = seeded(7);
    let name = parse_entity("mon.").unwrap();
    let mut client = Client::new(name, Some(dialling.clone()), ClientPolicy::cephx(), &[]);
    client.vouch_for_itself(EntityType::MON, Utime { sec: now.sec + ahead, nsec: 0 }, &mut drawn);
    let mut connect = client.connect_service(EntityType::MON, Method::Cephx, &mut drawn).unwrap();
    let request = connect.request(&mut drawn);
    let (policy, secrets) = (ServerPolicy::cephx(), RotatingSecrets::of_shared_key(dialled));
    let mut entropy = seeded(8);
    let mut view = ServiceView {
        service: EntityType::MON,
        policy: &policy,
        secrets: &secrets,
        now,
        tolerance: Duration::MAX,
        peer: None,
        entropy: &mut entropy,
    };
    let (step, accept) = ServiceAccept::begin(&mut view, 2, &[Mode::Secure.number()], &request.payload);
    let Step::More(challenge) = step else { return Err(format!("{step:?}")) };
    let more = connect.more(&challenge, &mut drawn).unwrap();
    let Step::Accepted(accepted) = accept.unwrap().more(&mut view, &more) else { panic!("it has the key") };
    let connected = connect.done(accepted.global_id, accepted.mode.number(), &accepted.payload).unwrap();
    assert_eq!(
        (connected.session_key, connected.connection_secret),
        (accepted.session_key, accepted.connection_secret)
    );
    assert_eq!(accepted.name.to_string(), "mon.");
    Ok(accepted.caps)
}

#[test]
fn monitors_prove_the_key_that_they_share_whatever_their_clocks_say() {
    let key = |kind: KeyKind, byte| Key::new(kind, Utime::ZERO, &[byte; 32][..kind.secret_bytes()]).unwrap();
    for kind in [KeyKind::Aes, KeyKind::Aes256k] {
        for ahead in [0, 1_000_000] {
            let met = meet_among_monitors(&key(kind, 1), &key(kind, 1), ahead);
            assert_eq!(met, Ok(Granted::Text("allow *".to_owned())));
        }
        let met = meet_among_monitors(&key(kind, 1), &key(kind, 2), 0);
        assert_eq!(met, Err("Refused(TicketUnreadable)".to_owned()));
    }
}
