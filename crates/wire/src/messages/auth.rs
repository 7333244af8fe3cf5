//! Requests for tickets and secrets on a session with a monitor that stands.

use super::paxos::{get_head, put_head};
use crate::envelope::{Header, Message};
use crate::{DecodeError, Reader, Rope, Writer};
use bytes::Bytes;

/// A request of an authentication method, in its own encoding. Ceph's `MAuth`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Auth {
    /// Number of the method; 2 is cephx.
    pub method: u32,
    pub payload: Bytes,
    /// Epoch of the monitor map that the sender has.
    pub monmap_epoch: u32,
}

impl Message for Auth {
    const TYPE: u16 = 17;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        put_head(w, 0);
        w.u32(self.method);
        w.blob(&self.payload);
        w.u32(self.monmap_epoch);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<Auth, DecodeError> {
        get_head(r)?;
        let (method, payload) = (r.u32()?, Bytes::copy_from_slice(r.blob()?));
        // Clients of the first releases end here.
        let monmap_epoch = if r.is_empty() { 0 } else { r.u32()? };
        Ok(Auth { method, payload, monmap_epoch })
    }
}

/// The answer to [`Auth`]. Ceph's `MAuthReply`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthReply {
    pub method: u32,
    /// 0, or a negative error number.
    pub result: i32,
    pub global_id: u64,
    pub payload: Bytes,
    /// Words for people.
    pub status: String,
}

impl Message for AuthReply {
    const TYPE: u16 = 18;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.u32(self.method);
        w.i32(self.result);
        w.u64(self.global_id);
        w.blob(&self.payload);
        w.str(&self.status);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<AuthReply, DecodeError> {
        Ok(AuthReply {
            method: r.u32()?,
            result: r.i32()?,
            global_id: r.u64()?,
            payload: Bytes::copy_from_slice(r.blob()?),
            status: r.get()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn requests_and_answers_read_back_and_their_bytes_do_not_move() {
        let request = Auth { method: 2, payload: Bytes::from_static(&[7, 8]), monmap_epoch: 3 };
        let envelope = request.clone().seal(0, Target::PACIFIC);
        let head = [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(envelope.front[..], [&head[..], &[2, 0, 0, 0, 2, 0, 0, 0, 7, 8, 3, 0, 0, 0]].concat());
        assert_eq!(Auth::open(&envelope), Ok(request));
        let reply =
            AuthReply { method: 2, result: -13, global_id: 5, payload: Bytes::from_static(&[9]), status: "no".into() };
        let envelope = reply.clone().seal(0, Target::PACIFIC);
        let bytes = [2, 0, 0, 0, 0xf3, 0xff, 0xff, 0xff, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 2, 0, 0, 0, b'n', b'o'];
        assert_eq!(envelope.front[..], bytes);
        assert_eq!(AuthReply::open(&envelope), Ok(reply));
    }
}
