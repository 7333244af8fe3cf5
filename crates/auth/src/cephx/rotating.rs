//! Secrets of services, which change by and by.
//!
//! Tickets are sealed with a service's *current* secret. The one before it still opens tickets, and the one after it is
//! at every daemon already before the first ticket is sealed with it.

use crate::clock::{ClockSkew, later};
use crate::entropy::Entropy;
use crate::key::{Key, KeyKind};
use std::collections::BTreeMap;
use std::time::Duration;
use types::Utime;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Secrets that are kept: the one before, the current one and the next.
const KEPT: usize = 3;

/// One secret, and the time until which tickets are sealed with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceSecret {
    pub key: Key,
    pub expires: Utime,
}

/// The secrets of one service by their numbers, which only grow.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RotatingSecrets {
    secrets: BTreeMap<u64, ServiceSecret>,
    /// The largest number that was ever given.
    newest: u64,
}

impl RotatingSecrets {
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// The number of a secret that never changes.
    pub(crate) const CONSTANT: u64 = u64::MAX;

    /// One secret that never changes.
    pub(crate) fn constant(key: Key) -> RotatingSecrets {
        let newest = RotatingSecrets::CONSTANT;
        let expires = Utime { sec: u32::MAX, nsec: 0 };
        RotatingSecrets { secrets: [(newest, ServiceSecret { key, expires })].into(), newest }
    }

    pub fn find(&self, id: u64) -> Option<&ServiceSecret> {
        self.secrets.get(&id)
    }

    /// The secret that tickets are sealed with now, and its number. `None` before the first rotation.
    pub fn current(&self) -> Option<(u64, &ServiceSecret)> {
        let (id, secret) = self.secrets.iter().nth_back(1)?;
        Some((*id, secret))
    }

    /// Numbers of the oldest and the newest secret at hand; 0 where there is none.
    pub fn range(&self) -> (u64, u64) {
        let ends = self.secrets.first_key_value().zip(self.secrets.last_key_value());
        ends.map_or((0, 0), |((oldest, _), (newest, _))| (*oldest, *newest))
    }

    /// True if [`RotatingSecrets::rotate`] has something to do.
    pub fn is_due(&self, now: Utime) -> bool {
        self.secrets.len() < KEPT || self.current().is_some_and(|(_, current)| current.expires <= now)
    }

    /// How far ahead the clock was by which a secret was made, at least; nothing within `tolerance`.
    fn made_ahead(&self, now: Utime, tolerance: Duration) -> Option<Duration> {
        let created = self.secrets.values().map(|secret| secret.key.created()).max()?;
        let by = created.to_unix().saturating_sub(now.to_unix());
        (by > tolerance).then_some(by)
    }

    /// Has secrets that were made by a clock that was ahead, by more than `tolerance`, end as if they had been made
    /// now: they would not change for as long as that clock was ahead. The secrets, their numbers, and the tickets that
    /// they open stay. Those that were to end together do so now. Returns how far ahead that clock was at least, if
    /// anything was changed.
    pub fn bring_forward(&mut self, now: Utime, lifetime: Duration, tolerance: Duration) -> Option<Duration> {
        let by = self.made_ahead(now, tolerance)?;
        let (mut end, end_together) = (now, self.end_together());
        for (number, secret) in self.secrets.values_mut().enumerate() {
            if number > 0 && !end_together {
                end = later(end, lifetime);
            }
            let created = secret.key.created().min(now);
            secret.key = Key::new(secret.key.kind(), created, secret.key.secret()).expect("its length is unchanged");
            secret.expires = secret.expires.min(end);
        }
        Some(by)
    }

    /// Makes secrets until there are three and the current one has not expired, and drops the oldest ones, or all if
    /// they have ended together ([`RotatingSecrets::end_at`]). True if it changed anything.
    ///
    /// `lifetime`: time for which a secret is the current one. A ticket must be good for no longer, so that the secret
    /// before the current one opens all tickets that are still good.
    pub fn rotate(&mut self, now: Utime, lifetime: Duration, kind: KeyKind, entropy: &mut dyn Entropy) -> bool {
        let due = self.is_due(now);
        if due && self.end_together() {
            self.secrets.clear();
        }
        while self.is_due(now) {
            // The first one is the one before the current one: no ticket was sealed with it.
            let from = self.secrets.last_key_value().map(|(_, last)| last.expires);
            let expires = from.map_or(now, |from| later(from.max(now), lifetime));
            self.newest += 1;
            self.secrets.insert(self.newest, ServiceSecret { key: Key::generate(kind, now, entropy), expires });
            while self.secrets.len() > KEPT {
                self.secrets.pop_first();
            }
        }
        due
    }

    /// Makes new secrets in place of all: somebody knows those at hand who is to make no tickets any more. Tickets that
    /// were sealed with them are good for nothing from then on.
    ///
    /// `lifetime`: as for [`RotatingSecrets::rotate`].
    pub fn replace(&mut self, now: Utime, lifetime: Duration, kind: KeyKind, entropy: &mut dyn Entropy) {
        self.secrets.clear();
        self.rotate(now, lifetime, kind, entropy);
    }

    /// Has all secrets end together: [`RotatingSecrets::rotate`] makes new ones in place of all at `end`, as
    /// [`RotatingSecrets::replace`] does at once. Tickets that are given meanwhile end with them. True if it changed
    /// anything: secrets that end together by then keep their time.
    pub fn end_at(&mut self, end: Utime) -> bool {
        let changes = !self.end_together();
        if changes {
            self.secrets.values_mut().for_each(|secret| secret.expires = end);
        }
        changes
    }

    /// True if none of the secrets outlives the current one, as the next one does otherwise.
    fn end_together(&self) -> bool {
        let next = self.secrets.values().next_back();
        self.current().zip(next).is_some_and(|((_, current), next)| next.expires <= current.expires)
    }

    /// The time until which secrets that have taken the place of all before them are not replaced again for everybody
    /// else who is to know them no more: `pause` after they were made. `None` if that is over, or if these are the
    /// first.
    pub fn settle_until(&self, now: Utime, pause: Duration) -> Option<Utime> {
        let until = later(self.since()?.min(now), pause);
        (self.range().0 > 1 && until > now).then_some(until)
    }

    /// The time at which the oldest secret at hand was made. A ticket from before may be sealed with one that is gone.
    pub fn since(&self) -> Option<Utime> {
        self.secrets.values().next().map(|oldest| oldest.key.created())
    }

    /// True if none is left of secrets the newest of which had the number `newest`: somebody who has tickets by them
    /// needs others. Where there were none (0) nobody does.
    pub fn are_all_after(&self, newest: u64) -> bool {
        newest > 0 && self.range().0 > newest
    }

    /// Judges this machine's clock by secrets that were just fetched from the monitors.
    ///
    /// Errors: a skew of more than `tolerance`. The current secret expires in the future, and all were made in the
    /// past.
    pub fn check_clock(&self, now: Utime, tolerance: Duration) -> Result<(), ClockSkew> {
        let Some((_, current)) = self.current() else { return Ok(()) };
        let ahead = now.to_unix().saturating_sub(current.expires.to_unix());
        if ahead > tolerance {
            return Err(ClockSkew { by: ahead, behind: false, now });
        }
        self.made_ahead(now, tolerance).map_or(Ok(()), |by| Err(ClockSkew { by, behind: true, now }))
    }
}

/// Ceph's `RotatingSecrets`.
impl Encode for RotatingSecrets {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.count(self.secrets.len());
        for (id, secret) in &self.secrets {
            w.u64(*id);
            w.u8(1);
            w.put(&secret.key);
            w.put(&secret.expires);
        }
        w.u64(self.newest);
    }
}

impl Decode for RotatingSecrets {
    const MIN_BYTES: usize = 13;

    fn decode(r: &mut Reader<'_>) -> Result<RotatingSecrets, DecodeError> {
        let wrong = |what, value: u8| Err(DecodeError::Value { what, value: value.into() });
        match r.u8()? {
            1 => {}
            other => return wrong("version of a service's secrets", other),
        }
        let count = r.count("secrets of a service", 17 + Key::MIN_BYTES)?;
        let mut secrets = BTreeMap::new();
        for _ in 0..count {
            let id = r.u64()?;
            match r.u8()? {
                1 => {}
                other => return wrong("version of a service's secret", other),
            }
            let secret = ServiceSecret { key: r.get()?, expires: r.get()? };
            if secrets.last_key_value().is_some_and(|(last, _)| *last >= id) {
                return Err(DecodeError::Value {
                    what: "number of a secret that is not above the one before",
                    value: id,
                });
            }
            secrets.insert(id, secret);
        }
        let newest = r.u64()?;
        if secrets.last_key_value().is_some_and(|(last, _)| *last > newest) {
            return Err(DecodeError::Value { what: "number of the newest secret", value: newest });
        }
        Ok(RotatingSecrets { secrets, newest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{any_key, any_utime, check_bytes, check_codec, seeded};
    use proptest::prelude::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(sec: u32) -> Utime {
        Utime { sec, nsec: 0 }
    }

    fn fresh(now: Utime) -> RotatingSecrets {
        let mut secrets = RotatingSecrets::default();
        assert!(secrets.current().is_none() && secrets.is_due(now));
        assert!(secrets.rotate(now, HOUR, KeyKind::Aes256k, &mut seeded(1)));
        secrets
    }

    #[test]
    fn the_current_one_is_between_one_before_and_one_to_come() {
        let mut secrets = fresh(at(10_000));
        assert_eq!(secrets.range(), (1, 3));
        let (id, current) = secrets.current().unwrap();
        assert_eq!((id, current.expires), (2, at(13_600)));
        assert!(!secrets.rotate(at(13_599), HOUR, KeyKind::Aes256k, &mut seeded(2)));
        assert!(secrets.rotate(at(13_600), HOUR, KeyKind::Aes256k, &mut seeded(2)));
        let (id, current) = secrets.current().unwrap();
        assert_eq!((id, current.expires), (3, at(17_200)));
        assert_eq!(secrets.range(), (2, 4));
    }

    #[test]
    fn numbers_grow_also_over_a_long_time_without_rotation() {
        let mut secrets = fresh(at(10_000));
        secrets.rotate(at(1_000_000), HOUR, KeyKind::Aes256k, &mut seeded(2));
        let (id, current) = secrets.current().unwrap();
        assert!(id > 3 && current.expires > at(1_000_000), "{id} {current:?}");
        assert!(secrets.find(1).is_none());
    }

    #[test]
    fn a_ticket_outlives_the_rotation_after_it_was_sealed() {
        let mut secrets = fresh(at(10_000));
        let sealed_with = secrets.current().unwrap().0;
        // Sealed in the last second of the secret, and good for an hour.
        for now in (13_600..=17_198).step_by(257) {
            secrets.rotate(at(now), HOUR, KeyKind::Aes256k, &mut seeded(2));
            assert!(secrets.find(sealed_with).is_some(), "at {now}");
        }
        secrets.rotate(at(17_200), HOUR, KeyKind::Aes256k, &mut seeded(2));
        assert!(secrets.find(sealed_with).is_none());
    }

    #[test]
    fn replaced_secrets_open_nothing_from_before() {
        let mut secrets = fresh(at(10_000));
        secrets.rotate(at(13_600), HOUR, KeyKind::Aes256k, &mut seeded(2));
        let before = secrets.clone();
        secrets.replace(at(14_000), HOUR, KeyKind::Aes256k, &mut seeded(3));
        assert_eq!((before.range(), secrets.range()), ((2, 4), (5, 7)));
        assert!(
            before.secrets.values().all(|old| secrets.secrets.values().all(|new| new.key.secret() != old.key.secret()))
        );
        let (id, current) = secrets.current().unwrap();
        assert_eq!((id, current.expires, secrets.since()), (6, at(17_600), Some(at(14_000))));
        assert!(secrets.are_all_after(before.range().1) && !secrets.are_all_after(0));
        // They change as others do from then on.
        assert!(!secrets.rotate(at(17_599), HOUR, KeyKind::Aes256k, &mut seeded(4)));
        assert!(secrets.rotate(at(17_600), HOUR, KeyKind::Aes256k, &mut seeded(4)));
        assert_eq!((secrets.range(), secrets.are_all_after(7)), ((6, 8), false));
    }

    #[test]
    fn secrets_that_end_together_are_replaced_then() {
        let (pause, end) = (Duration::from_secs(60), at(10_061));
        let mut secrets = fresh(at(10_000));
        assert_eq!(secrets.settle_until(at(10_001), pause), None, "nothing was replaced by the first");
        secrets.replace(at(10_001), HOUR, KeyKind::Aes256k, &mut seeded(2));
        assert_eq!(secrets.settle_until(at(10_060), pause), Some(end));
        assert_eq!(secrets.settle_until(end, pause), None);
        // Another clock, which was ahead.
        assert_eq!(secrets.settle_until(at(9_900), pause), Some(at(9_960)));
        let before = secrets.clone();
        assert!(secrets.end_at(end) && !secrets.end_at(at(10_070)), "it is said once");
        let mut endless = secrets.clone();
        endless.secrets.values_mut().for_each(|secret| secret.expires = Utime { sec: u32::MAX, nsec: 0 });
        assert!(endless.end_at(end) && endless.is_due(end), "secrets without an end get one");
        assert!(!secrets.rotate(at(10_060), HOUR, KeyKind::Aes256k, &mut seeded(3)));
        assert_eq!((secrets.range(), secrets.current().unwrap().1.expires), (before.range(), end));
        assert!(secrets.rotate(end, HOUR, KeyKind::Aes256k, &mut seeded(3)));
        assert!(secrets.are_all_after(before.range().1), "{secrets:?}");
        assert_eq!((secrets.range(), secrets.current().unwrap().1.expires), ((7, 9), at(13_661)));
        // The clock by which they were to end may have been ahead.
        let mut ahead = before.clone();
        ahead.replace(at(20_000), HOUR, KeyKind::Aes256k, &mut seeded(5));
        assert!(ahead.end_at(at(20_060)) && ahead.bring_forward(at(11_000), HOUR, Duration::from_secs(300)).is_some());
        assert!(ahead.rotate(at(11_000), HOUR, KeyKind::Aes256k, &mut seeded(6)));
        assert_eq!(ahead.range(), (10, 12), "all are new");
        // Others come one by one from then on.
        assert!(secrets.rotate(at(13_661), HOUR, KeyKind::Aes256k, &mut seeded(4)));
        assert_eq!(secrets.range(), (8, 10));
    }

    /// Also where secrets live shorter than they are to settle.
    #[test]
    fn no_secret_changes_before_all_end() {
        let life = Duration::from_secs(40);
        let mut secrets = fresh(at(10_000));
        secrets.replace(at(10_001), life, KeyKind::Aes256k, &mut seeded(2));
        let newest = secrets.range().1;
        assert!(secrets.end_at(at(10_061)));
        for now in 10_002..10_061 {
            assert!(!secrets.rotate(at(now), life, KeyKind::Aes256k, &mut seeded(3)), "at {now}");
        }
        assert!(secrets.rotate(at(10_061), life, KeyKind::Aes256k, &mut seeded(3)) && secrets.are_all_after(newest));
    }

    #[test]
    fn a_wrong_clock_is_told_with_a_sentence() {
        let secrets = fresh(at(1_795_780_000));
        let check = |sec, expect: Option<&str>| {
            let judged = secrets.check_clock(at(sec), Duration::from_secs(300));
            assert_eq!(judged.err().map(|skew| skew.to_string()).as_deref(), expect);
        };
        check(1_795_780_000, None);
        check(1_795_783_900, None);
        check(1_795_779_700, None);
        check(
            1_795_783_901,
            Some(
                "this machine's clock (2026-11-27T12:51:41.000000+0000) is at least 301 s ahead of that of the monitors: \
                 set the clocks by NTP",
            ),
        );
        check(
            1_795_776_400,
            Some(
                "this machine's clock (2026-11-27T10:46:40.000000+0000) is at least 3600 s behind that of the monitors: \
                 set the clocks by NTP",
            ),
        );
    }

    /// A clock that was ahead by years leaves secrets that change in time, once it is right.
    #[test]
    fn secrets_of_a_clock_that_was_ahead_end_in_time() {
        let tolerance = Duration::from_secs(300);
        let mut secrets = fresh(at(10_000));
        assert_eq!(secrets.bring_forward(at(9_700), HOUR, tolerance), None, "within what is borne");
        let ahead = at(100_000_000);
        assert!(secrets.rotate(ahead, HOUR, KeyKind::Aes256k, &mut seeded(2)));
        let sealed_with = secrets.current().unwrap();
        let (id, key) = (sealed_with.0, sealed_with.1.key.secret().to_vec());
        let now = at(11_000);
        assert!(!secrets.is_due(now), "nothing else ends them");
        assert_eq!(secrets.bring_forward(now, HOUR, tolerance), Some(Duration::from_secs(99_989_000)));
        assert_eq!(secrets.bring_forward(now, HOUR, tolerance), None, "it is done once");
        assert_eq!(secrets.check_clock(now, tolerance), Ok(()));
        // No ticket is lost, and the ends are those of secrets that are made now.
        let (current, secret) = secrets.current().unwrap();
        assert_eq!((current, secret.key.secret(), secret.expires), (id, &key[..], at(14_600)));
        assert_eq!(secrets.secrets.values().next_back().unwrap().expires, at(18_200));
        assert!(!secrets.rotate(at(14_599), HOUR, KeyKind::Aes256k, &mut seeded(3)));
        assert!(secrets.rotate(at(14_600), HOUR, KeyKind::Aes256k, &mut seeded(3)));
        assert_eq!(secrets.current().unwrap().0, id + 1);
        assert!(secrets.find(id).is_some());
    }

    proptest! {
        #[test]
        fn secrets_read_back(
            secrets in proptest::collection::btree_map(any::<u64>(), (any_key(), any_utime()), 0..4),
            beyond in 0..9u64,
        ) {
            let secrets = secrets.into_iter().map(|(id, (key, expires))| (id, ServiceSecret { key, expires }));
            let secrets: BTreeMap<_, _> = secrets.collect();
            let newest = secrets.last_key_value().map_or(0, |(id, _)| *id).saturating_add(beyond);
            check_codec(&RotatingSecrets { secrets, newest })?;
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_a_value(rest in any::<Vec<u8>>()) {
            let mut bytes = vec![1];
            bytes.extend_from_slice(&rest);
            check_bytes::<RotatingSecrets>(&bytes)?;
        }
    }
}
