//! Flags of the cluster and of OSDs, ratios, and the releases that may take part.

use super::arguments::parse_osd;
use super::command::Command;
use super::context::{Context, short_float};
use super::osd_dump::min_compat_client;
use super::{Answer, Reply, done, refuse};
use osdmap::{Incremental, OsdMapFlags, OsdState};
use types::{Errno, OsdId};
use wire::Release;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "osd set {key:Choices,strings=full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|\
         nodeep-scrub|notieragent|nosnaptrim|pglog_hardlimit} {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "set a flag for the whole cluster",
        set,
    ),
    Command::new(
        "osd unset {key:Choices,strings=full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|\
         nodeep-scrub|notieragent|nosnaptrim}",
        "rw",
        "clear a flag of the whole cluster",
        unset,
    ),
    Command::new("osd pause", "rw", "stop clients' reads and writes", |c| change_flags(c, "pause", true)),
    Command::new("osd unpause", "rw", "let clients read and write again", |c| change_flags(c, "pause", false)),
    Command::new(
        "osd set-group {flags:String} {who:String,n=N}",
        "rw",
        "set flags for OSDs, CRUSH buckets or device classes",
        |c| change_group(c, group_flags(c)?, "who", true),
    ),
    Command::new(
        "osd unset-group {flags:String} {who:String,n=N}",
        "rw",
        "clear flags of OSDs, CRUSH buckets or device classes",
        |c| change_group(c, group_flags(c)?, "who", false),
    ),
    Command::new("osd add-noup {ids:String,n=N}", "rw", "keep OSDs from coming up", |c| {
        change_group(c, OsdState::NOUP, "ids", true)
    }),
    Command::new("osd add-nodown {ids:String,n=N}", "rw", "keep OSDs from going down", |c| {
        change_group(c, OsdState::NODOWN, "ids", true)
    }),
    Command::new("osd add-noin {ids:String,n=N}", "rw", "keep OSDs from going in", |c| {
        change_group(c, OsdState::NOIN, "ids", true)
    }),
    Command::new("osd add-noout {ids:String,n=N}", "rw", "keep OSDs from going out", |c| {
        change_group(c, OsdState::NOOUT, "ids", true)
    }),
    Command::new("osd rm-noup {ids:String,n=N}", "rw", "let OSDs come up again", |c| {
        change_group(c, OsdState::NOUP, "ids", false)
    }),
    Command::new("osd rm-nodown {ids:String,n=N}", "rw", "let OSDs go down again", |c| {
        change_group(c, OsdState::NODOWN, "ids", false)
    }),
    Command::new("osd rm-noin {ids:String,n=N}", "rw", "let OSDs go in again", |c| {
        change_group(c, OsdState::NOIN, "ids", false)
    }),
    Command::new("osd rm-noout {ids:String,n=N}", "rw", "let OSDs go out again", |c| {
        change_group(c, OsdState::NOOUT, "ids", false)
    }),
    Command::new(
        "osd set-full-ratio {ratio:Float,range=0.0|1.0}",
        "rw",
        "set how full an OSD may be before writes stop",
        |c| set_ratio(c, "osd set-full-ratio", |incremental, ratio| incremental.new_full_ratio = Some(ratio)),
    ),
    Command::new(
        "osd set-backfillfull-ratio {ratio:Float,range=0.0|1.0}",
        "rw",
        "set how full an OSD may be before it takes no more backfill",
        |c| {
            set_ratio(c, "osd set-backfillfull-ratio", |incremental, ratio| {
                incremental.new_backfillfull_ratio = Some(ratio)
            })
        },
    ),
    Command::new(
        "osd set-nearfull-ratio {ratio:Float,range=0.0|1.0}",
        "rw",
        "set how full an OSD may be before a warning",
        |c| set_ratio(c, "osd set-nearfull-ratio", |incremental, ratio| incremental.new_nearfull_ratio = Some(ratio)),
    ),
    Command::new(
        "osd set-require-min-compat-client {version:String} {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "set the oldest release that clients may be of",
        set_min_client,
    ),
    Command::new(
        "osd require-osd-release {release:Choices,strings=luminous|mimic|nautilus|octopus|pacific} \
         {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "set the oldest release that OSDs may be of",
        require_release,
    ),
];

fn set(c: &Context<'_>) -> Answer {
    change_flags(c, c.args.word("key"), true)
}

fn unset(c: &Context<'_>) -> Answer {
    change_flags(c, c.args.word("key"), false)
}

fn change_flags(c: &Context<'_>, key: &str, on: bool) -> Answer {
    let flags = match key {
        "pause" => OsdMapFlags::PAUSERD | OsdMapFlags::PAUSEWR,
        // Cluster-wide full flags are long gone; the fullness of OSDs and pools is measured, not set.
        "full" => return refuse(Errno::EINVAL, "unrecognized flag 'full'"),
        _ => match OsdMapFlags::from_name(key) {
            Some(flag) => flag,
            None => return refuse(Errno::EINVAL, format!("unrecognized flag '{key}'")),
        },
    };
    let old = c.map().flags;
    let new = if on { old.with(flags) } else { old.without(flags) };
    let status = format!("{} is {}", flags.names(), if on { "set" } else { "unset" });
    c.change_map(status, |incremental| incremental.new_flags = (new != old).then_some(new))
}

/// Flags that single OSDs, buckets and classes can have.
const GROUP_FLAGS: [(&str, OsdState); 4] =
    [("noup", OsdState::NOUP), ("nodown", OsdState::NODOWN), ("noin", OsdState::NOIN), ("noout", OsdState::NOOUT)];

fn group_flags(c: &Context<'_>) -> Result<OsdState, Reply> {
    let mut flags = OsdState::default();
    for name in c.args.word("flags").split([',', ' ']).filter(|name| !name.is_empty()) {
        match GROUP_FLAGS.iter().find(|(known, _)| *known == name) {
            Some((_, flag)) => flags.insert(*flag),
            None => {
                let sentence = format!("unrecognized flag '{name}', must be one of {{noup,nodown,noin,noout}}");
                return refuse(Errno::EINVAL, sentence);
            }
        }
    }
    if flags.is_empty() {
        return refuse(Errno::EINVAL, "must specify flag(s) {noup,nodwon,noin,noout} to set/unset");
    }
    Ok(flags)
}

/// Sets or clears flags of the OSDs, buckets and classes that the argument names.
fn change_group(c: &Context<'_>, flags: OsdState, argument: &str, on: bool) -> Answer {
    let (mut osds, mut nodes, mut classes) = (Vec::new(), Vec::new(), Vec::new());
    let mut status = String::new();
    for who in c.args.texts(argument) {
        if matches!(who, "all" | "any" | "*") {
            osds.extend(c.map().osds().map(|(osd, _)| osd));
        } else if let Some(osd) = parse_osd(who) {
            match c.map().exists(osd) {
                true => osds.push(osd),
                false => status += &format!("{osd} does not exist. "),
            }
        } else if let Some(id) = c.crush().id(who) {
            nodes.push(id);
        } else if let Some(class) = c.crush().class_id(who) {
            classes.push(class);
        } else {
            let sentence = format!("unable to parse osd id or crush node or device class: \"{who}\". ");
            return refuse(Errno::EINVAL, sentence);
        }
    }
    osds.sort_unstable();
    osds.dedup();
    c.change_map(status, |incremental| {
        flip_osds(c, incremental, &osds, flags, on);
        let changed = |old: OsdState| if on { old.with(flags) } else { old.without(flags) };
        for id in nodes {
            let old = c.map().crush_node_flags.get(&id).copied().unwrap_or_default();
            if changed(old) != old {
                incremental.new_crush_node_flags.insert(id, changed(old));
            }
        }
        for class in classes {
            let old = c.map().device_class_flags.get(&class).copied().unwrap_or_default();
            if changed(old) != old {
                incremental.new_device_class_flags.insert(class, changed(old));
            }
        }
    })
}

fn flip_osds(c: &Context<'_>, incremental: &mut Incremental, osds: &[OsdId], flags: OsdState, on: bool) {
    for osd in osds {
        let old = c.map().osd(*osd).map(|osd| osd.state).unwrap_or_default();
        let new = if on { old.with(flags) } else { old.without(flags) };
        if new != old {
            incremental.flip_state(*osd, old ^ new);
        }
    }
}

fn set_ratio(c: &Context<'_>, command: &str, set: impl Fn(&mut Incremental, f32)) -> Answer {
    let ratio = c.args.number("ratio");
    c.change_map(format!("{command} {}", short_float(ratio)), |incremental| set(incremental, ratio as f32))
}

fn set_min_client(c: &Context<'_>) -> Answer {
    let name = c.args.word("version");
    let Some(release) = Release::from_name(name) else {
        return refuse(Errno::EINVAL, format!("version {name} is not recognized"));
    };
    if release > Release::PACIFIC {
        // Clients negotiate the features of Pacific with us: a newer minimum would lock all of them out.
        let sentence = format!("clients newer than pacific cannot be required; {name} is");
        return refuse(Errno::EPERM, sentence);
    }
    let needed = min_compat_client(c.map());
    if release < needed {
        let needed = needed.name();
        let sentence = format!(
            "osdmap current utilizes features that require {needed}; cannot set require_min_compat_client below that to \
             {name}"
        );
        return refuse(Errno::EPERM, sentence);
    }
    let status = format!("set require_min_compat_client to {name}");
    let changed = c.map().require_min_compat_client != release;
    c.change_map(status, |incremental| {
        incremental.new_require_min_compat_client = changed.then_some(release);
    })
}

fn require_release(c: &Context<'_>) -> Answer {
    let name = c.args.word("release");
    let release =
        Release::from_name(name).ok_or_else(|| Reply::error(Errno::EINVAL, format!("unrecognized release {name}")))?;
    let old = c.map().require_osd_release;
    if release < old {
        return refuse(Errno::EPERM, "require_osd_release cannot be lowered once it has been set");
    }
    if release == old {
        return done("");
    }
    c.change_map("", |incremental| incremental.new_require_osd_release = Some(release))
}
