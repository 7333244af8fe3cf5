//! Mappings recorded from `crushtool` 16.2.15: placement holds without the tool at hand, and for ever.

use crate::support;
use crush::{ITEM_NONE, Scratch};
use std::fmt::Write;

/// Inputs per probe that the recording shows.
const SHOWN: u32 = 4;

/// Returns for each case and probe the first mappings, and a digest (FNV-1a) of all of them.
fn record() -> String {
    let mut text = String::new();
    for case in support::cases() {
        let (weights, mut scratch) = (case.weights(), Scratch::default());
        for probe in &case.probes {
            write!(text, "{}; rule {} size {}:", case.name, probe.rule, probe.size).unwrap();
            let mut digest = 0xcbf2_9ce4_8422_2325u64;
            for input in 0..probe.inputs {
                let args = case.map.choose_args_for(0);
                let items = case.map.do_rule(probe.rule, input, probe.size, &weights, args, &mut scratch).unwrap();
                if input < SHOWN {
                    let shown: Vec<String> = items
                        .iter()
                        .map(|item| if *item == ITEM_NONE { "-".to_owned() } else { item.to_string() })
                        .collect();
                    write!(text, " [{}]", shown.join(",")).unwrap();
                }
                let words = std::iter::once(items.len() as i32).chain(items.iter().copied());
                for byte in words.flat_map(i32::to_le_bytes) {
                    digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                }
            }
            writeln!(text, " {digest:016x}").unwrap();
        }
    }
    text
}

/// To record anew (only for new cases): NACRE_RECORD=1, with `crushtool` at hand and its test passing.
#[test]
fn mappings_equal_the_recorded_ones() {
    let now = record();
    if std::env::var("NACRE_RECORD").as_deref() == Ok("1") {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/mappings.txt"), &now).unwrap();
        return;
    }
    let recorded = include_str!("../fixtures/mappings.txt");
    for (now, then) in now.lines().zip(recorded.lines()) {
        assert_eq!(now, then);
    }
    assert_eq!(now.lines().count(), recorded.lines().count());
}
