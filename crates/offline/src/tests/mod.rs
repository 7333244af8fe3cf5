//! Tests of offline work on a simulated device.

mod checks;
mod devices;
mod harness;
mod lost_log;
mod recordings;
mod repairs;
mod streams;
