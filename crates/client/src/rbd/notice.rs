//! Notifications that clients of an image send each other through its header: Ceph's `NotifyMessage`.

use super::spec::input;
use bytes::Bytes;
use wire::{DecodeError, Reader};

/// A client of an image: its global id and the cookie of its watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ClientId {
    pub gid: u64,
    pub handle: u64,
}

/// A notification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Notice {
    AcquiredLock(ClientId),
    ReleasedLock(ClientId),
    /// A client wants the lock: the owner answers, and gives the lock up if it is willing.
    RequestLock(ClientId),
    /// Size, snapshots or features have changed.
    HeaderUpdate,
    /// Progress of work that the lock's owner does for another client; the protocol's number.
    Progress(u32),
    /// Asks the lock's owner to do work such as a resize; the protocol's number.
    Request(u32),
}

mod code {
    pub const ACQUIRED_LOCK: u32 = 0;
    pub const RELEASED_LOCK: u32 = 1;
    pub const REQUEST_LOCK: u32 = 2;
    pub const HEADER_UPDATE: u32 = 3;
    pub const ASYNC_PROGRESS: u32 = 4;
    pub const ASYNC_COMPLETE: u32 = 5;
    pub const QUIESCE: u32 = 18;
    pub const UNQUIESCE: u32 = 19;
}

const VERSION: u8 = 7;

impl Notice {
    pub fn to_bytes(&self) -> Bytes {
        let with_client = |code: u32, client: ClientId, force: Option<bool>| {
            input(|w| {
                w.versioned(VERSION, 1, |w| {
                    w.u32(code);
                    w.u64(client.gid);
                    w.u64(client.handle);
                    force.into_iter().for_each(|force| w.bool(force));
                })
            })
        };
        let bytes = match self {
            Notice::AcquiredLock(client) => with_client(code::ACQUIRED_LOCK, *client, None),
            Notice::ReleasedLock(client) => with_client(code::RELEASED_LOCK, *client, None),
            Notice::RequestLock(client) => with_client(code::REQUEST_LOCK, *client, Some(false)),
            Notice::HeaderUpdate => input(|w| w.versioned(VERSION, 1, |w| w.u32(code::HEADER_UPDATE))),
            Notice::Progress(code) | Notice::Request(code) => input(|w| w.versioned(VERSION, 1, |w| w.u32(*code))),
        };
        bytes.into()
    }

    pub fn from_bytes(bytes: &Bytes) -> Result<Notice, DecodeError> {
        // Old clients send an empty notification when the header has changed.
        if bytes.is_empty() {
            return Ok(Notice::HeaderUpdate);
        }
        let (head, mut r) = Reader::new(bytes).versioned("notification of an image", VERSION)?;
        let code = r.u32()?;
        let mut client = || -> Result<ClientId, DecodeError> {
            if head.version < 2 {
                return Ok(ClientId::default());
            }
            Ok(ClientId { gid: r.u64()?, handle: r.u64()? })
        };
        Ok(match code {
            code::ACQUIRED_LOCK => Notice::AcquiredLock(client()?),
            code::RELEASED_LOCK => Notice::ReleasedLock(client()?),
            code::REQUEST_LOCK => Notice::RequestLock(client()?),
            code::HEADER_UPDATE => Notice::HeaderUpdate,
            code::ASYNC_PROGRESS | code::ASYNC_COMPLETE | code::QUIESCE | code::UNQUIESCE => Notice::Progress(code),
            other => Notice::Request(other),
        })
    }
}

/// The answer of the lock's owner: 0, or a negated error number. Ceph's `ResponseMessage`.
pub(super) fn response(result: i32) -> Bytes {
    input(|w| w.versioned(1, 1, |w| w.i32(result))).into()
}

/// Reads [`response`].
pub(super) fn read_response(bytes: &[u8]) -> Result<i32, DecodeError> {
    let (_, mut r) = Reader::new(bytes).versioned("answer of a lock's owner", 1)?;
    r.i32()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_do_not_move() {
        let client = ClientId { gid: 4103, handle: 1 };
        let bytes = Notice::RequestLock(client).to_bytes();
        let expected =
            [&[7, 1, 21, 0, 0, 0, 2, 0, 0, 0][..], &4103u64.to_le_bytes(), &1u64.to_le_bytes(), &[0]].concat();
        assert_eq!(bytes, expected);
        assert_eq!(&Notice::HeaderUpdate.to_bytes()[..], [7, 1, 4, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(&response(-30)[..], [1, 1, 4, 0, 0, 0, 0xe2, 0xff, 0xff, 0xff]);
        assert_eq!(read_response(&response(-30)), Ok(-30));
    }

    #[test]
    fn notices_are_read_as_they_were_written() {
        let client = ClientId { gid: 1, handle: u64::MAX };
        let all = [
            Notice::AcquiredLock(client),
            Notice::ReleasedLock(client),
            Notice::RequestLock(client),
            Notice::HeaderUpdate,
            Notice::Request(7),
            Notice::Progress(4),
        ];
        for notice in all {
            assert_eq!(Notice::from_bytes(&notice.to_bytes()), Ok(notice));
        }
        assert_eq!(Notice::from_bytes(&Bytes::new()), Ok(Notice::HeaderUpdate));
        assert!(Notice::from_bytes(&Bytes::from_static(&[1, 1, 1, 0, 0, 0, 9])).is_err());
    }
}
