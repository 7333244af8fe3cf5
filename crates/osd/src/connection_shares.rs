//! Limits on an OSD's connections, by who began them. Clients never use up the connections that peers, monitors and the
//! OSD's own connects need.

use rustix::process::{Resource, getrlimit};
use wire::msgr::limits;

/// Number of descriptors for other things than connections: devices, rings, logs.
const OTHER_DESCRIPTORS: usize = 256;
/// The most connections of the OSD's loop, and of its heartbeats.
const CONNECTIONS_MAX: usize = 16_384;
const HEARTBEATS_MAX: usize = 4096;

/// The limits of one OSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionShares {
    /// Connections of the OSD's loop in all.
    pub all: usize,
    /// Connections that clients began.
    pub clients: usize,
    /// Connections that other OSDs began. The rest of `all` is for connections that this OSD begins, to OSDs and to a
    /// monitor.
    pub peers: usize,
    /// Connections of the heartbeats' loop in all, and connections that others began on each of its networks.
    pub heartbeats: usize,
    pub heartbeats_accepted: usize,
}

impl ConnectionShares {
    /// The most connections that others began, of a share, whose ends have not said who they are.
    pub fn half_open_of(share: usize) -> usize {
        (share / 2).min(limits::HALF_OPEN_MAX)
    }

    /// The limits of this process.
    pub fn of_process() -> ConnectionShares {
        let descriptors = getrlimit(Resource::Nofile).current;
        ConnectionShares::of(descriptors.and_then(|count| usize::try_from(count).ok()))
    }

    /// The limits of a process that may have `descriptors` open; `None`: any number.
    pub fn of(descriptors: Option<usize>) -> ConnectionShares {
        let room = descriptors.map_or(usize::MAX, |count| count.saturating_sub(OTHER_DESCRIPTORS).max(64));
        let (all, heartbeats) = ((room / 4 * 3).min(CONNECTIONS_MAX), (room / 4).min(HEARTBEATS_MAX));
        ConnectionShares {
            all,
            clients: all / 2,
            peers: all / 4,
            heartbeats,
            // The heartbeats may listen on two networks.
            heartbeats_accepted: heartbeats / 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_its_share_of_what_the_process_may_have() {
        let plenty = ConnectionShares::of(None);
        assert_eq!((plenty.all, plenty.clients, plenty.peers), (16_384, 8192, 4096));
        for descriptors in [0, 300, 1024, 4096, 1 << 20] {
            let shares = ConnectionShares::of(Some(descriptors));
            assert!(shares.clients + shares.peers < shares.all && 2 * shares.heartbeats_accepted < shares.heartbeats);
            let rest = descriptors.saturating_sub(OTHER_DESCRIPTORS).max(64);
            assert!(shares.all + shares.heartbeats <= rest, "{shares:?}");
        }
    }
}
