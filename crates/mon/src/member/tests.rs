//! Members whose disks and network are data of the test.

mod bounds;
mod seeded;

use super::*;
use crate::BootstrapSpec;
use crate::daemon::founded;
use crate::log::{MemberLog, RedbLog};
use crate::monitor::SNAPSHOT_EVERY;
use raft::Stored;
use types::{EntityName, EntityType, Fsid, Utime};
use wire::basic::AuthName;
use wire::codec::features;
use wire::messages as msg;
use wire::{Message, Target};

const FSID: Fsid = Fsid([7; 16]);

fn addr(number: usize) -> EntityAddrVec {
    EntityAddrVec::msgr2(format!("10.0.0.{number}:3300").parse().unwrap(), 0)
}

fn spec(names: &[&str]) -> BootstrapSpec {
    BootstrapSpec {
        fsid: FSID,
        monitors: names.iter().enumerate().map(|(i, name)| ((*name).to_owned(), addr(i + 1))).collect(),
        auth: Default::default(),
        config: Vec::new(),
        now: Utime { sec: 1_000_000, nsec: 0 },
    }
}

fn identity(name: &str, server: u64) -> Identity {
    Identity { fsid: FSID, name: name.to_owned(), server: ServerId(server) }
}

fn config(number: usize) -> MemberConfig {
    MemberConfig {
        addrs: addr(number),
        peers: Vec::new(),
        manager_addrs: EntityAddrVec::default(),
        metadata: [("hostname".to_owned(), format!("host{number}"))].into(),
        seed: number as u64,
        raft: raft_config(),
    }
}

fn entropy() -> Entropy {
    let mut fill = 0u8;
    Box::new(move || {
        fill = fill.wrapping_add(1);
        [fill; 32]
    })
}

fn at(since_start: Duration) -> Now {
    Now { since_start, wall: Utime::from_unix(Duration::from_secs(1_000_000) + since_start) }
}

fn client(number: u64) -> Peer {
    Peer {
        name: EntityName { kind: EntityType::CLIENT, num: 4000 + number as i64 },
        auth_name: AuthName::new(EntityType::CLIENT, "admin"),
        addrs: EntityAddrVec::default(),
        features: features::PACIFIC,
        global_id: 4000 + number,
        rights: wire::msgr::Rights::Everything,
        lossy: true,
        global_seq: 0,
    }
}

/// The log on disk, snapshots and trimming included, gives the state back; a member alone leads at once.
#[test]
fn what_the_disk_holds_is_the_state() {
    let path = std::env::temp_dir().join(format!("nacre-mon-disk-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let stored: Stored = founded(&spec(&["a"]), &[ServerId(5)]);
    let mut log = RedbLog::create(&path, &identity("a", 5), &stored).unwrap();
    let mut now = at(Duration::ZERO);
    let mut member = Member::new(log.load().unwrap(), config(1), entropy(), now).unwrap();
    let session = SessionId(1);
    let mut inputs = vec![Input::Tick, Input::Opened { session, peer: client(1) }];
    for i in 0..SNAPSHOT_EVERY + 10 {
        let entry = msg::LogEntry { message: i.to_string(), ..msg::LogEntry::default() };
        let envelope = msg::Log { have: 0, fsid: FSID, entries: vec![entry] }.seal(0, Target::PACIFIC);
        inputs.push(Input::Message { session, envelope });
    }
    let mut acknowledged = 0;
    let mut snapshots = 0;
    for input in inputs {
        now.since_start += Duration::from_millis(1);
        let mut out = Vec::new();
        member.handle(now, input, &mut out);
        while !out.is_empty() {
            for action in std::mem::take(&mut out) {
                match action {
                    Action::Persist { ticket, write } => {
                        snapshots += usize::from(matches!(write, Persist::Snapshot { .. }));
                        log.write(&[write]).unwrap();
                        member.handle(now, Input::Persisted(ticket), &mut out);
                    }
                    Action::Send { envelope, .. } => {
                        acknowledged += u64::from(envelope.header.kind == msg::LogAck::TYPE);
                    }
                    _ => {}
                }
            }
        }
    }
    assert!(member.monitor().leads());
    assert_eq!((acknowledged, snapshots), (SNAPSHOT_EVERY + 10, 1));
    let mut loaded = log.load().unwrap();
    drop(log);
    assert_eq!(RedbLog::open(&path).unwrap().load().unwrap(), loaded);
    let _ = std::fs::remove_file(&path);
    let state = MonState::from_slice(&loaded.stored.snapshot.as_ref().unwrap().data).unwrap();
    assert_eq!(state.applied, SNAPSHOT_EVERY);
    // Another start has the same state, after it has been elected anew.
    let mut again = Member::new(loaded.clone(), config(1), entropy(), now).unwrap();
    let mut out = Vec::new();
    again.handle(now, Input::Tick, &mut out);
    while !again.monitor().leads() {
        for action in std::mem::take(&mut out) {
            if let Action::Persist { ticket, write } = action {
                loaded.stored.apply(write);
                again.handle(now, Input::Persisted(ticket), &mut out);
            }
        }
    }
    let (before, after) = (member.monitor().state(), again.monitor().state());
    assert_eq!((before.applied, &before.log), (after.applied, &after.log));
    assert_eq!(before, after);
}

/// Members with simulated disks, network and clock. Sessions between two of them carry messages within
/// [`Net::LATENCY`]; a member that is cut off, or not running, hears and says nothing.
struct Net {
    now: Duration,
    nodes: BTreeMap<usize, NetNode>,
    next_session: u64,
    raft: raft::Config,
    /// Sessions between members: the one that dialled with its number for it, then the other one with its own.
    sessions: Vec<[(usize, SessionId); 2]>,
    cut: BTreeSet<usize>,
    /// Members that receive nothing, though their sessions stand.
    deaf: BTreeSet<usize>,
    /// Members whose process stands still.
    paused: BTreeSet<usize>,
    /// Times by which members' clocks are behind. Their wall clocks are right.
    behind: BTreeMap<usize, Duration>,
    queued: Vec<(usize, Input)>,
    in_flight: Vec<(Duration, usize, SessionId, Envelope)>,
    /// Messages that clients got, by member and session.
    heard: Vec<(usize, SessionId, Envelope)>,
    closed: Vec<(usize, SessionId)>,
}

struct NetNode {
    member: Member,
    identity: Identity,
    disk: Stored,
    stopped: Option<String>,
}

impl Net {
    const LATENCY: Duration = Duration::from_millis(2);

    fn new(names: &[&str]) -> Net {
        Net::with(names, raft_config())
    }

    fn with(names: &[&str], raft: raft::Config) -> Net {
        let mut net = Net {
            raft,
            now: Duration::ZERO,
            nodes: BTreeMap::new(),
            next_session: 1,
            sessions: Vec::new(),
            cut: BTreeSet::new(),
            deaf: BTreeSet::new(),
            paused: BTreeSet::new(),
            behind: BTreeMap::new(),
            queued: Vec::new(),
            in_flight: Vec::new(),
            heard: Vec::new(),
            closed: Vec::new(),
        };
        let servers: Vec<ServerId> = (1..=names.len() as u64).map(ServerId).collect();
        let stored = founded(&spec(names), &servers);
        for (number, name) in (1..).zip(names) {
            net.start(number, identity(name, number as u64), stored.clone());
        }
        net
    }

    /// Starts a member on a disk; it knows the addresses of the first two.
    fn start(&mut self, number: usize, identity: Identity, disk: Stored) {
        let loaded = Loaded { identity: identity.clone(), stored: disk.clone() };
        let config = MemberConfig { peers: vec![addr(1), addr(2)], raft: self.raft.clone(), ..config(number) };
        let member = Member::new(loaded, config, entropy(), at(self.now)).unwrap();
        self.nodes.insert(number, NetNode { member, identity, disk, stopped: None });
        self.input(number, Input::Tick);
    }

    /// Ends a member's process: sessions break. Returns its identity and the content of its disk.
    fn kill(&mut self, number: usize) -> (Identity, Stored) {
        let node = self.nodes.remove(&number).unwrap();
        self.paused.remove(&number);
        self.queued.retain(|(of, _)| *of != number);
        self.break_sessions(number);
        (node.identity, node.disk)
    }

    fn break_sessions(&mut self, number: usize) {
        let (gone, kept) = std::mem::take(&mut self.sessions)
            .into_iter()
            .partition(|ends: &[(usize, SessionId); 2]| ends.iter().any(|(node, _)| *node == number));
        self.sessions = kept;
        let gone: Vec<[(usize, SessionId); 2]> = gone;
        for (node, session) in gone.into_iter().flatten() {
            self.input(node, Input::Closed { session });
        }
    }

    fn cut(&mut self, number: usize) {
        self.cut.insert(number);
        self.break_sessions(number);
    }

    fn clock_of(&self, number: usize) -> Duration {
        self.now - self.behind.get(&number).copied().unwrap_or_default()
    }

    fn session(&mut self) -> SessionId {
        self.next_session += 1;
        SessionId(self.next_session)
    }

    fn input(&mut self, number: usize, input: Input) {
        if self.paused.contains(&number) {
            return self.queued.push((number, input));
        }
        let now = Now { since_start: self.clock_of(number), ..at(self.now) };
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let mut out = Vec::new();
        node.member.handle(now, input, &mut out);
        for action in out {
            self.perform(number, action);
        }
    }

    fn perform(&mut self, number: usize, action: Action) {
        match action {
            Action::Persist { ticket, write } => {
                self.nodes.get_mut(&number).unwrap().disk.apply(write);
                self.input(number, Input::Persisted(ticket));
            }
            Action::Dial { addrs } => {
                let (mine, theirs) = (self.session(), self.session());
                self.input(number, Input::Dialled { addrs: addrs.clone(), session: mine });
                let to = (1..10).find(|n| addr(*n) == addrs).unwrap();
                if !self.nodes.contains_key(&to) || self.cut.contains(&to) || self.cut.contains(&number) {
                    return self.input(number, Input::Closed { session: mine });
                }
                self.sessions.push([(number, mine), (to, theirs)]);
                let peer = |num: usize| Peer {
                    name: EntityName { kind: EntityType::MON, num: num as i64 },
                    auth_name: AuthName::new(EntityType::MON, "x"),
                    ..client(0)
                };
                self.input(to, Input::Opened { session: theirs, peer: peer(number) });
                self.input(number, Input::Opened { session: mine, peer: peer(to) });
            }
            Action::Send { session, envelope } => {
                let other = |ends: &[(usize, SessionId); 2]| match *ends {
                    [a, b] if a == (number, session) => Some(b),
                    [a, b] if b == (number, session) => Some(a),
                    _ => None,
                };
                match self.sessions.iter().find_map(other) {
                    Some(_) if envelope.front.len() > wire::msgr::limits::FRONT_BYTES => {
                        panic!("{} bytes in the front of a message between monitors", envelope.front.len());
                    }
                    Some((to, at)) => self.in_flight.push((self.now + Net::LATENCY, to, at, envelope)),
                    None => self.heard.push((number, session, envelope)),
                }
            }
            Action::Close { session } => {
                let is_it = |ends: &[(usize, SessionId); 2]| ends.contains(&(number, session));
                match self.sessions.iter().position(is_it) {
                    Some(index) => {
                        let ends = self.sessions.remove(index);
                        let other = ends.into_iter().find(|end| *end != (number, session)).unwrap();
                        self.input(other.0, Input::Closed { session: other.1 });
                    }
                    None => self.closed.push((number, session)),
                }
            }
            Action::GlobalIds(_) | Action::SharedKeys(_) => {}
            Action::Stop { reason } => self.nodes.get_mut(&number).unwrap().stopped = Some(reason),
        }
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += Duration::from_millis(1);
            for (number, input) in std::mem::take(&mut self.queued) {
                self.input(number, input);
            }
            let (due, later) = std::mem::take(&mut self.in_flight).into_iter().partition(|(at, ..)| *at <= self.now);
            self.in_flight = later;
            let due: Vec<(Duration, usize, SessionId, Envelope)> = due;
            for (_, to, session, envelope) in due {
                let stands = self.sessions.iter().flatten().any(|end| *end == (to, session));
                if stands && !self.deaf.contains(&to) {
                    self.input(to, Input::Message { session, envelope });
                }
            }
            for number in self.nodes.keys().copied().collect::<Vec<_>>() {
                if !self.paused.contains(&number) && self.nodes[&number].member.next_wake() <= self.clock_of(number) {
                    self.input(number, Input::Tick);
                }
            }
        }
    }

    #[track_caller]
    fn pass_until(&mut self, what: &str, limit: Duration, done: impl Fn(&Net) -> bool) {
        let end = self.now + limit;
        while !done(self) {
            assert!(self.now < end, "not within {limit:?}: {what}");
            self.pass(Duration::from_millis(5));
        }
    }

    fn leader(&self) -> Option<usize> {
        let leads = |number: &&usize| self.nodes[number].member.monitor().leads() && !self.cut.contains(number);
        self.nodes.keys().find(leads).copied()
    }

    #[track_caller]
    fn wait_for_leader(&mut self) -> usize {
        self.pass_until("a leader", secs(10), |net| net.leader().is_some());
        self.leader().unwrap()
    }

    fn peon(&self) -> usize {
        let leader = self.leader().unwrap();
        *self.nodes.keys().find(|number| **number != leader && !self.cut.contains(number)).unwrap()
    }

    fn open(&mut self, number: usize) -> SessionId {
        let session = self.session();
        self.input(number, Input::Opened { session, peer: client(session.0) });
        session
    }

    fn command(&mut self, number: usize, session: SessionId, tid: u64, json: &str) {
        let command = msg::MonCommand { have: 0, fsid: FSID, cmd: vec![json.to_owned()], input: Default::default() };
        self.input(number, Input::Message { session, envelope: command.seal(tid, Target::PACIFIC) });
    }

    /// Returns the answer to a command, if it has come.
    fn answer(&self, session: SessionId, tid: u64) -> Option<msg::MonCommandAck> {
        let is_it = |(_, to, envelope): &&(usize, SessionId, Envelope)| {
            *to == session && envelope.header.tid == tid && envelope.header.kind == msg::MonCommandAck::TYPE
        };
        self.heard.iter().find(is_it).map(|(_, _, envelope)| msg::MonCommandAck::open(envelope).unwrap())
    }

    #[track_caller]
    fn ask(&mut self, number: usize, json: &str) -> msg::MonCommandAck {
        let session = self.open(number);
        self.command(number, session, 7, json);
        self.pass_until(json, secs(10), |net| net.answer(session, 7).is_some());
        self.answer(session, 7).unwrap()
    }

    fn names_in_map(&self, number: usize) -> Vec<String> {
        self.nodes[&number].member.monitor().state().monmap.ranks.clone()
    }

    #[track_caller]
    fn states_are_equal(&self) {
        let states: Vec<&MonState> = self.nodes.values().map(|node| node.member.monitor().state()).collect();
        assert!(states.windows(2).all(|pair| pair[0] == pair[1]), "states differ");
    }
}

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn set(key: &str, value: &str) -> String {
    format!(r#"{{"prefix":"config-key set","key":"{key}","val":"{value}"}}"#)
}

fn get(key: &str) -> String {
    format!(r#"{{"prefix":"config-key get","key":"{key}"}}"#)
}

fn text(ack: &msg::MonCommandAck) -> String {
    String::from_utf8(ack.output.clone().into_bytes()[..].to_vec()).unwrap()
}

#[test]
fn three_agree_and_any_of_them_answers() {
    let mut net = Net::new(&["a", "b", "c"]);
    net.wait_for_leader();
    net.pass(secs(1));
    for number in 1..=3 {
        assert_eq!(net.ask(number, &set("k", &number.to_string())).result, 0);
        for reader in 1..=3 {
            assert_eq!(text(&net.ask(reader, &get("k"))), number.to_string(), "by {number}, read at {reader}");
        }
    }
    net.pass(secs(1));
    net.states_are_equal();
    let status = text(&net.ask(1, r#"{"prefix":"quorum_status"}"#));
    assert!(status.contains(r#""quorum_names":["a","b","c"]"#), "{status}");
}

#[test]
fn every_monitor_knows_what_options_the_others_have() {
    let mut net = Net::new(&["a", "b", "c"]);
    let told = wire::nacre::mon::OptionReport {
        name: "run_dir".to_owned(),
        values: vec![(wire::nacre::mon::option_source::FILE, "/r".to_owned())],
        is_ignored: false,
    };
    for node in net.nodes.values_mut() {
        let mut settings = crate::monitor::own_commands::new_settings(&node.identity.name);
        settings.from_file("run_dir", "/r").unwrap();
        node.member.set_settings(settings);
    }
    net.wait_for_leader();
    net.pass(secs(5));
    for (number, node) in &net.nodes {
        for other in ["a", "b", "c"].iter().filter(|name| **name != node.identity.name) {
            let known = node.member.monitor().volatile().options.get(&format!("mon.{other}"));
            assert_eq!(known, Some(&vec![told.clone()]), "mon.{other} at member {number}");
        }
    }
}

#[test]
fn a_peon_gives_no_map_that_is_older_than_what_was_decided() {
    let mut net = Net::new(&["a", "b", "c"]);
    net.wait_for_leader();
    net.pass(secs(1));
    for round in 0..20 {
        let (leader, peon) = (net.leader().unwrap(), net.peon());
        let word = if round % 2 == 0 { "set" } else { "unset" };
        assert_eq!(net.ask(leader, &format!(r#"{{"prefix":"osd {word}","key":"noout"}}"#)).result, 0);
        let decided = net.nodes[&leader].member.monitor().state().osdmap().epoch;
        // The peon may not have applied the decided map yet when it is asked.
        let session = net.open(peon);
        let start = msg::Subscription { start: 0, onetime: true };
        let what = [("osdmap".to_owned(), start)].into();
        let subscribe = msg::MonSubscribe { what, hostname: String::new() }.seal(0, Target::PACIFIC);
        net.input(peon, Input::Message { session, envelope: subscribe });
        let map = |net: &Net| {
            let is_it =
                |(_, to, e): &&(usize, SessionId, Envelope)| *to == session && e.header.kind == msg::OsdMap::TYPE;
            net.heard.iter().find(is_it).map(|(_, _, e)| msg::OsdMap::open(e).unwrap())
        };
        net.pass_until("the map", secs(2), |net| map(net).is_some());
        assert_eq!(map(&net).unwrap().newest, decided);
    }
}

#[test]
fn what_a_peon_asked_of_a_leader_that_it_lost_sight_of_is_asked_again() {
    let mut net = Net::new(&["a", "b", "c"]);
    net.wait_for_leader();
    net.pass(secs(1));
    let (leader, peon) = (net.leader(), net.peon());
    net.deaf.insert(peon);
    let session = net.open(peon);
    let what = [("osdmap".to_owned(), msg::Subscription { start: 0, onetime: true })].into();
    let subscribe = msg::MonSubscribe { what, hostname: String::new() }.seal(0, Target::PACIFIC);
    net.input(peon, Input::Message { session, envelope: subscribe });
    // The peon forgets the leader when its sessions break, and then finds it again in the same term.
    net.pass_until("it knows of no leader", secs(5), |net| net.nodes[&peon].member.other_leader().is_none());
    net.deaf.clear();
    net.break_sessions(peon);
    let has_map = |net: &Net| net.heard.iter().any(|(_, to, e)| *to == session && e.header.kind == msg::OsdMap::TYPE);
    net.pass_until("the map", secs(5), has_map);
    assert_eq!(net.leader(), leader);
}

/// The machine of a leader is paused, its clock with it, while the others go on without it.
#[test]
fn a_leader_whose_clock_stood_answers_nothing_by_the_lease_that_it_had() {
    let mut net = Net::new(&["a", "b", "c"]);
    let first = net.wait_for_leader();
    net.pass(secs(1));
    assert_eq!(net.ask(first, &set("k", "1")).result, 0);
    let session = net.open(first);
    net.command(first, session, 2, &get("k"));
    assert_eq!(net.answer(session, 2).as_ref().map(text).as_deref(), Some("1"), "at once, by its lease");
    net.deaf.insert(first);
    net.paused.insert(first);
    let since = net.now;
    let other = |net: &Net| {
        let leads = |number: &&usize| **number != first && net.nodes[*number].member.monitor().leads();
        net.nodes.keys().find(leads).copied()
    };
    net.pass_until("another leader", secs(20), |net| other(net).is_some());
    let next = other(&net).expect("just seen");
    assert_eq!(net.ask(next, &set("k", "2")).result, 0);
    net.paused.remove(&first);
    net.behind.insert(first, net.now - since);
    net.command(first, session, 3, &get("k"));
    assert!(net.nodes[&first].member.monitor().leads(), "it has heard of nothing");
    assert_eq!(net.answer(session, 3), None);
    net.deaf.clear();
    net.pass(secs(10));
    assert!(net.answer(session, 3).as_ref().is_none_or(|ack| text(ack) == "2"));
    assert_eq!(text(&net.ask(first, &get("k"))), "2");
}

#[test]
fn whoever_asks_while_there_is_no_room_for_questions_is_answered_later() {
    let mut net = Net::with(&["a", "b", "c"], raft::Config { reads_max: 1, ..raft_config() });
    let sessions: Vec<SessionId> = (1..=3).map(|number| net.open(number)).collect();
    for (number, session) in (1..).zip(&sessions) {
        let start = msg::Subscription { start: 0, onetime: true };
        let subscribe = msg::MonSubscribe { what: [("osdmap".to_owned(), start)].into(), hostname: String::new() };
        for envelope in [subscribe.clone().seal(0, Target::PACIFIC), subscribe.seal(0, Target::PACIFIC)] {
            net.input(number, Input::Message { session: *session, envelope });
        }
    }
    // All subscriptions wait for the first leader, which has yet to find out how far it is.
    net.pass_until("everybody has a map", secs(10), |net| {
        let has_map = |session: &SessionId| {
            net.heard.iter().any(|(_, to, envelope)| to == session && envelope.header.kind == msg::OsdMap::TYPE)
        };
        sessions.iter().all(has_map)
    });
}

#[test]
fn the_others_go_on_without_the_leader_and_it_comes_back() {
    let mut net = Net::new(&["a", "b", "c"]);
    let first = net.wait_for_leader();
    net.pass(secs(1));
    assert_eq!(net.ask(first, &set("k", "1")).result, 0);
    net.cut(first);
    let next = net.wait_for_leader();
    assert_ne!(next, first);
    assert_eq!(net.ask(next, &set("k", "2")).result, 0);
    // The old leader, cut off, answers nothing any more, and closes its clients' sessions.
    let session = net.open(first);
    net.command(first, session, 3, &get("k"));
    net.pass(secs(8));
    assert!(net.answer(session, 3).is_none() && net.closed.contains(&(first, session)));
    let health = net.ask(next, r#"{"prefix":"health","detail":"detail"}"#);
    assert!(text(&health).contains("MON_DOWN"), "{}", text(&health));
    net.cut.clear();
    net.pass(secs(4));
    assert_eq!(text(&net.ask(first, &get("k"))), "2");
    net.pass(secs(1));
    net.states_are_equal();
}

#[test]
fn large_batches_are_not_kept_in_memory_for_long() {
    let mut net = Net::new(&["a", "b", "c"]);
    let leader = net.wait_for_leader();
    net.pass(secs(1));
    let value = "x".repeat(60_000);
    // All values go to one key, so that the state stays small.
    for _ in 0..400 {
        assert_eq!(net.ask(leader, &set("k", &value)).result, 0);
    }
    net.pass(secs(1));
    for node in net.nodes.values() {
        assert!(node.member.monitor().state().applied < SNAPSHOT_EVERY, "their number is no reason for a snapshot");
        let (kept, limit) = (node.member.raft().log_bytes(), BATCH_BYTES_MAX + (4 << 20));
        assert!(kept < limit, "mon.{} keeps {kept} bytes of its log", node.identity.name);
        assert!(node.disk.entries.iter().map(|entry| entry.bytes()).sum::<usize>() < limit);
    }
    net.states_are_equal();
}

/// A session whose request may have gone down with the leader is closed: its client asks again elsewhere.
#[test]
fn who_is_owed_an_answer_by_a_leader_that_is_gone_is_told_to_ask_again() {
    let mut net = Net::new(&["a", "b", "c"]);
    let leader = net.wait_for_leader();
    net.pass(secs(1));
    let peon = net.peon();
    let (asks, idle) = (net.open(peon), net.open(peon));
    net.command(peon, asks, 9, &set("k", "1"));
    net.kill(leader);
    net.pass(secs(4));
    assert!(net.answer(asks, 9).is_some() || net.closed.contains(&(peon, asks)));
    assert!(!net.closed.contains(&(peon, idle)), "one that is owed nothing stays");
    net.command(peon, idle, 1, &set("k", "2"));
    net.pass(secs(1));
    assert_eq!(net.answer(idle, 1).map(|ack| ack.result), Some(0));
}

#[test]
fn a_monitor_joins_loses_its_disk_and_is_removed() {
    let mut net = Net::new(&["a"]);
    net.wait_for_leader();
    for (number, name) in [(2, "b"), (3, "c")] {
        net.start(number, identity(name, number as u64), Stored::default());
        net.pass_until("it takes part", secs(10), |net| net.names_in_map(1).contains(&name.to_owned()));
    }
    net.pass(secs(1));
    net.states_are_equal();
    assert_eq!(net.nodes[&1].member.raft().membership().voters.len(), 3);
    // Another monitor of the same name is not let in while the first lives.
    net.start(4, identity("c", 40), Stored::default());
    net.pass(secs(3));
    assert!(net.nodes[&4].member.is_empty());
    net.kill(4);
    // A monitor that lost its disk is another server under its old name.
    net.kill(3);
    net.pass(secs(3));
    net.start(3, identity("c", 33), Stored::default());
    net.pass_until("the new one votes", secs(20), |net| {
        let voters = &net.nodes[&1].member.raft().membership().voters;
        voters.contains(&ServerId(33)) && !voters.contains(&ServerId(3)) && voters.len() == 3
    });
    net.pass(secs(1));
    net.states_are_equal();
    assert_eq!(net.ask(3, &set("k", "1")).result, 0);
    // The leader is removed, and the others go on.
    let leader = net.leader().unwrap();
    let name = net.nodes[&leader].identity.name.clone();
    assert_eq!(net.ask(leader, &format!(r#"{{"prefix":"mon rm","name":"{name}"}}"#)).result, 0);
    net.pass(secs(8));
    assert!(net.nodes[&leader].stopped.as_ref().is_some_and(|why| why.contains("removed")));
    let (identity, disk) = net.kill(leader);
    let next = net.wait_for_leader();
    assert_eq!(net.names_in_map(next).len(), 2);
    assert_eq!(net.nodes[&next].member.raft().membership().voters.len(), 2);
    // The removed one, started again, stays out.
    net.start(leader, identity, disk);
    net.pass(secs(5));
    assert!(net.nodes[&leader].stopped.is_some());
    assert_eq!(net.names_in_map(next).len(), 2);
}

/// A store that was made anew without joining has the cluster's id and another history: no monitor talks to it.
#[test]
fn another_history_of_the_same_id_is_refused() {
    let mut net = Net::new(&["a", "b", "c"]);
    net.wait_for_leader();
    assert_eq!(net.ask(1, &set("k", "1")).result, 0);
    net.kill(3);
    let alone = BootstrapSpec { monitors: vec![("c".to_owned(), addr(3))], ..spec(&[]) };
    net.start(3, identity("c", 30), founded(&alone, &[ServerId(30)]));
    net.pass(secs(5));
    assert_eq!(net.names_in_map(1), ["a", "b", "c"]);
    assert_eq!(net.names_in_map(3), ["c"], "it has heard nothing that it believes");
    assert!(net.nodes[&1].member.raft().membership().voters.contains(&ServerId(3)));
    assert_eq!(text(&net.ask(1, &get("k"))), "1");
}
