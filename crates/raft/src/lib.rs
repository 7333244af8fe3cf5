//! Raft: a log that a majority of servers keeps, as a state machine without I/O.
//!
//! A server is a [`Raft`]: messages, finished writes and time go in ([`Event`]); messages, writes and decided entries
//! come out ([`Action`]). It opens no socket and no file and reads no clock; equal inputs give equal outputs.
//!
//! * [`Raft`] (`raft.rs`) — start here: inputs and outputs, and the order in which things happen.
//! * `election.rs`: pre-votes, votes, and the promise not to vote while a leader is alive.
//! * `replication.rs`, `progress.rs`: the way of entries to followers, and their commit.
//! * `snapshots.rs`: for followers that lack entries which the log no longer has.
//! * `reads.rs`: leases, by which a leader may answer from its state.
//! * `reconfiguration.rs`: members come and go one at a time; leadership is handed over.
//! * `message.rs`, `entry.rs`, `membership.rs`, `position.rs`: data on the wire; `storage.rs`: on disk; `log.rs`: in
//!   memory.
//!
//! After Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014), and Ongaro's dissertation
//! of the same year: pre-vote (9.6), changes of one server at a time (4.1, with the correction that a leader first
//! commits an entry of its own term), leadership transfer (3.10), reads by lease (6.4).
//! `docs/decisions/2026-11-22-consensus.md` says why it is our own.
//!
//! Two points differ from those texts: a leader that hands over its leadership stops leading *before* it says so, so
//! that no lease of its can last; and a server that has just started does not vote for one election timeout, because it
//! may have promised so.

mod bug;
mod config;
mod election;
mod entry;
mod log;
mod membership;
mod message;
#[cfg(test)]
mod message_tests;
mod position;
mod progress;
mod raft;
mod reads;
mod reconfiguration;
mod replication;
mod snapshots;
mod storage;

#[cfg(test)]
mod sim;

pub use config::Config;
pub use entry::{Entry, Payload, Snapshot};
pub use membership::{Change, Membership};
pub use message::{Message, Packet};
pub use position::{Position, ServerId};
pub use raft::{Action, Event, ProposeError, Raft, ReadId};
pub use reconfiguration::{ChangeError, TransferError};
pub use storage::{Persist, Stored, StoredError, Ticket, Vote};
