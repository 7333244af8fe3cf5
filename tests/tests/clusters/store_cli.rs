//! `nacre store` on the stores of a cluster that is stopped.

use cluster_tests::{Outcome, TestCluster, binary, run};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn store(args: &[&str]) -> Outcome {
    let mut command = Command::new(binary());
    command.arg("store").args(args);
    run(command, Duration::from_secs(120))
}

/// The output of `--json`, and whether the exit status was 0.
fn json(args: &[&str]) -> (Value, bool) {
    let outcome = store(&[args, &["--json"]].concat());
    let value = serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", outcome.stdout));
    (value, outcome.succeeded())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain path")
}

/// Flips a bit where the pattern is found in a file.
fn damage(file: &Path, pattern: &[u8]) {
    // The device is large and nearly empty.
    let mut bytes = vec![0; 128 << 20];
    File::open(file).and_then(|file| file.read_exact_at(&mut bytes, 0)).expect("the store can be read");
    let at = bytes.windows(pattern.len()).position(|window| window == pattern).expect("the object lies there");
    let file = OpenOptions::new().write(true).open(file).expect("the store can be written");
    file.write_all_at(&[bytes[at] ^ 1], at as u64).expect("a byte can be written");
}

#[test]
fn stores_are_checked_repaired_and_moved() {
    let cluster = TestCluster::start("store", 3);
    let limit = Duration::from_secs(60);
    cluster.nacre(&["pool", "create", "p", "--pg-num", "8"], limit).ok();
    let source = cluster.scratch("source");
    let mut content = Vec::new();
    for n in 0..12u32 {
        let byte = |i: u32| {
            let mixed = (i ^ n << 20).wrapping_mul(0x9e37_79b1);
            ((mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca77) >> 24) as u8
        };
        let bytes: Vec<u8> = (0..50_000).map(byte).collect();
        fs::write(&source, &bytes).expect("a file can be written");
        cluster.nacre(&["put", "p", &format!("o{n}"), text(&source)], limit).ok();
        if n == 5 {
            content = bytes;
        }
    }
    let dir = |osd: u32| cluster.dir().join(format!("osd.{osd}"));
    let (zero, one) = (dir(0), dir(1));

    let (refusal, ok) = json(&["check", text(&zero)]);
    assert!(!ok && refusal["error"].as_str().is_some_and(|e| e.contains("is in use")), "{refusal}");
    cluster.down();
    let (report, ok) = json(&["check", text(&zero)]);
    assert!(ok && report["objects"] == 12 && report["pgs"] == 8, "{report:#}");
    let (stats, ok) = json(&["stats", text(&zero)]);
    assert!(ok && stats["space"]["stored_bytes"] == 600_000, "{stats:#}");

    // A bad block: found, not guessed, brought from another member once the object is removed.
    let block = zero.join("block");
    damage(&block, &content[20_000..24_000]);
    let (report, ok) = json(&["check", text(&zero)]);
    assert!(!ok && report["bad_blocks"] == 1, "{report:#}");
    let name = report["findings"][0]["object"].as_str().expect("the object's name").to_owned();
    assert!(name.contains(":o5:"), "{name}");
    let export = cluster.scratch("export");
    let (refusal, ok) = json(&["export", text(&zero), text(&export)]);
    assert!(!ok && refusal["error"].as_str().is_some_and(|e| e.contains("checksum")) && !export.exists(), "{refusal}");
    let (plan, ok) = json(&["repair", text(&zero)]);
    assert!(!ok && plan["actions"].as_array().is_some_and(Vec::is_empty), "{plan:#}");
    let (done, ok) = json(&["repair", text(&zero), "--remove-object", &name, "--yes"]);
    assert!(ok && done["after"]["objects"] == 11, "{done:#}");

    // A group moves out of a store and in again.
    let group = stats["pgs"].as_array().expect("groups").iter().find(|pg| pg["objects"].as_i64() > Some(0));
    let pg = group.expect("a group with objects")["pg"].as_str().expect("its name");
    assert!(json(&["export", text(&one), text(&export), "--pg", pg]).1);
    let (refusal, ok) = json(&["import", text(&one), text(&export)]);
    assert!(!ok && refusal["error"].as_str().is_some_and(|e| e.contains("--replace")), "{refusal}");
    assert!(json(&["import", text(&one), text(&export), "--replace"]).1);
    assert!(json(&["check", text(&one)]).1);

    cluster.up();
    let copy = cluster.scratch("copy");
    cluster.nacre(&["get", "p", "o5", text(&copy)], limit).ok();
    assert!(fs::read(&copy).expect("a file can be read") == content);
    cluster.wait_until_clean(limit);
    cluster.down();
    for osd in 0..3 {
        let (report, ok) = json(&["check", text(&dir(osd))]);
        assert!(ok && report["objects"] == 12, "osd.{osd}: {report:#}");
    }
}

#[test]
fn what_is_no_store_is_refused_with_a_sentence() {
    let none = std::env::temp_dir().join(format!("nacre-no-store-{}", std::process::id()));
    fs::write(&none, vec![7; 8 << 20]).expect("a file can be written");
    for (path, expected) in [(text(&none), "not a store of an OSD"), ("/nonexistent", "cannot look at /nonexistent")] {
        let outcome = store(&["check", path]);
        assert_eq!(outcome.code, Some(2));
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    }
    fs::remove_file(&none).expect("the file is there");
}
