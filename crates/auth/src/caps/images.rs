//! Capabilities at the manager for work on block images: `profile rbd pool=vms namespace=n`.
//!
//! Other capabilities at the manager are read as those at monitors; a text with these is none of them.

use super::Access;
use crate::accepted::Granted;

/// Where images may be worked on, and how. `None`: anywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ImageGrant {
    access: Access,
    pool: Option<String>,
    namespace: Option<String>,
}

/// Capabilities for work on images.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ImageCaps {
    grants: Vec<ImageGrant>,
}

/// The manager's part that works on images.
const MODULE: &str = "rbd_support";

impl ImageCaps {
    /// The capabilities in somebody's text for the manager. Grants that are not about images, and those that are not
    /// understood, grant nothing.
    pub fn of(granted: &Granted) -> ImageCaps {
        match granted {
            Granted::Everything => {
                ImageCaps { grants: vec![ImageGrant { access: Access::EVERYTHING, pool: None, namespace: None }] }
            }
            Granted::Text(text) => ImageCaps { grants: text.split([',', ';']).filter_map(grant).collect() },
        }
    }

    /// True if this may be done with images of that pool and namespace.
    pub fn allows(&self, needs: Access, pool: &str, namespace: &str) -> bool {
        let is_there = |rule: &Option<String>, is: &str| rule.as_deref().is_none_or(|rule| rule == is);
        self.grants.iter().any(|grant| {
            grant.access.covers(needs) && is_there(&grant.pool, pool) && is_there(&grant.namespace, namespace)
        })
    }

    /// True if this may be done with images of some pool.
    pub fn allows_somewhere(&self, needs: Access) -> bool {
        self.grants.iter().any(|grant| grant.access.covers(needs))
    }

    /// True if this may be done with images of every pool and namespace.
    pub fn allows_everywhere(&self, needs: Access) -> bool {
        let is_everywhere = |grant: &ImageGrant| grant.pool.is_none() && grant.namespace.is_none();
        self.grants.iter().any(|grant| grant.access.covers(needs) && is_everywhere(grant))
    }
}

fn access(word: &str) -> Option<Access> {
    match word {
        "*" | "all" => Some(Access::EVERYTHING),
        _ if !word.is_empty() && word.bytes().all(|letter| b"rwx".contains(&letter)) => Some(Access::of_letters(word)),
        _ => None,
    }
}

/// Reads one grant.
fn grant(text: &str) -> Option<ImageGrant> {
    let words = words(text)?;
    let mut words = words.iter().map(String::as_str).peekable();
    words.next_if_eq(&"allow");
    let anywhere = |access| ImageGrant { access, pool: None, namespace: None };
    let mut grant = match (words.next()?, words.peek().copied()) {
        ("profile", Some("rbd")) => anywhere(Access::RW),
        ("profile", Some("rbd-read-only")) => anywhere(Access::R),
        ("module", Some(MODULE)) => anywhere(Access::of_letters("")),
        (word, None) => return access(word).map(anywhere),
        _ => return None,
    };
    words.next();
    while let Some(word) = words.next() {
        match word {
            "with" => {}
            "pool" => grant.pool = Some(words.next()?.to_owned()),
            "namespace" => grant.namespace = Some(words.next()?.to_owned()),
            word => grant.access = access(word)?,
        }
    }
    Some(grant)
}

/// Splits a text at blanks and `=`, except between quotes. `None`: a quote has no end.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '"' | '\'' => rest[1..].split_once(first)?,
            _ => rest.split_at(rest.find([' ', '\t', '\n', '=']).unwrap_or(rest.len())),
        };
        words.push(word.to_owned());
        rest = after.trim_start_matches([' ', '\t', '\n', '=']);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(text: &str, needs: Access, pool: &str, namespace: &str) -> bool {
        ImageCaps::of(&Granted::Text(text.to_owned())).allows(needs, pool, namespace)
    }

    #[test]
    fn profiles_hold_for_their_pools_and_namespaces() {
        for text in ["profile rbd", "allow *", "allow rw", "allow profile rbd", "allow module rbd_support rw"] {
            assert!(allows(text, Access::W, "p", "") && allows(text, Access::R, "p", "n"), "{text}");
        }
        for text in
            ["profile rbd pool=p", "profile rbd pool p", "allow r, profile rbd pool=\"p\"", "profile rbd pool = 'p'"]
        {
            assert!(allows(text, Access::W, "p", "") && allows(text, Access::W, "p", "n"), "{text}");
            assert!(!allows(text, Access::W, "q", ""), "{text}");
        }
        let one = "profile rbd pool=p namespace=n";
        assert!(
            allows(one, Access::W, "p", "n") && !allows(one, Access::W, "p", "") && !allows(one, Access::W, "q", "n")
        );
        let of = ImageCaps::of(&Granted::Text(one.to_owned()));
        assert!(of.allows_somewhere(Access::RW) && !of.allows_everywhere(Access::R));
        let reads = "profile rbd-read-only";
        assert!(allows(reads, Access::R, "p", "") && !allows(reads, Access::W, "p", ""));
        for text in ["", "allow r", "profile osd", "profile rbd pool", "profile rbd pool='p", "allow module crash rw"] {
            assert!(!allows(text, Access::W, "p", ""), "{text}");
        }
        assert!(ImageCaps::of(&Granted::Everything).allows_everywhere(Access::RWX));
    }
}
