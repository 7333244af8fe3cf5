//! Encodings of identifiers and of the small structures that messages and maps are made of.
//!
//! The types that every crate speaks live in `types`; what exists only because of the protocol lives here.

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
pub use object::StoredObjectId;
pub use shard::{NO_SHARD, PgShard, SPgId};
pub use snap_context::SnapContext;
