//! Offline work over a simulated device.

mod checks;
mod harness;
mod recordings;
mod repairs;
mod streams;
