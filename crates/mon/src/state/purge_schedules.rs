//! Schedules by which the trash of pools is purged.
//!
//! A schedule belongs to a level: all pools, a pool, or a namespace of one. The most particular one counts. Namespaces
//! are objects, which monitors do not read: the worker tells which there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use types::{PoolId, Utime};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Most bytes of a name of a namespace or an image.
pub const NAME_BYTES_MAX: usize = 512;
/// Most levels of one pool with schedules, and most entries of one schedule.
pub const LEVELS_MAX: usize = 1024;
pub const ITEMS_MAX: usize = 32;
/// Most namespaces of one pool that are purged by schedule.
pub const NAMESPACES_MAX: usize = 4096;

const MINUTE: u64 = 60;
const DAY_MINUTES: u32 = 24 * 60;
/// Longest interval: ten years.
pub const INTERVAL_MINUTES_MAX: u32 = 10 * 365 * DAY_MINUTES;

/// The images that a schedule is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Level {
    /// `None`: all pools.
    pub pool: Option<PoolId>,
    /// `None`: all namespaces. The default one has an empty name.
    pub namespace: Option<String>,
}

impl Level {
    /// Returns the key by which Ceph names the level: ``, `2`, `2/n`.
    pub fn id(&self) -> String {
        match (self.pool, &self.namespace) {
            (None, _) => String::new(),
            (Some(pool), None) => pool.0.to_string(),
            (Some(pool), Some(namespace)) => format!("{}/{namespace}", pool.0),
        }
    }

    /// Returns true if the other level is a part of this one.
    pub fn contains(&self, other: &Level) -> bool {
        let pool = self.pool.is_none_or(|pool| other.pool == Some(pool));
        pool && (self.namespace.is_none() || self.namespace == other.namespace)
    }
}

/// A time of day, with the zone that it was given in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StartTime {
    /// Minutes since midnight.
    pub minutes: u32,
    /// Minutes by which the zone is before UTC, where one was given.
    pub zone: Option<i32>,
}

impl StartTime {
    /// Reads `HH:MM`, `HH:MM:SS`, each with `Z`, `+HH:MM` or `-HH:MM` behind it or nothing, which is UTC. A date before
    /// a `T` does not matter.
    pub fn parse(text: &str) -> Option<StartTime> {
        let time = text.rsplit_once('T').map_or(text, |(_, time)| time);
        let at = time.find(['Z', '+', '-']).unwrap_or(time.len());
        let (time, zone) = time.split_at(at);
        let mut parts = time.split(':');
        let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
        if let Some(second) = parts.next() {
            number(second).filter(|second| *second < 60)?;
        }
        let zone = match zone {
            "" => None,
            "Z" => Some(0),
            text => Some(parse_zone(text)?),
        };
        let is_time = hour < 24 && minute < 60 && parts.next().is_none();
        is_time.then_some(StartTime { minutes: hour * 60 + minute, zone })
    }

    /// Returns the minutes from midnight by UTC.
    fn utc_minutes(self) -> u64 {
        let minutes = i64::from(self.minutes) - i64::from(self.zone.unwrap_or(0));
        minutes.rem_euclid(i64::from(DAY_MINUTES)).unsigned_abs()
    }
}

/// Reads `+HH:MM`, `-HHMM` or `+HH`.
fn parse_zone(text: &str) -> Option<i32> {
    let (sign, digits) = text.split_at_checked(1)?;
    let (hours, minutes) = digits.split_once(':').or_else(|| digits.split_at_checked(2))?;
    let minutes = if minutes.is_empty() && !digits.contains(':') { 0 } else { number(minutes)? };
    let offset = i32::try_from(number(hours)? * 60 + minutes).ok()?;
    let is_offset = minutes < 60 && offset < 24 * 60;
    is_offset.then_some(if sign == "-" { -offset } else { offset })
}

fn number(text: &str) -> Option<u32> {
    ((1..=2).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

impl fmt::Display for StartTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}:00", self.minutes / 60, self.minutes % 60)?;
        match self.zone {
            None => Ok(()),
            Some(zone) => {
                let sign = if zone < 0 { '-' } else { '+' };
                write!(f, "{sign}{:02}:{:02}", zone.abs() / 60, zone.abs() % 60)
            }
        }
    }
}

/// An entry of a schedule: every so often, at times that a time of day is one of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Item {
    pub minutes: u32,
    pub start: Option<StartTime>,
}

impl Item {
    /// Reads an interval: `10m`, `2h`, `1d`, or a number of minutes. `None`: it is none, no time at all, or longer than
    /// [`INTERVAL_MINUTES_MAX`].
    pub fn parse_interval(text: &str) -> Option<u32> {
        let (digits, unit) = match text.as_bytes().last()? {
            b'm' => (&text[..text.len() - 1], 1),
            b'h' => (&text[..text.len() - 1], 60),
            b'd' => (&text[..text.len() - 1], DAY_MINUTES),
            _ => (text, 1),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let minutes = is_number.then(|| digits.parse::<u32>().ok()).flatten()?.checked_mul(unit)?;
        (1..=INTERVAL_MINUTES_MAX).contains(&minutes).then_some(minutes)
    }

    /// Returns the interval as Ceph writes it.
    pub fn interval(&self) -> String {
        match self.minutes {
            minutes if minutes.is_multiple_of(DAY_MINUTES) => format!("{}d", minutes / DAY_MINUTES),
            minutes if minutes.is_multiple_of(60) => format!("{}h", minutes / 60),
            minutes => format!("{minutes}m"),
        }
    }

    /// Returns its last time until `now`.
    fn last_run(&self, now: Utime) -> Utime {
        let start = self.start.map_or(0, StartTime::utc_minutes) * MINUTE;
        let period = u64::from(self.minutes) * MINUTE;
        let since = u64::from(now.sec).saturating_sub(start);
        at(start + since / period * period)
    }

    /// Returns its next time after `now`.
    fn next_run(&self, now: Utime) -> Utime {
        at(u64::from(self.last_run(now).sec).saturating_add(u64::from(self.minutes) * MINUTE))
    }
}

/// Returns the time so many seconds after 1970; one that is too late for a stamp is the last there is.
fn at(seconds: u64) -> Utime {
    Utime { sec: u32::try_from(seconds).unwrap_or(u32::MAX), nsec: 0 }
}

/// The schedule of a level.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Schedule {
    pub items: BTreeSet<Item>,
    /// Time of its last change: earlier times are not made up for.
    pub since: Utime,
}

/// All schedules.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PurgeSchedules {
    pub levels: BTreeMap<Level, Schedule>,
    /// Namespaces beside the default one, by pool, as the worker last saw them.
    pub namespaces: BTreeMap<PoolId, BTreeSet<String>>,
    /// Times of the last purges.
    pub purged: BTreeMap<Level, Utime>,
}

impl PurgeSchedules {
    /// Returns the schedule that counts for a namespace of a pool.
    pub fn of(&self, pool: PoolId, namespace: &str) -> Option<&Schedule> {
        let level = Level { pool: Some(pool), namespace: Some(namespace.to_owned()) };
        let levels = [level.clone(), Level { namespace: None, ..level }, Level::default()];
        levels.iter().find_map(|level| self.levels.get(level))
    }

    /// Returns the namespaces of a pool, the default one first.
    pub fn namespaces_of(&self, pool: PoolId) -> impl Iterator<Item = &str> {
        [""].into_iter().chain(self.namespaces.get(&pool).into_iter().flatten().map(String::as_str))
    }

    /// Returns the time at which a namespace of a pool is purged next; it may be over. `None`: it has no schedule.
    pub fn next_run(&self, pool: PoolId, namespace: &str, now: Utime) -> Option<Utime> {
        let schedule = self.of(pool, namespace)?;
        let level = Level { pool: Some(pool), namespace: Some(namespace.to_owned()) };
        // A clock that was ahead has left times that have not come.
        let last = self.purged.get(&level).copied().unwrap_or_default().max(schedule.since).min(now);
        let due = schedule.items.iter().map(|item| item.last_run(now)).max().filter(|due| *due > last);
        due.or_else(|| schedule.items.iter().map(|item| item.next_run(now)).min())
    }

    pub fn bytes(&self) -> usize {
        const ENTRY: usize = 64;
        let levels = self.levels.iter().map(|(level, schedule)| level.id().len() + ENTRY * (1 + schedule.items.len()));
        let names = self.namespaces.values().flatten().map(|name| name.len() + ENTRY);
        levels.chain(names).sum::<usize>() + self.purged.keys().map(|level| level.id().len() + ENTRY).sum::<usize>()
    }

    pub fn apply(&mut self, change: &ScheduleChange) {
        match change {
            ScheduleChange::Set(level, schedule) if schedule.items.is_empty() => drop(self.levels.remove(level)),
            ScheduleChange::Set(level, schedule) => drop(self.levels.insert(level.clone(), schedule.clone())),
            ScheduleChange::Namespaces(pool, names) => {
                self.namespaces.insert(*pool, names.iter().cloned().collect());
                let is_there = |level: &Level| {
                    level.pool != Some(*pool)
                        || level.namespace.as_ref().is_none_or(|n| n.is_empty() || names.contains(n))
                };
                self.purged.retain(|level, _| is_there(level));
            }
            ScheduleChange::Purged(level, at) => drop(self.purged.insert(level.clone(), *at)),
        }
        if self.levels.is_empty() {
            *self = PurgeSchedules::default();
        }
    }

    /// Forgets a pool that was deleted.
    pub fn forget_pools(&mut self, is_there: impl Fn(PoolId) -> bool) {
        let level_is_there = |level: &Level| level.pool.is_none_or(&is_there);
        self.levels.retain(|level, _| level_is_there(level));
        self.purged.retain(|level, _| level_is_there(level));
        self.namespaces.retain(|pool, _| is_there(*pool));
    }
}

/// A change of the schedules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScheduleChange {
    /// A level gets this schedule; an empty one is none.
    Set(Level, Schedule),
    /// A pool has these namespaces.
    Namespaces(PoolId, Vec<String>),
    /// A namespace of a pool is purged.
    Purged(Level, Utime),
}

impl Encode for Level {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.pool);
        w.put(&self.namespace);
    }
}

impl Decode for Level {
    const MIN_BYTES: usize = 2;

    fn decode(r: &mut Reader<'_>) -> Result<Level, DecodeError> {
        Ok(Level { pool: r.get()?, namespace: r.get()? })
    }
}

impl Encode for Item {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.minutes);
        w.bool(self.start.is_some());
        let StartTime { minutes, zone } = self.start.unwrap_or(StartTime { minutes: 0, zone: None });
        w.u32(minutes);
        w.bool(zone.is_some());
        w.i64(zone.unwrap_or(0).into());
    }
}

impl Decode for Item {
    const MIN_BYTES: usize = 18;

    fn decode(r: &mut Reader<'_>) -> Result<Item, DecodeError> {
        let every = r.u32()?;
        let (has_start, minutes, has_zone, zone) = (r.bool()?, r.u32()?, r.bool()?, r.i64()?);
        if every == 0 {
            return Err(DecodeError::Value { what: "interval of purges", value: 0 });
        }
        let zone = i32::try_from(zone).map_err(|_| DecodeError::Value { what: "zone", value: zone.unsigned_abs() })?;
        let start = has_start.then_some(StartTime { minutes, zone: has_zone.then_some(zone) });
        Ok(Item { minutes: every, start })
    }
}

impl Encode for Schedule {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.since);
        w.put(&self.items);
    }
}

impl Decode for Schedule {
    const MIN_BYTES: usize = 12;

    fn decode(r: &mut Reader<'_>) -> Result<Schedule, DecodeError> {
        Ok(Schedule { since: r.get()?, items: r.get()? })
    }
}

impl Encode for PurgeSchedules {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.levels);
            w.put(&self.namespaces);
            w.put(&self.purged);
        });
    }
}

impl Decode for PurgeSchedules {
    fn decode(r: &mut Reader<'_>) -> Result<PurgeSchedules, DecodeError> {
        let (_, mut r) = r.versioned("schedules of purges", 1)?;
        Ok(PurgeSchedules { levels: r.get()?, namespaces: r.get()?, purged: r.get()? })
    }
}

impl Encode for ScheduleChange {
    fn encode(&self, w: &mut Writer) {
        match self {
            ScheduleChange::Set(level, schedule) => {
                w.u8(1);
                w.put(level);
                w.put(schedule);
            }
            ScheduleChange::Namespaces(pool, names) => {
                w.u8(2);
                w.put(pool);
                w.put(names);
            }
            ScheduleChange::Purged(level, at) => {
                w.u8(3);
                w.put(level);
                w.put(at);
            }
        }
    }
}

impl Decode for ScheduleChange {
    fn decode(r: &mut Reader<'_>) -> Result<ScheduleChange, DecodeError> {
        match r.u8()? {
            1 => Ok(ScheduleChange::Set(r.get()?, r.get()?)),
            2 => Ok(ScheduleChange::Namespaces(r.get()?, r.get()?)),
            3 => Ok(ScheduleChange::Purged(r.get()?, r.get()?)),
            other => Err(DecodeError::Value { what: "change of schedules", value: other.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Target;

    fn level(pool: i64, namespace: Option<&str>) -> Level {
        Level { pool: Some(PoolId(pool)), namespace: namespace.map(str::to_owned) }
    }

    fn every(minutes: u32, start: Option<&str>) -> Item {
        Item { minutes, start: start.map(|start| StartTime::parse(start).expect("a time")) }
    }

    fn schedule(items: &[Item], since: u64) -> Schedule {
        Schedule { items: items.iter().copied().collect(), since: at(since) }
    }

    #[test]
    fn intervals_and_start_times_are_read_and_written_as_ceph_does() {
        for (text, expect) in
            [("10m", "10m"), ("90", "90m"), ("120m", "2h"), ("24h", "1d"), ("36h", "36h"), ("2d", "2d")]
        {
            let minutes = Item::parse_interval(text).expect(text);
            assert_eq!(Item { minutes, start: None }.interval(), expect);
        }
        let no_times = ["", "m", "0", "0h", "1w", "-1", "1.5h", "99999999999", "9999999d", "1h2", "ä"];
        for text in no_times.into_iter().chain(["71582789m", "4294967295", "3651d", "5256001"]) {
            assert_eq!(Item::parse_interval(text), None, "{text}");
        }
        assert_eq!(Item::parse_interval("3650d"), Some(INTERVAL_MINUTES_MAX));
        for (text, expect, utc) in [
            ("14:00", "14:00:00", 840),
            ("14:00:30", "14:00:00", 840),
            ("2026-01-02T14:00:00-05:00", "14:00:00-05:00", 1140),
            ("01:00+02:00", "01:00:00+02:00", 1380),
            ("01:00Z", "01:00:00+00:00", 60),
            ("9:05", "09:05:00", 545),
        ] {
            let time = StartTime::parse(text).expect(text);
            assert_eq!((time.to_string().as_str(), time.utc_minutes()), (expect, utc), "{text}");
        }
        for text in ["", "14", "24:00", "12:60", "12:00:61", "noon", "12:00+99:00", "12:00+", "12:0x"] {
            assert_eq!(StartTime::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_most_particular_schedule_counts_and_what_was_missed_is_done_once() {
        let mut all = PurgeSchedules::default();
        let day = 86_400;
        all.apply(&ScheduleChange::Set(Level::default(), schedule(&[every(1440, Some("03:00"))], 10 * day)));
        all.apply(&ScheduleChange::Set(level(2, Some("n")), schedule(&[every(60, None), every(7, None)], 10 * day)));
        all.apply(&ScheduleChange::Namespaces(PoolId(2), vec!["n".to_owned()]));
        assert_eq!(all.namespaces_of(PoolId(2)).collect::<Vec<_>>(), ["", "n"]);
        let hours = |hours: u64| at(10 * day + hours * 3600);
        assert_eq!(all.next_run(PoolId(2), "", hours(1)), Some(hours(3)));
        assert_eq!(all.next_run(PoolId(2), "", hours(50)), Some(hours(27)), "two were missed");
        all.apply(&ScheduleChange::Purged(level(2, Some("")), hours(50)));
        assert_eq!(all.next_run(PoolId(2), "", hours(50)), Some(hours(51)));
        // Every seven minutes since 1970.
        let next = (u64::from(at(10 * day).sec) / 420 + 1) * 420;
        assert_eq!(all.next_run(PoolId(2), "n", at(10 * day)), Some(at(next)));
        assert_eq!(PurgeSchedules::from_slice(&all.to_vec(Target::PACIFIC)), Ok(all.clone()));
        // A leader whose clock was ahead has written this.
        all.apply(&ScheduleChange::Purged(level(2, Some("")), at(u64::from(u32::MAX))));
        assert_eq!(all.next_run(PoolId(2), "", hours(51)), Some(hours(75)));
        all.forget_pools(|pool| pool != PoolId(2));
        assert_eq!((all.levels.len(), all.namespaces.len(), all.purged.len()), (1, 0, 0));
        all.apply(&ScheduleChange::Set(Level::default(), Schedule::default()));
        assert_eq!(all, PurgeSchedules::default());
    }

    #[test]
    fn no_interval_is_too_long_or_too_short_to_be_reckoned_with() {
        let now = at(1_800_000_000);
        for item in [every(71_582_789, None), every(u32::MAX, Some("23:59"))] {
            assert!(item.last_run(now) <= now && item.next_run(now) > now, "{item:?}");
            let last = at(u64::from(u32::MAX));
            assert!(item.next_run(last) >= item.last_run(last));
        }
        let none = every(0, None).to_vec(Target::PACIFIC);
        assert_eq!(Item::from_slice(&none), Err(DecodeError::Value { what: "interval of purges", value: 0 }));
    }
}
