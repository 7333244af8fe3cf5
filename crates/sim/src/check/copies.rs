//! A copy is equal to a state that its log had at some moment between the request for the copy and its answer.

use super::{Violation, by_object};
use crate::content::Content;
use crate::history::{Answer, Ask, ObjectName, Operation, Usage};
use crate::model::Change;
use std::collections::BTreeSet;
use types::Errno;

pub fn copies_are_what_their_logs_were(history: &[Operation]) -> Result<(), Violation> {
    most_copies_are_made(history)?;
    let objects = by_object(history);
    for (object, operations) in objects.iter().filter(|(object, _)| object.usage == Usage::Copy) {
        let log = ObjectName { usage: Usage::Log, ..*object };
        let of_log = objects.get(&log).map_or(&[][..], Vec::as_slice);
        check(operations, of_log).map_err(|why| Violation(format!("{object} is no copy of {log}: {why}")))?;
    }
    Ok(())
}

/// Checks how often copying ran out of time. This happens now and then, if groups do not serve for a minute. It may
/// exceed the number of copies made by five at most.
fn most_copies_are_made(history: &[Operation]) -> Result<(), Violation> {
    const LATE_MAX: usize = 5;
    let copies = |operation: &&Operation| match &operation.ask {
        Ask::Change(changes) => changes.iter().any(Change::copies),
        Ask::Read | Ask::ReadAt(_) => false,
    };
    let late = history.iter().filter(|operation| operation.ran_out_of_time());
    let made = history.iter().filter(copies).filter(|operation| matches!(operation.answer, Some((_, Answer::Done))));
    let (late, made): (Vec<&Operation>, usize) = (late.collect(), made.count());
    match late.last() {
        Some(last) if late.len() > LATE_MAX + made => {
            let late = late.len();
            Err(Violation(format!("{late} objects could not be copied in time, and {made} could: {last}")))
        }
        _ => Ok(()),
    }
}

/// The content that a read has shown. `None`: this is no read, or it has no answer.
fn seen(operation: &Operation) -> Option<Option<&Content>> {
    match &operation.answer {
        Some((_, Answer::Seen(state))) => Some(state.as_ref().map(|object| &object.content)),
        _ => None,
    }
}

fn check(copy: &[&Operation], log: &[&Operation]) -> Result<(), String> {
    let is_done = |operation: &Operation| matches!(operation.answer, Some((_, Answer::Done)));
    let appends = || log.iter().filter(|operation| operation.is_change());
    let longest = log.iter().filter_map(|read| seen(read)?).max_by_key(|content| content.words());
    let (longest, nothing) = (longest.cloned().unwrap_or_default(), Content::default());
    for failed in copy.iter().filter(|operation| operation.is_change()) {
        // A log exists once something was appended.
        let is_absent = matches!(failed.answer, Some((_, Answer::Failed(Errno::ENOENT))));
        if let Some(append) = appends().find(|append| is_absent && is_done(append) && append.is_before(failed)) {
            return Err(format!("{failed}\n    finds nothing, not even\n    {append}"));
        }
    }
    let reads: Vec<(&Operation, Option<&Content>)> =
        copy.iter().filter_map(|read| Some((*read, seen(read)?))).collect();
    for (read, content) in &reads {
        let whole = content.unwrap_or(&nothing);
        let mut prefix = longest.clone();
        prefix.truncate(whole.words());
        if prefix != *whole {
            return Err(format!("{read}\n    sees no state of the log, which in the end is [{longest}]"));
        }
        let visible: BTreeSet<u64> = whole.runs().map(|(op, ..)| op).collect();
        for done in copy.iter().filter(|operation| operation.is_change() && is_done(operation)) {
            let lacks =
                |append: &&&Operation| is_done(append) && append.is_before(done) && !visible.contains(&append.id);
            if done.is_before(read) && content.is_none() {
                return Err(format!("{read}\n    finds nothing behind\n    {done}"));
            }
            if let Some(append) = appends().find(lacks).filter(|_| done.is_before(read)) {
                return Err(format!("{read}\n    is behind\n    {done}\n    and does not show\n    {append}"));
            }
        }
        if let Some(append) = appends().find(|append| read.is_before(append) && visible.contains(&append.id)) {
            return Err(format!("{read}\n    shows what was asked later:\n    {append}"));
        }
        let less = |later: &&(&Operation, Option<&Content>)| {
            read.is_before(later.0) && later.1.unwrap_or(&nothing).words() < whole.words()
        };
        if let Some((later, _)) = reads.iter().find(less) {
            return Err(format!("{later}\n    shows less than what was there before:\n    {read}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Snapped, apply};
    use std::time::Duration;

    const LOG: ObjectName = ObjectName { usage: Usage::Log, index: 0 };
    const COPY: ObjectName = ObjectName { usage: Usage::Copy, index: 0 };

    fn operation(id: u64, object: ObjectName, ask: Ask, at: (u64, u64), answer: Answer) -> Operation {
        let (asked_at, at) = (Duration::from_millis(at.0), Duration::from_millis(at.1));
        Operation { id, client: 1, object, ask, balanced: false, asked_at, answer: Some((at, answer)) }
    }

    fn append(id: u64, at: (u64, u64)) -> Operation {
        operation(id, LOG, Ask::Change(vec![Change::Append { words: 1 }]), at, Answer::Done)
    }

    fn copy(at: (u64, u64), answer: Answer) -> Operation {
        operation(90, COPY, Ask::Change(vec![Change::CopyLog]), at, answer)
    }

    fn read(object: ObjectName, at: (u64, u64), shows: &[u64]) -> Operation {
        let mut state = Snapped::default();
        shows.iter().for_each(|id| apply(&mut state, *id, &[Change::Append { words: 1 }]).expect("it fits"));
        operation(91, object, Ask::Read, at, Answer::Seen(state.head))
    }

    #[test]
    fn copies_that_never_come_to_an_end_are_told() {
        let late = copy((3, 60_004), Answer::Failed(Errno::ETIMEDOUT));
        let (made, mut history) = (copy((0, 1), Answer::Done), vec![late; 6]);
        assert!(copies_are_what_their_logs_were(&history).is_err());
        history.push(made);
        assert_eq!(copies_are_what_their_logs_were(&history), Ok(()));
    }

    #[test]
    fn a_copy_has_what_was_there_when_it_was_asked_for_and_nothing_from_after_it() {
        let log = [append(1, (0, 2)), append(2, (10, 20)), read(LOG, (50, 51), &[1, 2])];
        let with = |more: &[Operation]| {
            let history: Vec<Operation> = log.iter().chain(more).cloned().collect();
            copies_are_what_their_logs_were(&history)
        };
        let done = |at| copy(at, Answer::Done);
        for shows in [&[1][..], &[1, 2]] {
            assert_eq!(with(&[done((12, 14)), read(COPY, (21, 22), shows)]), Ok(()));
        }
        assert_eq!(with(&[read(COPY, (21, 22), &[])]), Ok(()));
        // Wrong reads: one lacks what was there; one has what came later, one what never was; one finds nothing, one an
        // older state.
        assert!(with(&[done((22, 24)), read(COPY, (30, 31), &[1])]).is_err());
        assert!(with(&[done((3, 4)), read(COPY, (5, 6), &[1, 2])]).is_err());
        assert!(with(&[done((3, 4)), read(COPY, (5, 6), &[2])]).is_err());
        assert!(with(&[done((3, 4)), read(COPY, (5, 6), &[])]).is_err());
        assert!(with(&[done((12, 14)), read(COPY, (15, 16), &[1, 2]), read(COPY, (17, 18), &[1])]).is_err());
        assert!(with(&[copy((3, 4), Answer::Failed(Errno::ENOENT))]).is_err());
        assert_eq!(with(&[copy((0, 4), Answer::Failed(Errno::ENOENT))]), Ok(()));
        assert_eq!(with(&[copy((3, 4), Answer::Failed(Errno::ETIMEDOUT))]), Ok(()));
    }
}
