//! Facts that the OSD's loop and the heartbeats tell each other.

use super::{Pace, PeerAddrs, PingView, UNWELL_AFTER};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::EntityAddrVec;

/// Addresses at which an OSD answers heartbeats; the map tells them to the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeartbeatAddrs {
    pub back: EntityAddrVec,
    /// Equal to `back` if one network serves both.
    pub front: EntityAddrVec,
}

#[derive(Default)]
struct State {
    epoch: Epoch,
    peers: BTreeMap<OsdId, PeerAddrs>,
    silent: BTreeMap<OsdId, Duration>,
    /// Time for which the drive has owed an answer.
    disk_wait: Duration,
    pace: Pace,
    ping_times: Vec<PingView>,
    ended: bool,
}

/// Shared by the OSD's loop and the heartbeats. Nobody holds the lock for longer than a copy takes.
#[derive(Default)]
pub struct Board(Mutex<State>);

impl Board {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics while holding it")
    }

    /// For the OSD's loop: sets the OSDs to watch, by the map of this epoch.
    pub(crate) fn set_peers(&self, epoch: Epoch, peers: BTreeMap<OsdId, PeerAddrs>) {
        let mut state = self.state();
        (state.epoch, state.peers) = (epoch, peers);
    }

    /// Calls `with` with the peers if the map's epoch is not `epoch`. Returns the map's epoch.
    pub(crate) fn peers_since(&self, epoch: Epoch, with: impl FnOnce(&BTreeMap<OsdId, PeerAddrs>)) -> Epoch {
        let state = self.state();
        if state.epoch != epoch {
            with(&state.peers);
        }
        state.epoch
    }

    /// For the OSD's loop: sets how often peers are asked, and how long they have to answer.
    pub(crate) fn set_pace(&self, pace: Pace) {
        self.state().pace = pace;
    }

    pub(crate) fn pace(&self) -> Pace {
        self.state().pace
    }

    /// For the heartbeats: sets the time that peers' answers took.
    pub(crate) fn set_ping_times(&self, times: Vec<PingView>) {
        self.state().ping_times = times;
    }

    pub(crate) fn ping_times(&self) -> Vec<PingView> {
        self.state().ping_times.clone()
    }

    pub(crate) fn set_disk_wait(&self, wait: Duration) {
        self.state().disk_wait = wait;
    }

    /// False if the drive has owed an answer for so long that this OSD counts as dead.
    pub(crate) fn drive_answers(&self) -> bool {
        self.state().disk_wait < UNWELL_AFTER
    }

    /// For the heartbeats: sets the OSDs that are silent, and for how long each has been. Returns true if one is new
    /// among them.
    pub(crate) fn set_silent(&self, silent: BTreeMap<OsdId, Duration>) -> bool {
        let mut state = self.state();
        let new = silent.keys().any(|osd| !state.silent.contains_key(osd));
        state.silent = silent;
        new
    }

    pub(crate) fn silent(&self) -> BTreeMap<OsdId, Duration> {
        self.state().silent.clone()
    }

    /// Notes that the OSD ends; its heartbeats end with it.
    pub(crate) fn end(&self) {
        self.state().ended = true;
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state().ended
    }
}
