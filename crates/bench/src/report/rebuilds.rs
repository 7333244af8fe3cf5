//! Rebuilds in a report: how long they took, what they cost clients and the machine, and their course.

use ::report::{Axis, Block, Cell, Column, Figure as Plotted, Plot, Scale, Series, Table};

use super::plots::machine_courses;
use super::telemetry::Telemetry;
use super::{Figure, Row, RunResult};
use crate::plan::Workload;

/// Name of the workload that was measured before the first rebuild.
pub const BEFORE: &str = "before";

impl RunResult {
    /// Everything about the run's rebuilds; empty if there were none.
    pub(super) fn rebuild_blocks(&self, telemetry: &[Telemetry]) -> Vec<Block> {
        if self.rebuilds.is_empty() {
            return Vec::new();
        }
        let words = "OSDs were stopped and came back with empty stores. The clock runs from their start until every \
                     placement group was clean and no copy was missing.";
        let mut blocks = vec![Block::Prose(words.into())];
        blocks.extend(self.rebuild_tables().into_iter().map(Block::Table));
        blocks.extend(self.rebuild_figure().map(Block::Figure));
        // The course of the machine under a load stands with that of the load.
        for rebuild in self.rebuilds.iter().filter(|rebuild| !rebuild.with_load) {
            let of = |one: &&Telemetry| one.cluster == rebuild.cluster && one.workload == rebuild.name;
            blocks.extend(telemetry.iter().filter(of).flat_map(machine_courses).map(Block::Figure));
        }
        blocks
    }

    /// The tables that have something to say.
    pub(super) fn rebuild_tables(&self) -> Vec<Table> {
        let tables = [self.rebuild_table(), self.rebuild_machine_table(), self.rebuild_client_table()];
        tables.into_iter().filter(|table| !table.is_empty()).collect()
    }

    fn rebuild_table(&self) -> Table {
        let columns = vec![
            Column::text("rebuild"),
            Column::text("cluster"),
            Column::text("lost"),
            Column::text("load"),
            Column::number("fill before", ""),
            Column::number("lost data", "MB"),
            Column::number("down", "s"),
            Column::number("rebuild", "s"),
            Column::number("restored", "MB/s"),
            Column::text("end"),
        ];
        let mut table = Table::new("rebuilds", "Rebuilds.", columns);
        for rebuild in &self.rebuilds {
            table.push(vec![
                Cell::text(&rebuild.name),
                Cell::text(&rebuild.cluster),
                Cell::Text(rebuild.lost_words()),
                Cell::text(if rebuild.with_load { "with clients" } else { "none" }),
                Cell::Percent(rebuild.fill_percent),
                Cell::number(rebuild.lost_bytes.map(|bytes| bytes as f64 / 1e6)),
                Cell::Number(rebuild.down_s),
                Cell::Number(rebuild.rebuild_s),
                Cell::number(rebuild.bytes_per_s().map(|rate| rate / 1e6)),
                Cell::text(if rebuild.partial { "cut short" } else { "no copy is missing" }),
            ]);
        }
        table
    }

    fn rebuild_machine_table(&self) -> Table {
        const FIGURES: [(&str, &str, &str, f64); 7] = [
            ("user", "processors", "machine_user_cores", 1.0),
            ("system", "processors", "machine_system_cores", 1.0),
            ("waiting for drives", "processors", "machine_iowait_cores", 1.0),
            ("drives read", "MB/s", "drive_read_bytes_per_s", 1e-6),
            ("drives written", "MB/s", "drive_written_bytes_per_s", 1e-6),
            ("storage network in", "MB/s", "storage_network_in_bytes_per_s", 1e-6),
            ("client network out", "MB/s", "client_network_out_bytes_per_s", 1e-6),
        ];
        let columns = FIGURES.map(|(heading, unit, ..)| Column::number(heading, unit));
        let columns = [vec![Column::text("rebuild"), Column::text("cluster")], columns.into()].concat();
        let mut table = Table::new("rebuild-machine", "The machine during rebuilds.", columns);
        for rebuild in &self.rebuilds {
            let value = |name: &str| rebuild.figures.get(name).copied().flatten();
            let cells = FIGURES.map(|(_, _, name, factor)| Cell::number(value(name).map(|value| value * factor)));
            if cells.iter().any(|cell| *cell != Cell::Absent) {
                let names = vec![Cell::text(&rebuild.name), Cell::text(&rebuild.cluster)];
                table.push([names, cells.into()].concat());
            }
        }
        table
    }

    /// Clients before the loss, and during each rebuild under load.
    fn rebuild_client_table(&self) -> Table {
        let columns = vec![
            Column::text("rebuild"),
            Column::text("cluster"),
            Column::text("clients"),
            Column::number("before", "MB/s"),
            Column::number("during", "MB/s"),
            Column::number("mean before", "ms"),
            Column::number("mean during", "ms"),
            Column::number("p99 before", "ms"),
            Column::number("p99 during", "ms"),
            Column::number("errors", ""),
        ];
        let mut table = Table::new("rebuild-clients", "Clients before the loss, and during the rebuild.", columns);
        for rebuild in self.rebuilds.iter().filter(|rebuild| rebuild.with_load) {
            let workload = |name: &str| self.plan.workloads.iter().find(|workload| workload.name == name);
            for group in workload(&rebuild.name).iter().flat_map(|Workload { groups, .. }| groups) {
                let row = |workload: &str| {
                    let is = |row: &&Row| {
                        (&*row.cluster, &*row.workload, &row.group) == (&*rebuild.cluster, workload, &group.name)
                    };
                    self.rows.iter().find(is)
                };
                let (before, during) = (row(BEFORE), row(&rebuild.name));
                let value = |row: Option<&Row>, figure: Figure, factor: f64| {
                    Cell::number(row.and_then(|row| figure.of(row)).map(|value| value * factor))
                };
                let mut cells = vec![Cell::text(&rebuild.name), Cell::text(&rebuild.cluster), Cell::text(&group.name)];
                for (figure, factor) in [(Figure::BytesPerS, 1e-6), (Figure::MeanUs, 1e-3), (Figure::P99Us, 1e-3)] {
                    cells.extend([value(before, figure, factor), value(during, figure, factor)]);
                }
                cells.push(during.map_or(Cell::Absent, |row| Cell::Count(row.errors)));
                table.push(cells);
            }
        }
        table
    }

    fn rebuild_figure(&self) -> Option<Plotted> {
        let series: Vec<Series> = self
            .rebuilds
            .iter()
            .filter(|rebuild| rebuild.course.len() > 1)
            .map(|rebuild| {
                let points = rebuild.course.iter().map(|point| (point.at_s, point.degraded as f64));
                Series::new(format!("{}, {}", rebuild.name, rebuild.cluster), points.collect())
            })
            .collect();
        (!series.is_empty()).then(|| Plotted {
            name: "degraded".into(),
            title: "Missing copies during rebuilds".into(),
            caption: "As the cluster's own statistics tell them, which come with a delay of seconds.".into(),
            plot: Plot::Lines {
                x: Axis::new("time since the empty OSDs were started", "s", Scale::Linear),
                y: Axis::new("missing copies", "objects", Scale::Linear),
                series,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::result;
    use super::*;
    use crate::rebuild::{Rebuild, RebuildPoint};

    fn rebuild(name: &str, with_load: bool) -> Rebuild {
        Rebuild {
            cluster: "n".into(),
            name: name.into(),
            osds: vec![1, 2],
            host: Some("a".into()),
            with_load,
            fill_percent: 70.0,
            lost_bytes: Some(500_000_000),
            down_s: 3.0,
            rebuild_s: 10.0,
            partial: false,
            course: [(0.0, 90), (5.0, 40), (10.0, 0)]
                .map(|(at_s, degraded)| RebuildPoint { at_s, degraded, ..RebuildPoint::default() })
                .into(),
            figures: [("machine_user_cores".into(), Some(1.5)), ("machine_iowait_cores".into(), None)].into(),
        }
    }

    #[test]
    fn rebuilds_are_shown_beside_their_clients() {
        let mut result = result();
        assert!(result.rebuild_blocks(&[]).is_empty());
        let mut before = result.plan.workloads[0].clone();
        before.name = BEFORE.into();
        result.plan.workloads[0].name = "loaded".into();
        result.plan.workloads.push(before);
        result.rows.retain(|row| row.iteration == 0);
        let mut quiet = result.rows[0].clone();
        result.rows[0].workload = "loaded".into();
        quiet.workload = BEFORE.into();
        quiet.bytes *= 2;
        result.rows.push(quiet);
        result.rebuilds = vec![rebuild("quiet", false), rebuild("loaded", true)];
        assert_eq!(RunResult::from_json(&result.to_json()).unwrap(), result);
        let row = result.rebuild_table().rows()[1].clone();
        assert_eq!((&row[2], &row[8]), (&Cell::text("host a (osd.1, osd.2)"), &Cell::Number(50.0)));
        let clients = result.rebuild_client_table();
        assert_eq!(clients.rows().len(), 1, "the one under load");
        let (Cell::Number(before), Cell::Number(during)) = (&clients.rows()[0][3], &clients.rows()[0][4]) else {
            panic!("{clients:?}")
        };
        assert!((before / during - 2.0).abs() < 1e-9, "{before} and {during}");
        let text = result.page(&[]).to_markdown();
        for words in ["Rebuilds", "| quiet | n | 1.5"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(result.page(&[]).to_html("").contains("Missing copies during rebuilds"));
        result.rebuilds[0].partial = true;
        assert_eq!(result.rebuilds[0].bytes_per_s(), None);
        assert_eq!(result.rebuild_table().rows()[0][9], Cell::text("cut short"));
    }
}
