//! Upper bounds of the size of a range of keys, from memory alone.

use super::child::{Child, Root};
use super::page::Page;
use super::page_cache::{Fetch, PageCache};

/// Maximum number of interior pages looked at. A range that needs more counts as large.
const PAGES_MAX: u32 = 64;

/// Returns an upper bound of the number of leaves with entries of `begin .. end`. `None`: the answer needs reads or
/// many pages, or some values may lie outside of leaves.
pub(crate) fn leaves_max(root: Option<Root>, cache: &mut PageCache, begin: &[u8], end: &[u8]) -> Option<u64> {
    let Some(root) = root else { return Some(0) };
    let mut looked_at = 0;
    leaves_below(root.child, root.level, cache, begin, end, &mut looked_at)
}

fn leaves_below(
    child: Child,
    level: u8,
    cache: &mut PageCache,
    begin: &[u8],
    end: &[u8],
    looked_at: &mut u32,
) -> Option<u64> {
    if level == 0 {
        return (!child.overflow).then_some(1);
    }
    *looked_at += 1;
    if *looked_at > PAGES_MAX {
        return None;
    }
    let children: Vec<Child> = match cache.page(&child.page, level) {
        Ok(Fetch::Ready(page)) => children_of(page, begin, end),
        Ok(Fetch::Pending(_)) | Err(_) => return None,
    };
    children.into_iter().map(|child| leaves_below(child, level - 1, cache, begin, end, looked_at)).sum()
}

fn children_of(page: &Page, begin: &[u8], end: &[u8]) -> Vec<Child> {
    (page.child_index(begin)..=page.child_index(end)).map(|index| page.child(index)).collect()
}
