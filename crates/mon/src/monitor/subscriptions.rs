//! Subscriptions of a session.

use std::collections::BTreeMap;

/// One subscription: to data that is at least as new as `next`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscription {
    pub next: u64,
    /// True if it ends after one answer.
    pub once: bool,
}

/// Most names that one session may subscribe to: more than there are.
pub const SUBSCRIPTIONS_MAX: usize = 64;

/// The subscriptions of one session, by name (`osdmap`).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Subscriptions {
    wanted: BTreeMap<String, Subscription>,
}

impl Subscriptions {
    /// Begins a subscription or replaces it. One to the cluster log from some level on (`log-info`) replaces that from
    /// another. Ignored beyond [`SUBSCRIPTIONS_MAX`] names.
    pub fn want(&mut self, what: &str, subscription: Subscription) {
        const LOG: &str = "log-";
        if what.starts_with(LOG) {
            self.wanted.retain(|other, _| other == what || !other.starts_with(LOG));
        }
        if self.wanted.contains_key(what) || self.wanted.len() < SUBSCRIPTIONS_MAX {
            self.wanted.insert(what.to_owned(), subscription);
        }
    }

    pub fn get(&self, what: &str) -> Option<Subscription> {
        self.wanted.get(what).copied()
    }

    /// Returns the subscription to `what`, if there is one and `version` is new enough for it.
    pub fn due(&self, what: &str, version: u64) -> Option<Subscription> {
        self.get(what).filter(|subscription| version >= subscription.next)
    }

    /// Notes that everything up to `version` was sent: the subscription goes on behind it, or ends.
    pub fn sent(&mut self, what: &str, version: u64) {
        let Some(subscription) = self.wanted.get_mut(what) else { return };
        if subscription.once {
            self.wanted.remove(what);
        } else {
            subscription.next = version + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_advance_or_end() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.want("osdmap", Subscription { next: 0, once: false });
        subscriptions.want("monmap", Subscription { next: 3, once: true });
        assert_eq!(subscriptions.due("monmap", 2), None);
        assert!(subscriptions.due("monmap", 3).is_some());
        subscriptions.sent("monmap", 3);
        assert_eq!(subscriptions.get("monmap"), None);
        subscriptions.sent("osdmap", 7);
        assert_eq!(subscriptions.due("osdmap", 7), None);
        assert_eq!(subscriptions.due("osdmap", 8), Some(Subscription { next: 8, once: false }));
    }

    #[test]
    fn a_session_follows_the_log_from_one_level_on() {
        let mut subscriptions = Subscriptions::default();
        for what in ["monmap", "log-info", "log-error"] {
            subscriptions.want(what, Subscription { next: 1, once: false });
        }
        assert_eq!(subscriptions.wanted.keys().collect::<Vec<_>>(), ["log-error", "monmap"]);
        subscriptions.sent("log-error", 8);
        subscriptions.want("log-error", Subscription { next: 5, once: false });
        assert_eq!(subscriptions.get("log-error").map(|wanted| wanted.next), Some(5));
    }

    #[test]
    fn a_session_cannot_subscribe_without_bound() {
        let mut subscriptions = Subscriptions::default();
        for i in 0..1000 {
            subscriptions.want(&format!("kv:{i}"), Subscription { next: 0, once: false });
        }
        assert_eq!(subscriptions.wanted.len(), SUBSCRIPTIONS_MAX);
    }
}
