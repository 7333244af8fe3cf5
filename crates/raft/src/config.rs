//! Times and bounds.

use crate::bug::{self, Bug};
use std::time::Duration;

/// Times and bounds of a server. Times are of its own clock.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Time after a leader's last message in which a server neither stands for election nor votes. It stands after one
    /// to two of these. Equal on all servers.
    pub election_timeout: Duration,
    /// Longest pause between two messages of a leader.
    pub heartbeat: Duration,
    /// Largest difference of two clocks' rates, in parts per million.
    pub clock_error_ppm: u32,
    /// Longest stand of a server's machine, its clock with it, that [`Raft::clock_stood_still`](crate::Raft) is not
    /// told of.
    pub unnoticed_stand: Duration,
    /// Most bytes of entries in one message (but always one entry).
    pub message_bytes_max: usize,
    /// Messages with entries on their way to one server.
    pub messages_in_flight_max: usize,
    /// Bytes of entries that are not decided, or not yet on the leader's own disk, beyond which proposals are refused.
    pub waiting_bytes_max: usize,
    /// Largest data of one proposal.
    pub proposal_bytes_max: usize,
    /// Bytes of entries that the log keeps though a snapshot stands for them, for servers that lag a little.
    pub kept_bytes: usize,
    /// Bytes of a snapshot in one message.
    pub chunk_bytes: usize,
    /// Largest snapshot that a server takes from a leader.
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
            unnoticed_stand: Duration::ZERO,
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
    /// Returns the time for which no other leader can come after the leader has sent a message that a majority
    /// acknowledged, by the leader's own clock. The voters' promise lasts one election timeout of *their* clocks from
    /// when the message came, which is later. The leader's clock may be the slower one, and may stand for a moment.
    pub(crate) fn lease(&self) -> Duration {
        if bug::is(Bug::ClocksAgree) {
            return self.election_timeout;
        }
        let nanos = self.election_timeout.as_nanos() * 1_000_000 / (1_000_000 + 2 * u128::from(self.clock_error_ppm));
        let lasts = Duration::from_nanos(u64::try_from(nanos).expect("election timeouts are short"));
        lasts.saturating_sub(self.unnoticed_stand)
    }
}
