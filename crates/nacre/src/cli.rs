//! The command line: each flag is declared here, once.

pub mod bench;
pub mod disk;
pub mod doctor;
pub mod plan;
mod s3;

pub use s3::*;

use crate::byte_size::ByteSize;
use crate::state_file::Engine;
use clap::{Args, Parser, Subcommand};
use client::Who;
use std::net::IpAddr;
use std::path::PathBuf;
use types::OsdId;

/// An all-flash storage cluster that Ceph's own clients use.
///
/// A first session:
///
///   nacre up --detach            start a cluster in ./nacre-data
///   nacre pool create photos     make a pool
///   nacre put photos cat cat.jpg store a file
///   nacre get photos cat -       and read it back
///   nacre down                   stop the cluster; the data stays
#[derive(Parser, Debug)]
#[command(name = "nacre", version, verbatim_doc_comment, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// Level of the log: error, warn, info, debug, trace, or a filter such as "info,wire=debug". [env: NACRE_LOG]
    #[arg(long, global = true, value_name = "FILTER")]
    pub log: Option<String>,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Create a cluster on this machine, or start it again.
    Up(Up),
    /// Stop the cluster of a directory. Its data stays.
    Down(Down),
    /// Show health, daemons, pools and usage.
    Status(Status),
    /// Store a file (or '-', standard input) as an object.
    Put(Put),
    /// Write an object to a file (or '-', standard output).
    Get(Get),
    /// List the objects of a pool.
    Ls(Ls),
    /// Remove objects.
    Rm(Rm),
    /// Show an object's size and time of change.
    Stat(Stat),
    /// Create, list and remove pools.
    #[command(subcommand)]
    Pool(Pool),
    /// Make, show and remove clients and their keys.
    #[command(subcommand)]
    Auth(Auth),
    /// Tell what options of Ceph mean here.
    #[command(subcommand)]
    Config(Config),
    /// Check, repair, export and import the store of an OSD that does not run.
    #[command(subcommand)]
    Store(Store),
    /// Measure clusters, of Nacre or of Ceph, and compare them.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Size a cluster: from capacity, failures to survive, workload and drives to servers, networks and figures.
    Plan(plan::PlanFlags),
    /// Tell what on this machine costs a cluster performance or safety, and mend it.
    Doctor(doctor::Doctor),
    /// List drives, divide them for OSDs, wipe them.
    #[command(subcommand)]
    Disk(disk::Disk),
    /// Report on a cluster that runs, of Nacre or of Ceph: limits, where time goes, risks, changes worth making.
    Report(ClusterReport),
    /// Tell where the time of operations goes: of the median one and of the slowest.
    Why(Why),
    /// Serve objects by S3, and make its users and keys.
    #[command(subcommand)]
    S3(s3::S3),
    /// Run whole clusters under simulated misfortunes, each from a seed that gives the same again.
    #[cfg(feature = "sim")]
    Sim(sim::cli::SimOptions),
    /// Run a monitor (for deployments by hand; 'up' does it for you).
    Mon(Mon),
    /// Run an OSD, the daemon of one drive (for deployments by hand; 'up' does it for you).
    Osd(Osd),
    /// Run a worker, which carries out 'ceph rbd task add ...' (for deployments by hand; 'up' does it for you).
    Worker(Worker),
}

/// It logs in as client.worker unless told otherwise, and needs 'profile rbd' at monitors, manager and OSDs.
#[derive(Args, Debug)]
pub struct Worker {
    /// Stop when this process, which must be the parent, ends.
    #[arg(long, value_name = "PID", hide = true)]
    pub supervised_by: Option<u32>,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Subcommand, Debug)]
pub enum Auth {
    /// Make a client, and print the ceph.conf and the keyring for its host. Of one that is there print them again.
    Add(AuthAdd),
    /// List names and capabilities.
    Ls(Target),
    /// Show one entity with its key and capabilities.
    Show(AuthName),
    /// Remove an entity. It is let in nowhere any more.
    Rm(AuthName),
    /// Replace a client's rights.
    Caps(AuthRights),
    /// Replace a key: makes another one, which is good beside the old one until --commit.
    Rotate(AuthRotate),
    /// Give a cluster that was made without authentication keys, and have everybody use them, while clients work. What
    /// was cut off goes on where it was. Exit status 1 while clients are left that prove nothing.
    Enable(AuthEnable),
}

#[derive(Args, Debug)]
pub struct AuthEnable {
    #[command(flatten)]
    pub dir: Dir,
    /// Only tell how far the cluster is, and what is left.
    #[arg(long)]
    pub status: bool,
    /// Cut off clients that prove nothing.
    #[arg(long, conflicts_with = "status")]
    pub force: bool,
}

/// The purpose of a client.
#[derive(Args, Debug, Clone, Default)]
pub struct ClientRights {
    /// Pool whose objects it may use.
    #[arg(long = "pool", value_name = "POOL")]
    pub pools: Vec<String>,
    /// Only objects of this namespace.
    #[arg(long, value_name = "NAMESPACE", requires = "pools")]
    pub namespace: Option<String>,
    /// It reads and changes nothing.
    #[arg(long, requires = "pools")]
    pub read_only: bool,
    /// Its pools have block images.
    #[arg(long, requires = "pools")]
    pub images: bool,
    /// It may do everything.
    #[arg(long, conflicts_with = "pools")]
    pub administrator: bool,
}

#[derive(Args, Debug)]
pub struct AuthRights {
    /// Name, with or without 'client.'.
    #[arg(value_name = "NAME")]
    pub entity: String,
    #[command(flatten)]
    pub rights: ClientRights,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct AuthAdd {
    #[command(flatten)]
    pub client: AuthRights,
    /// Kind of its key: 'aes', which every client knows, or 'aes256k', which is better and known from Ceph 19.2.6 on;
    /// by default the cluster's 'auth_preferred_cipher'. A key that is there stays.
    #[arg(long, value_name = "KIND", value_parser = key_kind)]
    pub kind: Option<auth::KeyKind>,
}

/// Reads a kind of key.
fn key_kind(word: &str) -> Result<auth::KeyKind, auth::key::UnknownKeyKind> {
    word.parse()
}

#[derive(Args, Debug)]
pub struct AuthName {
    /// Name; without a kind, as in 'backup', it is a client's.
    #[arg(value_name = "NAME")]
    pub entity: String,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct AuthRotate {
    /// Name; without a kind, as in 'backup', it is a client's.
    #[arg(value_name = "NAME")]
    pub entity: String,
    /// Kind of the new key: 'aes' or 'aes256k'; by default that of the present one.
    #[arg(long, value_name = "KIND", conflicts_with_all = ["commit", "abort"], value_parser = key_kind)]
    pub kind: Option<auth::KeyKind>,
    /// The new key is where it is needed: forget the old one.
    #[arg(long)]
    pub commit: bool,
    /// Forget the new key.
    #[arg(long, conflicts_with = "commit")]
    pub abort: bool,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Subcommand, Debug)]
pub enum Config {
    /// Tell whether an option is honoured here, what it does, and what serves its purpose if it is not.
    Why(ConfigWhy),
}

#[derive(Args, Debug)]
pub struct ConfigWhy {
    /// Names of options, or their beginnings with a '*'.
    #[arg(required = true, value_name = "OPTION")]
    pub options: Vec<String>,
    /// For programs.
    #[arg(long)]
    pub json: bool,
}

/// Default of `--dir`.
pub const DEFAULT_DIR: &str = "nacre-data";

#[derive(Args, Debug, Clone)]
pub struct Dir {
    /// Directory of the cluster.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
}

#[derive(Args, Debug, Clone)]
pub struct Up {
    #[command(flatten)]
    pub dir: Dir,
    /// Whose daemons to run: Nacre's, or those of a real Ceph, which must be installed. [default: nacre, or as the
    /// cluster has]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<Engine>,
    /// Clients and daemons prove by keys who they are: the default of a new cluster. The key of client.admin lies in
    /// the cluster's directory.
    #[arg(long)]
    pub cephx: bool,
    /// A new cluster in which nobody proves anything: whoever reaches the ports owns the data. It listens on loopback
    /// only, unless --insecure.
    #[arg(long, conflicts_with_all = ["cephx", "secure"])]
    pub no_auth: bool,
    /// All connections are encrypted. [default: as the cluster has, else those of monitors alone]
    #[arg(long)]
    pub secure: bool,
    /// Number of OSDs, each a process with a file of its own. More than the cluster has, which may be running, are
    /// added. [default: 6, or as the cluster has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=400))]
    pub osds: Option<u32>,
    /// Number of monitors, best odd: a majority must live. Of a cluster that is there they become more, and of one that
    /// runs fewer, too. [default: 3 (Ceph: 1), or as the cluster has]
    #[arg(long, value_name = "N")]
    pub mons: Option<u32>,
    /// Size of each OSD, such as 16GiB; 'auto' is the smaller of 16 GiB and 60 % of the free space shared out. Files
    /// are sparse: they take space as they fill. [default: auto, or as the cluster has]
    #[arg(long, value_name = "SIZE", value_parser = parse_osd_size)]
    pub osd_size: Option<OsdSize>,
    /// Directory, on another drive, of a file for each OSD's log. [default: the log lies in the OSD's own file]
    #[arg(long, value_name = "DIR")]
    pub wal_dir: Option<PathBuf>,
    /// Directory, on another drive, of a file for each OSD's metadata. [default: they lie in the OSD's own file]
    #[arg(long, value_name = "DIR")]
    pub metadata_dir: Option<PathBuf>,
    /// Shards of each OSD, of which each has a thread and a part of the OSD's file: a power of two. It is never
    /// changed. [default: 1, or as the cluster has]
    #[arg(long, value_name = "N", value_parser = parse_shards)]
    pub shards: Option<u32>,
    /// Port of the first monitor; OSDs take any free ports. Outgoing connections of this machine may have taken one of
    /// 32768 to 60999. [default: 13300, or as the cluster has]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Serve S3 on this port, and print the endpoint and a user's keys. [default: none is served]
    #[arg(long, value_name = "PORT")]
    pub s3_port: Option<u16>,
    /// Return once the cluster is healthy and leave it running. Fails if that takes more than 60 seconds (Ceph: 240).
    #[arg(long)]
    pub detach: bool,
    /// Do not start a daemon again when it ends by itself.
    #[arg(long)]
    pub no_restart: bool,
    /// With --no-auth, or for a cluster that has no authentication: listen beyond this machine. Whoever reaches the
    /// ports owns the data.
    #[arg(long)]
    pub insecure: bool,
    /// Address to listen on. [default: 127.0.0.1, with --no-auth and --insecure this machine's outward address]
    #[arg(long, value_name = "IP")]
    pub bind: Option<IpAddr>,
    /// The half of --detach that stays: in a session of its own, reports on standard output.
    #[arg(long, hide = true)]
    pub background: bool,
}

/// A value of `--shards`.
fn parse_shards(text: &str) -> Result<u32, String> {
    devices::parse_shards(text).map(|shards| shards as u32)
}

/// A value of `--osd-size`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OsdSize {
    Auto,
    Bytes(ByteSize),
}

fn parse_osd_size(text: &str) -> Result<OsdSize, String> {
    if text.eq_ignore_ascii_case("auto") { Ok(OsdSize::Auto) } else { text.parse().map(OsdSize::Bytes) }
}

#[derive(Args, Debug)]
pub struct Down {
    #[command(flatten)]
    pub dir: Dir,
}

#[derive(Args, Debug)]
pub struct Status {
    #[command(flatten)]
    pub dir: Dir,
    /// For programs.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct ClusterReport {
    /// Measure, too: three loads of so many seconds each, in the pool nacre-report, which is made and removed. Without
    /// this the cluster is only asked.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "5")]
    pub load: Option<f64>,
    /// Print the report as JSON.
    #[arg(long, conflicts_with = "html")]
    pub json: bool,
    /// Write the report as one HTML file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct Why {
    /// Only operations whose primary is this OSD.
    #[arg(long, value_name = "N")]
    pub osd: Option<u32>,
    /// Only operations on this pool.
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
    /// Only the slowest operation that the OSDs still know of (they keep some of each of the last ten minutes).
    #[arg(long)]
    pub slowest: bool,
    /// Only the table of what is usual, and the median operation.
    #[arg(long, conflicts_with = "slowest")]
    pub median: bool,
    /// For programs.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub target: Target,
}

/// Which cluster a client command talks to.
#[derive(Args, Debug, Clone)]
pub struct Target {
    /// Directory of a cluster made by 'nacre up'.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
    /// A ceph.conf, of this or of a real Ceph cluster; goes before --dir.
    #[arg(long, short = 'c', value_name = "FILE")]
    pub conf: Option<PathBuf>,
    #[command(flatten)]
    pub login: Login,
}

/// Name and key of a client command.
#[derive(Args, Debug, Clone, Default)]
pub struct Login {
    /// Name to log in as. [default: client.admin]
    #[arg(long, short = 'n', value_name = "client.NAME", conflicts_with = "id", value_parser = parse_name)]
    pub name: Option<Who>,
    /// Name to log in as, without the 'client.' before it.
    #[arg(long, value_name = "NAME", value_parser = parse_id)]
    pub id: Option<Who>,
    /// File with the key, in place of those that the ceph.conf names.
    #[arg(long, value_name = "FILE")]
    pub keyring: Option<PathBuf>,
}

fn parse_name(text: &str) -> Result<Who, String> {
    let who = Who::parse(text).filter(|who| who.entity().is_some());
    who.ok_or_else(|| "a name has the form 'client.NAME'".to_owned())
}

fn parse_id(text: &str) -> Result<Who, String> {
    parse_name(&format!("client.{text}"))
}

#[derive(Args, Debug, Clone)]
pub struct Namespace {
    /// Namespace within the pool.
    #[arg(long, short = 'N', value_name = "NAME", default_value = "")]
    pub namespace: String,
}

#[derive(Args, Debug)]
pub struct Put {
    pub pool: String,
    pub object: String,
    /// File to read, '-' for standard input.
    pub file: PathBuf,
    #[command(flatten)]
    pub namespace: Namespace,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct Get {
    pub pool: String,
    pub object: String,
    /// File to write, '-' for standard output.
    pub file: PathBuf,
    #[command(flatten)]
    pub namespace: Namespace,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct Ls {
    pub pool: String,
    #[command(flatten)]
    pub namespace: Namespace,
    /// Objects of all namespaces, as namespace and name with a tab between.
    #[arg(long, conflicts_with = "namespace")]
    pub all: bool,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct Rm {
    pub pool: String,
    #[arg(required = true)]
    pub objects: Vec<String>,
    #[command(flatten)]
    pub namespace: Namespace,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct Stat {
    pub pool: String,
    pub object: String,
    #[command(flatten)]
    pub namespace: Namespace,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Subcommand, Debug)]
pub enum Pool {
    /// Make a pool.
    Create(PoolCreate),
    /// List pools.
    Ls(PoolLs),
    /// Remove a pool and every object in it.
    Rm(PoolRm),
}

#[derive(Args, Debug)]
pub struct PoolCreate {
    pub pool: String,
    /// Copies of each object. [default: 3, or what the cluster is set to]
    #[arg(long, value_name = "COPIES", value_parser = clap::value_parser!(u32).range(1..=10))]
    pub size: Option<u32>,
    /// Number of placement groups. [default: chosen by the cluster]
    #[arg(long, value_name = "N")]
    pub pg_num: Option<u32>,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct PoolLs {
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Debug)]
pub struct PoolRm {
    pub pool: String,
    /// Confirms that all objects in the pool are to be destroyed.
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Subcommand, Debug)]
pub enum Store {
    /// Compare everything in a store with its checksums and counts. Writes nothing; exit status 1 means damage.
    Check(StoreCheck),
    /// Show what can be repaired from the store alone, and with --yes do it.
    Repair(StoreRepair),
    /// Write a placement group, or everything, to a file.
    Export(StoreExport),
    /// Put an exported file into a store of the same cluster.
    Import(StoreImport),
    /// Show what is in a store and how it lies there.
    Stats(StoreStats),
}

#[derive(Args, Debug)]
pub struct StorePath {
    /// Directory of the OSD, such as nacre-data/osd.0, or its device or file.
    #[arg(value_name = "DIR")]
    pub path: PathBuf,
}

#[derive(Args, Debug)]
pub struct StoreCheck {
    #[command(flatten)]
    pub store: StorePath,
    /// For programs.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct StoreStats {
    #[command(flatten)]
    pub store: StorePath,
    /// For programs.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct StoreRepair {
    #[command(flatten)]
    pub store: StorePath,
    /// Do it; without, only tell what would be done.
    #[arg(long)]
    pub yes: bool,
    /// Of an OSD with several shards: only this one's part, counted from 0.
    #[arg(long, value_name = "N")]
    pub shard: Option<usize>,
    /// Remove this damaged object, named as 'nacre store check' prints it, so that its placement group brings it from
    /// another member. If there is no other one, it is lost.
    #[arg(long, value_name = "OBJECT")]
    pub remove_object: Vec<String>,
    /// For programs.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct StoreExport {
    #[command(flatten)]
    pub store: StorePath,
    /// File to write, '-' for standard output.
    pub file: PathBuf,
    /// Only this placement group, such as 1.1f.
    #[arg(long, value_name = "PG")]
    pub pg: Option<types::PgId>,
    /// Number of placement groups of the pool, where the store does not know it.
    #[arg(long, value_name = "N", requires = "pg", value_parser = clap::value_parser!(u32).range(1..))]
    pub pg_num: Option<u32>,
    /// Leave out objects that cannot be read; their groups then bring them from another member. Exit status 1 if there
    /// were any.
    #[arg(long)]
    pub leave_out_damaged: bool,
    /// For programs.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct StoreImport {
    #[command(flatten)]
    pub store: StorePath,
    /// File to read, '-' for standard input.
    pub file: PathBuf,
    /// Destroy what the store has of the group before. If the file holds everything, the store is emptied.
    #[arg(long)]
    pub replace: bool,
    /// For programs.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug, Clone)]
pub struct Daemon {
    /// Configuration in the form of ceph.conf.
    #[arg(long, value_name = "FILE")]
    pub conf: PathBuf,
    /// Where the daemon keeps its data; goes before the configuration's 'mon data' or 'osd data'.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address for clients, as IP or IP:PORT; goes before 'public addr'.
    #[arg(long, value_name = "ADDR")]
    pub public_addr: Option<String>,
    /// Address for other daemons, as IP or IP:PORT; goes before 'cluster addr'.
    #[arg(long, value_name = "ADDR")]
    pub cluster_addr: Option<String>,
    /// Where the monitors are; goes before 'mon host'.
    #[arg(long, value_name = "HOSTS")]
    pub mon_host: Option<String>,
    /// Initialise the data directory and end.
    #[arg(long)]
    pub mkfs: bool,
    /// Serve other machines although the configuration lets somebody in without proofs. Whoever reaches the ports owns
    /// the data.
    #[arg(long)]
    pub insecure: bool,
    /// User to go on as, by name or number, before any file is opened: of /etc/passwd.
    #[arg(long, value_name = "USER")]
    pub setuser: Option<String>,
    /// Group to go on with, by name or number. [default: the group of --setuser]
    #[arg(long, value_name = "GROUP")]
    pub setgroup: Option<String>,
    /// Stop when this process, which must be the parent, ends.
    #[arg(long, value_name = "PID", hide = true)]
    pub supervised_by: Option<u32>,
}

#[derive(Args, Debug, Clone)]
pub struct Mon {
    /// Name of the monitor, without 'mon.'.
    #[arg(long, value_name = "NAME")]
    pub id: String,
    #[command(flatten)]
    pub daemon: Daemon,
    /// With --mkfs: the monitor joins the cluster that 'mon host' names, as a new one or in place of one of its name
    /// that lost its store, instead of beginning a cluster.
    #[arg(long, requires = "mkfs")]
    pub join: bool,
    /// With --mkfs: a keyring. A new cluster takes its entities over. A monitor that joins takes the key '[mon.]', by
    /// which the cluster's monitors know each other.
    #[arg(long, value_name = "FILE", requires = "mkfs")]
    pub keyring: Option<PathBuf>,
    /// Once a majority of the monitors' disks is lost: makes this monitor, which must not run, the only one of its
    /// cluster. Only tells what comes of it unless --yes-i-really-mean-it is there, too.
    #[arg(long, conflicts_with_all = ["mkfs", "join"])]
    pub force_sole: bool,
    /// With --force-sole: does it.
    #[arg(long, requires = "force_sole")]
    pub yes_i_really_mean_it: bool,
}

#[derive(Args, Debug, Clone)]
pub struct Osd {
    /// Number of the OSD.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=9999))]
    pub id: u32,
    #[command(flatten)]
    pub daemon: Daemon,
    /// With --mkfs: size of the file that holds the OSD's data; goes before 'osd size'.
    #[arg(long, value_name = "SIZE")]
    pub size: Option<ByteSize>,
    /// With --mkfs: number of shards, a power of two, of which each has a thread and a part of the OSD's devices; goes
    /// before 'osd op num shards'. It is never changed. [default: 1]
    #[arg(long, value_name = "N", requires = "mkfs", value_parser = parse_shards)]
    pub shards: Option<u32>,
    /// With --mkfs: a block device or new file that holds the OSD's log; goes before 'osd wal device'.
    #[arg(long, value_name = "PATH", requires = "mkfs")]
    pub wal_device: Option<PathBuf>,
    /// With --mkfs: a block device or new file that holds the OSD's metadata; goes before 'osd metadata device'.
    #[arg(long, value_name = "PATH", requires = "mkfs")]
    pub metadata_device: Option<PathBuf>,
    /// With --mkfs: a block device is overwritten although it holds something. NAME is the OSD whose store that is, as
    /// 'osd.5', or, if it is no store, the new OSD. What is in use is not overwritten all the same.
    #[arg(long, value_name = "NAME", requires = "mkfs", value_parser = parse_osd_name)]
    pub force_format: Option<OsdId>,
}

/// An OSD's name, `osd.3`.
fn parse_osd_name(text: &str) -> Result<OsdId, String> {
    let id = text.strip_prefix("osd.").and_then(|number| number.parse().ok()).map(OsdId);
    id.filter(|id| id.is_some()).ok_or_else(|| "not an OSD's name, such as osd.3".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_overwritten_is_named() {
        let parse =
            |args: &[&str]| match Cli::try_parse_from([&["nacre", "osd", "--id", "3", "--conf", "c"], args].concat()) {
                Ok(Cli { command: Command::Osd(osd), .. }) => Ok(osd.force_format),
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err(error.to_string()),
            };
        assert_eq!(parse(&["--mkfs", "--force-format", "osd.12"]), Ok(Some(OsdId(12))));
        assert_eq!(parse(&["--mkfs"]), Ok(None));
        for bad in [&["--force-format", "osd.3"][..], &["--mkfs", "--force-format", "3"], &["--mkfs", "--force-format"]]
        {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn up_reads_its_flags() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["nacre", "up"], args].concat());
        let up = |args: &[&str]| match parse(args).unwrap().command {
            Command::Up(up) => up,
            other => panic!("{other:?}"),
        };
        let bare = up(&[]);
        assert_eq!((bare.osds, bare.osd_size, bare.dir.dir), (None, None, PathBuf::from("nacre-data")));
        let full =
            up(&["--dir", "x", "--osds", "3", "--osd-size", "2GiB", "--port", "41000", "--detach", "--no-restart"]);
        assert_eq!((full.osds, full.port, full.detach, full.no_restart), (Some(3), Some(41_000), true, true));
        assert_eq!(full.osd_size, Some(OsdSize::Bytes(ByteSize(2 << 30))));
        assert_eq!(up(&["--osd-size", "auto"]).osd_size, Some(OsdSize::Auto));
        let bad: [&[&str]; 7] = [
            &["--osds", "0"],
            &["--osd-size", "big"],
            &["--port", "70000"],
            &["--bind", "host"],
            &["extra"],
            &["--no-auth", "--cephx"],
            &["--no-auth", "--secure"],
        ];
        for bad in bad {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
