//! Bodies at whose reading somebody looks.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The outcome of a look for the next piece of a body.
pub(crate) type Polled<E> = Poll<Option<Result<Frame<Bytes>, E>>>;

/// A body that gives each look for its next piece, and itself behind it, to `look`. What that keeps is dropped with the
/// body: when its last byte was taken, or when its reader has gone.
pub(crate) struct Watched<B, F> {
    pub body: B,
    pub look: F,
}

/// A function that looks.
pub(crate) trait Look<B: Body>: FnMut(&Polled<B::Error>, &B) + Unpin {}

impl<B: Body, F: FnMut(&Polled<B::Error>, &B) + Unpin> Look<B> for F {}

impl<B, F> Body for Watched<B, F>
where
    B: Body<Data = Bytes> + Unpin,
    F: Look<B>,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled<B::Error> {
        let Watched { body, look } = self.get_mut();
        let polled = Pin::new(&mut *body).poll_frame(context);
        look(&polled, body);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes of a piece that came.
pub(crate) fn bytes_of<E>(polled: &Polled<E>) -> u64 {
    match polled {
        Poll::Ready(Some(Ok(frame))) => frame.data_ref().map_or(0, |bytes| bytes.len() as u64),
        _ => 0,
    }
}
