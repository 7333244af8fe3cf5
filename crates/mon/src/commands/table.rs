//! All commands, and their descriptions for `ceph`.

use super::command::Command;
use super::signature::Signature;
use super::{
    absent, auth, autoscale, balancer, balancer_plans, blocklist, cluster, config, config_facts, config_history,
    config_key, crash, crush_change, crush_query, ec_profiles, force, health, image_tasks, iostat, log, mgr,
    mgr_modules, mon, mon_change, ok_to_stop, osd_change, osd_df, osd_dump, osd_flags, osd_new, osd_query, osd_status,
    osd_tree, pg, pg_dump, placement_temp, pool_applications, pool_settings, pools, purge_schedules, rbd, report,
    scrub, services, spread, upmap, weight_sets,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

const TOPICS: &[&[Command]] = &[
    absent::COMMANDS,
    auth::COMMANDS,
    autoscale::COMMANDS,
    balancer::COMMANDS,
    balancer_plans::COMMANDS,
    blocklist::COMMANDS,
    cluster::COMMANDS,
    config::COMMANDS,
    config_facts::COMMANDS,
    config_history::COMMANDS,
    config_key::COMMANDS,
    crash::COMMANDS,
    crush_change::COMMANDS,
    crush_query::COMMANDS,
    ec_profiles::COMMANDS,
    force::COMMANDS,
    health::COMMANDS,
    image_tasks::COMMANDS,
    iostat::COMMANDS,
    log::COMMANDS,
    mgr::COMMANDS,
    mgr_modules::COMMANDS,
    mon::COMMANDS,
    mon_change::COMMANDS,
    ok_to_stop::COMMANDS,
    osd_change::COMMANDS,
    osd_df::COMMANDS,
    osd_dump::COMMANDS,
    osd_flags::COMMANDS,
    osd_new::COMMANDS,
    osd_query::COMMANDS,
    osd_status::COMMANDS,
    osd_tree::COMMANDS,
    pg::COMMANDS,
    pg_dump::COMMANDS,
    placement_temp::COMMANDS,
    pool_applications::COMMANDS,
    pool_settings::COMMANDS,
    pools::COMMANDS,
    purge_schedules::COMMANDS,
    rbd::COMMANDS,
    report::COMMANDS,
    scrub::COMMANDS,
    services::COMMANDS,
    spread::COMMANDS,
    upmap::COMMANDS,
    weight_sets::COMMANDS,
];

/// A command with its signature read.
pub(super) struct KnownCommand {
    pub signature: Signature,
    pub command: &'static Command,
}

fn all() -> &'static BTreeMap<String, KnownCommand> {
    static ALL: OnceLock<BTreeMap<String, KnownCommand>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = BTreeMap::new();
        for command in TOPICS.iter().copied().flatten() {
            let signature = Signature::parse(command.signature);
            let prefix = signature.prefix.clone();
            assert!(all.insert(prefix, KnownCommand { signature, command }).is_none(), "'{}' twice", command.signature);
        }
        all
    })
}

/// Returns the command whose words are `prefix`.
pub(super) fn find(prefix: &str) -> Option<&'static KnownCommand> {
    all().get(prefix)
}

/// Returns the signatures of all commands.
#[cfg(test)]
pub(super) fn signatures() -> impl Iterator<Item = &'static Signature> {
    all().values().map(|known| &known.signature)
}

/// Commands that `ceph` sends again each second, and the flag that has it do so.
const POLLED: [&str; 1] = ["iostat"];
const POLL: u8 = 1 << 4;

/// Parts of the cluster whose commands are described first.
const FIRST: [&str; 2] = ["pg", "osd"];

/// Returns the answer to `get_command_descriptions`, from which `ceph` knows the words that it may take and their
/// places.
///
/// No command carries the flag that would send it to a manager daemon.
pub(super) fn descriptions() -> String {
    let described = descriptions_but(|_| false).into_iter().enumerate();
    Value::Object(described.map(|(number, entry)| (format!("cmd{number:03}"), entry)).collect()).to_string()
}

/// Returns the descriptions of all commands but some, which are named by their words.
pub(crate) fn descriptions_but(is_left_out: impl Fn(&str) -> bool) -> Vec<Value> {
    // Where words fit nothing, `ceph` shows the first commands as the nearest.
    let mut commands: Vec<_> = all().iter().filter(|(prefix, _)| !is_left_out(prefix)).collect();
    commands.sort_by_key(|(prefix, _)| FIRST.iter().position(|first| module(prefix) == *first).unwrap_or(FIRST.len()));
    let described = commands.into_iter().map(|(prefix, known)| {
        json!({
            "sig": known.signature.describe(),
            "help": known.command.help,
            "module": module(prefix),
            "perm": known.command.permissions,
            "flags": if POLLED.contains(&prefix.as_str()) { POLL } else { 0 },
        })
    });
    described.collect()
}

/// Returns the part of the cluster that a command is about, as `ceph` groups commands and as capabilities name it.
pub(super) fn module(prefix: &str) -> &'static str {
    let words: Vec<&str> = prefix.split(' ').collect();
    match words[..] {
        ["config", "dump"] => "mon",
        ["config", "show" | "show-with-defaults"] | ["device", ..] => "mgr",
        ["fs", "dump" | "feature", ..] => "mds",
        ["pg", "repeer"] => "osd",
        ["service", ..] => "service",
        [first, ..] => ["osd", "pg", "auth", "config", "config-key", "mgr", "fs", "mds"]
            .into_iter()
            .find(|module| *module == first)
            .unwrap_or("mon"),
        [] => "mon",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/recorded/command_rights.tsv` has the commands of Ceph 16.2.15: words, service, rights.
    #[test]
    fn commands_need_the_rights_that_ceph_asks_for() {
        let mut wrong = Vec::new();
        let mut count = 0;
        for line in include_str!("../../../../tests/recorded/command_rights.tsv").lines() {
            let [prefix, service, rights] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let Some(known) = find(prefix) else { continue };
            count += 1;
            if (module(prefix), known.command.permissions) != (service, rights) {
                wrong.push(format!("{line}, here {} {}", module(prefix), known.command.permissions));
            }
        }
        assert!(count > 200, "{count}");
        assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn every_command_is_described() {
        let Value::Object(described) = serde_json::from_str(&descriptions()).unwrap() else { panic!("no object") };
        assert_eq!(described.len(), TOPICS.iter().map(|topic| topic.len()).sum::<usize>());
        for entry in described.values() {
            assert!(entry["sig"][0].is_string(), "{entry}");
            assert!(!entry["help"].as_str().unwrap().is_empty(), "{entry}");
        }
    }
}
