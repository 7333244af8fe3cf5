//! Shards of an OSD that a message is for, told from its first fields, so that each shard decodes its own messages.
//!
//! Most messages are about one group and go to its home. What is about several groups, or about the OSD, goes to every
//! shard: each takes what is its own.

use crate::messages::PeerKind;
use crate::messages::table::{OsdPromise, Scope, group_of};
use mutant::Mutant;
use types::{Epoch, PgId};
use wire::basic::SPgId;
use wire::messages::OsdBackoff;
use wire::{DecodeError, Envelope, Message, Reader};

/// Questions of each shard to OSDs, and backoffs of clients, are numbered from here on, less one.
const TIDS_PER_SHARD: u64 = 1 << 56;

/// The shards that a message of another OSD is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addressee {
    /// The home of this group.
    Group(PgId),
    /// The home of this group, once the OSD has this map: another OSD asks as a client does.
    Asked(PgId, Epoch),
    /// The shard of this number.
    Shard(usize),
    Everyone,
    /// The OSD as a whole.
    Promise(OsdPromise),
}

/// Finds the shards that a message of another OSD is for.
///
/// Errors: it is malformed.
pub fn of_peer_message(kind: PeerKind, envelope: &Envelope) -> Result<Addressee, DecodeError> {
    if kind == PeerKind::LeaseGet && mutant::is(Mutant::FirstShardGrants) {
        return Ok(Addressee::Shard(0));
    }
    Ok(match kind.scope() {
        Scope::Group => Addressee::Group(group_of(envelope)?),
        Scope::Everyone => Addressee::Everyone,
        Scope::Promise(promise) => Addressee::Promise(promise),
        Scope::Operation => {
            let (pg, epoch) = of_client_op(envelope)?;
            Addressee::Asked(pg, epoch)
        }
        Scope::Asker => Addressee::Shard(shard_that_asked(envelope)),
    })
}

/// Returns the group that a client's operation names, and the client's map.
///
/// Errors: it is malformed.
pub fn of_client_op(envelope: &Envelope) -> Result<(PgId, Epoch), DecodeError> {
    let mut fields = Reader::new(&envelope.front);
    let (pgid, _hash): (SPgId, _) = (fields.get()?, fields.u32()?);
    Ok((pgid.pg, fields.get()?))
}

/// Maps that an operation waits for are this far ahead of the newest that has come, at most: no OSD is further behind
/// for long, and what nobody has made yet may never come.
const EPOCHS_AHEAD_MAX: u32 = 1000;

/// Checks whether an OSD whose newest map is of epoch `newest` may keep a client's operation until it has the client's,
/// of `epoch`.
///
/// Errors: that is too far. The client's session is to be closed: it comes again, as often as it takes.
pub fn check_epoch(epoch: Epoch, newest: Epoch) -> Result<(), DecodeError> {
    match epoch.0 <= newest.0.saturating_add(EPOCHS_AHEAD_MAX) {
        true => Ok(()),
        false => Err(DecodeError::Value { what: "epoch far ahead of all maps", value: epoch.0.into() }),
    }
}

/// Returns the shard whose backoff a client acknowledges.
///
/// Errors: the message is malformed.
pub fn of_backoff(envelope: &Envelope) -> Result<usize, DecodeError> {
    Ok((OsdBackoff::open(envelope)?.id / TIDS_PER_SHARD) as usize)
}

/// Returns the number before that of a shard's first question, or backoff.
pub(crate) fn first_tid(shard: usize) -> u64 {
    shard as u64 * TIDS_PER_SHARD
}

/// Returns the shard that has asked the question which this answers.
pub(crate) fn shard_that_asked(envelope: &Envelope) -> usize {
    (envelope.header.tid / TIDS_PER_SHARD) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::PgInterval;
    use crate::messages::healing::PgReleased;
    use crate::messages::lease::LeaseGet;
    use crate::messages::peering::PgLogGet;
    use bytes::Bytes;
    use types::EVersion;
    use wire::Target;
    use wire::basic::{Locator, NO_SHARD};
    use wire::messages::{Op, OsdOp, OsdOpReply};

    const PG: PgId = PgId::new(3, 7);

    #[test]
    fn messages_are_told_apart_by_their_first_fields() {
        let pg = PgInterval { pgid: PG, since: Epoch(9) };
        let get = PgLogGet { pg, since: EVersion::default() }.seal(1, Target::default());
        assert_eq!(of_peer_message(PeerKind::PgLogGet, &get), Ok(Addressee::Group(PG)));
        let released = PgReleased { pg }.seal(1, Target::default());
        assert_eq!(of_peer_message(PeerKind::PgReleased, &released), Ok(Addressee::Group(PG)));
        let lease = LeaseGet { stamp: 1 }.seal(1, Target::default());
        assert_eq!(of_peer_message(PeerKind::LeaseGet, &lease), Ok(Addressee::Everyone));
        let torn = Envelope { front: get.front.slice(..9), ..get };
        assert!(of_peer_message(PeerKind::PgLogGet, &torn).is_err());
    }

    #[test]
    fn operations_name_their_group_and_map_and_answers_their_shard() {
        let pgid = SPgId { pg: PG, shard: NO_SHARD };
        let op = OsdOp::new(pgid, 0x1234, Epoch(5), Locator::default(), Bytes::from_static(b"o"), vec![Op::stat()]);
        let reply = OsdOpReply::to(&op, 0, Epoch(5)).seal(first_tid(3) + 1, Target::default());
        assert_eq!(of_peer_message(PeerKind::OsdOpReply, &reply), Ok(Addressee::Shard(3)));
        let op = op.seal(17, Target::default());
        assert_eq!(of_client_op(&op), Ok((PG, Epoch(5))));
        assert_eq!(of_peer_message(PeerKind::OsdOp, &op), Ok(Addressee::Asked(PG, Epoch(5))));
    }
}
