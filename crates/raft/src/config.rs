//! Times and bounds.

use crate::bug::{self, Bug};
use std::time::Duration;

/// Times are of each server's own clock.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// For so long after a leader's last word a server neither stands for election nor votes. It stands after one to two
    /// of these. The same on all servers.
    pub election_timeout: Duration,
    /// A leader says something at least this often.
    pub heartbeat: Duration,
    /// No two clocks' rates differ by more than this, in parts per million.
    pub clock_error_ppm: u32,
    /// Most bytes of entries in one message (but always one entry).
    pub message_bytes_max: usize,
    /// Messages with entries on their way to one server.
    pub messages_in_flight_max: usize,
    /// Proposals are refused while entries that are not decided, or not yet on the leader's own disk, take more.
    pub waiting_bytes_max: usize,
    /// Largest data of one proposal.
    pub proposal_bytes_max: usize,
    /// Entries behind which the log is kept though a snapshot stands for them, for servers that lag a little.
    pub kept_bytes: usize,
    /// Bytes of a snapshot in one message.
    pub chunk_bytes: usize,
    /// Larger snapshots are not taken from anybody.
    pub snapshot_bytes_max: u64,
    /// Reads that may wait.
    pub reads_max: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            election_timeout: Duration::from_millis(1000),
            heartbeat: Duration::from_millis(200),
            clock_error_ppm: 20_000,
            message_bytes_max: 1 << 20,
            messages_in_flight_max: 16,
            waiting_bytes_max: 32 << 20,
            proposal_bytes_max: 16 << 20,
            kept_bytes: 8 << 20,
            chunk_bytes: 256 << 10,
            snapshot_bytes_max: 1 << 30,
            reads_max: 10_000,
        }
    }
}

impl Config {
    /// For so long after it has sent a message that a majority acknowledged, no other leader can come, by the sender's
    /// own clock: the voters' promise lasts one election timeout of *their* clocks from when the message came, which is
    /// later. The leader's clock may be the slower one.
    pub(crate) fn lease(&self) -> Duration {
        if bug::is(Bug::ClocksAgree) {
            return self.election_timeout;
        }
        let nanos = self.election_timeout.as_nanos() * 1_000_000 / (1_000_000 + 2 * u128::from(self.clock_error_ppm));
        Duration::from_nanos(u64::try_from(nanos).expect("election timeouts are short"))
    }
}
