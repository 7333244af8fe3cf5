//! Finds the process that serves an endpoint on this machine, for its cost to count.

use std::net::ToSocketAddrs;

/// The port of an endpoint `HOST:PORT` on this machine, and the process that listens there. `None` if it is on another
/// machine, or of another user.
pub fn process_of(authority: &str) -> Option<(u16, u32)> {
    let address = authority.to_socket_addrs().ok()?.next()?;
    let is_here = address.ip().is_loopback() || std::net::UdpSocket::bind((address.ip(), 0)).is_ok();
    let files = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let inode = files.iter().find_map(|text| listening(text, address.port())).filter(|_| is_here)?;
    let wanted = format!("socket:[{inode}]");
    let pids = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|one| one.file_name().to_str()?.parse().ok());
    let holds = |pid: &u32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|link| link.as_os_str() == wanted.as_str())
    };
    let pid = pids.into_iter().find(holds)?;
    Some((address.port(), pid))
}

/// The inode of the socket that listens at `port`, from the kernel's table of sockets.
fn listening(table: &str, port: u16) -> Option<u64> {
    const LISTEN: &str = "0A";
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, of) = fields.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(of, 16) == Ok(port) && fields.get(3) == Some(&LISTEN);
        is_it.then(|| fields.get(9)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_socket() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(process_of(&format!("127.0.0.1:{port}")), Some((port, std::process::id())));
        drop(listener);
        assert_eq!(process_of(&format!("127.0.0.1:{port}")), None);
        assert_eq!(process_of("192.0.2.1:80"), None);
    }
}
