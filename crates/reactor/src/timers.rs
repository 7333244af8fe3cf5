//! Timers, by time and by name.

use std::collections::BTreeSet;
use std::time::Duration;
use types::FastMap;

/// One timer per key. Ties fire in the order of keys.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    by_time: BTreeSet<(Duration, K)>,
    by_key: FastMap<K, Duration>,
}

impl<K> Default for Timers<K> {
    fn default() -> Timers<K> {
        Timers { by_time: BTreeSet::new(), by_key: FastMap::default() }
    }
}

impl<K: Copy + Ord + std::hash::Hash> Timers<K> {
    /// Sets or moves a timer.
    pub(crate) fn set(&mut self, at: Duration, key: K) {
        if let Some(before) = self.by_key.insert(key, at) {
            self.by_time.remove(&(before, key));
        }
        self.by_time.insert((at, key));
    }

    /// Cancels a timer. True if it was set.
    pub(crate) fn cancel(&mut self, key: K) -> bool {
        let Some(at) = self.by_key.remove(&key) else { return false };
        self.by_time.remove(&(at, key))
    }

    pub(crate) fn first(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Copies the timers that are due at `now` to `out`, in order, and leaves them set.
    pub(crate) fn due(&self, now: Duration, out: &mut Vec<(Duration, K)>) {
        out.extend(self.by_time.iter().take_while(|(at, _)| *at <= now));
    }

    /// Removes a timer that was due, unless it has been cancelled or moved since.
    pub(crate) fn take(&mut self, at: Duration, key: K) -> bool {
        self.by_key.get(&key) == Some(&at) && self.cancel(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(timers: &Timers<u32>, ms: u64) -> Vec<u32> {
        let mut out = Vec::new();
        timers.due(Duration::from_millis(ms), &mut out);
        out.into_iter().map(|(_, key)| key).collect()
    }

    #[test]
    fn timers_move_and_fire_in_order() {
        let mut timers = Timers::default();
        for (ms, key) in [(30, 3), (10, 1), (20, 2), (10, 0)] {
            timers.set(Duration::from_millis(ms), key);
        }
        assert_eq!(due(&timers, 9), []);
        assert_eq!(due(&timers, 20), [0, 1, 2]);
        timers.set(Duration::from_millis(40), 1);
        assert!(timers.cancel(0) && !timers.cancel(0));
        assert_eq!(due(&timers, 30), [2, 3]);
        assert!(!timers.take(Duration::from_millis(10), 1), "it has moved");
        assert!(timers.take(Duration::from_millis(20), 2));
        assert_eq!(timers.first(), Some(Duration::from_millis(30)));
    }
}
