//! After a crash the store holds all that was acknowledged, plus perhaps whole transactions behind that, in order.

use super::harness::{Bench, Random, config};
use crate::StoreConfig;

/// A run with many moments at which a crash is tried, and some at which it happens.
fn run(config: StoreConfig, seed: u64, turns: u64, tries_per_turn: u64) -> u64 {
    let mut bench = Bench::with(config, seed);
    let mut crashes = 0;
    for _ in 0..turns {
        bench.turn();
        for _ in 0..tries_per_turn {
            let mut random = bench.random.clone();
            bench.random.next();
            let (mut store, device, at) = bench.reopen(bench.device.after_crash(&mut || random.next()));
            crashes += 1;
            if bench.random.chance(20) {
                // Go on from here. The store's tickets begin anew.
                let model = bench.history[at].2.clone();
                store.end_turn();
                bench = Bench::on(bench.config.clone(), store, device, model, bench.random.clone());
            }
        }
        if bench.random.chance(60) {
            bench.settle();
            bench.check_all();
        }
        if bench.random.chance(200) {
            bench.store.checkpoint();
        }
    }
    bench.settle();
    bench.check_all();
    crashes
}

/// Runs that end in a panic say their seed.
fn run_seeds(config: &StoreConfig, seeds: std::ops::Range<u64>) {
    let count = seeds.end - seeds.start;
    let mut crashes = 0;
    for seed in seeds {
        let result = std::panic::catch_unwind(|| run(config.clone(), seed, 60, 3));
        crashes += result.unwrap_or_else(|cause| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(cause)
        });
    }
    assert_eq!(crashes, count * 60 * 3);
}

#[test]
fn acknowledged_transactions_survive_any_crash() {
    run_seeds(&config(), 0..80);
}

/// A log that takes many turns, so that replay is long and checkpoints are rare.
#[test]
fn acknowledged_transactions_survive_any_crash_with_a_long_log() {
    run_seeds(&StoreConfig { device_bytes: 16 << 20, wal_bytes: 512 << 10, ..config() }, 0..15);
}

#[test]
fn a_killed_process_loses_nothing_that_was_done() {
    for seed in 1000..1010 {
        let mut bench = Bench::new(seed);
        for _ in 0..60 {
            bench.turn();
            let mut random = Random::new(seed + bench.random.next());
            bench.reopen(bench.device.after_kill(&mut || random.next()));
        }
    }
}

/// Every prefix of the completions of one commit, with every fate of its few writes.
#[test]
fn each_step_of_a_commit_and_of_a_checkpoint_may_be_the_last() {
    for seed in 0..30 {
        let mut bench = Bench::new(seed);
        (0..10).for_each(|_| bench.submit_some());
        bench.settle();
        bench.submit_some();
        bench.submit_some();
        bench.store.checkpoint();
        while !bench.store.is_idle() {
            bench.store.end_turn();
            bench.pump();
            for _ in 0..8 {
                let mut random = bench.random.clone();
                bench.random.next();
                bench.reopen(bench.device.after_crash(&mut || random.next()));
            }
            bench.complete_some();
            bench.events();
        }
    }
}
