//! Judgement of a version or an upload at a point in time.

use crate::lifecycle::{
    Expiration, FilterTerms, LifecycleConfiguration, LifecycleRule, LifecycleScope, TransitionTime,
};
use crate::tagging::TagSet;
use crate::time::{DAY_MS, UnixMillis};
use crate::uri::percent_encode;

/// Time, and the length of a day.
#[derive(Clone, Copy, Debug)]
pub struct LifecycleClock {
    pub now: UnixMillis,
    /// Seconds that count as a day, for tests. Nothing is then rounded to midnight.
    pub debug_day_s: Option<u32>,
}

/// Version to judge.
#[derive(Clone, Copy, Debug)]
pub struct VersionFacts<'a> {
    pub key: &'a str,
    pub size_bytes: u64,
    pub tags: &'a TagSet,
    pub storage_class: &'a str,
    /// When it was written.
    pub modified: UnixMillis,
    pub state: VersionState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionState {
    Current,
    /// The current version is a delete marker. `alone`: there is no other version of the key.
    CurrentMarker {
        alone: bool,
    },
    Noncurrent {
        /// When the next newer version was written.
        since: UnixMillis,
        /// Number of newer versions that are not current.
        newer: u32,
        delete_marker: bool,
    },
}

/// Action to take, and the rule that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due<'a> {
    pub rule_id: &'a str,
    pub action: LifecycleAction<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleAction<'a> {
    /// As by a DELETE without a version: in a bucket with versions the key gets a delete marker.
    Expire,
    /// As by a DELETE of this version: it is gone for good, unless a lock keeps it.
    RemoveVersion,
    /// The storage class that the version moves to.
    Transition(&'a str),
}

impl LifecycleClock {
    /// When something is due that waits `days` from `begin`: at the first midnight (UTC) after.
    fn after_days(&self, begin: UnixMillis, days: i64) -> UnixMillis {
        match self.debug_day_s {
            Some(seconds) => begin.plus_ms(days.saturating_mul(i64::from(seconds) * 1000)),
            None => begin.plus_ms(days.saturating_mul(DAY_MS)).midnight_at_or_after(),
        }
    }
}

impl LifecycleConfiguration {
    /// Action to take on a version now, if there is one.
    ///
    /// To expire comes before to move. Of several transitions that are due, the one that was due last counts: so a
    /// version never moves back.
    pub fn due(&self, version: &VersionFacts<'_>, clock: &LifecycleClock) -> Option<Due<'_>> {
        let rules = || self.rules.iter().filter(|rule| rule.enabled && rule.scope.has(version));
        let removal = rules()
            .filter_map(|rule| Some((rule.expires_at(version, clock)?, rule)))
            .filter(|(at, _)| *at <= clock.now)
            .min_by_key(|(at, _)| *at);
        if let Some((_, rule)) = removal {
            let action = match version.state {
                VersionState::Current => LifecycleAction::Expire,
                VersionState::CurrentMarker { .. } | VersionState::Noncurrent { .. } => LifecycleAction::RemoveVersion,
            };
            return Some(Due { rule_id: &rule.id, action });
        }
        let (_, rule_id, class) = rules()
            .flat_map(|rule| rule.transitions_at(version, clock).map(move |(at, class)| (at, &rule.id, class)))
            .filter(|(at, ..)| *at <= clock.now)
            .max_by_key(|(at, ..)| *at)?;
        (class != version.storage_class).then_some(Due { rule_id, action: LifecycleAction::Transition(class) })
    }

    /// Id of the rule by which an upload is to be given up now, if there is one.
    pub fn upload_due(&self, key: &str, initiated: UnixMillis, clock: &LifecycleClock) -> Option<&str> {
        let (at, rule) = self.upload_abort_at(key, initiated, clock)?;
        (at <= clock.now).then_some(rule)
    }

    /// When an upload will be given up, and by which rule.
    pub fn upload_abort_at(
        &self,
        key: &str,
        initiated: UnixMillis,
        clock: &LifecycleClock,
    ) -> Option<(UnixMillis, &str)> {
        self.rules
            .iter()
            .filter(|rule| rule.enabled && !rule.scope.looks_at_content() && rule.scope.has_key(key))
            .filter_map(|rule| Some((clock.after_days(initiated, rule.abort_uploads_days?), rule.id.as_str())))
            .min_by_key(|(at, _)| *at)
    }

    /// Value of `x-amz-expiration` for a current version that will expire. Days are days, also in tests.
    pub fn expiration_header(&self, version: &VersionFacts<'_>) -> Option<String> {
        if version.state != VersionState::Current {
            return None;
        }
        let clock = LifecycleClock { now: version.modified, debug_day_s: None };
        let (at, rule) = self
            .rules
            .iter()
            .filter(|rule| rule.enabled && rule.scope.has(version))
            .filter_map(|rule| Some((rule.expires_at(version, &clock)?, rule)))
            .min_by_key(|(at, _)| *at)?;
        Some(format!("expiry-date=\"{}\", rule-id=\"{}\"", at.http_date(), percent_encode(&rule.id, "")))
    }
}

impl LifecycleScope {
    fn has_key(&self, key: &str) -> bool {
        self.prefixes().all(|prefix| key.starts_with(prefix))
    }

    /// True if the scope has a version. One that looks at tags or sizes has no delete markers.
    fn has(&self, version: &VersionFacts<'_>) -> bool {
        let marker = match version.state {
            VersionState::Current => false,
            VersionState::CurrentMarker { .. } => true,
            VersionState::Noncurrent { delete_marker, .. } => delete_marker,
        };
        self.has_key(version.key)
            && !(marker && self.looks_at_content())
            && self.terms().all(|terms| terms.hold(version))
    }
}

impl FilterTerms {
    fn hold(&self, version: &VersionFacts<'_>) -> bool {
        let size = i64::try_from(version.size_bytes).unwrap_or(i64::MAX);
        self.size_greater_than.is_none_or(|bound| size > bound)
            && self.size_less_than.is_none_or(|bound| size < bound)
            && self.tags.iter().all(|tag| version.tags.get(&tag.key) == Some(&tag.value))
    }
}

impl LifecycleRule {
    /// When the rule ends a version; `None` if it does not.
    fn expires_at(&self, version: &VersionFacts<'_>, clock: &LifecycleClock) -> Option<UnixMillis> {
        match (version.state, self.expiration) {
            (VersionState::Noncurrent { since, newer, .. }, _) => {
                let expiration = self.noncurrent_expiration?;
                let kept = expiration.newer_versions.is_some_and(|count| i64::from(newer) < count);
                (!kept).then(|| clock.after_days(since, expiration.days))
            }
            (VersionState::CurrentMarker { alone: true }, Some(Expiration::DeleteMarker(true))) => {
                Some(version.modified)
            }
            (VersionState::CurrentMarker { alone: false }, _) | (_, None | Some(Expiration::DeleteMarker(_))) => None,
            (_, Some(Expiration::Days(days))) => Some(clock.after_days(version.modified, days)),
            (_, Some(Expiration::Date(date))) => Some(date),
        }
    }

    /// When the rule moves a version, and where to.
    fn transitions_at<'a>(
        &'a self,
        version: &VersionFacts<'_>,
        clock: &LifecycleClock,
    ) -> impl Iterator<Item = (UnixMillis, &'a str)> {
        let (modified, state, clock) = (version.modified, version.state, *clock);
        let current = (state == VersionState::Current).then_some(&self.transitions).into_iter().flatten();
        let current = current.map(move |transition| {
            let at = match transition.at {
                TransitionTime::Days(days) => clock.after_days(modified, days),
                TransitionTime::Date(date) => date,
            };
            (at, transition.storage_class.as_str())
        });
        let since_and_newer = match state {
            VersionState::Noncurrent { since, newer, delete_marker: false } => Some((since, newer)),
            _ => None,
        };
        let noncurrent = since_and_newer.into_iter().flat_map(move |(since, newer)| {
            let moves = move |count: Option<i64>| count.is_none_or(|count| i64::from(newer) >= count);
            let due = self.noncurrent_transitions.iter().filter(move |transition| moves(transition.newer_versions));
            due.map(move |transition| (clock.after_days(since, transition.days), transition.storage_class.as_str()))
        });
        current.chain(noncurrent)
    }
}
