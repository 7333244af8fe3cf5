//! Tables of policies and what they say.

use super::*;
use proptest::prelude::*;

fn ann() -> Identity {
    user("", "ann")
}

fn user(tenant: &str, name: &str) -> Identity {
    Identity::User(UserIdentity {
        account: name.into(),
        tenant: tenant.into(),
        name: name.into(),
        root: true,
        operator: false,
    })
}

fn bucket_policy(text: &str) -> Policy {
    Policy::parse(text, PolicyKind::Bucket, "").unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A policy of one statement that allows `GetObject` on bucket `b` to everybody under a condition.
fn conditional(condition: &str) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":{{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",
        "Resource":"arn:aws:s3:::b/*","Condition":{condition}}}}}"#
    )
}

fn context(values: &[(&str, &str)]) -> Context {
    let mut context = Context::default();
    for (key, value) in values {
        context.add(key, *value);
    }
    context
}

fn verdict(policy: &Policy, identity: &Identity, action: Action, key: &str, context: &Context) -> Verdict {
    let resource = match key {
        "" => ResourceArn::bucket("", "b"),
        key => ResourceArn::object("", "b", key),
    };
    policy.evaluate(&PolicyRequest { identity, action, resource: &resource, context })
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Allow(_) => "allow",
        Verdict::Deny(_) => "deny",
        Verdict::Default => "default",
    }
}

#[test]
fn every_operator_compares_as_its_name_says() {
    // Operator, value of the policy, value of the request (`-` for an absent key), whether the condition holds.
    let string = "s3:prefix";
    let number = "s3:max-keys";
    let date = "aws:CurrentTime";
    let flag = "aws:SecureTransport";
    let address = "aws:SourceIp";
    let arn = "aws:SourceArn";
    for (operator, key, expected, given, holds) in [
        ("StringEquals", string, r#""a""#, "a", true),
        ("StringEquals", string, r#""a""#, "A", false),
        ("StringEquals", string, r#""a*""#, "ab", false),
        ("StringEquals", string, r#"["x","a"]"#, "a", true),
        ("StringEquals", string, r#""a""#, "-", false),
        ("StringEqualsIfExists", string, r#""a""#, "-", true),
        ("StringEqualsIfExists", string, r#""a""#, "b", false),
        ("StringNotEquals", string, r#""a""#, "b", true),
        ("StringNotEquals", string, r#"["a","b"]"#, "b", false),
        ("StringNotEquals", string, r#""a""#, "-", true),
        ("StringEqualsIgnoreCase", string, r#""aB""#, "Ab", true),
        ("StringEqualsIgnoreCase", string, r#""a""#, "b", false),
        ("StringNotEqualsIgnoreCase", string, r#""a""#, "A", false),
        ("StringNotEqualsIgnoreCase", string, r#""a""#, "b", true),
        ("StringLike", string, r#""a*""#, "ab", true),
        ("StringLike", string, r#""a?""#, "a", false),
        ("StringNotLike", string, r#""a*""#, "ab", false),
        ("StringNotLike", string, r#""a*""#, "b", true),
        ("NumericEquals", number, r#""10""#, "10.0", true),
        ("NumericEquals", number, "10", "11", false),
        ("NumericEquals", number, "10", "ten", false),
        ("NumericNotEquals", number, "10", "11", true),
        ("NumericNotEquals", number, "10", "10", false),
        ("NumericLessThan", number, "10", "9", true),
        ("NumericLessThan", number, "10", "10", false),
        ("NumericLessThanEquals", number, "10", "10", true),
        ("NumericLessThanEquals", number, "10", "11", false),
        ("NumericGreaterThan", number, "10", "11", true),
        ("NumericGreaterThan", number, "10", "10", false),
        ("NumericGreaterThanEquals", number, "10", "10", true),
        ("NumericGreaterThanEquals", number, "-1", "-2", false),
        ("NumericGreaterThanEqualsIfExists", number, "10", "-", true),
        ("DateEquals", date, r#""2026-01-01T00:00:00Z""#, "2026-01-01T01:00:00+01:00", true),
        ("DateEquals", date, r#""1767225600""#, "2026-01-01", true),
        ("DateNotEquals", date, r#""2026-01-01""#, "2026-01-01", false),
        ("DateNotEquals", date, r#""2026-01-01""#, "2026-01-02", true),
        ("DateLessThan", date, r#""2026-01-01""#, "2025-12-31", true),
        ("DateLessThan", date, r#""2026-01-01""#, "2026-01-01", false),
        ("DateLessThanEquals", date, r#""2026-01-01""#, "2026-01-01", true),
        ("DateLessThanEquals", date, r#""2026-01-01""#, "2026-01-02", false),
        ("DateGreaterThan", date, r#""2026-01-01""#, "2026-01-01T00:00:00.001Z", true),
        ("DateGreaterThan", date, r#""2026-01-01""#, "2026-01-01", false),
        ("DateGreaterThanEquals", date, r#""2026-01-01""#, "2026-01-01", true),
        ("DateGreaterThanEquals", date, r#""2026-01-01""#, "2025-01-01", false),
        ("Bool", flag, r#""true""#, "true", true),
        ("Bool", flag, "false", "true", false),
        ("Bool", flag, "true", "-", false),
        ("BoolIfExists", flag, "true", "-", true),
        ("BinaryEquals", string, r#""QUJD""#, "QUJD", true),
        ("BinaryEquals", string, r#""QUJD""#, "QUJE", false),
        ("BinaryEquals", string, r#""QUJD""#, "not base64", false),
        ("IpAddress", address, r#""10.0.0.0/8""#, "10.1.2.3", true),
        ("IpAddress", address, r#"["10.0.0.0/8","2001:db8::/32"]"#, "2001:db8::1", true),
        ("IpAddress", address, r#""10.0.0.0/8""#, "11.1.2.3", false),
        ("IpAddress", address, r#""10.0.0.0/8""#, "nowhere", false),
        ("NotIpAddress", address, r#""10.0.0.0/8""#, "11.1.2.3", true),
        ("NotIpAddress", address, r#""10.0.0.0/8""#, "10.1.2.3", false),
        ("NotIpAddress", address, r#""10.0.0.0/8""#, "-", true),
        ("ArnEquals", arn, r#""arn:aws:s3:::b*""#, "arn:aws:s3:::bx", true),
        ("ArnEquals", arn, r#""arn:aws:s3:::b""#, "arn:aws:s3:::c", false),
        ("ArnLike", arn, r#""arn:aws:*:::b""#, "arn:aws:sns:::b", true),
        ("ArnLike", arn, r#""arn:aws:*::b:b""#, "arn:aws:sns:::b", false),
        ("ArnNotEquals", arn, r#""arn:aws:s3:::b""#, "arn:aws:s3:::b", false),
        ("ArnNotLike", arn, r#""arn:aws:s3:::b*""#, "arn:aws:s3:::c", true),
        ("Null", string, "true", "-", true),
        ("Null", string, "true", "a", false),
        ("Null", string, r#""false""#, "a", true),
        ("Null", string, r#""false""#, "-", false),
        ("Null", string, r#"["true","false"]"#, "a", true),
    ] {
        let policy = bucket_policy(&conditional(&format!(r#"{{"{operator}":{{"{key}":{expected}}}}}"#)));
        let context = if given == "-" { Context::default() } else { context(&[(key, given)]) };
        let allowed = verdict(&policy, &ann(), Action::GetObject, "k", &context) != Verdict::Default;
        assert_eq!(allowed, holds, "{operator} {expected} {given}");
    }
}

#[test]
fn keys_with_several_values() {
    let key = "s3:RequestObjectTagKeys";
    for (operator, given, holds) in [
        ("ForAllValues:StringEquals", &["a", "b"][..], true),
        ("ForAllValues:StringEquals", &["a", "c"], false),
        ("ForAllValues:StringEquals", &[], true),
        ("ForAllValues:StringNotEquals", &["c", "d"], true),
        ("ForAllValues:StringNotEquals", &["a", "d"], false),
        ("ForAnyValue:StringEquals", &["c", "b"], true),
        ("ForAnyValue:StringEquals", &["c"], false),
        ("ForAnyValue:StringEquals", &[], false),
        ("ForAnyValue:StringEqualsIfExists", &[], true),
        ("ForAnyValue:StringNotEquals", &["a", "d"], true),
        ("ForAnyValue:StringNotEquals", &["a", "b"], false),
        ("ForAnyValue:StringNotEquals", &[], false),
        ("StringEquals", &["c", "a"], true),
        ("StringNotEquals", &["c", "a"], false),
    ] {
        let policy = bucket_policy(&conditional(&format!(r#"{{"{operator}":{{"{key}":["a","b"]}}}}"#)));
        let values: Vec<(&str, &str)> = given.iter().map(|value| (key, *value)).collect();
        let allowed = verdict(&policy, &ann(), Action::GetObject, "k", &context(&values)) != Verdict::Default;
        assert_eq!(allowed, holds, "{operator} {given:?}");
    }
}

#[test]
fn all_conditions_must_hold() {
    let policy = bucket_policy(&conditional(
        r#"{"StringEquals":{"s3:prefix":"a","s3:delimiter":"/"},"Bool":{"aws:SecureTransport":"true"}}"#,
    ));
    let all = [("s3:prefix", "a"), ("s3:delimiter", "/"), ("aws:SecureTransport", "true")];
    assert_eq!(word(&verdict(&policy, &ann(), Action::GetObject, "k", &context(&all))), "allow");
    for left_out in 0..3 {
        let mut some = all.to_vec();
        some.remove(left_out);
        assert_eq!(word(&verdict(&policy, &ann(), Action::GetObject, "k", &context(&some))), "default", "{some:?}");
    }
}

#[test]
fn variables_have_values_since_2012() {
    let text = conditional(r#"{"StringLike":{"s3:prefix":["${aws:username}/*","${aws:PrincipalTag/team, 'none'}"]}}"#);
    let policy = bucket_policy(&text);
    for (values, answer) in [
        (&[("aws:username", "ann"), ("s3:prefix", "ann/x")][..], "allow"),
        (&[("aws:username", "ann"), ("s3:prefix", "bob/x")], "default"),
        (&[("aws:username", "*"), ("s3:prefix", "bob/x")], "default"),
        (&[("s3:prefix", "/x")], "default"),
        (&[("s3:prefix", "none")], "allow"),
        (&[("aws:PrincipalTag/team", "red"), ("s3:prefix", "red")], "allow"),
        (&[("aws:PrincipalTag/team", "red"), ("s3:prefix", "none")], "default"),
    ] {
        assert_eq!(word(&verdict(&policy, &ann(), Action::GetObject, "k", &context(values))), answer, "{values:?}");
    }
    let old = bucket_policy(&text.replace("2012-10-17", "2008-10-17"));
    let values = [("aws:username", "ann"), ("s3:prefix", "ann/x")];
    assert_eq!(word(&verdict(&old, &ann(), Action::GetObject, "k", &context(&values))), "default");
    let literal = [("s3:prefix", "${aws:username}/x")];
    assert_eq!(word(&verdict(&old, &ann(), Action::GetObject, "k", &context(&literal))), "allow");
}

#[test]
fn resources_that_are_left_out_stay_so_without_a_value() {
    for (effect, values, key, answer) in [
        ("Allow", &[("aws:username", "ann")][..], "home/ann/x", "default"),
        ("Allow", &[("aws:username", "ann")], "home/bob/x", "allow"),
        ("Allow", &[], "home/bob/x", "default"),
        ("Deny", &[("aws:username", "ann")], "home/ann/x", "default"),
        ("Deny", &[("aws:username", "ann")], "home/bob/x", "deny"),
        ("Deny", &[], "home/bob/x", "deny"),
    ] {
        let policy = bucket_policy(&format!(
            r#"{{"Version":"2012-10-17","Statement":{{"Effect":"{effect}","Principal":"*","Action":"s3:GetObject",
            "NotResource":"arn:aws:s3:::b/home/${{aws:username}}/*"}}}}"#
        ));
        let verdict = verdict(&policy, &ann(), Action::GetObject, key, &context(values));
        assert_eq!(word(&verdict), answer, "{effect} {values:?} {key}");
    }
}

const LAYERED: &str = r#"{"Version":"2012-10-17","Id":"x","Statement":[
    {"Sid":"read","Effect":"Allow","Principal":{"AWS":["arn:aws:iam:::user/ann","arn:aws:iam:::user/bob"]},
     "Action":["s3:GetObject","s3:ListBucket"],"Resource":["arn:aws:s3:::b","arn:aws:s3:::b/*"]},
    {"Sid":"secret","Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::b/secret/*"},
    {"Sid":"others","Effect":"Deny","NotPrincipal":{"AWS":["arn:aws:iam:::user/ann","arn:aws:iam:::user/bob"]},
     "NotAction":"s3:GetObject","NotResource":"arn:aws:s3:::b/open/*"},
    {"Sid":"canonical","Effect":"Allow","Principal":{"CanonicalUser":"carl"},"Action":"s3:Get*",
     "Resource":"arn:aws:s3:::b/*"}]}"#;

#[test]
fn statements_are_layered_and_deny_overrides() {
    let policy = bucket_policy(LAYERED);
    for (identity, action, key, answer, sid) in [
        (ann(), Action::GetObject, "k", "allow", "read"),
        (ann(), Action::ListBucket, "", "allow", "read"),
        (ann(), Action::PutObject, "k", "default", ""),
        (ann(), Action::GetObject, "secret/k", "deny", "secret"),
        (user("", "bob"), Action::GetObject, "k", "allow", "read"),
        (user("t", "ann"), Action::GetObject, "k", "default", ""),
        (user("t", "ann"), Action::PutObject, "k", "deny", "others"),
        (user("t", "ann"), Action::PutObject, "open/k", "default", ""),
        (user("", "carl"), Action::GetObject, "k", "allow", "canonical"),
        (user("", "carl"), Action::GetObjectTagging, "k", "deny", "others"),
        (user("", "carl"), Action::GetObjectTagging, "open/k", "allow", "canonical"),
        (Identity::Anonymous, Action::GetObject, "k", "default", ""),
        (Identity::Anonymous, Action::ListBucket, "", "deny", "others"),
    ] {
        let verdict = verdict(&policy, &identity, action, key, &Context::default());
        assert_eq!(word(&verdict), answer, "{identity:?} {action:?} {key}");
        match verdict {
            Verdict::Allow(statement) | Verdict::Deny(statement) => assert_eq!(statement.sid.as_deref(), Some(sid)),
            Verdict::Default => {}
        }
    }
}

#[test]
fn resources_are_in_the_tenant_of_the_bucket() {
    let text = conditional("{}");
    let policy = Policy::parse(&text, PolicyKind::Bucket, "t").unwrap();
    for (tenant, answer) in [("t", "allow"), ("", "default"), ("u", "default")] {
        let resource = ResourceArn::object(tenant, "b", "k");
        let request = PolicyRequest {
            identity: &ann(),
            action: Action::GetObject,
            resource: &resource,
            context: &Context::default(),
        };
        assert_eq!(word(&policy.evaluate(&request)), answer, "{tenant}");
    }
    let of_another = text.replace("arn:aws:s3:::b", "arn:aws:s3::u:b");
    assert!(Policy::parse(&of_another, PolicyKind::Bucket, "t").is_err());
    assert!(Policy::parse(&of_another, PolicyKind::Bucket, "u").is_ok());
}

#[test]
fn policies_that_are_none_are_refused_with_a_sentence() {
    let statement = |members: &str| format!(r#"{{"Version":"2012-10-17","Statement":[{{{members}}}]}}"#);
    let full = |extra: &str| {
        statement(&format!(
            r#""Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"{extra}"#
        ))
    };
    assert!(Policy::parse(&full(""), PolicyKind::Bucket, "").is_ok());
    let rest = r#""Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*""#;
    for (text, sentence) in [
        (String::new(), "Policies must be valid JSON"),
        (format!(" {}", full("")), "the first byte must be '{'"),
        ("[]".into(), "Policies must be valid JSON"),
        ("{".into(), "Policies must be valid JSON"),
        (format!("{} x", full("")), "Policies must be valid JSON"),
        ("{}".into(), "Missing required field Statement"),
        (r#"{"Statement":[]}"#.into(), "Statement is empty"),
        (r#"{"Statement":["x"]}"#.into(), "A statement must be an object"),
        (full("").replace("2012-10-17", "2012-10-18"), "valid version string"),
        (full("").replace(r#""2012-10-17""#, "2012"), "Version must be a string"),
        (full("").replace(r#""Version""#, r#""version""#), "Unknown field version"),
        (full(r#","Extra":1"#), "Unknown field Extra"),
        (full(r#","Effect":"Deny""#), "Field Effect stands twice"),
        (full("").replace("Allow", "allow"), "Invalid effect: allow"),
        (statement(&format!(r#""Principal":"*",{rest}"#)), "Missing required field Effect"),
        (statement(&format!(r#""Effect":"Allow",{rest}"#)), "Missing required field Principal"),
        (full("").replace(r#""Action""#, r#""action""#), "Unknown field action"),
        (full(r#","NotAction":"s3:GetObject""#), "Action and NotAction exclude each other"),
        (full(r#","NotResource":"arn:aws:s3:::b""#), "Resource and NotResource exclude each other"),
        (full("").replace("s3:GetObject", "s3:Fly"), "Policy has invalid action"),
        (full("").replace(r#""s3:GetObject""#, "[]"), "Policy has invalid action"),
        (full("").replace("arn:aws:s3:::b/*", "b/*"), "Policy has invalid resource"),
        (full("").replace("arn:aws:s3:::b/*", "arn:aws:sns:::b"), "Policy has invalid resource"),
        (full("").replace("b/*", "b/${aws"), "Policy has invalid resource"),
        (full("").replace(r#""Principal":"*""#, r#""Principal":"ann""#), "Invalid principal"),
        (full("").replace(r#""Principal":"*""#, r#""Principal":{}"#), "Invalid principal"),
        (full("").replace(r#""Principal":"*""#, r#""Principal":{"AWS":[]}"#), "Invalid principal"),
        (full("").replace(r#""Principal":"*""#, r#""Principal":{"User":"x"}"#), "Invalid principal"),
        (full("").replace(r#""Principal":"*""#, r#""NotPrincipal":"*""#), "Allow with NotPrincipal"),
        (full(r#","Condition":[]"#), "Condition must be an object"),
        (full(r#","Condition":{"StringSimilar":{"s3:prefix":"a"}}"#), "Invalid Condition type : StringSimilar"),
        (full(r#","Condition":{"stringequals":{"s3:prefix":"a"}}"#), "Invalid Condition type : stringequals"),
        (full(r#","Condition":{"ForSome:StringEquals":{"s3:prefix":"a"}}"#), "Invalid Condition type"),
        (full(r#","Condition":{"NullIfExists":{"s3:prefix":"true"}}"#), "Invalid Condition type"),
        (full(r#","Condition":{"StringEquals":{"s3:suffix":"a"}}"#), "invalid condition key: s3:suffix"),
        (full(r#","Condition":{"StringEquals":{"s3:prefix":{}}}"#), "Invalid value of condition key s3:prefix"),
        (full(r#","Condition":{"StringEquals":{"s3:prefix":[]}}"#), "Invalid value of condition key s3:prefix"),
        (full(r#","Condition":{"NumericEquals":{"s3:max-keys":"x"}}"#), "Invalid value of condition key s3:max-keys"),
        (full(r#","Condition":{"DateEquals":{"aws:CurrentTime":"2026"}}"#), "Invalid value of condition key"),
        (full(r#","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/40"}}"#), "Invalid value of condition key"),
        (full(r#","Condition":{"Bool":{"aws:SecureTransport":"yes"}}"#), "Invalid value of condition key"),
        (full(r#","Condition":{"BinaryEquals":{"s3:prefix":"Q"}}"#), "Invalid value of condition key"),
        (full(r#","Condition":{"ArnLike":{"aws:SourceArn":"b"}}"#), "Invalid value of condition key"),
        (
            format!(
                r#"{{"Statement":[{0},{0}]}}"#,
                r#"{"Sid":"a","Effect":"Deny","Principal":"*","Action":"*","Resource":"*"}"#
            ),
            "must be unique",
        ),
        (full(&format!(r#","Sid":"{}""#, "a".repeat(POLICY_BYTES_MAX))), "not be longer than 20480 bytes"),
    ] {
        let error = Policy::parse(&text, PolicyKind::Bucket, "").expect_err(&text);
        assert_eq!(error.code.name(), "MalformedPolicy");
        assert!(error.message.contains(sentence), "{error} {text}");
    }
}

#[test]
fn policies_of_users_name_nobody_and_other_services() {
    let text = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["s3:*","iam:ListUsers"],
        "Resource":["arn:aws:s3:::b/*","arn:aws:iam:::user/x"]}}"#;
    let policy = Policy::parse(text, PolicyKind::User, "").unwrap();
    assert_eq!(word(&verdict(&policy, &ann(), Action::PutObject, "k", &Context::default())), "allow");
    assert_eq!(word(&verdict(&policy, &ann(), Action::ListBucket, "", &Context::default())), "default");
    assert!(Policy::parse(text, PolicyKind::Bucket, "").is_err());
    let with_principal = text.replace(r#""Effect""#, r#""Principal":"*","Effect""#);
    assert!(Policy::parse(&with_principal, PolicyKind::User, "").is_err());
}

#[test]
fn public_policies() {
    for (condition, public) in [
        ("{}", true),
        (r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/32"}}"#, false),
        (r#"{"IpAddress":{"aws:SourceIp":["10.0.0.0/8","2001:db8::/32"]}}"#, false),
        (r#"{"IpAddress":{"aws:SourceIp":["10.0.0.0/8","0.0.0.0/1"]}}"#, true),
        (r#"{"IpAddressIfExists":{"aws:SourceIp":"10.0.0.0/8"}}"#, true),
        (r#"{"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#, true),
        (r#"{"StringEquals":{"aws:SourceVpc":"vpc-91237329"}}"#, false),
        (r#"{"StringLike":{"aws:SourceVpc":"vpc-*"}}"#, true),
        (r#"{"StringEquals":{"aws:SourceVpc":"${aws:username}"}}"#, true),
        (r#"{"ForAllValues:StringEquals":{"aws:SourceVpc":"vpc-1"}}"#, true),
        (r#"{"ForAnyValue:StringEquals":{"aws:PrincipalOrgPaths":"o/r/ou"}}"#, false),
        (r#"{"StringNotEquals":{"aws:SourceVpc":"vpc-1"}}"#, true),
        (r#"{"StringEquals":{"s3:prefix":"a"}}"#, true),
        (r#"{"StringLike":{"aws:Referer":"http://www.example.com/*"}}"#, true),
        (r#"{"ArnEquals":{"aws:SourceArn":"arn:aws:sns:us-east-1:123456789012:t"}}"#, false),
        (r#"{"ArnLike":{"aws:SourceArn":"arn:aws:sns:us-east-1:123456789012:*"}}"#, true),
        (r#"{"ArnLike":{"s3:DataAccessPointArn":"arn:aws:s3:us-east-1:123456789012:accesspoint/*"}}"#, false),
        (r#"{"Null":{"aws:SourceVpc":"false"}}"#, true),
    ] {
        assert_eq!(bucket_policy(&conditional(condition)).is_public(), public, "{condition}");
    }
    let named = conditional("{}").replace(r#""Principal":"*""#, r#""Principal":{"AWS":"arn:aws:iam::s3tenant1:root"}"#);
    assert!(!bucket_policy(&named).is_public());
    assert!(!bucket_policy(&conditional("{}").replace("Allow", "Deny")).is_public());
    let everyone = conditional("{}").replace(r#""Principal":"*""#, r#""Principal":{"AWS":["123456789012","*"]}"#);
    assert!(bucket_policy(&everyone).is_public());
}

/// A statement of few words, so that many of them are about one request.
fn statement() -> impl Strategy<Value = String> {
    let principal = prop_oneof![
        Just(r#""Principal":"*""#),
        Just(r#""Principal":{"AWS":"arn:aws:iam:::user/ann"}"#),
        Just(r#""Principal":{"AWS":"arn:aws:iam:::user/bob"}"#),
    ];
    let action = prop_oneof![Just("s3:GetObject"), Just("s3:Get*"), Just("s3:PutObject"), Just("*")];
    let action_form = prop_oneof![Just("Action"), Just("NotAction")];
    let resource = prop_oneof![Just("arn:aws:s3:::b/*"), Just("arn:aws:s3:::b/k"), Just("arn:aws:s3:::c/*")];
    let condition = prop_oneof![
        Just(""),
        Just(r#","Condition":{"StringEquals":{"s3:prefix":"a"}}"#),
        Just(r#","Condition":{"StringNotEquals":{"s3:prefix":"a"}}"#),
    ];
    let effect = prop_oneof![Just("Allow"), Just("Deny")];
    (effect, principal, action_form, action, resource, condition).prop_map(
        |(effect, principal, form, action, resource, condition)| {
            format!(r#"{{"Effect":"{effect}",{principal},"{form}":"{action}","Resource":"{resource}"{condition}}}"#)
        },
    )
}

fn policy_of(statements: &[String]) -> Policy {
    bucket_policy(&format!(r#"{{"Version":"2012-10-17","Statement":[{}]}}"#, statements.join(",")))
}

proptest! {
    #[test]
    fn a_further_deny_never_allows_more(
        statements in proptest::collection::vec(statement(), 1..6),
        further in statement(),
        at in 0usize..6,
        (name, key, with_prefix) in ("ann|bob|carl", "k|l", any::<bool>()),
        action in prop_oneof![Just(Action::GetObject), Just(Action::PutObject), Just(Action::GetObjectAcl)],
    ) {
        let context = if with_prefix { context(&[("s3:prefix", "a")]) } else { Context::default() };
        let before = verdict(&policy_of(&statements), &user("", &name), action, &key, &context);
        let mut more = statements.clone();
        more.insert(at.min(statements.len()), further.replace("Allow", "Deny"));
        let after = verdict(&policy_of(&more), &user("", &name), action, &key, &context);
        prop_assert!(word(&after) != "allow" || word(&before) == "allow", "{:?}", more);
        prop_assert!(word(&before) != "deny" || word(&after) == "deny");
    }

    #[test]
    fn no_bytes_end_the_reader(text in "\\PC{0,80}|[{}\\[\\]\":,a-zA-Z*$]{0,80}") {
        let _ = Policy::parse(&text, PolicyKind::Bucket, "");
    }

    #[test]
    fn no_change_of_a_policy_ends_the_reader(at in 0usize..900, piece in "[{}\\[\\]\":,*$?a0]{0,3}", cut in 0usize..4) {
        let begin = at.min(LAYERED.len() - 1);
        let end = (begin + cut).min(LAYERED.len());
        let text = format!("{}{piece}{}", &LAYERED[..begin], &LAYERED[end..]);
        if let Ok(policy) = Policy::parse(&text, PolicyKind::Bucket, "") {
            let _ = verdict(&policy, &ann(), Action::GetObject, "k", &Context::default());
            let _ = policy.is_public();
        }
    }
}
