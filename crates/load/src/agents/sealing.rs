//! Proofs of the token that a coordinator and an agent share, and keys of the connection on which they were given.
//!
//! Each side draws a nonce. HKDF-SHA-256 (RFC 5869) of the token, salted with both nonces, gives what each side says to
//! prove that it knows the token, and the secret by which the connection is encrypted from then on, as secure mode of
//! Ceph's connections is: AES-128-GCM with a key and nonces of the connection's own. The token itself never travels.
//!
//! The coordinator proves first: whoever merely reaches an agent's port gets nothing to try guesses on. Somebody who
//! sees a connection can try guesses, so the token should be random. Who learns it later can read connections that he
//! has recorded.

use auth::secure::{ConnectionSecret, Opener, Revision, Sealer, Side};
use aws_lc_rs::hkdf::{self, HKDF_SHA256, KeyType};
use aws_lc_rs::{constant_time, rand};
use std::fmt;
use types::base64;

/// Bytes of a nonce, and of a proof.
const BYTES: usize = 32;

/// Label of everything that is derived here.
const LABEL: &[u8] = b"nacre-bench-agent 2 ";

/// A number that one side has drawn for one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonce([u8; BYTES]);

impl Nonce {
    /// Draws one from the operating system's random numbers.
    pub fn draw() -> Nonce {
        let mut bytes = [0; BYTES];
        rand::fill(&mut bytes).expect("the operating system has random numbers");
        Nonce(bytes)
    }

    pub fn to_text(self) -> String {
        base64::encode(&self.0)
    }

    pub fn from_text(text: &str) -> Option<Nonce> {
        Some(Nonce(base64::decode(text)?.try_into().ok()?))
    }
}

/// Proofs and the secret that both sides derive for one connection.
pub struct TokenProofs {
    coordinators: [u8; BYTES],
    agents: [u8; BYTES],
    secret: ConnectionSecret,
}

impl fmt::Debug for TokenProofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenProofs(not shown)")
    }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl TokenProofs {
    /// `coordinator` and `agent`: the nonces that the two have drawn for this connection.
    pub fn new(token: &str, coordinator: &Nonce, agent: &Nonce) -> TokenProofs {
        let salt = [coordinator.0, agent.0].concat();
        let source = hkdf::Salt::new(HKDF_SHA256, &salt).extract(token.as_bytes());
        let secret: [u8; ConnectionSecret::BYTES] = derived(&source, b"connection");
        TokenProofs {
            coordinators: derived(&source, b"coordinator's proof"),
            agents: derived(&source, b"agent's proof"),
            secret: ConnectionSecret::from_slice(&secret).expect("it has the length of a secret"),
        }
    }

    /// The coordinator's proof.
    pub fn coordinators(&self) -> String {
        base64::encode(&self.coordinators)
    }

    /// The agent's proof.
    pub fn agents(&self) -> String {
        base64::encode(&self.agents)
    }

    pub fn is_coordinators(&self, proof: &str) -> bool {
        is(&self.coordinators, proof)
    }

    pub fn is_agents(&self, proof: &str) -> bool {
        is(&self.agents, proof)
    }

    /// The directions in which one side seals and opens from now on: the coordinator connects, the agent accepts.
    pub fn directions(&self, side: Side) -> (Sealer, Opener) {
        self.secret.directions(side, Revision::One)
    }
}

fn derived<const N: usize>(source: &hkdf::Prk, purpose: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    let info = [LABEL, purpose];
    let key = source.expand(&info, Length(N)).and_then(|key| key.fill(&mut out));
    key.expect("HKDF gives up to 8160 bytes");
    out
}

/// Compares in a time that does not depend on where the two differ.
fn is(wanted: &[u8; BYTES], proof: &str) -> bool {
    base64::decode(proof).is_some_and(|proof| constant_time::verify_slices_are_equal(wanted, &proof).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn proofs_hold_for_one_token_one_connection_and_one_side() {
        let (coordinator, agent) = (Nonce::draw(), Nonce::draw());
        assert_ne!(coordinator, agent);
        assert_eq!(Nonce::from_text(&agent.to_text()), Some(agent));
        assert_eq!(Nonce::from_text("AAAA"), None);
        let proofs = TokenProofs::new(TOKEN, &coordinator, &agent);
        let again = TokenProofs::new(TOKEN, &coordinator, &agent);
        assert!(again.is_coordinators(&proofs.coordinators()) && again.is_agents(&proofs.agents()));
        assert!(!again.is_coordinators(&proofs.agents()) && !again.is_agents(&proofs.coordinators()));
        assert!(!again.is_agents("") && !again.is_agents("no base64"));
        let others = [
            TokenProofs::new("0123456789abcdeg", &coordinator, &agent),
            TokenProofs::new(TOKEN, &Nonce::draw(), &agent),
            TokenProofs::new(TOKEN, &coordinator, &Nonce::draw()),
            TokenProofs::new(TOKEN, &agent, &coordinator),
        ];
        for other in others {
            assert!(!other.is_coordinators(&proofs.coordinators()) && !other.is_agents(&proofs.agents()));
        }
    }

    #[test]
    fn what_one_side_seals_the_other_opens_once_and_in_order() {
        let proofs = TokenProofs::new(TOKEN, &Nonce::draw(), &Nonce::draw());
        let (mut sealer, _) = proofs.directions(Side::Connecting);
        let (_, mut opener) = proofs.directions(Side::Accepting);
        let mut record = b"a message".to_vec();
        let tag = sealer.seal(&mut record).unwrap();
        assert_ne!(record, b"a message");
        record.extend(tag);
        let copy = record.clone();
        assert_eq!(opener.open(&mut record).unwrap(), b"a message");
        assert!(opener.open(&mut copy.clone()).is_err(), "it comes again");
        assert!(!format!("{proofs:?}").contains('['));
    }
}
