//! Bound on messages that clients have sent in part.
//!
//! Each of a client's connections may hold a message of up to 192 MiB that is not complete. All of them together have
//! room for [`HALF_RECEIVED_BYTES_MAX`]. Beyond that the connection whose message began first is dropped: clients that
//! send at the speed of a network are done soon, and those that send the beginning alone lose their place to them.
//!
//! A message counts by the size that its preamble tells. Messages of daemons do not count, as nothing that a client
//! does may hold them up.

use crate::bounds::HALF_RECEIVED_BYTES_MAX;
use std::collections::{BTreeMap, BTreeSet};
use wire::msgr::ConnId;

/// A message that has not come to its end.
#[derive(Clone, Copy, Debug)]
struct Begun {
    /// The message's number on its connection.
    frame: u64,
    bytes: usize,
    /// Tells which of two messages began first.
    order: u64,
}

/// The messages that clients have sent in part.
#[derive(Debug, Default)]
pub(crate) struct HalfReceived {
    begun: BTreeMap<ConnId, Begun>,
    /// Connections of `begun`, the one whose message began first in front.
    by_age: BTreeSet<(u64, ConnId)>,
    bytes: usize,
    last_order: u64,
}

impl HalfReceived {
    /// Notes the message that is being received on a client's connection: its number and size, if there is one.
    /// Returns connections to be dropped, which are forgotten.
    pub(crate) fn received(&mut self, conn: ConnId, message: Option<(u64, usize)>) -> Vec<ConnId> {
        let known = self.begun.get(&conn).map(|begun| begun.frame);
        if known == message.map(|(frame, _)| frame) {
            return Vec::new();
        }
        self.closed(conn);
        let Some((frame, bytes)) = message else { return Vec::new() };
        self.last_order += 1;
        let begun = Begun { frame, bytes, order: self.last_order };
        self.begun.insert(conn, begun);
        self.by_age.insert((begun.order, conn));
        self.bytes += bytes;
        let mut dropped = Vec::new();
        while self.bytes > HALF_RECEIVED_BYTES_MAX
            && let Some((_, first)) = self.by_age.first().copied()
        {
            self.closed(first);
            dropped.push(first);
        }
        dropped
    }

    /// Forgets a connection that is gone.
    pub(crate) fn closed(&mut self, conn: ConnId) {
        if let Some(begun) = self.begun.remove(&conn) {
            self.by_age.remove(&(begun.order, conn));
            self.bytes -= begun.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: usize = HALF_RECEIVED_BYTES_MAX / 2;

    fn conn(number: u64) -> ConnId {
        ConnId(number)
    }

    #[test]
    fn whoever_began_first_makes_room() {
        let mut half = HalfReceived::default();
        assert_eq!(half.received(conn(1), Some((7, HALF))), []);
        assert_eq!(half.received(conn(2), Some((3, HALF))), []);
        assert_eq!(half.received(conn(1), Some((7, HALF))), [], "more of the same message");
        assert_eq!(half.received(conn(3), Some((1, 1))), [conn(1)], "it began before the second");
        assert_eq!(half.received(conn(4), Some((1, HALF))), [conn(2)]);
        assert_eq!(half.bytes, HALF + 1);
    }

    #[test]
    fn what_is_complete_takes_no_room() {
        let mut half = HalfReceived::default();
        for frame in 0..10 {
            assert_eq!(half.received(conn(1), Some((2 * frame, HALF))), []);
            assert_eq!(half.received(conn(2), Some((frame, HALF))), []);
            // One message ends and the next one begins at once; or nothing follows.
            assert_eq!(half.received(conn(1), Some((2 * frame + 1, HALF))), []);
            assert_eq!(half.received(conn(1), None), []);
        }
        half.closed(conn(2));
        half.closed(conn(2));
        assert_eq!((half.bytes, half.begun.len(), half.by_age.len()), (0, 0, 0));
    }

    #[test]
    fn any_message_finds_room_at_last() {
        let mut half = HalfReceived::default();
        for number in 0..100 {
            half.received(conn(number), Some((0, HALF_RECEIVED_BYTES_MAX / 10)));
        }
        let dropped = half.received(conn(100), Some((0, HALF_RECEIVED_BYTES_MAX)));
        assert_eq!((dropped.len(), half.bytes), (10, HALF_RECEIVED_BYTES_MAX));
    }
}
