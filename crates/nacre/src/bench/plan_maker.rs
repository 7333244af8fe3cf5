//! Plans from flags.

use super::plan_files::{self, PlanFile};
use crate::byte_size::ByteSize;
use crate::cli;
use crate::cli::bench::{BenchRun, ClusterAt, Gateways, Load as Flags, Mode, Named, PlanScale, Times};
use crate::layout::Layout;
use crate::state_file;
use anyhow::{Context, Result, bail};
use bench::cbt;
use bench::plan::{
    Cluster, Group, Load, Operations, PLAN_VERSION, Plan, Pool, Redundancy, S3Gateway, Scale, Spacing, Stop, Workload,
    default_region,
};
use bench::tool::Tool;
use std::path::{Path, PathBuf};

const OBJECT_BYTES: u64 = 4 << 20;
/// Objects of this much together, within bounds.
const DATA_BYTES: u64 = 1 << 30;
const OBJECTS: std::ops::RangeInclusive<u64> = 16..=4096;
const DEPTH: u32 = 16;
const OPEN_DEPTH: u32 = 256;
const SECONDS: f64 = 10.0;
const WARM_UP_SECONDS: f64 = 2.0;
const REPLICAS: u32 = 3;
const PGS: u32 = 64;
const COMPARE_ITERATIONS: u32 = 5;
const SEARCH_DEPTH_MAX: u32 = 256;
const SEARCH_RATE_MAX: u32 = 1_000_000;

/// The plan that the command line asks for, checked. `clusters_min` is 2 to compare.
pub async fn make(options: &BenchRun, clusters_min: usize) -> Result<Plan> {
    let mut clusters = Vec::new();
    for at in &options.cluster {
        clusters.push(cluster(&at.name, &configuration(&at.path)?).await?);
    }
    if let Some(path) = &options.conf {
        clusters.push(cluster("cluster", &configuration(path)?).await?);
    }
    let mut plan = match &options.plan {
        Some(path) => {
            let mut plan = match plan_files::read(path)? {
                PlanFile::Plan(plan) if clusters.is_empty() => *plan,
                PlanFile::Plan(plan) => Plan { clusters, ..*plan },
                PlanFile::Template(template) => {
                    if clusters.is_empty() {
                        clusters.push(cluster("cluster", &configuration_of(None, None)?).await?);
                    }
                    let scale = match options.scale {
                        PlanScale::Full => Scale::Full,
                        PlanScale::Laptop => Scale::Laptop,
                    };
                    template.plan(scale, clusters).context("this cannot be run")?
                }
                PlanFile::Cbt { name, text } => of_cbt(&name, &text, clusters).await?,
            };
            adapt(&mut plan, options)?;
            plan
        }
        None => {
            if clusters.is_empty() {
                clusters.push(cluster("cluster", &configuration_of(None, None)?).await?);
            }
            let most = options.sweep.find_p99.map(|_| search_max(options));
            sweep(from_flags(&options.load, &options.times, clusters, clusters_min, most), options.sweep.clients_max)?
        }
    };
    set_gateways(&mut plan, &options.gateways)?;
    plan.stop_gain_percent = stop_gain(options.sweep.stop_gain, plan.stop_gain_percent);
    plan.check().context("this cannot be run")?;
    Ok(plan)
}

/// Gives the plan's clusters the gateways of flags.
///
/// Errors: a flag names no cluster, or keys have no gateway.
fn set_gateways(plan: &mut Plan, flags: &Gateways) -> Result<()> {
    let named = flags.s3.iter().chain(&flags.s3_keys).filter_map(|value| value.name.as_deref());
    for name in named {
        if !plan.clusters.iter().any(|cluster| cluster.name == name) {
            bail!("--s3 and --s3-keys name a cluster {name}, which there is not");
        }
    }
    for cluster in &mut plan.clusters {
        let of = |values: &[Named]| {
            let found = values.iter().find(|one| one.name.as_ref().is_none_or(|name| *name == cluster.name));
            found.map(|one| one.value.clone())
        };
        if let Some(endpoint) = of(&flags.s3) {
            let endpoint = endpoint.trim_end_matches('/').to_owned();
            let region = default_region();
            cluster.s3 = Some(S3Gateway { endpoint, ca: None, keys: None, region, signed_payload: false });
        }
        let keys = of(&flags.s3_keys);
        match &mut cluster.s3 {
            Some(gateway) => {
                let keys = keys.map(std::path::absolute).transpose()?;
                gateway.keys = keys.map(|path| path.display().to_string()).or(gateway.keys.take());
                gateway.signed_payload |= flags.s3_signed_payload;
                if let Some(path) = flags.s3_ca.as_ref().filter(|_| gateway.is_secure()) {
                    gateway.ca = Some(std::path::absolute(path)?.display().to_string());
                }
            }
            None if keys.is_some() => bail!("cluster {} has keys but no gateway: give --s3", cluster.name),
            None => {}
        }
    }
    if flags.s3_ca.is_some() && !plan.clusters.iter().any(|one| one.s3.as_ref().is_some_and(S3Gateway::is_secure)) {
        bail!("--s3-ca is for gateways with https://, of which there is none");
    }
    Ok(())
}

/// The stop rule of a flag, or else that of the plan. A flag of 0 has every load measured.
fn stop_gain(flag: Option<f64>, of_plan: Option<f64>) -> Option<f64> {
    flag.or(of_plan).filter(|gain| *gain != 0.0)
}

/// A plan of the Ceph Benchmarking Tool on `clusters`, or on that of the file's own configuration.
async fn of_cbt(name: &str, text: &str, clusters: Vec<Cluster>) -> Result<Plan> {
    let is_own = clusters.is_empty();
    let mut found = cbt::translate(name, text, clusters).context("this cannot be run")?;
    if !found.without_effect.is_empty() {
        eprintln!("of no effect here: {}", found.without_effect.join(", "));
    }
    if let (true, Some(path)) = (is_own, &found.configuration) {
        found.plan.clusters = vec![cluster("cluster", &configuration(Path::new(path))?).await?];
    }
    Ok(found.plan)
}

/// The configuration of the cluster that `--cluster` or `--conf` names, or of the one in the usual folder.
pub fn configuration_of(named: Option<&ClusterAt>, conf: Option<&Path>) -> Result<PathBuf> {
    match named.map(|at| at.path.as_path()).or(conf) {
        Some(path) => configuration(path),
        None => {
            let layout = Layout::new(Path::new(cli::DEFAULT_DIR))?;
            state_file::require(&layout).context("neither --cluster nor --conf names a cluster")?;
            Ok(layout.conf())
        }
    }
}

/// The configuration that `path`, a file or a folder, stands for.
fn configuration(path: &Path) -> Result<PathBuf> {
    let path = if path.is_dir() { path.join("ceph.conf") } else { path.to_owned() };
    std::fs::metadata(&path).with_context(|| format!("there is no cluster's configuration at {}", path.display()))?;
    Ok(std::path::absolute(path)?)
}

/// A cluster for a plan; asks it what it is.
pub async fn cluster(name: &str, configuration: &Path) -> Result<Cluster> {
    let path = configuration.display().to_string();
    let engine = load::engine_of(name, &path).await?;
    Ok(Cluster::new(name, engine, path))
}

/// Changes of a plan by flags.
fn adapt(plan: &mut Plan, options: &BenchRun) -> Result<()> {
    let (times, only) = (&options.times, &options.only);
    if !only.is_empty() {
        plan.workloads.retain(|workload| only.iter().any(|words| workload.name.contains(words.as_str())));
        if plan.workloads.is_empty() {
            bail!("the plan has no workload whose name contains {}", only.join(" or "));
        }
    }
    for workload in &mut plan.workloads {
        workload.warm_up_s = times.warm_up.unwrap_or(workload.warm_up_s);
        workload.stop = times.seconds.map_or(workload.stop, Stop::DurationS);
        let groups = workload.groups.len().max(1) as u64;
        for group in &mut workload.groups {
            let objects =
                |data: ByteSize| (data.0 / groups / group.object_bytes.max(1)).max(least_objects(group)).max(1);
            group.objects = options.data.map_or(group.objects, objects);
        }
    }
    plan.iterations = times.iterations.unwrap_or(plan.iterations);
    Ok(())
}

/// The most load that a search tries.
pub fn search_max(options: &BenchRun) -> u32 {
    let usual = if options.load.rate.is_some() { SEARCH_RATE_MAX } else { SEARCH_DEPTH_MAX };
    options.sweep.load_max.unwrap_or(usual)
}

/// The plan's workload with its clients, and twice as many each time, up to `clients_max`. All have objects enough for
/// the most.
///
/// Errors: there are more clients already.
fn sweep(plan: Plan, clients_max: Option<u32>) -> Result<Plan> {
    let Some(most) = clients_max else { return Ok(plan) };
    let template = plan.workloads.first().cloned().expect("a plan of flags has a workload");
    let first = template.groups[0].instances;
    if most < first {
        bail!("--clients-max {most} is below the {first} clients to begin with");
    }
    let counts =
        std::iter::successors(Some(first), |count| Some(count.saturating_mul(2).min(most)).filter(|next| next > count));
    let workloads = counts.map(|count| {
        let mut workload = Workload { name: format!("{}-{count}", template.name), ..template.clone() };
        workload.groups[0].instances = count;
        workload
    });
    let workloads: Vec<Workload> = workloads.collect();
    let needed = least_objects(&workloads.last().expect("there is the first").groups[0]);
    let objects = template.groups[0].objects.max(needed);
    let with_objects = |mut workload: Workload| {
        workload.groups[0].objects = objects;
        workload
    };
    Ok(Plan { workloads: workloads.into_iter().map(with_objects).collect(), ..plan })
}

/// Objects that give each worker a place of its own.
fn least_objects(group: &Group) -> u64 {
    let places = (group.object_bytes / group.io_bytes().max(1)).max(1);
    group.workers().div_ceil(places)
}

/// `depth_max`: operations in flight of each client for which there must be objects enough, if they are not those of
/// the flags.
fn from_flags(
    flags: &Flags,
    times: &Times,
    clusters: Vec<Cluster>,
    clusters_min: usize,
    depth_max: Option<u32>,
) -> Plan {
    let write = Operations { sequential_write: 100, ..Operations::default() };
    let mode = flags.mode.clone().unwrap_or(Mode { words: "write".into(), operations: write });
    let object_bytes = flags.object_size.map_or(OBJECT_BYTES, |size| size.0);
    let io_bytes = flags.io_size.map(|size| size.0);
    let instances = flags.instances.unwrap_or(1);
    let load = match flags.rate {
        None => Load::Closed { queue_depth: flags.depth.unwrap_or(DEPTH) },
        Some(arrivals_per_s) => Load::Open {
            arrivals_per_s,
            spacing: if flags.poisson { Spacing::Poisson } else { Spacing::Constant },
            in_flight_max: flags.depth.unwrap_or(OPEN_DEPTH),
        },
    };
    let mut group = Group {
        name: "clients".into(),
        object_bytes,
        io_bytes,
        objects: 1,
        operations: mode.operations,
        instances,
        load,
        prefill: None,
        list_keys: flags.list_keys,
    };
    group.objects = flags.objects.unwrap_or_else(|| {
        let heaviest = match (group.load, depth_max) {
            (Load::Closed { .. }, Some(queue_depth)) => Group { load: Load::Closed { queue_depth }, ..group.clone() },
            _ => group.clone(),
        };
        let least = least_objects(&heaviest);
        (DATA_BYTES / object_bytes.max(1)).clamp(*OBJECTS.start(), *OBJECTS.end()).max(least)
    });
    let redundancy = flags.erasure.unwrap_or(Redundancy::Replicated { size: flags.replicas.unwrap_or(REPLICAS) });
    let pool = match &flags.pool {
        Some(name) => Pool { name: name.clone(), redundancy: None, pg_count: None },
        // A bucket, whose redundancy is the gateway's.
        None if flags.tool == Some(Tool::NacreS3) => {
            Pool { name: "nacre-bench".into(), redundancy: None, pg_count: None }
        }
        None => {
            Pool { name: "nacre-bench".into(), redundancy: Some(redundancy), pg_count: Some(flags.pgs.unwrap_or(PGS)) }
        }
    };
    let size = ByteSize(group.io_bytes()).to_string().replace(' ', "");
    let tool = flags.tool.filter(|tool| !tool.is_nacre());
    let suffix = tool.map(|tool| format!("-{}", tool.name())).unwrap_or_default();
    let name = format!("{size}-{}{suffix}", mode.words);
    let stop = flags.steady.map_or(Stop::DurationS(times.seconds.unwrap_or(SECONDS)), |round_s| Stop::Steady {
        round_s,
        rules: Default::default(),
    });
    Plan {
        version: PLAN_VERSION,
        name: name.clone(),
        seed: flags.seed.unwrap_or(1),
        clusters,
        workloads: vec![Workload {
            name,
            pool: pool.name.clone(),
            tool: flags.tool.unwrap_or_default(),
            groups: vec![group],
            warm_up_s: times.warm_up.unwrap_or(WARM_UP_SECONDS),
            stop,
        }],
        pools: vec![pool],
        iterations: times.iterations.unwrap_or(if clusters_min > 1 { COMPARE_ITERATIONS } else { 1 }),
        confidence: 0.9,
        stop_gain_percent: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, bench::Bench};
    use bench::plan::Engine;
    use clap::Parser;

    fn plan(args: &[&str]) -> Plan {
        let command = Cli::try_parse_from([&["nacre", "bench", "run"], args].concat()).unwrap().command;
        let Command::Bench(Bench::Run(run)) = command else { panic!("{command:?}") };
        let cluster = Cluster::new("c", Engine::Nacre, "x");
        let plan = from_flags(&run.load, &run.times, vec![cluster], 1, None);
        plan.check().unwrap_or_else(|e| panic!("{args:?}: {e}"));
        plan
    }

    #[test]
    fn flags_make_plans_that_can_be_run() {
        let bare = plan(&[]);
        let group = &bare.workloads[0].groups[0];
        assert_eq!((bare.name.as_str(), group.objects, bare.iterations), ("4MiB-write", 256, 1));
        assert_eq!(bare.pools[0].to_make(), Some((Redundancy::Replicated { size: 3 }, 64)));
        let small = plan(&[
            "--mode",
            "randread=70,randwrite=30",
            "--object-size",
            "4KiB",
            "--depth",
            "4000",
            "--instances",
            "2",
        ]);
        assert_eq!(small.workloads[0].groups[0].objects, 8000, "a place for each worker");
        let part = plan(&["--object-size", "4MiB", "--io-size", "4KiB", "--erasure", "4+2", "--pgs", "16"]);
        assert_eq!(part.name, "4KiB-write");
        assert_eq!(part.pools[0].to_make(), Some((Redundancy::Erasure { k: 4, m: 2 }, 16)));
        let open = plan(&["--rate", "500", "--poisson", "--pool", "mine", "--steady", "5"]);
        let load = Load::Open { arrivals_per_s: 500.0, spacing: Spacing::Poisson, in_flight_max: 256 };
        assert_eq!((open.workloads[0].groups[0].load, open.pools[0].to_make()), (load, None));
        assert!(matches!(open.workloads[0].stop, Stop::Steady { round_s: 5.0, .. }));
    }

    #[test]
    fn flags_shorten_plans() {
        let command = [
            "nacre",
            "bench",
            "compare",
            "p.json",
            "--only",
            "4k",
            "--only",
            "256k-seq",
            "--seconds",
            "0.5",
            "--iterations",
            "2",
        ];
        let Command::Bench(Bench::Compare(run)) = Cli::try_parse_from(command).unwrap().command else { panic!() };
        let mut plan = Plan::from_json(include_str!("../../../../bench/plans/object-rows.json")).unwrap();
        assert_eq!((plan.workloads.len(), plan.iterations), (18, 5));
        adapt(&mut plan, &run).unwrap();
        assert_eq!((plan.workloads.len(), plan.iterations), (8, 2));
        assert!(
            plan.workloads.iter().all(|workload| workload.stop == Stop::DurationS(0.5) && workload.warm_up_s == 1.0)
        );
        let nothing = BenchRun { only: vec!["nothing".into()], ..*run };
        assert!(adapt(&mut plan, &nothing).is_err());
    }

    #[test]
    fn data_of_plans_is_scaled() {
        let scaled = |plan: &str, data: &str| {
            let command = ["nacre", "bench", "run", plan, "--data", data];
            let Command::Bench(Bench::Run(run)) = Cli::try_parse_from(command).unwrap().command else { panic!() };
            let cluster = Cluster::new("c", Engine::Nacre, "x");
            let template = bench::plan::Template::shipped(plan).unwrap();
            let mut plan = template.plan(Scale::Laptop, vec![cluster]).unwrap();
            adapt(&mut plan, &run).unwrap();
            plan.check().unwrap();
            plan
        };
        // Two images share the data; an object of 4 MiB has places for all operations of 4 KiB in flight.
        let images = scaled("intel-afa", "16MiB");
        assert!(images.workloads.iter().all(|one| one.groups.iter().all(|group| group.objects == 2)), "{images:?}");
        // Whole objects: as many as there are operations in flight, of one group and of two.
        let objects = scaled("micron-6500-qlc", "1MiB");
        let counts = |name: &str| {
            let workload = objects.workloads.iter().find(|one| one.name == name).unwrap();
            workload.groups.iter().map(|group| group.objects).collect::<Vec<_>>()
        };
        assert_eq!(counts("sequential-read-ec42-2x1"), [4]);
        assert_eq!(counts("sequential-read-ec42-2x16"), [32]);
        assert_eq!(counts("mixed-random-ec42-2x1"), [2, 2]);
    }

    #[test]
    fn clients_double_up_to_the_most() {
        let made = sweep(plan(&["--object-size", "64KiB", "--depth", "512", "--instances", "3"]), Some(20)).unwrap();
        made.check().unwrap();
        let counts: Vec<u32> = made.workloads.iter().map(|workload| workload.groups[0].instances).collect();
        assert_eq!(counts, [3, 6, 12, 20]);
        assert_eq!(made.workloads[3].name, "64KiB-write-20");
        assert!(made.workloads.iter().all(|workload| workload.groups[0].objects == 20 * 512));
        assert_eq!(sweep(plan(&[]), Some(1)).unwrap().workloads.len(), 1);
        assert_eq!(sweep(plan(&[]), None).unwrap(), plan(&[]));
        let error = sweep(plan(&["--instances", "3"]), Some(2)).unwrap_err().to_string();
        assert!(error.contains("--clients-max 2"), "{error}");
    }

    #[test]
    fn a_flag_goes_before_the_stop_rule_of_a_plan() {
        let cases = [(None, None, None), (None, Some(5.0), Some(5.0)), (Some(2.0), Some(5.0), Some(2.0))];
        for (flag, of_plan, want) in cases.into_iter().chain([(Some(0.0), Some(5.0), None)]) {
            assert_eq!(stop_gain(flag, of_plan), want, "{flag:?} {of_plan:?}");
        }
        let wrong = Plan { stop_gain_percent: stop_gain(Some(-1.0), None), ..plan(&[]) }.check().unwrap_err();
        assert_eq!(wrong.field(), "stop_gain_percent");
    }

    #[test]
    fn contradicting_flags_are_refused() {
        for args in [
            &["--pool", "p", "--replicas", "2"][..],
            &["--replicas", "2", "--erasure", "2+1"],
            &["--poisson"],
            &["--seconds", "3", "--steady", "3"],
            &["plan.json", "--depth", "3"],
            &["--only", "4k"],
            &["--data", "1MiB"],
            &["--mode", "reed"],
            &["--cluster", "nacre"],
            &["--cluster", "nacre=n", "--conf", "ceph.conf"],
            &["plan.json", "--clients-max", "3"],
            &["--find-p99", "5", "--clients-max", "3"],
            &["--find-p99", "5", "--stop-gain", "3"],
            &["--load-max", "3"],
        ] {
            assert!(Cli::try_parse_from([&["nacre", "bench", "run"], args].concat()).is_err(), "{args:?}");
        }
    }
}
