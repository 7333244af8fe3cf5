//! Reads that do not wait for a late shard: others are asked in its place, and any k that have come give the bytes.
//!
//! * A shard is late if its answer takes much longer than answers of the other OSDs have taken: their mean and six mean
//!   deviations, as TCP does it, [`DELAY_MIN`] at least.
//! * One read in [`READS_EACH`] is hedged at the most, counted over all groups of an OSD's shard. So where all OSDs
//!   become slow there is little more for them to do.
//! * Operators may switch it off ([`crate::Tuning::hedged_reads`]).

use super::gather::Gather;
use super::gatherer::Gatherer;
use super::source::{Source, SourceStanding};
use crate::context::Context;
use std::collections::BTreeMap;
use std::time::Duration;
use store::LookupId;

/// The shortest delay before other shards are asked. With a shorter one, asking them costs more than it gains.
const DELAY_MIN: Duration = Duration::from_millis(5);
/// The longest delay before other shards are asked.
const DELAY_MAX: Duration = Duration::from_secs(1);
/// Delay before enough answers have come to go by.
const DELAY_FIRST: Duration = Duration::from_millis(100);
const _: () = assert!(
    DELAY_MIN.as_millis() <= DELAY_FIRST.as_millis() && DELAY_FIRST.as_millis() <= DELAY_MAX.as_millis(),
    "the first delay is one that measured ones can be, too"
);
const ANSWERS_ENOUGH: u32 = 32;
/// Reads that make up for one that is hedged.
const READS_EACH: u32 = 20;
/// Reads that may be hedged one after the other.
const HEDGED_MAX: u32 = 10;

/// The time that answers take, and the reads that may be hedged.
#[derive(Debug)]
pub(crate) struct Hedging {
    /// Running mean, and the running mean of what answers differ from it.
    mean: Duration,
    deviation: Duration,
    answers: u32,
    /// Reads of which each [`READS_EACH`] allow one to be hedged.
    credit: u32,
    /// Reads that were hedged.
    pub hedged: u64,
}

impl Default for Hedging {
    fn default() -> Hedging {
        let credit = HEDGED_MAX * READS_EACH;
        Hedging { mean: Duration::ZERO, deviation: Duration::ZERO, answers: 0, credit, hedged: 0 }
    }
}

impl Hedging {
    /// Counts a read of several shards.
    pub fn begun(&mut self) {
        self.credit = (self.credit + 1).min(HEDGED_MAX * READS_EACH);
    }

    /// Counts the answer of another OSD.
    pub fn answered(&mut self, took: Duration) {
        if self.answers == 0 {
            (self.mean, self.deviation) = (took, took / 2);
        } else {
            self.deviation = (self.deviation * 3 + self.mean.abs_diff(took)) / 4;
            self.mean = (self.mean * 7 + took) / 8;
        }
        self.answers = self.answers.saturating_add(1);
    }

    /// Returns the time after which an answer is late.
    pub fn delay(&self) -> Duration {
        match self.answers < ANSWERS_ENOUGH {
            true => DELAY_FIRST,
            false => (self.mean + self.deviation * 6).clamp(DELAY_MIN, DELAY_MAX),
        }
    }

    /// Tells whether a read may be hedged, and counts it if so.
    fn may_hedge(&mut self) -> bool {
        match self.credit.checked_sub(READS_EACH) {
            Some(left) => {
                (self.credit, self.hedged) = (left, self.hedged + 1);
                true
            }
            None => false,
        }
    }
}

impl Gatherer<'_> {
    /// Sets the time at which the next read under way is late, to look at it then.
    pub(super) fn hedge_later(&mut self, cx: &mut Context<'_>) {
        let coded = &mut *self.state;
        if coded.hedge_at.is_some() || !cx.shared.tuning.hedged_reads {
            return;
        }
        let Some(began) = coded.gathers.values().filter_map(Gather::may_be_hedged).min() else { return };
        let at = began + cx.shared.coded_reads.hedging.delay();
        coded.hedge_at = Some(at);
        cx.agenda.hedges.insert((at, self.core.id));
    }

    /// Asks for other shards where some are late.
    pub(crate) fn hedge(&mut self, cx: &mut Context<'_>) {
        self.state.hedge_at = None;
        if !cx.shared.tuning.hedged_reads {
            return;
        }
        let delay = cx.shared.coded_reads.hedging.delay();
        let is_late = |gather: &Gather| gather.may_be_hedged().is_some_and(|began| began + delay <= cx.now);
        let late: Vec<LookupId> =
            self.state.gathers.iter().filter(|(_, gather)| is_late(gather)).map(|(id, _)| *id).collect();
        for id in late {
            self.hedge_one(cx, id);
        }
        self.answer_itself(cx);
        self.hedge_later(cx);
    }

    fn hedge_one(&mut self, cx: &mut Context<'_>, id: LookupId) {
        let k = self.state.code().code.k();
        let Some(gather) = self.state.gathers.get(&id) else { return };
        let mut sources = self.whereabouts().all_sources(&gather.object);
        sources.retain(|source| source.standing >= SourceStanding::Member && gather.may_ask(source));
        sources.sort_by_key(|source| source.standing);
        // The best source of each shard wins.
        let by_shard: BTreeMap<usize, Source> = sources.into_iter().map(|source| (source.shard, source)).collect();
        let gather = self.state.gathers.get_mut(&id).expect("just seen");
        let wanted = k.saturating_sub(gather.shards_here());
        let others: Vec<Source> = by_shard.into_values().take(wanted).collect();
        // A read is looked at only once.
        gather.is_hedged = true;
        if others.len() < wanted || !cx.shared.coded_reads.hedging.may_hedge() {
            return;
        }
        tracing::debug!(pg = %self.core.id, object = %gather.object, "a shard is late, and others are asked");
        let pg = self.core.pg_interval();
        let ask: Vec<_> = others.into_iter().map(|source| gather.question(pg, id, source, true, cx.now)).collect();
        self.ask(cx, ask);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_delay_follows_the_answers() {
        let mut hedging = Hedging::default();
        assert_eq!(hedging.delay(), DELAY_FIRST);
        (0..100).for_each(|_| hedging.answered(MS / 4));
        assert_eq!(hedging.delay(), DELAY_MIN);
        (0..100).for_each(|i| hedging.answered(MS * (10 + i % 10)));
        assert!((20 * MS..60 * MS).contains(&hedging.delay()), "{:?}", hedging.delay());
        (0..100).for_each(|_| hedging.answered(MS * 5000));
        assert_eq!(hedging.delay(), DELAY_MAX);
    }

    #[test]
    fn few_reads_are_hedged() {
        let mut hedging = Hedging::default();
        let hedged = (0..1000).filter(|_| {
            hedging.begun();
            hedging.may_hedge()
        });
        let hedged = hedged.count() as u32;
        assert_eq!(hedged, HEDGED_MAX + 999 / READS_EACH, "the first finds all the credit there may be");
        assert_eq!(hedging.hedged, u64::from(hedged));
    }
}
