//! msgr v2.1 sessions, in crc mode and secure mode, as a state machine without I/O.
//!
//! * [`Messenger`] — start here: transport events and commands in, [`Output`]s out.
//! * [`Config`], [`Policy`]: who one is, and how kinds of peers are treated; [`limits`].
//! * [`AuthStep`], [`AuthAnswer`]: the seam to whoever authenticates; [`Sign`], [`Seal`], [`Open`]: what it gives.
//! * [`Reason`], [`Cause`]: what sessions and connections end for.
//!
//! Inside, from the bytes upwards: `frame` (layout and checksums), `framing` (writing in either mode), `assembler`
//! (stream to frames) with `sealed` (those of secure mode), `control` (payloads of control frames), `connection`,
//! `session`; then the messenger's own steps in `handshake`, `authenticating`, `connecting`, `accepting` and
//! `id_queue`; `half_open` bounds what is kept for whoever has proven nothing, by `machine`. `none` is the method that
//! proves nothing. Compression and msgr v1 are not spoken.

mod accepting;
mod ahead;
mod assembler;
mod auth;
mod authenticating;
mod config;
mod connecting;
mod connection;
mod control;
mod dirty;
mod frame;
mod framing;
mod half_open;
mod handshake;
mod id_queue;
mod ids;
mod machine;
mod messenger;
mod none;
mod reason;
mod rights;
mod sealed;
mod session;
mod timer;

pub use auth::{
    AuthAnswer, AuthStep, Identity, Keys, Open, RecordError, Records, SIGNATURE_BYTES, Seal, Sign, TAG_BYTES,
};
pub use config::{Config, Keepalive, Peer, Policy, limits};
pub use frame::FrameError;
pub use ids::{ConnId, SessionId};
pub use machine::machine_of;
pub use messenger::{Messenger, Output};
pub use reason::{AckError, BreachesTold, Cause, OtherEnd, Reason, RefusalsTold, TransportLoss};
pub use rights::Rights;

#[cfg(test)]
mod tests;
