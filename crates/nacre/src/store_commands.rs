//! `nacre store`: an OSD's store while the OSD does not run.
//!
//! The exit status is 0 if all is well, 1 if a check found damage (or a repair left some), 2 if the command could not
//! do its work.

use crate::byte_size::ByteSize;
use crate::cli;
use crate::osd_stores::Stores;
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use offline::{CheckReport, ExportReport, ExportScope, FileDevice, ImportReport, OfflineStore, RepairPlan, StoreStats};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufWriter, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const DAMAGE: u8 = 1;
const FAILED: u8 = 2;
/// Findings printed for a person; `--json` has more.
const FINDINGS_SHOWN: usize = 100;

/// Runs one command; returns the exit status.
pub fn run(command: &cli::Store) -> u8 {
    let (result, json) = match command {
        cli::Store::Check(options) => (check(options), options.json),
        cli::Store::Stats(options) => (stats(options), options.json),
        cli::Store::Repair(options) => (repair(options), options.json),
        cli::Store::Export(options) => (export(options), options.json),
        cli::Store::Import(options) => (import(options), options.json),
    };
    result.unwrap_or_else(|error| {
        if json {
            println!("{}", json!({"status": "failed", "error": format!("{error:#}")}));
        }
        eprintln!("error: {error:#}");
        FAILED
    })
}

fn bytes_line(what: &'static str) -> impl FnMut(u64, Option<u64>) {
    let mut line: Option<Progress> = None;
    move |done, total| line.get_or_insert_with(|| Progress::new(what, total)).at(done)
}

fn print_json(value: &Value) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

fn check(options: &cli::StoreCheck) -> Result<u8> {
    let stores = Stores::at(&options.store.path)?;
    let (mut reports, mut is_clean) = (Vec::new(), true);
    for shard in 0..stores.count() {
        let device = stores.device(shard, true)?;
        let report = offline::check(device, &mut bytes_line("verified")).with_context(|| stores.name(shard))?;
        is_clean &= report.is_clean();
        stores.head(shard, options.json);
        match options.json {
            true => reports.push(report.json()),
            false => show_check(&report),
        }
    }
    if options.json {
        print_json(&stores.as_one_report(reports, if is_clean { "clean" } else { "damaged" }))?;
    }
    Ok(if is_clean { 0 } else { DAMAGE })
}

fn show_check(report: &CheckReport) {
    if let Some(label) = &report.label {
        println!(
            "store of {} in cluster {}: {} objects, {} omap keys, {} placement groups; {} verified",
            label.osd,
            label.fsid,
            report.objects,
            report.omap_keys,
            report.groups,
            ByteSize(report.verified_bytes)
        );
    }
    for finding in report.findings.iter().take(FINDINGS_SHOWN) {
        println!("{}: {finding}", if finding.is_damage() { "damage" } else { "note" });
    }
    if report.findings.len() > FINDINGS_SHOWN {
        println!("... and {} more; --json lists them", report.findings.len() - FINDINGS_SHOWN);
    }
    match report.damage {
        0 => println!("clean"),
        count => println!("damaged: {count} findings, {} bad blocks", report.bad_blocks),
    }
}

fn stats(options: &cli::StoreStats) -> Result<u8> {
    let stores = Stores::at(&options.store.path)?;
    let mut reports = Vec::new();
    for shard in 0..stores.count() {
        let stats = offline::stats(&mut stores.open(shard, true)?, &mut |_, _| ())?;
        stores.head(shard, options.json);
        match options.json {
            true => reports.push(stats.json()),
            false => print!("{}", stats_page(&stats)),
        }
    }
    if options.json {
        print_json(&stores.as_one_report(reports, "done"))?;
    }
    Ok(0)
}

fn stats_page(stats: &StoreStats) -> String {
    let (label, usage, log) = (&stats.label, &stats.usage, &stats.log);
    let mut page = String::new();
    let mut line = |name: &str, text: String| page.push_str(&format!("{name:<12} {text}\n"));
    line("store", format!("{} in cluster {}, store {}", label.osd, label.fsid, label.uuid));
    line(
        "space",
        format!(
            "{} in all, {} free, {} data, {} metadata",
            ByteSize(usage.total_bytes),
            ByteSize(usage.free_bytes),
            ByteSize(usage.data_bytes),
            ByteSize(usage.metadata_bytes)
        ),
    );
    if let Some(bytes) = label.wal_device_bytes {
        line("", format!("WAL device: {}", ByteSize(bytes)));
    }
    if let Some(own) = usage.metadata_device {
        line("", format!("metadata device: {}, {} free", ByteSize(own.total_bytes), ByteSize(own.free_bytes)));
    }
    line(
        "objects",
        format!("{} with {} and {} of omap", usage.objects, ByteSize(usage.stored_bytes), ByteSize(usage.omap_bytes)),
    );
    for (pool, sums) in &stats.pools {
        line(
            "",
            format!(
                "pool {}: {} objects, {}, {} omap keys with {}",
                pool.0,
                sums.objects,
                ByteSize(sums.bytes),
                sums.omap_keys,
                ByteSize(sums.omap_bytes)
            ),
        );
    }
    line("log", {
        let (size, replay) = (ByteSize(log.log_bytes), ByteSize(log.replay_bytes));
        format!("{size}; the next start replays {} records in {replay}", log.replay_records)
    });
    line("checkpoint", format!("number {}, {}", log.checkpoint, ByteSize(log.checkpoint_bytes)));
    let inline = ByteSize(stats.inline_bytes);
    line("inline", format!("{} objects with {inline}, which are in their records", stats.inline_objects));
    let per_object = stats.extents as f64 / stats.objects_with_data.max(1) as f64;
    line(
        "pieces",
        format!(
            "{} for {} objects with data: {per_object:.2} each, {} at most; {} on average",
            stats.extents,
            stats.objects_with_data,
            stats.extents_of_one_max,
            ByteSize(stats.referenced_bytes / stats.extents.max(1))
        ),
    );
    let free = &stats.free_space;
    let (longest, whole) = (ByteSize(free.longest_run_bytes), ByteSize(free.whole_units_bytes));
    line("free runs", format!("the longest has {longest}; {whole} in whole units of {}", ByteSize(free.unit_bytes)));
    for runs in &free.runs {
        line("", format!("from {}: {} runs, {}", ByteSize(runs.min_bytes), runs.runs, ByteSize(runs.bytes)));
    }
    line("pgs", stats.groups.len().to_string());
    for group in &stats.groups {
        let text = match &group.table {
            Ok(table) => format!(
                "{}: {} objects, {}, at {}, {} log entries{}{}",
                group.pg,
                table.objects,
                ByteSize(table.bytes.max(0) as u64),
                table.last_update,
                table.log_entries,
                if table.missing > 0 { format!(", {} objects missing", table.missing) } else { String::new() },
                if table.complete { "" } else { ", incomplete" }
            ),
            Err(error) => format!("{}: {error}", group.pg),
        };
        line("", text);
    }
    page
}

fn repair(options: &cli::StoreRepair) -> Result<u8> {
    let stores = Stores::at(&options.store.path)?;
    let shards = match options.shard {
        Some(shard) if shard < stores.count() => shard..shard + 1,
        Some(shard) => bail!("there is no shard {shard}: the OSD has {}, counted from 0", stores.count()),
        None if stores.count() > 1 && !options.remove_object.is_empty() => {
            bail!("the OSD has {} shards: say with --shard which one has the object", stores.count())
        }
        None => 0..stores.count(),
    };
    let (mut said, mut is_clean) = (Vec::new(), true);
    for shard in shards {
        let opened = OfflineStore::open_to_mend(stores.device(shard, !options.yes)?);
        let opened = opened.map_err(|error| match error.is_damage() {
            true => anyhow::anyhow!("{error}. {}", offline::MAKE_ANEW),
            false => error.into(),
        });
        let mut store = opened.with_context(|| stores.name(shard))?;
        let plan = offline::plan_repair(&mut store, &options.remove_object, &mut bytes_line("verified"))?;
        stores.head(shard, options.json);
        if !options.yes {
            is_clean &= plan.report.is_clean();
            said.extend(show_plan(&plan, options.json));
            continue;
        }
        let (_, report) = offline::repair(store, &plan, &mut bytes_line("verified again"))?;
        is_clean &= report.after.is_clean();
        if options.json {
            let done: Vec<Value> = report.done.iter().map(offline::RepairAction::json).collect();
            said.push(json!({"status": "done", "done": done, "after": report.after.json()}));
        } else {
            report.done.iter().for_each(|action| println!("done: {action}"));
            show_check(&report.after);
        }
    }
    if options.json {
        print_json(&stores.as_one_report(said, if options.yes { "done" } else { "planned" }))?;
    }
    Ok(if is_clean { 0 } else { DAMAGE })
}

/// The plan for programs, or nothing: it has been printed.
fn show_plan(plan: &RepairPlan, as_json: bool) -> Option<Value> {
    let remains: Vec<_> = plan.remains().collect();
    if as_json {
        return Some(json!({
            "status": "planned",
            "actions": plan.actions.iter().map(offline::RepairAction::json).collect::<Vec<_>>(),
            "remains": remains.iter().map(|finding| finding.json()).collect::<Vec<_>>(),
        }));
    } else {
        plan.actions.iter().for_each(|action| println!("would {action}"));
        for finding in remains.iter().take(FINDINGS_SHOWN) {
            println!("stays as it is: {finding}");
        }
        if !remains.is_empty() {
            println!(
                "Reading a bad block is an error until the block is written anew. To have its placement group bring an \
                 object from another member: --remove-object NAME."
            );
        }
        match (plan.actions.is_empty(), remains.is_empty()) {
            (true, true) => println!("clean: nothing to repair"),
            (true, false) => println!("nothing that this store alone could repair"),
            (false, _) => println!("nothing has been written; add --yes to do it"),
        }
    }
    None
}

fn export(options: &cli::StoreExport) -> Result<u8> {
    let stores = Stores::at(&options.store.path)?;
    let mut store = match options.pg {
        Some(pg) => stores.with_group(pg)?,
        None if stores.count() > 1 => {
            bail!("an OSD of {} shards is exported group by group: name one with --pg", stores.count())
        }
        None => stores.open(0, true)?,
    };
    let scope = match options.pg {
        Some(pg) => ExportScope::Group { pg, pg_num: options.pg_num },
        None => ExportScope::Everything,
    };
    let mut progress = bytes_line("exported");
    let left_out = options.leave_out_damaged;
    let to_stdout = options.file == Path::new("-");
    let report = if to_stdout {
        offline::export(&mut store, scope, left_out, BufWriter::new(io::stdout().lock()), &mut progress)?
    } else {
        export_to_file(&mut store, scope, left_out, &options.file, &mut progress)?
    };
    drop(progress);
    let text = if options.json { export_json(&report).to_string() } else { export_text(&report) };
    if to_stdout {
        eprintln!("{text}");
    } else {
        println!("{text}");
    }
    Ok(if report.left_out.is_empty() { 0 } else { DAMAGE })
}

/// The file has its name only once it is whole. It has objects, as the store has, and is its owner's alone as that is.
fn export_to_file(
    store: &mut OfflineStore<FileDevice>,
    scope: ExportScope,
    leave_out_damaged: bool,
    path: &Path,
    progress: offline::Progress<'_>,
) -> Result<ExportReport> {
    if path.exists() {
        bail!("{} exists already", path.display());
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let cannot = || format!("cannot write {}", partial.display());
    match std::fs::remove_file(&partial) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e).with_context(cannot),
        _ => {}
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(&partial).with_context(cannot)?;
    let written = offline::export(store, scope, leave_out_damaged, BufWriter::with_capacity(1 << 20, &file), progress);
    let durable = written.map_err(anyhow::Error::from).and_then(|report| {
        file.sync_all().with_context(cannot)?;
        std::fs::rename(&partial, path).with_context(cannot)?;
        Ok(report)
    });
    if durable.is_err() {
        // The rest of it would only take space; that it could not be written is what the user is told.
        let _ = std::fs::remove_file(&partial);
    }
    durable
}

fn export_json(report: &ExportReport) -> Value {
    let left_out =
        report.left_out.iter().map(|(object, error)| json!({"object": object.to_string(), "error": error.to_string()}));
    json!({
        "status": "done", "objects": report.objects, "bytes": report.bytes, "omap_keys": report.omap_keys,
        "pgs": report.groups, "stream_bytes": report.stream_bytes, "left_out": left_out.collect::<Vec<_>>(),
    })
}

fn export_text(report: &ExportReport) -> String {
    let mut text = format!(
        "exported {} placement groups: {} objects, {}, {} omap keys",
        report.groups,
        report.objects,
        ByteSize(report.bytes),
        report.omap_keys
    );
    for (object, error) in report.left_out.iter().take(FINDINGS_SHOWN) {
        text.push_str(&format!("\nleft out: object {object}: {error}"));
    }
    if report.left_out.len() > FINDINGS_SHOWN {
        text.push_str(&format!("\n... and {} more", report.left_out.len() - FINDINGS_SHOWN));
    }
    text
}

fn import(options: &cli::StoreImport) -> Result<u8> {
    let stores = Stores::at(&options.store.path)?;
    let from_stdin = options.file == Path::new("-");
    let report = if from_stdin {
        if stores.count() > 1 {
            bail!("an OSD of {} shards takes a stream from a file, not from standard input", stores.count());
        }
        let mut store = stores.open(0, false)?;
        import_from(&mut store, io::stdin().lock(), options.replace)?
    } else {
        let cannot = || format!("cannot read {}", options.file.display());
        let whole = File::open(&options.file).with_context(cannot)?;
        let kind = whole.metadata().with_context(cannot)?;
        if kind.is_file() {
            // A file can be read twice: nothing is replaced by what turns out to be cut short.
            let total = kind.len();
            let mut read = bytes_line("read");
            offline::check_stream(io::BufReader::with_capacity(1 << 20, whole), &mut |done, _| read(done, Some(total)))
                .with_context(|| options.file.display().to_string())?;
        }
        let mut store = stores.open(stores.shard_for(&options.file)?, false)?;
        import_from(&mut store, File::open(&options.file).with_context(cannot)?, options.replace)?
    };
    if options.json {
        print_json(&json!({
            "status": "done", "objects": report.objects, "bytes": report.bytes, "omap_keys": report.omap_keys,
            "pgs": report.groups, "left_out": report.left_out,
        }))?;
    } else {
        println!(
            "imported {} placement groups: {} objects, {}, {} omap keys",
            report.groups,
            report.objects,
            ByteSize(report.bytes),
            report.omap_keys
        );
    }
    Ok(0)
}

fn import_from(store: &mut OfflineStore<FileDevice>, input: impl Read, replace: bool) -> Result<ImportReport> {
    let input = io::BufReader::with_capacity(1 << 20, input);
    Ok(offline::import(store, input, replace, &mut bytes_line("imported"))?)
}
