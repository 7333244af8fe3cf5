use std::time::Duration;

use super::*;
use crate::compare::Verdict;
use crate::histogram::{Digits, Histogram};

const PLAN: &str = r#"{
  "version": 1, "name": "two", "seed": 1,
  "clusters": [{"name": "n", "engine": "nacre", "configuration": "a"},
               {"name": "c", "engine": "ceph", "configuration": "b"}],
  "pools": [{"name": "r3", "redundancy": {"replicated": {"size": 3}}, "pg_count": 64}],
  "workloads": [{"name": "w", "pool": "r3", "stop": {"duration_s": 10},
    "groups": [{"name": "g", "object_bytes": 4096, "objects": 64, "operations": {"sequential_write": 100},
                "instances": 1, "load": {"closed": {"queue_depth": 4}}}]}]
}"#;

fn row(cluster: &str, iteration: u32, operations: u64) -> Row {
    let mut histogram = Histogram::new(Digits::Three);
    (0..100).for_each(|_| histogram.record(Duration::from_micros(1_000_000 / operations)));
    Row {
        cluster: cluster.into(),
        workload: "w".into(),
        group: "g".into(),
        iteration,
        partial: false,
        missing: Vec::new(),
        measured_s: 10.0,
        operations: operations * 10,
        bytes: operations * 40_960,
        errors: 0,
        error_examples: Vec::new(),
        mismatches: 0,
        mismatch_examples: Vec::new(),
        latency: histogram.summary(),
        histogram: Some(histogram.to_data()),
        series: Vec::new(),
        steady: None,
        figures: BTreeMap::from([("power_w".into(), None), (SERVER_CPU.into(), Some(1e5 / operations as f64))]),
    }
}

pub(super) fn result() -> RunResult {
    let mut result = RunResult::new(Plan::from_json(PLAN).unwrap(), BTreeMap::from([("kernel".into(), "6.1".into())]));
    for iteration in 0..5 {
        result.rows.push(row("n", iteration, 2000 + u64::from(iteration)));
        result.rows.push(row("c", iteration, 1000));
    }
    result
}

#[test]
fn json_survives_a_round_trip_and_begins_with_its_version() {
    let result = result();
    let json = result.to_json();
    assert!(json.starts_with("{\n  \"format\": \"nacre-bench-result\",\n  \"version\": 1,"), "{}", &json[..80]);
    assert!(json.contains("\"power_w\": null"));
    assert_eq!(RunResult::from_json(&json).unwrap(), result);
}

#[test]
fn wrong_results_are_refused() {
    let json = result().to_json();
    let check = |from: &str, to: &str, words: &str| {
        let error = RunResult::from_json(&json.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check("\"version\": 1", "\"version\": 2", "version 2 is not");
    check("nacre-bench-result", "other", "format \"other\"");
    check("\"errors\": 0", "\"errors\": -1", "rows[0].errors");
    check("\"errors\"", "\"faults\"", "rows[0].faults");
}

#[test]
fn medians_and_verdicts() {
    let result = result();
    let summaries = result.summaries();
    assert_eq!(summaries.len(), 2);
    let rate = summaries[0].figures[0].unwrap();
    assert_eq!((rate.low, rate.median, rate.high, summaries[0].iterations), (2000.0, 2002.0, 2004.0, 5));
    let verdicts: Vec<Verdict> = result.comparisons().into_iter().map(|row| row.comparison.unwrap().verdict).collect();
    assert_eq!(verdicts, [Verdict::Faster; 7], "all but the machine's CPU, which no row has");
}

#[test]
fn iterations_with_wrong_reads_do_not_count() {
    let mut result = result();
    result.rows[3].mismatches = 1;
    let comparison = result.comparisons()[0].comparison.unwrap();
    assert_eq!((comparison.ratio.count, comparison.verdict), (4, Verdict::TooFewIterations));
    assert_eq!(result.summaries()[1].mismatches, 1);
    result.rows[9].partial = true;
    let comparison = result.comparisons()[0].comparison.unwrap();
    assert_eq!(comparison.ratio.count, 3, "nor do those cut short");
    assert_eq!((result.summaries()[0].iterations, result.summaries()[1].iterations), (5, 4));
    result.rows.retain(|row| row.partial);
    assert_eq!(result.summaries()[0].iterations, 1, "unless there is nothing else");
}

#[test]
fn markdown_tables() {
    let mut result = result();
    let text = result.to_markdown();
    assert!(text.contains("| w | g | n | 5 | 2002 ±0.1 % | 8.200 ±0.1 % |"), "{text}");
    assert!(text.contains("| w | g | operations_per_s | n | c | 2.002 | 2.000 to 2.004 | 93.8 % | faster |"), "{text}");
    let widths: Vec<usize> =
        text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count()).collect();
    for table in [&widths[..4], &widths[4..8]] {
        assert!(table.iter().all(|width| *width == table[0]), "{widths:?}");
    }
    assert!(text.contains("| w | g | n | not available | not available |"), "what costs are not known: {text}");
    result.end = End::Failed("osd.3 died".into());
    result.rows.truncate(1);
    let text = result.to_markdown();
    assert!(text.contains("**Failed**: osd.3 died.") && text.contains("there are no iterations"), "{text}");
}

#[test]
fn what_was_short_is_named() {
    let mut result = result();
    assert!(!result.to_markdown().contains("What was short"), "nothing is known of the machine");
    result.environment.insert("machine.processors".into(), "2".into());
    for row in &mut result.rows {
        row.figures.insert("client_cores".into(), Some(if row.cluster == "n" { 0.9 } else { 0.5 }));
        row.figures.insert("drive_writes_per_s".into(), Some(30.0));
    }
    assert!(result.to_markdown().contains("| w | g | n | client (client 90 %) |"), "{}", result.to_markdown());
    result.ceilings = Some(Ceilings { drive_writes_per_s: Some(100.0), ..Ceilings::default() });
    let text = result.to_markdown();
    assert!(text.contains("| w | g | c | latency (drive 30 %, client 50 %) |"), "{text}");
    assert_eq!(RunResult::from_json(&result.to_json()).unwrap(), result);
}

#[test]
fn rows_without_operations_say_so() {
    let mut result = result();
    for row in &mut result.rows {
        (row.operations, row.bytes, row.latency) = (0, 0, LatencySummary::default());
    }
    let text = result.to_markdown();
    assert!(text.contains("not available") && text.contains("a ratio needs two positive numbers"), "{text}");
    let csv = result.to_csv();
    assert!(csv.lines().nth(1).unwrap().ends_with(",0,0,,,,,,,,,,50,,0"), "{csv}");
}

#[test]
fn csv_has_a_line_per_row() {
    let mut result = result();
    result.rows[0].cluster = "a,\"b\"".into();
    let csv = result.to_csv();
    assert_eq!(csv.lines().count(), 11);
    assert!(
        csv.lines().nth(1).unwrap().starts_with("\"a,\"\"b\"\"\",w,g,0,10,20000,81920000,0,0,2000,8192000,500,"),
        "{csv}"
    );
    let commas = |line: &str| line.matches(',').count();
    assert!(csv.lines().skip(2).all(|line| commas(line) == commas(csv.lines().next().unwrap())));
}
