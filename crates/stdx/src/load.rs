//! How busy this machine is.

/// Returns the tasks that ran or wanted to run over the last minute, on average, for each processor. `None`: the kernel
/// does not tell.
pub fn load_per_processor() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let tasks: f64 = text.split(' ').next()?.parse().ok()?;
    Some(tasks / std::thread::available_parallelism().ok()?.get() as f64)
}
