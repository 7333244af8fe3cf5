//! The CRUSH hierarchy as tables and values: the frame of `osd tree`, `osd df tree` and `osd crush tree`.

use super::context::weight;
use super::weight_sets;
use crush::{CrushMap, TreeItem, TreeOptions};
use osdmap::OsdMap;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use types::OsdId;

/// Returns the ids of an item and of all items below it.
pub(super) fn ids_from(crush: &CrushMap, root: i32) -> BTreeSet<i32> {
    nodes(crush, TreeOptions::default(), Some(root)).iter().map(|node| node.id).collect()
}

/// One line of a tree.
pub(super) struct Node<'a> {
    pub id: i32,
    pub depth: usize,
    /// The weight in 16.16 fixed point.
    pub weight: u32,
    pub name: String,
    pub type_name: &'a str,
    pub type_id: u16,
    pub class: Option<&'a str>,
    /// Children in the order of Ceph's JSON, which is from the last to the first.
    pub children: Vec<i32>,
    pub parent: Option<i32>,
}

impl Node<'_> {
    pub fn osd(&self) -> Option<OsdId> {
        (self.id >= 0).then_some(OsdId(self.id))
    }

    /// Returns the last column of trees: `    host a`, `        osd.0`.
    pub fn label(&self) -> String {
        let indent = "    ".repeat(self.depth);
        if self.id < 0 { format!("{indent}{} {}", self.type_name, self.name) } else { format!("{indent}{}", self.name) }
    }

    /// Returns the item's weights in a weight set, one for each place in the result; `None` for roots, and where the
    /// set has none.
    pub fn weights_in(&self, crush: &CrushMap, index: i64) -> Option<Vec<u32>> {
        let parent = self.parent?;
        let at = crush.bucket(parent)?.items.iter().position(|item| *item == self.id)?;
        let (_, sets) = crush.choose_args().find(|(other, _)| *other == index)?;
        let arg = sets.get(parent).filter(|arg| !arg.weight_sets.is_empty())?;
        arg.weight_sets.iter().map(|set| set.get(at).copied()).collect()
    }

    /// Returns the members that every tree shows of an item.
    pub fn value(&self, map: &OsdMap) -> Map<String, Value> {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
        put("id", json!(self.id));
        if let Some(class) = self.class {
            put("device_class", json!(class));
        }
        put("name", json!(self.name));
        put("type", json!(self.type_name));
        put("type_id", json!(self.type_id));
        if self.id >= 0 {
            put("crush_weight", json!(weight(self.weight)));
            put("depth", json!(self.depth));
        }
        if self.parent.is_some() {
            let of_set = |index: i64| {
                let weights = self.weights_in(&map.crush, index)?;
                let weights: Vec<f64> = weights.into_iter().map(weight).collect();
                Some((weight_sets::name(map, index), json!(weights)))
            };
            let sets = map.crush.choose_args().filter_map(|(index, _)| of_set(index));
            put("pool_weights", Value::Object(sets.collect()));
        }
        object
    }
}

/// Returns the trees from the roots down, or the one below `from`.
pub(super) fn nodes(crush: &CrushMap, options: TreeOptions, from: Option<i32>) -> Vec<Node<'_>> {
    let all = crush.tree(options);
    let items = match from {
        None => all,
        Some(root) => {
            let Some(start) = all.iter().position(|item| item.id == root) else { return Vec::new() };
            let base = all[start].depth;
            let below = all[start + 1..].iter().take_while(|item| item.depth > base).count();
            let mut items = all[start..=start + below].to_vec();
            items.iter_mut().for_each(|item| item.depth -= base);
            items[0].parent = None;
            items
        }
    };
    items.into_iter().map(|item| node(crush, item)).collect()
}

fn node(crush: &CrushMap, item: TreeItem) -> Node<'_> {
    let id = item.id;
    let type_id = if id < 0 { crush.kind(id).unwrap_or(0) } else { 0 };
    let name = crush.name(id).map_or_else(|| if id < 0 { String::new() } else { format!("osd.{id}") }, str::to_owned);
    let class = match id < 0 {
        true => name.split_once('~').and_then(|(_, class)| crush.classes().map(|(_, name)| name).find(|n| *n == class)),
        false => crush.class_of(id),
    };
    let mut children = item.children;
    children.reverse();
    Node {
        id,
        depth: item.depth,
        weight: item.weight,
        name,
        type_name: crush.type_name(type_id).unwrap_or("unknown"),
        type_id,
        class,
        children,
        parent: item.parent,
    }
}

/// Returns OSDs that exist but stand nowhere in the hierarchy.
pub(super) fn strays(crush: &CrushMap, osds: impl Iterator<Item = OsdId>) -> Vec<Node<'_>> {
    let placed: BTreeSet<i32> = crush.devices();
    let stray = |osd: OsdId| Node {
        id: osd.0,
        depth: 0,
        weight: 0,
        name: osd.to_string(),
        type_name: crush.type_name(0).unwrap_or("osd"),
        type_id: 0,
        class: crush.class_of(osd.0),
        children: Vec::new(),
        parent: None,
    };
    osds.filter(|osd| !placed.contains(&osd.0)).map(stray).collect()
}

/// Leaves out devices that `keep` does not want, and then buckets without any device left.
pub(super) fn prune<'a>(nodes: Vec<Node<'a>>, keep: impl Fn(OsdId) -> bool) -> Vec<Node<'a>> {
    let mut kept: BTreeSet<i32> = BTreeSet::new();
    for node in nodes.iter().rev() {
        let wanted = match node.osd() {
            Some(osd) => keep(osd),
            None => node.children.iter().any(|child| kept.contains(child)),
        };
        if wanted {
            kept.insert(node.id);
        }
    }
    let mut nodes: Vec<_> = nodes.into_iter().filter(|node| kept.contains(&node.id)).collect();
    for node in &mut nodes {
        node.children.retain(|child| kept.contains(child));
    }
    nodes
}
