//! Runs seeds by hand: `cargo run -p sim -- --seed 42 --timeline`.

use clap::Parser;
use sim::{check_seed, timeline};
use std::process::ExitCode;

/// Whole clusters under simulated misfortunes.
#[derive(Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long)]
    seed: u64,
    /// How many seeds to run, one after another.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Only every so-many-th seed: 11 keeps the kind of misfortunes, 22 also whether lookups wait.
    #[arg(long, default_value_t = 1)]
    step: u64,
    /// Go on after a failure.
    #[arg(long)]
    keep_going: bool,
    /// Print everything that happens.
    #[arg(long)]
    timeline: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut failures = 0;
    for seed in (0..arguments.count).map(|i| arguments.seed + i * arguments.step) {
        let result = match arguments.timeline {
            true => {
                let (result, lines) = timeline::recorded(|| sim::run::run(seed));
                lines.iter().for_each(|line| println!("{line}"));
                result.map_err(|violation| println!("seed {seed}: {}", violation.0))
            }
            false if arguments.keep_going => {
                sim::run::run(seed).map_err(|violation| println!("seed {seed}: {}", violation.0))
            }
            false => check_seed(seed).map_err(|failure| println!("{failure}")),
        };
        match result {
            Ok(report) => println!("{report:?}"),
            Err(()) => {
                failures += 1;
                if !arguments.keep_going {
                    break;
                }
            }
        }
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
