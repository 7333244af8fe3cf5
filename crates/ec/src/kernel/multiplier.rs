//! Tables by which the kernels multiply by one coefficient.

use crate::field::multiply;

/// Multiplication by a fixed element, in every form that a kernel uses.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Multiplier {
    /// Products of the bytes 0x00 to 0x0f.
    pub(super) low: [u8; 16],
    /// Products of the bytes 0x00, 0x10 to 0xf0.
    pub(super) high: [u8; 16],
    /// The multiplication as a matrix over GF(2), in the form of `gf2p8affineqb`: byte 7 - i holds the input bits whose
    /// sum is output bit i. (`gf2p8mulb` cannot be used: it has another polynomial, 0x11b.)
    pub(super) affine: u64,
    /// The element itself.
    pub(super) factor: u8,
}

const _: () = assert!(size_of::<Multiplier>() == 48);

impl Multiplier {
    pub(crate) fn of(factor: u8) -> &'static Multiplier {
        static ALL: [Multiplier; 256] = {
            let mut all = [Multiplier::computed(0); 256];
            let mut factor = 1;
            while factor < 256 {
                all[factor] = Multiplier::computed(factor as u8);
                factor += 1;
            }
            all
        };
        &ALL[usize::from(factor)]
    }

    const fn computed(factor: u8) -> Multiplier {
        let (mut low, mut high, mut affine) = ([0; 16], [0; 16], 0);
        let mut nibble = 0;
        while nibble < 16 {
            low[nibble] = multiply(factor, nibble as u8);
            high[nibble] = multiply(factor, (nibble as u8) << 4);
            nibble += 1;
        }
        let mut input = 0;
        while input < 8 {
            let product = multiply(factor, 1 << input);
            let mut output = 0;
            while output < 8 {
                affine |= ((product >> output & 1) as u64) << (8 * (7 - output) + input);
                output += 1;
            }
            input += 1;
        }
        Multiplier { low, high, affine, factor }
    }
}
