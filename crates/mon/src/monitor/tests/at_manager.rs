//! Parties that show their tickets at the manager's address.

use super::authentication::{SERVICES, asking, entropy, name_of, peer_of};
use super::harness::*;
use super::prelude::*;
use auth::cephx::client::Client;
use auth::{Accepted, ClientPolicy, Granted, KeyKind, Method, Refusal, Step};
use wire::msgr::ConnId;

impl Harness {
    /// Has a client show its ticket at the manager's address.
    fn reach_manager(&mut self, conn: u64, client: &Client) -> Result<Box<Accepted>, Refusal> {
        let (at, conn) = (self.at(), ConnId(conn));
        let mut connect = client.connect_service(EntityType::MGR, Method::Cephx, &mut entropy(5)).unwrap();
        let request = connect.request(&mut entropy(6));
        let said = Said::Request { peer: EntityType::CLIENT, method: 2, modes: &[1], payload: &request.payload };
        let challenge = match self.monitor.authenticate_at_manager(at, conn, None, said) {
            Step::More(challenge) => challenge,
            Step::Refused(refusal) => return Err(refusal),
            Step::Accepted(_) => panic!("nothing is proven yet"),
        };
        let more = connect.more(&challenge, &mut entropy(7)).unwrap();
        match self.monitor.authenticate_at_manager(at, conn, None, Said::More(&more)) {
            Step::Accepted(accepted) => Ok(accepted),
            Step::Refused(refusal) => Err(refusal),
            Step::More(_) => panic!("everything is said"),
        }
    }

    /// Opens a session at the manager's address of a peer that was accepted there.
    fn begin_at_manager(&mut self, number: u64, accepted: &Accepted) -> SessionId {
        let session = SessionId((1 << 62) + number);
        let peer = peer_of(accepted, EntityName::client(accepted.global_id), session);
        self.input(MonitorInput::OpenedAtManager { session, peer });
        session
    }

    /// The result of a command that asks for the right to write, at the manager's address.
    fn noout_at_manager(&mut self, session: SessionId) -> i32 {
        let cmd = vec![r#"{"prefix":"osd set","key":"noout"}"#.to_owned()];
        self.say(session, msg::MgrCommand { fsid: FSID, cmd, input: Default::default() });
        self.heard::<msg::MgrCommandReply>(session)[0].result
    }
}

#[test]
fn a_removed_or_replaced_key_is_dead_at_the_managers_address_too() {
    let mut h = asking(&[("client.m", KeyKind::Aes, &[("mon", "allow r"), ("mgr", "allow *")])]);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let tell = |h: &mut Harness, command: &str| assert_eq!(h.command(admin, command).result, 0, "{command}");
    let mut before = h.party("client.m");
    h.meet(4, &mut before).unwrap();
    let there = h.reach_manager(6, &before).unwrap();
    let session = h.begin_at_manager(1, &there);
    assert_eq!(h.noout_at_manager(session), 0);
    // Fewer capabilities count at once, also for a ticket from before.
    tell(&mut h, r#"{"prefix":"auth caps","entity":"client.m","caps":["mon","allow r","mgr","allow r"]}"#);
    assert_eq!(h.noout_at_manager(session), Errno::EACCES.as_result());
    assert_eq!(h.reach_manager(8, &before).unwrap().caps, Granted::Text("allow r".to_owned()));
    tell(&mut h, r#"{"prefix":"auth caps","entity":"client.m","caps":["mon","allow r"]}"#);
    assert_eq!(h.noout_at_manager(session), Errno::EACCES.as_result());
    tell(&mut h, r#"{"prefix":"auth caps","entity":"client.m","caps":["mon","allow r","mgr","allow *"]}"#);
    assert_eq!(h.noout_at_manager(session), 0);
    // A ticket by the former key is good until the new one is committed.
    tell(&mut h, r#"{"prefix":"auth get-or-create-pending","entity":"client.m"}"#);
    assert!(!h.closed.contains(&session) && h.reach_manager(10, &before).is_ok());
    let pending = h.monitor.state.auth["client.m"].pending_key.clone();
    let mut after = Client::new(name_of("client.m"), pending, ClientPolicy::cephx(), &SERVICES);
    h.meet(12, &mut after).unwrap();
    let there = h.reach_manager(14, &after).unwrap();
    let by_pending = h.begin_at_manager(2, &there);
    tell(&mut h, r#"{"prefix":"auth commit-pending","entity":"client.m"}"#);
    assert!(h.closed.contains(&session) && !h.closed.contains(&by_pending));
    assert_eq!(h.reach_manager(16, &before).unwrap_err(), Refusal::WrongKey(name_of("client.m")));
    assert_eq!(h.noout_at_manager(by_pending), 0);
    tell(&mut h, r#"{"prefix":"auth rm","entity":"client.m"}"#);
    assert!(h.closed.contains(&by_pending));
    assert_eq!(h.reach_manager(18, &after).unwrap_err(), Refusal::UnknownEntity(name_of("client.m")));
}

/// Whoever has a manager's key knows the secrets by which tickets for managers are believed.
#[test]
fn sessions_at_the_managers_address_end_with_the_secrets_of_managers() {
    let client = ("client.m", KeyKind::Aes, &[("mon", "allow r"), ("mgr", "allow *")][..]);
    let manager = ("mgr.x", KeyKind::Aes, &[("mon", "allow profile mgr"), ("mgr", "allow *")][..]);
    let mut h = asking(&[client, manager]);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let mut client = h.party("client.m");
    let accepted = h.meet(4, &mut client).unwrap();
    let at_monitor = h.begin(&accepted, EntityName::client(2));
    let mut sessions = Vec::new();
    for number in 1..=20 {
        let there = h.reach_manager(100 + number, &client).unwrap();
        sessions.push(h.begin_at_manager(number, &there));
    }
    let ended = |h: &Harness| sessions.iter().filter(|session| h.closed.contains(session)).count();
    h.pass(secs(5));
    assert_eq!(ended(&h), 0);
    assert_eq!(h.command(admin, r#"{"prefix":"auth rm","entity":"mgr.x"}"#).result, 0);
    // Not all come again at once, and answers have a second to get there.
    h.pass(secs(1));
    assert_eq!(ended(&h), 0);
    h.pass(secs(1));
    assert_eq!(ended(&h), 16);
    h.pass(secs(1));
    assert_eq!(ended(&h), 20);
    assert!(matches!(h.reach_manager(8, &client).unwrap_err(), Refusal::SecretNotAtHand { .. }));
    let given = h.given(at_monitor).pop().expect("a ticket");
    client.renewed(&given, h.at().wall).unwrap();
    let there = h.reach_manager(10, &client).unwrap();
    let again = h.begin_at_manager(21, &there);
    // Secrets that nobody knows are retired in time.
    h.pass(secs(3600));
    assert!(!h.closed.contains(&again) && h.noout_at_manager(again) == 0);
    h.pass(secs(3700));
    assert!(h.closed.contains(&again) && !h.closed.contains(&at_monitor));
}

/// A client whose session ends repeats what was not answered.
#[test]
fn a_session_at_the_managers_address_ends_once_its_commands_are_answered() {
    let client = ("client.m", KeyKind::Aes, &[("mon", "allow r"), ("mgr", "allow *")][..]);
    let manager = ("mgr.x", KeyKind::Aes, &[("mon", "allow profile mgr"), ("mgr", "allow *")][..]);
    let mut h = asking(&[client, manager]);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let mut client = h.party("client.m");
    h.meet(4, &mut client).unwrap();
    let [busy, idle] = [1, 2].map(|number| {
        let there = h.reach_manager(100 + number, &client).unwrap();
        h.begin_at_manager(number, &there)
    });
    assert_eq!(h.command(admin, r#"{"prefix":"auth rm","entity":"mgr.x"}"#).result, 0);
    h.hold_commits = true;
    let set = |h: &mut Harness, flag: &str| {
        let cmd = vec![format!(r#"{{"prefix":"osd set","key":"{flag}"}}"#)];
        h.say(busy, msg::MgrCommand { fsid: FSID, cmd, input: Default::default() });
    };
    set(&mut h, "noout");
    h.pass(secs(1));
    // It hears of the end of its session and asks again.
    set(&mut h, "noscrub");
    h.pass(secs(5));
    assert!(h.closed.contains(&idle) && !h.closed.contains(&busy));
    h.release_commits();
    let answers: Vec<i32> = h.heard::<msg::MgrCommandReply>(busy).iter().map(|reply| reply.result).collect();
    assert_eq!(answers, [0]);
    assert!(h.map().flags.contains(OsdMapFlags::NOOUT) && !h.map().flags.contains(OsdMapFlags::NOSCRUB));
    h.pass(secs(1));
    assert!(h.closed.contains(&busy));
}

#[test]
fn rights_at_the_managers_address_are_none_at_the_monitors() {
    let mut h = asking(&[("client.m", KeyKind::Aes, &[("mon", "allow r"), ("mgr", "allow *"), ("osd", "allow *")])]);
    let mut client = h.party("client.m");
    let accepted = h.meet(2, &mut client).unwrap();
    let there = h.reach_manager(4, &client).unwrap();
    assert_eq!((there.caps.clone(), there.global_id), (Granted::Text("allow *".to_owned()), accepted.global_id));
    // Both are accepted before either session begins.
    let session = h.begin(&accepted, EntityName::client(1));
    let noout = r#"{"prefix":"osd set","key":"noout"}"#;
    assert_eq!(h.command(session, noout).result, Errno::EACCES.as_result());
    let peer = h.monitor.sessions[&session].peer.clone();
    let at_manager = SessionId(1 << 62);
    h.input(MonitorInput::OpenedAtManager { session: at_manager, peer });
    h.say(at_manager, msg::MgrCommand { fsid: FSID, cmd: vec![noout.to_owned()], input: Default::default() });
    assert_eq!(h.heard::<msg::MgrCommandReply>(at_manager)[0].result, 0);
    assert_eq!(h.command(session, noout).result, Errno::EACCES.as_result());
}

#[test]
fn the_manager_in_person_obeys_who_has_all_rights_there() {
    let mut h = asking(&[("client.m", KeyKind::Aes, &[("mon", "allow r"), ("mgr", "allow r")])]);
    let admin = h.join(2, "client.admin", EntityName::client(1));
    let mut client = h.party("client.m");
    h.meet(4, &mut client).unwrap();
    let there = h.reach_manager(6, &client).unwrap();
    let session = h.begin_at_manager(1, &there);
    let told = |h: &mut Harness, command: &str| {
        h.say(session, msg::Command { fsid: FSID, cmd: vec![command.to_owned()], input: Default::default() });
        let reply = h.heard::<msg::CommandReply>(session).remove(0);
        (reply.result, serde_json::from_slice::<serde_json::Value>(&reply.output.to_vec()).unwrap_or_default())
    };
    let status = r#"{"prefix":"mgr_status"}"#;
    assert_eq!(told(&mut h, status).0, Errno::EACCES.as_result());
    let described = told(&mut h, r#"{"prefix":"get_command_descriptions"}"#).1;
    let described: Vec<&serde_json::Value> = described.as_object().expect("a map").values().collect();
    for words in [&["mgr_status"][..], &["pg", "stat"], &["config", "show"]] {
        let sig = |it: &serde_json::Value| it["sig"].as_array().expect("a signature").starts_with(&texts(words));
        assert_eq!(described.iter().filter(|it| sig(it)).count(), 1, "{words:?}");
    }
    let caps = r#"{"prefix":"auth caps","entity":"client.m","caps":["mon","allow r","mgr","allow *"]}"#;
    assert_eq!(h.command(admin, caps).result, 0);
    assert_eq!(told(&mut h, status).1["initialized"], true);
    assert_eq!(
        told(&mut h, r#"{"prefix":"dump_osd_network"}"#).1,
        serde_json::json!({"threshold": 350, "entries": []})
    );
    let limit = r#"{"prefix":"config get","var":"mon_max_pg_per_osd"}"#;
    assert_eq!(told(&mut h, limit).1["mon_max_pg_per_osd"], "250", "of the daemon, not of the cluster");
    // Commands of the cluster are answered there, too.
    assert_eq!(told(&mut h, r#"{"prefix":"pg stat","format":"json"}"#).0, 0);
    assert_eq!(told(&mut h, r#"{"prefix":"nonsense"}"#).0, Errno::EINVAL.as_result());
}

fn texts(words: &[&str]) -> Vec<serde_json::Value> {
    words.iter().map(|word| (*word).into()).collect()
}
