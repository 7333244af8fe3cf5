//! Subtrees and large values that left the tree: finding all their blocks.

use super::child::{Child, PageRef};
use super::damage::Damage;
use super::overflow::Overflow;
use super::page::Page;
use super::page_cache::{Fetch, PageCache, Use};
use crate::allocator::{Run, push_run};

/// Pages read at once.
const READS: usize = 16;

#[derive(Debug)]
enum Dropped {
    Page { page: PageRef, level: u8, overflow: bool },
    Value(Overflow),
}

/// What is to be taken apart yet. Interior pages are read because they list others; leaves only if they have overflow
/// values.
#[derive(Default, Debug)]
pub(crate) struct Drops {
    stack: Vec<Dropped>,
    /// Pages that could not be read: what only they refer to stays unused until the next [`super::Walk`] over all.
    pub damaged: Vec<Damage>,
}

impl Drops {
    pub fn subtree(&mut self, child: &Child, level: u8) {
        self.stack.push(Dropped::Page { page: child.page, level, overflow: child.overflow });
    }

    pub fn value(&mut self, value: Overflow) {
        self.stack.push(Dropped::Value(value));
    }

    /// Takes one thing apart, putting its blocks into `freed`. `Ready(false)`: all is done.
    pub fn step(&mut self, cache: &mut PageCache, freed: &mut Vec<Run>) -> Fetch<bool> {
        let Some(top) = self.stack.last() else { return Fetch::Ready(false) };
        match top {
            Dropped::Page { page, level: 0, overflow: false } => {
                push_run(freed, page.run());
                self.stack.pop();
            }
            Dropped::Page { page, level, .. } => {
                let place = *page;
                match cache.take_page(page, *level, Use::Once) {
                    Ok(Fetch::Ready(page)) => {
                        self.stack.pop();
                        push_run(freed, place.run());
                        self.take_apart(&page, freed);
                    }
                    Ok(Fetch::Pending(id)) => {
                        self.prefetch(cache);
                        return Fetch::Pending(id);
                    }
                    Err(damage) => {
                        push_run(freed, place.run());
                        self.give_up(damage);
                    }
                }
            }
            Dropped::Value(value) => match value.release(cache, &mut |run| push_run(freed, run)) {
                Ok(Fetch::Ready(())) => drop(self.stack.pop()),
                Ok(Fetch::Pending(id)) => return Fetch::Pending(id),
                Err(damage) => self.give_up(damage),
            },
        }
        Fetch::Ready(true)
    }

    fn give_up(&mut self, damage: Damage) {
        self.damaged.push(damage);
        self.stack.pop();
    }

    fn take_apart(&mut self, page: &Page, freed: &mut Vec<Run>) {
        for index in 0..page.len() {
            if page.level() == 0 {
                if page.is_overflow(index) {
                    self.value(page.overflow_at(index));
                }
                continue;
            }
            let child = page.child(index);
            if page.level() == 1 && !child.overflow {
                push_run(freed, child.page.run());
            } else {
                self.subtree(&child, page.level() - 1);
            }
        }
    }

    fn prefetch(&self, cache: &mut PageCache) {
        for dropped in self.stack.iter().rev().take(READS) {
            match dropped {
                Dropped::Page { page, level, overflow } if *level > 0 || *overflow => {
                    cache.prefetch(page, *level, Use::Once);
                }
                _ => {}
            }
        }
    }
}
