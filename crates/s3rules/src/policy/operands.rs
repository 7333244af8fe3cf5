//! Values that conditions compare with: numbers, networks, bytes.

use std::net::IpAddr;

/// Decimal number with nine places, exact. In units of 10⁻⁹.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal(i128);

impl Decimal {
    /// Reads a sign, up to 20 digits, and up to nine places.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
        if whole.is_empty() || whole.len() > 20 || places.is_empty() || places.len() > 9 {
            return None;
        }
        let mut number: i128 = 0;
        for digit in whole.bytes().chain(places.bytes()).chain(std::iter::repeat_n(b'0', 9 - places.len())) {
            number = number * 10 + i128::from(digit.is_ascii_digit().then(|| digit - b'0')?);
        }
        Some(Decimal(if negative { -number } else { number }))
    }
}

/// Network: an address and the number of its leading bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

impl Network {
    /// Reads `address` or `address/bits`.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            None => (text, None),
            Some((address, bits)) => (address, Some(bits)),
        };
        let address: IpAddr = address.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match bits {
            None => bits_max,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => bits.parse().ok()?,
            Some(_) => return None,
        };
        (prefix_bits <= bits_max).then_some(Network { address, prefix_bits })
    }

    /// True if an address lies in the network. An IPv4 address written as one of IPv6 counts as what it is.
    pub fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                same_bits(network.to_bits().into(), u32::from(address).into(), 32, self.prefix_bits)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                same_bits(network.to_bits(), address.to_bits(), 128, self.prefix_bits)
            }
            (IpAddr::V6(network), IpAddr::V4(address)) => {
                same_bits(network.to_bits(), address.to_ipv6_mapped().to_bits(), 128, self.prefix_bits)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }

    /// True for a network of so many addresses that it keeps nobody out: wider than 8 bits of IPv4 or 32 of IPv6.
    pub fn is_very_wide(&self) -> bool {
        self.prefix_bits < if self.address.is_ipv4() { 8 } else { 32 }
    }
}

fn same_bits(a: u128, b: u128, width: u32, prefix_bits: u8) -> bool {
    let unlike = a ^ b;
    match width - u32::from(prefix_bits) {
        128 => true,
        host_bits => unlike >> host_bits == 0,
    }
}

/// Reads base64 with its padding. `None` for any other text.
pub fn base64_bytes(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for &byte in &text[..text.len() - padding] {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    (bits & ((1 << count) - 1) == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_exactly() {
        let number = |text: &str| Decimal::parse(text);
        assert_eq!(number("10"), number("10.0"));
        assert_eq!(number("-0"), number("0"));
        assert!(number("9007199254740993") > number("9007199254740992"));
        assert!(number("-2") < number("-1.5"));
        for text in ["", "-", "1.", ".5", "1e3", "0x1", "1 ", "1.0000000001", "123456789012345678901", "١"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn networks_hold_addresses() {
        for (network, address, holds) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3/32", "10.1.2.4", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "::1", true),
            ("::/0", "10.0.0.1", true),
            ("0.0.0.0/0", "::1", false),
        ] {
            assert_eq!(Network::parse(network).unwrap().holds(address.parse().unwrap()), holds, "{network} {address}");
        }
        for text in
            ["", "10.0.0", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+1", "10.0.0.0/", "::/129", "10.0.0.0/8/8", "x"]
        {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }

    #[test]
    fn base64_is_read() {
        for (text, bytes) in [
            ("", Some(&b""[..])),
            ("QQ==", Some(b"A")),
            ("QUI=", Some(b"AB")),
            ("QUJD", Some(b"ABC")),
            ("////", Some(b"\xff\xff\xff")),
            ("QQ=", None),
            ("QQ", None),
            ("QR==", None),
            ("Q===", None),
            ("QQ==QQ==", None),
            ("Q Q=", None),
        ] {
            assert_eq!(base64_bytes(text).as_deref(), bytes, "{text}");
        }
    }
}
