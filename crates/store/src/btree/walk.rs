//! Visits every page of a tree: to check it, or to learn which blocks it holds.

use super::child::{Child, Root};
use super::damage::{Damage, DamageKind};
use super::overflow::{Overflow, OverflowRun};
use super::page::Page;
use super::page_cache::{Fetch, PageCache, ReadId, Use};
use crate::space::run::Run;
use std::cmp::Ordering;
use std::sync::Arc;

/// Number of pages read at once.
const READS: usize = 32;

/// How much of the tree a walk reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Depth {
    /// Reads the pages that tell which blocks are in use: interior pages, leaves with overflow values, lists of
    /// overflow runs.
    Space,
    /// Reads all pages.
    Pages,
    /// Reads all pages and all overflow values.
    Values,
}

/// A finding of a walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// Blocks of a page.
    Page { run: Run, level: u8 },
    /// Blocks of a large value, or of a list of its runs.
    Overflow { run: Run },
    /// A page or a value that cannot be used. Blocks that only it refers to are not visited.
    Damage(Lost),
}

/// A page or a value that cannot be used, and the keys whose entries are lost with it: those from `from` on, below
/// `until` if that is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    pub damage: Damage,
    pub from: Vec<u8>,
    pub until: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkProgress {
    Working,
    Waiting(ReadId),
    Done,
}

#[derive(Debug)]
enum Visit {
    Page {
        child: Child,
        level: u8,
        lower: Vec<u8>,
        upper: Option<Vec<u8>>,
    },
    /// An overflow value, with its key.
    Value(Overflow, Arc<[u8]>),
    Run(OverflowRun, Arc<[u8]>),
}

/// Makes the finding that the value of this key cannot be used.
fn lost_value(key: &[u8], damage: Damage) -> Found {
    Found::Damage(Lost { damage, from: key.to_vec(), until: Some([key, &[0]].concat()) })
}

/// A walk in key order. The tree must stay unchanged while it is under way.
#[derive(Debug)]
pub struct Walk {
    depth: Depth,
    stack: Vec<Visit>,
    /// Number of entries of the leaves that were read.
    pub entries: u64,
    pub pages: u64,
}

impl Walk {
    pub fn new(root: Option<Root>, depth: Depth) -> Walk {
        let step =
            root.map(|root| Visit::Page { child: root.child, level: root.level, lower: Vec::new(), upper: None });
        Walk { depth, stack: step.into_iter().collect(), entries: 0, pages: 0 }
    }

    /// Visits up to `count` pages and values, and passes its findings to `each`.
    pub fn step(&mut self, cache: &mut PageCache, count: usize, each: &mut dyn FnMut(Found)) -> WalkProgress {
        for _ in 0..count {
            let Some(top) = self.stack.pop() else { return WalkProgress::Done };
            if let Some(id) = self.visit(&top, cache, each) {
                self.stack.push(top);
                self.prefetch(cache);
                return WalkProgress::Waiting(id);
            }
        }
        if self.stack.is_empty() { WalkProgress::Done } else { WalkProgress::Working }
    }

    fn is_read(&self, child: &Child, level: u8) -> bool {
        level > 0 || child.overflow || self.depth >= Depth::Pages
    }

    /// Visits a page or a value. Returns the read to wait for, if something is missing.
    fn visit(&mut self, step: &Visit, cache: &mut PageCache, each: &mut dyn FnMut(Found)) -> Option<ReadId> {
        match step {
            Visit::Page { child, level, lower, upper } => {
                let run = child.page.run();
                let lost = |damage| Lost { damage, from: lower.clone(), until: upper.clone() };
                if self.is_read(child, *level) {
                    match cache.take_page(&child.page, *level, Use::Once) {
                        Ok(Fetch::Ready(page)) => match check(&page, child, lower, upper.as_deref()) {
                            Ok(()) => self.descend(&page, lower, upper.as_deref()),
                            Err(kind) => each(Found::Damage(lost(kind.at(run)))),
                        },
                        Ok(Fetch::Pending(id)) => return Some(id),
                        Err(damage) => each(Found::Damage(lost(damage))),
                    }
                }
                self.pages += 1;
                each(Found::Page { run, level: *level });
            }
            Visit::Value(value, key) => {
                let mut lists = Vec::new();
                match value.resolve(cache, &mut lists) {
                    Ok(Fetch::Ready(runs)) => {
                        lists.into_iter().for_each(|run| each(Found::Overflow { run }));
                        self.stack.extend(runs.into_iter().rev().map(|run| Visit::Run(run, key.clone())));
                    }
                    Ok(Fetch::Pending(id)) => return Some(id),
                    Err(damage) => each(lost_value(key, damage)),
                }
            }
            Visit::Run(run, key) => {
                if self.depth == Depth::Values {
                    match cache.want_blocks(run) {
                        Ok(None) => drop(cache.take_blocks(run, Use::Once)),
                        Ok(Some(id)) => return Some(id),
                        Err(damage) => each(lost_value(key, damage)),
                    }
                }
                each(Found::Overflow { run: run.run });
            }
        }
        None
    }

    fn descend(&mut self, page: &Page, lower: &[u8], upper: Option<&[u8]>) {
        let key = |index: usize| {
            let mut key = Vec::new();
            page.key_into(index, &mut key);
            key
        };
        if page.level() == 0 {
            self.entries += page.len() as u64;
            let overflows = (0..page.len()).rev().filter(|index| page.is_overflow(*index));
            self.stack.extend(overflows.map(|index| Visit::Value(page.overflow_at(index), key(index).into())));
            return;
        }
        for index in (0..page.len()).rev() {
            let lower = if index > 0 { key(index) } else { lower.to_vec() };
            let upper = if index + 1 < page.len() { Some(key(index + 1)) } else { upper.map(<[u8]>::to_vec) };
            self.stack.push(Visit::Page { child: page.child(index), level: page.level() - 1, lower, upper });
        }
    }

    fn prefetch(&self, cache: &mut PageCache) {
        for step in self.stack.iter().rev().take(READS) {
            match step {
                Visit::Page { child, level, .. } if self.is_read(child, *level) => {
                    cache.prefetch(&child.page, *level, Use::Once);
                }
                Visit::Run(run, _) if self.depth == Depth::Values => drop(cache.want_blocks(run)),
                _ => {}
            }
        }
    }
}

/// Checks that a page belongs to its place in the tree, which the page's own checks cannot tell.
fn check(page: &Page, child: &Child, lower: &[u8], upper: Option<&[u8]>) -> Result<(), DamageKind> {
    let first = usize::from(page.level() > 0);
    let mut inside = true;
    if first < page.len() {
        inside &= page.cmp_key(first, lower) != Ordering::Less;
        inside &= upper.is_none_or(|upper| page.cmp_key(page.len() - 1, upper) == Ordering::Less);
    }
    if !inside {
        return Err(DamageKind::Bounds);
    }
    if page.has_overflow() != child.overflow {
        return Err(DamageKind::Structure("overflow flag of the page above"));
    }
    let is_newer = |index: &usize| page.child(*index).page.generation > child.page.generation;
    if page.level() > 0 && (0..page.len()).any(|index| is_newer(&index)) {
        return Err(DamageKind::Structure("child newer than its page"));
    }
    Ok(())
}
