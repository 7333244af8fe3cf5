//! Whole clusters of real processes, driven by Ceph's real clients.
//!
//! [`TestCluster`] starts one with `nacre up` in a folder of its own on free loopback ports, and stops and removes it
//! when it goes out of scope; [`Host`] is a network namespace for what is to run elsewhere, [`Guest`] a machine with a
//! kernel of its own. The tests are in `tests/`;
//! they need `ceph`, `rados`, fio and python3-rados.

mod background;
mod ceph_program;
mod cluster;
mod command;
mod files;
mod guest;
mod host;
mod journal;
mod nvme_drive;
mod nvme_target;
mod post_mortem;
mod processes;
mod rados_bench;
mod recorded;
mod shared_ceph;
mod streams;

pub use background::{Background, Killed};
pub use cluster::{TestCluster, binary};
pub use command::{Outcome, clients_are_here, is_whole_suite, python, run, wait_until};
pub use files::{Pattern, assert_same_bytes};
pub use guest::{Guest, Kernel};
pub use host::{Host, Switch, hosts_can_be_made};
pub use journal::Journal;
pub use nvme_target::NvmeTarget;
pub use rados_bench::{check_benched, write_benched};
pub use recorded::{assert_same_lines, recorded_of_ceph, said_by_ceph};
pub use streams::{Commands, Writer, wait_for_quorum};
