//! Loads a metadata tree and looks keys up, and reports the costs.
//!
//! `cargo run --release -p store --example btree_bench -- FILE [ENTRIES [BATCH]]` makes FILE (it must not exist) and
//! removes it again. Keys have 60 bytes, values 300. Times are CPU time of this thread, as the scheduler counts it;
//! those of merging are by the clock, of its slices alone, without reads, writes and the changes in memory. Reads and
//! writes go through the page cache of the operating system.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use store::btree::{Cursor, Fetch, Merge, Overlay, PageCache, Progress, Root, Run, Space, View, Walk, WalkProgress};
use types::BufPool;

const BLOCK: u64 = 4096;
const TAG: u64 = 7;
const SLICE_NS: u32 = 100_000;

/// Blocks from the end of the file, or freed ones.
#[derive(Default)]
struct Blocks {
    end: u32,
    free: Vec<Run>,
    used: u64,
}

impl Space for Blocks {
    fn allocate(&mut self, min: u32, wanted: u32) -> Option<Run> {
        while self.free.last().is_some_and(|run| run.count < min) {
            self.free.pop();
        }
        let run = match self.free.pop() {
            Some(run) if run.count > wanted => {
                self.free.push(Run { start: run.start + wanted, count: run.count - wanted });
                Run { start: run.start, count: wanted }
            }
            Some(run) => run,
            None => {
                self.end += wanted;
                Run { start: self.end - wanted, count: wanted }
            }
        };
        self.used += u64::from(run.count);
        Some(run)
    }

    fn release(&mut self, run: Run) {
        self.used -= u64::from(run.count);
        self.free.push(run);
    }
}

struct Bench {
    file: File,
    blocks: Blocks,
    overlay: Overlay,
    cache: PageCache,
    root: Option<Root>,
    generation: u64,
    buffers: BufPool,
    written_bytes: u64,
    slices: Vec<Duration>,
}

/// Returns the CPU time of this thread so far.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Returns a key of 60 bytes: a common prefix, as of objects in a pool, and a number in hexadecimal digits.
fn key(number: u64) -> String {
    format!("{:40}{:020x}", "pool 5, namespace of many objects, name ", number)
}

impl Bench {
    fn read(&mut self) -> std::io::Result<()> {
        while let Some(read) = self.cache.poll_read() {
            let mut buf = self.buffers.take((u64::from(read.run.count) * BLOCK) as usize);
            self.file.read_exact_at(buf.as_mut_slice(), u64::from(read.run.start) * BLOCK)?;
            self.cache.read_done(read.id, Ok(buf));
        }
        Ok(())
    }

    fn merge(&mut self) -> Result<Duration, Box<dyn Error>> {
        self.generation += 1;
        self.overlay.freeze();
        let mut merge = Merge::new(self.root, TAG, self.generation, self.buffers.clone());
        let mut total = Duration::ZERO;
        let merged = loop {
            let begin = Instant::now();
            let progress = merge.step(&self.overlay, &mut self.cache, &mut self.blocks, SLICE_NS)?;
            let took = begin.elapsed();
            self.slices.push(took);
            total += took;
            while let Some(write) = merge.poll_write() {
                let mut offset = u64::from(write.run.start) * BLOCK;
                for piece in write.data.pieces() {
                    self.file.write_all_at(piece, offset)?;
                    offset += piece.len() as u64;
                }
                self.written_bytes += write.data.len() as u64;
            }
            match progress {
                Progress::Working => {}
                Progress::Waiting(_) => self.read()?,
                Progress::Done(merged) => break merged,
            }
        };
        self.root = merged.root;
        merged.freed.into_iter().for_each(|run| self.blocks.release(run));
        self.overlay.retire();
        while !self.overlay.shed(1000) {}
        Ok(total)
    }

    fn load(
        &mut self,
        name: &str,
        entries: u64,
        batch: u64,
        number: impl Fn(u64) -> u64,
    ) -> Result<(), Box<dyn Error>> {
        let (begin, mut merging, value) = (cpu_time(), Duration::ZERO, [7u8; 300]);
        self.slices.clear();
        self.written_bytes = 0;
        for at in 0..entries {
            self.overlay.put(key(number(at)).as_bytes(), &value)?;
            if (at + 1) % batch == 0 || at + 1 == entries {
                merging += self.merge()?;
            }
        }
        self.slices.sort();
        let at = |share: f64| self.slices[((self.slices.len() - 1) as f64 * share) as usize];
        println!(
            "{name}: {entries} entries in {:.1?}, merging {:.1?} = {:.0} entries/s; slices: median {:.0?}, p99 \
                {:.0?}, p99.9 {:.0?}, \
             max {:.0?}; {:.2} GB on the device, {:.2} GB written",
            cpu_time() - begin,
            merging,
            entries as f64 / merging.as_secs_f64(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
            self.blocks.used as f64 * BLOCK as f64 / 1e9,
            self.written_bytes as f64 / 1e9,
        );
        Ok(())
    }

    fn look_up(&mut self, name: &str, count: u64, number: impl Fn(u64) -> u64) -> Result<(), Box<dyn Error>> {
        let keys: Vec<String> = (0..count).map(|at| key(number(at))).collect();
        let before = self.cache.stats();
        let begin = cpu_time();
        for key in &keys {
            loop {
                let mut view = View { root: self.root, overlay: &self.overlay, cache: &mut self.cache };
                match view.get(key.as_bytes())? {
                    Fetch::Ready(value) => break assert_eq!(value.map(|value| value.len()), Some(300)),
                    Fetch::Pending(_) => self.read()?,
                }
            }
        }
        let (took, after) = (cpu_time() - begin, self.cache.stats());
        println!(
            "{name}: {:.0} ns per lookup, {:.2} reads each, {} MB of cache",
            took.as_nanos() as f64 / count as f64,
            (after.reads - before.reads) as f64 / count as f64,
            after.bytes >> 20
        );
        Ok(())
    }

    fn list(&mut self) -> Result<(), Box<dyn Error>> {
        let (begin, mut count, mut cursor) = (cpu_time(), 0, Cursor::new(b"", None, true));
        loop {
            let mut view = View { root: self.root, overlay: &self.overlay, cache: &mut self.cache };
            match cursor.next_page(&mut view, 1000, 1 << 20)? {
                Fetch::Ready(page) if page.done => break,
                Fetch::Ready(page) => count += page.entries.len(),
                Fetch::Pending(_) => self.read()?,
            }
        }
        println!("list: {:.0} ns per entry, {count} entries", (cpu_time() - begin).as_nanos() as f64 / count as f64);
        Ok(())
    }

    fn walk(&mut self) -> Result<(), Box<dyn Error>> {
        for depth in [store::btree::Depth::Space, store::btree::Depth::Pages] {
            let (begin, mut walk, mut damaged) = (cpu_time(), Walk::new(self.root, depth), 0);
            loop {
                let mut each = |found| damaged += u64::from(matches!(found, store::btree::Found::Damage(_)));
                match walk.step(&mut self.cache, 100, &mut each) {
                    WalkProgress::Working => {}
                    WalkProgress::Waiting(_) => self.read()?,
                    WalkProgress::Done => break,
                }
            }
            println!("walk of {depth:?}: {:.1?}, {} pages, {damaged} damaged", cpu_time() - begin, walk.pages);
        }
        Ok(())
    }
}

/// Makes changes in memory alone.
fn overlay(entries: u64) -> Result<(), Box<dyn Error>> {
    for (name, number) in [("in order", (|at| at) as fn(u64) -> u64), ("random", mix)] {
        let (mut overlay, value, begin) = (Overlay::default(), [7u8; 100], cpu_time());
        for at in 0..entries {
            overlay.put(key(number(at)).as_bytes(), &value)?;
        }
        let put = cpu_time() - begin;
        let bytes = overlay.bytes().0;
        let begin = cpu_time();
        overlay.delete_range(key(0).as_bytes(), b"q")?;
        let delete = cpu_time() - begin;
        let begin = cpu_time();
        while !overlay.shed(500) {}
        println!(
            "overlay, {name}: {:.0} ns per change, {} bytes each; all deleted as a range in {delete:.0?}, shed in \
                {:.0} ns each",
            put.as_nanos() as f64 / entries as f64,
            bytes as u64 / entries,
            (cpu_time() - begin).as_nanos() as f64 / entries as f64,
        );
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("which file?")?;
    let entries: u64 = args.next().map_or(Ok(1_000_000), |arg| arg.parse())?;
    let batch: u64 = args.next().map_or(Ok(100_000), |arg| arg.parse())?;
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    let mut bench = Bench {
        file,
        blocks: Blocks { end: 2, ..Blocks::default() },
        overlay: Overlay::default(),
        cache: PageCache::new(TAG, 16 << 20),
        root: None,
        generation: 0,
        buffers: BufPool::new(16 << 20),
        written_bytes: 0,
        slices: Vec::new(),
    };
    overlay(entries)?;
    bench.load("sequential load", entries, batch, |at| at)?;
    println!("height {}", bench.root.map_or(0, |root| root.height()));
    bench.list()?;
    bench.walk()?;
    bench.look_up("lookups, small cache", 200_000.min(entries), |at| mix(at) % entries)?;
    let few = 100_000.min(entries);
    bench.cache.set_budget(1 << 30);
    bench.look_up("warming", few, |at| mix(at) % few)?;
    bench.look_up("lookups from cache", few, |at| mix(at) % few)?;
    bench.cache.set_budget(16 << 20);
    bench.load("overwrites of a tenth, random", entries / 10, batch, |at| mix(at) % entries)?;
    bench.root = None;
    bench.blocks = Blocks { end: 2, ..Blocks::default() };
    bench.load("random load", entries, batch * 5, mix)?;
    bench.look_up("lookups, small cache", 200_000.min(entries), |at| mix(mix(at) % entries))?;
    Ok(())
}
