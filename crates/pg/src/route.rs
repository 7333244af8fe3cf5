//! Which shard of an OSD a message is for, told from its first fields.
//!
//! Most messages are about one group and go to its home. What is about several groups, or about the OSD, goes to every
//! shard: each takes what is its own.

use crate::peer::PgInterval;
use mutant::Mutant;
use types::{Epoch, PgId};
use wire::basic::SPgId;
use wire::messages::{OsdBackoff, OsdOp, OsdOpReply};
use wire::nacre::kind;
use wire::{DecodeError, Envelope, Message, Reader};

/// Questions of each shard to OSDs, and backoffs of clients, are numbered from here on, less one.
const TIDS_PER_SHARD: u64 = 1 << 56;

/// Whom a message of another OSD is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addressee {
    /// The home of this group.
    Group(PgId),
    /// A client's operation, of another OSD: the home of this group, once the OSD has this map.
    Asked(PgId, Epoch),
    /// The shard of this number.
    Shard(usize),
    Everyone,
}

/// Whom a message of another OSD is for.
///
/// Errors: it is malformed.
pub fn of_peer_message(envelope: &Envelope) -> Result<Addressee, DecodeError> {
    Ok(match envelope.header.kind {
        kind::LEASE_GET if mutant::is(Mutant::FirstShardGrants) => Addressee::Shard(0),
        kind::REP_OP_REPLY
        | kind::PG_QUERY
        | kind::PG_INFO
        | kind::PG_STRAYS
        | kind::PG_UNNEEDED
        | kind::PG_SOUGHT
        | kind::PG_FOUND
        | kind::READ_SHARE_GET
        | kind::READ_SHARE
        | kind::LEASE_GET
        | kind::LEASE_GRANT
        | kind::ROOM_GET
        | kind::ROOM_TOLD
        | kind::ROOM_SEEN => Addressee::Everyone,
        OsdOp::TYPE => {
            let (pg, epoch) = of_client_op(envelope)?;
            Addressee::Asked(pg, epoch)
        }
        OsdOpReply::TYPE => Addressee::Shard(shard_that_asked(envelope)),
        kind::REP_OP
        | kind::PG_LOG_GET
        | kind::PG_LOG
        | kind::PG_PULL
        | kind::PG_PUSH
        | kind::PG_PUSH_ACK
        | kind::PG_SCAN
        | kind::PG_OBJECTS
        | kind::PG_BACKFILLED
        | kind::PG_RESERVE
        | kind::PG_RESERVED
        | kind::PG_RELEASED
        | kind::PG_INTERRUPTED
        | kind::SCRUB_GET
        | kind::SCRUB_GOT
        | kind::SCRUB_BAD
        | kind::SCRUB_DONE
        | kind::PG_START
        | kind::PG_STARTED
        | kind::SHARD_READ
        | kind::STRAY_READ
        | kind::SHARD_READ_REPLY
        | kind::ROLL_FORWARD => {
            // Whatever the version: the group comes first.
            let (_, mut fields) = Reader::new(&envelope.front).versioned("message about a group", u8::MAX)?;
            Addressee::Group(fields.get::<PgInterval>()?.pgid)
        }
        // Known or not: no shard takes what is about a group of another.
        _ => Addressee::Everyone,
    })
}

/// The group that a client's operation names, and the client's map.
///
/// Errors: it is malformed.
pub fn of_client_op(envelope: &Envelope) -> Result<(PgId, Epoch), DecodeError> {
    let mut fields = Reader::new(&envelope.front);
    let (pgid, _hash): (SPgId, _) = (fields.get()?, fields.u32()?);
    Ok((pgid.pg, fields.get()?))
}

/// Maps that an operation waits for are this far ahead of the newest that has come, at most: no OSD is further behind for long, and what
/// nobody has made yet may never come.
const EPOCHS_AHEAD_MAX: u32 = 1000;

/// Whether an OSD whose newest map is of epoch `newest` may keep a client's operation until it has the client's, of `epoch`.
///
/// Errors: that is too far. The client's session is to be closed: it comes again, as often as it takes.
pub fn check_epoch(epoch: Epoch, newest: Epoch) -> Result<(), DecodeError> {
    match epoch.0 <= newest.0.saturating_add(EPOCHS_AHEAD_MAX) {
        true => Ok(()),
        false => Err(DecodeError::Value { what: "epoch far ahead of all maps", value: epoch.0.into() }),
    }
}

/// The shard whose backoff a client acknowledges.
///
/// Errors: the message is malformed.
pub fn of_backoff(envelope: &Envelope) -> Result<usize, DecodeError> {
    Ok((OsdBackoff::open(envelope)?.id / TIDS_PER_SHARD) as usize)
}

/// The number before that of a shard's first question, or backoff.
pub(crate) fn first_tid(shard: usize) -> u64 {
    shard as u64 * TIDS_PER_SHARD
}

/// Which shard has asked what this answers.
pub(crate) fn shard_that_asked(envelope: &Envelope) -> usize {
    (envelope.header.tid / TIDS_PER_SHARD) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{LeaseGet, PgLogGet};
    use crate::peer_reserve::PgReleased;
    use bytes::Bytes;
    use types::EVersion;
    use wire::Target;
    use wire::basic::{Locator, NO_SHARD};
    use wire::messages::Op;

    const PG: PgId = PgId::new(3, 7);

    #[test]
    fn messages_are_told_apart_by_their_first_fields() {
        let pg = PgInterval { pgid: PG, since: Epoch(9) };
        let get = PgLogGet { pg, since: EVersion::default() }.seal(1, Target::default());
        assert_eq!(of_peer_message(&get), Ok(Addressee::Group(PG)));
        let released = PgReleased { pg }.seal(1, Target::default());
        assert_eq!(of_peer_message(&released), Ok(Addressee::Group(PG)));
        let lease = LeaseGet { stamp: 1 }.seal(1, Target::default());
        assert_eq!(of_peer_message(&lease), Ok(Addressee::Everyone));
        let torn = Envelope { front: get.front.slice(..9), ..get };
        assert!(of_peer_message(&torn).is_err());
    }

    #[test]
    fn operations_name_their_group_and_map_and_answers_their_shard() {
        let pgid = SPgId { pg: PG, shard: NO_SHARD };
        let op = OsdOp::new(pgid, 0x1234, Epoch(5), Locator::default(), Bytes::from_static(b"o"), vec![Op::stat()]);
        let reply = OsdOpReply::to(&op, 0, Epoch(5)).seal(first_tid(3) + 1, Target::default());
        assert_eq!(of_peer_message(&reply), Ok(Addressee::Shard(3)));
        let op = op.seal(17, Target::default());
        assert_eq!(of_client_op(&op), Ok((PG, Epoch(5))));
        assert_eq!(of_peer_message(&op), Ok(Addressee::Asked(PG, Epoch(5))));
    }
}
