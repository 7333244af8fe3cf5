//! Monitors among each other: they share a key, and need no other monitor for a ticket.
//!
//! Each makes the ticket that it shows itself. It seals the ticket with a key of kind `aes256k`, which is made of the
//! shared one: nobody can change a ticket that he has seen, whatever the kind of the shared key.

use super::client::Client;
use super::envelope::seal;
use super::protocol::{Ticket, TicketBlob, TicketInfo};
use super::rotating::RotatingSecrets;
use crate::clock::later;
use crate::entropy::Entropy;
use crate::key::{Key, KeyKind, Usage};
use std::time::Duration;
use types::{EntityType, Utime};

/// The purpose of the key that seals tickets.
const LABEL: &[u8] = b"tickets of monitors among each other";
/// Capabilities of whoever has the shared key.
const CAPS: &str = "allow *";
/// Time for which a ticket is good by its own words. It is shown at once, and made anew for each connection.
const LIFETIME: Duration = Duration::from_secs(60);

fn sealing_key(shared: &Key) -> Key {
    let secret = shared.hmac_sha256(&[LABEL]);
    Key::new(KeyKind::Aes256k, shared.created(), &secret).expect("an HMAC-SHA256 has the 32 bytes of such a key")
}

impl RotatingSecrets {
    /// The secret that opens tickets of `Client::vouch_for_itself`. It is the same at all who share the key.
    pub fn of_shared_key(shared: &Key) -> RotatingSecrets {
        RotatingSecrets::constant(sealing_key(shared))
    }
}

impl Client {
    /// Makes a ticket for `service`, whose daemons share this party's key. Without a key there is none to make.
    pub(crate) fn vouch_for_itself(&mut self, service: EntityType, now: Utime, entropy: &mut dyn Entropy) {
        let Some(sealing_key) = self.key().map(sealing_key) else { return };
        let ticket = Ticket {
            name: self.name().clone(),
            global_id: self.global_id(),
            auid: Ticket::NO_AUID,
            created: now,
            expires: later(now, LIFETIME),
            allow_all: false,
            caps: Ticket::caps_bytes(CAPS),
            flags: 0,
        };
        let expires = ticket.expires;
        let info = TicketInfo { ticket, session_key: Key::generate(KeyKind::Aes256k, now, entropy) };
        let sealed = seal(&sealing_key, Usage::TicketInfo, &info, entropy);
        let blob = TicketBlob { secret_id: RotatingSecrets::CONSTANT, sealed };
        self.hold(service, info.session_key, blob, expires);
    }
}
