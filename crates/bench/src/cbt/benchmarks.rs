//! Benchmarks of the tool as workloads of ours.

use serde_json::{Map, Value};

use super::{At, CbtError, DEFAULT_PROFILE, Notes, each, truth, whole};
use crate::plan::{Group, Load, Operations, Plan, Stop, Workload};
use crate::tool::Tool;

/// Data of a workload on objects: the tool writes as many as its time allows, we write over as many.
const DATA_BYTES: u64 = 1 << 30;
const OBJECTS: std::ops::RangeInclusive<u64> = 16..=4096;
const OBJECT_BYTES: u64 = 4 << 20;
const MIB: u64 = 1 << 20;
const SECONDS: u64 = 300;

/// Options that change nothing about the load, or nothing here.
const RADOS_NO_EFFECT: [&str; 4] = ["cmd_path", "object_set_id", "osd_ra", "use_existing"];
const FIO_NO_EFFECT: [&str; 16] = [
    "cmd_path",
    "fio_out_format",
    "idle_monitor_sleep",
    "log_avg_msec",
    "log_bw",
    "log_iops",
    "log_lat",
    "no_sudo",
    "norandommap",
    "osd_ra",
    "pgs",
    "poolname",
    "prefill",
    "procs_per_client",
    "time_based",
    "wait_pgautoscaler_timeout",
];

/// Sorts a benchmark's options; those that are neither `known` nor without effect are unsupported.
fn sort(path: &str, options: &Map<String, Value>, known: &[&str], no_effect: &[&str], notes: &mut Notes) {
    for (key, value) in options {
        let path = format!("{path}.{key}");
        let is_one = value.as_array().is_none_or(|list| list.len() == 1);
        if no_effect.contains(&key.as_str()) && is_one {
            notes.without_effect.push(path);
        } else if !known.contains(&key.as_str()) {
            notes.unsupported.push(path);
        }
    }
}

/// All choices of one value of each list; those of the last list vary fastest.
fn combinations<const N: usize>(lists: [Vec<u64>; N]) -> Vec<[u64; N]> {
    let mut all = vec![[0; N]];
    for (at, list) in lists.iter().enumerate() {
        let with = |chosen: [u64; N], value: u64| std::array::from_fn(|i| if i == at { value } else { chosen[i] });
        all = all.into_iter().flat_map(|chosen| list.iter().map(move |value| with(chosen, *value))).collect();
    }
    all
}

/// Numbers of an option that may be a list. There is at least one.
fn numbers(path: &str, options: &Map<String, Value>, key: &str, usual: u64) -> Result<Vec<u64>, CbtError> {
    let path = format!("{path}.{key}");
    let values = each(At { path: &path, value: &options.get(key).cloned().unwrap_or_default() }, usual.into());
    if values.is_empty() {
        return Err(CbtError::Value { path, value: "[]".into(), wanted: "a number, or a list of some" });
    }
    values.iter().map(|value| whole(At { path: &path, value }, usual)).collect()
}

fn flag(path: &str, options: &Map<String, Value>, key: &str) -> Result<bool, CbtError> {
    let value = options.get(key).cloned().unwrap_or_default();
    truth(At { path: &format!("{path}.{key}"), value: &value }, false)
}

fn profile(options: &Map<String, Value>) -> String {
    options.get("pool_profile").and_then(Value::as_str).unwrap_or(DEFAULT_PROFILE).to_owned()
}

fn word(path: &str, value: &Value, allowed: &[&str], wanted: &'static str) -> Result<String, CbtError> {
    let word = value.as_str().filter(|word| allowed.contains(word)).map(str::to_owned);
    word.ok_or_else(|| CbtError::Value { path: path.into(), value: value.to_string(), wanted })
}

/// Adds the workloads of `radosbench`: for each combination writes, then reads, as far as they are wanted.
pub(super) fn radosbench(
    path: &str,
    options: &Map<String, Value>,
    clients: u32,
    plan: &mut Plan,
    notes: &mut Notes,
) -> Result<(), CbtError> {
    const KNOWN: [&str; 14] = [
        "concurrent_ops",
        "concurrent_procs",
        "max_objects",
        "op_size",
        "pool_per_proc",
        "pool_profile",
        "prefill_objects",
        "prefill_time",
        "read_only",
        "read_time",
        "readmode",
        "time",
        "write_only",
        "write_time",
    ];
    sort(path, options, &KNOWN, &RADOS_NO_EFFECT, notes);
    if flag(path, options, "pool_per_proc")? {
        notes.unsupported.push(format!("{path}.pool_per_proc"));
    }
    let (write_only, read_only) = (flag(path, options, "write_only")?, flag(path, options, "read_only")?);
    let readmode = options.get("readmode").cloned().unwrap_or("seq".into());
    let readmode = word(&format!("{path}.readmode"), &readmode, &["seq", "rand"], "seq or rand")?;
    let reads = match readmode.as_str() {
        "rand" => Operations { random_read: 100, ..Operations::default() },
        _ => Operations { sequential_read: 100, ..Operations::default() },
    };
    let writes = Operations { sequential_write: 100, ..Operations::default() };
    let most = numbers(path, options, "max_objects", 0)?.first().copied().unwrap_or(0);
    let lists = [
        numbers(path, options, "op_size", OBJECT_BYTES)?,
        numbers(path, options, "concurrent_ops", 16)?,
        numbers(path, options, "concurrent_procs", 1)?,
        numbers(path, options, "time", SECONDS)?,
    ];
    for [op_size, ops, procs, time] in combinations(lists) {
        let instances = small(procs * u64::from(clients));
        let workers = u64::from(instances) * ops;
        let usual = (DATA_BYTES / op_size.max(1)).clamp(*OBJECTS.start(), *OBJECTS.end());
        let objects = if most > 0 { most } else { usual }.max(workers);
        let mut add = |name: &str, operations: Operations, seconds: u64| {
            let group = Group {
                name: name.into(),
                object_bytes: op_size,
                io_bytes: None,
                objects,
                operations,
                instances,
                load: Load::Closed { queue_depth: small(ops) },
                prefill: None,
                list_keys: None,
            };
            let name = format!("radosbench-{op_size}-{instances}x{ops}-{name}");
            push(plan, name, profile(options), Tool::Nacre, vec![group], 0.0, seconds);
        };
        let time_of = |key: &str| Ok::<u64, CbtError>(numbers(path, options, key, time)?[0]);
        if !read_only {
            add("write", writes, time_of("write_time")?);
        }
        if !write_only {
            add(&readmode, reads, time_of("read_time")?);
        }
    }
    Ok(())
}

/// Adds the workloads of `librbdfio`: each volume is an image with a client of its own.
pub(super) fn librbdfio(
    path: &str,
    options: &Map<String, Value>,
    clients: u32,
    plan: &mut Plan,
    notes: &mut Notes,
) -> Result<(), CbtError> {
    const KNOWN: [&str; 15] = [
        "end_fsync",
        "iodepth",
        "iterations",
        "mode",
        "numjobs",
        "op_size",
        "pool_profile",
        "procs_per_volume",
        "ramp",
        "rwmixread",
        "time",
        "use_existing_volumes",
        "vol_object_size",
        "vol_size",
        "volumes_per_client",
    ];
    sort(path, options, &KNOWN, &FIO_NO_EFFECT, notes);
    if flag(path, options, "use_existing_volumes")? {
        notes.unsupported.push(format!("{path}.use_existing_volumes"));
    }
    // An image has one writer here.
    for key in ["numjobs", "procs_per_volume"] {
        if numbers(path, options, key, 1)?.iter().any(|number| *number != 1) {
            notes.unsupported.push(format!("{path}.{key} other than 1"));
        }
    }
    if numbers(path, options, "end_fsync", 0)?.iter().any(|number| *number != 0) {
        notes.without_effect.push(format!("{path}.end_fsync"));
    }
    if let Some(value) = options.get("iterations") {
        plan.iterations = small(whole(At { path: &format!("{path}.iterations"), value }, 1)?);
    }
    let order = numbers(path, options, "vol_object_size", 22)?[0].clamp(12, 25);
    let object_bytes = 1u64 << order;
    let ramp = numbers(path, options, "ramp", 0)?[0] as f64;
    let mode_path = format!("{path}.mode");
    let modes = each(At { path: &mode_path, value: &options.get("mode").cloned().unwrap_or_default() }, "write".into());
    for mode in &modes {
        let allowed = ["read", "write", "randread", "randwrite", "randrw", "rw", "readwrite"];
        let mode = word(&mode_path, mode, &allowed, "a mode of fio without trim")?;
        for (share, words) in mixes(path, options, &mode)? {
            let lists = [
                numbers(path, options, "op_size", OBJECT_BYTES)?,
                numbers(path, options, "iodepth", 16)?,
                numbers(path, options, "volumes_per_client", 1)?,
                numbers(path, options, "vol_size", 65_536)?,
            ];
            let time = numbers(path, options, "time", SECONDS)?[0];
            for [op_size, depth, volumes, mib] in combinations(lists) {
                let images = small(volumes * u64::from(clients));
                let group = |number: u32| Group {
                    name: format!("volume{number}"),
                    object_bytes,
                    io_bytes: Some(op_size),
                    objects: (mib * MIB / object_bytes).max(1),
                    operations: operations(&mode, share),
                    instances: 1,
                    load: Load::Closed { queue_depth: small(depth) },
                    prefill: Some(true),
                    list_keys: None,
                };
                let name = format!("librbdfio-{words}-{op_size}-{images}x{depth}-{mib}m");
                let groups = (0..images).map(group).collect();
                push(plan, name, profile(options), Tool::NacreRbd, groups, ramp, time);
            }
        }
    }
    Ok(())
}

/// Percentages of reads of a mode, each with the words for names.
fn mixes(path: &str, options: &Map<String, Value>, mode: &str) -> Result<Vec<(u32, String)>, CbtError> {
    match mode {
        "read" | "randread" => Ok(vec![(100, mode.into())]),
        "write" | "randwrite" => Ok(vec![(0, mode.into())]),
        _ => {
            let shares = numbers(path, options, "rwmixread", 50)?;
            Ok(shares.into_iter().map(|share| (small(share), format!("{mode}{share}"))).collect())
        }
    }
}

fn operations(mode: &str, read_percent: u32) -> Operations {
    let (reads, writes) = (read_percent, 100u32.saturating_sub(read_percent));
    match mode.starts_with("rand") {
        true => Operations { random_read: reads, random_write: writes, ..Operations::default() },
        false => Operations { sequential_read: reads, sequential_write: writes, ..Operations::default() },
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn push(plan: &mut Plan, name: String, pool: String, tool: Tool, groups: Vec<Group>, warm_up_s: f64, seconds: u64) {
    let stop = Stop::DurationS(seconds as f64);
    // Values that a list has twice are one.
    if plan.workloads.iter().all(|one| one.name != name) {
        plan.workloads.push(Workload { name, pool, tool, groups, warm_up_s, stop });
    }
}
