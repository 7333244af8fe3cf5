//! The one place where a client's operation is held against its capabilities.

use crate::ops::class_and_method;
use auth::Granted;
use auth::caps::{ClassCall, OsdCaps, OsdRequest};
use osdmap::OsdMap;
use std::net::IpAddr;
use wire::messages::{OpCode, OsdOp};
use wire::msgr::Rights;

/// Rights of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientRights {
    Everything,
    /// The rights of capabilities, for a client at that address; `None`: it has left already.
    Limited {
        caps: OsdCaps,
        from: Option<IpAddr>,
    },
}

impl ClientRights {
    /// The rights of a session whose other end is, or was, at that address.
    pub fn of(rights: &Rights, from: Option<IpAddr>) -> ClientRights {
        let Rights::Caps(text) = rights else { return ClientRights::Everything };
        let caps = OsdCaps::of(&Granted::Text(text.to_string()));
        match caps.allow_everything() {
            true => ClientRights::Everything,
            false => ClientRights::Limited { caps, from },
        }
    }

    pub fn are_everything(&self) -> bool {
        *self == ClientRights::Everything
    }

    /// True if the operation may be done by this map.
    pub(crate) fn allow(&self, map: &OsdMap, op: &OsdOp) -> bool {
        let ClientRights::Limited { caps, from } = self else { return true };
        let id = op.pgid.pg.pool;
        let (Some(pool), Some(name)) = (map.pool(id), map.pool_name(id)) else { return false };
        // Capabilities name texts alone.
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).unwrap_or_default();
        let object = if op.locator.key.is_empty() { &op.name } else { &op.locator.key };
        let is_text = std::str::from_utf8(&op.locator.nspace).is_ok();
        let (namespace, object) = (text(&op.locator.nspace), String::from_utf8_lossy(object).into_owned());
        let called: Vec<_> = op.ops.iter().filter_map(class_and_method).collect();
        let classes: Vec<ClassCall<'_>> = called
            .iter()
            .map(|(class, method)| ClassCall {
                class,
                method: method.name,
                reads: method.reads,
                writes: method.writes,
                // All classes that there are here are in the default of `osd_class_default_list`.
                listed: true,
            })
            .collect();
        // A client that registers a watch hears of the object, too.
        let reads = |code: OpCode| (code.is_read() && code != OpCode::CALL) || code == OpCode::WATCH;
        let request = OsdRequest {
            pool: name,
            applications: &pool.application_metadata,
            namespace: &namespace,
            object: &object,
            reads: op.ops.iter().any(|op| reads(op.code)),
            writes: op.ops.iter().any(|op| op.code.is_write()),
            classes: &classes,
        };
        is_text && caps.allows(*from, &request)
    }
}
