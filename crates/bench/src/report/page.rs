//! The page of a run: first the conditions, then results, then how they came about.

use ::report::{Block, Cell, Column, Page, Table};

use super::telemetry::Telemetry;
use super::{Figure, RunResult};
use crate::operating::Limits;
use crate::plan::{Load, Stop};

/// Spread of throughput between iterations, in percent, above which the first page warns.
const NOISE_PERCENT: f64 = 10.0;
/// Workloads that the warning names.
const NOISY_NAMED_MAX: usize = 5;

impl RunResult {
    /// The whole report of a run. `telemetry` holds its records over time, as far as they are there.
    pub fn page(&self, telemetry: &[Telemetry]) -> Page {
        self.page_with(telemetry, &Limits::default())
    }

    /// The whole report, with operating points by `limits`.
    pub fn page_with(&self, telemetry: &[Telemetry], limits: &Limits) -> Page {
        let mut page = Page::new(&self.plan.name);
        page.opening = self.first_page();
        let mut results: Vec<Block> = vec![self.summary_table().into()];
        results.extend(self.tool_notes().into_iter().map(Block::Note));
        results.extend(self.search_notes().into_iter().map(Block::Note));
        results.extend(self.left_out_notes().into_iter().map(Block::Note));
        page.section("Clusters side by side", self.beside_table().map(Block::Table).into_iter().collect());
        page.section("Operating points", self.operating_blocks(limits));
        page.section("Results", results);
        page.section("Rebuilds", self.rebuild_blocks(telemetry));
        page.section("Latencies", self.distribution_blocks());
        let mut machine: Vec<Block> = self.limits_table().map(Block::Table).into_iter().collect();
        machine.extend(self.processor_figure().map(Block::Figure));
        machine.extend(self.document_tables(telemetry).into_iter().map(Block::Table));
        machine.extend(self.costs_table().map(Block::Table));
        machine.extend(self.hops_blocks());
        page.section("Machines", machine);
        page.section("Over time", self.course_blocks(telemetry));
        page.section("All ratios", self.comparison_table().map(Block::Table).into_iter().collect());
        page.section("Configuration", self.configuration_blocks());
        page
    }

    /// Conditions of the run, and everything that speaks against its numbers.
    fn first_page(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = self.end_warning().into_iter().collect();
        let (errors, wrong): (u64, u64) =
            self.rows.iter().fold((0, 0), |sums, row| (sums.0 + row.errors, sums.1 + row.mismatches));
        if wrong > 0 {
            let words =
                format!("{wrong} reads returned bytes that nobody wrote there. Such iterations are not compared.");
            blocks.push(Block::warning("Wrong reads", words));
        }
        if errors > 0 {
            blocks.push(Block::warning("Errors", format!("{errors} operations failed.")));
        }
        let examples = self.examples();
        blocks.extend(examples.into_iter().map(|(cluster, text)| Block::Note(format!("{cluster}: {text}"))));
        if let Some(noise) = self.noise_warning() {
            blocks.push(noise);
        }
        let mut facts: Vec<(String, String)> = Vec::new();
        let mut add = |name: String, value: Option<&String>| {
            facts.extend(value.map(|value| (name, value.clone())));
        };
        for cluster in &self.plan.clusters {
            for what in ["versions", "osds_in", "health", "durability"] {
                let value = self.environment.get(&format!("cluster.{}.{what}", cluster.name));
                add(format!("{}: {}", cluster.name, what.replace('_', " ")), value);
            }
        }
        for what in ["processor", "processors", "memory", "kernel", "load_at_start", "page_cache"] {
            add(what.replace('_', " "), self.environment.get(&format!("machine.{what}")));
        }
        add("program".into(), self.environment.get("program"));
        facts.push(("iterations".into(), self.plan.iterations.to_string()));
        facts.push(("confidence".into(), format!("{:.1} %", self.plan.confidence * 100.0)));
        facts.push(("noise".into(), self.noise_words()));
        blocks.push(Block::Facts(facts));
        blocks
    }

    /// Spreads of operations per second between iterations, in percent, with workload and cluster, largest first.
    fn spreads(&self) -> Vec<(f64, String, String)> {
        let index = Figure::ALL.iter().position(|figure| *figure == Figure::OperationsPerS).unwrap_or(0);
        let mut spreads: Vec<(f64, String, String)> = self
            .summaries()
            .into_iter()
            .filter_map(|summary| {
                let interval = summary.figures[index].filter(|interval| interval.count > 1)?;
                Some((interval.spread_percent()?, summary.workload, summary.cluster))
            })
            .collect();
        spreads.sort_by(|a, b| b.0.total_cmp(&a.0));
        spreads
    }

    fn noise_words(&self) -> String {
        let spreads = self.spreads();
        match (spreads.first(), spreads.get(spreads.len() / 2)) {
            (Some((most, workload, cluster)), Some((middle, ..))) => format!(
                "throughput differs between iterations by ±{middle:.1} % in the middle, ±{most:.1} % at most \
                 ({workload}, {cluster})"
            ),
            _ => "not known: each workload has one iteration".into(),
        }
    }

    fn noise_warning(&self) -> Option<Block> {
        let noisy: Vec<String> = self
            .spreads()
            .into_iter()
            .filter(|(spread, ..)| *spread > NOISE_PERCENT)
            .map(|(spread, workload, cluster)| format!("{workload} on {cluster} ±{spread:.0} %"))
            .collect();
        (!noisy.is_empty()).then(|| {
            let more = noisy.len().saturating_sub(NOISY_NAMED_MAX);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            let named = noisy[..noisy.len().min(NOISY_NAMED_MAX)].join(", ");
            Block::warning("Noise", format!("throughput differs much between iterations: {named}{more}."))
        })
    }

    fn configuration_blocks(&self) -> Vec<Block> {
        let columns = vec![
            Column::text("workload"),
            Column::text("group"),
            Column::text("pool"),
            Column::text("load by"),
            Column::number("object", "KiB"),
            Column::number("operation", "KiB"),
            Column::number("objects", ""),
            Column::text("operations, %"),
            Column::number("instances", ""),
            Column::text("load of each"),
            Column::number("warm-up", "s"),
            Column::text("stops"),
        ];
        let mut table = Table::new("workloads", "Workloads of the plan.", columns);
        for workload in &self.plan.workloads {
            for group in &workload.groups {
                let kinds = group.operations.by_name();
                let kinds: Vec<String> = kinds
                    .iter()
                    .filter(|(_, percent)| *percent > 0)
                    .map(|(name, percent)| format!("{name} {percent}"))
                    .collect();
                let load = match group.load {
                    Load::Closed { queue_depth } => format!("{queue_depth} in flight"),
                    Load::Open { arrivals_per_s, in_flight_max, .. } => {
                        format!("{arrivals_per_s} arrivals/s of all, at most {in_flight_max} in flight")
                    }
                };
                let stops = match workload.stop {
                    Stop::DurationS(seconds) => format!("after {seconds} s"),
                    Stop::Steady { round_s, .. } => format!("when rounds of {round_s} s are steady"),
                };
                table.push(vec![
                    Cell::text(&workload.name),
                    Cell::text(&group.name),
                    Cell::text(&workload.pool),
                    Cell::text(workload.tool.name()),
                    Cell::Count(group.object_bytes >> 10),
                    Cell::Count(group.io_bytes() >> 10),
                    Cell::Count(group.objects),
                    Cell::text(kinds.join(", ")),
                    Cell::Count(u64::from(group.instances)),
                    Cell::Text(load),
                    Cell::Number(workload.warm_up_s),
                    Cell::Text(stops),
                ]);
            }
        }
        let facts = self.environment.iter().map(|(name, value)| (name.clone(), value.clone()));
        vec![table.into(), Block::Facts(facts.collect())]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::result;
    use super::*;
    use crate::operating::OperatingRules;
    use crate::plan::Workload;
    use crate::report::Row;

    /// A run of a sweep: throughput is n / (n + 16) of 100,000 for 1 to 256 operations in flight.
    fn sweep() -> RunResult {
        let mut result = result();
        let workload = result.plan.workloads[0].clone();
        let rows = std::mem::take(&mut result.rows);
        result.plan.workloads.clear();
        for depth in (0..9).map(|power| 1u32 << power) {
            let mut one = workload.clone();
            one.name = format!("w{depth}");
            one.groups[0].load = Load::Closed { queue_depth: depth };
            result.plan.workloads.push(one);
            let rate = 100_000.0 * f64::from(depth) / (f64::from(depth) + 16.0);
            result.rows.extend(rows.iter().map(|row| {
                let mut row = Row { workload: format!("w{depth}"), operations: (rate * 10.0) as u64, ..row.clone() };
                row.latency.mean_us = Some(f64::from(depth) / rate * 1e6);
                row
            }));
        }
        result
    }

    #[test]
    fn a_sweep_has_an_operating_point() {
        let page = sweep().page(&[]);
        let table = page.tables().find(|table| table.name == "operating-points").unwrap();
        let recommended = &table.rows()[0];
        let Cell::Number(throughput) = recommended[3] else { panic!("{recommended:?}") };
        assert!((throughput / 80_000.0 - 1.0).abs() < 0.1, "{throughput}");
        assert_eq!(recommended[6], Cell::text("w64"));
        let figures = page.blocks().filter(|block| matches!(block, Block::Figure(_))).count();
        assert_eq!(figures, 2 + 9, "two curves, and a distribution for each load");
        assert!(page.to_html("").contains("operating point "), "the figure marks it");
        assert!(result().page(&[]).tables().all(|table| table.name != "operating-points"), "one load is no sweep");
    }

    #[test]
    fn limits_of_operating_points_can_be_set() {
        let mut result = sweep();
        for row in &mut result.rows {
            row.latency.p99_us = row.latency.mean_us.map(|mean| mean * 3.0);
        }
        // Mean latency is (n + 16) / 100,000 s: 0.4 ms with 24 in flight, p99 2.4 ms with 64.
        let rules = OperatingRules { mean_us_max: 400.0, latency_part_max: 0.8 };
        let limits = Limits { rules, p99_us_max: Some(2400.0), cpu_percent_max: vec![70.0], high_water_percent: 15.0 };
        let page = result.page_with(&[], &limits);
        let table = page.tables().find(|table| table.name == "operating-points").unwrap();
        let found = |rule: &str| {
            let row = table.rows().iter().find(|row| row[2] == Cell::text(rule)).unwrap_or_else(|| panic!("{rule}"));
            let Cell::Number(throughput) = row[3] else { panic!("{row:?}") };
            throughput
        };
        let close = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 0.1, "{got} instead of {want}");
        close(found("recommended"), 60_000.0);
        close(found("p99 up to 2.400 ms"), 80_000.0);
        close(found("high-water mark (15 %)"), 80_000.0);
    }

    #[test]
    fn a_sweep_is_past_its_high_water_mark() {
        let mut result = sweep();
        let heaviest = result.plan.workloads[8].clone();
        let measured = result.past_high_water("n", &heaviest, 15.0);
        assert_eq!(measured, None, "it was measured");
        result.rows.retain(|row| row.workload != "w256");
        // 64 in flight have a fifth more than 32, and 128 a ninth more than 64.
        assert_eq!(result.past_high_water("n", &heaviest, 15.0), Some("w64"));
        assert_eq!(result.past_high_water("n", &heaviest, 10.0), None);
        assert_eq!(result.past_high_water("elsewhere", &heaviest, 15.0), None);
        assert_eq!(result.left_out_notes(), [""; 0], "the plan has no stop rule");
        result.plan.stop_gain_percent = Some(15.0);
        let want = ["c", "n"].map(|cluster| {
            format!("{cluster}: left out as more load than that of w64 adds less than 15 % to throughput: w256")
        });
        assert_eq!(result.left_out_notes(), want);
        assert!(want.iter().all(|words| result.to_markdown().contains(words)));
        let other = Workload { pool: "another".into(), ..heaviest.clone() };
        assert_eq!(result.past_high_water("n", &other, 15.0), None, "another sweep");
        result.rows.iter_mut().filter(|row| row.workload == "w128").for_each(|row| row.partial = true);
        assert_eq!(result.past_high_water("n", &heaviest, 15.0), None, "what was cut short tells nothing");
    }

    #[test]
    fn clients_of_images_are_one_load() {
        let mut result = sweep();
        let mut more: Vec<Row> = result.rows.clone();
        more.iter_mut().for_each(|row| row.group = "h".into());
        result.rows.extend(more);
        for workload in &mut result.plan.workloads {
            let second = crate::plan::Group { name: "h".into(), ..workload.groups[0].clone() };
            workload.groups.push(second);
        }
        let throughput = |result: &RunResult| {
            let page = result.page(&[]);
            let table = page.tables().find(|table| table.name == "operating-points").unwrap();
            let Cell::Number(throughput) = table.rows()[0][3] else { panic!() };
            (throughput, table.rows().iter().filter(|row| row[2] == Cell::text("recommended")).count())
        };
        let ((one, curves), (both, curves_of_both)) = (throughput(&sweep()), throughput(&result));
        assert!((both / one - 2.0).abs() < 1e-6 && curves == curves_of_both, "{one} and {both}");
        result.plan.workloads.iter_mut().for_each(|workload| workload.groups[1].object_bytes = 8192);
        assert_eq!(throughput(&result).1, 2 * curves, "groups that differ are curves of their own");
    }

    #[test]
    fn the_first_page_tells_what_speaks_against_the_numbers() {
        let mut result = result();
        result.environment.insert("cluster.n.durability".into(), "all copies".into());
        let opening = |result: &RunResult| {
            let page = Page { sections: Vec::new(), ..result.page(&[]) };
            page.to_markdown()
        };
        let text = opening(&result);
        assert!(text.contains("- n: durability: all copies") && text.contains("- noise: throughput differs"), "{text}");
        assert!(!text.contains("**"), "{text}");
        (result.rows[0].operations, result.rows[1].mismatches, result.rows[2].errors) = (40_000, 3, 2);
        let text = opening(&result);
        for words in ["**Noise**: throughput", "w on n ±", "**Wrong reads**: 3 reads", "**Errors**: 2 operations"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        result.rows.truncate(1);
        assert!(opening(&result).contains("noise: not known"));
    }

    #[test]
    fn documents_tables_are_there() {
        let mut result = result();
        for row in &mut result.rows {
            row.figures.insert("drive_written_bytes_per_s".into(), Some(40e6));
            row.figures.insert("storage_network_in_bytes_per_s".into(), Some(2e9));
            row.figures.insert("power_w".into(), Some(50.0));
        }
        result.environment.insert("agent.a.machine.host".into(), "a".into());
        result.environment.insert("agent.b.machine.host".into(), "b".into());
        let record =
            |drives| Telemetry { cluster: "n".into(), workload: "w".into(), iteration: 0, rates: vec![], drives };
        let page = result.page(&[record(4)]);
        let row = |name: &str| page.tables().find(|table| table.name == name).unwrap().rows()[0].clone();
        assert_eq!(row("drives")[6], Cell::Number(10.0), "four drives share 40 MB/s");
        assert_eq!(row("servers")[5], Cell::Number(1.0), "two servers share 2 GB/s");
        let Cell::Number(power) = row("servers")[11] else { panic!() };
        assert!((power - 50.0 / 0.008_2).abs() < 10.0, "{power}");
        assert_eq!(row("capacity")[2..5], [Cell::Number(3.0), Cell::Percent(100.0 / 3.0), Cell::Count(2)]);
    }
}
