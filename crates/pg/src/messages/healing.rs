//! Objects on their way to members that lack them, comparisons of what members have, and whose turn it is to heal.

use super::PeerKind;
use super::interval::PgInterval;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EVersion, ObjectId};
use wire::own_message as message;
use wire::{DecodeError, Header, Message, Reader, Rope, Writer};

/// Primary to member: push these objects to me.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgPull {
    pub pg: PgInterval,
    pub objects: Vec<ObjectId>,
    /// A client waits for them: they go before others.
    pub urgent: bool,
}

message!(PgPull = PeerKind::PgPull.number(), version 2 { pg, objects, urgent });

/// One piece of an object's state. Pieces of an object follow each other; with the last one the object is whole, and
/// replaces whatever the receiver had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgPush {
    pub pg: PgInterval,
    pub object: ObjectId,
    /// Version of the object that the piece is of; zero where that cannot be told.
    pub version: EVersion,
    /// Count of the pieces before this one.
    pub piece: u32,
    pub first: bool,
    pub last: bool,
    /// The object does not exist (any more); there is only this piece.
    pub absent: bool,
    /// Size of the whole object.
    pub size_bytes: u64,
    /// Attributes: all of them with the first piece; the object information again with the last one, by which software
    /// that takes pieces where the object is recognises it as whole.
    pub attrs: BTreeMap<Bytes, Bytes>,
    /// Header of the omap, with the first piece.
    pub omap_header: Bytes,
    pub omap: Vec<(Bytes, Bytes)>,
    /// Runs of bytes: offset and length each; the bytes themselves follow each other in the payload.
    pub runs: Vec<(u64, u64)>,
    pub data: Rope,
    /// Set when all objects have been pushed: the receiver, which was backfilled, is complete, if its log has come to
    /// `version`. No object comes with it.
    pub end_of_all: bool,
}

/// Versions of the encoding of [`PgPush`].
mod form {
    /// Does not tell of which version pieces are, and which piece this is.
    pub const PLAIN: u8 = 1;
    /// Adds both.
    pub const PIECES: u8 = 2;
}

impl Message for PgPush {
    const TYPE: u16 = PeerKind::PgPush.number();

    fn encode_front(&self, w: &mut Writer) {
        w.versioned(form::PIECES, form::PLAIN, |w| {
            w.put(&self.pg);
            w.put(&self.object);
            w.bool(self.first);
            w.bool(self.last);
            w.bool(self.absent);
            w.u64(self.size_bytes);
            w.put(&self.attrs);
            w.put(&self.omap_header);
            w.put(&self.omap);
            w.put(&self.runs);
            w.bool(self.end_of_all);
            w.put(&self.version);
            w.u32(self.piece);
        });
    }

    fn take_data(&mut self) -> Rope {
        std::mem::take(&mut self.data)
    }

    fn decode(_: &Header, front: &mut Reader<'_>, data: &Rope) -> Result<PgPush, DecodeError> {
        let (version, mut r) = front.versioned("PgPush", form::PIECES)?;
        let mut push = PgPush {
            pg: r.get()?,
            object: r.get()?,
            first: r.bool()?,
            last: r.bool()?,
            absent: r.bool()?,
            size_bytes: r.u64()?,
            attrs: own_map(r.get::<BTreeMap<Bytes, Bytes>>()?),
            omap_header: Bytes::copy_from_slice(r.blob()?),
            omap: own_map(r.get::<Vec<(Bytes, Bytes)>>()?),
            runs: r.get()?,
            end_of_all: r.bool()?,
            data: data.clone(),
            version: EVersion::ZERO,
            piece: 0,
        };
        if version.version >= form::PIECES {
            (push.version, push.piece) = (r.get()?, r.u32()?);
        }
        let mut bytes: u64 = 0;
        for &(offset, len) in &push.runs {
            let end = offset.checked_add(len).filter(|end| *end <= push.size_bytes);
            let total = bytes.checked_add(len);
            let (Some(_), Some(total)) = (end, total) else {
                return Err(DecodeError::Value { what: "run beyond the object's end", value: offset });
            };
            bytes = total;
        }
        if bytes != data.len() as u64 {
            return Err(DecodeError::Value { what: "payload that does not match its runs, bytes", value: bytes });
        }
        Ok(push)
    }
}

/// Copies entries that are kept: they must not pin the frame they came in.
fn own_map<C: FromIterator<(Bytes, Bytes)>>(entries: impl IntoIterator<Item = (Bytes, Bytes)>) -> C {
    entries.into_iter().map(|(k, v)| (Bytes::copy_from_slice(&k), Bytes::copy_from_slice(&v))).collect()
}

/// The receiver of pushes: this object is whole and durable here; or, without an object, everything is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgPushAck {
    pub pg: PgInterval,
    pub object: Option<ObjectId>,
    /// False: there is no room for it.
    pub stored: bool,
}

message!(PgPushAck = PeerKind::PgPushAck.number(), version 2 { pg, object, stored });

/// Primary to member: tell me which objects you have, in which versions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgScan {
    pub pg: PgInterval,
    /// The first object to tell.
    pub from: ObjectId,
}

message!(PgScan = PeerKind::PgScan.number(), version 1 { pg, from });

/// Answers [`PgScan`], in the order of objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgObjects {
    pub pg: PgInterval,
    pub from: ObjectId,
    /// Without a version: what is there is not whole, or cannot be read.
    pub objects: Vec<(ObjectId, Option<EVersion>)>,
    /// Set if these are all objects before this one; `None`: they are all that there are.
    pub end: Option<ObjectId>,
}

message!(PgObjects = PeerKind::PgObjects.number(), version 1 { pg, from, objects, end });

/// Primary to member: with what has been sent so far, all objects before this one are as the log says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgBackfilled {
    pub pg: PgInterval,
    pub before: ObjectId,
}

message!(PgBackfilled = PeerKind::PgBackfilled.number(), version 1 { pg, before });

/// Primary to member: may I bring this group's objects to you?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgReserve {
    pub pg: PgInterval,
    /// The higher goes first.
    pub priority: u64,
}

message!(PgReserve = PeerKind::PgReserve.number(), version 1 { pg, priority });

/// Answers [`PgReserve`]: yes; or, later, no longer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgReserved {
    pub pg: PgInterval,
    pub granted: bool,
}

message!(PgReserved = PeerKind::PgReserved.number(), version 1 { pg, granted });

/// Primary to member: done, or not wanted any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgReleased {
    pub pg: PgInterval,
}

message!(PgReleased = PeerKind::PgReleased.number(), version 1 { pg });
