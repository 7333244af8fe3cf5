//! Whole clusters in one thread, in virtual time, under a seed: OSDs, monitors and clients, on a network that breaks
//! and disks that forget, and checks of what must hold nevertheless.
//!
//! OSDs run unchanged ([`osd::Osd`] on the reactor's simulated world); of monitors and clients the cores run, in small
//! processes that stand for their drivers. A run is a function of its seed.
//!
//! * [`check_seed`] — start here: one run; its failure names the seed and tells what happened. [`run`] is its course.
//! * [`cluster`]: the processes and what can be done to them; [`faults`]: what is done to them.
//! * [`workload`]: what clients ask; [`history`]: what they asked and were answered;
//!   [`model`], [`content`]: what an object should then be.
//! * [`mod@check`]: what must hold, one property a file. [`stored`] reads disks for it.
//! * [`setup`]: what a run is made of; [`cli`], [`campaign`], [`hunt`]: many runs.
//! * [`timeline`]: what happened, line by line.

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
pub mod watching;
mod window;
pub mod witness;
mod worker;
pub mod workload;

pub use run::{Failure, Report, check, check_seed};
