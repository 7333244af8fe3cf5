//! Identity: keys, proofs of who somebody is, and what he may do.
//!
//! Nothing in this crate opens a socket or a file, reads a clock or draws random numbers: time and [`Entropy`] are
//! passed in. It knows neither sessions nor commands. Cryptographic primitives are those of `aws-lc-rs`; `crypto`
//! composes them.
//!
//! * [`key`]: [`Key`] and its two kinds. [`keyring`]: files of keys.
//! * [`cephx`]: start here. Handshakes of clients, monitors and daemons as state machines; tickets, and secrets of
//!   services.
//! * [`policy`]: methods, modes and kinds of keys that a side allows.
//! * [`caps`]: what capabilities let somebody do.
//! * [`messenger`]: handshakes as `wire::msgr` carries them.
//! * [`secure`]: records of connections in secure mode. [`signature`]: signatures of a handshake.
//! * [`clock`]: clocks that differ. [`failures`]: failed logins by machine.
//!
//! A driver carries a handshake so:
//!
//! ```text
//! connecting side                                            accepting side
//! client.connect_monitor(..) / connect_service(..)
//!   .request()             -- AUTH_REQUEST -->               MonitorAccept::begin(..) / ServiceAccept::begin(..)
//!                          <-- AUTH_BAD_METHOD --              Step::Refused: log the reason, send its errno
//!   .more(..)              <-- AUTH_REPLY_MORE --              Step::More
//!                          -- AUTH_REQUEST_MORE -->            .more(..)
//!   .done(..)              <-- AUTH_DONE --                    Step::Accepted: name, id, capabilities, keys
//! signature::sign, verify  <-- AUTH_SIGNATURE -->            signature::sign, verify
//! ```
//!
//! In secure mode both then take [`secure::ConnectionSecret::directions`] for all frames behind AUTH_DONE. Requests for
//! tickets and secrets come in messages later: [`cephx::client::Client::renewal`], [`cephx::monitor::requests`].

mod accepted;
pub mod caps;
pub mod cephx;
pub mod clock;
mod crypto;
mod entropy;
pub mod failures;
pub mod key;
pub mod keyring;
pub mod messenger;
pub mod policy;
mod refusal;
pub mod secure;
pub mod signature;
#[cfg(test)]
mod testing;

pub use accepted::{Accepted, Granted, Step};
pub use entropy::Entropy;
pub use key::{Key, KeyKind};
pub use policy::{ClientPolicy, Method, Mode, NoneFrom, ServerPolicies, ServerPolicy};
pub use refusal::Refusal;
