//! Messages between OSDs that are longer than a session takes at once.
//!
//! What clients may ask for in one operation (90 MiB, also of omap) becomes an update of one message, and what OSDs
//! tell each other of logs and of objects that are missing has no bound that is known when it is asked for. A message
//! that is long goes in several, which follow each other in one session; the receiver puts them together and takes the
//! message as if it had come whole.

use super::kind;
use crate::msgr::limits;
use crate::{DecodeError, Envelope, Header, Message, Reader, Rope, Target, Writer};
use bytes::{Bytes, BytesMut};

/// A longer front goes in parts.
const FRONT_BYTES_MAX: usize = 16 << 20;
/// Longer data goes in parts.
const DATA_BYTES_MAX: usize = 96 << 20;
/// Bytes that the first part brings. It tells how long the message is, and may have to wait for the others for a while.
const FIRST_PART_BYTES: usize = 64 << 10;
/// Bytes that another part brings.
const PART_BYTES: usize = 4 << 20;
/// No message is longer, all in all.
pub const LONG_BYTES_MAX: usize = 512 << 20;

const _: () = assert!(FRONT_BYTES_MAX <= limits::FRONT_BYTES && DATA_BYTES_MAX <= limits::DATA_BYTES);

/// A part of a message: bytes of its front, behind which its data follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LongPart {
    /// Of the message.
    pub header: Header,
    pub front_bytes: u64,
    pub data_bytes: u64,
    /// Bytes that came before.
    pub offset: u64,
    pub bytes: Rope,
}

impl Message for LongPart {
    const TYPE: u16 = kind::LONG_PART;

    fn encode_front(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            let Header { tid, kind, priority, version, compat_version, data_off } = self.header;
            w.u64(tid);
            for field in [kind, priority, version, compat_version, data_off] {
                w.u16(field);
            }
            w.u64(self.front_bytes);
            w.u64(self.data_bytes);
            w.u64(self.offset);
        });
    }

    fn take_data(&mut self) -> Rope {
        std::mem::take(&mut self.bytes)
    }

    fn decode(_: &Header, front: &mut Reader<'_>, data: &Rope) -> Result<LongPart, DecodeError> {
        let (_, mut r) = front.versioned("LongPart", 1)?;
        let tid = r.u64()?;
        let [kind, priority, version, compat_version, data_off] = [r.u16()?, r.u16()?, r.u16()?, r.u16()?, r.u16()?];
        Ok(LongPart {
            header: Header { tid, kind, priority, version, compat_version, data_off },
            front_bytes: r.u64()?,
            data_bytes: r.u64()?,
            offset: r.u64()?,
            bytes: data.clone(),
        })
    }
}

/// Tells whether the message goes whole. `bytes_max`: longest that does, if that is less than a session takes.
pub fn goes_whole(envelope: &Envelope, bytes_max: usize) -> bool {
    envelope.front.len() <= FRONT_BYTES_MAX.min(bytes_max) && envelope.data.len() <= DATA_BYTES_MAX.min(bytes_max)
}

/// The parts of a message that does not go whole.
pub fn in_parts(envelope: Envelope, bytes_max: usize) -> Vec<Envelope> {
    let (front, data) = (envelope.front.len(), envelope.data.len());
    let (first_bytes, part_bytes) = (FIRST_PART_BYTES.min(bytes_max), PART_BYTES.min(bytes_max));
    let mut whole = Rope::from(envelope.front);
    whole.append(envelope.data);
    let part = |offset: usize| LongPart {
        header: envelope.header,
        front_bytes: front as u64,
        data_bytes: data as u64,
        offset: offset as u64,
        bytes: whole.slice(offset, if offset == 0 { first_bytes } else { part_bytes }.min(front + data - offset)),
    };
    let offsets = std::iter::once(0).chain((first_bytes..front + data).step_by(part_bytes));
    offsets.map(|offset| part(offset).seal(0, Target::default())).collect()
}

/// Tells whether no session takes the message, not even in parts.
pub fn is_too_long(envelope: &Envelope) -> bool {
    envelope.front.len() + envelope.data.len() > LONG_BYTES_MAX
}

/// Parts of a message that have come.
#[derive(Debug, Default)]
pub struct Joining {
    front: BytesMut,
    data: Rope,
    /// Header of the message, and lengths of its front and its data. `None`: no part of one has come.
    announced: Option<(Header, usize, usize)>,
}

impl Joining {
    pub fn held_bytes(&self) -> usize {
        self.front.len() + self.data.len()
    }

    /// Returns how long the message will be of which parts have come, in bytes. `None`: no part has.
    pub fn whole_bytes(&self) -> Option<usize> {
        self.announced.map(|(_, front_bytes, data_bytes)| front_bytes + data_bytes)
    }

    /// Takes what has come over a session. Gives the message, if it is whole.
    ///
    /// Errors: a part that does not go on with what came before, or is of a message that is too long.
    pub fn came(&mut self, envelope: Envelope) -> Result<Option<Envelope>, DecodeError> {
        if envelope.header.kind != kind::LONG_PART {
            return match self.held_bytes() {
                0 => Ok(Some(envelope)),
                held => {
                    Err(DecodeError::Value { what: "message between parts of another one, bytes", value: held as u64 })
                }
            };
        }
        let part = LongPart::open(&envelope)?;
        let wrong = |what, value| Err(DecodeError::Value { what, value });
        if part.offset != self.held_bytes() as u64 {
            return wrong("part of a message that does not follow the one before, offset", part.offset);
        }
        let bytes = part.front_bytes.saturating_add(part.data_bytes);
        let lengths = (usize::try_from(part.front_bytes), usize::try_from(part.data_bytes));
        let (Ok(front_bytes), Ok(data_bytes)) = lengths else {
            return wrong("message that is too long, bytes", bytes);
        };
        if bytes > LONG_BYTES_MAX as u64 {
            return wrong("message that is too long, bytes", bytes);
        }
        let announced = (part.header, front_bytes, data_bytes);
        if self.announced.is_some_and(|known| known.0.tid != announced.0.tid && known.1 > announced.1 + (1 << 30)) {
            return wrong("part of another message than the part before, bytes", bytes);
        }
        if part.bytes.is_empty() || part.offset + part.bytes.len() as u64 > bytes {
            return wrong("part of a message that is empty or beyond its end, offset", part.offset);
        }
        self.announced = Some(announced);
        let of_front = (front_bytes - self.front.len()).min(part.bytes.len());
        for chunk in part.bytes.slice(0, of_front).pieces() {
            self.front.extend_from_slice(chunk);
        }
        self.data.append(part.bytes.slice(of_front, part.bytes.len() - of_front));
        if (self.held_bytes() as u64) < bytes {
            return Ok(None);
        }
        let Joining { front, data, .. } = std::mem::take(self);
        Ok(Some(Envelope { header: part.header, front: front.freeze(), middle: Bytes::new(), data }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(front: usize, data: usize) -> Envelope {
        let bytes = |len: usize, seed: usize| Bytes::from_iter((0..len).map(|i| (i * 31 + i / 4096 + seed) as u8));
        let header = Header { tid: 5, kind: kind::OSD_BEACON, version: 3, compat_version: 2, ..Header::default() };
        Envelope { header, front: bytes(front, 1), middle: Bytes::new(), data: bytes(data, 2).into() }
    }

    fn sent(envelope: Envelope, bytes_max: usize) -> Vec<Envelope> {
        match goes_whole(&envelope, bytes_max) {
            true => vec![envelope],
            false => in_parts(envelope, bytes_max),
        }
    }

    fn join(parts: &[Envelope]) -> Vec<Envelope> {
        let mut joining = Joining::default();
        parts.iter().filter_map(|part| joining.came(part.clone()).expect("in order")).collect()
    }

    #[test]
    fn long_messages_come_whole_and_others_as_they_are() {
        let limits = [(0, 0), (FRONT_BYTES_MAX, 9), (FRONT_BYTES_MAX + 1, 0), (FRONT_BYTES_MAX + 1, 5 << 20)];
        for (front, data) in limits.into_iter().chain([(90 << 20, 0), (70, DATA_BYTES_MAX + 1), (70, DATA_BYTES_MAX)]) {
            let sent = message(front, data);
            let parts = super::tests::sent(sent.clone(), usize::MAX);
            assert!(parts.iter().all(|part| part.front.len() <= FRONT_BYTES_MAX && part.data.len() <= DATA_BYTES_MAX));
            assert!(parts.len() == 1 || parts[0].data.len() == FIRST_PART_BYTES, "it costs little to wait");
            assert_eq!(parts.len() == 1, front <= FRONT_BYTES_MAX && data <= DATA_BYTES_MAX);
            let [came] = &join(&parts)[..] else { panic!("one message") };
            assert_eq!(came.header, sent.header);
            assert!(came.front == sent.front && came.data.to_vec() == sent.data.to_vec(), "{front} and {data} bytes");
        }
    }

    #[test]
    fn shorter_messages_go_in_parts_where_that_is_wished_for() {
        for (front, data) in [(5, 0), (16, 16), (17, 3), (3, 17), (100, 1000)] {
            let parts = sent(message(front, data), 16);
            assert_eq!(parts.len(), if front <= 16 && data <= 16 { 1 } else { (front + data).div_ceil(16) });
            assert_eq!(join(&parts)[0].data.to_vec(), message(front, data).data.to_vec());
        }
    }

    #[test]
    fn parts_that_are_lost_or_come_twice_are_seen() {
        let parts = in_parts(message(FRONT_BYTES_MAX + 1, 3), usize::MAX);
        for order in [&[1][..], &[0, 2], &[0, 0], &[0, 1, 1]] {
            let mut joining = Joining::default();
            let (last, before) = order.split_last().expect("some");
            for part in before {
                assert!(joining.came(parts[*part].clone()).expect("in order").is_none());
                assert_eq!(joining.whole_bytes(), Some(FRONT_BYTES_MAX + 4));
            }
            joining.came(parts[*last].clone()).expect_err("out of order");
        }
        let mut joining = Joining::default();
        joining.came(parts[0].clone()).expect("in order");
        joining.came(message(1, 1)).expect_err("between parts");
    }

    /// A part that follows by its offset, and tells of a shorter front than has come.
    #[test]
    fn parts_of_two_messages_are_not_put_together() {
        let first = |change: fn(&mut LongPart)| {
            let mut joining = Joining::default();
            let parts = in_parts(message(100, 100), 30);
            assert!(parts[..2].iter().all(|part| joining.came(part.clone()).expect("in order").is_none()));
            let mut next = LongPart::open(&parts[2]).expect("a part");
            change(&mut next);
            joining.came(next.seal(0, Target::default()))
        };
        assert!(first(|_| ()).expect("in order").is_none());
        first(|part| (part.front_bytes, part.data_bytes) = (10, 190)).expect_err("another front");
        first(|part| part.data_bytes += 1).expect_err("other data");
        first(|part| part.header.tid += 1).expect_err("another header");
    }

    proptest! {
        #[test]
        fn any_part_is_taken_or_refused(front_bytes: u64, data_bytes: u64, offset: u64, bytes in 0..100usize) {
            let header = Header::default();
            let bytes = Rope::from(Bytes::from(vec![1; bytes]));
            let part = LongPart { header, front_bytes, data_bytes, offset, bytes };
            let _ = Joining::default().came(part.seal(0, Target::default()));
        }
    }
}
