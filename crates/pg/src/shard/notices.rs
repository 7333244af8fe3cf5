//! Notices between parts of groups, until they are acted on.

use crate::group::effects::Effect;
use std::collections::BTreeSet;
use types::PgId;

/// Notices in their order, each once. Most often there is one at a time, which takes no memory of its own.
#[derive(Default)]
pub(crate) struct Notices {
    one: Option<(PgId, Effect)>,
    more: BTreeSet<(PgId, Effect)>,
}

impl Notices {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.one.is_none() && self.more.is_empty()
    }

    pub fn insert(&mut self, group: PgId, effect: Effect) {
        let notice = (group, effect);
        match &self.one {
            Some(one) if *one == notice => {}
            None if self.more.is_empty() => self.one = Some(notice),
            _ => drop(self.more.insert(notice)),
        }
    }

    /// Takes the first one.
    pub fn pop_first(&mut self) -> Option<(PgId, Effect)> {
        if self.more.is_empty() {
            return self.one.take();
        }
        self.more.extend(self.one.take());
        self.more.pop_first()
    }

    pub fn clear(&mut self) {
        self.one = None;
        self.more.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::OsdId;

    #[test]
    fn notices_come_in_their_order_and_each_once() {
        let serves = |osd| Effect::MemberServes(OsdId(osd));
        let pg = |seed| PgId::new(1, seed);
        let all = [(2, 5), (1, 7), (1, 3), (2, 5), (1, 7), (1, 4), (3, 1), (1, 3)];
        // However many are taken in between.
        for between in 0..all.len() {
            let (mut notices, mut known) = (Notices::default(), BTreeSet::new());
            for (at, (seed, osd)) in all.into_iter().enumerate() {
                notices.insert(pg(seed), serves(osd));
                known.insert((pg(seed), serves(osd)));
                if at == between {
                    assert_eq!(notices.pop_first(), known.pop_first());
                }
            }
            while let Some(notice) = known.pop_first() {
                assert!(!notices.is_empty());
                assert_eq!(notices.pop_first(), Some(notice));
            }
            assert!(notices.is_empty() && notices.pop_first().is_none());
        }
    }
}
