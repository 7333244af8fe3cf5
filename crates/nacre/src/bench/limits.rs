//! Limits of operating points from flags.

use anyhow::{Result, bail};
use bench::operating::Limits;

use crate::cli::bench::LimitFlags;

/// The limits that the flags set, others as usual.
///
/// Errors: one that is no limit.
pub fn of(flags: &LimitFlags) -> Result<Limits> {
    let mut limits = Limits::default();
    if let Some(ms) = within("mean-max", flags.mean_max, 0.0, f64::MAX)? {
        limits.rules.mean_us_max = ms * 1000.0;
    }
    if let Some(percent) = within("latency-part", flags.latency_part, 0.0, 100.0)? {
        limits.rules.latency_part_max = percent / 100.0;
    }
    limits.p99_us_max = within("p99-max", flags.p99_max, 0.0, f64::MAX)?.map(|ms| ms * 1000.0);
    if !flags.cpu_max.is_empty() {
        limits.cpu_percent_max = flags.cpu_max.clone();
        for percent in &flags.cpu_max {
            within("cpu-max", Some(*percent), 0.0, 100.0)?;
        }
    }
    if let Some(percent) = within("high-water", flags.high_water, 0.0, 1000.0)? {
        limits.high_water_percent = percent;
    }
    Ok(limits)
}

/// The value, if it is above `low` and at most `high`.
pub fn within(flag: &str, value: Option<f64>, low: f64, high: f64) -> Result<Option<f64>> {
    match value {
        Some(value) if !(value > low && value <= high) => match high < f64::MAX {
            true => bail!("--{flag} {value}: above {low} and at most {high}"),
            false => bail!("--{flag} {value}: above {low}"),
        },
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, bench::Bench};
    use bench::operating::OperatingRules;
    use clap::Parser;

    fn limits(args: &[&str]) -> Result<Limits> {
        let command = Cli::try_parse_from([&["nacre", "bench", "report", "x"], args].concat())?.command;
        let Command::Bench(Bench::Report(report)) = command else { panic!("{command:?}") };
        of(&report.limits)
    }

    #[test]
    fn flags_set_limits() {
        assert_eq!(limits(&[]).unwrap(), Limits::default());
        let args = "--mean-max 5 --latency-part 70 --p99-max 2.5 --cpu-max 60,75 --high-water 3";
        let set = limits(&args.split(' ').collect::<Vec<_>>()).unwrap();
        let rules = OperatingRules { mean_us_max: 5000.0, latency_part_max: 0.7 };
        let want =
            Limits { rules, p99_us_max: Some(2500.0), cpu_percent_max: vec![60.0, 75.0], high_water_percent: 3.0 };
        assert_eq!(set, want);
        for (args, words) in [
            (["--mean-max", "0"], "--mean-max 0: above 0"),
            (["--latency-part", "101"], "at most 100"),
            (["--p99-max", "NaN"], "--p99-max NaN"),
            (["--cpu-max", "80,120"], "--cpu-max 120"),
            (["--high-water", "-1"], "unexpected argument"),
        ] {
            let error = limits(&args).unwrap_err().to_string();
            assert!(error.contains(words), "{args:?}: {error}");
        }
    }
}
