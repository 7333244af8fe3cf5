//! `nacre bench rebuild`: how long a cluster takes to restore every copy after OSDs were lost, and what clients feel.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use bench::operating::Limits;
use bench::plan::Redundancy;
use load::rebuild::{Lost, RebuildOptions};
use tokio::sync::watch;

use super::replacing::Replacing;
use super::watcher::Watcher;
use super::{PROGRAM, default_folder, interrupts_saying, plan_maker, show};
use crate::cli::bench::{BenchRebuild, ClusterAt, RebuildLoad};

const REPLICAS: u32 = 3;

/// Runs the test; returns the exit status.
pub fn run(options: &BenchRebuild) -> Result<u8> {
    let wanted = rebuild_options(options)?;
    if !options.yes {
        bail!(
            "{} will be stopped and what is stored there erased, {} times; the cluster must have other copies of \
             everything. Add --yes if that is wanted",
            match &wanted.lost {
                Lost::Osds(osds) => osds.iter().map(|osd| format!("osd.{osd}")).collect::<Vec<_>>().join(", "),
                Lost::Host(host) => format!("all OSDs of host {host}"),
            },
            wanted.loads.len()
        );
    }
    let conf = plan_maker::configuration_of(options.cluster.as_ref(), options.conf.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (asked, interrupt) = watch::channel(false);
        let words =
            "ending in order: OSDs come back and the pool goes; once more ends at once and leaves both as they are";
        let interrupts = tokio::spawn(interrupts_saying(asked, words)?);
        let mut hands = Replacing::new(options.by.as_deref(), &conf)?;
        let name = options.cluster.as_ref().map_or("cluster", |ClusterAt { name, .. }| name);
        let cluster = plan_maker::cluster(name, &conf).await?;
        let mut watcher = Watcher::new();
        let result = load::rebuild::run(cluster, &wanted, &mut hands, &mut watcher, interrupt).await;
        watcher.end();
        interrupts.abort();
        show(&result?, options.json, &wanted.folder, &Limits::default())
    })
}

fn rebuild_options(options: &BenchRebuild) -> Result<RebuildOptions> {
    let lost = match &options.host {
        Some(host) => Lost::Host(host.clone()),
        None => Lost::Osds(options.osd.clone()),
    };
    let seconds = |what: &str, value: f64| {
        if !(0.1..=86_400.0).contains(&value) {
            bail!("--{what} {value}: 0.1 to 86400 seconds");
        }
        Duration::try_from_secs_f64(value).with_context(|| format!("--{what} {value}"))
    };
    Ok(RebuildOptions {
        folder: options.out.clone().unwrap_or_else(|| default_folder("rebuild")),
        redundancy: options.erasure.unwrap_or(Redundancy::Replicated { size: options.replicas.unwrap_or(REPLICAS) }),
        pg_count: options.pgs,
        fill_percent: options.fill,
        object_bytes: options.object_size.0,
        lost,
        loads: match options.load {
            RebuildLoad::Both => vec![false, true],
            RebuildLoad::Without => vec![false],
            RebuildLoad::With => vec![true],
        },
        readers: options.readers,
        writers: options.writers,
        depth: options.depth,
        before: seconds("before", options.before)?,
        limit: seconds("limit", options.limit)?,
        seed: options.seed,
        keep: options.keep,
        command: std::env::args().collect(),
        version: PROGRAM.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, bench::Bench};
    use clap::Parser;

    fn parse(args: &[&str]) -> Result<BenchRebuild, clap::Error> {
        match Cli::try_parse_from([&["nacre", "bench", "rebuild"], args].concat())?.command {
            Command::Bench(Bench::Rebuild(options)) => Ok(*options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags() {
        let made = rebuild_options(&parse(&["--osd", "1,3", "--erasure", "4+2", "--load", "with"]).unwrap()).unwrap();
        assert_eq!(made.lost, Lost::Osds(vec![1, 3]));
        assert_eq!((made.redundancy, made.loads), (Redundancy::Erasure { k: 4, m: 2 }, vec![true]));
        let made = rebuild_options(&parse(&["--host", "a"]).unwrap()).unwrap();
        assert_eq!((made.lost, made.loads), (Lost::Host("a".into()), vec![false, true]));
        for args in [
            &[][..],
            &["--osd", "1", "--host", "a"],
            &["--osd", "x"],
            &["--osd", "1", "--replicas", "2", "--erasure", "2+1"],
        ] {
            assert!(parse(args).is_err(), "{args:?}");
        }
        let never = rebuild_options(&parse(&["--osd", "1", "--limit", "0"]).unwrap()).unwrap_err().to_string();
        assert!(never.contains("--limit"), "{never}");
    }

    #[test]
    fn nothing_is_erased_without_a_word() {
        let error = run(&parse(&["--osd", "1,3"]).unwrap()).unwrap_err().to_string();
        assert!(error.contains("osd.1, osd.3 will be stopped") && error.contains("--yes"), "{error}");
    }
}
