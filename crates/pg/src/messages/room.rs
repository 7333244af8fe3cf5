//! Room for updates, which members promise primaries.

use super::PeerKind;
use types::Epoch;
use wire::own_message as message;

/// Primary to member: how much may I send you? Answered by [`RoomTold`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoomGet {
    /// The primary's map. A member that has an older one does not answer: it may take the primary for an earlier start
    /// of it.
    pub epoch: Epoch,
}

message!(RoomGet = PeerKind::RoomGet.number(), version 1 { epoch });

/// Member to primary: from now on no more than so many bytes of updates may be on their way from you to me.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoomTold {
    pub bytes: u64,
    /// Grows from one to the next.
    pub number: u64,
    /// The member's map: one that is newer than the primary's may have nothing more to do with it.
    pub epoch: Epoch,
}

message!(RoomTold = PeerKind::RoomTold.number(), version 2 { bytes, number, epoch });

/// Primary to member: [`RoomTold`] has come. All updates that are sent behind this message fit into that window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoomSeen {
    pub number: u64,
}

message!(RoomSeen = PeerKind::RoomSeen.number(), version 1 { number });
