//! `nacre auth`: clients and their keys, in the few forms that people need daily.

use crate::cli::{AuthAdd, AuthName, AuthRights, AuthRotate, ClientRights, Target};
use crate::connection::with_cluster;
use anyhow::{Result, bail};
use auth::KeyKind;
use auth::caps::{Access, MonCaps, MonRequest, OsdAllows, OsdCaps, OsdGrant};
use auth::keyring::parse_entity;
use client::Cluster;
use mon::state::MONITORS;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::Errno;

/// Capabilities by kind of daemon.
type Caps = BTreeMap<&'static str, String>;

/// `backup` means `client.backup`.
fn entity(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!("client.{name}") }
}

/// The capabilities for what a client is to do.
///
/// Errors: names that no capability can hold; rights without a pool.
fn caps(rights: &ClientRights) -> Result<Caps> {
    if rights.administrator {
        return Ok(["mds", "mgr", "mon", "osd"].map(|kind| (kind, "allow *".to_owned())).into());
    }
    if rights.pools.is_empty() {
        bail!("say what it is for: --pool POOL (several times for several pools), or --administrator for everything");
    }
    let word = |what: &str, text: &str| {
        let is_plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c));
        if is_plain { Ok(()) } else { Err(anyhow::anyhow!("{what} '{text}' cannot stand in capabilities")) }
    };
    let mut grants = Vec::new();
    for pool in &rights.pools {
        word("the pool's name", pool)?;
        let mut place = format!("pool={pool}");
        if let Some(namespace) = &rights.namespace {
            word("the namespace", namespace)?;
            place += &format!(" namespace={namespace}");
        }
        grants.push(match (rights.images, rights.read_only) {
            (true, true) => format!("profile rbd-read-only {place}"),
            (true, false) => format!("profile rbd {place}"),
            (false, true) => format!("allow r {place}"),
            (false, false) => format!("allow rwx {place}"),
        });
    }
    let at_monitors = if rights.images { "profile rbd" } else { "allow r" };
    Ok([("mon", at_monitors.to_owned()), ("osd", grants.join(", "))].into())
}

fn arguments(caps: &Caps) -> Vec<&str> {
    caps.iter().flat_map(|(kind, text)| [*kind, text.as_str()]).collect()
}

async fn command(cluster: &Cluster, command: Value) -> Result<String> {
    let reply = cluster.mon_command(&command.to_string(), Default::default()).await?;
    let output = String::from_utf8_lossy(&reply.output).into_owned();
    match Errno::from_result(reply.result) {
        Some(errno) => bail!("{} ({errno})", reply.status.trim()),
        None => Ok(output),
    }
}

/// Capabilities that let more be done than people mostly mean, each with a sentence.
fn warnings(name: &str, caps: &BTreeMap<String, String>) -> Vec<&'static str> {
    let mut found = Vec::new();
    let at_osds: OsdCaps = caps.get("osd").and_then(|text| text.parse().ok()).unwrap_or_default();
    if at_osds.allow_everything() {
        found.push("everything may be done with objects of all pools, and OSDs take commands");
    } else if at_osds.grants().iter().any(is_for_all_pools) {
        found.push("objects of all pools may be used: the capabilities for 'osd' name no pool");
    }
    let at_monitors: MonCaps = caps.get("mon").and_then(|text| text.parse().ok()).unwrap_or_default();
    let (arguments, who) = (BTreeMap::new(), parse_entity(name).unwrap_or_default());
    let may = |service, needs| {
        at_monitors.allows(&who, None, &MonRequest { service, command: "", arguments: &arguments, needs })
    };
    if may("auth", Access::RWX) {
        found.push("keys of all may be read and changed: the capabilities for 'mon' allow everything");
    } else if may("osd", Access::W) {
        found.push("the cluster may be changed, pools among others: the capabilities for 'mon' let it write");
    }
    found
}

fn is_for_all_pools(grant: &OsdGrant) -> bool {
    match &grant.allows {
        OsdAllows::Place(place, _) => place.pool.is_none() && place.tag.is_none(),
        OsdAllows::Profile { pool, .. } => pool.is_none(),
    }
}

fn caps_of(entry: &Value) -> BTreeMap<String, String> {
    let caps = entry["caps"].as_object().into_iter().flatten();
    caps.map(|(kind, text)| (kind.clone(), text.as_str().unwrap_or_default().to_owned())).collect()
}

/// Entries of the monitors, by `command`.
async fn entries(cluster: &Cluster, asked: Value) -> Result<Vec<Value>> {
    let text = command(cluster, asked).await?;
    let value: Value = serde_json::from_str(&text)?;
    let list = value.get("auth_dump").unwrap_or(&value);
    Ok(list.as_array().cloned().unwrap_or_default())
}

/// Has a command make a key of this kind, if one is named.
fn ask_for_kind(asked: &mut Value, kind: Option<KeyKind>) {
    if let Some(kind) = kind {
        asked["key_type"] = json!(kind.word());
    }
}

/// Makes a client, or shows one that is there with these rights. Prints what its host needs.
pub fn add(options: &AuthAdd) -> Result<()> {
    let AuthAdd { client: options, kind } = options;
    let (name, caps) = (entity(&options.entity), caps(&options.rights)?);
    with_cluster(&options.target, async |cluster| {
        let mut asked = json!({"prefix": "auth get-or-create", "entity": name, "caps": arguments(&caps)});
        ask_for_kind(&mut asked, *kind);
        let keyring = command(&cluster, asked).await?;
        let conf = command(&cluster, json!({"prefix": "config generate-minimal-conf"})).await?;
        println!("# /etc/ceph/ceph.conf of the client's host:\n{}", conf.trim_end());
        println!("\n# /etc/ceph/ceph.{name}.keyring, which nobody else may read (mode 0600):\n{}", keyring.trim_end());
        let shown: BTreeMap<String, String> =
            caps.iter().map(|(kind, text)| ((*kind).to_owned(), text.clone())).collect();
        warnings(&name, &shown).iter().for_each(|warning| eprintln!("warning: {warning}"));
        Ok(())
    })
}

/// Lists names and capabilities, without keys.
pub fn ls(target: &Target) -> Result<()> {
    with_cluster(target, async |cluster| {
        for entry in entries(&cluster, json!({"prefix": "auth ls", "format": "json"})).await? {
            println!("{}", entry["entity"].as_str().unwrap_or_default());
            caps_of(&entry).iter().for_each(|(kind, text)| println!("    {kind}: {text}"));
        }
        Ok(())
    })
}

/// Shows one entity with its key, and warns of what it may do beyond need.
pub fn show(options: &AuthName) -> Result<()> {
    let name = entity(&options.entity);
    with_cluster(&options.target, async |cluster| {
        println!("{}", command(&cluster, json!({"prefix": "auth get", "entity": name})).await?.trim_end());
        for entry in entries(&cluster, json!({"prefix": "auth get", "entity": name, "format": "json"})).await? {
            warnings(&name, &caps_of(&entry)).iter().for_each(|warning| eprintln!("warning: {warning}"));
        }
        Ok(())
    })
}

pub fn rm(options: &AuthName) -> Result<()> {
    let name = entity(&options.entity);
    with_cluster(&options.target, async |cluster| {
        command(&cluster, json!({"prefix": "auth get", "entity": name})).await?;
        command(&cluster, json!({"prefix": "auth rm", "entity": name})).await?;
        println!(
            "{name} is removed; OSDs let it in by a ticket that it has for up to 'auth_service_ticket_ttl' (an hour) more, and \
             end its sessions within twice that time"
        );
        Ok(())
    })
}

/// Replaces a client's rights.
pub fn caps_are(options: &AuthRights) -> Result<()> {
    let (name, caps) = (entity(&options.entity), caps(&options.rights)?);
    with_cluster(&options.target, async |cluster| {
        command(&cluster, json!({"prefix": "auth caps", "entity": name, "caps": arguments(&caps)})).await?;
        println!(
            "{name} has these rights at monitors now, and at OSDs with its next sessions (within twice \
             'auth_service_ticket_ttl', an hour)"
        );
        Ok(())
    })
}

/// Replaces a key in two steps, so that one of the two keys is good at any time.
pub fn rotate(options: &AuthRotate) -> Result<()> {
    let name = entity(&options.entity);
    with_cluster(&options.target, async |cluster| {
        if options.commit {
            command(&cluster, json!({"prefix": "auth commit-pending", "entity": name})).await?;
            println!("{name} has the new key alone");
            if name == MONITORS {
                println!("each monitor has written it to its keyring; the former one is taken for another minute");
            }
        } else if options.abort {
            command(&cluster, json!({"prefix": "auth clear-pending", "entity": name})).await?;
            println!("{name} keeps the key that it had");
        } else {
            let mut pending = json!({"prefix": "auth get-or-create-pending", "entity": name, "format": "json"});
            ask_for_kind(&mut pending, options.kind);
            let entry = entries(&cluster, pending).await?.into_iter().next().unwrap_or_default();
            let Some(key) = entry["pending_key"].as_str() else { bail!("the monitors made no key") };
            println!("[{name}]\n\tkey = {key}");
            let then = format!("nacre auth rotate {} --commit", options.entity);
            match name == MONITORS {
                true => eprintln!(
                    "Both keys are good now, and all monitors that run have both in their keyrings. Then: {then}"
                ),
                false => eprintln!("Both keys are good now. Write this one where the other one is, then: {then}"),
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(pools: &[&str]) -> ClientRights {
        ClientRights { pools: pools.iter().map(|pool| (*pool).to_owned()).collect(), ..ClientRights::default() }
    }

    #[test]
    fn plain_words_become_capabilities() {
        let check = |rights: ClientRights, mon: &str, osd: &str| {
            let caps = caps(&rights).unwrap();
            assert_eq!((caps["mon"].as_str(), caps["osd"].as_str()), (mon, osd));
            for (kind, text) in caps {
                auth::caps::check(kind, &text).unwrap();
            }
        };
        check(rights(&["photos"]), "allow r", "allow rwx pool=photos");
        check(ClientRights { read_only: true, ..rights(&["a", "b"]) }, "allow r", "allow r pool=a, allow r pool=b");
        check(ClientRights { images: true, ..rights(&["vms"]) }, "profile rbd", "profile rbd pool=vms");
        let namespace = Some("n1".to_owned());
        let read_only = ClientRights { images: true, read_only: true, namespace, ..rights(&["vms"]) };
        check(read_only, "profile rbd", "profile rbd-read-only pool=vms namespace=n1");
        check(ClientRights { administrator: true, ..rights(&[]) }, "allow *", "allow *");
        assert!(caps(&rights(&[])).is_err());
        assert!(caps(&rights(&["a, allow *"])).unwrap_err().to_string().contains("cannot stand"));
        assert_eq!((entity("backup"), entity("osd.3")), ("client.backup".to_owned(), "osd.3".to_owned()));
    }

    #[test]
    fn wide_capabilities_are_told() {
        let check = |kind: &str, text: &str, count: usize| {
            let found = warnings("client.a", &[(kind.to_owned(), text.to_owned())].into());
            assert_eq!(found.len(), count, "{kind} {text}: {found:?}");
        };
        check("osd", "allow rwx pool=p", 0);
        check("osd", "allow rwx", 1);
        check("osd", "allow *", 1);
        check("osd", "allow rw tag cephfs data=a", 0);
        check("mon", "allow r", 0);
        check("mon", "allow rw", 1);
        check("mon", "allow *", 1);
        check("osd", "profile rbd", 1);
        check("mon", "profile rbd", 0);
    }
}
