//! Times that members of a group tell of their part in an update.

use std::time::Duration;
use store::CommitTimes;
use types::OsdId;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// A member tells how long an update took it, even if nobody asked, from here on.
pub(crate) const SLOW: Duration = Duration::from_millis(50);

/// Times that the steps of an update took on a member that is not the primary, in microseconds of its own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemberHops {
    /// Time from the first byte of the message to the last.
    pub receive_us: u32,
    /// Time until its writes went to the device.
    pub queue_us: u32,
    pub write_us: u32,
    pub flush_us: u32,
}

impl MemberHops {
    pub fn total_us(&self) -> u32 {
        [self.queue_us, self.write_us, self.flush_us].iter().fold(self.receive_us, |sum, us| sum.saturating_add(*us))
    }
}

impl Encode for MemberHops {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.receive_us);
        w.u32(self.queue_us);
        w.u32(self.write_us);
        w.u32(self.flush_us);
    }
}

impl Decode for MemberHops {
    const MIN_BYTES: usize = 16;

    fn decode(r: &mut Reader<'_>) -> Result<MemberHops, DecodeError> {
        Ok(MemberHops { receive_us: r.u32()?, queue_us: r.u32()?, write_us: r.u32()?, flush_us: r.u32()? })
    }
}

/// An update's stamps on a member until it is durable there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemberTimes {
    /// First and last byte of the message.
    pub began: Duration,
    pub whole: Duration,
    /// The primary wants to know.
    pub wanted: bool,
}

impl MemberTimes {
    /// Returns the times to tell now that the update is durable: if the primary wants them, or the update was slow.
    pub fn hops(&self, times: &CommitTimes) -> Option<MemberHops> {
        let is_slow = times.durable.saturating_sub(self.began) >= SLOW;
        let us = |from: Duration, to: Duration| u32::try_from(to.saturating_sub(from).as_micros()).unwrap_or(u32::MAX);
        (self.wanted || is_slow).then(|| MemberHops {
            receive_us: us(self.began, self.whole),
            queue_us: us(self.whole, times.handed_over),
            write_us: us(times.handed_over, times.written),
            flush_us: us(times.written, times.durable),
        })
    }
}

/// A member's acknowledgement of an update, with what it told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemberAck {
    pub osd: OsdId,
    /// Time when it came here.
    pub at: Duration,
    pub hops: MemberHops,
}
