//! Searches for an order in which operations on one object could have happened one after another (Wing and Gong, 1993,
//! with the memory of Lowe, 2017).

use crate::history::{Answer, Ask, Operation};
use crate::model::{Shown, Snapped, State, apply, shows};
use crate::request::OP_BYTES_MAX;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use types::Errno;

/// Number of positions at which an attempt ends.
const POSITIONS_MAX: usize = 400_000;

/// The operations that an attempt tries first if several could come next. If there is an order, one way may find it at
/// once, and another way may meet more dead ends before it than can be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    /// The operation that was asked first.
    Asked,
    /// The operation that was answered first; those without an answer come last.
    Answered,
    /// The operations without an answer, then the one that was answered first.
    Unanswered,
    /// An order drawn by lot with this number.
    Lot(u64),
}

const ATTEMPTS: [First; 6] =
    [First::Asked, First::Answered, First::Unanswered, First::Lot(1), First::Lot(2), First::Lot(3)];

/// The outcome of a search.
pub(super) enum Found {
    Order,
    /// There is no order. The text names the operations that the best attempt could not explain.
    None(String),
    /// There are too many possibilities.
    GaveUp,
}

struct Search<'a> {
    operations: &'a [&'a Operation],
    /// For each operation, the operations that must be placed before it.
    before: Vec<Vec<usize>>,
    placed: Vec<bool>,
    first: First,
    seen: HashSet<(Vec<bool>, u64)>,
    positions: usize,
    /// The longest prefix found: number of operations placed, the state after them, and the operations that might have
    /// come next.
    best: (usize, Snapped, Vec<usize>),
}

/// The operations of one client that must follow each other in the order in which it sent them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClientOrder {
    Any,
    /// A change follows earlier changes.
    Changes,
    /// Any operation follows the client's own earlier changes.
    Everything,
}

/// Looks for an order of `operations` that explains every answer.
///
/// Reads of one client have no order among themselves: a read that has to be sent again sees the state at that time.
/// What is refused for its size alone has no place in a client's order.
pub(super) fn search(operations: &[&Operation], order: ClientOrder) -> Found {
    let must_precede = |a: &Operation, b: &Operation| {
        let is_kept = match order {
            ClientOrder::Any => false,
            ClientOrder::Changes => b.is_change(),
            ClientOrder::Everything => !b.balanced,
        };
        let is_kept = is_kept && !b.is_refused_by_size();
        let ordered = is_kept && a.client == b.client && a.id < b.id && a.is_change() && a.answer.is_some();
        a.is_before(b) || ordered
    };
    let before = |b: &Operation| {
        let all = operations.iter().enumerate();
        all.filter(|(_, a)| a.id != b.id && must_precede(a, b)).map(|(index, _)| index).collect()
    };
    let all_before: Vec<Vec<usize>> = operations.iter().map(|b| before(b)).collect();
    for first in ATTEMPTS {
        let mut search = Search {
            operations,
            before: all_before.clone(),
            placed: vec![false; operations.len()],
            first,
            seen: HashSet::new(),
            positions: 0,
            best: (0, Snapped::default(), Vec::new()),
        };
        match search.place_rest(&Snapped::default(), 0) {
            true => return Found::Order,
            false if search.positions <= POSITIONS_MAX => return Found::None(search.explain()),
            false => {}
        }
    }
    Found::GaveUp
}

impl First {
    fn sort(self, candidates: &mut [usize], operations: &[&Operation]) {
        let answered = |i: usize| operations[i].answer.as_ref().map(|(at, _)| *at);
        match self {
            // They stay in the order in which they were asked.
            First::Asked => {}
            First::Answered => candidates.sort_by_key(|i| (answered(*i).is_none(), answered(*i))),
            First::Unanswered => candidates.sort_by_key(|i| answered(*i)),
            First::Lot(number) => candidates.sort_by_key(|i| digest(&(number, *i))),
        }
    }
}

impl Search<'_> {
    /// Tells whether the operations that are not placed yet can follow `state`.
    fn place_rest(&mut self, state: &Snapped, count: usize) -> bool {
        let done = |search: &Self| {
            let answered = |i: &usize| search.operations[*i].answer.is_some();
            (0..search.operations.len()).filter(answered).all(|i| search.placed[i])
        };
        if done(self) {
            return true;
        }
        self.positions += 1;
        if self.positions > POSITIONS_MAX || !self.seen.insert((self.placed.clone(), digest(state))) {
            return false;
        }
        let free = |search: &Self, i: usize| !search.placed[i] && search.before[i].iter().all(|b| search.placed[*b]);
        let mut candidates: Vec<usize> = (0..self.operations.len()).filter(|i| free(self, *i)).collect();
        self.first.sort(&mut candidates, self.operations);
        if count >= self.best.0 {
            self.best = (count, state.clone(), candidates.clone());
        }
        // An operation that changes nothing and fits may as well come now, because it excludes nothing.
        let changes_nothing =
            |operation: &Operation| matches!(operation.answer, Some((_, Answer::Seen(_) | Answer::Failed(_))));
        for &i in &candidates {
            let mut next = state.clone();
            if changes_nothing(self.operations[i]) && fits(self.operations[i], &mut next) {
                return self.try_next(i, &next, count);
            }
        }
        for &i in &candidates {
            let operation = self.operations[i];
            let mut next = state.clone();
            let may_come = !changes_nothing(operation) && fits(operation, &mut next);
            // An operation without an answer need not have happened. It is placed only where it changes something.
            let worth_it = operation.answer.is_some() || next != *state;
            if may_come && worth_it && self.try_next(i, &next, count) {
                return true;
            }
        }
        // If an object is there only for removed snapshots, it may disappear by itself at any moment.
        state.given_up().is_some_and(|gone| self.place_rest(&gone, count))
    }

    fn try_next(&mut self, i: usize, next: &Snapped, count: usize) -> bool {
        self.placed[i] = true;
        if self.place_rest(next, count + 1) {
            return true;
        }
        self.placed[i] = false;
        false
    }

    fn explain(&self) -> String {
        let (count, state, candidates) = &self.best;
        let mut text = format!(
            "of {} operations {count} can be put in an order; then the object is {} and none of these can come next:",
            self.operations.len(),
            Shown(&state.head)
        );
        for i in candidates {
            text.push_str(&format!("\n    {}", self.operations[*i]));
        }
        text
    }
}

/// True if the operation could have got its answer in `state`. Changes `state` to the state after it.
fn fits(operation: &Operation, state: &mut Snapped) -> bool {
    let answer = operation.answer.as_ref().map(|(_, answer)| answer);
    match (&operation.ask, answer) {
        (Ask::Read, Some(Answer::Seen(seen))) => shows(&state.head, seen),
        (Ask::ReadAt(snap), Some(Answer::Seen(seen))) => shows(&state.at(*snap), seen),
        (Ask::Read | Ask::ReadAt(_), None) => true,
        (Ask::Read, Some(Answer::Failed(Errno::EMSGSIZE))) => is_too_large(&state.head),
        (Ask::ReadAt(snap), Some(Answer::Failed(Errno::EMSGSIZE))) => is_too_large(&state.at(*snap)),
        (Ask::Read | Ask::ReadAt(_), Some(_)) => false,
        (Ask::Change(_), Some(_)) if operation.ran_out_of_time() || operation.found_too_much() => true,
        (Ask::Change(changes), answer) => match (apply(state, operation.id, changes), answer) {
            (Ok(()), Some(Answer::Done) | None) | (Err(_), None) => true,
            (Err(errno), Some(Answer::Failed(told))) => errno == *told,
            _ => false,
        },
    }
}

/// True if a read of everything may be too much for one operation. Keys and values of an omap count several times: they
/// are in memory as they are read, put together and returned.
fn is_too_large(state: &State) -> bool {
    const FRAMES_BYTES: usize = 16 << 10;
    const COPIES: usize = 6;
    state.as_ref().is_some_and(|object| COPIES * object.bytes() + FRAMES_BYTES > OP_BYTES_MAX)
}

fn digest(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{ObjectName, Usage};
    use crate::model::Change;
    use std::time::Duration;

    const X: ObjectName = ObjectName { usage: Usage::Register, index: 0 };

    fn operation(id: u64, client: u64, ask: Ask, asked: u64, answer: Option<(u64, Answer)>) -> Operation {
        let ms = Duration::from_millis;
        let answer = answer.map(|(at, answer)| (ms(at), answer));
        Operation { id, client, object: X, ask, balanced: false, asked_at: ms(asked), answer }
    }

    fn write(id: u64, client: u64, asked: u64, done: Option<u64>) -> Operation {
        let ask = Ask::Change(vec![Change::WriteFull { words: 1 }]);
        operation(id, client, ask, asked, done.map(|at| (at, Answer::Done)))
    }

    fn read(id: u64, client: u64, asked: u64, done: u64, sees: u64) -> Operation {
        let mut state = Snapped::default();
        if sees != 0 {
            apply(&mut state, sees, &[Change::WriteFull { words: 1 }]).expect("a write fits");
        }
        operation(id, client, Ask::Read, asked, Some((done, Answer::Seen(state.head))))
    }

    /// Compares with the expectation: whether there is an order, and whether there is one that keeps the clients'
    /// order.
    fn check(operations: &[Operation], expect: (bool, bool)) {
        let operations: Vec<&Operation> = operations.iter().collect();
        let found = |order| matches!(search(&operations, order), Found::Order);
        assert_eq!((found(ClientOrder::Any), found(ClientOrder::Everything)), expect, "{operations:?}");
    }

    #[test]
    fn an_acknowledged_write_must_be_seen() {
        check(&[write(1, 1, 0, Some(5)), read(2, 2, 6, 7, 1)], (true, true));
        check(&[write(1, 1, 0, Some(5)), read(2, 2, 6, 7, 0)], (false, false));
        check(&[write(1, 1, 0, Some(5)), read(2, 2, 4, 7, 0)], (true, true));
    }

    #[test]
    fn a_write_in_doubt_may_be_seen_but_then_stays() {
        check(&[write(1, 1, 0, None), read(2, 2, 6, 7, 0), read(3, 2, 8, 9, 1)], (true, true));
        check(&[write(1, 1, 0, None), read(2, 2, 6, 7, 1), read(3, 2, 8, 9, 0)], (false, false));
    }

    #[test]
    fn overlapping_writes_of_one_client_keep_their_order() {
        let seen = |last| [write(1, 1, 0, Some(5)), write(2, 1, 1, Some(4)), read(3, 2, 6, 7, last)];
        check(&seen(2), (true, true));
        check(&seen(1), (true, false));
    }

    #[test]
    fn a_read_may_overtake_a_write_that_is_held_back() {
        let operations = [write(1, 1, 0, Some(9)), read(2, 1, 1, 3, 0)];
        let operations: Vec<&Operation> = operations.iter().collect();
        let found = |order| matches!(search(&operations, order), Found::Order);
        assert!(found(ClientOrder::Changes) && !found(ClientOrder::Everything));
    }

    #[test]
    fn what_is_refused_for_its_size_may_overtake_a_write() {
        // Somebody else does not see the first write after the second change was answered.
        let history = |changes, answer| {
            let second = operation(2, 1, Ask::Change(changes), 1, Some((2, answer)));
            [write(1, 1, 0, Some(9)), second, read(3, 2, 4, 5, 0)]
        };
        let large = vec![Change::TooMuch, Change::WriteFull { words: 1 }];
        check(&history(large, Answer::Failed(Errno::EMSGSIZE)), (true, true));
        let without_effect = vec![Change::Zero { at: 0, words: 1 }];
        check(&history(without_effect, Answer::Done), (true, false));
    }

    #[test]
    fn what_does_nothing_now_may_do_something_later() {
        let zero = Ask::Change(vec![Change::Zero { at: 0, words: 1 }]);
        let zero = operation(2, 2, zero, 0, Some((5, Answer::Done)));
        let empty = Answer::Seen(Some(crate::model::Object::default()));
        let read = operation(3, 2, Ask::Read, 6, Some((7, empty)));
        check(&[zero, write(1, 1, 0, Some(5)), read], (true, true));
    }

    #[test]
    fn failures_are_answers_too() {
        let remove = |answer| operation(1, 1, Ask::Change(vec![Change::Remove]), 6, Some((7, answer)));
        check(&[write(2, 2, 0, Some(5)), remove(Answer::Failed(Errno::ENOENT))], (false, false));
        check(&[write(2, 2, 0, Some(5)), remove(Answer::Done)], (true, true));
    }
}
