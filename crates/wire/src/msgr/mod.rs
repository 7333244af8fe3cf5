//! msgr v2.1 sessions (crc mode) as a state machine without I/O.
//!
//! * [`Messenger`] — start here: transport events and commands in, [`Output`]s out.
//! * [`Config`], [`Policy`]: who one is, and how kinds of peers are treated; [`limits`].

mod config;
mod messenger;

pub use config::{Config, Keepalive, Peer, Policy, limits};
pub use messenger::{ConnId, Messenger, Output, SessionId};
