//! Hostile input at ports that speak other protocols: S3 gateways' and load agents'.

use super::harm::{Random, flip};
use super::{GROWTH_MAX_KIB, number};
use crate::s3::{Gateway, gateway_that_says, user};
use cluster_tests::{Background, TestCluster, binary, clients_are_here, is_whole_suite, python, run};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// Time in which a server says something, or has nothing to say.
const SILENCE: Duration = Duration::from_millis(60);
/// Connections that stay open, half a request each.
const KEPT: usize = 200;
/// The longest time for which a visitor listens.
const VISIT: Duration = Duration::from_secs(2);

fn any<'a>(words: &[&'a str], random: &mut Random) -> &'a str {
    words[random.below(words.len() as u64) as usize]
}

/// Text as requests have it, with some that none has.
fn text(random: &mut Random) -> String {
    let parts =
        ["a", "%2f", "%00", "..", "/", "b-ucket", "\u{e9}", "%", "?", "&", "=", "<", "\"", "0", "18446744073709551616"];
    (0..random.below(12)).map(|_| any(&parts, random)).collect()
}

/// A request that is one but for the harm that is done to it.
fn http(random: &mut Random) -> Vec<u8> {
    let method = any(&["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "\u{1}"], random);
    let path = match random.below(4) {
        0 => text(random),
        1 => format!("/{}?{}={}", text(random), any(&SUBRESOURCES, random), text(random)),
        2 => format!("/bucket/{}?{}", text(random), any(&SUBRESOURCES, random)),
        _ => "/".to_owned(),
    };
    let version = any(&["HTTP/1.1", "HTTP/1.0", "HTTP/9.9", ""], random);
    let mut bytes = format!("{method} {path} {version}\r\n").into_bytes();
    for _ in 0..random.below(12) {
        let name = any(&HEADERS, random);
        let value = match random.below(5) {
            0 => text(random),
            1 => random.next().to_string(),
            2 => "AWS4-HMAC-SHA256 Credential=A/20261128/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00"
                .to_owned(),
            3 => any(&["chunked", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "bytes=0-", "100-continue"], random).to_owned(),
            _ => "x".repeat(random.length(20_000)),
        };
        bytes.extend(format!("{name}: {value}\r\n").bytes());
    }
    bytes.extend(b"\r\n");
    match random.below(3) {
        0 => bytes.extend(random.bytes(20_000)),
        1 => bytes.extend(format!("{:x};chunk-signature=00\r\n", random.next()).bytes()),
        _ => {
            let body = format!(
                "<{0}><Key>{1}</Key>{0}",
                any(&["Delete", "Tagging", "CORSConfiguration"], random),
                text(random)
            );
            bytes.extend(body.bytes());
        }
    }
    bytes
}

const SUBRESOURCES: [&str; 9] =
    ["uploads", "uploadId", "acl", "policy", "delete", "versions", "list-type", "max-keys", "partNumber"];
const HEADERS: [&str; 12] = [
    "Host",
    "Authorization",
    "Content-Length",
    "Transfer-Encoding",
    "x-amz-date",
    "x-amz-content-sha256",
    "Range",
    "Expect",
    "x-amz-decoded-content-length",
    "Content-MD5",
    "x-amz-copy-source",
    "If-Modified-Since",
];

/// A frame of an agent's protocol that says anything.
fn agent(random: &mut Random) -> Vec<u8> {
    let mut said = match random.below(4) {
        0 => random.bytes(3000),
        1 => b"{\"format\": \"nacre-bench-agent\", \"version\": 2, \"program\": \"x\"}".to_vec(),
        2 => {
            let nonce = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
            format!("{{\"format\": \"nacre-bench-agent\", \"version\": 2, \"program\": \"x\", \"nonce\": \"{nonce}\"}}")
                .into_bytes()
        }
        _ => format!("{{\"proof\": \"{}\"}}", text(random).replace('"', "")).into_bytes(),
    };
    if random.below(3) == 0 {
        let bits = 1 + random.below(3);
        flip(&mut said, bits, random);
    }
    let length = match random.below(5) {
        0 => random.next() as u32,
        1 => random.below(70_000) as u32,
        _ => said.len() as u32,
    };
    [&length.to_le_bytes()[..], &said].concat()
}

/// Outcomes of visits.
#[derive(Clone, Copy, Debug)]
struct Visits {
    answered: u64,
    /// Answered visits that came in the last third of the time.
    late: u64,
    all: u64,
    /// The server's memory before, and the most that was seen.
    before_kib: u64,
    most_kib: u64,
}

impl Visits {
    /// Checks that they were enough to show something, and took the server no memory.
    #[track_caller]
    fn are_good(self) {
        eprintln!("{self:?}");
        let grew = self.most_kib.saturating_sub(self.before_kib);
        assert!(self.late > 0 && self.all > 50 && grew < GROWTH_MAX_KIB, "{self:?}");
    }
}

/// Makes visits to a port of a process for so long.
fn visit(
    (to, process): (SocketAddr, u32),
    time: Duration,
    says: fn(&mut Random) -> Vec<u8>,
    random: &mut Random,
) -> Visits {
    let (begin, mut kept) = (Instant::now(), Vec::new());
    let kib = resident_kib(process);
    let mut visits = Visits { answered: 0, late: 0, all: 0, before_kib: kib, most_kib: kib };
    while begin.elapsed() < time {
        visits.most_kib = visits.most_kib.max(resident_kib(process));
        let mut stream = TcpStream::connect_timeout(&to, LIMIT).expect("the server listens");
        stream.set_read_timeout(Some(SILENCE)).expect("a socket");
        stream.set_write_timeout(Some(SILENCE)).expect("a socket");
        let mut bytes = if random.below(8) == 0 { random.bytes(50_000) } else { says(random) };
        let parts = 1 + random.below(3);
        for _ in 1..parts {
            bytes.extend(says(random));
        }
        if random.below(5) == 0 {
            bytes.truncate(random.below(bytes.len() as u64) as usize);
        }
        let _ = match random.below(6) {
            0 => bytes.chunks(7).take(400).try_for_each(|piece| stream.write_all(piece)),
            _ => stream.write_all(&bytes),
        };
        let (mut buf, mut heard, came) = ([0; 16 << 10], 0, Instant::now());
        // Silence is an error here, too.
        while came.elapsed() < VISIT
            && let Ok(count @ 1..) = stream.read(&mut buf)
        {
            heard += count;
        }
        (visits.answered, visits.all) = (visits.answered + u64::from(heard > 0), visits.all + 1);
        visits.late += u64::from(heard > 0 && begin.elapsed() > time * 2 / 3);
        if random.below(4) == 0 && kept.len() < KEPT {
            kept.push(stream);
        }
    }
    visits
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory").to_owned();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

/// An honest client puts an object and reads it.
fn serves(gateway: &Gateway, access: &str, secret: &str) {
    const SCRIPT: &str = "import sys, boto3\n\
        s3 = boto3.client('s3', endpoint_url=sys.argv[3], aws_access_key_id=sys.argv[1],\n\
            aws_secret_access_key=sys.argv[2], region_name='us-east-1')\n\
        s3.create_bucket(Bucket='bucket')\n\
        s3.put_object(Bucket='bucket', Key='k', Body=b'7' * 100000)\n\
        assert s3.get_object(Bucket='bucket', Key='k')['Body'].read() == b'7' * 100000\n";
    let mut command = Command::new(python());
    command.args(["-c", SCRIPT, access, secret, &gateway.endpoint]);
    run(command, LIMIT).ok();
}

fn limits() -> (Random, Duration) {
    let by_clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let seed = number("NACRE_FUZZ_SEED").unwrap_or(by_clock);
    let limit = Duration::from_secs(number("NACRE_FUZZ_SECONDS").unwrap_or(if is_whole_suite() { 120 } else { 12 }));
    eprintln!("NACRE_FUZZ_SEED={seed} NACRE_FUZZ_SECONDS={}", limit.as_secs());
    (Random(seed), limit)
}

#[test]
fn no_gateway_minds_what_comes_to_its_port() {
    if !clients_are_here(&["python3-boto3"]) {
        return;
    }
    let (mut random, limit) = limits();
    let cluster = TestCluster::start("fuzz-s3", 2);
    let (access, secret) = user(&cluster, &["me"]);
    let log = cluster.scratch("gateway.log");
    let mut gateway = gateway_that_says(&cluster, &[], std::fs::File::create(&log).expect("a log").into());
    serves(&gateway, &access, &secret);
    let to: SocketAddr = gateway.endpoint["http://".len()..].parse().expect("an address");
    let visits = visit((to, gateway.process.0.id()), limit, http, &mut random);
    assert!(gateway.process.0.try_wait().expect("it can be asked").is_none(), "the gateway has ended");
    visits.are_good();
    serves(&gateway, &access, &secret);
    // A panic ends one task of a program as tests build it, and not the program.
    let said = std::fs::read(&log).expect("its log");
    let panics = String::from_utf8_lossy(&said).lines().filter(|line| line.contains("panicked at")).count();
    assert_eq!(panics, 0, "{}", log.display());
}

#[test]
fn no_load_agent_minds_what_comes_to_its_port() {
    let (mut random, limit) = limits();
    let folder = std::env::temp_dir().join(format!("nacre-test-fuzz-agent-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let token = folder.join("token");
    std::fs::write(&token, "a token that nobody guesses\n").expect("it is written");
    let mut command = Command::new(binary());
    command.args(["bench", "agent", "--listen", "127.0.0.1:0", "--token-file"]).arg(&token);
    let mut process = Background::start(command);
    let line = process.says("listens on ", LIMIT);
    let to: SocketAddr = line.rsplit(' ').next().expect("an address").parse().expect("an address");
    let visits = visit((to, process.id()), limit, agent, &mut random);
    assert!(process.is_running(), "the agent has ended");
    visits.are_good();
    // A panic ends one task of a program as tests build it, and not the program.
    let panics: Vec<_> = process.rest().into_iter().filter(|line| line.contains("panicked at")).collect();
    assert!(panics.is_empty(), "{panics:#?}");
    std::fs::remove_dir_all(&folder).expect("it goes");
}
