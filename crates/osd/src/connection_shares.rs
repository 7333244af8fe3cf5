//! How many connections an OSD has at a time, and who may have how many of them: clients never use up what peers,
//! monitors and the OSD's own connects need.

use rustix::process::{Resource, getrlimit};

/// Descriptors that are no connections: devices, rings, logs.
const OTHER_DESCRIPTORS: usize = 256;
/// Of the OSD's loop, and of its heartbeats.
const CONNECTIONS_MAX: usize = 16_384;
const HEARTBEATS_MAX: usize = 4096;

/// The limits of one OSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionShares {
    /// Of the OSD's loop in all.
    pub all: usize,
    /// Those that clients began.
    pub clients: usize,
    /// Those that other OSDs began. The rest is for those that this OSD begins, to OSDs and to a monitor.
    pub peers: usize,
    /// Of the heartbeats' loop in all, and of those that others began on each of its networks.
    pub heartbeats: usize,
    pub heartbeats_accepted: usize,
}

impl ConnectionShares {
    /// What this process may have.
    pub fn of_process() -> ConnectionShares {
        let descriptors = getrlimit(Resource::Nofile).current;
        ConnectionShares::of(descriptors.and_then(|count| usize::try_from(count).ok()))
    }

    /// For a process that may have so many descriptors; `None`: any number.
    fn of(descriptors: Option<usize>) -> ConnectionShares {
        let room = descriptors.map_or(usize::MAX, |count| count.saturating_sub(OTHER_DESCRIPTORS).max(64));
        let (all, heartbeats) = ((room / 4 * 3).min(CONNECTIONS_MAX), (room / 4).min(HEARTBEATS_MAX));
        ConnectionShares {
            all,
            clients: all / 2,
            peers: all / 4,
            heartbeats,
            // There may be two networks.
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
