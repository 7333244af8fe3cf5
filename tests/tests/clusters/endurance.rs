//! Clients with journals on a cluster that suffers, for one short round of `tests/endurance`.

use cluster_tests::{Outcome, binary, clients_are_here, python, run};
use std::process::Command;
use std::time::Duration;

/// Runs the checker. `None`: what it needs is not installed.
fn checked(args: &[&str]) -> Option<Outcome> {
    if !clients_are_here(&["ceph", "unshare", "python3-rados", "python3-rbd"]) {
        return None;
    }
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/endurance/run.py")).arg("--nacre").arg(binary()).args(args);
    Some(run(command, Duration::from_secs(900)))
}

#[test]
fn what_clients_were_answered_is_there_whatever_happens() {
    let Some(outcome) = checked(&["--rounds", "1", "--round-seconds", "45"]) else { return };
    eprintln!("{}", outcome.stdout);
    let out = outcome.ok();
    assert!(out.contains("all held: 1 rounds"), "{out}");
}

/// One byte that no client wrote is found.
#[test]
fn what_nobody_wrote_is_found() {
    let args = ["--rounds", "1", "--round-seconds", "6", "--no-faults", "--tamper", "--code", "none", "--osds", "3"];
    let Some(outcome) = checked(&args) else { return };
    let folder = outcome.stdout.split("everything is kept in ").nth(1).and_then(|rest| rest.split(' ').next());
    let folder = folder.unwrap_or_else(|| panic!("nothing was found: {}{}", outcome.stdout, outcome.stderr)).to_owned();
    assert!(outcome.code == Some(1) && outcome.stdout.contains("expected"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("an object is not what was written, at the end of a round"), "{}", outcome.stdout);
    std::fs::remove_dir_all(folder).expect("the checker's folder");
}
