//! Outputs of `rados bench` of Ceph 16.2.15 and of fio 3.33, as they were printed.

use super::*;
use crate::report::Figure;

const WRITE_TEXT: &str = include_str!("fixtures/rados-write.txt");
const SEQ_TEXT: &str = include_str!("fixtures/rados-seq.txt");
const WRITE_JSON: &str = include_str!("fixtures/rados-write.json");
const RAND_JSON: &str = include_str!("fixtures/rados-rand.json");
const FIO_MIXED: &str = include_str!("fixtures/fio-mixed.json");
const FIO_RADOS: &str = include_str!("fixtures/fio-rados.json");

fn only(text: &str) -> Imported {
    let mut all = read(text).unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn rados_bench_as_people_see_it() {
    let write = only(WRITE_TEXT);
    let ToolOutcome { operations, bytes, measured_s, latency, .. } = &write.outcome;
    assert_eq!((*operations, *bytes, *measured_s), (609, 609 * 65536, 4.01945));
    let us = |value: Option<f64>| value.map(|us| us.round());
    assert_eq!((us(latency.mean_us), us(latency.max_us)), (Some(52_641.0), Some(204_908.0)));
    assert_eq!((us(latency.min_us), latency.p99_us), (Some(6_353.0), None));
    assert_eq!((write.tool, write.group.load), (Tool::RadosBench, Load::Closed { queue_depth: 8 }));
    assert_eq!((write.group.io_bytes(), write.group.object_bytes), (65536, 65536));
    assert_eq!(write.group.operations.sequential_write, 100);
    let rates: Vec<f64> = write.series.iter().map(|point| point.operations_per_s).collect();
    assert_eq!(rates, [109.0, 121.0, 158.0]);
    let read = only(SEQ_TEXT);
    // Depth is what was in flight: reads do not print theirs.
    assert_eq!((read.outcome.operations, read.group.load), (609, Load::Closed { queue_depth: 8 }));
    assert_eq!((read.group.operations.sequential_read, read.group.name.as_str()), (100, "reads"));
}

#[test]
fn rados_bench_in_json() {
    let read = only(RAND_JSON);
    assert_eq!((read.outcome.operations, read.outcome.bytes), (2001, 2001 * 65536));
    assert_eq!(read.group.load, Load::Closed { queue_depth: 4 });
    assert_eq!(read.series.iter().map(|point| point.operations_per_s).collect::<Vec<_>>(), [445.0, 691.0, 864.0]);
    let write = only(WRITE_JSON);
    assert_eq!((write.group.object_bytes, write.group.load), (4 << 20, Load::Closed { queue_depth: 4 }));
    assert_eq!(write.group.operations.sequential_write, 100);
}

#[test]
fn fio_with_percentiles_only() {
    let all = read(FIO_MIXED).unwrap();
    let names: Vec<&str> = all.iter().map(|one| one.group.name.as_str()).collect();
    assert_eq!(names, ["mixed-reads", "mixed-writes"]);
    let reads = &all[0];
    assert_eq!((reads.outcome.operations, reads.outcome.bytes), (1032, 4_227_072));
    assert_eq!((reads.tool, reads.group.load), (Tool::FioRbd, Load::Closed { queue_depth: 8 }));
    assert_eq!((reads.group.io_bytes(), reads.group.operations.random_read), (4096, 100));
    assert_eq!(reads.outcome.latency.p50_us, Some(10_289.152));
    assert!(reads.outcome.histogram.is_none() && reads.outcome.latency.mean_us > reads.outcome.latency.p50_us);
    assert_eq!(reads.facts, [("imported_from".to_owned(), "fio-3.33, engine rbd".to_owned())]);
}

#[test]
fn fio_with_the_whole_distribution() {
    let write = only(FIO_RADOS);
    assert_eq!((write.tool, write.group.instances), (Tool::FioRados, 2));
    assert_eq!((write.group.load, write.group.io_bytes()), (Load::Closed { queue_depth: 4 }, 65536));
    let latency = &write.outcome.latency;
    assert_eq!(latency.count, write.outcome.operations);
    assert!(latency.p50_us < latency.p99_us && latency.p99_us <= latency.max_us.map(|us| us * 1.01), "{latency:?}");
    assert!(write.outcome.histogram.is_some());
}

fn sources(texts: &[(&str, &str)]) -> Vec<Source> {
    texts.iter().map(|(workload, text)| Source { workload: (*workload).into(), text: (*text).into() }).collect()
}

#[test]
fn outputs_become_a_run_whose_report_is_like_any_other() {
    let given = sources(&[("write", WRITE_TEXT), ("write", WRITE_TEXT), ("mixed", FIO_MIXED)]);
    let result = run("by hand", "old", Engine::Ceph, &given).unwrap();
    let back = RunResult::from_json(&result.to_json()).unwrap();
    assert_eq!(back, result);
    let rows: Vec<(&str, &str, u32)> =
        result.rows.iter().map(|row| (row.workload.as_str(), row.group.as_str(), row.iteration)).collect();
    assert_eq!(
        rows,
        [("write", "writes", 0), ("write", "writes", 1), ("mixed", "mixed-reads", 0), ("mixed", "mixed-writes", 0)]
    );
    assert!((Figure::OperationsPerS.of(&result.rows[0]).unwrap() - 609.0 / 4.01945).abs() < 1e-9);
    assert_eq!(result.environment["write.object_prefix"], "benchmark_data_vm_1134");
    assert!(result.to_markdown().contains("mixed-reads"));
    let page = result.page(&[]);
    assert!(page.to_text(100).contains("mixed-writes") && page.to_html("").contains("mixed-reads"));
    let ours = run("other", "new", Engine::Nacre, &given).unwrap();
    assert!(ours.page_against(&result, ["new", "old"]).to_text(100).contains("mixed-reads"));
}

#[test]
fn what_is_no_run_is_refused() {
    assert_eq!(read("hello"), Err(ImportError::Unknown));
    assert_eq!(read(""), Err(ImportError::Unknown));
    let cut: String =
        WRITE_TEXT.lines().filter(|line| !line.starts_with("Average Latency")).collect::<Vec<_>>().join("\n");
    assert_eq!(read(&cut), Err(ImportError::Rados(ToolError::Missing("Average Latency(s)".into()))));
    let nothing = WRITE_TEXT.replace("made:      609", "made:      0");
    assert_eq!(read(&nothing), Err(ImportError::Rados(ToolError::Nothing)));
    let mut trims: serde_json::Value = serde_json::from_str(FIO_MIXED).unwrap();
    trims["jobs"][0]["trim"]["total_ios"] = 7.into();
    let trims = trims.to_string();
    assert_eq!(read(&trims), Err(ImportError::Trims { job: "mixed".into() }));
    assert!(matches!(read("{\"fio version\": \"x\", \"jobs\": []}"), Err(ImportError::Fio(ToolError::Nothing))));
    let error = run("r", "c", Engine::Ceph, &sources(&[("w", WRITE_TEXT), ("w", WRITE_JSON)])).unwrap_err();
    assert_eq!(error, (1, ImportError::Differs { workload: "w".into(), what: "sizes" }));
    let error = run("r", "c", Engine::Ceph, &sources(&[("w", WRITE_TEXT), ("x", "y")])).unwrap_err();
    assert_eq!(error, (1, ImportError::Unknown));
    let deeper = WRITE_TEXT.replace("Maintaining 8", "Maintaining 9");
    let error = run("r", "c", Engine::Ceph, &sources(&[("w", WRITE_TEXT), ("w", &deeper)])).unwrap_err();
    assert_eq!(error.1, ImportError::Differs { workload: "w".into(), what: "queue depths or clients" });
    let mixed = run("r", "c", Engine::Ceph, &sources(&[("w", WRITE_TEXT), ("w", FIO_RADOS)])).unwrap_err();
    assert_eq!(mixed.1, ImportError::Differs { workload: "w".into(), what: "tools" });
}
