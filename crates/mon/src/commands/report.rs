//! `ceph report`: everything about the cluster in one answer.

use super::context::{Context, stamp, with_status};
use super::{Answer, Outcome, absent, command::Command, crush_query, health, mon, osd_dump, pg_dump, services};
use crate::volatile::pg_state_text;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{OsdId, PoolId, crc32c};
use wire::nacre::mon::pg_state;

pub(super) const COMMANDS: &[Command] =
    &[Command::new("report {tags:String,n=N,req=false}", "r", "print everything about the cluster as JSON", report)];

/// Seed of the checksum that goes with a report, as a Ceph takes it.
const CHECKSUM_SEED: u32 = 6789;

fn report(c: &Context<'_>) -> Answer {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    // Tools compare fingerprints, and read nothing out of them. Nacre takes the cluster's id.
    put("cluster_fingerprint", json!(c.map().fsid.to_string()));
    put("version", json!(control::version::CEPH_RELEASE));
    put("commit", json!(control::version::COMMIT));
    put("timestamp", json!(stamp(c.request.now)));
    put("tag", json!(c.args.texts("tags").join(" ")));
    put("health", health::value(c, &health::report(c), true));
    put("monmap_first_committed", json!(1));
    put("monmap_last_committed", json!(c.state.monmap.epoch.0));
    put("monmap", mon::map_value(c));
    put("quorum", json!(mon::quorum(c)));
    put("osdmap", osd_dump::value(c.map()));
    put("osd_metadata", c.state.osd_metadata.iter().map(|(osd, said)| osd_metadata(*osd, said)).collect());
    put("osdmap_clean_epochs", clean_epochs(c));
    put("osdmap_first_committed", json!(c.state.osdmaps.oldest().0));
    put("osdmap_last_committed", json!(c.map().epoch.0));
    put("crushmap", crush_query::dump_value(c.crush()));
    put("fsmap", absent::file_systems());
    put("mdsmap_first_committed", json!(1));
    put("mdsmap_last_committed", json!(1));
    // Entities are changed by the same log as everything else.
    let secrets = c.state.auth.len();
    put("auth", json!({"first_committed": 1, "last_committed": c.state.applied, "num_secrets": secrets}));
    let groups = |bits: u64| c.volatile.pgs.values().filter(|pg| pg.report.state & bits != 0).count();
    put("num_pg", json!(c.volatile.pgs.len()));
    put("num_pg_active", json!(groups(pg_state::ACTIVE)));
    put("num_pg_unknown", json!(c.volatile.pgs.values().filter(|pg| pg.report.state == 0).count()));
    put("num_osd", json!(c.volatile.osds.len()));
    put("pool_sum", pg_dump::stats_value(c, None));
    put("osd_sum", pg_dump::osd_sum(c, |_| true));
    let classes = c.crush().classes().map(|(_, class)| {
        let of_class = c.crush().devices_of_class(class);
        (class.to_owned(), pg_dump::osd_sum(c, |osd| of_class.contains(&osd.0)))
    });
    put("osd_sum_by_class", Value::Object(classes.collect()));
    put("pool_stats", pg_dump::pools_value(c));
    put("osd_stats", c.volatile.osds.iter().map(|(osd, stat)| json!({"osd": osd.0, "seq": stat.seq()})).collect());
    let mut states: BTreeMap<u64, u64> = BTreeMap::new();
    c.volatile.pgs.values().for_each(|pg| *states.entry(pg.report.state).or_default() += 1);
    let state = |(state, num): (&u64, &u64)| json!({"state": pg_state_text(*state), "num": num});
    put("num_pg_by_state", states.iter().map(state).collect());
    put("num_pg_by_osd", groups_by_osd(c));
    let purged = |pool: &PoolId| json!({"pool": pool.0, "purged_snaps": {}});
    put("purged_snaps", c.map().pools.keys().map(purged).collect());
    put("servicemap", services::map_value(c));
    put("paxos", json!({"first_committed": 1, "last_committed": c.state.applied, "last_pn": 0, "accepted_pn": 0}));
    let answer = c.value(Value::Object(object))?;
    let status = match &answer {
        Outcome::Reply(reply) => format!("report {}", crc32c::update(CHECKSUM_SEED, &reply.output)),
        _ => String::new(),
    };
    with_status(Ok(answer), status)
}

fn osd_metadata(osd: OsdId, said: &BTreeMap<String, String>) -> Value {
    let mut object = Map::from_iter([("id".to_owned(), json!(osd.0))]);
    object.extend(said.iter().map(|(key, value)| (key.clone(), json!(value))));
    Value::Object(object)
}

/// Returns since when groups of each pool are known to be clean, and the maps that OSDs have.
fn clean_epochs(c: &Context<'_>) -> Value {
    let mut floors: BTreeMap<PoolId, u32> = BTreeMap::new();
    for (pg, stat) in &c.volatile.pgs {
        let floor = floors.entry(pg.pool).or_insert(u32::MAX);
        *floor = (*floor).min(stat.times.epoch_clean.0);
    }
    let pools: Vec<Value> = floors.iter().map(|(pool, floor)| json!({"poolid": pool.0, "floor": floor})).collect();
    let osds = c.volatile.osds.iter().map(|(osd, stat)| json!({"id": osd.0, "epoch": stat.epoch.0}));
    json!({
        "min_last_epoch_clean": floors.values().min().copied().unwrap_or(c.map().epoch.0),
        "last_epoch_clean": {"per_pool": pools},
        "osd_epochs": osds.collect::<Vec<_>>(),
    })
}

fn groups_by_osd(c: &Context<'_>) -> Value {
    let mut counts: BTreeMap<OsdId, [u64; 3]> = c.map().osds().map(|(osd, _)| (osd, [0; 3])).collect();
    for pg in c.volatile.pgs.values() {
        let acting = pg.acting_shown(c.map());
        let mut add = |osd: &OsdId, of: usize| {
            if let Some(count) = counts.get_mut(osd) {
                count[of] += 1;
            }
        };
        pg.primary().iter().for_each(|osd| add(osd, 0));
        acting.iter().for_each(|osd| add(osd, 1));
        pg.report.up.iter().filter(|osd| !acting.contains(osd)).for_each(|osd| add(osd, 2));
    }
    let one = |(osd, [primary, acting, up]): (&OsdId, &[u64; 3])| json!({"osd": osd.0, "num_primary_pg": primary, "num_acting_pg": acting, "num_up_not_acting_pg": up});
    counts.iter().map(one).collect()
}
