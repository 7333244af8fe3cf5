//! Opening: the blocks of the metadata tree are found.

use crate::allocator::{Run, push_run};
use crate::btree::{self, Damage, DamageKind, Depth, Found, PageCache, Walk, WalkProgress};
use crate::{Device, OpenError};

/// Pages visited at a time.
const VISITS: usize = 1000;

#[derive(Debug)]
pub(crate) struct TreeLoading {
    walk: Walk,
    /// Blocks of the tree.
    pub runs: Vec<Run>,
}

/// Why a store does not open whose tree is on its main device.
pub(crate) fn open_error(damage: Damage) -> OpenError {
    match damage.kind {
        DamageKind::Device(errno) => {
            OpenError::Device { device: Device::Main, offset: damage.run.offset_bytes(), errno }
        }
        _ => OpenError::DamagedTree(damage),
    }
}

impl TreeLoading {
    pub fn new(root: Option<btree::Root>) -> TreeLoading {
        TreeLoading { walk: Walk::new(root, Depth::Space), runs: Vec::new() }
    }

    /// Goes on as far as what was read allows; whether all is done.
    pub fn advance(&mut self, cache: &mut PageCache) -> Result<bool, OpenError> {
        loop {
            let (runs, mut damaged) = (&mut self.runs, None);
            let progress = self.walk.step(cache, VISITS, &mut |found| match found {
                Found::Page { run, .. } | Found::Overflow { run } => push_run(runs, run),
                Found::Damage(damage) => drop(damaged.get_or_insert(damage)),
            });
            if let Some(damage) = damaged {
                return Err(open_error(damage));
            }
            match progress {
                WalkProgress::Working => {}
                WalkProgress::Waiting(_) => return Ok(false),
                WalkProgress::Done => return Ok(true),
            }
        }
    }
}
