//! Bounds on data that monitors keep, carry and let wait.
//!
//! A client with a key may be broken, or its key stolen. Therefore monitors must be able to bear the load that one
//! client can cause.

use raft::Config;
use std::time::Duration;
use wire::Envelope;
use wire::msgr::limits::{DATA_BYTES, FRONT_BYTES};

/// A batch without a command or pool operation is closed once it has so many bytes; the rest goes with the next.
pub(crate) const BATCH_BYTES: usize = 8 << 20;
/// The largest entry of the log: a batch with its index. It travels in the front of one message.
pub(crate) const ENTRY_BYTES_MAX: usize = 24 << 20;
/// Bytes of entries that are put into one message; a single entry may be larger.
pub(crate) const RAFT_MESSAGE_BYTES: usize = 1 << 20;
const _: () = assert!(ENTRY_BYTES_MAX + RAFT_MESSAGE_BYTES + (1 << 20) <= FRONT_BYTES);
const _: () = assert!(BATCH_BYTES * 2 < ENTRY_BYTES_MAX);

/// The largest message that one monitor hands on to another, which takes it as part of a front.
pub(crate) const HANDED_ON_BYTES_MAX: usize = 24 << 20;
const _: () = assert!(HANDED_ON_BYTES_MAX + (1 << 20) <= FRONT_BYTES);

/// Input of one command (`-i FILE`), and its words.
pub(crate) const COMMAND_INPUT_BYTES_MAX: usize = 16 << 20;
pub(crate) const COMMAND_WORDS_BYTES_MAX: usize = 4 << 20;
const _: () = assert!(COMMAND_INPUT_BYTES_MAX + COMMAND_WORDS_BYTES_MAX < HANDED_ON_BYTES_MAX);

/// Requests for changes that wait for those before them.
pub(crate) const REQUESTS_MAX: usize = 10_000;
pub(crate) const REQUEST_BYTES_MAX: usize = 64 << 20;
/// Activations that wait. OSDs ask again for those that are dropped.
pub(crate) const ACTIVATIONS_MAX: usize = 1_000_000;
/// Groups whose records, or whose histories, go with one message.
pub(crate) const GROUPS_PER_MESSAGE: usize = 4096;
/// One line of the cluster log.
pub(crate) const LOG_LINE_BYTES_MAX: usize = 4096;
/// Lines for the cluster log that wait. Their senders repeat lines that are dropped.
pub(crate) const LOG_LINES_WAITING_MAX: usize = 4000;
/// Messages that wait for a leader, or for the confirmation that this monitor still leads.
pub(crate) const LETTERS_MAX: usize = 20_000;
pub(crate) const LETTER_BYTES_MAX: usize = 256 << 20;

/// Messages that clients have sent in part, by their sizes when they are complete.
pub(crate) const HALF_RECEIVED_BYTES_MAX: usize = 256 << 20;
const _: () = assert!(2 * FRONT_BYTES + DATA_BYTES <= HALF_RECEIVED_BYTES_MAX, "the largest message fits");

/// The durable state: additions of clients beyond it are refused. A fourth of the state that a monitor takes from
/// another one.
pub(crate) const STATE_BYTES_MAX: usize = 256 << 20;
const _: () = assert!(STATE_BYTES_MAX as u64 <= SNAPSHOT_BYTES_MAX / 4);
/// The largest state that one monitor takes from another one.
pub(crate) const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;
/// The newest OSD map. It is sent in one front.
pub(crate) const OSDMAP_BYTES_MAX: usize = 16 << 20;
const _: () = assert!(OSDMAP_BYTES_MAX <= FRONT_BYTES / 2);
/// All options together. One client may get them all, in one front.
pub(crate) const CONFIG_BYTES_MAX: usize = 4 << 20;
/// Name and value of one option.
pub(crate) const OPTION_NAME_BYTES_MAX: usize = 256;
pub(crate) const OPTION_VALUE_BYTES_MAX: usize = 16 << 10;

/// An OSD's description of itself.
pub(crate) const OSD_METADATA_BYTES_MAX: usize = 64 << 10;
/// A name of a host, a bucket, a class.
pub(crate) const NAME_BYTES_MAX: usize = 256;
/// Addresses of one party.
pub(crate) const ADDRS_MAX: usize = 16;

/// The largest gain of the wall clock between two looks that counts as normal. A leader looks five times a second, and
/// a clock that is being set right runs at most a tenth faster. Leases are shorter by this.
pub(crate) const CLOCK_GAIN_MAX: Duration = Duration::from_millis(50);

/// Returns the log's times and bounds for monitors.
pub fn raft_config() -> Config {
    // Members that lag by less than `kept_bytes` are brought up to date without the whole state.
    Config {
        proposal_bytes_max: ENTRY_BYTES_MAX,
        message_bytes_max: RAFT_MESSAGE_BYTES,
        snapshot_bytes_max: SNAPSHOT_BYTES_MAX,
        kept_bytes: 1 << 20,
        unnoticed_stand: CLOCK_GAIN_MAX,
        ..Config::default()
    }
}

/// Returns the bytes of a message.
pub(crate) fn bytes_of(envelope: &Envelope) -> usize {
    envelope.front.len() + envelope.middle.len() + envelope.data.len()
}

/// Cuts a text to `bytes_max` bytes, between characters.
pub(crate) fn cut(text: &mut String, bytes_max: usize) {
    text.truncate(text.floor_char_boundary(bytes_max));
    text.shrink_to_fit();
}
