//! Commands to the manager in person: `ceph tell mgr ...`. The monitor that leads answers them, with its own options
//! and counters. Those that it does not know here are commands of the cluster, as at any other address.

use super::Monitor;
use crate::commands::{self, Reply, osd_network};
use crate::health;
use crate::identity::Party;
use control::{Form, Table, counters, everywhere, mempools};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The commands, beside those that every daemon has.
const COMMANDS: &[Form] = &[
    Form::new("dump_cache", "print what is cached of file systems; nothing is"),
    Form::new("dump_mempools", "print how much memory caches take; none is counted"),
    Form::new("dump_osd_network {value:Int,req=false}", "print how long OSDs took to answer, from these ms on"),
    Form::new("get_command_descriptions", "describe all commands for programs"),
    Form::new("help", "list all commands"),
    Form::new("kick_stale_sessions", "leave sessions with metadata servers that are stale; there are none"),
    Form::new("mds_requests", "list requests to metadata servers; there are none"),
    Form::new("mds_sessions {cap_dump:Bool,req=false}", "list sessions with metadata servers; there are none"),
    Form::new("mgr_status", "print which manager map the manager has"),
    Form::new("objecter_requests", "list requests to OSDs as their client; there are none"),
    Form::new("status", "print how the manager is as a client"),
    Form::new("version", "print which software this is"),
];

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::new(COMMANDS.iter().chain(counters::COMMANDS).chain(everywhere::COMMANDS)))
}

impl Monitor {
    /// Answers a command to the manager in person, one JSON object, as far as `who` has the right to it. `None`: it is
    /// none of these.
    pub(super) fn told_as_manager(&mut self, who: &Party, line: &str) -> Option<Reply> {
        let told = match table().read(line) {
            Ok(told) => told,
            // The cluster may have a command of these words, or of the same ones with other arguments.
            Err(_) => return None,
        };
        if told.prefix == "get_command_descriptions" {
            let more = commands::descriptions_but(|prefix| table().prefixes().any(|own| own == prefix));
            return Some(told.value(&table().descriptions(more)).into());
        }
        if let Err(refusal) = commands::check_tell(who, "mgr", line) {
            return Some(refusal);
        }
        if let Some(reply) = self.told_everywhere(&told) {
            return Some(reply);
        }
        Some(match told.prefix.as_str() {
            "dump_osd_network" => {
                let slow_ms = (health::slow_us(&self.state) / 1e3) as u64;
                let from_ms = told.args.int("value").map_or(slow_ms, |ms| ms.max(0) as u64);
                told.value(&osd_network::network(&self.volatile, from_ms)).into()
            }
            "dump_cache" => told.value(&json!({"cache": []})).into(),
            "dump_mempools" => told.value(&mempools::value(|_| 0)).into(),
            "help" => told.value(&table().help()).into(),
            "kick_stale_sessions" | "mds_requests" => told.value(&json!({})).into(),
            "mds_sessions" => told.value(&self.metadata_sessions()).into(),
            "mgr_status" => {
                let epoch = self.state.manager_epoch().0;
                told.value(&json!({"mgrmap_epoch": epoch, "initialized": true})).into()
            }
            "objecter_requests" => told.value(&no_requests()).into(),
            "status" => told.value(&self.client_status()).into(),
            "version" => told.value(&control::version::value()).into(),
            _ => self.count(&told),
        })
    }

    /// Returns the manager as a client: its number, its address as a text, its name and its address.
    fn as_client(&self) -> (u64, String, Value, Value) {
        let map = self.state.manager_map();
        let addr = map.active_addrs.msgr2_addr();
        let shown = addr.sockaddr.map_or("-".to_owned(), |addr| addr.to_string());
        let value = json!({"type": "v2", "addr": shown, "nonce": addr.nonce});
        let name = json!({"type": "mgr", "num": map.active_gid});
        (map.active_gid, format!("{shown}/{}", addr.nonce), name, value)
    }

    /// Returns how a Ceph's manager is as a client of file systems, of which there are none.
    fn client_status(&self) -> Value {
        let (gid, shown, name, addr) = self.as_client();
        json!({
            "metadata": {},
            "dentry_count": 0,
            "dentry_pinned_count": 0,
            "id": 0,
            "inst": {"name": name, "addr": addr},
            "addr": addr,
            "inst_str": format!("mgr.{gid} {shown}"),
            "addr_str": shown,
            "inode_count": 0,
            "mds_epoch": 0,
            "osd_epoch": self.state.osdmap().epoch.0,
            "osd_epoch_barrier": 0,
            "blocklisted": false,
            "fs_name": "cephfs",
        })
    }

    fn metadata_sessions(&self) -> Value {
        let (gid, shown, name, addr) = self.as_client();
        json!({
            "id": 0,
            "inst": {"name": name, "addr": addr},
            "inst_str": format!("mgr.{gid} v2:{shown}"),
            "addr_str": format!("v2:{shown}"),
            "sessions": [],
            "mdsmap_epoch": 0,
        })
    }
}

fn no_requests() -> Value {
    json!({
        "ops": [],
        "linger_ops": [],
        "pool_ops": [],
        "pool_stat_ops": [],
        "statfs_ops": [],
        "command_ops": [],
    })
}
