//! The bytes of an object that an update changes, in whole stripes.
//!
//! Parity covers a stripe, so an update that brings a part of one needs the rest of it. [`Rewrite::of`] lays the steps
//! of an update over the object as it was; [`Rewrite::wanted`] tells which old bytes that takes, [`Rewrite::fill`]
//! takes them, and [`Rewrite::stripes`] gives the new content of all stripes that change.
//!
//! ```text
//! stripes    |       0       |       1       |       2       |
//! old bytes  ooooooooooooooooooooooooooooooooooooo               `kept` ends in stripe 2
//! runs               dddddddd zzzzzzzzzzzzzzzzzzz dd             data and zeros
//! wanted     oooooooo
//! stripes    eeeeeeeeeeeeeeee punched          eeeeeeeeeeeeeeee
//! ```
//!
//! Behind the object's end, up to the end of its last stripe, all shards hold what they hold of zeros.

use ec::StripeLayout;
use std::collections::BTreeMap;
use std::ops::Range;
use store::Step;
use types::ObjectId;
use wire::Rope;

/// The bytes of one object after an update, as far as the update changes them. Offsets are logical.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rewrite {
    layout: StripeLayout,
    /// Shards have old bytes up to here.
    base: u64,
    /// Old bytes count up to here.
    kept: u64,
    size: u64,
    /// New bytes.
    runs: Runs,
    /// Old bytes that were wanted.
    old: BTreeMap<u64, Rope>,
    /// Old bytes are those of the state of the object that a step clones.
    is_of_clone: bool,
    /// Stripes of zeros that replace old bytes and that no other run touches. In order.
    punched: Vec<Range<u64>>,
    /// Stripes that are encoded anew, in order and apart.
    encoded: Vec<Range<u64>>,
}

/// Bytes by their offset. They do not overlap, and none is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Runs(BTreeMap<u64, NewBytes>);

impl Runs {
    fn lay(&mut self, offset: u64, run: NewBytes) {
        if run.len() > 0 {
            self.0.insert(offset, run);
        }
    }

    /// Takes `start .. end` out of the runs.
    fn make_way(&mut self, start: u64, end: u64) {
        let before = self.0.range(..start).next_back().filter(|(at, run)| *at + run.len() > start);
        let first = before.map_or(start, |(at, _)| *at);
        let hit: Vec<u64> = self.0.range(first..end.max(first)).map(|(at, _)| *at).collect();
        for at in hit {
            let run = self.0.remove(&at).expect("just seen");
            let run_end = at + run.len();
            if at < start {
                self.0.insert(at, run.part(0, start - at));
            }
            if run_end > end {
                self.0.insert(end, run.part(end - at, run_end - end));
            }
        }
    }

    /// Returns the runs that have bytes in a range.
    fn within(&self, range: &Range<u64>) -> impl Iterator<Item = (&u64, &NewBytes)> {
        let before = self.0.range(..range.start).next_back().filter(|(at, run)| *at + run.len() > range.start);
        let first = before.map_or(range.start, |(at, _)| *at);
        self.0.range(first..range.end)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum NewBytes {
    Data(Rope),
    Zeros(u64),
}

impl NewBytes {
    fn len(&self) -> u64 {
        match self {
            NewBytes::Data(data) => data.len() as u64,
            NewBytes::Zeros(len) => *len,
        }
    }

    /// Returns its part from the byte `from` on, `len` bytes long.
    fn part(&self, from: u64, len: u64) -> NewBytes {
        match self {
            // It fits: the part lies within data that is in memory.
            NewBytes::Data(data) => NewBytes::Data(data.slice(from as usize, len as usize)),
            NewBytes::Zeros(_) => NewBytes::Zeros(len),
        }
    }
}

/// New content of stripes that follow one another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stripes {
    /// Where the first one begins.
    pub offset: u64,
    /// Ends with a stripe or with the object.
    pub data: Rope,
    /// Exclusive or of old and new bytes. If it is there, `data` has zeros for bytes that are not known, all outside of
    /// what is changed, and parity changes by the parity of this.
    pub difference: Option<Rope>,
    /// The parts of it that may differ from what was there, in order.
    pub changed: Vec<Range<u64>>,
}

impl Rewrite {
    /// Lays those of `steps` that concern `object` over it. `size_before`: its length, 0 if it was not there.
    /// `clone_bytes`: that of the state of the object that a step clones, if one does.
    pub fn of(object: &ObjectId, steps: &[Step], size_before: u64, clone_bytes: u64, layout: StripeLayout) -> Rewrite {
        let mut new = Rewrite {
            layout,
            base: size_before,
            kept: size_before,
            size: size_before,
            runs: Runs::default(),
            old: BTreeMap::new(),
            is_of_clone: false,
            punched: Vec::new(),
            encoded: Vec::new(),
        };
        for step in steps.iter().filter(|step| step.object() == Some(object)) {
            match step {
                Step::Remove { .. } => new.replace(0, false),
                Step::Clone { .. } => new.replace(clone_bytes, true),
                Step::Truncate { size, .. } => new.truncate(*size),
                Step::Zero { offset, len, .. } => new.put(*offset, NewBytes::Zeros(*len)),
                Step::Write { offset, data, .. } => new.put(*offset, NewBytes::Data(data.clone())),
                Step::CloneRange { .. } | Step::Xor { .. } => unreachable!("no operation makes these of its object"),
                _ => {}
            }
        }
        new.punched = new.zeroed_stripes();
        new.encoded = new.encoded_stripes();
        new
    }

    fn replace(&mut self, size: u64, is_of_clone: bool) {
        (self.base, self.kept, self.size, self.is_of_clone) = (size, size, size, is_of_clone);
        self.runs.0.clear();
    }

    fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.runs.make_way(size, u64::MAX);
            self.kept = self.kept.min(size);
            // The rest of the last stripe had bytes, and is zeros now.
            let had_until = self.layout.padded_bytes(size).min(self.size.max(self.base));
            self.size = size;
            self.runs.lay(size, NewBytes::Zeros(had_until - size));
        }
        self.size = size;
    }

    fn put(&mut self, offset: u64, run: NewBytes) {
        let end = offset + run.len();
        self.runs.make_way(offset, end);
        self.runs.lay(offset, run);
        self.size = self.size.max(end);
    }

    /// Returns stripes of zeros that replace old bytes and that no other run touches. In order.
    pub fn punched(&self) -> &[Range<u64>] {
        &self.punched
    }

    fn zeroed_stripes(&self) -> Vec<Range<u64>> {
        let stripe = self.layout.stripe_bytes();
        let zeroed = self.runs.0.iter().filter_map(|(at, run)| {
            let NewBytes::Zeros(len) = run else { return None };
            // Behind the object's end nothing is left of a stripe.
            let end = if at + len >= self.size { self.layout.padded_bytes(at + len) } else { at + len };
            let (start, end) = (self.layout.padded_bytes(*at), end - end % stripe);
            let end = end.min(self.layout.padded_bytes(self.kept));
            (start < end).then_some(start..end)
        });
        zeroed.collect()
    }

    fn encoded_stripes(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut add = |part: Range<u64>| {
            if part.is_empty() {
                return;
            }
            let around = self.layout.stripes_around(part);
            match ranges.last_mut().filter(|last| last.end >= around.start) {
                Some(last) => last.end = last.end.max(around.end),
                None => ranges.push(around),
            }
        };
        let mut punched = self.punched.iter().cloned().peekable();
        for (at, run) in &self.runs.0 {
            let end = at + run.len();
            match run {
                NewBytes::Data(_) => add(*at..end),
                NewBytes::Zeros(_) => {
                    // Zeros behind what there was change nothing.
                    let end = end.min(self.layout.padded_bytes(self.kept));
                    let whole = punched.next_if(|whole| *at <= whole.start && whole.start < end.max(*at));
                    let whole = whole.unwrap_or(end.max(*at)..end.max(*at));
                    add(*at..whole.start);
                    add(whole.end.min(end)..end);
                }
            }
        }
        ranges
    }

    /// Returns the old bytes that it takes to encode anew: those around what is new in a stripe, or those that are
    /// replaced, whichever are less. In order and apart.
    pub fn wanted(&self) -> Vec<Range<u64>> {
        let mut wanted: Vec<Range<u64>> = Vec::new();
        for range in &self.encoded {
            match self.replaced(range) {
                Some(replaced) => wanted.extend(Some(replaced).filter(|replaced| !replaced.is_empty())),
                None => wanted.extend(self.around(range)),
            }
        }
        self.joined(wanted)
    }

    /// Joins ranges that lie in one stripe, or in stripes that follow each other: one read brings both.
    fn joined(&self, ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let stripe = self.layout.stripe_bytes();
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut().filter(|last| (last.end - 1) / stripe + 1 >= range.start / stripe) {
                Some(last) => last.end = range.end,
                None => joined.push(range),
            }
        }
        joined
    }

    /// Returns old bytes of stripes that are encoded anew and are not replaced: with them the stripes are known.
    fn around(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let end = range.end.min(self.kept);
        let (mut around, mut at) = (Vec::new(), range.start);
        let mut add = |gap: Range<u64>| around.extend(Some(gap).filter(|gap| !gap.is_empty()));
        for (start, run) in self.runs.within(range) {
            add(at..(*start).clamp(at, end.max(at)));
            at = at.max(start + run.len());
        }
        add(at..end.max(at));
        around
    }

    /// Returns old bytes that one run replaces in stripes, if these are less than those around it: with them it is
    /// known by what parity changes. Behind `kept` old bytes are zeros, unless the update cuts the object.
    fn replaced(&self, range: &Range<u64>) -> Option<Range<u64>> {
        if self.kept != self.base || range.end > self.old_end() {
            return None;
        }
        let mut runs = self.runs.within(range);
        let (start, run) = runs.next().filter(|_| runs.next().is_none())?;
        let part = (*start).max(range.start)..(start + run.len()).min(range.end);
        let replaced = part.start..part.end.clamp(part.start, self.kept.max(part.start));
        let around: u64 = self.joined(self.around(range)).iter().map(|part| part.end - part.start).sum();
        (replaced.end - replaced.start < around).then_some(replaced)
    }

    /// Tells whether old bytes are those of the state of the object that a step clones.
    pub fn is_of_clone(&self) -> bool {
        self.is_of_clone
    }

    /// Takes old bytes from `offset` on.
    pub fn fill(&mut self, offset: u64, bytes: Rope) {
        self.old.insert(offset, bytes);
    }

    /// Returns the new content of the stripes that change, without those that are punched. Panics if old bytes are
    /// wanted that were not given.
    pub fn stripes(&self) -> Vec<Stripes> {
        let in_runs = |(at, bytes): (&u64, &Rope)| (*at, NewBytes::Data(bytes.clone()));
        // The new bytes over the old ones.
        let mut all = Runs(self.old.iter().map(in_runs).collect());
        for (at, run) in &self.runs.0 {
            all.make_way(*at, at + run.len());
            all.lay(*at, run.clone());
        }
        self.encoded.iter().map(|range| self.stripes_of(&all, range.clone())).collect()
    }

    fn stripes_of(&self, all: &Runs, range: Range<u64>) -> Stripes {
        if let Some(replaced) = self.replaced(&range) {
            return self.changed_stripes(range, replaced);
        }
        let end = range.end.min(self.size.max(range.start));
        let (mut data, mut at) = (Rope::new(), range.start);
        for (start, run) in all.within(&range) {
            let (from, until) = ((*start).max(range.start), (start + run.len()).min(end));
            if from >= until {
                continue;
            }
            assert!(at == from || at >= self.kept, "old bytes {at}..{from} are wanted and not there");
            add_zeros(&mut data, from - at);
            match run.part(from - start, until - from) {
                NewBytes::Data(bytes) => data.append(bytes),
                NewBytes::Zeros(len) => add_zeros(&mut data, len),
            }
            at = until;
        }
        assert!(at == end || at >= self.kept, "old bytes {at}..{end} are wanted and not there");
        add_zeros(&mut data, end - at);
        let within = |(at, run): (&u64, &NewBytes)| (*at).max(range.start)..(at + run.len()).min(range.end);
        let changed = self.runs.0.iter().map(within).filter(|part| !part.is_empty()).collect();
        Stripes { offset: range.start, data, difference: None, changed }
    }

    /// Stripes in which one run replaces the old bytes `replaced`, and zeros behind them.
    fn changed_stripes(&self, range: Range<u64>, replaced: Range<u64>) -> Stripes {
        let end = range.end.min(self.size.max(range.start));
        let (start, run) = self.runs.within(&range).next().expect("something changes");
        // Zeros behind the object's new end were zeros before.
        let begin = (*start).clamp(range.start, end);
        let part = begin..(start + run.len()).clamp(begin, end);
        let new = match run.part(part.start - start, part.end - part.start) {
            NewBytes::Data(bytes) => bytes,
            NewBytes::Zeros(len) => zeros(len),
        };
        let mut difference = new.to_vec();
        if !replaced.is_empty() {
            let (at, old) = self.old.range(..=replaced.start).next_back().expect("old bytes are wanted and not there");
            // It fits: both lie within bytes that are in memory.
            let old = old.slice((replaced.start - at) as usize, (replaced.end - replaced.start) as usize).to_vec();
            difference.iter_mut().zip(&old).for_each(|(new, old)| *new ^= old);
        }
        let among_zeros = |bytes: Rope| {
            let mut all = zeros(part.start - range.start);
            all.append(bytes);
            add_zeros(&mut all, end - part.end);
            all
        };
        let changed = vec![part.clone()];
        let difference = Some(among_zeros(Rope::from(difference)));
        Stripes { offset: range.start, data: among_zeros(new), difference, changed }
    }

    /// Returns the object's length after the update.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the end of the stripes that had bytes before and still do.
    pub fn old_end(&self) -> u64 {
        self.layout.padded_bytes(self.kept)
    }

    /// Tells whether all that is written follows upon what is there and reaches to the object's end, so that digests of
    /// shards can be kept up.
    pub fn only_appends(&self) -> bool {
        self.punched.is_empty()
            && match &self.encoded[..] {
                [] => true,
                [range] => range.start == self.old_end() && range.end == self.layout.padded_bytes(self.size),
                _ => false,
            }
    }
}

/// Returns so many zeros.
pub(crate) fn zeros(bytes: u64) -> Rope {
    let mut zeros = Rope::new();
    add_zeros(&mut zeros, bytes);
    zeros
}

fn add_zeros(data: &mut Rope, mut bytes: u64) {
    static ZEROS: [u8; 65536] = [0; 65536];
    while bytes > 0 {
        let now = bytes.min(ZEROS.len() as u64);
        // It fits: no more than there are zeros.
        data.push(bytes::Bytes::from_static(&ZEROS[..now as usize]));
        bytes -= now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;
    use types::PoolId;

    const STRIPE: u64 = 16;

    fn layout() -> StripeLayout {
        StripeLayout::new(2, 8).expect("a layout")
    }

    fn object() -> ObjectId {
        ObjectId::head(PoolId(4).of_shard(1), 7, b"", b"name")
    }

    fn write(offset: u64, data: Vec<u8>) -> Step {
        Step::Write { object: object(), offset, data: Rope::from(Bytes::from(data)) }
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u64..90, proptest::collection::vec(1u8.., 1..40)).prop_map(|(at, data)| write(at, data)),
            2 => (0u64..90, 1u64..60).prop_map(|(offset, len)| Step::Zero { object: object(), offset, len }),
            2 => (0u64..100).prop_map(|size| Step::Truncate { object: object(), size }),
            1 => Just(Step::Remove { object: object() }),
            1 => Just(Step::Clone { from: object(), to: object() }),
        ]
    }

    /// An object's bytes after `step`. An operation zeroes nothing behind the object's end.
    fn apply(bytes: &mut Vec<u8>, step: &Step, clone: &[u8]) {
        match step {
            Step::Write { offset, data, .. } => {
                let (start, end) = (*offset as usize, *offset as usize + data.len());
                bytes.resize(bytes.len().max(end), 0);
                bytes[start..end].copy_from_slice(&data.to_vec());
            }
            Step::Zero { offset, len, .. } => bytes[*offset as usize..(offset + len) as usize].fill(0),
            Step::Truncate { size, .. } => bytes.resize(*size as usize, 0),
            Step::Remove { .. } => bytes.clear(),
            Step::Clone { .. } => *bytes = clone.to_vec(),
            _ => unreachable!(),
        }
    }

    fn padded(bytes: &[u8]) -> Vec<u8> {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(STRIPE as usize), 0);
        padded
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn stripes_over_old_ones_are_the_object(
            before in proptest::collection::vec(1u8.., 0..100),
            clone in proptest::collection::vec(1u8.., 0..100),
            drawn in proptest::collection::vec(step(), 0..6),
        ) {
            let (mut bytes, mut steps) = (before.clone(), Vec::new());
            // The object's content without what the runs bring.
            let mut base = before.clone();
            for mut step in drawn {
                if let Step::Zero { offset, len, .. } = &mut step {
                    *len = (*len).min((bytes.len() as u64).saturating_sub(*offset));
                    if *len == 0 {
                        continue;
                    }
                }
                apply(&mut bytes, &step, &clone);
                match &step {
                    Step::Remove { .. } => base.clear(),
                    Step::Clone { .. } => base = clone.clone(),
                    Step::Truncate { size, .. } => base.truncate(*size as usize),
                    _ => {}
                }
                steps.push(step);
            }
            let mut new =
                Rewrite::of(&object(), &steps, before.len() as u64, clone.len() as u64, layout());
            prop_assert_eq!((new.kept, new.size), (base.len() as u64, bytes.len() as u64));
            let only_appends = new.only_appends();
            // Shards as truncations have left them: the last stripe keeps bytes that are cut off, until it is written.
            let old = match steps.iter().rposition(|step| matches!(step, Step::Remove { .. } | Step::Clone { .. })) {
                Some(at) if matches!(steps[at], Step::Clone { .. }) => clone.clone(),
                Some(_) => Vec::new(),
                None => before.clone(),
            };
            let mut shards = padded(&old);
            shards.truncate(padded(&base).len());
            let wanted = new.wanted();
            let mut last = 0;
            for range in wanted {
                prop_assert!(last <= range.start && range.start < range.end && range.end <= base.len() as u64);
                last = range.end;
                let part = &base[range.start as usize..range.end as usize];
                new.fill(range.start, Rope::from(Bytes::copy_from_slice(part)));
            }
            shards.resize(shards.len().max(padded(&bytes).len()), 0);
            let before_runs = shards.clone();
            for range in new.punched() {
                prop_assert!(layout().is_whole_stripes(range) && range.end <= padded(&base).len() as u64);
                shards[range.start as usize..range.end as usize].fill(0);
            }
            let mut end = 0;
            for stripes in new.stripes() {
                prop_assert!(stripes.offset % STRIPE == 0 && stripes.offset >= end && !stripes.data.is_empty());
                let mut content = padded(&stripes.data.to_vec());
                end = stripes.offset + content.len() as u64;
                prop_assert!(end <= shards.len() as u64);
                let place = stripes.offset as usize..end as usize;
                if let Some(difference) = &stripes.difference {
                    let changed = before_runs[place.clone()].iter().zip(padded(&difference.to_vec()));
                    let changed: Vec<u8> = changed.map(|(old, difference)| old ^ difference).collect();
                    let [part] = &stripes.changed[..] else { panic!("one part changes") };
                    let part = (part.start - stripes.offset) as usize..(part.end - stripes.offset) as usize;
                    prop_assert_eq!(&changed[part.clone()], &content[part]);
                    content = changed;
                }
                // Only what is said to change does.
                for (at, (new, old)) in content.iter().zip(&before_runs[place.clone()]).enumerate() {
                    let at = stripes.offset + at as u64;
                    prop_assert!(new == old || stripes.changed.iter().any(|part| part.contains(&at)), "{}", at);
                }
                shards[place].copy_from_slice(&content);
                let is_rest = stripes.offset == padded(&base).len() as u64 && end == padded(&bytes).len() as u64;
                prop_assert!(!only_appends || is_rest);
            }
            prop_assert_eq!(shards, padded(&bytes));
        }
    }

    #[test]
    fn as_little_as_possible_is_read() {
        let wanted = |steps: &[Step], size| -> Vec<(u64, u64)> {
            let wanted = Rewrite::of(&object(), steps, size, 0, layout()).wanted();
            wanted.into_iter().map(|range| (range.start, range.end)).collect()
        };
        let data = |len: usize| vec![7; len];
        assert_eq!(wanted(&[write(16, data(32))], 100), [], "whole stripes");
        assert_eq!(wanted(&[write(96, data(4))], 100), [], "up to the object's end");
        assert_eq!(wanted(&[write(20, data(4))], 100), [(20, 24)], "what is replaced is less than what is around it");
        assert_eq!(wanted(&[write(18, data(10))], 100), [(18, 28)]);
        assert_eq!(wanted(&[write(17, data(2)), write(26, data(2))], 100), [(16, 32)], "one read around both");
        assert_eq!(wanted(&[write(20, data(60))], 100), [(16, 20)], "up to a stripe's end");
        assert_eq!(wanted(&[write(4, data(91))], 100), [(0, 4), (95, 96)], "sides far apart");
        assert_eq!(wanted(&[write(100, data(2))], 100), [], "zeros behind the end");
        assert_eq!(wanted(&[write(98, data(4))], 99), [(98, 99)]);
        assert_eq!(wanted(&[write(200, data(2))], 100), [], "a hole");
        assert_eq!(wanted(&[Step::Truncate { object: object(), size: 20 }], 100), [(16, 20)]);
        assert_eq!(wanted(&[Step::Truncate { object: object(), size: 32 }], 100), []);
        assert_eq!(wanted(&[Step::Truncate { object: object(), size: 0 }, write(3, data(9))], 100), []);
        assert_eq!(wanted(&[Step::Zero { object: object(), offset: 8, len: 40 }], 100), [(0, 8)], "one edge");
    }
}
