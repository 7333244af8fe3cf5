//! Traces that a failing test keeps of its cluster before that is stopped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest time for one question, in seconds. Daemons that do not answer are part of the answer.
const LIMIT_S: &str = "10";

/// Asks the running cluster in `dir` how it is, and writes each answer to a file of its own. Gives their folder.
/// Never panics, as it is called while a test panics.
pub fn record(dir: &Path, osds: u32) -> PathBuf {
    let folder = dir.join("failure");
    let _ = fs::create_dir_all(&folder);
    let mut questions: Vec<(String, Vec<String>)> = Vec::new();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let whole_cluster = ["-s", "health detail", "osd tree", "osd dump", "pg dump", "quorum_status", "log last 2000"];
    for line in whole_cluster {
        questions.push((line.trim_start_matches('-').replace(' ', "-"), words(&format!("ceph {line}"))));
    }
    for osd in 0..osds {
        for what in ["dump_ops_in_flight", "dump_historic_slow_ops"] {
            questions.push((format!("osd.{osd}-{what}"), words(&format!("ceph tell osd.{osd} {what}"))));
        }
    }
    for (name, words) in questions {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", LIMIT_S]).args(words).env("CEPH_CONF", dir.join("ceph.conf"));
        let text = match command.output() {
            Ok(output) => {
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
            }
            Err(error) => format!("{command:?}: {error}\n"),
        };
        let _ = fs::write(folder.join(name), text);
    }
    folder
}
