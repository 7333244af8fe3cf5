//! Tree and overlay as one map.

use super::child::Root;
use super::damage::Damage;
use super::overlay::{Overlay, Said};
use super::page::{LeafValue, Page};
use super::page_cache::{Fetch, PageCache};
use bytes::Bytes;

/// The parts that a lookup looks through.
#[derive(Debug)]
pub struct View<'a> {
    pub root: Option<Root>,
    pub overlay: &'a Overlay,
    pub cache: &'a mut PageCache,
}

impl View<'_> {
    /// Returns the value of a key. It shares memory with its page: a caller that keeps a short value for long should
    /// copy it. Errors: a page on the way, or the value's own blocks, cannot be used.
    pub fn get(&mut self, key: &[u8]) -> Result<Fetch<Option<Bytes>>, Damage> {
        match self.overlay.says(key) {
            Said::Put(value) => Ok(Fetch::Ready(Some(value))),
            Said::Deleted => Ok(Fetch::Ready(None)),
            Said::Nothing => Ok(match leaf_of(self.root, self.cache, key)? {
                Fetch::Ready(Some((page, index))) => match page.value(index) {
                    LeafValue::Inline(_) => Fetch::Ready(Some(page.value_bytes(index))),
                    LeafValue::Overflow(_) => match page.overflow_at(index).fetch(self.cache)? {
                        Fetch::Ready(value) => Fetch::Ready(Some(value)),
                        Fetch::Pending(id) => Fetch::Pending(id),
                    },
                },
                Fetch::Ready(None) => Fetch::Ready(None),
                Fetch::Pending(id) => Fetch::Pending(id),
            }),
        }
    }

    /// Returns the length of a key's value without reading the value; 0 if there is none. Errors: a page on the way
    /// cannot be used.
    pub fn value_len(&mut self, key: &[u8]) -> Result<Fetch<usize>, Damage> {
        match self.overlay.says(key) {
            Said::Put(value) => Ok(Fetch::Ready(value.len())),
            Said::Deleted => Ok(Fetch::Ready(0)),
            Said::Nothing => Ok(match leaf_of(self.root, self.cache, key)? {
                Fetch::Ready(found) => Fetch::Ready(found.map_or(0, |(page, index)| page.value_len(index))),
                Fetch::Pending(id) => Fetch::Pending(id),
            }),
        }
    }
}

/// Returns the leaf that holds a key, and the entry's index in it.
fn leaf_of(root: Option<Root>, cache: &mut PageCache, key: &[u8]) -> Result<Fetch<Option<(Page, usize)>>, Damage> {
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
        return Ok(Fetch::Ready(page.find(key).map(|index| (page.clone(), index))));
    }
}
