//! `ceph osd tree`, `ceph osd tree-from`, `ceph osd ls-tree`: OSDs' places and states.

use super::command::Command;
use super::context::{Context, weight, weight_text};
use super::crush_tree::{self, Node};
use super::text_table::TextTable;
use super::{Answer, Reply, refuse};
use crush::TreeOptions;
use osdmap::OsdMap;
use serde_json::{Value, json};
use std::sync::Arc;
use types::{Epoch, Errno, OsdId};
use wire::Decode;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "osd tree {epoch:Int,range=0,req=false} {states:Choices,n=N,req=false,strings=up|down|in|out|destroyed}",
        "r",
        "print the hierarchy with the state of each OSD",
        tree,
    ),
    Command::new(
        "osd tree-from {epoch:Int,range=0,req=false} {bucket:String} \
         {states:Choices,n=N,req=false,strings=up|down|in|out|destroyed}",
        "r",
        "print the hierarchy below a bucket",
        tree_from,
    ),
    Command::new(
        "osd ls-tree {epoch:Int,range=0,req=false} {name:String,req=true}",
        "r",
        "list the OSDs below a bucket",
        list_below,
    ),
];

/// Returns the map of the epoch asked for, or the newest.
pub(super) fn map_at(c: &Context<'_>) -> Result<Arc<OsdMap>, Reply> {
    let current = c.state.osdmaps.current();
    let Some(epoch) = c.args.int("epoch").filter(|epoch| *epoch != i64::from(current.epoch.0)) else {
        return Ok(current.clone());
    };
    let none = || Reply::error(Errno::ENOENT, format!("there is no map for epoch {epoch}"));
    let epoch = u32::try_from(epoch).map(Epoch).map_err(|_| none())?;
    let full = c.state.osdmaps.full(epoch).ok_or_else(none)?;
    Ok(Arc::new(OsdMap::from_slice(&full).expect("a map that was kept decodes")))
}

/// Returns a test of one OSD that implements `states`.
fn filter<'a>(c: &Context<'_>, map: &'a OsdMap) -> Result<impl Fn(OsdId) -> bool + use<'a>, Reply> {
    let states: Vec<String> = c.args.texts("states").iter().map(|state| (*state).to_owned()).collect();
    let count = |names: &[&str]| names.iter().filter(|name| states.iter().any(|state| state == **name)).count();
    if count(&["up", "down", "destroyed"]) > 1 {
        return refuse(Errno::EINVAL, "can specify only one of 'up', 'down' and 'destroyed'");
    }
    if count(&["in", "out"]) > 1 {
        return refuse(Errno::EINVAL, "can specify only one of 'in' and 'out'");
    }
    Ok(move |osd: OsdId| {
        states.iter().all(|state| match state.as_str() {
            "up" => map.is_up(osd),
            "down" => map.exists(osd) && map.is_down(osd) && !map.is_destroyed(osd),
            "destroyed" => map.is_destroyed(osd),
            "in" => map.is_in(osd),
            "out" => map.exists(osd) && map.is_out(osd),
            _ => false,
        })
    })
}

/// Returns `up`, `down`, `destroyed` or `DNE`, "does not exist".
pub(super) fn status(map: &OsdMap, osd: OsdId) -> &'static str {
    match () {
        () if !map.exists(osd) => "DNE",
        () if map.is_destroyed(osd) => "destroyed",
        () if map.is_up(osd) => "up",
        () => "down",
    }
}

pub(super) fn affinity(map: &OsdMap, osd: OsdId) -> f64 {
    weight(map.primary_affinity(osd))
}

fn tree(c: &Context<'_>) -> Answer {
    let map = map_at(c)?;
    let keep = filter(c, &map)?;
    let all = c.args.texts("states").is_empty();
    let mut nodes = crush_tree::nodes(&map.crush, TreeOptions::default(), None);
    if !all {
        nodes = crush_tree::prune(nodes, &keep);
    }
    let mut strays = crush_tree::strays(&map.crush, map.osds().map(|(id, _)| id));
    strays.retain(|node| node.osd().is_some_and(&keep));
    let value = || {
        let values = |nodes: &[Node<'_>]| nodes.iter().map(|node| node_value(&map, node)).collect::<Vec<_>>();
        json!({"nodes": values(&nodes), "stray": values(&strays)})
    };
    c.either(|| table(&map, nodes.iter().chain(&strays)), value)
}

fn tree_from(c: &Context<'_>) -> Answer {
    let map = map_at(c)?;
    let bucket = c.args.word("bucket");
    let Some(root) = map.crush.id(bucket) else {
        return refuse(Errno::ENOENT, format!("bucket '{bucket}' does not exist"));
    };
    if root >= 0 {
        return refuse(Errno::EINVAL, format!("\"{bucket}\" is not a bucket"));
    }
    let keep = filter(c, &map)?;
    let mut nodes = crush_tree::nodes(&map.crush, TreeOptions::default(), Some(root));
    if !c.args.texts("states").is_empty() {
        nodes = crush_tree::prune(nodes, &keep);
    }
    let value = || json!({"nodes": nodes.iter().map(|node| node_value(&map, node)).collect::<Vec<_>>()});
    c.either(|| table(&map, nodes.iter()), value)
}

fn table<'a>(map: &OsdMap, nodes: impl Iterator<Item = &'a Node<'a>>) -> String {
    let columns =
        [("ID", 'R'), ("CLASS", 'R'), ("WEIGHT", 'R'), ("TYPE NAME", 'l'), ("STATUS", 'R'), ("REWEIGHT", 'R')];
    let columns = [&columns[..], &[("PRI-AFF", 'R')]].concat();
    let mut table = TextTable::with_columns(&columns);
    for node in nodes {
        let of_osd = |text: &dyn Fn(OsdId) -> String| node.osd().map(text).unwrap_or_default();
        let existing = |text: String, osd| if map.exists(osd) { text } else { "0".to_owned() };
        table.row(vec![
            node.id.to_string(),
            node.class.unwrap_or_default().to_owned(),
            weight_text(weight(node.weight)),
            node.label(),
            of_osd(&|osd| status(map, osd).to_owned()),
            of_osd(&|osd| existing(weight_text(weight(map.weight(osd))), osd)),
            of_osd(&|osd| existing(weight_text(affinity(map, osd)), osd)),
        ]);
    }
    table.render(true)
}

fn node_value(map: &OsdMap, node: &Node<'_>) -> Value {
    let mut object = node.value(map);
    match node.osd() {
        Some(osd) => {
            object.insert("exists".to_owned(), json!(i32::from(map.exists(osd))));
            object.insert("status".to_owned(), json!(status(map, osd)));
            object.insert("reweight".to_owned(), json!(weight(map.weight(osd))));
            object.insert("primary_affinity".to_owned(), json!(affinity(map, osd)));
        }
        None => drop(object.insert("children".to_owned(), json!(node.children))),
    }
    Value::Object(object)
}

fn list_below(c: &Context<'_>) -> Answer {
    let map = map_at(c)?;
    let name = c.args.word("name");
    let Some(root) = map.crush.id(name) else {
        return refuse(Errno::ENOENT, format!("\"{name}\" does not exist"));
    };
    let mut osds = map.crush.leaves(root);
    osds.sort_unstable();
    osds.dedup();
    c.either(|| osds.iter().map(|osd| format!("{osd}\n")).collect(), || json!(osds))
}
