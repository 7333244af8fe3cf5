//! Connections that others made and that have no session yet: how many there are, from where, and what they have sent.
//!
//! Nobody has proven anything on them, so they are bounded together. Where there is no room for another one, the oldest
//! of the machine that has most of them goes. A peer that goes on with its handshake needs milliseconds, so it is not
//! the oldest for long, also behind the address of a machine that opens one connection after the other.

use super::config::limits;
use super::machine::machine_of;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const _: () = assert!(
    limits::HALF_OPEN_MAX * limits::HALF_OPEN_SHARE_BYTES <= limits::HALF_OPEN_BYTES,
    "connections that have sent no more than their shares do not use up the bytes of all"
);

/// All connections of a messenger that are half open, by ids that grow with time.
#[derive(Debug)]
pub(super) struct HalfOpen<Id> {
    /// By machine.
    conns: BTreeMap<IpAddr, BTreeSet<Id>>,
    /// Bytes that each has sent.
    sent: BTreeMap<Id, usize>,
    /// The sum of those.
    bytes: usize,
}

impl<Id> Default for HalfOpen<Id> {
    fn default() -> HalfOpen<Id> {
        HalfOpen { conns: BTreeMap::new(), sent: BTreeMap::new(), bytes: 0 }
    }
}

impl<Id: Ord + Copy> HalfOpen<Id> {
    pub fn add(&mut self, conn: Id, from: IpAddr) {
        self.conns.entry(machine_of(from)).or_default().insert(conn);
        self.sent.insert(conn, 0);
    }

    /// A connection has a session, or is over.
    pub fn remove(&mut self, conn: Id, from: IpAddr) {
        let Some(sent) = self.sent.remove(&conn) else { return };
        self.bytes -= sent;
        let machine = machine_of(from);
        if let Some(conns) = self.conns.get_mut(&machine) {
            conns.remove(&conn);
            if conns.is_empty() {
                self.conns.remove(&machine);
            }
        }
    }

    /// Returns the connection that has to go where there may be `max`.
    pub fn surplus(&self, max: usize) -> Option<Id> {
        if self.sent.len() <= max {
            return None;
        }
        let most = self.conns.values().max_by_key(|conns| conns.len())?;
        most.first().copied()
    }

    /// Counts bytes that a connection has sent. False if they are too many, with those of all others.
    pub fn admits(&mut self, conn: Id, bytes: usize) -> bool {
        let Some(sent) = self.sent.get_mut(&conn) else { return true };
        *sent += bytes;
        self.bytes += bytes;
        self.bytes <= limits::HALF_OPEN_BYTES || *sent <= limits::HALF_OPEN_SHARE_BYTES
    }

    #[cfg(test)]
    pub fn facts(&self) -> (usize, usize) {
        (self.sent.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_machine_with_most_goes() {
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut it = HalfOpen::default();
        it.add(2, other);
        (4..10).step_by(2).for_each(|conn| it.add(conn, one));
        assert_eq!((it.surplus(4), it.surplus(3)), (None, Some(4)));
        it.remove(4, one);
        it.remove(4, one);
        assert_eq!((it.surplus(3), it.surplus(2)), (None, Some(6)));
        (6..10).step_by(2).for_each(|conn| it.remove(conn, one));
        assert_eq!(it.surplus(0), Some(2));
        it.remove(2, other);
        assert!(it.conns.is_empty() && it.facts() == (0, 0));
    }

    #[test]
    fn bytes_are_bounded_together_and_each_has_its_share() {
        let from = IpAddr::from([10, 0, 0, 1]);
        let mut it = HalfOpen::default();
        let count = (limits::HALF_OPEN_BYTES / limits::HANDSHAKE_BYTES) as u64;
        for conn in 0..count {
            it.add(conn, from);
            assert!(it.admits(conn, limits::HANDSHAKE_BYTES));
        }
        it.add(count, from);
        assert!(it.admits(count, limits::HALF_OPEN_SHARE_BYTES) && !it.admits(count, 1));
        it.remove(0, from);
        assert!(it.admits(count, 1));
    }
}
