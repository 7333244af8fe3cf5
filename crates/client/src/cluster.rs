//! A connection to a cluster.

use crate::config::Config;
use crate::driver::{Authenticated, Driver};
use crate::error::{ConnectError, Error};
use crate::login::Login;
use crate::mon_host::MonHost;
use crate::objecter::{Answer, CommandReply, MonAnswer, MonRequest, Objecter, Resend, Settings};
use crate::pool::Pool;
use auth::cephx::client::Client;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use types::{EntityName, EntityType, Epoch, Errno, Fsid, OsdId, PoolId, SnapId};
use wire::messages::{PoolOpKind, PoolStat, StatfsReply};
use wire::msgr::Messenger;
use wire::{EntityAddrVec, msgr};

/// A connection to a cluster. Clones share the connection, which ends with the last of them.
///
/// Lives on the tokio runtime on which it was made, which needs I/O and time enabled.
#[derive(Clone)]
pub struct Cluster {
    driver: Arc<Driver>,
}

impl Cluster {
    /// Connects: opens a session with a monitor and waits for the OSD map.
    pub async fn connect(config: Config) -> Result<Cluster, ConnectError> {
        let mut mons = Vec::new();
        for host in &config.mon_hosts {
            match host {
                MonHost::Addr(addr) => mons.push(EntityAddrVec::msgr2(*addr, 0)),
                MonHost::Name(name, port) => {
                    let resolve = |source| ConnectError::Resolve { name: name.clone(), source };
                    let found = tokio::net::lookup_host((name.as_str(), *port)).await.map_err(resolve)?;
                    mons.extend(found.map(|addr| EntityAddrVec::msgr2(addr, 0)));
                }
            }
        }
        let tried: Vec<String> = mons.iter().map(|addrs| addrs.to_string()).collect();
        if mons.is_empty() {
            return Err(ConnectError::TimedOut { seconds: 0, tried: "no monitor".into(), why: String::new() });
        }
        let seed = fresh_seed();
        // Whoever has a key may be a client; OSDs are known by their own kind.
        let kind = if config.who.kind == "osd" { EntityType::OSD } else { EntityType::CLIENT };
        let name = config.who.entity().ok_or_else(|| ConnectError::Name(config.who.to_string()))?;
        let me = EntityName { kind, num: -1 };
        let messenger = Messenger::new(msgr::Config { me, ..msgr::Config::client(name.clone(), seed) });
        let Login { policy, key, .. } = config.login.clone();
        let client = Client::new(name, key, policy, &[EntityType::OSD]);
        let messenger = Authenticated::new(messenger, client).map_err(ConnectError::Random)?;
        let settings = Settings {
            mons,
            hostname: std::fs::read_to_string("/etc/hostname").unwrap_or_default().trim().to_owned(),
            op_timeout: config.op_timeout,
            mon_op_timeout: config.mon_op_timeout,
            seed,
            resend: Resend::default(),
            near: BTreeSet::new(),
        };
        let cluster = Cluster { driver: Arc::new(Driver::start(Box::new(messenger), Objecter::new(settings))) };
        let first_map = cluster.driver.shared.wait_for_map(Epoch(1));
        let reached = async {
            tokio::select! {
                biased;
                map = first_map => Ok(map),
                errno = cluster.driver.shared.denied() => Err(errno),
            }
        };
        let reached = match tokio::time::timeout(config.connect_timeout, reached).await {
            Ok(Err(errno)) => {
                let why = cluster.driver.shared.look(|objecter| objecter.last_mon_failure().to_owned());
                let (name, key) = (config.who.to_string(), config.login.key_from.clone());
                return Err(ConnectError::Denied { name, key, errno, why });
            }
            Ok(Ok(map)) => Ok(map),
            Err(elapsed) => Err(elapsed),
        };
        match reached {
            Ok(Ok(_)) => Ok(cluster),
            Ok(Err(_)) | Err(_) => {
                let why = cluster.driver.shared.look(|objecter| objecter.last_mon_failure().to_owned());
                let why = if why.is_empty() { why } else { format!(": {why}") };
                let seconds = config.connect_timeout.as_secs();
                Err(ConnectError::TimedOut { seconds, tried: tried.join(", "), why })
            }
        }
    }

    pub(crate) fn of(driver: Arc<Driver>) -> Cluster {
        Cluster { driver }
    }

    /// The number by which the cluster knows this client: `client.4123`.
    pub fn client_id(&self) -> u64 {
        self.driver.shared.global_id()
    }

    /// Waits until monitors have refused this client for some time, as its key was removed or replaced. It gets on no
    /// more then. Returns the error of theirs.
    pub async fn denied(&self) -> types::Errno {
        self.driver.shared.denied().await
    }

    /// The cluster's id.
    pub fn fsid(&self) -> Fsid {
        self.driver.shared.look(|objecter| objecter.fsid()).expect("connected means that there is a map")
    }

    /// Epoch of the OSD map in use.
    pub fn epoch(&self) -> Epoch {
        self.driver.shared.look(|o| o.placement().map(|p| p.epoch()).unwrap_or_default())
    }

    /// Runs a monitor command, one JSON object such as `{"prefix": "osd tree", "format": "json"}`. `input` is the data
    /// that `ceph` takes by its option `-i`. A command that fails is an answer with a negative result, not an error.
    pub async fn mon_command(&self, json: &str, input: Bytes) -> Result<CommandReply, Error> {
        match self.ask(MonRequest::Command { json: json.to_owned(), input }).await? {
            MonAnswer::Command(reply) => Ok(reply),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs a command, one JSON object, on one OSD, as `ceph tell osd.N` does. A command that fails is an answer with a
    /// negative result, not an error. Errors: `ENXIO` if the OSD is not up, `ENOTCONN` if its session is lost.
    pub async fn osd_command(&self, osd: OsdId, json: &str) -> Result<CommandReply, Error> {
        match self.driver.shared.tell(osd, json).await? {
            Answer::Command(reply) => Ok(reply),
            other => Err(Error::Answer(format!("{other:?}"))),
        }
    }

    /// The OSDs that are up by the newest map.
    pub async fn up_osds(&self) -> Result<Vec<OsdId>, Error> {
        self.wait_for_latest_map().await?;
        Ok(self.driver.shared.look(|o| o.placement().map(|p| p.up_osds()).unwrap_or_default()))
    }

    /// The pool called `name`. If the present map has none, the newest map is fetched and searched. Errors:
    /// [`Error::NoPool`].
    pub async fn pool(&self, name: &str) -> Result<Pool, Error> {
        let find = || self.driver.shared.look(|o| o.placement().and_then(|p| p.pool_id(name)));
        let id = match find() {
            Some(id) => id,
            None => {
                self.wait_for_latest_map().await?;
                find().ok_or_else(|| Error::NoPool(name.to_owned()))?
            }
        };
        Ok(Pool::new(self.driver.clone(), id, name))
    }

    /// The pool with this id, by the present map or the newest.
    pub async fn pool_by_id(&self, id: PoolId) -> Result<Pool, Error> {
        let find = || {
            let named = |names: BTreeMap<String, PoolId>| names.into_iter().find(|(_, other)| *other == id);
            self.driver.shared.look(|o| o.placement().and_then(|p| named(p.pool_names())))
        };
        let found = match find() {
            Some(found) => found,
            None => {
                self.wait_for_latest_map().await?;
                find().ok_or_else(|| Error::NoPool(format!("id {}", id.0)))?
            }
        };
        Ok(Pool::new(self.driver.clone(), id, &found.0))
    }

    /// Names and ids of all pools of the newest map.
    pub async fn pools(&self) -> Result<BTreeMap<String, PoolId>, Error> {
        self.wait_for_latest_map().await?;
        Ok(self.driver.shared.look(|o| o.placement().map(|p| p.pool_names()).unwrap_or_default()))
    }

    /// Creates a pool with the cluster's defaults. Errors: [`Errno::EEXIST`] if the newest map has it, and the errors
    /// of the monitors.
    pub async fn create_pool(&self, name: &str) -> Result<(), Error> {
        // Monitors answer a repeated request with success, so this function looks for the pool first.
        self.wait_for_latest_map().await?;
        if self.driver.shared.look(|o| o.placement().is_some_and(|p| p.pool_id(name).is_some())) {
            return Err(Errno::EEXIST.into());
        }
        self.pool_op(PoolOpKind::CREATE, PoolId(0), name).await
    }

    /// Deletes a pool and everything in it. Errors: [`Error::NoPool`], `EPERM` where the cluster does not allow it.
    pub async fn delete_pool(&self, name: &str) -> Result<(), Error> {
        let id = self.pool(name).await?.id();
        self.pool_op(PoolOpKind::DELETE, id, "delete").await
    }

    async fn pool_op(&self, op: PoolOpKind, pool: PoolId, name: &str) -> Result<(), Error> {
        let request = MonRequest::PoolOp { op, pool, snap: SnapId(0), name: name.to_owned() };
        match self.ask(request).await? {
            MonAnswer::PoolOp(_) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Space of the cluster, or the space that `pool` uses.
    pub async fn statfs(&self, pool: Option<PoolId>) -> Result<StatfsReply, Error> {
        match self.ask(MonRequest::Statfs { pool }).await? {
            MonAnswer::Statfs(reply) => Ok(reply),
            other => Err(unexpected(&other)),
        }
    }

    /// Statistics of pools, by name; unknown names are left out.
    pub async fn pool_stats(&self, pools: &[&str]) -> Result<BTreeMap<String, PoolStat>, Error> {
        let pools = pools.iter().map(|name| (*name).to_owned()).collect();
        match self.ask(MonRequest::PoolStats { pools }).await? {
            MonAnswer::PoolStats(stats) => Ok(stats),
            other => Err(unexpected(&other)),
        }
    }

    /// Waits until the map in use is at least as new as the monitors' newest at the time of the call.
    pub async fn wait_for_latest_map(&self) -> Result<Epoch, Error> {
        let version = match self.ask(MonRequest::Version { map: "osdmap".into() }).await? {
            MonAnswer::Version(version) => version,
            other => return Err(unexpected(&other)),
        };
        let epoch = Epoch(u32::try_from(version).map_err(|_| Error::Answer(format!("map version {version}")))?);
        self.driver.shared.wait_for_map(epoch).await?;
        Ok(epoch)
    }

    async fn ask(&self, request: MonRequest) -> Result<MonAnswer, Error> {
        match self.driver.shared.ask(request).await? {
            Answer::Mon(answer) => Ok(answer),
            other => Err(Error::Answer(format!("{other:?}"))),
        }
    }
}

fn unexpected(answer: &MonAnswer) -> Error {
    Error::Answer(format!("{answer:?}"))
}

/// A number that two clients do not share: from the kernel's random source, or, without it, from time and process id.
pub(crate) fn fresh_seed() -> u64 {
    use std::io::Read;
    let mut bytes = [0; 8];
    let random = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes));
    if random.is_ok() {
        return u64::from_le_bytes(bytes);
    }
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since_1970.as_nanos() as u64 ^ u64::from(std::process::id()) << 32
}
