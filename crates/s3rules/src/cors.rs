//! Requests of web pages from other origins (`CORSConfiguration`).

use crate::error::{S3Code, S3Error};
use crate::xml::Element;
use serde::{Deserialize, Serialize};

/// Most rules of a bucket.
pub const CORS_RULES_MAX: usize = 100;
/// Longest id of a rule, in bytes.
const ID_BYTES_MAX: usize = 255;
const METHODS: [&str; 5] = ["GET", "PUT", "HEAD", "POST", "DELETE"];
/// Names of headers by which an answer differs.
const VARY: &str = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";

/// Rules of a bucket, in their order. The first that matches counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorsConfiguration {
    pub rules: Vec<CorsRule>,
}

/// Rule: pages of these origins may send these requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorsRule {
    pub id: Option<String>,
    /// Each with one `*` at most, which stands for any text.
    pub allowed_origins: Vec<String>,
    pub allowed_methods: Vec<String>,
    /// Each with one `*` at most.
    pub allowed_headers: Vec<String>,
    /// Headers of answers that pages may read.
    pub expose_headers: Vec<String>,
    /// How long a browser may keep the answer to a preflight.
    pub max_age_seconds: Option<u32>,
}

/// Headers of a request. Absent ones are `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CorsHeaders<'a> {
    pub origin: Option<&'a str>,
    /// `Access-Control-Request-Method`.
    pub request_method: Option<&'a str>,
    /// `Access-Control-Request-Headers`.
    pub request_headers: Option<&'a str>,
}

/// Headers to add to an answer: names and values.
pub type CorsAnswer = Vec<(&'static str, String)>;

impl CorsConfiguration {
    /// Reads `CORSConfiguration`. Errors: `MalformedXML`, and those of [`CorsConfiguration::validate`].
    pub fn from_xml(document: &[u8]) -> Result<CorsConfiguration, S3Error> {
        let root = Element::parse(document, "CORSConfiguration")?;
        root.only(&["CORSRule"])?;
        let rules: Result<Vec<CorsRule>, S3Error> = root.all("CORSRule").map(read_rule).collect();
        let configuration = CorsConfiguration { rules: rules? };
        configuration.validate()?;
        Ok(configuration)
    }

    /// `CORSConfiguration` of an answer.
    pub fn to_xml(&self) -> String {
        let mut root = Element::root("CORSConfiguration");
        for rule in &self.rules {
            let mut element = Element::new("CORSRule").with_optional("ID", rule.id.as_deref());
            for (name, texts) in [
                ("AllowedMethod", &rule.allowed_methods),
                ("AllowedOrigin", &rule.allowed_origins),
                ("AllowedHeader", &rule.allowed_headers),
                ("ExposeHeader", &rule.expose_headers),
            ] {
                for text in texts {
                    element = element.with_text(name, text);
                }
            }
            let age = rule.max_age_seconds.map(|seconds| seconds.to_string());
            root = root.with(element.with_optional("MaxAgeSeconds", age));
        }
        root.write()
    }

    /// Refuses rules that S3 does not take.
    ///
    /// Errors: `MalformedXML` for no rules, or one without origin or method; `InvalidRequest` for too many rules, other
    /// methods, and wildcards where they may not be; `InvalidArgument` for an id that is too long.
    pub fn validate(&self) -> Result<(), S3Error> {
        let refuse = |sentence: String| Err(S3Error::new(S3Code::InvalidRequest, sentence));
        if self.rules.is_empty() {
            return Err(S3Error::malformed_xml("there is no CORSRule"));
        }
        if self.rules.len() > CORS_RULES_MAX {
            return refuse(format!("a bucket has at most {CORS_RULES_MAX} CORS rules"));
        }
        for rule in &self.rules {
            if rule.allowed_origins.is_empty() || rule.allowed_methods.is_empty() {
                return Err(S3Error::malformed_xml("a CORSRule needs AllowedOrigin and AllowedMethod"));
            }
            if rule.id.as_ref().is_some_and(|id| id.len() > ID_BYTES_MAX) {
                return Err(S3Error::invalid_argument(format!("ID has more than {ID_BYTES_MAX} bytes")));
            }
            if let Some(method) = rule.allowed_methods.iter().find(|method| !METHODS.contains(&method.as_str())) {
                return refuse(format!("Found unsupported HTTP method in CORS config. Unsupported method is {method}"));
            }
            for (name, texts) in [("AllowedOrigin", &rule.allowed_origins), ("AllowedHeader", &rule.allowed_headers)] {
                if let Some(text) = texts.iter().find(|text| text.matches('*').count() > 1) {
                    return refuse(format!("{name} \"{text}\" can not have more than one wildcard."));
                }
            }
            if let Some(header) = rule.expose_headers.iter().find(|header| header.contains('*')) {
                return refuse(format!("ExposeHeader \"{header}\" contains wildcard."));
            }
        }
        Ok(())
    }

    /// Headers to add to the answer of a request that is no preflight; none if no rule matches.
    ///
    /// A method that the headers ask for counts in place of the request's own, as in Ceph's gateway.
    pub fn answer(&self, method: &str, headers: &CorsHeaders<'_>) -> CorsAnswer {
        let Some(origin) = headers.origin else { return Vec::new() };
        let method = headers.request_method.unwrap_or(method);
        match self.rules.iter().find_map(|rule| rule.origin_answer(origin, method).map(|allowed| (rule, allowed))) {
            Some((rule, allowed)) => rule.headers(allowed, None),
            None => Vec::new(),
        }
    }

    /// Headers of the answer to a preflight, an `OPTIONS` request. `configuration`: of the bucket, if it has one.
    ///
    /// Errors: `BadRequest` if the origin or the method is not told, `AccessForbidden` if no rule matches.
    pub fn preflight(
        configuration: Option<&CorsConfiguration>,
        headers: &CorsHeaders<'_>,
    ) -> Result<CorsAnswer, S3Error> {
        let insufficient =
            |name| S3Error::new(S3Code::BadRequest, format!("Insufficient information. {name} request header needed."));
        let forbidden = |sentence: &str| S3Error::new(S3Code::AccessForbidden, format!("CORSResponse: {sentence}"));
        let origin = headers.origin.ok_or_else(|| insufficient("Origin"))?;
        let method = headers.request_method.ok_or_else(|| insufficient("Access-Control-Request-Method"))?;
        let configuration = configuration.ok_or_else(|| forbidden("CORS is not enabled for this bucket."))?;
        let requested: Vec<String> = headers
            .request_headers
            .unwrap_or("")
            .split(',')
            .map(|name| name.trim().to_ascii_lowercase())
            .filter(|name| !name.is_empty())
            .collect();
        for rule in &configuration.rules {
            if let Some(allowed) = rule.origin_answer(origin, method)
                && requested.iter().all(|name| rule.allows_header(name))
            {
                return Ok(rule.headers(allowed, Some(&requested)));
            }
        }
        Err(forbidden("This CORS request is not allowed: no rule fits its origin, method and headers."))
    }
}

impl CorsRule {
    /// Value of `Access-Control-Allow-Origin`, if the rule is about an origin and a method.
    fn origin_answer<'a>(&self, origin: &'a str, method: &str) -> Option<&'a str> {
        if !self.allowed_methods.iter().any(|allowed| allowed == method) {
            return None;
        }
        let allowed = self.allowed_origins.iter().find(|pattern| fits(pattern, origin))?;
        Some(if allowed == "*" { "*" } else { origin })
    }

    fn allows_header(&self, name: &str) -> bool {
        self.allowed_headers.iter().any(|pattern| fits(&pattern.to_ascii_lowercase(), name))
    }

    /// `requested`: headers that a preflight asks for.
    fn headers(&self, allowed_origin: &str, requested: Option<&[String]>) -> CorsAnswer {
        let mut answer = vec![
            ("Access-Control-Allow-Origin", allowed_origin.to_owned()),
            ("Access-Control-Allow-Methods", self.allowed_methods.join(", ")),
        ];
        if allowed_origin != "*" {
            answer.push(("Access-Control-Allow-Credentials", "true".to_owned()));
        }
        if let Some(requested) = requested {
            if !requested.is_empty() {
                answer.push(("Access-Control-Allow-Headers", requested.join(", ")));
            }
            if let Some(seconds) = self.max_age_seconds {
                answer.push(("Access-Control-Max-Age", seconds.to_string()));
            }
        }
        if !self.expose_headers.is_empty() {
            answer.push(("Access-Control-Expose-Headers", self.expose_headers.join(", ")));
        }
        answer.push(("Vary", VARY.to_owned()));
        answer
    }
}

/// True if a pattern with one `*` at most fits all of `text`.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((begin, end)) => text.len() >= begin.len() + end.len() && text.starts_with(begin) && text.ends_with(end),
    }
}

fn read_rule(rule: &Element) -> Result<CorsRule, S3Error> {
    rule.only(&["ID", "AllowedMethod", "AllowedOrigin", "AllowedHeader", "ExposeHeader", "MaxAgeSeconds"])?;
    let texts = |name| -> Result<Vec<String>, S3Error> {
        rule.all(name).map(|element| Ok(element.leaf()?.trim().to_owned())).collect()
    };
    let max_age_seconds = match rule.number_of("MaxAgeSeconds")?.map(u32::try_from) {
        None => None,
        Some(Ok(seconds)) => Some(seconds),
        Some(Err(_)) => return Err(S3Error::malformed_xml("MaxAgeSeconds is no number of seconds")),
    };
    Ok(CorsRule {
        id: rule.text_of("ID")?,
        allowed_origins: texts("AllowedOrigin")?,
        allowed_methods: texts("AllowedMethod")?,
        allowed_headers: texts("AllowedHeader")?,
        expose_headers: texts("ExposeHeader")?,
        max_age_seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(methods: &str, origin: &str) -> CorsRule {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        CorsRule { allowed_origins: words(origin), allowed_methods: words(methods), ..CorsRule::default() }
    }

    fn value(answer: &CorsAnswer, name: &str) -> Option<String> {
        answer.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    fn origins() -> CorsConfiguration {
        let rules =
            vec![rule("GET", "*suffix ab*ba"), rule("GET", "start*end"), rule("GET", "prefix*"), rule("PUT", "*.put")];
        CorsConfiguration { rules }
    }

    #[test]
    fn origins_of_plain_requests() {
        for (method, origin, asked, allowed) in [
            ("GET", "foo.suffix", None, Some("GET")),
            ("GET", "foo.bar", None, None),
            ("GET", "foo.suffix.get", None, None),
            ("GET", "startend", None, Some("GET")),
            ("GET", "start1end", None, Some("GET")),
            ("GET", "start12end", None, Some("GET")),
            ("GET", "0start12end", None, None),
            ("GET", "staend", None, None),
            ("GET", "aba", None, None),
            ("GET", "abba", None, Some("GET")),
            ("GET", "prefix", None, Some("GET")),
            ("GET", "prefix.suffix", None, Some("GET")),
            ("GET", "bla.prefix", None, None),
            ("PUT", "foo.suffix", Some("GET"), Some("GET")),
            ("PUT", "foo.suffix", Some("PUT"), None),
            ("PUT", "foo.suffix", Some("DELETE"), None),
            ("PUT", "foo.suffix", None, None),
            ("PUT", "foo.put", None, Some("PUT")),
        ] {
            let headers = CorsHeaders { origin: Some(origin), request_method: asked, request_headers: None };
            let answer = origins().answer(method, &headers);
            assert_eq!(value(&answer, "Access-Control-Allow-Methods").as_deref(), allowed, "{method} {origin}");
            let expected = allowed.map(|_| origin.to_owned());
            assert_eq!(value(&answer, "Access-Control-Allow-Origin"), expected, "{method} {origin}");
        }
        assert!(origins().answer("GET", &CorsHeaders::default()).is_empty());
    }

    #[test]
    fn preflights() {
        for (origin, method, status) in [
            (None, None, 400),
            (Some("foo.suffix"), None, 400),
            (None, Some("GET"), 400),
            (Some("foo.suffix"), Some("GET"), 200),
            (Some("foo.bar"), Some("GET"), 403),
            (Some("foo.put"), Some("GET"), 403),
            (Some("foo.put"), Some("PUT"), 200),
            (Some("foo.put"), Some("put"), 403),
        ] {
            let headers = CorsHeaders { origin, request_method: method, request_headers: None };
            let status_of =
                |answer: Result<CorsAnswer, S3Error>| answer.map_or_else(|error| error.code.status(), |_| 200);
            let answer = CorsConfiguration::preflight(Some(&origins()), &headers);
            assert_eq!(status_of(answer), status, "{origin:?} {method:?}");
            let without_rules = CorsConfiguration::preflight(None, &headers);
            assert_eq!(status_of(without_rules), if status == 400 { 400 } else { 403 }, "{origin:?} {method:?}");
        }
    }

    #[test]
    fn headers_of_preflights() {
        let mut configuration = CorsConfiguration { rules: vec![rule("GET HEAD", "*")] };
        configuration.rules[0].expose_headers = vec!["ETag".into(), "x-amz-meta-a".into()];
        configuration.rules[0].max_age_seconds = Some(3000);
        let ask = |configuration: &CorsConfiguration, names: &str| {
            let headers = CorsHeaders {
                origin: Some("example.origin"),
                request_method: Some("GET"),
                request_headers: Some(names),
            };
            CorsConfiguration::preflight(Some(configuration), &headers)
        };
        assert!(ask(&configuration, "x-amz-meta-header2").is_err());
        configuration.rules[0].allowed_headers = vec!["X-Amz-*".into(), "content-type".into()];
        assert!(ask(&configuration, "x-amz-date, Content-Type, range").is_err());
        let answer = ask(&configuration, "x-amz-date, Content-Type").unwrap();
        for (name, expected) in [
            ("Access-Control-Allow-Origin", Some("*")),
            ("Access-Control-Allow-Methods", Some("GET, HEAD")),
            ("Access-Control-Allow-Headers", Some("x-amz-date, content-type")),
            ("Access-Control-Max-Age", Some("3000")),
            ("Access-Control-Expose-Headers", Some("ETag, x-amz-meta-a")),
            ("Access-Control-Allow-Credentials", None),
            ("Vary", Some(VARY)),
        ] {
            assert_eq!(value(&answer, name).as_deref(), expected, "{name}");
        }
        let plain = configuration.answer("GET", &CorsHeaders { origin: Some("a"), ..CorsHeaders::default() });
        assert_eq!(value(&plain, "Access-Control-Max-Age"), None);
        assert_eq!(value(&plain, "Access-Control-Allow-Origin").as_deref(), Some("*"));
    }

    #[test]
    fn documents_are_checked() {
        let good = "<AllowedMethod>GET</AllowedMethod><AllowedOrigin>a*b</AllowedOrigin>";
        let parse = |rules: &str| {
            CorsConfiguration::from_xml(format!("<CORSConfiguration>{rules}</CORSConfiguration>").as_bytes())
        };
        let one = |inside: &str| parse(&format!("<CORSRule>{inside}</CORSRule>"));
        let full = format!(
            "<ID>x</ID>{good}<AllowedHeader>*</AllowedHeader><ExposeHeader>e</ExposeHeader><MaxAgeSeconds>1</MaxAgeSeconds>"
        );
        let configuration = one(&full).unwrap();
        assert_eq!(CorsConfiguration::from_xml(configuration.to_xml().as_bytes()), Ok(configuration));
        for (answer, code) in [
            (parse(""), "MalformedXML"),
            (one(""), "MalformedXML"),
            (one("<AllowedMethod>GET</AllowedMethod>"), "MalformedXML"),
            (one(&format!("{good}<MaxAgeSeconds>-1</MaxAgeSeconds>")), "MalformedXML"),
            (one(&format!("{good}<MaxAgeSeconds>x</MaxAgeSeconds>")), "MalformedXML"),
            (one(&format!("{good}<Allowed/>")), "MalformedXML"),
            (one(&format!("{good}<AllowedMethod>PATCH</AllowedMethod>")), "InvalidRequest"),
            (one(&format!("{good}<AllowedMethod>get</AllowedMethod>")), "InvalidRequest"),
            (one(&format!("{good}<AllowedOrigin>*a*</AllowedOrigin>")), "InvalidRequest"),
            (one(&format!("{good}<AllowedHeader>**</AllowedHeader>")), "InvalidRequest"),
            (one(&format!("{good}<ExposeHeader>*</ExposeHeader>")), "InvalidRequest"),
            (one(&format!("{good}<ID>{}</ID>", "x".repeat(256))), "InvalidArgument"),
            (parse(&format!("<CORSRule>{good}</CORSRule>").repeat(101)), "InvalidRequest"),
        ] {
            assert_eq!(answer.unwrap_err().code.name(), code);
        }
    }

    proptest! {
        #[test]
        fn no_document_ends_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = CorsConfiguration::from_xml(&bytes);
        }
    }
}
