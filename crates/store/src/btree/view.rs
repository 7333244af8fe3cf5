//! Tree and overlay seen as one map.

use super::child::Root;
use super::damage::Damage;
use super::overlay::{Overlay, Said};
use super::page::LeafValue;
use super::page_cache::{Fetch, PageCache};
use bytes::Bytes;

/// What a lookup looks through.
#[derive(Debug)]
pub struct View<'a> {
    pub root: Option<Root>,
    pub overlay: &'a Overlay,
    pub cache: &'a mut PageCache,
}

impl View<'_> {
    /// The value of a key. It shares memory with its page: who keeps a short one for long had better copy it. Errors: a
    /// page on the way, or the value's own blocks, cannot be used.
    pub fn get(&mut self, key: &[u8]) -> Result<Fetch<Option<Bytes>>, Damage> {
        match self.overlay.says(key) {
            Said::Put(value) => Ok(Fetch::Ready(Some(value))),
            Said::Deleted => Ok(Fetch::Ready(None)),
            Said::Nothing => get_in_tree(self.root, self.cache, key),
        }
    }
}

fn get_in_tree(root: Option<Root>, cache: &mut PageCache, key: &[u8]) -> Result<Fetch<Option<Bytes>>, Damage> {
    let Some(root) = root else { return Ok(Fetch::Ready(None)) };
    let (mut place, mut level) = (root.child.page, root.level);
    loop {
        let page = match cache.page(&place, level)? {
            Fetch::Ready(page) => page,
            Fetch::Pending(id) => return Ok(Fetch::Pending(id)),
        };
        if level > 0 {
            place = page.child(page.child_index(key)).page;
            level -= 1;
            continue;
        }
        let Some(index) = page.find(key) else { return Ok(Fetch::Ready(None)) };
        return match page.value(index) {
            LeafValue::Inline(_) => Ok(Fetch::Ready(Some(page.value_bytes(index)))),
            LeafValue::Overflow(_) => Ok(match page.overflow_at(index).fetch(cache)? {
                Fetch::Ready(value) => Fetch::Ready(Some(value)),
                Fetch::Pending(id) => Fetch::Pending(id),
            }),
        };
    }
}
