//! Answers for tools that look at a store which no OSD runs.
//!
//! * `inspect`: where things lie, what is free, how long the log is. `free_space`: how free space is cut up.
//! * `labels`: the fixed places of a device one by one, for a store that does not open.

mod free_space;
mod inspect;
mod labels;

pub use free_space::{FreeRuns, FreeSpace};
pub use inspect::{LogState, PlacedExtent};
pub use labels::{LABEL_OFFSETS, LabelBlock, Labels, StoreLabel};
