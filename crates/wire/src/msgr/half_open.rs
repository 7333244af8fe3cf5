//! Connections that others made and that have no session yet: how many there are, from where, and what they have sent.
//!
//! Nobody has proven anything on them, so they are bounded together. Where there is no room for another one, the oldest
//! of the machine that has most of them goes. A peer that goes on with its handshake needs milliseconds, so it is not
//! the oldest for long, also behind the address of a machine that opens one connection after the other.

use super::config::limits;
use super::messenger::ConnId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

/// The part of an address by which a machine is told from others: all of an IPv4 address, and the network of an IPv6
/// one, in which a machine has as many addresses as it likes.
pub fn machine_of(addr: IpAddr) -> IpAddr {
    match addr.to_canonical() {
        IpAddr::V4(addr) => IpAddr::V4(addr),
        IpAddr::V6(addr) => IpAddr::V6(Ipv6Addr::from_bits(addr.to_bits() >> 64 << 64)),
    }
}

/// All connections of a messenger that are half open.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    /// By machine; ids grow with time.
    conns: BTreeMap<IpAddr, BTreeSet<ConnId>>,
    /// Bytes that each has sent.
    sent: BTreeMap<ConnId, usize>,
    /// The sum of those.
    bytes: usize,
}

impl HalfOpen {
    pub fn add(&mut self, conn: ConnId, from: IpAddr) {
        self.conns.entry(machine_of(from)).or_default().insert(conn);
        self.sent.insert(conn, 0);
    }

    /// A connection has a session, or is over.
    pub fn remove(&mut self, conn: ConnId, from: IpAddr) {
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
    pub fn surplus(&self, max: usize) -> Option<ConnId> {
        if self.sent.len() <= max {
            return None;
        }
        let most = self.conns.values().max_by_key(|conns| conns.len())?;
        most.first().copied()
    }

    /// Counts bytes that a connection has sent. False if they are too many, with those of all others.
    pub fn admits(&mut self, conn: ConnId, bytes: usize) -> bool {
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
    fn a_machine_has_one_ipv4_address_and_a_network_of_ipv6() {
        let same = |a: &str, b: &str| machine_of(a.parse().unwrap()) == machine_of(b.parse().unwrap());
        assert!(same("10.0.0.1", "::ffff:10.0.0.1") && !same("10.0.0.1", "10.0.0.2"));
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9") && !same("2001:db8:1:2::1", "2001:db8:1:3::1"));
    }

    #[test]
    fn the_oldest_of_the_machine_with_most_goes() {
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut it = HalfOpen::default();
        it.add(ConnId(2), other);
        (4..10).step_by(2).for_each(|conn| it.add(ConnId(conn), one));
        assert_eq!((it.surplus(4), it.surplus(3)), (None, Some(ConnId(4))));
        it.remove(ConnId(4), one);
        it.remove(ConnId(4), one);
        assert_eq!((it.surplus(3), it.surplus(2)), (None, Some(ConnId(6))));
        (6..10).step_by(2).for_each(|conn| it.remove(ConnId(conn), one));
        assert_eq!(it.surplus(0), Some(ConnId(2)));
        it.remove(ConnId(2), other);
        assert!(it.conns.is_empty() && it.facts() == (0, 0));
    }

    #[test]
    fn bytes_are_bounded_together_and_each_has_its_share() {
        let from = IpAddr::from([10, 0, 0, 1]);
        let mut it = HalfOpen::default();
        let count = (limits::HALF_OPEN_BYTES / limits::HANDSHAKE_BYTES) as u64;
        for conn in 0..count {
            it.add(ConnId(conn), from);
            assert!(it.admits(ConnId(conn), limits::HANDSHAKE_BYTES));
        }
        it.add(ConnId(count), from);
        assert!(it.admits(ConnId(count), limits::HALF_OPEN_SHARE_BYTES) && !it.admits(ConnId(count), 1));
        it.remove(ConnId(0), from);
        assert!(it.admits(ConnId(count), 1));
    }
}
