//! The source of a merge's blocks.

use crate::space::run::Run;

/// Free blocks for a merge. Blocks that are handed out must also be free in the tree that is being replaced.
pub trait Space {
    /// Takes a run of `min` to `wanted` blocks, as long as possible. Returns `None` if there is no run of `min` blocks.
    fn allocate(&mut self, min: u32, wanted: u32) -> Option<Run>;

    /// Takes back blocks that were handed out and not written.
    fn release(&mut self, run: Run);
}
