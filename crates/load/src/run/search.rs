//! Loads that depend on what lighter ones gave: a search for the most load whose p99 is within a limit, and the end of
//! a sweep whose throughput hardly grows any more.

use bench::plan::{Load, Plan, PlanError, Workload};
use bench::report::{End, Figure, SEARCH};
use bench::search::{Found, LatencySearch};

use super::{Next, Run};
use crate::run_folder::FolderError;

/// A search for a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchRules {
    pub p99_us_max: f64,
    /// Most operations in flight of each client, or arrivals per second in an open loop.
    pub load_max: u32,
}

impl SearchRules {
    /// Checks that the heaviest load of the search can be run, and that `plan` is one that can be searched.
    ///
    /// Errors: the field at fault.
    pub fn check(&self, plan: &Plan) -> Result<(), PlanError> {
        let refuse =
            |field: &str, reason: &str| Err(PlanError::Value { field: field.to_owned(), reason: reason.to_owned() });
        let [workload] = plan.workloads.as_slice() else {
            return refuse("workloads", "a search for a load takes a plan of one workload");
        };
        if !(self.p99_us_max.is_finite() && self.p99_us_max > 0.0) || self.load_max == 0 {
            return refuse("search", "the limits of a search are above 0");
        }
        if !workload.tool.is_own() {
            return refuse("workloads[0].tool", "a search for a load takes Nacre's own client");
        }
        Plan { workloads: vec![at_load(workload, self.load_max)], ..plan.clone() }.check()
    }
}

/// `workload` with this load instead of its own: operations in flight of each client, or arrivals per second of each
/// group.
fn at_load(workload: &Workload, load: u32) -> Workload {
    let mut workload = workload.clone();
    workload.name = format!("{}-{load}", workload.name);
    for group in &mut workload.groups {
        match &mut group.load {
            Load::Closed { queue_depth } => *queue_depth = load,
            Load::Open { arrivals_per_s, .. } => *arrivals_per_s = f64::from(load),
        }
    }
    workload
}

/// The load to begin with: an open loop's own, or a single operation in flight.
fn start(workload: &Workload, load_max: u32) -> u32 {
    let first = match workload.groups.first().map(|group| group.load) {
        // Whole arrivals per second.
        Some(Load::Open { arrivals_per_s, .. }) => arrivals_per_s.round().min(f64::from(u32::MAX)) as u32,
        Some(Load::Closed { .. }) | None => 1,
    };
    first.clamp(1, load_max)
}

impl Run<'_> {
    /// Searches on one cluster after the other. The loads that were measured become workloads of the result's plan.
    pub(super) async fn search(&mut self, rules: SearchRules) -> Result<(), FolderError> {
        let template = self.result.plan.workloads[0].clone();
        self.result.plan.workloads.clear();
        self.result.plan.iterations = 1;
        for cluster in 0..self.clusters.len() {
            let end = self.search_on(cluster, &template, rules).await?;
            if end == End::Interrupted {
                self.result.end = end;
                break;
            }
            if end != End::Complete && self.result.end == End::Complete {
                self.result.end = end;
            }
        }
        if self.result.plan.workloads.is_empty() {
            self.result.plan.workloads.push(template);
        }
        self.save()
    }

    /// True if the plan's sweep has ended for a cluster before this workload. Says so the first time.
    pub(super) fn is_past_high_water(&mut self, cluster: usize, workload: &Workload, iteration: u32) -> bool {
        let Some(gain) = self.result.plan.stop_gain_percent else { return false };
        let name = &self.clusters[cluster].plan.name;
        let Some(mark) = self.result.past_high_water(name, workload, gain) else { return false };
        if iteration == 0 {
            let reason = format!("as more load than that of {mark} adds less than {gain} % to throughput");
            self.note(format!("{name} {}: left out, {reason}", workload.name));
        }
        true
    }

    async fn search_on(&mut self, cluster: usize, template: &Workload, rules: SearchRules) -> Result<End, FolderError> {
        let name = self.clusters[cluster].plan.name.clone();
        let mut search = LatencySearch::new(rules.p99_us_max, start(template, rules.load_max), rules.load_max);
        while let Some(load) = search.next_load() {
            let workload = at_load(template, load);
            let known = self.result.plan.workloads.iter().position(|one| one.name == workload.name);
            let index = known.unwrap_or_else(|| {
                self.result.plan.workloads.push(workload.clone());
                self.result.plan.workloads.len() - 1
            });
            let index = u32::try_from(index).expect("a search has few loads");
            let next = self.one(cluster, index, &workload, 0).await;
            self.save()?;
            if let Next::End(end) = next {
                return Ok(end);
            }
            let of_load = self.result.rows.iter().filter(|row| row.cluster == name && row.workload == workload.name);
            // All groups have to keep the limit; one without answers does not.
            let p99: Option<Vec<f64>> = of_load.map(|row| Figure::P99Us.of(row)).collect();
            search.measured(p99.and_then(|all| all.into_iter().reduce(f64::max)));
        }
        let limit = rules.p99_us_max / 1000.0;
        let what = match template.groups.first().map(|group| group.load) {
            Some(Load::Open { .. }) => "arrivals per second",
            _ => "operations in flight of each client",
        };
        let words = match search.found() {
            Some(Found::Load(load)) => {
                format!("p99 is at most {limit} ms up to {load} {what}; a tenth more, or one more, exceeds it")
            }
            Some(Found::Max(load)) => format!("p99 is at most {limit} ms even with {load} {what}; no more was tried"),
            Some(Found::None) | None => format!("p99 exceeds {limit} ms even with the lightest load"),
        };
        self.note(format!("{name}: {words}"));
        self.result.environment.insert(format!("{SEARCH}{name}"), words);
        Ok(End::Complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(load: &str) -> Plan {
        let text = format!(
            r#"{{"version": 1, "name": "n", "seed": 1,
            "clusters": [{{"name": "n", "engine": "nacre", "configuration": "a"}}], "pools": [{{"name": "p"}}],
            "workloads": [{{"name": "w", "pool": "p", "stop": {{"duration_s": 1}},
              "groups": [{{"name": "g", "object_bytes": 4096, "objects": 100, "operations": {{"random_write": 100}},
                          "instances": 2, "load": {load}}}]}}]}}"#
        );
        Plan::from_json(&text).unwrap()
    }

    #[test]
    fn loads_replace_those_of_the_plan() {
        let closed = plan(r#"{"closed": {"queue_depth": 7}}"#);
        let heavier = at_load(&closed.workloads[0], 32);
        assert_eq!((heavier.name.as_str(), heavier.groups[0].load), ("w-32", Load::Closed { queue_depth: 32 }));
        assert_eq!(start(&closed.workloads[0], 64), 1);
        let open = plan(r#"{"open": {"arrivals_per_s": 200.4, "spacing": "constant", "in_flight_max": 8}}"#);
        assert_eq!((start(&open.workloads[0], 1000), start(&open.workloads[0], 64)), (200, 64));
        let Load::Open { arrivals_per_s, .. } = at_load(&open.workloads[0], 300).groups[0].load else { panic!() };
        assert_eq!(arrivals_per_s, 300.0);
    }

    #[test]
    fn searches_that_cannot_be_run_are_refused_before() {
        let plan = plan(r#"{"closed": {"queue_depth": 7}}"#);
        let check = |rules: SearchRules, plan: &Plan| rules.check(plan).map_err(|error| error.to_string());
        let rules = SearchRules { p99_us_max: 1000.0, load_max: 50 };
        assert_eq!(check(rules, &plan), Ok(()));
        let heavy = check(SearchRules { load_max: 51, ..rules }, &plan).unwrap_err();
        assert!(heavy.contains("fewer than 102 workers"), "{heavy}");
        assert!(check(SearchRules { p99_us_max: f64::NAN, ..rules }, &plan).unwrap_err().contains("above 0"));
        let two = Plan { workloads: [plan.workloads.clone(), plan.workloads.clone()].concat(), ..plan };
        assert!(check(rules, &two).unwrap_err().contains("one workload"));
    }
}
