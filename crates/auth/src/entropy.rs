//! Randomness, which the caller passes in.

/// A source of bytes that nobody can foresee: the system's in daemons, a seed's in simulations.
pub trait Entropy {
    fn fill(&mut self, out: &mut [u8]);
}

impl<F: FnMut(&mut [u8])> Entropy for F {
    fn fill(&mut self, out: &mut [u8]) {
        self(out);
    }
}

/// Draws `N` bytes.
pub(crate) fn draw<const N: usize>(entropy: &mut dyn Entropy) -> [u8; N] {
    let mut out = [0; N];
    entropy.fill(&mut out);
    out
}

/// Draws a number that is not 0, which stands for "none" in the protocol.
pub(crate) fn draw_number(entropy: &mut dyn Entropy) -> u64 {
    u64::from_le_bytes(draw(entropy)).max(1)
}
