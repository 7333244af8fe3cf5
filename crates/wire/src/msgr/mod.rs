//! msgr v2.1 sessions (crc mode) as a state machine without I/O.
//!
//! * [`Messenger`] — start here: transport events and commands in, [`Output`]s out.
//! * [`Config`], [`Policy`]: who one is, and how kinds of peers are treated; [`limits`].
//! * [`Reason`], [`Cause`]: what sessions and connections end for.
//!
//! Inside, from the bytes upwards: `frame` (layout and checksums), `assembler` (stream to frames), `control` (payloads
//! of control frames), `auth`, `connection`, `session`; then the messenger's own steps in `handshake`, `connecting`,
//! `accepting` and `id_queue`. Secure mode, compression and msgr v1 are not spoken.

mod accepting;
mod assembler;
mod auth;
mod config;
mod connecting;
mod connection;
mod control;
mod frame;
mod handshake;
mod id_queue;
mod messenger;
mod reason;
mod session;
mod timer;

pub use config::{Config, Keepalive, Peer, Policy, limits};
pub use frame::FrameError;
pub use messenger::{ConnId, Messenger, Output, SessionId};
pub use reason::{BreachesTold, Cause, OtherEnd, Reason, TransportLoss};
pub use session::AckError;

#[cfg(test)]
mod tests;
