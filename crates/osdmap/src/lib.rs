//! The maps of a cluster: OSDs, pools, placement; monitors; managers.
//!
//! * [`OsdMap`] — start here: the OSDs, which of them are up and in, and the pools. [`Incremental`] is the difference
//!   from one epoch to the next, [`OsdMap::apply`] applies it.
//! * [`OsdMap::object_to_pg`], [`OsdMap::pg_to_up_acting`]: from an object's name to the OSDs that hold it;
//!   [`PgMapping`] holds that for all placement groups of an epoch.
//! * [`shard_of`], [`shards_to_be`]: the shard of each OSD of an erasure-coded pool's group; [`next_order`]: the way to
//!   another order of the shards.
//! * [`balance()`]: exceptions that make the spread of copies over OSDs even; [`stale_upmaps`]: exceptions to be
//!   removed.
//! * [`PgPool`], [`OsdInfo`], [`OsdXInfo`]: the map's entries of one pool, of one OSD.
//! * [`MonMap`], [`MgrMap`].
//!
//! Encodings are Ceph's, from Pacific to Tentacle, chosen by [`wire::Target`]; checksums are verified when reading and
//! made when writing. Nothing here does I/O, and no clock is read.

mod apply;
mod balance;
mod error;
mod flags;
mod incremental;
mod incremental_codec;
mod map;
mod map_codec;
mod mapping_update;
mod mgr_map;
mod mon_map;
mod object_hash;
mod orders;
mod osd_info;
mod pg_mapping;
mod pg_range;
mod placement;
mod pool;
mod pool_codec;
mod pool_opts;
mod shard_orders;
mod shard_places;
mod temp_set;

pub use balance::{BalanceLimits, RulePlaces, Spread, UpmapChanges, balance, spread, stale_upmaps};
pub use error::{ApplyError, PlacementError};
pub use flags::{OsdMapFlags, OsdState, PoolFlags};
pub use incremental::{Incremental, StretchMode};
pub use map::{Osd, OsdMap, PRIMARY_AFFINITY_MAX, WEIGHT_IN};
pub use mapping_update::MappingUpdate;
pub use mgr_map::{MgrMap, MgrModule, MgrModuleOption, MgrStandby};
pub use mon_map::{MonInfo, MonMap, mon_features};
pub use object_hash::{hash_name, stable_mod};
pub use osd_info::{OsdInfo, OsdXInfo};
pub use pg_mapping::PgMapping;
pub use pg_range::{is_merging, pg_cursor_end, pg_range, same_range, split_bits, split_children, split_parent};
pub use placement::{PlacementScratch, UpActing};
pub use pool::{AutoscaleMode, PeeringCrush, PgMergeMeta, PgPool, PoolKind, PoolSnap};
pub use pool_opts::{PoolOpt, PoolOptKey, PoolOpts};
pub use shard_orders::next_order;
pub use shard_places::{shard_of, shards_to_be};
pub use temp_set::TempSet;
