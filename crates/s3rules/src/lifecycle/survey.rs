//! Which keys of a bucket are worth a look.

use crate::lifecycle::{LifecycleConfiguration, LifecycleRule, LifecycleScope};

impl LifecycleConfiguration {
    fn enabled(&self) -> impl Iterator<Item = &LifecycleRule> {
        self.rules.iter().filter(|rule| rule.enabled)
    }

    /// The longest prefix of all keys that enabled rules are about; `None` if no rule is enabled.
    pub fn common_prefix(&self) -> Option<String> {
        // Of several prefixes of one rule the longest says most.
        let of_rule = |rule: &LifecycleRule| {
            rule.scope.prefixes().max_by_key(|prefix| prefix.len()).unwrap_or_default().to_owned()
        };
        self.enabled().map(of_rule).reduce(|common, prefix| {
            let pairs = common.char_indices().zip(prefix.chars());
            let end = pairs.take_while(|((_, a), b)| a == b).map(|((at, a), _)| at + a.len_utf8()).last();
            prefix[..end.unwrap_or(0)].to_owned()
        })
    }

    /// True if an enabled rule gives uploads up.
    pub fn aborts_uploads(&self) -> bool {
        self.enabled().any(|rule| rule.abort_uploads_days.is_some())
    }

    /// True if an enabled rule is about some versions alone because of their tags.
    pub fn looks_at_tags(&self) -> bool {
        self.enabled().any(|rule| rule.scope.terms().any(|terms| !terms.tags.is_empty()))
    }

    /// Gives rules that do not look at tags: where they do nothing with a version, these rules do nothing with it.
    pub fn whatever_tags(&self) -> LifecycleConfiguration {
        let mut rules = self.rules.clone();
        for rule in &mut rules {
            if let LifecycleScope::Filter(filter) = &mut rule.scope {
                for terms in std::iter::once(&mut filter.own).chain(&mut filter.and) {
                    terms.tags.clear();
                }
            }
        }
        LifecycleConfiguration { rules }
    }
}
