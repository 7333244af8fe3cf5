//! `nacre config`: what options of Ceph mean here. It asks no cluster.

use crate::cli;
use anyhow::{Result, bail};
use mon::options::{self, OptionFacts, Use};
use serde_json::{Value, json};

/// Tells about each option that is named.
///
/// Errors: a name, or a beginning of one, that no option has.
pub fn why(command: &cli::ConfigWhy) -> Result<()> {
    let mut found = Vec::new();
    for wanted in &command.options {
        let name = wanted.replace([' ', '-'], "_");
        let before = found.len();
        match name.strip_suffix('*') {
            Some(beginning) => found.extend(options::all().filter(|option| option.name.starts_with(beginning))),
            None => found.extend(options::find(&name)),
        }
        if found.len() == before {
            bail!("Ceph 16.2 has no option '{wanted}'; `ceph config ls` lists those that there are");
        }
    }
    if command.json {
        let all: Vec<Value> = found.iter().map(|option| value(option)).collect();
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    found.iter().for_each(|option| print!("{}", text(option)));
    Ok(())
}

fn text(option: &OptionFacts) -> String {
    let use_here = options::use_of(option.name);
    let mut out = format!("{}: {}\n", option.name, use_here.sentence());
    let default = option.default_for(true);
    out += &format!("  {}, {}, default {}", option.kind.word(), option.level, shown(&default));
    if let Use::Honoured { default: Some(_), .. } = use_here {
        out += &format!(" (in Ceph {})", shown(option.daemon_default.unwrap_or(option.default)));
    }
    for (word, bound) in [("least", option.min), ("most", option.max)] {
        if let Some(bound) = bound {
            out += &format!(", {word} {bound}");
        }
    }
    if !option.choices.is_empty() {
        out += &format!(", one of: {}", option.choices.join(" "));
    }
    out + "\n"
}

fn shown(value: &str) -> &str {
    if value.is_empty() { "nothing" } else { value }
}

fn value(option: &OptionFacts) -> Value {
    let use_here = options::use_of(option.name);
    let word = match use_here {
        Use::Honoured { .. } => "honoured",
        Use::Conf { .. } => "ceph.conf",
        Use::Clients => "clients",
        Use::Ignored { .. } => "ignored",
    };
    json!({
        "name": option.name,
        "use": word,
        "why": use_here.sentence(),
        "type": option.kind.word(),
        "level": option.level,
        "default": option.default_for(true),
        "default_of_ceph": option.daemon_default.unwrap_or(option.default),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_is_told_in_a_sentence() {
        let check = |name: &str, words: &str| {
            let text = text(options::find(name).unwrap());
            assert!(text.contains(words), "{text}");
        };
        check("mon_allow_pool_delete", "default true (in Ceph false)");
        check("osd_max_backfills", "honoured: Groups that heal at a time");
        check("osd_recovery_sleep", "honoured: Seconds of pause");
        check("osd_recovery_priority", "nothing acts on it: recovery gives way to clients");
        check("rbd_cache", "given to clients");
        check("osd_memory_target", "read from ceph.conf");
        check("mon_max_pg_per_osd", "honoured: Most copies");
        check("bluestore_csum_type", "one of: none crc32c");
        let missing = cli::ConfigWhy { options: vec!["nothing".to_owned()], json: false };
        assert!(why(&missing).is_err());
    }
}
