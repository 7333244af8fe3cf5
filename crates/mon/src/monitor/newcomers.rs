//! OSDs that the hierarchy does not know yet, and the rate at which they come in.
//!
//! An increment that changes the hierarchy carries all of it, and goes to every OSD. If OSDs of a new cluster were let
//! in as they come, the traffic would grow with the square of their number, times the number of maps. Therefore
//! newcomers are collected until the traffic of the last ones has been made up for; where it was little, or long ago,
//! that is at once. Other changes of the map do not wait for this.

use crush::{BuildError, CrushMap, Location, NewDevice};
use std::time::Duration;
use wire::nacre::mon::OsdBoot;

/// Traffic of the hierarchy that all monitors together may cause in the long run: a part of the capacity of three with
/// 10 Gbit/s each. A hierarchy of 1000 OSDs has some 45 KiB, which makes 90 ms for 1000 OSDs.
const BYTES_PER_SECOND: u64 = 512 << 20;
/// Longest time for which an OSD is collected.
const COLLECT_MAX: Duration = Duration::from_secs(10);
/// Most OSDs that come in with one map: it takes some 0.1 ms to place each, and no client is answered meanwhile.
const AT_ONCE: usize = 2000;

/// The time at which newcomers may come in.
#[derive(Default)]
pub(super) struct Newcomers {
    /// Time before which no newcomer comes in.
    collect_until: Duration,
    /// True if newcomers wait.
    is_waiting: bool,
}

impl Newcomers {
    /// Returns true if an OSD that comes now waits for others; then [`Newcomers::due`] tells until when.
    pub fn must_wait(&mut self, now: Duration) -> bool {
        let waits = now < self.collect_until;
        self.is_waiting |= waits;
        waits
    }

    /// Returns the number of OSDs that may come in with an increment that is made now.
    pub fn room(&mut self, now: Duration) -> usize {
        self.is_waiting = false;
        if now < self.collect_until { 0 } else { AT_ONCE }
    }

    /// Notes that some OSDs did not find room.
    pub fn put_off(&mut self) {
        self.is_waiting = true;
    }

    /// Returns the time at which waiting newcomers may come in.
    pub fn due(&self) -> Option<Duration> {
        self.is_waiting.then_some(self.collect_until)
    }

    /// Counts the traffic of a hierarchy of `bytes` to `listeners` OSDs.
    pub fn sent(&mut self, bytes: usize, listeners: usize, now: Duration) {
        let cost = Duration::from_micros(bytes as u64 * listeners as u64 / (BYTES_PER_SECOND / 1_000_000));
        self.collect_until = now + cost.min(COLLECT_MAX);
    }
}

/// Returns the addition that an OSD needs in the hierarchy when it starts, if that lacks anything of it.
///
/// Errors: its location is malformed.
pub(super) fn new_device(crush: &CrushMap, boot: &OsdBoot) -> Result<Option<NewDevice>, BuildError> {
    let id = boot.osd.0;
    let (is_linked, has_class) = (crush.parent(id).is_some(), crush.class_of(id).is_some());
    let class = (!has_class && !boot.device_class.is_empty()).then(|| boot.device_class.clone());
    if is_linked && class.is_none() {
        return Ok(None);
    }
    let mut location = None;
    if !is_linked {
        let mut buckets = boot.location.clone();
        buckets.entry("root".to_owned()).or_insert_with(|| "default".to_owned());
        let words: Vec<String> = buckets.iter().map(|(kind, name)| format!("{kind}={name}")).collect();
        let parsed = Location::parse(words.iter().map(String::as_str));
        location = Some(parsed.map_err(|word| BuildError::Name(word.to_owned()))?);
    }
    Ok(Some(NewDevice { id, weight: boot.weight, location, class }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn newcomers_wait_until_the_last_ones_are_paid_for() {
        let mut newcomers = Newcomers::default();
        assert!(!newcomers.must_wait(Duration::ZERO) && newcomers.room(Duration::ZERO) == AT_ONCE);
        // A hierarchy of 1000 OSDs goes to each of them.
        newcomers.sent(45 << 10, 1000, 1000 * MS);
        assert_eq!(newcomers.due(), None, "nobody waits yet");
        assert!(newcomers.must_wait(1050 * MS) && newcomers.room(1050 * MS) == 0);
        newcomers.put_off();
        let due = newcomers.due().expect("somebody waits");
        assert!((1080 * MS..1100 * MS).contains(&due), "{due:?}");
        assert!(!newcomers.must_wait(due) && newcomers.room(due) > 0);
        assert_eq!(newcomers.due(), None);
        newcomers.sent(450 << 10, 1_000_000, due);
        assert!(newcomers.must_wait(due + COLLECT_MAX - MS) && !newcomers.must_wait(due + COLLECT_MAX));
        newcomers.sent(10_000, 30, Duration::from_secs(50));
        assert!(!newcomers.must_wait(Duration::from_secs(50) + MS), "small clusters notice nothing");
    }
}
