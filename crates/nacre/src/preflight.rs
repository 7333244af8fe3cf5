//! Checks before anything is made: sizes, space, ports.

use crate::byte_size::ByteSize;
use anyhow::{Context, Result, bail};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;

/// The largest size `auto` gives an OSD.
pub const AUTO_OSD_BYTES_MAX: u64 = 16 << 30;
/// The smallest OSD that is of any use.
pub const OSD_BYTES_MIN: u64 = 1 << 30;
/// Sizes are multiples of this, the unit in which the store leases space.
pub const OSD_BYTES_UNIT: u64 = 64 << 20;
/// The share of free space, in percent, that `auto` promises to all OSDs together.
const AUTO_SHARE_PERCENT: u64 = 60;

/// The size of each OSD: `wanted`, or for `None` the smaller of 16 GiB and 60 % of the free space shared out.
///
/// Files are sparse, so a wanted size takes no space at first; it is refused where it could never be filled.
pub fn osd_size(wanted: Option<ByteSize>, osds: u32, free: ByteSize) -> Result<ByteSize> {
    let min = ByteSize(OSD_BYTES_MIN);
    let round = |bytes: u64| ByteSize(bytes / OSD_BYTES_UNIT * OSD_BYTES_UNIT);
    match wanted {
        None => {
            let share = round((free.0 / 100 * AUTO_SHARE_PERCENT / u64::from(osds)).min(AUTO_OSD_BYTES_MAX));
            if share < min {
                bail!(
                    "too little disk: {free} are free, and {osds} OSDs of at least {min} need {} at most {AUTO_SHARE_PERCENT} % full; \
                     free some space, use fewer --osds, or choose a --dir on a larger disk",
                    ByteSize(min.0 * u64::from(osds) * 100 / AUTO_SHARE_PERCENT)
                );
            }
            Ok(share)
        }
        Some(size) if size < min => bail!("--osd-size {size} is too small; an OSD needs at least {min}"),
        Some(size) => {
            let size = round(size.0);
            let total = ByteSize(size.0.saturating_mul(osds.into()));
            if total > free {
                bail!(
                    "too little disk: {osds} OSDs of {size} can grow to {total}, but {free} are free; \
                     use a smaller --osd-size (or auto), fewer --osds, or a --dir on a larger disk"
                );
            }
            Ok(size)
        }
    }
}

/// Space that an ordinary user can still fill below `dir`, which need not exist yet.
pub fn free_space(dir: &Path) -> Result<ByteSize> {
    let existing = dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let stat =
        rustix::fs::statvfs(existing).with_context(|| format!("cannot tell the free space of {}", dir.display()))?;
    Ok(ByteSize(stat.f_bavail.saturating_mul(stat.f_frsize)))
}

/// Checks that monitors can listen on `bind`.
pub fn ports_are_free(bind: IpAddr, ports: impl Iterator<Item = u16>) -> Result<()> {
    for port in ports {
        let addr = SocketAddr::new(bind, port);
        match TcpListener::bind(addr) {
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse && has_listener(addr) => bail!(
                "port {port} on {bind} is in use by another program ('ss -ltnp sport = :{port}' names it); \
                 stop it, or choose another port with --port"
            ),
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => bail!(
                "port {port} on {bind} is the local end of a connection of another program ('ss -tnp sport = :{port}' \
                 names it); choose with --port one that the kernel gives to no connection \
                 ('sysctl net.ipv4.ip_local_port_range' tells those that it gives)"
            ),
            Err(e) => {
                return Err(e).with_context(|| format!("cannot listen on {addr}; choose another --port or --bind"));
            }
        }
    }
    Ok(())
}

/// Tells if a program listens on an address. True where that cannot be known.
fn has_listener(addr: SocketAddr) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    if tables.iter().all(Result::is_err) {
        return true;
    }
    let listeners = tables.iter().flatten().flat_map(|table| table.lines().filter_map(listener));
    listeners.into_iter().any(|found| {
        found.port() == addr.port() && (found.ip().is_unspecified() || found.ip().to_canonical() == addr.ip())
    })
}

/// The address of a line of the kernel's table of sockets, if that one listens.
fn listener(line: &str) -> Option<SocketAddr> {
    const LISTENS: &str = "0A";
    let words: Vec<&str> = line.split_whitespace().take(4).collect();
    let [_, local, _, LISTENS] = words[..] else { return None };
    let (ip, port) = local.split_once(':')?;
    // The kernel writes each four bytes of an address as the number that they are for this machine.
    let word = |at: usize| u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match ip.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            IpAddr::from(<[u8; 16]>::try_from(words.as_flattened()).ok()?)
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Most monitors there can be; their names are letters.
const MONS_MAX: u32 = 26;

/// Checks that monitors have valid ports.
pub fn port_range(port: u16, mons: u32) -> Result<()> {
    let last = 65_535 - MONS_MAX as u16;
    if !(1024..=last).contains(&port) {
        bail!("--port {port} does not do: choose 1024 to {last}; each monitor takes one port from it on");
    }
    if !(1..=MONS_MAX).contains(&mons) {
        bail!("--mons {mons} does not do: choose 1 to 26, best an odd number");
    }
    Ok(())
}

/// Without authentication only this machine may connect, unless the user insists.
pub fn bind_address(bind: Option<IpAddr>, insecure: bool, cephx: bool) -> Result<IpAddr> {
    let bind = match (bind, insecure) {
        (Some(bind), _) => bind,
        (None, false) => IpAddr::from([127, 0, 0, 1]),
        (None, true) => outward_address()?,
    };
    if bind.is_unspecified() {
        bail!("--bind {bind} does not do: clients are told this address, so give one that they can reach");
    }
    if !bind.is_loopback() && !insecure && !cephx {
        bail!(
            "--bind {bind} would let anybody on the network read and change all data; leave --no-auth out to have everybody \
             prove who he is, or add --insecure if that is wanted"
        );
    }
    Ok(bind)
}

/// The address from which this machine would send to the outside.
fn outward_address() -> Result<IpAddr> {
    // "Connecting" a datagram socket sends nothing; it makes the kernel choose a route. The target is a
    // documentation address.
    let choose = || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    };
    let addr = choose().context("cannot tell this machine's address; name it with --bind")?;
    Ok(addr.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    const GIB: u64 = 1 << 30;

    #[test]
    fn sizes_fit_the_disk() {
        let auto = |osds, free| osd_size(None, osds, ByteSize(free)).map(|s| s.0);
        assert_eq!(auto(6, 1000 * GIB).unwrap(), 16 * GIB, "capped");
        let share = auto(6, 78 * GIB).unwrap();
        assert!(share <= 78 * GIB * 6 / 10 / 6 && share > 7 * GIB && share.is_multiple_of(OSD_BYTES_UNIT));
        assert!(auto(6, 9 * GIB).unwrap_err().to_string().contains("too little disk"));
        let wanted = |size, osds| osd_size(Some(ByteSize(size)), osds, ByteSize(78 * GIB));
        assert_eq!(wanted(8 * GIB + 5, 6).unwrap().0, 8 * GIB);
        assert!(wanted(16 * GIB, 6).unwrap_err().to_string().contains("can grow to 96 GiB"));
        assert!(wanted(GIB / 2, 1).unwrap_err().to_string().contains("too small"));
        assert!(wanted(u64::MAX, 6).is_err());
        assert!(free_space(Path::new("/nowhere/at/all")).unwrap().0 > 0);
    }

    #[test]
    fn ports() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = ports_are_free(IpAddr::from([127, 0, 0, 1]), std::iter::once(port)).unwrap_err();
        assert!(error.to_string().contains("in use"), "{error}");
        drop(taken);
        // A process that another test starts holds the listener for a moment, until it becomes another program.
        let is_free = || ports_are_free(IpAddr::from([127, 0, 0, 1]), std::iter::once(port)).is_ok();
        let end = Instant::now() + Duration::from_secs(30);
        while !is_free() {
            assert!(Instant::now() < end, "port {port} is free");
            sleep(Duration::from_millis(10));
        }
        assert!(port_range(40_000, 1).is_ok() && port_range(65_509, 26).is_ok());
        assert!(port_range(80, 1).is_err() && port_range(65_510, 1).is_err() && port_range(40_000, 27).is_err());
        assert!(port_range(40_000, 0).is_err());
    }

    #[test]
    fn a_listener_and_a_connection_are_told_apart() {
        for host in ["127.0.0.1", "[::1]"] {
            let Ok(listener) = TcpListener::bind(format!("{host}:0")) else { continue };
            let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let refusal = |addr: SocketAddr| {
                let ports = std::iter::once(addr.port());
                ports_are_free(addr.ip(), ports).expect_err("it is in use").to_string()
            };
            let listens = refusal(listener.local_addr().unwrap());
            assert!(listens.contains("in use by another program"), "{listens}");
            let connected = refusal(connection.local_addr().unwrap());
            assert!(connected.contains("local end of a connection"), "{connected}");
        }
        let everywhere = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = everywhere.local_addr().unwrap().port();
        assert!(has_listener(SocketAddr::from(([127, 0, 0, 1], port))));
        let lines = [
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
            "   1: 0100007F:0CE4 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0",
            "   2: 0100007F:0CE4",
            "   3: 01:0CE4 00000000:0000 0A",
        ];
        assert!(lines.iter().all(|line| listener(line).is_none()));
    }

    #[test]
    fn only_loopback_unless_insecure_or_with_keys() {
        let ip = |s: &str| Some(s.parse::<IpAddr>().unwrap());
        assert_eq!(bind_address(None, false, true).unwrap(), IpAddr::from([127, 0, 0, 1]));
        assert!(bind_address(ip("10.0.0.1"), false, false).unwrap_err().to_string().contains("--insecure"));
        assert!(bind_address(ip("10.0.0.1"), false, true).is_ok());
        assert!(bind_address(ip("10.0.0.1"), true, false).is_ok() && bind_address(ip("::1"), false, false).is_ok());
        assert!(bind_address(ip("0.0.0.0"), true, true).is_err());
    }
}
