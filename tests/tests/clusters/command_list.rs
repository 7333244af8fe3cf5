//! A long list of `ceph` commands, whose answers have the form of a real Ceph's.

use cluster_tests::{TestCluster, clients_are_here, python, recorded_of_ceph};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/command_list.py");
const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/command_list.txt");
/// Differences that are meant, each with its reason.
const DIFFERENCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/command_differences.json");
const LIMIT: Duration = Duration::from_secs(900);

fn ask(cluster: &TestCluster) -> String {
    cluster_tests::run(cluster.command(python(), &[SCRIPT, LIST]), LIMIT).ok()
}

/// Returns where answers differ beyond what a list allows, and what that list allows to no purpose. `folder` gets both.
fn judge(folder: &Path, ours: &str, cephs: &str, allowed: &str) -> String {
    fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let files = [("ours.txt", ours), ("cephs.txt", cephs), ("allowed.json", allowed)].map(|(name, text)| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    });
    let mut command = Command::new(python());
    command.args([SCRIPT, "--compare"]).args(files);
    cluster_tests::run(command, LIMIT).ok()
}

/// Some 640 commands, most of what only looks as text and as JSON, are answered with the codes, sentences, lines and
/// shapes of a Ceph.
#[test]
fn answers_have_the_form_of_a_cephs() {
    if !clients_are_here(&["ceph", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("command-list", 3);
    let ours = ask(&cluster);
    assert!(ours.lines().filter(|line| line.starts_with("> ")).count() > 600, "{ours}");
    // A Ceph that is asked anew says the same but for parts of `report`, which depend on the moment.
    let cephs = recorded_of_ceph("command_list");
    let allowed = fs::read_to_string(DIFFERENCES).unwrap_or_else(|e| panic!("{DIFFERENCES}: {e}"));
    let differences = judge(&cluster.scratch("answers"), &ours, &cephs, &allowed);
    assert!(differences.is_empty(), "left Nacre, right Ceph:\n{differences}");
}

/// The comparison finds a code, a sentence, a line, a key and a type that differ, and allowances that nothing needs.
#[test]
fn differences_are_found() {
    if !clients_are_here(&["python3-rados"]) {
        return;
    }
    let cephs = recorded_of_ceph("command_list");
    let folder = std::env::temp_dir().join(format!("nacre-test-command-differences-{}", std::process::id()));
    let judge = |ours: &str, allowed: &str| judge(&folder, ours, &cephs, allowed);
    assert_eq!(judge(&cephs, "[]"), "");
    let changes = [
        ("plain 0 dumped all\n", "plain -22 dumped all\n", "pg dump all (plain): says -22 dumped all / 0 dumped all"),
        ("plain 0 dumped all\n", "plain 0 dumped\n", "pg dump all (plain): says 0 dumped / 0 dumped all"),
        ("  HEALTH_OK\n", "  HEALTH_ERR\n", "health (plain): + HEALTH_ERR"),
        ("\"fsid\":\"string\"}", "\"fsid\":\"number\"}", "fsid (json): .fsid: number / string"),
        ("{\"fsid\":", "{\"id\":", "fsid (json): .fsid: absent / string"),
    ];
    for (from, to, told) in changes {
        assert!(cephs.contains(from), "{from}");
        // `fsid` and `health` each stand alone; others with the same line are changed, too.
        let said = judge(&cephs.replace(from, to), "[]");
        assert!(said.lines().any(|line| line == told), "{said}");
    }
    let rule = "[{\"command\": \"fsid\", \"difference\": \".*\", \"reason\": \"\"}]";
    assert!(judge(&cephs, rule).starts_with("nothing differs by {\"command\": \"fsid\""));
    let _ = fs::remove_dir_all(&folder);
}
