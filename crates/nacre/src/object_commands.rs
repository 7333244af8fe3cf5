//! `nacre put`, `get`, `ls`, `rm`, `stat`: objects, with nothing but this binary.

use crate::byte_size::ByteSize;
use crate::cli;
use crate::connection::{pool, with_cluster};
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use client::{Operation, Pool};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use types::Errno;

/// Files go into objects, and come out of them, in steps of this size.
const STEP_BYTES: usize = 4 << 20;
/// Steps under way at once.
const WINDOW: usize = 4;

/// The cause of a failed operation on an object, in words that help.
fn explain(error: client::Error, pool: &Pool, object: &str) -> anyhow::Error {
    let what = match error.errno() {
        Errno::ENOENT => {
            format!("there is no object '{object}' in pool '{}'; 'nacre ls {0}' shows what there is", pool.name())
        }
        Errno::EFBIG => format!("'{object}' would be larger than the cluster lets one object be"),
        Errno::ENOSPC | Errno::EDQUOT => {
            format!("no room left for '{object}' (full cluster, or quota of pool '{}'); remove something", pool.name())
        }
        Errno::ENAMETOOLONG => format!("the name '{object}' is too long"),
        _ => return anyhow::Error::new(error).context(format!("object '{object}' in pool '{}'", pool.name())),
    };
    anyhow::anyhow!(what)
}

pub fn put(options: cli::Put) -> Result<()> {
    let (mut source, total): (Box<dyn Read>, _) = if options.file == Path::new("-") {
        (Box::new(std::io::stdin()), None)
    } else {
        let open = || -> std::io::Result<_> {
            let file = File::open(&options.file)?;
            let metadata = file.metadata()?;
            Ok((file, metadata))
        };
        let (file, metadata) = open().with_context(|| format!("cannot read {}", options.file.display()))?;
        if metadata.is_dir() {
            bail!("{} is a directory", options.file.display());
        }
        (Box::new(file), Some(metadata.len()))
    };
    with_cluster(&options.target, async move |cluster| {
        let pool = pool(&cluster, &options.pool, &options.namespace.namespace).await?;
        let reading = || format!("cannot read {}", options.file.display());
        put_from(&pool, &options.object, &mut source, total).await.map_err(|error| match error {
            PutError::Read(error) => anyhow::Error::new(error).context(reading()),
            PutError::Store(error) => explain(error, &pool, &options.object),
        })
    })
}

enum PutError {
    Read(std::io::Error),
    Store(client::Error),
}

async fn put_from(pool: &Pool, object: &str, source: &mut dyn Read, total: Option<u64>) -> Result<(), PutError> {
    let mut progress = Progress::new("stored", total);
    let mut under_way = VecDeque::new();
    let (mut offset, mut done) = (0, 0);
    loop {
        let step = read_step(source).map_err(PutError::Read)?;
        let last = step.len() < STEP_BYTES;
        if !step.is_empty() || offset == 0 {
            let len = step.len() as u64;
            // The first step replaces what was there. Steps reach the object in the order they are sent.
            let op = match offset {
                0 => Operation::new().write_full(step),
                _ => Operation::new().write(offset, step),
            };
            let (pool, name) = (pool.clone(), Bytes::copy_from_slice(object.as_bytes()));
            under_way.push_back(tokio::spawn(async move { pool.operate(name, op).await.map(|_| len) }));
            // Lets the step be sent before the next blocks on reading.
            tokio::task::yield_now().await;
            offset += len;
        }
        while under_way.len() >= WINDOW || (last && !under_way.is_empty()) {
            let oldest = under_way.pop_front().expect("just seen");
            done += oldest.await.expect("a step does not panic").map_err(PutError::Store)?;
            progress.at(done);
        }
        if last {
            return Ok(());
        }
    }
}

/// A step's bytes; fewer at the end.
fn read_step(source: &mut dyn Read) -> std::io::Result<Bytes> {
    let mut step = Vec::with_capacity(STEP_BYTES);
    source.take(STEP_BYTES as u64).read_to_end(&mut step)?;
    Ok(step.into())
}

pub fn get(options: cli::Get) -> Result<()> {
    with_cluster(&options.target, async move |cluster| {
        let pool = pool(&cluster, &options.pool, &options.namespace.namespace).await?;
        // Before the file is touched: a missing object leaves it as it is.
        let stat = pool.stat(options.object.clone()).await.map_err(|e| explain(e, &pool, &options.object))?;
        let writing = || format!("cannot write {}", options.file.display());
        let mut sink: Box<dyn Write> = if options.file == Path::new("-") {
            Box::new(std::io::stdout().lock())
        } else {
            Box::new(File::create(&options.file).with_context(writing)?)
        };
        let mut progress = Progress::new("read", Some(stat.size_bytes));
        let mut under_way = VecDeque::new();
        let (mut asked, mut done) = (0, 0);
        while done < stat.size_bytes {
            while under_way.len() < WINDOW && asked < stat.size_bytes {
                let length = (stat.size_bytes - asked).min(STEP_BYTES as u64);
                let (pool, name) = (pool.clone(), options.object.clone());
                under_way
                    .push_back(tokio::spawn(async move { pool.read(name, asked, length).await.map(|b| (b, length)) }));
                asked += length;
            }
            let oldest = under_way.pop_front().expect("something is left");
            let (bytes, wanted) =
                oldest.await.expect("a step does not panic").map_err(|e| explain(e, &pool, &options.object))?;
            if (bytes.len() as u64) < wanted {
                bail!("'{}' became shorter while it was read; try again", options.object);
            }
            sink.write_all(&bytes).with_context(writing)?;
            done += bytes.len() as u64;
            progress.at(done);
        }
        sink.flush().with_context(writing)
    })
}

pub fn ls(options: cli::Ls) -> Result<()> {
    with_cluster(&options.target, async move |cluster| {
        let pool = pool(&cluster, &options.pool, &options.namespace.namespace).await?;
        let mut listing = if options.all { pool.list_all() } else { pool.list() };
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let written: std::io::Result<()> = loop {
            let Some(page) = listing.next_page().await? else { break out.flush() };
            let wrote = page.into_iter().try_for_each(|object| {
                if options.all {
                    out.write_all(&object.nspace)?;
                    out.write_all(b"\t")?;
                }
                out.write_all(&object.name)?;
                out.write_all(b"\n")
            });
            if wrote.is_err() {
                break wrote;
            }
        };
        match written {
            // `nacre ls | head` has seen enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other.context("cannot write the list"),
        }
    })
}

pub fn rm(options: cli::Rm) -> Result<()> {
    with_cluster(&options.target, async move |cluster| {
        let pool = pool(&cluster, &options.pool, &options.namespace.namespace).await?;
        let mut failed = 0;
        for object in &options.objects {
            if let Err(error) = pool.remove(object.clone()).await {
                eprintln!("error: {:#}", explain(error, &pool, object));
                failed += 1;
            }
        }
        if failed > 0 {
            bail!("{failed} of {} objects not removed", options.objects.len());
        }
        Ok(())
    })
}

pub fn stat(options: cli::Stat) -> Result<()> {
    with_cluster(&options.target, async move |cluster| {
        let pool = pool(&cluster, &options.pool, &options.namespace.namespace).await?;
        let stat = pool.stat(options.object.clone()).await.map_err(|e| explain(e, &pool, &options.object))?;
        let (bytes, size) = (stat.size_bytes, ByteSize(stat.size_bytes));
        println!("{}/{}: {bytes} bytes ({size}), changed {}", options.pool, options.object, stat.mtime);
        Ok(())
    })
}
