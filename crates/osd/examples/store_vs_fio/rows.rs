//! Rows that are measured in turns with fio.

use crate::arguments::Arguments;
use crate::driver::{StoreRun, Until};
use crate::fio::{Fio, FioResult, Job};
use crate::measure::{Latencies, Measured, median};
use crate::workload::{BLOCK, Kind, MIB};
use anyhow::Result;
use serde_json::{Value, json};

pub struct Row {
    pub name: &'static str,
    kind: Kind,
    depth: usize,
    fio_mode: &'static str,
}

const fn row(name: &'static str, kind: Kind, depth: usize, fio_mode: &'static str) -> Row {
    Row { name, kind, depth, fio_mode }
}

pub const ROWS: &[Row] = &[
    row("4k-randread", Kind::ReadAnywhere { bytes: BLOCK }, 32, "randread"),
    row("1m-read", Kind::ReadAnywhere { bytes: MIB }, 8, "randread"),
    row("1m-write", Kind::WriteInOrder { bytes: MIB }, 8, "write"),
    row("4k-randwrite", Kind::WriteAnywhere { bare: false }, 32, "randwrite"),
    row("4k-randwrite-bare", Kind::WriteAnywhere { bare: true }, 32, "randwrite"),
];

/// Figures of one row.
pub struct RowResult {
    pub name: &'static str,
    pub bytes: u64,
    pub store: Vec<Measured>,
    pub fio: Vec<FioResult>,
    /// Results of fio where writes and flushes do not overlap; only for writes.
    pub fio_in_batches: Vec<FioResult>,
    /// Number of writes that shared a flush.
    pub batch: Option<f64>,
    pub cache_hits: f64,
}

pub fn run(row: &Row, store: &mut StoreRun, fio: &Fio, arguments: &Arguments) -> Result<RowResult> {
    let (kind, depth) = (row.kind, row.depth);
    let mut result = RowResult {
        name: row.name,
        bytes: kind.bytes(),
        store: Vec::new(),
        fio: Vec::new(),
        fio_in_batches: Vec::new(),
        batch: None,
        cache_hits: 0.0,
    };
    // The store's first run is not measured. It tells how many writes share a flush.
    let first = store.run(kind, depth, Until::Time(arguments.time / 4))?;
    let mut batch = writes_per_flush(kind, &first);
    let before = store.store().block_cache_stats();
    for round in 0..arguments.rounds {
        for turn in 0..2 {
            if turn == round % 2 {
                let measured = store.run(kind, depth, Until::Time(arguments.time))?;
                batch = writes_per_flush(kind, &measured);
                result.store.push(measured);
            } else {
                let flush_every = batch.map_or(0, |batch| batch.round().max(1.0) as u64);
                let (mode, block_bytes, time) = (row.fio_mode, kind.bytes(), arguments.time);
                let mut job = Job { mode, block_bytes, depth, flush_every, in_batches: false, time };
                result.fio.push(fio.run(&job)?);
                if kind.writes() {
                    job.in_batches = true;
                    result.fio_in_batches.push(fio.run(&job)?);
                }
            }
        }
    }
    let after = store.store().block_cache_stats();
    let looked_up = (after.hit_bytes - before.hit_bytes) + (after.miss_bytes - before.miss_bytes);
    result.cache_hits = (after.hit_bytes - before.hit_bytes) as f64 / looked_up.max(1) as f64;
    result.batch = kind.writes().then(|| {
        let flushes: u64 = result.store.iter().map(|run| run.flushes).sum();
        result.operations() / flushes.max(1) as f64
    });
    store.settle(false)?;
    eprintln!("{}: {:.0} of fio's {:.0} operations/s", row.name, result.store_rate(), result.fio_rate());
    Ok(result)
}

fn writes_per_flush(kind: Kind, run: &Measured) -> Option<f64> {
    kind.writes().then(|| run.operations as f64 / run.flushes.max(1) as f64)
}

impl RowResult {
    fn operations(&self) -> f64 {
        self.store.iter().map(|run| run.operations as f64).sum()
    }

    pub fn store_rate(&self) -> f64 {
        median(self.store.iter().map(Measured::per_second))
    }

    pub fn fio_rate(&self) -> f64 {
        median(self.fio.iter().map(|run| run.per_second))
    }

    /// The store's rate divided by fio's: the median over the rounds.
    pub fn ratio(&self) -> f64 {
        median(self.store.iter().zip(&self.fio).map(|(store, fio)| store.per_second() / fio.per_second))
    }

    pub fn fio_in_batches_rate(&self) -> Option<f64> {
        let rates = self.fio_in_batches.iter().map(|run| run.per_second);
        (!self.fio_in_batches.is_empty()).then(|| median(rates))
    }

    pub fn cpu_us(&self) -> (f64, f64) {
        (median(self.store.iter().map(Measured::cpu_us)), median(self.fio.iter().map(|run| run.cpu_us)))
    }

    /// Bytes written to the device for each byte of data, checkpoints included.
    pub fn amplification(&self) -> Option<f64> {
        self.batch?;
        let written: u64 = self.store.iter().map(|run| run.written_bytes).sum();
        Some(written as f64 / (self.operations() * self.bytes as f64))
    }

    /// p50, p99 and p99.9 over all runs together, in microseconds.
    pub fn latencies(&self, of: impl Fn(&Measured) -> &Latencies) -> Option<[u32; 3]> {
        let mut all = Latencies::default();
        self.store.iter().for_each(|run| all.extend(of(run)));
        Some([all.per_mille(500)?, all.per_mille(990)?, all.per_mille(999)?])
    }

    pub fn fio_latencies(&self) -> [f64; 3] {
        let of = |figure: fn(&FioResult) -> f64| median(self.fio.iter().map(figure));
        [of(|run| run.p50_us), of(|run| run.p99_us), of(|run| run.p999_us)]
    }

    /// p50, p99 and p99.9 of fio's flushes, if it had any.
    pub fn fio_flushes(&self) -> Option<[f64; 3]> {
        self.batch?;
        Some([0, 1, 2].map(|at| median(self.fio.iter().map(|run| run.flushes_us[at]))))
    }

    pub fn to_json(&self) -> Value {
        let (store_cpu, fio_cpu) = self.cpu_us();
        json!({
            "row": self.name,
            "operation_bytes": self.bytes,
            "store_per_second": self.store.iter().map(Measured::per_second).collect::<Vec<_>>(),
            "fio_per_second": self.fio.iter().map(|run| run.per_second).collect::<Vec<_>>(),
            "fio_in_batches_per_second": self.fio_in_batches.iter().map(|run| run.per_second).collect::<Vec<_>>(),
            "ratio": self.ratio(),
            "writes_per_flush": self.batch,
            "bytes_written_per_byte": self.amplification(),
            "store_cpu_us": store_cpu,
            "store_user_cpu_us": median(self.store.iter().map(|run| run.cpu.user.as_secs_f64() * 1e6 / run.operations as f64)),
            "fio_cpu_us": fio_cpu,
            "store_latency_us_p50_p99_p999": self.latencies(|run| &run.latencies),
            "during_checkpoints_us_p50_p99_p999": self.latencies(|run| &run.during_checkpoints),
            "fio_latency_us_p50_p99_p999": self.fio_latencies(),
            "store_flush_us_p50_p99_p999": self.latencies(|run| &run.flush_latencies),
            "fio_flush_us_p50_p99_p999": self.fio_flushes(),
            "cache_hit_share": self.cache_hits,
        })
    }
}
