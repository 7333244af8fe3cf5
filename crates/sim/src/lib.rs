//! Whole clusters in one thread, in virtual time, under a seed: OSDs, monitors and clients on a network that breaks and
//! disks that forget, with checks of the properties that must hold nevertheless.
//!
//! OSDs run unchanged ([`osd::Osd`] in the reactor's simulated world). Of monitors and clients the cores run, in small
//! processes that stand for their drivers. A run is a function of its seed.
//!
//! * [`check_seed`]: start here. It makes one run; a failure names the seed and tells what happened. [`run`] has the
//!   course of a run.
//! * [`cluster`]: the processes, and the things that can be done to them. [`faults`] does them.
//! * [`workload`]: clients' requests. [`history`]: the requests and their answers. [`model`], [`content`]: the state
//!   that an object should then have.
//! * [`mod@check`]: the properties that must hold, one in each file. [`stored`] reads disks for it.
//! * [`setup`]: the parts of a run. [`cli`], [`campaign`], [`hunt`]: many runs.
//! * [`timeline`]: the events, line by line.

pub mod campaign;
pub mod check;
pub mod cli;
pub mod client_process;
pub mod cluster;
pub mod commands;
pub mod content;
mod disk_overlay;
pub mod faults;
mod format_process;
pub mod history;
pub mod hunt;
mod keys;
mod memory;
pub mod model;
mod mon_log;
mod mon_process;
mod monitors;
mod offline;
pub mod places;
mod port;
mod process;
mod request;
pub mod run;
pub mod setup;
pub mod splits;
mod store_disks;
mod stored;
pub mod timeline;
mod timeline_page;
mod values;
pub mod watching;
mod window;
pub mod witness;
mod worker;
pub mod workload;

pub use run::{Failure, Report, check, check_seed};
