//! Making sockets.

use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Silence of a peer after which TCP itself probes it, and the interval of the following probes.
const ASK_AFTER: Duration = Duration::from_secs(30);
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// Time after which a peer is dead that acknowledges no bytes sent to it, or that takes none though some wait.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// Makes the kernel end the connection once the peer is silently gone: a machine without power, an expired address
/// translation, a path that drops everything.
pub(crate) fn notice_dead_peers(socket: &Socket) {
    let keepalive = TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_AGAIN).with_retries(3);
    // The calls fail on a socket that is not TCP's, or is closed already; such a socket goes without the options.
    let _ = socket.set_tcp_keepalive(&keepalive);
    let _ = socket.set_tcp_user_timeout(Some(DEAD_AFTER));
}

fn stream_socket(addr: SocketAddr, nonblocking: bool) -> io::Result<Socket> {
    let socket_type = if nonblocking { Type::STREAM.nonblocking() } else { Type::STREAM };
    Socket::new(Domain::for_address(addr), socket_type.cloexec(), Some(Protocol::TCP))
}

/// Makes a listening socket, and returns its address. Port 0 asks for any free port.
pub(crate) fn listener(addr: SocketAddr, backlog: i32, nonblocking: bool) -> io::Result<(Socket, SocketAddr)> {
    let socket = stream_socket(addr, nonblocking)?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        // Each address family has its own sockets: otherwise `[::]` would take the IPv4 port too.
        socket.set_only_v6(true)?;
    }
    socket.bind(&addr.into())?;
    socket.listen(backlog)?;
    let bound = address(socket.local_addr()?)?;
    Ok((socket, bound))
}

/// A socket about to connect to `addr`.
pub(crate) fn connecting(addr: SocketAddr, nonblocking: bool) -> io::Result<Socket> {
    let socket = stream_socket(addr, nonblocking)?;
    socket.set_tcp_nodelay(true)?;
    notice_dead_peers(&socket);
    Ok(socket)
}

pub(crate) fn address(addr: SockAddr) -> io::Result<SocketAddr> {
    addr.as_socket().ok_or_else(|| io::Error::other("socket address is neither IPv4 nor IPv6"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_itself_notices_dead_peers_within_a_minute() {
        let socket = connecting("127.0.0.1:1".parse().unwrap(), true).unwrap();
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(DEAD_AFTER));
        let asked_last = socket.tcp_keepalive_time().unwrap()
            + socket.tcp_keepalive_interval().unwrap() * socket.tcp_keepalive_retries().unwrap();
        assert_eq!(asked_last, DEAD_AFTER);
    }
}
