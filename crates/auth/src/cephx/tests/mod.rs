//! Handshakes: both sides against each other, and against what Ceph's sides said.

mod arbitrary;
mod golden;
mod handshakes;
mod recorded;
mod tampering;
mod world;
