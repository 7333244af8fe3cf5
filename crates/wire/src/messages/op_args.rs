//! Arguments of operations: 28 bytes whose layout depends on the code.

use super::OpCode;
use crate::{DecodeError, Reader, Target, Writer};
use std::cmp::Ordering;
use types::{SnapId, Utime};

/// Size of the arguments on the wire.
pub(super) const ARGS_BYTES: usize = 28;

/// A range of an object's data, or (in omap operations) only the length of the input.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Extent {
    pub offset: u64,
    pub length: u64,
    /// Size of the object when it was last truncated, as the client knows it.
    pub truncate_size: u64,
    /// Number of that truncation; 0 with librados.
    pub truncate_seq: u32,
}

/// Lengths of name and value, which follow each other in the input; for comparisons also the kind of comparison.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct XattrArgs {
    pub name_len: u32,
    pub value_len: u32,
    /// [`XattrArgs::EQ`] or another comparison.
    pub cmp_op: u8,
    /// [`XattrArgs::MODE_STRING`] or [`XattrArgs::MODE_U64`].
    pub cmp_mode: u8,
}

impl XattrArgs {
    pub const EQ: u8 = 1;
    pub const NE: u8 = 2;
    pub const GT: u8 = 3;
    pub const GTE: u8 = 4;
    pub const LT: u8 = 5;
    pub const LTE: u8 = 6;
    pub const MODE_STRING: u8 = 1;
    pub const MODE_U64: u8 = 2;
}

/// Way in which a stored value is compared with a client's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Comparison {
    /// Returns the comparison that has this number: [`XattrArgs::EQ`] or another one. `None`: no comparison has it.
    pub fn from_code(code: u32) -> Option<Comparison> {
        Some(match u8::try_from(code).ok()? {
            XattrArgs::EQ => Comparison::Equal,
            XattrArgs::NE => Comparison::NotEqual,
            XattrArgs::GT => Comparison::Greater,
            XattrArgs::GTE => Comparison::GreaterOrEqual,
            XattrArgs::LT => Comparison::Less,
            XattrArgs::LTE => Comparison::LessOrEqual,
            _ => return None,
        })
    }

    /// Tells whether it holds for two values in this order.
    pub fn holds(self, left_to_right: Ordering) -> bool {
        match self {
            Comparison::Equal => left_to_right.is_eq(),
            Comparison::NotEqual => left_to_right.is_ne(),
            Comparison::Greater => left_to_right.is_gt(),
            Comparison::GreaterOrEqual => left_to_right.is_ge(),
            Comparison::Less => left_to_right.is_lt(),
            Comparison::LessOrEqual => left_to_right.is_le(),
        }
    }
}

/// Lengths of class name, method name and the method's input, which follow each other in the input.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Call {
    pub class_len: u8,
    pub method_len: u8,
    pub argc: u8,
    pub indata_len: u32,
    /// Length of the output in answers, 0 in requests.
    pub output_len: u64,
}

/// Arguments of [`OpCode::WATCH`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Watch {
    /// Number chosen by the client; identifies the watch together with the client's name.
    pub cookie: u64,
    pub version: u64,
    /// [`Watch::UNWATCH`] or another of its constants.
    pub op: u8,
    pub generation: u32,
    /// Timeout in seconds; 0 for the OSD's default.
    pub timeout_s: u32,
}

impl Watch {
    pub const UNWATCH: u8 = 0;
    pub const LEGACY_WATCH: u8 = 1;
    pub const WATCH: u8 = 3;
    pub const RECONNECT: u8 = 5;
    pub const PING: u8 = 7;
}

/// Arguments of [`OpCode::COPY_FROM`] and [`OpCode::COPY_FROM2`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyFrom {
    pub snap: SnapId,
    pub src_version: u64,
    pub flags: u8,
    pub src_fadvise_flags: u32,
}

/// Arguments of [`OpCode::SETALLOCHINT`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct AllocHint {
    pub expected_object_size: u64,
    pub expected_write_size: u64,
    pub flags: u32,
}

/// Arguments of [`OpCode::WRITESAME`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct WriteSame {
    pub offset: u64,
    pub length: u64,
    /// Length of the repeated pattern.
    pub data_length: u64,
}

/// Arguments of [`OpCode::CHECKSUM`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Checksum {
    pub offset: u64,
    pub length: u64,
    pub chunk_size: u32,
    /// [`Checksum::XXHASH32`] or another kind.
    pub kind: u8,
}

impl Checksum {
    pub const XXHASH32: u8 = 0;
    pub const XXHASH64: u8 = 1;
    pub const CRC32C: u8 = 2;
}

/// Arguments in the layout of the code. Bytes behind a layout are zero in clients' messages; they are neither kept nor
/// checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpArgs {
    /// No arguments: all bytes are zero.
    None,
    Extent(Extent),
    Xattr(XattrArgs),
    Call(Call),
    /// Largest number of entries to list, and the epoch in which the listing began.
    PgLs {
        count: u64,
        start_epoch: u32,
    },
    Snap(SnapId),
    Watch(Watch),
    Notify {
        cookie: u64,
    },
    AssertVersion {
        version: u64,
    },
    CopyGet {
        max: u64,
    },
    CopyFrom(CopyFrom),
    HitSetGet {
        stamp: Utime,
    },
    Tmap2Omap {
        flags: u8,
    },
    AllocHint(AllocHint),
    WriteSame(WriteSame),
    Checksum(Checksum),
    /// Bytes of a code that has no arguments, or that is not known.
    Raw([u8; ARGS_BYTES]),
}

impl OpArgs {
    /// The range, if the layout has one.
    pub fn extent(&self) -> Option<Extent> {
        match self {
            OpArgs::Extent(extent) => Some(*extent),
            _ => None,
        }
    }

    pub(super) fn encode(&self, w: &mut Writer) {
        let start = w.len();
        match self {
            OpArgs::None => {}
            OpArgs::Extent(a) => {
                w.u64(a.offset);
                w.u64(a.length);
                w.u64(a.truncate_size);
                w.u32(a.truncate_seq);
            }
            OpArgs::Xattr(a) => {
                w.u32(a.name_len);
                w.u32(a.value_len);
                w.u8(a.cmp_op);
                w.u8(a.cmp_mode);
            }
            OpArgs::Call(a) => {
                w.u8(a.class_len);
                w.u8(a.method_len);
                w.u8(a.argc);
                w.u32(a.indata_len);
                // Answers have the length where ranges have theirs, one byte further on.
                w.u8(0);
                w.u64(a.output_len);
            }
            OpArgs::PgLs { count, start_epoch } => {
                w.u64(*count);
                w.u32(*start_epoch);
            }
            OpArgs::Snap(snap) => w.put(snap),
            OpArgs::Watch(a) => {
                w.u64(a.cookie);
                w.u64(a.version);
                w.u8(a.op);
                w.u32(a.generation);
                w.u32(a.timeout_s);
            }
            OpArgs::Notify { cookie } => w.u64(*cookie),
            OpArgs::AssertVersion { version } => {
                w.u64(0);
                w.u64(*version);
            }
            OpArgs::CopyGet { max } => w.u64(*max),
            OpArgs::CopyFrom(a) => {
                w.put(&a.snap);
                w.u64(a.src_version);
                w.u8(a.flags);
                w.u32(a.src_fadvise_flags);
            }
            OpArgs::HitSetGet { stamp } => w.put(stamp),
            OpArgs::Tmap2Omap { flags } => w.u8(*flags),
            OpArgs::AllocHint(a) => {
                w.u64(a.expected_object_size);
                w.u64(a.expected_write_size);
                w.u32(a.flags);
            }
            OpArgs::WriteSame(a) => {
                w.u64(a.offset);
                w.u64(a.length);
                w.u64(a.data_length);
            }
            OpArgs::Checksum(a) => {
                w.u64(a.offset);
                w.u64(a.length);
                w.u32(a.chunk_size);
                w.u8(a.kind);
            }
            OpArgs::Raw(bytes) => w.raw(bytes),
        }
        let rest = ARGS_BYTES - (w.len() - start);
        w.raw(&[0; ARGS_BYTES][..rest]);
    }

    /// Encodes the arguments as 28 bytes.
    pub fn to_bytes(&self) -> [u8; ARGS_BYTES] {
        let mut w = Writer::new(Target::default());
        self.encode(&mut w);
        w.into_vec().try_into().expect("arguments have one size")
    }

    /// Reads 28 bytes as arguments of `code`.
    pub(super) fn decode(code: OpCode, r: &mut Reader<'_>) -> Result<OpArgs, DecodeError> {
        let bytes: [u8; ARGS_BYTES] = r.array()?;
        let r = &mut Reader::new(&bytes);
        Ok(match code {
            OpCode::READ
            | OpCode::SYNC_READ
            | OpCode::SPARSE_READ
            | OpCode::MAPEXT
            | OpCode::MASKTRUNC
            | OpCode::CMPEXT
            | OpCode::WRITE
            | OpCode::WRITEFULL
            | OpCode::APPEND
            | OpCode::TRUNCATE
            | OpCode::ZERO
            | OpCode::SETTRUNC
            | OpCode::TRIMTRUNC
            | OpCode::TMAPUP
            | OpCode::TMAPPUT
            | OpCode::OMAPGETKEYS
            | OpCode::OMAPGETVALS
            | OpCode::OMAPGETVALSBYKEYS
            | OpCode::OMAP_CMP
            | OpCode::OMAPSETVALS
            | OpCode::OMAPSETHEADER
            | OpCode::OMAPRMKEYS
            | OpCode::OMAPRMKEYRANGE => OpArgs::Extent(Extent {
                offset: r.u64()?,
                length: r.u64()?,
                truncate_size: r.u64()?,
                truncate_seq: r.u32()?,
            }),
            OpCode::GETXATTR | OpCode::CMPXATTR | OpCode::SETXATTR | OpCode::RMXATTR | OpCode::RESETXATTRS => {
                OpArgs::Xattr(XattrArgs { name_len: r.u32()?, value_len: r.u32()?, cmp_op: r.u8()?, cmp_mode: r.u8()? })
            }
            OpCode::CALL => {
                let (class_len, method_len, argc, indata_len) = (r.u8()?, r.u8()?, r.u8()?, r.u32()?);
                r.skip(1)?;
                OpArgs::Call(Call { class_len, method_len, argc, indata_len, output_len: r.u64()? })
            }
            OpCode::PGLS | OpCode::PGLS_FILTER | OpCode::PGNLS | OpCode::PGNLS_FILTER => {
                OpArgs::PgLs { count: r.u64()?, start_epoch: r.u32()? }
            }
            OpCode::ROLLBACK => OpArgs::Snap(r.get()?),
            OpCode::WATCH => OpArgs::Watch(Watch {
                cookie: r.u64()?,
                version: r.u64()?,
                op: r.u8()?,
                generation: r.u32()?,
                timeout_s: r.u32()?,
            }),
            OpCode::NOTIFY => OpArgs::Notify { cookie: r.u64()? },
            OpCode::ASSERT_VER => {
                r.skip(8)?;
                OpArgs::AssertVersion { version: r.u64()? }
            }
            OpCode::COPY_GET => OpArgs::CopyGet { max: r.u64()? },
            OpCode::COPY_FROM | OpCode::COPY_FROM2 | OpCode::SET_REDIRECT => OpArgs::CopyFrom(CopyFrom {
                snap: r.get()?,
                src_version: r.u64()?,
                flags: r.u8()?,
                src_fadvise_flags: r.u32()?,
            }),
            OpCode::PG_HITSET_GET => OpArgs::HitSetGet { stamp: r.get()? },
            OpCode::TMAP2OMAP => OpArgs::Tmap2Omap { flags: r.u8()? },
            OpCode::SETALLOCHINT => OpArgs::AllocHint(AllocHint {
                expected_object_size: r.u64()?,
                expected_write_size: r.u64()?,
                flags: r.u32()?,
            }),
            OpCode::WRITESAME => {
                OpArgs::WriteSame(WriteSame { offset: r.u64()?, length: r.u64()?, data_length: r.u64()? })
            }
            OpCode::CHECKSUM => {
                OpArgs::Checksum(Checksum { offset: r.u64()?, length: r.u64()?, chunk_size: r.u32()?, kind: r.u8()? })
            }
            _ if bytes == [0; ARGS_BYTES] => OpArgs::None,
            _ => OpArgs::Raw(bytes),
        })
    }
}
