//! Messages of Ceph's parties, made again byte by byte.

use super::recorded::{Conversation, Recorded, scripted, tag};
use crate::accepted::{Granted, Step};
use crate::cephx::client::{Client, ClientError, Connected};
use crate::cephx::envelope::{open, open_sized, seal, seal_sized};
use crate::cephx::protocol::*;
use crate::cephx::rotating::RotatingSecrets;
use crate::cephx::service::{ServiceAccept, ServiceView};
use crate::clock::TOLERANCE;
use crate::key::{Key, Usage};
use crate::policy::{ClientPolicy, Method, Mode, ServerPolicy};
use crate::secure::{Opener, Revision, Sealer, Side};
use crate::signature;
use types::{EntityType, Utime};
use wire::basic::AuthName;
use wire::{Decode, Encode, Reader, Target};

fn no_entropy(_: &mut [u8]) {
    panic!("keys of kind aes draw nothing");
}

/// A client or OSD with its key, which asks for what Ceph's asks for.
fn client(recorded: &Recorded, name: &str, mode: Mode, services: &[EntityType]) -> Client {
    let (kind, id) = name.split_once('.').unwrap();
    let kind = if kind == "osd" { EntityType::OSD } else { EntityType::CLIENT };
    let modes = vec![mode];
    let policy = ClientPolicy { monitor_modes: modes.clone(), service_modes: modes, ..ClientPolicy::cephx() };
    Client::new(AuthName::new(kind, id), Some(recorded.keys[name].clone()), policy, services)
}

const ALL: [EntityType; 3] = [EntityType::MON, EntityType::OSD, EntityType::MGR];

fn check_signatures(conversation: &Conversation, session_key: &Key) {
    let (client, server) = (&conversation.client, &conversation.server);
    let check = |signature: &[u8], sent: &[u8]| {
        assert!(signature::verify(Some(session_key), &[sent], signature.try_into().unwrap()));
        assert_eq!(signature::sign(Some(session_key), &[sent]), signature);
    };
    check(server.payload(tag::AUTH_SIGNATURE), client.up_to(tag::AUTH_REQUEST_MORE));
    check(client.payload(tag::AUTH_SIGNATURE), server.up_to(tag::AUTH_DONE));
}

/// Has our client say again what Ceph's said to a monitor, and read what that answered.
fn connect_monitor(conversation: &Conversation, client: &Client) -> Connected {
    let mut connect = client.connect_monitor(Method::Cephx).unwrap();
    let request = connect.request();
    let (method, modes, payload) = conversation.request();
    assert_eq!((request.method.number(), &request.payload[..]), (method, payload));
    assert_eq!(request.modes.iter().map(|mode| mode.number()).collect::<Vec<_>>(), modes);
    let said = conversation.client.blob(tag::AUTH_REQUEST_MORE);
    let asked = Authenticate::from_slice(&said[2..]).unwrap();
    let challenge = asked.client_challenge.to_le_bytes().to_vec();
    let more = connect.more(conversation.server.blob(tag::AUTH_REPLY_MORE), &mut scripted(vec![challenge])).unwrap();
    assert_eq!(more, said);
    let (global_id, mode, payload) = conversation.done();
    connect.done(global_id, mode, payload, conversation.at).unwrap()
}

#[test]
fn monitors_handshakes_are_understood_and_said_again() {
    let recorded = Recorded::read();
    for (name, entity, services) in [
        ("client_to_mon_bootstrap", "client.g", &[][..]),
        ("client_to_mon_crc", "client.g", &ALL[..]),
        ("client_to_mon_before", "client.g", &ALL[..]),
        ("osd_to_mon", "osd.0", &[][..]),
    ] {
        let conversation = recorded.of(name);
        let connected = connect_monitor(conversation, &client(&recorded, entity, Mode::Crc, services));
        assert_eq!((connected.mode, &connected.connection_secret), (Mode::Crc, &None));
        check_signatures(conversation, connected.session_key.as_ref().unwrap());
    }
}

#[test]
fn what_a_monitor_sealed_is_sealed_again() {
    let recorded = Recorded::read();
    let (_, _, payload) = recorded.of("client_to_mon_crc").done();
    let key = &recorded.keys["client.g"];
    let entropy = &mut no_entropy;
    let again = |granted: &GrantedTickets, key: &Key, payload: &[u8], entropy: &mut dyn crate::Entropy| {
        for ticket in &granted.0 {
            let session: TicketSession = open(key, Usage::TicketSessionKey, &ticket.session).unwrap();
            assert_eq!(seal(key, Usage::TicketSessionKey, &session, entropy), ticket.session);
        }
        assert!(payload.starts_with(&granted.to_vec(Target::PACIFIC)));
    };
    let mut r = Reader::new(payload);
    assert_eq!((r.u16(), r.i32()), (Ok(request::SESSION), Ok(0)));
    let own = GrantedTickets::from_slice(r.peek()).unwrap();
    again(&own, key, r.peek(), entropy);
    let _: GrantedTickets = r.get().unwrap();
    let session: TicketSession = open(key, Usage::TicketSessionKey, &own.0[0].session).unwrap();
    assert_eq!(own.0[0].service, EntityType::AUTH);
    let sealed = r.blob().unwrap();
    let secret: SecretBytes = open_sized(&session.key, Usage::ConnectionSecret, sealed).unwrap();
    assert_eq!(
        (secret.as_slice(), seal_sized(&session.key, Usage::ConnectionSecret, &secret, entropy)),
        (&[][..], sealed.to_vec())
    );
    let more = r.blob().unwrap();
    let granted = GrantedTickets::from_slice(more).unwrap();
    again(&granted, &session.key, more, entropy);
    assert!(r.is_empty());
    // There is one for managers, where the entity has no capabilities.
    let services: Vec<_> = granted.0.iter().map(|ticket| ticket.service.word()).collect();
    assert_eq!(services, ["mon", "osd", "mgr"]);
}

/// The secrets of OSDs at the time of the recording.
fn osd_secrets(recorded: &Recorded) -> RotatingSecrets {
    let conversation = recorded.of("osd_to_mon");
    let osd = client(recorded, "osd.0", Mode::Crc, &[]);
    let asked = mauth_payload(&conversation.client.messages[0]);
    assert_eq!(asked, Client::secrets_request());
    osd.open_secrets(mauth_reply_payload(&conversation.server.messages[0])).unwrap()
}

/// The payload of `MAuth`: versions of 18 bytes, protocol, payload, an epoch.
fn mauth_payload(front: &[u8]) -> &[u8] {
    let mut r = Reader::new(front);
    r.skip(18).unwrap();
    assert_eq!(r.u32(), Ok(2));
    r.blob().unwrap()
}

/// The payload of `MAuthReply`: protocol, result, id, payload, a text.
fn mauth_reply_payload(front: &[u8]) -> &[u8] {
    let mut r = Reader::new(front);
    assert_eq!((r.u32(), r.i32()), (Ok(2), Ok(0)));
    r.skip(8).unwrap();
    r.blob().unwrap()
}

#[test]
fn secrets_of_a_service_are_understood_and_written_again() {
    let recorded = Recorded::read();
    let secrets = osd_secrets(&recorded);
    let (oldest, newest) = secrets.range();
    let (current, secret) = secrets.current().unwrap();
    assert_eq!((current - oldest, newest - current), (1, 1));
    assert!(secret.expires > recorded.of("osd_to_mon").at);
    let answer = mauth_reply_payload(&recorded.of("osd_to_mon").server.messages[0]);
    let key = &recorded.keys["osd.0"];
    assert_eq!(seal_sized(key, Usage::RotatingSecrets, &secrets, &mut no_entropy), answer[6..]);
    let at = recorded.of("osd_to_mon").at;
    assert_eq!(secrets.check_clock(at, TOLERANCE), Ok(()));
}

/// Has our service say again what Ceph's OSD said, and our client what Ceph's client said.
fn osd_handshake(recorded: &Recorded, monitor: &str, osd: &str, mode: Mode) -> Connected {
    let client = {
        let mut client = client(recorded, "client.g", mode, &ALL);
        let connected = connect_monitor(recorded.of(monitor), &client);
        client.keep(&connected);
        client
    };
    let conversation = recorded.of(osd);
    let (secrets, policy) = (osd_secrets(recorded), ServerPolicy::cephx());
    let (method, modes, payload) = conversation.request();
    // Numbers that were drawn: read from what was said.
    let authorizer = Authorizer::from_slice(payload).unwrap();
    let info: TicketInfo =
        open(&secrets.find(authorizer.ticket.secret_id).unwrap().key, Usage::TicketInfo, &authorizer.ticket.sealed)
            .unwrap();
    let authorize: Authorize = open(&info.session_key, Usage::Authorize, &authorizer.sealed).unwrap();
    let said_more = conversation.server.blob(tag::AUTH_REPLY_MORE);
    let challenge: Challenge = open(&info.session_key, Usage::AuthorizeChallenge, said_more).unwrap();
    let (global_id, chosen, said_done) = conversation.done();
    let reply: AuthorizeReply = open_sized(&info.session_key, Usage::AuthorizeReply, said_done).unwrap();
    let drawn = vec![challenge.0.to_le_bytes().to_vec(), reply.connection_secret.as_slice().to_vec()];
    let mut nonce = scripted(vec![authorize.nonce.to_le_bytes().to_vec()]);
    let mut entropy = scripted(drawn);
    let mut view = ServiceView {
        service: EntityType::OSD,
        policy: &policy,
        secrets: &secrets,
        now: conversation.at,
        tolerance: TOLERANCE,
        peer: None,
        entropy: &mut entropy,
    };

    let mut connect = client.connect_service(EntityType::OSD, Method::Cephx, &mut nonce).unwrap();
    let asked = connect.request(&mut no_entropy);
    assert_eq!(asked.payload, payload);
    let (step, accept) = ServiceAccept::begin(&mut view, method, &modes, payload);
    assert_eq!(step, Step::More(said_more.to_vec()));
    let answer = connect.more(said_more, &mut no_entropy).unwrap();
    assert_eq!(answer, conversation.client.blob(tag::AUTH_REQUEST_MORE));
    let Step::Accepted(accepted) = accept.unwrap().more(&mut view, &answer) else { panic!("not accepted") };
    assert_eq!(accepted.payload, said_done);
    assert_eq!((accepted.global_id, accepted.mode.number()), (global_id, chosen));
    assert_eq!(accepted.name.to_string(), "client.g");
    assert_eq!(accepted.caps, Granted::Text("allow rwx pool=p1".to_owned()));
    let connected = connect.done(global_id, chosen, said_done).unwrap();
    assert_eq!(connected.session_key, accepted.session_key);
    assert_eq!(connected.connection_secret, accepted.connection_secret);
    // The ticket, too, is as the monitor sealed it.
    let secret = &secrets.find(authorizer.ticket.secret_id).unwrap().key;
    assert_eq!(seal(secret, Usage::TicketInfo, &info, &mut no_entropy), authorizer.ticket.sealed);
    assert_eq!(Ticket::caps_bytes("allow rwx pool=p1"), info.ticket.caps);
    connected
}

#[test]
fn an_osds_handshake_is_said_again_by_both_sides() {
    let recorded = Recorded::read();
    let connected = osd_handshake(&recorded, "client_to_mon_crc", "client_to_osd_crc", Mode::Crc);
    check_signatures(recorded.of("client_to_osd_crc"), connected.session_key.as_ref().unwrap());
}

#[test]
fn a_handshake_again_proves_the_id_and_a_ticket_is_renewed() {
    let recorded = Recorded::read();
    let mut client = client(&recorded, "client.g", Mode::Crc, &ALL);
    client.keep(&connect_monitor(recorded.of("client_to_mon_before"), &client));
    let id = client.global_id();
    let conversation = recorded.of("client_to_mon_again");
    // Ceph's client asks for the monitor's ticket alone when the others are still good.
    let mut only_own = client.clone();
    only_own.ask_for(&[]);
    let connected = connect_monitor(conversation, &only_own);
    assert_eq!(connected.global_id, id);
    check_signatures(conversation, connected.session_key.as_ref().unwrap());
    client.keep(&connected);

    // Half a minute later tickets of 40 seconds are due.
    let now = Utime { sec: conversation.at.sec + 30, nsec: 0 };
    let said = mauth_payload(&conversation.client.messages[0]);
    let nonce = {
        let authorizer = Authorizer::from_slice(&said[2..]).unwrap();
        let session_key = connected.session_key.as_ref().unwrap();
        let authorize: Authorize = open(session_key, Usage::Authorize, &authorizer.sealed).unwrap();
        authorize.nonce.to_le_bytes().to_vec()
    };
    assert_eq!(client.renewal(now, &mut scripted(vec![nonce])).as_deref(), Some(said));
    client.renewed(mauth_reply_payload(&conversation.server.messages[0]), now).unwrap();
    assert_eq!(client.renewal(now, &mut no_entropy), None);
    assert!(client.renew_at().unwrap() > now);
}

#[test]
fn a_session_is_renewed_on_its_connection() {
    let recorded = Recorded::read();
    let mut client = client(&recorded, "client.g", Mode::Crc, &ALL);
    let conversation = recorded.of("client_to_mon_long");
    client.keep(&connect_monitor(conversation, &client));
    // Tickets for monitors were good for 40 seconds.
    let mut now = conversation.at;
    for (said, answer) in conversation.client.messages.iter().zip(&conversation.server.messages) {
        now.sec += 31;
        let said = mauth_payload(said);
        let challenge = Authenticate::from_slice(&said[2..]).unwrap().client_challenge.to_le_bytes().to_vec();
        assert_eq!(client.renewal(now, &mut scripted(vec![challenge])).as_deref(), Some(said));
        client.renewed(mauth_reply_payload(answer), now).unwrap();
        assert_eq!(client.renewal(now, &mut no_entropy), None);
    }
    assert_eq!(conversation.client.messages.len(), 2);
}

#[test]
fn refusals_are_those_of_ceph() {
    let recorded = Recorded::read();
    for name in ["wrong_key", "unknown_entity", "osd_without_secrets"] {
        let mut r = Reader::new(recorded.of(name).server.payload(tag::AUTH_BAD_METHOD));
        assert_eq!((r.u32(), r.i32()), (Ok(2), Ok(types::Errno::EACCES.as_result())), "{name}");
    }
}

/// Opens records of one direction as frames of msgr 2.1, and seals them again. Returns the payload of the first.
fn check_records(mut opener: Opener, mut sealer: Sealer, stream: &[u8]) -> Vec<u8> {
    let (mut at, mut first, mut frames) = (0, None, 0);
    loop {
        let mut sizes = vec![96];
        let Some(record) = stream.get(at..at + 96) else { break };
        let mut plain = record.to_vec();
        let head = opener.open(&mut plain).unwrap().to_vec();
        let length = |i: usize| u32::from_le_bytes(head[2 + 6 * i..6 + 6 * i].try_into().unwrap()) as usize;
        let padded = |bytes: usize| bytes.next_multiple_of(16);
        if length(0) > 48 {
            sizes.push(padded(length(0)) - 48 + 16);
        }
        if head[1] > 1 {
            sizes.push((1..4).map(|i| padded(length(i))).sum::<usize>() + 16 + 16);
        }
        let whole = at + sizes.iter().sum::<usize>();
        let Some(frame) = stream.get(at..whole) else { break };
        let mut rest = frame;
        for (i, size) in sizes.into_iter().enumerate() {
            let (record, after) = rest.split_at(size);
            let plain = match i {
                0 => head.clone(),
                _ => opener.open(&mut record.to_vec()).unwrap().to_vec(),
            };
            let mut again = plain.clone();
            let tag = sealer.seal(&mut again).unwrap();
            assert_eq!((&again[..], &tag[..]), record.split_at(size - 16));
            rest = after;
        }
        first.get_or_insert(head[32..64].to_vec());
        (at, frames) = (whole, frames + 1);
    }
    assert!(frames >= 3, "{frames} frames");
    first.unwrap()
}

#[test]
fn frames_of_secure_mode_open_and_are_sealed_again() {
    let recorded = Recorded::read();
    let monitor = recorded.of("client_to_mon_secure");
    let to_monitor = connect_monitor(monitor, &client(&recorded, "client.g", Mode::Secure, &ALL));
    let to_osd = osd_handshake(&recorded, "client_to_mon_secure", "client_to_osd_secure", Mode::Secure);
    for (conversation, connected) in [(monitor, to_monitor), (recorded.of("client_to_osd_secure"), to_osd)] {
        let (secret, key) = (connected.connection_secret.unwrap(), connected.session_key.unwrap());
        let (connecting, accepting) =
            (secret.directions(Side::Connecting, Revision::One), secret.directions(Side::Accepting, Revision::One));
        let (client, server) = (&conversation.client, &conversation.server);
        let signature = check_records(accepting.1, connecting.0, client.after(tag::AUTH_REQUEST_MORE));
        assert_eq!(signature, signature::sign(Some(&key), &[server.up_to(tag::AUTH_DONE)]));
        let signature = check_records(connecting.1, accepting.0, server.after(tag::AUTH_DONE));
        assert_eq!(signature, signature::sign(Some(&key), &[client.up_to(tag::AUTH_REQUEST_MORE)]));
    }
}

#[test]
fn another_key_opens_nothing_of_a_monitor() {
    let recorded = Recorded::read();
    let conversation = recorded.of("client_to_mon_crc");
    let key = Key::new(crate::KeyKind::Aes, Utime::ZERO, &[1; 16]);
    let policy = ClientPolicy { monitor_modes: vec![Mode::Crc], ..ClientPolicy::cephx() };
    let client = Client::new(AuthName::new(EntityType::CLIENT, "g"), key, policy, &ALL);
    let mut connect = client.connect_monitor(Method::Cephx).unwrap();
    connect.more(conversation.server.blob(tag::AUTH_REPLY_MORE), &mut scripted(vec![vec![1; 8]])).unwrap();
    let (global_id, mode, payload) = conversation.done();
    let error = connect.done(global_id, mode, payload, conversation.at).unwrap_err();
    assert!(matches!(error, ClientError::NotOpened { what: "the session key of a ticket", .. }), "{error}");
}
