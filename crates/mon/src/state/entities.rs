//! Entities: who may prove himself to the cluster, and what he may then do.

use auth::cephx::monitor::Entities;
use auth::keyring::Entry;
use auth::{Key, KeyKind};
use std::collections::BTreeMap;
use types::Utime;
use wire::basic::AuthName;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// The name of the monitors' own key, which they share. Listings and keyrings of all entities pass over it, and no
/// command removes it.
pub const MONITORS: &str = "mon.";

/// Options about kinds of keys, by the names that Ceph's newest releases give them.
pub(crate) const ALLOWED_CIPHERS: &str = "auth_allowed_ciphers";
pub(crate) const PREFERRED_CIPHER: &str = "auth_preferred_cipher";
pub(crate) const SERVICE_CIPHER: &str = "auth_service_cipher";

/// The keys and the capabilities of one entity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthEntry {
    pub key: Key,
    /// The key that is to replace the other one. Both are good until then.
    pub pending_key: Option<Key>,
    /// Capabilities of the entity by service: `mon` → `allow *`.
    pub caps: BTreeMap<String, String>,
}

impl AuthEntry {
    /// The keys that are good: the present one, then the pending one.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.key).chain(&self.pending_key)
    }
}

impl From<Entry> for AuthEntry {
    fn from(Entry { key, pending_key, caps }: Entry) -> AuthEntry {
        AuthEntry { key, pending_key, caps }
    }
}

impl From<AuthEntry> for Entry {
    fn from(AuthEntry { key, pending_key, caps }: AuthEntry) -> Entry {
        Entry { key, pending_key, caps }
    }
}

/// Versions of the encoding of [`AuthEntry`].
mod form {
    /// Has a key of any kind, and one that may replace it. The version before it, which is read, but no longer written,
    /// has the time at which the key was made, and the secret of a key of kind `aes`.
    pub const KEYS: u8 = 2;
}

impl Encode for AuthEntry {
    fn encode(&self, w: &mut Writer) {
        w.versioned(form::KEYS, form::KEYS, |w| {
            w.put(&self.key);
            w.put(&self.pending_key);
            w.put(&self.caps);
        });
    }
}

impl Decode for AuthEntry {
    const MIN_BYTES: usize = 34;

    fn decode(r: &mut Reader<'_>) -> Result<AuthEntry, DecodeError> {
        let (head, mut r) = r.versioned("auth entry", form::KEYS)?;
        if head.version >= form::KEYS {
            return Ok(AuthEntry { key: r.get()?, pending_key: r.get()?, caps: r.get()? });
        }
        let created: Utime = r.get()?;
        let secret: [u8; 16] = r.array()?;
        let key = Key::new(KeyKind::Aes, created, &secret).expect("keys of kind aes have 16 bytes");
        Ok(AuthEntry { key, pending_key: None, caps: r.get()? })
    }
}

/// Entities as handshakes look them up.
pub(crate) struct KnownEntities<'a>(pub &'a BTreeMap<String, AuthEntry>);

impl Entities for KnownEntities<'_> {
    fn find(&self, name: &AuthName) -> Option<Entry> {
        self.0.get(&name.to_string()).cloned().map(Entry::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Target;

    #[test]
    fn an_entry_of_version_1_is_read() {
        let caps: BTreeMap<String, String> = [("mon".to_owned(), "allow r".to_owned())].into();
        let created = Utime { sec: 1_795_262_700, nsec: 7 };
        let mut w = Writer::new(Target::PACIFIC);
        w.versioned(1, 1, |w| {
            w.put(&created);
            w.raw(&[5; 16]);
            w.put(&caps);
        });
        let key = Key::new(KeyKind::Aes, created, &[5; 16]).unwrap();
        assert_eq!(AuthEntry::from_slice(&w.into_vec()), Ok(AuthEntry { key, pending_key: None, caps }));
    }

    #[test]
    fn both_kinds_of_keys_read_back() {
        let key = |kind: KeyKind| Key::new(kind, Utime { sec: 9, nsec: 0 }, &[7; 32][..kind.secret_bytes()]).unwrap();
        let caps = [("osd".to_owned(), "allow *".to_owned())].into();
        let entry = AuthEntry { key: key(KeyKind::Aes), pending_key: Some(key(KeyKind::Aes256k)), caps };
        assert_eq!(AuthEntry::from_slice(&entry.to_vec(Target::PACIFIC)), Ok(entry));
    }
}
