//! Messengers joined by a fake network.

mod damage;
mod golden;
mod half_open;
mod handshakes;
mod lossless;
mod network;
mod secure;
