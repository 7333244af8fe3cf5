use super::*;
use proptest::prelude::*;

fn parity_of(code: &Code, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut parity = vec![vec![0x77; data[0].len()]; code.m()];
    code.encode(&sources, &mut slices(&mut parity)).unwrap();
    parity
}

fn slices(shards: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    shards.iter_mut().map(Vec::as_mut_slice).collect()
}

/// Parity of one byte per data shard, 1, 2, 4, ...: it tells all cells of the matrix.
fn parity_of_powers(technique: Technique, k: usize, m: usize) -> Vec<u8> {
    let code = Code::new(technique, k, m).unwrap();
    let data: Vec<Vec<u8>> = (0..k).map(|shard| vec![1 << shard]).collect();
    parity_of(&code, &data).concat()
}

/// The expected bytes are from Ceph 16.2.15, by `ceph-erasure-code-tool`.
#[test]
fn parity_bytes_do_not_move() {
    use Technique::{IsaCauchy, IsaVandermonde, JerasureRaid6, JerasureVandermonde};
    let check = |technique, k, expected: &[u8]| {
        assert_eq!(parity_of_powers(technique, k, expected.len()), expected, "{technique} {k}+{}", expected.len());
    };
    check(JerasureVandermonde, 2, &[3]);
    check(JerasureVandermonde, 4, &[15, 133]);
    check(JerasureVandermonde, 6, &[63, 192, 170, 227]);
    check(JerasureVandermonde, 8, &[255, 225, 230]);
    check(JerasureRaid6, 8, &[255, 226]);
    check(IsaVandermonde, 4, &[15, 85, 115, 193]);
    check(IsaVandermonde, 8, &[255, 226, 192]);
    check(IsaCauchy, 3, &[7]);
    check(IsaCauchy, 4, &[88, 12]);
    check(IsaCauchy, 8, &[124, 104, 32, 180]);
}

#[test]
fn buffers_that_do_not_fit_are_refused_and_nothing_is_written() {
    let code = Code::new(Technique::IsaVandermonde, 2, 2).unwrap();
    let mut parity = vec![vec![9; 8]; 2];
    let encode = |data: &[&[u8]], parity: &mut [Vec<u8>]| code.encode(data, &mut slices(parity)).unwrap_err();
    let count = |what, given, expected| BufferError::Count { what, given, expected };
    let length = |what, index, given, expected| BufferError::Length { what, index, given, expected };
    assert_eq!(encode(&[&[1; 8]], &mut parity), count("data", 1, 2));
    assert_eq!(encode(&[&[1; 8], &[1; 8]], &mut parity[..1]), count("parity", 1, 2));
    assert_eq!(encode(&[&[1; 8], &[1; 7]], &mut parity), length("data", 1, 7, 8));
    assert_eq!(encode(&[&[1; 9], &[1; 9]], &mut parity), length("parity", 0, 8, 9));

    let update = |shard, old: &[u8], new: &[u8], parity: &mut [Vec<u8>]| {
        code.update(shard, old, new, &mut slices(parity)).unwrap_err()
    };
    assert_eq!(update(2, &[1; 8], &[2; 8], &mut parity), BufferError::NoSuchShard { what: "data", shard: 2 });
    assert_eq!(update(1, &[1; 8], &[2; 7], &mut parity), length("data", 1, 7, 8));
    assert_eq!(update(1, &[1; 7], &[2; 7], &mut parity), length("parity", 0, 8, 7));
    assert_eq!(update(1, &[1; 8], &[2; 8], &mut parity[..1]), count("parity", 1, 2));

    let no_parity = BufferError::NoSuchShard { what: "parity", shard: 2 };
    assert_eq!(code.add_delta(0, 2, &[1; 8], &mut parity[0]).unwrap_err(), no_parity);
    assert_eq!(code.add_delta(0, 1, &[1; 7], &mut parity[0]).unwrap_err(), length("parity", 0, 8, 7));
    assert_eq!(code.delta(&[1; 8], &[1; 8], &mut parity[0][..7]).unwrap_err(), length("delta", 0, 7, 8));
    let beyond = ShardSet::from_bits(0b101);
    let error = code.add_deltas(beyond, &[&[1; 8], &[1; 8]], &mut slices(&mut parity)).unwrap_err();
    assert_eq!(error, BufferError::NoSuchShard { what: "data", shard: 2 });
    assert!(parity.iter().flatten().all(|&byte| byte == 9));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]
    /// Updated parities equal the parities of the new data, whichever way they were updated.
    #[test]
    fn changes_lead_where_encoding_leads(
        technique in prop::sample::select(Technique::ALL.to_vec()),
        kernel in prop::sample::select(Kernel::available()),
        k in 2usize..12,
        m in 1usize..7,
        bytes in 0usize..5000,
        seed in any::<u64>(),
        changed in any::<u64>(),
    ) {
        let Ok(code) = Code::new(technique, k, m) else { return Ok(()) };
        let code = code.with_kernel(kernel);
        let noise = |salt: u64| -> Vec<u8> {
            let byte = |i| (seed ^ salt.rotate_left(17)).wrapping_mul(2 * i + 1).rotate_left(29).to_le_bytes()[3];
            (0..bytes as u64).map(byte).collect()
        };
        let data: Vec<Vec<u8>> = (0..k as u64).map(|shard| noise(shard + 1)).collect();
        let changed = ShardSet::from_bits(changed).intersection(ShardSet::first(k));
        let mut new_data = data.clone();
        changed.iter().for_each(|shard| new_data[shard] = noise(shard as u64 + 100));
        let parity = parity_of(&code, &data);
        let expected = parity_of(&code, &new_data);

        let mut updated = parity.clone();
        for shard in changed.iter() {
            code.update(shard, &data[shard], &new_data[shard], &mut slices(&mut updated)).unwrap();
        }
        prop_assert!(updated == expected, "update of {}", code);

        let deltas: Vec<Vec<u8>> = changed.iter().map(|shard| {
            let mut delta = vec![0; bytes];
            code.delta(&data[shard], &new_data[shard], &mut delta).unwrap();
            delta
        }).collect();
        let mut one_by_one = parity.clone();
        for (shard, delta) in changed.iter().zip(&deltas) {
            for (index, parity) in one_by_one.iter_mut().enumerate() {
                code.add_delta(shard, index, delta, parity).unwrap();
            }
        }
        prop_assert!(one_by_one == expected, "add_delta of {}", code);

        let mut at_once = parity.clone();
        let delta_slices: Vec<&[u8]> = deltas.iter().map(Vec::as_slice).collect();
        code.add_deltas(changed, &delta_slices, &mut slices(&mut at_once)).unwrap();
        prop_assert!(at_once == expected, "add_deltas of {}", code);
        code.add_deltas(changed, &delta_slices, &mut slices(&mut at_once)).unwrap();
        prop_assert!(at_once == parity, "a delta applied twice is undone");

        for (index, parity) in expected.iter().enumerate().filter(|(index, _)| code.parity_is_sum(*index)) {
            let checksums = new_data.iter().map(|shard| types::crc32c::checksum(shard));
            prop_assert_eq!(crate::parity_crc::of_sum(checksums, bytes), types::crc32c::checksum(parity), "{}", index);
        }
    }
}
