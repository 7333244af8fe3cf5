//! Reports of finished runs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bench::operating::Limits;
use bench::report::{RunResult, Telemetry};

use super::{PROGRAM, limits, sections};
use crate::cli::bench::BenchReport;
use crate::pages;

/// Name of the page in a run's folder.
const PAGE_FILE: &str = "report.html";

/// Shows a run as the flags say; returns the exit status.
pub fn run(options: &BenchReport) -> Result<u8> {
    let limits = limits::of(&options.limits)?;
    let (folder, result) = read(&options.path)?;
    let page = match &options.against {
        Some(other) => Some(result.page_against(&read(other)?.1, names(&options.path, other).each_ref().map(|n| &**n))),
        None if options.html.is_some() || options.text => {
            Some(result.page_with(&telemetry(&folder, &result)?, &limits))
        }
        None => None,
    };
    match (page, &options.html) {
        (Some(page), Some(path)) => {
            pages::write(path, &page.to_html(&footer()))?;
            eprintln!("the report is in {}", path.display());
        }
        (Some(page), None) if options.text => print!("{}", page.to_text(pages::width())),
        (Some(page), None) => sections::put(&options.document, &page.to_markdown())?,
        (None, _) => {
            let text = match (options.csv, options.rows) {
                (true, _) => result.to_csv(),
                (_, true) => result.to_rows_markdown(),
                _ => result.to_markdown(),
            };
            sections::put(&options.document, &text)?;
        }
    }
    Ok(0)
}

/// Writes the page of a run that has just ended into its folder.
pub fn write_beside(folder: &Path, result: &RunResult, limits: &Limits) -> Result<()> {
    let page = result.page_with(&telemetry(folder, result)?, limits);
    pages::write(&folder.join(PAGE_FILE), &page.to_html(&footer()))
}

fn footer() -> String {
    format!("Made by {PROGRAM} from result.json and the folder telemetry of the run.")
}

/// Words by which two runs are told apart: the names of their folders, or their paths if these are the same.
fn names(first: &Path, second: &Path) -> [String; 2] {
    let name = |path: &Path| {
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        folder.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
    };
    let names = [name(first), name(second)];
    if names[0] == names[1] { [first, second].map(|path| path.display().to_string()) } else { names }
}

/// The result at `path`, a run's folder or its `result.json`, with the folder.
pub fn read(path: &Path) -> Result<(PathBuf, RunResult)> {
    let file = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let result = RunResult::from_json(&text).with_context(|| format!("{} is no result of a run", file.display()))?;
    Ok((file.parent().unwrap_or(Path::new("")).to_owned(), result))
}

/// Records over time of all iterations that the folder has.
fn telemetry(folder: &Path, result: &RunResult) -> Result<Vec<Telemetry>> {
    let mut records: Vec<Telemetry> = Vec::new();
    let of_rows = result.rows.iter().map(|row| (&row.cluster, &row.workload, row.iteration));
    let of_rebuilds = result.rebuilds.iter().map(|rebuild| (&rebuild.cluster, &rebuild.name, 0));
    for (cluster, workload, iteration) in of_rows.chain(of_rebuilds) {
        let there = |one: &Telemetry| (&one.cluster, &one.workload, one.iteration) == (cluster, workload, iteration);
        if records.iter().any(there) {
            continue;
        }
        let file = folder.join(Telemetry::file(cluster, workload, iteration));
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            // A result without its folder is still worth a report.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        let record = Telemetry::parse(cluster, workload, iteration, &text);
        records.push(record.with_context(|| format!("{} cannot be used", file.display()))?);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_names() {
        assert_eq!(names(Path::new("/a/new/result.json"), Path::new("/a/old/result.json")), ["new", "old"]);
        assert_eq!(names(Path::new("/a/x/r"), Path::new("/b/x/r")), ["/a/x/r", "/b/x/r"]);
    }
}
