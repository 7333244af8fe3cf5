//! Plans of the balancer: changes of placement that an operator has made, looks at, and carries out or forgets.
//!
//! They are kept beside options (`ceph config-key`), so that they outlast the monitor that made them.

use super::command::Command;
use super::context::Context;
use super::{Answer, Reply, done, refuse};
use crate::balancer::{BalancerSettings, MODE_UPMAP, obstacle, score_of};
use crate::update::Update;
use osdmap::{BalanceLimits, Incremental, OsdMap, PgMapping, UpmapChanges, balance};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use types::{Errno, OsdId, PgId, PoolId};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("balancer ls", "r", "list plans", |c| c.value(json!(names(c)))),
    Command::new(
        "balancer optimize {plan:String} {pools:String,n=N,req=false}",
        "rw",
        "make a plan that spreads placement groups more evenly",
        optimize,
    ),
    Command::new("balancer show {plan:String}", "r", "print what kind a plan is of", |c| {
        find(c)?;
        c.text("upmap plan\n")
    }),
    Command::new("balancer dump {plan:String}", "r", "print the changes of a plan", |c| {
        c.text(super::Format::JsonPretty.render(&find(c)?.value(c)) + "\n")
    }),
    Command::new("balancer execute {plan:String}", "rw", "carry a plan out", execute),
    Command::new("balancer rm {plan:String}", "rw", "forget a plan", |c| forget(c, |plan| plan == c.args.word("plan"))),
    Command::new("balancer reset", "rw", "forget all plans", |c| forget(c, |_| true)),
];

/// Where plans are kept.
const KEYS: &str = "mgr/balancer/plan/";
/// Most plans, and bytes of one.
const PLANS_MAX: usize = 32;
const PLAN_BYTES_MAX: usize = 64 << 10;
const NAME_BYTES_MAX: usize = 128;

/// Changes of placement.
pub(super) struct Plan(UpmapChanges);

/// Returns the names of all plans.
pub(super) fn names<'a>(c: &Context<'a>) -> Vec<&'a str> {
    let keys = c.state.config_keys.range(KEYS.to_owned()..).map(|(key, _)| key.as_str());
    keys.map_while(|key| key.strip_prefix(KEYS)).collect()
}

/// Returns a plan by its name.
pub(super) fn plan(c: &Context<'_>, name: &str) -> Option<Plan> {
    let kept = c.state.config_keys.get(&format!("{KEYS}{name}"))?;
    Plan::read(&serde_json::from_slice(kept).ok()?)
}

fn find(c: &Context<'_>) -> Result<Plan, Reply> {
    let name = c.args.word("plan");
    plan(c, name).ok_or_else(|| Reply::error(Errno::ENOENT, format!("plan {name} not found")))
}

impl Plan {
    fn read(value: &Value) -> Option<Plan> {
        let pg = |value: &Value| value.as_str()?.parse::<PgId>().ok();
        let osd = |value: &Value| Some(OsdId(i32::try_from(value.as_i64()?).ok()?));
        let groups = |key: &str| value[key].as_array()?.iter().map(pg).collect::<Option<BTreeSet<PgId>>>();
        let items = value["new_pg_upmap_items"].as_array()?.iter().map(|item| {
            let exchanges = item["mappings"].as_array()?.iter();
            let exchanges = exchanges.map(|pair| Some((osd(&pair["from"])?, osd(&pair["to"])?)));
            Some((pg(&item["pgid"])?, exchanges.collect::<Option<_>>()?))
        });
        Some(Plan(UpmapChanges {
            items: items.collect::<Option<_>>()?,
            removed_items: groups("old_pg_upmap_items")?,
            removed_explicit: groups("old_pg_upmap")?,
            moved_copies: 0,
        }))
    }

    /// The plan as increments of OSD maps are printed.
    fn value(&self, c: &Context<'_>) -> Value {
        let texts = |groups: &BTreeSet<PgId>| groups.iter().map(PgId::to_string).collect::<Vec<_>>();
        let items = self.0.items.iter().map(|(pg, exchanges)| {
            let mappings: Vec<Value> = exchanges.iter().map(|(from, to)| json!({"from": from.0, "to": to.0})).collect();
            json!({"pgid": pg.to_string(), "mappings": mappings})
        });
        json!({
            "fsid": c.map().fsid.to_string(),
            "new_pg_upmap_items": items.collect::<Vec<_>>(),
            "old_pg_upmap_items": texts(&self.0.removed_items),
            "old_pg_upmap": texts(&self.0.removed_explicit),
        })
    }

    /// Returns the change of the map that the plan is. Error: it names groups or OSDs that are not there any more.
    fn incremental(&self, c: &Context<'_>) -> Result<Incremental, Reply> {
        let mut groups = self.0.items.keys().chain(&self.0.removed_items).chain(&self.0.removed_explicit);
        let mut osds = self.0.items.values().flatten().flat_map(|(from, to)| [*from, *to]);
        let gone_group = groups.find(|pg| !c.map().has_pg(**pg)).map(PgId::to_string);
        let gone_osd = osds.find(|osd| !c.map().exists(*osd)).map(|osd| osd.to_string());
        if let Some(gone) = gone_group.or(gone_osd) {
            return refuse(Errno::ENOENT, format!("the plan is out of date: {gone} does not exist any more"));
        }
        let mut incremental = c.state.next_incremental(c.request.now);
        self.0.add_to(&mut incremental);
        Ok(incremental)
    }

    /// Returns the map that the plan leads to. Error: as of [`Plan::incremental`].
    pub fn carried_out(&self, c: &Context<'_>) -> Result<OsdMap, Reply> {
        let mut map = c.map().clone();
        map.apply(&self.incremental(c)?).map_err(|e| Reply::error(Errno::EINVAL, e.to_string()))?;
        Ok(map)
    }
}

fn settings(c: &Context<'_>) -> BalancerSettings {
    BalancerSettings::of(c.state, &c.volatile.name)
}

/// A balancer that works by itself would undo what an operator plans.
fn refuse_while_on(c: &Context<'_>, to: &str) -> Result<(), Reply> {
    match settings(c).active {
        true => refuse(Errno::EINVAL, format!("Balancer enabled, disable to {to}")),
        false => Ok(()),
    }
}

fn optimize(c: &Context<'_>) -> Answer {
    refuse_while_on(c, "optimize manually")?;
    let (name, wanted) = (c.args.word("plan"), c.args.texts("pools"));
    let known = |name: &&str| c.map().pool_by_name(name);
    let unknown: Vec<String> =
        wanted.iter().filter(|name| known(name).is_none()).map(|name| format!("'{name}'")).collect();
    if !unknown.is_empty() {
        return refuse(Errno::EINVAL, format!("pools [{}] not found", unknown.join(", ")));
    }
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return refuse(Errno::EINVAL, format!("a plan's name has 1 to {NAME_BYTES_MAX} bytes that can be printed"));
    }
    let settings = settings(c);
    if settings.mode != MODE_UPMAP {
        return refuse(Errno::ENOEXEC, "Please do \"ceph balancer mode\" to choose a valid mode first");
    }
    if let Some(why) = obstacle(c.volatile, settings.misplaced_max) {
        return refuse(Errno::EAGAIN, why.to_string());
    }
    let pools: BTreeSet<PoolId> = wanted.iter().filter_map(known).collect();
    let is_shrinking = |id: &PoolId| c.map().pools[id].pg_num_target < c.map().pools[id].pg_num;
    let pools = c.map().pools.keys().filter(|id| pools.is_empty() || pools.contains(id));
    let pools: BTreeSet<PoolId> = pools.filter(|id| !is_shrinking(id)).copied().collect();
    let limits = BalanceLimits { moves_max: settings.moves_max, pools: Some(pools) };
    let plan = Plan(balance(c.map(), &PgMapping::compute(c.map()), &limits));
    if plan.0.is_empty() {
        return refuse(Errno::EALREADY, crate::balancer::EVEN);
    }
    let text = plan.value(c).to_string();
    let key = format!("{KEYS}{name}");
    let is_new = !c.state.config_keys.contains_key(&key);
    if is_new && names(c).len() >= PLANS_MAX {
        return refuse(Errno::ENOSPC, format!("there are {PLANS_MAX} plans: forget one by `ceph balancer rm`"));
    }
    if text.len() > PLAN_BYTES_MAX {
        return refuse(Errno::EFBIG, format!("the plan would have {} bytes, of {PLAN_BYTES_MAX} at most", text.len()));
    }
    c.propose(vec![Update::ConfigKey { key, value: Some(text.into_bytes().into()) }], Reply::default())
}

fn execute(c: &Context<'_>) -> Answer {
    refuse_while_on(c, "execute a plan")?;
    let plan = find(c)?;
    let incremental = plan.incremental(c)?;
    let key = format!("{KEYS}{}", c.args.word("plan"));
    let done = Update::ConfigKey { key, value: None };
    c.propose(c.state.osd_update(incremental).into_iter().chain([done]).collect(), Reply::default())
}

fn forget(c: &Context<'_>, is_meant: impl Fn(&str) -> bool) -> Answer {
    let meant = names(c).into_iter().filter(|name| is_meant(name));
    let gone = meant.map(|name| Update::ConfigKey { key: format!("{KEYS}{name}"), value: None });
    match gone.collect::<Vec<_>>() {
        none if none.is_empty() => done(""),
        gone => c.propose(gone, Reply::default()),
    }
}

/// Returns how uneven the spread is once a plan is carried out.
pub(super) fn score(c: &Context<'_>, plan: &Plan) -> Result<f64, Reply> {
    let map = plan.carried_out(c)?;
    Ok(score_of(&map, &PgMapping::compute(&map), None))
}
