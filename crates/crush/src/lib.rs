//! CRUSH: from a hierarchy of buckets and a rule to the devices that hold an input, bit for bit as Ceph computes it.
//!
//! * [`CrushMap`] — start here: buckets, rules, names, types, tunables, device classes, weight sets. [`map`] has its
//!   getters, [`build`](CrushMap::insert_item) its changes, [`tree`](CrushMap::tree) its printing.
//! * [`CrushMap::do_rule`] computes one mapping with a reusable [`Scratch`] (files `mapper.rs`, `bucket.rs`).
//! * [`hash`], [`ln`]: the hash and the fixed-point logarithm on which every draw depends.
//! * `codec.rs`: the binary form, inside OSD maps and in `ceph osd getcrushmap`.
//!
//! Supported for placement are straw2 and uniform buckets and classic rules. Maps with list, tree or straw buckets or
//! with MSR rules decode and re-encode, but mapping through such a bucket or rule is an error: nothing is guessed. This
//! crate opens no file and draws no random numbers.

mod bucket;
mod build;
mod choose_args;
mod class;
mod codec;
mod error;
pub mod hash;
pub mod ln;
mod ln_table;
mod location;
pub mod map;
mod mapper;
mod new_devices;
mod rule;
mod rule_build;
mod tree;
mod tunables;
mod weight_set;

pub use bucket::{Bucket, BucketAlg, BucketBody};
pub use build::fixed_weight;
pub use choose_args::{ChooseArg, ChooseArgs, DEFAULT_CHOOSE_ARGS};
pub use error::{BuildError, MapError};
pub use location::Location;
pub use map::{CrushMap, WEIGHT_ONE, default_types};
pub use mapper::{ITEM_NONE, Scratch, is_out};
pub use new_devices::NewDevice;
pub use rule::{Rule, RuleKind, Step, op};
pub use tree::{TreeItem, TreeOptions};
pub use tunables::{Profile, Tunables};
