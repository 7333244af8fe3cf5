//! Leases, by which primaries answer reads, and shares of them, by which members do.

use super::PeerKind;
use super::interval::PgInterval;
use types::{EVersion, Epoch};
use wire::own_message as message;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Primary to member: may I answer reads? `stamp`: microseconds of the sender's clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseGet {
    pub stamp: u64,
}

message!(LeaseGet = PeerKind::LeaseGet.number(), version 1 { stamp });

/// Answers [`LeaseGet`]: in the groups in which the sender, which has the map `epoch`, follows the receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseGrant {
    pub stamp: u64,
    pub epoch: Epoch,
}

message!(LeaseGrant = PeerKind::LeaseGrant.number(), version 1 { stamp, epoch });

/// A group that a member wants to read in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareWish {
    pub pg: PgInterval,
    /// Microseconds of the member's clock.
    pub stamp: u64,
}

impl Encode for ShareWish {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.pg);
        w.put(&self.stamp);
    }
}

impl Decode for ShareWish {
    const MIN_BYTES: usize = PgInterval::MIN_BYTES + 8;

    fn decode(r: &mut Reader<'_>) -> Result<ShareWish, DecodeError> {
        Ok(ShareWish { pg: r.get()?, stamp: r.get()? })
    }
}

/// Member to primary: may I answer reads, too?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadShareGet {
    pub wishes: Vec<ShareWish>,
}

message!(ReadShareGet = PeerKind::ReadShareGet.number(), version 1 { wishes });

/// A group that a member may read in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The wish as it was asked.
    pub wish: ShareWish,
    /// Microseconds of the member's clock, from the stamp on.
    pub span: u64,
    /// Every member has all updates up to here durably.
    pub committed: EVersion,
}

impl Encode for Share {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.wish);
        w.put(&self.span);
        w.put(&self.committed);
    }
}

impl Decode for Share {
    const MIN_BYTES: usize = ShareWish::MIN_BYTES + 8 + EVersion::MIN_BYTES;

    fn decode(r: &mut Reader<'_>) -> Result<Share, DecodeError> {
        Ok(Share { wish: r.get()?, span: r.get()?, committed: r.get()? })
    }
}

/// Answers [`ReadShareGet`]; groups in which the member may not read are left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadShare {
    pub shares: Vec<Share>,
}

message!(ReadShare = PeerKind::ReadShare.number(), version 1 { shares });
