//! Instructions of one operation, counted in a test by valgrind's callgrind.
//!
//! Times differ from run to run and from machine to machine; instructions hardly do. A test hands its work to
//! [`per_operation`], which runs this very test twice more under callgrind, once with few operations and once with
//! many. The difference is the cost of the operations alone: start, set-up and end of both runs are alike.
//!
//! Counts are those of the profile that the tests are built with. They serve to notice a change, not to tell what a
//! release build takes.

use std::ops::RangeInclusive;
use std::process::Command;

/// Tells a run under callgrind how many operations to do.
const OPERATIONS: &str = "NACRE_COUNTED_OPERATIONS";
/// Makes a lack of valgrind an error.
const REQUIRED: &str = "NACRE_REQUIRE_ORACLES";
const TOOL: &str = "valgrind";

/// Operations of the run with few and of the one with many.
const FEW: u64 = 100;
const MANY: u64 = 500;

/// Fails unless an operation takes a number of instructions within `bounds`.
///
/// `test`: full name of the calling test, of which nothing but this call is counted. `work` does so many operations,
/// and must do the same ones each time.
///
/// A count below the bounds fails, too: the bounds are then lowered, so that what was gained is not lost unnoticed.
/// Without valgrind the test does a few operations uncounted, unless `NACRE_REQUIRE_ORACLES=1` demands the count.
pub fn per_operation(test: &str, bounds: RangeInclusive<u64>, work: impl FnOnce(u64)) {
    if let Ok(operations) = std::env::var(OPERATIONS) {
        return work(operations.parse().expect("a number of operations"));
    }
    if Command::new(TOOL).arg("--version").output().is_err() {
        assert!(std::env::var(REQUIRED).as_deref() != Ok("1"), "{TOOL} is not installed");
        eprintln!("SKIPPED: {TOOL} is not installed");
        return work(FEW);
    }
    let few = instructions(test, FEW);
    let many = instructions(test, MANY);
    let each = (many.saturating_sub(few)) / (MANY - FEW);
    println!("{test}: {each} instructions per operation");
    assert!(
        bounds.contains(&each),
        "an operation takes {each} instructions, and {} to {} are expected; callgrind_annotate tells which function \
         takes how many, and bounds that no longer fit are changed with the reason in the commit",
        bounds.start(),
        bounds.end()
    );
}

/// Instructions of a run of the test with so many operations.
fn instructions(test: &str, operations: u64) -> u64 {
    let program = std::env::current_exe().expect("a test knows its own program");
    let output = Command::new(TOOL)
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["--exact", test, "--test-threads=1"])
        .env(OPERATIONS, operations.to_string())
        .output()
        .expect("valgrind was there just now");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{TOOL}: {}: {said}", output.status);
    let ran = String::from_utf8_lossy(&output.stdout);
    assert!(ran.contains("1 passed"), "{test} is no test of this program: {ran}");
    collected(&said).unwrap_or_else(|| panic!("{TOOL} told no count: {said}"))
}

/// The count in what callgrind prints at its end: `==PID== Collected : COUNT`.
fn collected(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.split_once("Collected : "))?;
    line.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn the_count_is_found_in_what_callgrind_prints() {
        let said = "==7== \n==7== Events    : Ir\n==7== Collected : 123456\n==7== \n==7== I   refs:      123,456\n";
        assert_eq!(collected(said), Some(123_456));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }

    /// One operation: a thousand dependent steps, each of a few instructions.
    #[test]
    fn only_operations_count() {
        per_operation("tests::only_operations_count", 1000..=30_000, |operations| {
            let set_up: Vec<u64> = (0..100_000).map(black_box).collect();
            let mut sum = set_up.len() as u64;
            for _ in 0..operations * 1000 {
                sum = black_box(sum.rotate_left(5) ^ 1);
            }
        });
    }
}
