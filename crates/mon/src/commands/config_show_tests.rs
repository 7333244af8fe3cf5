//! `ceph config show` beside what Ceph 16.2.15 printed of a daemon with such options.

use super::test_cluster::TestCluster;
use serde_json::{Value, json};
use wire::nacre::mon::{OptionReport, option_source};

fn report(name: &str, values: &[(u8, &str)], is_ignored: bool) -> OptionReport {
    let values = values.iter().map(|(source, text)| (*source, (*text).to_owned())).collect();
    OptionReport { name: name.to_owned(), values, is_ignored }
}

/// A cluster whose osd.0 has told what the recorded one had.
fn cluster() -> TestCluster {
    let mut cluster = TestCluster::with_osds();
    let (mon, file, told) = (option_source::MON, option_source::FILE, option_source::OVERRIDE);
    let options = vec![
        report("bluestore_block_size", &[(file, "3221225472")], true),
        report("keyring", &[(option_source::DEFAULT, "$osd_data/keyring"), (file, "/c/keyring")], false),
        report("osd_heartbeat_grace", &[(option_source::DEFAULT, "9")], false),
        report("osd_max_backfills", &[(mon, "5"), (told, "7")], false),
        report("osd_memory_target", &[(mon, "2147483648"), (file, "1073741824"), (told, "1200000000")], false),
        report("osd_scrub_begin_hour", &[(mon, "3")], false),
    ];
    cluster.volatile.options_told("osd.0".to_owned(), options);
    cluster
}

#[test]
fn options_are_shown_with_their_sources() {
    let mut cluster = cluster();
    let text = cluster.ok(json!({"prefix": "config show", "who": "osd.0"}));
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let expected: [&[&str]; 6] = [
        &["NAME", "VALUE", "SOURCE", "OVERRIDES", "IGNORES"],
        &["bluestore_block_size", "3221225472", "file", "mon"],
        &["keyring", "/c/keyring", "file", "default[$osd_data/keyring]"],
        &["osd_max_backfills", "7", "override", "mon[5]"],
        &["osd_memory_target", "1200000000", "override", "file[1073741824],mon[2147483648]"],
        &["osd_scrub_begin_hour", "3", "mon"],
    ];
    assert_eq!(lines, expected);
    let columns = |line: usize, word: &str| text.lines().nth(line).unwrap().find(word);
    assert_eq!(columns(1, " mon").map(|at| at + 1), columns(0, "IGNORES"), "{text}");
    let shown: Value =
        serde_json::from_str(&cluster.ok(json!({"prefix": "config show", "who": "osd.0", "format": "json"}))).unwrap();
    let expected = json!({
        "name": "osd_memory_target",
        "value": "1200000000",
        "source": "override",
        "overrides": [{"source": "mon", "value": "2147483648"}, {"source": "file", "value": "1073741824"}],
    });
    assert_eq!(shown[3], expected);
    let ignored = json!({"name": "bluestore_block_size", "value": "3221225472", "source": "file", "ignores": "mon"});
    assert_eq!(shown[0], ignored);
}

#[test]
fn one_option_and_defaults_are_those_in_force() {
    let mut cluster = cluster();
    let one = |key: &str| json!({"prefix": "config show", "who": "osd.0", "key": key});
    assert_eq!(cluster.ok(one("osd_max_backfills")), "7\n");
    assert_eq!(cluster.ok(one("osd_recovery_sleep")), "0.000000\n");
    assert_eq!(cluster.ok(one("osd_heartbeat_grace")), "9\n");
    assert_eq!(cluster.run(one("nonsense")).code, -2);
    let all = cluster.ok(json!({"prefix": "config show-with-defaults", "who": "osd.0", "format": "json"}));
    let all: Vec<Value> = serde_json::from_str(&all).unwrap();
    assert!(all.len() > 1800 && all.is_sorted_by_key(|row| row["name"].as_str().unwrap().to_owned()));
    let row = |name: &str| all.iter().find(|row| row["name"] == name).cloned().unwrap();
    let grace = json!({"name": "osd_heartbeat_grace", "value": "9", "source": "default"});
    assert_eq!(row("osd_heartbeat_grace"), grace);
    assert_eq!(row("osd_max_backfills")["source"], "override");
    assert_eq!(row("osd_max_scrubs"), json!({"name": "osd_max_scrubs", "value": "1", "source": "default"}));
}

#[test]
fn a_daemon_that_has_told_nothing_shows_what_it_was_given() {
    let mut cluster = cluster();
    cluster.ok(json!({"prefix": "config set", "who": "osd", "name": "osd_max_backfills", "value": "3"}));
    let text = cluster.ok(json!({"prefix": "config show", "who": "osd.1"}));
    let line: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(line, ["osd_max_backfills", "3", "mon"]);
    // A report that is too large is dropped, and the one before it stays.
    let large = "x".repeat(control::REPORT_BYTES_MAX + 1);
    cluster.volatile.options_told("osd.0".to_owned(), vec![report("keyring", &[(2, &large)], false)]);
    assert_eq!(cluster.ok(json!({"prefix": "config show", "who": "osd.0", "key": "keyring"})), "/c/keyring\n");
}
