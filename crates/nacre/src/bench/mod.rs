//! `nacre bench`: measures clusters and compares them.
//!
//! [`plan_maker`] makes plans from flags, [`plan_files`] reads them, [`watcher`] shows how a run goes, [`agent`] serves
//! other machines' runs; crate `load` does the work. [`run_report`] shows finished runs, [`client_cost`] compares
//! client libraries, [`imports`] reads what other tools measured, [`short_load`] loads a cluster for a report on it,
//! [`sections`] puts tables into documents. [`rebuild`] has a cluster lose OSDs, which [`replacing`] does.

mod agent;
mod client_cost;
mod imports;
mod limits;
mod plan_files;
mod plan_maker;
mod rebuild;
mod replacing;
pub mod run_report;
mod sections;
pub mod short_load;
mod watcher;

use crate::cli::bench::{Bench, BenchRun};
use anyhow::{Context, Result, bail};
use bench::operating::Limits;
use bench::report::{End, RunResult};
use load::{Options, SearchRules};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use watcher::Watcher;

/// Exit status of a run that the user ended, as shells have it for Ctrl-C.
const INTERRUPTED: u8 = 130;

/// The name of this program in results and for agents.
const PROGRAM: &str = concat!("nacre ", env!("CARGO_PKG_VERSION"));

/// Runs the command; returns the exit status: 0 if all was measured and every byte read was right.
pub fn run(command: Bench) -> Result<u8> {
    match command {
        Bench::Run(options) => measure(&options, 1),
        Bench::Compare(options) => measure(&options, 2),
        Bench::Rebuild(options) => rebuild::run(&options),
        Bench::Report(options) => run_report::run(&options),
        Bench::Import(options) => imports::run(&options),
        Bench::ClientCost(options) => client_cost::run(&options),
        Bench::Agent(options) => agent::run(options),
    }
}

/// `clusters_min`: 1 to measure, 2 to compare.
fn measure(options: &BenchRun, clusters_min: usize) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (asked, interrupt) = watch::channel(false);
        let interrupts = tokio::spawn(interrupts(asked)?);
        let (limits, search) = (limits_of_run(options)?, search_of_run(options)?);
        let plan = plan_maker::make(options, clusters_min).await?;
        if let Some(search) = &search {
            search.check(&plan).context("this search cannot be run")?;
        }
        if plan.clusters.len() < clusters_min {
            bail!("to compare takes two clusters: name them with --cluster, or in the plan");
        }
        if options.print_plan {
            println!("{}", plan.to_json());
            return Ok(0);
        }
        let folder = options.out.clone().unwrap_or_else(|| default_folder(&plan.name));
        let settings = Options {
            folder: folder.clone(),
            keep: options.keep,
            ceilings: options.ceilings,
            search,
            agents: options.agents.clone(),
            agent_token: options.token_file.as_deref().map(agent::read_token).transpose()?,
            command: std::env::args().collect(),
            version: PROGRAM.to_owned(),
        };
        let mut watcher = Watcher::new();
        let result = load::run(plan, &settings, &mut watcher, interrupt).await;
        watcher.end();
        interrupts.abort();
        show(&result?, options.json, &folder, &limits)
    })
}

/// Limits of operating points of a run's page. What a search looks for is one of them.
fn limits_of_run(options: &BenchRun) -> Result<Limits> {
    let limits = limits::of(&options.limits)?;
    let p99_us_max = limits.p99_us_max.or(options.sweep.find_p99.map(|ms| ms * 1000.0));
    Ok(Limits { p99_us_max, ..limits })
}

fn search_of_run(options: &BenchRun) -> Result<Option<SearchRules>> {
    let rules = |ms: f64| SearchRules { p99_us_max: ms * 1000.0, load_max: plan_maker::search_max(options) };
    Ok(limits::within("find-p99", options.sweep.find_p99, 0.0, 1e9)?.map(rules))
}

/// Prints the result of a run, writes its page beside it, and returns the exit status.
fn show(result: &RunResult, as_json: bool, folder: &Path, limits: &Limits) -> Result<u8> {
    match as_json {
        true => println!("{}", result.to_json()),
        false => print!("{}", result.to_markdown()),
    }
    if folder.is_dir() {
        run_report::write_beside(folder, result, limits)?;
        eprintln!("everything about this run is in {}", folder.display());
    }
    Ok(status(result))
}

fn status(result: &RunResult) -> u8 {
    match &result.end {
        End::Interrupted => INTERRUPTED,
        End::Failed(reason) => {
            eprintln!("error: {reason}");
            1
        }
        End::Complete => {
            let wrong: u64 = result.rows.iter().map(|row| row.mismatches).sum();
            if wrong > 0 {
                eprintln!("error: {wrong} reads returned wrong bytes");
            }
            u8::from(wrong > 0)
        }
    }
}

/// The first signal ends the run in order, the second at once.
fn interrupts(asked: watch::Sender<bool>) -> Result<impl Future<Output = ()>> {
    interrupts_saying(asked, "ending in order; once more ends at once and leaves objects and pools behind")
}

/// Ends a run as [`interrupts`] does; `words` follow the first signal.
fn interrupts_saying(asked: watch::Sender<bool>, words: &'static str) -> Result<impl Future<Output = ()>> {
    let listen = |kind| signal(kind).context("cannot handle signals");
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(async move {
        for first in [true, false] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if first {
                eprintln!("\n{words}");
                asked.send_replace(true);
            }
        }
        std::process::exit(INTERRUPTED.into());
    })
}

/// The present time in letters for names of files: `20261128T031500`.
pub(crate) fn time_stamp() -> String {
    // 2026-11-21T13:44:55.776022+0000
    let now = types::Utime::from(SystemTime::now()).to_string();
    now.chars().take(19).filter(|c| !"-:".contains(*c)).collect()
}

fn default_folder(name: &str) -> PathBuf {
    Path::new("nacre-bench").join(format!("{}-{}", bench::plan::plain_name(name), time_stamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_have_plain_names() {
        let name = default_folder("4 KiB / write").display().to_string();
        let (start, time) = name.rsplit_once('-').unwrap();
        assert_eq!(start, "nacre-bench/4-KiB---write");
        assert!(time.len() == 15 && time.as_bytes()[8] == b'T', "{time}");
    }
}
