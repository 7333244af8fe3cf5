//! `nacre plan`: sizes a cluster before it is bought.

use std::path::Path;

use anyhow::{Context, Result, bail};
use bench::plan::{Plan as BenchPlan, Redundancy};
use bench::report::{Figure, Row, RunResult};
use plan::catalogue::{Measured, Operation};
use plan::{Catalogue, Drive, Engine, Known, Protection, Request, Workload};
use report::{Block, Cell, Column, Page, Table};

use crate::bench::run_report;
use crate::cli::plan::{PlanFlags, Size, Software};
use crate::pages;

/// Operations from this size on count as large, and none but those of 4 KiB as small.
const LARGE_BYTES: u64 = 256 << 10;
const SMALL_BYTES: u64 = 4 << 10;

pub fn run(options: &PlanFlags) -> Result<()> {
    let mut catalogue = Catalogue::built_in();
    if let Some(path) = &options.catalogue {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let own = Catalogue::from_toml(&text).with_context(|| format!("{} cannot be used", path.display()))?;
        catalogue.extend(own);
    }
    let Some(usable_tb) = options.usable_tb.filter(|_| !options.drives) else {
        print!("{}", drives(&catalogue).to_text(pages::width()));
        return Ok(());
    };
    if let Some(path) = &options.measured {
        let drive = catalogue.drive(&options.drive).cloned();
        let drive = drive.with_context(|| format!("no drive of the catalogue is called {:?}", options.drive))?;
        catalogue.prefer(measured(path, &drive)?);
    }
    let request = request(options, usable_tb);
    let made = plan::plan(&catalogue, &request)?;
    if options.json {
        let both = serde_json::json!({"format": "nacre-plan", "version": 1, "request": request, "plan": made,
                                      "alternatives": plan::alternatives(&catalogue, &request)});
        println!("{both:#}");
    } else if let Some(path) = &options.html {
        let page = plan::page::page_with_sliders(&catalogue, &request, &made);
        let footer = format!("Made by nacre {}; formulas are in docs/planner.md.", env!("CARGO_PKG_VERSION"));
        pages::write(path, &page.to_html(&footer))?;
        eprintln!("the plan is in {}", path.display());
    } else {
        print!("{}", plan::page::page(&catalogue, &request, &made).to_text(pages::width()));
    }
    Ok(())
}

fn request(options: &PlanFlags, usable_tb: f64) -> Request {
    let read_percent = options.reads;
    Request {
        usable_tb,
        failures: options.failures,
        workload: match options.workload {
            Size::Large => Workload::Large { read_percent },
            Size::Small => Workload::Small { read_percent },
        },
        drive: options.drive.clone(),
        protection: options.protection,
        engine: match options.software {
            Software::Ceph => Engine::Ceph,
            Software::Nacre => Engine::Nacre,
        },
        fill: options.fill / 100.0,
        servers: options.servers,
        drives_per_server: options.drives_per_server,
        link_gbit_per_s: options.link,
    }
}

fn drives(catalogue: &Catalogue) -> Page {
    let columns = vec![
        Column::text("drive"),
        Column::number("capacity", "TB"),
        Column::number("per server", ""),
        Column::number("OSDs of Ceph", ""),
        Column::text("figures from"),
    ];
    let mut table = Table::new("drives", "", columns);
    for drive in &catalogue.drives {
        table.push(vec![
            Cell::text(&drive.name),
            Cell::Number(drive.capacity_tb),
            Cell::Count(drive.per_server.into()),
            Cell::Count(drive.osds.into()),
            Cell::text(&drive.source),
        ]);
    }
    let mut page = Page::new("Drives of the catalogue");
    page.opening.push(Block::Table(table));
    page
}

/// The best rates of a run's first cluster as a known cluster of one server.
fn measured(path: &Path, drive: &Drive) -> Result<Known> {
    let (_, result) = run_report::read(path)?;
    let cluster = result.plan.clusters.first().map(|cluster| cluster.name.clone()).unwrap_or_default();
    let osds = result.environment.get(&format!("cluster.{cluster}.osds_in")).and_then(|text| text.parse::<u32>().ok());
    let Some(osds) = osds.filter(|osds| *osds > 0) else {
        bail!("{} does not tell how many OSDs cluster {cluster} had", path.display());
    };
    let mut known = Known {
        name: format!("run {}", result.plan.name),
        source: format!("measured, {osds} OSDs: {}", path.display()),
        drive: drive.name.clone(),
        media: drive.media,
        servers: 1,
        drives: osds,
        measured: Vec::new(),
    };
    for row in result.rows.iter().filter(|row| row.cluster == cluster && !row.partial && row.mismatches == 0) {
        let Some(one) = rate_of(&result, row) else { continue };
        let same = |other: &&mut Measured| (other.protection, other.operation) == (one.protection, one.operation);
        match known.measured.iter_mut().find(same) {
            Some(best) if best.rate >= one.rate => {}
            Some(best) => *best = one,
            None => known.measured.push(one),
        }
    }
    if known.measured.is_empty() {
        bail!(
            "{} has no workload of one kind of operation, of 4 KiB or of 256 KiB and more, in a pool that it made",
            path.display()
        );
    }
    Ok(known)
}

/// The rate of a row whose workload is one group with one kind of operation.
fn rate_of(result: &RunResult, row: &Row) -> Option<Measured> {
    let plan: &BenchPlan = &result.plan;
    let workload = plan.workloads.iter().find(|workload| workload.name == row.workload)?;
    let [group] = workload.groups.as_slice() else { return None };
    let protection = match plan.pool(&workload.pool)?.to_make()?.0 {
        Redundancy::Replicated { size } => Protection::Copies(size),
        Redundancy::Erasure { k, m } => Protection::Erasure { k, m },
    };
    let reads = match group.operations.reads() {
        100 => true,
        0 => false,
        _ => return None,
    };
    let operation = match (group.io_bytes(), reads) {
        (LARGE_BYTES.., true) => Operation::LargeRead,
        (LARGE_BYTES.., false) => Operation::LargeWrite,
        (SMALL_BYTES, true) => Operation::SmallRead,
        (SMALL_BYTES, false) => Operation::SmallWrite,
        _ => return None,
    };
    let rate = match operation.is_large() {
        true => Figure::BytesPerS.of(row)? / 1e9,
        false => Figure::OperationsPerS.of(row)?,
    };
    let cores_per_server = row.figures.get("server_cores").copied().flatten().filter(|cores| *cores > 0.0);
    let measured = Measured { protection, operation, rate, cores_per_server, cores_at: None, network_bound: false };
    (rate > 0.0).then_some(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn options(args: &[&str]) -> PlanFlags {
        let command = Cli::try_parse_from([&["nacre", "plan"], args].concat()).unwrap().command;
        let Command::Plan(options) = command else { panic!("{command:?}") };
        options
    }

    #[test]
    fn flags_make_requests() {
        let asked = options(&["--usable-tb", "500", "--failures", "1", "--workload", "small", "--reads", "70"]);
        let request = request(&asked, 500.0);
        assert_eq!(request.workload, Workload::Small { read_percent: 70.0 });
        assert_eq!((request.engine, request.fill, request.protection), (Engine::Nacre, 0.8, None));
        let made = plan::plan(&Catalogue::built_in(), &request).unwrap();
        assert_eq!(made.protection, Protection::Copies(2));
        assert!(Cli::try_parse_from(["nacre", "plan"]).is_err(), "nothing is asked for");
        assert!(Cli::try_parse_from(["nacre", "plan", "--usable-tb", "5", "--protection", "x"]).is_err());
    }

    #[test]
    fn a_run_is_a_cost_model() {
        let plan = r#"{"version": 1, "name": "rows", "seed": 1,
            "clusters": [{"name": "n", "engine": "nacre", "configuration": "a"}],
            "pools": [{"name": "r3", "redundancy": {"replicated": {"size": 3}}, "pg_count": 64}],
            "workloads": [{"name": "w", "pool": "r3", "stop": {"duration_s": 10},
              "groups": [{"name": "g", "object_bytes": 4194304, "objects": 64, "operations": {"sequential_write": 100},
                          "instances": 1, "load": {"closed": {"queue_depth": 4}}}]}]}"#;
        let facts = std::collections::BTreeMap::from([("cluster.n.osds_in".to_owned(), "6".to_owned())]);
        let mut result = RunResult::new(BenchPlan::from_json(plan).unwrap(), facts);
        let row = |bytes: u64, cores: f64| -> Row {
            let text = format!(
                r#"{{"cluster": "n", "workload": "w", "group": "g", "iteration": 0, "measured_s": 10.0,
                     "operations": 10, "bytes": {bytes}, "errors": 0, "mismatches": 0,
                     "latency": {{"count": 0}}, "figures": {{"server_cores": {cores}}}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        result.rows = vec![row(3_000_000_000, 1.0), row(6_000_000_000, 1.5)];
        let folder = crate::scratch::Scratch::new();
        let file = folder.path().join("result.json");
        std::fs::write(&file, result.to_json()).unwrap();
        let mut catalogue = Catalogue::built_in();
        let drive = catalogue.drive("micron-7450-pro-7.68").unwrap().clone();
        catalogue.prefer(measured(&file, &drive).unwrap());
        let asked = options(&["--usable-tb", "100", "--protection", "3x", "--servers", "6"]);
        let made = plan::plan(&catalogue, &request(&asked, 100.0)).unwrap();
        let write = made.write.unwrap();
        // 0.6 GB/s of six OSDs, which are a drive each.
        assert!((write.rate - 0.1 * f64::from(made.drives)).abs() < 1e-9, "{write:?}");
        assert_eq!(write.known, "run rows");
        assert_eq!(made.read.unwrap().known, "micron-7450", "reads were not measured");
        result.rows.clear();
        std::fs::write(&file, result.to_json()).unwrap();
        let error = measured(&file, &drive).unwrap_err().to_string();
        assert!(error.contains("has no workload of one kind of operation"), "{error}");
    }
}
