//! Clusters of one run side by side: a line per workload.

use ::report::number::significant;
use ::report::{Cell, Column, Table, Tone};

use super::table::tone;
use super::{ComparedFigure, Figure, RunResult};

/// Figures that have a column, and their headings.
const FIGURES: [(Figure, &str); 5] = [
    (Figure::OperationsPerS, "operations/s"),
    (Figure::MeanUs, "mean latency"),
    (Figure::P50Us, "p50"),
    (Figure::P99Us, "p99"),
    (Figure::ServerCpuUs, "server CPU/op"),
];

impl RunResult {
    /// Ratios of the first cluster to each other one: a line for each group of each workload, a column for each figure
    /// that matters most. `None` if there is one cluster only.
    pub(super) fn beside_table(&self) -> Option<Table> {
        let first = &self.plan.clusters.first()?.name;
        let compared = self.comparisons();
        if compared.is_empty() {
            return None;
        }
        let columns = ["workload", "group", "against"].into_iter().chain(FIGURES.map(|(_, heading)| heading));
        let caption = format!(
            "{first} divided by the other cluster, with the interval of the ratio. More operations are better, and less \
             latency and CPU. Where no word stands, the iterations show no difference."
        );
        let mut table = Table::new("side-by-side", caption, columns.map(Column::text).collect());
        let names = |one: &ComparedFigure| (one.workload.clone(), one.group.clone(), one.second.clone());
        let mut lines: Vec<_> = compared.iter().map(names).collect();
        lines.dedup();
        for line in lines {
            let cells = FIGURES.map(|(figure, _)| {
                let one = compared.iter().find(|one| one.figure == figure && names(one) == line);
                one.map_or(Cell::Absent, ratio_cell)
            });
            let (workload, group, second) = line;
            table.push([workload, group, second].map(Cell::Text).into_iter().chain(cells).collect());
        }
        Some(table)
    }
}

fn ratio_cell(compared: &ComparedFigure) -> Cell {
    let Ok(comparison) = &compared.comparison else { return Cell::Absent };
    let ratio = comparison.ratio;
    let [median, low, high] = [ratio.median, ratio.low, ratio.high].map(short);
    let tone = tone(comparison.verdict);
    let news = match tone {
        Tone::Good => " better",
        Tone::Bad => " worse",
        Tone::Neutral => "",
    };
    Cell::Verdict { tone, words: format!("{median} ({low} to {high}){news}") }
}

/// A ratio with two decimals, or with four digits if it is a small one.
fn short(ratio: f64) -> String {
    if ratio < 0.1 { significant(ratio) } else { format!("{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use super::super::tests::result;
    use super::*;

    #[test]
    fn a_line_has_all_ratios_of_a_workload() {
        let mut result = result();
        let table = result.beside_table().unwrap();
        let good = |words: &str| Cell::Verdict { tone: Tone::Good, words: words.into() };
        let row = &table.rows()[0];
        assert_eq!(table.rows().len(), 1);
        assert_eq!(row[..3], ["w", "g", "c"].map(Cell::text));
        assert_eq!(row[3], good("2.00 (2.00 to 2.00) better"));
        assert_eq!(row[7], good("0.50 (0.50 to 0.50) better"));
        for row in result.rows.iter_mut().filter(|row| row.cluster == "n") {
            row.operations /= 4;
            row.latency.mean_us = if row.iteration == 0 { None } else { row.latency.mean_us };
        }
        let row = result.beside_table().unwrap().rows()[0].clone();
        assert_eq!(row[3], Cell::Verdict { tone: Tone::Bad, words: "0.50 (0.50 to 0.50) worse".into() });
        assert_eq!(row[4], Cell::Absent, "an iteration has none");
        result.rows.retain(|row| row.cluster == "n" || row.iteration > 2);
        let row = result.beside_table().unwrap().rows()[0].clone();
        assert!(matches!(row[3], Cell::Verdict { tone: Tone::Neutral, .. }), "two iterations show nothing: {row:?}");
        result.plan.clusters.truncate(1);
        assert_eq!(result.beside_table(), None);
    }
}
