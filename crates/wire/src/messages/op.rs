//! One part of an operation.

use super::op_args::ARGS_BYTES;
use super::{OpArgs, OpCode};
use crate::{Decode, DecodeError, Encode, Reader, Rope, Target, Writer};
use bytes::Bytes;
use std::fmt;

/// One part of an [`super::OsdOp`], whose parts take effect together or not at all. Ceph's `OSDOp`, on the wire
/// `ceph_osd_op`.
#[derive(Clone, PartialEq, Eq)]
pub struct Op {
    pub code: OpCode,
    /// Bits of [`super::op_flag`].
    pub flags: u32,
    pub args: OpArgs,
    /// Input of the part; shares the message's payload.
    pub indata: Rope,
}

/// Size of a part on the wire.
pub(super) const OP_BYTES: usize = 2 + 4 + ARGS_BYTES + 4;

impl Op {
    pub fn new(code: OpCode, args: OpArgs, indata: impl Into<Rope>) -> Op {
        Op { code, flags: 0, args, indata: indata.into() }
    }

    pub fn with_flags(mut self, flags: u32) -> Op {
        self.flags |= flags;
        self
    }

    /// Decodes the input as one value of a type from [`super::op_data`]. Copies only an input of several pieces.
    pub fn input<T: Decode>(&self) -> Result<T, DecodeError> {
        let bytes = self.indata.clone().into_bytes();
        T::decode(&mut Reader::shared(&bytes))
    }

    /// Name and value of an attribute.
    ///
    /// Errors: the arguments are not those of an attribute, or their lengths exceed the input.
    pub fn xattr(&self) -> Result<(Bytes, Bytes), DecodeError> {
        let OpArgs::Xattr(args) = self.args else {
            return Err(DecodeError::Value { what: "operation without attribute", value: self.code.0.into() });
        };
        let [name, value] = self.split([args.name_len as usize, args.value_len as usize])?;
        Ok((name, value))
    }

    /// Class, method and input of a call.
    ///
    /// Errors: the arguments are not those of a call, or their lengths exceed the input.
    pub fn call(&self) -> Result<(Bytes, Bytes, Bytes), DecodeError> {
        let OpArgs::Call(args) = self.args else {
            return Err(DecodeError::Value { what: "operation without call", value: self.code.0.into() });
        };
        let lengths = [usize::from(args.class_len), usize::from(args.method_len), args.indata_len as usize];
        let [class, method, input] = self.split(lengths)?;
        Ok((class, method, input))
    }

    fn split<const N: usize>(&self, lengths: [usize; N]) -> Result<[Bytes; N], DecodeError> {
        let bytes = self.indata.clone().into_bytes();
        let mut r = Reader::shared(&bytes);
        let mut pieces = [const { Bytes::new() }; N];
        for (piece, length) in pieces.iter_mut().zip(lengths) {
            *piece = r.bytes(length)?;
        }
        Ok(pieces)
    }
}

/// Encodes the head of one part; its payload is elsewhere.
pub(super) fn encode_head(code: OpCode, flags: u32, args: &OpArgs, payload_len: usize, w: &mut Writer) {
    w.u16(code.0);
    w.u32(flags);
    args.encode(w);
    w.count(payload_len);
}

/// Reads one head, and takes its payload from `data` at offset `taken`, which it advances.
pub(super) fn decode_op(r: &mut Reader<'_>, data: &Rope, taken: &mut usize) -> Result<Op, DecodeError> {
    let mut r = Reader::new(r.raw(OP_BYTES)?);
    let code = OpCode(r.u16()?);
    let flags = r.u32()?;
    let args = OpArgs::decode(code, &mut r)?;
    let payload_len = r.u32()? as usize;
    let left = data.len() - *taken;
    if payload_len > left {
        return Err(DecodeError::Short { needed: payload_len, left });
    }
    let indata = match payload_len {
        0 => Rope::new(),
        all if all == data.len() => data.clone(),
        _ => data.slice(*taken, payload_len),
    };
    *taken += payload_len;
    Ok(Op { code, flags, args, indata })
}

/// Checks that the parts' payloads, `taken` bytes, are all of `data`.
pub(super) fn check_all_taken(data: &Rope, taken: usize) -> Result<(), DecodeError> {
    match data.len() - taken {
        0 => Ok(()),
        left => Err(DecodeError::Value { what: "payload that belongs to no operation, bytes", value: left as u64 }),
    }
}

/// Formats as in Ceph's logs: `write 0~4096 in=4096b`.
impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        match &self.args {
            OpArgs::Extent(e) => write!(f, " {}~{}", e.offset, e.length)?,
            OpArgs::Xattr(_) => {
                let name = self.xattr().map(|(name, _)| name).unwrap_or_default();
                write!(f, " {}", name.escape_ascii())?;
            }
            OpArgs::Call(_) => {
                let (class, method, _) = self.call().unwrap_or_default();
                write!(f, " {}.{}", class.escape_ascii(), method.escape_ascii())?;
            }
            OpArgs::PgLs { count, start_epoch } => write!(f, " max {count} start_epoch {start_epoch}")?,
            OpArgs::Snap(snap) => write!(f, " {}", snap.0)?,
            OpArgs::Watch(watch) => write!(f, " op {} cookie {}", watch.op, watch.cookie)?,
            OpArgs::Notify { cookie } => write!(f, " cookie {cookie}")?,
            OpArgs::AssertVersion { version } => write!(f, " v{version}")?,
            OpArgs::None
            | OpArgs::CopyGet { .. }
            | OpArgs::CopyFrom(_)
            | OpArgs::HitSetGet { .. }
            | OpArgs::Tmap2Omap { .. }
            | OpArgs::AllocHint(_)
            | OpArgs::WriteSame(_)
            | OpArgs::Checksum(_)
            | OpArgs::Raw(_) => {}
        }
        if !self.indata.is_empty() {
            write!(f, " in={}b", self.indata.len())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self} flags={:#x} args={:?}]", self.flags, self.args)
    }
}

/// Encodes a value of a type from [`super::op_data`] as an operation's input or output.
pub fn to_rope(value: &(impl Encode + ?Sized)) -> Rope {
    value.to_vec(Target::default()).into()
}
