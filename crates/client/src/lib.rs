//! A RADOS client: pools, objects and monitor commands, on Nacre and on Ceph alike.
//!
//! * [`config`], [`conf_file`], [`mon_host`]: where the cluster is.

pub mod conf_file;
pub mod config;
pub mod mon_host;

pub use conf_file::{ConfError, ConfFile, Who};
pub use config::Config;
pub use mon_host::MonHost;
