//! The hierarchy in the order in which it is printed.

use crate::CrushMap;
use std::collections::BTreeSet;

/// Options of a walk.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TreeOptions {
    /// True to include shadow trees.
    pub shadows: bool,
}

/// One line of `osd tree` or `osd crush tree`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeItem {
    pub id: i32,
    /// The bucket it was reached from; `None` for roots.
    pub parent: Option<i32>,
    /// Number of buckets above it; 0 for roots.
    pub depth: usize,
    /// Weight in 16.16; a root's own weight, else the weight in `parent`.
    pub weight: u32,
    /// The bucket's items in the order in which they are visited; empty for devices.
    pub children: Vec<i32>,
}

impl CrushMap {
    /// Returns every bucket and device from the roots down, in the order of Ceph's `osd tree`: roots by ascending id,
    /// items of a bucket by class and name. (Its JSON lists a bucket's children in the reverse order.)
    pub fn tree(&self, options: TreeOptions) -> Vec<TreeItem> {
        let mut out = Vec::new();
        for root in self.roots() {
            if options.shadows || !self.is_shadow(root) {
                let weight = self.item_weight(root).unwrap_or(0);
                self.walk(TreeItem { id: root, parent: None, depth: 0, weight, children: Vec::new() }, &mut out);
            }
        }
        out
    }

    /// Returns the named devices that no bucket holds, by id.
    pub fn stray_devices(&self) -> Vec<i32> {
        let linked: BTreeSet<i32> = self.devices();
        self.names.keys().copied().filter(|id| *id >= 0 && !linked.contains(id)).collect()
    }

    fn walk(&self, mut item: TreeItem, out: &mut Vec<TreeItem>) {
        let Some(bucket) = self.bucket(item.id) else {
            out.push(item);
            return;
        };
        let mut children: Vec<(String, i32, u32)> =
            bucket.weighted_items().map(|(child, weight)| (self.sort_key(child), child, weight)).collect();
        children.sort();
        item.children = children.iter().map(|(_, child, _)| *child).collect();
        let (parent, depth) = (item.id, item.depth + 1);
        out.push(item);
        for (_, id, weight) in children {
            self.walk(TreeItem { id, parent: Some(parent), depth, weight, children: Vec::new() }, out);
        }
    }

    /// Returns the key by which items are sorted: devices by class, then number; buckets by name.
    fn sort_key(&self, id: i32) -> String {
        if id >= 0 {
            format!("{}_osd.{id:08}", self.class_of(id).unwrap_or(""))
        } else {
            format!("_{}", self.name(id).unwrap_or(""))
        }
    }
}
