//! No acknowledged write is lost, and every read agrees with one order of all operations. This order must agree with
//! the times at which they were asked and answered. A write that was never answered happened or did not, but once it
//! was seen it stays.

use super::search::{ClientOrder, Found, search};
use super::{Violation, by_object};
use crate::content::Content;
use crate::history::{Answer, Operation, Usage};

pub fn histories_are_linearizable(history: &[Operation]) -> Result<(), Violation> {
    for (object, operations) in by_object(history) {
        match object.usage {
            Usage::Register => match search(&operations, ClientOrder::Any) {
                Found::Order => {}
                Found::None(why) => return Err(Violation(format!("{object} is not linearizable: {why}"))),
                Found::GaveUp => return Err(Violation(format!("{object}: too many orders are possible to judge"))),
            },
            // Another check compares copies with their logs.
            Usage::Copy => {}
            Usage::Log => log_is_linearizable(&operations).map_err(|why| Violation(format!("{object}: {why}")))?,
        }
    }
    Ok(())
}

/// Checks a log. It is only appended to, so the longest content that a read saw names the one order there can be.
fn log_is_linearizable(operations: &[&Operation]) -> Result<(), String> {
    let seen = |operation: &Operation| match &operation.answer {
        Some((_, Answer::Seen(state))) => Some(state.clone().map(|object| object.content).unwrap_or_default()),
        _ => None,
    };
    let reads: Vec<(&Operation, Content)> = operations.iter().filter_map(|o| Some((*o, seen(o)?))).collect();
    let Some((last, longest)) = reads.iter().max_by_key(|(_, content)| content.words()) else { return Ok(()) };
    let order: Vec<(u64, u64)> = longest.runs().map(|(op, _, words)| (op, words)).collect();
    for (read, content) in &reads {
        let mut prefix = longest.clone();
        prefix.truncate(content.words());
        if prefix != *content {
            return Err(format!("{read}\n    sees no earlier state of what is seen by\n    {last}"));
        }
        for (later, more) in &reads {
            if read.is_before(later) && more.words() < content.words() {
                return Err(format!("{later}\n    sees less than what was seen before by\n    {read}"));
            }
        }
        let visible = content.runs().map(|(op, ..)| op).collect::<std::collections::BTreeSet<_>>();
        for append in operations.iter().filter(|o| o.is_change()) {
            let done = matches!(append.answer, Some((_, Answer::Done)));
            if done && append.is_before(read) && !visible.contains(&append.id) {
                return Err(format!("{read}\n    lacks the acknowledged\n    {append}"));
            }
            if read.is_before(append) && visible.contains(&append.id) {
                return Err(format!("{read}\n    sees what was asked later:\n    {append}"));
            }
        }
    }
    let find = |id: u64| operations.iter().find(|o| o.id == id).copied();
    let placed: Vec<&Operation> = order.iter().filter_map(|(id, _)| find(*id)).collect();
    for (i, second) in placed.iter().enumerate() {
        if let Some(first) = placed[..i].iter().find(|first| second.is_before(first)) {
            return Err(format!("{second}\n    was over before this was asked, but stands behind it:\n    {first}"));
        }
    }
    Ok(())
}
