//! The spread of placement groups' copies and of data over OSDs, and weights that even it out.

use super::command::Command;
use super::context::{Context, short_float, weight};
use super::{Answer, Outcome, Reply, refuse};
use osdmap::{OsdMap, PgMapping, WEIGHT_IN};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, OsdId, PoolId};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("osd utilization", "r", "print how evenly placement groups are spread", utilization),
    Command::new(
        "osd reweight-by-utilization {oload:Int,req=false} {max_change:Float,req=false} {max_osds:Int,req=false} \
         {no_increasing:Bool,req=false}",
        "rw",
        "lower the weights of OSDs that are fuller than others, and raise those of others that were lowered",
        |c| reweight(c, Measure::Fullness, true),
    ),
    Command::new(
        "osd test-reweight-by-utilization {oload:Int,req=false} {max_change:Float,req=false} \
         {max_osds:Int,req=false} {no_increasing:Bool,req=false}",
        "r",
        "print what osd reweight-by-utilization would do",
        |c| reweight(c, Measure::Fullness, false),
    ),
    Command::new(
        "osd reweight-by-pg {oload:Int,req=false} {max_change:Float,req=false} {max_osds:Int,req=false} \
         {pools:Poolname,n=N,req=false}",
        "rw",
        "lower the weights of OSDs with more placement groups than others, and raise those of others that were lowered",
        |c| reweight(c, Measure::Groups(pools(c)?), true),
    ),
    Command::new(
        "osd test-reweight-by-pg {oload:Int,req=false} {max_change:Float,req=false} {max_osds:Int,req=false} \
         {pools:Poolname,n=N,req=false}",
        "r",
        "print what osd reweight-by-pg would do",
        |c| reweight(c, Measure::Groups(pools(c)?), false),
    ),
];

/// Share of the average, in percent, from which on an OSD counts as too full.
const OVERLOAD_PERCENT: i64 = 120;
/// Most by which a weight changes, and most OSDs whose weights change.
const CHANGE_MAX: f64 = 0.05;
const OSDS_MAX: i64 = 4;
/// Least average use of the OSDs; below it, their fullness says nothing.
const USED_BYTES_MIN: u64 = 100 << 20;
/// Fewest copies of groups per OSD, on average; below it, their spread says nothing.
const COPIES_MIN: u64 = 10;
/// Linux' number for an argument out of a function's domain.
const EDOM: i32 = 33;

/// The measure by which an OSD has more than its share.
enum Measure {
    Fullness,
    /// The copies of groups, of these pools or of all, by its weight in the hierarchy.
    Groups(Pools),
}

/// Pools that count; `None`: all do.
type Pools = Option<BTreeSet<PoolId>>;

impl Measure {
    fn pools(&self) -> &Pools {
        match self {
            Measure::Fullness => &None,
            Measure::Groups(pools) => pools,
        }
    }

    /// The last words of a refusal.
    fn failed(&self) -> &'static str {
        match self {
            Measure::Fullness => "FAILED reweight-by-utilization",
            Measure::Groups(_) => "FAILED reweight-by-pg",
        }
    }
}

/// Returns the pools that the arguments name, `None` if they name none.
fn pools(c: &Context<'_>) -> Result<Pools, Reply> {
    let names = c.args.texts("pools");
    let known = |name: &&str| {
        let found = c.map().pool_by_name(name);
        found.ok_or_else(|| Reply::error(Errno::ENOENT, format!("pool '{name}' does not exist")))
    };
    let pools: BTreeSet<PoolId> = names.iter().map(known).collect::<Result<_, _>>()?;
    Ok(Some(pools).filter(|pools| !pools.is_empty()))
}

/// Copies of placement groups on the OSDs that are in.
struct Copies {
    on: BTreeMap<OsdId, u64>,
    /// Copies that there should be.
    all: u64,
}

impl Copies {
    fn of(map: &OsdMap, mapping: &PgMapping, pools: &Pools) -> Copies {
        let counts = |pool: PoolId| pools.as_ref().is_none_or(|pools| pools.contains(&pool));
        let mut on: BTreeMap<OsdId, u64> = map.osds().filter(|(id, _)| map.is_in(*id)).map(|(id, _)| (id, 0)).collect();
        let places = mapping.iter().filter(|(pg, _)| counts(pg.pool));
        for osd in places.flat_map(|(_, place)| &place.up) {
            if let Some(count) = on.get_mut(osd) {
                *count += 1;
            }
        }
        let pools = map.pools.iter().filter(|(id, _)| counts(**id)).map(|(_, pool)| pool);
        let all = pools.map(|pool| u64::from(pool.pg_num) * u64::from(pool.size)).sum();
        Copies { on, all }
    }

    fn osds(&self) -> f64 {
        self.on.len().max(1) as f64
    }

    fn mean(&self) -> f64 {
        self.all as f64 / self.osds()
    }

    fn deviation(&self) -> f64 {
        (self.on.values().map(|n| (*n as f64 - self.mean()).powi(2)).sum::<f64>() / self.osds()).sqrt()
    }

    /// Returns the deviation to be expected by chance.
    fn expected_deviation(&self) -> f64 {
        (self.mean() * (1.0 - 1.0 / self.osds())).sqrt()
    }

    /// Returns the OSDs with the fewest and with the most copies, and these numbers; `None` where no OSD is in.
    fn extremes(&self) -> Option<[(OsdId, u64); 2]> {
        let least = self.on.iter().min_by_key(|(_, n)| **n)?;
        let most = self.on.iter().rev().max_by_key(|(_, n)| **n)?;
        Some([least, most].map(|(osd, n)| (*osd, *n)))
    }

    fn share(&self, n: u64) -> String {
        short_float(if self.all == 0 { 0.0 } else { n as f64 / self.mean() })
    }
}

fn utilization(c: &Context<'_>) -> Answer {
    let copies = Copies::of(c.map(), &PgMapping::compute(c.map()), &None);
    let text = || {
        let numbers = [copies.mean(), copies.deviation(), copies.expected_deviation()].map(short_float);
        let [mean, deviation, expected] = numbers;
        let mut out = format!("avg {mean}\nstddev {deviation} (expected baseline {expected})\n");
        for (word, (osd, n)) in ["min", "max"].into_iter().zip(copies.extremes().into_iter().flatten()) {
            out += &format!("{word} {osd} with {n} pgs ({} * mean)\n", copies.share(n));
        }
        out
    };
    let value = || {
        let [(min_osd, min_pgs), (max_osd, max_pgs)] = copies.extremes().unwrap_or([(OsdId(-1), 0); 2]);
        json!({
            "avg_pgs": copies.mean(),
            "std_dev": copies.deviation(),
            "expected_baseline_std_dev": copies.expected_deviation(),
            "min_osd": min_osd.0,
            "min_osd_pgs": min_pgs,
            "max_osd": max_osd.0,
            "max_osd_pgs": max_pgs,
        })
    };
    c.either(text, value)
}

/// Limits that an operator sets to the evening out.
struct Limits {
    overload_percent: i64,
    change_max: f64,
    osds_max: usize,
    may_raise: bool,
}

impl Limits {
    fn of(c: &Context<'_>, measure: &Measure) -> Result<Limits, Reply> {
        let overload_percent = c.args.int("oload").unwrap_or(OVERLOAD_PERCENT);
        let configured = c.state.mon_number("mon_reweight_max_change").filter(|change: &f64| *change > 0.0);
        let change_max = c.args.float("max_change").or(configured).unwrap_or(CHANGE_MAX);
        let configured = c.state.mon_number("mon_reweight_max_osds").filter(|osds: &i64| *osds > 0);
        let osds_max = c.args.int("max_osds").or(configured).unwrap_or(OSDS_MAX);
        if change_max <= 0.0 {
            return refuse(Errno::EINVAL, format!("max_change {} must be positive", short_float(change_max)));
        }
        if osds_max <= 0 {
            return refuse(Errno::EINVAL, format!("max_osds {osds_max} must be positive"));
        }
        if overload_percent <= 100 {
            let sentence = "You must give a percentage higher than 100. The reweighting threshold will be calculated \
                            as <average-utilization> times <input-percentage>. For example, an argument of 200 would \
                            reweight OSDs which are twice as utilized as the average OSD.";
            return refuse(Errno::EINVAL, format!("{sentence}\n{}", measure.failed()));
        }
        let may_raise = match measure {
            Measure::Fullness => !c.args.flag("no_increasing"),
            Measure::Groups(_) => true,
        };
        Ok(Limits { overload_percent, change_max, osds_max: osds_max as usize, may_raise })
    }
}

/// Weights to be changed, and the reason.
struct Reweights {
    average: f64,
    overload: f64,
    /// OSD, weight and new weight in 16.16 fixed point, the fullest OSD first.
    changes: Vec<(OsdId, u32, u32)>,
}

impl Reweights {
    fn make(c: &Context<'_>, limits: &Limits, measure: &Measure) -> Result<Reweights, Reply> {
        let (average, use_of) = match measure {
            Measure::Fullness => fullness(c)?,
            Measure::Groups(pools) => groups_by_weight(c, pools)?,
        };
        let overload = average * limits.overload_percent as f64 / 100.0;
        let step = (limits.change_max.min(1.0) * f64::from(WEIGHT_IN)) as u32;
        let mut changes = Vec::new();
        for (osd, utilization) in use_of {
            let old = c.map().weight(osd);
            let fair = (average / utilization * f64::from(old)) as u32;
            let new = match () {
                () if utilization >= overload => fair.max(old.saturating_sub(step)),
                () if limits.may_raise && utilization <= average => fair.min(old + step).min(WEIGHT_IN),
                () => old,
            };
            if new != old {
                changes.push((osd, old, new));
            }
        }
        changes.truncate(limits.osds_max);
        Ok(Reweights { average, overload, changes })
    }
}

/// An average, and the OSDs with what they have to compare with it, those with the most first.
type Use = (f64, Vec<(OsdId, f64)>);

fn refused(measure: &Measure, has: String) -> Reply {
    let status = format!("Refusing to reweight: we only have {has} osds!\n{}", measure.failed());
    Reply { code: -EDOM, status, ..Reply::default() }
}

/// Returns the shares of drives that are used.
fn fullness(c: &Context<'_>) -> Result<Use, Reply> {
    let stats = c.volatile.osds.iter().filter(|(osd, _)| c.map().is_in(**osd));
    let space = stats.map(|(osd, stat)| (*osd, stat.stats.total_bytes, stat.stats.free_bytes));
    let space =
        space.filter(|(_, total, _)| *total > 0).map(|(osd, total, free)| (osd, total.saturating_sub(free), total));
    let space: Vec<(OsdId, u64, u64)> = space.collect();
    let (used, total) = space.iter().fold((0, 0), |(a, b), (_, used, total)| (a + used, b + total));
    let used_min: u64 = c.state.mon_number("mon_reweight_min_bytes_per_osd").unwrap_or(USED_BYTES_MIN);
    if total == 0 || used < used_min.saturating_mul(space.len() as u64) {
        return Err(refused(&Measure::Fullness, format!("{} kb used across all", used >> 10)));
    }
    let mut osds: Vec<_> = space.iter().map(|(osd, used, total)| (*osd, *used as f64 / *total as f64)).collect();
    osds.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    Ok((used as f64 / total as f64, osds))
}

/// Returns the copies of groups by weight in the hierarchy.
fn groups_by_weight(c: &Context<'_>, pools: &Pools) -> Result<Use, Reply> {
    let mut copies: BTreeMap<OsdId, u64> = BTreeMap::new();
    let groups = c.volatile.pgs.iter().filter(|(pg, _)| pools.as_ref().is_none_or(|pools| pools.contains(&pg.pool)));
    for osd in groups.flat_map(|(_, pg)| pg.acting_shown(c.map())).filter(|osd| c.map().is_in(**osd)) {
        *copies.entry(*osd).or_default() += 1;
    }
    let weight_of = |osd: &OsdId| weight(c.crush().item_weight(osd.0).unwrap_or(0));
    let weighted: Vec<(OsdId, u64, f64)> =
        copies.iter().map(|(osd, n)| (*osd, *n, weight_of(osd))).filter(|(_, _, weight)| *weight > 0.0).collect();
    let (all, weights) = weighted.iter().fold((0, 0.0), |(n, sum), (_, copies, weight)| (n + copies, sum + weight));
    // A Ceph has its manager read this one.
    let option = "mon_reweight_min_pgs_per_osd";
    let of_manager = c.state.manager_option(&c.volatile.name, option).and_then(|text| text.parse().ok());
    let least: u64 = of_manager.or_else(|| c.state.mon_number(option)).unwrap_or(COPIES_MIN);
    let osds = weighted.len() as u64;
    if osds == 0 || all / osds < least {
        return Err(refused(&Measure::Groups(None), format!("{all} PGs across {osds}")));
    }
    let mut by_use: Vec<_> = weighted.iter().rev().map(|(osd, n, weight)| (*osd, *n as f64 / weight)).collect();
    by_use.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    Ok((all as f64 / weights, by_use))
}

fn reweight(c: &Context<'_>, measure: Measure, really: bool) -> Answer {
    let limits = Limits::of(c, &measure)?;
    let plan = Reweights::make(c, &limits, &measure)?;
    let mut incremental = c.state.next_incremental(c.request.now);
    for (osd, _, new) in &plan.changes {
        incremental.new_weight.insert(*osd, *new);
        incremental.new_last_in_change = incremental.modified;
    }
    let mut next = c.map().clone();
    next.apply(&incremental).map_err(|e| Reply::error(Errno::EINVAL, e.to_string()))?;
    let output = printed(c, (&limits, &measure), &plan, &next)?;
    let reply = |status: &str| Reply { status: status.to_owned(), ..output.clone() };
    if !really || plan.changes.is_empty() {
        return Ok(Outcome::Reply(reply("no change")));
    }
    c.propose(c.state.osd_update(incremental).into_iter().collect(), reply(""))
}

/// Returns the answer: the copies that move, and the weights.
fn printed(
    c: &Context<'_>,
    (limits, measure): (&Limits, &Measure),
    plan: &Reweights,
    next: &OsdMap,
) -> Result<Reply, Reply> {
    let (before, after) = (PgMapping::compute(c.map()), PgMapping::compute(next));
    let counts = |pg: types::PgId| measure.pools().as_ref().is_none_or(|pools| pools.contains(&pg.pool));
    let gone = |((pg, old), (_, new)): ((types::PgId, &osdmap::UpActing), (_, &osdmap::UpActing))| match counts(pg) {
        false => 0,
        true => old.up.iter().filter(|osd| osd.is_some() && !new.up.contains(osd)).count(),
    };
    let moved: usize = before.iter().zip(after.iter()).map(gone).sum();
    let (old, new) = (Copies::of(c.map(), &before, measure.pools()), Copies::of(next, &after, measure.pools()));
    let extremes = old.extremes().unwrap_or([(OsdId(-1), 0); 2]);
    let [min, max] = extremes.map(|(osd, n)| (osd, n, new.on.get(&osd).copied().unwrap_or(0)));
    let text = || {
        let percent = short_float(moved as f64 * 100.0 / old.all.max(1) as f64);
        let mut out = format!("moved {moved} / {} ({percent}%)\navg {}\n", old.all, short_float(old.mean()));
        let deviations = [old.deviation(), new.deviation(), old.expected_deviation()].map(short_float);
        out += &format!("stddev {} -> {} (expected baseline {})\n", deviations[0], deviations[1], deviations[2]);
        for (word, (osd, a, b)) in [("min", min), ("max", max)] {
            let (share, next_share) = (old.share(a), old.share(b));
            out += &format!("{word} {osd} with {a} -> {b} pgs ({share} -> {next_share} * mean)\n");
        }
        out += &format!("\noload {}\nmax_change {}\n", limits.overload_percent, short_float(limits.change_max));
        out += &format!("max_change_osds {}\n", limits.osds_max);
        out += &format!("average_utilization {:.4}\noverload_utilization {:.4}\n", plan.average, plan.overload);
        for (osd, from, to) in &plan.changes {
            out += &format!("{osd} weight {:.4} -> {:.4}\n", weight(*from), weight(*to));
        }
        out
    };
    let value = || {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
        put("overload_min", json!(limits.overload_percent));
        put("max_change", json!(limits.change_max));
        put("max_change_osds", json!(limits.osds_max));
        put("average_utilization", json!(plan.average));
        put("overload_utilization", json!(plan.overload));
        let change = |(osd, from, to): &(OsdId, u32, u32)| {
            let (from, to) = (weight(*from), weight(*to));
            json!({"osd": osd.0, "weight": from, "new_weight": to})
        };
        put("reweights", plan.changes.iter().map(change).collect());
        let utilization = json!({
            "moved_pgs": moved,
            "total_pgs": old.all,
            "avg_pgs": old.mean(),
            "std_dev": old.deviation(),
            "expected_baseline_std_dev": old.expected_deviation(),
            "new_std_dev": new.deviation(),
            "min_osd": min.0.0,
            "min_osd_pgs": min.1,
            "new_min_osd_pgs": min.2,
            "max_osd": max.0.0,
            "max_osd_pgs": max.1,
            "new_max_osd_pgs": max.2,
        });
        put("utilization", utilization);
        Value::Object(object)
    };
    match c.either(text, value)? {
        Outcome::Reply(reply) => Ok(reply),
        _ => unreachable!("it only prints"),
    }
}
