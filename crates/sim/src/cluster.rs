//! A whole cluster in one simulated world, that is monitors, OSDs and clients, and the things that can be done to them.
//! `monitors.rs` has those that concern only monitors.

use crate::client_process::{ClientProcess, POOL, Purpose};
use crate::disk_overlay::{DiskOverlay, PartOfDisk};
use crate::format_process::FormatProcess;
use crate::history::Operation;
use crate::keys::{self, Keys};
use crate::monitors::Monitors;
use crate::port::Answers;
use crate::process::{Process, Program};
use crate::store_disks::{DISK_BYTES, StoreDisks};
use crate::timeline;
use crate::window::Window;
use crate::witness::Witness;
use auth::Key;
use mon::BootstrapSpec;
use osd::heartbeat::{Board, HeartbeatNode};
use osd::{OsdConfig, OsdInOneLoop, ShardLimits, Stop};
use pg::ops::Limits;
use reactor::sim::{Crash, DiskFault, NodeId, Rng, SimDisk, SimIo, World, WorldConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use store::{Device, StoreConfig};
use types::{Epoch, Fsid, OsdId, PgId, PoolId, Utime};
use wire::nacre::mon::pg_state;

/// Period of scrubs.
const SCRUB_PERIOD: Duration = Duration::from_secs(8);

pub(crate) const MON_PORT: u16 = 3300;
pub(crate) const FSID: Fsid = Fsid([7; 16]);

/// Settings of a cluster.
pub struct ClusterConfig {
    /// Number of monitors at the beginning.
    pub mons: usize,
    pub osds: usize,
    /// Number of copies of each object.
    pub copies: u8,
    pub world: WorldConfig,
    /// Time after which other OSDs replace one that is down.
    pub down_out_interval: Duration,
    /// If true, an OSD listens at the same ports after a restart. If not, it listens at any.
    pub fixed_ports: bool,
    /// Number of placement groups of the pool.
    pub groups: u32,
    /// The fewest entries that a group's log keeps.
    pub log_entries_min: usize,
    /// The most requests that a group remembers of updates before its log.
    pub dups_max: usize,
    /// The most updates that may be asked for while another one has no answer.
    pub window: u64,
    /// Number of objects compared at a time in backfill.
    pub backfill_objects: usize,
    /// The work that an OSD does per turn to place groups by a new map.
    pub placing_work: usize,
    /// The most bytes of an object in one message to an OSD that lacks it.
    pub piece_bytes: u64,
    /// A longer message between OSDs goes in parts.
    pub message_bytes: usize,
    /// Size of the log of each OSD's store, in bytes.
    pub wal_bytes: u64,
    /// Number of shards of each OSD: a power of two.
    pub shards: usize,
    /// Size of each disk, or of each shard's part of it. `wal_bytes` counts in the same way.
    pub disk_bytes: u64,
    /// If true, stores have so little memory for metadata that most lookups wait for the device.
    pub little_memory: bool,
    /// Bytes that one operation may bring, write, or read.
    pub op_bytes: usize,
    /// Bytes that each shard of an OSD may hold for clients; `None`: the usual number.
    pub client_bytes: Option<usize>,
    /// All prove by keys who they are, with tickets that monitors take for so many seconds; `None`: nobody does.
    pub keys: Option<u32>,
    /// OSDs that are there at the beginning pass for earlier software until their first restart.
    pub upgrades: bool,
}

impl Default for ClusterConfig {
    fn default() -> ClusterConfig {
        ClusterConfig {
            mons: 1,
            osds: 3,
            copies: 3,
            world: WorldConfig::default(),
            down_out_interval: Duration::from_secs(600),
            fixed_ports: true,
            groups: 8,
            log_entries_min: 1000,
            dups_max: Limits::default().dups_max,
            window: u64::MAX,
            backfill_objects: 4,
            placing_work: Limits::default().placing_work,
            piece_bytes: Limits::default().piece_bytes,
            message_bytes: Limits::default().message_bytes,
            wal_bytes: 1 << 20,
            shards: 1,
            disk_bytes: DISK_BYTES,
            little_memory: false,
            client_bytes: None,
            op_bytes: Limits::default().op_bytes,
            keys: None,
            upgrades: false,
        }
    }
}

/// Memory of an OSD's shard in bytes; the part for metadata in bytes; the divisor that gives the part for clients.
pub(crate) const MEMORY_BYTES: u64 = 64 << 20;
const METADATA_BYTES: usize = 12 << 20;
pub(crate) const CLIENTS_SHARE: u64 = 6;
/// In clusters with little memory, the most bytes that one connection brings in a turn.
pub(crate) const LITTLE_WINDOW_BYTES: usize = 16 << 10;

/// Tells whether an OSD can be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Presence {
    Here,
    /// The OSD's disks are gone.
    Lost,
    /// The OSD is gone for good, and the map has it no more.
    Removed,
}

struct OsdNode {
    presence: Presence,
    node: NodeId,
    disks: StoreDisks,
    stop: Stop,
    /// The OSD has been asked to stop.
    is_stopping: bool,
    /// One of the OSD's disks has been made to fail, so the OSD has a reason to stop by itself.
    may_fail: bool,
    /// The OSD passes for earlier software when it is started next.
    is_earlier: bool,
    /// The newest map epoch at which the present process was seen.
    epoch: Epoch,
}

struct ClientNode {
    node: NodeId,
    number: u64,
}

/// A cluster and its clients.
pub struct Cluster {
    pub world: World<Process>,
    pub(crate) monitors: Monitors,
    pub(crate) witness: Witness,
    osds: Vec<OsdNode>,
    /// Arguments for making disks: the seed, the number of shards of each OSD, and the sizes of disks and logs.
    disks_of: (u64, usize, (u64, u64)),
    /// Number of OSDs whose disks were replaced.
    replaced: u8,
    clients: Vec<ClientNode>,
    window: Window,
    fixed_ports: bool,
    limits: Limits,
    /// Memory of each shard of an OSD, in bytes.
    memory_bytes: u64,
    little_memory: bool,
    clients_made: u64,
    /// `None`: nobody proves anything.
    pub(crate) keys: Option<Keys>,
    pool: PoolId,
    /// Operations of clients that have ended.
    history: Vec<Operation>,
}

fn stop() -> Stop {
    Stop::new().expect("the system has an event counter left")
}

impl Cluster {
    /// Formats the disks and the monitors' logs. Nothing runs yet. The seed also tells on which disks stores lie.
    pub fn new(seed: u64, config: ClusterConfig) -> Cluster {
        let mut world_config = config.world;
        if config.client_bytes.is_some() {
            world_config.window_bytes = LITTLE_WINDOW_BYTES;
        }
        let mut world: World<Process> = World::new(seed, world_config);
        let mut monitors = Monitors::machines(&mut world, config.mons);
        let option = |name: &str, value: String| ("global".to_owned(), name.to_owned(), value);
        let keys = config.keys.map(|_| Keys::new(seed));
        let of_keys = config.keys.into_iter().flat_map(keys::options).map(|(name, value)| option(name, value));
        let spec = BootstrapSpec {
            fsid: FSID,
            monitors: monitors.named(),
            auth: keys.as_ref().map(Keys::entities).unwrap_or_default(),
            config: [
                option("osd_pool_default_size", config.copies.to_string()),
                option("osd_pool_default_pg_num", config.groups.to_string()),
                option("mon_osd_down_out_interval", config.down_out_interval.as_secs().to_string()),
            ]
            .into_iter()
            .chain(of_keys)
            .collect(),
            now: Utime::ZERO,
        };
        monitors.found(&spec);
        let mut cluster = Cluster {
            world,
            monitors,
            witness: Witness::default(),
            osds: Vec::new(),
            disks_of: (seed, config.shards, (config.disk_bytes, config.wal_bytes)),
            replaced: 0,
            clients: Vec::new(),
            window: Window::new(config.window),
            fixed_ports: config.fixed_ports,
            little_memory: config.little_memory,
            memory_bytes: config.client_bytes.map_or(MEMORY_BYTES, |bytes| bytes as u64 * CLIENTS_SHARE),
            limits: Limits {
                op_bytes: config.op_bytes,
                client_bytes: config.client_bytes.unwrap_or(Limits::default().client_bytes),
                log_entries_min: config.log_entries_min,
                dups_max: config.dups_max,
                backfill_objects: config.backfill_objects,
                placing_work: config.placing_work,
                piece_bytes: config.piece_bytes,
                message_bytes: config.message_bytes,
                record_after: Duration::from_secs(5),
                ..Limits::default()
            },
            clients_made: 0,
            keys,
            pool: PoolId(0),
            history: Vec::new(),
        };
        for _ in 0..config.osds {
            let osd = cluster.add_osd();
            cluster.osds[osd].is_earlier = config.upgrades;
        }
        cluster
    }

    /// Adds a machine with formatted disks, on which the next OSD can be started. Returns the OSD's number.
    pub fn add_osd(&mut self) -> usize {
        let (osd, (seed, shards, sizes)) = (self.osds.len(), self.disks_of);
        self.osds.push(OsdNode {
            presence: Presence::Here,
            node: self.world.add_node(),
            disks: StoreDisks::of(seed, osd, FSID, shards, sizes),
            stop: stop(),
            is_stopping: false,
            may_fail: false,
            is_earlier: false,
            epoch: Epoch(0),
        });
        self.world.take_time(self.osds[osd].node);
        self.format(osd);
        osd
    }

    /// Ends an OSD and removes its disks.
    pub fn lose_disks(&mut self, osd: usize, crash: Crash) {
        self.kill_osd(osd, crash);
        self.world.lose_disks(self.osds[osd].node);
        self.osds[osd].presence = Presence::Lost;
    }

    /// Puts new disks with another store in the place of those that were lost.
    pub fn replace_disks(&mut self, osd: usize) {
        assert_eq!(self.osds[osd].presence, Presence::Lost, "osd.{osd} has its disks");
        self.replaced += 1;
        let replaced = self.replaced;
        self.osds[osd].disks.made_anew(replaced);
        self.osds[osd].presence = Presence::Here;
        self.format(osd);
    }

    /// Notes that an OSD that was lost does not come back.
    pub fn remove(&mut self, osd: usize) {
        self.osds[osd].presence = Presence::Removed;
    }

    /// True if the OSD has its disks, so that it runs or can be started.
    pub fn is_present(&self, osd: usize) -> bool {
        self.osds[osd].presence == Presence::Here
    }

    pub fn osds_present(&self) -> usize {
        self.osds.iter().filter(|osd| osd.presence == Presence::Here).count()
    }

    fn format(&mut self, osd: usize) {
        let (node, disks) = (self.osds[osd].node, self.osds[osd].disks.clone());
        self.start(node, format!("mkfs.{osd}"), |io| Program::Format(FormatProcess::start(io, &disks)));
        let formatted = self.world.run_until_done(Duration::from_secs(60), |world| !world.is_running(node));
        assert!(formatted, "formatting osd.{osd} takes too long");
    }

    pub(crate) fn start(&mut self, node: NodeId, name: String, make: impl FnOnce(&mut SimIo) -> Program) {
        timeline::at(self.world.now(), &name);
        self.world.start(node, |io| Process { name, program: make(io) });
    }

    /// Memory of each shard of an OSD, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    pub fn osd_count(&self) -> usize {
        self.osds.len()
    }

    pub fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// All nodes in this order: monitors, OSDs, clients.
    pub fn nodes(&self) -> Vec<NodeId> {
        let osds = self.osds.iter().map(|osd| osd.node);
        let clients = self.clients.iter().map(|client| client.node);
        self.monitors.nodes.iter().map(|mon| mon.node).chain(osds).chain(clients).collect()
    }

    pub fn osd_runs(&self, osd: usize) -> bool {
        self.world.is_running(self.osds[osd].node)
    }

    fn osd_config(&self, osd: usize) -> OsdConfig {
        let node = self.osds[osd].node;
        let ip = self.world.address(node);
        let port = |fixed| if self.fixed_ports { fixed } else { 0 };
        OsdConfig {
            public_bind: SocketAddr::new(ip, port(6800)),
            cluster_bind: SocketAddr::new(ip, port(6801)),
            monitors: self.mon_addrs(),
            location: [("host".to_owned(), format!("host{osd}"))].into(),
            memory_bytes: self.memory_bytes,
            // With little memory, lookups of a check that is always at work wait, too.
            check_period: if self.little_memory { Duration::from_secs(20) } else { pg::CHECK_PERIOD },
            // Scrubs compare groups again and again, and there is nothing to find.
            scrub_period: SCRUB_PERIOD,
            unix_zero: Duration::from_secs(1_700_000_000) + self.world.now(),
            login: self.keys.as_ref().map(|keys| keys.of_osd(osd)),
            ..OsdConfig::new(OsdId(osd as i32), FSID, self.osds[osd].disks.paths.clone())
        }
    }

    pub fn start_osd(&mut self, osd: usize) {
        let node = self.osds[osd].node;
        if self.world.is_running(node) || !self.is_present(osd) {
            return;
        }
        let mut config = self.osd_config(osd);
        let stop = stop();
        let known = &mut self.osds[osd];
        if std::mem::take(&mut known.is_earlier) {
            config.features = 0;
        }
        // If the fault of the disk has ended the process already, it is used up.
        known.may_fail &= known.stop.failure().is_none();
        (known.stop, known.is_stopping, known.epoch) = (stop.clone(), false, Epoch(0));
        let limits = self.limits;
        let division = known.disks.division;
        let is_little = self.memory_bytes < MEMORY_BYTES;
        let usual = is_little.then(|| store::Memory::of(METADATA_BYTES));
        let store_memory = self.little_memory.then(|| little_memory(self.rng())).or(usual);
        self.start(node, format!("osd.{osd}"), |io| {
            let board = Arc::new(Board::default());
            let heartbeats = HeartbeatNode::new(io, &config, board.clone()).expect("addresses are there");
            let given = ShardLimits { limits, store_memory };
            let osd = OsdInOneLoop::new(io, &config, stop, division, given);
            let mut osd = osd.expect("an OSD's disk and addresses are there");
            osd.set_heartbeats(board, heartbeats.addrs().clone());
            Program::Osd(Box::new(osd), Box::new(heartbeats))
        });
    }

    pub fn kill_osd(&mut self, osd: usize, crash: Crash) {
        drop(self.world.kill(self.osds[osd].node, crash));
    }

    /// Has an OSD end its session with another one.
    pub fn end_session(&mut self, osd: usize, other: usize) {
        let node = self.osds[osd].node;
        self.world.call(node, |process, _| {
            if let Program::Osd(osd, _) = &mut process.program {
                osd.end_peer_session(OsdId(other as i32));
            }
        });
    }

    /// Has an OSD give up the unfound objects of a group.
    pub fn give_up_unfound(&mut self, osd: usize, pgid: PgId) {
        let node = self.osds[osd].node;
        let done = self.world.call(node, |process, _| match &mut process.program {
            Program::Osd(osd, _) => osd.give_up_unfound(pgid),
            _ => false,
        });
        if done == Some(true) {
            self.world.wake(node);
        }
    }

    /// Has another process try to start an OSD. Returns true if the OSD was running and the attempt was refused, false
    /// if the OSD does not run.
    ///
    /// Errors: the other process opened the OSD's disks.
    pub fn start_twice(&mut self, osd: usize) -> Result<bool, String> {
        let (config, division, limits) = (self.osd_config(osd), self.osds[osd].disks.division, self.limits);
        let given = ShardLimits { limits, store_memory: None };
        let opened = self.world.call(self.osds[osd].node, |_, io| {
            OsdInOneLoop::new(io, &config, stop(), division, given).map(drop).map_err(|e| e.kind())
        });
        match opened {
            None => Ok(false),
            Some(Err(std::io::ErrorKind::WouldBlock)) => Ok(true),
            Some(other) => Err(format!("osd.{osd} runs, and its store opens for another process: {other:?}")),
        }
    }

    /// Asks an OSD to stop in good order.
    pub fn stop_osd(&mut self, osd: usize) {
        let OsdNode { node, stop, is_stopping, .. } = &mut self.osds[osd];
        stop.stop();
        *is_stopping = self.world.is_running(*node);
        self.world.wake(*node);
    }

    /// True if an OSD has been asked to stop and still runs.
    pub fn is_stopping(&self, osd: usize) -> bool {
        self.osds[osd].is_stopping && self.osd_runs(osd)
    }

    /// Makes one request to one of an OSD's disks fail, unless one is due to fail already.
    pub fn fail_disk(&mut self, osd: usize, fault: DiskFault) {
        if self.is_present(osd) && !std::mem::replace(&mut self.osds[osd].may_fail, true) {
            self.some_disk(osd).inject(fault);
        }
    }

    /// Has every request to one of an OSD's disks take `times` times as long.
    pub fn slow_disk(&mut self, osd: usize, times: u32) {
        if !self.is_present(osd) {
            return;
        }
        self.some_disk(osd).slow_down(times);
    }

    /// Gives all of an OSD's disks their usual speed.
    pub fn normal_disks(&mut self, osd: usize) {
        if !self.is_present(osd) {
            return;
        }
        for device in Device::ALL.into_iter().filter(|device| self.has_disk(osd, *device)).collect::<Vec<_>>() {
            self.disk_of(osd, device).slow_down(1);
        }
    }

    /// OSDs that have stopped because of their disks since the last call.
    pub fn take_failed(&mut self) -> Vec<usize> {
        let failed = |(_, osd): &(usize, &mut OsdNode)| osd.may_fail && osd.stop.failure().is_some();
        let failed = self.osds.iter_mut().enumerate().filter(failed);
        let failed = failed.map(|(index, osd)| {
            (osd.may_fail, osd.stop) = (false, stop());
            index
        });
        failed.collect()
    }

    /// The reason why an OSD has stopped by itself since the last call.
    pub fn take_failure(&mut self, osd: usize) -> Option<String> {
        std::mem::replace(&mut self.osds[osd].stop, stop()).failure()
    }

    pub fn osd_node(&self, osd: usize) -> NodeId {
        self.osds[osd].node
    }

    /// The disk with the data.
    pub fn disk(&mut self, osd: usize) -> &mut SimDisk {
        self.disk_of(osd, Device::Main)
    }

    /// True if the OSD's store has such a device.
    pub fn has_disk(&self, osd: usize, device: Device) -> bool {
        self.osds[osd].disks.paths.of(device).is_some()
    }

    /// One of an OSD's disks. Panics if the OSD has no such disk.
    pub fn disk_of(&mut self, osd: usize, device: Device) -> &mut SimDisk {
        let OsdNode { node, disks, .. } = &self.osds[osd];
        let path = disks.paths.of(device).unwrap_or_else(|| panic!("osd.{osd} has no {device}"));
        self.world.disk(*node, path).expect("formatted at the beginning")
    }

    fn some_disk(&mut self, osd: usize) -> &mut SimDisk {
        let devices: Vec<Device> = self.osds[osd].disks.all().map(|(device, _)| device).collect();
        let which = if devices.len() > 1 { self.rng().below(devices.len() as u64) as usize } else { 0 };
        self.disk_of(osd, devices[which])
    }

    /// Number of shards of each OSD.
    pub fn shards(&self) -> usize {
        self.disks_of.1
    }

    /// Offset at which a shard's part of an OSD's main disk begins.
    pub(crate) fn part_begin(&self, osd: usize, shard: usize) -> u64 {
        self.osds[osd].disks.division.offset(shard, Device::Main)
    }

    /// A shard's part of an OSD's disks.
    pub(crate) fn disks_of(&self, osd: usize, shard: usize) -> DiskOverlay<'_> {
        let OsdNode { node, disks, .. } = &self.osds[osd];
        let part = |(device, path)| {
            let disk = self.world.peek_disk(*node, path).expect("formatted at the beginning");
            let (begin, bytes) =
                (disks.division.offset(shard, device), disks.division.bytes(shard, device, disk.len_bytes()));
            (device, PartOfDisk { disk, begin, bytes })
        };
        DiskOverlay::new(disks.all().map(part).collect())
    }

    pub(crate) fn store_config(&self, osd: usize, shard: usize) -> StoreConfig {
        self.osds[osd].disks.config_of(shard)
    }

    /// Has a client give a monitor command.
    pub fn command(&mut self, client: usize, json: String) {
        let now = self.world.now();
        self.world.call(self.clients[client].node, |process, io| {
            timeline::at(now, &process.name);
            if let Program::Client(client) = &mut process.program {
                client.command(io, json);
            }
        });
    }

    /// Has a client take the pool's next snapshot, or remove one.
    pub fn snapshot(&mut self, client: usize, removed: Option<u64>) {
        let pool = self.pool;
        self.world.call(self.clients[client].node, |process, io| {
            if let Program::Client(client) = &mut process.program {
                client.snapshot(io, pool, removed);
            }
        });
    }

    /// Has a client give a monitor command that may be refused.
    pub fn try_command(&mut self, client: usize, json: String) {
        self.world.call(self.clients[client].node, |process, io| {
            if let Program::Client(client) = &mut process.program {
                client.try_command(io, json);
            }
        });
    }

    /// Has all clients prove another key from now on.
    pub fn set_key_of_clients(&mut self, key: &Key) {
        for client in 0..self.clients.len() {
            self.world.call(self.clients[client].node, |process, _| {
                if let Program::Client(client) = &mut process.program {
                    client.set_key(key.clone());
                }
            });
        }
    }

    /// Tells a client that nothing is wrong any more.
    pub fn be_calm(&mut self, client: usize) {
        self.world.call(self.clients[client].node, |process, io| {
            if let Program::Client(client) = &mut process.program {
                client.be_calm(io);
            }
        });
    }

    /// Starts a client on a node of its own; returns its index.
    pub fn add_client(&mut self, purpose: Purpose) -> usize {
        let node = self.world.add_node();
        self.clients.push(ClientNode { node, number: 0 });
        self.start_client(self.clients.len() - 1, purpose);
        self.clients.len() - 1
    }

    /// Starts a new client on the node of one that has ended.
    pub fn start_client(&mut self, client: usize, purpose: Purpose) {
        self.clients_made += 1;
        let number = self.clients_made;
        self.clients[client].number = number;
        let (node, mons, pool) = (self.clients[client].node, self.mon_addrs(), self.pool);
        let answers = self.keys.as_ref().map(|keys| Answers::Client(Box::new(keys.of_client())));
        let of_world = (self.window.clone(), self.witness.clone(), answers.unwrap_or(Answers::Unproven));
        self.start(node, format!("client.{number}"), |io| {
            Program::Client(Box::new(ClientProcess::start(io, number, mons, pool, purpose, of_world)))
        });
    }

    pub fn client_node(&self, client: usize) -> NodeId {
        self.clients[client].node
    }

    /// Kills a client. Its operations without an answer stay in doubt.
    pub fn kill_client(&mut self, client: usize) {
        let process = self.world.kill(self.clients[client].node, Crash::Process);
        if let Some(Process { program: Program::Client(client), .. }) = process {
            client.leave_window();
            self.history.extend_from_slice(client.history());
        }
    }

    pub fn client(&self, client: usize) -> Option<&ClientProcess> {
        match &self.world.handler(self.clients[client].node)?.program {
            Program::Client(client) => Some(client),
            _ => None,
        }
    }

    pub fn clients(&self) -> impl Iterator<Item = &ClientProcess> {
        (0..self.clients.len()).filter_map(|client| self.client(client))
    }

    /// All operations of all clients.
    pub fn history(&self) -> Vec<Operation> {
        let running = self.clients().flat_map(|client| client.history().iter());
        self.history.iter().chain(running).cloned().collect()
    }

    /// Epoch of the map of an OSD that runs.
    pub fn osd_epoch(&self, osd: usize) -> Option<Epoch> {
        match &self.world.handler(self.osds[osd].node)?.program {
            Program::Osd(osd, _) => osd.epoch(),
            _ => None,
        }
    }

    /// Reports the epochs of all OSDs' maps to the witness.
    pub(crate) fn witness_osds(&mut self) {
        for osd in 0..self.osds.len() {
            if let Some(epoch) = self.osd_epoch(osd) {
                let before = std::mem::replace(&mut self.osds[osd].epoch, epoch);
                self.witness.has_map(|| format!("osd.{osd}"), before, epoch);
            }
        }
    }

    /// Finds the pool. Must be called once the pool has been made.
    pub fn find_pool(&mut self) -> PoolId {
        let monitor = self.monitor().expect("the monitor runs");
        self.pool = monitor.state().osdmap().pool_by_name(POOL).expect("the pool has been made");
        self.pool
    }

    /// The pool's newest snapshot; `None` if the monitor does not run.
    pub fn newest_snapshot(&self) -> Option<u64> {
        let map = self.monitor()?.state().osdmap();
        map.pools.get(&self.pool).map(|pool| pool.snap_seq.0)
    }

    /// `Ok` if, by the monitor, nothing is left of removed snapshots. The error tells what is left.
    pub fn is_trimmed(&self) -> Result<(), String> {
        let Some(monitor) = self.monitor() else { return Err("the monitor does not run".to_owned()) };
        match monitor.state().osdmap().removed_snaps_queue.get(&self.pool) {
            Some(queue) if !queue.is_empty() => Err(format!("snapshots {queue} are not trimmed")),
            _ => Ok(()),
        }
    }

    /// `Ok` if, by the monitor, all OSDs are up and all placement groups are active and clean. The error tells which
    /// are not.
    pub fn is_clean(&self) -> Result<(), String> {
        let Some(monitor) = self.monitor() else { return Err("the monitor does not run".to_owned()) };
        let map = monitor.state().osdmap();
        let up = map.up_osds().count();
        let present = self.osds_present();
        let lost = self.osds.iter().filter(|osd| osd.presence == Presence::Lost).count();
        if up != present || lost > 0 {
            return Err(format!("{up} of {present} OSDs are up in epoch {}, {lost} are lost", map.epoch));
        }
        let pgs = &monitor.volatile().pgs;
        let clean = pg_state::ACTIVE | pg_state::CLEAN;
        // Shards may be in another order than the map's.
        let aside = pg_state::SCRUBBING | pg_state::DEEP_SCRUB | pg_state::REMAPPED;
        let unclean = pgs.iter().filter(|(_, pg)| pg.report.state & !aside != clean);
        let unclean: Vec<_> = unclean
            .map(|(id, pg)| {
                let (state, acting, up) =
                    (mon::volatile::pg_state_text(pg.report.state), &pg.report.acting, &pg.report.up);
                format!("{id} is {state} by osds {acting:?}, wanted on {up:?}")
            })
            .collect();
        if pgs.is_empty() || !unclean.is_empty() {
            return Err(format!("{} groups, not clean: {}", pgs.len(), unclean.join(", ")));
        }
        // A clean group acts where it is wanted, place by place. In pools that get fewer groups shards are put in order
        // first.
        let is_shrinking = |pool: &osdmap::PgPool| pool.pg_num_target < pool.pg_num;
        let placed_so = map.pgs().filter(|pg| map.pool(pg.pool).is_some_and(|pool| !is_shrinking(pool)));
        for pg in placed_so {
            if let Ok(placed) = map.pg_to_up_acting(pg)
                && placed.acting_shown() != placed.up
            {
                return Err(format!("{pg} is clean, and acts on {:?}, wanted on {:?}", placed.acting, placed.up));
            }
        }
        Ok(())
    }

    /// Checks for things that must never be: an OSD that ended by itself, an answer that makes no sense, a
    /// contradiction that the witness saw.
    pub fn check_processes(&self) -> Result<(), String> {
        for (osd, node) in self.osds.iter().enumerate() {
            if let Some(reason) = node.stop.failure().filter(|_| !node.may_fail) {
                return Err(format!("osd.{osd} stopped by itself: {reason}"));
            }
        }
        if let Some(wrong) = self.clients().find_map(|client| client.wrong_answer()) {
            return Err(wrong.to_owned());
        }
        self.witness.violation().map_or(Ok(()), Err)
    }

    /// Random numbers from the seed, for decisions of the run.
    pub fn rng(&mut self) -> &mut Rng {
        self.world.rng()
    }
}

/// Draws a size of memory so small that most lookups wait for the device and checkpoints follow each other closely.
fn little_memory(rng: &mut Rng) -> store::Memory {
    let (page_bytes, onode_bytes) = (rng.below(4) as usize * 8192, rng.below(3000) as usize);
    store::Memory { page_bytes, onode_bytes, overlay_bytes: 2048 << rng.below(6) }
}
