//! Two runs side by side.

use ::report::number::significant;
use ::report::{Axis, Bars, Block, Cell, Column, Figure as Plotted, Page, Plot, Scale, Table};

use super::table::verdict_cell;
use super::{Figure, RunResult};
use crate::compare::{CompareError, Comparison, compare_unpaired};

/// One figure of a group that both runs have.
struct Met {
    workload: String,
    group: String,
    cluster: String,
    figure: Figure,
    medians: [Option<f64>; 2],
    comparison: Result<Comparison, CompareError>,
}

impl RunResult {
    /// This run beside `other`. Groups are matched by the names of workload, group and cluster; where each run has one
    /// cluster, its name does not count. Iterations that were cut short or read wrong bytes count for nothing.
    pub fn page_against(&self, other: &RunResult, names: [&str; 2]) -> Page {
        let mut page = Page::new(format!("{} beside {}", names[0], names[1]));
        page.opening.extend(self.end_warning());
        page.opening.extend(other.end_warning());
        page.opening.extend(self.differences(other, names));
        page.opening.push(Block::Prose(format!(
            "Ratios are {} divided by {}. The runs were made at different times, so a machine that was slower \
             meanwhile looks like a slower cluster; clusters in one run, in turns, do not have this fault.",
            names[0], names[1]
        )));
        let met = self.met(other);
        if met.is_empty() {
            page.opening.push(Block::warning("Nothing in common", "no workload has the same name in both runs."));
            return page;
        }
        page.section("Throughput", vec![throughput_figure(&met, names).into()]);
        page.section("All figures", vec![against_table(&met, names).into()]);
        let alone = self.missing_in(other).map(|name| format!("{name}: only in {}", names[0]));
        let alone = alone.chain(other.missing_in(self).map(|name| format!("{name}: only in {}", names[1])));
        let alone: Vec<String> = alone.collect();
        page.section("Not in both", if alone.is_empty() { vec![] } else { vec![Block::List(alone)] });
        page
    }

    /// Facts about the runs' conditions that differ.
    fn differences(&self, other: &RunResult, names: [&str; 2]) -> Option<Block> {
        let same = ["token", "command", "program_started"];
        let keys: std::collections::BTreeSet<&String> =
            self.environment.keys().chain(other.environment.keys()).collect();
        let columns = vec![Column::text("condition"), Column::text(names[0]), Column::text(names[1])];
        let mut table = Table::new("differences", "Conditions that differ.", columns);
        let cell = |value: Option<&String>| value.map_or(Cell::Absent, Cell::text);
        for key in keys.into_iter().filter(|key| !same.contains(&key.as_str())) {
            let (ours, theirs) = (self.environment.get(key), other.environment.get(key));
            if ours != theirs {
                table.push(vec![Cell::text(key), cell(ours), cell(theirs)]);
            }
        }
        (!table.is_empty()).then(|| table.into())
    }

    /// Names of workloads that `other` lacks.
    fn missing_in<'a>(&'a self, other: &'a RunResult) -> impl Iterator<Item = &'a str> {
        let lacks = |name: &&str| !other.plan.workloads.iter().any(|one| one.name == *name);
        self.plan.workloads.iter().map(|one| one.name.as_str()).filter(lacks)
    }

    fn met(&self, other: &RunResult) -> Vec<Met> {
        let one_each = self.plan.clusters.len() == 1 && other.plan.clusters.len() == 1;
        let mut met = Vec::new();
        for (workload, group) in self.groups().filter(|names| other.groups().any(|theirs| theirs == *names)) {
            for cluster in &self.plan.clusters {
                let same = |theirs: &&crate::plan::Cluster| one_each || theirs.name == cluster.name;
                let Some(theirs) = other.plan.clusters.iter().find(same) else { continue };
                let values = |run: &RunResult, cluster: &str, figure: Figure| -> Vec<f64> {
                    let rows = run.rows_of(cluster, workload, group);
                    let counted = rows.values().filter(|row| !row.partial && row.mismatches == 0);
                    counted.filter_map(|row| figure.of(row)).collect()
                };
                for figure in Figure::ALL {
                    let (ours, them) = (values(self, &cluster.name, figure), values(other, &theirs.name, figure));
                    if ours.is_empty() && them.is_empty() {
                        continue;
                    }
                    met.push(Met {
                        workload: workload.into(),
                        group: group.into(),
                        cluster: cluster.name.clone(),
                        figure,
                        medians: [&ours, &them].map(|values| {
                            crate::interval::MedianInterval::of(values, 0.9).map(|interval| interval.median)
                        }),
                        comparison: compare_unpaired(&ours, &them, figure.better(), self.plan.confidence),
                    });
                }
            }
        }
        met
    }
}

fn against_table(met: &[Met], names: [&str; 2]) -> Table {
    let mut columns: Vec<Column> = ["workload", "group", "cluster", "figure"].map(Column::text).into();
    columns.extend(names.map(|name| Column::number(name, "")));
    columns.extend(["ratio", "interval", "confidence"].map(|heading| Column::number(heading, "")));
    columns.push(Column::text(format!("{} is", names[0])));
    let mut table = Table::new("against", "Medians of both runs, and the ratio of all pairs of iterations.", columns);
    for row in met {
        let mut cells: Vec<Cell> = [&row.workload, &row.group, &row.cluster].map(Cell::text).into_iter().collect();
        cells.push(Cell::text(row.figure.name()));
        cells.extend(row.medians.map(Cell::number));
        match &row.comparison {
            Ok(Comparison { ratio, verdict, .. }) => cells.extend([
                Cell::Number(ratio.median),
                Cell::Range { low: ratio.low, high: ratio.high },
                Cell::Percent(ratio.confidence * 100.0),
                verdict_cell(*verdict),
            ]),
            Err(why) => cells.extend([Cell::Absent, Cell::Absent, Cell::Absent, Cell::Text(why.to_string())]),
        }
        table.push(cells);
    }
    table
}

fn throughput_figure(met: &[Met], names: [&str; 2]) -> Plotted {
    let rates: Vec<&Met> = met.iter().filter(|row| row.figure == Figure::OperationsPerS).collect();
    let categories = rates.iter().map(|row| match &row.comparison {
        Ok(comparison) => format!("{}, {}: {}", row.workload, row.cluster, significant(comparison.ratio.median)),
        Err(_) => format!("{}, {}", row.workload, row.cluster),
    });
    let series = (0..2).map(|run| (names[run].to_owned(), rates.iter().map(|row| row.medians[run]).collect()));
    Plotted {
        name: "throughput".into(),
        title: "Operations per second of both runs".into(),
        caption: "Behind each name stands the ratio.".into(),
        plot: Plot::Bars(Bars {
            axis: Axis::new("operations", "per s", Scale::Linear),
            categories: categories.collect(),
            series: series.collect(),
            stacked: false,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::result;
    use super::*;
    use ::report::Tone;

    #[test]
    fn two_runs_are_told_apart() {
        let (mut fast, mut slow) = (result(), result());
        for run in [&mut fast, &mut slow] {
            run.plan.clusters.truncate(1);
            run.rows.retain(|row| row.cluster == "n");
        }
        slow.plan.clusters[0].name = "m".into();
        for row in &mut slow.rows {
            row.cluster = "m".into();
            row.operations /= 2;
        }
        slow.environment.insert("kernel".into(), "5.10".into());
        let page = fast.page_against(&slow, ["new", "old"]);
        let text = page.to_markdown();
        assert!(text.contains("| kernel | 6.1 | 5.10 |"), "{text}");
        let table = page.tables().find(|table| table.name == "against").unwrap();
        let row = &table.rows()[0];
        assert_eq!(row[3], Cell::text("operations_per_s"));
        assert_eq!(row[9], Cell::Verdict { tone: Tone::Good, words: "faster".into() });
        assert_eq!((row[4].clone(), row[5].clone()), (Cell::Number(2002.0), Cell::Number(1001.0)));
        slow.plan.workloads[0].name = "other".into();
        let text = fast.page_against(&slow, ["new", "old"]).to_markdown();
        assert!(text.contains("**Nothing in common**"), "{text}");
    }
}
