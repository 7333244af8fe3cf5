//! Ranges that split when they have grown, and merge when they have shrunk.
//!
//! A change of ranges is a row of steps, each of which is one guarded operation. Once the moving keys are frozen, every
//! gateway that meets the change carries out the steps that are left, so no change waits for the gateway that began it.
//! Keys that do not move are served all the time; those that move wait for a copy of half a range.
//!
//! * Split: the root notes it; the new range is made (`Filling`); the old one is `Splitting`, which freezes its upper
//!   keys; these are copied; the new range is `Live`; the root names both; the old one drops its upper keys.
//! * Merge: the root notes it; the lower range is `Receiving`; the upper one is `Leaving`, which freezes it; its keys
//!   are copied; the lower range is `Live` with both; the root names it alone; the upper one is removed.
//!
//! The root's note, a name that is never used again, guards the change of the root against gateways that come late.

use crate::counts::{Tally, change_step, first_sum, region_begin};
use crate::error::Error;
use crate::names::{self, ENTRIES, REGIONS, VERSIONS};
use crate::rados::{Rados, RadosError, Step};
use crate::records::{Intent, Range, RangeState, attr, to_bytes};
use crate::store::{PAUSE_MS, Store, TRIES_MAX, lock, too_many_tries};
use crate::usage::{negative, whole};
use bytes::Bytes;
use s3rules::quota::Usage;

/// The state of a root that allows changes of ranges.
pub(crate) const ROOT_LIVE: &[u8] = b"live";

/// The generation of a range that is being filled.
pub(crate) const FILLING: &[u8] = b"0";

/// The generation behind this one.
pub(crate) fn next_generation(generation: &[u8]) -> Bytes {
    let number = std::str::from_utf8(generation).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Bytes::from((number + 1).to_string())
}

/// True if a guarded step was carried out; false if the guard no longer holds, since somebody else was first.
fn was_done<T>(outcome: Result<T, RadosError>) -> Result<bool, Error> {
    match outcome {
        Ok(_) => Ok(true),
        Err(RadosError::Guard | RadosError::NotFound | RadosError::Exists) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl<R: Rados> Store<R> {
    /// Sets a range's record, if its generation is `generation`, together with other steps.
    pub(crate) async fn turn_range(
        &self,
        (bucket, id): (&str, &str),
        generation: &Bytes,
        range: &Range,
        others: Vec<Step>,
    ) -> Result<bool, Error> {
        let mut steps = vec![
            Step::AttrIs(attr::GENERATION, generation.clone()),
            Step::SetAttr(attr::GENERATION, next_generation(generation)),
            Step::SetAttr(attr::RECORD, to_bytes(range)),
        ];
        steps.extend(others);
        was_done(self.meta(names::range_object(bucket, id), steps).await)
    }

    /// Carries out what is left of the change that a range takes part in, once its keys are frozen.
    pub(crate) async fn help(&self, bucket: &str, id: &str) -> Result<(), Error> {
        for attempt in 0..TRIES_MAX {
            if attempt > 3 {
                self.rados.pause(PAUSE_MS).await;
            }
            let Some((range, generation)) = self.range(bucket, id).await? else { return Ok(()) };
            let is_done = match &range.state {
                RangeState::Splitting { at, to } => {
                    self.help_split((bucket, id), &generation, &range, (at, to)).await?
                }
                RangeState::Leaving { into } => self.help_merge((bucket, id), &generation, &range, into).await?,
                _ => true,
            };
            if is_done {
                return Ok(());
            }
        }
        Err(too_many_tries())
    }

    async fn help_split(
        &self,
        (bucket, id): (&str, &str),
        generation: &Bytes,
        range: &Range,
        (at, to): (&str, &str),
    ) -> Result<bool, Error> {
        let filling = Bytes::from_static(FILLING);
        let mut moved = None;
        if let Some((_, state)) = self.range(bucket, to).await?
            && state == filling
        {
            let copied = self.copy_keys(bucket, (id, generation), (to, &filling), at).await?;
            let Some(usage) = copied else { return Ok(false) };
            let live = Range { start: at.to_owned(), end: range.end.clone(), state: RangeState::Live };
            self.turn_range((bucket, to), &filling, &live, vec![first_sum(usage)]).await?;
            moved = copied;
        }
        if moved.is_none() {
            moved = self.tally((bucket, id), generation, at).await?;
        }
        let Some(moved) = moved else { return Ok(false) };
        let note = (names::change(id), Bytes::copy_from_slice(to.as_bytes()));
        let ends = vec![
            (names::range_end(Some(at)), Bytes::copy_from_slice(id.as_bytes())),
            (names::range_end(range.end.as_deref()), note.1.clone()),
        ];
        let steps = vec![Step::ValueIs(note.0.clone(), note.1), Step::Drop(vec![note.0]), Step::Set(ends)];
        was_done(self.meta(names::root_object(bucket), steps).await)?;
        let lower = Range { start: range.start.clone(), end: Some(at.to_owned()), state: RangeState::Live };
        let drops = REGIONS.map(|region| Step::DropRange(names::entry(region, at), names::region_end(region)));
        let steps = [&drops[..], &[change_step(&format!("-{to}"), negative(whole(moved)))]].concat();
        self.turn_range((bucket, id), generation, &lower, steps).await
    }

    async fn help_merge(
        &self,
        (bucket, id): (&str, &str),
        generation: &Bytes,
        range: &Range,
        into: &str,
    ) -> Result<bool, Error> {
        let lower = self.range(bucket, into).await?;
        if let Some((lower, lower_generation)) = lower
            && let RangeState::Receiving { from, end } = &lower.state
            && from == id
        {
            let copied = self.copy_keys(bucket, (id, generation), (into, &lower_generation), &range.start).await?;
            let Some(usage) = copied else { return Ok(false) };
            let both = Range { start: lower.start.clone(), end: end.clone(), state: RangeState::Live };
            let steps = vec![change_step(&format!("+{id}"), whole(usage))];
            if !self.turn_range((bucket, into), &lower_generation, &both, steps).await? {
                return Ok(false);
            }
        }
        let note = Bytes::copy_from_slice(id.as_bytes());
        let notes = [names::change(id), names::change(into)];
        let mut steps: Vec<Step> = notes.iter().map(|key| Step::ValueIs(key.clone(), note.clone())).collect();
        let mut gone = notes.to_vec();
        gone.push(names::range_end(Some(&range.start)));
        steps.push(Step::Drop(gone));
        let into = Bytes::copy_from_slice(into.as_bytes());
        steps.push(Step::Set(vec![(names::range_end(range.end.as_deref()), into)]));
        was_done(self.meta(names::root_object(bucket), steps).await)?;
        let remove = vec![Step::AttrIs(attr::GENERATION, generation.clone()), Step::Remove];
        was_done(self.meta(names::range_object(bucket, id), remove).await)?;
        Ok(true)
    }

    /// Copies all keys from `start` on from one range to another. Gives their bytes and objects; `None` if one of the
    /// ranges has another generation by now.
    async fn copy_keys(
        &self,
        bucket: &str,
        (from, from_generation): (&str, &Bytes),
        (to, to_generation): (&str, &Bytes),
        start: &str,
    ) -> Result<Option<Usage>, Error> {
        let mut tally = Tally::default();
        for region in REGIONS {
            let mut after = region_begin(region, start);
            loop {
                let page = self.region_page((bucket, from), from_generation, region, after).await?;
                let Some((entries, more)) = page else { return Ok(None) };
                tally.add(region, &entries)?;
                let Some((last, _)) = entries.last() else { break };
                after = last.clone();
                let steps = vec![Step::AttrIs(attr::GENERATION, to_generation.clone()), Step::Set(entries)];
                if !was_done(self.meta(names::range_object(bucket, to), steps).await)? {
                    return Ok(None);
                }
                if !more {
                    break;
                }
            }
        }
        Ok(Some(tally.usage()))
    }

    /// Splits a range at `at`, which must lie behind its start and before its end. False if another change was first.
    pub(crate) async fn split(&self, bucket: &str, id: &str, at: &str) -> Result<bool, Error> {
        let Some((range, generation)) = self.range(bucket, id).await? else { return Ok(false) };
        let is_inside = range.start.as_str() < at && range.end.as_deref().is_none_or(|end| at < end);
        if range.state != RangeState::Live || !is_inside {
            return Ok(false);
        }
        let to = self.fresh();
        let intent = Intent::Split { bucket: bucket.into(), range: id.into(), to: to.clone() };
        let intent = self.intend(&intent).await?;
        if !self.note_changes(bucket, &[id], &to).await? {
            self.forget_intent(intent).await?;
            return Ok(false);
        }
        let filling = Range { start: at.to_owned(), end: range.end.clone(), state: RangeState::Filling };
        let steps = vec![
            Step::CreateNew,
            Step::SetAttr(attr::GENERATION, Bytes::from_static(FILLING)),
            Step::SetAttr(attr::RECORD, to_bytes(&filling)),
        ];
        self.meta(names::range_object(bucket, &to), steps).await?;
        let splitting = RangeState::Splitting { at: at.to_owned(), to: to.clone() };
        let begun =
            self.turn_range((bucket, id), &generation, &Range { state: splitting, ..range }, Vec::new()).await?;
        if begun {
            self.help(bucket, id).await?;
        } else {
            self.take_back_split(bucket, id, &to).await?;
        }
        self.forget_intent(intent).await?;
        Ok(begun)
    }

    /// Notes in the root that these ranges change. False if one of them takes part in another change, or if the bucket
    /// is being deleted.
    async fn note_changes(&self, bucket: &str, ranges: &[&str], name: &str) -> Result<bool, Error> {
        let mut steps = vec![Step::AttrIs(attr::STATE, Bytes::from_static(ROOT_LIVE))];
        steps.extend(ranges.iter().map(|id| Step::ValueIs(names::change(id), Bytes::new())));
        let name = Bytes::copy_from_slice(name.as_bytes());
        steps.push(Step::Set(ranges.iter().map(|id| (names::change(id), name.clone())).collect()));
        was_done(self.meta(names::root_object(bucket), steps).await)
    }

    async fn drop_notes(&self, bucket: &str, ranges: &[&str], name: &str) -> Result<bool, Error> {
        let name = Bytes::copy_from_slice(name.as_bytes());
        let mut steps: Vec<Step> = ranges.iter().map(|id| Step::ValueIs(names::change(id), name.clone())).collect();
        steps.push(Step::Drop(ranges.iter().map(|id| names::change(id)).collect()));
        was_done(self.meta(names::root_object(bucket), steps).await)
    }

    /// Takes a split back that froze nothing.
    async fn take_back_split(&self, bucket: &str, id: &str, to: &str) -> Result<(), Error> {
        let steps = vec![Step::AttrIs(attr::GENERATION, Bytes::from_static(FILLING)), Step::Remove];
        was_done(self.meta(names::range_object(bucket, to), steps).await)?;
        self.drop_notes(bucket, &[id], to).await?;
        Ok(())
    }

    /// Ends a split, or takes it back. The gateway that began it must be fenced.
    pub(crate) async fn resume_split(&self, bucket: &str, id: &str, to: &str) -> Result<(), Error> {
        self.help(bucket, id).await?;
        // The note goes with the change of the root; without it everything is done, or nothing was begun.
        let note = self.meta(names::root_object(bucket), vec![Step::Get(vec![names::change(id)])]).await;
        match note {
            Ok(mut replies) => {
                let (entries, _) = replies.remove(0).entries();
                if entries.first().is_some_and(|(_, note)| note == to.as_bytes()) {
                    self.take_back_split(bucket, id, to).await?;
                }
                Ok(())
            }
            Err(RadosError::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Merges a range with the one behind it. False if another change was first.
    pub(crate) async fn merge(&self, bucket: &str, into: &str, from: &str) -> Result<bool, Error> {
        let Some((lower, lower_generation)) = self.range(bucket, into).await? else { return Ok(false) };
        let Some((upper, upper_generation)) = self.range(bucket, from).await? else { return Ok(false) };
        let are_live = lower.state == RangeState::Live && upper.state == RangeState::Live;
        if !are_live || lower.end.as_deref() != Some(&upper.start) {
            return Ok(false);
        }
        let intent = Intent::Merge { bucket: bucket.into(), into: into.into(), from: from.into() };
        let intent = self.intend(&intent).await?;
        if !self.note_changes(bucket, &[from, into], from).await? {
            self.forget_intent(intent).await?;
            return Ok(false);
        }
        let receiving = RangeState::Receiving { from: from.into(), end: upper.end.clone() };
        let receiving = Range { state: receiving, ..lower };
        let leaving = Range { state: RangeState::Leaving { into: into.into() }, ..upper };
        let begun = self.turn_range((bucket, into), &lower_generation, &receiving, Vec::new()).await?
            && self.turn_range((bucket, from), &upper_generation, &leaving, Vec::new()).await?;
        self.resume_merge(bucket, into, from).await?;
        self.forget_intent(intent).await?;
        Ok(begun)
    }

    /// Ends a merge, or takes it back if nothing is frozen yet. The gateway that began it must be fenced, or wait.
    pub(crate) async fn resume_merge(&self, bucket: &str, into: &str, from: &str) -> Result<(), Error> {
        self.help(bucket, from).await?;
        if let Some((lower, generation)) = self.range(bucket, into).await?
            && matches!(&lower.state, RangeState::Receiving { from: other, .. } if other == from)
        {
            let live = Range { state: RangeState::Live, ..lower };
            self.turn_range((bucket, into), &generation, &live, Vec::new()).await?;
        }
        self.drop_notes(bucket, &[from, into], from).await?;
        Ok(())
    }

    /// The ranges of a bucket in order, each with its end and id.
    pub(crate) async fn ranges(&self, bucket: &str) -> Result<Vec<(Bytes, String)>, Error> {
        let root = names::root_object(bucket);
        let mut found = self.whole_omap(&root, Bytes::from_static(b"r")).await?;
        found.extend(self.whole_omap(&root, Bytes::from_static(b"s")).await?);
        Ok(found.into_iter().map(|(end, id)| (end, String::from_utf8_lossy(&id).into_owned())).collect())
    }

    /// Splits the ranges of this gateway's changes that have grown too large, and merges those that have shrunk.
    pub(crate) async fn balance_ranges(&self) -> Result<(), Error> {
        let due = self.settings.range_keys_max / 4;
        let ranges: Vec<(String, String)> = {
            let mut stamped = lock(&self.stamped);
            let ranges = stamped.iter().filter(|(_, count)| **count >= due).map(|(range, _)| range.clone()).collect();
            stamped.retain(|_, count| *count < due);
            ranges
        };
        for (bucket, id) in ranges {
            self.balance_range(&bucket, &id).await?;
        }
        Ok(())
    }

    async fn balance_range(&self, bucket: &str, id: &str) -> Result<(), Error> {
        let keys = self.keys_of(bucket, id).await?;
        let most = self.settings.range_keys_max as usize;
        if keys.len() > most {
            self.split(bucket, id, &keys[keys.len() / 2]).await?;
        } else if keys.len() < most / 4 {
            let ranges = self.ranges(bucket).await?;
            for pair in ranges.windows(2).filter(|pair| pair[0].1 == id || pair[1].1 == id) {
                let (lower, upper) = (&pair[0].1, &pair[1].1);
                let other = if lower == id { upper } else { lower };
                if keys.len() + self.keys_of(bucket, other).await?.len() < most / 4 * 3 {
                    if self.merge(bucket, lower, upper).await? {
                        // The range that is left may be small, too.
                        lock(&self.stamped).insert((bucket.to_owned(), lower.clone()), most as u64);
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    /// The keys of a range, once for each entry or version, up to somewhat more than a range may have.
    pub(crate) async fn keys_of(&self, bucket: &str, id: &str) -> Result<Vec<String>, Error> {
        let mut keys: Vec<String> = Vec::new();
        for region in [ENTRIES, VERSIONS] {
            keys.extend(self.keys_in(bucket, id, region).await?);
        }
        keys.sort_unstable();
        Ok(keys)
    }

    async fn keys_in(&self, bucket: &str, id: &str, region: u8) -> Result<Vec<String>, Error> {
        let object = names::range_object(bucket, id);
        let mut keys: Vec<String> = Vec::new();
        let mut after = Bytes::new();
        while keys.len() <= 2 * self.settings.range_keys_max as usize {
            let prefix = Bytes::copy_from_slice(&[region]);
            let list = Step::List { after: after.clone(), max: self.settings.page_entries, prefix };
            let (entries, more) = match self.meta(object.clone(), vec![list]).await {
                Ok(mut replies) => replies.remove(0).entries(),
                Err(RadosError::NotFound) => break,
                Err(error) => return Err(error.into()),
            };
            keys.extend(entries.iter().filter_map(|(name, _)| Some(names::parse(name)?.0)));
            match entries.last() {
                Some((name, _)) if more => after = name.clone(),
                _ => break,
            }
        }
        Ok(keys)
    }
}
