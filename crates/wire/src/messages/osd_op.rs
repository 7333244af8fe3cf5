//! An operation on an object, as a client sends it to the primary.

use super::op::{OP_BYTES, check_all_taken, decode_op, encode_head};
use super::{Op, OpFlags};
use crate::basic::{Locator, SPgId};
use crate::envelope::{Header, Message, priority};
use crate::{Decode, DecodeError, Encode, Reader, Rope, Writer};
use bytes::Bytes;
use std::fmt;
use types::{Epoch, NameBytes, ObjectId, ReqId, SnapId, Utime};

/// Ids by which Ceph traces an operation through daemons (blkin); zeros without tracing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Trace {
    pub trace_id: i64,
    pub span_id: i64,
    pub parent_span_id: i64,
}

impl Encode for Trace {
    fn encode(&self, w: &mut Writer) {
        w.i64(self.trace_id);
        w.i64(self.span_id);
        w.i64(self.parent_span_id);
    }
}

impl Decode for Trace {
    const MIN_BYTES: usize = 24;

    fn decode(r: &mut Reader<'_>) -> Result<Trace, DecodeError> {
        Ok(Trace { trace_id: r.i64()?, span_id: r.i64()?, parent_span_id: r.i64()? })
    }
}

/// An operation. Its parts ([`Op`]) take effect together or not at all. Ceph's `MOSDOp`.
///
/// Layout 8 is written; 8 and 9 (Squid's, which adds a trace context) are read. The payload consists of the inputs of
/// all parts, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdOp {
    /// Placement group of the object by the client's map.
    pub pgid: SPgId,
    /// Placement hash of the object, all 32 bits.
    pub raw_hash: u32,
    /// Epoch of the client's map.
    pub epoch: Epoch,
    pub flags: OpFlags,
    /// Identity for duplicate detection, set if the sender acts for another client; otherwise zero, `inc` perhaps
    /// excepted. See [`OsdOp::request_id`].
    pub reqid: ReqId,
    pub trace: Trace,
    pub client_inc: u32,
    pub mtime: Utime,
    pub locator: Locator,
    pub name: Bytes,
    pub ops: Vec<Op>,
    /// The state that reads see: [`SnapId::HEAD`] or a snapshot.
    pub snap: SnapId,
    /// Newest snapshot id; with `snaps` (newest first), the snapshots that writes must preserve.
    pub snap_seq: SnapId,
    pub snaps: Vec<SnapId>,
    /// Number of the attempt: 0 at first, one more with each resend.
    pub retry_attempt: i32,
    pub features: u64,
}

impl OsdOp {
    /// An operation on the present state of object `name`, without snapshots, stamps or flags.
    pub fn new(pgid: SPgId, raw_hash: u32, epoch: Epoch, locator: Locator, name: Bytes, ops: Vec<Op>) -> OsdOp {
        OsdOp {
            pgid,
            raw_hash,
            epoch,
            flags: OpFlags::default(),
            reqid: ReqId::default(),
            trace: Trace::default(),
            client_inc: 0,
            mtime: Utime::ZERO,
            locator,
            name,
            ops,
            snap: SnapId::HEAD,
            snap_seq: SnapId(0),
            snaps: Vec::new(),
            retry_attempt: 0,
            features: 0,
        }
    }

    /// True if a part may change the object. Class methods do not count, because only their registry knows.
    pub fn may_write(&self) -> bool {
        self.ops.iter().any(|op| op.code.is_write() && !op.is_ping())
    }

    /// True if a part may read the object.
    pub fn may_read(&self) -> bool {
        self.ops.iter().any(|op| op.code.is_read())
    }

    /// Identity of the request: the message's `reqid`, if set, or else the sender (`name` from its session) and the
    /// message's transaction id.
    pub fn request_id(&self, sender: types::EntityName, tid: u64) -> ReqId {
        if self.reqid.tid == 0 && self.reqid.name == types::EntityName::default() {
            ReqId { name: sender, tid, inc: self.client_inc as i32 }
        } else {
            self.reqid
        }
    }

    /// The object's full name, with [`OsdOp::snap`] as its snapshot.
    pub fn object_id(&self) -> ObjectId {
        ObjectId {
            pool: self.pgid.pg.pool,
            hash: self.raw_hash,
            nspace: self.locator.nspace[..].into(),
            // Ceph leaves out a key that equals the name.
            key: if self.locator.key == self.name { NameBytes::EMPTY } else { self.locator.key[..].into() },
            name: self.name[..].into(),
            snap: self.snap,
            max: false,
        }
    }

    /// Total bytes of all inputs.
    pub fn input_bytes(&self) -> usize {
        self.ops.iter().map(|op| op.indata.len()).sum()
    }
}

impl fmt::Display for OsdOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "osd_op({} {}", self.pgid, self.name.escape_ascii())?;
        for op in &self.ops {
            write!(f, " [{op}]")?;
        }
        write!(f, " {} {})", self.flags, self.epoch)
    }
}

impl Message for OsdOp {
    const TYPE: u16 = 42;
    const VERSION: u16 = 8;
    const COMPAT: u16 = 3;
    const PRIORITY: u16 = priority::CLIENT_OP;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.pgid);
        w.u32(self.raw_hash);
        w.put(&self.epoch);
        w.u32(self.flags.0);
        w.put(&self.reqid);
        w.put(&self.trace);
        w.u32(self.client_inc);
        w.put(&self.mtime);
        w.put(&self.locator);
        w.blob(&self.name);
        w.u16(u16::try_from(self.ops.len()).expect("an operation has few parts"));
        for op in &self.ops {
            encode_head(op.code, op.flags, &op.args, op.indata.len(), w);
        }
        w.put(&self.snap);
        w.put(&self.snap_seq);
        w.put(&self.snaps);
        w.i32(self.retry_attempt);
        w.u64(self.features);
    }

    fn take_data(&mut self) -> Rope {
        let mut data = Rope::new();
        self.ops.iter_mut().for_each(|op| data.append(std::mem::take(&mut op.indata)));
        data
    }

    fn decode(header: &Header, r: &mut Reader<'_>, data: &Rope) -> Result<OsdOp, DecodeError> {
        const WITH_TRACE_CONTEXT: u16 = 9;
        let version = header.version;
        if !(Self::VERSION..=WITH_TRACE_CONTEXT).contains(&version) {
            return Err(DecodeError::Value {
                what: "layout of an operation (8 and 9 are known)",
                value: version.into(),
            });
        }
        let (pgid, raw_hash, epoch) = (r.get()?, r.u32()?, r.get()?);
        let flags = OpFlags(r.u32()?);
        let (reqid, trace) = (r.get()?, r.get()?);
        if version >= WITH_TRACE_CONTEXT {
            r.versioned("trace context", 1)?;
        }
        let (client_inc, mtime, locator) = (r.u32()?, r.get()?, r.get()?);
        let name = r.blob_bytes()?;
        let count = usize::from(r.u16()?);
        if count * OP_BYTES > r.left() {
            return Err(DecodeError::Count { what: "parts of an operation", count, left: r.left() });
        }
        let (mut ops, mut taken) = (Vec::with_capacity(count), 0);
        for _ in 0..count {
            ops.push(decode_op(r, data, &mut taken)?);
        }
        check_all_taken(data, taken)?;
        let (snap, snap_seq, snaps) = (r.get()?, r.get()?, r.get()?);
        let (retry_attempt, features) = (r.i32()?, r.u64()?);
        Ok(OsdOp {
            pgid,
            raw_hash,
            epoch,
            flags,
            reqid,
            trace,
            client_inc,
            mtime,
            locator,
            name,
            ops,
            snap,
            snap_seq,
            snaps,
            retry_attempt,
            features,
        })
    }
}
