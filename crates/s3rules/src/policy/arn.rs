//! Amazon resource names: of a request's resource, and patterns of them.

use crate::policy::context::Context;
use crate::policy::pattern::{Pattern, Syntax};

/// Parts of a name: `arn`, partition, service, region, account, resource.
const PARTS: usize = 6;

/// Pattern of resource names. Each part is matched by itself: a wildcard never reaches over a colon, except in the last
/// part, which may hold colons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArnPattern {
    /// `*` alone: every name.
    Any,
    Parts(Vec<Pattern>),
}

impl ArnPattern {
    /// Reads a pattern. `None` if it has fewer than six parts or a variable that is none.
    pub fn parse(text: &str, variables: bool) -> Option<ArnPattern> {
        if text == "*" {
            return Some(ArnPattern::Any);
        }
        let parts = split(text);
        if parts.len() != PARTS || parts[0] != "arn" || parts[5].is_empty() {
            return None;
        }
        let syntax = Syntax { wildcards: true, variables };
        let patterns: Result<Vec<Pattern>, String> = parts.iter().map(|part| Pattern::parse(part, syntax)).collect();
        patterns.ok().map(ArnPattern::Parts)
    }

    /// True if the pattern fits this name.
    pub fn fits(&self, arn: &str, context: &Context) -> bool {
        match self {
            ArnPattern::Any => true,
            ArnPattern::Parts(patterns) => {
                let parts: Vec<&str> = arn.splitn(PARTS, ':').collect();
                parts.len() == PARTS && patterns.iter().zip(parts).all(|(pattern, part)| pattern.fits(part, context))
            }
        }
    }

    /// True if every variable has a value or a default.
    pub fn is_resolved(&self, context: &Context) -> bool {
        match self {
            ArnPattern::Any => true,
            ArnPattern::Parts(patterns) => patterns.iter().all(|pattern| pattern.is_resolved(context)),
        }
    }

    /// True without wildcards and variables.
    pub fn is_fixed(&self) -> bool {
        match self {
            ArnPattern::Any => false,
            ArnPattern::Parts(patterns) => patterns.iter().all(Pattern::is_fixed),
        }
    }

    /// Pattern of the account, the fifth part.
    pub fn account(&self) -> Option<&Pattern> {
        match self {
            ArnPattern::Any => None,
            ArnPattern::Parts(patterns) => patterns.get(4),
        }
    }

    /// Pattern of the service, the third part.
    pub fn service(&self) -> Option<&Pattern> {
        match self {
            ArnPattern::Any => None,
            ArnPattern::Parts(patterns) => patterns.get(2),
        }
    }

    /// Puts `account` in place of the account.
    pub fn set_account(&mut self, account: &str) {
        if let ArnPattern::Parts(patterns) = self {
            let syntax = Syntax { wildcards: false, variables: false };
            if let (Some(part), Ok(pattern)) = (patterns.get_mut(4), Pattern::parse(account, syntax)) {
                *part = pattern;
            }
        }
    }
}

/// Splits at colons that are not within a variable, into six parts at most.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut begin, mut in_variable, mut before) = (0, false, ' ');
    for (at, character) in text.char_indices() {
        match character {
            '{' if before == '$' => in_variable = true,
            '}' => in_variable = false,
            ':' if !in_variable && parts.len() < PARTS - 1 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
        before = character;
    }
    parts.push(&text[begin..]);
    parts
}

/// Name of a bucket, or of a key in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceArn {
    arn: String,
}

impl ResourceArn {
    /// `tenant`: of the bucket, empty for buckets without one.
    pub fn bucket(tenant: &str, bucket: &str) -> ResourceArn {
        ResourceArn { arn: format!("arn:aws:s3::{tenant}:{bucket}") }
    }

    pub fn object(tenant: &str, bucket: &str, key: &str) -> ResourceArn {
        ResourceArn { arn: format!("arn:aws:s3::{tenant}:{bucket}/{key}") }
    }

    /// All that a user has: the resource of requests without a bucket.
    pub fn service(tenant: &str) -> ResourceArn {
        ResourceArn { arn: format!("arn:aws:s3::{tenant}:*") }
    }

    pub fn as_str(&self) -> &str {
        &self.arn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_part_by_part() {
        let mut context = Context::default();
        context.set("aws:username", "ann");
        for (pattern, arn, fits) in [
            ("*", "arn:aws:s3:::b/k", true),
            ("arn:aws:s3:::b/*", "arn:aws:s3:::b/k/l", true),
            ("arn:aws:s3:::b/*", "arn:aws:s3:::b", false),
            ("arn:aws:s3:::b*", "arn:aws:s3:::b/k:l", true),
            ("arn:*:s3:*:*:b", "arn:aws:s3:::b", true),
            ("arn:aws:*:b", "arn:aws:s3:::b", false),
            ("arn:aws:s3:::b/${aws:username}/*", "arn:aws:s3:::b/ann/x", true),
            ("arn:aws:s3:::b/${aws:username}/*", "arn:aws:s3:::b/bob/x", false),
            ("arn:aws:s3:::b/${aws:userid}", "arn:aws:s3:::b/", false),
            ("arn:aws:s3:::b/a:b:c", "arn:aws:s3:::b/a:b:c", true),
            ("arn:aws:s3::${aws:username}:b", "arn:aws:s3::ann:b", true),
            ("arn:aws:s3::${aws:username}:b", "arn:aws:s3::bob:b", false),
        ] {
            let fitted = ArnPattern::parse(pattern, true).is_some_and(|p| p.fits(arn, &context));
            assert_eq!(fitted, fits, "{pattern} {arn}");
        }
        for pattern in ["", "b", "arn:aws:s3", "arn:aws:s3:::", "urn:aws:s3:::b", "arn:aws:s3:::b${x"] {
            assert!(ArnPattern::parse(pattern, true).is_none(), "{pattern}");
        }
    }
}
