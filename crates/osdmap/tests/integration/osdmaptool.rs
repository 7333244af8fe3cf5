//! Placement and encodings against Ceph's `osdmaptool` and `monmaptool`.

use crate::support;
use crate::support::{Dice, erasure, first_map, hierarchies, random_increment, replicated, small_map, stamp};
use osdmap::{Incremental, MonMap, OsdMap};
use std::path::PathBuf;
use std::process::Command;
use types::{OsdId, PgId};
use wire::basic::Locator;
use wire::{Encode, Target};

/// Returns true if a tool is there. Without it the test is skipped, unless NACRE_REQUIRE_ORACLES=1 demands it.
fn have(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    assert!(found || std::env::var("NACRE_REQUIRE_ORACLES").as_deref() != Ok("1"), "{tool} is not installed");
    if !found {
        eprintln!("SKIPPED: {tool} is not installed");
    }
    found
}

struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, bytes: &[u8]) -> TempFile {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path = std::env::temp_dir().join(format!("nacre-osdmap-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        TempFile(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn run(tool: &str, file: &TempFile, args: &[&str]) -> String {
    let output = Command::new(tool).arg(&file.0).args(args).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{tool} {args:?}: {stdout}{stderr}");
    stdout.into_owned()
}

/// Returns a set as the tool prints it: `([3,1], p3)`.
fn show(osds: &[OsdId], primary: Option<OsdId>) -> String {
    let osds: Vec<String> = osds.iter().map(|osd| osd.0.to_string()).collect();
    format!("([{}], p{})", osds.join(","), primary.map_or(-1, |osd| osd.0))
}

fn our_line(map: &OsdMap, pg: PgId) -> String {
    let raw = map.pg_to_osds_raw(pg).unwrap();
    let raw_primary = raw.iter().copied().find(|osd| *osd != OsdId::NONE);
    let at = map.pg_to_up_acting(pg).unwrap();
    let (up, acting) = (show(&at.up, at.up_primary), show(at.acting_shown(), at.acting_primary));
    format!("{pg} raw {} up {up} acting {acting}", show(&raw, raw_primary))
}

/// Compares all placement groups of a map; returns their number.
fn compare(name: &str, map: &OsdMap) -> usize {
    let file = TempFile::new(name, &map.to_vec(Target::PACIFIC));
    let text = run("osdmaptool", &file, &["--test-map-pgs-dump-all"]);
    let mut theirs = text.lines().filter(|line| line.contains(" raw "));
    let mut count = 0;
    for pg in map.pgs() {
        assert_eq!(Some(our_line(map, pg).as_str()), theirs.next(), "{name}, epoch {}", map.epoch);
        count += 1;
    }
    assert_eq!(theirs.next(), None);
    count
}

#[test]
fn placements_equal_osdmaptools_on_generated_hierarchies() {
    if !have("osdmaptool") {
        return;
    }
    let mut compared = 0;
    for case in hierarchies::cases() {
        let sizes = [3, 2, 5];
        let pools = case
            .map
            .rules()
            .map(|(number, rule)| {
                let size = sizes[number as usize % 3];
                let (rule_number, pg_num) = (number as u8, 37 + 3 * number);
                match rule.kind.0 {
                    3 => erasure(size.max(3), pg_num, rule_number),
                    _ => replicated(size, pg_num, rule_number),
                }
            })
            .collect();
        let mut map = first_map(&case.map, pools);
        let mut inc = Incremental::after(&map, stamp(2));
        inc.new_weight = case.reweights.iter().map(|(osd, weight)| (OsdId(*osd), *weight)).collect();
        map.apply(&inc).unwrap();
        compared += compare(case.name, &map);
    }
    assert!(compared > 4000, "only {compared} placement groups");
}

#[test]
fn placements_equal_osdmaptools_through_random_changes() {
    if !have("osdmaptool") {
        return;
    }
    for seed in 0..4 {
        let (mut map, mut dice) = (small_map(), Dice::new(100 + seed));
        compare("start", &map);
        for step in 0..240 {
            let inc = random_increment(&map, &mut dice);
            map.apply(&inc).unwrap();
            if step % 20 == 19 {
                compare(&format!("seed {seed} step {step}"), &map);
            }
        }
    }
}

#[test]
fn osdmaptool_prints_what_we_encode() {
    if !have("osdmaptool") {
        return;
    }
    let (mut map, mut dice) = (small_map(), Dice::new(7));
    for _ in 0..12 {
        for _ in 0..15 {
            let inc = random_increment(&map, &mut dice);
            map.apply(&inc).unwrap();
        }
        let file = TempFile::new("print", &map.to_vec(Target::PACIFIC));
        let text = run("osdmaptool", &file, &["--print"]);
        let expect = |line: String| assert!(text.lines().any(|l| l == line), "no line '{line}' in:\n{text}");
        expect(format!("epoch {}", map.epoch.0));
        expect(format!("fsid {}", map.fsid));
        expect(format!("flags {}", map.flags));
        expect(format!("crush_version {}", map.crush_version));
        expect(format!("modified {}", map.modified));
        expect(format!("max_osd {}", map.max_osd()));
        for (id, pool) in &map.pools {
            let line = text.lines().find(|line| line.starts_with(&format!("pool {} ", id.0))).unwrap();
            let parts = [
                format!("'{}' {}", map.pool_name(*id).unwrap(), pool.kind.name()),
                format!(" size {} min_size {} ", pool.size, pool.min_size),
                format!(" pg_num {} ", pool.pg_num),
                format!(" autoscale_mode {} ", pool.autoscale_mode.name()),
                format!(" flags {} ", pool.flags),
            ];
            parts.iter().for_each(|part| assert!(line.contains(part), "no '{part}' in {line}"));
        }
        for (id, osd) in map.osds() {
            let line = text.lines().find(|line| line.starts_with(&format!("{id} "))).unwrap();
            let up = if osd.is_up() { " up " } else { " down " };
            let state = osd.state.sorted_names();
            assert!(line.contains(up) && line.contains(&state.join(",")), "{state:?}: {line}");
            assert!(line.contains(&osd.client_addrs.to_string()), "{}: {line}", osd.client_addrs);
        }
        run("osdmaptool", &file, &["--dump", "json"]);
        run("osdmaptool", &file, &["--tree"]);
    }
}

#[test]
fn trees_are_in_osdmaptools_order() {
    if !have("osdmaptool") {
        return;
    }
    for case in hierarchies::cases() {
        let map = first_map(&case.map, Vec::new());
        let file = TempFile::new(&format!("tree-{}", case.name), &map.to_vec(Target::PACIFIC));
        let text = run("osdmaptool", &file, &["--tree"]);
        let ids = text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
        let theirs: Vec<i32> = ids.collect();
        let ours: Vec<i32> = map.crush.tree(Default::default()).iter().map(|item| item.id).collect();
        assert_eq!(ours, theirs, "{}", case.name);
    }
}

#[test]
fn objects_map_as_osdmaptool_says() {
    if !have("osdmaptool") {
        return;
    }
    let map = small_map();
    let file = TempFile::new("objects", &map.to_vec(Target::PACIFIC));
    let long = "x".repeat(300);
    for name in ["a", "ab", "foo", "rbd_data.1234567890ab.0000000000000001", "eleven_char", "twelve_chars", &long] {
        for pool in [1, 2, 3] {
            let text = run("osdmaptool", &file, &["--test-map-object", name, "--pool", &pool.to_string()]);
            let (pg, _) = map.object_to_pg(name.as_bytes(), &Locator::pool(types::PoolId(pool))).unwrap();
            let expected = format!("-> {pg} ->");
            assert!(text.contains(&expected), "{name}: {expected} not in {text}");
        }
    }
}

#[test]
fn monmaptool_prints_what_we_encode() {
    if !have("monmaptool") {
        return;
    }
    let mut map = MonMap::new(support::fsid(), stamp(1));
    map.epoch = types::Epoch(3);
    map.add("b", "[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0]".parse().unwrap());
    map.add("a", "[v2:127.0.0.2:3300/0,v1:127.0.0.2:6789/0]".parse().unwrap());
    let file = TempFile::new("monmap", &map.to_vec(Target::PACIFIC));
    let text = run("monmaptool", &file, &["--print"]);
    for line in [
        "epoch 3".to_owned(),
        format!("fsid {}", map.fsid),
        "min_mon_release 16 (pacific)".to_owned(),
        "election_strategy: 1".to_owned(),
        "0: [v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0] mon.b".to_owned(),
        "1: [v2:127.0.0.2:3300/0,v1:127.0.0.2:6789/0] mon.a".to_owned(),
    ] {
        assert!(text.lines().any(|l| l == line), "no line '{line}' in:\n{text}");
    }
}
