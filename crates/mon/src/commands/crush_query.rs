//! Questions about the CRUSH hierarchy.

use super::command::Command;
use super::context::Context;
use super::crush_tree::{self, Node};
use super::text_table::TextTable;
use super::{Answer, arguments::parse_osd, refuse, weight_sets};
use crate::commands::context::{weight, weight_text};
use crush::{CrushMap, Profile, Rule, Step, TreeOptions, op};
use serde_json::{Value, json};
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("osd crush tree {shadow:Choices,req=false,strings=--show-shadow}", "r", "print the hierarchy", tree),
    Command::new("osd crush dump", "r", "print the whole CRUSH map", dump),
    Command::new("osd crush ls {node:String}", "r", "list what is in a bucket", list),
    Command::new("osd crush show-tunables", "r", "print the tunables", show_tunables),
    Command::new(
        "osd crush get-tunable {tunable:Choices,strings=straw_calc_version}",
        "r",
        "print a tunable",
        get_tunable,
    ),
    Command::new("osd crush rule ls", "r", "list rules", list_rules),
    Command::new("osd crush rule list", "r", "list rules", list_rules),
    Command::new(
        "osd crush rule ls-by-class {class:String}",
        "r",
        "list rules for a device class",
        list_rules_of_class,
    ),
    Command::new("osd crush rule dump {name:String,req=false}", "r", "print one rule or all", dump_rules),
    Command::new("osd crush class ls", "r", "list device classes", list_classes),
    Command::new("osd crush class ls-osd {class:String}", "r", "list the OSDs of a device class", list_of_class),
    Command::new(
        "osd crush get-device-class {ids:String,n=N}",
        "r",
        "print the device classes of OSDs",
        get_device_class,
    ),
];

fn tree(c: &Context<'_>) -> Answer {
    let shadows = c.args.has("shadow");
    let nodes = crush_tree::nodes(c.crush(), TreeOptions { shadows }, None);
    let text = || {
        let mut columns = vec![("ID", 'R'), ("CLASS", 'R'), ("WEIGHT", 'R')];
        let sets: Vec<String> = c.crush().choose_args().map(|(index, _)| weight_sets::name(c.map(), index)).collect();
        columns.extend(sets.iter().map(|name| (name.as_str(), 'R')));
        columns.push(("TYPE NAME", 'l'));
        let mut table = TextTable::with_columns(&columns);
        for node in &nodes {
            let mut cells =
                vec![node.id.to_string(), node.class.unwrap_or_default().to_owned(), weight_text(weight(node.weight))];
            let in_set = |weights: Option<Vec<u32>>| {
                let first = weights.and_then(|weights| weights.first().copied());
                first.map(|first| weight_text(weight(first))).unwrap_or_default()
            };
            cells.extend(c.crush().choose_args().map(|(index, _)| in_set(node.weights_in(c.crush(), index))));
            cells.push(node.label());
            table.row(cells);
        }
        table.render(true)
    };
    let node_value = |node: &Node<'_>| {
        let mut object = node.value(c.map());
        if node.id < 0 {
            object.insert("children".to_owned(), json!(node.children));
        }
        Value::Object(object)
    };
    c.either(text, || json!({"nodes": nodes.iter().map(node_value).collect::<Vec<_>>(), "stray": []}))
}

fn list(c: &Context<'_>) -> Answer {
    let name = c.args.word("node");
    let Some(id) = c.crush().id(name) else {
        return refuse(Errno::ENOENT, format!("node '{name}' does not exist"));
    };
    let items: Vec<String> = match c.crush().bucket(id) {
        Some(bucket) => bucket.items.iter().map(|item| item_name(c.crush(), *item)).collect(),
        None => vec![name.to_owned()],
    };
    c.either(|| items.iter().map(|item| format!("{item}\n")).collect(), || json!(items))
}

fn item_name(crush: &CrushMap, item: i32) -> String {
    match crush.name(item) {
        Some(name) => name.to_owned(),
        None if item >= 0 => format!("osd.{item}"),
        None => item.to_string(),
    }
}

fn dump(c: &Context<'_>) -> Answer {
    c.value(dump_value(c.crush()))
}

/// Returns the whole CRUSH map as a value.
pub(super) fn dump_value(crush: &CrushMap) -> Value {
    let devices = (0..crush.max_devices()).filter(|id| crush.name(*id).is_some() || crush.item_exists(*id)).map(|id| {
        let mut device = json!({"id": id, "name": item_name(crush, id)});
        if let Some(class) = crush.class_of(id) {
            device["class"] = json!(class);
        }
        device
    });
    let types = crush.types().map(|(id, name)| json!({"type_id": id, "name": name}));
    let mut buckets: Vec<_> = crush.buckets().collect();
    buckets.sort_by_key(|bucket| -bucket.id);
    let buckets = buckets.into_iter().map(|bucket| {
        let items = bucket.weighted_items().enumerate();
        let items: Vec<Value> =
            items.map(|(pos, (id, weight))| json!({"id": id, "weight": weight, "pos": pos})).collect();
        json!({
            "id": bucket.id,
            "name": crush.name(bucket.id).unwrap_or_default(),
            "type_id": bucket.kind,
            "type_name": crush.type_name(bucket.kind).unwrap_or_default(),
            "weight": bucket.weight,
            "alg": bucket.alg().name(),
            "hash": "rjenkins1",
            "items": items,
        })
    });
    json!({
        "devices": devices.collect::<Vec<_>>(),
        "types": types.collect::<Vec<_>>(),
        "buckets": buckets.collect::<Vec<_>>(),
        "rules": crush.rules().map(|(id, rule)| rule_value(crush, id, rule)).collect::<Vec<_>>(),
        "tunables": tunables_value(crush),
        "choose_args": weight_sets::dump_value(crush),
    })
}

pub(super) fn rule_value(crush: &CrushMap, id: u32, rule: &Rule) -> Value {
    json!({
        "rule_id": id,
        "rule_name": crush.rule_name(id).unwrap_or_default(),
        "ruleset": rule.ruleset,
        "type": rule.kind.0,
        "min_size": rule.min_size,
        "max_size": rule.max_size,
        "steps": rule.steps.iter().map(|step| step_value(crush, step)).collect::<Vec<_>>(),
    })
}

fn step_value(crush: &CrushMap, step: &Step) -> Value {
    let name = op::name(step.op);
    match step.op {
        op::NOOP | op::EMIT => json!({"op": name}),
        op::TAKE => json!({"op": name, "item": step.arg1, "item_name": item_name(crush, step.arg1)}),
        op::CHOOSE_FIRSTN | op::CHOOSE_INDEP | op::CHOOSELEAF_FIRSTN | op::CHOOSELEAF_INDEP => {
            let kind = u16::try_from(step.arg2).ok().and_then(|kind| crush.type_name(kind));
            json!({"op": name, "num": step.arg1, "type": kind.unwrap_or_default()})
        }
        op::SET_CHOOSE_TRIES..=op::SET_CHOOSELEAF_STABLE => json!({"op": name, "num": step.arg1}),
        code => json!({"opcode": code, "arg1": step.arg1, "arg2": step.arg2}),
    }
}

fn tunables_value(crush: &CrushMap) -> Value {
    let t = crush.tunables();
    let profile = t.profile_name();
    let flag = |on: bool| i32::from(on);
    let jewel = Profile::Jewel.tunables();
    let straw2 = crush.buckets().any(|bucket| bucket.alg() == crush::BucketAlg::Straw2);
    let step_in = |ops: &[u32]| crush.rules().any(|(_, rule)| rule.steps.iter().any(|step| ops.contains(&step.op)));
    let v2 = [
        op::CHOOSE_INDEP,
        op::CHOOSELEAF_INDEP,
        op::SET_CHOOSE_TRIES,
        op::SET_CHOOSELEAF_TRIES,
        op::SET_CHOOSE_LOCAL_TRIES,
        op::SET_CHOOSE_LOCAL_FALLBACK_TRIES,
    ];
    let (tunables3, tunables5) = (t.chooseleaf_vary_r != 0, t.chooseleaf_stable != 0);
    let minimum = match () {
        () if tunables5 => "jewel",
        () if straw2 => "hammer",
        () if tunables3 => "firefly",
        () if t.chooseleaf_descend_once != 0 => "bobtail",
        () => "argonaut",
    };
    json!({
        "choose_local_tries": t.choose_local_tries,
        "choose_local_fallback_tries": t.choose_local_fallback_tries,
        "choose_total_tries": t.choose_total_tries,
        "chooseleaf_descend_once": t.chooseleaf_descend_once,
        "chooseleaf_vary_r": t.chooseleaf_vary_r,
        "chooseleaf_stable": t.chooseleaf_stable,
        "straw_calc_version": t.straw_calc_version,
        "allowed_bucket_algs": t.allowed_bucket_algs,
        "profile": profile,
        "optimal_tunables": flag(profile == "jewel"),
        "legacy_tunables": flag(profile == "argonaut"),
        "minimum_required_version": minimum,
        "require_feature_tunables": flag(t.choose_local_tries != 2 || t.choose_total_tries != 19),
        "require_feature_tunables2": flag(t.chooseleaf_descend_once == jewel.chooseleaf_descend_once),
        "has_v2_rules": flag(step_in(&v2)),
        "require_feature_tunables3": flag(tunables3),
        "has_v3_rules": flag(step_in(&[op::SET_CHOOSELEAF_VARY_R])),
        "has_v4_buckets": flag(straw2),
        "require_feature_tunables5": flag(tunables5),
        "has_v5_rules": flag(step_in(&[op::SET_CHOOSELEAF_STABLE])),
    })
}

fn show_tunables(c: &Context<'_>) -> Answer {
    c.value(tunables_value(c.crush()))
}

fn get_tunable(c: &Context<'_>) -> Answer {
    let version = c.crush().tunables().straw_calc_version;
    c.either(|| format!("{version}\n"), || json!({"straw_calc_version": version}))
}

fn list_rules(c: &Context<'_>) -> Answer {
    let crush = c.crush();
    let names: Vec<&str> = crush.rules().filter_map(|(id, _)| crush.rule_name(id)).collect();
    c.either(|| names.iter().map(|name| format!("{name}\n")).collect(), || json!(names))
}

/// Returns the names of the rules that start from a shadow bucket of `class`.
pub(super) fn rules_of_class<'a>(crush: &'a CrushMap, class: &str) -> Vec<&'a str> {
    let class = crush.class_id(class);
    let takes_class = |id: u32| {
        let shadows = crush.rule_takes(id).into_iter().filter_map(|item| crush.split_class(item));
        shadows.filter_map(|(_, of)| of).any(|of| Some(of) == class)
    };
    let rules = crush.rules().filter(|(id, _)| class.is_some() && takes_class(*id));
    rules.filter_map(|(id, _)| crush.rule_name(id)).collect()
}

fn list_rules_of_class(c: &Context<'_>) -> Answer {
    let class = c.args.word("class");
    if c.crush().class_id(class).is_none() {
        return refuse(Errno::ENOENT, format!("failed to get rules by class '{class}'"));
    }
    let names = rules_of_class(c.crush(), class);
    c.either(|| names.iter().map(|name| format!("{name}\n")).collect(), || json!(names))
}

fn dump_rules(c: &Context<'_>) -> Answer {
    let crush = c.crush();
    let Some(name) = c.args.text("name").filter(|name| !name.is_empty()) else {
        return c.value(crush.rules().map(|(id, rule)| rule_value(crush, id, rule)).collect());
    };
    match crush.rule_by_name(name).and_then(|id| Some((id, crush.rule(id)?))) {
        Some((id, rule)) => c.value(rule_value(crush, id, rule)),
        None => refuse(Errno::ENOENT, format!("unknown crush rule '{name}'")),
    }
}

fn list_classes(c: &Context<'_>) -> Answer {
    c.value(c.crush().classes().map(|(_, name)| json!(name)).collect())
}

fn list_of_class(c: &Context<'_>) -> Answer {
    let osds = c.crush().devices_of_class(c.args.word("class"));
    c.either(|| osds.iter().map(|osd| format!("{osd}\n")).collect(), || json!(osds))
}

fn get_device_class(c: &Context<'_>) -> Answer {
    let mut osds = Vec::new();
    for word in c.args.texts("ids") {
        match parse_osd(word) {
            Some(osd) => osds.push(osd),
            None => return refuse(Errno::EINVAL, format!("unable to parse osd id:'{word}'")),
        }
    }
    let class = |osd: types::OsdId| c.crush().class_of(osd.0).unwrap_or_default();
    c.either(
        || match osds[..] {
            [osd] => format!("{}\n", class(osd)),
            _ => osds.iter().map(|osd| format!("{osd} {}\n", class(*osd))).collect(),
        },
        || osds.iter().map(|osd| json!({"osd": osd.0, "device_class": class(*osd)})).collect(),
    )
}
