//! The balancer against `osdmaptool --upmap`.

use crate::support::{erasure, first_map, replicated, small_crush, stamp};
use osdmap::{BalanceLimits, Incremental, OsdMap, PgMapping, balance, spread};
use std::process::Command;
use types::OsdId;
use wire::{Encode, Target};

/// Returns the map after the tool's changes, with a deviation of at most one copy and as many changes as it wants.
fn balanced_by_osdmaptool(map: &OsdMap, name: &str) -> OsdMap {
    let dir = std::env::temp_dir().join(format!("nacre-upmap-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (file, commands) = (dir.join("map"), dir.join("commands"));
    std::fs::write(&file, map.to_vec(Target::PACIFIC)).unwrap();
    let output = Command::new("osdmaptool")
        .arg(&file)
        .arg("--upmap")
        .arg(&commands)
        .args(["--upmap-max", "2000", "--upmap-deviation", "1"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&commands).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let mut inc = Incremental::after(map, stamp(2));
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let pg = words[3].parse().unwrap();
        match words[2] {
            "pg-upmap-items" => {
                let osds: Vec<OsdId> = words[4..].iter().map(|osd| OsdId(osd.parse().unwrap())).collect();
                inc.new_pg_upmap_items.insert(pg, osds.chunks(2).map(|pair| (pair[0], pair[1])).collect());
            }
            "rm-pg-upmap-items" => drop(inc.old_pg_upmap_items.insert(pg)),
            other => panic!("{other} in {line}"),
        }
    }
    let mut next = map.clone();
    next.apply(&inc).unwrap();
    next
}

fn balanced_by_us(map: &OsdMap) -> (OsdMap, usize) {
    let (mut next, mut moved) = (map.clone(), 0);
    loop {
        let changes = balance(&next, &PgMapping::compute(&next), &BalanceLimits { moves_max: 10, pools: None });
        if changes.is_empty() {
            return (next, moved);
        }
        moved += changes.moved_copies;
        let mut inc = Incremental::after(&next, stamp(2));
        changes.add_to(&mut inc);
        next.apply(&inc).unwrap();
    }
}

#[test]
fn results_are_as_even_as_osdmaptools() {
    if Command::new("osdmaptool").arg("--version").output().is_err() {
        assert!(std::env::var("NACRE_REQUIRE_ORACLES").as_deref() != Ok("1"), "osdmaptool is not installed");
        eprintln!("SKIPPED: osdmaptool is not installed");
        return;
    }
    let cases = [
        ("one", vec![replicated(3, 256, 0)]),
        ("class", vec![replicated(3, 128, 0), replicated(2, 64, 1)]),
        ("erasure", vec![erasure(6, 64, 2), replicated(3, 64, 0)]),
        ("many", vec![replicated(3, 32, 0), replicated(3, 16, 0), replicated(3, 64, 0), replicated(2, 8, 0)]),
    ];
    for (name, pools) in cases {
        let map = first_map(&small_crush(), pools);
        let theirs = balanced_by_osdmaptool(&map, name);
        let (ours, moved) = balanced_by_us(&map);
        let of = |map: &OsdMap| spread(map, &PgMapping::compute(map), None);
        let (before, theirs, ours) = (of(&map), of(&theirs), of(&ours));
        eprintln!("{name}: before {before:?}, osdmaptool {theirs:?}, here {ours:?} by {moved} moves");
        // The tool draws lots; both are content with less than one copy.
        assert!(ours.pool_deviation_max <= theirs.pool_deviation_max.max(1.0), "{name}: {theirs:?} {ours:?}");
        assert!(ours.deviation_max <= theirs.deviation_max.max(1.0), "{name}: {theirs:?} {ours:?}");
        assert!(ours.pool_deviation_max < before.pool_deviation_max);
    }
}
