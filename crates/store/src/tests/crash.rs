//! After a crash the store holds all acknowledged transactions, plus perhaps whole later ones, in order.
//!
//! A *crash point* is a moment, between any two completions of requests, together with the part that reached the media
//! of everything that no flush covers. Each is tried once.

use super::devices::split;
use super::harness::{Bench, Random, config};
use crate::StoreConfig;
use std::collections::HashSet;

/// The crash points tried.
#[derive(Default)]
struct Points {
    seen: HashSet<(u64, u64)>,
    in_checkpoints: usize,
}

/// The making of a history, and the density of crashes.
#[derive(Clone)]
struct Plan {
    config: StoreConfig,
    turns: u64,
    objects: u64,
    /// Sizes of objects: writes lie within this many bytes.
    span_bytes: u64,
    /// Number of crashes tried at a moment while no checkpoint is being written, and while one is.
    tries: [u64; 2],
}

impl Plan {
    /// A long random history with one or more crashes tried after every completion. Some crashes happen, and the
    /// history goes on from there.
    fn run(&self, seed: u64, points: &mut Points) {
        // Half of all histories are on several devices; a crash takes from each by itself.
        let config = split(self.config.clone(), matches!(seed % 6, 3 | 5), matches!(seed % 6, 4 | 5));
        let mut bench = Bench::with(config, seed);
        (bench.objects, bench.span_bytes) = (self.objects, self.span_bytes);
        for _ in 0..self.turns {
            bench.begin_turn();
            let completions = bench.random.below(6);
            for _ in 0..=completions {
                self.try_here(seed, &bench, points);
                bench.random.next();
                bench.complete_some();
                bench.events();
            }
            if bench.random.chance(40) {
                bench = self.crash(bench);
            }
            if bench.random.chance(60) {
                bench.settle();
                bench.check_all();
            }
            if bench.random.chance(100) {
                bench.store.checkpoint();
            }
        }
        bench.settle();
        bench.check_all();
    }

    fn try_here(&self, seed: u64, bench: &Bench, points: &mut Points) {
        let in_checkpoint = bench.store.checkpoint.is_running();
        let mut random = bench.random.clone();
        for _ in 0..self.tries[usize::from(in_checkpoint)] {
            let mut fates = Random::new(random.next());
            let (device, fingerprint) = bench.device.after_crash_told(&mut || fates.next());
            if points.seen.insert((seed, fingerprint)) {
                points.in_checkpoints += usize::from(in_checkpoint);
                bench.reopen(device);
            }
        }
    }

    /// Goes on with the devices after a crash. The store's tickets begin anew.
    fn crash(&self, bench: Bench) -> Bench {
        let mut random = bench.random.clone();
        let (mut store, device, at) = bench.reopen(bench.device.after_crash(&mut || random.next()));
        let model = bench.history[at].2.clone();
        store.end_turn();
        let (objects, span_bytes) = (bench.objects, bench.span_bytes);
        let mut bench = Bench::on(bench.config.clone(), store, device, model, random);
        (bench.objects, bench.span_bytes) = (objects, span_bytes);
        bench
    }

    /// Prints the seed of a run that panics. The whole suite (`NACRE_SUITE=whole`) runs all seeds, and tries as many
    /// crash points at least; half of both are run and tried otherwise.
    fn run_seeds(&self, seeds: std::ops::Range<u64>, points_min: usize) {
        let is_whole = std::env::var("NACRE_SUITE").is_ok_and(|suite| suite == "whole");
        let (step, points_min) = if is_whole { (1, points_min) } else { (2, points_min / 2) };
        let mut points = Points::default();
        for seed in seeds.step_by(step) {
            let run = std::panic::AssertUnwindSafe(|| self.run(seed, &mut points));
            std::panic::catch_unwind(run).unwrap_or_else(|cause| {
                eprintln!("seed {seed}");
                std::panic::resume_unwind(cause)
            });
        }
        let (all, inside) = (points.seen.len(), points.in_checkpoints);
        assert!(all >= points_min && inside * 2 >= points_min, "{all} crash points, {inside} in checkpoints");
    }
}

/// This test and the next three try 200,000 crash points in the whole suite, half of them while a checkpoint is being
/// written.
#[test]
fn acknowledged_transactions_survive_any_crash() {
    let plan = Plan { config: config(), turns: 150, objects: 4, span_bytes: 12 << 10, tries: [4, 9] };
    plan.run_seeds(0..85, 110_000);
}

/// Objects have up to 48 KiB, so that turns have several data writes.
#[test]
fn acknowledged_transactions_survive_any_crash_with_larger_objects() {
    let plan = Plan { config: config(), turns: 150, objects: 6, span_bytes: 48 << 10, tries: [3, 6] };
    plan.run_seeds(1000..1034, 32_000);
}

/// There are many objects, so that a checkpoint has many chunks.
#[test]
fn acknowledged_transactions_survive_any_crash_with_long_checkpoints() {
    let plan = Plan { config: config(), turns: 150, objects: 60, span_bytes: 5 << 10, tries: [2, 6] };
    plan.run_seeds(2000..2048, 40_000);
}

/// The log takes many turns, so that replay is long and checkpoints are rare.
#[test]
fn acknowledged_transactions_survive_any_crash_with_a_long_log() {
    let config = StoreConfig { device_bytes: 16 << 20, wal_bytes: 512 << 10, ..config() };
    let plan = Plan { config, turns: 250, objects: 4, span_bytes: 12 << 10, tries: [1, 16] };
    plan.run_seeds(3000..3026, 20_000);
}

#[test]
fn a_killed_process_loses_nothing_that_was_done() {
    for seed in 1000..1010 {
        let mut bench = Bench::with(split(config(), seed % 2 == 1, seed % 3 > 0), seed);
        for _ in 0..60 {
            bench.turn();
            let mut random = Random::new(seed + bench.random.next());
            bench.reopen(bench.device.after_kill(&mut || random.next()));
        }
    }
}

/// Tries every prefix of the completions of one commit and of a checkpoint, with every fate of their few writes as
/// wholes: only torn writes are left to chance.
#[test]
fn each_step_of_a_commit_and_of_a_checkpoint_may_be_the_last() {
    let mut tried = 0;
    for seed in 0..30 {
        let mut bench = Bench::with(split(config(), seed % 2 == 1, seed % 3 > 0), seed);
        (0..10).for_each(|_| bench.submit_some());
        bench.settle();
        bench.submit_some();
        bench.submit_some();
        bench.store.checkpoint();
        while !bench.store.is_idle() {
            bench.store.end_turn();
            bench.pump();
            let changes = bench.device.changes_at_risk().min(8);
            for subset in 0..1u64 << changes {
                // Each write is lost or lands; the ninth and later ones follow the first.
                let mut change = 0;
                let mut fate = || {
                    change += 1;
                    subset >> ((change - 1) % changes.max(1)) & 1
                };
                bench.reopen(bench.device.after_crash(&mut fate));
                tried += 1;
            }
            let mut random = bench.random.clone();
            bench.reopen(bench.device.after_crash(&mut || random.next()));
            bench.complete_some();
            bench.events();
        }
    }
    assert!(tried > 800, "{tried}");
}
