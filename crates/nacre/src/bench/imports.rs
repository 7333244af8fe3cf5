//! `nacre bench import`: runs of other tools, made by hand.

use std::path::Path;

use anyhow::{Context, Result, bail};
use bench::import::{self, Source};
use bench::plan::plain_name;
use load::run_folder::RunFolder;

use super::{default_folder, run_report};
use crate::cli::bench::BenchImport;

/// Makes a run's folder of the files; returns the exit status.
pub fn run(options: &BenchImport) -> Result<u8> {
    let mut sources = Vec::new();
    for named in &options.outputs {
        let workload = named.workload.clone().map_or_else(|| stem(&named.path), Ok)?;
        let text =
            std::fs::read_to_string(&named.path).with_context(|| format!("cannot read {}", named.path.display()))?;
        sources.push(Source { workload, text });
    }
    let result =
        import::run(&options.name, &options.cluster, options.engine.into(), &sources).map_err(|(index, error)| {
            anyhow::Error::new(error).context(options.outputs[index].path.display().to_string())
        })?;
    let folder = options.out.clone().unwrap_or_else(|| default_folder(&options.name));
    let made = RunFolder::create(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    made.write_result(&result)?;
    run_report::write_beside(&folder, &result, &bench::operating::Limits::default())?;
    print!("{}", result.to_markdown());
    eprintln!("the run is in {}", folder.display());
    Ok(0)
}

/// The workload's name of a file without one: that of the file, in letters that names may have.
fn stem(path: &Path) -> Result<String> {
    let Some(stem) = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).filter(|stem| !stem.is_empty())
    else {
        bail!("{} has no name; write WORKLOAD={}", path.display(), path.display());
    };
    let mut name = plain_name(&stem);
    name.truncate(64);
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, bench::Bench};
    use clap::Parser;

    fn options(args: &[&str]) -> BenchImport {
        let command = Cli::try_parse_from([&["nacre", "bench", "import"], args].concat()).unwrap().command;
        let Command::Bench(Bench::Import(options)) = command else { panic!("{command:?}") };
        options
    }

    #[test]
    fn files_become_a_folder_that_can_be_reported() {
        let folder = crate::scratch::Scratch::new();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let first = file("a b.txt", include_str!("../../../bench/src/import/fixtures/rados-write.txt"));
        let second = file("x.json", include_str!("../../../bench/src/import/fixtures/fio-mixed.json"));
        let out = folder.path().join("run");
        let to = out.display().to_string();
        let named = format!("mixed={second}");
        assert_eq!(run(&options(&["--out", &to, &first, &first, &named])).unwrap(), 0);
        let (_, result) = run_report::read(&out).unwrap();
        let names: Vec<&str> = result.plan.workloads.iter().map(|workload| workload.name.as_str()).collect();
        assert_eq!((names.as_slice(), result.plan.iterations), (&["a-b", "mixed"][..], 2));
        assert!(out.join("report.html").exists());
        let error = run(&options(&["--out", &to, &first])).unwrap_err();
        assert!(format!("{error:#}").contains("cannot make the folder"), "{error:#}");
        let bad = file("bad", "nothing");
        let other = folder.path().join("other");
        let error = run(&options(&["--out", &other.display().to_string(), &first, &bad])).unwrap_err();
        assert!(format!("{error:#}").contains("bad: it is neither"), "{error:#}");
        assert!(!other.exists(), "nothing is made of what is refused");
    }
}
