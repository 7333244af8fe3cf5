//! Buckets as web sites (`WebsiteConfiguration`).

use crate::error::{S3Code, S3Error};
use crate::uri::percent_encode;
use crate::xml::Element;
use serde::{Deserialize, Serialize};

/// Most routing rules of a site.
pub const ROUTING_RULES_MAX: usize = 50;

/// Site of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WebsiteConfiguration {
    /// All requests go to another host.
    RedirectAll {
        host: String,
        protocol: Option<WebProtocol>,
    },
    Site(Site),
}

/// Site whose pages are objects of the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Name that is appended to keys that end in `/`, and to the empty one.
    pub index_suffix: String,
    /// Key of the page that is shown in place of an error.
    pub error_key: Option<String>,
    /// In their order: the first that applies counts.
    pub routing_rules: Vec<RoutingRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WebProtocol {
    Http,
    Https,
}

/// Rule: requests that fulfil the condition go elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingRule {
    pub key_prefix: Option<String>,
    /// Status of the answer without this rule.
    pub error_status: Option<u16>,
    pub host: Option<String>,
    pub protocol: Option<WebProtocol>,
    /// Status of the answer; 301 if it is not given.
    pub redirect_status: Option<u16>,
    pub replacement: Option<KeyReplacement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyReplacement {
    Whole(String),
    /// In place of the prefix of the rule's condition.
    Prefix(String),
}

/// Request to a site.
#[derive(Clone, Copy, Debug)]
pub struct WebRequest<'a> {
    pub protocol: WebProtocol,
    /// Host as the client names it, with its port.
    pub host: &'a str,
    /// Key without the first `/` of the path.
    pub key: &'a str,
}

/// Answer of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebAnswer {
    /// The object of this key.
    Object(String),
    Redirect {
        status: u16,
        location: String,
    },
    /// The object of this key with the status of the error; if it cannot be read, the error itself.
    ErrorPage(String),
    /// The error itself.
    Error,
}

impl WebProtocol {
    fn parse(text: &str) -> Result<WebProtocol, S3Error> {
        match text {
            "http" => Ok(WebProtocol::Http),
            "https" => Ok(WebProtocol::Https),
            _ => Err(invalid("Invalid protocol, protocol can be http or https.")),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            WebProtocol::Http => "http",
            WebProtocol::Https => "https",
        }
    }
}

impl WebsiteConfiguration {
    /// Reads `WebsiteConfiguration`.
    ///
    /// Errors: `MalformedXML`, `InvalidArgument` for an index document, a protocol or a status that cannot be, and
    /// `InvalidRequest` for rules that contradict themselves.
    pub fn from_xml(document: &[u8]) -> Result<WebsiteConfiguration, S3Error> {
        let root = Element::parse(document, "WebsiteConfiguration")?;
        if let Some(all) = root.child("RedirectAllRequestsTo")? {
            root.only(&["RedirectAllRequestsTo"])?;
            all.only(&["HostName", "Protocol"])?;
            let host = all.required("HostName")?.leaf()?;
            let protocol = all.text_of("Protocol")?.map(|text| WebProtocol::parse(&text)).transpose()?;
            let configuration = WebsiteConfiguration::RedirectAll { host, protocol };
            configuration.validate()?;
            return Ok(configuration);
        }
        root.only(&["IndexDocument", "ErrorDocument", "RoutingRules"])?;
        let index = root.required("IndexDocument")?;
        index.only(&["Suffix"])?;
        let index_suffix = index.required("Suffix")?.leaf()?;
        let error_key = match root.child("ErrorDocument")? {
            None => None,
            Some(error) => Some(error.required("Key")?.leaf()?),
        };
        let routing_rules = match root.child("RoutingRules")? {
            None => Vec::new(),
            Some(rules) => {
                rules.only(&["RoutingRule"])?;
                rules.all("RoutingRule").map(read_rule).collect::<Result<_, _>>()?
            }
        };
        let configuration = WebsiteConfiguration::Site(Site { index_suffix, error_key, routing_rules });
        configuration.validate()?;
        Ok(configuration)
    }

    /// Refuses a site that S3 does not take. Errors as of [`WebsiteConfiguration::from_xml`], but for `MalformedXML`.
    pub fn validate(&self) -> Result<(), S3Error> {
        let site = match self {
            WebsiteConfiguration::RedirectAll { host, .. } if host.is_empty() => {
                return Err(invalid("HostName is empty"));
            }
            WebsiteConfiguration::RedirectAll { .. } => return Ok(()),
            WebsiteConfiguration::Site(site) => site,
        };
        if site.index_suffix.is_empty() || site.index_suffix.contains('/') {
            return Err(invalid("The IndexDocument Suffix is not well formed"));
        }
        if site.error_key.as_ref().is_some_and(String::is_empty) {
            return Err(invalid("the Key of ErrorDocument is empty"));
        }
        if site.routing_rules.len() > ROUTING_RULES_MAX {
            let sentence = format!("a site has at most {ROUTING_RULES_MAX} routing rules");
            return Err(S3Error::new(S3Code::InvalidRequest, sentence));
        }
        for rule in &site.routing_rules {
            let redirects = rule.host.is_some()
                || rule.protocol.is_some()
                || rule.redirect_status.is_some()
                || rule.replacement.is_some();
            if !redirects {
                return Err(S3Error::new(S3Code::InvalidRequest, "Redirect cannot be empty."));
            }
            if rule.host.as_ref().is_some_and(String::is_empty) {
                return Err(invalid("HostName is empty"));
            }
            if rule.error_status.is_some_and(|status| !(400..600).contains(&status)) {
                return Err(invalid("The provided HTTP error code is not valid. Valid codes are 4XX or 5XX."));
            }
            if rule.redirect_status.is_some_and(|status| !(301..400).contains(&status)) {
                let sentence = "The provided HTTP redirect code is not valid. Valid codes are 3XX except 300.";
                return Err(invalid(sentence));
            }
        }
        Ok(())
    }

    /// `WebsiteConfiguration` of an answer.
    pub fn to_xml(&self) -> String {
        let root = Element::root("WebsiteConfiguration");
        let element = match self {
            WebsiteConfiguration::RedirectAll { host, protocol } => {
                let all = Element::new("RedirectAllRequestsTo").with_text("HostName", host);
                root.with(all.with_optional("Protocol", protocol.map(WebProtocol::name)))
            }
            WebsiteConfiguration::Site(site) => {
                let index = Element::new("IndexDocument").with_text("Suffix", &site.index_suffix);
                let mut element = root.with(index);
                if let Some(key) = &site.error_key {
                    element = element.with(Element::new("ErrorDocument").with_text("Key", key));
                }
                if !site.routing_rules.is_empty() {
                    let rules = site.routing_rules.iter().map(write_rule);
                    element = element.with(rules.fold(Element::new("RoutingRules"), Element::with));
                }
                element
            }
        };
        element.write()
    }

    /// Answer to a request before an object is looked for: another place, or the key of an object.
    pub fn route(&self, request: &WebRequest<'_>) -> WebAnswer {
        match self {
            WebsiteConfiguration::RedirectAll { host, protocol } => {
                let protocol = protocol.unwrap_or(request.protocol);
                WebAnswer::Redirect { status: 301, location: location(protocol, host, request.key) }
            }
            WebsiteConfiguration::Site(site) => site
                .routing_rules
                .iter()
                .find(|rule| rule.error_status.is_none() && rule.fits_key(request.key))
                .map_or_else(|| WebAnswer::Object(site.page_key(request.key)), |rule| rule.redirect(request)),
        }
    }

    /// Answer in place of an error of this status.
    pub fn on_error(&self, request: &WebRequest<'_>, status: u16) -> WebAnswer {
        let WebsiteConfiguration::Site(site) = self else { return WebAnswer::Error };
        let fits = |rule: &&RoutingRule| rule.error_status == Some(status) && rule.fits_key(request.key);
        match (site.routing_rules.iter().find(fits), &site.error_key) {
            (Some(rule), _) => rule.redirect(request),
            (None, Some(key)) if (400..500).contains(&status) => WebAnswer::ErrorPage(key.clone()),
            (None, _) => WebAnswer::Error,
        }
    }

    /// Key of the index of the folder `key`, if the key has no object: if that one has, the answer is
    /// [`WebsiteConfiguration::to_folder`]. `None` if there can be none.
    pub fn folder_index(&self, key: &str) -> Option<String> {
        match self {
            WebsiteConfiguration::Site(site) if !key.is_empty() && !key.ends_with('/') => {
                Some(format!("{key}/{}", site.index_suffix))
            }
            _ => None,
        }
    }

    /// Answer that sends a client to the folder of a key.
    pub fn to_folder(&self, request: &WebRequest<'_>) -> WebAnswer {
        WebAnswer::Redirect { status: 302, location: format!("/{}/", percent_encode(request.key, "/")) }
    }
}

/// Refuses a value of `x-amz-website-redirect-location` that is no place. Errors: `InvalidArgument`.
pub fn check_redirect_location(value: &str) -> Result<(), S3Error> {
    let place = ["/", "http://", "https://"].iter().any(|begin| value.starts_with(begin));
    if place && value.len() <= 2048 && !value.contains(|c: char| c.is_ascii_control()) {
        Ok(())
    } else {
        Err(invalid("The website redirect location must be absolute, or begin with http:// or https://"))
    }
}

impl Site {
    fn page_key(&self, key: &str) -> String {
        if key.is_empty() || key.ends_with('/') { format!("{key}{}", self.index_suffix) } else { key.to_owned() }
    }
}

impl RoutingRule {
    fn fits_key(&self, key: &str) -> bool {
        self.key_prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
    }

    fn redirect(&self, request: &WebRequest<'_>) -> WebAnswer {
        let protocol = self.protocol.unwrap_or(request.protocol);
        let host = self.host.as_deref().unwrap_or(request.host);
        let prefix = self.key_prefix.as_deref().unwrap_or("");
        let key = match &self.replacement {
            None => request.key.to_owned(),
            Some(KeyReplacement::Whole(key)) => key.clone(),
            Some(KeyReplacement::Prefix(begin)) => {
                format!("{begin}{}", request.key.strip_prefix(prefix).unwrap_or(request.key))
            }
        };
        WebAnswer::Redirect { status: self.redirect_status.unwrap_or(301), location: location(protocol, host, &key) }
    }
}

fn location(protocol: WebProtocol, host: &str, key: &str) -> String {
    format!("{}://{host}/{}", protocol.name(), percent_encode(key, "/"))
}

fn invalid(sentence: &str) -> S3Error {
    S3Error::invalid_argument(sentence)
}

fn status(text: &str) -> Result<u16, S3Error> {
    text.trim().parse().map_err(|_| invalid(&format!("The provided HTTP code ({text}) is not valid.")))
}

fn read_rule(rule: &Element) -> Result<RoutingRule, S3Error> {
    rule.only(&["Condition", "Redirect"])?;
    let mut read = RoutingRule::default();
    if let Some(condition) = rule.child("Condition")? {
        condition.only(&["KeyPrefixEquals", "HttpErrorCodeReturnedEquals"])?;
        read.key_prefix = condition.text_of("KeyPrefixEquals")?;
        let text = condition.text_of("HttpErrorCodeReturnedEquals")?;
        read.error_status = text.map(|text| status(&text)).transpose()?;
        if read.key_prefix.is_none() && read.error_status.is_none() {
            return Err(S3Error::new(S3Code::InvalidRequest, "Condition cannot be empty."));
        }
    }
    let redirect = rule.required("Redirect")?;
    redirect.only(&["HostName", "HttpRedirectCode", "Protocol", "ReplaceKeyPrefixWith", "ReplaceKeyWith"])?;
    read.host = redirect.text_of("HostName")?;
    read.protocol = redirect.text_of("Protocol")?.map(|text| WebProtocol::parse(&text)).transpose()?;
    let text = redirect.text_of("HttpRedirectCode")?;
    read.redirect_status = text.map(|text| status(&text)).transpose()?;
    read.replacement = match (redirect.text_of("ReplaceKeyWith")?, redirect.text_of("ReplaceKeyPrefixWith")?) {
        (None, None) => None,
        (Some(key), None) => Some(KeyReplacement::Whole(key)),
        (None, Some(prefix)) => Some(KeyReplacement::Prefix(prefix)),
        (Some(_), Some(_)) => {
            let sentence = "You can only define ReplaceKeyPrefix or ReplaceKey but not both.";
            return Err(S3Error::new(S3Code::InvalidRequest, sentence));
        }
    };
    Ok(read)
}

fn write_rule(rule: &RoutingRule) -> Element {
    let mut element = Element::new("RoutingRule");
    let error_status = rule.error_status.map(|status| status.to_string());
    let condition = Element::new("Condition")
        .with_optional("KeyPrefixEquals", rule.key_prefix.as_deref())
        .with_optional("HttpErrorCodeReturnedEquals", error_status);
    if !condition.children.is_empty() {
        element = element.with(condition);
    }
    let redirect = Element::new("Redirect")
        .with_optional("HostName", rule.host.as_deref())
        .with_optional("HttpRedirectCode", rule.redirect_status.map(|status| status.to_string()))
        .with_optional("Protocol", rule.protocol.map(WebProtocol::name));
    element.with(match &rule.replacement {
        None => redirect,
        Some(KeyReplacement::Whole(key)) => redirect.with_text("ReplaceKeyWith", key),
        Some(KeyReplacement::Prefix(prefix)) => redirect.with_text("ReplaceKeyPrefixWith", prefix),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SITE: &str = "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument>\
        <ErrorDocument><Key>oops.html</Key></ErrorDocument><RoutingRules>\
        <RoutingRule><Condition><KeyPrefixEquals>docs/</KeyPrefixEquals></Condition>\
        <Redirect><ReplaceKeyPrefixWith>documents/</ReplaceKeyPrefixWith></Redirect></RoutingRule>\
        <RoutingRule><Condition><KeyPrefixEquals>img/</KeyPrefixEquals>\
        <HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals></Condition>\
        <Redirect><HostName>e.com</HostName><Protocol>https</Protocol><HttpRedirectCode>307</HttpRedirectCode>\
        <ReplaceKeyWith>none.png</ReplaceKeyWith></Redirect></RoutingRule></RoutingRules></WebsiteConfiguration>";

    fn request(key: &str) -> WebRequest<'_> {
        WebRequest { protocol: WebProtocol::Http, host: "h:80", key }
    }

    fn redirect(status: u16, location: &str) -> WebAnswer {
        WebAnswer::Redirect { status, location: location.into() }
    }

    #[test]
    fn requests_are_routed() {
        let site = WebsiteConfiguration::from_xml(SITE.as_bytes()).unwrap();
        assert_eq!(WebsiteConfiguration::from_xml(site.to_xml().as_bytes()).as_ref(), Ok(&site));
        let object = |key: &str| WebAnswer::Object(key.into());
        for (key, answer) in [
            ("", object("index.html")),
            ("a/", object("a/index.html")),
            ("a", object("a")),
            ("docs/x y", redirect(301, "http://h:80/documents/x%20y")),
            ("img/a", object("img/a")),
        ] {
            assert_eq!(site.route(&request(key)), answer, "{key}");
        }
        for (key, status, answer) in [
            ("img/a", 404, redirect(307, "https://e.com/none.png")),
            ("img/a", 403, WebAnswer::ErrorPage("oops.html".into())),
            ("a", 404, WebAnswer::ErrorPage("oops.html".into())),
            ("a", 503, WebAnswer::Error),
        ] {
            assert_eq!(site.on_error(&request(key), status), answer, "{key} {status}");
        }
        assert_eq!(site.folder_index("a").as_deref(), Some("a/index.html"));
        assert_eq!(site.folder_index("a/"), None);
        assert_eq!(site.to_folder(&request("a b")), redirect(302, "/a%20b/"));
    }

    #[test]
    fn all_requests_go_elsewhere() {
        let document = "<WebsiteConfiguration><RedirectAllRequestsTo><HostName>e.com</HostName></RedirectAllRequestsTo>\
            </WebsiteConfiguration>";
        let site = WebsiteConfiguration::from_xml(document.as_bytes()).unwrap();
        assert_eq!(WebsiteConfiguration::from_xml(site.to_xml().as_bytes()).as_ref(), Ok(&site));
        assert_eq!(site.route(&request("a/b")), redirect(301, "http://e.com/a/b"));
        assert_eq!(site.on_error(&request("a"), 404), WebAnswer::Error);
        assert_eq!(site.folder_index("a"), None);
    }

    #[test]
    fn documents_are_checked() {
        let rules =
            |rule: &str| SITE.replace("</RoutingRules>", &format!("<RoutingRule>{rule}</RoutingRule></RoutingRules>"));
        for (document, code) in [
            ("<WebsiteConfiguration/>".to_owned(), "MalformedXML"),
            (
                SITE.replace(
                    "<ErrorDocument>",
                    "<RedirectAllRequestsTo><HostName>a</HostName></RedirectAllRequestsTo><ErrorDocument>",
                ),
                "MalformedXML",
            ),
            (SITE.replace("index.html", ""), "InvalidArgument"),
            (SITE.replace("index.html", "a/b"), "InvalidArgument"),
            (SITE.replace("oops.html", ""), "InvalidArgument"),
            (SITE.replace("https", "ftp"), "InvalidArgument"),
            (SITE.replace("307", "300"), "InvalidArgument"),
            (SITE.replace("307", "x"), "InvalidArgument"),
            (SITE.replace("404", "200"), "InvalidArgument"),
            (rules("<Condition/><Redirect><HostName>a</HostName></Redirect>"), "InvalidRequest"),
            (rules("<Redirect/>"), "InvalidRequest"),
            (rules(""), "MalformedXML"),
            (
                rules(
                    "<Redirect><ReplaceKeyWith>a</ReplaceKeyWith><ReplaceKeyPrefixWith>a</ReplaceKeyPrefixWith></Redirect>",
                ),
                "InvalidRequest",
            ),
            (
                SITE.replace(
                    "</RoutingRules>",
                    &format!(
                        "{}</RoutingRules>",
                        "<RoutingRule><Redirect><HostName>a</HostName></Redirect></RoutingRule>".repeat(49)
                    ),
                ),
                "InvalidRequest",
            ),
        ] {
            assert_eq!(
                WebsiteConfiguration::from_xml(document.as_bytes()).unwrap_err().code.name(),
                code,
                "{document}"
            );
        }
        for (value, taken) in
            [("/a", true), ("https://e.com/", true), ("a", false), ("ftp://x", false), ("/a\nb", false)]
        {
            assert_eq!(check_redirect_location(value).is_ok(), taken, "{value}");
        }
    }

    proptest! {
        #[test]
        fn no_change_of_a_document_ends_the_reader(at in 0usize..800, piece in "[<>/a&;0-9]{0,3}") {
            let at = at.min(SITE.len());
            let _ = WebsiteConfiguration::from_xml(format!("{}{piece}{}", &SITE[..at], &SITE[at..]).as_bytes());
        }
    }
}
