//! Tables as reference architectures have them: drives, networks and processors of a server, raw and usable capacity.

use std::collections::BTreeSet;

use ::report::{Cell, Column, Table};

use super::table::names;
use super::telemetry::Telemetry;
use super::{Figure, RunResult, Summary};
use crate::plan::Redundancy;

impl RunResult {
    /// Number of machines whose figures are summed up in a row.
    fn machines(&self) -> usize {
        let host = |(name, value): (&String, &String)| {
            (name.starts_with("agent.") && name.ends_with(".machine.host")).then(|| value.clone())
        };
        self.environment.iter().filter_map(host).collect::<BTreeSet<String>>().len().max(1)
    }

    /// The tables that have something to say.
    pub(super) fn document_tables(&self, telemetry: &[Telemetry]) -> Vec<Table> {
        let tables = [self.drive_table(telemetry), self.server_table(), self.capacity_table()];
        tables.into_iter().filter(|table| !table.is_empty()).collect()
    }

    /// Adds a row for each summary for which `cells` gives any that is known.
    fn fill(&self, table: &mut Table, cells: impl Fn(&Summary) -> Vec<Cell>) {
        for summary in self.summaries() {
            let values = cells(&summary);
            if values.iter().all(|cell| *cell == Cell::Absent) {
                continue;
            }
            let names = [&summary.workload, &summary.group, &summary.cluster].map(Cell::text);
            table.push(names.into_iter().chain(values).collect());
        }
    }

    fn figure_of(&self, summary: &Summary, name: &str) -> Option<f64> {
        self.median_figure(&summary.cluster, &summary.workload, &summary.group, name)
    }

    fn drive_table(&self, telemetry: &[Telemetry]) -> Table {
        let columns = [
            ("read", "MB/s"),
            ("request", "KB"),
            ("read takes", "ms"),
            ("written", "MB/s"),
            ("request", "KB"),
            ("write takes", "ms"),
            ("in flight", ""),
        ]
        .map(|(heading, unit)| Column::number(heading, unit));
        let caption = "Each drive that holds stores: throughput, size of a request, time of a request.";
        let mut table = Table::new("drives", caption, [names(), columns.into()].concat());
        self.fill(&mut table, |summary| {
            let of = |one: &&Telemetry| one.cluster == summary.cluster && one.workload == summary.workload;
            let drives = telemetry.iter().filter(of).map(|one| one.drives).max().unwrap_or(0).max(1) as f64;
            let cell =
                |name: &str, factor: f64| Cell::number(self.figure_of(summary, name).map(|value| value * factor));
            vec![
                cell("drive_read_bytes_per_s", 1e-6 / drives),
                cell("drive_read_request_bytes", 1e-3),
                cell("drive_read_us", 1e-3),
                cell("drive_written_bytes_per_s", 1e-6 / drives),
                cell("drive_write_request_bytes", 1e-3),
                cell("drive_write_us", 1e-3),
                cell("drive_queue", 1.0 / drives),
            ]
        });
        table
    }

    fn server_table(&self) -> Table {
        let machines = self.machines();
        let columns = [
            ("client net in", "GB/s"),
            ("client net out", "GB/s"),
            ("storage net in", "GB/s"),
            ("storage net out", "GB/s"),
            ("daemons", "cores"),
            ("user", "cores"),
            ("system", "cores"),
            ("waiting for drives", "cores"),
            ("power per throughput", "W per GB/s"),
        ]
        .map(|(heading, unit)| Column::number(heading, unit));
        let caption = match machines {
            1 => "The server: network with clients and among OSDs, processors, power.".to_owned(),
            _ => format!("Each of {machines} servers: network with clients and among OSDs, processors, power."),
        };
        let mut table = Table::new("servers", caption, [names(), columns.into()].concat());
        let share = 1.0 / machines as f64;
        self.fill(&mut table, |summary| {
            let cell =
                |name: &str, factor: f64| Cell::number(self.figure_of(summary, name).map(|value| value * factor));
            let index = Figure::ALL.iter().position(|figure| *figure == Figure::BytesPerS);
            let gb = index.and_then(|index| summary.figures[index]).map(|interval| interval.median / 1e9);
            let power = self.figure_of(summary, "power_w").zip(gb.filter(|gb| *gb > 0.0)).map(|(w, gb)| w / gb);
            vec![
                cell("client_network_in_bytes_per_s", 1e-9 * share),
                cell("client_network_out_bytes_per_s", 1e-9 * share),
                cell("storage_network_in_bytes_per_s", 1e-9 * share),
                cell("storage_network_out_bytes_per_s", 1e-9 * share),
                cell("server_cores", share),
                cell("machine_user_cores", share),
                cell("machine_system_cores", share),
                cell("machine_iowait_cores", share),
                Cell::number(power),
            ]
        });
        table
    }

    fn capacity_table(&self) -> Table {
        let columns = vec![
            Column::text("pool"),
            Column::text("protection"),
            Column::number("raw per usable", ""),
            Column::number("usable of raw", ""),
            Column::number("failures tolerated", ""),
            Column::number("placement groups", ""),
        ];
        let mut table = Table::new("capacity", "Protection of the pools that were made.", columns);
        for pool in &self.plan.pools {
            let Some((redundancy, pg_count)) = pool.to_make() else { continue };
            let (words, raw, failures) = match redundancy {
                Redundancy::Replicated { size } => {
                    (format!("{size} copies"), f64::from(size), u64::from(size.saturating_sub(1)))
                }
                Redundancy::Erasure { k, m } => {
                    (format!("erasure code {k}+{m}"), f64::from(k + m) / f64::from(k.max(1)), u64::from(m))
                }
            };
            table.push(vec![
                Cell::text(&pool.name),
                Cell::Text(words),
                Cell::Number(raw),
                Cell::Percent(100.0 / raw),
                Cell::Count(failures),
                Cell::Count(u64::from(pg_count)),
            ]);
        }
        table
    }
}
