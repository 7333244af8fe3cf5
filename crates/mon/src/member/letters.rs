//! Messages of clients and OSDs that wait: until a leader is known, until this one's leadership is confirmed, or until
//! this one's state is as far as the leader's. Their total has a bound.

use crate::bounds::{LETTER_BYTES_MAX, LETTERS_MAX, bytes_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::Envelope;
use wire::msgr::SessionId;

/// Count and bytes of all letters that exist.
#[derive(Clone, Default, Debug)]
pub(super) struct Letters {
    count: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

/// A message and its session.
#[derive(Debug)]
pub(super) struct Letter {
    pub session: SessionId,
    /// The message; empty once it is taken out.
    envelope: Envelope,
    _weight: Weight,
}

/// Share of a letter in the totals, for as long as it exists.
#[derive(Debug)]
struct Weight {
    bytes: usize,
    of: Letters,
}

impl Letters {
    /// Takes a message in. Returns `None` if there are too many messages, or too many bytes. The first message may have
    /// any size.
    pub fn take(&self, session: SessionId, envelope: Envelope) -> Option<Letter> {
        let (count, sum) = (self.count.load(Ordering::Relaxed), self.bytes());
        let bytes = bytes_of(&envelope);
        if count > 0 && (count >= LETTERS_MAX || sum + bytes > LETTER_BYTES_MAX) {
            return None;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Some(Letter { session, envelope, _weight: Weight { bytes, of: self.clone() } })
    }

    /// Returns the bytes of all letters.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Letter {
    /// Returns the message's type.
    pub fn kind(&self) -> u16 {
        self.envelope.header.kind
    }

    pub fn open(self) -> (SessionId, Envelope) {
        (self.session, self.envelope)
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.of.count.fetch_sub(1, Ordering::Relaxed);
        self.of.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_count_as_long_as_they_are_there() {
        let letters = Letters::default();
        let of = |bytes: usize| Envelope { front: vec![0; bytes].into(), ..Envelope::default() };
        let session = SessionId(1);
        let large = letters.take(session, of(LETTER_BYTES_MAX + 1)).expect("it is alone");
        assert!(letters.take(session, of(1)).is_none());
        drop(large);
        let half = letters.take(session, of(LETTER_BYTES_MAX / 2)).expect("there is room");
        let rest = letters.take(session, of(LETTER_BYTES_MAX / 2)).expect("there is room");
        assert!(letters.take(session, of(1)).is_none());
        assert_eq!(half.open().1.front.len(), LETTER_BYTES_MAX / 2);
        assert_eq!(letters.bytes(), LETTER_BYTES_MAX / 2);
        drop(rest);
        let many: Vec<Letter> =
            (0..LETTERS_MAX).map(|_| letters.take(session, of(1)).expect("there is room")).collect();
        assert!(letters.take(session, of(1)).is_none());
        drop(many);
        assert_eq!(letters.bytes(), 0);
    }
}
