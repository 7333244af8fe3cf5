//! Rows of a result from what an iteration measured.

use std::collections::BTreeMap;

use bench::plan::Workload;
use bench::report::Row;

use crate::iteration::{GroupMeasured, IterationEnd, Measured};

/// A row for each group that was measured, all with the machine's `figures`. A row of an iteration that did not end as
/// planned is partial.
pub(crate) fn rows(
    cluster: &str,
    workload: &Workload,
    iteration: u32,
    measured: &Measured,
    figures: &BTreeMap<String, Option<f64>>,
) -> Vec<Row> {
    let row = |(group, of_plan): (&GroupMeasured, &bench::plan::Group)| Row {
        cluster: cluster.to_owned(),
        workload: workload.name.clone(),
        group: of_plan.name.clone(),
        iteration,
        partial: measured.end != IterationEnd::Complete,
        missing: measured.missing.clone(),
        measured_s: group.measured.as_secs_f64(),
        operations: group.tally.latencies.count(),
        bytes: group.tally.bytes,
        errors: group.tally.errors,
        error_examples: group.error_examples.clone(),
        mismatches: group.mismatches,
        mismatch_examples: group.mismatch_examples.clone(),
        latency: group.tally.latencies.summary(),
        histogram: Some(group.tally.latencies.to_data()),
        series: group.series.clone(),
        steady: group.steady,
        figures: figures.clone(),
    };
    measured.groups.iter().zip(&workload.groups).map(row).collect()
}
