//! Prints the results as tables and as JSON.

use crate::ageing::Ageing;
use crate::arguments::Arguments;
use crate::rows::RowResult;
use crate::second_device::SecondDevice;
use crate::workload::{BLOCK, MIB};
use serde_json::{Value, json};

pub struct Report {
    /// Conditions of the measurement: device, sizes, flags.
    setting: Value,
    rows: Vec<RowResult>,
    second_device: Option<SecondDevice>,
    ageing: Option<Ageing>,
}

impl Report {
    pub fn new(arguments: &Arguments) -> Report {
        let setting = json!({
            "store_bytes": arguments.store_bytes,
            "set_bytes": arguments.set_bytes,
            "aged_store_bytes": arguments.age_bytes,
            "aged_store_percent": arguments.age_percent,
            "memory_bytes": arguments.memory_bytes,
            "seconds": arguments.time.as_secs(),
            "rounds": arguments.rounds,
            "sparse": arguments.sparse,
        });
        Report { setting, rows: Vec::new(), second_device: None, ageing: None }
    }

    pub fn add(&mut self, row: RowResult) {
        self.rows.push(row);
    }

    pub fn set_second_device(&mut self, second_device: SecondDevice) {
        self.second_device = Some(second_device);
    }

    pub fn set_ageing(&mut self, ageing: Ageing) {
        self.ageing = Some(ageing);
    }

    /// Prints the tables in Markdown.
    pub fn print(&self) {
        if !self.rows.is_empty() {
            println!(
                "| row | unit | fio | fio in batches | store | store / fio | writes per flush | bytes written per byte | CPU, us per op: fio, store | latency p50, p99, p99.9, us: fio | store | store, during checkpoints | flushes p50, p99, p99.9, us: fio | store |"
            );
            println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
        }
        for row in &self.rows {
            let (unit, scale) = match row.bytes {
                BLOCK => ("IOPS", 1.0),
                bytes => ("MiB/s", bytes as f64 / MIB as f64),
            };
            let (store_cpu, fio_cpu) = row.cpu_us();
            let fio = row.fio_latencies();
            println!(
                "| {} | {unit} | {:.0} | {} | {:.0} | **{:.2}** | {} | {} | {fio_cpu:.1}, {store_cpu:.1} | {:.0}, {:.0}, {:.0} | {} | {} | {} | {} |",
                row.name,
                row.fio_rate() * scale,
                row.fio_in_batches_rate().map_or("".to_owned(), |rate| format!("{:.0}", rate * scale)),
                row.store_rate() * scale,
                row.ratio(),
                row.batch.map_or("".to_owned(), |batch| format!("{batch:.1}")),
                row.amplification().map_or("".to_owned(), |written| format!("{written:.2}")),
                fio[0],
                fio[1],
                fio[2],
                latencies(row.latencies(|run| &run.latencies)),
                latencies(row.latencies(|run| &run.during_checkpoints)),
                latencies(row.fio_flushes().map(|flushes| flushes.map(|us| us as u32))),
                latencies(row.latencies(|run| &run.flush_latencies).filter(|_| row.batch.is_some())),
            );
        }
        if let Some(second) = &self.second_device {
            second.print();
        }
        if let Some(ageing) = &self.ageing {
            let rest = ageing.rest.as_secs_f64();
            println!(
                "\n| after overwriting everything ten times | fresh | aged | aged / fresh | left alone for {rest:.0} s | rested / fresh |\n|---|---|---|---|---|---|"
            );
            let line = |what: &str, fresh: f64, aged: f64, rested: f64| {
                let (aged_ratio, rested_ratio) = (aged / fresh, rested / fresh);
                println!(
                    "| {what} | {fresh:.0} | {aged:.0} | **{aged_ratio:.2}** | {rested:.0} | **{rested_ratio:.2}** |"
                );
            };
            let mib = |bytes: f64| bytes / MIB as f64;
            let reads = [ageing.fresh_read, ageing.aged_read, ageing.rested_read].map(mib);
            line("objects read in order, MiB/s", reads[0], reads[1], reads[2]);
            line("4 KiB random writes, IOPS", ageing.fresh_writes, ageing.aged_writes, ageing.rested_writes);
            let [fresh, aged, rested] = ageing.drive_writes;
            line("fio's at the same moments, flushed each 32, IOPS", fresh, aged, rested);
            println!(
                "\nBytes written per byte overwritten: {:.2}, and {:.2} while it was left alone.",
                ageing.amplification, ageing.rest_amplification
            );
        }
    }

    pub fn to_json(&self) -> Value {
        json!({
            "setting": self.setting,
            "rows": self.rows.iter().map(RowResult::to_json).collect::<Vec<_>>(),
            "second_device": self.second_device.as_ref().map(SecondDevice::to_json),
            "ageing": self.ageing.as_ref().map(Ageing::to_json),
        })
    }
}

fn latencies(of: Option<[u32; 3]>) -> String {
    of.map_or("".to_owned(), |[p50, p99, p999]| format!("{p50}, {p99}, {p999}"))
}
