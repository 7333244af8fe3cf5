//! Rules as they are written, in XML.

use crate::error::S3Error;
use crate::lifecycle::{
    Expiration, FilterTerms, LifecycleConfiguration, LifecycleFilter, LifecycleRule, LifecycleScope,
    NoncurrentExpiration, NoncurrentTransition, Transition, TransitionTime,
};
use crate::tagging::Tag;
use crate::time::UnixMillis;
use crate::xml::Element;
use std::collections::HashSet;

const ACTIONS: [&str; 5] = [
    "Expiration",
    "NoncurrentVersionExpiration",
    "Transition",
    "NoncurrentVersionTransition",
    "AbortIncompleteMultipartUpload",
];

impl LifecycleConfiguration {
    /// Reads `LifecycleConfiguration`. Rules without an id get one. `is_class`: true for the name of a storage class.
    ///
    /// Errors: `MalformedXML`, and those of [`LifecycleConfiguration::validate`].
    pub fn from_xml(document: &[u8], is_class: impl Fn(&str) -> bool) -> Result<LifecycleConfiguration, S3Error> {
        let root = Element::parse(document, "LifecycleConfiguration")?;
        root.only(&["Rule"])?;
        let rules: Result<Vec<LifecycleRule>, S3Error> = root.all("Rule").map(read_rule).collect();
        let mut configuration = LifecycleConfiguration { rules: rules? };
        name_rules(&mut configuration.rules);
        configuration.validate(is_class)?;
        Ok(configuration)
    }

    /// `LifecycleConfiguration` of an answer.
    pub fn to_xml(&self) -> String {
        self.rules.iter().map(write_rule).fold(Element::root("LifecycleConfiguration"), Element::with).write()
    }
}

/// Gives ids to rules without.
fn name_rules(rules: &mut [LifecycleRule]) {
    let taken: HashSet<String> = rules.iter().map(|rule| rule.id.clone()).collect();
    let mut free = (1..).map(|number| format!("rule-{number}")).filter(|id| !taken.contains(id));
    for rule in rules.iter_mut().filter(|rule| rule.id.is_empty()) {
        rule.id = free.next().unwrap_or_default();
    }
}

fn read_rule(rule: &Element) -> Result<LifecycleRule, S3Error> {
    rule.only(&[&["ID", "Prefix", "Filter", "Status"][..], &ACTIONS].concat())?;
    let scope = match (rule.text_of("Prefix")?, rule.child("Filter")?) {
        (Some(prefix), None) => LifecycleScope::Prefix(prefix),
        (None, Some(filter)) => LifecycleScope::Filter(read_filter(filter)?),
        _ => return Err(S3Error::malformed_xml("a rule has either Filter or Prefix")),
    };
    let enabled = match rule.required("Status")?.leaf()?.as_str() {
        "Enabled" => true,
        "Disabled" => false,
        _ => return Err(S3Error::malformed_xml("Status is either Enabled or Disabled")),
    };
    let abort_uploads_days = match rule.child("AbortIncompleteMultipartUpload")? {
        None => None,
        Some(abort) => {
            abort.only(&["DaysAfterInitiation"])?;
            Some(required_number(abort, "DaysAfterInitiation")?)
        }
    };
    Ok(LifecycleRule {
        id: rule.text_of("ID")?.unwrap_or_default(),
        enabled,
        scope,
        expiration: rule.child("Expiration")?.map(read_expiration).transpose()?,
        noncurrent_expiration: rule
            .child("NoncurrentVersionExpiration")?
            .map(read_noncurrent_expiration)
            .transpose()?,
        transitions: rule.all("Transition").map(read_transition).collect::<Result<_, _>>()?,
        noncurrent_transitions: rule
            .all("NoncurrentVersionTransition")
            .map(read_noncurrent_transition)
            .collect::<Result<_, _>>()?,
        abort_uploads_days,
    })
}

fn required_number(element: &Element, name: &str) -> Result<i64, S3Error> {
    let number = element.number_of(name)?;
    number.ok_or_else(|| S3Error::malformed_xml(format!("{} has no {name}", element.name)))
}

fn read_filter(filter: &Element) -> Result<LifecycleFilter, S3Error> {
    filter.only(&["Prefix", "Tag", "ObjectSizeGreaterThan", "ObjectSizeLessThan", "And"])?;
    filter.child("Tag")?;
    let and = match filter.child("And")? {
        None => None,
        Some(and) => {
            and.only(&["Prefix", "Tag", "ObjectSizeGreaterThan", "ObjectSizeLessThan"])?;
            Some(read_terms(and)?)
        }
    };
    Ok(LifecycleFilter { own: read_terms(filter)?, and })
}

fn read_terms(element: &Element) -> Result<FilterTerms, S3Error> {
    Ok(FilterTerms {
        prefix: element.text_of("Prefix")?,
        tags: element.all("Tag").map(Tag::from_element).collect::<Result<_, _>>()?,
        size_greater_than: element.number_of("ObjectSizeGreaterThan")?,
        size_less_than: element.number_of("ObjectSizeLessThan")?,
    })
}

fn read_date(element: &Element) -> Result<Option<UnixMillis>, S3Error> {
    let Some(text) = element.text_of("Date")? else { return Ok(None) };
    match UnixMillis::parse(text.trim()) {
        Some(date) => Ok(Some(date)),
        None => Err(S3Error::malformed_xml(format!("Date is no date of ISO 8601: {text:?}"))),
    }
}

fn read_expiration(expiration: &Element) -> Result<Expiration, S3Error> {
    expiration.only(&["Days", "Date", "ExpiredObjectDeleteMarker"])?;
    let marker = expiration.flag_of("ExpiredObjectDeleteMarker")?;
    match (expiration.number_of("Days")?, read_date(expiration)?, marker) {
        (Some(days), None, None) => Ok(Expiration::Days(days)),
        (None, Some(date), None) => Ok(Expiration::Date(date)),
        (None, None, Some(marker)) => Ok(Expiration::DeleteMarker(marker)),
        _ => Err(S3Error::malformed_xml("Expiration has one of Days, Date and ExpiredObjectDeleteMarker")),
    }
}

fn read_noncurrent_expiration(expiration: &Element) -> Result<NoncurrentExpiration, S3Error> {
    expiration.only(&["NoncurrentDays", "NewerNoncurrentVersions"])?;
    Ok(NoncurrentExpiration {
        days: required_number(expiration, "NoncurrentDays")?,
        newer_versions: expiration.number_of("NewerNoncurrentVersions")?,
    })
}

fn read_transition(transition: &Element) -> Result<Transition, S3Error> {
    transition.only(&["Days", "Date", "StorageClass"])?;
    let at = match (transition.number_of("Days")?, read_date(transition)?) {
        (Some(days), None) => TransitionTime::Days(days),
        (None, Some(date)) => TransitionTime::Date(date),
        _ => return Err(S3Error::malformed_xml("Transition has either Days or Date")),
    };
    Ok(Transition { at, storage_class: transition.required("StorageClass")?.leaf()? })
}

fn read_noncurrent_transition(transition: &Element) -> Result<NoncurrentTransition, S3Error> {
    transition.only(&["NoncurrentDays", "NewerNoncurrentVersions", "StorageClass"])?;
    Ok(NoncurrentTransition {
        days: required_number(transition, "NoncurrentDays")?,
        newer_versions: transition.number_of("NewerNoncurrentVersions")?,
        storage_class: transition.required("StorageClass")?.leaf()?,
    })
}

fn write_terms(element: Element, terms: &FilterTerms) -> Element {
    let element = element.with_optional("Prefix", terms.prefix.as_deref());
    terms
        .tags
        .iter()
        .map(Tag::to_element)
        .fold(element, Element::with)
        .with_optional("ObjectSizeGreaterThan", terms.size_greater_than.map(|size| size.to_string()))
        .with_optional("ObjectSizeLessThan", terms.size_less_than.map(|size| size.to_string()))
}

fn write_rule(rule: &LifecycleRule) -> Element {
    let mut element = Element::new("Rule").with_text("ID", &rule.id);
    element = match &rule.scope {
        LifecycleScope::Prefix(prefix) => element.with_text("Prefix", prefix),
        LifecycleScope::Filter(filter) => {
            let own = write_terms(Element::new("Filter"), &filter.own);
            let and = filter.and.as_ref().map(|and| write_terms(Element::new("And"), and));
            element.with(and.into_iter().fold(own, Element::with))
        }
    };
    element = element.with_text("Status", if rule.enabled { "Enabled" } else { "Disabled" });
    if let Some(expiration) = &rule.expiration {
        element = element.with(match expiration {
            Expiration::Days(days) => Element::new("Expiration").with_text("Days", days.to_string()),
            Expiration::Date(date) => Element::new("Expiration").with_text("Date", date.iso8601()),
            Expiration::DeleteMarker(remove) => {
                Element::new("Expiration").with_text("ExpiredObjectDeleteMarker", remove.to_string())
            }
        });
    }
    for Transition { at, storage_class } in &rule.transitions {
        let transition = match at {
            TransitionTime::Days(days) => Element::new("Transition").with_text("Days", days.to_string()),
            TransitionTime::Date(date) => Element::new("Transition").with_text("Date", date.iso8601()),
        };
        element = element.with(transition.with_text("StorageClass", storage_class));
    }
    let noncurrent = |name: &str, days: i64, newer_versions: Option<i64>| {
        Element::new(name)
            .with_text("NoncurrentDays", days.to_string())
            .with_optional("NewerNoncurrentVersions", newer_versions.map(|count| count.to_string()))
    };
    if let Some(NoncurrentExpiration { days, newer_versions }) = rule.noncurrent_expiration {
        element = element.with(noncurrent("NoncurrentVersionExpiration", days, newer_versions));
    }
    for NoncurrentTransition { days, newer_versions, storage_class } in &rule.noncurrent_transitions {
        let transition = noncurrent("NoncurrentVersionTransition", *days, *newer_versions);
        element = element.with(transition.with_text("StorageClass", storage_class));
    }
    if let Some(days) = rule.abort_uploads_days {
        let abort = Element::new("AbortIncompleteMultipartUpload");
        element = element.with(abort.with_text("DaysAfterInitiation", days.to_string()));
    }
    element
}
