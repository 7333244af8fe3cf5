//! Breakdown of the time of a run's operations.

use ::report::Block;

use super::RunResult;
use crate::hops::{Breakdown, OpHops};
use serde::{Deserialize, Serialize};

/// Hops of one workload on one cluster in one iteration, from the histories that the OSDs kept at its end: a sample of
/// its last half minute. Ceph keeps its slowest operations only, which are no sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadHops {
    pub cluster: String,
    pub workload: String,
    /// Number of the iteration, from 0.
    pub iteration: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<Breakdown>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Breakdown>,
}

impl WorkloadHops {
    /// Sums up the sampled operations. Those that were kept for being slow are left out. `None` if no sample is left.
    pub fn of(cluster: &str, workload: &str, iteration: u32, ops: &[OpHops]) -> Option<WorkloadHops> {
        let of = |write: bool| {
            let ops: Vec<&OpHops> = ops.iter().filter(|op| op.write == write && op.sampled).collect();
            Breakdown::of(&ops)
        };
        let (writes, reads) = (of(true), of(false));
        let (cluster, workload) = (cluster.to_owned(), workload.to_owned());
        (writes.is_some() || reads.is_some()).then_some(WorkloadHops { cluster, workload, iteration, writes, reads })
    }
}

impl RunResult {
    /// One sentence per workload, cluster and kind of operation, on the last iteration, below a line that says so.
    pub(super) fn hops_blocks(&self) -> Vec<Block> {
        let mut lines = Vec::new();
        for hops in &self.hops {
            let later = |other: &WorkloadHops| {
                (&other.cluster, &other.workload) == (&hops.cluster, &hops.workload) && other.iteration > hops.iteration
            };
            if self.hops.iter().any(later) {
                continue;
            }
            for (kind, breakdown) in [("writes", &hops.writes), ("reads", &hops.reads)] {
                let Some(breakdown) = breakdown else { continue };
                let Some(verdict) = breakdown.verdict() else { continue };
                let (workload, cluster, ops, median) =
                    (&hops.workload, &hops.cluster, breakdown.ops, breakdown.median_us);
                let outside = self.outside(hops, median);
                let line = format!("{workload}, {cluster}, {kind}: median {median} us of {ops}; {verdict}{outside}.");
                lines.push(line);
            }
        }
        if lines.is_empty() {
            return Vec::new();
        }
        vec![Block::Prose("On the OSDs (a sample of the last iteration):".into()), Block::List(lines)]
    }

    /// The time that clients saw beyond an OSD's median, if all their operations were of one kind.
    fn outside(&self, hops: &WorkloadHops, median_us: u64) -> String {
        let mut rows = self.rows.iter().filter(|row| {
            (&row.cluster, &row.workload, row.iteration) == (&hops.cluster, &hops.workload, hops.iteration)
        });
        let (Some(row), None) = (rows.next(), rows.next()) else { return String::new() };
        let one_kind = hops.reads.is_none() || hops.writes.is_none();
        let Some(p50_us) = row.latency.p50_us.filter(|_| one_kind) else { return String::new() };
        let outside_us = (p50_us - median_us as f64).max(0.0);
        format!("; clients saw {p50_us:.0} us, so about {outside_us:.0} us are theirs and the network's")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::result;
    use super::*;

    #[test]
    fn the_report_names_the_largest_hop_of_the_last_iteration() {
        let mut result = result();
        // The rows of clients are not needed here.
        result.rows.clear();
        assert_eq!(result.hops_blocks(), []);
        let op = |flush_us: u64| OpHops {
            write: true,
            sampled: true,
            total_us: 100 + flush_us,
            hops: vec![("queue".into(), 100), ("flush".into(), flush_us)],
            ..OpHops::default()
        };
        assert_eq!(WorkloadHops::of("c", "w", 0, &[OpHops { sampled: false, ..op(5) }]), None);
        for (iteration, flush_us) in [(0, 10), (1, 300)] {
            result.hops.extend(WorkloadHops::of("c", "w", iteration, &[op(flush_us), op(flush_us)]));
        }
        assert!(
            result.to_markdown().contains("- w, c, writes: median 400 us of 2; most time goes into flush (75 %).\n")
        );
        // The last digit of a fraction may differ after reading; the written text may not.
        let read = RunResult::from_json(&result.to_json()).unwrap();
        assert_eq!((read.hops.len(), read.to_markdown()), (2, result.to_markdown()));
    }
}
