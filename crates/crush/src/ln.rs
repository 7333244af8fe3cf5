//! Fixed-point logarithm of a 16-bit draw.

use crate::ln_table::{LOG_FRACTION, RECIPROCAL_LOG};

/// Returns 2^44 * log2(draw + 1), approximately, as CRUSH has always computed it (errors included).
///
/// `draw`: 0..=0xffff. The result lies in 0..=2^48.
#[inline]
pub fn ln(draw: u32) -> u64 {
    let mut x = (draw & 0xffff) + 1;
    let mut exponent = 15;
    // Shifting sets bit 15 or 16.
    if x & 0x18000 == 0 {
        let shift = x.leading_zeros() - 16;
        x <<= shift;
        exponent = 15 - shift;
    }
    let coarse = ((x >> 8) << 1) as usize - 256;
    let (reciprocal, log) = (RECIPROCAL_LOG[coarse], RECIPROCAL_LOG[coarse + 1]);
    let fine = (u64::from(x).wrapping_mul(reciprocal) >> 48) & 0xff;
    (u64::from(exponent) << 44) + ((log + LOG_FRACTION[fine as usize]) >> 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_are_rounded_up() {
        for k in 0..=128u128 {
            let exact = (128u128 << 48).div_ceil(128 + k);
            assert_eq!(u128::from(RECIPROCAL_LOG[2 * k as usize]), exact, "entry {k}");
        }
        assert_eq!(RECIPROCAL_LOG[257], 0xffff_0000_0000);
    }

    /// Returns log2 by repeated squaring of a 63-bit mantissa: each squaring yields one bit.
    fn log2_fraction_48(numerator: u128, denominator: u128) -> u64 {
        let mut mantissa = (numerator << 63) / denominator;
        let mut bits = 0u64;
        for _ in 0..48 {
            mantissa = (mantissa * mantissa) >> 63;
            bits <<= 1;
            if mantissa >= 1 << 64 {
                mantissa >>= 1;
                bits |= 1;
            }
        }
        bits
    }

    #[test]
    fn logarithms_are_rounded_down() {
        for k in 0..128u64 {
            let near = log2_fraction_48(128 + u128::from(k), 128);
            assert!(RECIPROCAL_LOG[2 * k as usize + 1].abs_diff(near) <= 1 << 4, "entry {k}");
        }
        for k in 0..256u64 {
            let near = log2_fraction_48(32768 + u128::from(k), 32768);
            let deviation = LOG_FRACTION[k as usize] - near.min(LOG_FRACTION[k as usize]);
            assert!(deviation <= 0x1_4770_0000 + (1 << 4), "entry {k} is off by {deviation}");
        }
    }

    /// Returns FNV-1a, enough to notice that a table has changed.
    fn fingerprint(table: &[u64]) -> u64 {
        table
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }

    #[test]
    fn tables_do_not_move() {
        assert_eq!(
            (fingerprint(&RECIPROCAL_LOG), fingerprint(&LOG_FRACTION)),
            (4_652_829_646_934_582_775, 5_742_168_713_673_477_605)
        );
    }

    #[test]
    fn logarithm_never_falls() {
        assert_eq!((ln(0), ln(0xffff)), (0, 0xffff_f000_0000));
        // The table's errors make the logarithm fall at places; the largest fall is part of the definition.
        let worst = (1..=0xffff).map(|x| ln(x - 1).saturating_sub(ln(x))).max().unwrap();
        assert!(worst < 1 << 30, "falls by {worst}");
    }
}
