//! Compares the store in its reactor with fio: on the same file, in the same run, in turns.
//!
//! `cargo run --release -p osd --example store_vs_fio -- FILE [flags]`; `--help` lists the flags. FILE must not exist,
//! and the program removes it at the end. It takes a block device only with `--overwrite`; the device then loses its
//! content.
//!
//! The program writes all of the file before it measures anything, so that neither side meets blocks that the file
//! system has not allocated yet. A block device has none of these either. With `--sparse` the store's part stays
//! unwritten, as an OSD finds a new file.

mod ageing;
mod arguments;
mod driver;
mod files;
mod fio;
mod measure;
mod report;
mod rows;
mod second_device;
mod workload;

use anyhow::{Context, Result, bail};
use arguments::Arguments;
use driver::{StoreRun, Until};
use files::StoreFiles;
use fio::Fio;
use report::Report;
use std::fs::OpenOptions;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use store::StoreConfig;
use workload::{Kind, MIB, OBJECT_BYTES};

// The allocator of the daemon.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Removes the file at the end of the run, whatever ends it.
struct Scratch(Option<PathBuf>);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn main() -> Result<()> {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1))? else { return Ok(()) };
    if !Fio::is_there() {
        bail!("fio is not installed");
    }
    let _scratch = make_file(&arguments)?;
    let mut report = Report::new(&arguments);
    run(&arguments, &mut report)?;
    report.print();
    if let Some(path) = &arguments.json {
        std::fs::write(path, format!("{:#}\n", report.to_json()))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Makes the file, or takes the device, large enough. Returns the guard that removes it again.
fn make_file(arguments: &Arguments) -> Result<Scratch> {
    let path = &arguments.path;
    if let Ok(metadata) = std::fs::metadata(path) {
        if !metadata.file_type().is_block_device() {
            bail!("{} exists: name a file that does not", path.display());
        }
        if !arguments.overwrite {
            bail!("{} is a block device, which loses all it holds: say --overwrite", path.display());
        }
        return Ok(Scratch(None));
    }
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let file = file.with_context(|| format!("making {}", path.display()))?;
    let scratch = Scratch(Some(path.clone()));
    file.set_len(arguments.store_bytes + arguments.fio_bytes)?;
    Ok(scratch)
}

fn run(arguments: &Arguments, report: &mut Report) -> Result<()> {
    let fio = Fio { path: arguments.path.clone(), offset: arguments.store_bytes, len: arguments.fio_bytes };
    let written = if arguments.sparse { fio.lay_out() } else { fio.with_all_before().lay_out() };
    written.context("laying out the file")?;

    let device_bytes = arguments.store_bytes;
    let wal_bytes = StoreConfig::default_wal_bytes(device_bytes);
    let objects = arguments.set_bytes / OBJECT_BYTES;
    let files = StoreFiles::one(&arguments.path, device_bytes);
    let mut store = StoreRun::new(&files, arguments, wal_bytes, objects)?;
    let fill = Kind::WriteInOrder { bytes: MIB };
    store.run(fill, 8, Until::Operations(objects * OBJECT_BYTES / MIB))?;
    store.settle(true)?;
    for row in rows::ROWS.iter().filter(|row| arguments.wants(row.name)) {
        report.add(rows::run(row, &mut store, &fio, arguments)?);
    }
    drop(store);
    if arguments.wants(second_device::NAME) {
        report.set_second_device(second_device::run(arguments)?);
    }
    if arguments.wants(ageing::NAME) {
        report.set_ageing(ageing::run(arguments, &fio)?);
    }
    Ok(())
}
