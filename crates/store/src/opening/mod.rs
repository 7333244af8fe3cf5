//! From devices to an open store, and from blank devices to an empty store.
//!
//! * Begin with `phases`: an opening, from the superblocks to the free blocks. `replay` is its part about the log,
//!   `building` its end, `io` makes its requests, `error` has the reasons why a store does not open.
//! * `device_labels` tells whether the devices belong together, `tree_loading` finds the blocks of the metadata tree,
//!   `counting` learns which blocks are free.
//! * `losses` says what damaged metadata held; `mending` clears away what the lost parts leave behind.
//! * `format` makes devices an empty store.

mod building;
mod counting;
mod device_labels;
mod error;
mod format;
mod io;
pub(crate) mod losses;
pub(crate) mod mending;
mod phases;
mod replay;
mod tree_loading;

pub use error::OpenError;
pub use format::FormatError;
pub use losses::Loss;
pub use mending::{LostLog, LostObject, Mended};
pub use phases::Opening;
