//! Encodings of identifiers and of the small structures in messages and maps.
//!
//! Types that every crate uses are in `types`; types that exist only for the protocol are here.

mod auth_name;
mod entity_inst;
mod ids;
mod interval_set;
mod locator;
mod object;
mod shard;
mod snap_context;
mod stamp;

pub use auth_name::AuthName;
pub use entity_inst::EntityInst;
pub use interval_set::IntervalSet;
pub use locator::Locator;
pub use object::{StoredObjectId, object_or};
pub use shard::{NO_SHARD, PgShard, SPgId};
pub use snap_context::SnapContext;
