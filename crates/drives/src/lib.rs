//! Drives of a machine: which there are, which may be used, how they are divided for OSDs, and how they are wiped.
//!
//! Decisions are pure and look at a [`Drive`] only, which an [`Inventory`] reads; what they decide is a list of
//! [`Step`]s, which [`carry_out`] does one after the other.
//!
//! * [`Inventory`]: the drives of this machine. Start here.
//! * [`mod@obstacle`]: reasons why a drive may not be touched.
//! * [`mod@prepare`]: areas for data, log and metadata of OSDs on one or more drives, as partitions or LVM's volumes.
//! * [`mod@namespaces`]: namespaces of NVMe drives.
//! * [`mod@wipe`]: nothing is left on a drive.
//! * [`step`]: what is done, and doing it.
//!
//! Absent from here: stores and clusters. `nacre osd --mkfs` makes a store on an area.

mod claims;
pub mod gpt;
pub mod inventory;
pub mod namespaces;
pub mod obstacle;
pub mod page;
pub mod prepare;
pub mod step;
pub mod wipe;

pub use inventory::{Drive, Inventory, Partition};
pub use obstacle::{Obstacle, Purpose};
pub use prepare::{Areas, By, Preparation, Wanted, prepare};
pub use step::{Step, StepError, carry_out};
