//! Finds a cluster's daemons on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Names of the programs of a cluster's daemons.
const PROGRAMS: [&str; 4] = ["nacre", "ceph-mon", "ceph-mgr", "ceph-osd"];
/// Folder where packages put the configuration of a machine's one cluster.
const SYSTEM_FOLDER: &str = "/etc/ceph";

/// A cluster's daemons on this machine, and the resources that they use. Empty if the cluster runs on other machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Process ids by name, such as `osd.0`.
    pub daemons: BTreeMap<String, u32>,
    /// The drives that hold the daemons' stores, as major and minor number.
    pub drives: BTreeSet<(u32, u32)>,
    /// Ports at which OSDs listen for clients, and for each other.
    pub public_ports: BTreeSet<u16>,
    pub cluster_ports: BTreeSet<u16>,
}

impl Sources {
    /// Finds the daemons of the cluster with the configuration at `configuration`: those whose process ids are in files
    /// `run/NAME.pid` beside it, or every daemon if it is the system's configuration. `osd_dump` tells their ports.
    pub fn find(configuration: &Path, osd_dump: &Value) -> Sources {
        let folder = configuration.parent().unwrap_or(Path::new(""));
        let run = folder.join("run");
        let mut sources = Sources::default();
        if folder == Path::new(SYSTEM_FOLDER) {
            sources.daemons = all_daemons();
        } else {
            sources.daemons = daemons_of(&run);
        }
        let osds = || sources.daemons.keys().filter(|name| name.starts_with("osd."));
        for name in osds() {
            let id = name.trim_start_matches("osd.");
            let stores = [folder.join(name), PathBuf::from(format!("/var/lib/ceph/osd/ceph-{id}"))];
            sources.drives.extend(stores.iter().find_map(|store| drive_of(store)));
        }
        for osd in osd_dump["osds"].as_array().into_iter().flatten() {
            let here = osd["osd"].as_u64().is_some_and(|id| sources.daemons.contains_key(&format!("osd.{id}")));
            if here {
                sources.public_ports.extend(ports(&osd["public_addrs"]));
                sources.cluster_ports.extend(ports(&osd["cluster_addrs"]));
            }
        }
        sources
    }
}

fn command_line(pid: u32) -> Option<Vec<String>> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// True if the process is a daemon: the process id in an old file may belong to another process by now.
fn is_daemon(words: &[String]) -> bool {
    let program = words.first().map(|word| word.rsplit('/').next().unwrap_or_default());
    program.is_some_and(|program| PROGRAMS.contains(&program))
}

fn daemons_of(run: &Path) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(run).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".pid")) else { continue };
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let Some(pid) = text.split_whitespace().next().and_then(|word| word.parse().ok()) else { continue };
        // A supervisor, whose name has no dot, is left out: it does nothing for operations.
        if name.contains('.') && command_line(pid).is_some_and(|words| is_daemon(&words)) {
            found.insert(name.to_owned(), pid);
        }
    }
    found
}

/// All of Ceph's daemons on this machine, as packages start them.
fn all_daemons() -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(name) = command_line(pid).and_then(|words| daemon_name(&words)) {
            found.insert(name, pid);
        }
    }
    found
}

fn daemon_name(words: &[String]) -> Option<String> {
    let program = words.first()?.rsplit('/').next()?;
    let kind = program.strip_prefix("ceph-").filter(|_| PROGRAMS.contains(&program))?;
    let at = words.iter().position(|word| word == "--id" || word == "-i")?;
    Some(format!("{kind}.{}", words.get(at + 1)?))
}

/// The drive that holds the store in folder `store`.
fn drive_of(store: &Path) -> Option<(u32, u32)> {
    let metadata = std::fs::metadata(store.join("block")).or_else(|_| std::fs::metadata(store)).ok()?;
    let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    Some((rustix::fs::major(number), rustix::fs::minor(number)))
}

fn ports(addrs: &Value) -> Vec<u16> {
    let port = |entry: &Value| entry["addr"].as_str()?.rsplit_once(':')?.1.parse().ok();
    addrs["addrvec"].as_array().into_iter().flatten().filter_map(port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_daemons_that_run_are_found() {
        let folder = std::env::temp_dir().join(format!("load-sources-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("run")).unwrap();
        std::fs::create_dir_all(folder.join("osd.0")).unwrap();
        // A stand-in for a daemon: only the name that it was started by matters.
        let mut command = std::process::Command::new("/bin/sleep");
        std::os::unix::process::CommandExt::arg0(&mut command, "ceph-osd");
        let mut child = command.arg("60").spawn().unwrap();
        // The kernel shows a program's arguments a moment after it has begun.
        while command_line(child.id()).is_none_or(|words| words[0] != "ceph-osd") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let own = std::process::id();
        for (name, pid) in [("osd.0", child.id()), ("osd.1", own), ("supervisor", child.id()), ("osd.2", u32::MAX)] {
            std::fs::write(folder.join(format!("run/{name}.pid")), format!("{pid}\n")).unwrap();
        }
        let addrs = |port: u16| json!({"addrvec": [{"type": "v2", "addr": format!("127.0.0.1:{port}"), "nonce": 1}]});
        let osd =
            |id: u32, port: u16| json!({"osd": id, "public_addrs": addrs(port), "cluster_addrs": addrs(port + 1)});
        let dump = json!({"osds": [osd(0, 6800), osd(1, 6900)]});
        let found = Sources::find(&folder.join("ceph.conf"), &dump);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.daemons, BTreeMap::from([("osd.0".to_owned(), child.id())]));
        assert_eq!((found.public_ports, found.cluster_ports), ([6800].into(), [6801].into()));
        assert_eq!(found.drives.len(), 1);
        let elsewhere = Sources::find(Path::new("/nowhere/ceph.conf"), &dump);
        assert_eq!(elsewhere, Sources::default(), "ports of other machines mean nothing here");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn names_from_command_lines() {
        let name = |line: &str| daemon_name(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(name("/usr/bin/ceph-osd -f --cluster ceph --id 12"), Some("osd.12".into()));
        assert_eq!(name("ceph-mon -i a"), Some("mon.a".into()));
        assert_eq!(name("ceph-osd --version"), None);
        assert_eq!(name("vim --id 3"), None);
    }
}
