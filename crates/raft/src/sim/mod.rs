//! Whole clusters of [`Raft`]s under a seed: network, disks, clocks and operators misbehave, and checks watch.
//!
//! * this file: a run. [`world`]: servers, links, time. [`disk`]: writes that take time, and are lost or torn by a
//!   crash.
//! * [`checks`]: invariants. [`faults`]: faults and operators. [`machine`]: the state machine. [`bugs`]: deliberate
//!   bugs.
//!
//! `RAFT_SEEDS=20000 RAFT_FROM=0 cargo test -p raft seeds_hold -- --nocapture` runs more than the usual ones; a failure
//! prints its seed, and `RAFT_FROM=<seed> RAFT_SEEDS=1 RAFT_TRACE=1` shows it.

mod bugs;
mod checks;
mod disk;
mod faults;
mod machine;
mod rng;
mod world;

use world::World;

/// Most events of one run; more is a loop without end.
const EVENTS_MAX: u64 = 2_000_000;

/// Result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Outcome {
    trace: u64,
    events: u64,
    decided: u64,
    reads: u64,
    elections: u64,
    crashes: u64,
    installs: u64,
    changes: u64,
    handovers: u64,
}

/// Runs a seed. An error tells the violated invariant.
fn run(seed: u64) -> Result<Outcome, String> {
    let mut world = World::new(seed);
    world.faulty()?;
    world.calm()?;
    Ok(world.outcome())
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

#[test]
fn seeds_hold() {
    let (from, count) = (number("RAFT_FROM", 0), number("RAFT_SEEDS", 200));
    let mut sum = Outcome::default();
    let mut failed = Vec::new();
    for seed in from..from + count {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(Ok(outcome)) => {
                sum.events += outcome.events;
                sum.decided += outcome.decided;
                sum.reads += outcome.reads;
                sum.elections += outcome.elections;
                sum.crashes += outcome.crashes;
                sum.installs += outcome.installs;
                sum.changes += outcome.changes;
                sum.handovers += outcome.handovers;
            }
            Ok(Err(what)) => failed.push(format!("seed {seed}: {what}")),
            Err(_) => failed.push(format!("seed {seed}: a panic, see above")),
        }
    }
    println!("{count} seeds from {from}: {sum:?}");
    assert!(failed.is_empty(), "{} seeds failed:\n{}", failed.len(), failed[..failed.len().min(20)].join("\n"));
    if count >= 100 {
        // A simulator in which nothing happens shows nothing.
        for (what, times) in [
            ("elections", sum.elections),
            ("reads", sum.reads),
            ("entries decided", sum.decided / 10),
            ("crashes", sum.crashes),
            ("snapshots installed", sum.installs),
            ("changes of members", sum.changes),
            ("handovers", sum.handovers),
        ] {
            assert!(times > count / 2, "only {times} {what} in {count} seeds");
        }
    }
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
