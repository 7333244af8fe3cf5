//! Offline work over a simulated device.

mod checks;
mod devices;
mod harness;
mod recordings;
mod repairs;
mod streams;
