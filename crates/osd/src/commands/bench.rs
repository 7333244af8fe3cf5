//! `bench`: how fast this OSD writes, with Ceph's bounds on it.

use control::{Settings, Told};
use pg::{BENCH_OBJECTS_MAX, BenchOrder};
use serde_json::{Value, json};
use std::time::Duration;

/// Bytes of an object that is there before, at most.
const OBJECT_BYTES_MAX: u64 = 64 << 20;

/// Bytes in words: `64 MiB`.
fn words(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (bytes.max(1).ilog2() / 10) as usize;
    let whole = 1_u64 << (10 * unit);
    match bytes % whole {
        0 => format!("{} {}", bytes / whole, UNITS[unit]),
        _ => format!("{:.2} {}", bytes as f64 / whole as f64, UNITS[unit]),
    }
}

/// Reads what is to be written.
///
/// Error: a sentence, Ceph's where it has one.
pub(crate) fn order(told: &Told, settings: &Settings) -> Result<BenchOrder, String> {
    let number = |name: &str, default: u64| match told.args.int(name) {
        None => Ok(default),
        Some(number) => u64::try_from(number).map_err(|_| format!("'{name}' is below zero")),
    };
    // Casts of floats keep to the bounds of the type.
    let option = |name: &str| settings.number(name).unwrap_or_default() as u64;
    let (bytes, size) = (number("count", 1 << 30)?, number("size", 4 << 20)?);
    let (object_bytes, objects) = (number("object_size", 0)?, number("object_num", 0)?);
    let size = if object_bytes > 0 && objects > 0 { size.min(object_bytes) } else { size };
    let size_max = option("osd_bench_max_block_size");
    if size > size_max {
        return Err(format!(
            "block 'size' values are capped at {}. If you wish to use a higher value, please adjust \
             'osd_bench_max_block_size'",
            words(size_max)
        ));
    }
    let duration_s = option("osd_bench_duration");
    let iops = option("osd_bench_small_size_max_iops");
    let throughput = option("osd_bench_large_size_max_throughput");
    let (per_second, assumed, name) = match size < 1 << 20 {
        true => (size.saturating_mul(iops), format!("{iops} IOPS"), "osd_bench_small_size_max_iops"),
        false => (throughput, format!("{}/s", words(throughput)), "osd_bench_large_size_max_throughput"),
    };
    let bytes_max = per_second.saturating_mul(duration_s);
    if bytes > bytes_max || size == 0 {
        return Err(format!(
            "'count' values greater than {bytes_max} for a block size of {}, assuming {assumed}, for {duration_s} \
             seconds, can cause ill effects on osd.  Please adjust '{name}' with a higher value if you wish to use a \
             higher 'count'.",
            words(size)
        ));
    }
    if object_bytes == 0 || objects == 0 {
        return Ok(BenchOrder { bytes, block_bytes: size, overwritten: None });
    }
    if objects > BENCH_OBJECTS_MAX || object_bytes > OBJECT_BYTES_MAX {
        let largest = words(OBJECT_BYTES_MAX);
        return Err(format!("at most {BENCH_OBJECTS_MAX} objects of {largest} each are overwritten"));
    }
    Ok(BenchOrder { bytes, block_bytes: size, overwritten: Some((objects, object_bytes)) })
}

/// The result of a run.
pub(crate) fn result(order: BenchOrder, took: Duration) -> Value {
    // A clock may stand still while little is written.
    let seconds = took.as_secs_f64().max(1e-9);
    let bytes_per_s = order.bytes as f64 / seconds;
    json!({
        "bytes_written": order.bytes,
        "blocksize": order.block_bytes,
        "elapsed_sec": seconds,
        "bytes_per_sec": bytes_per_s,
        "iops": bytes_per_s / order.block_bytes as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Asked, read};
    use types::OsdId;

    fn ask(command: Value) -> Result<BenchOrder, String> {
        ask_with(command, &crate::new_settings(OsdId(0)))
    }

    fn ask_with(mut command: Value, settings: &Settings) -> Result<BenchOrder, String> {
        command["prefix"] = json!("bench");
        let Ok(Asked::Daemon(told)) = read(&command.to_string()) else { panic!("{command}") };
        order(&told, settings)
    }

    #[test]
    fn bounds_are_those_of_a_ceph_in_its_words() {
        let small = "'count' values greater than 12288000 for a block size of 4 KiB, assuming 100 IOPS, for 30 \
                     seconds, can cause ill effects on osd.  Please adjust 'osd_bench_small_size_max_iops' with a \
                     higher value if you wish to use a higher 'count'.";
        assert_eq!(ask(json!({"count": 10_737_418_240_i64, "size": 4096})), Err(small.to_owned()));
        let large = "'count' values greater than 3145728000 for a block size of 64 MiB, assuming 100 MiB/s, for 30 \
                     seconds, can cause ill effects on osd.  Please adjust 'osd_bench_large_size_max_throughput' \
                     with a higher value if you wish to use a higher 'count'.";
        assert_eq!(ask(json!({"count": 107_374_182_400_i64, "size": 67_108_864})), Err(large.to_owned()));
        let capped = "block 'size' values are capped at 64 MiB. If you wish to use a higher value, please adjust \
                      'osd_bench_max_block_size'";
        assert_eq!(ask(json!({"count": 10, "size": 134_217_728})), Err(capped.to_owned()));
        let none = "'count' values greater than 0 for a block size of 0 B, assuming 100 IOPS, for 30 seconds, can \
                    cause ill effects on osd.  Please adjust 'osd_bench_small_size_max_iops' with a higher value if \
                    you wish to use a higher 'count'.";
        assert_eq!(ask(json!({"count": 10, "size": 0})), Err(none.to_owned()));
        assert!(ask(json!({"count": -1})).is_err() && ask(json!({"count": 4096, "size": -4})).is_err());
        let mut settings = crate::new_settings(OsdId(0));
        settings.set("osd_bench_max_block_size", "4096").unwrap();
        assert!(ask_with(json!({"count": 10, "size": 8192}), &settings).unwrap_err().contains("capped at 4 KiB"));
    }

    #[test]
    fn blocks_grow_objects_or_overwrite_them() {
        let order = BenchOrder { bytes: 1 << 30, block_bytes: 4 << 20, overwritten: None };
        assert_eq!(ask(json!({})), Ok(order));
        let order = BenchOrder { bytes: 8192, block_bytes: 1024, overwritten: Some((7, 1024)) };
        assert_eq!(ask(json!({"count": 8192, "size": 4096, "object_size": 1024, "object_num": 7})), Ok(order));
        assert!(ask(json!({"count": 1, "size": 1, "object_size": 1024, "object_num": 129})).is_err());
        let result = result(order, Duration::from_millis(500));
        assert_eq!(result["iops"], 16.0);
        assert_eq!((&result["bytes_written"], &result["bytes_per_sec"]), (&json!(8192), &json!(16384.0)));
    }

    #[test]
    fn bytes_are_told_in_words() {
        assert_eq!([0, 1023, 1024, 1536, 64 << 20].map(words), ["0 B", "1023 B", "1 KiB", "1.50 KiB", "64 MiB"]);
    }
}
