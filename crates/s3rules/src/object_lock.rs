//! Versions that must not be removed: retention and legal hold.

use crate::error::{S3Code, S3Error};
use crate::time::{DAY_MS, UnixMillis};
use crate::xml::Element;
use serde::{Deserialize, Serialize};

/// Longest period of a default retention.
const PERIOD_DAYS_MAX: i64 = 36_500;
const PERIOD_YEARS_MAX: i64 = 100;

/// `ObjectLockConfiguration` of a bucket that has locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectLockConfiguration {
    /// Retention of new versions that bring none.
    pub default_retention: Option<DefaultRetention>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultRetention {
    pub mode: RetentionMode,
    pub period: RetentionPeriod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetentionMode {
    /// A user who may bypass it can remove the version, and shorten or end the retention.
    Governance,
    /// Nobody can remove the version or shorten the retention.
    Compliance,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetentionPeriod {
    Days(i64),
    /// Of 365 days each.
    Years(i64),
}

/// Retention of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    pub mode: RetentionMode,
    pub until: UnixMillis,
}

/// Lock of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectLock {
    pub retention: Option<Retention>,
    /// `None` if it has never been set.
    pub legal_hold: Option<bool>,
}

impl RetentionMode {
    /// Reads `GOVERNANCE` or `COMPLIANCE`.
    pub fn parse(name: &str) -> Option<RetentionMode> {
        match name {
            "GOVERNANCE" => Some(RetentionMode::Governance),
            "COMPLIANCE" => Some(RetentionMode::Compliance),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            RetentionMode::Governance => "GOVERNANCE",
            RetentionMode::Compliance => "COMPLIANCE",
        }
    }
}

impl RetentionPeriod {
    fn ms(self) -> i64 {
        match self {
            RetentionPeriod::Days(days) => days.saturating_mul(DAY_MS),
            RetentionPeriod::Years(years) => years.saturating_mul(365 * DAY_MS),
        }
    }
}

impl ObjectLockConfiguration {
    /// Reads `ObjectLockConfiguration`.
    ///
    /// Errors: `MalformedXML`, and those of [`ObjectLockConfiguration::validate`].
    pub fn from_xml(document: &[u8]) -> Result<ObjectLockConfiguration, S3Error> {
        let root = Element::parse(document, "ObjectLockConfiguration")?;
        root.only(&["ObjectLockEnabled", "Rule"])?;
        if root.required("ObjectLockEnabled")?.leaf()?.trim() != "Enabled" {
            return Err(S3Error::malformed_xml("ObjectLockEnabled can be Enabled only"));
        }
        let Some(rule) = root.child("Rule")? else { return Ok(ObjectLockConfiguration::default()) };
        rule.only(&["DefaultRetention"])?;
        let retention = rule.required("DefaultRetention")?;
        retention.only(&["Mode", "Days", "Years"])?;
        let mode = read_mode(retention.required("Mode")?)?;
        let period = match (retention.number_of("Days")?, retention.number_of("Years")?) {
            (Some(days), None) => RetentionPeriod::Days(days),
            (None, Some(years)) => RetentionPeriod::Years(years),
            _ => return Err(S3Error::malformed_xml("DefaultRetention has either Days or Years")),
        };
        let configuration = ObjectLockConfiguration { default_retention: Some(DefaultRetention { mode, period }) };
        configuration.validate()?;
        Ok(configuration)
    }

    /// Refuses a period that S3 does not take.
    ///
    /// Errors: `InvalidRetentionPeriod` for one that is not positive or too long.
    pub fn validate(&self) -> Result<(), S3Error> {
        let (number, max) = match self.default_retention.map(|default| default.period) {
            None => return Ok(()),
            Some(RetentionPeriod::Days(days)) => (days, PERIOD_DAYS_MAX),
            Some(RetentionPeriod::Years(years)) => (years, PERIOD_YEARS_MAX),
        };
        if (1..=max).contains(&number) {
            return Ok(());
        }
        let sentence = format!("the retention period must be from 1 to {max}");
        Err(S3Error::new(S3Code::InvalidRetentionPeriod, sentence))
    }

    /// `ObjectLockConfiguration` of an answer.
    pub fn to_xml(&self) -> String {
        let root = Element::root("ObjectLockConfiguration").with_text("ObjectLockEnabled", "Enabled");
        let Some(DefaultRetention { mode, period }) = self.default_retention else { return root.write() };
        let retention = Element::new("DefaultRetention").with_text("Mode", mode.name());
        let retention = match period {
            RetentionPeriod::Days(days) => retention.with_text("Days", days.to_string()),
            RetentionPeriod::Years(years) => retention.with_text("Years", years.to_string()),
        };
        root.with(Element::new("Rule").with(retention)).write()
    }

    /// Lock of a new version: what its request brings, else the default.
    pub fn lock_of_new(&self, brought: ObjectLock, now: UnixMillis) -> ObjectLock {
        let default = self
            .default_retention
            .map(|default| Retention { mode: default.mode, until: now.plus_ms(default.period.ms()) });
        ObjectLock { retention: brought.retention.or(default), ..brought }
    }
}

impl ObjectLock {
    /// Reads `x-amz-object-lock-mode`, `x-amz-object-lock-retain-until-date` and `x-amz-object-lock-legal-hold`.
    ///
    /// Errors: `InvalidArgument` for a value that is none, a date that has passed, and a mode or date alone.
    pub fn from_headers(
        mode: Option<&str>,
        until: Option<&str>,
        legal_hold: Option<&str>,
        now: UnixMillis,
    ) -> Result<ObjectLock, S3Error> {
        let retention = match (mode, until) {
            (None, None) => None,
            (Some(mode), Some(until)) => {
                let mode = RetentionMode::parse(mode)
                    .ok_or_else(|| S3Error::invalid_argument("Unknown wormMode directive"))?;
                let until = UnixMillis::parse(until);
                let until =
                    until.ok_or_else(|| S3Error::invalid_argument("the retain until date is no date of ISO 8601"))?;
                check_future(until, now)?;
                Some(Retention { mode, until })
            }
            _ => {
                return Err(S3Error::invalid_argument(
                    "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied",
                ));
            }
        };
        let legal_hold = match legal_hold {
            None => None,
            Some("ON") => Some(true),
            Some("OFF") => Some(false),
            Some(_) => return Err(S3Error::invalid_argument("Legal Hold must be either of 'ON' or 'OFF'")),
        };
        Ok(ObjectLock { retention, legal_hold })
    }

    /// True if the lock says anything: only buckets with locks take such versions.
    pub fn is_set(&self) -> bool {
        self.retention.is_some() || self.legal_hold.is_some()
    }

    /// Refuses to remove the version or to write over it.
    ///
    /// `bypass`: the request asks to bypass governance, and who asks may. Errors: `AccessDenied`.
    pub fn check_removal(&self, now: UnixMillis, bypass: bool) -> Result<(), S3Error> {
        if self.legal_hold == Some(true) {
            return Err(locked("a legal hold is on the version"));
        }
        match self.retention {
            Some(Retention { mode: RetentionMode::Compliance, until }) if now < until => {
                Err(locked("the version is retained in compliance mode"))
            }
            Some(Retention { mode: RetentionMode::Governance, until }) if now < until && !bypass => {
                Err(locked("the version is retained in governance mode"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses to change the retention of the version to `new`, or to end it. A legal hold does not count.
    ///
    /// `bypass` as in [`ObjectLock::check_removal`]. Errors: `AccessDenied`.
    pub fn check_retention_change(&self, new: Option<Retention>, now: UnixMillis, bypass: bool) -> Result<(), S3Error> {
        let Some(old) = self.retention.filter(|old| now < old.until) else { return Ok(()) };
        let lengthens = new.is_some_and(|new| new.mode == old.mode && new.until >= old.until);
        match old.mode {
            _ if lengthens => Ok(()),
            RetentionMode::Governance if bypass => Ok(()),
            RetentionMode::Governance => Err(locked("retention in governance mode can only be made longer")),
            RetentionMode::Compliance => Err(locked("retention in compliance mode can only be made longer")),
        }
    }
}

impl Retention {
    /// Reads `Retention`. An empty one ends the retention: `None`.
    ///
    /// Errors: `MalformedXML`, `InvalidArgument` for a date that has passed.
    pub fn from_xml(document: &[u8], now: UnixMillis) -> Result<Option<Retention>, S3Error> {
        let root = Element::parse(document, "Retention")?;
        root.only(&["Mode", "RetainUntilDate"])?;
        if root.children.is_empty() && root.text.trim().is_empty() {
            return Ok(None);
        }
        let mode = read_mode(root.required("Mode")?)?;
        let until = UnixMillis::parse(root.required("RetainUntilDate")?.leaf()?.trim());
        let until = until.ok_or_else(|| S3Error::malformed_xml("RetainUntilDate is no date of ISO 8601"))?;
        check_future(until, now)?;
        Ok(Some(Retention { mode, until }))
    }

    /// `Retention` of an answer.
    pub fn to_xml(&self) -> String {
        Element::root("Retention")
            .with_text("Mode", self.mode.name())
            .with_text("RetainUntilDate", self.until.iso8601())
            .write()
    }
}

/// Reads `LegalHold`: true if it is on. Errors: `MalformedXML`.
pub fn legal_hold_from_xml(document: &[u8]) -> Result<bool, S3Error> {
    let root = Element::parse(document, "LegalHold")?;
    root.only(&["Status"])?;
    match root.required("Status")?.leaf()?.trim() {
        "ON" => Ok(true),
        "OFF" => Ok(false),
        _ => Err(S3Error::malformed_xml("Status is either ON or OFF")),
    }
}

/// `LegalHold` of an answer.
pub fn legal_hold_xml(on: bool) -> String {
    Element::root("LegalHold").with_text("Status", if on { "ON" } else { "OFF" }).write()
}

/// Refuses requests about locks of versions in a bucket without them. Errors: `InvalidRequest`.
pub fn check_bucket_has_locks(
    configuration: Option<&ObjectLockConfiguration>,
) -> Result<&ObjectLockConfiguration, S3Error> {
    configuration.ok_or_else(|| S3Error::new(S3Code::InvalidRequest, "Bucket is missing Object Lock Configuration"))
}

/// Refuses to give locks to a bucket that does not keep versions. Errors: `InvalidBucketState`.
pub fn check_may_have_locks(versioning_enabled: bool) -> Result<(), S3Error> {
    match versioning_enabled {
        true => Ok(()),
        false => Err(S3Error::new(S3Code::InvalidBucketState, "Versioning must be 'Enabled' on the bucket")),
    }
}

/// Refuses to suspend versioning in a bucket with locks. Errors: `InvalidBucketState`.
pub fn check_may_suspend_versioning(configuration: Option<&ObjectLockConfiguration>) -> Result<(), S3Error> {
    match configuration {
        None => Ok(()),
        Some(_) => {
            Err(S3Error::new(S3Code::InvalidBucketState, "the bucket has Object Lock: versioning stays enabled"))
        }
    }
}

fn locked(sentence: &str) -> S3Error {
    S3Error::new(S3Code::AccessDenied, format!("Access Denied because object protected by object lock: {sentence}"))
}

fn check_future(until: UnixMillis, now: UnixMillis) -> Result<(), S3Error> {
    match until > now {
        true => Ok(()),
        false => Err(S3Error::invalid_argument("The retain until date must be in the future!")),
    }
}

fn read_mode(element: &Element) -> Result<RetentionMode, S3Error> {
    RetentionMode::parse(element.leaf()?.trim())
        .ok_or_else(|| S3Error::malformed_xml("Mode is either GOVERNANCE or COMPLIANCE"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use RetentionMode::{Compliance, Governance};
    use proptest::prelude::*;

    const NOW: UnixMillis = UnixMillis(1_000_000);

    fn retention(mode: RetentionMode, after_ms: i64) -> Option<Retention> {
        Some(Retention { mode, until: NOW.plus_ms(after_ms) })
    }

    #[test]
    fn versions_are_removed_or_kept() {
        for (retention, legal_hold, removable, with_bypass) in [
            (None, None, true, true),
            (None, Some(false), true, true),
            (None, Some(true), false, false),
            (retention(Governance, 1), None, false, true),
            (retention(Governance, 0), None, true, true),
            (retention(Governance, -1), None, true, true),
            (retention(Governance, 1), Some(true), false, false),
            (retention(Compliance, 1), None, false, false),
            (retention(Compliance, 0), None, true, true),
            (retention(Compliance, 0), Some(true), false, false),
        ] {
            let lock = ObjectLock { retention, legal_hold };
            assert_eq!(lock.check_removal(NOW, false).is_ok(), removable, "{lock:?}");
            assert_eq!(lock.check_removal(NOW, true).is_ok(), with_bypass, "{lock:?}");
        }
    }

    #[test]
    fn retention_is_changed_or_kept() {
        for (old, new, allowed, with_bypass) in [
            (None, retention(Compliance, 5), true, true),
            (None, None, true, true),
            (retention(Governance, 3), retention(Governance, 5), true, true),
            (retention(Governance, 3), retention(Governance, 3), true, true),
            (retention(Governance, 3), retention(Governance, 2), false, true),
            (retention(Governance, 3), retention(Compliance, 3), false, true),
            (retention(Governance, 3), None, false, true),
            (retention(Governance, 0), None, true, true),
            (retention(Compliance, 3), retention(Compliance, 5), true, true),
            (retention(Compliance, 3), retention(Compliance, 2), false, false),
            (retention(Compliance, 3), retention(Governance, 9), false, false),
            (retention(Compliance, 3), None, false, false),
            (retention(Compliance, 0), retention(Governance, 1), true, true),
        ] {
            let lock = ObjectLock { retention: old, legal_hold: Some(true) };
            let change = |bypass| lock.check_retention_change(new, NOW, bypass);
            assert_eq!((change(false).is_ok(), change(true).is_ok()), (allowed, with_bypass), "{old:?} {new:?}");
        }
    }

    #[test]
    fn configurations_in_xml() {
        let document = |enabled: &str, retention: &str| {
            let rule = format!("<Rule><DefaultRetention>{retention}</DefaultRetention></Rule>");
            format!(
                "<ObjectLockConfiguration><ObjectLockEnabled>{enabled}</ObjectLockEnabled>{rule}</ObjectLockConfiguration>"
            )
        };
        for (retention, mode, period) in [
            ("<Mode>GOVERNANCE</Mode><Days>1</Days>", Governance, RetentionPeriod::Days(1)),
            ("<Mode>COMPLIANCE</Mode><Years>100</Years>", Compliance, RetentionPeriod::Years(100)),
        ] {
            let configuration = ObjectLockConfiguration::from_xml(document("Enabled", retention).as_bytes()).unwrap();
            assert_eq!(configuration.default_retention, Some(DefaultRetention { mode, period }));
            assert_eq!(ObjectLockConfiguration::from_xml(configuration.to_xml().as_bytes()), Ok(configuration));
        }
        for (enabled, retention, code) in [
            ("Enabled", "<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>", "MalformedXML"),
            ("Enabled", "<Mode>GOVERNANCE</Mode>", "MalformedXML"),
            ("Enabled", "<Mode>GOVERNANCE</Mode><Days>0</Days>", "InvalidRetentionPeriod"),
            ("Enabled", "<Mode>GOVERNANCE</Mode><Years>-1</Years>", "InvalidRetentionPeriod"),
            ("Enabled", "<Mode>GOVERNANCE</Mode><Days>36501</Days>", "InvalidRetentionPeriod"),
            ("Enabled", "<Mode>abc</Mode><Years>1</Years>", "MalformedXML"),
            ("Enabled", "<Mode>governance</Mode><Years>1</Years>", "MalformedXML"),
            ("Disabled", "<Mode>GOVERNANCE</Mode><Years>1</Years>", "MalformedXML"),
        ] {
            let answer = ObjectLockConfiguration::from_xml(document(enabled, retention).as_bytes());
            assert_eq!(answer.unwrap_err().code.name(), code, "{enabled} {retention}");
        }
        let without_rule = ObjectLockConfiguration::default();
        assert_eq!(ObjectLockConfiguration::from_xml(without_rule.to_xml().as_bytes()), Ok(without_rule));
        assert_eq!(check_bucket_has_locks(None).unwrap_err().code, S3Code::InvalidRequest);
        assert_eq!(check_may_have_locks(false).unwrap_err().code, S3Code::InvalidBucketState);
        assert_eq!(check_may_suspend_versioning(Some(&without_rule)).unwrap_err().code, S3Code::InvalidBucketState);
        assert!(check_may_suspend_versioning(None).is_ok());
    }

    #[test]
    fn locks_of_new_versions() {
        let period = RetentionPeriod::Years(1);
        let configuration =
            ObjectLockConfiguration { default_retention: Some(DefaultRetention { mode: Governance, period }) };
        let by_default = configuration.lock_of_new(ObjectLock::default(), NOW);
        assert_eq!(by_default.retention, retention(Governance, 365 * DAY_MS));
        let read = |mode, until, hold| ObjectLock::from_headers(mode, until, hold, NOW);
        let brought = read(Some("COMPLIANCE"), Some("2030-01-01T00:00:00Z"), Some("ON")).unwrap();
        assert_eq!(configuration.lock_of_new(brought, NOW), brought);
        assert!(brought.is_set() && !read(None, None, None).unwrap().is_set());
        for (mode, until, hold) in [
            (Some("COMPLIANCE"), None, None),
            (None, Some("2030-01-01T00:00:00Z"), None),
            (Some("x"), Some("2030-01-01T00:00:00Z"), None),
            (Some("COMPLIANCE"), Some("1970-01-01T00:00:00Z"), None),
            (Some("COMPLIANCE"), Some("soon"), None),
            (None, None, Some("on")),
        ] {
            assert_eq!(
                read(mode, until, hold).unwrap_err().code,
                S3Code::InvalidArgument,
                "{mode:?} {until:?} {hold:?}"
            );
        }
    }

    #[test]
    fn retention_and_hold_in_xml() {
        let parse = |inside: &str| Retention::from_xml(format!("<Retention>{inside}</Retention>").as_bytes(), NOW);
        let good = parse("<Mode>GOVERNANCE</Mode><RetainUntilDate>2140-01-01T00:00:00Z</RetainUntilDate>").unwrap();
        assert_eq!(Retention::from_xml(good.unwrap().to_xml().as_bytes(), NOW), Ok(good));
        assert_eq!(parse(""), Ok(None));
        for (inside, code) in [
            ("<Mode>governance</Mode><RetainUntilDate>2140-01-01T00:00:00Z</RetainUntilDate>", "MalformedXML"),
            ("<Mode>GOVERNANCE</Mode>", "MalformedXML"),
            ("<Mode>GOVERNANCE</Mode><RetainUntilDate>soon</RetainUntilDate>", "MalformedXML"),
            ("<Mode>GOVERNANCE</Mode><RetainUntilDate>1970-01-01</RetainUntilDate>", "InvalidArgument"),
            ("<RetainUntilDate>2140-01-01</RetainUntilDate>", "MalformedXML"),
        ] {
            assert_eq!(parse(inside).unwrap_err().code.name(), code, "{inside}");
        }
        for on in [true, false] {
            assert_eq!(legal_hold_from_xml(legal_hold_xml(on).as_bytes()), Ok(on));
        }
        for document in ["<LegalHold/>", "<LegalHold><Status>abc</Status></LegalHold>"] {
            assert_eq!(legal_hold_from_xml(document.as_bytes()).unwrap_err().code, S3Code::MalformedXML);
        }
    }

    proptest! {
        #[test]
        fn compliance_is_never_weakened(
            old_ms in 1i64..1000,
            new_ms in -10i64..1000,
            governance in any::<bool>(),
            bypass in any::<bool>(),
        ) {
            let lock = ObjectLock { retention: retention(Compliance, old_ms), legal_hold: None };
            let new = retention(if governance { Governance } else { Compliance }, new_ms);
            let changed = lock.check_retention_change(new, NOW, bypass).is_ok();
            prop_assert_eq!(changed, !governance && new_ms >= old_ms);
            prop_assert!(lock.check_removal(NOW, bypass).is_err());
        }
    }
}
