//! State that a shard has beside its groups and what hands events to them.

use super::maps::Maps;
use crate::agreement::leases::Leases;
use crate::coded::{CodedReads, OldShardReads};
use crate::context::{Agenda, ClientSession, Context, Outbox, Shared};
use crate::copy::Copies;
use crate::group::dups::DupsLimit;
use crate::healing::pacing::Pacing;
use crate::healing::reservations::Reservations;
use crate::hops::{DEFAULT_PER_SECOND, Recorder};
use crate::intake::backoffs::Backoffs;
use crate::intake::memory::Held;
use crate::messages::route;
use crate::ops::Limits;
use crate::tuning::Tuning;
use crate::updates::rooms::Rooms;
use crate::updates::trim_turns::TrimTurns;
use std::collections::BTreeMap;
use std::time::Duration;
use store::Store;
use types::OsdId;
use wire::messages::OsdOp;
use wire::msgr::SessionId;

/// Everything that a shard lends its groups, for each event anew.
pub(crate) struct Host {
    pub whoami: OsdId,
    pub now: Duration,
    /// The wall clock, as time since 1970, when `now` was zero.
    pub unix_zero: Duration,
    pub maps: Maps,
    pub limits: Limits,
    pub dups_limit: DupsLimit,
    /// Clients that are connected.
    pub clients: BTreeMap<SessionId, ClientSession>,
    pub store: Store,
    pub shared: Shared,
    pub agenda: Agenda,
    pub outbox: Outbox,
}

impl Host {
    /// True if the client may have this operation done, by the map in force.
    pub fn may(&self, session: SessionId, op: &OsdOp) -> bool {
        self.clients.get(&session).is_some_and(|client| client.rights.allow(self.maps.current(), op))
    }

    pub fn new(whoami: OsdId, store: Store, limits: Limits) -> Host {
        Host {
            whoami,
            now: Duration::ZERO,
            unix_zero: Duration::ZERO,
            maps: Maps::new(),
            limits,
            dups_limit: DupsLimit::shared(&limits, 1),
            clients: BTreeMap::new(),
            store,
            shared: Shared {
                leases: Leases::default(),
                held: Held::default(),
                backoffs: Backoffs::default(),
                recorder: Recorder::new(DEFAULT_PER_SECOND),
                pacing: Pacing::default(),
                reservations: Reservations::default(),
                rooms: Rooms::default(),
                coded_reads: CodedReads::default(),
                old_shard_reads: OldShardReads::new(),
                copies: Copies::default(),
                trim_turns: TrimTurns::default(),
                tuning: Tuning::default(),
                bad_copies: 0,
            },
            agenda: Agenda::default(),
            outbox: Outbox::default(),
        }
    }

    /// Makes it the host of the OSD's shard of this number, of so many. The shards count and promise apart.
    pub fn of_part(mut self, index: usize, shards: usize) -> Host {
        self.shared.reservations = Reservations::of_shards(shards);
        self.shared.rooms = Rooms::of_shards(shards);
        self.shared.backoffs = Backoffs::numbered_from(route::first_tid(index));
        self
    }

    /// Lends everything to one group for one event.
    pub fn context(&mut self) -> Context<'_> {
        Context {
            whoami: self.whoami,
            now: self.now,
            unix_zero: self.unix_zero,
            map: self.maps.current(),
            may_skip_shards: self.maps.may_skip_shards(),
            limits: &self.limits,
            dups_limit: self.dups_limit,
            clients: &self.clients,
            store: &mut self.store,
            shared: &mut self.shared,
            agenda: &mut self.agenda,
            outbox: &mut self.outbox,
        }
    }

    /// Returns the bytes that client requests hold until they are answered, what they read, copy and write included.
    pub fn client_bytes(&self) -> usize {
        self.shared.held.bytes() + self.shared.copies.held_bytes()
    }
}
