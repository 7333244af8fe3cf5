//! Delays, faults and limits of a simulated world.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Configuration of a world. Each delay is drawn anew from its range.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// One-way delay from one node to another, or to itself.
    pub latency: RangeInclusive<Duration>,
    /// Delay from new work of a node until its next turn.
    pub turn_delay: RangeInclusive<Duration>,
    pub read_latency: RangeInclusive<Duration>,
    pub write_latency: RangeInclusive<Duration>,
    pub flush_latency: RangeInclusive<Duration>,
    /// Longest segment, and thus the most bytes given to a handler at once.
    pub segment_bytes_max: usize,
    /// Largest number of bytes on their way or unread in one direction of a connection.
    pub window_bytes: usize,
    /// One segment in so many resets its connection instead of arriving. 0: none.
    pub reset_one_in: u64,
    /// One segment in so many is lost on its way, so that it and all later ones wait until TCP tries again. 0: none.
    pub loss_one_in: u64,
    /// Time after which TCP tries again.
    pub retransmit_after: Duration,
    /// Time after which TCP gives up a silent peer, established or not.
    pub tcp_timeout: Duration,
    /// Unit that a drive writes whole or not at all when the power fails.
    pub sector_bytes: usize,
    /// See [`crate::Config::close_linger`].
    pub close_linger: Duration,
    /// Limit per node; see [`crate::Config::connections_max`].
    pub connections_max: usize,
    /// Handlers of nodes that are [`super::World::take_time`] take time now and then.
    pub stalls: Option<Stalls>,
}

/// How often a process gets no further for a while in the middle of a turn: its code takes long, or it is not given a
/// processor.
#[derive(Clone, Debug)]
pub struct Stalls {
    /// One of so many steps of a turn takes long. A step hands one thing over, or ends the turn, or reads the clock.
    pub one_in: u64,
    /// Most often it takes so long.
    pub short: RangeInclusive<Duration>,
    /// One in so many that take long takes longer.
    pub long_one_in: u64,
    pub long: RangeInclusive<Duration>,
}

impl Default for WorldConfig {
    fn default() -> WorldConfig {
        const US: Duration = Duration::from_micros(1);
        WorldConfig {
            latency: 20 * US..=200 * US,
            turn_delay: US..=20 * US,
            read_latency: 50 * US..=150 * US,
            write_latency: 10 * US..=300 * US,
            flush_latency: 20 * US..=1000 * US,
            segment_bytes_max: 32 << 10,
            window_bytes: 256 << 10,
            reset_one_in: 0,
            loss_one_in: 0,
            retransmit_after: Duration::from_millis(200),
            tcp_timeout: Duration::from_secs(60),
            sector_bytes: 512,
            close_linger: Duration::from_secs(5),
            connections_max: 8192,
            stalls: None,
        }
    }
}
