//! The protocol as bytes and as state machines: codec, basic types, messages, msgr v2.1 sessions.
//!
//! Nothing in this crate opens a socket, reads a clock or draws random numbers.
//!
//! * [`codec`] — start here: [`codec::Writer`], [`codec::Reader`], [`codec::Encode`], [`codec::Decode`].
//! * [`rope`]: payloads of several pieces.
//! * [`addr`]: addresses of parties.
//! * [`msgr`] — sessions with peers: [`msgr::Messenger`].
//! * [`envelope`]: [`Envelope`], a message as a session carries it, and [`Message`], a typed body.
//! * [`basic`]: identifiers, locators, sets: the elements of messages and maps.
//! * [`messages`]: every message between Ceph's clients and the cluster.
//! * [`nacre`]: our own messages.
//! * [`lock`]: locks on objects, for class `lock` and for clients.
//! * [`rbd`]: encodings of block images, for object classes and for clients.

pub mod addr;
pub mod basic;
pub mod codec;
pub mod envelope;
pub mod lock;
pub mod messages;
pub mod msgr;
pub mod nacre;
pub mod rbd;
pub mod rope;

pub use addr::{AddrKind, EntityAddr, EntityAddrVec};
pub use codec::{Decode, DecodeError, Encode, Reader, Release, Target, Writer};
pub use envelope::{Envelope, Header, Message};
pub use rope::Rope;
