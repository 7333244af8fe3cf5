//! One workload on one cluster, once: the data that every thread and instance needs.

use bench::plan::{Group, Workload};
use bench::recorder::Rounds;
use bench::schedule::pattern_run;

/// Shared by all threads of an iteration.
#[derive(Clone, Debug)]
pub struct Task {
    /// Seed of the plan.
    pub seed: u64,
    /// Number of this iteration in data patterns.
    pub run: u64,
    pub groups: Vec<Group>,
    pub rounds: Rounds,
    /// Prefix of the names of all objects of this iteration.
    pub prefix: String,
    /// An earlier iteration of the same task has written the objects that are to be there before the load.
    pub filled: bool,
}

impl Task {
    /// `token` distinguishes this run's objects from those of others.
    pub fn new(seed: u64, token: &str, workload_index: u32, workload: &Workload, iteration: u32) -> Task {
        Task {
            seed,
            run: pattern_run(seed, workload_index, iteration),
            groups: workload.groups.clone(),
            rounds: Rounds::new(workload.warm_up(), &workload.stop),
            prefix: format!("nacre-bench.{token}.{}.{iteration}", workload.name),
            filled: false,
        }
    }

    /// Name of object `object` of group `group_index`.
    pub fn object_name(&self, group_index: u32, object: u64) -> String {
        let group = &self.groups[group_index as usize].name;
        // The name is concatenated from pieces: every operation needs one, and `format!` takes several times as long.
        [&self.prefix, ".", group, ".", &object.to_string()].concat()
    }

    /// All instances as (group, number within the group), in an order that spreads each group over threads.
    pub fn instances(&self) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            let index = u32::try_from(index).expect("a plan has few groups");
            all.extend((0..group.instances).map(|number| (index, number)));
        }
        all
    }

    /// The instances of crew number `part.0` out of `part.1` crews: every group is spread over all crews.
    pub fn instances_of(&self, part: (usize, usize)) -> Vec<(u32, u32)> {
        self.instances().into_iter().skip(part.0).step_by(part.1.max(1)).collect()
    }
}
