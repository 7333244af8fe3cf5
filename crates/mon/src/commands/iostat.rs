//! `ceph iostat`: reads and writes of all clients, a line each time that `ceph` asks.

use super::command::Command;
use super::context::Context;
use super::{Answer, pg, refuse};
use crate::volatile::IoRates;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[Command::new(
    "iostat {width:Int,req=false} {print_header:Bool,req=false}",
    "r",
    "print what clients read and write",
    iostat,
)];

/// Characters of a line where the terminal's width is not told.
const WIDTH: i64 = 80;
/// Most characters of a line.
const WIDTH_MAX: i64 = 10_000;
const HEADINGS: [&str; 6] = ["Read", "Write", "Total", "Read IOPS", "Write IOPS", "Total IOPS"];

fn iostat(c: &Context<'_>) -> Answer {
    let width = c.args.int("width").unwrap_or(WIDTH);
    // A blank and a bar end a column.
    let column = width / HEADINGS.len() as i64 - 2;
    let Some(column) = usize::try_from(column).ok().filter(|_| width <= WIDTH_MAX) else {
        let least = 2 * HEADINGS.len();
        return refuse(Errno::EINVAL, format!("width {width} is not between {least} and {WIDTH_MAX}"));
    };
    let mut out = String::new();
    if c.args.flag("print_header") {
        let rule = format!("+{}\n", format!("{}+", "-".repeat(column + 1)).repeat(HEADINGS.len()));
        out = format!("{rule}{}{rule}", row(&HEADINGS.map(str::to_owned), column));
    }
    out += &row(&cells(&pg::total_rates(c)), column);
    c.text(out)
}

fn row(cells: &[String], column: usize) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>column$} |")).collect();
    format!("|{cells}\n")
}

fn cells(rates: &IoRates) -> [String; 6] {
    let bytes = |bytes: f64| format!("{}B/s", scaled(bytes as u64));
    let count = |count: f64| (count as u64).to_string();
    [
        bytes(rates.read_bytes),
        bytes(rates.write_bytes),
        bytes(rates.read_bytes + rates.write_bytes),
        count(rates.read_ops),
        count(rates.write_ops),
        count(rates.read_ops + rates.write_ops),
    ]
}

/// Returns a number in the largest unit of which there are more than ten: `10240 `, `11 Ki`.
fn scaled(n: u64) -> String {
    let unit = [(60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let fits = unit.into_iter().find(|(bits, _)| n > 10 << bits);
    fits.map_or_else(|| format!("{n} "), |(bits, unit)| format!("{} {unit}", n >> bits))
}

#[cfg(test)]
mod tests {
    use super::super::test_cluster::TestCluster;
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_fit_the_terminal() {
        let mut cluster = TestCluster::with_osds();
        let idle = cluster.ok(json!({"prefix": "iostat"}));
        assert_eq!(idle, "|      0 B/s |      0 B/s |      0 B/s |          0 |          0 |          0 |\n");
        let narrow = cluster.ok(json!({"prefix": "iostat", "width": 20, "print_header": true}));
        let heading = "|Read |Write |Total |Read IOPS |Write IOPS |Total IOPS |\n";
        let values = "|0 B/s |0 B/s |0 B/s |0 |0 |0 |\n";
        assert_eq!(narrow, format!("+--+--+--+--+--+--+\n{heading}+--+--+--+--+--+--+\n{values}"));
        for width in [-1, 0, 11, 10_001] {
            let refused = cluster.run(json!({"prefix": "iostat", "width": width}));
            assert_eq!(refused.code, Errno::EINVAL.as_result(), "{}", refused.status);
        }
    }

    #[test]
    fn rates_have_units() {
        let texts = [0, 10 << 10, (10 << 10) + 1, 11 << 10, 10 << 20, (10 << 20) + 1, u64::MAX].map(scaled);
        assert_eq!(texts, ["0 ", "10240 ", "10 Ki", "11 Ki", "10240 Ki", "10 Mi", "15 Ei"]);
        let rates =
            IoRates { read_bytes: 2048.0, write_bytes: 40_960.0, read_ops: 3.9, write_ops: 2.0, ..IoRates::default() };
        assert_eq!(cells(&rates), ["2048 B/s", "40 KiB/s", "42 KiB/s", "3", "2", "5"]);
    }
}
