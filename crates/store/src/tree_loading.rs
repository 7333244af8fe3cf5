//! Opening: the metadata tree is read into memory, and its blocks are found.

use crate::allocator::{Run, push_run};
use crate::btree::{
    self, Cursor, Damage, DamageKind, Depth, Fetch, Found, Overlay, PageCache, View, Walk, WalkProgress,
};
use crate::checkpoint::CACHE_BYTES;
use crate::state::State;
use crate::{Device, OpenError};

/// Entries taken in at a time, and their bytes.
const ENTRIES: usize = 1000;
const ENTRY_BYTES: usize = 1 << 20;
/// Pages visited at a time.
const VISITS: usize = 1000;

#[derive(Debug)]
pub(crate) struct TreeLoading {
    /// Where the tree is.
    device: Device,
    pub root: Option<btree::Root>,
    pub cache: PageCache,
    /// Finding the tree's blocks, until that is done.
    walk: Option<Walk>,
    cursor: Cursor,
    /// Nothing in it: changes are replayed when the tree is there.
    overlay: Overlay,
    /// Blocks of the tree.
    pub runs: Vec<Run>,
}

fn open_error(damage: Damage, device: Device) -> OpenError {
    match damage.kind {
        DamageKind::Device(errno) => OpenError::Device { device, offset: damage.run.offset_bytes(), errno },
        _ => OpenError::DamagedTree(damage),
    }
}

impl TreeLoading {
    pub fn new(root: Option<btree::Root>, tag: u64, device: Device) -> TreeLoading {
        TreeLoading {
            device,
            root,
            cache: PageCache::new(tag, CACHE_BYTES),
            walk: Some(Walk::new(root, Depth::Space)),
            cursor: Cursor::new(&[], None, true),
            overlay: Overlay::default(),
            runs: Vec::new(),
        }
    }

    /// Goes on as far as what was read allows; whether all is done.
    pub fn advance(&mut self, state: &mut State) -> Result<bool, OpenError> {
        while let Some(walk) = &mut self.walk {
            let (runs, mut damaged) = (&mut self.runs, None);
            let progress = walk.step(&mut self.cache, VISITS, &mut |found| match found {
                Found::Page { run, .. } | Found::Overflow { run } => push_run(runs, run),
                Found::Damage(damage) => drop(damaged.get_or_insert(damage)),
            });
            if let Some(damage) = damaged {
                return Err(open_error(damage, self.device));
            }
            match progress {
                WalkProgress::Working => {}
                WalkProgress::Waiting(_) => return Ok(false),
                WalkProgress::Done => self.walk = None,
            }
        }
        loop {
            let view = &mut View { root: self.root, overlay: &self.overlay, cache: &mut self.cache };
            match self.cursor.next_page(view, ENTRIES, ENTRY_BYTES).map_err(|damage| open_error(damage, self.device))? {
                Fetch::Pending(_) => return Ok(false),
                Fetch::Ready(page) => {
                    for (key, value) in &page.entries {
                        state.restore(key, value).map_err(OpenError::CheckpointEntry)?;
                    }
                    if page.done {
                        return Ok(true);
                    }
                }
            }
        }
    }
}
