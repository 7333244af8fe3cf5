//! `nacre sim` as a program of its own: `cargo run -p sim -- --seed 42`.

use clap::Parser;
use sim::cli::{self, SimOptions};
use std::process::ExitCode;

/// Whole clusters under simulated misfortunes.
#[derive(Parser)]
#[command(name = "sim", max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    options: SimOptions,
}

fn main() -> ExitCode {
    match cli::run(&Arguments::parse().options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
