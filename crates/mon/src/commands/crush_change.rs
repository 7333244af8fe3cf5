//! Changes of the CRUSH hierarchy, its device classes, tunables and rules.

use super::arguments::parse_osd;
use super::command::Command;
use super::context::{Context, build_error, short_float};
use super::crush_query::rules_of_class;
use super::{Answer, Reply, done, refuse};
use crush::{CrushMap, Location, Profile, RuleKind, fixed_weight};
use types::{Errno, OsdId};
use wire::Decode;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "osd crush add {id:OsdName} {weight:Float,range=0.0} {args:String,n=N}",
        "rw",
        "place an OSD in the hierarchy: weight and type=name ...",
        |c| place(c, "add", "to"),
    ),
    Command::new(
        "osd crush set {id:OsdName,req=false} {weight:Float,range=0.0,req=false} {args:String,n=N,req=false} \
         {prior_version:Int,req=false}",
        "rw",
        "place an OSD in the hierarchy, or set the whole CRUSH map from the input",
        set,
    ),
    Command::new(
        "osd setcrushmap {prior_version:Int,req=false}",
        "rw",
        "set the whole CRUSH map from the input",
        set_map,
    ),
    Command::new(
        "osd crush create-or-move {id:OsdName} {weight:Float,range=0.0} {args:String,n=N}",
        "rw",
        "place an OSD in the hierarchy, keeping its weight if it is there",
        create_or_move,
    ),
    Command::new(
        "osd crush add-bucket {name:String} {type:String} {args:String,n=N,req=false}",
        "rw",
        "make a bucket",
        add_bucket,
    ),
    Command::new("osd crush move {name:String} {args:String,n=N}", "rw", "move an OSD or bucket", move_item),
    Command::new("osd crush link {name:String} {args:String,n=N}", "rw", "put a bucket at a further place", link),
    Command::new(
        "osd crush unlink {name:String} {ancestor:String,req=false}",
        "rw",
        "take an item from its place",
        unlink,
    ),
    Command::new(
        "osd crush rm {name:String} {ancestor:String,req=false}",
        "rw",
        "remove an OSD or empty bucket",
        remove,
    ),
    Command::new(
        "osd crush remove {name:String} {ancestor:String,req=false}",
        "rw",
        "remove an OSD or empty bucket",
        remove,
    ),
    Command::new("osd crush rename-bucket {srcname:String} {dstname:String}", "rw", "rename a bucket", rename_bucket),
    Command::new(
        "osd crush swap-bucket {source:String} {dest:String} {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "exchange what two buckets hold",
        swap_bucket,
    ),
    Command::new("osd crush reweight {name:String} {weight:Float,range=0.0}", "rw", "change an OSD's weight", reweight),
    Command::new(
        "osd crush reweight-subtree {name:String} {weight:Float,range=0.0}",
        "rw",
        "change the weight of all OSDs below a bucket",
        reweight_subtree,
    ),
    Command::new("osd crush reweight-all", "rw", "compute the weights of all buckets anew", reweight_all),
    Command::new(
        "osd crush set-device-class {class:String} {ids:String,n=N}",
        "rw",
        "set the device class of OSDs",
        set_class,
    ),
    Command::new(
        "osd crush rm-device-class {ids:String,n=N}",
        "rw",
        "remove the device class of OSDs",
        remove_class_of,
    ),
    Command::new("osd crush class create {class:String}", "rw", "make a device class", create_class),
    Command::new("osd crush class rm {class:String}", "rw", "remove a device class", remove_class),
    Command::new(
        "osd crush class rename {srcname:String} {dstname:String}",
        "rw",
        "rename a device class",
        rename_class,
    ),
    Command::new("osd crush set-all-straw-buckets-to-straw2", "rw", "convert legacy straw buckets", convert_straw),
    Command::new(
        "osd crush tunables {profile:Choices,strings=legacy|argonaut|bobtail|firefly|hammer|jewel|optimal|default}",
        "rw",
        "set the tunables to those of a profile",
        set_tunables,
    ),
    Command::new(
        "osd crush set-tunable {tunable:Choices,strings=straw_calc_version} {value:Int,range=0|255}",
        "rw",
        "set a tunable",
        set_tunable,
    ),
    Command::new(
        "osd crush rule create-replicated {name:String} {root:String} {type:String} {class:String,req=false}",
        "rw",
        "make a rule that puts each replica into another bucket of a type",
        create_replicated_rule,
    ),
    Command::new(
        "osd crush rule \
         create-simple {name:String} {root:String} {type:String} {mode:Choices,req=false,strings=firstn|indep}",
        "rw",
        "make a rule that puts each replica into another bucket of a type",
        create_simple_rule,
    ),
    Command::new(
        "osd crush rule create-erasure {name:String} {profile:String,req=false}",
        "rw",
        "make a rule for an erasure code profile",
        create_erasure_rule,
    ),
    Command::new("osd crush rule rm {name:String}", "rw", "remove a rule", remove_rule),
    Command::new("osd crush rule rename {srcname:String} {dstname:String}", "rw", "rename a rule", rename_rule),
];

fn location(c: &Context<'_>) -> Result<Location, Reply> {
    let bad = |word: &str| Reply::error(Errno::EINVAL, format!("'{word}' is not of the form type=name"));
    Location::parse(c.args.texts("args")).map_err(bad)
}

/// Returns `{host=a,root=default}`.
fn location_text(location: &Location) -> String {
    let pairs: Vec<String> = location.iter().map(|(kind, name)| format!("{kind}={name}")).collect();
    format!("{{{}}}", pairs.join(","))
}

fn weight_argument(c: &Context<'_>) -> Result<u32, Reply> {
    fixed_weight(c.args.number("weight")).map_err(|e| build_error(&e))
}

fn place(c: &Context<'_>, word: &str, preposition: &str) -> Answer {
    let osd = c.args.osd("id").expect("an OSD is required by the signature");
    if !c.map().exists(osd) {
        return refuse(Errno::ENOENT, format!("{osd} does not exist. Create it before updating the crush map"));
    }
    let (weight, location) = (weight_argument(c)?, location(c)?);
    let number = short_float(c.args.number("weight"));
    let at = location_text(&location);
    let status =
        format!("{word} item id {} name '{osd}' weight {number} at location {at} {preposition} crush map", osd.0);
    c.change_crush(status, |crush| crush.set_item(osd.0, weight, &osd.to_string(), &location).map(drop))
}

fn set(c: &Context<'_>) -> Answer {
    if c.args.has("id") {
        if !c.args.has("weight") {
            return refuse(Errno::EINVAL, "missing argument 'weight'");
        }
        return place(c, "set", "to");
    }
    set_map(c)
}

fn set_map(c: &Context<'_>) -> Answer {
    let version = i64::from(c.map().crush_version);
    if let Some(prior) = c.args.int("prior_version") {
        if prior == version - 1 && c.request.input[..] == wire::Encode::to_vec(c.crush(), wire::Target::PACIFIC)[..] {
            return done(version.to_string());
        }
        if prior != version {
            return refuse(Errno::EPERM, format!("prior_version {prior} != crush version {version}"));
        }
    }
    let invalid = |why: String| Reply::error(Errno::EINVAL, why);
    if c.request.input.is_empty() {
        return Err(invalid("no CRUSH map in the input".to_owned()));
    }
    let crush =
        CrushMap::from_slice(&c.request.input).map_err(|e| invalid(format!("the input is not a CRUSH map: {e}")))?;
    check_new_map(c, &crush).map_err(invalid)?;
    // An equal map is a new version, too: programs that set it wait for the next number.
    c.change_map((version + 1).to_string(), |incremental| incremental.set_crush(&crush))
}

/// Checks a map that is set from outside: it must have the rules that pools use, and each must be able to place groups.
fn check_new_map(c: &Context<'_>, crush: &CrushMap) -> Result<(), String> {
    let mut scratch = crush::Scratch::default();
    for (id, pool) in &c.map().pools {
        let name = c.map().pool_name(*id).unwrap_or_default();
        let rule = u32::from(pool.crush_rule);
        if crush.rule(rule).is_none() {
            return Err(format!("pool '{name}' uses rule {rule}, which the new map lacks"));
        }
        let weights = vec![osdmap::WEIGHT_IN; crush.max_devices().max(0) as usize];
        crush
            .do_rule(rule, 0, pool.size.into(), &weights, crush.choose_args_for(id.0), &mut scratch)
            .map_err(|e| format!("pool '{name}' cannot be placed with the new map: {e}"))?;
    }
    Ok(())
}

fn create_or_move(c: &Context<'_>) -> Answer {
    let osd = c.existing_osd("id")?;
    let (weight, location) = (weight_argument(c)?, location(c)?);
    let at = location_text(&location);
    let number = short_float(c.args.number("weight"));
    // Ceph's word for an OSD that is at its place.
    let word = if c.crush().weight_at(osd.0, &location).is_some() { "updated" } else { "updating" };
    let status = format!("create-or-move {word} item name '{osd}' weight {number} at location {at} to crush map");
    c.change_crush(status, |crush| crush.create_or_move_item(osd.0, weight, &osd.to_string(), &location).map(drop))
}

fn add_bucket(c: &Context<'_>) -> Answer {
    let (name, type_name) = (c.args.word("name"), c.args.word("type"));
    let location = location(c)?;
    if c.crush().id(name).is_some() {
        return done(format!("bucket '{name}' already exists"));
    }
    let status = match location.is_empty() {
        true => format!("added bucket {name} type {type_name} to crush map"),
        false => format!("added bucket {name} type {type_name} to location {}", location_text(&location)),
    };
    c.change_crush(status, |crush| {
        crush.add_bucket(name, type_name)?;
        if location.is_empty() { Ok(()) } else { crush.move_item(name, &location) }
    })
}

/// Returns the id of the item called `name`.
fn item(c: &Context<'_>, name: &str) -> Result<i32, Reply> {
    let found = c.crush().id(name);
    found.ok_or_else(|| Reply::error(Errno::ENOENT, format!("item {name} does not exist")))
}

fn move_item(c: &Context<'_>) -> Answer {
    let name = c.args.word("name");
    let (id, location) = (item(c, name)?, location(c)?);
    let at = location_text(&location);
    let here = c.crush().full_location(id);
    let lowest = here.first().copied();
    let there = location.iter().all(|pair| here.contains(&pair))
        && lowest.is_some_and(|pair| location.iter().any(|p| p == pair));
    if there {
        return done(format!("no need to move item id {id} name '{name}' to location {at} in crush map"));
    }
    let status = format!("moved item id {id} name '{name}' to location {at} in crush map");
    c.change_crush(status, |crush| crush.move_item(name, &location))
}

fn link(c: &Context<'_>) -> Answer {
    let name = c.args.word("name");
    let (id, location) = (item(c, name)?, location(c)?);
    if c.crush().weight_at(id, &location).is_some() {
        let at = location_text(&location);
        return done(format!("no need to move item id {id} name '{name}' to location {at} in crush map"));
    }
    let status = format!("linked item id {id} name '{name}' to location {} in crush map", location_text(&location));
    c.change_crush(status, |crush| crush.link_bucket(name, &location))
}

fn take_away(
    c: &Context<'_>,
    take: impl Fn(&mut CrushMap, &str, Option<&str>) -> Result<(), crush::BuildError>,
) -> Answer {
    let name = c.args.word("name");
    let Some(id) = c.crush().id(name) else {
        return done(format!("device '{name}' does not appear in the crush map"));
    };
    let ancestor = c.args.text("ancestor");
    if let Some(ancestor) = ancestor.filter(|ancestor| c.crush().id(ancestor).is_none()) {
        return refuse(Errno::ENOENT, format!("ancestor item '{ancestor}' does not appear in the crush map"));
    }
    let status = format!("removed item id {id} name '{name}' from crush map");
    c.change_crush(status, |crush| take(crush, name, ancestor))
}

fn remove(c: &Context<'_>) -> Answer {
    take_away(c, |crush, name, ancestor| crush.remove_item(name, ancestor))
}

fn unlink(c: &Context<'_>) -> Answer {
    take_away(c, |crush, name, ancestor| crush.unlink_item(name, ancestor))
}

fn rename_bucket(c: &Context<'_>) -> Answer {
    let (from, to) = (c.args.word("srcname"), c.args.word("dstname"));
    let Some(id) = c.crush().id(from) else {
        if c.crush().id(to).is_some_and(|id| id < 0) {
            return done(format!("renamed bucket {from} into {to}"));
        }
        return refuse(Errno::ENOENT, format!("srcname = '{from}' does not exist"));
    };
    if c.crush().id(to).is_some() {
        return refuse(Errno::EEXIST, format!("dstname = '{to}' already exists"));
    }
    if id >= 0 {
        let sentence = format!("srcname = '{from}' is not a bucket because its id = {id} is >= 0");
        return refuse(Errno::ENOTDIR, sentence);
    }
    c.change_crush(format!("renamed bucket {from} into {to}"), |crush| crush.rename_bucket(from, to))
}

fn swap_bucket(c: &Context<'_>) -> Answer {
    let (source, dest) = (c.args.word("source"), c.args.word("dest"));
    let known = |what: &str, name: &str| {
        c.crush().id(name).ok_or_else(|| Reply::error(Errno::ENOENT, format!("{what} item {name} does not exist")))
    };
    let id = known("source", source)?;
    known("dest", dest)?;
    if c.crush().parent(id).is_some() && !c.args.flag("yes_i_really_mean_it") {
        let sentence =
            format!("source item {source} is not an orphan bucket; pass --yes-i-really-mean-it to proceed anyway");
        return refuse(Errno::EPERM, sentence);
    }
    c.change_crush(format!("swapped bucket of {source} to {dest}"), |crush| crush.swap_bucket(source, dest))
}

/// Returns name, id and new weight of the item that the argument names. Error: Ceph's sentence, if there is no such
/// item.
fn weighed<'c>(c: &'c Context<'_>) -> Result<(&'c str, i32, u32), Reply> {
    let name = c.args.word("name");
    let Some(id) = c.crush().id(name) else {
        return refuse(Errno::ENOENT, format!("device '{name}' does not appear in the crush map"));
    };
    Ok((name, id, weight_argument(c)?))
}

fn reweight(c: &Context<'_>) -> Answer {
    let (name, id, weight) = weighed(c)?;
    if id < 0 {
        return refuse(Errno::EINVAL, format!("device '{name}' is not a leaf in the crush map"));
    }
    let number = short_float(c.args.number("weight"));
    let status = format!("reweighted item id {id} name '{name}' to {number} in crush map");
    c.change_crush(status, |crush| crush.reweight(name, weight).map(drop))
}

fn reweight_subtree(c: &Context<'_>) -> Answer {
    let (name, id, weight) = weighed(c)?;
    if id >= 0 {
        return refuse(Errno::EINVAL, format!("device '{name}' is not a subtree in the crush map"));
    }
    let number = short_float(c.args.number("weight"));
    let status = format!("reweighted subtree id {id} name '{name}' to {number} in crush map");
    c.change_crush(status, |crush| crush.reweight_subtree(name, weight).map(drop))
}

fn reweight_all(c: &Context<'_>) -> Answer {
    c.change_crush("reweighted crush hierarchy", CrushMap::reweight_all)
}

/// Returns the OSDs that words name, and sentences about words that name none.
fn named(c: &Context<'_>) -> (Vec<OsdId>, String) {
    let (mut osds, mut said) = (Vec::new(), String::new());
    for word in c.args.texts("ids") {
        match parse_osd(word) {
            _ if matches!(word, "all" | "any" | "*") => osds.extend(c.map().osds().map(|(osd, _)| osd)),
            Some(osd) if c.map().exists(osd) => osds.push(osd),
            Some(osd) => said += &format!("{osd} does not exist. "),
            None => said += &format!("unable to parse osd id:\"{word}\". "),
        }
    }
    osds.sort_unstable();
    osds.dedup();
    (osds, said)
}

fn ids_text(osds: &[OsdId]) -> String {
    osds.iter().map(|osd| osd.0.to_string()).collect::<Vec<_>>().join(",")
}

fn set_class(c: &Context<'_>) -> Answer {
    let class = c.args.word("class");
    let (osds, mut said) = named(c);
    let mut changed = Vec::new();
    for osd in osds {
        match c.crush().class_of(osd.0) {
            Some(is) if is == class => said += &format!("{osd} already set to class {class}. "),
            Some(is) => {
                let sentence = format!(
                    "{osd} has already bound to class '{is}', can not reset class to '{class}'; use 'ceph osd crush \
                     rm-device-class <id>' to remove old class first"
                );
                return refuse(Errno::EBUSY, sentence);
            }
            None => changed.push(osd),
        }
    }
    let status = format!("{said}set osd(s) {} to class '{class}'", ids_text(&changed));
    c.change_crush(status, |crush| changed.iter().try_for_each(|osd| crush.set_device_class(osd.0, class).map(drop)))
}

fn remove_class_of(c: &Context<'_>) -> Answer {
    let (osds, mut said) = named(c);
    let (with, without): (Vec<OsdId>, Vec<OsdId>) =
        osds.into_iter().partition(|osd| c.crush().class_of(osd.0).is_some());
    without.iter().for_each(|osd| said += &format!("{osd} belongs to no class, "));
    let status = format!("{said}done removing class of osd(s): {}", ids_text(&with));
    c.change_crush(status, |crush| with.iter().try_for_each(|osd| crush.remove_device_class(osd.0).map(drop)))
}

fn create_class(c: &Context<'_>) -> Answer {
    let class = c.args.word("class");
    if c.crush().class_id(class).is_some() {
        return done(format!("class '{class}' already exists"));
    }
    let mut crush = c.crush().clone();
    crush.add_class(class).map_err(|e| build_error(&e))?;
    let id = crush.class_id(class).unwrap_or_default();
    c.change_crush(format!("created class {class} with id {id} to crush map"), |crush| crush.add_class(class).map(drop))
}

fn remove_class(c: &Context<'_>) -> Answer {
    let class = c.args.word("class");
    let Some(id) = c.crush().class_id(class) else {
        return done("");
    };
    let rules = rules_of_class(c.crush(), class);
    if !rules.is_empty() {
        let rules: Vec<String> = rules.iter().map(|rule| format!("'{rule}'")).collect();
        let sentence = format!("class '{class}' still referenced by crush_rule(s): {}", rules.join(","));
        return refuse(Errno::EBUSY, sentence);
    }
    c.change_crush(format!("removed class {class} with id {id} from crush map"), |crush| {
        let osds = crush.devices_of_class(class);
        osds.into_iter().try_for_each(|osd| crush.remove_device_class(osd).map(drop))?;
        if crush.class_id(class).is_some() { crush.remove_class(class) } else { Ok(()) }
    })
}

fn rename_class(c: &Context<'_>) -> Answer {
    let (from, to) = (c.args.word("srcname"), c.args.word("dstname"));
    if c.crush().class_id(from).is_none() {
        if c.crush().class_id(to).is_some() {
            return done(format!("already renamed to '{to}'"));
        }
        return refuse(Errno::ENOENT, format!("fail to rename '{from}' to '{to}' : no such class"));
    }
    c.change_crush(format!("rename class '{from}' to '{to}'"), |crush| crush.rename_class(from, to))
}

fn convert_straw(c: &Context<'_>) -> Answer {
    match c.crush().buckets().find(|bucket| bucket.alg() == crush::BucketAlg::Straw) {
        None => done(""),
        Some(bucket) => {
            let name = c.crush().name(bucket.id).unwrap_or_default();
            refuse(
                Errno::EOPNOTSUPP,
                format!("bucket '{name}' is of the legacy kind straw, which cannot be changed here"),
            )
        }
    }
}

fn set_tunables(c: &Context<'_>) -> Answer {
    let name = c.args.word("profile");
    let Some(profile) = Profile::from_name(name) else {
        let sentence = format!("profile '{name}' needs placement methods from before firefly, which are not supported");
        return refuse(Errno::EOPNOTSUPP, sentence);
    };
    c.change_crush(format!("adjusted tunables profile to {name}"), |crush| {
        let now = *crush.tunables();
        let tunables = crush::Tunables {
            msr_tries: now.msr_tries,
            // Buckets that are there stay as they are.
            straw_calc_version: now.straw_calc_version.max(profile.tunables().straw_calc_version),
            ..profile.tunables()
        };
        crush.set_tunables(tunables);
        Ok(())
    })
}

fn set_tunable(c: &Context<'_>) -> Answer {
    let value = c.args.int("value").expect("the signature requires it");
    c.change_crush(format!("adjusted tunable straw_calc_version to {value}"), |crush| {
        crush.set_tunables(crush::Tunables { straw_calc_version: value as u8, ..*crush.tunables() });
        Ok(())
    })
}

/// Checks root, type and class that a new rule starts from. Error: Ceph's sentence.
fn check_rule_target(c: &Context<'_>, root: &str, type_name: &str, class: Option<&str>) -> Result<(), Reply> {
    if c.crush().id(root).is_none() {
        return refuse(Errno::ENOENT, format!("root item {root} does not exist"));
    }
    if c.crush().type_id(type_name).is_none() {
        return refuse(Errno::EINVAL, format!("unknown type {type_name}"));
    }
    match class {
        Some(class) if c.crush().class_id(class).is_none() => {
            refuse(Errno::EINVAL, format!("device class {class} does not exist"))
        }
        _ => Ok(()),
    }
}

fn create_replicated_rule(c: &Context<'_>) -> Answer {
    let (name, root, type_name) = (c.args.word("name"), c.args.word("root"), c.args.word("type"));
    let class = c.args.text("class").filter(|class| !class.is_empty());
    if c.crush().rule_by_name(name).is_some() {
        return done(format!("rule {name} already exists"));
    }
    check_rule_target(c, root, type_name, class)?;
    c.change_crush("", |crush| crush.create_replicated_rule(name, root, type_name, class).map(drop))
}

fn create_simple_rule(c: &Context<'_>) -> Answer {
    if c.args.text("mode") == Some("indep") {
        return refuse(Errno::EOPNOTSUPP, "mode indep is for erasure-coded pools; use create-erasure");
    }
    let (name, root, type_name) = (c.args.word("name"), c.args.word("root"), c.args.word("type"));
    if c.crush().rule_by_name(name).is_some() {
        return done(format!("rule {name} already exists"));
    }
    check_rule_target(c, root, type_name, None)?;
    c.change_crush("", |crush| crush.create_replicated_rule(name, root, type_name, None).map(drop))
}

fn create_erasure_rule(c: &Context<'_>) -> Answer {
    let name = c.args.word("name");
    if c.crush().rule_by_name(name).is_some() {
        return done(format!("rule {name} already exists"));
    }
    let profile_name = c.args.text("profile").unwrap_or("default");
    let profile = c.map().erasure_code_profiles.get(profile_name);
    if profile.is_none() && profile_name != "default" {
        return refuse(Errno::EINVAL, format!("unknown erasure code profile '{profile_name}'"));
    }
    let setting = |key: &str, default: &str| {
        let value = profile.and_then(|profile| profile.get(key)).map_or(default, String::as_str);
        value.to_owned()
    };
    let (root, domain, class) =
        (setting("crush-root", "default"), setting("crush-failure-domain", "host"), setting("crush-device-class", ""));
    let class = Some(class.as_str()).filter(|class| !class.is_empty());
    check_rule_target(c, &root, &domain, class)?;
    let shards = |key: &str| setting(key, "2").parse::<u8>().unwrap_or(2);
    let size_max = shards("k").saturating_add(shards("m"));
    let mut crush = c.crush().clone();
    let id = crush.create_erasure_rule(name, &root, &domain, class, size_max).map_err(|e| build_error(&e))?;
    c.change_map(format!("created rule {name} at {id}"), |incremental| incremental.set_crush(&crush))
}

fn remove_rule(c: &Context<'_>) -> Answer {
    let name = c.args.word("name");
    let Some(id) = c.crush().rule_by_name(name) else {
        return done(format!("rule {name} does not exist"));
    };
    if c.map().pools.values().any(|pool| u32::from(pool.crush_rule) == id) {
        return refuse(Errno::EBUSY, format!("crush ruleset {name} {id} is in use"));
    }
    let replicated = c.crush().rules().filter(|(_, rule)| rule.kind == RuleKind::REPLICATED).count();
    if replicated == 1 && c.crush().rule(id).is_some_and(|rule| rule.kind == RuleKind::REPLICATED) {
        // Without this rule no pool could be made.
        return refuse(Errno::EBUSY, format!("rule {name} is the only one for replicated pools"));
    }
    c.change_crush("", |crush| crush.remove_rule(name))
}

fn rename_rule(c: &Context<'_>) -> Answer {
    let (from, to) = (c.args.word("srcname"), c.args.word("dstname"));
    if c.crush().rule_by_name(from).is_none() {
        if c.crush().rule_by_name(to).is_some() {
            return done(format!("already renamed to '{to}'"));
        }
        return refuse(Errno::ENOENT, format!("source rule name '{from}' does not exist"));
    }
    if c.crush().rule_by_name(to).is_some() {
        return refuse(Errno::EEXIST, format!("destination rule name '{to}' already exists"));
    }
    c.change_crush("", |crush| crush.rename_rule(from, to))
}
