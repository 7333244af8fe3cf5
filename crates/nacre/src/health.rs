//! The state of the cluster by its monitors, in a form to show.

use crate::byte_size::ByteSize;
use anyhow::{Context, Result, bail};
use client::Cluster;
use report::{Cell, Column, Table};
use serde_json::{Value, json};

/// Characters of a bar.
const BAR_WIDTH: usize = 20;

/// Runs a monitor command and reads its JSON output.
///
/// Errors: no answer, a negative result (with the monitor's own words), output that is not JSON.
pub async fn json_command(cluster: &Cluster, mut command: Value) -> Result<Value> {
    command["format"] = json!("json");
    let prefix = command["prefix"].as_str().unwrap_or_default().to_owned();
    let reply = cluster.mon_command(&command.to_string(), Default::default()).await?;
    if let Some(errno) = types::Errno::from_result(reply.result) {
        bail!("'{prefix}': {} ({errno})", reply.status.trim());
    }
    serde_json::from_slice(&reply.output).with_context(|| format!("'{prefix}' answered with something else than JSON"))
}

/// The monitors' summary.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// `HEALTH_OK`, `HEALTH_WARN`, `HEALTH_ERR`.
    pub status: String,
    /// One line per problem: `OSD_DOWN: 1 osds down`.
    pub problems: Vec<String>,
    pub mons: Vec<String>,
    pub mons_total: u64,
    pub osds: u64,
    pub osds_up: u64,
    pub osds_in: u64,
    pub pools: u64,
    pub pgs: u64,
    pub pgs_by_state: Vec<(String, u64)>,
    pub objects: u64,
    pub data: u64,
    pub used: u64,
    pub available: u64,
    pub total: u64,
    /// Processes that move objects, in the monitors' words, and how much of each is done in percent.
    pub healing: Vec<(String, u64)>,
    pub healing_bytes_per_s: u64,
}

/// Returns true for the state of a group that has all its copies. One whose shards are in another order than its place
/// says may stay as it is.
fn is_clean(state: &str) -> bool {
    matches!(state, "active+clean" | "active+clean+remapped")
}

impl Health {
    /// Reads the output of `status` in JSON.
    pub fn from_status(status: &Value) -> Health {
        let number = |path: &str| status.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let checks = status.pointer("/health/checks").and_then(Value::as_object);
        let problem = |(code, check): (&String, &Value)| {
            format!("{code}: {}", check.pointer("/summary/message").map(text).unwrap_or_default())
        };
        let states = status.pointer("/pgmap/pgs_by_state").and_then(Value::as_array);
        let state = |entry: &Value| (text(&entry["state_name"]), entry["count"].as_u64().unwrap_or(0));
        let names = status.pointer("/quorum_names").and_then(Value::as_array);
        let events = status.pointer("/progress_events").and_then(Value::as_object);
        let healing = |event: &Value| {
            (text(&event["message"]), (event["progress"].as_f64().unwrap_or(0.0) * 100.0).clamp(0.0, 100.0) as u64)
        };
        Health {
            status: status.pointer("/health/status").map(text).unwrap_or_default(),
            problems: checks.into_iter().flatten().map(problem).collect(),
            mons: names.into_iter().flatten().map(text).collect(),
            mons_total: number("/monmap/num_mons"),
            osds: number("/osdmap/num_osds"),
            osds_up: number("/osdmap/num_up_osds"),
            osds_in: number("/osdmap/num_in_osds"),
            pools: number("/pgmap/num_pools"),
            pgs: number("/pgmap/num_pgs"),
            pgs_by_state: states.into_iter().flatten().map(state).collect(),
            objects: number("/pgmap/num_objects"),
            data: number("/pgmap/data_bytes"),
            used: number("/pgmap/bytes_used"),
            available: number("/pgmap/bytes_avail"),
            total: number("/pgmap/bytes_total"),
            healing: events.into_iter().flat_map(|events| events.values()).map(healing).collect(),
            healing_bytes_per_s: number("/pgmap/recovering_bytes_per_sec"),
        }
    }

    pub async fn ask(cluster: &Cluster) -> Result<Health> {
        Ok(Health::from_status(&json_command(cluster, json!({"prefix": "status"})).await?))
    }

    /// Tells if nothing is left to wait for after a start with `osds` OSDs.
    pub fn is_ok_with(&self, osds: u32) -> bool {
        self.status == "HEALTH_OK" && self.osds_up >= osds.into()
    }

    /// Returns how many placement groups have all their copies where they may stay.
    pub fn clean_pgs(&self) -> u64 {
        self.pgs_by_state.iter().filter(|(state, _)| is_clean(state)).map(|(_, count)| count).sum()
    }

    /// Tells if everything serves and only warnings are left, which waiting may not cure: a pool without an
    /// application, a flag that somebody has set.
    pub fn only_warns_with(&self, osds: u32) -> bool {
        let clean = self.pgs_by_state.iter().all(|(state, _)| is_clean(state));
        self.status == "HEALTH_WARN" && self.osds_up >= osds.into() && clean
    }

    /// A line about how far a start has come.
    pub fn progress(&self, osds: u32) -> String {
        if self.osds_up < osds.into() {
            return format!("{} of {osds} OSDs up", self.osds_up);
        }
        let clean = self.clean_pgs();
        if clean < self.pgs {
            return format!("{osds} OSDs up, {clean} of {} placement groups active and clean", self.pgs);
        }
        let problems = self.problems.first().map(|p| format!(" ({p})")).unwrap_or_default();
        format!("{osds} OSDs up, {}{problems}", self.status)
    }

    /// A page for people.
    pub fn page(&self, fsid: &str) -> String {
        let states: Vec<String> = self.pgs_by_state.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let mut lines = vec![format!("cluster  {fsid}"), format!("health   {}", self.status)];
        lines.extend(self.problems.iter().map(|problem| format!("         {problem}")));
        lines.push(format!("mons     {} of {} in quorum ({})", self.mons.len(), self.mons_total, self.mons.join(", ")));
        lines.push(format!("osds     {} of {} up, {} in", self.osds_up, self.osds, self.osds_in));
        let pgs = if states.is_empty() { String::new() } else { format!(": {}", states.join(", ")) };
        lines.push(format!("pools    {}, with {} placement groups{pgs}", self.pools, self.pgs));
        for (message, percent) in &self.healing {
            let done = *percent as usize * BAR_WIDTH / 100;
            let (done, left) = ("=".repeat(done), ".".repeat(BAR_WIDTH - done));
            lines.push(format!(
                "healing  [{done}{left}] {percent} %, {}/s; {message}",
                ByteSize(self.healing_bytes_per_s)
            ));
        }
        lines.push(format!("objects  {}, {}", self.objects, ByteSize(self.data)));
        let (used, total, free) = (ByteSize(self.used), ByteSize(self.total), ByteSize(self.available));
        lines.push(format!("usage    {used} of {total} used, {free} available"));
        lines.join("\n") + "\n"
    }
}

/// The epochs since which OSDs are up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdStarts {
    /// Epoch of the OSD map that tells them.
    pub epoch: u64,
    /// Epochs in which the OSDs that are up came up.
    up_from: Vec<u64>,
}

impl OsdStarts {
    /// Reads the output of `osd dump` in JSON.
    fn from_dump(dump: &Value) -> OsdStarts {
        let up = dump["osds"].as_array().into_iter().flatten().filter(|osd| osd["up"] == 1);
        let up_from = up.filter_map(|osd| osd["up_from"].as_u64()).collect();
        OsdStarts { epoch: dump["epoch"].as_u64().unwrap_or(0), up_from }
    }

    pub async fn ask(cluster: &Cluster) -> Result<OsdStarts> {
        Ok(OsdStarts::from_dump(&json_command(cluster, json!({"prefix": "osd dump"})).await?))
    }

    /// OSDs that came up after `epoch`.
    pub fn newer_than(&self, epoch: u64) -> u64 {
        self.up_from.iter().filter(|up_from| **up_from > epoch).count() as u64
    }
}

/// One line per pool, from the output of `df` in JSON. Empty if there is no pool.
pub fn pool_table(df: &Value, width: usize) -> String {
    let numbers = ["id", "objects", "stored", "used", "available"].map(|heading| Column::number(heading, ""));
    let mut table = Table::new("pools", "", [Column::text("pool")].into_iter().chain(numbers).collect());
    for pool in df["pools"].as_array().into_iter().flatten() {
        let number = |key: &str| pool["stats"][key].as_u64().unwrap_or(0);
        let size = |key: &str| Cell::Text(ByteSize(number(key)).to_string());
        table.push(vec![
            Cell::text(pool["name"].as_str().unwrap_or_default()),
            Cell::Text(pool["id"].to_string()),
            Cell::Count(number("objects")),
            size("stored"),
            size("bytes_used"),
            size("max_avail"),
        ]);
    }
    if table.is_empty() { String::new() } else { table.to_text(width) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        json!({
            "fsid": "f", "quorum_names": ["a"], "monmap": {"num_mons": 1},
            "health": {"status": "HEALTH_WARN", "checks": {"OSD_DOWN": {"severity": "HEALTH_WARN",
                "summary": {"message": "1 osds down", "count": 1}}}, "mutes": []},
            "osdmap": {"num_osds": 3, "num_up_osds": 2, "num_in_osds": 3},
            "pgmap": {"pgs_by_state": [{"state_name": "active+clean", "count": 30}, {"state_name": "peering", "count": 3}],
                "num_pgs": 33, "num_pools": 2, "num_objects": 4, "data_bytes": 4096,
                "bytes_used": 1 << 30, "bytes_avail": 3u64 << 30, "bytes_total": 4u64 << 30},
        })
    }

    #[test]
    fn a_page_says_what_matters() {
        let health = Health::from_status(&sample());
        assert!(!health.is_ok_with(2) && !health.only_warns_with(2) && health.progress(3) == "2 of 3 OSDs up");
        let page = health.page("f");
        for part in
            ["HEALTH_WARN", "OSD_DOWN: 1 osds down", "2 of 3 up, 3 in", "30 active+clean, 3 peering", "1 GiB of 4 GiB"]
        {
            assert!(page.contains(part), "{page}");
        }
    }

    #[test]
    fn a_page_shows_how_far_healing_is() {
        let mut status = sample();
        assert!(!Health::from_status(&status).page("f").contains("healing"));
        status["progress_events"] =
            json!({"1": {"message": "Rebalancing after osd.2 marked out (9s) (remaining: 27s)", "progress": 0.25}});
        status["pgmap"]["recovering_bytes_per_sec"] = json!(3 << 20);
        let page = Health::from_status(&status).page("f");
        let line =
            "healing  [=====...............] 25 %, 3 MiB/s; Rebalancing after osd.2 marked out (9s) (remaining: 27s)\n";
        assert!(page.contains(line), "{page}");
    }

    #[test]
    fn progress_goes_from_osds_to_groups_to_health() {
        let mut health = Health::from_status(&sample());
        health.osds_up = 3;
        assert_eq!(health.progress(3), "3 OSDs up, 30 of 33 placement groups active and clean");
        health.pgs_by_state = vec![("active+clean".into(), 30), ("active+clean+remapped".into(), 3)];
        assert_eq!(health.progress(3), "3 OSDs up, HEALTH_WARN (OSD_DOWN: 1 osds down)");
        assert!(health.only_warns_with(3) && !health.only_warns_with(4) && !health.is_ok_with(3));
        (health.status, health.problems) = ("HEALTH_OK".into(), vec![]);
        assert!(health.is_ok_with(3) && !health.is_ok_with(4));
    }

    #[test]
    fn only_fresh_starts_count() {
        let osd = |up: u32, from: u64| json!({"osd": 0, "up": up, "in": 1, "up_from": from});
        let starts = OsdStarts::from_dump(&json!({"epoch": 9, "osds": [osd(1, 4), osd(1, 10), osd(0, 11)]}));
        assert_eq!((starts.epoch, starts.newer_than(3), starts.newer_than(9)), (9, 2, 1));
    }

    #[test]
    fn pools_line_up() {
        let stats = json!({"objects": 12, "stored": 5_000_000, "bytes_used": 15_000_000, "max_avail": 1u64 << 40});
        let table = pool_table(&json!({"pools": [{"name": "photos", "id": 1, "stats": stats}]}), 100);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3, "headings, a rule and a pool: {table}");
        assert!(lines[0].len() == lines[2].len() && lines[2].ends_with("1 TiB"), "{table}");
        assert_eq!(pool_table(&json!({"pools": []}), 100), "");
    }
}
