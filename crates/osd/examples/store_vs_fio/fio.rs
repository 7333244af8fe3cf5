//! Runs fio on the same file.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The part of a file that fio works on.
pub struct Fio {
    pub path: PathBuf,
    pub offset: u64,
    pub len: u64,
}

pub struct Job {
    /// Value of fio's option `rw`.
    pub mode: &'static str,
    pub block_bytes: u64,
    pub depth: usize,
    /// Number of writes between two flushes; 0: no flushes.
    pub flush_every: u64,
    /// If true, writes begin together and all end before more begin, as where one flush makes all of them durable.
    pub in_batches: bool,
    pub time: Duration,
}

/// Figures that fio reports of one run.
#[derive(Clone, Copy, Debug)]
pub struct FioResult {
    pub per_second: f64,
    pub cpu_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    /// Latencies of its flushes in the same form. No write of fio waits for them.
    pub flushes_us: [f64; 3],
}

impl Fio {
    pub fn is_there() -> bool {
        Command::new("fio").arg("--version").output().is_ok_and(|output| output.status.success())
    }

    /// The file from its beginning to the end of this part.
    pub fn with_all_before(&self) -> Fio {
        Fio { path: self.path.clone(), offset: 0, len: self.offset + self.len }
    }

    /// Writes all of the part once, so that no run meets blocks that the file system has not allocated yet.
    pub fn lay_out(&self) -> Result<()> {
        self.call(&["--rw=write", "--bs=1m", "--iodepth=8", "--end_fsync=1"]).map(drop)
    }

    pub fn run(&self, job: &Job) -> Result<FioResult> {
        let mut args = vec![
            format!("--rw={}", job.mode),
            format!("--bs={}", job.block_bytes),
            format!("--iodepth={}", job.depth),
            "--time_based".to_owned(),
            format!("--runtime={}ms", job.time.as_millis()),
        ];
        if job.flush_every > 0 {
            args.push(format!("--fdatasync={}", job.flush_every));
        }
        if job.in_batches {
            args.push(format!("--iodepth_batch={}", job.flush_every));
            args.push(format!("--iodepth_batch_complete_min={}", job.flush_every));
        }
        let report = self.call(&args.iter().map(String::as_str).collect::<Vec<_>>())?;
        let entry = &report["jobs"][0];
        let side = &entry[if job.mode.contains("write") { "write" } else { "read" }];
        let number = |value: &Value| value.as_f64().with_context(|| format!("fio's report lacks a figure: {report}"));
        let operations = number(&side["total_ios"])?;
        let busy = (number(&entry["usr_cpu"])? + number(&entry["sys_cpu"])?) / 100.0;
        let flushes = &entry["sync"]["lat_ns"]["percentile"];
        let flush = |percentile: &str| flushes[percentile].as_f64().unwrap_or(0.0) / 1e3;
        let at = |percentile: &str| Ok::<f64, anyhow::Error>(number(&side["clat_ns"]["percentile"][percentile])? / 1e3);
        Ok(FioResult {
            per_second: number(&side["iops"])?,
            cpu_us: busy * number(&entry["job_runtime"])? * 1e3 / operations,
            p50_us: at("50.000000")?,
            p99_us: at("99.000000")?,
            p999_us: at("99.900000")?,
            flushes_us: ["50.000000", "99.000000", "99.900000"].map(flush),
        })
    }

    fn call(&self, args: &[&str]) -> Result<Value> {
        let output = Command::new("fio")
            .args(["--name=fio", "--ioengine=io_uring", "--direct=1", "--thread", "--output-format=json"])
            .args(["--norandommap", "--randrepeat=0", "--refill_buffers=0", "--allow_file_create=0"])
            .arg(format!("--filename={}", self.path.display()))
            .arg(format!("--offset={}", self.offset))
            .arg(format!("--size={}", self.len))
            .args(args)
            .output()
            .context("running fio")?;
        if !output.status.success() {
            bail!("fio {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        // fio may print notes before its report.
        let text = String::from_utf8_lossy(&output.stdout);
        let begin = text.find('{').with_context(|| format!("fio's report is no JSON: {text}"))?;
        Ok(serde_json::from_str(&text[begin..])?)
    }
}
