//! Signs of life between OSDs.

use super::kind;
use crate::own_message as message;
use types::{Epoch, OsdId};

/// Asks another OSD whether it lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdPing {
    pub osd: OsdId,
    /// Newest map of the sender.
    pub epoch: Epoch,
    /// The sender's clock, in microseconds; comes back in the answer.
    pub sent_us: u64,
}

message!(OsdPing = kind::OSD_PING, version 1 { osd, epoch, sent_us });

/// Answers [`OsdPing`]. An OSD whose loop or drive does not move gives no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdPingReply {
    pub osd: OsdId,
    pub epoch: Epoch,
    /// Of the ping.
    pub sent_us: u64,
}

message!(OsdPingReply = kind::OSD_PING_REPLY, version 1 { osd, epoch, sent_us });
