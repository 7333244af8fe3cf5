//! Bytes that a connection has yet to send.

use bytes::{Buf, Bytes};
use std::collections::VecDeque;

/// Largest number of pieces in one send operation.
const PIECES_MAX: usize = 256;

/// Largest number of bytes in one send operation, well below the range of a completion's count.
const SEND_BYTES_MAX: usize = 256 << 20;

/// Queued pieces, and the vector that shows the kernel the first of them.
pub(crate) struct Outgoing {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    vector: Vec<libc::iovec>,
    message: libc::msghdr,
}

impl Default for Outgoing {
    fn default() -> Outgoing {
        #[allow(unsafe_code)]
        // SAFETY: null pointers and zero lengths are a valid, empty message header.
        let message = unsafe { std::mem::zeroed() };
        Outgoing { pieces: VecDeque::new(), bytes: 0, vector: Vec::new(), message }
    }
}

impl Outgoing {
    pub(crate) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.pieces.push_back(piece);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// A message with as many bytes from the front as one operation takes. It stays valid until [`Outgoing::sent`], if
    /// `self` does not move; pieces may be pushed meanwhile.
    pub(crate) fn message(&mut self) -> *const libc::msghdr {
        let mut room = SEND_BYTES_MAX;
        self.vector.clear();
        for piece in self.pieces.iter().take(PIECES_MAX) {
            let len = piece.len().min(room);
            room -= len;
            self.vector.push(libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: len });
            if room == 0 {
                break;
            }
        }
        self.message.msg_iov = self.vector.as_mut_ptr();
        self.message.msg_iovlen = self.vector.len() as _;
        &self.message
    }

    /// Removes this many bytes, which the kernel has taken.
    pub(crate) fn sent(&mut self, mut bytes: usize) {
        assert!(bytes <= self.bytes, "{bytes} bytes sent of {} queued", self.bytes);
        self.bytes -= bytes;
        while bytes > 0 {
            let front = self.pieces.front_mut().expect("the count of bytes includes every piece");
            if bytes < front.len() {
                front.advance(bytes);
                return;
            }
            bytes -= front.len();
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_lengths(outgoing: &mut Outgoing) -> Vec<usize> {
        let message = outgoing.message();
        #[allow(unsafe_code)]
        // SAFETY: the message was made just now and `outgoing` has not moved.
        let vector = unsafe { std::slice::from_raw_parts((*message).msg_iov, (*message).msg_iovlen) };
        vector.iter().map(|entry| entry.iov_len).collect()
    }

    #[test]
    fn partial_sends_cut_the_front_piece() {
        let mut outgoing = Outgoing::default();
        for piece in ["", "abc", "defg", "h"] {
            outgoing.push(Bytes::from_static(piece.as_bytes()));
        }
        assert_eq!(next_lengths(&mut outgoing), [3, 4, 1]);
        outgoing.sent(4);
        assert_eq!((outgoing.bytes(), next_lengths(&mut outgoing)), (4, vec![3, 1]));
        outgoing.sent(4);
        assert!(outgoing.is_empty() && outgoing.pieces.is_empty());
    }

    #[test]
    fn one_operation_carries_a_bounded_number_of_pieces() {
        let mut outgoing = Outgoing::default();
        (0..300).for_each(|_| outgoing.push(Bytes::from_static(b"xy")));
        assert_eq!(next_lengths(&mut outgoing).len(), PIECES_MAX);
    }
}
