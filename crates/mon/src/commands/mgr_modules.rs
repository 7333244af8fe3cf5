//! `ceph mgr module`: the modules that a Ceph's manager has. Here they are names only: the monitor does the work of
//! some and leaves out that of others, enabled or not.

use super::command::Command;
use super::context::Context;
use super::{Answer, Reply, done, refuse};
use crate::Update;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("mgr module ls", "r", "list the names of a manager's modules", list),
    Command::new(
        "mgr module enable {module:String} {force:Bool,req=false}",
        "rw",
        "count a module as enabled; nothing else changes",
        enable,
    ),
    Command::new(
        "mgr module disable {module:String}",
        "rw",
        "count a module as disabled; nothing else changes",
        disable,
    ),
];

/// Modules that are always on, as in Octopus and Pacific.
pub(super) const ALWAYS_ON: [&str; 10] = [
    "balancer",
    "crash",
    "devicehealth",
    "orchestrator",
    "pg_autoscaler",
    "progress",
    "rbd_support",
    "status",
    "telemetry",
    "volumes",
];

/// Modules that are always on in Nautilus.
const ALWAYS_ON_NAUTILUS: [&str; 8] =
    ["balancer", "crash", "devicehealth", "orchestrator_cli", "progress", "rbd_support", "status", "volumes"];

/// Returns the modules that are always on, by releases, as a Ceph's manager map has them.
pub(super) fn always_on() -> Value {
    json!({"nautilus": ALWAYS_ON_NAUTILUS, "octopus": ALWAYS_ON, "pacific": ALWAYS_ON})
}

/// Modules that are enabled until someone disables them.
const FIRST: [&str; 3] = ["iostat", "nfs", "restful"];

/// Further modules that may be enabled.
const OTHERS: [&str; 14] = [
    "alerts",
    "dashboard",
    "influx",
    "insights",
    "localpool",
    "mirroring",
    "osd_support",
    "prometheus",
    "selftest",
    "snap_schedule",
    "stats",
    "telegraf",
    "test_orchestrator",
    "zabbix",
];

/// Key that has the names of enabled modules, separated by commas.
const KEY: &str = "mgr/modules/enabled";
/// Most bytes of a module's name, and most enabled modules.
const NAME_BYTES_MAX: usize = 64;
const MODULES_MAX: usize = 100;

/// Returns the enabled modules beside those that are always on.
pub(super) fn enabled(c: &Context<'_>) -> BTreeSet<String> {
    match c.state.config_keys.get(KEY).and_then(|value| std::str::from_utf8(value).ok()) {
        Some(names) => names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        None => FIRST.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn set(c: &Context<'_>, modules: &BTreeSet<String>) -> Answer {
    let names: Vec<&str> = modules.iter().map(String::as_str).collect();
    let value = Some(names.join(",").into_bytes().into());
    c.propose(vec![Update::ConfigKey { key: KEY.to_owned(), value }], Reply::default())
}

fn list(c: &Context<'_>) -> Answer {
    let enabled = enabled(c);
    let off = FIRST.iter().chain(&OTHERS).copied().collect::<BTreeSet<_>>();
    let module = |name: &str| json!({"name": name, "can_run": true, "error_string": "", "module_options": {}});
    let disabled: Vec<Value> = off.into_iter().filter(|name| !enabled.contains(*name)).map(module).collect();
    c.value(json!({"always_on_modules": ALWAYS_ON, "enabled_modules": enabled, "disabled_modules": disabled}))
}

fn enable(c: &Context<'_>) -> Answer {
    let name = c.args.word("module");
    if ALWAYS_ON.contains(&name) {
        return done(format!("module '{name}' is already enabled (always-on)"));
    }
    let mut modules = enabled(c);
    if modules.contains(name) {
        return done(format!("module '{name}' is already enabled"));
    }
    if !FIRST.contains(&name) && !OTHERS.contains(&name) && !c.args.flag("force") {
        let sentence = format!("all mgr daemons do not support module '{name}', pass --force to force enablement");
        return refuse(Errno::ENOENT, sentence);
    }
    let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if !is_word || name.len() > NAME_BYTES_MAX || modules.len() >= MODULES_MAX {
        let sentence =
            format!("a module's name is a word of up to {NAME_BYTES_MAX} bytes; {MODULES_MAX} may be enabled");
        return refuse(Errno::EINVAL, sentence);
    }
    modules.insert(name.to_owned());
    set(c, &modules)
}

fn disable(c: &Context<'_>) -> Answer {
    let name = c.args.word("module");
    if ALWAYS_ON.contains(&name) {
        return refuse(Errno::EINVAL, format!("module '{name}' cannot be disabled (always-on)"));
    }
    let mut modules = enabled(c);
    if !modules.remove(name) {
        return done(format!("module '{name}' is already disabled"));
    }
    set(c, &modules)
}
