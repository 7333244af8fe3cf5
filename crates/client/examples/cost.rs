//! Measures the cost of the client itself: keeps operations in flight for some seconds and prints rate, latency and
//! processor time of this process per operation.
//!
//! ```text
//! cost CONF POOL write|read BYTES DEPTH SECONDS
//! ```
//!
//! Objects are `cost-0` to `cost-999`; reading expects that they have been written.

use client::{Cluster, Config};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [conf, pool, mode, bytes, depth, seconds] = args.as_slice() else {
        return Err("usage: cost CONF POOL write|read BYTES DEPTH SECONDS".into());
    };
    let (bytes, depth, seconds): (usize, usize, u64) = (bytes.parse()?, depth.parse()?, seconds.parse()?);
    let write = match mode.as_str() {
        "write" => true,
        "read" => false,
        other => return Err(format!("'{other}' is neither write nor read").into()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let cluster = Cluster::connect(Config::from_conf(conf)?).await?;
        let pool = cluster.pool(pool).await?;
        let data = bytes::Bytes::from(vec![0x5a; bytes]);
        let (start, cpu) = (Instant::now(), cpu_ticks()?);
        let end = start + Duration::from_secs(seconds);
        let mut workers = tokio::task::JoinSet::new();
        for worker in 0..depth {
            let (pool, data) = (pool.clone(), data.clone());
            workers.spawn(async move {
                let mut count = 0u64;
                while Instant::now() < end {
                    let name = format!("cost-{}", (worker as u64 * 31 + count * 7) % 1000);
                    if write {
                        pool.write_full(name, data.clone()).await?;
                    } else {
                        pool.read(name, 0, data.len() as u64).await?;
                    }
                    count += 1;
                }
                Ok::<u64, client::Error>(count)
            });
        }
        let mut ops = 0;
        while let Some(count) = workers.join_next().await {
            ops += count??;
        }
        let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_ticks()? - cpu);
        let per_op = |seconds: f64| seconds * 1e6 / ops.max(1) as f64;
        // The kernel counts processor time for programs in hundredths of a second.
        let (rate, latency, cost) = (ops as f64 / wall, per_op(wall) * depth as f64, per_op(cpu as f64 / 100.0));
        println!("{mode} {bytes} B, depth {depth}: {rate:.0} op/s, mean {latency:.0} us, client CPU {cost:.1} us/op");
        Ok(())
    })
}

/// Processor time of this process so far, user and system, in clock ticks.
fn cpu_ticks() -> Result<u64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The program's name, in brackets, may contain blanks: the fields after it are counted from the closing bracket.
    let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no name")?.1.split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}
