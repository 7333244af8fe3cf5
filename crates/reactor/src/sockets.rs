//! Making sockets.

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;
use stdx::notice_dead_peers;

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
    use stdx::DEAD_AFTER;

    #[test]
    fn sockets_that_connect_notice_dead_peers() {
        let socket = connecting("127.0.0.1:1".parse().unwrap(), true).unwrap();
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(DEAD_AFTER));
    }
}
