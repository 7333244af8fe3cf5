use proptest::prelude::*;

use super::*;

const WANTED: Pattern = Pattern { run: 7, object: 11, version: 3 };

fn bytes(pattern: Pattern, offset: u64, len: usize) -> Vec<u8> {
    pattern.bytes(offset, len)
}

/// Replaces `range` of 4 KiB at offset 8192 by `with`, and checks the place and the kind of the reported mismatch.
fn check(range: std::ops::Range<usize>, with: &[u8], looks: Looks) {
    let mut got = bytes(WANTED, 8192, 4096);
    got[range.clone()].copy_from_slice(with);
    let found = WANTED.verify(8192, &got).unwrap_err();
    assert_eq!(found.looks, looks, "{found}");
    assert!((range.start as u64..range.start as u64 + 24).contains(&(found.offset - 8192)), "{found}");
    assert_eq!(found.got, got[(found.offset - 8192) as usize]);
    assert_ne!(found.got, found.expected);
}

#[test]
fn bytes_do_not_move() {
    // Data written by one release is verified by the next. These words of unit 0 were computed apart from this code.
    let words: [u64; 8] = [
        0x0e33_8301_aa48_261e,
        0xc9ab_2e0f_6a7d_dc49,
        0xaf80_01c5_1997_143d,
        0xb939_246a_5016_5d84,
        0x3a0e_487d_5f1d_7745,
        0x09ec_1695_00a4_44f2,
        0xc9b9_56dc_231f_c9c5,
        0x6017_28e9_a6e1_1708,
    ];
    assert_eq!(bytes(WANTED, 0, 64), words.map(u64::to_le_bytes).concat());
    assert_eq!(scramble(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
}

#[test]
fn origins_are_recognized() {
    let other = |pattern| bytes(pattern, 8192 + 512, 1024);
    check(512..1536, &[0; 1024], Looks::Zeros);
    check(512..1536, &other(Pattern { version: 2, ..WANTED }), Looks::OtherVersion { version: 2 });
    check(512..1536, &bytes(WANTED, 640, 1024), Looks::OtherOffset { offset: 640, version: 3 });
    let neighbour = Pattern { object: 12, version: 1, ..WANTED };
    check(512..1536, &other(neighbour), Looks::OtherObject { object: 12, offset: 8704, version: 1 });
    let earlier = Pattern { run: 6, ..WANTED };
    check(512..1536, &other(earlier), Looks::OtherRun(Origin { pattern: earlier, offset: 8704 }));
    check(512..1536, &[0x5a; 1024], Looks::Foreign);
}

#[test]
fn mix_up_that_begins_inside_a_unit_is_recognized() {
    let other = bytes(Pattern { version: 2, ..WANTED }, 8192 + 520, 512);
    check(520..1032, &other, Looks::OtherVersion { version: 2 });
}

#[test]
fn single_flipped_bit_is_called_so() {
    let mut got = bytes(WANTED, 100, 1000);
    got[777] ^= 0x10;
    let found = WANTED.verify(100, &got).unwrap_err();
    assert_eq!((found.offset, found.looks), (877, Looks::FlippedBits { count: 1 }));
}

#[test]
fn fragment_of_a_unit_is_judged_without_over_reading() {
    let found = WANTED.verify(65, &[0; 5]).unwrap_err();
    assert_eq!(found.looks, Looks::Zeros);
    let found = WANTED.verify(65, &[1; 5]).unwrap_err();
    assert_eq!(found.looks, Looks::Foreign);
    assert_eq!(WANTED.verify(65, &[]), Ok(()));
}

#[test]
fn units_repeat_no_bytes() {
    let data = bytes(WANTED, 0, 1 << 20);
    let words: std::collections::BTreeSet<&[u8]> = data.chunks_exact(8).collect();
    assert_eq!(words.len(), data.len() / 8);
    let ones: u64 = data.iter().map(|byte| u64::from(byte.count_ones())).sum();
    assert!((4_150_000..4_240_000).contains(&ones), "{ones} of {} bits are set", data.len() * 8);
}

proptest! {
    #[test]
    fn unmix_inverts_mix(value: u64) {
        prop_assert_eq!(unmix(mix(value)), value);
    }

    #[test]
    fn pieces_are_cuts_of_the_whole(run: u64, object: u64, version: u64, start in 0usize..300, len in 0usize..300) {
        let pattern = Pattern { run, object, version };
        let whole = bytes(pattern, 0, 600);
        prop_assert_eq!(&bytes(pattern, start as u64, len), &whole[start..start + len]);
        prop_assert_eq!(pattern.verify(start as u64, &whole[start..start + len]), Ok(()));
    }

    #[test]
    fn units_say_where_they_belong(run: u64, object: u64, version: u64, index in 0u64..1 << 58) {
        let pattern = Pattern { run, object, version };
        let offset = index * 64;
        let unit: [u8; 64] = pattern.unit(scramble(run), index);
        prop_assert_eq!(Origin::of(&unit), Some(Origin { pattern, offset }));
    }

    #[test]
    fn first_wrong_byte_is_found(start in 0u64..200, len in 1usize..400, at: prop::sample::Index, change in 1u8..) {
        let mut got = bytes(WANTED, start, len);
        let at = at.index(len);
        got[at] ^= change;
        let found = WANTED.verify(start, &got).unwrap_err();
        prop_assert_eq!(found.offset, start + at as u64);
        prop_assert_eq!(found.got ^ found.expected, change);
    }
}
