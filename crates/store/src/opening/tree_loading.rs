//! The search for the blocks of the metadata tree at an opening.

use crate::btree::{self, Damage, DamageKind, Depth, Found, PageCache, Walk, WalkProgress};
use crate::opening::losses::Loss;
use crate::space::run::{Run, push_run};
use crate::{Device, OpenError};

/// Number of pages visited at a time.
const VISITS: usize = 1000;

#[derive(Debug)]
pub(crate) struct TreeLoading {
    walk: Walk,
    /// Blocks of the tree.
    pub runs: Vec<Run>,
    /// Parts of the tree that cannot be read.
    pub losses: Vec<Loss>,
}

/// Returns the error of a store whose tree, taken to be on the main device, has this damage.
pub(crate) fn open_error(damage: Damage) -> OpenError {
    match damage.kind {
        DamageKind::Device(errno) => {
            OpenError::Device { device: Device::Main, offset: damage.run.offset_bytes(), errno }
        }
        _ => OpenError::DamagedTree(damage),
    }
}

impl TreeLoading {
    pub fn new(root: Option<btree::Root>, depth: Depth) -> TreeLoading {
        TreeLoading { walk: Walk::new(root, depth), runs: Vec::new(), losses: Vec::new() }
    }

    /// Goes on as far as the pages in memory allow. Returns true if all is done. Errors: the topmost page cannot be
    /// used, so nothing is known of the rest.
    pub fn advance(&mut self, cache: &mut PageCache) -> Result<bool, OpenError> {
        loop {
            let (runs, losses) = (&mut self.runs, &mut self.losses);
            let progress = self.walk.step(cache, VISITS, &mut |found| match found {
                Found::Page { run, .. } | Found::Overflow { run } => push_run(runs, run),
                Found::Damage(lost) => losses.push(lost.into()),
            });
            if let Some(all) = self.losses.first().filter(|loss| loss.range() == (&[], None)) {
                return Err(open_error(all.damage.clone()));
            }
            match progress {
                WalkProgress::Working => {}
                WalkProgress::Waiting(_) => return Ok(false),
                WalkProgress::Done => return Ok(true),
            }
        }
    }
}
