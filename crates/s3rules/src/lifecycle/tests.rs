//! Tables of rules, and of what they do.

use super::*;
use crate::error::S3Error;
use crate::tagging::TagSet;
use crate::time::DAY_MS;
use proptest::prelude::*;

fn parse(rules: &str) -> Result<LifecycleConfiguration, S3Error> {
    let document = format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>");
    let classes = ["STANDARD", "COLD", "ICE", "GLACIER"];
    LifecycleConfiguration::from_xml(document.as_bytes(), |class| classes.contains(&class))
}

fn rule(inside: &str) -> String {
    format!("<Rule><Status>Enabled</Status>{inside}</Rule>")
}

/// Rules with the prefix `p/`.
fn configuration(actions: &str) -> LifecycleConfiguration {
    parse(&rule(&format!("<ID>r</ID><Prefix>p/</Prefix>{actions}")))
        .unwrap_or_else(|error| panic!("{error}: {actions}"))
}

fn tags(pairs: &[(&str, &str)]) -> TagSet {
    let tag = |(key, value): &(&str, &str)| Tag { key: (*key).into(), value: (*value).into() };
    TagSet { tags: pairs.iter().map(tag).collect() }
}

const EXPIRES: &str = "<Expiration><Days>1</Days></Expiration>";

#[test]
fn rules_that_s3_takes_come_back() {
    for inside in [
        &format!("<ID>rule1</ID><Prefix>test1/</Prefix>{EXPIRES}")[..],
        "<ID>a</ID><Prefix>p</Prefix><Expiration><Date>2017-09-27T00:00:00.000Z</Date></Expiration>",
        "<ID>a</ID><Filter/><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
        "<ID>a</ID><Filter><Prefix>foo</Prefix></Filter><Expiration><ExpiredObjectDeleteMarker>true\
         </ExpiredObjectDeleteMarker></Expiration><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>\
         </NoncurrentVersionExpiration>",
        &format!(
            "<ID>a</ID><Filter><Prefix>days1/</Prefix><Tag><Key>tom</Key><Value>sawyer</Value></Tag><And>\
         <Prefix>days1</Prefix><Tag><Key>huck</Key><Value>finn</Value></Tag></And></Filter>{EXPIRES}"
        ),
        &format!(
            "<ID>a</ID><Filter><Prefix></Prefix><ObjectSizeGreaterThan>2000</ObjectSizeGreaterThan></Filter>{EXPIRES}"
        ),
        "<ID>a</ID><Prefix>p</Prefix><NoncurrentVersionExpiration><NoncurrentDays>6</NoncurrentDays>\
         <NewerNoncurrentVersions>5</NewerNoncurrentVersions></NoncurrentVersionExpiration><NoncurrentVersionTransition>\
         <NoncurrentDays>2</NoncurrentDays><StorageClass>COLD</StorageClass></NoncurrentVersionTransition>\
         <NoncurrentVersionTransition><NoncurrentDays>4</NoncurrentDays><StorageClass>ICE</StorageClass>\
         </NoncurrentVersionTransition>",
        "<ID>a</ID><Prefix>p</Prefix><Transition><Days>0</Days><StorageClass>COLD</StorageClass></Transition>\
         <AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
    ] {
        let configuration = parse(&rule(inside)).unwrap_or_else(|error| panic!("{error}: {inside}"));
        let again = LifecycleConfiguration::from_xml(configuration.to_xml().as_bytes(), |_| true);
        assert_eq!(again.as_ref(), Ok(&configuration), "{inside}");
    }
    let two = parse(&(rule(&format!("<Prefix>a</Prefix>{EXPIRES}")) + &rule(&format!("<Filter/>{EXPIRES}")))).unwrap();
    assert_eq!([&two.rules[0].id, &two.rules[1].id], ["rule-1", "rule-2"]);
}

#[test]
fn rules_that_s3_does_not_take() {
    let filter = |terms: &str, actions: &str| format!("<Filter>{terms}</Filter>{actions}");
    let prefix = |actions: &str| format!("<Prefix>p</Prefix>{actions}");
    let abort =
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation></AbortIncompleteMultipartUpload>";
    let tag = "<Tag><Key>a</Key><Value>b</Value></Tag>";
    let transition =
        |at: &str, class: &str| format!("<Transition>{at}<StorageClass>{class}</StorageClass></Transition>");
    let noncurrent = |days: &str| format!("<NoncurrentVersionExpiration>{days}</NoncurrentVersionExpiration>");
    let marker = "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>";
    for (inside, code) in [
        (prefix(&format!("<ID>{}</ID>{EXPIRES}", "a".repeat(256))), "InvalidArgument"),
        (format!("{EXPIRES}<Prefix/><Filter/>"), "MalformedXML"),
        (EXPIRES.to_owned(), "MalformedXML"),
        (prefix(""), "InvalidRequest"),
        (prefix("<Expiration/>"), "MalformedXML"),
        (prefix("<Expire/>"), "MalformedXML"),
        (prefix("<Expiration><Days>0</Days></Expiration>"), "InvalidArgument"),
        (prefix("<Expiration><Days>-3</Days></Expiration>"), "InvalidArgument"),
        (prefix("<Expiration><Days>x</Days></Expiration>"), "MalformedXML"),
        (prefix("<Expiration><Days>1</Days><Date>2020-01-01</Date></Expiration>"), "MalformedXML"),
        (prefix("<Expiration><Date>20200101</Date></Expiration>"), "MalformedXML"),
        (prefix("<Expiration><Date>2020-01-01T00:00:01Z</Date></Expiration>"), "InvalidArgument"),
        (filter(tag, marker), "InvalidRequest"),
        (filter(tag, abort), "InvalidRequest"),
        (filter("<ObjectSizeLessThan>5</ObjectSizeLessThan>", abort), "InvalidRequest"),
        (filter("<ObjectSizeGreaterThan>-1</ObjectSizeGreaterThan>", EXPIRES), "InvalidArgument"),
        (
            filter(
                "<And><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan><ObjectSizeLessThan>5</ObjectSizeLessThan></And>",
                EXPIRES,
            ),
            "InvalidRequest",
        ),
        (filter(&format!("<And>{tag}{tag}</And>"), EXPIRES), "InvalidRequest"),
        (filter(&format!("{tag}{tag}"), EXPIRES), "MalformedXML"),
        (filter("<Tag><Key></Key><Value>b</Value></Tag>", EXPIRES), "InvalidTag"),
        (filter("<Owner>a</Owner>", EXPIRES), "MalformedXML"),
        (format!("<Prefix>{}</Prefix>{EXPIRES}", "a".repeat(1025)), "InvalidRequest"),
        (prefix(&noncurrent("<NoncurrentDays>0</NoncurrentDays>")), "InvalidArgument"),
        (prefix(&noncurrent("<NewerNoncurrentVersions>1</NewerNoncurrentVersions>")), "MalformedXML"),
        (
            prefix(&noncurrent(
                "<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>0</NewerNoncurrentVersions>",
            )),
            "InvalidArgument",
        ),
        (
            prefix(&noncurrent(
                "<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>101</NewerNoncurrentVersions>",
            )),
            "InvalidArgument",
        ),
        (prefix(&transition("<Days>1</Days>", "WARM")), "InvalidStorageClass"),
        (prefix(&transition("<Days>-1</Days>", "COLD")), "InvalidArgument"),
        (prefix(&transition("", "COLD")), "MalformedXML"),
        (prefix(&transition("<Date>20220927</Date>", "GLACIER")), "MalformedXML"),
        (prefix(&transition("<Date>2022-09-27T10:00:00Z</Date>", "GLACIER")), "InvalidArgument"),
        (prefix(&transition("<Days>1</Days>", "COLD").repeat(2)), "InvalidRequest"),
        (
            prefix(&(transition("<Days>1</Days>", "COLD") + &transition("<Date>2022-09-27</Date>", "ICE"))),
            "InvalidRequest",
        ),
        (prefix(&(transition("<Date>2022-09-27</Date>", "ICE") + EXPIRES)), "InvalidRequest"),
        (prefix(&(transition("<Days>1</Days>", "COLD") + EXPIRES)), "InvalidArgument"),
        (
            prefix(&format!(
                "{}<NoncurrentVersionTransition><NoncurrentDays>3</NoncurrentDays><StorageClass>COLD\
            </StorageClass></NoncurrentVersionTransition>",
                noncurrent("<NoncurrentDays>3</NoncurrentDays>")
            )),
            "InvalidArgument",
        ),
        (
            prefix(
                "<AbortIncompleteMultipartUpload><DaysAfterInitiation>0</DaysAfterInitiation>\
            </AbortIncompleteMultipartUpload>",
            ),
            "InvalidArgument",
        ),
    ] {
        assert_eq!(parse(&rule(&inside)).expect_err(&inside).code.name(), code, "{inside}");
    }
    let good = rule(&prefix(EXPIRES));
    for status in ["enabled", "disabled", "invalid", ""] {
        assert_eq!(parse(&good.replace("Enabled", status)).unwrap_err().code.name(), "MalformedXML", "{status}");
    }
    let named = rule(&format!("<ID>rule1</ID>{}", prefix(EXPIRES)));
    for (rules, code) in
        [(named.repeat(2), "InvalidArgument"), (String::new(), "MalformedXML"), (good.repeat(1001), "MalformedXML")]
    {
        assert_eq!(parse(&rules).unwrap_err().code.name(), code);
    }
    assert_eq!(parse(&good.repeat(1000)).unwrap().rules.len(), 1000);
}

/// Action on a version some debug days of ten seconds after it was written.
fn after(configuration: &LifecycleConfiguration, version: VersionFacts<'_>, days: i64) -> String {
    let now = version.modified.plus_ms(days * 10_000);
    let due = configuration.due(&version, &LifecycleClock { now, debug_day_s: Some(10) });
    match due.map(|due| due.action) {
        None => "keep".into(),
        Some(LifecycleAction::Expire) => "expire".into(),
        Some(LifecycleAction::RemoveVersion) => "remove".into(),
        Some(LifecycleAction::Transition(class)) => class.into(),
    }
}

fn version<'a>(tags: &'a TagSet, state: VersionState) -> VersionFacts<'a> {
    VersionFacts {
        key: "p/k",
        size_bytes: 1000,
        tags,
        storage_class: "STANDARD",
        modified: UnixMillis(1_000_000_000),
        state,
    }
}

#[test]
fn current_versions() {
    let none = TagSet::default();
    let current = version(&none, VersionState::Current);
    let expires = configuration("<Expiration><Days>5</Days></Expiration>");
    let moves = configuration(
        "<Transition><Days>1</Days><StorageClass>COLD</StorageClass></Transition>\
         <Transition><Days>7</Days><StorageClass>ICE</StorageClass></Transition><Expiration><Days>9</Days></Expiration>",
    );
    let past = configuration("<Expiration><Date>1970-01-01</Date></Expiration>");
    let future = configuration("<Expiration><Date>2100-01-01</Date></Expiration>");
    let disabled = parse(&rule(&format!("<Prefix>p/</Prefix>{EXPIRES}")).replace("Enabled", "Disabled")).unwrap();
    for (rules, class, key, days, action) in [
        (&expires, "STANDARD", "p/k", 4, "keep"),
        (&expires, "STANDARD", "p/k", 5, "expire"),
        (&expires, "STANDARD", "q/k", 5, "keep"),
        (&disabled, "STANDARD", "p/k", 5, "keep"),
        (&past, "STANDARD", "p/k", 0, "expire"),
        (&future, "STANDARD", "p/k", 1000, "keep"),
        (&moves, "STANDARD", "p/k", 0, "keep"),
        (&moves, "STANDARD", "p/k", 1, "COLD"),
        (&moves, "COLD", "p/k", 2, "keep"),
        (&moves, "COLD", "p/k", 7, "ICE"),
        (&moves, "STANDARD", "p/k", 8, "ICE"),
        (&moves, "ICE", "p/k", 8, "keep"),
        (&moves, "ICE", "p/k", 9, "expire"),
    ] {
        let facts = VersionFacts { storage_class: class, key, ..current };
        assert_eq!(after(rules, facts, days), action, "{class} {key} {days}");
    }
}

#[test]
fn filters() {
    let tom = tags(&[("tom", "sawyer")]);
    let both = tags(&[("tom", "sawyer"), ("huck", "finn")]);
    let by_tags = "<Filter><Prefix>p/</Prefix><Tag><Key>tom</Key><Value>sawyer</Value></Tag><And><Prefix>p</Prefix>\
        <Tag><Key>huck</Key><Value>finn</Value></Tag></And></Filter>";
    let greater = "<Filter><Prefix></Prefix><ObjectSizeGreaterThan>2000</ObjectSizeGreaterThan></Filter>";
    let less = "<Filter><Prefix></Prefix><ObjectSizeLessThan>2000</ObjectSizeLessThan></Filter>";
    for (filter, tags, size_bytes, action) in [
        (by_tags, &tom, 1, "keep"),
        (by_tags, &both, 1, "expire"),
        (greater, &tom, 1000, "keep"),
        (greater, &tom, 2000, "keep"),
        (greater, &tom, 3000, "expire"),
        (less, &tom, 1000, "expire"),
        (less, &tom, 2000, "keep"),
        ("<Filter/>", &tom, 0, "expire"),
    ] {
        let rules = parse(&rule(&format!("{filter}{EXPIRES}"))).unwrap();
        let facts = VersionFacts { size_bytes, ..version(tags, VersionState::Current) };
        assert_eq!(after(&rules, facts, 3), action, "{filter} {size_bytes}");
    }
}

#[test]
fn noncurrent_versions_and_markers() {
    let none = TagSet::default();
    let at = UnixMillis(1_000_000_000);
    let noncurrent = |newer| VersionState::Noncurrent { since: at, newer, delete_marker: false };
    let keeps_five = configuration(
        "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>5\
         </NewerNoncurrentVersions></NoncurrentVersionExpiration>",
    );
    let moves = configuration(
        "<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays><StorageClass>COLD</StorageClass>\
         </NoncurrentVersionTransition><NoncurrentVersionTransition><NoncurrentDays>5</NoncurrentDays>\
         <StorageClass>ICE</StorageClass></NoncurrentVersionTransition><NoncurrentVersionExpiration>\
         <NoncurrentDays>9</NoncurrentDays></NoncurrentVersionExpiration>",
    );
    let days = configuration("<Expiration><Days>5</Days></Expiration>");
    let markers = configuration("<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>");
    let no_markers =
        configuration("<Expiration><ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker></Expiration>");
    for (rules, state, days, action) in [
        (&keeps_five, noncurrent(4), 100, "keep"),
        (&keeps_five, noncurrent(5), 0, "keep"),
        (&keeps_five, noncurrent(5), 1, "remove"),
        (&keeps_five, VersionState::Current, 100, "keep"),
        (&moves, noncurrent(0), 1, "COLD"),
        (&moves, noncurrent(0), 5, "ICE"),
        (&moves, noncurrent(0), 9, "remove"),
        (&moves, VersionState::Noncurrent { since: at, newer: 0, delete_marker: true }, 5, "keep"),
        (&moves, VersionState::Noncurrent { since: at, newer: 0, delete_marker: true }, 9, "remove"),
        (&moves, VersionState::Current, 9, "keep"),
        (&days, noncurrent(0), 9, "keep"),
        (&days, VersionState::CurrentMarker { alone: false }, 9, "keep"),
        (&days, VersionState::CurrentMarker { alone: true }, 4, "keep"),
        (&days, VersionState::CurrentMarker { alone: true }, 5, "remove"),
        (&markers, VersionState::CurrentMarker { alone: true }, 0, "remove"),
        (&markers, VersionState::CurrentMarker { alone: false }, 9, "keep"),
        (&markers, VersionState::Current, 9, "keep"),
        (&no_markers, VersionState::CurrentMarker { alone: true }, 9, "keep"),
    ] {
        assert_eq!(after(rules, version(&none, state), days), action, "{state:?} {days}");
    }
    let tagged = parse(&rule(&format!("<Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>{EXPIRES}"))).unwrap();
    let marker = version(&none, VersionState::CurrentMarker { alone: true });
    assert_eq!(after(&tagged, marker, 9), "keep", "delete markers have no tags");
    let small = "<Filter><ObjectSizeLessThan>5</ObjectSizeLessThan></Filter>";
    let small = parse(&rule(&format!("{small}{EXPIRES}"))).unwrap();
    assert_eq!(after(&small, VersionFacts { size_bytes: 0, ..marker }, 9), "keep", "delete markers have no size");
}

#[test]
fn real_days_end_at_midnight() {
    let none = TagSet::default();
    let rules = configuration("<Expiration><Days>1</Days></Expiration>");
    let modified = UnixMillis::parse("2026-11-27T10:30:00Z").unwrap();
    let facts = VersionFacts { modified, ..version(&none, VersionState::Current) };
    let due = |now: &str| {
        let clock = LifecycleClock { now: UnixMillis::parse(now).unwrap(), debug_day_s: None };
        rules.due(&facts, &clock).is_some()
    };
    assert!(!due("2026-11-28T10:30:00Z") && !due("2026-11-28T23:59:59.999Z") && due("2026-11-29"));
    let header = rules.expiration_header(&facts).unwrap();
    assert_eq!(header, "expiry-date=\"Sun, 29 Nov 2026 00:00:00 GMT\", rule-id=\"r\"");
    let midnight = VersionFacts { modified: UnixMillis(0), ..facts };
    assert!(rules.expiration_header(&midnight).unwrap().contains("Fri, 02 Jan 1970 00:00:00 GMT"));
    let other = VersionFacts { key: "q", ..facts };
    assert_eq!(rules.expiration_header(&other), None);
    assert_eq!(
        rules.expiration_header(&VersionFacts { state: VersionState::CurrentMarker { alone: true }, ..facts }),
        None
    );
}

#[test]
fn the_earliest_rule_is_named() {
    let none = TagSet::default();
    let expires = |id: &str, days: i64| {
        rule(&format!("<ID>{id}</ID><Prefix>p/</Prefix><Expiration><Days>{days}</Days></Expiration>"))
    };
    let rules = parse(&(expires("late", 3) + &expires("early one", 2))).unwrap();
    let facts = version(&none, VersionState::Current);
    assert!(rules.expiration_header(&facts).unwrap().ends_with("rule-id=\"early%20one\""));
    let clock = LifecycleClock { now: facts.modified.plus_ms(9 * DAY_MS), debug_day_s: None };
    assert_eq!(rules.due(&facts, &clock).map(|due| due.rule_id), Some("early one"));
}

#[test]
fn uploads_are_given_up() {
    let abort = |id: &str, prefix: &str, days: i64| {
        rule(&format!(
            "<ID>{id}</ID><Prefix>{prefix}</Prefix><AbortIncompleteMultipartUpload><DaysAfterInitiation>{days}\
             </DaysAfterInitiation></AbortIncompleteMultipartUpload>"
        ))
    };
    let rules = parse(&(abort("a", "test1/", 2) + &abort("b", "test1/x", 1) + &abort("c", "test2/", 5))).unwrap();
    let begin = UnixMillis(0);
    for (key, days, rule) in [
        ("test1/a", 1, None),
        ("test1/a", 2, Some("a")),
        ("test1/x", 1, Some("b")),
        ("test2/a", 4, None),
        ("test2/a", 5, Some("c")),
        ("other", 9, None),
    ] {
        let clock = LifecycleClock { now: begin.plus_ms(days * 10_000), debug_day_s: Some(10) };
        assert_eq!(rules.upload_due(key, begin, &clock), rule, "{key} {days}");
    }
}

proptest! {
    #[test]
    fn no_change_of_a_document_ends_the_reader(at in 0usize..300, piece in "[<>/a&;0-9]{0,3}", cut in 0usize..5) {
        let text = configuration(
            "<Transition><Days>1</Days><StorageClass>COLD</StorageClass></Transition><Expiration><Days>9</Days></Expiration>",
        ).to_xml();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        let changed = format!("{}{piece}{}", &text[..at], &text[end..]);
        let _ = LifecycleConfiguration::from_xml(changed.as_bytes(), |_| true);
    }

    #[test]
    fn what_is_due_stays_due(first in 1i64..9, second in 10i64..20, expires in 21i64..30, days in 0i64..40) {
        let none = TagSet::default();
        let rules = configuration(&format!(
            "<Transition><Days>{first}</Days><StorageClass>COLD</StorageClass></Transition>\
             <Transition><Days>{second}</Days><StorageClass>ICE</StorageClass></Transition>\
             <Expiration><Days>{expires}</Days></Expiration>"
        ));
        let place = |day: i64| match after(&rules, version(&none, VersionState::Current), day).as_str() {
            "keep" => 0,
            "COLD" => 1,
            "ICE" => 2,
            _ => 3,
        };
        prop_assert!(place(days) <= place(days + 1));
        prop_assert_eq!(place(days), i32::from(days >= first) + i32::from(days >= second) + i32::from(days >= expires));
    }
}

#[test]
fn keys_that_are_worth_a_look() {
    let of = |rules: &[&str]| parse(&rules.iter().map(|inside| rule(inside)).collect::<String>()).unwrap();
    let with = |prefix: &str| format!("<Prefix>{prefix}</Prefix>{EXPIRES}");
    for (prefixes, common) in [
        (&["a/b/c"][..], "a/b/c"),
        (&["a/b", "a/c"], "a/"),
        (&["a/b", "a/b/c"], "a/b"),
        (&["aé", "aè"], "a"),
        (&["a", "b"], ""),
        (&["a", ""], ""),
    ] {
        let rules: Vec<String> = prefixes.iter().map(|prefix| with(prefix)).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        assert_eq!(of(&rules).common_prefix().as_deref(), Some(common), "{prefixes:?}");
    }
    let mut off = of(&[&with("a")]);
    off.rules[0].enabled = false;
    assert_eq!((off.common_prefix(), off.aborts_uploads(), off.looks_at_tags()), (None, false, false));
    let filtered = of(&[&format!(
        "<Filter><Prefix>p</Prefix><Tag><Key>a</Key><Value>b</Value></Tag><And><Prefix>p/q</Prefix><Tag><Key>c</Key>\
         <Value>d</Value></Tag></And></Filter>{EXPIRES}"
    )]);
    assert_eq!(filtered.common_prefix().as_deref(), Some("p/q"));
    assert!(filtered.looks_at_tags() && !filtered.whatever_tags().looks_at_tags());
    assert!(!of(&[&with("a")]).looks_at_tags());
    let abort = "<Filter/><AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation>\
                 </AbortIncompleteMultipartUpload>";
    assert!(of(&[abort]).aborts_uploads() && !of(&[&with("a")]).aborts_uploads());
}
