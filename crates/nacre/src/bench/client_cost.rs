//! `nacre bench client-cost`.

use super::{INTERRUPTED, interrupts, plan_maker, sections, watcher::Watcher};
use crate::cli::bench::BenchClientCost;
use anyhow::{Result, bail};
use load::client_cost::{CostError, Settings, depth_max, measure};
use tokio::sync::watch;

/// The size of the objects that are compared.
const IO_BYTES_MAX: u64 = 1 << 20;
const PGS: u32 = 64;

/// Runs the command; returns the exit status.
pub fn run(options: &BenchClientCost) -> Result<u8> {
    let io_bytes = options.io_size.0;
    if !(4096..=IO_BYTES_MAX).contains(&io_bytes) || !io_bytes.is_power_of_two() {
        bail!("--io-size: {io_bytes} is not a power of two from 4 KiB to 1 MiB");
    }
    let depth_max = depth_max(io_bytes);
    if u64::from(options.depth) > depth_max {
        bail!(
            "--depth: {} of {io_bytes} bytes do not fit side by side into what is worked on, at most {depth_max}",
            options.depth
        );
    }
    sections::check(&options.document)?;
    let settings = Settings {
        configuration: plan_maker::configuration_of(options.cluster.as_ref(), options.conf.as_deref())?,
        io_bytes,
        queue_depth: options.depth,
        replicas: options.replicas,
        pg_count: PGS,
        iterations: options.iterations,
        seconds: options.seconds,
        confidence: 0.9,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (asked, interrupt) = watch::channel(false);
        let interrupts = tokio::spawn(interrupts(asked)?);
        let mut watcher = Watcher::new();
        let measured = measure(&settings, &mut watcher, interrupt).await;
        watcher.end();
        interrupts.abort();
        let cost = match measured {
            Ok(cost) => cost,
            Err(CostError::Interrupted | CostError::Program(load::client_cost::ProgramError::Interrupted)) => {
                return Ok(INTERRUPTED);
            }
            Err(error) => return Err(error.into()),
        };
        match options.json {
            true => println!("{}", cost.to_json()),
            false => sections::put(&options.document, &cost.to_markdown())?,
        }
        Ok(0)
    })
}
