//! Subscriptions of clients.

use crate::envelope::{Header, Message};
use crate::{Decode, DecodeError, Encode, Reader, Rope, Writer};
use std::collections::BTreeMap;
use types::Fsid;

/// Subscription to one map or log.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// The first version wanted; 0 for the newest, in full.
    pub start: u64,
    /// The subscription ends with the first message.
    pub onetime: bool,
}

impl Encode for Subscription {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.start);
        w.bool(self.onetime);
    }
}

impl Decode for Subscription {
    const MIN_BYTES: usize = 9;

    fn decode(r: &mut Reader<'_>) -> Result<Subscription, DecodeError> {
        const ONETIME: u8 = 1;
        Ok(Subscription { start: r.u64()?, onetime: r.u8()? & ONETIME != 0 })
    }
}

/// Subscribes to maps and logs by name (`osdmap`, `monmap`, `config`, `mgrmap`, `log-info`, ...). Ceph's
/// `MMonSubscribe`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MonSubscribe {
    pub what: BTreeMap<String, Subscription>,
    pub hostname: String,
}

impl Message for MonSubscribe {
    const TYPE: u16 = 15;
    const VERSION: u16 = 3;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.what);
        w.str(&self.hostname);
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<MonSubscribe, DecodeError> {
        if header.version < 2 {
            return Err(DecodeError::Value { what: "layout of a subscription", value: header.version.into() });
        }
        let what = r.get()?;
        Ok(MonSubscribe { what, hostname: if header.version >= 3 { r.get()? } else { String::new() } })
    }
}

/// Tells old clients when to renew their subscriptions. Ceph's `MMonSubscribeAck`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MonSubscribeAck {
    pub interval_s: u32,
    pub fsid: Fsid,
}

impl Message for MonSubscribeAck {
    const TYPE: u16 = 16;

    fn encode_front(&self, w: &mut Writer) {
        w.u32(self.interval_s);
        w.put(&self.fsid);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<MonSubscribeAck, DecodeError> {
        Ok(MonSubscribeAck { interval_s: r.u32()?, fsid: r.get()? })
    }
}
