//! Identifiers, epochs, versions and units that every other crate uses.
//!
//! This crate does not know how a value is encoded (`wire` does), what a map contains (`osdmap`), or how an object is
//! stored (`store`).
//!
//! * [`ids`]: OSDs, pools, placement groups, epochs, entity names.
//! * [`object`]: an object's full name and the order in which a placement group lists objects.
//! * [`version`]: [`EVersion`], the version of one update of a placement group.
//! * [`time`]: [`Utime`], a wall-clock stamp of the protocol.
//! * [`crc32c`]: the checksum of frames and of 4 KiB blocks.
//! * [`base64`]: the text form of keys.
//! * [`fast_map`]: hash maps for hot paths.
//! * [`aligned`]: buffers aligned for direct I/O, handed around as [`bytes::Bytes`].
//! * [`buf_pool`]: a bounded stock of such buffers.

pub mod aligned;
pub mod base64;
pub mod buf_pool;
pub mod crc32c;
pub mod errno;
pub mod fast_map;
pub mod ids;
pub mod object;
pub mod time;
pub mod version;
pub mod xxhash;

pub use aligned::AlignedBuf;
pub use buf_pool::BufPool;
pub use errno::Errno;
pub use fast_map::FastMap;
pub use ids::{EntityName, EntityType, Epoch, Fsid, OsdId, PgId, PoolId, ReqId};
pub use object::{NameBytes, ObjectId, SnapId};
pub use time::Utime;
pub use version::EVersion;

/// Unit of direct I/O and of checksums: one block.
pub const BLOCK_BYTES: usize = 4096;
