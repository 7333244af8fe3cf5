//! Chooses the OSDs that an OSD watches.

use super::PeerAddrs;
use osdmap::{Osd, OsdMap};
use std::collections::{BTreeMap, BTreeSet};
use types::OsdId;

/// The fewest others that every OSD watches, if there are as many. An OSD that shares no group with anybody is then
/// watched, too, and the monitors hear of a failure from several OSDs. Ceph calls it `osd_heartbeat_min_peers`.
const PEERS_MIN: usize = 10;

/// The OSDs that `whoami` watches: those with which it shares placement groups, and its neighbours by number.
pub(crate) fn neighbours(
    map: &OsdMap,
    whoami: OsdId,
    sharing: impl Iterator<Item = OsdId>,
) -> BTreeMap<OsdId, PeerAddrs> {
    let up: BTreeMap<OsdId, &Osd> = map.up_osds().filter(|(osd, _)| *osd != whoami).collect();
    let mut peers: BTreeSet<OsdId> = sharing.filter(|osd| up.contains_key(osd)).collect();
    // Neighbours after and before this OSD are taken in turns, around the end of the numbers.
    let mut behind = up.range(whoami..).chain(up.range(..whoami)).map(|(osd, _)| *osd);
    let mut before = up.range(..whoami).rev().chain(up.range(whoami..).rev()).map(|(osd, _)| *osd);
    while peers.len() < PEERS_MIN.min(up.len()) {
        peers.extend(behind.next());
        if peers.len() < PEERS_MIN.min(up.len()) {
            peers.extend(before.next());
        }
    }
    let addrs = |osd: &Osd| PeerAddrs {
        back: osd.hb_back_addrs.clone(),
        front: (osd.hb_front_addrs != osd.hb_back_addrs).then(|| osd.hb_front_addrs.clone()),
    };
    peers.into_iter().map(|osd| (osd, addrs(up[&osd]))).collect()
}
