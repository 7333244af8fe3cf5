//! Machines, as far as addresses tell them apart.

use std::net::{IpAddr, Ipv6Addr};

/// The part of an address by which a machine is told from others: all of an IPv4 address, and the network of an IPv6
/// one, in which a machine has as many addresses as it likes.
pub fn machine_of(addr: IpAddr) -> IpAddr {
    match addr.to_canonical() {
        IpAddr::V4(addr) => IpAddr::V4(addr),
        IpAddr::V6(addr) => IpAddr::V6(Ipv6Addr::from_bits(addr.to_bits() >> 64 << 64)),
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
}
