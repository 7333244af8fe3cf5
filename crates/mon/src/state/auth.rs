//! Authentication entities: stored and answered now, enforced once `cephx` stands.

use std::collections::BTreeMap;
use types::Utime;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// The secret and the capabilities of one entity.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AuthEntry {
    /// Time at which the key was made.
    pub created: Utime,
    /// The AES-128 key.
    pub secret: [u8; 16],
    /// Capabilities of the entity by service: `mon` → `allow *`.
    pub caps: BTreeMap<String, String>,
}

impl Encode for AuthEntry {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.created);
            w.raw(&self.secret);
            w.put(&self.caps);
        });
    }
}

impl Decode for AuthEntry {
    const MIN_BYTES: usize = 34;

    fn decode(r: &mut Reader<'_>) -> Result<AuthEntry, DecodeError> {
        let (_, mut r) = r.versioned("auth entry", 1)?;
        Ok(AuthEntry { created: r.get()?, secret: r.array()?, caps: r.get()? })
    }
}
