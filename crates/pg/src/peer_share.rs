//! What members and their primary say to each other so that members may answer reads, too.

use crate::peer::PgInterval;
use types::EVersion;
use wire::nacre::kind;
use wire::own_message as message;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

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

message!(ReadShareGet = kind::READ_SHARE_GET, version 1 { wishes });

/// A group that a member may read in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// As asked.
    pub wish: ShareWish,
    /// For so many microseconds from the stamp on, of the member's clock.
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

message!(ReadShare = kind::READ_SHARE, version 1 { shares });
