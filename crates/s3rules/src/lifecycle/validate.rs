//! Rules that S3 does not take.

use crate::error::{S3Code, S3Error};
use crate::lifecycle::{
    Expiration, FilterTerms, LIFECYCLE_RULES_MAX, LifecycleConfiguration, LifecycleRule, Transition, TransitionTime,
};
use std::collections::HashSet;

/// Longest id of a rule, in characters.
const ID_CHARS_MAX: usize = 255;
/// Longest prefix, in bytes: that of a key.
const PREFIX_BYTES_MAX: usize = 1024;
/// Most versions that a rule can keep.
const NEWER_VERSIONS_MAX: i64 = 100;

impl LifecycleConfiguration {
    /// Refuses rules that S3 does not take. `is_class`: true for the name of a storage class.
    ///
    /// Errors: `MalformedXML` for no rules or too many, `InvalidArgument` for numbers, ids and dates that cannot be,
    /// `InvalidRequest` for what contradicts itself, `InvalidStorageClass`, `InvalidTag`.
    pub fn validate(&self, is_class: impl Fn(&str) -> bool) -> Result<(), S3Error> {
        if self.rules.is_empty() || self.rules.len() > LIFECYCLE_RULES_MAX {
            return Err(S3Error::malformed_xml(format!("there must be from 1 to {LIFECYCLE_RULES_MAX} rules")));
        }
        let mut ids = HashSet::new();
        for rule in &self.rules {
            if rule.id.chars().count() > ID_CHARS_MAX {
                return invalid(format!("ID has more than {ID_CHARS_MAX} characters"));
            }
            if !ids.insert(&rule.id) {
                return invalid(format!("Rule ID must be unique. Found same ID for more than one rule: {}", rule.id));
            }
            check_scope(rule)?;
            check_actions(rule)?;
            check_classes(rule, &is_class)?;
            check_order(rule)?;
        }
        Ok(())
    }
}

fn invalid(sentence: impl Into<String>) -> Result<(), S3Error> {
    Err(S3Error::invalid_argument(sentence))
}

fn contradiction(sentence: impl Into<String>) -> Result<(), S3Error> {
    Err(S3Error::new(S3Code::InvalidRequest, sentence))
}

fn check_scope(rule: &LifecycleRule) -> Result<(), S3Error> {
    if rule.scope.prefixes().any(|prefix| prefix.len() > PREFIX_BYTES_MAX) {
        return contradiction(format!("the prefix has more than {PREFIX_BYTES_MAX} bytes"));
    }
    let mut keys = HashSet::new();
    for FilterTerms { tags, size_greater_than, size_less_than, .. } in rule.scope.terms() {
        for tag in tags {
            tag.validate()?;
            if !keys.insert(&tag.key) {
                return contradiction("Duplicate Tag Keys are not allowed.");
            }
        }
        if size_greater_than.is_some_and(|size| size < 0) || size_less_than.is_some_and(|size| size < 1) {
            return invalid("sizes of a filter must not be negative, and ObjectSizeLessThan must be positive");
        }
        if let (Some(greater), Some(less)) = (size_greater_than, size_less_than)
            && greater >= less
        {
            return contradiction("ObjectSizeLessThan must be greater than ObjectSizeGreaterThan");
        }
    }
    Ok(())
}

fn check_actions(rule: &LifecycleRule) -> Result<(), S3Error> {
    let has_actions = rule.expiration.is_some()
        || rule.noncurrent_expiration.is_some()
        || rule.abort_uploads_days.is_some()
        || !rule.transitions.is_empty()
        || !rule.noncurrent_transitions.is_empty();
    if !has_actions {
        return contradiction("At least one action needs to be specified in a rule");
    }
    match rule.expiration {
        Some(Expiration::Days(..1)) => return invalid("'Days' for Expiration action must be a positive integer"),
        Some(Expiration::Date(date)) if !date.is_midnight() => return invalid("'Date' must be at midnight GMT"),
        Some(Expiration::DeleteMarker(_)) if rule.scope.looks_at_content() => {
            return contradiction("ExpiredObjectDeleteMarker cannot be specified with Tags and sizes.");
        }
        _ => {}
    }
    if let Some(days) = rule.abort_uploads_days {
        if days < 1 {
            return invalid(
                "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer",
            );
        }
        if rule.scope.looks_at_content() {
            return contradiction("AbortIncompleteMultipartUpload cannot be specified with Tags and sizes.");
        }
    }
    for transition in &rule.transitions {
        match transition.at {
            TransitionTime::Days(..0) => return invalid("'Days' in Transition action must be nonnegative"),
            TransitionTime::Date(date) if !date.is_midnight() => return invalid("'Date' must be at midnight GMT"),
            _ => {}
        }
    }
    if rule.noncurrent_expiration.is_some_and(|expiration| expiration.days < 1) {
        return invalid("'NoncurrentDays' for NoncurrentVersionExpiration action must be a positive integer");
    }
    if rule.noncurrent_transitions.iter().any(|transition| transition.days < 0) {
        return invalid("'NoncurrentDays' in NoncurrentVersionTransition action must be nonnegative");
    }
    let of_transitions = rule.noncurrent_transitions.iter().filter_map(|transition| transition.newer_versions);
    let of_expiration = rule.noncurrent_expiration.and_then(|expiration| expiration.newer_versions);
    if of_transitions.chain(of_expiration).any(|count| !(1..=NEWER_VERSIONS_MAX).contains(&count)) {
        return invalid(format!("'NewerNoncurrentVersions' must be from 1 to {NEWER_VERSIONS_MAX}"));
    }
    Ok(())
}

fn check_classes(rule: &LifecycleRule, is_class: impl Fn(&str) -> bool) -> Result<(), S3Error> {
    let current: Vec<&String> = rule.transitions.iter().map(|transition| &transition.storage_class).collect();
    let noncurrent: Vec<&String> =
        rule.noncurrent_transitions.iter().map(|transition| &transition.storage_class).collect();
    for mut classes in [current, noncurrent] {
        if let Some(class) = classes.iter().find(|class| !is_class(class)) {
            let sentence = format!("there is no storage class {class:?}");
            return Err(S3Error::new(S3Code::InvalidStorageClass, sentence));
        }
        classes.sort_unstable();
        if let Some(pair) = classes.windows(2).find(|pair| pair[0] == pair[1]) {
            return contradiction(format!("StorageClass '{}' stands in two transitions of one rule", pair[0]));
        }
    }
    Ok(())
}

/// Refuses rules whose steps are not in their order: what has expired cannot move any more.
fn check_order(rule: &LifecycleRule) -> Result<(), S3Error> {
    let by_date = |transition: &Transition| matches!(transition.at, TransitionTime::Date(_));
    if rule.transitions.iter().any(by_date) && !rule.transitions.iter().all(by_date) {
        return contradiction("Found mixed 'Date' and 'Days' based Transition actions in one rule");
    }
    let later = rule.transitions.iter().any(|transition| match (transition.at, rule.expiration) {
        (TransitionTime::Days(days), Some(Expiration::Days(expires))) => days >= expires,
        (TransitionTime::Date(date), Some(Expiration::Date(expires))) => date >= expires,
        _ => false,
    });
    let mixed = rule.transitions.iter().any(|transition| {
        matches!(
            (transition.at, rule.expiration),
            (TransitionTime::Days(_), Some(Expiration::Date(_))) | (TransitionTime::Date(_), Some(Expiration::Days(_)))
        )
    });
    if mixed {
        return contradiction("Found mixed 'Date' and 'Days' based Expiration and Transition actions in one rule");
    }
    let expires = rule.noncurrent_expiration.map_or(i64::MAX, |expiration| expiration.days);
    if later || rule.noncurrent_transitions.iter().any(|transition| transition.days >= expires) {
        return invalid("the Expiration action of a rule must be later than its Transition actions");
    }
    Ok(())
}
