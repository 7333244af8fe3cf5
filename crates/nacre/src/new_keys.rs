//! Keys of daemons that `nacre up` makes, and how the monitors come to know them.
//!
//! The first monitor begins with the keys of the cluster's first OSDs. Keys of OSDs that are added later wait in a file
//! until the monitors have taken them.

use crate::conf_writer::keyring_with;
use crate::health::json_command;
use crate::layout::Layout;
use crate::state_file::{ClusterState, write_durably};
use anyhow::{Context, Result, bail};
use client::Cluster;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Capabilities of an OSD.
pub const OF_OSD: &[(&str, &str)] = &[("mgr", "allow profile osd"), ("mon", "allow profile osd"), ("osd", "allow *")];

/// The keyring with which the first monitor begins. It is there only while a cluster is made.
pub fn first_keyring(layout: &Layout) -> PathBuf {
    layout.dir().join("first.keyring.new")
}

/// Keys of OSDs that the monitors do not know yet.
fn waiting_keyring(layout: &Layout) -> PathBuf {
    layout.dir().join("osds.keyring.new")
}

/// Makes the keys of a new cluster's OSDs, and the keyring with which the first monitor begins: theirs and those in
/// `text`.
pub fn give_first(layout: &Layout, state: &ClusterState, text: &str) -> Result<()> {
    let mut text = text.to_owned();
    for daemon in state.daemons().iter().filter(|daemon| daemon.starts_with("osd.")) {
        let folder = layout.dir().join(daemon);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let own = keyring_with(daemon, OF_OSD)?;
        write_durably(&folder.join("keyring"), own.as_bytes(), 0o600)?;
        text += &own;
    }
    write_durably(&first_keyring(layout), text.as_bytes(), 0o600)
}

pub fn forget_first(layout: &Layout) -> Result<()> {
    forget(first_keyring(layout))
}

fn forget(path: PathBuf) -> Result<()> {
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Adds the keys that `nacre osd --mkfs` has made for these OSDs to the keys that wait for the monitors.
pub fn keep(layout: &Layout, osds: &[String]) -> Result<()> {
    let waiting = waiting_keyring(layout);
    if osds.is_empty() {
        return Ok(());
    }
    let mut text = match std::fs::read_to_string(&waiting) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.with_context(|| format!("cannot read {}", waiting.display()))?,
    };
    for osd in osds {
        let path = layout.dir().join(osd).join("keyring");
        text += &std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    write_durably(&waiting, text.as_bytes(), 0o600)
}

/// The OSDs of this cluster that were purged: the monitors know no key of theirs. Those whose keys wait have to be
/// imported before. Where nobody proves anything, a purged OSD comes in again.
pub async fn purged(cluster: &Cluster, state: &ClusterState) -> Result<Vec<String>> {
    if !state.cephx || !state.engine.is_nacre() {
        return Ok(Vec::new());
    }
    let listed = json_command(cluster, json!({"prefix": "auth ls"})).await?;
    let listed = listed["auth_dump"].as_array().context("the monitors do not name who has a key")?;
    let known: BTreeSet<&str> = listed.iter().filter_map(|entry| entry["entity"].as_str()).collect();
    let osds = state.daemons().into_iter().filter(|daemon| daemon.starts_with("osd."));
    Ok(osds.filter(|osd| !known.contains(osd.as_str())).collect())
}

/// Gives the monitors the keys that wait for them.
pub async fn import(cluster: &Cluster, layout: &Layout) -> Result<()> {
    let path = waiting_keyring(layout);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
    };
    let reply = cluster.mon_command(&json!({"prefix": "auth import"}).to_string(), text.into()).await?;
    if let Some(errno) = types::Errno::from_result(reply.result) {
        bail!("the monitors do not take the keys of new OSDs: {} ({errno})", reply.status.trim());
    }
    forget(path)
}
