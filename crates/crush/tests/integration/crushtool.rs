//! Mappings and encodings against Ceph's `crushtool`.

use crate::support;
use crush::{CrushMap, ITEM_NONE, Scratch, Tunables};
use std::path::{Path, PathBuf};
use std::process::Command;
use wire::{Decode, Encode, Target};

/// Returns true if the tool is there. Without it the test is skipped, unless NACRE_REQUIRE_ORACLES=1 demands it.
fn have_crushtool() -> bool {
    let found = Command::new("crushtool").arg("--version").output().is_ok();
    assert!(found || std::env::var("NACRE_REQUIRE_ORACLES").as_deref() != Ok("1"), "crushtool is not installed");
    if !found {
        eprintln!("SKIPPED: crushtool is not installed");
    }
    found
}

struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, bytes: &[u8]) -> TempFile {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path = std::env::temp_dir().join(format!("nacre-crush-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        TempFile(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn crushtool(args: &[String]) -> String {
    let output = Command::new("crushtool").args(args).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "crushtool {args:?}: {stdout}{stderr}");
    stdout.into_owned()
}

/// Parses `CRUSH rule 0 x 12 [3,1,2]` lines as (input, items).
fn parse(text: &str) -> Vec<(u32, Vec<i32>)> {
    text.lines()
        .filter(|line| line.starts_with("CRUSH rule"))
        .map(|line| {
            let (head, items) = line.split_once(" [").unwrap();
            let input = head.rsplit(' ').next().unwrap().parse().unwrap();
            let items = items.trim_end_matches(']').split(',').filter(|item| !item.is_empty());
            (input, items.map(|item| item.parse().unwrap()).collect())
        })
        .collect()
}

#[test]
fn mappings_equal_crushtools() {
    if !have_crushtool() {
        return;
    }
    let mut compared = 0;
    for case in support::cases() {
        let file = TempFile::new(case.name, &case.map.to_vec(Target::PACIFIC));
        let weights = case.weights();
        let mut scratch = Scratch::default();
        for probe in &case.probes {
            let mut args: Vec<String> =
                ["-i", &file.path().display().to_string(), "--test", "--show-mappings"].map(String::from).to_vec();
            for (flag, value) in [
                ("--rule", probe.rule.to_string()),
                ("--num-rep", probe.size.to_string()),
                ("--min-x", "0".into()),
                ("--max-x", (probe.inputs - 1).to_string()),
            ] {
                args.extend([flag.to_owned(), value]);
            }
            for (device, weight) in &case.reweights {
                // Sixteen binary digits are an exact decimal with sixteen digits.
                let text = format!("{:.16}", f64::from(*weight) / 65536.0);
                args.extend(["--weight".into(), device.to_string(), text]);
            }
            let theirs = parse(&crushtool(&args));
            assert_eq!(theirs.len(), probe.inputs as usize, "{}: {args:?}", case.name);
            let choose_args = case.map.choose_args_for(0);
            for (input, items) in theirs {
                let ours =
                    case.map.do_rule(probe.rule, input, probe.size, &weights, choose_args, &mut scratch).unwrap();
                assert_eq!(ours, items, "{}: rule {} size {} x {input}", case.name, probe.rule, probe.size);
                compared += usize::from(items.iter().any(|item| *item != ITEM_NONE));
            }
        }
    }
    assert!(compared > 20_000, "only {compared} mappings placed anything");
}

/// The tool reads our encoding, and writes it again byte for byte.
#[test]
fn crushtool_reads_and_writes_the_same_bytes() {
    if !have_crushtool() {
        return;
    }
    for mut case in support::cases() {
        let file = TempFile::new(&format!("in-{}", case.name), &case.map.to_vec(Target::PACIFIC));
        let out = TempFile::new(&format!("out-{}", case.name), b"");
        let [source, target] = [&file, &out].map(|file| file.path().display().to_string());
        // The tool writes nothing unless a change is asked for.
        crushtool(&["-i", &source, "--set-choose-total-tries", "61", "-o", &target].map(String::from));
        case.map.set_tunables(Tunables { choose_total_tries: 61, ..*case.map.tunables() });
        let theirs = std::fs::read(out.path()).unwrap();
        let equal = theirs == case.map.to_vec(Target::PACIFIC);
        assert!(equal, "{}: crushtool writes other bytes", case.name);
        assert!(CrushMap::from_slice(&theirs).unwrap() == case.map, "{}: read back differently", case.name);
    }
}
