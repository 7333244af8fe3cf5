//! Pings of monitors.

use crate::envelope::{Header, Message};
use crate::{DecodeError, Reader, Rope, Writer};

/// A ping, and its answer. Ceph's `MPing`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Ping {
    /// JSON about the monitor's health, in the answer.
    pub status: Option<String>,
}

impl Message for Ping {
    const TYPE: u16 = 2;

    fn encode_front(&self, w: &mut Writer) {
        if let Some(status) = &self.status {
            w.str(status);
        }
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<Ping, DecodeError> {
        Ok(Ping { status: if r.is_empty() { None } else { Some(r.get()?) } })
    }
}
