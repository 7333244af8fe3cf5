//! The method `none`: a name and an id that nobody proves.

use super::audience;
use crate::refusal::Refusal;
use wire::basic::AuthName;
use wire::{Encode, Reader, Target, Writer};

/// The payload of a request, for a monitor or a service.
pub(super) fn request(audience: u8, name: &AuthName, global_id: u64) -> Vec<u8> {
    let mut w = Writer::new(Target::PACIFIC);
    w.u8(audience);
    name.encode(&mut w);
    w.u64(global_id);
    w.into_vec()
}

/// Reads who somebody is: with `none` that is all there is, with `cephx` it is what a monitor will have proven.
pub(super) fn read_request(payload: &[u8], audience: u8) -> Result<(AuthName, u64), Refusal> {
    let mut r = Reader::new(payload);
    match r.u8()? {
        found if found == audience => Ok((r.get()?, r.u64()?)),
        found @ (audience::MONITOR | audience::SERVICE) => Err(Refusal::Audience(found)),
        other => Err(wire::DecodeError::Value { what: "audience of a request", value: other.into() }.into()),
    }
}
