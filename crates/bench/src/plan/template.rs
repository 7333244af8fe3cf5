//! Plans that are made of sweeps, in TOML, and the plans that this release ships.
//!
//! A template has no clusters and two scales: the one of the document that it follows, and one that a laptop runs in
//! minutes. Each sweep is a workload for every combination of its pools, instances and depths.

use serde::Deserialize;

use super::{Cluster, Group, Load, Operations, PLAN_VERSION, Plan, PlanError, Pool, Redundancy, Stop, Workload};
use crate::tool::Tool;

/// Plans that are shipped, by name.
const SHIPPED: [(&str, &str); 5] = [
    ("micron-7450-ec", include_str!("../../../../bench/plans/micron-7450-ec.toml")),
    ("micron-7300-block", include_str!("../../../../bench/plans/micron-7300-block.toml")),
    ("micron-6500-qlc", include_str!("../../../../bench/plans/micron-6500-qlc.toml")),
    ("dell-dss7000", include_str!("../../../../bench/plans/dell-dss7000.toml")),
    ("intel-afa", include_str!("../../../../bench/plans/intel-afa.toml")),
];

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Full,
    Laptop,
}

/// A plan of sweeps.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// [`PLAN_VERSION`].
    version: u32,
    pub name: String,
    /// The document that it follows, and where it differs.
    pub source: String,
    iterations: Scaled<u32>,
    warm_up_s: Scaled<f64>,
    seconds: Scaled<f64>,
    /// Data of each workload.
    data_mib: Scaled<u64>,
    /// [`Plan::stop_gain_percent`].
    stop_gain_percent: Option<Scaled<f64>>,
    #[serde(rename = "pool")]
    pools: Vec<PoolTemplate>,
    #[serde(rename = "sweep")]
    sweeps: Vec<Sweep>,
}

/// A value for each scale.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scaled<T> {
    full: T,
    laptop: T,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolTemplate {
    name: String,
    redundancy: Redundancy,
    pg_count: Scaled<u32>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    name: String,
    pools: Vec<String>,
    #[serde(default)]
    tool: Tool,
    object_bytes: u64,
    io_bytes: Option<u64>,
    /// Clients that run side by side, each group with all of `instances`.
    #[serde(rename = "group")]
    groups: Vec<GroupTemplate>,
    instances: Scaled<Vec<u32>>,
    depth: Scaled<Vec<u32>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupTemplate {
    name: String,
    operations: Operations,
}

impl<T> Scaled<T> {
    fn at(&self, scale: Scale) -> &T {
        match scale {
            Scale::Full => &self.full,
            Scale::Laptop => &self.laptop,
        }
    }
}

impl Template {
    /// Names of the plans that are shipped.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// The shipped plan called `name`.
    pub fn shipped(name: &str) -> Option<Template> {
        let (_, text) = SHIPPED.iter().find(|(one, _)| *one == name)?;
        Some(Template::from_toml(text).expect("plans that are shipped are tested"))
    }

    /// Reads a template.
    ///
    /// Errors: [`PlanError`], with the line at fault.
    pub fn from_toml(text: &str) -> Result<Template, PlanError> {
        let form = |error: toml::de::Error| PlanError::Form { field: "plan".into(), reason: error.to_string() };
        let template: Template = toml::from_str(text).map_err(form)?;
        if template.version != PLAN_VERSION {
            return Err(PlanError::Version(template.version.into()));
        }
        Ok(template)
    }

    /// The plan at `scale` on `clusters`, checked.
    ///
    /// Errors: [`PlanError`] if it cannot be run.
    pub fn plan(&self, scale: Scale, clusters: Vec<Cluster>) -> Result<Plan, PlanError> {
        let mut workloads = Vec::new();
        for sweep in &self.sweeps {
            for pool in &sweep.pools {
                for instances in sweep.instances.at(scale) {
                    for depth in sweep.depth.at(scale) {
                        workloads.push(self.workload(scale, sweep, pool, *instances, *depth));
                    }
                }
            }
        }
        let pool = |pool: &PoolTemplate| Pool {
            name: pool.name.clone(),
            redundancy: Some(pool.redundancy),
            pg_count: Some(*pool.pg_count.at(scale)),
        };
        let plan = Plan {
            version: PLAN_VERSION,
            name: match scale {
                Scale::Full => self.name.clone(),
                Scale::Laptop => format!("{}, laptop", self.name),
            },
            seed: 1,
            clusters,
            pools: self.pools.iter().map(pool).collect(),
            workloads,
            iterations: *self.iterations.at(scale),
            confidence: super::default_confidence(),
            stop_gain_percent: self.stop_gain_percent.as_ref().map(|gain| *gain.at(scale)),
        };
        plan.check()?;
        Ok(plan)
    }

    fn workload(&self, scale: Scale, sweep: &Sweep, pool: &str, instances: u32, depth: u32) -> Workload {
        // An image has one writer, so several clients are several groups.
        let images = sweep.tool == Tool::NacreRbd;
        let (copies, instances_each) = if images { (instances, 1) } else { (1, instances) };
        let groups = u64::from(copies) * sweep.groups.len() as u64;
        let data_bytes = *self.data_mib.at(scale) << 20;
        let places = (sweep.object_bytes / sweep.io_bytes.unwrap_or(sweep.object_bytes).max(1)).max(1);
        let needed = (u64::from(instances_each) * u64::from(depth)).div_ceil(places);
        let objects = (data_bytes / groups.max(1) / sweep.object_bytes.max(1)).max(needed).max(1);
        let group = |template: &GroupTemplate, number: u32| Group {
            name: if copies > 1 { format!("{}{number}", template.name) } else { template.name.clone() },
            object_bytes: sweep.object_bytes,
            io_bytes: sweep.io_bytes,
            objects,
            operations: template.operations,
            instances: instances_each,
            load: Load::Closed { queue_depth: depth },
            // The documents' images are written before they are measured.
            prefill: images.then_some(true),
            list_keys: None,
        };
        Workload {
            name: format!("{}-{pool}-{instances}x{depth}", sweep.name),
            pool: pool.to_owned(),
            tool: sweep.tool,
            groups: sweep.groups.iter().flat_map(|one| (0..copies).map(move |number| group(one, number))).collect(),
            warm_up_s: *self.warm_up_s.at(scale),
            stop: Stop::DurationS(*self.seconds.at(scale)),
        }
    }
}

impl Plan {
    /// Reads and checks a plan in TOML, whose fields are those of JSON.
    ///
    /// Errors: [`PlanError`], with the line or the field at fault.
    pub fn from_toml(text: &str) -> Result<Plan, PlanError> {
        let form = |error: toml::de::Error| PlanError::Form { field: "plan".into(), reason: error.to_string() };
        let plan: Plan = toml::from_str(text).map_err(form)?;
        plan.check()?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Engine;

    fn clusters() -> Vec<Cluster> {
        vec![Cluster::new("c", Engine::Ceph, "ceph.conf")]
    }

    #[test]
    fn shipped_plans_can_be_run_at_both_scales() {
        assert_eq!(Template::names().count(), 5);
        for name in Template::names() {
            let template = Template::shipped(name).unwrap();
            assert_eq!(template.name, name);
            let full = template.plan(Scale::Full, clusters()).unwrap_or_else(|error| panic!("{name}: {error}"));
            let laptop = template.plan(Scale::Laptop, clusters()).unwrap_or_else(|error| panic!("{name}: {error}"));
            let seconds: f64 = laptop
                .workloads
                .iter()
                .map(|one| one.warm_up_s + if let Stop::DurationS(seconds) = one.stop { seconds } else { f64::NAN })
                .sum();
            assert!(seconds * f64::from(laptop.iterations) <= 180.0, "{name} measures for {seconds} s on a laptop");
            assert!(full.workloads.len() >= laptop.workloads.len(), "{name}");
            assert_eq!(Plan::from_json(&full.to_json()).unwrap(), full, "{name} survives being kept");
        }
        assert_eq!(Template::shipped("none"), None);
    }

    #[test]
    fn the_document_on_erasure_coding_is_followed() {
        let plan = Template::shipped("micron-7450-ec").unwrap().plan(Scale::Full, clusters()).unwrap();
        assert_eq!(plan.iterations, 3);
        let pools: Vec<_> = plan.pools.iter().map(|pool| pool.to_make().unwrap()).collect();
        let copies = |size| (Redundancy::Replicated { size }, 16_384);
        assert_eq!(pools, [copies(2), copies(3), (Redundancy::Erasure { k: 4, m: 2 }, 8192)]);
        let find = |name: &str| plan.workloads.iter().find(|one| one.name == name).unwrap();
        let write = &find("write-ec42-60x16").groups[0];
        assert_eq!((write.instances, write.load, write.object_bytes), (60, Load::Closed { queue_depth: 16 }, 4 << 20));
        assert_eq!(find("read-r3-60x32").groups[0].load, Load::Closed { queue_depth: 32 });
        assert_eq!(find("read-r3-60x32").stop, Stop::DurationS(600.0));
    }

    #[test]
    fn the_document_on_clients_ends_at_the_high_water_mark() {
        let template = Template::shipped("dell-dss7000").unwrap();
        for scale in [Scale::Full, Scale::Laptop] {
            assert_eq!(template.plan(scale, clusters()).unwrap().stop_gain_percent, Some(5.0));
        }
        let plan = Template::shipped("micron-7450-ec").unwrap().plan(Scale::Full, clusters()).unwrap();
        assert_eq!(plan.stop_gain_percent, None);
        assert!(!plan.to_json().contains("stop_gain_percent"));
    }

    #[test]
    fn clients_of_images_are_groups() {
        let plan = Template::shipped("micron-7300-block").unwrap().plan(Scale::Laptop, clusters()).unwrap();
        let several = plan.workloads.iter().find(|one| one.groups.len() > 1).unwrap();
        assert!(several.groups.iter().all(|group| group.instances == 1 && group.prefill()), "{several:?}");
    }

    #[test]
    fn wrong_plans_are_refused_with_their_line() {
        let good = include_str!("../../../../bench/plans/dell-dss7000.toml");
        let check = |from: &str, to: &str, words: &str| {
            assert!(good.contains(from), "{from}");
            let error = Template::from_toml(&good.replacen(from, to, 1))
                .map(|template| template.plan(Scale::Laptop, clusters()).expect_err("a wrong plan"));
            let error = error.unwrap_or_else(|error| error).to_string();
            assert!(error.contains(words), "{error}");
        };
        check("version = 1", "version = 2", "has version 2");
        check("data_mib", "data_mb", "unknown field `data_mb`");
        check("full = 5, laptop = 5", "full = 5, laptop = 0", "stop_gain_percent: 0 is not above 0");
        check("[[sweep]]", "[[sweeps]]", "line ");
        check("pools = [\"r3\"", "pools = [\"r9\"", "no pool \"r9\"");
        check("object_bytes = 4194304", "object_bytes = 4000", "object_bytes: 4000 is not within");
        let own = "version = 1\nname = \"n\"\nseed = 1\n\
                   clusters = [{name = \"a\", engine = \"nacre\", configuration = \"c\"}]\npools = [{name = \"p\"}]\n\
                   [[workloads]]\nname = \"w\"\npool = \"p\"\nstop = {duration_s = 3}\n\
                   [[workloads.groups]]\nname = \"g\"\nobject_bytes = 4096\nobjects = 64\ninstances = 1\n\
                   operations = {random_write = 100}\nload = {closed = {queue_depth = 4}}\n";
        let plan = Plan::from_toml(own).unwrap();
        assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
        assert!(Plan::from_toml(&own.replace("= 100", "= 90")).unwrap_err().to_string().contains("add up to 90"));
    }
}
