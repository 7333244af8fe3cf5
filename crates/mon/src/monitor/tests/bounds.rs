//! Loads beyond the bounds.

use super::harness::*;
use super::prelude::*;
use crate::bounds::{BATCH_BYTES, CONFIG_BYTES_MAX, ENTRY_BYTES_MAX, GROUPS_PER_MESSAGE};
use crate::update::Update;
use serde_json::json;

fn set_key(h: &mut Harness, session: SessionId, key: usize, input: usize) {
    let cmd = vec![json!({"prefix": "config-key set", "key": format!("key{key}")}).to_string()];
    let input = Bytes::from(vec![b'x'; input]).into();
    h.say(session, msg::MonCommand { have: 0, fsid: FSID, cmd, input });
}

/// Every field of every line is too long, though all are within the bounds of one message.
#[test]
fn lines_of_the_cluster_log_are_cut_in_every_field() {
    let mut h = Harness::new();
    let client = h.client();
    let entry = |message: usize, channel: usize, id: usize, addrs: usize| msg::LogEntry {
        message: "ä".repeat(message),
        channel: "ä".repeat(channel),
        name: AuthName::new(EntityType::CLIENT, "ä".repeat(id)),
        addrs: EntityAddrVec(vec![addrs_of_one().0[0]; addrs]),
        ..msg::LogEntry::default()
    };
    let before = h.monitor.state().to_vec(Target::PACIFIC).len();
    for (message, channel, id, addrs) in [(75_000, 1, 1, 1), (1, 75_000, 1, 1), (1, 1, 75_000, 1), (1, 1, 1, 5000)] {
        let entries = vec![entry(message, channel, id, addrs); 50];
        h.say(client, msg::Log { have: 0, fsid: FSID, entries });
        assert_eq!(h.heard::<msg::LogAck>(client).len(), 1);
    }
    let grown = h.monitor.state().to_vec(Target::PACIFIC).len() - before;
    assert!(grown < 200 * 6000, "{grown} bytes more");
    assert!(h.log.iter().all(|(_, batch)| batch.len() < BATCH_BYTES));
    h.command(client, &json!({"prefix": "log", "logtext": ["ä".repeat(75_000)]}).to_string());
    assert!(h.monitor.state().log.entries.iter().all(|entry| entry.message.len() <= 4096));
}

fn addrs_of_one() -> EntityAddrVec {
    addrs(1, 1)
}

/// Three messages, each within its bounds, come while a batch is on its way.
#[test]
fn what_came_while_a_batch_was_on_its_way_goes_in_batches_that_one_message_holds() {
    let mut h = Harness::new();
    let client = h.client();
    h.hold_commits = true;
    let line = |text: &str| msg::LogEntry { message: text.repeat(2048), ..msg::LogEntry::default() };
    let messages = 30;
    for _ in 0..messages {
        let entries = vec![line("ä"); 300];
        h.say(client, msg::Log { have: 0, fsid: FSID, entries });
    }
    let before = h.log.len();
    h.release_commits();
    let sizes: Vec<usize> = h.log[before..].iter().map(|(_, batch)| batch.len()).collect();
    assert!(sizes.iter().all(|bytes| *bytes <= BATCH_BYTES + 8192), "{sizes:?}");
    assert!(sizes.len() >= 2, "{sizes:?}");
    // Lines that waited were answered once they were recorded; the surplus was not, and is sent again.
    let answered = h.heard::<msg::LogAck>(client).len();
    assert!(answered >= 20 && answered < messages, "{answered}");
    h.say(client, msg::Log { have: 0, fsid: FSID, entries: vec![line("b")] });
    assert_eq!(h.heard::<msg::LogAck>(client).len(), 1);
}

/// A primary has very many groups, or pretends to.
#[test]
fn many_activations_go_in_several_batches_and_each_is_answered() {
    let mut h = Harness::new();
    let client = h.client();
    let sessions: Vec<SessionId> = (0..3).map(|id| h.boot(id)).collect();
    h.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    let interval_since = h.map().epoch;
    let of_group = |h: &Harness, pgid: PgId| {
        let acting = h.map().pg_to_up_acting(pgid).unwrap().acting;
        let (members, member_shards) = (acting.clone(), Vec::new());
        nacre::PgActivation { pgid, interval_since, acting, members, recovered: true, member_shards, basis: None }
    };
    let groups: Vec<nacre::PgActivation> = h.map().pgs().map(|pgid| of_group(&h, pgid)).collect();
    let of_first: Vec<_> = groups.iter().filter(|pg| pg.acting[0] == OsdId(0)).cloned().collect();
    let many = of_first.iter().cycle().take(3 * GROUPS_PER_MESSAGE + 1).cloned().collect();
    let before = h.log.len();
    h.say(sessions[0], nacre::PgActivate { epoch: interval_since, pgs: many });
    let answers = h.heard::<nacre::PgActivated>(sessions[0]);
    assert_eq!(answers.iter().map(|answer| answer.pgs.len()).sum::<usize>(), 3 * GROUPS_PER_MESSAGE + 1);
    assert!(answers.len() == 4 && h.log[before..].iter().all(|(_, batch)| batch.len() < BATCH_BYTES));
    assert!(of_first.iter().all(|pg| h.monitor.state().pgs.contains_key(&pg.pgid)));
    // A message without groups is answered, too; and so are questions.
    h.say(sessions[0], nacre::PgActivate { epoch: interval_since, pgs: Vec::new() });
    assert_eq!(h.heard::<nacre::PgActivated>(sessions[0]), [nacre::PgActivated { pgs: Vec::new() }]);
    let pgs = vec![of_first[0].pgid; 2 * GROUPS_PER_MESSAGE];
    h.say(sessions[0], nacre::PgHistoryGet { epoch: interval_since, pgs });
    let told = h.heard::<nacre::PgHistoryReply>(sessions[0]);
    assert_eq!(told.iter().map(|reply| reply.pgs.len()).collect::<Vec<_>>(), [GROUPS_PER_MESSAGE; 2]);
}

#[test]
fn requests_that_wait_are_weighed() {
    let mut h = Harness::new();
    let client = h.client();
    h.hold_commits = true;
    h.command_unanswered(client, &json!({"prefix": "config-key set", "key": "first", "val": "x"}).to_string());
    for number in 0..10 {
        set_key(&mut h, client, number, 15 << 20);
    }
    let refused = h.heard::<msg::MonCommandAck>(client);
    assert_eq!(refused.len(), 6, "64 MiB may wait");
    assert!(refused.iter().all(|ack| ack.result == Errno::EAGAIN.as_result()), "{}", refused[0].status);
    h.release_commits();
    let answers = h.heard::<msg::MonCommandAck>(client);
    assert_eq!(answers.len(), 5);
    assert!(answers[1..].iter().all(|ack| ack.result == Errno::EFBIG.as_result()), "{}", answers[1].status);
    // The queue has room again.
    set_key(&mut h, client, 7, 100);
    assert_eq!(h.heard::<msg::MonCommandAck>(client)[0].result, 0);
}

#[test]
fn options_are_short_and_few() {
    let mut h = Harness::new();
    let client = h.client();
    let mut set = |who: &str, name: &str, value: usize| {
        let value = "x".repeat(value);
        let command = json!({"prefix": "config set", "who": who, "name": name, "value": value, "force": true});
        h.command(client, &command.to_string()).result
    };
    assert_eq!(set("global", "rbd_x", 16 << 10), 0);
    assert_eq!(set("global", "rbd_x", (16 << 10) + 1), Errno::E2BIG.as_result());
    assert_eq!(set("global", &format!("rbd_{}", "x".repeat(300)), 1), Errno::EINVAL.as_result());
    assert_eq!(set(&format!("client.{}", "x".repeat(300)), "rbd_x", 1), Errno::EINVAL.as_result());
    let mut number = 0;
    let refused = loop {
        match set("global", &format!("rbd_{number}"), 16 << 10) {
            0 => number += 1,
            errno => break errno,
        }
    };
    assert_eq!(refused, Errno::EDQUOT.as_result());
    // One client gets all options in one message.
    h.say(client, subscribe(&[("config", 0, false)]));
    let told = h.heard::<msg::ConfigOptions>(client);
    let bytes = told[0].clone().seal(0, Target::PACIFIC).front.len();
    assert!(bytes > CONFIG_BYTES_MAX / 2 && bytes < CONFIG_BYTES_MAX + CONFIG_BYTES_MAX / 8, "{bytes}");
    // An unchanged configuration is not sent again, a changed one is.
    h.pass(secs(3));
    h.command(client, &json!({"prefix": "osd set", "key": "noout"}).to_string());
    assert!(h.heard::<msg::ConfigOptions>(client).is_empty());
    h.command(client, &json!({"prefix": "config rm", "who": "global", "name": "rbd_0"}).to_string());
    assert_eq!(h.heard::<msg::ConfigOptions>(client).len(), 1);
}

#[test]
fn a_state_that_is_as_large_as_it_may_be_takes_nothing_more_but_lets_go() {
    let mut h = Harness::new();
    let client = h.client();
    for number in 0..32 {
        let value = Some(vec![7; 8 << 20].into());
        let update = Update::ConfigKey { key: format!("large{number}"), value };
        h.monitor.state.apply(h.log.len() as u64 + 1, &Batch { stamp: h.at().wall, updates: vec![update] });
        h.log.push((h.log.len() as u64 + 1, Bytes::new()));
    }
    set_key(&mut h, client, 1, 1000);
    let answer = h.heard::<msg::MonCommandAck>(client).remove(0);
    assert_eq!(answer.result, Errno::EDQUOT.as_result());
    assert!(answer.status.contains("config-key ls"), "{}", answer.status);
    let health = h.command(client, &json!({"prefix": "health"}).to_string());
    let text = String::from_utf8(health.output.into_bytes()[..].into()).unwrap();
    assert!(text.contains("MON_DISK_BIG") || text.contains("getting too big"), "{text}");
    // An OSD that is not known does not get in until there is room.
    h.boot(0);
    assert!(!h.map().exists(OsdId(0)));
    assert_eq!(h.command(client, &json!({"prefix": "osd set", "key": "noout"}).to_string()).result, 0);
    assert_eq!(h.command(client, &json!({"prefix": "config-key rm", "key": "large0"}).to_string()).result, 0);
    set_key(&mut h, client, 1, 1000);
    assert_eq!(h.heard::<msg::MonCommandAck>(client).remove(0).result, 0);
    h.boot(0);
    assert!(h.map().is_up(OsdId(0)));
}

#[test]
fn an_osd_that_says_too_much_about_itself_is_refused() {
    let mut h = Harness::new();
    let session = h.open(EntityType::OSD, 0);
    let with = |change: fn(&mut nacre::OsdBoot)| {
        let mut boot = boot_message(0, "host0", 1);
        change(&mut boot);
        boot
    };
    let too_much = [
        with(|boot| drop(boot.metadata.insert("x".to_owned(), "x".repeat(70_000)))),
        with(|boot| drop(boot.location.insert("host".to_owned(), "x".repeat(70_000)))),
        with(|boot| boot.device_class = "x".repeat(70_000)),
        with(|boot| boot.public_addrs = EntityAddrVec(vec![boot.public_addrs.0[0]; 100])),
    ];
    for boot in too_much {
        h.say(session, boot);
        assert_eq!(h.heard::<nacre::OsdRefused>(session).len(), 1);
    }
    h.say(session, with(|_| ()));
    h.pass(secs(1));
    assert!(h.map().is_up(OsdId(0)));
}

/// The updates of one command fit one entry, however long its input is.
#[test]
fn the_longest_input_makes_no_entry_that_is_too_long() {
    let mut h = Harness::new();
    let client = h.client();
    let caps = |number: usize| format!("[client.x{number}]\n\tkey = AQBvaBZZAAAAABAAvbiLIFIHnwnxRHuEBrXyMA==\n");
    let keyring: String = (0..100_000).map(caps).collect();
    let cmd = vec![json!({"prefix": "auth import"}).to_string()];
    h.say(client, msg::MonCommand { have: 0, fsid: FSID, cmd, input: Bytes::from(keyring).into() });
    let _ = h.heard::<msg::MonCommandAck>(client);
    assert!(h.log.iter().all(|(_, batch)| batch.len() < ENTRY_BYTES_MAX));
}
