//! OSDs that are marked down again and again though they live.
//!
//! Every change of the set of OSDs that are up has placement groups peer anew. An OSD that its peers lose sight of
//! every other minute does more harm up than down: each time it waits longer before it is marked up again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::OsdId;

/// Time after which a mark is forgotten.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Number of marks that have no consequence.
const FREE: usize = 2;
const WAIT_FIRST: Duration = Duration::from_secs(10);
const WAIT_MAX: Duration = Duration::from_secs(300);
const _: () = assert!(
    WAIT_FIRST.as_millis() < WAIT_MAX.as_millis() && WAIT_MAX.as_millis() < REMEMBERED.as_millis(),
    "an OSD's marks are remembered for longer than it is made to wait for them"
);

/// Times at which OSDs were marked down because others did not hear from them, in the monitor's time.
#[derive(Clone, Default, Debug)]
pub struct Flapping(BTreeMap<OsdId, VecDeque<Duration>>);

impl Flapping {
    /// Records that an OSD was marked down because its peers reported it.
    pub fn marked_down(&mut self, osd: OsdId, now: Duration) {
        self.0.retain(|_, times| {
            times.retain(|at| now.saturating_sub(*at) < REMEMBERED);
            !times.is_empty()
        });
        self.0.entry(osd).or_default().push_back(now);
    }

    /// Returns the time that an OSD that asks to be marked up, and has not been restarted meanwhile, has still to wait.
    pub fn wait(&self, osd: OsdId, now: Duration) -> Option<Duration> {
        let times = self.0.get(&osd)?;
        let counted = times.iter().filter(|at| now.saturating_sub(**at) < REMEMBERED).count();
        let beyond = counted.checked_sub(FREE + 1)?;
        let wait = WAIT_FIRST.saturating_mul(1 << beyond.min(16)).min(WAIT_MAX);
        let until = *times.back()? + wait;
        (until > now).then(|| until - now)
    }

    /// Forgets an OSD that was restarted or is gone: its past says nothing any more.
    pub fn forget(&mut self, osd: OsdId) {
        self.0.remove(&osd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OSD: OsdId = OsdId(3);

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[test]
    fn waits_grow_with_every_time_and_end_with_the_memory() {
        let mut flapping = Flapping::default();
        let mut waits = Vec::new();
        for at in (0..80).step_by(10).map(secs) {
            flapping.marked_down(OSD, at);
            waits.push(flapping.wait(OSD, at).map_or(0, |wait| wait.as_secs()));
        }
        assert_eq!(waits, [0, 0, 10, 20, 40, 80, 160, 300]);
        assert_eq!(flapping.wait(OSD, secs(369)), Some(secs(1)));
        assert_eq!(flapping.wait(OSD, secs(370)), None);
        flapping.marked_down(OSD, secs(800));
        assert_eq!(flapping.wait(OSD, secs(800)), None, "all that was long ago");
        assert_eq!(flapping.wait(OsdId(4), secs(0)), None);
    }
}
