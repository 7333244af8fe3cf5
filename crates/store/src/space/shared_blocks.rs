//! Blocks that several objects hold, after clones.

use crate::space::run::{Run, push_run};
use std::collections::BTreeMap;

/// Number of holders beyond the first of each shared block, run-length coded. Blocks with one holder are not included.
#[derive(Default, Debug)]
pub(crate) struct SharedBlocks {
    /// Start to (count, further holders, at least 1). Runs do not overlap.
    runs: BTreeMap<u32, (u32, u32)>,
}

impl SharedBlocks {
    /// Adds a holder to each block of a run.
    pub fn add(&mut self, run: Run) {
        self.cut(run.start);
        self.cut(run.end());
        let mut at = run.start;
        while at < run.end() {
            let next =
                self.runs.range_mut(at..run.end()).next().map(|(start, (count, holders))| (*start, *count, holders));
            match next {
                Some((start, count, holders)) if start == at => {
                    *holders += 1;
                    at += count;
                }
                found => {
                    let end = found.map_or(run.end(), |(start, ..)| start);
                    self.runs.insert(at, (end - at, 1));
                    at = end;
                }
            }
        }
        self.join_around(run);
    }

    /// Returns true if any block of a run has more than one holder.
    pub fn overlaps(&self, run: Run) -> bool {
        self.runs.range(..run.end()).next_back().is_some_and(|(start, (count, _))| start + count > run.start)
    }

    /// Removes a holder from each block of a run; blocks that had only one go to `freed`.
    pub fn drop_run(&mut self, run: Run, freed: &mut Vec<Run>) {
        if self.runs.is_empty() {
            return push_run(freed, run);
        }
        self.cut(run.start);
        self.cut(run.end());
        let mut at = run.start;
        while at < run.end() {
            let next =
                self.runs.range_mut(at..run.end()).next().map(|(start, (count, holders))| (*start, *count, holders));
            match next {
                Some((start, count, holders)) if start == at => {
                    *holders -= 1;
                    if *holders == 0 {
                        self.runs.remove(&start);
                    }
                    at += count;
                }
                found => {
                    let end = found.map_or(run.end(), |(start, ..)| start);
                    push_run(freed, Run { start: at, count: end - at });
                    at = end;
                }
            }
        }
        self.join_around(run);
    }

    /// Splits the run that contains `at`, so that one begins there.
    fn cut(&mut self, at: u32) {
        if let Some((start, (count, holders))) = self.runs.range_mut(..at).next_back() {
            let end = start + *count;
            if end > at {
                let holders = *holders;
                *count = at - start;
                self.runs.insert(at, (end - at, holders));
            }
        }
    }

    /// Joins runs within and at the edges of `run` that continue each other with equal numbers of holders.
    fn join_around(&mut self, run: Run) {
        let first = self.runs.range(..run.start).next_back().map_or(run.start, |(start, _)| *start);
        let mut before: Option<(u32, u32, u32)> = None;
        let parts: Vec<(u32, u32, u32)> = self.runs.range(first..=run.end()).map(|(s, (c, h))| (*s, *c, *h)).collect();
        for (start, count, holders) in parts {
            before = match before {
                Some((s, c, h)) if s + c == start && h == holders => {
                    self.runs.remove(&start);
                    self.runs.insert(s, (c + count, h));
                    Some((s, c + count, h))
                }
                _ => Some((start, count, holders)),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn holders_are_counted_like_in_a_plain_table(steps in prop::collection::vec((0u32..60, 1u32..20, any::<bool>()), 0..60)) {
            let (mut shared, mut model) = (SharedBlocks::default(), [1u32; 80]);
            for (start, count, add) in steps {
                let run = Run { start, count };
                let blocks = start as usize..(start + count) as usize;
                if add {
                    shared.add(run);
                    model[blocks].iter_mut().for_each(|holders| *holders += 1);
                    continue;
                }
                let mut freed = Vec::new();
                shared.drop_run(run, &mut freed);
                let freed: Vec<u32> = freed.iter().flat_map(|r| r.start..r.end()).collect();
                let expected: Vec<u32> = (run.start..run.end()).filter(|b| model[*b as usize] == 1).collect();
                prop_assert_eq!(freed, expected);
                // A freed block is allocated again with one holder.
                model[blocks].iter_mut().for_each(|holders| *holders = (*holders - 1).max(1));
            }
            let mut flat = [1u32; 80];
            let mut last: Option<(u32, u32)> = None;
            for (start, (count, holders)) in &shared.runs {
                prop_assert!(last != Some((*start, *holders)), "neighbours are joined");
                last = Some((start + count, *holders));
                (*start..start + count).for_each(|b| flat[b as usize] += holders);
            }
            for start in 0..70 {
                let several = model[start..start + 9].iter().any(|holders| *holders > 1);
                prop_assert_eq!(shared.overlaps(Run { start: start as u32, count: 9 }), several);
            }
            prop_assert_eq!(flat, model);
        }
    }
}
