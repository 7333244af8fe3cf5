//! Bodies: bytes that arrive from a client, piece by piece, and bytes that go to one.

use crate::error::{Code, Error};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::future::Future;

/// The body of a request.
pub trait Body: Send {
    /// The next piece; `None` at the end. A body that was cut short is an error: `IncompleteBody`.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send;

    /// A checksum that came behind the bytes, in base64. Asked for once the body has ended.
    fn trailing_checksum(&mut self) -> Option<String> {
        None
    }
}

/// A body that is in memory.
pub struct Whole(pub Option<Bytes>);

impl Whole {
    pub fn new(bytes: impl Into<Bytes>) -> Whole {
        Whole(Some(bytes.into()))
    }
}

impl Body for Whole {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        Ok(self.0.take())
    }
}

/// Cuts a body into chunks of one length.
pub(crate) struct Chunks<'a, B> {
    body: &'a mut B,
    pieces: VecDeque<Bytes>,
    held: usize,
    ended: bool,
}

impl<'a, B: Body> Chunks<'a, B> {
    pub fn new(body: &'a mut B) -> Chunks<'a, B> {
        Chunks { body, pieces: VecDeque::new(), held: 0, ended: false }
    }

    /// The next chunk of `len` bytes; the last one is shorter, and `None` follows it.
    pub async fn next(&mut self, len: usize) -> Result<Option<Bytes>, Error> {
        while self.held < len && !self.ended {
            match self.body.next().await? {
                Some(piece) => {
                    self.held += piece.len();
                    self.pieces.push_back(piece);
                }
                None => self.ended = true,
            }
        }
        let len = len.min(self.held);
        if len == 0 {
            return Ok(None);
        }
        self.held -= len;
        Ok(Some(self.take(len)))
    }

    fn take(&mut self, len: usize) -> Bytes {
        if let Some(first) = self.pieces.front_mut()
            && first.len() >= len
        {
            let chunk = first.split_to(len);
            self.pieces.retain(|piece| !piece.is_empty());
            return chunk;
        }
        let mut chunk = BytesMut::with_capacity(len);
        while chunk.len() < len {
            let mut piece = self.pieces.pop_front().expect("as many bytes are held");
            chunk.extend_from_slice(&piece.split_to(piece.len().min(len - chunk.len())));
            if !piece.is_empty() {
                self.pieces.push_front(piece);
            }
        }
        chunk.freeze()
    }
}

/// A range that a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteRange {
    /// From the first byte to the last one, both counted; up to the end without a last one.
    From(u64, Option<u64>),
    /// The last bytes.
    Last(u64),
}

impl ByteRange {
    /// The bytes of an object of `size` bytes as offset and length. Errors: `InvalidRange` if there are none.
    pub(crate) fn of(self, size: u64) -> Result<(u64, u64), Error> {
        let (from, end) = match self {
            ByteRange::From(from, last) => (from, last.map_or(size, |last| last.saturating_add(1).min(size))),
            ByteRange::Last(count) => (size.saturating_sub(count), size),
        };
        if from >= end {
            return Err(Code::InvalidRange.because("the object has no bytes in this range"));
        }
        Ok((from, end - from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::run;

    struct Pieces(VecDeque<Bytes>);

    impl Body for Pieces {
        async fn next(&mut self) -> Result<Option<Bytes>, Error> {
            Ok(self.0.pop_front())
        }
    }

    #[test]
    fn chunks_are_of_one_length_however_pieces_arrive() {
        let whole: Vec<u8> = (0..200).collect();
        for piece in [1, 3, 7, 10, 64, 200] {
            for len in [1, 7, 10, 50, 200, 300] {
                let mut body = Pieces(whole.chunks(piece).map(Bytes::copy_from_slice).collect());
                body.0.push_front(Bytes::new());
                let chunks = run(async {
                    let mut cut = Chunks::new(&mut body);
                    let mut chunks = Vec::new();
                    while let Some(chunk) = cut.next(len).await.expect("no error") {
                        chunks.push(chunk);
                    }
                    chunks
                });
                let expected: Vec<Bytes> = whole.chunks(len).map(Bytes::copy_from_slice).collect();
                assert_eq!(chunks, expected, "pieces of {piece}, chunks of {len}");
            }
        }
    }

    #[test]
    fn ranges() {
        let check = |range: ByteRange, expect: Option<(u64, u64)>| assert_eq!(range.of(10).ok(), expect, "{range:?}");
        check(ByteRange::From(0, Some(0)), Some((0, 1)));
        check(ByteRange::From(3, Some(100)), Some((3, 7)));
        check(ByteRange::From(3, Some(u64::MAX)), Some((3, 7)));
        check(ByteRange::From(9, None), Some((9, 1)));
        check(ByteRange::From(10, None), None);
        check(ByteRange::From(5, Some(4)), None);
        check(ByteRange::Last(3), Some((7, 3)));
        check(ByteRange::Last(30), Some((0, 10)));
        check(ByteRange::Last(0), None);
        assert!(ByteRange::Last(3).of(0).is_err());
    }
}
