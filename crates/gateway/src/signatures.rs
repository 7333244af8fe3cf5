//! Where a request has its signature. The wire layer checks signatures, but those of forms; whoever has to know before
//! or behind it which one that is asks here.

use http::header::AUTHORIZATION;
use http::{HeaderMap, Uri};

/// A version of signatures, and where one stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SignaturePlace {
    SecondInQuery,
    SecondInHeader,
    FourthInQuery,
    FourthInHeader,
}

/// The signature of a request; it may be wrong, or lack something.
pub(crate) struct RequestSignature<'a> {
    pub place: SignaturePlace,
    /// The query, decoded.
    pairs: Vec<(String, String)>,
    /// The value of `authorization`, or nothing.
    header: &'a str,
}

/// Decodes what forms send: bytes that are no UTF-8, and percent signs without digits, stay as they can.
pub(crate) fn form_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let escaped = if *byte == b'%' { digit(at + 1).zip(digit(at + 2)) } else { None };
        match escaped {
            Some((high, low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or(u8::MAX));
                at += 3;
            }
            None => {
                out.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The value of something that stands there once.
fn only<T>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

/// The text of a header that stands there once.
pub(crate) fn only_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    only(headers.get_all(name).iter().filter_map(|value| std::str::from_utf8(value.as_bytes()).ok()))
}

/// Key and signature of a header of version 2. One without both is none to the wire layer.
fn second_of(header: &str) -> Option<(&str, &str)> {
    header.strip_prefix("AWS ")?.split_once(':')
}

impl<'a> RequestSignature<'a> {
    /// The signature that the wire layer will check, which looks for them in this order; `None` for a request that
    /// nobody has signed.
    pub fn of(headers: &'a HeaderMap, uri: &Uri) -> Option<RequestSignature<'a>> {
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let pairs: Vec<_> = pairs.map(|(name, value)| (form_decoded(name), form_decoded(value))).collect();
        let header = only_header(headers, AUTHORIZATION.as_str()).unwrap_or_default();
        let has = |wanted: &str| pairs.iter().any(|(name, _)| name == wanted);
        let place = match () {
            () if has("Signature") => SignaturePlace::SecondInQuery,
            () if second_of(header).is_some() => SignaturePlace::SecondInHeader,
            () if has("X-Amz-Signature") => SignaturePlace::FourthInQuery,
            // Whatever its first word is.
            () if !header.is_empty() => SignaturePlace::FourthInHeader,
            () => return None,
        };
        Some(RequestSignature { place, pairs, header })
    }

    /// The value of a parameter that stands there once.
    pub fn parameter(&self, wanted: &str) -> Option<&str> {
        only(self.pairs.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str()))
    }

    /// Key and signature of a header of version 2.
    pub fn second_in_header(&self) -> Option<(&'a str, &'a str)> {
        second_of(self.header)
    }

    /// The access key that the request names. Nobody has proven to have it.
    pub fn access_key(&self) -> Option<&str> {
        let credential = match self.place {
            SignaturePlace::SecondInQuery => return self.parameter("AWSAccessKeyId"),
            SignaturePlace::SecondInHeader => return self.second_in_header().map(|(key, _)| key),
            SignaturePlace::FourthInQuery => self.parameter("X-Amz-Credential")?,
            SignaturePlace::FourthInHeader => self.header.split_once("Credential=")?.1,
        };
        credential.split_once('/').map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SignaturePlace::*;

    #[test]
    fn the_first_place_in_the_wire_layer_s_order_counts() {
        let fourth = "AWS4-HMAC-SHA256 Credential=AK4/20261129/us-east-1/s3/aws4_request, Signature=a";
        for (authorization, uri, place, key) in [
            (Some(fourth), "/b/k", Some(FourthInHeader), Some("AK4")),
            (Some("AWS AK2:c2ln"), "/b/k", Some(SecondInHeader), Some("AK2")),
            (None, "/b/k?X-Amz-Credential=AKQ%2F20261129%2Fx&X-Amz-Signature=a", Some(FourthInQuery), Some("AKQ")),
            (None, "/b/k?X-Amz-Credential=AKQ%2Fx&X-Amz-Signatur%65=a", Some(FourthInQuery), Some("AKQ")),
            (Some(fourth), "/b/k?X-Amz-Credential=AKQ%2Fx&X-Amz-Signature=a", Some(FourthInQuery), Some("AKQ")),
            (None, "/b/k?AWSAccessKeyId=AKP&Signature=a%3D&Expires=1", Some(SecondInQuery), Some("AKP")),
            (Some(fourth), "/b/k?AWSAccessKeyId=AKP&Signature=a", Some(SecondInQuery), Some("AKP")),
            (
                Some("AWS AK2:c2ln"),
                "/b/k?X-Amz-Credential=AKQ%2Fx&X-Amz-Signature=a",
                Some(SecondInHeader),
                Some("AK2"),
            ),
            (Some("AWS AK2"), "/b/k?X-Amz-Credential=AKQ%2Fx&X-Amz-Signature=a", Some(FourthInQuery), Some("AKQ")),
            (Some("AWS AK2"), "/b/k", Some(FourthInHeader), None),
            (Some("FOO Credential=AK4/x, Signature=a"), "/b/k", Some(FourthInHeader), Some("AK4")),
            (Some("Bearer x"), "/b/k", Some(FourthInHeader), None),
            (None, "/b/k?AWSAccessKeyId=A&AWSAccessKeyId=B&Signature=a", Some(SecondInQuery), None),
            // Nothing is signed, so the request is anonymous.
            (None, "/b/k?X-Amz-Credential=AKQ%2Fx", None, None),
            (None, "/b/k?AWSAccessKeyId=AKP", None, None),
            (None, "/b/k?x-amz-credential=AKQ/x&x-amz-signature=a", None, None),
            (None, "/b/k", None, None),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = authorization {
                headers.insert(AUTHORIZATION, value.parse().expect("a value"));
            }
            let found = RequestSignature::of(&headers, &uri.parse().expect("an address"));
            assert_eq!(found.as_ref().map(|found| found.place), place, "{authorization:?} {uri}");
            assert_eq!(found.as_ref().and_then(RequestSignature::access_key), key, "{authorization:?} {uri}");
        }
        let mut twice = HeaderMap::new();
        for value in ["AWS A:x", "AWS B:x"] {
            twice.append(AUTHORIZATION, value.parse().expect("a value"));
        }
        assert!(RequestSignature::of(&twice, &"/b".parse().expect("an address")).is_none());
    }

    #[test]
    fn what_forms_send_is_decoded() {
        assert_eq!(form_decoded("a%2Bb+c%zz%4"), "a+b c%zz%4");
    }
}
