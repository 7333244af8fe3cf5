//! Searches by measuring: the most load at which a latency stays at or below a limit, and the load from which more of
//! it hardly adds throughput.
//!
//! [`LatencySearch`] says which load to measure next, and is told the latency that came of it: load doubles until the
//! limit is exceeded, then the gap is halved, by logarithms, until it is narrow. [`hardly_grows`] is the stop rule of a
//! sweep.

/// A gap between the largest good load and the smallest bad one that is narrow enough: a tenth.
const NARROW: f64 = 1.1;

/// The search for the most load within a limit of latency. Loads are whole numbers: operations in flight, or arrivals
/// per second.
#[derive(Clone, Debug)]
pub struct LatencySearch {
    limit_us: f64,
    load_max: u32,
    next: u32,
    /// The largest load that kept the limit, and the smallest that did not.
    good: Option<u32>,
    bad: Option<u32>,
    done: bool,
}

/// The finding of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// This load keeps the limit, and a load of at most a tenth more, or the next whole one, does not.
    Load(u32),
    /// The largest load that may be tried keeps the limit.
    Max(u32),
    /// Even the lightest load exceeds the limit.
    None,
}

impl LatencySearch {
    /// A search that begins with load `start` and tries at most `load_max`.
    ///
    /// Panics if they are not positive, or not in this order.
    pub fn new(limit_us: f64, start: u32, load_max: u32) -> LatencySearch {
        assert!(limit_us > 0.0 && start > 0 && start <= load_max, "{limit_us} us, {start} to {load_max}");
        LatencySearch { limit_us, load_max, next: start, good: None, bad: None, done: false }
    }

    /// The load to measure next; `None` once the search has ended.
    pub fn next_load(&self) -> Option<u32> {
        (!self.done).then_some(self.next)
    }

    /// Takes the latency at the load that [`LatencySearch::next_load`] gave; `None` if nothing was answered, which
    /// exceeds any limit.
    ///
    /// Panics if the search has ended.
    pub fn measured(&mut self, latency_us: Option<f64>) {
        assert!(!self.done, "the search has ended");
        if latency_us.is_some_and(|latency| latency <= self.limit_us) {
            self.good = Some(self.next);
        } else {
            self.bad = Some(self.next);
        }
        let next = match (self.good, self.bad) {
            (Some(good), None) if good < self.load_max => Some(good.saturating_mul(2).min(self.load_max)),
            (Some(good), Some(bad)) => between(good, bad),
            // The first load was too much: lighter ones are tried.
            (None, Some(bad)) => Some(bad / 2).filter(|half| *half > 0),
            (_, None) => None,
        };
        match next {
            Some(next) => self.next = next,
            None => self.done = true,
        }
    }

    /// The finding, once the search has ended.
    pub fn found(&self) -> Option<Found> {
        match (self.done, self.good, self.bad) {
            (false, ..) => None,
            (true, None, _) => Some(Found::None),
            (true, Some(good), None) => Some(Found::Max(good)),
            (true, Some(good), Some(_)) => Some(Found::Load(good)),
        }
    }
}

/// The middle of a gap, by logarithms; `None` if it is narrow enough.
fn between(good: u32, bad: u32) -> Option<u32> {
    let (low, high) = (f64::from(good), f64::from(bad));
    if high / low <= NARROW {
        return None;
    }
    let middle = (low * high).sqrt().round() as u32;
    (middle > good && middle < bad).then_some(middle)
}

/// True if the last of these throughputs, by rising load, is less than `gain_percent` above the one before it.
pub fn hardly_grows(throughputs: &[f64], gain_percent: f64) -> bool {
    match throughputs {
        [.., before, last] => *last < before * (1.0 + gain_percent / 100.0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Searches on a curve; gives what was found, and how many loads were measured.
    fn search(mut search: LatencySearch, mut latency_us: impl FnMut(f64) -> f64) -> (Found, usize) {
        let mut count = 0;
        while let Some(load) = search.next_load() {
            assert!(count < 64, "it goes on and on: {search:?}");
            search.measured(Some(latency_us(f64::from(load))));
            count += 1;
        }
        (search.found().unwrap(), count)
    }

    fn load(found: Found) -> f64 {
        match found {
            Found::Load(load) => f64::from(load),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn crossings_of_curves_with_known_answers_are_found_within_a_tenth() {
        // p99 is three times the mean of a server that reaches half of 100,000 with 16 in flight.
        let soft = |n: f64| 3e6 * (n + 16.0) / 100_000.0;
        for crossing in [20.0, 64.0, 500.0, 3000.0] {
            let (found, count) = search(LatencySearch::new(soft(crossing), 1, 4096), soft);
            let found = load(found);
            assert!(found <= crossing && found > crossing * 0.9, "{found} instead of {crossing}");
            assert!(count <= 18, "{count} loads were measured");
        }
        // An open loop: latency grows beyond bounds at 50,000 per second.
        let queue = |rate: f64| if rate < 50_000.0 { 1e6 / (50_000.0 - rate) * 4.6 } else { 1e9 };
        let (found, count) = search(LatencySearch::new(queue(40_000.0), 100, 1_000_000), queue);
        assert!(load(found) <= 40_000.0 && load(found) > 36_000.0, "{found:?} after {count}");
        // A step is found from either side.
        for start in [1, 1000] {
            let (found, _) = search(LatencySearch::new(500.0, start, 1024), |n| if n <= 37.0 { 100.0 } else { 9e9 });
            assert!(load(found) <= 37.0 && load(found) >= 34.0, "{found:?} from {start}");
        }
    }

    #[test]
    fn small_loads_are_told_apart() {
        for crossing in 1..8 {
            let (found, _) =
                search(LatencySearch::new(10.0, 1, 64), |n| if n <= f64::from(crossing) { 9.0 } else { 11.0 });
            assert_eq!(found, Found::Load(crossing));
        }
    }

    #[test]
    fn noise_moves_the_answer_little() {
        let mut random = Random::new(3, 1);
        for trial in 0..1000 {
            // Latency is proportional to load beyond the knee, so three percent of noise are three percent of load.
            let noisy = |n: f64| n.max(8.0) * 100.0 * (0.97 + 0.06 * random.unit());
            let (found, _) = search(LatencySearch::new(20_000.0, 1, 4096), noisy);
            let found = load(found);
            assert!((170.0..=210.0).contains(&found), "trial {trial}: {found} instead of 200");
        }
    }

    #[test]
    fn limits_that_are_always_or_never_kept() {
        assert_eq!(search(LatencySearch::new(10.0, 1, 100), |_| 1.0).0, Found::Max(100));
        assert_eq!(search(LatencySearch::new(10.0, 16, 100), |_| 11.0), (Found::None, 5));
        assert_eq!(search(LatencySearch::new(10.0, u32::MAX - 1, u32::MAX), |_| 1.0).0, Found::Max(u32::MAX));
        let mut silent = LatencySearch::new(10.0, 1, 8);
        assert_eq!(silent.found(), None);
        silent.measured(None);
        assert_eq!(silent.found(), Some(Found::None), "nothing was answered");
    }

    #[test]
    fn a_sweep_ends_where_throughput_hardly_grows() {
        // The high-water mark of a server with 24 places: all load becomes throughput up to there.
        let sharp = |n: f64| 1000.0 * n.min(24.0);
        let mut throughputs = Vec::new();
        for n in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0] {
            throughputs.push(sharp(n));
            if hardly_grows(&throughputs, 5.0) {
                break;
            }
        }
        assert_eq!(throughputs.len(), 7, "16 to 32 still gives a half more, 32 to 64 nothing");
        assert!((throughputs.last().unwrap() / 24_000.0 - 1.0).abs() < 0.1);
        assert!(!hardly_grows(&[], 5.0) && !hardly_grows(&[7.0], 5.0) && !hardly_grows(&[100.0, 105.0], 5.0));
        assert!(hardly_grows(&[100.0, 104.9], 5.0) && hardly_grows(&[100.0, 90.0], 0.0));
    }
}
