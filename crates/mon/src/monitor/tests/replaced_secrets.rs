//! The secrets that seal tickets are replaced once somebody knows them who is to make no tickets any more.

use super::authentication::asking;
use super::harness::*;
use super::prelude::*;
use auth::cephx::client::Client;
use auth::cephx::rotating::RotatingSecrets;
use auth::clock::later;
use auth::{KeyKind, Refusal};

const OSD: &[(&str, &str)] = &[("mon", "allow profile osd"), ("osd", "allow *")];
const CLIENT: &[(&str, &str)] = &[("mon", "allow r"), ("osd", "allow rw")];

impl Harness {
    pub(super) fn secrets(&self, service: EntityType) -> RotatingSecrets {
        self.monitor.state.service_secrets[&service].clone()
    }

    /// Payloads about tickets and secrets that a session was given.
    pub(super) fn given(&mut self, session: SessionId) -> Vec<bytes::Bytes> {
        let replies: Vec<msg::AuthReply> = self.heard(session);
        assert!(replies.iter().all(|reply| reply.result == 0));
        replies.into_iter().map(|reply| reply.payload).collect()
    }

    /// Checks that a session was given one ticket, by which OSDs are reached.
    #[track_caller]
    pub(super) fn is_given_a_ticket(&mut self, session: SessionId, client: &mut Client) {
        let given = self.given(session);
        assert_eq!(given.len(), 1);
        client.renewed(&given[0], self.at().wall).unwrap();
        assert_eq!(self.reach(client).unwrap().name, *client.name());
    }
}

/// Ceph's clients take such an answer for the end of their login, and name no cluster if they have no map by then.
#[test]
fn nobody_is_given_a_ticket_before_the_monitor_map() {
    let mut h = asking(&[("osd.0", KeyKind::Aes, OSD), ("client.c", KeyKind::Aes, CLIENT)]);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let kinds = |h: &Harness, of: SessionId| -> Vec<u16> {
        h.sent.iter().filter(|(to, _)| *to == of).map(|(_, envelope)| envelope.header.kind).collect()
    };
    // It was let in, its session was closed before it began, and it comes again with its ticket.
    let mut client = h.party("client.c");
    h.meet(4, &mut client).unwrap();
    let accepted = h.meet(6, &mut client).unwrap();
    let returned = h.begin_without_map(&accepted, EntityName::client(9));
    assert_eq!(kinds(&h, returned), [0; 0], "before it has asked for the map");
    // One that comes for the first time has a session and no map when the secrets are replaced.
    let mut other = h.party("client.c");
    let accepted = h.meet(8, &mut other).unwrap();
    let first = h.begin_without_map(&accepted, EntityName::client(10));
    assert_eq!(h.command(admin, r#"{"prefix":"auth rm","entity":"osd.0"}"#).result, 0);
    for (session, client) in [(returned, &mut client), (first, &mut other)] {
        assert_eq!(kinds(&h, session), [0; 0], "before it has asked for the map");
        h.say(session, msg::MonGetMap);
        assert_eq!(kinds(&h, session), [msg::MonMap::TYPE, msg::AuthReply::TYPE]);
        h.is_given_a_ticket(session, client);
    }
}

#[test]
fn a_purge_replaces_secrets_and_gives_all_others_tickets_by_the_new_ones() {
    let entities = [("osd.0", KeyKind::Aes, OSD), ("osd.1", KeyKind::Aes256k, OSD), ("client.c", KeyKind::Aes, CLIENT)];
    let mut h = asking(&entities);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let (mut client, mut away, mut other) = (h.party("client.c"), h.party("client.c"), h.party("osd.1"));
    let accepted = h.meet(4, &mut client).unwrap();
    let session = h.begin(&accepted, EntityName::client(9));
    h.meet(6, &mut away).unwrap();
    let accepted = h.meet(8, &mut other).unwrap();
    let osd = h.begin(&accepted, EntityName::osd(OsdId(1)));
    assert!(h.reach(&client).is_ok() && h.reach(&away).is_ok());
    // A session whose key was renewed gets its tickets under the new one.
    for _ in 0..6 * 55 {
        h.pass(secs(600));
    }
    let renewal = client.renewal(h.at().wall, &mut super::authentication::entropy(7)).expect("it is due");
    h.say(session, msg::Auth { method: 2, payload: renewal.into(), monmap_epoch: 1 });
    let answer = h.given(session).pop().expect("an answer");
    client.renewed(&answer, h.at().wall).unwrap();
    h.pass(secs(10));
    let (before, managers) = (h.secrets(EntityType::OSD), h.secrets(EntityType::MGR));
    for now in [session, osd, admin] {
        assert_eq!(h.given(now).len(), 0, "nothing was replaced so far");
    }

    h.pass(secs(1));
    let purge = r#"{"prefix":"auth rm","entity":"osd.0"}"#;
    assert_eq!(h.command(admin, purge).result, 0);
    let after = h.secrets(EntityType::OSD);
    assert!(after.range().0 > before.range().1, "{:?}, then {:?}", before.range(), after.range());
    assert_eq!(h.secrets(EntityType::MGR), managers, "an OSD does not know those of others");
    assert!(matches!(h.reach(&client).unwrap_err(), Refusal::SecretNotAtHand { .. }));
    // A client that is there is given a ticket, and an OSD the secrets, too.
    h.is_given_a_ticket(session, &mut client);
    let given = h.given(osd);
    assert_eq!(given.len(), 2);
    other.renewed(&given[0], h.at().wall).unwrap();
    assert_eq!(other.open_secrets(&given[1]).unwrap(), after);
    // A client that was away keeps the ticket that it had, and is given another one when it comes again.
    let accepted = h.meet(10, &mut away).unwrap();
    let again = h.begin(&accepted, EntityName::client(11));
    h.is_given_a_ticket(again, &mut away);
}

/// Secrets that have come one by one, whatever the clock that made them, leave everybody with tickets.
#[test]
fn who_comes_again_is_given_no_ticket_where_none_was_replaced() {
    let mut h = asking(&[("client.c", KeyKind::Aes, CLIENT)]);
    let mut client = h.party("client.c");
    h.meet(4, &mut client).unwrap();
    for _ in 0..4 * 6 {
        h.pass(secs(600));
    }
    let accepted = h.meet(6, &mut client).unwrap();
    let session = h.begin(&accepted, EntityName::client(9));
    assert_eq!(h.given(session).len(), 0, "hours later");
    // A leader's clock was ahead for hours.
    let (hour, ahead) = (secs(3600), h.at().wall);
    let secrets = h.monitor.state.service_secrets.get_mut(&EntityType::OSD).unwrap();
    for hours in 5..9 {
        secrets.rotate(later(ahead, hour * hours), hour, KeyKind::Aes256k, &mut super::authentication::entropy(9));
    }
    let before = h.secrets(EntityType::OSD);
    h.pass(secs(10));
    let after = h.secrets(EntityType::OSD);
    assert!(before.range() == after.range() && before != after, "they are brought forward");
    h.meet(8, &mut client).unwrap();
    let accepted = h.meet(10, &mut client).unwrap();
    let session = h.begin(&accepted, EntityName::client(10));
    assert_eq!(h.given(session).len(), 0, "after a clock was set right");
}

#[test]
fn who_has_shaken_hands_and_has_no_session_yet_is_given_a_ticket_by_the_new_ones() {
    let mut h = asking(&[("osd.0", KeyKind::Aes, OSD), ("client.c", KeyKind::Aes, CLIENT)]);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let mut client = h.party("client.c");
    let accepted = h.meet(4, &mut client).unwrap();
    assert_eq!(h.command(admin, r#"{"prefix":"auth rm","entity":"osd.0"}"#).result, 0);
    let session = h.begin(&accepted, EntityName::client(9));
    h.is_given_a_ticket(session, &mut client);
}

#[test]
fn only_keys_that_somebody_loses_at_once_replace_secrets() {
    let mut h = asking(&[("osd.0", KeyKind::Aes, OSD), ("client.c", KeyKind::Aes, CLIENT)]);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let mut check = |command: &str, expect: bool| {
        let before = h.secrets(EntityType::OSD).range().1;
        h.pass(secs(61));
        assert_eq!(h.command(admin, command).result, 0, "{command}");
        assert_eq!(h.secrets(EntityType::OSD).range().0 > before, expect, "{command}");
    };
    check(r#"{"prefix":"auth rm","entity":"client.c"}"#, false);
    check(r#"{"prefix":"auth caps","entity":"osd.0","caps":["mon","allow profile osd"]}"#, false);
    check(r#"{"prefix":"auth get-or-create-pending","entity":"osd.0"}"#, false);
    check(r#"{"prefix":"auth commit-pending","entity":"osd.0"}"#, false);
    check(r#"{"prefix":"auth get-or-create-pending","entity":"osd.0"}"#, false);
    check(r#"{"prefix":"auth rotate","entity":"osd.0"}"#, true);
    check(r#"{"prefix":"auth rm","entity":"osd.0"}"#, true);
    check(r#"{"prefix":"auth rm","entity":"osd.0"}"#, false);
    check(r#"{"prefix":"auth get-or-create","entity":"osd.0"}"#, false);
}

#[test]
fn purges_within_a_minute_after_one_share_the_next_replacement() {
    let osds: Vec<String> = (0..5).map(|osd| format!("osd.{osd}")).collect();
    let mut known: Vec<_> = osds.iter().map(|osd| (osd.as_str(), KeyKind::Aes, OSD)).collect();
    known.push(("client.c", KeyKind::Aes, CLIENT));
    let mut h = asking(&known);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let mut client = h.party("client.c");
    let accepted = h.meet(4, &mut client).unwrap();
    let session = h.begin(&accepted, EntityName::client(9));
    let purge = |h: &mut Harness, osd: &str| {
        assert_eq!(h.command(admin, &format!(r#"{{"prefix":"auth rm","entity":"{osd}"}}"#)).result, 0);
    };
    purge(&mut h, "osd.0");
    let first = h.secrets(EntityType::OSD).range();
    h.is_given_a_ticket(session, &mut client);
    for osd in ["osd.1", "osd.2", "osd.3"] {
        h.pass(secs(10));
        purge(&mut h, osd);
    }
    h.pass(secs(29));
    assert_eq!((h.secrets(EntityType::OSD).range(), h.given(session).len()), (first, 0));
    // A client that comes meanwhile is given a ticket that ends with the secrets. Another leader knows of it, too.
    let mut brief = h.party("client.c");
    h.meet(6, &mut brief).unwrap();
    assert!(h.reach(&brief).is_ok() && brief.renew_at().unwrap() <= later(h.at().wall, secs(1)));
    let state = MonState::from_slice(&h.monitor.state.to_vec(Target::PACIFIC)).unwrap();
    let mut next_leader = Harness::continuing(state, h.log.clone());
    h.pass(secs(2));
    let second = h.secrets(EntityType::OSD).range();
    assert!(second.0 > first.1, "all that osd.3 knew are gone: {second:?}, {first:?} before");
    h.is_given_a_ticket(session, &mut client);
    h.pass(secs(61));
    assert_eq!((h.secrets(EntityType::OSD).range(), h.given(session).len()), (second, 0), "it is done once");
    purge(&mut h, "osd.4");
    assert!(h.secrets(EntityType::OSD).range().0 > second.1, "at once, after a pause");

    next_leader.monitor.set_auth_policy(auth::ServerPolicy::cephx(), &[]);
    next_leader.pass(secs(130));
    assert!(next_leader.secrets(EntityType::OSD).range().0 > first.1);
}

/// A monitor that was away for a while takes the leader's state in place of batches that it missed.
#[test]
fn a_monitor_that_missed_the_replacement_gives_tickets_when_it_hears_of_it() {
    let mut h = asking(&[("osd.0", KeyKind::Aes, OSD), ("client.c", KeyKind::Aes, CLIENT)]);
    let mut client: Client = h.party("client.c");
    let accepted = h.meet(4, &mut client).unwrap();
    let session = h.begin(&accepted, EntityName::client(9));
    let mut later = MonState::from_slice(&h.monitor.state.to_vec(Target::PACIFIC)).unwrap();
    let secrets = later.service_secrets.get_mut(&EntityType::OSD).unwrap();
    let now = h.at();
    let hour = std::time::Duration::from_secs(3600);
    secrets.replace(now.wall, hour, KeyKind::Aes256k, &mut super::authentication::entropy(9));
    let mut out = Vec::new();
    h.monitor.install(now, later, &mut out);
    h.perform(out);
    h.is_given_a_ticket(session, &mut client);
}
