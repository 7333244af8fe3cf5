//! Offset of another machine's clock, from round trips.
//!
//! A question leaves at `sent` and its answer, which carries the other clock's time, arrives at `received`. The other
//! clock was read at an unknown time between the two, so the offset is known to half of the round trip, whatever the
//! two ways took. The shortest of several round trips is the most exact.

/// One question and its answer. All times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Time of the question, by our clock.
    pub sent_ns: i128,
    /// Time of the other clock, read between question and answer.
    pub theirs_ns: i128,
    /// Time of the answer, by our clock.
    pub received_ns: i128,
}

/// The offset of another clock, with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Time of the other clock minus the time of ours at the same moment.
    pub offset_ns: i128,
    /// Largest distance of the true offset from `offset_ns`, above or below it.
    pub uncertainty_ns: i128,
}

impl Exchange {
    /// The offset by this exchange; `None` if it ended before it began.
    pub fn offset(&self) -> Option<Offset> {
        let round_trip = self.received_ns.checked_sub(self.sent_ns).filter(|time| *time >= 0)?;
        // Half of an odd round trip is rounded up, so that the true offset stays within.
        let uncertainty_ns = round_trip / 2 + round_trip % 2;
        let middle = self.sent_ns + round_trip / 2;
        Some(Offset { offset_ns: self.theirs_ns.checked_sub(middle)?, uncertainty_ns })
    }
}

impl Offset {
    /// The most exact offset of `exchanges`; `None` without a valid exchange.
    pub fn best(exchanges: &[Exchange]) -> Option<Offset> {
        exchanges.iter().filter_map(Exchange::offset).min_by_key(|offset| offset.uncertainty_ns)
    }

    /// Time of the other clock when ours shows `ours_ns`.
    pub fn theirs_ns(&self, ours_ns: i128) -> i128 {
        ours_ns + self.offset_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_answers() {
        let exchange = |sent_ns, theirs_ns, received_ns| Exchange { sent_ns, theirs_ns, received_ns };
        let slow = exchange(1_000, 6_000, 2_000);
        assert_eq!(slow.offset(), Some(Offset { offset_ns: 4_500, uncertainty_ns: 500 }));
        let fast = exchange(3_000, 7_700, 3_101);
        let best = Offset::best(&[slow, fast, exchange(5, 5, 4)]).unwrap();
        assert_eq!(best, Offset { offset_ns: 4_650, uncertainty_ns: 51 });
        assert_eq!(best.theirs_ns(10_000), 14_650);
        assert_eq!(Offset::best(&[exchange(2, 0, 1)]), None);
        assert_eq!(Offset::best(&[]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// The true offset lies within the uncertainty, however unlike the two ways are.
        #[test]
        fn the_truth_is_within(truth in -1i128 << 80..1i128 << 80,
                               ways in prop::collection::vec((0u64..1 << 34, 0u64..1 << 34, 0u64..1 << 40), 1..20)) {
            let exchanges: Vec<Exchange> = ways.iter().map(|&(out, back, at)| {
                let (sent_ns, out, back) = (i128::from(at), i128::from(out), i128::from(back));
                Exchange { sent_ns, theirs_ns: sent_ns + out + truth, received_ns: sent_ns + out + back }
            }).collect();
            let best = Offset::best(&exchanges).unwrap();
            prop_assert!((best.offset_ns - truth).abs() <= best.uncertainty_ns, "{:?} for {}", best, truth);
            prop_assert!(exchanges.iter().all(|one| one.offset().unwrap().uncertainty_ns >= best.uncertainty_ns));
        }
    }
}
