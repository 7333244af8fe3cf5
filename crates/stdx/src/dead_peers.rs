//! Connections whose peer is gone without a word.

use socket2::{SockRef, TcpKeepalive};
use std::os::fd::AsFd;
use std::time::Duration;

/// A peer that says nothing for this long is asked by TCP itself.
const ASK_AFTER: Duration = Duration::from_secs(30);
/// Time between two such questions.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// Questions without an answer after which the connection ends.
const QUESTIONS: u32 = 3;
/// A peer is dead if for this long it acknowledged nothing that was sent, or took none of what waits to be sent.
pub const DEAD_AFTER: Duration = Duration::from_secs(60);

const _: () = assert!(ASK_AFTER.as_secs() + ASK_AGAIN.as_secs() * QUESTIONS as u64 == DEAD_AFTER.as_secs());

/// Has the kernel end the TCP connection of `socket` once its peer is gone without a word: a machine without power, an
/// address translation that has expired, a path that swallows everything.
///
/// A socket that is closed already, or is no TCP socket, stays as it is.
pub fn notice_dead_peers(socket: &impl AsFd) {
    let socket = SockRef::from(socket);
    let keepalive = TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_AGAIN).with_retries(QUESTIONS);
    let _ = socket.set_tcp_keepalive(&keepalive);
    let _ = socket.set_tcp_user_timeout(Some(DEAD_AFTER));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn tcp_itself_notices_dead_peers_within_a_minute() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        notice_dead_peers(&stream);
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(DEAD_AFTER));
        assert_eq!(socket.tcp_keepalive_time().unwrap(), ASK_AFTER);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), ASK_AGAIN);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), QUESTIONS);
    }
}
