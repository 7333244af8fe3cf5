//! Offline work over a simulated device.

mod checks;
mod devices;
mod harness;
mod lost_log;
mod recordings;
mod repairs;
mod streams;
