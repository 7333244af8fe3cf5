//! If one client sends changes to one object without waiting, they take effect in the order in which it sent them.

use super::search::{ClientOrder, Found, search};
use super::{Violation, by_object};
use crate::history::{Answer, Operation, Usage};
use std::collections::BTreeMap;

/// Checks the order of pipelined updates. `was_full`: the cluster was full for a while. Clients then held their writes
/// back, and reads overtook them.
pub fn pipelined_updates_keep_their_order(history: &[Operation], was_full: bool) -> Result<(), Violation> {
    let order = if was_full { ClientOrder::Changes } else { ClientOrder::Everything };
    for (object, operations) in by_object(history) {
        match object.usage {
            Usage::Register => match search(&operations, order) {
                Found::Order => {}
                Found::None(why) => return Err(Violation(format!("{object} breaks a client's order: {why}"))),
                Found::GaveUp => return Err(Violation(format!("{object}: too many orders are possible to judge"))),
            },
            Usage::Copy => {}
            Usage::Log => log_keeps_order(&operations).map_err(|why| Violation(format!("{object}: {why}")))?,
        }
    }
    Ok(())
}

fn log_keeps_order(operations: &[&Operation]) -> Result<(), String> {
    for read in operations {
        let Some((_, Answer::Seen(Some(seen)))) = &read.answer else { continue };
        let mut newest: BTreeMap<u64, u64> = BTreeMap::new();
        for (id, ..) in seen.content.runs() {
            let Some(append) = operations.iter().find(|o| o.id == id) else { continue };
            if let Some(before) = newest.insert(append.client, id)
                && before > id
            {
                return Err(format!("#{id} stands behind #{before}, which its client sent later: {read}"));
            }
        }
    }
    Ok(())
}
