//! The option `mon host`: addresses of the monitors.

use std::net::{IpAddr, SocketAddr};

/// Default port of monitors for version 2 of the protocol.
pub const MON_PORT: u16 = 3300;
/// Port of version 1 of the protocol, which this client does not speak.
const MON_PORT_V1: u16 = 6789;

/// An address or host name of a monitor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MonHost {
    Addr(SocketAddr),
    /// A host name to resolve, and the port.
    Name(String, u16),
}

/// The reason why a `mon host` value cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MonHostError {
    #[error("names no monitor")]
    Empty,
    #[error("'{0}' is not an address: write '10.0.0.1', '10.0.0.1:3300' or '[v2:10.0.0.1:3300,v1:10.0.0.1:6789]'")]
    Malformed(String),
    #[error("only has addresses of protocol version 1; monitors must also listen for version 2 (usually port 3300)")]
    OnlyV1,
}

/// Reads a `mon host` value: entries separated by commas, semicolons or blanks, each an address, an address with a
/// port, a host name, or a bracketed list such as `[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]`.
pub fn parse_mon_host(value: &str) -> Result<Vec<MonHost>, MonHostError> {
    let mut hosts = Vec::new();
    let mut any_v1 = false;
    for entry in split_entries(value) {
        // Brackets hold either a list of typed addresses or one IPv6 address.
        let inner = entry.strip_prefix('[').and_then(|e| e.strip_suffix(']'));
        let parts: Vec<&str> = match inner {
            Some(list) if list.parse::<IpAddr>().is_err() => list.split(',').map(str::trim).collect(),
            _ => vec![entry],
        };
        for part in parts.into_iter().filter(|p| !p.is_empty()) {
            match parse_one(part)? {
                Some(host) if !hosts.contains(&host) => hosts.push(host),
                Some(_) => {}
                None => any_v1 = true,
            }
        }
    }
    match (hosts.is_empty(), any_v1) {
        (false, _) => Ok(hosts),
        (true, true) => Err(MonHostError::OnlyV1),
        (true, false) => Err(MonHostError::Empty),
    }
}

/// Cuts at separators outside brackets.
fn split_entries(value: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let cut = |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c == ';' || c.is_whitespace())
    };
    value.split(cut).map(str::trim).filter(|entry| !entry.is_empty()).collect()
}

/// One address; `None` for one of version 1.
fn parse_one(text: &str) -> Result<Option<MonHost>, MonHostError> {
    let malformed = || MonHostError::Malformed(text.to_owned());
    let (typed, rest) = match text.split_once(':') {
        Some(("v1", _)) => return Ok(None),
        Some(("v2", rest)) => (true, rest),
        Some(("any", rest)) => (false, rest),
        _ => (false, text),
    };
    // The nonce of a monitor's address is always 0.
    let rest = match rest.split_once('/') {
        Some((addr, nonce)) => {
            nonce.parse::<u32>().map_err(|_| malformed())?;
            addr
        }
        None => rest,
    };
    let bare = rest.strip_prefix('[').and_then(|r| r.strip_suffix(']')).unwrap_or(rest);
    let host = if let Ok(ip) = bare.parse::<IpAddr>() {
        MonHost::Addr(SocketAddr::new(ip, MON_PORT))
    } else if let Ok(addr) = rest.parse::<SocketAddr>() {
        MonHost::Addr(addr)
    } else {
        let (name, port) = match rest.rsplit_once(':') {
            Some((name, port)) => (name, port.parse().map_err(|_| malformed())?),
            None => (rest, MON_PORT),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        // A last label that begins with a digit is a mistyped address, not a name.
        let numeric = name.rsplit('.').next().is_some_and(|label| label.starts_with(|c: char| c.is_ascii_digit()));
        if name.is_empty() || !name.chars().all(plain) || numeric {
            return Err(malformed());
        }
        MonHost::Name(name.to_owned(), port)
    };
    let port = match &host {
        MonHost::Addr(addr) => addr.port(),
        MonHost::Name(_, port) => *port,
    };
    Ok((typed || port != MON_PORT_V1).then_some(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expect: &[&str]) {
        let hosts = parse_mon_host(value).unwrap_or_else(|e| panic!("{value}: {e}"));
        let text: Vec<String> = hosts
            .iter()
            .map(|h| match h {
                MonHost::Addr(a) => a.to_string(),
                MonHost::Name(n, p) => format!("{n}:{p}"),
            })
            .collect();
        assert_eq!(text, expect, "{value}");
    }

    #[test]
    fn all_forms() {
        check("10.0.0.1", &["10.0.0.1:3300"]);
        check("10.0.0.1:40000, 10.0.0.2", &["10.0.0.1:40000", "10.0.0.2:3300"]);
        check("[v2:127.0.0.1:40000,v1:127.0.0.1:40001]", &["127.0.0.1:40000"]);
        check("[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0] [v2:127.0.0.2:3300/0]", &["127.0.0.1:3300", "127.0.0.2:3300"]);
        check("v2:127.0.0.1:9/0;v2:127.0.0.1:9/0", &["127.0.0.1:9"]);
        check("::1 [fe80::1]:77 [v2:[::2]:5/0]", &["[::1]:3300", "[fe80::1]:77", "[::2]:5"]);
        check("[::1]", &["[::1]:3300"]);
        check("mon-a.example, mon-b:4000", &["mon-a.example:3300", "mon-b:4000"]);
        check("10.0.0.1:6789, 10.0.0.2", &["10.0.0.2:3300"]);
    }

    #[test]
    fn errors() {
        assert_eq!(parse_mon_host(" , "), Err(MonHostError::Empty));
        assert_eq!(parse_mon_host("v1:10.0.0.1:6789"), Err(MonHostError::OnlyV1));
        for bad in ["10.0.0", "10.0.0.1:x", "a b:c", "v2:10.0.0.1:3300/n", "10.0.0.1:99999", "x/y"] {
            assert!(matches!(parse_mon_host(bad), Err(MonHostError::Malformed(_))), "{bad}");
        }
    }
}
