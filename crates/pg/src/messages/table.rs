//! The table of what OSDs say to each other, and what follows from it.

use super::coded::{RollForward, ShardRead, ShardReadReply, StrayRead};
use super::healing::{PgBackfilled, PgObjects, PgPull, PgPush, PgPushAck, PgReleased, PgReserve, PgReserved, PgScan};
use super::interval::PgInterval;
use super::lease::{LeaseGet, LeaseGrant, ReadShare, ReadShareGet};
use super::peering::{
    PgFound, PgInterrupted, PgLogEntries, PgLogGet, PgNotify, PgQuery, PgSought, PgStart, PgStarted, PgStrays,
    PgUnneeded,
};
use super::rename::Rehome;
use super::replication::{RepOp, RepOpReply};
use super::room::{RoomGet, RoomSeen, RoomTold};
use super::scrub::{ScrubBad, ScrubDone, ScrubGet, ScrubGot};
use types::PoolId;
use wire::messages::{OsdOp, OsdOpReply};
use wire::{DecodeError, Envelope, Message, Target};

/// Shards of the receiving OSD that a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The home of the group that the message names in its first field.
    Group,
    /// Every shard. Each takes what is about its own groups, or answers for itself.
    Everyone,
    /// Every shard. OSDs promise this to each other as a whole, so [`crate::as_one`] makes one promise of the sender's
    /// shards' and divides it among the receiver's.
    Promise(OsdPromise),
    /// The home of the group that a client's operation names.
    Operation,
    /// The shard that asked, whose number is part of the transaction's.
    Asker,
}

/// Promises that OSDs make, or confirm, as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OsdPromise {
    Lease,
    Window,
    WindowSeen,
}

/// A message of the table. An OSD sends no other ones to OSDs.
pub trait PeerBound: Message {
    const KIND: PeerKind;
}

/// A message about one group.
pub(crate) trait GroupMessage: PeerBound {
    fn pg(&self) -> PgInterval;

    /// Makes all objects that the message names belong to `pool`: each shard of an erasure-coded group names objects by
    /// a pool of its own.
    fn rehome(&mut self, pool: PoolId);
}

macro_rules! peer_messages {
    ($(
        $number:literal $ty:ident $name:literal
        $scope:ident $(($promise:ident))? $({ $($renamed:ident),* $(,)? } keeps { $($kept:ident),* $(,)? })?;
    )*) => {
        /// Which message of the table it is.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u16)]
        pub enum PeerKind {
            $($ty = $number,)*
        }

        impl PeerKind {
            pub const ALL: &[PeerKind] = &[$(PeerKind::$ty),*];

            /// Returns the message with this type number; `None`: no message between OSDs has it.
            pub fn of(number: u16) -> Option<PeerKind> {
                match number {
                    $($number => Some(PeerKind::$ty),)*
                    _ => None,
                }
            }

            /// Returns the name for logs.
            pub const fn name(self) -> &'static str {
                match self {
                    $(PeerKind::$ty => $name,)*
                }
            }

            pub const fn scope(self) -> Scope {
                match self {
                    $(PeerKind::$ty => Scope::$scope $((OsdPromise::$promise))?,)*
                }
            }

            /// Decodes an envelope of this kind.
            ///
            /// Errors: it is malformed.
            pub fn open(self, envelope: &Envelope) -> Result<PeerMessage, DecodeError> {
                Ok(match self {
                    $(PeerKind::$ty => PeerMessage::$ty($ty::open(envelope)?),)*
                })
            }
        }

        /// A message from another OSD.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[expect(clippy::large_enum_variant, reason = "it lives for one call, and most messages are updates")]
        pub enum PeerMessage {
            $($ty($ty),)*
        }

        impl PeerMessage {
            pub fn kind(&self) -> PeerKind {
                match self {
                    $(PeerMessage::$ty(_) => PeerKind::$ty,)*
                }
            }

            /// Seals the message by [`Message::seal`].
            pub fn seal(self, tid: u64, target: Target) -> Envelope {
                match self {
                    $(PeerMessage::$ty(message) => message.seal(tid, target),)*
                }
            }

            /// Returns the message as it is handled by a shard that names its objects by `pool`, if it is about one
            /// group.
            #[cfg(test)]
            pub(crate) fn renamed_to(mut self, pool: PoolId) -> PeerMessage {
                match &mut self {
                    $(PeerMessage::$ty(_message) => {
                        $(
                            let _renamed = stringify!($($renamed)*);
                            _message.rehome(pool);
                        )?
                    })*
                }
                self
            }
        }

        $(
            const _: () = assert!(<$ty as Message>::TYPE == $number, $name);

            impl PeerBound for $ty {
                const KIND: PeerKind = PeerKind::$ty;
            }

            impl From<$ty> for PeerMessage {
                fn from(message: $ty) -> PeerMessage {
                    PeerMessage::$ty(message)
                }
            }

            $(impl GroupMessage for $ty {
                fn pg(&self) -> PgInterval {
                    self.pg
                }

                fn rehome(&mut self, _pool: PoolId) {
                    // No field may be forgotten: the table has it on one side or the other.
                    let $ty { $($renamed,)* $($kept: _),* } = self;
                    $($renamed.rehome(_pool);)*
                }
            })?
        )*
    };
}

// Number, type, name for logs, scope. Of a message about one group: the fields that name objects, which are renamed
// when it comes to another shard of an erasure-coded group, and those that do not. States in `PgNotify` are renamed
// group by group.
peer_messages! {
    42 OsdOp "osd_op" Operation;
    43 OsdOpReply "osd_op_reply" Asker;
    0x4e20 RepOp "rep_op" Group { entry, others, info, steps } keeps { pg, committed, hops_wanted };
    0x4e21 RepOpReply "rep_op_reply" Everyone;
    0x4e22 PgQuery "pg_query" Everyone;
    0x4e23 PgNotify "pg_notify" Everyone;
    0x4e24 PgLogGet "pg_log_get" Group {} keeps { pg, since };
    0x4e25 PgLogEntries "pg_log_entries" Group { entries, info, dups } keeps { pg, after, start_over };
    0x4e26 PgScan "pg_scan" Group { from } keeps { pg };
    0x4e27 PgObjects "pg_objects" Group { from, objects, end } keeps { pg };
    0x4e28 PgPull "pg_pull" Group { objects } keeps { pg, urgent };
    0x4e29 PgPush "pg_push" Group { object } keeps {
        pg, version, piece, first, last, absent, size_bytes, attrs, omap_header, omap, runs, data, end_of_all,
    };
    0x4e2a PgPushAck "pg_push_ack" Group { object } keeps { pg, stored };
    0x4e2b PgStart "pg_start" Group { entries, info } keeps { pg, after };
    0x4e2c PgStarted "pg_started" Group { missing } keeps { pg, merged };
    0x4e2f LeaseGet "lease_get" Everyone;
    0x4e30 LeaseGrant "lease_grant" Promise(Lease);
    0x4e31 PgBackfilled "pg_backfilled" Group { before } keeps { pg };
    0x4e32 PgReserve "pg_reserve" Group {} keeps { pg, priority };
    0x4e33 PgReserved "pg_reserved" Group {} keeps { pg, granted };
    0x4e34 PgReleased "pg_released" Group {} keeps { pg };
    0x4e35 PgStrays "pg_strays" Everyone;
    0x4e36 PgUnneeded "pg_unneeded" Everyone;
    0x4e37 StrayRead "stray_read" Group { object } keeps { pg, read, version, offset, len, attrs, omap_after };
    0x4e38 ScrubGet "scrub_get" Group { from, until } keeps { pg, round, deep };
    0x4e39 ScrubGot "scrub_got" Group { map } keeps { pg, round };
    0x4e3a ScrubBad "scrub_bad" Group { object } keeps { pg, version };
    0x4e3b ScrubDone "scrub_done" Group { mark } keeps { pg, sound };
    0x4e3c ShardRead "shard_read" Group { object } keeps { pg, read, version, offset, len, attrs, omap_after };
    0x4e3d ShardReadReply "shard_read_reply" Group {} keeps { pg, read, outcome, attrs, omap, data };
    0x4e3e RollForward "roll_forward" Group {} keeps { pg, committed };
    0x4e3f PgInterrupted "pg_interrupted" Group {} keeps { pg };
    0x4e50 RoomGet "room_get" Everyone;
    0x4e51 RoomTold "room_told" Promise(Window);
    0x4e52 RoomSeen "room_seen" Promise(WindowSeen);
    0x4e53 ReadShareGet "read_share_get" Everyone;
    0x4e54 ReadShare "read_share" Everyone;
    0x4e55 PgSought "pg_sought" Everyone;
    0x4e56 PgFound "pg_found" Everyone;
}

impl PeerKind {
    /// Returns [`Message::TYPE`].
    pub const fn number(self) -> u16 {
        self as u16
    }
}

/// Returns the name of a message of any type, for logs.
pub fn kind_name(number: u16) -> &'static str {
    PeerKind::of(number).map_or_else(|| wire::messages::kind_name(number), PeerKind::name)
}

/// Returns the group that a message of [`Scope::Group`] names.
///
/// Errors: it is malformed.
pub(crate) fn group_of(envelope: &Envelope) -> Result<types::PgId, DecodeError> {
    // All versions of all such messages begin with the group.
    let (_, mut fields) = wire::Reader::new(&envelope.front).versioned("message about a group", u8::MAX)?;
    Ok(fields.get::<PgInterval>()?.pgid)
}

// Numbers grow from line to line, and nobody else has them.
const _: () = {
    let mut line = 0;
    while line < PeerKind::ALL.len() {
        let number = PeerKind::ALL[line].number();
        assert!(line == 0 || PeerKind::ALL[line - 1].number() < number, "numbers out of order");
        assert!(wire::nacre::kind::name(number).is_none(), "number of another message");
        line += 1;
    }
};
