//! Devices in memory for tests and simulations, which lose what was not flushed and can be made to fail.
//!
//! * Begin with `sim_device`: a store's devices and their queue of requests. `sim_media`: the blocks of one device.

mod sim_device;
mod sim_media;

pub use sim_device::SimDevice;
pub use sim_media::SimMedia;
