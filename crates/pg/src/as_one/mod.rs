//! An OSD's shards as other OSDs see them: as one.
//!
//! Other OSDs do not know how many shards an OSD has. What is said about one group passes through to its home and back.
//! What OSDs promise each other as a whole, leases and room, each shard promises for itself, and what it says
//! goes through here:
//!
//! * A *lease* is granted once every shard has granted it, as of the newest map that one of them has.
//! * The *window* for updates that a primary is told is the smallest that a shard would give it. The primary
//!   may fill it with updates for one shard alone. What it has seen, every shard learns.
//! * A window that this OSD is given as primary is divided evenly. It is confirmed once every shard has seen its part.

mod leases;
mod rooms;

use crate::Homes;
use crate::peer::LeaseGrant;
use crate::peer_room::{RoomSeen, RoomTold};
use crate::route::{self, Addressee};
use leases::LeaseGrants;
use osdmap::OsdMap;
use rooms::{GivenWindows, TakenWindows};
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::nacre::kind;
use wire::{DecodeError, Envelope, Message, Target};

/// What several shards say, on its way to other OSDs, and the other way.
#[derive(Debug)]
pub struct AsOne {
    shards: usize,
    leases: LeaseGrants,
    given: GivenWindows,
    taken: TakenWindows,
}

/// Where a message of another OSD goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// To these shards, each its own.
    Shards(Vec<(usize, Envelope)>),
    /// Nowhere before this map has come: it is about a group that is in no earlier one.
    Later(Epoch),
}

impl AsOne {
    pub fn new(shards: usize) -> AsOne {
        let (given, taken) = (GivenWindows::new(shards), TakenWindows::new(shards));
        AsOne { shards, leases: LeaseGrants::new(shards), given, taken }
    }

    /// A message has come from another OSD.
    ///
    /// Errors: it is malformed.
    pub fn deliver(
        &mut self,
        homes: &Homes,
        epoch: Epoch,
        from: OsdId,
        envelope: &Envelope,
    ) -> Result<Delivery, DecodeError> {
        let tid = envelope.header.tid;
        let to_all = |envelope: &Envelope| (0..self.shards).map(|shard| (shard, envelope.clone())).collect();
        let shards = match envelope.header.kind {
            kind::ROOM_TOLD => {
                let part = self.taken.told(from, &RoomTold::open(envelope)?);
                to_all(&part.seal(tid, Target::default()))
            }
            kind::ROOM_SEEN => {
                let seen = self.given.seen(from, &RoomSeen::open(envelope)?);
                seen.into_iter().map(|(shard, seen)| (shard, seen.seal(tid, Target::default()))).collect()
            }
            _ => match route::of_peer_message(envelope)? {
                Addressee::Everyone => to_all(envelope),
                Addressee::Shard(shard) if shard < self.shards => vec![(shard, envelope.clone())],
                // An answer to an earlier start of this OSD, which had more shards.
                Addressee::Shard(_) => Vec::new(),
                Addressee::Group(pg) => homes.of(pg).map(|shard| (shard, envelope.clone())).into_iter().collect(),
                Addressee::Asked(pg, needed) => match homes.of(pg) {
                    Some(shard) => vec![(shard, envelope.clone())],
                    None if needed > epoch => return Ok(Delivery::Later(needed)),
                    None => Vec::new(),
                },
            },
        };
        Ok(Delivery::Shards(shards))
    }

    /// A shard has something for another OSD. What is to be sent, if anything.
    pub fn send(
        &mut self,
        shard: usize,
        map: &OsdMap,
        to: OsdId,
        envelope: Envelope,
        now: Duration,
    ) -> Result<Option<Envelope>, DecodeError> {
        let tid = envelope.header.tid;
        let seal = |message: Option<RoomSeen>| message.map(|message| message.seal(tid, Target::default()));
        Ok(match envelope.header.kind {
            kind::LEASE_GRANT => {
                let grant = self.leases.granted(shard, to, &LeaseGrant::open(&envelope)?, now);
                grant.map(|grant| grant.seal(tid, Target::default()))
            }
            kind::ROOM_TOLD => {
                let up_from = map.osd(to).filter(|_| map.is_up(to)).map(|osd| osd.info.up_from);
                let told = self.given.told(shard, to, RoomTold::open(&envelope)?, up_from);
                told.map(|told| told.seal(tid, Target::default()))
            }
            kind::ROOM_SEEN => seal(self.taken.seen(shard, to, &RoomSeen::open(&envelope)?)),
            _ => Some(envelope),
        })
    }

    /// To be called about once a second.
    pub fn tick(&mut self, now: Duration) {
        self.leases.tick(now);
    }
}
