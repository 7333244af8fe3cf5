//! Addresses of parties on the wire.

use crate::codec::features;
use crate::{Decode, DecodeError, Encode, Reader, Writer};
use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::str::FromStr;

/// Protocol of an address. The numbers are the wire protocol's.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AddrKind(pub u32);

impl AddrKind {
    pub const NONE: AddrKind = AddrKind(0);
    /// msgr v1, written `v1:`.
    pub const LEGACY: AddrKind = AddrKind(1);
    /// msgr v2, written `v2:`.
    pub const MSGR2: AddrKind = AddrKind(2);
    /// msgr v1 or v2; clients name themselves so. Written without a prefix, or `any:`.
    pub const ANY: AddrKind = AddrKind(3);
    /// A range of addresses in a blocklist.
    pub const CIDR: AddrKind = AddrKind(4);
}

/// Address of one incarnation of a party.
///
/// The nonce distinguishes incarnations at one IP and port: a restarted OSD takes a new one.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct EntityAddr {
    pub kind: AddrKind,
    pub nonce: u32,
    /// `None` is the blank address: family unknown.
    pub sockaddr: Option<SocketAddr>,
}

/// First byte of an encoded address or list of addresses: which of the forms follows.
mod marker {
    /// One address as before Nautilus.
    pub const LEGACY: u8 = 0;
    /// One address in a versioned block.
    pub const MODERN: u8 = 1;
    /// A list of addresses in versioned blocks.
    pub const LIST: u8 = 2;
}

const FAMILY_INET: u16 = 2;
const FAMILY_INET6: u16 = 10;
/// `sizeof(sockaddr_in)`, `sizeof(sockaddr_in6)`; a blank address takes the larger.
const SOCKADDR_IN_BYTES: usize = 16;
const SOCKADDR_IN6_BYTES: usize = 28;
/// `sizeof(sockaddr_storage)`, the legacy form's fixed size.
const SOCKADDR_STORAGE_BYTES: usize = 128;

impl EntityAddr {
    /// The blank address, given for a list without the wanted kind.
    pub const BLANK: EntityAddr = EntityAddr { kind: AddrKind::NONE, nonce: 0, sockaddr: None };

    pub const fn new(kind: AddrKind, sockaddr: SocketAddr, nonce: u32) -> EntityAddr {
        EntityAddr { kind, nonce, sockaddr: Some(sockaddr) }
    }

    pub const fn msgr2(sockaddr: SocketAddr, nonce: u32) -> EntityAddr {
        EntityAddr::new(AddrKind::MSGR2, sockaddr, nonce)
    }

    /// The IP, unless the address is blank.
    pub fn ip(&self) -> Option<IpAddr> {
        self.sockaddr.map(|s| s.ip())
    }

    /// The port; 0 if the address is blank.
    pub fn port(&self) -> u16 {
        self.sockaddr.map_or(0, |s| s.port())
    }

    /// True if the address has no IP, or only the unspecified one (`0.0.0.0`, `::`).
    pub fn is_blank_ip(&self) -> bool {
        self.ip().is_none_or(|ip| ip.is_unspecified())
    }

    /// IP, port and nonce without the kind, as older output formats print an address: `10.0.0.1:6800/123`.
    pub fn legacy_str(&self) -> String {
        WithoutKind(self).to_string()
    }

    /// Parses the format of [`fmt::Display`]; a text without `v1:`, `v2:` or `any:` has kind `default`. A missing port
    /// or nonce is 0.
    pub fn parse(text: &str, default: AddrKind) -> Result<EntityAddr, ParseAddrError> {
        let error = || ParseAddrError(text.to_owned());
        if text == "-" {
            return Ok(EntityAddr::BLANK);
        }
        let prefixes = [("v1:", AddrKind::LEGACY), ("v2:", AddrKind::MSGR2), ("any:", AddrKind::ANY)];
        let (kind, rest) = prefixes
            .iter()
            .find_map(|(prefix, kind)| Some((*kind, text.strip_prefix(prefix)?)))
            .unwrap_or((default, text));
        let (host, nonce) = match rest.split_once('/') {
            Some((host, nonce)) => (host, nonce.parse().map_err(|_| error())?),
            None => (rest, 0),
        };
        let sockaddr = host
            .parse::<SocketAddr>()
            .or_else(|_| host.trim_start_matches('[').trim_end_matches(']').parse().map(|ip: IpAddr| (ip, 0).into()))
            .map_err(|_| error())?;
        Ok(EntityAddr { kind, nonce, sockaddr: Some(sockaddr) })
    }

    /// The sockaddr as it lies in memory on Linux: its bytes, and their number.
    fn sockaddr_bytes(&self) -> ([u8; SOCKADDR_IN6_BYTES], usize) {
        let mut raw = [0; SOCKADDR_IN6_BYTES];
        let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
        let len = match self.sockaddr {
            None => SOCKADDR_IN6_BYTES,
            Some(SocketAddr::V4(v4)) => {
                put(0, &FAMILY_INET.to_le_bytes());
                put(2, &port_bytes(v4.port()));
                put(4, &v4.ip().octets());
                SOCKADDR_IN_BYTES
            }
            Some(SocketAddr::V6(v6)) => {
                put(0, &FAMILY_INET6.to_le_bytes());
                put(2, &port_bytes(v6.port()));
                put(4, &v6.flowinfo().to_le_bytes());
                put(8, &v6.ip().octets());
                put(24, &v6.scope_id().to_le_bytes());
                SOCKADDR_IN6_BYTES
            }
        };
        (raw, len)
    }

    /// Reads a sockaddr after its family; `raw` is the rest of it, at most 26 bytes.
    fn read_sockaddr(family: u16, raw: &[u8]) -> Result<Option<SocketAddr>, DecodeError> {
        let longest = match family {
            FAMILY_INET => SOCKADDR_IN_BYTES - 2,
            _ => SOCKADDR_IN6_BYTES - 2,
        };
        if raw.len() > longest {
            return Err(DecodeError::Value { what: "length of a socket address", value: raw.len() as u64 + 2 });
        }
        // A sender may leave out the tail, which is zero then.
        let mut full = [0; SOCKADDR_IN6_BYTES - 2];
        full[..raw.len()].copy_from_slice(raw);
        let mut r = Reader::new(&full);
        let port = port_from(r.array()?);
        match family {
            0 => Ok(None),
            FAMILY_INET => Ok(Some(SocketAddrV4::new(Ipv4Addr::from(r.array::<4>()?), port).into())),
            FAMILY_INET6 => {
                let (flowinfo, ip) = (r.u32()?, Ipv6Addr::from(r.array::<16>()?));
                Ok(Some(SocketAddrV6::new(ip, port, flowinfo, r.u32()?).into()))
            }
            other => Err(DecodeError::Value { what: "address family", value: other.into() }),
        }
    }

    fn decode_legacy_after_marker(r: &mut Reader<'_>) -> Result<EntityAddr, DecodeError> {
        // The marker was the first byte of a 32-bit kind that is never used.
        r.skip(3)?;
        let nonce = r.u32()?;
        let family = port_from(r.array()?);
        let rest = r.raw(SOCKADDR_STORAGE_BYTES - 2)?;
        let sockaddr = match family {
            FAMILY_INET => Self::read_sockaddr(family, &rest[..SOCKADDR_IN_BYTES - 2])?,
            FAMILY_INET6 => Self::read_sockaddr(family, &rest[..SOCKADDR_IN6_BYTES - 2])?,
            _ => None,
        };
        Ok(EntityAddr { kind: AddrKind::LEGACY, nonce, sockaddr })
    }

    fn decode_modern_after_marker(r: &mut Reader<'_>) -> Result<EntityAddr, DecodeError> {
        let (_, mut r) = r.versioned("address", 1)?;
        let (kind, nonce) = (AddrKind(r.u32()?), r.u32()?);
        let mut raw = r.sized()?;
        let sockaddr = match raw.left() {
            0 => None,
            _ => {
                let family = raw.u16()?;
                Self::read_sockaddr(family, raw.peek())?
            }
        };
        Ok(EntityAddr { kind, nonce, sockaddr })
    }

    fn order_key(&self) -> ([u8; 4], [u8; 4], [u8; SOCKADDR_IN6_BYTES]) {
        (self.kind.0.to_le_bytes(), self.nonce.to_le_bytes(), self.sockaddr_bytes().0)
    }
}

/// Ports, and the family of the legacy form, are big-endian on the wire, as in the kernel's socket addresses.
#[allow(clippy::big_endian_bytes)]
fn port_bytes(port: u16) -> [u8; 2] {
    port.to_be_bytes()
}

#[allow(clippy::big_endian_bytes)]
fn port_from(bytes: [u8; 2]) -> u16 {
    u16::from_be_bytes(bytes)
}

/// The order of the bytes in memory on a little-endian machine, by which Ceph orders addresses: both ends of a
/// connection race must agree on it.
impl Ord for EntityAddr {
    fn cmp(&self, other: &EntityAddr) -> Ordering {
        self.order_key().cmp(&other.order_key())
    }
}

impl PartialOrd for EntityAddr {
    fn partial_cmp(&self, other: &EntityAddr) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Encode for EntityAddr {
    fn encode(&self, w: &mut Writer) {
        let target = w.target();
        let (raw, len) = self.sockaddr_bytes();
        if !target.has(features::MSG_ADDR2) {
            // The legacy form begins with 32 bits, of which the marker is the first byte.
            w.u32(marker::LEGACY.into());
            w.u32(self.nonce);
            // The family is big-endian here: its two little-endian bytes swapped.
            w.raw(&[raw[1], raw[0]]);
            w.raw(&raw[2..]);
            w.raw(&[0; SOCKADDR_STORAGE_BYTES - SOCKADDR_IN6_BYTES]);
            return;
        }
        w.u8(marker::MODERN);
        w.versioned(1, 1, |w| {
            // Peers before Nautilus do not know "any".
            let any_is_known = target.has(features::SERVER_NAUTILUS);
            let kind = if self.kind == AddrKind::ANY && !any_is_known { AddrKind::LEGACY } else { self.kind };
            w.u32(kind.0);
            w.u32(self.nonce);
            w.blob(&raw[..len]);
        });
    }
}

impl Decode for EntityAddr {
    const MIN_BYTES: usize = 19;

    fn decode(r: &mut Reader<'_>) -> Result<EntityAddr, DecodeError> {
        match r.u8()? {
            marker::LEGACY => Self::decode_legacy_after_marker(r),
            marker::MODERN => Self::decode_modern_after_marker(r),
            other => Err(DecodeError::Value { what: "marker of an address", value: other.into() }),
        }
    }
}

struct WithoutKind<'a>(&'a EntityAddr);

impl fmt::Display for WithoutKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.sockaddr {
            Some(SocketAddr::V6(v6)) => write!(f, "[{}]:{}", v6.ip(), v6.port())?,
            Some(v4) => write!(f, "{v4}")?,
            None => f.write_str("(unrecognized address family 0)")?,
        }
        write!(f, "/{}", self.0.nonce)
    }
}

/// Ceph's format of addresses: `v2:127.0.0.1:6800/123`, `-` for the kind "none".
impl fmt::Display for EntityAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            AddrKind::NONE => return f.write_str("-"),
            AddrKind::LEGACY => f.write_str("v1:")?,
            AddrKind::MSGR2 => f.write_str("v2:")?,
            AddrKind::ANY => {}
            AddrKind::CIDR => f.write_str("cidr:")?,
            _ => f.write_str("???:")?,
        }
        WithoutKind(self).fmt(f)
    }
}

/// A text that is no address; the field holds the text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is not an address such as v2:192.168.1.1:6800/0")]
pub struct ParseAddrError(pub String);

/// Parses with [`EntityAddr::parse`], with msgr v2 as the default.
impl FromStr for EntityAddr {
    type Err = ParseAddrError;

    fn from_str(text: &str) -> Result<EntityAddr, ParseAddrError> {
        EntityAddr::parse(text, AddrKind::MSGR2)
    }
}

/// All addresses of one party, usually at most one of each kind.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EntityAddrVec(pub Vec<EntityAddr>);

impl EntityAddrVec {
    pub const fn empty() -> EntityAddrVec {
        EntityAddrVec(Vec::new())
    }

    /// Address of a party that speaks msgr v2 only.
    pub fn msgr2(sockaddr: SocketAddr, nonce: u32) -> EntityAddrVec {
        EntityAddr::msgr2(sockaddr, nonce).into()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, EntityAddr> {
        self.0.iter()
    }

    pub fn contains(&self, addr: &EntityAddr) -> bool {
        self.0.contains(addr)
    }

    /// The first msgr v2 address; blank if there is none.
    pub fn msgr2_addr(&self) -> EntityAddr {
        self.of_kind(AddrKind::MSGR2)
    }

    /// The first msgr v1 address; blank if there is none.
    pub fn legacy_addr(&self) -> EntityAddr {
        self.of_kind(AddrKind::LEGACY)
    }

    /// The first address; blank if there is none.
    pub fn front(&self) -> EntityAddr {
        self.0.first().copied().unwrap_or(EntityAddr::BLANK)
    }

    fn of_kind(&self, kind: AddrKind) -> EntityAddr {
        self.0.iter().find(|a| a.kind == kind).copied().unwrap_or(EntityAddr::BLANK)
    }
}

impl From<EntityAddr> for EntityAddrVec {
    fn from(addr: EntityAddr) -> EntityAddrVec {
        EntityAddrVec(vec![addr])
    }
}

impl FromIterator<EntityAddr> for EntityAddrVec {
    fn from_iter<I: IntoIterator<Item = EntityAddr>>(addrs: I) -> EntityAddrVec {
        EntityAddrVec(addrs.into_iter().collect())
    }
}

impl Encode for EntityAddrVec {
    fn encode(&self, w: &mut Writer) {
        if !w.target().has(features::MSG_ADDR2) {
            return self.legacy_addr().encode(w);
        }
        w.u8(marker::LIST);
        self.0.encode(w);
    }
}

impl Decode for EntityAddrVec {
    const MIN_BYTES: usize = 5;

    fn decode(r: &mut Reader<'_>) -> Result<EntityAddrVec, DecodeError> {
        match r.u8()? {
            marker::LEGACY => EntityAddr::decode_legacy_after_marker(r).map(EntityAddrVec::from),
            marker::MODERN => EntityAddr::decode_modern_after_marker(r).map(EntityAddrVec::from),
            marker::LIST => r.get().map(EntityAddrVec),
            other => Err(DecodeError::Value { what: "marker of an address list", value: other.into() }),
        }
    }
}

/// One address alone, several in brackets: `[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0]`.
impl fmt::Display for EntityAddrVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [addr] = self.0[..] {
            return addr.fmt(f);
        }
        if self.0.is_empty() {
            return Ok(());
        }
        for (i, addr) in self.0.iter().enumerate() {
            write!(f, "{}{addr}", if i == 0 { "[" } else { "," })?;
        }
        f.write_str("]")
    }
}

impl FromStr for EntityAddrVec {
    type Err = ParseAddrError;

    fn from_str(text: &str) -> Result<EntityAddrVec, ParseAddrError> {
        // A single IPv6 address begins with a bracket, too.
        if let Ok(addr) = text.parse::<EntityAddr>() {
            return Ok(addr.into());
        }
        let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        inner.ok_or_else(|| ParseAddrError(text.to_owned()))?.split(',').map(str::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use proptest::prelude::*;

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
        digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    /// Checks that `hex` decodes to the addresses `text` and is encoded again to the same bytes.
    fn check(hex: &str, text: &str) {
        let bytes = unhex(hex);
        let addrs = EntityAddrVec::from_slice(&bytes).unwrap();
        assert_eq!(addrs.to_string(), text);
        assert_eq!(addrs.to_vec(Target::PACIFIC), bytes);
    }

    // These bytes were recorded from Ceph 16.2.
    #[test]
    fn address_bytes_do_not_move() {
        // marker 2, count | marker 1, version 1, compat 1, length 28 | kind, nonce, 16 | family, port BE, IP, zeros
        check(
            "02 01000000 01 0101 1c000000 03000000 90153751 10000000 0200 0000 ac154001 0000000000000000",
            "172.21.64.1:0/1362564496",
        );
        check(
            "02 02000000 01 0101 1c000000 02000000 7f5b0300 10000000 0200 1aa0 ac154001 0000000000000000
                         01 0101 1c000000 01000000 7f5b0300 10000000 0200 1aa1 ac154001 0000000000000000",
            "[v2:172.21.64.1:6816/220031,v1:172.21.64.1:6817/220031]",
        );
        // A blank address is as long as an IPv6 one.
        let blank = "01000000 01 0101 28000000 00000000 00000000 1c000000".to_owned() + &"00".repeat(28);
        check(&format!("02 {blank}"), "-");
        check("02 00000000", "");
    }

    #[test]
    fn legacy_peers_get_the_legacy_form() {
        let old = Target { features: 0, ..Target::PACIFIC };
        let addrs: EntityAddrVec = "[v2:10.1.2.3:3300/7,v1:10.1.2.3:6789/7]".parse().unwrap();
        let bytes = addrs.to_vec(old);
        // kind 0, nonce, family big-endian, port, IP, zeros to 128
        let head = unhex("00000000 07000000 0002 1a85 0a010203");
        assert_eq!((bytes.len(), &bytes[..head.len()]), (136, &head[..]));
        assert_eq!(EntityAddrVec::from_slice(&bytes).unwrap().to_string(), "v1:10.1.2.3:6789/7");
        // Peers before Nautilus do not know "any".
        let luminous = Target { features: features::PACIFIC & !(1 << 2), ..Target::PACIFIC };
        let any = EntityAddr { kind: AddrKind::ANY, ..addrs.front() };
        assert_eq!(EntityAddr::from_slice(&any.to_vec(luminous)).unwrap().kind, AddrKind::LEGACY);
    }

    #[test]
    fn malformed_addresses_are_refused() {
        let v6 = "01 0101 28000000 02000000 00000000 1c000000 0a00".to_owned() + &"00".repeat(26);
        assert!(EntityAddr::from_slice(&unhex(&v6)).is_ok());
        let refused = |hex: &str| assert!(EntityAddr::from_slice(&unhex(hex)).is_err(), "{hex}");
        refused(&v6.replace("0a00", "0b00"));
        refused(&v6.replace("0a00", "0200"));
        refused("01 0101 0d000000 02000000 00000000 01000000 02");
        refused("03");
        for (i, text) in ["", "v2:", "v2:1.2.3.4:99999", "v2:1.2.3.4:1/x", "1.2.3", "[v2:1.2.3.4:5", "v3:1.2.3.4:5/6"]
            .iter()
            .enumerate()
        {
            assert!(text.parse::<EntityAddrVec>().is_err(), "text {i}");
        }
    }

    #[test]
    fn order_is_that_of_memory() {
        let at = |text: &str| text.parse::<EntityAddr>().unwrap();
        assert!(at("v1:9.9.9.9:9/9") < at("v2:1.1.1.1:1/1"), "kind first");
        assert!(at("v2:9.9.9.9:9/256") < at("v2:1.1.1.1:1/1"), "then the nonce's bytes, lowest first");
        assert!(at("v2:9.9.9.9:1/1") < at("v2:1.1.1.1:2/1"), "then the port");
        assert!(at("v2:1.1.1.1:1/1") < at("v2:1.1.1.2:1/1"), "then the IP");
    }

    fn any_addr() -> impl Strategy<Value = EntityAddr> {
        let v6 = (any::<Ipv6Addr>(), any::<u16>(), any::<u32>(), any::<u32>())
            .prop_map(|(ip, port, flow, scope)| SocketAddrV6::new(ip, port, flow, scope).into());
        let v4 = (any::<Ipv4Addr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddrV4::new(ip, port).into());
        let sockaddr = prop_oneof![Just(None), v4.prop_map(Some), v6.prop_map(Some)];
        (1..4u32, any::<u32>(), sockaddr).prop_map(|(kind, nonce, sockaddr)| EntityAddr {
            kind: AddrKind(kind),
            nonce,
            sockaddr,
        })
    }

    proptest! {
        #[test]
        fn addresses_read_back(addrs in prop::collection::vec(any_addr(), 0..4)) {
            let addrs = EntityAddrVec(addrs);
            prop_assert_eq!(&EntityAddrVec::from_slice(&addrs.to_vec(Target::PACIFIC)).unwrap(), &addrs);
            for addr in addrs.iter().filter(|a| matches!(a.sockaddr, Some(SocketAddr::V4(_)))) {
                prop_assert_eq!(EntityAddr::parse(&addr.to_string(), AddrKind::ANY).unwrap(), *addr);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, marker in 0..4u8) {
            let bytes = [&[marker], &bytes[..]].concat();
            let _ = EntityAddr::from_slice(&bytes);
            let _ = EntityAddrVec::from_slice(&bytes);
        }

        #[test]
        fn mutated_addresses_are_read_or_refused(addr in any_addr(), at: usize, byte: u8, cut: usize) {
            let mut bytes = addr.to_vec(Target::PACIFIC);
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = EntityAddr::from_slice(&bytes[..cut % (bytes.len() + 1)]);
            let _ = EntityAddr::from_slice(&bytes);
        }
    }
}
