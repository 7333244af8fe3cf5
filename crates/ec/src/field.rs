//! Arithmetic in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), in which 2 generates every element
//! except zero. Addition is exclusive or.

const POLYNOMIAL: u16 = 0x11d;

/// `POWERS[i]` is 2^i. The table is twice as long as the group, so that a sum of two logarithms needs no reduction.
const POWERS: [u8; 510] = powers();
const LOGARITHMS: [u8; 256] = logarithms();

const fn powers() -> [u8; 510] {
    let mut table = [0; 510];
    let (mut value, mut i) = (1u16, 0);
    while i < 510 {
        table[i] = value as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= POLYNOMIAL;
        }
        i += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 255 {
        table[POWERS[i] as usize] = i as u8;
        i += 1;
    }
    table
}

pub(crate) const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[a as usize] as usize + LOGARITHMS[b as usize] as usize]
}

/// `a` to the power `exponent`; 0 to the power 0 is 1.
pub(crate) fn power(a: u8, exponent: usize) -> u8 {
    match (a, exponent) {
        (_, 0) => 1,
        (0, _) => 0,
        _ => POWERS[usize::from(LOGARITHMS[usize::from(a)]) * (exponent % 255) % 255],
    }
}

/// The element whose product with `a` is 1. Panics for zero, which has none.
pub(crate) fn inverse(a: u8) -> u8 {
    assert_ne!(a, 0, "zero has no inverse");
    POWERS[255 - usize::from(LOGARITHMS[usize::from(a)])]
}

/// `a` divided by `b`. Panics if `b` is zero.
pub(crate) fn divide(a: u8, b: u8) -> u8 {
    multiply(a, inverse(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies by shifts and additions, bit by bit.
    fn naive(a: u8, b: u8) -> u8 {
        let mut product = 0u16;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                product ^= u16::from(a) << bit;
            }
        }
        for bit in (8..16).rev() {
            if product >> bit & 1 == 1 {
                product ^= POLYNOMIAL << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn products_are_those_of_polynomials() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(multiply(a, b), naive(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn inverses_and_powers() {
        for a in 1..=255 {
            assert_eq!(multiply(a, inverse(a)), 1);
            assert_eq!(divide(multiply(a, 7), a), 7);
            let mut expected = 1;
            for exponent in 0..600 {
                assert_eq!(power(a, exponent), expected, "{a}^{exponent}");
                expected = multiply(expected, a);
            }
        }
        assert_eq!((power(0, 0), power(0, 3)), (1, 0));
    }
}
