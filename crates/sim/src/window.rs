//! Limits how far clients may get ahead of the oldest update without an answer.
//!
//! A group recognises a repeated request only as long as it has carried out no more others since than its log and its
//! dups keep. If logs are short and there are no dups, no more updates than that may overtake one of a client that
//! hears nothing for long.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

#[derive(Debug, Default)]
struct Updates {
    asked: u64,
    unanswered: BTreeSet<u64>,
}

/// The window that all clients of a cluster share.
#[derive(Clone, Debug)]
pub struct Window {
    size: u64,
    updates: Rc<RefCell<Updates>>,
}

impl Window {
    /// While an update has no answer, at most `size` others are asked for. As many that were asked for before it may be
    /// carried out after it.
    pub fn new(size: u64) -> Window {
        Window { size, updates: Rc::default() }
    }

    pub fn is_open(&self) -> bool {
        let updates = self.updates.borrow();
        updates.unanswered.first().is_none_or(|oldest| updates.asked - oldest < self.size)
    }

    /// Notes that an update is asked for. Returns its number.
    pub fn ask(&self) -> u64 {
        let mut updates = self.updates.borrow_mut();
        updates.asked += 1;
        let number = updates.asked;
        updates.unanswered.insert(number);
        number
    }

    /// Notes that an update is answered, or will never be sent again.
    pub fn over(&self, number: u64) {
        self.updates.borrow_mut().unanswered.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_far_ahead_of_what_is_not_answered() {
        let window = Window::new(3);
        let first = window.ask();
        let others = [window.ask(), window.ask()];
        assert!(window.is_open());
        let last = window.ask();
        assert!(!window.is_open());
        others.into_iter().chain([last]).for_each(|number| window.over(number));
        assert!(!window.is_open(), "the first one is not answered");
        window.over(first);
        assert!(window.is_open());
    }
}
