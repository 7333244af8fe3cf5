//! An OSD's shards as other OSDs see them: as one.
//!
//! Other OSDs do not know how many shards an OSD has. What is said about one group passes through to its home and back.
//! OSDs promise each other leases and room as a whole. Each shard promises for itself, and its promises
//! go through here:
//!
//! * A *lease* is granted once every shard has granted it, as of the newest map that one of them has.
//! * The *window* for updates that a primary is told is the smallest that a shard would give it. The primary
//!   may fill it with updates for one shard alone. What it has seen, every shard learns.
//! * A window that this OSD is given as primary is divided evenly. It is confirmed once every shard has seen its part.

mod leases;
mod rooms;

use crate::Homes;
use crate::messages::PeerKind;
use crate::messages::lease::LeaseGrant;
use crate::messages::room::{RoomSeen, RoomTold};
use crate::messages::route::{self, Addressee};
use crate::messages::table::{OsdPromise, Scope};
use leases::LeaseGrants;
use osdmap::OsdMap;
use rooms::{GivenWindows, TakenWindows};
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::{DecodeError, Envelope, Message, Target};

/// Promises of several shards on their way to other OSDs, and the other way.
#[derive(Debug)]
pub struct AsOne {
    shards: usize,
    leases: LeaseGrants,
    given: GivenWindows,
    taken: TakenWindows,
}

/// Destination of a message of another OSD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// Goes to these shards, each its own message.
    Shards(Vec<(usize, Envelope)>),
    /// Waits until this map has come: the message is about a group that no earlier map has.
    Later(Epoch),
}

impl AsOne {
    pub fn new(shards: usize) -> AsOne {
        let (given, taken) = (GivenWindows::new(shards), TakenWindows::new(shards));
        AsOne { shards, leases: LeaseGrants::new(shards), given, taken }
    }

    /// Returns where a message of another OSD goes.
    ///
    /// Errors: it is malformed.
    pub fn deliver(
        &mut self,
        homes: &Homes,
        epoch: Epoch,
        from: OsdId,
        envelope: &Envelope,
    ) -> Result<Delivery, DecodeError> {
        let Some(kind) = PeerKind::of(envelope.header.kind) else {
            tracing::warn!(%from, kind = envelope.header.kind, "message of unknown type ignored");
            return Ok(Delivery::Shards(Vec::new()));
        };
        let all = |envelope: &Envelope| (0..self.shards).map(|shard| (shard, envelope.clone())).collect();
        let one = |shard: Option<usize>| shard.map(|shard| (shard, envelope.clone())).into_iter().collect();
        Ok(Delivery::Shards(match route::of_peer_message(kind, envelope)? {
            Addressee::Everyone | Addressee::Promise(OsdPromise::Lease) => all(envelope),
            Addressee::Promise(OsdPromise::Window) => {
                let part = self.taken.told(from, &RoomTold::open(envelope)?);
                all(&part.seal(envelope.header.tid, Target::default()))
            }
            Addressee::Promise(OsdPromise::WindowSeen) => {
                let seen = self.given.seen(from, &RoomSeen::open(envelope)?);
                let sealed = |seen: RoomSeen| seen.seal(envelope.header.tid, Target::default());
                seen.into_iter().map(|(shard, seen)| (shard, sealed(seen))).collect()
            }
            // A shard that is not there: the answer is to an earlier start of this OSD, which had more of them.
            Addressee::Shard(shard) => one(Some(shard).filter(|shard| *shard < self.shards)),
            Addressee::Group(pg) => one(homes.of(pg)),
            Addressee::Asked(pg, needed) => match homes.of(pg) {
                None if needed > epoch => return Ok(Delivery::Later(needed)),
                home => one(home),
            },
        }))
    }

    /// Takes a shard's message for another OSD. Returns the message that is to be sent, if any.
    ///
    /// Errors: it is none of the table, or malformed.
    pub fn send(
        &mut self,
        shard: usize,
        map: &OsdMap,
        to: OsdId,
        envelope: Envelope,
        now: Duration,
    ) -> Result<Option<Envelope>, DecodeError> {
        fn seal(tid: u64, message: impl Message) -> Envelope {
            message.seal(tid, Target::default())
        }
        let tid = envelope.header.tid;
        let unknown = DecodeError::Value { what: "type of a message between OSDs", value: envelope.header.kind.into() };
        Ok(match PeerKind::of(envelope.header.kind).ok_or(unknown)?.scope() {
            Scope::Group | Scope::Everyone | Scope::Operation | Scope::Asker => Some(envelope),
            Scope::Promise(OsdPromise::Lease) => {
                let grant = self.leases.granted(shard, to, &LeaseGrant::open(&envelope)?, now);
                grant.map(|grant| seal(tid, grant))
            }
            Scope::Promise(OsdPromise::Window) => {
                let up_from = map.osd(to).filter(|_| map.is_up(to)).map(|osd| osd.info.up_from);
                let told = self.given.told(shard, to, RoomTold::open(&envelope)?, up_from);
                told.map(|told| seal(tid, told))
            }
            Scope::Promise(OsdPromise::WindowSeen) => {
                let seen = self.taken.seen(shard, to, &RoomSeen::open(&envelope)?);
                seen.map(|seen| seal(tid, seen))
            }
        })
    }

    /// Forgets what has waited for too long. To be called about once a second.
    pub fn tick(&mut self, now: Duration) {
        self.leases.tick(now);
    }
}
