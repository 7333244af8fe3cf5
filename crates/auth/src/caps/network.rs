//! Networks from which a grant may be used.

use std::fmt;
use std::net::IpAddr;

/// A network such as `10.0.0.0/8`, as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    text: String,
    /// Address and length of the prefix; `None` if the text is no network, and contains nothing.
    parsed: Option<(IpAddr, u32)>,
}

impl Network {
    pub(super) fn new(text: &str) -> Network {
        Network { text: text.to_owned(), parsed: parse(text) }
    }

    /// True if `ip` is of the network. Addresses of the other family are not.
    pub fn contains(&self, ip: Option<IpAddr>) -> bool {
        let Some(((network, prefix), ip)) = self.parsed.zip(ip) else { return false };
        match (network, ip) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                let differing = u64::from(network.to_bits() ^ ip.to_bits());
                differing >> 32u32.saturating_sub(prefix) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => {
                let differing = network.to_bits() ^ ip.to_bits();
                differing.checked_shr(128u32.saturating_sub(prefix)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

fn parse(text: &str) -> Option<(IpAddr, u32)> {
    let (address, prefix) = text.split_once('/')?;
    let address = address.parse().ok()?;
    let digits = !prefix.is_empty() && prefix.bytes().all(|c| c.is_ascii_digit());
    // A prefix that is longer than an address is as good as a whole one.
    digits.then(|| (address, prefix.parse().unwrap_or(u32::MAX)))
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_a_network_by_their_prefix() {
        let check = |network: &str, ip: &str, expect: bool| {
            assert_eq!(Network::new(network).contains(Some(ip.parse().unwrap())), expect, "{ip} in {network}");
        };
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.0.0.7/31", "10.0.0.6", true);
        check("10.0.0.7/32", "10.0.0.6", false);
        check("0.0.0.0/0", "10.0.0.6", true);
        check("0.0.0.0/0", "::1", false);
        check("fe80::/10", "febf::1", true);
        check("fe80::/10", "fec0::1", false);
        check("::/0", "ffff::1", true);
        check("::1/200", "::1", true);
        check("10.0.0.0", "10.0.0.0", false);
        check("10.0.0.0/", "10.0.0.0", false);
        check("10.0/8", "10.0.0.0", false);
        assert!(!Network::new("0.0.0.0/0").contains(None));
    }
}
