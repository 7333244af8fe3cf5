//! The answer to an operation.

use super::op::{OP_BYTES, check_all_taken, decode_op, encode_head};
use super::{OpArgs, OpCode, OpFlags, OsdOp, Trace};
use crate::basic::Locator;
use crate::envelope::{Header, Message, priority};
use crate::{Decode, DecodeError, Encode, Reader, Rope, Writer};
use bytes::Bytes;
use types::{EVersion, Epoch, Errno, PgId};

/// The outcome of one part of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpReply {
    /// Code, flags and arguments as in the request; reads set the extent's length to the number of bytes read.
    pub code: OpCode,
    pub flags: u32,
    pub args: OpArgs,
    /// 0 or above, or a negated error number.
    pub result: i32,
    pub outdata: Rope,
}

/// Sends the client elsewhere. Only cache tiers do that; Nacre never does. Ceph's `request_redirect_t`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redirect {
    pub locator: Locator,
    pub name: Bytes,
}

impl Encode for Redirect {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.locator);
            w.blob(&self.name);
            w.u32(0);
        });
    }
}

impl Decode for Redirect {
    const MIN_BYTES: usize = 48;

    fn decode(r: &mut Reader<'_>) -> Result<Redirect, DecodeError> {
        let (_, mut r) = r.versioned("redirect", 1)?;
        let redirect = Redirect { locator: r.get()?, name: r.blob_bytes()? };
        // These instructions are empty in every release.
        r.blob()?;
        Ok(redirect)
    }
}

/// The answer to an [`OsdOp`]; carries the request's transaction id. Ceph's `MOSDOpReply`.
///
/// The payload consists of the outputs of all parts, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdOpReply {
    pub name: Bytes,
    pub pgid: PgId,
    /// The request's flags, with [`OpFlags::ACK`] and [`OpFlags::ONDISK`] set once it is durable.
    pub flags: OpFlags,
    /// 0 or above, or a negated error number.
    pub result: i32,
    /// `replay_version` with its counter replaced by `user_version`, for clients that do not know the latter.
    pub bad_replay_version: EVersion,
    /// Epoch of the OSD's map.
    pub epoch: Epoch,
    pub ops: Vec<OpReply>,
    /// Number of the request's attempt that is answered, copied from the request.
    pub retry_attempt: i32,
    /// Version of the update in its placement group; zero for reads.
    pub replay_version: EVersion,
    /// Version of the object as users see it.
    pub user_version: u64,
    pub redirect: Option<Redirect>,
    pub trace: Trace,
}

impl OsdOpReply {
    /// An answer to a request that was refused before any part was executed, also because its object does not exist.
    pub fn refusing(request: &OsdOp, error: Errno, epoch: Epoch) -> OsdOpReply {
        let flags = request.flags.without(OpFlags::ONNVRAM);
        OsdOpReply { flags, ..OsdOpReply::to(request, error.as_result(), epoch) }
    }

    /// An answer to an executed `request`, with `result` for the whole, 0 and no output for each part, and no versions.
    pub fn to(request: &OsdOp, result: i32, epoch: Epoch) -> OsdOpReply {
        let ops = request.ops.iter().map(|op| OpReply {
            code: op.code,
            flags: op.flags,
            args: op.args,
            result: 0,
            outdata: Rope::new(),
        });
        let unfinished = OpFlags::ACK | OpFlags::ONNVRAM | OpFlags::ONDISK;
        OsdOpReply {
            name: request.name.clone(),
            pgid: request.pgid.pg,
            flags: request.flags.without(unfinished) | OpFlags::ACK | OpFlags::ONDISK,
            result,
            bad_replay_version: EVersion::ZERO,
            epoch,
            ops: ops.collect(),
            retry_attempt: request.retry_attempt,
            replay_version: EVersion::ZERO,
            user_version: 0,
            redirect: None,
            trace: Trace::default(),
        }
    }

    /// Sets the version of the update (zero for reads) and of the object as users see it, for old and new clients.
    pub fn set_versions(&mut self, replay: EVersion, user: u64) {
        self.replay_version = replay;
        self.user_version = user;
        self.bad_replay_version = replay;
        if user != 0 {
            self.bad_replay_version.version = user;
        }
    }
}

impl Message for OsdOpReply {
    const TYPE: u16 = 43;
    const VERSION: u16 = 8;
    const COMPAT: u16 = 2;
    const PRIORITY: u16 = priority::CLIENT_OP;

    fn encode_front(&self, w: &mut Writer) {
        w.blob(&self.name);
        w.put(&self.pgid);
        w.u64(self.flags.0.into());
        w.i32(self.result);
        w.put(&self.bad_replay_version);
        w.put(&self.epoch);
        w.count(self.ops.len());
        for op in &self.ops {
            encode_head(op.code, op.flags, &op.args, op.outdata.len(), w);
        }
        w.i32(self.retry_attempt);
        self.ops.iter().for_each(|op| w.i32(op.result));
        w.put(&self.replay_version);
        w.u64(self.user_version);
        w.put(&self.redirect);
        w.put(&self.trace);
    }

    fn take_data(&mut self) -> Rope {
        let mut data = Rope::new();
        self.ops.iter_mut().for_each(|op| data.append(std::mem::take(&mut op.outdata)));
        data
    }

    fn decode(header: &Header, r: &mut Reader<'_>, data: &Rope) -> Result<OsdOpReply, DecodeError> {
        if header.version != Self::VERSION {
            return Err(DecodeError::Value { what: "layout of a reply (8 is known)", value: header.version.into() });
        }
        let name = r.blob_bytes()?;
        let pgid = r.get()?;
        let flags = r.u64()?;
        let flags = u32::try_from(flags).map_err(|_| DecodeError::Value { what: "flags of a reply", value: flags })?;
        let (result, bad_replay_version, epoch) = (r.i32()?, r.get()?, r.get()?);
        let count = r.count("parts of a reply", OP_BYTES)?;
        let (mut ops, mut taken) = (Vec::with_capacity(count), 0);
        for _ in 0..count {
            let op = decode_op(r, data, &mut taken)?;
            ops.push(OpReply { code: op.code, flags: op.flags, args: op.args, result: 0, outdata: op.indata });
        }
        check_all_taken(data, taken)?;
        let retry_attempt = r.i32()?;
        for op in &mut ops {
            op.result = r.i32()?;
        }
        let (replay_version, user_version) = (r.get()?, r.u64()?);
        let (redirect, trace) = (r.get()?, r.get()?);
        Ok(OsdOpReply {
            name,
            pgid,
            flags: OpFlags(flags),
            result,
            bad_replay_version,
            epoch,
            ops,
            retry_attempt,
            replay_version,
            user_version,
            redirect,
            trace,
        })
    }
}
