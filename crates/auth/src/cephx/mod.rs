//! The method `cephx`: everybody shares a key with the monitors, who vouch for him towards daemons by tickets.
//!
//! * [`client`]: who connects: [`client::Client`] holds id and tickets, and makes both of the following.
//!   [`client::MonitorConnect`] and [`client::ServiceConnect`] are the connecting sides of one handshake each.
//! * [`monitor`]: who gives ids and tickets: [`monitor::MonitorAccept`], [`monitor::requests`].
//! * [`service`]: who accepts tickets: [`service::ServiceAccept`].
//! * [`rotating`]: secrets of services, which seal tickets.
//! * `shared`: tickets of monitors among each other, who share a key.
//!
//! The accepting sides speak `none`, too, where the policy allows it.

pub mod client;
mod envelope;
pub mod monitor;
mod none;
mod protocol;
pub mod rotating;
pub mod service;
mod shared;
#[cfg(test)]
mod tests;
mod verify;

pub use envelope::OpenError;

use crate::key::{Key, KeyKind, Usage};
use protocol::Challenges;
use wire::{Encode, Target, Writer};

/// First byte of a method's first payload: to whom it is addressed.
mod audience {
    /// A daemon, which believes what a monitor has vouched for.
    pub const SERVICE: u8 = 1;
    /// A monitor, which gives out ids.
    pub const MONITOR: u8 = 10;
}

/// The number that proves a key to a monitor: both challenges under the key, folded to one word.
fn proof(key: &Key, server: u64, client: u64) -> u64 {
    let challenges = Challenges { server, client };
    let folded = match key.kind() {
        KeyKind::Aes => {
            // The words begin at the length before the ciphertext, so that its last four bytes are left over. Keys of
            // this kind take no entropy.
            let no_entropy = &mut |_: &mut [u8]| unreachable!("a key of kind aes draws nothing");
            let sealed = envelope::seal(key, Usage::Authorize, &challenges, no_entropy);
            let mut w = Writer::new(Target::PACIFIC);
            w.blob(&sealed);
            w.into_vec()
        }
        KeyKind::Aes256k => key.hmac_sha256(&[&challenges.to_vec(Target::PACIFIC)]).to_vec(),
    };
    let words = folded.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    words.fold(0, |sum, word| sum ^ word)
}
