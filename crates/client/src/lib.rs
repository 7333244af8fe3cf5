//! A RADOS client: pools, objects and monitor commands, on Nacre and on Ceph alike.
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use client::{Cluster, Config, Operation};
//! let cluster = Cluster::connect(Config::from_conf("/etc/ceph/ceph.conf")?).await?;
//! let pool = cluster.pool("photos").await?;
//! pool.write_full("cat", "meow").await?;
//! let outcome = pool.operate("cat", Operation::new().stat().read(0, 0)).await?;
//! assert_eq!(outcome.stat(0)?.size_bytes, 4);
//! assert_eq!(&outcome.bytes(1)?[..], b"meow");
//! # Ok(()) }
//! ```
//!
//! * [`Cluster`] — start here; [`Pool`], [`Operation`], [`Listing`].
//! * [`Watch`], [`Notification`]: watching objects; [`Pool::under`], [`Pool::at_snapshot`]: snapshots.
//! * [`rbd`]: block images.
//! * [`objecter`]: the core without I/O, which the simulator runs as well; `driver` carries it out on tokio.
//! * [`config`], [`conf_file`], [`mon_host`]: where the cluster is. [`Login`]: how the client proves who it is.
//! * `in_memory`, in tests: a cluster in this process, with faults between operations, to test images and other users
//!   of objects.
//!
//! Absent: cache tiers.

mod cluster;
pub mod conf_file;
pub mod config;
mod daemon_login;
mod driver;
mod error;
#[cfg(test)]
mod in_memory;
mod listing;
mod login;
pub mod mon_host;
pub mod objecter;
mod operation;
mod pool;
pub mod rbd;
mod snapshots;
mod watch;

pub use cluster::Cluster;
pub use conf_file::{ConfError, ConfFile, Who};
pub use config::Config;
pub use daemon_login::{DaemonLogin, daemon_key};
pub use error::{ConnectError, Error};
pub use listing::Listing;
pub use login::Login;
pub use mon_host::{MON_PORT, MonHost, MonHostError, parse_mon_host};
pub use objecter::CommandReply;
pub use operation::{ChecksumKind, Comparison, ObjectStat, Operation, Outcome, Part};
pub use pool::Pool;
pub use watch::{Acknowledged, Notification, Watch};
pub use wire::Rope;
pub use wire::basic::SnapContext;
