//! `ceph osd df`: the fullness of each OSD.

use super::command::Command;
use super::context::{Context, weight, weight_text};
use super::crush_tree::{self, Node};
use super::text_table::TextTable;
use super::{Answer, Reply, osd_tree, units};
use crush::TreeOptions;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, OsdId};
use wire::nacre::mon::OsdStats;

pub(super) const COMMANDS: &[Command] = &[Command::new(
    "osd df {output_method:Choices,req=false,strings=plain|tree} {filter_by:Choices,req=false,strings=class|name} \
     {filter:String,req=false}",
    "r",
    "print how full each OSD is",
    df,
)];

/// Space of one OSD or of all below a bucket, in bytes.
#[derive(Clone, Copy, Default)]
struct Space {
    total: u64,
    used: u64,
    data: u64,
    omap: u64,
    meta: u64,
    free: u64,
}

impl Space {
    fn of(stats: &OsdStats) -> Space {
        Space {
            total: stats.total_bytes,
            used: stats.total_bytes.saturating_sub(stats.free_bytes),
            data: stats.data_bytes,
            omap: stats.omap_bytes,
            meta: stats.metadata_bytes,
            free: stats.free_bytes,
        }
    }

    fn add(&mut self, other: &Space) {
        self.total = self.total.saturating_add(other.total);
        self.used = self.used.saturating_add(other.used);
        self.data = self.data.saturating_add(other.data);
        self.omap = self.omap.saturating_add(other.omap);
        self.meta = self.meta.saturating_add(other.meta);
        self.free = self.free.saturating_add(other.free);
    }

    /// Returns the used share in percent.
    fn utilization(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.used as f64 * 100.0 / self.total as f64 }
    }
}

/// Figures that all lines are compared with.
struct Summary {
    total: Space,
    /// Average use in percent.
    average: f64,
    min_var: f64,
    max_var: f64,
    deviation: f64,
}

struct Report<'a> {
    c: &'a Context<'a>,
    nodes: Vec<Node<'a>>,
    strays: Vec<Node<'a>>,
    space: BTreeMap<i32, Space>,
    pgs: BTreeMap<OsdId, u64>,
    summary: Summary,
}

fn df(c: &Context<'_>) -> Answer {
    let tree = c.args.text("output_method") == Some("tree");
    let wanted = wanted(c)?;
    let mut nodes = crush_tree::nodes(c.crush(), TreeOptions::default(), None);
    let mut strays = crush_tree::strays(c.crush(), c.map().osds().map(|(id, _)| id));
    if let Some(wanted) = &wanted {
        // A bucket above the wanted ones is not printed, unless all below it is.
        nodes = crush_tree::prune(nodes, |osd| wanted.contains(&osd.0));
        nodes.retain(|node| node.id >= 0 || wanted.contains(&node.id));
        let top = nodes.iter().map(|node| node.depth).min().unwrap_or(0);
        if c.args.text("filter_by") == Some("name") && tree {
            nodes.iter_mut().for_each(|node| node.depth -= top);
        }
        strays.retain(|node| wanted.contains(&node.id));
    }
    if !tree {
        nodes.retain(|node| node.id >= 0);
        nodes.sort_by_key(|node| node.id);
        nodes.dedup_by_key(|node| node.id);
    }
    let report = Report::new(c, nodes, strays);
    c.either(|| report.text(tree), || report.value())
}

/// Returns the items that the filter leaves, or `None` for all.
fn wanted(c: &Context<'_>) -> Result<Option<BTreeSet<i32>>, Reply> {
    let Some(filter) = c.args.text("filter") else {
        return Ok(None);
    };
    let none = || Reply::error(Errno::EINVAL, format!("'{filter}' not a pool, crush node or device class name"));
    if c.args.text("filter_by") == Some("class") {
        if c.crush().class_id(filter).is_none() {
            return Err(none());
        }
        return Ok(Some(c.crush().devices_of_class(filter)));
    }
    if let Some(pool) = c.map().pool_by_name(filter).and_then(|id| c.map().pool(id)) {
        return Ok(Some(c.crush().rule_weights(pool.crush_rule.into()).keys().copied().collect()));
    }
    let root = c.crush().id(filter).ok_or_else(none)?;
    Ok(Some(crush_tree::ids_from(c.crush(), root)))
}

impl<'a> Report<'a> {
    fn new(c: &'a Context<'a>, nodes: Vec<Node<'a>>, strays: Vec<Node<'a>>) -> Report<'a> {
        let mut space: BTreeMap<i32, Space> = BTreeMap::new();
        let mut total = Space::default();
        let osds: BTreeSet<OsdId> = nodes.iter().chain(&strays).filter_map(Node::osd).collect();
        for osd in &osds {
            let one = c.volatile.osds.get(osd).map(|stat| Space::of(&stat.stats)).unwrap_or_default();
            total.add(&one);
            space.insert(osd.0, one);
        }
        for node in nodes.iter().filter(|node| node.id < 0) {
            let mut sum = Space::default();
            let leaves: BTreeSet<i32> = c.crush().leaves(node.id).into_iter().collect();
            leaves.iter().filter_map(|osd| space.get(osd)).for_each(|one| sum.add(one));
            space.insert(node.id, sum);
        }
        let mut pgs: BTreeMap<OsdId, u64> = BTreeMap::new();
        for pg in c.volatile.pgs.values() {
            let members: BTreeSet<OsdId> = pg.report.up.iter().chain(pg.acting_shown(c.map())).copied().collect();
            members.into_iter().filter(|osd| osd.is_some()).for_each(|osd| *pgs.entry(osd).or_default() += 1);
        }
        let summary = Summary::new(c, total, &osds, &space);
        Report { c, nodes, strays, space, pgs, summary }
    }

    fn var(&self, space: &Space) -> f64 {
        if self.summary.average == 0.0 { 1.0 } else { space.utilization() / self.summary.average }
    }

    fn text(&self, tree: bool) -> String {
        let headings = [
            "ID", "CLASS", "WEIGHT", "REWEIGHT", "SIZE", "RAW USE", "DATA", "OMAP", "META", "AVAIL", "%USE", "VAR",
            "PGS", "STATUS",
        ];
        let mut columns: Vec<(&str, char)> = headings.iter().map(|heading| (*heading, 'R')).collect();
        if tree {
            columns.push(("TYPE NAME", 'l'));
        }
        let mut table = TextTable::with_columns(&columns);
        for node in self.nodes.iter().chain(&self.strays) {
            let space = &self.space[&node.id];
            let osd = node.osd();
            let map = self.c.map();
            let reweight = osd.map_or_else(|| "-".to_owned(), |osd| weight_text(weight(map.weight(osd))));
            let mut cells = vec![
                node.id.to_string(),
                node.class.unwrap_or_default().to_owned(),
                weight_text(weight(node.weight)),
                reweight,
            ];
            cells.extend(space_cells(space));
            cells.push(two_digits(space.utilization()));
            cells.push(two_digits(self.var(space)));
            cells.push(osd.map_or_else(|| "-".to_owned(), |osd| self.pg_count(osd).to_string()));
            cells.push(osd.map(|osd| osd_tree::status(map, osd).to_owned()).unwrap_or_default());
            if tree {
                cells.push(node.label());
            }
            table.row(cells);
        }
        let mut total = vec![String::new(), String::new(), String::new(), "TOTAL".to_owned()];
        total.extend(space_cells(&self.summary.total));
        total.push(two_digits(self.summary.average));
        total.resize(columns.len(), String::new());
        table.row(total);
        let Summary { min_var, max_var, deviation, .. } = self.summary;
        let (min, max) = (two_digits(min_var), two_digits(max_var));
        format!("{}MIN/MAX VAR: {min}/{max}  STDDEV: {}\n", table.render(true), two_digits(deviation))
    }

    fn pg_count(&self, osd: OsdId) -> u64 {
        self.pgs.get(&osd).copied().unwrap_or(0)
    }

    fn value(&self) -> Value {
        let values = |nodes: &[Node<'_>]| nodes.iter().map(|node| self.node_value(node)).collect::<Vec<_>>();
        let Summary { total, average, min_var, max_var, deviation } = &self.summary;
        json!({
            "nodes": values(&self.nodes),
            "stray": values(&self.strays),
            "summary": {
                "total_kb": total.total / 1024,
                "total_kb_used": total.used / 1024,
                "total_kb_used_data": total.data / 1024,
                "total_kb_used_omap": total.omap / 1024,
                "total_kb_used_meta": total.meta / 1024,
                "total_kb_avail": total.free / 1024,
                "average_utilization": average,
                "min_var": min_var,
                "max_var": max_var,
                "dev": deviation,
            },
        })
    }

    fn node_value(&self, node: &Node<'_>) -> Value {
        let space = &self.space[&node.id];
        let osd = node.osd();
        let mut object = node.value(self.c.map());
        let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
        put("reweight", osd.map_or(json!(-1), |osd| json!(weight(self.c.map().weight(osd)))));
        put("kb", json!(space.total / 1024));
        put("kb_used", json!(space.used / 1024));
        put("kb_used_data", json!(space.data / 1024));
        put("kb_used_omap", json!(space.omap / 1024));
        put("kb_used_meta", json!(space.meta / 1024));
        put("kb_avail", json!(space.free / 1024));
        put("utilization", json!(space.utilization()));
        put("var", json!(self.var(space)));
        put("pgs", json!(osd.map_or(0, |osd| self.pg_count(osd))));
        match osd {
            Some(osd) => put("status", json!(osd_tree::status(self.c.map(), osd))),
            None => put("children", json!(node.children)),
        }
        Value::Object(object)
    }
}

impl Summary {
    fn new(c: &Context<'_>, total: Space, osds: &BTreeSet<OsdId>, space: &BTreeMap<i32, Space>) -> Summary {
        let average = total.utilization();
        // OSDs that take no data do not count.
        let counted = osds.iter().filter(|osd| c.map().is_in(**osd)).map(|osd| &space[&osd.0]);
        let (mut min_var, mut max_var) = (f64::INFINITY, 0.0f64);
        let (mut squares, mut weights) = (0.0, 0.0);
        for (one, osd) in counted.zip(osds.iter().filter(|osd| c.map().is_in(**osd))) {
            let var = if average == 0.0 { 1.0 } else { one.utilization() / average };
            (min_var, max_var) = (min_var.min(var), max_var.max(var));
            let w = weight(c.map().weight(*osd));
            squares += w * (one.utilization() - average).powi(2);
            weights += w;
        }
        let deviation = if weights == 0.0 { 0.0 } else { (squares / weights).sqrt() };
        Summary { total, average, min_var: if min_var.is_finite() { min_var } else { 0.0 }, max_var, deviation }
    }
}

fn space_cells(space: &Space) -> [String; 6] {
    [space.total, space.used, space.data, space.omap, space.meta, space.free].map(units::bytes)
}

fn two_digits(f: f64) -> String {
    if f == 0.0 { "0".to_owned() } else { format!("{f:.2}") }
}
