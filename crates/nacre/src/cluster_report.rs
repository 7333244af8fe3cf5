//! `nacre report`: a cluster that runs.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use client::Cluster;
use load::hops::gather;
use serde_json::json;
use survey::{Answers, Survey};

use crate::bench::short_load;
use crate::cli::ClusterReport;
use crate::connection::{conf_of, connect};
use crate::health::json_command;
use crate::pages;

/// Time for each answer of the monitors.
const PATIENCE: Duration = Duration::from_secs(20);
/// Copies of the pool that a load makes, where there are so many places for them.
const COPIES: u32 = 3;

/// Prints the report. Fails if no monitor answers.
pub fn run(options: &ClusterReport) -> Result<()> {
    let conf = conf_of(&options.target)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let survey = runtime.block_on(async {
        let cluster = connect(&conf, &options.target.login).await?;
        let mut answers = ask(&cluster).await?;
        let measured = match options.load {
            None => Vec::new(),
            Some(seconds) => {
                // Operations that were kept until now are the clients', not the load's.
                operations(&cluster, &mut answers).await?;
                load(&conf, &answers, seconds).await?
            }
        };
        if answers.operations.is_empty() {
            operations(&cluster, &mut answers).await?;
        }
        Ok::<_, anyhow::Error>(Survey::of(&answers, measured))
    })?;
    if options.json {
        print!("{}", survey.to_json());
    } else if let Some(path) = &options.html {
        pages::write(path, &survey.page().to_html(&format!("Made by nacre {}.", env!("CARGO_PKG_VERSION"))))?;
        eprintln!("the report is in {}", path.display());
    } else {
        print!("{}", survey.page().to_text(pages::width()));
    }
    Ok(())
}

/// Asks the monitors. The first question must be answered; what they refuse later stays unknown and is told.
async fn ask(cluster: &Cluster) -> Result<Answers> {
    let mut answers = Answers::default();
    for (prefix, place) in answers.commands() {
        let answer = tokio::time::timeout(PATIENCE, json_command(cluster, json!({ "prefix": prefix }))).await;
        let answer = answer.with_context(|| format!("'{prefix}' was not answered within {} s", PATIENCE.as_secs()));
        match answer.and_then(|answer| answer) {
            Ok(answer) => *place = answer,
            Err(error) if prefix == "status" => return Err(error),
            Err(error) => eprintln!("not known: {error:#}"),
        }
    }
    Ok(answers)
}

/// Asks the OSDs for the operations that they kept.
async fn operations(cluster: &Cluster, answers: &mut Answers) -> Result<()> {
    let gathered = gather(cluster, None).await?;
    for (osd, why) in &gathered.silent {
        eprintln!("not known: {osd} tells nothing of its operations: {why}");
    }
    (answers.operations, answers.from_ceph) = (gathered.ops, gathered.from_ceph);
    Ok(())
}

async fn load(conf: &Path, answers: &Answers, seconds: f64) -> Result<Vec<survey::Measured>> {
    if !(1.0..=60.0).contains(&seconds) {
        bail!("--load {seconds}: each of the three loads takes 1 to 60 seconds");
    }
    short_load::run(conf, copies(answers), seconds).await
}

/// Copies that a new pool can have: as many as there are places of the kind that the first rule wants, up to three.
fn copies(answers: &Answers) -> u32 {
    let cluster = survey::Cluster::of(answers);
    let places = match answers.crush_rules.get(0).and_then(survey::failure_domain).as_deref() {
        Some("osd") => cluster.osds.iter().filter(|osd| osd.is_in && osd.up).count(),
        _ => cluster.hosts().len(),
    };
    u32::try_from(places).unwrap_or(COPIES).clamp(1, COPIES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    #[test]
    fn flags() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["nacre", "report"], args].concat());
        let Command::Report(options) = parse(&["--conf", "c", "--load"]).unwrap().command else { panic!() };
        assert_eq!(options.load, Some(5.0));
        assert!(parse(&["--conf", "c", "--json", "--html", "x"]).is_err());
        assert!(parse(&["--load", "much"]).is_err());
    }

    #[test]
    fn a_load_has_copies_where_there_are_places() {
        let osd = |id: i64| json!({"osd": id, "up": 1, "in": 1});
        let rule =
            |kind: &str| json!([{"rule_id": 0, "steps": [{"op": "take"}, {"op": "chooseleaf_firstn", "type": kind}]}]);
        let host =
            |id: i64, child: i64| json!({"id": id, "type": "host", "name": format!("h{id}"), "children": [child]});
        let mut answers = Answers {
            osd_dump: json!({"osds": [osd(0), osd(1)]}),
            osd_tree: json!({"nodes": [{"id": -2, "type": "host", "name": "h", "children": [0, 1]}]}),
            crush_rules: rule("osd"),
            ..Answers::default()
        };
        assert_eq!(copies(&answers), 2);
        answers.crush_rules = rule("host");
        assert_eq!(copies(&answers), 1);
        answers.osd_dump = json!({"osds": [osd(0), osd(1), osd(2), osd(3)]});
        answers.osd_tree = json!({"nodes": [host(-2, 0), host(-3, 1), host(-4, 2), host(-5, 3)]});
        assert_eq!(copies(&answers), 3);
    }
}
