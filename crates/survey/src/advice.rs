//! Changes worth making.
//!
//! Each rule is a function that looks at the cluster and may advise one change with its evidence. Rules stand in the
//! order of their weight: what loses data comes before what ends writes, and that before what costs time.

use serde::Serialize;

use crate::cluster::{Cluster, Pool};
use crate::risk::Risk;
use crate::time::Kind;

/// Fullest OSD beside the mean from which on data is badly spread.
const IMBALANCE_MAX: f64 = 1.2;
/// Least fill at which imbalance matters.
const IMBALANCE_FILL_MIN: f64 = 0.2;
/// Groups (with all their copies) per OSD.
const PGS_PER_OSD: std::ops::RangeInclusive<u64> = 30..=300;
/// Least data per OSD for which few groups matter, in bytes.
const SPREAD_BYTES_MIN: f64 = 1e9;
/// An OSD whose commits take so many times the median's is slow.
const SLOW_FACTOR: f64 = 4.0;
/// Commits below this are never called slow, in ms.
const SLOW_MS_MIN: f64 = 5.0;
/// Share of the time from which on a hop is worth a change.
const HOP_SHARE_MIN: f64 = 0.35;

/// A change worth making.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// Name of the rule.
    pub id: &'static str,
    pub change: String,
    /// Facts that speak for it.
    pub evidence: String,
    /// A command that makes the change, or shows more; empty if there is none.
    pub command: String,
}

type Rule = fn(&Cluster, &Risk, &[Kind]) -> Option<Advice>;

const RULES: &[Rule] = &[
    osds_are_down,
    too_few_copies,
    writes_with_one_copy,
    nearly_full,
    no_room_for_a_host,
    few_monitors,
    copies_on_one_host,
    flags_are_set,
    slow_osd,
    imbalance,
    groups,
    versions,
    slowest_hop,
    other_problems,
];

/// All changes that rules advise, the most important first.
pub fn advice(cluster: &Cluster, risk: &Risk, time: &[Kind]) -> Vec<Advice> {
    RULES.iter().filter_map(|rule| rule(cluster, risk, time)).collect()
}

fn advise(id: &'static str, change: impl Into<String>, evidence: String, command: &str) -> Option<Advice> {
    Some(Advice { id, change: change.into(), evidence, command: command.into() })
}

/// Words of a list, of which at most some are named.
fn named(names: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 6;
    let names: Vec<String> = names.collect();
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

fn osds_are_down(cluster: &Cluster, _: &Risk, _: &[Kind]) -> Option<Advice> {
    let down: Vec<String> = cluster.osds.iter().filter(|osd| !osd.up).map(|osd| format!("osd.{}", osd.id)).collect();
    if down.is_empty() {
        return None;
    }
    let degraded = match cluster.copies > 0.0 {
        true => format!("; {:.1} % of copies are missing", cluster.degraded_copies / cluster.copies * 100.0),
        false => String::new(),
    };
    let evidence = format!("down: {}{degraded}", named(down.into_iter()));
    advise("osds-down", "Bring back the OSDs that are down, or replace their drives", evidence, "ceph osd tree down")
}

fn too_few_copies(cluster: &Cluster, _: &Risk, _: &[Kind]) -> Option<Advice> {
    let bare: Vec<String> = cluster
        .pools
        .iter()
        .filter(|pool| pool.protection.failures() < 2 && pool.stored_bytes > 0.0)
        .map(|pool| format!("{} ({})", pool.name, pool.protection.words()))
        .collect();
    if bare.is_empty() {
        return None;
    }
    let evidence =
        format!("a second failure during a rebuild, or a first one, loses data of {}", named(bare.into_iter()));
    let command = "ceph osd pool set POOL size 3";
    advise("few-copies", "Keep what is worth keeping so that it survives two failures", evidence, command)
}

fn writes_with_one_copy(cluster: &Cluster, _: &Risk, _: &[Kind]) -> Option<Advice> {
    let bold = |pool: &&Pool| pool.min_size <= pool.protection.needed() && pool.protection.failures() > 0;
    let names: Vec<String> = cluster.pools.iter().filter(bold).map(|pool| pool.name.clone()).collect();
    if names.is_empty() {
        return None;
    }
    let evidence = format!("min_size lets clients write what one more failure loses: {}", named(names.into_iter()));
    let command = "ceph osd pool set POOL min_size 2 (k + 1 with erasure coding)";
    advise("min-size", "Acknowledge no write that a single drive holds", evidence, command)
}

fn nearly_full(cluster: &Cluster, risk: &Risk, _: &[Kind]) -> Option<Advice> {
    let (osd, fill) = risk.fullest_osd.filter(|(_, fill)| *fill >= cluster.near_full)?;
    let evidence = format!(
        "osd.{osd} is {:.0} % full; at {:.0} % its pools take no more writes",
        fill * 100.0,
        cluster.full * 100.0
    );
    advise("nearly-full", "Add drives, or delete data, before writes end", evidence, "ceph osd df")
}

fn no_room_for_a_host(cluster: &Cluster, risk: &Risk, _: &[Kind]) -> Option<Advice> {
    let (host, fill) = risk.fill_without_host.as_ref().filter(|(_, fill)| *fill >= cluster.near_full)?;
    let evidence = format!("without host {host} the others would be {:.0} % full", fill * 100.0);
    advise("no-room-for-a-host", "Add capacity: the loss of a host cannot be healed", evidence, "ceph osd df tree")
}

fn few_monitors(cluster: &Cluster, _: &Risk, _: &[Kind]) -> Option<Advice> {
    let (all, alive) = (cluster.monitors, cluster.monitors_in_quorum);
    if all == 0 || (all >= 3 && alive == all) {
        return None;
    }
    let change =
        if alive < all { "Bring back the monitors that are away" } else { "Run three monitors, on three hosts" };
    let evidence = format!("{alive} of {all} monitors are in quorum; a majority must live for anything to go on");
    advise("monitors", change, evidence, "ceph mon stat")
}

fn copies_on_one_host(cluster: &Cluster, _: &Risk, _: &[Kind]) -> Option<Advice> {
    let hosts = cluster.hosts().len() as u64;
    let together = |pool: &&Pool| pool.failure_domain == "osd" && hosts >= pool.protection.size() && hosts > 1;
    let names: Vec<String> = cluster.pools.iter().filter(together).map(|pool| pool.name.clone()).collect();
    if names.is_empty() {
        return None;
    }
    let evidence =
        format!("copies may lie on drives of one host, though there are {hosts} hosts: {}", named(names.into_iter()));
    let command =
        "ceph osd crush rule create-replicated by-host default host; ceph osd pool set POOL crush_rule by-host";
    advise("failure-domain", "Place each copy on a host of its own", evidence, command)
}

fn flags_are_set(cluster: &Cluster, _: &Risk, _: &[Kind]) -> Option<Advice> {
    let hold = [
        "noout",
        "nodown",
        "noup",
        "noin",
        "nobackfill",
        "norebalance",
        "norecover",
        "noscrub",
        "nodeep-scrub",
        "pauserd",
        "pausewr",
    ];
    let set: Vec<String> = cluster.flags.iter().filter(|flag| hold.contains(&flag.as_str())).cloned().collect();
    if set.is_empty() {
        return None;
    }
    let evidence = format!("set: {}; healing or checking waits for as long as they stay", named(set.into_iter()));
    advise("flags", "Clear the flags that were set for maintenance", evidence, "ceph osd unset FLAG")
}

fn slow_osd(cluster: &Cluster, _: &Risk, _: &[Kind]) -> Option<Advice> {
    let mut times: Vec<(f64, i64)> = cluster.osds.iter().filter_map(|osd| Some((osd.commit_ms?, osd.id))).collect();
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    if times.len() < 3 {
        return None;
    }
    let (median, (slowest, id)) = (times[times.len() / 2].0, *times.last()?);
    if slowest < SLOW_MS_MIN || slowest < median * SLOW_FACTOR {
        return None;
    }
    let evidence = format!("osd.{id} commits in {slowest:.1} ms, the median OSD in {median:.1} ms; writes wait for it");
    advise("slow-osd", format!("Look at the drive of osd.{id}"), evidence, "nacre doctor (on its host)")
}

fn imbalance(_: &Cluster, risk: &Risk, _: &[Kind]) -> Option<Advice> {
    let over = risk.imbalance.filter(|over| *over > IMBALANCE_MAX)?;
    let (osd, fill) = risk.fullest_osd.filter(|(_, fill)| *fill >= IMBALANCE_FILL_MIN)?;
    let evidence = format!(
        "osd.{osd} is {:.0} % full, {over:.2} times the mean: the cluster is full when it is, {:.0} % of space are lost",
        fill * 100.0,
        (1.0 - 1.0 / over) * 100.0
    );
    advise("imbalance", "Spread data evenly", evidence, "ceph balancer on")
}

fn groups(cluster: &Cluster, _: &Risk, _: &[Kind]) -> Option<Advice> {
    let osds = cluster.osds.iter().filter(|osd| osd.is_in).count() as u64;
    let all: u64 = cluster.pools.iter().map(|pool| pool.pg_num * pool.protection.size()).sum();
    if osds == 0 || all == 0 {
        return None;
    }
    let each = all / osds;
    if PGS_PER_OSD.contains(&each) {
        return None;
    }
    let change = if each < *PGS_PER_OSD.start() {
        let stored: f64 = cluster.pools.iter().map(|pool| pool.stored_bytes).sum();
        if stored < SPREAD_BYTES_MIN * osds as f64 {
            return None;
        }
        "Give pools with data more placement groups: data and load spread badly"
    } else {
        "Give pools fewer placement groups: they cost memory, and time after failures"
    };
    let evidence = format!("{each} placement groups per OSD; 100 to 200 are usual");
    advise("placement-groups", change, evidence, "ceph osd pool autoscale-status")
}

fn versions(cluster: &Cluster, _: &Risk, _: &[Kind]) -> Option<Advice> {
    if cluster.versions.len() < 2 {
        return None;
    }
    let evidence = named(cluster.versions.iter().map(|(version, count)| format!("{count} of {version}")));
    advise("versions", "End the upgrade: daemons are of several versions", evidence, "ceph versions")
}

/// The hop that takes most, in the words of Nacre's OSDs and of Ceph's.
fn slowest_hop(_: &Cluster, _: &Risk, time: &[Kind]) -> Option<Advice> {
    let largest = |kind: &Kind| kind.breakdown.largest().map(|hop| (hop.share, hop.hop.clone(), kind.name));
    let (share, hop, kind) = time.iter().filter_map(largest).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let change = match hop.as_str() {
        "flush" => "Use drives whose cache is protected against loss of power, or a log on such a drive",
        "write" | "queue" => "Spread writes over more drives, or put log and metadata on faster ones",
        "read" | "lookup" => "Give OSDs more memory, or data more drives: reads wait for drives",
        "replicas" | "sub_op_commit_rec" | "commit_sent" => {
            "Look at the slowest member and at the network: primaries wait for other OSDs"
        }
        "wait" | "queued_for_pg" | "reached_pg" => "Add OSDs, or limit clients: operations wait before they are begun",
        "receive" | "answer" | "throttled" | "all_read" => "Look at the clients' network: bytes come or go slowly",
        _ => "Look at what operations wait for",
    };
    if share < HOP_SHARE_MIN {
        return None;
    }
    let evidence = format!("{:.0} % of the time of {kind} goes into '{hop}'", share * 100.0);
    advise("slowest-hop", change, evidence, "nacre why")
}

/// Problems that monitors tell and no rule above is about.
fn other_problems(cluster: &Cluster, _: &Risk, _: &[Kind]) -> Option<Advice> {
    const TOLD: [&str; 10] = [
        "OSD_DOWN",
        "OSD_HOST_DOWN",
        "OSD_ROOT_DOWN",
        "PG_DEGRADED",
        "OSD_NEARFULL",
        "POOL_NEARFULL",
        "OSDMAP_FLAGS",
        "MON_DOWN",
        "TOO_FEW_PGS",
        "TOO_MANY_PGS",
    ];
    let others: Vec<String> = cluster
        .problems
        .iter()
        .filter(|(code, _)| !TOLD.contains(&code.as_str()))
        .map(|(code, words)| format!("{code}: {words}"))
        .collect();
    if others.is_empty() {
        return None;
    }
    advise("health", "See to what the monitors tell", named(others.into_iter()), "ceph health detail")
}
