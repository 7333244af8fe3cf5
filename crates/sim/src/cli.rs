//! `nacre sim`: one seed, many, or a hunt for mutants.

use crate::campaign::{Campaign, Tally};
use crate::faults::Mix;
use crate::hunt::{self, Verdict};
use crate::run;
use crate::setup::{Setup, Wishes};
use crate::worker::{self, Outcome, SeedResult, Worker};
use crate::{timeline, timeline_page};
use clap::Args;
use mutant::Mutant;
use serde_json::json;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of `nacre sim`.
#[derive(Args, Clone, Debug)]
pub struct SimOptions {
    /// Run this seed.
    #[arg(long, value_name = "N", conflicts_with = "seeds", required_unless_present_any = ["seeds", "mutants"])]
    pub seed: Option<u64>,
    /// Run these seeds: from A up to, and without, B.
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    pub seeds: Option<Range<u64>>,
    /// Client operations of each run, about. [default: 1000 to 1500, by the seed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub ops: Option<u32>,
    /// Monitors in the beginning. [default: 1, 3 or 5, by the seed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=7))]
    pub mons: Option<u8>,
    /// OSDs in the beginning. [default: 3 to 30, by the seed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=100))]
    pub osds: Option<u8>,
    /// Copies of each object. [default: 2 or 3, by the seed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=5))]
    pub copies: Option<u8>,
    /// Data and parity shards, as in 2+1, of an erasure-coded pool; 4+2 only with overwrites. [default: none, 2+1 or
    /// 2+2, by the seed]
    #[arg(long, value_name = "K+M", value_parser = coding, conflicts_with = "copies")]
    pub coded: Option<(u8, u8)>,
    /// Clients overwrite parts of objects in the erasure-coded pool. [default: by the seed]
    #[arg(long, conflicts_with = "copies")]
    pub overwrites: bool,
    /// OSDs pass for earlier software until their first restart. [default: by the seed]
    #[arg(long)]
    pub upgrades: bool,
    /// Shards of each OSD: 1, 2, 4, 8 or 16. [default: 1, 2 or 4, by the seed]
    #[arg(long, value_name = "N", value_parser = devices::parse_shards)]
    pub shards: Option<usize>,
    /// Kinds of misfortunes: calm, resets, quick-restarts, long-absences, replaced, moved, changed, monitor, blackout,
    /// partitions, everything, clocks, slowness, membership, full, rot, quorum, islands, sessions, flushes, sleeps,
    /// routes, twice. [default: some, by the seed]
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = mix)]
    pub faults: Vec<Mix>,
    /// Small runs as in the simulator's tests: some 200 operations, one kind of misfortunes.
    #[arg(long)]
    pub small: bool,
    /// Write what happened to a file: a page if its name ends in .html, else text. Of one seed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "mutants"])]
    pub timeline: Option<PathBuf>,
    /// Print JSON, an object a line.
    #[arg(long)]
    pub json: bool,
    /// Go on after a seed that fails.
    #[arg(long)]
    pub keep_going: bool,
    /// Keep what seeds came to in this file, and go on where it ends.
    #[arg(long, value_name = "FILE")]
    pub tally: Option<PathBuf>,
    /// Run so many seeds at a time. [default: one for each processor]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// End after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub within: Option<u64>,
    /// A seed that takes more seconds of a processor than this has failed.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub limit: u64,
    /// Try deliberate bugs, by their names or all of them, until a seed finds each ('list' lists them). Takes a program
    /// that was built with the feature 'mutants'.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub mutants: Vec<String>,
    #[arg(long, hide = true)]
    pub worker: bool,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let parse = |text: &str| text.parse::<u64>().map_err(|e| format!("'{text}': {e}"));
    let (from, until) = text.split_once("..").ok_or("two numbers with .. between them are wanted, such as 0..1000")?;
    let (from, until) = (parse(from)?, parse(until)?);
    if from < until { Ok(from..until) } else { Err(format!("there is no seed from {from} up to {until}")) }
}

/// Stripes that the workload appends have two data shards, so where they alone can be appended so must the pool.
const FOUR_DATA_SHARDS: (u8, u8) = (4, 2);

fn coding(text: &str) -> Result<(u8, u8), String> {
    match text {
        "2+1" => Ok((2, 1)),
        "2+2" => Ok((2, 2)),
        "4+2" => Ok(FOUR_DATA_SHARDS),
        _ => Err("known are 2+1, 2+2 and 4+2".to_owned()),
    }
}

fn mix(text: &str) -> Result<Mix, String> {
    Mix::all().find(|mix| mix.name() == text).ok_or_else(|| {
        let names: Vec<&str> = Mix::all().map(Mix::name).collect();
        format!("known are {}", names.join(", "))
    })
}

impl SimOptions {
    fn wishes(&self) -> Wishes {
        Wishes {
            small: self.small,
            operations: self.ops,
            mons: self.mons.map(usize::from),
            osds: self.osds.map(usize::from),
            copies: self.copies,
            coding: self.coded,
            overwrites: self.overwrites,
            upgrades: self.upgrades,
            shards: self.shards,
            mixes: self.faults.clone(),
        }
    }

    fn jobs(&self) -> usize {
        self.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(self.limit)
    }
}

/// Carries out the options. Returns true if every seed, or every mutant, was as it should be.
///
/// Errors: a sentence for people.
pub fn run(options: &SimOptions) -> Result<bool, String> {
    if options.coded == Some(FOUR_DATA_SHARDS) && !options.overwrites {
        return Err("a pool of 4+2 takes --overwrites".to_owned());
    }
    if options.worker {
        return worker::serve(&options.wishes()).map(|()| true);
    }
    if !options.mutants.is_empty() {
        return mutants(options);
    }
    match (options.seed, &options.seeds) {
        (Some(seed), _) => match &options.timeline {
            Some(file) => with_timeline(options, seed, file),
            None => one(options, seed),
        },
        (None, Some(seeds)) => campaign(options, seeds.clone()),
        (None, None) => Err("name a seed, or seeds".to_owned()),
    }
}

fn print_answer(seed: u64, answer: &SeedResult) {
    match &answer.outcome {
        Outcome::Passed(passed) => {
            let (ms, virtual_s) = (answer.took.as_millis(), passed.virtual_ms as f64 / 1000.0);
            let faults: u64 = passed.faults.values().sum();
            println!(
                "seed {seed} passes: {} operations ({} in doubt, {} backoffs) on {} OSDs, {faults} misfortunes in {virtual_s:.1} s; trace {:016x}; {ms} ms",
                passed.operations, passed.in_doubt, passed.backoffs, passed.osds, passed.fingerprint
            );
        }
        Outcome::Failed { check, violation } => println!("seed {seed} fails ({check}): {violation}"),
    }
}

fn print_answer_json(seed: u64, answer: &SeedResult) {
    let mut value = answer.to_json();
    value["seed"] = json!(seed);
    println!("{value}");
}

fn one(options: &SimOptions, seed: u64) -> Result<bool, String> {
    let wishes = options.wishes();
    if !options.json {
        println!("{:?}", Setup::of(seed, &wishes));
    }
    let answer = Worker::new(options.limit()).run(seed, None).map_err(|e| format!("no process can be started: {e}"))?;
    let is_good = matches!(answer.outcome, Outcome::Passed(_));
    match options.json {
        true => print_answer_json(seed, &answer),
        false => print_answer(seed, &answer),
    }
    if !is_good {
        eprintln!("with all that happened: nacre sim {} --timeline timeline.html", Setup::flags(seed, &wishes));
    }
    Ok(is_good)
}

fn with_timeline(options: &SimOptions, seed: u64, file: &Path) -> Result<bool, String> {
    let wishes = options.wishes();
    let setup = Setup::of(seed, &wishes);
    let (result, lines) = timeline::recorded_all(|| run::run(&setup));
    let verdict = match &result {
        Ok(report) => format!("passes; trace {:016x}", report.fingerprint),
        Err(violation) => format!("fails ({}): {}", violation.check(), violation.0),
    };
    let title = format!("nacre sim {}", Setup::flags(seed, &wishes));
    let text = match file.extension().is_some_and(|extension| extension == "html") {
        true => timeline_page::page(&title, &verdict, &lines),
        false => lines.join("\n") + "\n" + &verdict + "\n",
    };
    std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    println!("seed {seed} {verdict}\n{} lines are in {}", lines.len(), file.display());
    Ok(result.is_ok())
}

fn campaign(options: &SimOptions, seeds: Range<u64>) -> Result<bool, String> {
    let wishes = options.wishes();
    let campaign = Campaign {
        seeds,
        wishes: &wishes,
        jobs: options.jobs(),
        limit: options.limit(),
        within: options.within.map(Duration::from_secs),
        tally: options.tally.as_deref(),
        keep_going: options.keep_going,
        each: options.json.then_some(print_answer_json),
    };
    let tally = campaign.run()?;
    match options.json {
        true => println!("{}", tally.to_json()),
        false => print_tally(&tally),
    }
    Ok(tally.failures.is_empty())
}

fn print_tally(tally: &Tally) {
    let failed = tally.failures.len();
    println!(
        "{} seeds, {failed} failed: {} operations, {} in doubt, {} backoffs; {:.1} hours of clusters in {:.1} minutes of processors",
        tally.seeds(),
        tally.operations,
        tally.in_doubt,
        tally.backoffs,
        tally.virtual_ms as f64 / 3_600_000.0,
        tally.took_ms as f64 / 60_000.0
    );
    for (name, count) in &tally.faults {
        println!("{count:>10} {name}");
    }
    for (seed, (check, _)) in &tally.failures {
        println!("seed {seed} failed: {check}");
    }
}

fn mutants(options: &SimOptions) -> Result<bool, String> {
    let named = |name: &String| {
        let found = Mutant::ALL.iter().find(|mutant| mutant.name() == name).copied();
        found.ok_or_else(|| format!("there is no mutant '{name}'; --mutants list names them"))
    };
    if options.mutants == ["list"] {
        for mutant in Mutant::ALL {
            println!("{:24} {:12} {}", mutant.name(), format!("{:?}", mutant.part()).to_lowercase(), mutant.what());
        }
        return Ok(true);
    }
    if !cfg!(feature = "mutants") {
        return Err("this program was built without deliberate bugs: cargo run -p sim --features mutants".to_owned());
    }
    let wanted: Vec<Mutant> = match options.mutants == ["all"] {
        true => Mutant::ALL.to_vec(),
        false => options.mutants.iter().map(named).collect::<Result<_, _>>()?,
    };
    let seeds = options.seeds.clone().or(options.seed.map(|seed| seed..seed + 1)).unwrap_or(0..200);
    let tell = |verdict: &Verdict| match options.json {
        true => println!("{}", verdict.to_json()),
        false => println!("{}", verdict.row()),
    };
    let verdicts = hunt::hunt(&wanted, seeds, options.jobs(), options.limit(), tell)?;
    let caught = verdicts.iter().filter(|verdict| verdict.caught.is_some()).count();
    eprintln!("{caught} of {} are caught", verdicts.len());
    Ok(caught == verdicts.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: SimOptions,
    }

    fn parsed(line: &str) -> Result<SimOptions, String> {
        let words = std::iter::once("sim").chain(line.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.options).map_err(|e| e.to_string())
    }

    #[test]
    fn flags_of_a_failure_lead_back_to_it() {
        let replicated = Wishes {
            small: true,
            operations: Some(1200),
            mons: Some(3),
            osds: Some(7),
            copies: Some(2),
            coding: None,
            overwrites: false,
            upgrades: true,
            shards: Some(4),
            mixes: vec![Mix::Clocks, Mix::LongAbsences],
        };
        let coded = Wishes { copies: None, coding: Some((2, 2)), ..replicated.clone() };
        for wishes in [replicated, coded] {
            let options = parsed(&Setup::flags(9, &wishes)).expect("its own flags");
            assert_eq!((options.seed, options.wishes()), (Some(9), wishes));
        }
        assert_eq!(parsed("--seeds 3..9").expect("a range").seeds, Some(3..9));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "",
            "--seeds 9..3",
            "--seeds 9",
            "--seed 1 --seeds 1..2",
            "--seed 1 --faults rain",
            "--seed 1 --copies 1",
            "--seed 1 --coded 8+3",
            "--seed 1 --shards 3",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
