//! Agents and coordinators on the loopback network, and both against peers that do not follow the protocol.

use std::time::Duration;

use bench::plan::{Plan, Stop};
use bench::recorder::Rounds;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

use super::crew::AgentCrew;
use super::frames::{self, FrameError};
use super::links::{AgentError, Agents};
use super::options::AgentOptions;
use super::protocol::{Begin, FromAgent, Greeting, GroupData, Hello, Machine, Site, Step, ToAgent};
use super::server::{ServeError, serve};
use crate::control::Phase;
use crate::crew::{Crew, Share};
use crate::threads::Report;

const TOKEN: &str = "0123456789abcdef";
const PATIENCE: Duration = Duration::from_secs(60);

fn options(token: Option<&str>) -> AgentOptions {
    AgentOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        token: token.map(str::to_owned),
        watch_only: false,
        configurations: Vec::new(),
        s3_keys: None,
        s3_ca: None,
        program: "test 1".into(),
    }
}

/// A running agent, and the lines that it tells.
struct RunningAgent {
    address: String,
    told: mpsc::UnboundedReceiver<String>,
    _stop: watch::Sender<bool>,
}

impl RunningAgent {
    async fn start(options: AgentOptions) -> RunningAgent {
        let (stop, stopped) = watch::channel(false);
        let (tell, mut told) = mpsc::unbounded_channel();
        tokio::task::spawn_local(serve(options, move |line| drop(tell.send(line)), stopped));
        let first = told.recv().await.unwrap();
        let address = first.strip_prefix("listens on ").unwrap().to_owned();
        RunningAgent { address, told, _stop: stop }
    }

    async fn says(&mut self, words: &str) {
        let wait = async {
            while let Some(line) = self.told.recv().await {
                if line.contains(words) {
                    return;
                }
            }
            panic!("it never said {words}");
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("it does not say {words}"));
    }
}

async fn greeted(address: &str, hello: &serde_json::Value) -> Greeting {
    let mut stream = TcpStream::connect(address).await.unwrap();
    frames::write(&mut stream, hello).await.unwrap();
    frames::decode(&frames::read(&mut stream, 1 << 16).await.unwrap()).unwrap()
}

async fn connect(address: &str, token: Option<&str>) -> Result<Agents, AgentError> {
    Agents::connect(&[address.to_owned()], "test 1", token).await
}

fn plan() -> Plan {
    let text = r#"{"version": 1, "name": "n", "seed": 3,
        "clusters": [{"name": "m", "engine": "nacre", "configuration": "-"}], "pools": [{"name": "p"}],
        "workloads": [{"name": "w", "pool": "p", "stop": {"duration_s": 1},
          "groups": [{"name": "g", "object_bytes": 4096, "objects": 30, "operations": {"random_write": 100},
                      "instances": 2, "load": {"closed": {"queue_depth": 2}}}]}]}"#;
    Plan::from_json(text).unwrap()
}

fn begin() -> Begin {
    let site = Site {
        name: "m".into(),
        fsid: "x".into(),
        configuration: "/nowhere/ceph.conf".into(),
        mon_host: "127.0.0.1:1".into(),
        user: "client.admin".into(),
        connect_timeout_s: 0.3,
        op_timeout_s: Some(1.0),
        mon_op_timeout_s: None,
        osds: json!([]),
    };
    let (plan, token) = (plan(), "abc".into());
    Begin { plan, workload: 0, iteration: 0, token, cluster: site, part: None, elapsed_ns: 0 }
}

fn rounds() -> Rounds {
    Rounds::new(Duration::ZERO, &Stop::DurationS(1.0))
}

/// A peer that greets with `answer` and, once an iteration begins, sends `says` and leaves.
async fn impostor(answer: Vec<u8>, says: Vec<FromAgent>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::task::spawn_local(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = frames::read(&mut stream, 1 << 16).await;
        stream.write_all(&answer).await.unwrap();
        // Clocks are compared first, then an iteration begins.
        while let Ok(bytes) = frames::read(&mut stream, 1 << 20).await {
            match frames::decode(&bytes).unwrap() {
                ToAgent::Ping { number } => {
                    let pong = FromAgent::Pong { number, monotonic_ns: 5, wall_ns: 6 };
                    frames::write(&mut stream, &pong).await.unwrap();
                }
                _ => break,
            }
        }
        for message in says {
            frames::write(&mut stream, &message).await.unwrap();
        }
    });
    address
}

fn welcome() -> Vec<u8> {
    let machine =
        Machine { id: "1".into(), host: "h".into(), processors: 2, watch_only: false, facts: Default::default() };
    frames::encode(&Greeting::welcome("test 1", machine)).unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn who_is_not_served_is_told_why() {
    let all = async {
        let mut agent = RunningAgent::start(options(Some(TOKEN))).await;
        let refused = async |hello: serde_json::Value, words: &str| {
            let reason = greeted(&agent.address, &hello).await.refused.unwrap();
            assert!(reason.contains(words), "{reason}");
        };
        let hello = |version: u32, nonce: Option<&str>| {
            let format = "nacre-bench-agent";
            json!({"format": format, "version": version, "program": "other 9", "nonce": nonce, "new": 1})
        };
        refused(hello(1, None), "protocol version 1 of other 9 is not version 2").await;
        refused(hello(2, None), "--token-file").await;
        refused(hello(2, Some("AAAA")), "its nonce is none").await;
        refused(json!({"format": "x", "version": 2, "program": "y"}), "format \"x\"").await;
        let wrong = connect(&agent.address, Some("0123456789abcdeX")).await.err().unwrap().to_string();
        assert!(wrong.contains("not the one that this agent has"), "{wrong}");
        refused(json!([1]), "a message that is none").await;
        // A peer that sends no greeting learns nothing.
        let mut stream = TcpStream::connect(&agent.address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(answer, b"");
        agent.says("is no coordinator: a message of 542393671 bytes").await;
        // An agent serves one coordinator at a time.
        let first = connect(&agent.address, Some(TOKEN)).await.unwrap();
        let second = connect(&agent.address, Some(TOKEN)).await.err().unwrap().to_string();
        assert!(second.contains("it is busy: it works for the coordinator at 127.0.0.1:"), "{second}");
        let offset = first.links[0].wall.unwrap();
        assert!(offset.offset_ns.abs() <= offset.uncertainty_ns, "one machine has one time of day: {offset:?}");
        drop(first);
        agent.says("no longer serves").await;
        connect(&agent.address, Some(TOKEN)).await.unwrap();
    };
    LocalSet::new().run_until(all).await;
}

#[tokio::test(flavor = "current_thread")]
async fn others_machines_are_served_with_a_token_only() {
    let serve_at = |listen: &str, token: Option<&str>| {
        let options = AgentOptions { listen: listen.parse().unwrap(), ..options(token) };
        serve(options, |_| {}, watch::channel(true).1)
    };
    assert!(matches!(serve_at("0.0.0.0:0", None).await, Err(ServeError::Open(_))));
    assert!(matches!(serve_at("127.0.0.1:0", Some("short")).await, Err(ServeError::Token)));
    assert!(matches!(serve_at("192.0.2.1:1", Some(TOKEN)).await, Err(ServeError::Listen { .. })));
}

/// A network between coordinator and agent that keeps all bytes, and from byte `harms_at` to the agent on changes them.
async fn tapped(agent: String, harms_at: usize) -> (String, mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (seen, all) = mpsc::unbounded_channel();
    tokio::task::spawn_local(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = TcpStream::connect(agent).await.unwrap();
        let (mut sent, mut to, mut back) = (0, [0; 4096], [0; 4096]);
        loop {
            tokio::select! {
                count = near.read(&mut to) => {
                    let Ok(count @ 1..) = count else { return };
                    seen.send(to[..count].to_vec()).unwrap();
                    for (at, byte) in to[..count].iter_mut().enumerate() {
                        *byte ^= u8::from(sent + at == harms_at);
                    }
                    sent += count;
                    far.write_all(&to[..count]).await.unwrap();
                }
                count = far.read(&mut back) => {
                    let Ok(count @ 1..) = count else { return };
                    seen.send(back[..count].to_vec()).unwrap();
                    near.write_all(&back[..count]).await.unwrap();
                }
            }
        }
    });
    (address, all)
}

#[tokio::test(flavor = "current_thread")]
async fn nobody_between_the_two_reads_the_token_or_a_message_or_changes_one() {
    let all = async {
        let mut agent = RunningAgent::start(options(Some(TOKEN))).await;
        let (address, mut seen) = tapped(agent.address.clone(), usize::MAX).await;
        let agents = connect(&address, Some(TOKEN)).await.unwrap();
        let host = agents.links[0].machine.host.clone();
        drop(agents);
        agent.says("no longer serves").await;
        let mut bytes = Vec::new();
        while let Ok(more) = seen.try_recv() {
            bytes.extend(more);
        }
        let has = |words: &str| bytes.windows(words.len()).any(|window| window == words.as_bytes());
        assert!(has("nacre-bench-agent") && bytes.len() > 1000, "{} bytes", bytes.len());
        let greeting = "nacre-bench-agent version program nonce proof refused null";
        for secret in [TOKEN, "monotonic_ns", "processors", host.as_str()] {
            let is_by_chance = secret.len() <= 3 || greeting.contains(secret);
            assert!(is_by_chance || !has(secret), "{secret} was to be read");
        }
        // Hello and proof have some 190 bytes; the first question about clocks is behind them.
        let (address, _seen) = tapped(agent.address.clone(), 300).await;
        assert!(connect(&address, Some(TOKEN)).await.is_err());
        agent.says("a message that does not open").await;
    };
    tokio::time::timeout(PATIENCE, LocalSet::new().run_until(all)).await.unwrap();
}

/// Somebody who listens in the agent's place knows no token.
#[tokio::test(flavor = "current_thread")]
async fn a_coordinator_with_a_token_works_for_nobody_who_does_not_know_it() {
    let all = async {
        let open = RunningAgent::start(options(None)).await;
        let error = connect(&open.address, Some(TOKEN)).await.err().unwrap().to_string();
        assert!(error.contains("asks for no token"), "{error}");
        let nonce = super::sealing::Nonce::draw().to_text();
        let mut answer = frames::encode(&Greeting::challenge("test 1", nonce.clone())).unwrap();
        answer.extend(frames::encode(&json!({"proof": nonce})).unwrap());
        let address = impostor(answer, Vec::new()).await;
        let error = connect(&address, Some(TOKEN)).await.err().unwrap().to_string();
        assert!(error.contains("does not know the token"), "{error}");
    };
    tokio::time::timeout(PATIENCE, LocalSet::new().run_until(all)).await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn what_is_no_agent_is_recognized() {
    let all = async {
        let check = async |answer: &[u8], words: &str| {
            let address = impostor(answer.to_vec(), Vec::new()).await;
            let error = connect(&address, None).await.err().unwrap().to_string();
            assert!(error.contains(words) && error.contains(&address), "{error}");
        };
        check(b"ceph v2\n\x10\0", "is no agent: a message of 1752196451 bytes").await;
        check(b"", "is no agent: no answer within 5 s").await;
        check(b"\x02\0\0\0{}", "is no agent: a message that is none").await;
        let mut later = Greeting::refusal("nacre 9", "no".into());
        later.version = 7;
        check(&frames::encode(&later).unwrap(), "speaks protocol version 7 (nacre 9)").await;
        check(&frames::encode(&Greeting::refusal("nacre 9", "I rest".into())).unwrap(), "refuses: I rest").await;
        let nobody = connect("127.0.0.1:1", None).await.err().unwrap().to_string();
        assert!(nobody.contains("cannot be reached"), "{nobody}");
    };
    LocalSet::new().run_until(all).await;
}

#[tokio::test(flavor = "current_thread")]
async fn an_agent_that_cannot_reach_the_cluster_says_so_by_name() {
    let all = async {
        let agent = RunningAgent::start(options(None)).await;
        let mut agents = connect(&agent.address, None).await.unwrap();
        let mut crew = AgentCrew::begin(&mut agents, begin(), rounds()).await.unwrap();
        let Some(Report::Failed(reason)) = crew.report().await else { panic!("it cannot connect") };
        assert!(reason.starts_with(&format!("agent {}: ", agent.address)), "{reason}");
        assert_eq!(crew.count(), 0);
        crew.end().await;
        assert!(crew.missing().is_empty() && agents.links[0].lost.is_none());
        // An invalid plan is refused in words, and the agent lives on.
        let mut wrong = begin();
        wrong.plan.workloads[0].groups[0].object_bytes = 5;
        let mut crew = AgentCrew::begin(&mut agents, wrong, rounds()).await.unwrap();
        let Some(Report::Failed(reason)) = crew.report().await else { panic!("it cannot run that") };
        assert!(reason.contains("object_bytes: 5 is not within"), "{reason}");
        crew.end().await;
        assert!(agents.links[0].lost.is_none());
    };
    tokio::time::timeout(PATIENCE, LocalSet::new().run_until(all)).await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn agents_that_leave_or_talk_nonsense_are_lost_by_name() {
    let all = async {
        let cases = [
            (vec![], "was lost (the connection was closed); its share of the load is missing"),
            (vec![FromAgent::Reached(Step::Connected)], "was lost (the connection was closed)"),
            (vec![FromAgent::Round { round: 0, operations: vec![1, 2, 3] }], "it told of round 0 with 3 groups"),
            (vec![FromAgent::Round { round: 9, operations: vec![1] }], "it told of round 9"),
        ];
        for (says, words) in cases {
            let connected = says.iter().any(|message| matches!(message, FromAgent::Reached(_)));
            let address = impostor(welcome(), says).await;
            let mut agents = connect(&address, None).await.unwrap();
            let mut crew = AgentCrew::begin(&mut agents, begin(), rounds()).await.unwrap();
            if connected {
                assert_eq!(crew.report().await, Some(Report::Connected));
            }
            let Some(Report::Failed(reason)) = crew.report().await else { panic!("{words}") };
            assert!(reason.starts_with(&format!("agent {address} ")) && reason.contains(words), "{reason}");
            assert_eq!((crew.count(), crew.missing()), (0, vec![address]));
            crew.go(Phase::Stop);
            assert_eq!(crew.gather((0, 1)).await[0].tally.latencies.count(), 0);
            assert_eq!(crew.report().await, None, "nobody is left");
            crew.end().await;
            assert!(AgentCrew::begin(&mut agents, begin(), rounds()).await.is_err());
        }
    };
    tokio::time::timeout(PATIENCE, LocalSet::new().run_until(all)).await.unwrap();
}

/// The merged shares of two agents equal the share of one that recorded everything.
#[test]
fn shares_merge_exactly_and_wrong_ones_are_refused() {
    let record = |range: std::ops::Range<u64>| {
        let mut recorder = bench::recorder::Recorder::new(rounds());
        for number in range {
            let ended = Duration::from_millis(number % 1000);
            match number % 10 {
                0 => recorder.failed(ended),
                _ => recorder.done(ended, Duration::from_nanos(number * number * 100 + 777), 4096),
            }
        }
        Share { tally: recorder.window(0, 1), series: recorder.series().clone(), ..Share::empty(rounds()) }
    };
    let travelled = |share: &Share| {
        let bytes = frames::encode(&FromAgent::Group(Box::new(GroupData::new(0, share)))).unwrap();
        let FromAgent::Group(data) = frames::decode(&bytes[4..]).unwrap() else { panic!("a group went in") };
        data.share(rounds()).unwrap()
    };
    let (whole, mut merged) = (record(0..3000), Share::empty(rounds()));
    merged.merge(travelled(&record(0..1111)));
    merged.merge(travelled(&record(1111..3000)));
    assert_eq!(merged.tally.latencies.to_data(), whole.tally.latencies.to_data());
    assert_eq!((merged.tally.bytes, merged.tally.errors), (whole.tally.bytes, whole.tally.errors));
    assert_eq!(merged.series.to_data(), whole.series.to_data());
    let mut wrong = GroupData::new(0, &whole);
    wrong.latencies.min_ns = u64::MAX;
    assert!(wrong.share(rounds()).is_err());
}

#[tokio::test(flavor = "current_thread")]
async fn bad_bytes_are_refused_and_nothing_is_read_beyond_them() {
    let read = async |bytes: &[u8]| frames::read(&mut &bytes[..], 1000).await;
    assert!(matches!(read(b"").await, Err(FrameError::Closed)));
    assert!(matches!(read(b"\x05\0").await, Err(FrameError::Closed)));
    assert!(matches!(read(b"\x05\0\0\0abcd").await, Err(FrameError::Closed)));
    assert!(matches!(read(b"\xe9\x03\0\0").await, Err(FrameError::TooLong { length: 1001, max: 1000 })));
    assert_eq!(read(b"\x02\0\0\0abcd").await.unwrap(), b"ab");
    // Every message with one byte changed or missing decodes as a message or is refused.
    let message = frames::encode(&ToAgent::Begin(Box::new(begin()))).unwrap();
    for at in 0..message.len() - 4 {
        let mut bytes = message[4..].to_vec();
        bytes[at] ^= 1 << (at % 8);
        let _ = frames::decode::<ToAgent>(&bytes);
        let _ = frames::decode::<FromAgent>(&bytes);
        let _ = frames::decode::<Hello>(&bytes);
        assert!(frames::decode::<ToAgent>(&bytes[..at]).is_err());
    }
    let nested = "[".repeat(100_000);
    assert!(frames::decode::<ToAgent>(nested.as_bytes()).is_err(), "not by a stack that overflows");
    for wrong in [r#"{"ping": {"number": -1}}"#, r#"{"load": {"at_ns": 1e99}}"#, r#""fly""#, "{}", "null"] {
        assert!(frames::decode::<ToAgent>(wrong.as_bytes()).is_err(), "{wrong}");
    }
}
