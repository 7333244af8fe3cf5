//! Three real monitors, each a process with its own store, under the sessions of a large cluster's OSDs.
//!
//! `NACRE_BIN=target/release/nacre cargo run --release -p mon --example real_quorum -- [OSDS [GROUPS]]`. OSDs are
//! stand-ins in this process, each with its own session over TCP: they hear maps, boot, send beacons every five seconds
//! and report others; they have no groups to report. All processes share one machine.

mod osd;

use anyhow::{Context, Result, bail};
use osd::{HOST_OSDS, Known, Order, Osd, RACK_OSDS, addrs};
use osdmap::OsdMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use types::Fsid;
use wire::EntityAddrVec;

pub const FSID: Fsid = Fsid([7; 16]);
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Time within which all OSDs start.
const START: Duration = Duration::from_secs(5);
/// Number of OSDs that report one that failed, and the time within which they do.
const REPORTERS: usize = 10;
const REPORTS: Duration = Duration::from_secs(2);
/// Time without a change after which the map is stable.
const STABLE: Duration = Duration::from_secs(2);
const STABLE_MAX: Duration = Duration::from_secs(300);
/// Ticks of CPU time in a second, as Linux tells them.
const TICKS: f64 = 100.0;

/// The monitors; dropped, they are killed and their folder is removed.
struct Monitors {
    folder: PathBuf,
    addrs: Vec<SocketAddr>,
    processes: Vec<Child>,
}

impl Drop for Monitors {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn nacre(folder: &Path, name: &str, more: &[&str]) -> Command {
    let binary = std::env::var_os("NACRE_BIN").unwrap_or_else(|| "nacre".into());
    let mut command = Command::new(binary);
    command.args(["mon", "--id", name, "--conf"]).arg(folder.join("ceph.conf")).args(more);
    let log = std::fs::File::options().create(true).append(true).open(folder.join(format!("{name}.log")));
    command.stdin(Stdio::null()).stderr(log.expect("the folder is there"));
    command
}

impl Monitors {
    fn start() -> Result<Monitors> {
        let folder = std::env::temp_dir().join(format!("nacre-real-quorum-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let free = || Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?);
        let addrs = NAMES.iter().map(|_| free()).collect::<Result<Vec<SocketAddr>>>()?;
        let mut conf = format!("[global]\nfsid = {FSID}\nmon host = ");
        conf += &addrs.iter().map(|addr| format!("[v2:{addr}]")).collect::<Vec<_>>().join(",");
        for (name, addr) in NAMES.iter().zip(&addrs) {
            conf += &format!("\n[mon.{name}]\npublic addr = {addr}\nmon data = {}\n", folder.join(name).display());
        }
        std::fs::write(folder.join("ceph.conf"), conf)?;
        let mut monitors = Monitors { folder, addrs, processes: Vec::new() };
        for (name, join) in NAMES.iter().zip([false, true, true]) {
            let flags: &[&str] = if join { &["--mkfs", "--join"] } else { &["--mkfs"] };
            let made = nacre(&monitors.folder, name, flags).status().context("NACRE_BIN cannot be run")?;
            if !made.success() {
                bail!("mon.{name} cannot be made; see {}", monitors.folder.display());
            }
            monitors.processes.push(nacre(&monitors.folder, name, &[]).spawn()?);
        }
        Ok(monitors)
    }

    /// Returns for each monitor its CPU time so far in seconds, and its resident memory now and at most in MiB.
    fn usage(&self) -> Vec<(f64, u64, u64)> {
        let of = |process: &Child| {
            let read =
                |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", process.id())).unwrap_or_default();
            let (stat, status) = (read("stat"), read("status"));
            let fields: Vec<&str> =
                stat.rsplit_once(')').map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
            let ticks = |n: usize| fields.get(n).and_then(|text| text.parse::<f64>().ok()).unwrap_or(f64::NAN);
            let mib = |word: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(word)).unwrap_or_default();
                line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
            };
            ((ticks(11) + ticks(12)) / TICKS, mib("VmRSS:"), mib("VmHWM:"))
        };
        self.processes.iter().map(of).collect()
    }
}

struct Bench {
    monitors: Monitors,
    known: Arc<Known>,
    osds: Vec<mpsc::UnboundedSender<Order>>,
    gone: Vec<bool>,
    starts: Vec<u32>,
}

impl Bench {
    fn new(count: usize) -> Result<Bench> {
        let monitors = Monitors::start()?;
        let known = Arc::new(Known {
            zero: Instant::now(),
            epochs: (0..count).map(|_| AtomicU32::new(0)).collect(),
            bytes: AtomicU64::new(0),
            heard_ms: AtomicU64::new(0),
            sent_away: AtomicU64::new(0),
            map: Mutex::new(None),
            monitors: AtomicU32::new(0),
        });
        let mon_addrs: Vec<EntityAddrVec> = monitors.addrs.iter().map(|addr| EntityAddrVec::msgr2(*addr, 0)).collect();
        let mon_addrs = Arc::new(mon_addrs);
        let spawn = |id| {
            let (orders, incoming) = mpsc::unbounded_channel();
            tokio::spawn(Osd::new(id, mon_addrs.clone(), known.clone()).run(incoming));
            orders
        };
        let osds = (0..count).map(spawn).collect();
        Ok(Bench { monitors, known, osds, gone: vec![false; count], starts: vec![0; count] })
    }

    fn tell(&self, osd: usize, order: Order) {
        let _ = self.osds[osd].send(order);
    }

    /// Starts these OSDs within a time.
    async fn start(&mut self, osds: std::ops::Range<usize>, within: Duration) {
        let (begin, count) = (Instant::now(), osds.len() as u32);
        for (nth, osd) in osds.enumerate() {
            let at = within * nth as u32 / count;
            if at > begin.elapsed() {
                tokio::time::sleep(at - begin.elapsed()).await;
            }
            self.gone[osd] = false;
            self.starts[osd] += 1;
            self.tell(osd, Order::Start);
        }
    }

    fn map<T>(&self, look: impl FnOnce(&OsdMap) -> T) -> Option<T> {
        self.known.map.lock().expect("nobody panics under it").as_ref().map(look)
    }

    /// Waits until the map is as it should be and every OSD has it; prints the cost since `begin`.
    async fn until_stable(&self, what: &str, begin: Begin, done: impl Fn(&OsdMap) -> bool) -> Result<()> {
        let mut since = None;
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let epoch = self.map(|map| done(map).then_some(map.epoch.0)).flatten();
            let has = |epoch| {
                let pairs = self.known.epochs.iter().zip(&self.gone);
                pairs.into_iter().all(|(known, gone)| *gone || known.load(Ordering::Relaxed) == epoch)
            };
            match epoch.filter(|epoch| has(*epoch)) {
                None => since = None,
                Some(epoch) if since.is_none_or(|(known, _)| known != epoch) => since = Some((epoch, Instant::now())),
                Some(_) if since.is_some_and(|(_, at)| at.elapsed() >= STABLE) => break,
                Some(_) => {}
            }
            if begin.at.elapsed() > STABLE_MAX {
                bail!("{what}: not stable after {STABLE_MAX:?}");
            }
        }
        let heard = Duration::from_millis(self.known.heard_ms.load(Ordering::Relaxed));
        let took = heard.saturating_sub(begin.at - self.known.zero);
        let mib = (self.known.bytes.load(Ordering::Relaxed) - begin.bytes) >> 20;
        let (epoch, away) = (self.map(|map| map.epoch.0).unwrap_or(0), self.known.sent_away.load(Ordering::Relaxed));
        println!(
            "{what}: everybody has the last map after {took:.2?}; {} maps, {mib} MiB, {} sessions ended by monitors",
            epoch - begin.epoch,
            away - begin.sent_away
        );
        for ((name, now), before) in NAMES.iter().zip(self.monitors.usage()).zip(begin.usage) {
            println!("  mon.{name}: {:.2} s of CPU; {} MiB, at most {}", now.0 - before.0, now.1, now.2);
        }
        Ok(())
    }

    fn begin(&self) -> Begin {
        Begin {
            at: Instant::now(),
            epoch: self.map(|map| map.epoch.0).unwrap_or(0),
            bytes: self.known.bytes.load(Ordering::Relaxed),
            sent_away: self.known.sent_away.load(Ordering::Relaxed),
            usage: self.monitors.usage(),
        }
    }
}

/// Counters at the time when something began.
struct Begin {
    at: Instant,
    epoch: u32,
    bytes: u64,
    sent_away: u64,
    usage: Vec<(f64, u64, u64)>,
}

async fn run(osds: usize, groups: u32) -> Result<()> {
    let mut bench = Bench::new(osds)?;
    let begin = Instant::now();
    while bench.known.monitors.load(Ordering::Relaxed) < NAMES.len() as u32 || bench.map(|_| ()).is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if begin.elapsed() > STABLE_MAX {
            bail!("the monitors do not come together; see {}", bench.monitors.folder.display());
        }
    }
    let connected = || bench.known.epochs.iter().all(|epoch| epoch.load(Ordering::Relaxed) > 0);
    while !connected() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("{osds} OSDs, {} monitors; all have sessions after {:.1?}", NAMES.len(), begin.elapsed());
    let up = |count: usize| move |map: &OsdMap| map.counts().1 == count;

    let begin = bench.begin();
    bench.start(0..osds, START).await;
    let what = format!("OSDs start for the first time within {} s", START.as_secs());
    bench.until_stable(&what, begin, up(osds)).await?;

    let begin = bench.begin();
    let command = serde_json::json!({"prefix": "osd pool create", "pool": "p", "pg_num": groups});
    bench.tell(0, Order::Command(command.to_string()));
    bench.until_stable(&format!("a pool of {groups} groups is made"), begin, |map| !map.pools.is_empty()).await?;

    let (begin, failed) = (bench.begin(), RACK_OSDS.min(osds / 4));
    let mut reports: Vec<(Duration, usize, usize)> = Vec::new();
    // The first OSD does not fail, because it watches the map.
    for target in osds - failed..osds {
        bench.gone[target] = true;
        bench.tell(target, Order::Vanish);
        for nth in 0..REPORTERS {
            // The reporters are on as many hosts.
            let by = (target * 7 + nth * HOST_OSDS * 3) % (osds - failed);
            reports.push((REPORTS * ((target * REPORTERS + nth) % 997) as u32 / 997, by, target));
        }
    }
    reports.sort();
    for (at, by, target) in reports {
        if at > begin.at.elapsed() {
            tokio::time::sleep(at - begin.at.elapsed()).await;
        }
        bench.tell(by, Order::Report(target, addrs(target, 1, bench.starts[target])));
    }
    bench.until_stable(&format!("{failed} OSDs fail at once"), begin, up(osds - failed)).await?;

    let begin = bench.begin();
    bench.start(osds - failed..osds, REPORTS).await;
    bench.until_stable("they come back within 2 s", begin, up(osds)).await?;

    let begin = bench.begin();
    bench.start(0..osds, START).await;
    let before = types::Epoch(begin.epoch);
    let has_restarted =
        |map: &OsdMap, osd: usize| map.osd(types::OsdId(osd as i32)).is_some_and(|osd| osd.info.up_from > before);
    let all_have = |map: &OsdMap| map.counts().1 == osds && (0..osds).all(|osd| has_restarted(map, osd));
    bench.until_stable("all OSDs restart within 5 s", begin, all_have).await
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u32>().expect("a number"));
    let osds = args.next().unwrap_or(1000);
    let groups = args.next().unwrap_or(osds * 32);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(osds as usize, groups))
}
