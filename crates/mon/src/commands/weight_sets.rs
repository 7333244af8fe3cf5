//! `ceph osd crush weight-set`: weights that CRUSH uses in place of the hierarchy's own, for one pool or for all.

use super::command::Command;
use super::context::{Context, weight};
use super::{Answer, Reply, done, refuse};
use crush::{CrushMap, DEFAULT_CHOOSE_ARGS, fixed_weight};
use osdmap::OsdMap;
use serde_json::{Map, Value, json};
use types::{Errno, PoolId};
use wire::Release;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("osd crush weight-set ls", "r", "list weight sets", list),
    Command::new("osd crush weight-set dump", "r", "print weight sets", |c| c.value(dump_value(c.crush()))),
    Command::new(
        "osd crush weight-set create-compat",
        "rw",
        "make a weight set that counts for all pools without one of their own",
        |c| create(c, DEFAULT_CHOOSE_ARGS, 1, "compat weight-set already created"),
    ),
    Command::new(
        "osd crush weight-set create {pool:Poolname} {mode:Choices,strings=flat|positional}",
        "rw",
        "make a weight set for a pool: one weight for each item, or one for each place of a copy",
        create_for_pool,
    ),
    Command::new("osd crush weight-set rm-compat", "rw", "remove the weight set that counts for all pools", |c| {
        remove(c, DEFAULT_CHOOSE_ARGS)
    }),
    Command::new("osd crush weight-set rm {pool:Poolname}", "rw", "remove the weight set of a pool", |c| {
        remove(c, pool(c)?.0.0)
    }),
    Command::new(
        "osd crush weight-set reweight-compat {item:String} {weight:Float,range=0.0,n=N}",
        "rw",
        "set an item's weight in the weight set that counts for all pools",
        |c| reweight(c, DEFAULT_CHOOSE_ARGS, || "no backward-compatible weight-set".to_owned()),
    ),
    Command::new(
        "osd crush weight-set reweight {pool:Poolname} {item:String} {weight:Float,range=0.0,n=N}",
        "rw",
        "set an item's weights in the weight set of a pool",
        |c| {
            let (id, name) = pool(c)?;
            reweight(c, id.0, || format!("no weight-set for pool '{name}'"))
        },
    ),
];

/// Returns the name of a weight set: its pool's, or `(compat)`.
pub(super) fn name(map: &OsdMap, index: i64) -> String {
    match index {
        DEFAULT_CHOOSE_ARGS => "(compat)".to_owned(),
        pool => map.pool_name(PoolId(pool)).map_or_else(|| pool.to_string(), str::to_owned),
    }
}

/// Returns all weight sets as a value.
pub(super) fn dump_value(crush: &CrushMap) -> Value {
    let mut object = Map::new();
    for (pool, args) in crush.choose_args() {
        let entries = args.iter().map(|(bucket, arg)| {
            let mut entry = Map::new();
            entry.insert("bucket_id".to_owned(), json!(bucket));
            if !arg.weight_sets.is_empty() {
                let sets: Vec<Vec<f64>> =
                    arg.weight_sets.iter().map(|set| set.iter().map(|w| weight(*w)).collect()).collect();
                entry.insert("weight_set".to_owned(), json!(sets));
            }
            if !arg.ids.is_empty() {
                entry.insert("ids".to_owned(), json!(arg.ids));
            }
            Value::Object(entry)
        });
        object.insert(pool.to_string(), entries.collect());
    }
    Value::Object(object)
}

fn list(c: &Context<'_>) -> Answer {
    let names: Vec<String> = c.crush().choose_args().map(|(index, _)| name(c.map(), index)).collect();
    c.either(|| names.iter().map(|name| format!("{name}\n")).collect(), || json!(names))
}

fn pool<'a>(c: &'a Context<'_>) -> Result<(PoolId, &'a str), Reply> {
    let name = c.args.word("pool");
    let found = c.map().pool_by_name(name);
    found.map(|id| (id, name)).ok_or_else(|| Reply::error(Errno::ENOENT, format!("pool '{name}' not found")))
}

fn has(crush: &CrushMap, index: i64) -> bool {
    crush.choose_args().any(|(other, _)| other == index)
}

fn create(c: &Context<'_>, index: i64, places: usize, exists: &str) -> Answer {
    if has(c.crush(), index) {
        return done(exists);
    }
    c.change_crush("", |crush| crush.create_weight_set(index, places).map(drop))
}

fn create_for_pool(c: &Context<'_>) -> Answer {
    let (id, name) = pool(c)?;
    let oldest = c.map().require_min_compat_client;
    if oldest < Release::LUMINOUS {
        let sentence = format!(
            "require_min_compat_client {} < luminous, which is required for per-pool weight-sets. Try 'ceph osd \
             set-require-min-compat-client luminous' before using the new interface",
            oldest.name()
        );
        return refuse(Errno::EPERM, sentence);
    }
    let places = match c.args.word("mode") {
        "flat" => 1,
        _ => c.map().pools[&id].size.into(),
    };
    create(c, id.0, places, &format!("weight-set for pool '{name}' already created"))
}

fn remove(c: &Context<'_>, index: i64) -> Answer {
    c.change_crush("", |crush| {
        crush.remove_weight_set(index);
        Ok(())
    })
}

fn reweight(c: &Context<'_>, index: i64, is_missing: impl Fn() -> String) -> Answer {
    let sets = c.crush().choose_args().find(|(other, _)| *other == index);
    let Some((_, sets)) = sets else { return refuse(Errno::ENOENT, is_missing()) };
    let item = c.args.word("item");
    let Some(id) = c.crush().id(item) else {
        return refuse(Errno::ENOENT, format!("item '{item}' does not exist"));
    };
    let weights: Result<Vec<u32>, _> = c.args.floats("weight").into_iter().map(fixed_weight).collect();
    let weights = weights.map_err(|e| super::context::build_error(&e))?;
    if weights.len() != sets.positions() {
        return refuse(Errno::EINVAL, format!("must specify exact {} weight values", sets.positions()));
    }
    if c.crush().buckets().all(|bucket| !bucket.items.contains(&id)) {
        return refuse(Errno::ENOENT, format!("item {id} not found in crush map"));
    }
    c.change_crush("", |crush| crush.reweight_in_weight_set(index, item, &weights).map(drop))
}
