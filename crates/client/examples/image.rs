//! Block images from the command line, by this library alone; librbd and QEMU may use the same images.
//!
//! ```text
//! image CONF POOL list
//! image CONF POOL create NAME MIB             image CONF POOL remove NAME
//! image CONF POOL import FILE NAME            image CONF POOL export NAME[@SNAP] FILE
//! image CONF POOL snap NAME SNAP              image CONF POOL clone PARENT SNAP NAME
//! image CONF POOL cost NAME write|read BYTES DEPTH SECONDS
//! ```
//!
//! `cost` keeps operations at random offsets in flight and prints rate, latency and processor time of this process per
//! operation.

use bytes::Bytes;
use client::rbd::{self, Image, ImageOptions};
use client::{Cluster, Config, Pool};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

/// Bytes copied at once.
const CHUNK_BYTES: u64 = 4 << 20;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [conf, pool, rest @ ..] = args.as_slice() else {
        return Err("usage: image CONF POOL VERB ..., see the source's first lines".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let pool = Cluster::connect(Config::from_conf(conf)?).await?.pool(pool).await?;
        match rest {
            ["list"] => rbd::list(&pool).await?.keys().for_each(|name| println!("{name}")),
            ["create", name, mib] => {
                rbd::create(&pool, name, mib.parse::<u64>()? << 20, &ImageOptions::default()).await?
            }
            ["remove", name] => rbd::remove(&pool, name).await?,
            ["import", file, name] => import(&pool, file, name).await?,
            ["export", name, file] => export(&pool, name, file).await?,
            ["snap", name, snap] => {
                let image = Image::open(&pool, name).await?;
                let taken = image.create_snapshot(snap).await;
                image.close().await?;
                taken?;
            }
            ["clone", parent, snap, name] => {
                rbd::clone(&pool, parent, snap, &pool, name, &ImageOptions::default()).await?;
            }
            ["cost", name, mode, bytes, depth, seconds] => {
                let image = Image::open(&pool, name).await?;
                let measured = cost(&image, mode, bytes.parse()?, depth.parse()?, seconds.parse()?).await;
                image.close().await?;
                measured?;
            }
            _ => return Err("no such verb, see the source's first lines".into()),
        }
        Ok(())
    })
}

/// Makes an image of a file; ranges of zeros are left out.
async fn import(pool: &Pool, file: &str, name: &str) -> Result<(), Failure> {
    let mut file = File::open(file)?;
    let size = file.metadata()?.len();
    rbd::create(pool, name, size, &ImageOptions::default()).await?;
    let image = Image::open(pool, name).await?;
    let mut at = 0;
    while at < size {
        let mut chunk = vec![0; CHUNK_BYTES.min(size - at) as usize];
        file.read_exact(&mut chunk)?;
        let bytes = chunk.len() as u64;
        if chunk.iter().any(|byte| *byte != 0) {
            image.write(at, chunk).await?;
        }
        at += bytes;
    }
    Ok(image.close().await?)
}

/// Writes an image, or a snapshot of it, to a sparse file.
async fn export(pool: &Pool, name: &str, file: &str) -> Result<(), Failure> {
    let image = match name.split_once('@') {
        Some((name, snap)) => Image::open_snapshot(pool, name, snap).await?,
        None => Image::open_read_only(pool, name).await?,
    };
    let size = image.size_bytes().await?;
    let mut file = File::create(file)?;
    file.set_len(size)?;
    let mut at = 0;
    while at < size {
        let data = image.read(at, CHUNK_BYTES.min(size - at)).await?;
        if data.pieces().any(|piece| piece.iter().any(|byte| *byte != 0)) {
            file.seek(SeekFrom::Start(at))?;
            data.pieces().try_for_each(|piece| file.write_all(piece))?;
        }
        at += data.len() as u64;
    }
    Ok(image.close().await?)
}

async fn cost(image: &Image, mode: &str, bytes: u64, depth: u64, seconds: u64) -> Result<(), Failure> {
    let write = match mode {
        "write" => true,
        "read" => false,
        other => return Err(format!("'{other}' is neither write nor read").into()),
    };
    let places = image.size_bytes().await?.checked_div(bytes).filter(|places| *places > 0).ok_or("image too small")?;
    let data = Bytes::from(vec![0x5a; bytes as usize]);
    let (start, cpu) = (Instant::now(), cpu_ticks()?);
    let end = start + Duration::from_secs(seconds);
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..depth {
        let (image, data) = (image.clone(), data.clone());
        workers.spawn(async move {
            let (mut count, mut random) = (0u64, worker + 1);
            while Instant::now() < end {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let offset = (random >> 33) % places * bytes;
                match write {
                    true => image.write(offset, data.clone()).await?,
                    false => drop(image.read(offset, bytes).await?),
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
}

/// Processor time of this process so far, user and system, in clock ticks.
fn cpu_ticks() -> Result<u64, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The program's name, in brackets, may contain blanks: the fields after it are counted from the closing bracket.
    let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no name")?.1.split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}
