//! `ceph osd status`: the fullness of each OSD, and its client I/O.

use super::command::Command;
use super::context::Context;
use super::osd_dump::state_names;
use super::text_table::TextTable;
use super::{Answer, crush_tree, refuse, units};
use crate::volatile::IoRates;
use serde_json::{Value, json};
use types::{Errno, OsdId};

pub(super) const COMMANDS: &[Command] = &[Command::new(
    "osd status {bucket:String,req=false}",
    "r",
    "print how full OSDs are, and the rates of clients' operations on groups that they lead",
    status,
)];

/// Characters of a number.
const WIDTH: usize = 5;

fn status(c: &Context<'_>) -> Answer {
    let below = match c.args.text("bucket") {
        None => None,
        Some(name) => match c.crush().id(name) {
            None => return refuse(Errno::ENOENT, format!("Bucket '{name}' not found")),
            Some(root) => Some(crush_tree::ids_from(c.crush(), root)),
        },
    };
    let osds = c.map().osds().filter(|(id, _)| below.as_ref().is_none_or(|below| below.contains(&id.0)));
    let rows: Vec<OsdRow> = osds
        .map(|(id, osd)| {
            let stats = c.volatile.osds.get(&id).map(|osd| osd.stats).unwrap_or_default();
            OsdRow {
                id,
                host: c.host_name(id).unwrap_or_default().to_owned(),
                used_bytes: stats.total_bytes.saturating_sub(stats.free_bytes),
                free_bytes: stats.free_bytes,
                rates: c.volatile.osd_rates.get(&id).copied().unwrap_or_default(),
                state: state_names(osd.state),
            }
        })
        .collect();
    let text = || {
        let numbers = ["USED", "AVAIL", "WR OPS", "WR DATA", "RD OPS", "RD DATA"].map(|heading| (heading, 'r'));
        let columns = [&[("ID", 'r'), ("HOST", 'l')][..], &numbers, &[("STATE", 'l')]].concat();
        let mut table = TextTable::with_columns(&columns);
        rows.iter().for_each(|row| table.row(row.cells()));
        // Every column has two blanks behind it.
        table.render(true).lines().map(|line| format!("{line}  \n")).collect()
    };
    c.either(text, || json!({"OSDs": rows.iter().map(OsdRow::value).collect::<Vec<_>>()}))
}

/// One OSD's line.
struct OsdRow {
    id: OsdId,
    host: String,
    used_bytes: u64,
    free_bytes: u64,
    rates: IoRates,
    state: Vec<&'static str>,
}

impl OsdRow {
    fn cells(&self) -> Vec<String> {
        let bytes = |n: f64| units::fixed(n, WIDTH, 1024);
        let count = |n: f64| units::fixed(n, WIDTH, 1000);
        vec![
            self.id.0.to_string(),
            self.host.clone(),
            bytes(self.used_bytes as f64),
            bytes(self.free_bytes as f64),
            count(self.rates.write_ops),
            bytes(self.rates.write_bytes),
            count(self.rates.read_ops),
            bytes(self.rates.read_bytes),
            self.state.join(","),
        ]
    }

    fn value(&self) -> Value {
        json!({
            "id": self.id.0,
            "host name": self.host,
            "kb used": self.used_bytes / 1024,
            "kb available": self.free_bytes / 1024,
            "write ops rate": self.rates.write_ops,
            "write byte rate": self.rates.write_bytes,
            "read ops rate": self.rates.read_ops,
            "read byte rate": self.rates.read_bytes,
            "state": self.state,
        })
    }
}
