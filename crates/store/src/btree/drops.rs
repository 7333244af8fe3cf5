//! Subtrees and large values that left the tree: finding all their blocks, and counting their entries.

use super::child::{Child, PageRef};
use super::damage::Damage;
use super::overflow::Overflow;
use super::page::Page;
use super::page_cache::{Fetch, PageCache, Use};
use super::table_changes::{TableChanges, table_of, tables_between};
use crate::space::run::{Run, push_run};

/// Number of pages read at once.
const READS: usize = 16;

// Rough costs in ns: freeing blocks unseen, looking at a page, looking at each of its entries.
const RUN_COST: i64 = 50;
const PAGE_COST: i64 = 1000;
const ENTRY_COST: i64 = 30;

#[derive(Debug)]
struct DroppedPage {
    page: PageRef,
    level: u8,
    overflow: bool,
    /// The first and the last table that the page's entries can belong to; `None` if they are not counted.
    tables: Option<(u8, u8)>,
}

#[derive(Debug)]
enum Dropped {
    Page(DroppedPage),
    Value(Overflow),
}

impl DroppedPage {
    /// Returns true if the page must be read: interior pages because they list others, leaves only if they have
    /// overflow values or counted entries.
    fn is_read(&self, changes: &TableChanges) -> bool {
        self.level > 0 || self.overflow || self.tables.is_some_and(|(first, last)| changes.counts_any(first, last))
    }
}

/// A stack of subtrees and values to be taken apart.
#[derive(Default, Debug)]
pub(crate) struct Drops {
    stack: Vec<Dropped>,
    /// Pages that could not be read. Blocks that only they refer to stay unused until the next [`super::Walk`] over the
    /// whole tree.
    pub damaged: Vec<Damage>,
}

impl Drops {
    /// Adds a page and everything below it, with keys in `lower .. upper`.
    pub fn subtree(&mut self, child: &Child, level: u8, lower: &[u8], upper: Option<&[u8]>) {
        self.page(child, level, Some(tables_between(lower, upper)));
    }

    /// Adds a page and everything below it without counting the entries.
    pub fn uncounted_subtree(&mut self, child: &Child, level: u8) {
        self.page(child, level, None);
    }

    fn page(&mut self, child: &Child, level: u8, tables: Option<(u8, u8)>) {
        self.stack.push(Dropped::Page(DroppedPage { page: child.page, level, overflow: child.overflow, tables }));
    }

    /// Adds the blocks of a value whose entry has been counted.
    pub fn value(&mut self, value: Overflow) {
        self.stack.push(Dropped::Value(value));
    }

    /// Takes one page or value apart and puts its blocks into `freed`; returns the estimated cost in ns. `Ready(None)`:
    /// nothing is left.
    pub fn step(
        &mut self,
        cache: &mut PageCache,
        freed: &mut Vec<Run>,
        changes: &mut TableChanges,
    ) -> Fetch<Option<i64>> {
        let Some(top) = self.stack.last() else { return Fetch::Ready(None) };
        let mut cost = RUN_COST;
        match top {
            Dropped::Page(dropped) if !dropped.is_read(changes) => {
                push_run(freed, dropped.page.run());
                self.stack.pop();
            }
            Dropped::Page(dropped) => {
                let (place, tables) = (dropped.page, dropped.tables);
                match cache.take_page(&place, dropped.level, Use::Once) {
                    Ok(Fetch::Ready(page)) => {
                        self.stack.pop();
                        push_run(freed, place.run());
                        cost = PAGE_COST + page.len() as i64 * ENTRY_COST;
                        match page.level() {
                            0 => self.take_leaf_apart(&page, tables.is_some(), changes),
                            _ => self.take_apart(&page, tables),
                        }
                    }
                    Ok(Fetch::Pending(id)) => {
                        self.prefetch(cache, changes);
                        return Fetch::Pending(id);
                    }
                    Err(damage) => {
                        push_run(freed, place.run());
                        changes.is_exact &= !tables.is_some_and(|(first, last)| changes.counts_any(first, last));
                        self.give_up(damage);
                    }
                }
            }
            Dropped::Value(value) => match value.release(cache, &mut |run| push_run(freed, run)) {
                Ok(Fetch::Ready(())) => {
                    cost = PAGE_COST;
                    self.stack.pop();
                }
                Ok(Fetch::Pending(id)) => return Fetch::Pending(id),
                Err(damage) => self.give_up(damage),
            },
        }
        Fetch::Ready(Some(cost))
    }

    fn give_up(&mut self, damage: Damage) {
        self.damaged.push(damage);
        self.stack.pop();
    }

    fn take_leaf_apart(&mut self, page: &Page, is_counted: bool, changes: &mut TableChanges) {
        for index in 0..page.len() {
            if is_counted {
                changes.lost(page.key_parts(index), page.value_len(index));
            }
            if page.is_overflow(index) {
                self.value(page.overflow_at(index));
            }
        }
    }

    fn take_apart(&mut self, page: &Page, tables: Option<(u8, u8)>) {
        let mut key = Vec::new();
        // Children are pushed in reverse, so that they leave the stack in key order.
        let mut upper: Option<(u8, u8)> = None;
        for index in (0..page.len()).rev() {
            page.key_into(index, &mut key);
            let tables = tables.map(|(first, last)| {
                let first = if index == 0 { first } else { table_of(&key) };
                (first, upper.map_or(last, |(_, before)| before))
            });
            upper = Some(tables_between(&[], Some(&key)));
            self.page(&page.child(index), page.level() - 1, tables);
        }
    }

    fn prefetch(&self, cache: &mut PageCache, changes: &TableChanges) {
        for dropped in self.stack.iter().rev().take(READS) {
            match dropped {
                Dropped::Page(dropped) if dropped.is_read(changes) => {
                    cache.prefetch(&dropped.page, dropped.level, Use::Once);
                }
                _ => {}
            }
        }
    }
}
