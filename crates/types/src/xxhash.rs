//! xxHash, 32 and 64 bits, by its specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md). Clients may request
//! such checksums of stored data; Nacre itself does not use them.

const PRIMES_32: [u32; 5] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F, 0x1656_67B1];
const PRIMES_64: [u64; 5] =
    [0x9E37_79B1_85EB_CA87, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0x85EB_CA77_C2B2_AE63, 0x27D4_EB2F_1656_67C5];

fn read_32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(*bytes.first_chunk().expect("the caller gives four bytes"))
}

fn read_64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("the caller gives eight bytes"))
}

/// XXH32.
pub fn xxhash32(seed: u32, bytes: &[u8]) -> u32 {
    let [p1, p2, p3, p4, p5] = PRIMES_32;
    let round = |lane: u32, input: u32| lane.wrapping_add(input.wrapping_mul(p2)).rotate_left(13).wrapping_mul(p1);
    let stripes = bytes.chunks_exact(16);
    let rest = stripes.remainder();
    let mut hash = if bytes.len() < 16 {
        seed.wrapping_add(p5)
    } else {
        let mut lanes = [seed.wrapping_add(p1).wrapping_add(p2), seed.wrapping_add(p2), seed, seed.wrapping_sub(p1)];
        for stripe in stripes {
            for (lane, input) in lanes.iter_mut().zip(stripe.chunks_exact(4)) {
                *lane = round(*lane, read_32(input));
            }
        }
        let rotated = lanes.into_iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        rotated.fold(0, u32::wrapping_add)
    };
    hash = hash.wrapping_add(bytes.len() as u32);
    let words = rest.chunks_exact(4);
    let tail = words.remainder();
    for word in words {
        hash = hash.wrapping_add(read_32(word).wrapping_mul(p3)).rotate_left(17).wrapping_mul(p4);
    }
    for byte in tail {
        hash = hash.wrapping_add(u32::from(*byte).wrapping_mul(p5)).rotate_left(11).wrapping_mul(p1);
    }
    hash = (hash ^ hash >> 15).wrapping_mul(p2);
    hash = (hash ^ hash >> 13).wrapping_mul(p3);
    hash ^ hash >> 16
}

/// XXH64.
pub fn xxhash64(seed: u64, bytes: &[u8]) -> u64 {
    let [p1, p2, p3, p4, p5] = PRIMES_64;
    let round = |lane: u64, input: u64| lane.wrapping_add(input.wrapping_mul(p2)).rotate_left(31).wrapping_mul(p1);
    let stripes = bytes.chunks_exact(32);
    let rest = stripes.remainder();
    let mut hash = if bytes.len() < 32 {
        seed.wrapping_add(p5)
    } else {
        let mut lanes = [seed.wrapping_add(p1).wrapping_add(p2), seed.wrapping_add(p2), seed, seed.wrapping_sub(p1)];
        for stripe in stripes {
            for (lane, input) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
                *lane = round(*lane, read_64(input));
            }
        }
        let rotated = lanes.into_iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        let converged = rotated.fold(0, u64::wrapping_add);
        lanes.into_iter().fold(converged, |hash, lane| (hash ^ round(0, lane)).wrapping_mul(p1).wrapping_add(p4))
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    let words = rest.chunks_exact(8);
    let mut tail = words.remainder();
    for word in words {
        hash = (hash ^ round(0, read_64(word))).rotate_left(27).wrapping_mul(p1).wrapping_add(p4);
    }
    if let Some((half, last)) = tail.split_first_chunk::<4>() {
        hash = (hash ^ u64::from(u32::from_le_bytes(*half)).wrapping_mul(p1))
            .rotate_left(23)
            .wrapping_mul(p2)
            .wrapping_add(p3);
        tail = last;
    }
    for byte in tail {
        hash = (hash ^ u64::from(*byte).wrapping_mul(p5)).rotate_left(11).wrapping_mul(p1);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(p2);
    hash = (hash ^ hash >> 29).wrapping_mul(p3);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        assert_eq!((xxhash32(0, b""), xxhash64(0, b"")), (0x02CC_5D05, 0xEF46_DB37_51D8_E999));
        assert_eq!((xxhash32(0, b"abc"), xxhash64(0, b"abc")), (0x32D1_53FF, 0x44BC_2CF5_AD77_0999));
        let text = b"Nobody inspects the spammish repetition";
        assert_eq!((xxhash32(0, text), xxhash64(0, text)), (0xE229_3B2F, 0xFBCE_A83C_8A37_8BF1));
    }
}
