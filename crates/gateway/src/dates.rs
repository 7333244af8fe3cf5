//! Times of signatures that the wire layer does not look at: dates of requests by version 2 in headers, and how long
//! addresses by version 4 hold.

use crate::convert::basic_time;
use http::header::{AUTHORIZATION, DATE};
use http::{HeaderMap, HeaderValue, Request, Uri};
use s3rules::UnixMillis;
use s3s::{S3Error, S3ErrorCode};

/// Clocks of clients may be wrong by so much.
const SKEW_MAX_MS: i64 = 15 * 60 * 1000;
/// Longest time for which an address holds: seven days.
const EXPIRES_MAX_S: i64 = 7 * 24 * 3600;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn denied(why: &'static str) -> S3Error {
    S3Error::with_message(S3ErrorCode::AccessDenied, why)
}

/// Reads a date as headers have it, such as `Tue, 27 Mar 2007 19:36:42 +0000`. The day of the week is passed over: the
/// signature is about the text, and the time about the rest.
fn header_time(text: &str) -> Option<UnixMillis> {
    let text = text.split_once(',').map_or(text, |(_, rest)| rest);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [day, month, year, time, zone] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? + 1;
    let zone = match zone {
        "GMT" | "UTC" | "UT" | "Z" => "Z".to_owned(),
        offset => format!("{}:{}", offset.get(..3)?, offset.get(3..)?),
    };
    let day: u8 = day.parse().ok()?;
    UnixMillis::parse(&format!("{year}-{month:02}-{day:02}T{time}{zone}"))
}

/// The date of a request that is signed by version 2.
fn date_of(headers: &HeaderMap) -> Option<UnixMillis> {
    let text = headers.get("x-amz-date").or_else(|| headers.get(DATE))?.to_str().ok()?.trim();
    header_time(text).or_else(|| basic_time(text)).or_else(|| UnixMillis::parse(text))
}

/// Why a request is refused for its times. Errors: `AccessDenied` without a date, or for an address that is to hold for
/// too long or not at all; `RequestTimeTooSkewed`.
pub(crate) fn check<B>(request: &Request<B>, now: UnixMillis) -> Result<(), S3Error> {
    check_address(request.uri())?;
    check_date(request.headers(), now)
}

fn check_address(uri: &Uri) -> Result<(), S3Error> {
    let pairs = || uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let asked = |name: &str| pairs().find(|(known, _)| *known == name).map(|(_, value)| value);
    match asked("X-Amz-Signature").and_then(|_| asked("X-Amz-Expires")).map(str::parse::<i64>) {
        Some(Ok(seconds)) if !(1..=EXPIRES_MAX_S).contains(&seconds) => {
            Err(denied("an address holds for a second at least and seven days at most"))
        }
        // Anything else is refused by the wire layer.
        _ => Ok(()),
    }
}

/// The query does not count here: a signature by version 2 is about few of its names, so anybody could add others.
fn check_date(headers: &HeaderMap, now: UnixMillis) -> Result<(), S3Error> {
    let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    if !authorization.is_some_and(|value| value.starts_with(b"AWS ")) {
        return Ok(());
    }
    match date_of(headers) {
        Some(date) if date.0 >= 0 && (now.0 - date.0).abs() > SKEW_MAX_MS => {
            let message = "the request's date is more than 15 minutes from this gateway's";
            Err(S3Error::with_message(S3ErrorCode::RequestTimeTooSkewed, message))
        }
        Some(date) if date.0 >= 0 => Ok(()),
        _ => Err(denied("a signature by version 2 comes with the date of the request")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-28T16:00:00Z.
    const NOW: UnixMillis = UnixMillis(1_795_881_600_000);

    fn outcome(uri: &str, headers: &[(&str, &str)]) -> Option<S3ErrorCode> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).expect("a request"), NOW).err().map(|error| error.code().clone())
    }

    #[test]
    fn dates_of_version_2() {
        let denied = Some(S3ErrorCode::AccessDenied);
        let skewed = Some(S3ErrorCode::RequestTimeTooSkewed);
        for (date, expected) in [
            ("Sat, 28 Nov 2026 16:14:59 GMT", None),
            ("Sat, 28 Nov 2026 15:45:01 +0000", None),
            ("Sat, 28 Nov 2026 17:00:01 +0100", None),
            ("28 Nov 2026 16:00:00 GMT", None),
            ("Mon, 28 nov 2026 16:00:00 GMT", None),
            ("20261128T160000Z", None),
            ("2026-11-28T16:00:00Z", None),
            ("Sat, 28 Nov 2026 16:15:01 GMT", skewed.clone()),
            ("Sat, 28 Nov 2026 15:44:59 GMT", skewed.clone()),
            ("Tue, 07 Jul 2010 21:53:04 GMT", skewed.clone()),
            ("Tue, 07 Jul 9999 21:53:04 GMT", skewed.clone()),
            ("Tue, 07 Jul 1950 21:53:04 GMT", denied.clone()),
            ("Bad Date", denied.clone()),
            ("Sat, 31 Feb 2026 16:00:00 GMT", denied.clone()),
            ("Sat, 28 Nov 2026 16:00:00 é", denied.clone()),
            ("", denied.clone()),
        ] {
            for name in ["x-amz-date", "date"] {
                assert_eq!(outcome("/b/k", &[("authorization", "AWS AK:x"), (name, date)]), expected, "{date}");
            }
            // Without a signature of this kind nobody asks.
            assert_eq!(outcome("/b/k", &[("authorization", "AWS4-HMAC-SHA256 x"), ("x-amz-date", date)]), None);
            assert_eq!(outcome("/b/k", &[("date", date)]), None);
        }
        assert_eq!(outcome("/b/k", &[("authorization", "AWS AK:x")]), denied);
        let both = [("authorization", "AWS AK:x"), ("date", "Bad"), ("x-amz-date", "Sat, 28 Nov 2026 16:00:00 GMT")];
        assert_eq!(outcome("/b/k", &both), None, "the second name goes before the first");
    }

    /// A request that somebody has seen comes again later, with names in its query that its signature is not about.
    #[test]
    fn names_in_the_query_save_no_date_of_version_2() {
        let old = [("authorization", "AWS AK:x"), ("date", "Sat, 28 Nov 2026 15:44:59 GMT")];
        for query in ["", "?X-Amz-Signature=00&X-Amz-Expires=60", "?X-Amz-Expires=60&X-Amz-Signature"] {
            let code = outcome(&format!("/b/k{query}"), &old);
            assert_eq!(code, Some(S3ErrorCode::RequestTimeTooSkewed), "{query}");
        }
    }

    #[test]
    fn addresses_hold_for_a_week_at_most() {
        let of = |expires: &str| outcome(&format!("/b/k?X-Amz-Expires={expires}&X-Amz-Signature=00"), &[]);
        for right in ["1", "604800"] {
            assert_eq!(of(right), None);
        }
        for wrong in ["0", "-7", "604801"] {
            assert_eq!(of(wrong), Some(S3ErrorCode::AccessDenied), "{wrong}");
        }
        assert_eq!((of("x"), outcome("/b/k?X-Amz-Expires=0", &[])), (None, None));
    }
}
