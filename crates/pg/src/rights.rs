//! The one place where a client's operation is held against its capabilities.

use crate::ops::class_and_method;
use auth::Granted;
use auth::caps::{ClassCall, OsdCaps, OsdRequest};
use osdmap::OsdMap;
use std::net::IpAddr;
use wire::messages::{OpCode, OsdOp};
use wire::msgr::Rights;

/// Rights of a client that may not do everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientRights {
    caps: OsdCaps,
    /// The address at the other end of its connection.
    from: Option<IpAddr>,
}

impl ClientRights {
    /// The rights of a session. `None`: it may do everything.
    pub fn of(rights: &Rights, from: Option<IpAddr>) -> Option<ClientRights> {
        let Rights::Caps(text) = rights else { return None };
        let caps = OsdCaps::of(&Granted::Text(text.to_string()));
        (!caps.allow_everything()).then_some(ClientRights { caps, from })
    }

    /// True if the operation may be done by this map.
    pub(crate) fn allow(&self, map: &OsdMap, op: &OsdOp) -> bool {
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
        is_text && self.caps.allows(self.from, &request)
    }
}
