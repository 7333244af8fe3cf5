//! The devices of an OSD's store, as files and block devices of this machine.
//!
//! * [`StorePaths`]: where they are. Start here.
//! * [`Division`]: the part of each device that belongs to each of the OSD's shards.
//! * [`mkfs()`]: makes the store of a new OSD.
//! * [`Occupant`]: what a device holds already.
//! * [`DeviceFiles`]: the files, open in a reactor, for an OSD that runs.
//!
//! Absent from here: the store's content, placement groups, and what an OSD does with either.

mod device_files;
mod division;
mod mkfs;
mod mkfs_error;
mod mkfs_target;
mod occupant;
mod store_paths;

pub use device_files::DeviceFiles;
pub use division::{Division, SHARDS_MAX, parse_shards};
pub use mkfs::{NewStore, mkfs, store_config};
pub use mkfs_error::MkfsError;
pub use occupant::{Occupant, occupant_of};
pub use store_paths::StorePaths;
