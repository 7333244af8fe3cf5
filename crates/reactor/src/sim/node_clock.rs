//! A node's own clock, which may run faster or slower than the world's.

use std::time::Duration;

const MILLION: i128 = 1_000_000;

/// Time since a process started, by its machine's clock. Monotonic, also when its rate changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeClock {
    /// World time and the node's time when the rate last changed.
    world: Duration,
    local: Duration,
    /// Parts per million by which it runs faster than the world.
    ahead_ppm: i64,
}

impl NodeClock {
    /// A clock that shows zero at `world`.
    pub(crate) fn starting(world: Duration, ahead_ppm: i64) -> NodeClock {
        NodeClock { world, local: Duration::ZERO, ahead_ppm }
    }

    pub(crate) fn ahead_ppm(&self) -> i64 {
        self.ahead_ppm
    }

    /// This clock with another rate from `world` on.
    pub(crate) fn with_rate(self, world: Duration, ahead_ppm: i64) -> NodeClock {
        NodeClock { world: world.max(self.world), local: self.at(world), ahead_ppm }
    }

    /// Returns this clock, standing from `world` until `until`.
    pub(crate) fn standing(self, world: Duration, until: Duration) -> NodeClock {
        NodeClock { world: until.max(self.world), local: self.at(world), ahead_ppm: self.ahead_ppm }
    }

    /// Time that the clock shows at a time of the world, which must not be before the last change of the rate.
    pub(crate) fn at(&self, world: Duration) -> Duration {
        let elapsed = world.saturating_sub(self.world);
        if self.ahead_ppm == 0 {
            return self.local + elapsed;
        }
        let nanos = elapsed.as_nanos() as i128 * (MILLION + i128::from(self.ahead_ppm)) / MILLION;
        self.local + Duration::from_nanos(nanos as u64)
    }

    /// The first time of the world at which the clock shows at least `local`.
    pub(crate) fn when(&self, local: Duration) -> Duration {
        let left = local.saturating_sub(self.local);
        if self.ahead_ppm == 0 {
            return self.world + left;
        }
        let rate = MILLION + i128::from(self.ahead_ppm);
        let nanos = (left.as_nanos() as i128 * MILLION + rate - 1) / rate;
        self.world + Duration::from_nanos(nanos as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_clock_that_stands_goes_on_where_it_stood() {
        let seconds = Duration::from_secs;
        let clock = NodeClock::starting(seconds(10), 0).standing(seconds(12), seconds(20));
        assert_eq!([12, 19, 20, 23].map(|world| clock.at(seconds(world)).as_secs()), [2, 2, 2, 5]);
        assert_eq!(clock.when(seconds(3)), seconds(21));
        let changed = clock.with_rate(seconds(15), 100_000);
        assert_eq!((changed.at(seconds(19)), changed.at(seconds(30))), (seconds(2), seconds(13)));
    }

    proptest! {
        #[test]
        fn a_timer_is_due_when_its_time_has_come(
            start in 0u64..1 << 40,
            ppm in -200_000i64..200_000,
            later in -200_000i64..200_000,
            change in 0u64..1 << 40,
            local in 0u64..1 << 41,
        ) {
            let nanos = Duration::from_nanos;
            let clock = NodeClock::starting(nanos(start), ppm);
            let changed = clock.with_rate(nanos(start + change), later);
            prop_assert_eq!(changed.at(nanos(start + change)), clock.at(nanos(start + change)));
            for clock in [clock, changed] {
                let due = clock.when(nanos(local));
                prop_assert!(clock.at(due) >= nanos(local));
                if let Some(before) = due.checked_sub(nanos(1)).filter(|before| *before >= clock.world) {
                    prop_assert!(clock.at(before) < nanos(local));
                }
            }
        }
    }
}
