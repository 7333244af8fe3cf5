//! The keys by which monitors know each other, and how another one takes the place of the present one.
//!
//! All monitors prove one key, that of the entity `mon.`. While it has a pending key, both are good. Once that is
//! committed, each monitor proves the new one as soon as it has applied the commit, and goes on to take the former one
//! for [`GRACE`]: from monitors that have not come so far. One that was cut off or away for longer needs the new key
//! in its keyring.

use auth::Key;
use auth::cephx::rotating::RotatingSecrets;
use mutant::Mutant;
use std::time::Duration;

/// Time for which a key is taken after the cluster's state has lost it.
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// A key that is good, with the secret by which tickets are opened that were made with it.
#[derive(Debug)]
pub(super) struct SharedKey {
    pub key: Key,
    pub secrets: RotatingSecrets,
    /// The time at which it is no longer good, for one that the state has lost.
    ends: Option<Duration>,
}

impl SharedKey {
    fn new(key: &Key) -> SharedKey {
        SharedKey { key: key.clone(), secrets: RotatingSecrets::of_shared_key(key), ends: None }
    }
}

/// The keys of one monitor.
#[derive(Default, Debug)]
pub(super) struct SharedKeys {
    good: Vec<SharedKey>,
    /// The one that this monitor proves.
    own: Option<Key>,
    /// Keys in the state when it was last looked at: the present one, then the pending one.
    stated: Vec<Key>,
}

impl SharedKeys {
    /// Takes the keys of the keyring, of which the monitor proves the first, and those of the state. The keyring may be
    /// ahead of the state that a monitor starts with.
    pub fn new(keyring: &[Key], stated: Vec<Key>) -> SharedKeys {
        let mut keys = SharedKeys { own: keyring.first().or(stated.first()).cloned(), ..SharedKeys::default() };
        for key in keyring.iter().chain(&stated) {
            keys.admit(key);
        }
        SharedKeys { stated, ..keys }
    }

    fn admit(&mut self, key: &Key) {
        match self.good.iter_mut().find(|good| good.key == *key) {
            Some(good) => good.ends = None,
            None => self.good.push(SharedKey::new(key)),
        }
    }

    /// Keys that another monitor may prove.
    pub fn good(&self) -> impl Iterator<Item = &SharedKey> {
        self.good.iter()
    }

    /// Goes by the keys that the state has now. True if they are others than before.
    ///
    /// A key is lost only by a step from a state that had it to one that has it not: states before the key came, which
    /// a monitor that starts goes through, take nothing from it.
    pub fn follow(&mut self, stated: Vec<Key>, now: Duration) -> bool {
        if stated == self.stated {
            return false;
        }
        stated.iter().for_each(|key| self.admit(key));
        for lost in self.stated.iter().filter(|key| !stated.contains(key)) {
            let ends = if mutant::is(Mutant::FormerKeyRefused) { now } else { now + GRACE };
            self.good.iter_mut().filter(|good| good.key == *lost).for_each(|good| good.ends = Some(ends));
            if self.own.as_ref() == Some(lost) {
                self.own = None;
            }
        }
        self.own = self.own.take().or_else(|| stated.first().cloned());
        self.stated = stated;
        true
    }

    /// Forgets keys whose time is over. True if there was one.
    pub fn forget_ended(&mut self, now: Duration) -> bool {
        let before = self.good.len();
        self.good.retain(|good| good.ends.is_none_or(|ends| now < ends));
        self.good.len() < before
    }

    /// Keys for the keyring: the one that this monitor proves, then one that will take its place or has not yet gone
    /// from the state.
    pub fn for_keyring(&self) -> Vec<Key> {
        let stays = |good: &&SharedKey| good.ends.is_none() && Some(&good.key) != self.own.as_ref();
        self.own.iter().chain(self.good.iter().filter(stays).map(|good| &good.key)).take(2).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::KeyKind;
    use types::Utime;

    fn key(number: u8) -> Key {
        Key::new(KeyKind::Aes, Utime::ZERO, &[number; 16]).unwrap()
    }

    fn good(keys: &SharedKeys) -> Vec<Key> {
        keys.good().map(|good| good.key.clone()).collect()
    }

    const NOW: Duration = Duration::from_secs(7);

    #[test]
    fn both_keys_are_good_until_the_new_one_is_committed_and_the_former_for_a_while_after() {
        let (old, new) = (key(1), key(2));
        let mut keys = SharedKeys::new(std::slice::from_ref(&old), vec![old.clone()]);
        assert!(!keys.follow(vec![old.clone()], NOW));
        assert_eq!((good(&keys), keys.for_keyring()), (vec![old.clone()], vec![old.clone()]));
        assert!(keys.follow(vec![old.clone(), new.clone()], NOW));
        assert_eq!((good(&keys), keys.for_keyring()), (vec![old.clone(), new.clone()], vec![old.clone(), new.clone()]));
        assert!(keys.follow(vec![new.clone()], NOW));
        assert_eq!((good(&keys), keys.for_keyring()), (vec![old, new.clone()], vec![new.clone()]));
        assert!(!keys.forget_ended(NOW + GRACE - Duration::from_millis(1)));
        assert!(keys.forget_ended(NOW + GRACE));
        assert_eq!((good(&keys), keys.for_keyring()), (vec![new.clone()], vec![new]));
    }

    #[test]
    fn a_pending_key_that_is_given_up_is_forgotten_and_may_come_again() {
        let (old, new) = (key(1), key(2));
        let mut keys = SharedKeys::new(std::slice::from_ref(&old), vec![old.clone(), new.clone()]);
        assert!(keys.follow(vec![old.clone()], NOW));
        assert_eq!(keys.for_keyring(), std::slice::from_ref(&old));
        assert!(keys.follow(vec![old.clone(), new.clone()], NOW));
        assert!(!keys.forget_ended(NOW + GRACE));
        assert_eq!(good(&keys), [old, new]);
    }

    /// The keyring is ahead: the monitor ended behind two replacements, and starts with a snapshot from before them.
    #[test]
    fn states_from_before_the_keyring_take_no_key_from_it() {
        let [first, second, third] = [1, 2, 3].map(key);
        let mut keys = SharedKeys::new(std::slice::from_ref(&third), vec![first.clone()]);
        let pass = [vec![&first, &second], vec![&second], vec![&second, &third], vec![&third]];
        for stated in pass {
            assert!(keys.follow(stated.into_iter().cloned().collect(), NOW));
            assert_eq!(keys.for_keyring()[0], third);
            keys.forget_ended(NOW + GRACE);
            assert!(good(&keys).contains(&third));
        }
        assert_eq!(good(&keys), [third]);
    }

    #[test]
    fn a_monitor_without_a_keyring_proves_what_the_state_has() {
        let (old, new) = (key(1), key(2));
        let mut keys = SharedKeys::new(&[], vec![old.clone()]);
        assert_eq!(keys.for_keyring(), [old]);
        keys.follow(vec![new.clone()], NOW);
        assert_eq!(keys.for_keyring(), [new]);
        let mut none = SharedKeys::new(&[], Vec::new());
        assert_eq!(none.for_keyring(), []);
        assert!(!none.follow(Vec::new(), NOW));
    }
}
