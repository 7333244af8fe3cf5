//! The operations that the benchmark asks of the store.

use bytes::Bytes;
use store::{Lookup, Step, Store, SubmitError, Transaction};
use types::{AlignedBuf, ObjectId, PgId, PoolId};
use wire::Rope;

pub const BLOCK: u64 = 4096;
pub const MIB: u64 = 1 << 20;
pub const OBJECT_BYTES: u64 = 4 << 20;

/// A kind of operations: reads or writes, and their places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Writes each object in turn, in pieces of `bytes` bytes.
    WriteInOrder {
        bytes: u64,
    },
    /// Writes blocks anywhere. `bare`: nothing but data; otherwise with all that a placement group writes beside it:
    /// the object's information, a log entry, the removal of an old one, and the group's information.
    WriteAnywhere {
        bare: bool,
    },
    ReadInOrder {
        bytes: u64,
    },
    ReadAnywhere {
        bytes: u64,
    },
}

impl Kind {
    pub fn bytes(self) -> u64 {
        match self {
            Kind::WriteInOrder { bytes } | Kind::ReadInOrder { bytes } | Kind::ReadAnywhere { bytes } => bytes,
            Kind::WriteAnywhere { .. } => BLOCK,
        }
    }

    pub fn writes(self) -> bool {
        matches!(self, Kind::WriteInOrder { .. } | Kind::WriteAnywhere { .. })
    }
}

/// An operation that has begun.
pub enum Begun {
    Write(store::Ticket),
    Read(store::LookupId),
    /// A read that was answered from memory.
    Done,
}

/// Operations on a set of objects, one after another.
pub struct Workload {
    pub objects: u64,
    data: Bytes,
    /// Number of placement groups, each with its log.
    groups: u64,
    random: u64,
    /// Number of operations so far.
    count: u64,
}

/// Number of entries that a group's log keeps.
const LOG_ENTRIES: u64 = 3000;
/// Bytes of the device for each group, as operators choose it; there are at most [`GROUPS_MAX`] groups.
const BYTES_PER_GROUP: u64 = 32 << 20;
const GROUPS_MAX: u64 = 32;

impl Workload {
    pub fn new(objects: u64, device_bytes: u64) -> Workload {
        // The data is not all zeros, and no two of its blocks are alike.
        let bytes: Vec<u8> = (0..OBJECT_BYTES).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        let groups = (device_bytes / BYTES_PER_GROUP).clamp(1, GROUPS_MAX);
        Workload { objects, data: AlignedBuf::copy_from(&bytes).freeze(), groups, random: 1, count: 0 }
    }

    pub fn bytes(&self) -> u64 {
        self.objects * OBJECT_BYTES
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % end
    }

    pub fn begin(&mut self, store: &mut Store, kind: Kind) -> Result<Begun, SubmitError> {
        let number = self.count;
        self.count += 1;
        let pieces = self.bytes() / kind.bytes();
        let piece = match kind {
            Kind::WriteInOrder { .. } | Kind::ReadInOrder { .. } => number % pieces,
            Kind::WriteAnywhere { .. } | Kind::ReadAnywhere { .. } => self.below(pieces),
        };
        let at = piece * kind.bytes();
        let (object, offset, len) = (object_id(at / OBJECT_BYTES), at % OBJECT_BYTES, kind.bytes());
        if !kind.writes() {
            return Ok(match store.read(&object, offset, len) {
                Lookup::Ready(data) => {
                    assert_eq!(data.len() as u64, len, "all objects have been written");
                    Begun::Done
                }
                Lookup::Pending(id) => Begun::Read(id),
                Lookup::Damaged(damage) => panic!("a store that was just made: {damage:?}"),
            });
        }
        let from = (self.below(OBJECT_BYTES / BLOCK) * BLOCK).min(OBJECT_BYTES - len);
        let data = Rope::from(self.data.slice(from as usize..(from + len) as usize));
        let mut steps = vec![Step::Write { object: object.clone(), offset, data }];
        let group = number % self.groups;
        if kind != (Kind::WriteAnywhere { bare: true }) {
            let text = |bytes: usize| vec![number as u8; bytes].into();
            let (newest, oldest) = (number / self.groups, (number / self.groups).wrapping_sub(LOG_ENTRIES));
            steps.extend([
                Step::SetAttr { object, name: b"_".to_vec(), value: text(120) },
                Step::PgSet { key: log_key(newest), value: text(160) },
                Step::PgSet { key: "info".into(), value: text(200) },
                Step::PgRemove { key: log_key(oldest) },
            ]);
        }
        store.submit(Transaction { pg: PgId::new(1, group as u32), steps }).map(Begun::Write)
    }

    /// Has the next operation begin with the first object again.
    pub fn rewind(&mut self) {
        self.count = 0;
    }
}

/// The key of a log entry in a group's form: a letter, the version, the epoch.
#[expect(clippy::big_endian_bytes, reason = "byte order must be number order")]
fn log_key(version: u64) -> Bytes {
    [&b"l"[..], &version.to_be_bytes(), &7u32.to_be_bytes()].concat().into()
}

fn object_id(number: u64) -> ObjectId {
    let name = format!("rbd_data.10226b8b4567.{number:016x}");
    ObjectId::head(PoolId(1), (number as u32).wrapping_mul(0x9e37_79b9), b"", name.as_bytes())
}
