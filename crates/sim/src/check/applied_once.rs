//! A write is applied once, however often it is sent.

use super::{Violation, by_object};
use crate::history::{Answer, Ask, Operation, Usage};
use crate::model::Change;
use std::collections::BTreeSet;

/// Checks that every append in a read of a log is there as a whole and once, and that a client asked for it.
pub fn updates_are_applied_once(history: &[Operation]) -> Result<(), Violation> {
    for (object, operations) in by_object(history) {
        if object.usage != Usage::Log {
            continue;
        }
        for read in &operations {
            let Some((_, Answer::Seen(Some(seen)))) = &read.answer else { continue };
            let mut found = BTreeSet::new();
            for (id, first, words) in seen.content.runs() {
                let asked = operations.iter().find(|o| o.id == id).and_then(|o| match &o.ask {
                    Ask::Change(changes) => changes.iter().find_map(|change| match change {
                        Change::Append { words } => Some(*words),
                        _ => None,
                    }),
                    Ask::Read | Ask::ReadAt(_) => None,
                });
                let why = match asked {
                    None => "shows bytes that nobody appended",
                    Some(_) if !found.insert(id) => "shows an append twice",
                    Some(asked) if (first, words) != (0, asked) => "shows an append in part",
                    Some(_) => continue,
                };
                return Err(Violation(format!("{object}: {why} (#{id}, {words} words from {first}): {read}")));
            }
        }
    }
    Ok(())
}
