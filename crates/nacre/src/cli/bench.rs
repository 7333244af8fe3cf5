//! The flags of `nacre bench`.

use std::net::SocketAddr;
use std::path::PathBuf;

use bench::plan::{Engine, Operations, Redundancy};
use bench::tool::Tool;
use clap::{Args, Subcommand, ValueEnum};

use crate::byte_size::ByteSize;

#[derive(Subcommand, Debug)]
pub enum Bench {
    /// Measure one cluster, or each cluster of a plan.
    Run(Box<BenchRun>),
    /// Measure the same on two or more clusters in turns, and say which is faster.
    Compare(Box<BenchRun>),
    /// Fill a cluster, lose OSDs, and measure the time until every copy is restored, without and with clients.
    Rebuild(Box<BenchRebuild>),
    /// Show the tables of a finished run.
    Report(BenchReport),
    /// Make a run of the output of 'rados bench' or fio, for reports beside runs of our own.
    Import(BenchImport),
    /// Measure what our client spends per operation beside librados under fio and 'rados bench', in turns on one
    /// cluster.
    ClientCost(BenchClientCost),
    /// Carry load, or watch this machine, for a run that is led from another ('bench run --agents').
    Agent(BenchAgent),
}

#[derive(Args, Debug)]
pub struct BenchRun {
    /// A plan in JSON or TOML, one of the Ceph Benchmarking Tool (.yaml), or the name of a shipped one: micron-7450-ec,
    /// micron-7300-block, micron-6500-qlc, dell-dss7000, intel-afa. Without one, the flags under "Load" make one.
    #[arg(value_name = "PLAN", conflicts_with = "Load")]
    pub plan: Option<PathBuf>,
    /// A cluster and its name in results; PATH is a ceph.conf, of Nacre or of Ceph, or a folder with one. Goes before
    /// the plan's clusters. [default: the cluster in ./nacre-data]
    #[arg(long, value_name = "NAME=PATH", value_parser = parse_cluster)]
    pub cluster: Vec<ClusterAt>,
    /// A ceph.conf, of Nacre or of Ceph, or a folder with one: a cluster that is called 'cluster' in results.
    #[arg(short, long, value_name = "FILE", conflicts_with = "cluster")]
    pub conf: Option<PathBuf>,
    #[command(flatten)]
    pub gateways: Gateways,
    /// Size of a plan of sweeps, as the shipped ones are: that of the document, or one for a machine in minutes.
    #[arg(long, value_enum, default_value_t = PlanScale::Full, requires = "plan")]
    pub scale: PlanScale,
    #[command(flatten)]
    pub load: Load,
    #[command(flatten)]
    pub times: Times,
    #[command(flatten)]
    pub sweep: Sweep,
    #[command(flatten)]
    pub limits: LimitFlags,
    /// Of the plan only workloads whose name contains this; may be there several times.
    #[arg(long, value_name = "WORDS", requires = "plan")]
    pub only: Vec<String>,
    /// Data of each workload instead of the plan's, shared among its groups: objects or images of so much together, at
    /// least a place for each operation in flight.
    #[arg(long, value_name = "SIZE", requires = "plan")]
    pub data: Option<ByteSize>,
    /// Folder for results, which must not exist. [default: nacre-bench/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Leave the pools that were made, or the objects in a pool that was there.
    #[arg(long)]
    pub keep: bool,
    /// Measure first what the drive under the first cluster and the loopback network can do by themselves, and say what
    /// was short. Writes 1 GiB several times.
    #[arg(long)]
    pub ceilings: bool,
    /// Have agents ('nacre bench agent') carry the load instead of this machine; instances are shared among them.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    pub agents: Vec<String>,
    /// A file with the token that the agents ask for.
    #[arg(long, value_name = "FILE", requires = "agents")]
    pub token_file: Option<PathBuf>,
    /// Print the result as JSON instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Print the plan and end; nothing is contacted or measured.
    #[arg(long)]
    pub print_plan: bool,
}

/// A value of `--scale`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PlanScale {
    Full,
    Laptop,
}

/// How long and how often; with a plan, instead of what it says.
#[derive(Args, Debug)]
#[command(next_help_heading = "Times")]
pub struct Times {
    /// Measure for so long. [default: 10, or the plan's]
    #[arg(long, value_name = "SECONDS", conflicts_with = "steady")]
    pub seconds: Option<f64>,
    /// Load before measuring. [default: 2, or the plan's]
    #[arg(long, value_name = "SECONDS")]
    pub warm_up: Option<f64>,
    /// How often it is measured. [default: 'run' 1, 'compare' 5, or the plan's]
    #[arg(long, value_name = "N")]
    pub iterations: Option<u32>,
}

/// Loads that depend on what lighter ones gave.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sweeps and searches")]
pub struct Sweep {
    /// Measure with twice as many clients each time, up to so many.
    #[arg(long, value_name = "N", conflicts_with = "plan")]
    pub clients_max: Option<u32>,
    /// Leave out heavier loads of a sweep once a step adds less than so many percent to throughput (the high-water
    /// mark); 0 leaves out none. [default: the plan's]
    #[arg(long, value_name = "PERCENT", conflicts_with = "find_p99")]
    pub stop_gain: Option<f64>,
    /// Search for the most load whose p99 is at or below so many milliseconds: operations in flight of each client, or
    /// with --rate arrivals per second.
    #[arg(long, value_name = "MS", conflicts_with = "clients_max")]
    pub find_p99: Option<f64>,
    /// Most load that a search tries. [default: 256 in flight, or 1000000 per second]
    #[arg(long, value_name = "N", requires = "find_p99", value_parser = clap::value_parser!(u32).range(1..))]
    pub load_max: Option<u32>,
}

/// Limits of operating points.
#[derive(Args, Debug)]
#[command(next_help_heading = "Operating points")]
pub struct LimitFlags {
    /// Largest mean latency of the recommended point. [default: 50]
    #[arg(long, value_name = "MS")]
    pub mean_max: Option<f64>,
    /// Largest part of more load that may become latency at the recommended point. [default: 80]
    #[arg(long, value_name = "PERCENT")]
    pub latency_part: Option<f64>,
    /// Largest p99. [default: three times the smallest of the sweep]
    #[arg(long, value_name = "MS")]
    pub p99_max: Option<f64>,
    /// Busy shares of the processors. [default: 80,85]
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',')]
    pub cpu_max: Vec<f64>,
    /// Growth of throughput that makes a step of more load worth it. [default: 5]
    #[arg(long, value_name = "PERCENT")]
    pub high_water: Option<f64>,
}

/// Flags that make a plan of one workload.
#[derive(Args, Debug)]
#[group(id = "Load", multiple = true)]
#[command(next_help_heading = "Load")]
pub struct Load {
    /// Kind of operations: write, randwrite, read, randread, with nacre-s3 also head, delete and list, or a mix such as
    /// randread=70,randwrite=30. [default: write]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub mode: Option<Mode>,
    /// Size of an object, 4KiB to 64MiB. [default: 4MiB]
    #[arg(long, value_name = "SIZE")]
    pub object_size: Option<ByteSize>,
    /// Size of one operation. [default: the whole object]
    #[arg(long, value_name = "SIZE")]
    pub io_size: Option<ByteSize>,
    /// Most keys of a page, of lists by nacre-s3. [default: 1000]
    #[arg(long, value_name = "N")]
    pub list_keys: Option<u32>,
    /// Number of objects. [default: 1 GiB of them, 16 to 4096]
    #[arg(long, value_name = "N")]
    pub objects: Option<u64>,
    /// Clients, each with its own connections. [default: 1]
    #[arg(long, value_name = "N")]
    pub instances: Option<u32>,
    /// Operations in flight per client; with --rate the most there may be. [default: 16, with --rate 256]
    #[arg(long, value_name = "N")]
    pub depth: Option<u32>,
    /// Open loop: so many operations per second begin whether earlier ones have ended or not.
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// With --rate: arrivals are those of a Poisson process instead of evenly spaced.
    #[arg(long, requires = "rate")]
    pub poisson: bool,
    /// Measure rounds of so many seconds until they no longer drift (SNIA's steady state).
    #[arg(long, value_name = "SECONDS")]
    pub steady: Option<f64>,
    /// Program that carries the load: nacre (objects), nacre-rbd (images by the same client), nacre-s3 (objects by S3),
    /// or one of Ceph's own tools, which do one kind of operation in a closed loop.
    #[arg(long, value_name = "TOOL", value_parser = parse_tool)]
    pub tool: Option<Tool>,
    /// Use a pool that is there. Objects that are made in it are removed afterwards. With nacre-s3 a bucket, which is
    /// made if it is not there. [default bucket: nacre-bench]
    #[arg(long, value_name = "POOL", conflicts_with_all = ["replicas", "erasure", "pgs"])]
    pub pool: Option<String>,
    /// Make a pool of so many copies. [default: 3]
    #[arg(long, value_name = "COPIES", conflicts_with = "erasure")]
    pub replicas: Option<u32>,
    /// Make an erasure-coded pool, such as 4+2.
    #[arg(long, value_name = "K+M", value_parser = parse_erasure)]
    pub erasure: Option<Redundancy>,
    /// Placement groups of the pool that is made, a power of two. [default: 64]
    #[arg(long, value_name = "N")]
    pub pgs: Option<u32>,
    /// Decides every byte written and every object chosen. [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("lost").required(true))]
pub struct BenchRebuild {
    /// The OSDs to lose, all at once. Their stores are erased, each time.
    #[arg(long, value_name = "ID,...", value_delimiter = ',', group = "lost")]
    pub osd: Vec<u32>,
    /// Lose a host of the CRUSH tree: all of its OSDs.
    #[arg(long, value_name = "NAME", group = "lost")]
    pub host: Option<String>,
    /// The stores may be erased. Without this nothing is done.
    #[arg(long)]
    pub yes: bool,
    /// The cluster and its name in results; PATH is a ceph.conf, of Nacre or of Ceph, or a folder with one. [default:
    /// the cluster in ./nacre-data]
    #[arg(long, value_name = "NAME=PATH", value_parser = parse_cluster)]
    pub cluster: Option<ClusterAt>,
    /// A ceph.conf, of Nacre or of Ceph, or a folder with one: a cluster that is called 'cluster' in results.
    #[arg(short, long, value_name = "FILE", conflicts_with = "cluster")]
    pub conf: Option<PathBuf>,
    /// For clusters that 'nacre up' has not made: a program that is called as PROGRAM stop ID ..., PROGRAM renew ID ...
    /// (erase the stores, and make new ones) and PROGRAM start ID ...
    #[arg(long, value_name = "PROGRAM")]
    pub by: Option<PathBuf>,
    /// Share of the raw capacity that is filled before, at most 75.
    #[arg(long, value_name = "PERCENT", default_value_t = 50.0)]
    pub fill: f64,
    /// A rebuild without clients, one with clients, or one of each.
    #[arg(long, value_enum, default_value_t = RebuildLoad::Both)]
    pub load: RebuildLoad,
    /// Clients that read what fills the cluster.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub readers: u32,
    /// Clients that write objects of their own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=4096))]
    pub writers: u32,
    /// Operations in flight of each client.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub depth: u32,
    /// Size of an object, 4KiB to 64MiB.
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    pub object_size: ByteSize,
    /// Copies of the pool that is made. [default: 3]
    #[arg(long, value_name = "COPIES", conflicts_with = "erasure")]
    pub replicas: Option<u32>,
    /// Make an erasure-coded pool, such as 4+2.
    #[arg(long, value_name = "K+M", value_parser = parse_erasure)]
    pub erasure: Option<Redundancy>,
    /// Placement groups of the pool, a power of two.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub pgs: u32,
    /// Seconds for which the clients are measured before the loss.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub before: f64,
    /// Longest time of a rebuild, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400.0)]
    pub limit: f64,
    /// Decides every byte written and every object chosen.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Folder for results, which must not exist. [default: nacre-bench/rebuild-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Leave the pool that was made.
    #[arg(long)]
    pub keep: bool,
    /// Print the result as JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// A value of `--load` of a rebuild.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum RebuildLoad {
    Both,
    Without,
    With,
}

#[derive(Args, Debug)]
pub struct BenchAgent {
    /// Where to wait for a coordinator; port 0 takes any that is free. Without --token-file only addresses of this
    /// machine.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7480")]
    pub listen: SocketAddr,
    /// A file with a token, of 16 bytes at least, that coordinators must know. Each side proves that it does, and what
    /// they say is encrypted. Make it of random bytes, as `openssl rand -hex 32` does.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Carry no load: only read what this machine and the daemons on it spend.
    #[arg(long)]
    pub watch_only: bool,
    /// Configuration of a cluster, which leads to the agent's key, and to daemons on this machine, where it lies
    /// neither where the coordinator has it nor at /etc/ceph/ceph.conf. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub conf: Vec<PathBuf>,
    /// File with the agent's keys for S3 gateways, in the form of AWS's credentials. [default: AWS_ACCESS_KEY_ID and
    /// AWS_SECRET_ACCESS_KEY of the environment]
    #[arg(long, value_name = "FILE")]
    pub s3_keys: Option<PathBuf>,
    /// File in PEM with the authorities whose certificates count for S3 gateways. [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub s3_ca: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct BenchReport {
    /// A run's folder, or its result.json.
    pub path: PathBuf,
    /// Write the whole report, with figures, operating points and configuration, as one HTML file that needs nothing
    /// else; a file that is there is replaced.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["csv", "rows", "into", "text"])]
    pub html: Option<PathBuf>,
    /// Print the whole report as text for a terminal.
    #[arg(long, conflicts_with_all = ["csv", "rows", "into"])]
    pub text: bool,
    /// Set another run's folder or result.json beside this one: ratios, intervals and verdicts.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["csv", "rows"])]
    pub against: Option<PathBuf>,
    /// One line per measurement, for spreadsheets.
    #[arg(long, conflicts_with = "rows")]
    pub csv: bool,
    /// One table with a line per workload: the second cluster beside the first.
    #[arg(long)]
    pub rows: bool,
    #[command(flatten)]
    pub limits: LimitFlags,
    #[command(flatten)]
    pub document: Document,
}

#[derive(Args, Debug)]
pub struct BenchImport {
    /// Outputs: of 'rados bench', as text or with --format json; of fio with --output-format=json or json+. Several of
    /// the same workload are its iterations. [default of WORKLOAD: the file's name]
    #[arg(required = true, value_name = "[WORKLOAD=]FILE", value_parser = parse_output)]
    pub outputs: Vec<Output>,
    /// Name of the run.
    #[arg(long, value_name = "NAME", default_value = "imported")]
    pub name: String,
    /// Name of the cluster in results.
    #[arg(long, value_name = "NAME", default_value = "cluster")]
    pub cluster: String,
    /// Whose daemons ran.
    #[arg(long, value_enum, default_value_t = Daemons::Ceph)]
    pub engine: Daemons,
    /// Folder for the run, which must not exist. [default: nacre-bench/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// A value of `--engine`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Daemons {
    Nacre,
    Ceph,
}

impl From<Daemons> for Engine {
    fn from(daemons: Daemons) -> Engine {
        match daemons {
            Daemons::Nacre => Engine::Nacre,
            Daemons::Ceph => Engine::Ceph,
        }
    }
}

/// An output of another tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    pub workload: Option<String>,
    pub path: PathBuf,
}

fn parse_output(text: &str) -> Result<Output, String> {
    let plain = |name: &str| !name.is_empty() && name.chars().all(bench::plan::is_plain);
    match text.split_once('=') {
        Some((name, path)) if plain(name) && !path.is_empty() => {
            Ok(Output { workload: Some(name.to_owned()), path: path.into() })
        }
        _ if text.is_empty() => Err("there is no name of a file".to_owned()),
        _ => Ok(Output { workload: None, path: text.into() }),
    }
}

/// Where tables go instead of standard output.
#[derive(Args, Debug)]
pub struct Document {
    /// Put the tables into this file, between its lines '<!-- SECTION: begin -->' and '<!-- SECTION: end -->'.
    #[arg(long, value_name = "FILE", requires = "section")]
    pub into: Option<PathBuf>,
    #[arg(long, value_name = "SECTION", requires = "into")]
    pub section: Option<String>,
}

#[derive(Args, Debug)]
pub struct BenchClientCost {
    /// The cluster and its name; PATH is a ceph.conf, of Nacre or of Ceph, or a folder with one. [default: the cluster
    /// in ./nacre-data]
    #[arg(long, value_name = "NAME=PATH", value_parser = parse_cluster)]
    pub cluster: Option<ClusterAt>,
    /// A ceph.conf, of Nacre or of Ceph, or a folder with one: a cluster that is called 'cluster' in results.
    #[arg(short, long, value_name = "FILE", conflicts_with = "cluster")]
    pub conf: Option<PathBuf>,
    /// Size of one operation, at most 1 MiB.
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    pub io_size: ByteSize,
    /// Operations in flight.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub depth: u32,
    /// Copies of each object in the pool that is made.
    #[arg(long, value_name = "COPIES", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub replicas: u32,
    /// Seconds that count in each run.
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// How often it is measured; fewer than five show nothing with a confidence of 90 %.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub iterations: u32,
    /// Print the result as JSON instead of tables.
    #[arg(long, conflicts_with = "into")]
    pub json: bool,
    #[command(flatten)]
    pub document: Document,
}

/// A value of `--cluster`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterAt {
    pub name: String,
    pub path: PathBuf,
}

/// S3 gateways, for workloads of nacre-s3.
#[derive(Args, Debug, Default)]
pub struct Gateways {
    /// The S3 gateway of a cluster, http://HOST:PORT or https://HOST:PORT. Goes before the plan's. Without a name, of
    /// all clusters.
    #[arg(long, value_name = "[NAME=]ENDPOINT", value_parser = parse_named)]
    pub s3: Vec<Named>,
    /// File with the keys for a gateway, in the form of AWS's credentials. [default: AWS_ACCESS_KEY_ID and
    /// AWS_SECRET_ACCESS_KEY of the environment]
    #[arg(long, value_name = "[NAME=]FILE", value_parser = parse_named)]
    pub s3_keys: Vec<Named>,
    /// File in PEM with the authorities whose certificates count for gateways with https. [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub s3_ca: Option<PathBuf>,
    /// Requests sign the bytes of objects, too.
    #[arg(long)]
    pub s3_signed_payload: bool,
}

/// A value for the cluster `name`, or for all without it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    pub name: Option<String>,
    pub value: String,
}

fn parse_named(text: &str) -> Result<Named, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (Some(name.to_owned()), value),
        None => (None, text),
    };
    if value.is_empty() || name.as_ref().is_some_and(String::is_empty) {
        return Err("write NAME=VALUE, or a value for all clusters".into());
    }
    Ok(Named { name, value: value.to_owned() })
}

/// A value of `--mode`: its words, and what they mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mode {
    pub words: String,
    pub operations: Operations,
}

fn parse_cluster(text: &str) -> Result<ClusterAt, String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok(ClusterAt { name: name.to_owned(), path: path.into() })
        }
        _ => Err("write NAME=PATH, for example ceph=/etc/ceph/ceph.conf".into()),
    }
}

fn parse_tool(text: &str) -> Result<Tool, String> {
    let all = [Tool::Nacre, Tool::NacreRbd, Tool::NacreS3, Tool::RadosBench, Tool::FioRados, Tool::FioRbd];
    let names = all.map(Tool::name).join(", ");
    all.into_iter().find(|tool| tool.name() == text).ok_or_else(|| format!("'{text}' is none of {names}"))
}

fn parse_mode(text: &str) -> Result<Mode, String> {
    let mut operations = Operations::default();
    let mut total = 0u32;
    for part in text.split(',') {
        let (word, percent) = match part.split_once('=') {
            Some((word, percent)) => {
                let number = percent.trim_end_matches('%').parse();
                (word, number.map_err(|_| format!("'{percent}' is not a percentage"))?)
            }
            None => (part, 100),
        };
        let slot = match word {
            "write" => &mut operations.sequential_write,
            "randwrite" => &mut operations.random_write,
            "read" => &mut operations.sequential_read,
            "randread" => &mut operations.random_read,
            "head" => &mut operations.head,
            "delete" => &mut operations.delete,
            "list" => &mut operations.list,
            _ => return Err(format!("'{word}' is none of write, randwrite, read, randread, head, delete, list")),
        };
        if *slot != 0 {
            return Err(format!("'{word}' is there twice"));
        }
        *slot = percent;
        total = total.saturating_add(percent);
    }
    if total != 100 {
        return Err(format!("the percentages add up to {total}, not 100"));
    }
    Ok(Mode { words: text.replace([',', '='], "-").replace('%', ""), operations })
}

fn parse_erasure(text: &str) -> Result<Redundancy, String> {
    let parts = text.split_once('+').and_then(|(k, m)| Some((k.parse().ok()?, m.parse().ok()?)));
    let (k, m) = parts.ok_or("write data and parity shards, for example 4+2")?;
    Ok(Redundancy::Erasure { k, m })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        let check = |text: &str, parts: [u32; 7]| {
            assert_eq!(parse_mode(text).unwrap().operations.by_name().map(|(_, percent)| percent), parts, "{text}");
        };
        check("write", [100, 0, 0, 0, 0, 0, 0]);
        check("randread=70,randwrite=30", [0, 30, 0, 70, 0, 0, 0]);
        check("read=50%,write=50%", [50, 0, 50, 0, 0, 0, 0]);
        check("head=60,delete=30,list=10", [0, 0, 0, 0, 60, 30, 10]);
        for (text, words) in [
            ("reads", "none of"),
            ("read=x", "percentage"),
            ("read=50", "add up to 50"),
            ("read=50,read=50", "twice"),
            ("read=4294967295,write=4294967295", "add up"),
            ("", "none of"),
        ] {
            let error = parse_mode(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert_eq!(parse_mode("randread=70%,randwrite=30").unwrap().words, "randread-70-randwrite-30");
    }

    #[test]
    fn clusters_and_codes() {
        assert_eq!(parse_cluster("a=b=c").unwrap(), ClusterAt { name: "a".into(), path: "b=c".into() });
        assert!(parse_cluster("a").is_err() && parse_cluster("=a").is_err() && parse_cluster("a=").is_err());
        assert_eq!(parse_erasure("4+2").unwrap(), Redundancy::Erasure { k: 4, m: 2 });
        assert!(parse_erasure("4").is_err() && parse_erasure("4+x").is_err() && parse_erasure("-4+2").is_err());
    }
}
