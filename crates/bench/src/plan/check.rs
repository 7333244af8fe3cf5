//! Checks of a plan's values. Every refusal names its field.

use std::collections::BTreeSet;

use super::{Cluster, Group, LIST_KEYS, Load, PLAN_VERSION, Plan, PlanError, Pool, Redundancy, Stop, Workload};
use crate::steady::SteadyRules;
use crate::tool::Tool;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Allowed sizes of an object, in bytes.
const OBJECT_BYTES: std::ops::RangeInclusive<u64> = 4 * KIB..=64 * MIB;
/// Sizes of operations are multiples of this: the block of both engines' stores.
const IO_UNIT_BYTES: u64 = 4 * KIB;
/// Largest number of blocks of a group. Writers remember 8 bytes for each: at most 2 GiB.
const BLOCKS_MAX: u64 = 1 << 28;
const WORKERS_MAX: u64 = 1 << 16;
const DAY_S: f64 = 86_400.0;
/// Largest growth that a stop rule may ask for.
const STOP_GAIN_PERCENT_MAX: f64 = 1000.0;

fn refuse<T>(field: impl Into<String>, reason: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError::Value { field: field.into(), reason: reason.into() })
}

fn within(field: String, value: u64, allowed: std::ops::RangeInclusive<u64>, unit: &str) -> Result<(), PlanError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    refuse(field, format!("{value} is not within {} to {}{unit}", allowed.start(), allowed.end()))
}

fn seconds(field: String, value: f64, least: f64) -> Result<(), PlanError> {
    if (least..=DAY_S).contains(&value) {
        return Ok(());
    }
    refuse(field, format!("{value} s is not within {least} to {DAY_S} s"))
}

fn percent(field: String, value: f64) -> Result<(), PlanError> {
    if value > 0.0 && value <= 100.0 {
        return Ok(());
    }
    refuse(field, format!("{value} % is not above 0 and up to 100 %"))
}

/// True for letters that names of plans, workloads and groups may have.
pub fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.".contains(letter)
}

/// A name with `-` for all letters that it may not have. It may be too long.
pub fn plain_name(name: &str) -> String {
    name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect()
}

/// Checks names, which stand in object names, file names and tables.
fn names<'a>(list: &str, names: impl Iterator<Item = &'a str>) -> Result<(), PlanError> {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        let field = format!("{list}[{index}].name");
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            return refuse(field, format!("{name:?} is not 1 to 64 letters, digits, '-', '_' or '.'"));
        }
        if !seen.insert(name) {
            return refuse(field, format!("{name:?} is there twice"));
        }
    }
    if seen.is_empty() {
        return refuse(list, "is empty");
    }
    Ok(())
}

impl Plan {
    /// Checks the rules that types cannot express.
    ///
    /// Errors: [`PlanError::Value`] for the first value that cannot be run.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.version != PLAN_VERSION {
            return Err(PlanError::Version(u64::from(self.version)));
        }
        if self.name.trim().is_empty() || self.name.len() > 200 {
            return refuse("name", "is not 1 to 200 bytes");
        }
        names("clusters", self.clusters.iter().map(|cluster| cluster.name.as_str()))?;
        for (index, Cluster { configuration, .. }) in self.clusters.iter().enumerate() {
            if configuration.is_empty() {
                return refuse(format!("clusters[{index}].configuration"), "is empty");
            }
        }
        names("pools", self.pools.iter().map(|pool| pool.name.as_str()))?;
        for (index, pool) in self.pools.iter().enumerate() {
            pool.check(&format!("pools[{index}]"))?;
        }
        names("workloads", self.workloads.iter().map(|workload| workload.name.as_str()))?;
        for (index, workload) in self.workloads.iter().enumerate() {
            let path = format!("workloads[{index}]");
            if !self.pools.iter().any(|pool| pool.name == workload.pool) {
                return refuse(format!("{path}.pool"), format!("no pool {:?} in pools", workload.pool));
            }
            workload.check(&path)?;
            self.check_bucket(workload, &path)?;
        }
        self.check_gateways()?;
        within("iterations".into(), u64::from(self.iterations), 1..=1000, "")?;
        if !(0.5..=0.999).contains(&self.confidence) {
            return refuse("confidence", format!("{} is not within 0.5 to 0.999", self.confidence));
        }
        if let Some(gain) = self.stop_gain_percent.filter(|gain| !(*gain > 0.0 && *gain <= STOP_GAIN_PERCENT_MAX)) {
            return refuse("stop_gain_percent", format!("{gain} is not above 0 and at most {STOP_GAIN_PERCENT_MAX}"));
        }
        Ok(())
    }
}

impl Plan {
    /// Checks the gateways, if a workload is one of S3.
    fn check_gateways(&self) -> Result<(), PlanError> {
        let Some(workload) = self.workloads.iter().find(|workload| workload.tool == Tool::NacreS3) else {
            return Ok(());
        };
        for (index, cluster) in self.clusters.iter().enumerate() {
            let field = format!("clusters[{index}].s3");
            let Some(gateway) = &cluster.s3 else {
                return refuse(field, format!("is missing, but workload {} needs a gateway", workload.name));
            };
            let is_address = |authority: &str| {
                authority.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
            };
            if !gateway.authority().is_some_and(is_address) {
                let reason = format!("{:?} is neither http://HOST:PORT nor https://HOST:PORT", gateway.endpoint);
                return refuse(format!("{field}.endpoint"), reason);
            }
            if gateway.ca.is_some() && !gateway.is_secure() {
                return refuse(format!("{field}.ca"), "is for an endpoint with https://");
            }
            if gateway.region.is_empty() || !gateway.region.chars().all(is_plain) {
                return refuse(format!("{field}.region"), format!("{:?} is no region", gateway.region));
            }
        }
        Ok(())
    }

    /// Checks the bucket of a workload, if it is one of S3.
    fn check_bucket(&self, workload: &Workload, path: &str) -> Result<(), PlanError> {
        if workload.tool != Tool::NacreS3 {
            return Ok(());
        }
        if self.pool(&workload.pool).is_some_and(|bucket| bucket.to_make().is_some()) {
            let reason = format!("{:?} is a bucket, for which the gateway chooses redundancy", workload.pool);
            return refuse(format!("{path}.pool"), reason);
        }
        let others = self.workloads.iter().any(|other| other.pool == workload.pool && other.tool != Tool::NacreS3);
        if others {
            return refuse(
                format!("{path}.pool"),
                format!("{:?} is a bucket here and a pool elsewhere", workload.pool),
            );
        }
        Ok(())
    }
}

impl Pool {
    fn check(&self, path: &str) -> Result<(), PlanError> {
        let (redundancy, pg_count) = match (self.redundancy, self.pg_count) {
            (None, None) => return Ok(()),
            (Some(redundancy), Some(pg_count)) => (redundancy, pg_count),
            (None, Some(_)) => {
                return refuse(format!("{path}.redundancy"), "is missing; a pool that is there has no pg_count either");
            }
            (Some(_), None) => {
                return refuse(format!("{path}.pg_count"), "is missing; a pool that is there has no redundancy either");
            }
        };
        match redundancy {
            Redundancy::Replicated { size } => {
                within(format!("{path}.redundancy.replicated.size"), u64::from(size), 1..=10, "")?;
            }
            Redundancy::Erasure { k, m } => {
                within(format!("{path}.redundancy.erasure.k"), u64::from(k), 2..=32, "")?;
                within(format!("{path}.redundancy.erasure.m"), u64::from(m), 1..=16, "")?;
            }
        }
        within(format!("{path}.pg_count"), u64::from(pg_count), 1..=65_536, "")?;
        if !pg_count.is_power_of_two() {
            return refuse(format!("{path}.pg_count"), format!("{pg_count} is not a power of two"));
        }
        Ok(())
    }
}

impl Workload {
    fn check(&self, path: &str) -> Result<(), PlanError> {
        names(&format!("{path}.groups"), self.groups.iter().map(|group| group.name.as_str()))?;
        for (index, group) in self.groups.iter().enumerate() {
            group.check(&format!("{path}.groups[{index}]"))?;
        }
        // A list is of all names that begin with the group's.
        let begins = |name: &str, with: &str| name.strip_prefix(with).is_some_and(|rest| rest.starts_with('.'));
        let is_mixed = |(_, group): &(usize, &Group)| {
            group.operations.list > 0 && self.groups.iter().any(|other| begins(&other.name, &group.name))
        };
        if let Some((index, group)) = self.groups.iter().enumerate().find(is_mixed) {
            let reason = format!("{:?} is listed, and another group's name goes on behind it with '.'", group.name);
            return refuse(format!("{path}.groups[{index}].name"), reason);
        }
        seconds(format!("{path}.warm_up_s"), self.warm_up_s, 0.0)?;
        if let Some((field, reason)) = self.tool.refusal(self) {
            return refuse(format!("{path}.{field}"), reason);
        }
        match self.stop {
            Stop::DurationS(duration_s) => seconds(format!("{path}.stop.duration_s"), duration_s, 0.1),
            Stop::Steady { round_s, rules } => {
                let path = format!("{path}.stop.steady");
                seconds(format!("{path}.round_s"), round_s, 0.1)?;
                let SteadyRules { window, range_percent, slope_percent, rounds_max } = rules;
                within(format!("{path}.rules.window"), u64::from(window), 2..=100, " rounds")?;
                within(
                    format!("{path}.rules.rounds_max"),
                    u64::from(rounds_max),
                    u64::from(window)..=10_000,
                    " rounds",
                )?;
                percent(format!("{path}.rules.range_percent"), range_percent)?;
                percent(format!("{path}.rules.slope_percent"), slope_percent)
            }
        }
    }
}

impl Group {
    fn check(&self, path: &str) -> Result<(), PlanError> {
        let field = |name: &str| format!("{path}.{name}");
        within(field("object_bytes"), self.object_bytes, OBJECT_BYTES, " bytes")?;
        if !self.object_bytes.is_multiple_of(IO_UNIT_BYTES) {
            return refuse(field("object_bytes"), format!("{} is not a multiple of 4096", self.object_bytes));
        }
        let io_bytes = self.io_bytes();
        within(field("io_bytes"), io_bytes, IO_UNIT_BYTES..=self.object_bytes, " bytes")?;
        if !io_bytes.is_multiple_of(IO_UNIT_BYTES) || !self.object_bytes.is_multiple_of(io_bytes) {
            let reason =
                format!("{io_bytes} is not a multiple of 4096 that divides object_bytes, {}", self.object_bytes);
            return refuse(field("io_bytes"), reason);
        }
        within(field("objects"), self.objects, 1..=BLOCKS_MAX, "")?;
        let operations = self.operations;
        let total: u64 = operations.by_name().into_iter().map(|(_, percent)| u64::from(percent)).sum();
        if total != 100 {
            return refuse(field("operations"), format!("the percentages add up to {total}, not 100"));
        }
        within(field("instances"), u64::from(self.instances), 1..=4096, "")?;
        match self.load {
            Load::Closed { queue_depth } => {
                within(field("load.closed.queue_depth"), u64::from(queue_depth), 1..=4096, "")?;
            }
            Load::Open { arrivals_per_s, in_flight_max, .. } => {
                if !(arrivals_per_s.is_finite() && (0.001..=1e8).contains(&arrivals_per_s)) {
                    let reason = format!("{arrivals_per_s} per second is not within 0.001 to 100000000");
                    return refuse(field("load.open.arrivals_per_s"), reason);
                }
                within(field("load.open.in_flight_max"), u64::from(in_flight_max), 1..=65_536, "")?;
            }
        }
        within(field("instances"), self.workers(), 1..=WORKERS_MAX, " workers (instances x operations in flight)")?;
        if self.blocks() > BLOCKS_MAX {
            let reason = format!("{} operations would cover the objects, at most {BLOCKS_MAX} may", self.blocks());
            return refuse(field("objects"), reason);
        }
        if self.blocks() < self.workers() {
            let reason = format!(
                "{} objects give {} places of {io_bytes} bytes, fewer than {} workers; each needs its own",
                self.objects,
                self.blocks(),
                self.workers()
            );
            return refuse(field("objects"), reason);
        }
        if operations.needs_objects() && !self.prefill() {
            return refuse(field("prefill"), "is false, but the group reads: there would be nothing to read");
        }
        within(field("list_keys"), self.list_keys().into(), 1..=LIST_KEYS.into(), " keys")?;
        if self.list_keys.is_some() && operations.list == 0 {
            return refuse(field("list_keys"), "is there, but the group lists nothing");
        }
        Ok(())
    }
}
