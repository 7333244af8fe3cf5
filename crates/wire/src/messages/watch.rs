//! Notifications about watched objects.

use crate::envelope::{Header, Message, priority};
use crate::{Decode, DecodeError, Encode, Reader, Rope, Writer};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Kind of a [`WatchNotify`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchNotifyOp {
    /// To a watcher: a notification.
    Notify = 1,
    /// To the notifier: all watchers have answered, or the time is up.
    NotifyComplete = 2,
    /// To a watcher: the watch is gone.
    Disconnect = 3,
}

impl WatchNotifyOp {
    /// Number of the kind on the wire.
    const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the kind that has this number on the wire.
    fn of(number: u8) -> Option<WatchNotifyOp> {
        let all = [WatchNotifyOp::Notify, WatchNotifyOp::NotifyComplete, WatchNotifyOp::Disconnect];
        all.into_iter().find(|op| op.number() == number)
    }
}

/// A message from an OSD to a watcher or notifier. Ceph's `MWatchNotify`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchNotify {
    pub op: WatchNotifyOp,
    /// Cookie of the receiver's own watch or notify operation.
    pub cookie: u64,
    pub version: u64,
    pub notify_id: u64,
    /// Payload from the notifier.
    pub payload: Bytes,
    /// 0, or a negated error number (a watcher was too slow).
    pub result: i32,
    pub notifier_gid: u64,
    /// With [`WatchNotifyOp::NotifyComplete`]: an encoded [`NotifyReplies`].
    pub replies: Rope,
}

impl Message for WatchNotify {
    const TYPE: u16 = 44;
    const VERSION: u16 = 3;
    const PRIORITY: u16 = priority::CLIENT_OP;

    fn encode_front(&self, w: &mut Writer) {
        w.u8(1); // layout of old
        w.u8(self.op.number());
        w.u64(self.cookie);
        w.u64(self.version);
        w.u64(self.notify_id);
        w.blob(&self.payload);
        w.i32(self.result);
        w.u64(self.notifier_gid);
    }

    fn take_data(&mut self) -> Rope {
        std::mem::take(&mut self.replies)
    }

    fn decode(header: &Header, r: &mut Reader<'_>, data: &Rope) -> Result<WatchNotify, DecodeError> {
        if header.version < Self::VERSION {
            return Err(DecodeError::Value { what: "layout of a notification", value: header.version.into() });
        }
        r.skip(1)?;
        let number = r.u8()?;
        let op = WatchNotifyOp::of(number).ok_or(DecodeError::Value { what: "notification", value: number.into() })?;
        Ok(WatchNotify {
            op,
            cookie: r.u64()?,
            version: r.u64()?,
            notify_id: r.u64()?,
            payload: r.blob_bytes()?,
            result: r.i32()?,
            notifier_gid: r.u64()?,
            replies: data.clone(),
        })
    }
}

/// Watchers that answered a notification, and those that did not. A watcher is (global id, cookie).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct NotifyReplies {
    pub replies: BTreeMap<(u64, u64), Bytes>,
    pub timeouts: Vec<(u64, u64)>,
}

impl Encode for NotifyReplies {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.replies);
        w.put(&self.timeouts);
    }
}

impl Decode for NotifyReplies {
    const MIN_BYTES: usize = 8;

    fn decode(r: &mut Reader<'_>) -> Result<NotifyReplies, DecodeError> {
        Ok(NotifyReplies { replies: r.get()?, timeouts: r.get()? })
    }
}
