//! Memory for messages of other OSDs that come in several parts.
//!
//! The first part of such a message, a short one, tells how long the message is. That much memory is reserved for it if
//! there is room. If there is none the message waits, and with it all that its sender says behind it, in the order in
//! which the messages began. A message needs no room if no other one has any. Therefore every message gets in at last,
//! however long it is.

use std::collections::BTreeMap;
use wire::msgr::SessionId;
use wire::nacre::long::Joining;
use wire::{DecodeError, Envelope};

/// A message of which not all parts have come.
#[derive(Debug)]
struct Begun {
    /// Number that tells which messages began before it.
    turn: u64,
    joining: Joining,
    /// Bytes that are reserved for it; 0: it waits.
    reserved_bytes: usize,
}

/// Messages that come in parts, by the session in which they come.
#[derive(Debug)]
pub(crate) struct Joins {
    begun: BTreeMap<SessionId, Begun>,
    next_turn: u64,
    /// Bytes that these messages may take in all.
    room: usize,
    reserved_bytes: usize,
    /// Bytes of parts that have come.
    held_bytes: usize,
}

impl Default for Joins {
    fn default() -> Joins {
        Joins { begun: BTreeMap::new(), next_turn: 0, room: usize::MAX, reserved_bytes: 0, held_bytes: 0 }
    }
}

impl Joins {
    /// Takes what has come in a session. Returns the message that it is or completes.
    ///
    /// Errors: a part that does not go on with what came before, or a message between parts of another one. The session
    /// has to end.
    pub fn came(&mut self, session: SessionId, envelope: Envelope) -> Result<Option<Envelope>, DecodeError> {
        let Some(begun) = self.begun.get_mut(&session) else {
            let mut joining = Joining::default();
            let whole = joining.came(envelope)?;
            if whole.is_none() {
                self.begin(session, joining);
            }
            return Ok(whole);
        };
        let before = begun.joining.held_bytes();
        let whole = begun.joining.came(envelope)?;
        match whole.is_some() {
            true => self.forget(session, before),
            false => self.held_bytes += begun.joining.held_bytes() - before,
        }
        Ok(whole)
    }

    fn begin(&mut self, session: SessionId, joining: Joining) {
        self.held_bytes += joining.held_bytes();
        let turn = self.next_turn;
        self.next_turn += 1;
        self.begun.insert(session, Begun { turn, joining, reserved_bytes: 0 });
        self.admit();
    }

    /// Forgets a session, of whose message so many bytes are counted.
    fn forget(&mut self, session: SessionId, counted_bytes: usize) {
        if let Some(begun) = self.begun.remove(&session) {
            self.held_bytes -= counted_bytes;
            self.reserved_bytes -= begun.reserved_bytes;
            self.admit();
        }
    }

    /// Drops what has come of a message in a session that has ended.
    pub fn ended(&mut self, session: SessionId) {
        let held_bytes = self.begun.get(&session).map_or(0, |begun| begun.joining.held_bytes());
        self.forget(session, held_bytes);
    }

    /// Sets the room for all messages that come in parts, in bytes.
    pub fn set_room(&mut self, bytes: usize) {
        self.room = bytes;
        self.admit();
    }

    /// Reserves memory for messages that wait, as far as there is room.
    fn admit(&mut self) {
        loop {
            let waiting = self.begun.values_mut().filter(|begun| begun.reserved_bytes == 0);
            let Some(first) = waiting.min_by_key(|begun| begun.turn) else { return };
            let bytes = first.joining.whole_bytes().expect("a part has come");
            let fits = self.reserved_bytes == 0 || self.reserved_bytes.saturating_add(bytes) <= self.room;
            if !fits && !mutant::is(mutant::Mutant::PartsUnbounded) {
                return;
            }
            first.reserved_bytes = bytes;
            self.reserved_bytes += bytes;
        }
    }

    /// Returns the sessions whose messages wait for room.
    pub fn waiting(&self) -> impl Iterator<Item = SessionId> {
        self.begun.iter().filter(|(_, begun)| begun.reserved_bytes == 0).map(|(session, _)| *session)
    }

    /// Returns how many bytes of parts have come: as counted, and as found by a look at each message.
    pub fn held_bytes(&self) -> (usize, usize) {
        (self.held_bytes, self.begun.values().map(|begun| begun.joining.held_bytes()).sum())
    }

    /// Returns for how many messages memory is reserved, and how much, in bytes.
    pub fn reserved(&self) -> (usize, usize) {
        (self.begun.len() - self.waiting().count(), self.reserved_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use wire::nacre::long::in_parts;

    const PART_BYTES: usize = 1000;

    /// Returns the parts of a message of so many bytes.
    fn parts(bytes: usize) -> Vec<Envelope> {
        in_parts(Envelope { front: Bytes::from(vec![7; bytes]), ..Envelope::default() }, PART_BYTES)
    }

    /// Has all parts but the first one come. Returns how long the message is that they complete.
    fn rest(joins: &mut Joins, session: u64, bytes: usize) -> usize {
        let parts = parts(bytes).into_iter().skip(1);
        let came = parts.map(|part| joins.came(SessionId(session), part).expect("in order")).collect::<Vec<_>>();
        let Some((Some(whole), before)) = came.split_last() else { panic!("not whole") };
        assert!(before.iter().all(Option::is_none));
        whole.front.len()
    }

    fn begin(joins: &mut Joins, session: u64, bytes: usize) {
        assert!(joins.came(SessionId(session), parts(bytes).swap_remove(0)).expect("a first part").is_none());
    }

    fn waiting(joins: &Joins) -> Vec<u64> {
        joins.waiting().map(|session| session.0).collect()
    }

    #[test]
    fn messages_wait_for_room_in_the_order_in_which_they_began() {
        let mut joins = Joins::default();
        joins.set_room(10_000);
        begin(&mut joins, 9, 7000);
        begin(&mut joins, 1, 4000);
        begin(&mut joins, 5, 2000);
        assert_eq!((waiting(&joins), joins.reserved()), (vec![1, 5], (1, 7000)), "nobody overtakes another");
        assert_eq!(joins.held_bytes(), (3000, 3000));
        assert_eq!(rest(&mut joins, 9, 7000), 7000);
        assert_eq!((waiting(&joins), joins.reserved(), joins.held_bytes()), (vec![], (2, 6000), (2000, 2000)));
        assert_eq!(rest(&mut joins, 5, 2000), 2000);
        assert_eq!(rest(&mut joins, 1, 4000), 4000);
        assert_eq!((joins.reserved(), joins.held_bytes()), ((0, 0), (0, 0)));
    }

    #[test]
    fn a_message_longer_than_all_room_comes_alone() {
        let mut joins = Joins::default();
        joins.set_room(0);
        [3, 2, 1].into_iter().for_each(|session| begin(&mut joins, session, 50_000));
        for (session, others) in [(3, vec![1, 2]), (2, vec![1]), (1, vec![])] {
            assert_eq!((waiting(&joins), joins.reserved()), (others, (1, 50_000)));
            assert_eq!(rest(&mut joins, session, 50_000), 50_000);
        }
    }

    #[test]
    fn what_a_session_held_that_has_ended_is_given_back() {
        let mut joins = Joins::default();
        joins.set_room(5000);
        [1, 2, 3].into_iter().for_each(|session| begin(&mut joins, session, 5000));
        joins.ended(SessionId(2));
        joins.ended(SessionId(7));
        assert_eq!((waiting(&joins), joins.held_bytes()), (vec![3], (2000, 2000)));
        joins.ended(SessionId(1));
        assert_eq!((waiting(&joins), joins.held_bytes()), (vec![], (1000, 1000)));
        // A part that does not follow changes nothing: its session ends.
        joins.came(SessionId(3), parts(5000).swap_remove(3)).expect_err("parts are missing");
        joins.ended(SessionId(3));
        assert_eq!((joins.reserved(), joins.held_bytes()), ((0, 0), (0, 0)));
    }

    #[test]
    fn room_that_comes_is_given_to_those_that_wait() {
        let mut joins = Joins::default();
        joins.set_room(1000);
        [1, 2, 3].into_iter().for_each(|session| begin(&mut joins, session, 4000));
        assert_eq!(waiting(&joins), [2, 3]);
        joins.set_room(8000);
        assert_eq!(waiting(&joins), [3]);
        joins.set_room(0);
        assert_eq!((waiting(&joins), joins.reserved()), (vec![3], (2, 8000)), "what was given stays given");
        // A short message goes by at once.
        assert!(joins.came(SessionId(4), Envelope::default()).expect("whole").is_some());
    }
}
