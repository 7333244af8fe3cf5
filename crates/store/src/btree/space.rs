//! Where a merge gets its blocks.

use crate::space::run::Run;

/// Free blocks for a merge. What is handed out must be free in the tree that is being replaced, too.
pub trait Space {
    /// Takes a run of `min` to `wanted` blocks, as long as it can. `None` if there is none of `min`.
    fn allocate(&mut self, min: u32, wanted: u32) -> Option<Run>;

    /// Takes back blocks that were handed out and not written.
    fn release(&mut self, run: Run);
}
