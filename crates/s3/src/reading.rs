//! The bytes of an object, piece by piece, a few stripes ahead.

use crate::body::Body;
use crate::error::Error;
use crate::names;
use crate::rados::{Rados, RadosError, Step};
use crate::records::Tail;
use crate::sealing::RowKey;
use crate::store::Store;
use crate::window::Window;
use bytes::Bytes;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

/// A tail, and the key by which its stripes are sealed if they are.
#[derive(Clone)]
pub(crate) struct Row {
    pub tail: Tail,
    pub key: Option<Arc<RowKey>>,
}

/// A part of a stripe.
struct Piece {
    object: String,
    offset: u64,
    length: u64,
    sealed: Option<SealedStripe>,
}

/// A stripe that has to be opened.
struct SealedStripe {
    key: Arc<RowKey>,
    number: u64,
    /// Bytes of the stripe before it was sealed.
    bytes: u64,
}

type Reading = Pin<Box<dyn Future<Output = Result<Bytes, Error>> + Send>>;

/// Bytes of an object that arrive one after the other. They are those of one put, whatever happens to the key
/// meanwhile; if they are gone, because the reader was too slow, reading fails.
pub struct ReadStream<R> {
    store: Arc<Store<R>>,
    pool: String,
    first: Option<Bytes>,
    pieces: VecDeque<Piece>,
    window: Window<Reading>,
}

impl<R: Rados> ReadStream<R> {
    pub(crate) fn of_bytes(store: Arc<Store<R>>, bytes: Bytes) -> ReadStream<R> {
        let first = Some(bytes).filter(|bytes| !bytes.is_empty());
        ReadStream { store, pool: String::new(), first, pieces: VecDeque::new(), window: Window::new(1) }
    }

    /// `range`: offset and length within all tails together.
    pub(crate) fn of_rows(store: Arc<Store<R>>, pool: &str, rows: &[Row], range: (u64, u64)) -> ReadStream<R> {
        let window = Window::new(store.settings.stripes_at_once);
        let pieces = pieces_of(rows, range);
        ReadStream { store, pool: pool.to_owned(), first: None, pieces, window }
    }

    fn read(&self, piece: Piece) -> Reading {
        let (store, pool) = (self.store.clone(), self.pool.clone());
        Box::pin(async move {
            let Piece { object, offset, length, sealed } = piece;
            let opens = sealed.map(|sealed| (sealed.key.span(sealed.bytes, (offset, length)), sealed));
            let (offset, length) = opens.as_ref().map_or((offset, length), |(span, _)| (span.offset, span.length));
            let bytes = match store.rados.operate(&pool, object.clone(), vec![Step::Read { offset, length }]).await {
                Ok(replies) => replies[0].bytes(),
                Err(RadosError::NotFound) => return Err(Error::damaged(&object, "a stripe is gone")),
                Err(error) => return Err(error.into()),
            };
            if bytes.len() as u64 != length {
                return Err(Error::damaged(&object, format!("{} bytes of {length} are there", bytes.len())));
            }
            let Some((span, SealedStripe { key, number, .. })) = opens else { return Ok(bytes) };
            key.open(number, span, &bytes)
                .ok_or_else(|| Error::damaged(&object, "its bytes are not as they were sealed"))
        })
    }
}

impl<R: Rados> Body for ReadStream<R> {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if let Some(bytes) = self.first.take() {
            return Ok(Some(bytes));
        }
        while let Some(piece) = self.pieces.pop_front() {
            let reading = self.read(piece);
            if let Some(bytes) = self.window.add(reading).await {
                return bytes.map(Some);
            }
        }
        self.window.next().await.transpose()
    }
}

/// The parts of stripes that make up a range of some tails, in order.
fn pieces_of(rows: &[Row], (mut offset, mut length): (u64, u64)) -> VecDeque<Piece> {
    let mut pieces = VecDeque::new();
    for Row { tail, key } in rows {
        if offset >= tail.size {
            offset -= tail.size;
            continue;
        }
        while length > 0 && offset < tail.size {
            let (number, within) = (offset / tail.stripe, offset % tail.stripe);
            let count = length.min(tail.stripe - within).min(tail.size - offset);
            let bytes = tail.stripe.min(tail.size - number * tail.stripe);
            let sealed = key.as_ref().map(|key| SealedStripe { key: key.clone(), number, bytes });
            let object = names::stripe_object(&tail.id, number);
            pieces.push_back(Piece { object, offset: within, length: count, sealed });
            offset += count;
            length -= count;
        }
        offset = 0;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_tails() {
        let row = |id: &str, size| Row { tail: Tail { id: id.into(), size, stripe: 4 }, key: None };
        let tails = [row("a", 10), row("b", 3), row("c", 8)];
        let bytes = |range| -> Vec<(String, u64)> {
            let pieces = pieces_of(&tails, range);
            pieces
                .into_iter()
                .flat_map(|p| (p.offset..p.offset + p.length).map(move |at| (p.object.clone(), at)))
                .collect()
        };
        let all = bytes((0, 21));
        assert_eq!(all.len(), 21);
        assert_eq!((&all[9], &all[10], &all[20]), (&("t/a/2".into(), 1), &("t/b/0".into(), 0), &("t/c/1".into(), 3)));
        for from in 0..21 {
            for len in 1..=21 - from {
                assert_eq!(bytes((from, len)), all[from as usize..(from + len) as usize], "{from} {len}");
            }
        }
    }
}
