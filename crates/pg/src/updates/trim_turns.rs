//! Groups take turns: an OSD removes what no snapshot needs for a few of its groups at a time.

use std::collections::BTreeSet;
use types::PgId;

/// Groups of an OSD, as their primary, that do so at the same time.
const GROUPS_MAX: usize = 2;

/// Groups that have a turn, and groups that wait for one.
#[derive(Debug, Default)]
pub(crate) struct TrimTurns {
    running: BTreeSet<PgId>,
    waiting: BTreeSet<PgId>,
}

impl TrimTurns {
    /// Returns true if it is the group's turn now; if not, it waits.
    pub fn ask(&mut self, pgid: PgId) -> bool {
        if self.running.contains(&pgid) || self.running.len() < GROUPS_MAX {
            self.waiting.remove(&pgid);
            self.running.insert(pgid);
            return true;
        }
        self.waiting.insert(pgid);
        false
    }

    /// Ends the turn of a group that is done, or gives up. Returns one that waits, which should ask again.
    pub fn end(&mut self, pgid: PgId) -> Option<PgId> {
        self.waiting.remove(&pgid);
        if !self.running.remove(&pgid) {
            return None;
        }
        // The next one in their order, so that none is passed over for ever.
        let behind = self.waiting.range(pgid..).next();
        behind.or(self.waiting.first()).copied()
    }

    /// Forgets groups that are gone, or no longer this OSD's to trim.
    pub fn retain(&mut self, wants: impl Fn(&PgId) -> bool) {
        self.running.retain(&wants);
        self.waiting.retain(&wants);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_wait_come_one_after_another() {
        let mut turns = TrimTurns::default();
        let pg = |seed| PgId::new(1, seed);
        let asked: Vec<bool> = (0..5).map(|seed| turns.ask(pg(seed))).collect();
        assert_eq!(asked, [true, true, false, false, false]);
        assert!(turns.ask(pg(1)), "it has it");
        assert_eq!(turns.end(pg(4)), None, "it had none");
        assert_eq!(turns.end(pg(1)), Some(pg(2)));
        assert!(turns.ask(pg(2)) && !turns.ask(pg(3)) && !turns.ask(pg(1)));
        assert_eq!(turns.end(pg(2)), Some(pg(3)), "not the one that was there before");
        assert!(turns.ask(pg(3)));
        turns.retain(|id| *id == pg(1));
        assert!(turns.ask(pg(1)) && turns.ask(pg(0)) && !turns.ask(pg(7)));
    }
}
