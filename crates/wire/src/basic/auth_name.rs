//! Names used in authentication.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use std::fmt;
use types::EntityType;

/// A party by its configured name, such as `client.admin`; [`types::EntityName`] has a number instead. Ceph's
/// `EntityName`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AuthName {
    pub kind: EntityType,
    /// The part after the dot.
    pub id: String,
}

impl AuthName {
    pub fn new(kind: EntityType, id: impl Into<String>) -> AuthName {
        AuthName { kind, id: id.into() }
    }
}

impl Default for AuthName {
    fn default() -> AuthName {
        AuthName::new(EntityType(0), "")
    }
}

impl fmt::Display for AuthName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind.word(), self.id)
    }
}

impl Encode for AuthName {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.kind.0.into());
        w.str(&self.id);
    }
}

impl Decode for AuthName {
    const MIN_BYTES: usize = 8;

    fn decode(r: &mut Reader<'_>) -> Result<AuthName, DecodeError> {
        let kind = r.u32()?;
        let kind = u8::try_from(kind)
            .map_err(|_| DecodeError::Value { what: "entity type", value: kind.into() })
            .map(EntityType)?;
        Ok(AuthName { kind, id: r.get()? })
    }
}
