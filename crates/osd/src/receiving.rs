//! Memory for messages that are being received.
//!
//! A message's preamble tells its size. That much memory is reserved before more of the message is received. A message
//! for which there is no room waits, and its connection waits with it, in the order in which the messages came. A
//! message needs no room if no other large one is being received. Therefore every message gets in at last, however
//! large it is.

use reactor::ConnId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Messages up to this size never wait, and no message waits for small ones alone: they are complete before waiting
/// would save anything.
const SMALL_BYTES: usize = 32 << 10;
/// Time limit for receiving a message while others wait for room. The sender is given up then, because its message
/// could take up room for ever.
const TIME_MAX: Duration = Duration::from_secs(120);

/// A message that is being received.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    /// The message's number on its connection.
    frame: u64,
    bytes: usize,
    since: Duration,
}

/// The messages that are being received on some connections.
#[derive(Debug)]
pub(crate) struct Receiving {
    /// Bytes that these messages may take in all.
    room: usize,
    reserved: BTreeMap<ConnId, Reserved>,
    reserved_bytes: usize,
    /// Number of reserved messages that are not small.
    large: usize,
    /// Bytes of messages that are complete and that nobody has counted elsewhere yet.
    complete_bytes: usize,
    /// Messages that wait, in the order in which they came.
    waiting: VecDeque<(ConnId, Reserved)>,
    waiting_conns: BTreeSet<ConnId>,
}

impl Default for Receiving {
    fn default() -> Receiving {
        Receiving {
            room: usize::MAX,
            reserved: BTreeMap::new(),
            reserved_bytes: 0,
            large: 0,
            complete_bytes: 0,
            waiting: VecDeque::new(),
            waiting_conns: BTreeSet::new(),
        }
    }
}

impl Receiving {
    /// True if a message waits for room.
    pub fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Tells how far a connection has come: `message` is the number and size of the message that is being received, if
    /// one is. Returns true if more may be received. If not, [`Receiving::set_room`] tells when it may.
    pub fn goes_on(&mut self, conn: ConnId, message: Option<(u64, usize)>, now: Duration) -> bool {
        if mutant::is(mutant::Mutant::HalfReceivedUncounted) {
            return true;
        }
        let known = self.reserved.get(&conn).map(|reserved| reserved.frame);
        if known.is_some() && known == message.map(|(frame, _)| frame) {
            return true;
        }
        if let Some(complete) = self.release(conn) {
            self.complete_bytes += complete;
        }
        let Some((frame, bytes)) = message else { return true };
        let reserved = Reserved { frame, bytes, since: now };
        if bytes <= SMALL_BYTES || self.waiting.is_empty() && self.fits(bytes) {
            self.reserve(conn, reserved);
            return true;
        }
        if self.waiting_conns.insert(conn) {
            self.waiting.push_back((conn, reserved));
        }
        false
    }

    fn fits(&self, bytes: usize) -> bool {
        self.large == 0 || (self.reserved_bytes + self.complete_bytes).saturating_add(bytes) <= self.room
    }

    fn reserve(&mut self, conn: ConnId, reserved: Reserved) {
        self.reserved_bytes += reserved.bytes;
        self.large += usize::from(reserved.bytes > SMALL_BYTES);
        self.reserved.insert(conn, reserved);
    }

    fn release(&mut self, conn: ConnId) -> Option<usize> {
        let reserved = self.reserved.remove(&conn)?;
        self.reserved_bytes -= reserved.bytes;
        self.large -= usize::from(reserved.bytes > SMALL_BYTES);
        Some(reserved.bytes)
    }

    pub fn is_waiting(&self, conn: ConnId) -> bool {
        self.waiting_conns.contains(&conn)
    }

    /// Forgets a connection that is gone.
    pub fn closed(&mut self, conn: ConnId) {
        self.release(conn);
        if self.waiting_conns.remove(&conn) {
            self.waiting.retain(|(waiting, _)| *waiting != conn);
        }
    }

    /// Sets the room for messages that are being received. Complete messages have been counted elsewhere. Returns
    /// connections that may go on.
    pub fn set_room(&mut self, room: usize, now: Duration) -> Vec<ConnId> {
        (self.room, self.complete_bytes) = (room, 0);
        let mut go_on = Vec::new();
        while let Some((conn, first)) = self.waiting.front().copied().filter(|(_, first)| self.fits(first.bytes)) {
            self.waiting.pop_front();
            self.waiting_conns.remove(&conn);
            self.reserve(conn, Reserved { since: now, ..first });
            go_on.push(conn);
        }
        go_on
    }

    /// Connections whose messages are still incomplete after [`TIME_MAX`] while others wait for room.
    pub fn overdue(&self, now: Duration) -> Vec<ConnId> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let late = |reserved: &Reserved| reserved.bytes > SMALL_BYTES && now >= reserved.since + TIME_MAX;
        self.reserved.iter().filter(|(_, reserved)| late(reserved)).map(|(conn, _)| *conn).collect()
    }

    /// Nothing was read for this time, and no message could progress. The time does not count for any of them.
    pub fn stood_still(&mut self, time: Duration) {
        self.reserved.values_mut().for_each(|reserved| reserved.since += time);
    }

    /// Nothing was read from a connection up to now. That time does not count for its message.
    pub fn begins_anew(&mut self, conn: ConnId, now: Duration) {
        if let Some(reserved) = self.reserved.get_mut(&conn) {
            reserved.since = reserved.since.min(now);
        }
    }

    /// Bytes that are reserved at present.
    pub fn reserved_bytes(&self) -> usize {
        self.reserved_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const NOW: Duration = Duration::from_secs(5);

    fn conns<const N: usize>() -> [ConnId; N] {
        std::array::from_fn(|index| ConnId(index as u64))
    }

    #[test]
    fn messages_wait_for_room_in_the_order_in_which_they_came() {
        let mut receiving = Receiving::default();
        let [a, b, c, d] = conns();
        receiving.set_room(10 * MIB, NOW);
        assert!(receiving.goes_on(a, Some((1, 6 * MIB)), NOW));
        assert!(!receiving.goes_on(b, Some((1, 5 * MIB)), NOW));
        assert!(!receiving.goes_on(c, Some((7, MIB)), NOW), "behind one that waits");
        assert!(receiving.goes_on(d, Some((1, 1000)), NOW), "small");
        assert!(receiving.goes_on(a, Some((1, 6 * MIB)), NOW), "half in");
        // The first message is complete, and the next one has begun.
        assert!(!receiving.goes_on(a, Some((2, 6 * MIB)), NOW));
        assert_eq!(receiving.set_room(9 * MIB, NOW), [b, c]);
        assert!(receiving.goes_on(b, None, NOW) && receiving.is_waiting(a));
        assert_eq!(receiving.set_room(4 * MIB, NOW), []);
        receiving.closed(c);
        assert!(receiving.goes_on(d, None, NOW));
        assert_eq!(receiving.set_room(4 * MIB, NOW), [a], "larger than all room, but alone");
        receiving.closed(a);
        assert_eq!(receiving.reserved_bytes(), 0);
    }

    #[test]
    fn a_message_larger_than_all_room_is_received_alone() {
        let mut receiving = Receiving::default();
        let [a, b, c] = conns();
        receiving.set_room(MIB, NOW);
        assert!(receiving.goes_on(a, Some((1, 90 * MIB)), NOW));
        assert!(!receiving.goes_on(b, Some((1, 90 * MIB)), NOW));
        assert!(!receiving.goes_on(c, Some((1, MIB)), NOW));
        assert!(receiving.goes_on(a, None, NOW));
        assert_eq!(receiving.set_room(0, NOW), [b], "one at a time, also without any room");
        assert!(receiving.goes_on(b, None, NOW));
        assert_eq!(receiving.set_room(0, NOW), [c]);
    }

    #[test]
    fn small_messages_that_never_end_keep_nobody_waiting() {
        let mut receiving = Receiving::default();
        let [a, b] = conns();
        receiving.set_room(0, NOW);
        assert!(receiving.goes_on(a, Some((1, SMALL_BYTES)), NOW));
        assert!(receiving.goes_on(b, Some((1, 90 * MIB)), NOW));
    }

    #[test]
    fn whoever_takes_for_ever_is_given_up_if_others_wait() {
        let mut receiving = Receiving::default();
        let [a, b] = conns();
        receiving.set_room(MIB, NOW);
        assert!(receiving.goes_on(a, Some((1, MIB)), NOW));
        let later = NOW + TIME_MAX;
        assert_eq!(receiving.overdue(later), [], "nobody minds");
        assert!(!receiving.goes_on(b, Some((1, MIB)), later));
        assert_eq!(receiving.overdue(later), [a]);
        receiving.stood_still(Duration::from_secs(1));
        assert_eq!(receiving.overdue(later), [], "it was not read from");
        let later = later + TIME_MAX;
        assert_eq!(receiving.overdue(later), [a]);
        receiving.begins_anew(a, later);
        assert_eq!(receiving.overdue(later + TIME_MAX - Duration::from_secs(1)), [], "it alone was not read from");
    }
}
