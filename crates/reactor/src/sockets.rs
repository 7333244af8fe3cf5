//! Making sockets.

use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A peer that says nothing is asked by TCP itself after this time, and again ...
const ASK_AFTER: Duration = Duration::from_secs(30);
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// ... and is dead if for so long it acknowledged nothing that was sent, or took none of it though there was something.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// Has the kernel end the connection once the peer is gone without a word: a machine without power, an address
/// translation that has expired, a path that swallows everything.
pub(crate) fn notice_dead_peers(socket: &Socket) {
    let keepalive = TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_AGAIN).with_retries(3);
    // What a socket that is no TCP socket, or is closed already, does not take costs only that.
    let _ = socket.set_tcp_keepalive(&keepalive);
    let _ = socket.set_tcp_user_timeout(Some(DEAD_AFTER));
}

fn stream_socket(addr: SocketAddr, nonblocking: bool) -> io::Result<Socket> {
    let socket_type = if nonblocking { Type::STREAM.nonblocking() } else { Type::STREAM };
    Socket::new(Domain::for_address(addr), socket_type.cloexec(), Some(Protocol::TCP))
}

/// A listening socket and the address it got. Port 0 asks for any free port.
pub(crate) fn listener(addr: SocketAddr, backlog: i32, nonblocking: bool) -> io::Result<(Socket, SocketAddr)> {
    let socket = stream_socket(addr, nonblocking)?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        // One socket per address family, as asked for; otherwise `[::]` would take the IPv4 port too.
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
