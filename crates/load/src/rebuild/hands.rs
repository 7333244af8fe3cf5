//! Work on OSDs outside their cluster: on their processes and stores.

use std::future::Future;

/// Stops OSDs, gives them empty stores, and starts them. Each call is about all OSDs of a loss.
pub trait Hands {
    /// Stops the daemons, which stay stopped. `osds` of which some are stopped already are none the worse for it.
    fn stop(&mut self, osds: &[u32]) -> impl Future<Output = Result<(), String>>;

    /// Erases the stores of stopped OSDs and makes new ones, and has the monitors expect those. May be called again
    /// after it failed.
    fn renew(&mut self, osds: &[u32]) -> impl Future<Output = Result<(), String>>;

    /// Starts the daemons.
    fn start(&mut self, osds: &[u32]) -> impl Future<Output = Result<(), String>>;
}
