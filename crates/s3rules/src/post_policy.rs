//! Policies of POST forms: what a form may hold that somebody has signed for others.

use crate::error::{S3Code, S3Error};
use crate::policy::{Json, base64_bytes};
use crate::time::UnixMillis;
use crate::xml::Element;

/// Fields that need no condition.
const FREE_FIELDS: [&str; 6] =
    ["awsaccesskeyid", "file", "policy", "signature", "x-amz-signature", "x-amz-sdk-checksum-algorithm"];
/// Beginnings of the names of fields that need no condition.
const FREE_PREFIXES: [&str; 2] = ["x-ignore-", "x-amz-checksum-"];
/// Longest document, in bytes.
const DOCUMENT_BYTES_MAX: usize = 20 * 1024;

/// Policy of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostPolicy {
    pub expiration: UnixMillis,
    conditions: Vec<PostCondition>,
}

/// Names of fields are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PostCondition {
    Equals { field: String, value: String },
    StartsWith { field: String, value: String },
    Length { bytes_min: u64, bytes_max: u64 },
}

/// Form that a policy is checked against.
#[derive(Clone, Copy, Debug)]
pub struct PostForm<'a> {
    /// Bucket that the request is sent to, whatever the form says.
    pub bucket: &'a str,
    /// Fields before the file, in their order. `${filename}` in the key has been replaced
    /// ([`PostForm::key_with_file_name`]).
    pub fields: &'a [(String, String)],
}

/// `PostResponse`, the answer to a form that asks for status 201. `etag`: with its quotes.
pub fn post_response_xml(location: &str, bucket: &str, key: &str, etag: &str) -> String {
    let texts = [("Location", location), ("Bucket", bucket), ("Key", key), ("ETag", etag)];
    texts.iter().fold(Element::new("PostResponse"), |answer, (name, text)| answer.with_text(name, *text)).write()
}

impl PostForm<'_> {
    /// Key of a form: `${filename}` stands for the name of the file.
    pub fn key_with_file_name(key: &str, file_name: &str) -> String {
        key.replace("${filename}", file_name)
    }

    /// Value of a field, whose name is in lower case.
    fn value(&self, field: &str) -> Option<&str> {
        match field {
            "bucket" => Some(self.bucket),
            _ => self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(field)).map(|(_, value)| value.as_str()),
        }
    }
}

impl PostPolicy {
    /// Reads the field `policy`: JSON in base64. Errors: `InvalidPolicyDocument`.
    pub fn parse(field: &str) -> Result<PostPolicy, S3Error> {
        read_document(field)
            .map_err(|sentence| S3Error::new(S3Code::InvalidPolicyDocument, format!("Invalid Policy: {sentence}")))
    }

    /// Refuses a form that the policy does not allow.
    ///
    /// Errors: `AccessDenied` if the policy has expired, a condition fails, or a field has no condition.
    pub fn check(&self, form: &PostForm<'_>, now: UnixMillis) -> Result<(), S3Error> {
        let denied = |sentence: String| {
            Err(S3Error::new(S3Code::AccessDenied, format!("Invalid according to Policy: {sentence}")))
        };
        if now >= self.expiration {
            return denied("Policy expired.".into());
        }
        for condition in &self.conditions {
            if let Some(sentence) = condition.failure(form) {
                return denied(sentence);
            }
        }
        let names = form.fields.iter().map(|(name, _)| name.to_ascii_lowercase());
        for name in names.chain(["bucket".to_owned()]) {
            let free =
                FREE_FIELDS.contains(&name.as_str()) || FREE_PREFIXES.iter().any(|begin| name.starts_with(begin));
            if !free && !self.conditions.iter().any(|condition| condition.field() == Some(&name)) {
                return denied(format!("Extra input fields: {name}"));
            }
        }
        Ok(())
    }

    /// Refuses a file by its size. A gateway may call it before the file's end with the bytes that have come, to refuse
    /// what is too large early: `complete` is then false.
    ///
    /// Errors: `EntityTooLarge`, `EntityTooSmall`.
    pub fn check_length(&self, bytes: u64, complete: bool) -> Result<(), S3Error> {
        for condition in &self.conditions {
            let PostCondition::Length { bytes_min, bytes_max } = condition else { continue };
            if bytes > *bytes_max {
                let sentence = "Your proposed upload exceeds the maximum allowed size";
                return Err(S3Error::new(S3Code::EntityTooLarge, sentence));
            }
            if complete && bytes < *bytes_min {
                let sentence = "Your proposed upload is smaller than the minimum allowed size";
                return Err(S3Error::new(S3Code::EntityTooSmall, sentence));
            }
        }
        Ok(())
    }
}

impl PostCondition {
    fn field(&self) -> Option<&String> {
        match self {
            PostCondition::Equals { field, .. } | PostCondition::StartsWith { field, .. } => Some(field),
            PostCondition::Length { .. } => None,
        }
    }

    /// A sentence, if the condition fails.
    fn failure(&self, form: &PostForm<'_>) -> Option<String> {
        let (operator, field, value, holds) = match self {
            PostCondition::Length { .. } => return None,
            PostCondition::Equals { field, value } => ("eq", field, value, form.value(field) == Some(value)),
            PostCondition::StartsWith { field, value } => {
                // A field that may begin with anything may be left out, as with Ceph's gateway.
                let text = form.value(field).unwrap_or_default();
                ("starts-with", field, value, starts_with(field, text, value))
            }
        };
        (!holds).then(|| format!("Policy Condition failed: [\"{operator}\", \"${field}\", \"{value}\"]"))
    }
}

/// True if a field begins with `begin`. Of content types each one of a list must.
fn starts_with(field: &str, text: &str, begin: &str) -> bool {
    match field {
        "content-type" => text.split(',').all(|one| one.trim_start().starts_with(begin)),
        // A name may have its tenant's before it. No beginning fits the buckets of several tenants.
        "bucket" => match (text.split_once(':'), begin.split_once(':')) {
            (Some((tenant, bare)), Some((other, begin))) => tenant == other && bare.starts_with(begin),
            (None, None) => text.starts_with(begin),
            _ => false,
        },
        _ => text.starts_with(begin),
    }
}

/// Reads a document. Errors are sentences.
fn read_document(field: &str) -> Result<PostPolicy, String> {
    if field.len() > DOCUMENT_BYTES_MAX {
        return Err(format!("it has more than {DOCUMENT_BYTES_MAX} bytes."));
    }
    let text: String = field.chars().filter(|character| !character.is_ascii_whitespace()).collect();
    let json = base64_bytes(&text).and_then(|bytes| String::from_utf8(bytes).ok()).and_then(|text| Json::parse(&text));
    let Some(Json::Object(members)) = &json else { return Err("Invalid JSON.".into()) };
    if let Some(name) = json.as_ref().and_then(Json::repeated_name) {
        return Err(format!("Field {name} stands twice."));
    }
    let (mut expiration, mut conditions) = (None, None);
    for (name, value) in members {
        match (name.as_str(), value) {
            ("expiration", Json::String(text)) => {
                let point = UnixMillis::parse(text).filter(|_| text.contains('T'));
                expiration = Some(point.ok_or_else(|| format!("Invalid 'expiration' value: '{text}'"))?);
            }
            ("conditions", Json::List(list)) => conditions = Some(list),
            ("expiration" | "conditions", _) => return Err(format!("Invalid '{name}' value.")),
            _ => return Err(format!("Unexpected: '{name}'.")),
        }
    }
    let expiration = expiration.ok_or("Policy missing expiration.")?;
    let conditions = conditions.ok_or("Policy missing conditions.")?;
    let mut read = Vec::new();
    for condition in conditions {
        read_condition(condition, &mut read)?;
    }
    Ok(PostPolicy { expiration, conditions: read })
}

fn read_condition(condition: &Json, read: &mut Vec<PostCondition>) -> Result<(), String> {
    match condition {
        Json::Object(pairs) if !pairs.is_empty() => {
            for (field, value) in pairs {
                let value = scalar(value).ok_or("Invalid Simple-Condition: value must be a string.")?;
                read.push(PostCondition::Equals { field: field.to_ascii_lowercase(), value });
            }
            Ok(())
        }
        Json::List(parts) => {
            let [Json::String(operator), first, second] = &parts[..] else {
                return Err("Invalid Condition: it must have three parts.".into());
            };
            read.push(operation(&operator.to_ascii_lowercase(), first, second)?);
            Ok(())
        }
        _ => Err("Invalid Condition: it must be a list, or an object that is not empty.".into()),
    }
}

fn operation(operator: &str, first: &Json, second: &Json) -> Result<PostCondition, String> {
    if operator == "content-length-range" {
        let number = |value: &Json| scalar(value).and_then(|text| text.parse::<u64>().ok());
        return match (number(first), number(second)) {
            (Some(bytes_min), Some(bytes_max)) => Ok(PostCondition::Length { bytes_min, bytes_max }),
            _ => Err("Invalid content-length-range: it has two numbers of bytes.".into()),
        };
    }
    let field = match first {
        Json::String(text) => text.strip_prefix('$').filter(|field| !field.is_empty()),
        _ => None,
    };
    let field = field.ok_or("Invalid Condition: a field begins with $.")?.to_ascii_lowercase();
    let value = scalar(second).ok_or("Invalid Condition: value must be a string.")?;
    match operator {
        "eq" => Ok(PostCondition::Equals { field, value }),
        "starts-with" => Ok(PostCondition::StartsWith { field, value }),
        _ => Err(format!("Invalid Condition: there is no operator '{operator}'.")),
    }
}

/// Text of a string or a number.
fn scalar(value: &Json) -> Option<String> {
    match value {
        Json::String(text) | Json::Number(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn base64(text: &str) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = String::new();
        for chunk in text.as_bytes().chunks(3) {
            let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
            for at in 0..4 {
                let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
                out.push(if at > chunk.len() { '=' } else { char::from(letter) });
            }
        }
        out
    }

    const EXPIRATION: &str = r#""expiration":"2026-11-28T12:00:00Z""#;
    const BASIC: &str = r#"{"bucket":"b"},["starts-with","$key","foo"],{"acl":"private"},
        ["starts-with","$Content-Type","text/plain"],["content-length-range",0,1024]"#;
    const FIELDS: &[(&str, &str)] = &[
        ("key", "foo.txt"),
        ("AWSAccessKeyId", "AK"),
        ("acl", "private"),
        ("signature", "s"),
        ("policy", "p"),
        ("Content-Type", "text/plain"),
    ];

    fn parse(document: &str) -> Result<PostPolicy, S3Error> {
        PostPolicy::parse(&base64(document))
    }

    fn with(conditions: &str) -> PostPolicy {
        parse(&format!("{{{EXPIRATION},\"conditions\":[{conditions}]}}"))
            .unwrap_or_else(|e| panic!("{e}: {conditions}"))
    }

    fn allows(policy: &PostPolicy, bucket: &str, fields: &[(&str, &str)]) -> bool {
        let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let now = UnixMillis::parse("2026-11-28T11:59:59Z").unwrap();
        match policy.check(&PostForm { bucket, fields: &fields }, now) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.code, S3Code::AccessDenied);
                false
            }
        }
    }

    #[test]
    fn forms_are_allowed_or_not() {
        let basic = with(BASIC);
        let more = |extra: &[(&'static str, &'static str)]| [FIELDS, extra].concat();
        let changed = |name: &str, value: &'static str| {
            FIELDS.iter().map(|&(n, v)| (n, if n == name { value } else { v })).collect::<Vec<_>>()
        };
        for (policy, bucket, fields, allowed) in [
            (&basic, "b", FIELDS.to_vec(), true),
            (&basic, "c", FIELDS.to_vec(), false),
            (&basic, "c", more(&[("bucket", "b")]), false),
            (&basic, "b", changed("key", "bar.txt"), false),
            (&basic, "b", changed("acl", "public-read"), false),
            (&basic, "b", changed("Content-Type", "text/plain,text/html"), false),
            (&basic, "b", changed("Content-Type", "text/plain, text/plain2"), true),
            (&basic, "b", more(&[("x-ignore-foo", "bar")]), true),
            (&basic, "b", more(&[("x-amz-checksum-sha256", "x")]), true),
            (&basic, "b", more(&[("x-amz-meta-foo", "bar")]), false),
            (&basic, "b", more(&[("tagging", "x")]), false),
            (&basic, "b", FIELDS[1..].to_vec(), false),
            (
                &with(&format!("{BASIC},[\"starts-with\",\"$x-amz-meta-foo\",\"bar\"]")),
                "b",
                more(&[("x-amz-meta-foo", "barclamp")]),
                true,
            ),
            (&with(&format!("{BASIC},[\"starts-with\",\"$x-amz-meta-foo\",\"bar\"]")), "b", FIELDS.to_vec(), false),
            (
                &with(&format!("{BASIC},[\"eq\",\"$x-amz-meta-foo\",\"\"]")),
                "b",
                more(&[("x-amz-meta-foo", "barclamp")]),
                false,
            ),
            (&with(&format!("{BASIC},[\"starts-with\",\"$tagging\",\"\"]")), "b", more(&[("tagging", "<x/>")]), true),
            (&with(&BASIC.replace("{\"bucket\":\"b\"},", "")), "b", FIELDS.to_vec(), false),
            (
                &with(&BASIC.replace("bucket", "bUcKeT").replace("starts-with", "StArTs-WiTh").replace("$key", "$KeY")),
                "b",
                FIELDS.iter().map(|&(n, v)| (if n == "key" { "kEy" } else { n }, v)).collect(),
                true,
            ),
            (&with(&BASIC.replace("foo", r"\\$foo")), "b", changed("key", r"\$foo.txt"), true),
            (
                &with(&format!("{BASIC},[\"eq\",\"$success_action_status\",201]")),
                "b",
                more(&[("success_action_status", "201")]),
                true,
            ),
        ] {
            assert_eq!(allows(policy, bucket, &fields), allowed, "{policy:?} {bucket} {fields:?}");
        }
        // The beginning of a bucket's name is one within its tenant.
        let begins = |begin: &str| {
            with(&BASIC.replace("{\"bucket\":\"b\"}", &format!("[\"starts-with\",\"$bucket\",\"{begin}\"]")))
        };
        for (begin, bucket, allowed) in [
            ("", "b", true),
            ("ph", "photos", true),
            ("ph", "b", false),
            ("", "acme:photos", false),
            ("ac", "acme:photos", false),
            ("acme:", "acme:photos", true),
            ("acme:ph", "acme:photos", true),
            ("acm:", "acme:photos", false),
            ("acme:", "zeta:photos", false),
            ("acme:", "photos", false),
            ("", ":photos", false),
            (":", ":photos", true),
            (":", "acme:photos", false),
        ] {
            assert_eq!(allows(&begins(begin), bucket, FIELDS), allowed, "{begin} {bucket}");
        }
        assert_eq!(PostForm::key_with_file_name("a/${filename}", "foo.txt"), "a/foo.txt");
        let late = UnixMillis::parse("2026-11-28T12:00:00Z").unwrap();
        let form = PostForm { bucket: "b", fields: &[] };
        assert_eq!(with("{\"bucket\":\"b\"}").check(&form, late).unwrap_err().code, S3Code::AccessDenied);
    }

    #[test]
    fn answers_are_documents() {
        let answer = post_response_xml("http://h/b/a%20b", "b", "a <b>", "\"e\"");
        let read = Element::parse(answer.as_bytes(), "PostResponse").expect("a document");
        assert_eq!(read.text_of("Key"), Ok(Some("a <b>".to_owned())));
        assert_eq!(read.text_of("ETag"), Ok(Some("\"e\"".to_owned())));
    }

    #[test]
    fn sizes_of_files() {
        let policy = with(r#"["content-length-range",512,"1000"]"#);
        for (bytes, complete, code) in [
            (511, true, Some(S3Code::EntityTooSmall)),
            (511, false, None),
            (512, true, None),
            (1000, true, None),
            (1001, false, Some(S3Code::EntityTooLarge)),
        ] {
            assert_eq!(policy.check_length(bytes, complete).err().map(|error| error.code), code, "{bytes}");
        }
        assert!(with("").check_length(u64::MAX, true).is_ok());
    }

    #[test]
    fn documents_that_are_none() {
        let conditions = |text: &str| format!("{{{EXPIRATION},\"conditions\":[{text}]}}");
        for document in [
            "".to_owned(),
            "x".to_owned(),
            "[]".to_owned(),
            "{}".to_owned(),
            format!("{{{EXPIRATION}}}"),
            format!("{{\"conditions\":[{BASIC}]}}"),
            conditions(BASIC).replace("conditions", "CONDITIONS"),
            conditions(BASIC).replace("expiration", "EXPIRATION"),
            conditions(BASIC).replace("2026-11-28T12:00:00Z", "2026-11-28 12:00:00+00:00"),
            conditions(BASIC).replace("2026-11-28T12:00:00Z", "2026-11-28"),
            conditions(BASIC).replace("\"2026-11-28T12:00:00Z\"", "5"),
            format!("{{{EXPIRATION},{EXPIRATION},\"conditions\":[]}}"),
            conditions("{}"),
            conditions("5"),
            conditions("[]"),
            conditions(r#"["content-length-range",0]"#),
            conditions(r#"["content-length-range",-1,0]"#),
            conditions(r#"["content-length-range",0,1,2]"#),
            conditions(r#"["content-length-range",0,1.5]"#),
            conditions(r#"["eq","key","a"]"#),
            conditions(r#"["eq","$","a"]"#),
            conditions(r#"["like","$key","a"]"#),
            conditions(r#"["eq","$key",["a"]]"#),
            conditions(r#"{"key":["a"]}"#),
        ] {
            assert_eq!(parse(&document).expect_err(&document).code, S3Code::InvalidPolicyDocument, "{document}");
        }
        for field in ["!", "QQ", "/w=="] {
            assert_eq!(PostPolicy::parse(field).unwrap_err().code, S3Code::InvalidPolicyDocument, "{field}");
        }
    }

    proptest! {
        #[test]
        fn nothing_ends_the_reader(field in "\\PC{0,40}", document in "[{}\\[\\]\":,a-z$0-9]{0,60}") {
            let _ = PostPolicy::parse(&field);
            let _ = parse(&document);
        }
    }
}
