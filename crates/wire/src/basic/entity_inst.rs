//! A party and its address.

use crate::addr::EntityAddr;
use crate::{Decode, DecodeError, Encode, Reader, Writer};
use std::fmt;
use types::EntityName;

/// Ceph's `entity_inst_t`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct EntityInst {
    pub name: EntityName,
    pub addr: EntityAddr,
}

impl fmt::Display for EntityInst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.addr)
    }
}

impl Encode for EntityInst {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.name);
        w.put(&self.addr);
    }
}

impl Decode for EntityInst {
    const MIN_BYTES: usize = 9 + 12;

    fn decode(r: &mut Reader<'_>) -> Result<EntityInst, DecodeError> {
        Ok(EntityInst { name: r.get()?, addr: r.get()? })
    }
}
