//! A real Ceph from the system's packages as the daemons of a cluster: the same directory, the same commands, other
//! programs. Nacre's supervisor keeps them; here is what they need to be told.

use crate::conf_writer::{quoted, random_bytes};
use crate::layout::Layout;
use crate::state_file::{ClusterState, mon_id, write_durably};
use anyhow::{Context, Result, bail};
use client::Cluster;
use serde_json::json;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// Programs that must be installed, and the Debian packages that bring them.
const PROGRAMS: [(&str, &str); 5] = [
    ("ceph-mon", "ceph-mon"),
    ("ceph-mgr", "ceph-mgr"),
    ("ceph-osd", "ceph-osd"),
    ("monmaptool", "ceph-base"),
    ("setpriv", "util-linux"),
];
/// Memory of each OSD. Ceph's OSDs accept no less than 896 MiB; six of them at their default of 4 GiB need more than
/// most machines have.
const OSD_MEMORY_BYTES: u64 = 1 << 30;
/// Name of the manager daemon. Any name will do.
pub const MANAGER: &str = "mgr.x";

/// Checks that everything is installed. Errors: what is missing and which packages bring it.
pub fn require_programs() -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    missing(is_there).map_or(Ok(()), |said| Err(anyhow::anyhow!(said)))
}

fn missing(is_there: impl Fn(&str) -> bool) -> Option<String> {
    let missing: Vec<_> = PROGRAMS.iter().filter(|(program, _)| !is_there(program)).collect();
    if missing.is_empty() {
        return None;
    }
    let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    Some(format!(
        "--engine ceph needs programs that are not installed: {}; on Debian: apt-get install --no-install-recommends {}",
        programs.join(", "),
        packages.join(" ")
    ))
}

/// The program and arguments of daemon `name` (`mon.a`, `mgr.x`, `osd.3`), in the foreground.
pub fn daemon_command(layout: &Layout, name: &str) -> (String, Vec<String>) {
    let (kind, id) = name.split_once('.').expect("daemon names have a dot");
    let conf = layout.conf().display().to_string();
    (format!("ceph-{kind}"), ["-f", "--id", id, "--conf", &conf].map(String::from).to_vec())
}

/// The text of `ceph.conf`.
pub fn ceph_conf(layout: &Layout, state: &ClusterState) -> String {
    let mon_addr = |index: u32| SocketAddr::new(state.bind, state.mon_port(index));
    let mon_host: Vec<String> = (0..state.mons).map(|index| format!("[v2:{}/0]", mon_addr(index))).collect();
    let ids: Vec<String> = state.mon_ids().collect();
    let path = |tail: &str| quoted(&format!("{}/{tail}", layout.dir().display()));
    let family = if state.bind.is_ipv4() { "ipv4" } else { "ipv6" };
    let mut lines = vec![
        "# Written by 'nacre up --engine ceph'; written anew at each start.".to_owned(),
        "[global]".into(),
        format!("fsid = {}", state.fsid),
        format!("mon host = {}", mon_host.join(",")),
        format!("mon initial members = {}", ids.join(",")),
    ];
    let method = if state.cephx { "cephx" } else { "none" };
    lines.extend(["cluster", "service", "client"].map(|side| format!("auth {side} required = {method}")));
    lines.extend(crate::conf_writer::secure_modes().filter(|_| state.secure));
    lines.extend([
        "auth allow insecure global id reclaim = false".into(),
        format!("keyring = {}", quoted(&layout.keyring().display().to_string())),
        format!("ms bind {family} = true"),
        "ms bind msgr1 = false".into(),
        format!("run dir = {}", path("run")),
        format!("admin socket = {}", path("run/$name.asok")),
        format!("log file = {}", path("log/$name.log")),
        format!("crash dir = {}", path("crash")),
        // Fewer OSDs than copies would never become healthy.
        format!("osd pool default size = {}", state.osds.min(3)),
        String::new(),
        "[mon]".into(),
        format!("mon data = {}", path("mon.$id")),
        "mon allow pool delete = true".into(),
        "mon allow pool size one = true".into(),
        "mon max pg per osd = 1000".into(),
        "mon data avail warn = 5".into(),
    ]);
    for index in 0..state.mons {
        lines.extend([format!("[mon.{}]", mon_id(index)), format!("public addr = {}", mon_addr(index))]);
    }
    lines.extend([
        String::new(),
        "[mgr]".into(),
        format!("mgr data = {}", path("mgr.$id")),
        String::new(),
        "[osd]".into(),
        format!("osd data = {}", path("osd.$id")),
        "osd objectstore = bluestore".into(),
        "bluestore block create = true".into(),
        format!("bluestore block size = {}", state.osd_size_bytes),
        format!("osd memory target = {OSD_MEMORY_BYTES}"),
        format!("public addr = {}", state.bind),
        format!("cluster addr = {}", state.bind),
        // 'nacre up' says where OSDs are: each stands for a host of its own.
        "osd crush update on start = false".into(),
        "osd class update on start = false".into(),
    ]);
    lines.iter().fold(String::new(), |mut text, line| {
        writeln!(text, "{line}").expect("a string takes any text");
        text
    })
}

/// Makes what a daemon needs before its first start. The configuration and the keyring are there.
pub async fn make(layout: &Layout, state: &ClusterState, daemon: &str) -> Result<()> {
    let (kind, id) = daemon.split_once('.').expect("daemon names have a dot");
    let folder = layout.dir().join(daemon);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let (program, mut args) = daemon_command(layout, daemon);
    args.remove(0);
    match kind {
        "mon" => {
            let monmap = monmap(layout, state).await?;
            let keyring = layout.keyring();
            let more = ["--mkfs", "--fsid", &state.fsid, "--monmap", &text(&monmap), "--keyring", &text(&keyring)];
            args.extend(more.map(String::from));
        }
        "osd" => {
            let uuid = types::Fsid::from_random(random_bytes()?).to_string();
            write_durably(&uuid_file(layout, id), format!("{uuid}\n").as_bytes(), 0o644)?;
            args.extend(["--mkfs", "--no-mon-config", "--osd-uuid", &uuid].map(String::from));
        }
        _ => return Ok(()),
    }
    run(&program, &args, daemon).await
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn uuid_file(layout: &Layout, osd: &str) -> PathBuf {
    layout.dir().join(format!("osd.{osd}/uuid"))
}

/// The file with the monitors' names and addresses that each is made with.
async fn monmap(layout: &Layout, state: &ClusterState) -> Result<PathBuf> {
    let file = layout.dir().join("mon.map");
    let mut args: Vec<String> = ["--create", "--clobber", "--fsid", &state.fsid].map(String::from).to_vec();
    for index in 0..state.mons {
        let addr = SocketAddr::new(state.bind, state.mon_port(index));
        args.extend(["--addv".into(), mon_id(index), format!("[v2:{addr}]")]);
    }
    args.push(text(&file));
    run("monmaptool", &args, "the monitors' map").await?;
    Ok(file)
}

async fn run(program: &str, args: &[String], what: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.args(args).stdin(std::process::Stdio::null()).env_remove("CEPH_ARGS").kill_on_drop(true);
    let output = command.output().await.with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let said = crate::creation::last_words(&output.stderr);
        bail!("{what} could not be created: {}", said.as_deref().unwrap_or("it said nothing"));
    }
    Ok(())
}

/// Tells the monitors of the OSDs and where they are. They must know before an OSD's first start; telling them again
/// changes nothing.
pub async fn register_osds(cluster: &Cluster, layout: &Layout, state: &ClusterState) -> Result<()> {
    for id in 0..state.osds {
        register_osd(cluster, layout, id).await?;
    }
    Ok(())
}

/// Tells the monitors of one OSD and where it is.
pub async fn register_osd(cluster: &Cluster, layout: &Layout, id: u32) -> Result<()> {
    let file = uuid_file(layout, &id.to_string());
    let uuid = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let new = json!({"prefix": "osd new", "uuid": uuid.trim(), "id": id});
    let place = json!({"prefix": "osd crush create-or-move", "id": id, "weight": 1.0,
                       "args": [format!("host=host{id}"), "root=default"]});
    for command in [new, place] {
        let reply = cluster.mon_command(&command.to_string(), Default::default()).await?;
        if let Some(errno) = types::Errno::from_result(reply.result) {
            bail!("'{}' for osd.{id}: {} ({errno})", command["prefix"].as_str().unwrap_or("?"), reply.status.trim());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::{ConfFile, Who};

    #[test]
    fn what_is_missing_is_named_with_its_packages() {
        assert_eq!(missing(|_| true), None);
        let said = missing(|program| program == "setpriv" || program == "ceph-mgr").unwrap();
        assert!(said.contains("ceph-mon, ceph-osd, monmaptool;"), "{said}");
        assert!(said.ends_with("apt-get install --no-install-recommends ceph-mon ceph-osd ceph-base"), "{said}");
    }

    #[test]
    fn the_configuration_reads_back() {
        let state = crate::state_file::tests::sample();
        let layout = Layout::new(Path::new("/no where/it's #1")).unwrap();
        let conf = ConfFile::parse(&ceph_conf(&layout, &state), Path::new("ceph.conf")).unwrap();
        let config = client::Config::from_file(&conf, &Who::new("client", "admin")).unwrap();
        assert_eq!(config.mon_hosts.len(), 1);
        assert_eq!(conf.get(&Who::new("client", "admin"), "keyring"), Some(layout.keyring().display().to_string()));
        let get = |who: &str, key: &str| conf.get(&Who::parse(who).unwrap(), key).unwrap();
        assert_eq!(get("osd.1", "osd data"), "/no where/it's #1/osd.1");
        assert_eq!(get("osd.1", "bluestore block size"), (1u64 << 30).to_string());
        assert_eq!(get("mon.a", "public addr"), "127.0.0.1:40000");
        assert_eq!(get("mgr.x", "log file"), "/no where/it's #1/log/mgr.x.log");
        assert_eq!(get("osd.1", "auth cluster required"), "none");
        let state = crate::state_file::ClusterState { cephx: true, ..state };
        assert!(ceph_conf(&layout, &state).contains("auth client required = cephx\n"));
        assert!(!ceph_conf(&layout, &state).contains("= secure"));
        let state = crate::state_file::ClusterState { secure: true, ..state };
        assert!(ceph_conf(&layout, &state).contains("ms cluster mode = secure\n"));
    }
}
