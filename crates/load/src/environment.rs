//! Conditions that must be equal to repeat a run: the machine, and the clusters' description of themselves.

use std::collections::BTreeMap;
use std::io::Read;

use client::Cluster;
use serde_json::{Value, json};

use crate::pools::json_command;
use crate::run_folder::{FolderError, RunFolder};

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Number of processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A random word that distinguishes this run's objects from those of others: 8 hexadecimal digits.
pub fn token() -> String {
    let mut bytes = [0; 4];
    let random = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    let number = match random {
        Ok(()) => u32::from_le_bytes(bytes),
        Err(_) => std::process::id(),
    };
    format!("{number:08x}")
}

/// Id of this machine since its start.
pub fn machine_id() -> String {
    read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Facts about this machine.
pub fn machine() -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        facts.insert(name.to_owned(), value.unwrap_or_else(|| "not available".into()));
    };
    add("machine.host", read("/proc/sys/kernel/hostname"));
    add("machine.kernel", read("/proc/sys/kernel/osrelease"));
    let cpus = read("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    add("machine.processor", model.map(|(_, name)| name.trim().to_owned()));
    add("machine.processors", Some(processors().to_string()));
    let memory = read("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    add("machine.memory", total.map(|text| text.trim().to_owned()));
    add("machine.load_at_start", read("/proc/loadavg"));
    add("machine.transparent_huge_pages", read("/sys/kernel/mm/transparent_hugepage/enabled"));
    let page_cache = match std::fs::OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches") {
        Ok(_) => "dropped before reads".to_owned(),
        Err(error) => format!("not dropped: {error}"),
    };
    add("machine.page_cache", Some(page_cache));
    facts
}

/// Collects facts about a cluster, and writes its own answers into the folder. Returns its `osd dump`.
pub async fn cluster(
    name: &str,
    cluster: &Cluster,
    facts: &mut BTreeMap<String, String>,
    folder: &RunFolder,
) -> Result<Value, FolderError> {
    let mut answers = BTreeMap::new();
    for prefix in ["versions", "osd dump", "osd tree", "osd stat", "config dump", "df", "health"] {
        // A command that Ceph or Nacre does not answer leaves its error in the file.
        let answer = match json_command(cluster, json!({"prefix": prefix})).await {
            Ok(answer) => answer,
            Err(error) => json!({"error": error.to_string()}),
        };
        let file = prefix.replace(' ', "-");
        let text = serde_json::to_string_pretty(&answer).expect("JSON that was read can be written");
        folder.write(&format!("clusters/{name}/{file}.json"), &(text + "\n"))?;
        answers.insert(prefix, answer);
    }
    let versions = answers["versions"]["overall"].as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
    let mut add = |what: &str, value: String| facts.insert(format!("cluster.{name}.{what}"), value);
    add("fsid", cluster.fsid().to_string());
    add("versions", versions.map_or("not available".into(), |all| all.join("; ")));
    add("osds_in", answers["osd stat"]["num_in_osds"].to_string());
    add("health", problems(&answers["health"]));
    add("durability", "writes are acknowledged when every member of the acting set has made them durable".into());
    Ok(answers.remove("osd dump").unwrap_or_default())
}

/// The cluster's health in one line.
pub async fn health(cluster: &Cluster) -> String {
    match json_command(cluster, json!({"prefix": "health"})).await {
        Ok(health) => format!("the cluster says {}", problems(&health)),
        Err(error) => format!("the cluster's health is unknown: {error}"),
    }
}

fn problems(health: &Value) -> String {
    let status = health["status"].as_str().unwrap_or("nothing about its health");
    let checks = health["checks"].as_object();
    let words: Vec<String> = checks
        .into_iter()
        .flatten()
        .map(|(code, check)| format!("{code}: {}", check["summary"]["message"].as_str().unwrap_or_default()))
        .collect();
    if words.is_empty() { status.to_owned() } else { format!("{status} ({})", words.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_in_one_line() {
        assert_eq!(problems(&json!({"status": "HEALTH_OK", "checks": {}})), "HEALTH_OK");
        let down = json!({"status": "HEALTH_WARN", "checks": {"OSD_DOWN": {"summary": {"message": "1 osds down"}}}});
        assert_eq!(problems(&down), "HEALTH_WARN (OSD_DOWN: 1 osds down)");
        assert_eq!(problems(&json!({})), "nothing about its health");
    }

    #[test]
    fn a_machine_has_a_kernel_and_tokens_differ() {
        assert!(machine()["machine.kernel"] != "not available");
        assert!(token().len() == 8 && token() != token());
    }
}
