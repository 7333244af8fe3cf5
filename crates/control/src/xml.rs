//! Values as the XML that Ceph's formatter prints.
//!
//! XML has names where JSON has none: of the whole, and of the entries of a list. They are Ceph's for the commands that
//! the tables have; elsewhere the whole has the command's last word, and an entry the list's name without its `s`.

use serde_json::Value;
use std::fmt::Write;

/// Names of the whole, by command.
const ROOTS: &[(&str, &str)] = &[
    ("auth get", "auth"),
    ("auth export", "auth"),
    ("auth get-key", "auth"),
    ("auth get-or-create", "auth"),
    ("auth get-or-create-key", "auth"),
    ("auth get-or-create-pending", "auth"),
    ("auth list", "auth"),
    ("auth ls", "auth"),
    ("auth print-key", "auth"),
    ("auth print_key", "auth"),
    ("auth rotate", "auth"),
    ("config dump", "config"),
    ("config get", "config"),
    ("config help", "option"),
    ("config log", "changesets"),
    ("config ls", "options"),
    ("config show", "config"),
    ("config show-with-defaults", "config"),
    ("config-key dump", "config-key_store"),
    ("config-key ls", "keys"),
    ("connection scores dump", "connection_scores"),
    ("deep_scrub", "result"),
    ("df", "stats"),
    ("dump_historic_ops", "op_history"),
    ("dump_historic_ops_by_duration", "op_history"),
    ("dump_historic_slow_ops", "OpHistory slow ops"),
    ("dump_op_pq_state", "pq"),
    ("dump_pg_recovery_stats", "pg_recovery_stats"),
    ("fs dump", "fsmap"),
    ("fs ls", "filesystems"),
    ("log last", "tail"),
    ("list_unfound", "missing"),
    ("mds metadata", "mds_metadata"),
    ("mds stat", "mds_stat"),
    ("mgr dump", "mgrmap"),
    ("mgr metadata", "mgr_metadata"),
    ("mgr module ls", "modules"),
    ("mon count-metadata", "ceph_version"),
    ("mon dump", "monmap"),
    ("mon feature ls", "features"),
    ("mon metadata", "mon_metadata"),
    ("mon stat", "monmap"),
    ("mon versions", "ceph_version"),
    ("node ls", "nodes"),
    ("osd blocked-by", "pg_info"),
    ("osd count-metadata", "ceph_version"),
    ("osd crush class ls", "crush_classes"),
    ("osd crush class ls-osd", "osds"),
    ("osd crush dump", "crush_map"),
    ("osd crush get-device-class", "osd_device_classes"),
    ("osd crush ls", "items"),
    ("osd crush rule dump", "rules"),
    ("osd crush rule ls", "rules"),
    ("osd crush show-tunables", "crush_map_tunables"),
    ("osd crush tree", "crush_tree"),
    ("osd crush weight-set dump", "choose_args"),
    ("osd crush weight-set ls", "weight_sets"),
    ("osd dump", "osdmap"),
    ("osd erasure-code-profile get", "profile"),
    ("osd erasure-code-profile ls", "erasure-code-profiles"),
    ("osd find", "osd_location"),
    ("osd ls", "osds"),
    ("osd ls-tree", "osds"),
    ("osd lspools", "pools"),
    ("osd map", "osd_map"),
    ("osd metadata", "osd_metadata"),
    ("osd numa-status", "osds"),
    ("osd ok-to-stop", "ok_to_stop"),
    ("osd perf", "pg_info"),
    ("osd pool application get", "pools"),
    ("osd pool get", "pool"),
    ("osd pool get-quota", "pool_quotas"),
    ("osd pool ls", "pools"),
    ("osd pool stats", "pool_stats"),
    ("osd safe-to-destroy", "osd_status"),
    ("osd stat", "osdmap"),
    ("osd test-reweight-by-utilization", "reweight_by_utilization"),
    ("osd reweight-by-utilization", "reweight_by_utilization"),
    ("osd versions", "ceph_version"),
    ("pg dump", "pg_info"),
    ("pg dump_stuck", "pg_info"),
    ("pg ls", "pg_info"),
    ("pg ls-by-osd", "pg_info"),
    ("pg ls-by-pool", "pg_info"),
    ("pg ls-by-primary", "pg_info"),
    ("pg map", "pg_map"),
    ("pg stat", "pg_info"),
    ("query", "pg"),
    ("scrub", "result"),
    ("service dump", "service_map"),
    ("service status", "service_status"),
    ("time-sync-status", "time_sync"),
    ("versions", "version"),
];

/// Names of entries of lists, by the list's name, or by the command where the whole is a list.
const ENTRIES: &[(&str, &str)] = &[
    ("acting", "osd"),
    ("acting_recovery_backfill", "shard"),
    ("active", "osd"),
    ("addrvec", "addr"),
    ("auth export", "auth_entities"),
    ("auth get", "auth_entities"),
    ("auth get-or-create", "auth_entities"),
    ("auth get-or-create-pending", "auth_entities"),
    ("auth rotate", "auth_entities"),
    ("auth_dump", "auth_entities"),
    ("avail_no_missing", "shard"),
    ("backfill_targets", "shard"),
    ("bad_already_inactive", "pg"),
    ("bad_become_inactive", "pg"),
    ("children", "child"),
    ("client", "group"),
    ("config dump", "option"),
    ("config log", "changeset"),
    ("config ls", "option"),
    ("config show", "value"),
    ("config show-with-defaults", "value"),
    ("config-key ls", "key"),
    ("detail", "detail_item"),
    ("down_osds_we_would_probe", "osd"),
    ("disabled_modules", "module"),
    ("enabled_modules", "module"),
    ("always_on_modules", "module"),
    ("available_modules", "module"),
    ("enum_allowed", "value"),
    ("flags", "option"),
    ("flags_set", "flag"),
    ("log last", "entry"),
    ("locations", "shard"),
    ("mgr", "group"),
    ("mgr metadata", "mgr"),
    ("might_have_unfound", "osd"),
    ("mon", "group"),
    ("mon metadata", "mon"),
    ("nodes", "item"),
    ("num_pg_by_state", "state"),
    ("ok_become_degraded", "pg"),
    ("ok_become_more_degraded", "pg"),
    ("osd", "group"),
    ("osd blocklist ls", "entry"),
    ("osd crush get-device-class", "osd_device_class"),
    ("osd crush ls", "item"),
    ("osd crush rule dump", "rule"),
    ("osd crush rule ls", "name"),
    ("osd erasure-code-profile ls", "profile"),
    ("osd ls", "osd"),
    ("osd ls-tree", "osd"),
    ("osd lspools", "pool"),
    ("osd metadata", "osd"),
    ("osd numa-status", "osd"),
    ("osd pool ls", "pool"),
    ("osd pool stats", "pool"),
    ("osd_perf_infos", "osd"),
    ("pacific", "module"),
    ("persistent", "bit_flag"),
    ("peer_info", "info"),
    ("peering_blocked_by", "osd"),
    ("pg_stats", "pg_stat"),
    ("probing_osds", "osd"),
    ("quorum", "mon"),
    ("quorum_names", "mon"),
    ("recovery_state", "state"),
    ("required", "bit_flag"),
    ("stray", "item"),
    ("stuck_pg_stats", "pg_stat"),
    ("supported", "bit_flag"),
    ("unknown_pgs", "pg"),
    ("up", "osd"),
];

fn root(prefix: &str) -> &str {
    let known = ROOTS.iter().find(|(command, _)| *command == prefix).map(|(_, name)| *name);
    known.unwrap_or_else(|| prefix.rsplit(' ').next().unwrap_or(prefix))
}

fn entry<'a>(list: &'a str, value: &Value) -> &'a str {
    match ENTRIES.iter().find(|(name, _)| *name == list) {
        // A list of names of pools, as opposed to one with their settings.
        Some(_) if list == "osd pool ls" && value.is_string() => "pool_name",
        Some((_, name)) => name,
        None => list.rsplit(' ').next().and_then(|word| word.strip_suffix('s')).unwrap_or("item"),
    }
}

/// Returns the answer `value` of the command `prefix` as XML: on one line without an end, or indented by a blank a
/// level.
pub fn render(prefix: &str, value: &Value, pretty: bool) -> String {
    render_as(root(prefix), prefix, value, pretty)
}

/// Returns `value` as XML of the name `root`. `list`: the name of the list that it may be.
pub fn render_as(root: &str, list: &str, value: &Value, pretty: bool) -> String {
    let mut out = String::new();
    element(&mut out, root, list, value, pretty.then_some(0));
    if pretty {
        out.push('\n');
    }
    out
}

/// Writes one element. `list`: the name by which entries are named if it is a list; `depth`: `None` for one line.
fn element(out: &mut String, tag: &str, list: &str, value: &Value, depth: Option<usize>) {
    let tag = tag.replace(' ', "_");
    let indent = |out: &mut String| (0..depth.unwrap_or(0)).for_each(|_| out.push(' '));
    let end_line = |out: &mut String| out.push_str(if depth.is_some() { "\n" } else { "" });
    indent(out);
    write!(out, "<{tag}>").expect("writing to a string");
    let inner = depth.map(|depth| depth + 1);
    match value {
        Value::Array(items) => {
            end_line(out);
            items.iter().for_each(|item| element(out, entry(list, item), "", item, inner));
            indent(out);
        }
        Value::Object(fields) => {
            end_line(out);
            fields.iter().for_each(|(key, item)| element(out, key, key, item, inner));
            indent(out);
        }
        Value::String(text) => escape(out, text),
        Value::Null => {}
        other => out.push_str(&crate::Format::Json.render(other)),
    }
    write!(out, "</{tag}>").expect("writing to a string");
    end_line(out);
}

fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_have_cephs_names() {
        let value = json!([{"section": "osd", "name": "a<b", "mask": {}}]);
        let line = "<config><option><section>osd</section><name>a&lt;b</name><mask></mask></option></config>";
        assert_eq!(render("config dump", &value, false), line);
        let pretty = "<config>\n <option>\n  <section>osd</section>\n  <name>a&lt;b</name>\n  <mask>\n  </mask>\n \
                      </option>\n</config>\n\n";
        assert_eq!(render("config dump", &value, true), pretty);
        assert_eq!(render("osd ls", &json!([0, 1]), false), "<osds><osd>0</osd><osd>1</osd></osds>");
        assert_eq!(render("osd pool ls", &json!(["p"]), false), "<pools><pool_name>p</pool_name></pools>");
        assert_eq!(render("osd pool ls", &json!([{"pool": 1}]), false), "<pools><pool><pool>1</pool></pool></pools>");
        assert_eq!(render("x y", &json!({"things": [true]}), false), "<y><things><thing>true</thing></things></y>");
    }
}
